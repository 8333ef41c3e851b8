"""Attention alone: the heads of our model beside F.scaled_dot_product_attention for the same q, k and v."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from transformer_core.batches import Batch
from transformer_core.ledger import Ledger, trace
from transformer_core.parity.comparison import Difference, difference
from transformer_core.parity.tensors import LIMITS, copies, pairs, stir


def compare_attention(model: nn.Module, batch: Batch, *, stirred: float = 0.0) -> list[Difference]:
    """A difference for the heads of every attention, on a float64 copy in evaluation mode; the mask is made anew.

    A query that sees no key is judged apart. Whatever our own forward raises, this raises too.

    Raises:
        ValueError: the batch does not fit the model, or the model has no numbers.
    """
    ours, moved = copies(model, batch, torch.float64, False)
    if stirred:
        stir(ours, stirred)
    with torch.no_grad(), trace(ours) as ledger:
        ours(moved.src, moved.tgt)
    paths = dict.fromkeys(entry.path for entry in ledger if entry.name == "heads")
    return [_one(ours, moved, ledger, path) for path in paths]


def _one(ours: Any, batch: Batch, ledger: Ledger, path: str) -> Difference:
    kind = "cross" if path.endswith("cross_attention") else f"{path.partition('.')[0]}_self"
    q, k, v, heads = (ledger[f"{path}/{name}"].value for name in ("q", "k", "v", "heads"))
    allowed = pairs(ours, batch, kind)
    key, limit, sees = f"{path}/heads", LIMITS[torch.float64], allowed.any(dim=-1, keepdim=True)
    if (q.shape[2], k.shape[2]) != allowed.shape[-2:]:  # a broken model that attends to something else
        return Difference(key, tuple(heads.shape), math.inf, math.inf, limit, False)
    scale = None if ours.config.scale_scores else 1.0
    wanted = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=scale)
    return difference(heads, wanted, ~sees, key, limit)
