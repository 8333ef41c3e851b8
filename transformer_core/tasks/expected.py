"""What a right run of a task's recipe looks like: the curves of five seeds, as a band to compare a run with.

The numbers were measured once by ``python -m benchmarks.expected`` and lie beside this file. Another machine or version
of torch adds in another order, so that its curve with the same seed is not the same; it should lie near the band.
"""

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "expected"
CURVES = ("loss", "held_out_loss", "token", "exact")


@dataclasses.dataclass(frozen=True)
class Band:
    """The lowest, the mean and the highest of all seeds, at each step."""

    low: tuple[float, ...]
    mean: tuple[float, ...]
    high: tuple[float, ...]


@dataclasses.dataclass(frozen=True)
class Expected:
    """The curves of one task at the steps at which a page looks at a run of as many steps as the recipe has."""

    task: str
    steps: tuple[int, ...]
    loss: Band
    """Of the training, label smoothing included: the mean from half an interval before the step to half behind it."""
    held_out_loss: Band
    """Of new questions, without label smoothing."""
    token: Band
    """The share of tokens that are right, the right ones before each being given; or of classes."""
    exact: Band
    """The share of whole answers that are right, written by the model alone."""
    seeds: tuple[int, ...]
    questions: int
    """How many new questions were asked at each step."""
    torch: str
    recipe: dict[str, Any]
    """Model, masks and training of these runs: curves of another recipe say nothing of the task's own."""


@cache
def expected(task: str) -> Expected | None:
    """The published curves of a task; None where none were measured.

    >>> curves = expected("copy")
    >>> len(curves.seeds), curves.steps[-1], curves.exact.low[-1] >= 0.99
    (5, 600, True)
    """
    file = FOLDER / f"{task}.json"
    if not file.is_file():
        return None
    read = json.loads(file.read_text(encoding="utf-8"))
    bands = {name: Band(*(tuple(read[name][each]) for each in ("low", "mean", "high"))) for name in CURVES}
    return Expected(
        task=task, steps=tuple(read["steps"]), seeds=tuple(read["seeds"]), questions=read["questions"],
        torch=read["torch"], recipe=read["recipe"], **bands,
    )  # fmt: skip
