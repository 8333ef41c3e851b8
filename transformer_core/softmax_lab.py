"""The softmax of one query step by step, of a whole map in sums, and of a query that sees nothing in every variant."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from transformer_core.attention import masked_softmax
from transformer_core.config import FILLS


@dataclass(frozen=True)
class RowPipeline:
    """What becomes of the scores of one query, a number for each key in every list.

    ``dropped`` is what is multiplied with v: the weights themselves unless dropout is on. Its sum need not be 1; that
    of ``weights`` must be, or 0 where no key is visible. ``max_hidden`` is the largest probability on a hidden key.
    """

    dots: list[float]
    scaled: list[float]
    masked: list[float]
    exps: list[float]
    weights: list[float]
    dropped: list[float]
    visible: list[bool]
    exps_sum: float
    weights_sum: float
    dropped_sum: float
    max_hidden: float

    def to_row(self) -> dict[str, Any]:
        """Plain data; a number that JSON does not have goes by its name."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def row_pipeline(
    q: Float[Tensor, "B H q Dh"],
    k: Float[Tensor, "B H k Dh"],
    allowed: Tensor | None,
    *,
    sample: int = 0,
    head: int = 0,
    row: int = 0,
    fill: str = "exclude",
    scale: bool = True,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> RowPipeline:
    """Query ``row`` through equation 1: q·k, divided by √d_head, masked, exp(s - max), divided by the sum, dropout.

    >>> q, k = torch.tensor([[[[2.0, 0, 0, 0]]]]), torch.tensor([[[[1.0, 0, 0, 0], [3, 0, 0, 0], [9, 9, 9, 9]]]])
    >>> made = row_pipeline(q, k, torch.tensor([True, True, False]))
    >>> made.dots, made.scaled, made.masked, [round(weight, 4) for weight in made.weights]
    ([2.0, 6.0, 18.0], [1.0, 3.0, 9.0], [1.0, 3.0, -inf], [0.1192, 0.8808, 0.0])

    Raises:
        IndexError: there is no such sentence, head or query.
        ValueError: ``fill`` is unknown or does not fit the dtype.
    """
    dots = k[sample, head] @ q[sample, head, row]
    scaled = dots / math.sqrt(q.shape[-1]) if scale else dots
    shape = (*q.shape[:3], k.shape[2])
    seen = torch.ones_like(dots, dtype=torch.bool) if allowed is None else allowed.expand(shape)[sample, head, row]
    lowest = torch.finfo(scaled.dtype).min
    masked = scaled.masked_fill(~seen, {"finfo_min": lowest, "-1e9": max(lowest, -1e9)}.get(fill, -math.inf))
    highest = masked.max().clamp(min=lowest) if fill == "exclude" else masked.max()
    exps = (masked - highest).exp()
    weights = masked_softmax(scaled[None], seen[None], fill)[0]
    dropped = weights if dropout is None else dropout(weights)
    return RowPipeline(
        dots.tolist(), scaled.tolist(), masked.tolist(), exps.tolist(), weights.tolist(), dropped.tolist(),
        visible=seen.tolist(),
        exps_sum=float(exps.sum()),
        weights_sum=float(weights.sum()),
        dropped_sum=float(dropped.sum()),
        max_hidden=_largest(weights, ~seen),
    )  # fmt: skip


@dataclass(frozen=True)
class MapSummary:
    """A map of weights in numbers. ``averaged`` is the number of heads whose mean it is; 1 is a head by itself.

    A mean over heads hides what they do: of two heads that look at one key each it says "a half on both". Its entropy
    is that of the mean, not the mean of theirs. ``entropy`` is in nats, 0 for a row that looks at one key only and for
    one that sees none; ln n for an even look at n keys.
    """

    row_sums: list[float]
    column_sums: list[float]
    entropy: list[float]
    visible: list[int]
    max_hidden: float
    empty_rows: list[int]
    averaged: int

    def to_row(self) -> dict[str, Any]:
        """Plain data; a number that JSON does not have goes by its name."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def map_summary(
    weights: Float[Tensor, "B H q k"], allowed: Tensor | None, *, sample: int = 0, head: int | None = 0
) -> MapSummary:
    """Sums, entropy and leaks of one map; ``head`` None averages over all heads, and says so.

    >>> two = torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]]]])
    >>> summary = map_summary(two, None, head=None)
    >>> summary.column_sums, round(summary.entropy[0], 4), summary.averaged
    ([0.5, 0.5], 0.6931, 2)

    Raises:
        IndexError: there is no such sentence or head.
    """
    every = torch.ones((), dtype=torch.bool, device=weights.device) if allowed is None else allowed
    seen = every.expand(weights.shape)[sample]
    if head is None:
        shown, visible, averaged = weights[sample].double().mean(dim=0), seen.any(dim=0), weights.shape[1]
    else:
        shown, visible, averaged = weights[sample, head].double(), seen[head], 1
    return MapSummary(
        row_sums=shown.sum(dim=-1).tolist(),
        column_sums=shown.sum(dim=0).tolist(),
        entropy=torch.special.entr(shown).sum(dim=-1).tolist(),
        visible=visible.sum(dim=-1).tolist(),
        max_hidden=_largest(shown, ~visible),
        empty_rows=(~visible.any(dim=-1)).nonzero().flatten().tolist(),
        averaged=averaged,
    )


SENTENCES = {
    "zeros": "No key, no attention: all weights are 0, the context is 0, and no gradient comes back.",
    "nan": "Every score is -inf, less the highest that is -inf + inf, and that is NaN. The context is NaN, the "
    "gradient of the values is NaN, and one step of training carries it into the weights.",
    "even": "Every score is the same very low number, and a softmax only sees differences: the query attends to all "
    "hidden keys alike, {share:.3g} to each. No error and no NaN, and what was to be hidden gets a gradient.",
    "refused": "{dtype} cannot hold the number: torch stops instead of masking.",
}
"""What a fill does with a query that sees no key."""


@dataclass(frozen=True)
class EmptyRow:
    """One fill in one dtype on a query that sees nothing.

    ``gradient`` is that of scores and values together: "zero", "finite", "nan", or "none" where there is no forward.
    """

    fill: str
    dtype: str
    what: str
    weights: list[float] | None
    sum: float
    gradient: str
    sentence: str

    def to_row(self) -> dict[str, Any]:
        """Plain data; a number that JSON does not have goes by its name."""
        return {name: _plain(value) for name, value in asdict(self).items()}


def empty_row_lab(
    scores: Sequence[float] = (1.0, 2.0, 3.0), dtypes: Sequence[torch.dtype] = (torch.float32, torch.float16)
) -> list[EmptyRow]:
    """A row of scores of which every key is hidden, with every fill in every dtype, forward and backward, computed.

    >>> [(row.fill, row.what, row.gradient) for row in empty_row_lab(dtypes=[torch.float32])]
    [('exclude', 'zeros', 'zero'), ('-inf', 'nan', 'nan'), ('finfo_min', 'even', 'finite'), ('-1e9', 'even', 'finite')]
    """
    return [_empty_row(scores, fill, dtype) for fill in FILLS for dtype in dtypes]


def _empty_row(scores: Sequence[float], fill: str, dtype: torch.dtype) -> EmptyRow:
    name = str(dtype).removeprefix("torch.")
    row = torch.tensor([scores], dtype=dtype, requires_grad=True)
    try:
        weights = masked_softmax(row, torch.zeros(row.shape, dtype=torch.bool), fill)
    except ValueError:
        return EmptyRow(fill, name, "refused", None, math.nan, "none", SENTENCES["refused"].format(dtype=name))
    values = torch.arange(1.0, len(scores) + 1).to(dtype).requires_grad_()
    (weights * values).sum().backward()
    assert row.grad is not None and values.grad is not None
    back = torch.cat([row.grad[0], values.grad])
    gradient = "nan" if back.isnan().any() else "finite" if back.any() else "zero"
    found = weights.detach()[0]
    what = "nan" if found.isnan().any() else "even" if found.any() else "zeros"
    sentence = SENTENCES[what].format(share=1 / len(scores))
    return EmptyRow(fill, name, what, found.tolist(), float(found.float().sum()), gradient, sentence)


def _largest(weights: Tensor, hidden: Tensor) -> float:
    """The largest probability on a hidden key; 0 when none is hidden, NaN when one is NaN."""
    return float(weights[hidden].max()) if bool(hidden.any()) else 0.0


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
