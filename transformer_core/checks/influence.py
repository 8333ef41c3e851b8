"""One token is nudged and every output looked at: what moves, beside what the masks allow to move.

The checks of leaks ask the same of tokens of their own and give a verdict. Here the tokens are those of the batch, the
weights are the model's own, and the answer is the whole table. Model and batch stay as they are.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from transformer_core.batches import Batch
from transformer_core.checks.doubles import double
from transformer_core.checks.probes import hooked
from transformer_core.checks.reach import reach, views
from transformer_core.checks.subject import AnyTransformer

OUTPUTS = {"src": ("logits", "memory"), "tgt": ("logits",)}
"""What the tokens of each side can move; the first that the model has is meant unless another is asked for."""


def influence(
    model: AnyTransformer, batch: Batch, side: str, *,
    output: str | None = None, places: Sequence[int] | None = None, seed: int = 0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """How far each output moves when one token of ``side`` is nudged, and whether the masks allow it; both B out in.

    A token is nudged by a random vector as long as its embedding, in float64 and evaluation mode. An output is
    the logits of a target place or, of an encoder alone, a vector of memory; how far it moved is its largest change.
    What is hidden moves by exactly 0. ``places`` are the tokens to nudge, in the order of the last axis; else all.

    All sentences are nudged at once, each in the same place; whether they hear of each other is for ``batch_mates``.

    Raises:
        ValueError: the model or the batch lacks ``side``, has no such output, or there is no such place.
        Exception: whatever the forward of a broken model raises.
    """
    known = OUTPUTS.get(side, ())
    config = model.config
    here = {"logits": config.has_decoder, "memory": config.has_encoder}
    given = {name: ids for name, ids in (("src", batch.src), ("tgt", batch.tgt)) if ids is not None}
    needed = {name for name, there in (("src", config.has_encoder), ("tgt", config.has_decoder)) if there}
    if side not in needed or side not in given:
        raise ValueError(f"side is {side!r}; this model and batch have {' and '.join(sorted(needed & set(given)))}")
    chosen = output or next(name for name in known if here[name])
    if chosen not in known or not here[chosen]:
        raise ValueError(f"{side} cannot move {chosen!r}; it moves {' or '.join(n for n in known if here[n])} here")
    tokens = {name: given[name].cpu() for name in needed if name in given and (chosen == "logits" or name == "src")}
    if chosen == "logits" and set(tokens) != needed:
        raise ValueError(f"the logits need {' and '.join(sorted(needed))}; the batch has {' and '.join(given)}")
    length = tokens[side].shape[1]
    order = list(range(length)) if places is None else [*places]
    if any(not 0 <= place < length for place in order):
        raise ValueError(f"places are {order}; {side} has the tokens 0 to {length - 1}")

    may = reach(config, views(config, model.masks, tokens))[chosen if chosen == "memory" else f"logits_{side}"]
    copy = double(model)
    embedding = getattr(copy, f"{side}_embedding")
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        before = _outputs(copy, tokens, chosen)
        moves = []
        for place in order:
            push = torch.randn(embedding.embedding_dim, generator=draw, dtype=torch.float64)

            def nudge(
                _module: Any, _inputs: Any, vectors: Tensor, place: int = place, push: Tensor = push
            ) -> Tensor:  # fmt: skip
                pushed = vectors.clone()
                pushed[:, place] += push * vectors.square().mean().sqrt()
                return pushed

            with hooked(embedding, nudge):
                moves.append((_outputs(copy, tokens, chosen) - before).abs().amax(dim=-1))
    return torch.stack(moves, dim=-1), may[:, :, order]


def _outputs(model: Any, tokens: dict[str, Tensor], chosen: str) -> Tensor:
    if chosen == "memory":
        return model.encode(tokens["src"])
    return model(tokens.get("src"), tokens["tgt"])
