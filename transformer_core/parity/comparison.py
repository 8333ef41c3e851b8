"""What a comparison of two computations says: a number for every tensor, and what to know before reading it."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from transformer_core.parity.plain import plain

NOTES = {
    "behind_embeddings": "nn.Transformer begins behind the embeddings and ends before the output layer; on both sides "
    "these are ours, so a fault in them cannot show here.",
    "no_dropout": "In training mode dropout is 0 on both sides: the two draw different random numbers, and torch also "
    "drops attention weights and hidden features, which the paper does not.",
    "blind_rows": "Queries without a visible key are judged apart: ours get weights 0, torch's NaN.",
    "added_norm": "torch's module has a final norm after each stack that ours lacks.",
}
"""What to know before reading a comparison."""


@dataclass(frozen=True)
class Difference:
    """One tensor or gradient on both sides.

    ``max_abs`` is the largest difference at real positions, ``max_rel`` its share of torch's largest number there,
    ``padded`` the largest at padded positions and at queries without a visible key, None where there are none. Tensors
    of different shapes are infinitely apart.
    """

    key: str
    shape: tuple[int, ...]
    max_abs: float
    max_rel: float
    limit: float
    passed: bool
    padded: float | None = None

    def to_row(self) -> dict[str, Any]:
        """Plain data that JSON can hold."""
        return plain(self)


@dataclass(frozen=True)
class Comparison:
    """All differences in the order of the ledger; gradients by parameter name, in the order of the model.

    ``first`` is the key of the first tensor above its limit. ``failure`` says why our own forward stopped, if it did;
    then only the tensors before are compared. ``notes`` are keys of ``NOTES``, ``blind`` the queries without a key as
    (attention, sentence, position), counted from 0.
    """

    forward: tuple[Difference, ...]
    backward: tuple[Difference, ...]
    first: str | None
    settings: Mapping[str, Any]
    failure: str | None = None
    notes: tuple[str, ...] = ()
    blind: tuple[tuple[str, int, int], ...] = ()

    @property
    def passed(self) -> bool:
        """Every tensor and every gradient is within its limit."""
        return self.failure is None and all(each.passed for each in (*self.forward, *self.backward))

    @property
    def first_gradient(self) -> str | None:
        """The first parameter whose gradient is above its limit."""
        return next((each.key for each in self.backward if not each.passed), None)

    @property
    def worst(self) -> float:
        """The largest difference of any tensor; NaN counts as infinite."""
        return worst(self.forward)

    @property
    def worst_gradient(self) -> float:
        """The largest difference of any gradient; NaN counts as infinite."""
        return worst(self.backward)

    def to_row(self) -> dict[str, Any]:
        """Plain data that JSON can hold."""
        return plain(self) | {"passed": self.passed, "first_gradient": self.first_gradient}


def worst(differences: Iterable[Difference]) -> float:
    """The largest difference of all; NaN counts as infinite."""
    errors = [each.max_abs for each in differences]
    return math.inf if any(map(math.isnan, errors)) else max(errors, default=0.0)


def difference(ours: Tensor, theirs: Tensor, apart: Tensor | None, key: str, limit: float) -> Difference:
    """Two tensors side by side; the cells of ``apart`` do not count for the verdict. NaN on both sides is the same."""
    if ours.shape != theirs.shape:
        return Difference(key, tuple(ours.shape), math.inf, math.inf, limit, False)
    off, size, padded = (ours - theirs).abs(), theirs.abs(), None
    if not off.sum().isfinite():  # a sum shows NaN for the price of one pass
        both = ours.isnan() & theirs.isnan()
        off, size = off.masked_fill(both, 0), size.masked_fill(both, 0)
    if apart is not None and apart.any():
        padded = float(off.masked_fill(~apart, 0).max())
        off, size = off.masked_fill(apart, 0), size.masked_fill(apart, 0)
    worst, largest = float(off.max()), float(size.max())
    share = worst / largest if largest else math.inf if worst else 0.0
    return Difference(key, tuple(ours.shape), worst, share, limit, worst <= limit, padded)
