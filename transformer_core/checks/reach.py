"""What an output may depend on, by the rules of the configuration alone. No mask that a model made is looked at."""

import torch
from torch import Tensor

from transformer_core.config import MaskConfig, ModelConfig
from transformer_core.masks import for_attention

ENDS = {"encoder_self": ("src", "src"), "decoder_self": ("tgt", "tgt"), "cross": ("tgt", "src")}
"""Where the queries and the keys of each attention come from."""


def views(config: ModelConfig, masks: MaskConfig, tokens: dict[str, Tensor]) -> dict[str, Tensor]:
    """What each attention may see of these tokens, written out as B H q k, True = may attend.

    Raises:
        ValueError: a rule does not fit these lengths.
    """
    seen = {}
    for kind, (queries, keys) in ENDS.items():
        if queries in tokens and keys in tokens:
            q_len, ids = tokens[queries].shape[1], tokens[keys]
            allowed = for_attention(masks, kind, q_len, ids, pad_id=config.pad_id, n_heads=config.n_heads)
            every = torch.ones((), dtype=torch.bool) if allowed is None else allowed
            seen[kind] = every.expand(len(ids), config.n_heads, q_len, ids.shape[1])
    return seen


def reach(config: ModelConfig, views: dict[str, Tensor]) -> dict[str, Tensor]:
    """Which input can move which output, B out in: src moves memory and, through the decoder, ``logits_src``.

    ``logits_tgt`` are the target tokens that can move the logits of a place.
    """
    found, by_any_head = {}, {kind: view.any(dim=1) for kind, view in views.items()}
    if "encoder_self" in views:
        found["memory"] = spread(by_any_head["encoder_self"], config.n_encoder_layers)
    if "decoder_self" in views:
        found["logits_tgt"] = spread(by_any_head["decoder_self"], config.n_decoder_layers)
    if "cross" in views:
        step, cross = spread(by_any_head["decoder_self"], 1), by_any_head["cross"]
        source = torch.zeros_like(cross)
        for _ in range(config.n_decoder_layers):  # what the places before it have learned, and what it sees by itself
            source = through(step, source) | through(cross, found["memory"])
        found["logits_src"] = source
    return found


def spread(allowed: Tensor, layers: int) -> Tensor:
    """(1 OR allowed)^layers: through its residual connection each place keeps itself, and each layer adds one step.

    >>> chain = torch.tensor([[[1, 0, 0], [1, 1, 0], [0, 1, 1]]]).bool()
    >>> spread(chain, 1)[0, 2].tolist(), spread(chain, 2)[0, 2].tolist()
    ([False, True, True], [True, True, True])
    """
    step = allowed | torch.eye(allowed.shape[-1], dtype=torch.bool)
    reach = step
    for _ in range(layers - 1):
        reach = through(step, reach)
    return reach


def through(first: Tensor, then: Tensor) -> Tensor:
    """Output i sees some k in ``first``, and k sees input j in ``then``."""
    return (first.double() @ then.double()) > 0


def unchanged(before: Tensor, after: Tensor, queries: slice, keys: slice) -> bool:
    """Whether these queries and keys see each other ``after`` as ``before``, and the queries nothing else."""
    inside = after[:, :, queries, keys]
    return torch.equal(before, inside) and torch.equal(inside.sum(dim=-1), after[:, :, queries].sum(dim=-1))
