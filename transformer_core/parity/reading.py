"""The reading table: what to look at before our model and torch's modules can be compared, each with a live number.

A row says how ours does something, how torch does it as it comes, and what to do about it. ``measured`` is the largest
difference when the point is overlooked and torch is taken with its defaults; ``heeded`` is what is left when it is
heeded. Both are measured on a float64 copy of the model, with its settings and its batch.
"""

import torch
from torch import nn

from transformer_core.batches import Batch
from transformer_core.parity import attention_rows, layer_rows
from transformer_core.parity.kit import Kit, Reading, Row
from transformer_core.parity.weights import to_torch

ROWS: tuple[Row, ...] = (
    attention_rows.layout,
    attention_rows.true_in_attn_mask,
    attention_rows.true_in_key_padding_mask,
    attention_rows.true_in_sdpa,
    attention_rows.causal_alignment,
    attention_rows.averaged_weights,
    attention_rows.weights_after_dropout,
    attention_rows.blind_rows,
    attention_rows.blind_rows_in_sdpa,
    attention_rows.packed_projection,
    layer_rows.norm_order,
    layer_rows.activation,
    layer_rows.norm_eps,
    layer_rows.biases,
    layer_rows.dropout_places,
    layer_rows.final_norm,
    layer_rows.embedding,
    layer_rows.fast_path_padding,
)


def reading_table(model: nn.Module, batch: Batch) -> list[Reading]:
    """Every row that has something to say about this model, measured on it now.

    torch's and the model's random numbers, its mode and its weights are left as they were.

    Raises:
        NoCounterpart: torch.nn cannot compute this function.
        ValueError: the batch does not fit the model, or the model has no numbers.
    """
    to_torch(model)  # a refusal comes before any number
    kit = Kit(model, batch)
    with torch.enable_grad(), torch.random.fork_rng(devices=[]):  # with gradients torch does not take its fast path
        torch.manual_seed(7)
        readings = [row.read(kit) for row in ROWS]
    return [each for each in readings if each is not None]
