"""The padding mask on its way from B S to B H q k, and what the tempting wrong views do on the same tokens.

A mask takes part in arithmetic by broadcasting: shapes are laid on each other from the right, and an axis of 1, or one
that is missing, is repeated. So a mask with its axes in the wrong places is an error only when the sizes disagree.
Where a batch holds as many sentences as there are heads, or as tokens in each, it fits, and hides the wrong cells.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True, eq=False)
class View:
    """One way to hand the mask on: ``expression`` in torch, and ``shape`` of what it gives.

    ``laid`` is the shape of the scores with the mask on them, None where torch refuses with ``error``; a mask can also
    make them grow, with one head and several sentences for example. ``result`` is the mask as it lies over B H q k,
    None where it does not fit. ``wrong_cells`` counts the cells in which it differs from the right one, ``leaks`` those
    of them that show padding and ``lost`` those that hide a word. ``right`` says whether the expression is meant so,
    whatever comes out.
    """

    name: str
    expression: str
    axes: str
    shape: tuple[int, ...]
    right: bool
    result: Tensor | None
    laid: tuple[int, ...] | None
    wrong_cells: int
    leaks: int
    lost: int
    error: str

    def to_row(self) -> dict[str, Any]:
        """Plain data, without the mask itself."""
        return {"name": self.name, "expression": self.expression, "axes": self.axes, "shape": list(self.shape),
                "right": self.right, "laid": None if self.laid is None else list(self.laid),
                "wrong_cells": self.wrong_cells, "leaks": self.leaks, "lost": self.lost,
                "cells": 0 if self.result is None else self.result.numel(), "error": self.error}  # fmt: skip


_VIEWS: tuple[tuple[str, str, str, bool, Callable[[Tensor], Tensor]], ...] = (
    ("tokens", "real = tokens != pad_id", "B S", True, lambda real: real[:, None, None, :]),
    ("keys", "real[:, None, None, :]", "B 1 1 S", True, lambda real: real[:, None, None, :]),
    ("full", "real[:, None, None, :].expand(B, H, q, S)", "B H q S", True, lambda real: real[:, None, None, :]),
    ("queries", "real[:, None, :, None]", "B 1 S 1", False, lambda real: real[:, None, :, None]),
    ("swapped", "real[None, :, None, :]", "1 B 1 S", False, lambda real: real[None, :, None, :]),
    ("one_axis", "real[:, None, :]", "B 1 S", False, lambda real: real[:, None, :]),
    ("none", "real", "B S", False, lambda real: real),
)
"""Name, expression, axes, whether it is right, and the mask that is laid over the scores: first the three steps."""


def views(tokens: Int[Tensor, "B S"], pad_id: int, n_heads: int, q_len: int | None = None) -> list[View]:
    """The three right steps and the four wrong views, each laid over scores B H q S; q is S unless ``q_len`` is given.

    With two sentences and two heads, no axis too few is an error:

    >>> made = {view.name: view for view in views(torch.tensor([[5, 6, 7], [8, 0, 0]]), 0, n_heads=2)}
    >>> made["one_axis"].shape, made["one_axis"].error, made["one_axis"].wrong_cells
    ((2, 1, 3), '', 12)

    Raises:
        ValueError: there are no tokens, no queries or no heads.
    """
    batch, length = tokens.shape
    queries = length if q_len is None else q_len
    if min(batch, length, queries, n_heads) < 1:
        raise ValueError(f"there are {batch} sentences of {length} tokens, {queries} queries and {n_heads} heads; "
                         "each needs at least one")  # fmt: skip
    real = tokens != pad_id
    target = (batch, n_heads, queries, length)
    wanted = real[:, None, None, :].expand(target)
    made = []
    for name, expression, axes, right, lay in _VIEWS:
        mask = lay(real)
        shape = {"tokens": tuple(real.shape), "full": target}.get(name, tuple(mask.shape))
        laid, error = _laid(mask, target)
        result = mask.expand(target) if laid == target else None
        leaks = 0 if result is None else int((result & ~wanted).sum())
        lost = 0 if result is None else int((wanted & ~result).sum())
        made.append(View(name, expression, axes, shape, right, result, laid, leaks + lost, leaks, lost, error))
    return made


def _laid(mask: Tensor, target: tuple[int, ...]) -> tuple[tuple[int, ...] | None, str]:
    """The shape that scores of shape ``target`` have with this mask on them, else what torch raises."""
    try:
        return tuple((torch.zeros(()).expand(target) + mask).shape), ""
    except RuntimeError as refusal:
        return None, str(refusal).splitlines()[0]
