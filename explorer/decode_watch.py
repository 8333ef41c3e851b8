"""Next-token probabilities that remember what they were asked: the rows a tree is drawn from."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from explorer.refusals import Refusal
from transformer_core.ledger import trace
from transformer_core.model import Transformer

SECONDS = 12.0
"""One search may take so long; a turn that takes longer would hold up everyone else."""
ROWS = 128
"""Beginnings in one pass of the model."""

Beginning = tuple[int, ...]
"""What was written so far, the begin id first."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What was said after a beginning: log-probabilities V, and the cross-attention of the last query, H S."""

    log_probs: Tensor
    attention: Tensor | None = None


@dataclass(eq=False)
class Watch:
    """Callable as ``next_log_probs``: each beginning is asked of ``read`` once, and kept in ``seen``.

    Raises:
        Refusal: all together took longer than ``SECONDS``, or a probability is not a number.
    """

    read: Callable[[list[Beginning]], list[Seen]]
    seen: dict[Beginning, Seen] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    def __call__(self, beginnings: Sequence[Beginning]) -> Tensor:
        wanted = [tuple(each) for each in beginnings]
        new = [each for each in dict.fromkeys(wanted) if each not in self.seen]
        for start in range(0, len(new), ROWS):
            if time.monotonic() - self.started > SECONDS:
                raise Refusal("dec_slow", "dec_length", seconds=f"{SECONDS:.0f}")
            some = new[start : start + ROWS]
            for each, seen in zip(some, self.read(some), strict=True):
                if seen.log_probs.isnan().any():
                    raise Refusal("dec_not_finite")
                self.seen[each] = seen
        return torch.stack([self.seen[each].log_probs for each in wanted])


class ModelReader:
    """A model on one source sentence. Every beginning is read anew from its first token, without a cache: these are the
    numbers of the plain model, whatever its masks are. With a ``layer``, its cross-attention is kept too."""

    @torch.no_grad()
    def __init__(self, model: Transformer, row: Tensor, layer: int | None = None) -> None:
        self.model, self.row, self.layer = model, row.to(model.output.weight.device), layer
        self.memory = model.encode(self.row)

    @torch.no_grad()
    def __call__(self, beginnings: list[Beginning]) -> list[Seen]:
        tgt, n = torch.tensor(beginnings, device=self.row.device), len(beginnings)
        memory, row = self.memory.expand(n, -1, -1), self.row.expand(n, -1)
        if self.layer is None:
            return [Seen(each) for each in self._log_probs(self.model.decode(tgt, memory, row)[:, -1])]
        with trace(self.model) as ledger:
            last = self.model.decode(tgt, memory, row)[:, -1]
        weights = ledger[f"decoder.layers.{self.layer}.cross_attention/weights"].value[:, :, -1].cpu()
        return [Seen(*both) for both in zip(self._log_probs(last), weights, strict=True)]

    def _log_probs(self, last: Tensor) -> Tensor:
        return self.model.output(last).log_softmax(dim=-1).double().cpu()


def begun(begin: int, tokens: Sequence[int]) -> Beginning:
    """
    >>> begun(1, (5, 6))
    (1, 5, 6)
    """
    return (begin, *tokens)
