"""Every check on every fault: what is caught, what is not seen, and what passes wrongly. Computed, never stored.

A check catches a fault when it fails on the broken model, or warns where it does not warn on the right one. It passes
wrongly when it stays green although the fault breaks something that it claims; else it does not see it. The first row
is the right model, on which nothing may fail.
"""

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import torch

from transformer_core.checks import CHECKS, STRUCTURE, Check, CheckResult
from transformer_core.checks.subject import Subject
from transformer_core.checks.table import ALL_LEVELS
from transformer_core.faults import FAULTS, Fault, get
from transformer_core.presets import Preset
from transformer_core.workshop import OWN, Workshop

VERDICTS = ("caught", "not_seen", "passes_wrongly", "silent")
"""The last one: the check has nothing to say about this model."""


@dataclass(frozen=True)
class Cell:
    """What one check says of one fault; ``fault`` is None for the right model."""

    fault: str | None
    check: str
    verdict: str
    result: CheckResult | None
    seconds: float = 0.0
    error: str = ""
    """What ended the check, when it could not come to a result: the fault is caught then."""

    def to_row(self) -> dict[str, Any]:
        """The cell as plain data; of the result only what tells it from another."""
        row: dict[str, Any] = {"check": self.check, "verdict": self.verdict, "error": self.error}
        if self.result is not None:
            result = self.result.to_row()
            row |= {name: result[name] for name in ("measured", "expected", "tolerance", "finding")}
        return row


@dataclass(frozen=True)
class Row:
    """All checks on one fault, or on the right model (``fault`` None)."""

    fault: Fault | None
    cells: tuple[Cell, ...]
    seconds: float = 0.0
    failure: str = ""
    """What ended the row when not even a model could be built."""

    @property
    def name(self) -> str | None:
        return None if self.fault is None else self.fault.name

    def with_verdict(self, verdict: str) -> list[str]:
        """The names of the checks with this verdict."""
        return [cell.check for cell in self.cells if cell.verdict == verdict]

    @property
    def caught_by(self) -> list[str]:
        return self.with_verdict("caught")

    def to_row(self) -> dict[str, Any]:
        """The row as plain data that JSON can hold."""
        about = {name: None if self.fault is None else getattr(self.fault, name) for name in ("name", "group", "title")}
        breaks = [] if self.fault is None else sorted(self.fault.breaks)
        cells = [cell.to_row() for cell in self.cells]
        return about | {"breaks": breaks, "failure": self.failure, "seconds": self.seconds, "cells": cells}


def run_matrix(
    preset: Preset, seed: int = 7, names: Sequence[str] | None = None, levels: Collection[int] = ALL_LEVELS
) -> Iterator[Row]:
    """The right model, then each fault (or those of ``names``): a row each time the next is asked for.

    Raises:
        ValueError: there is no such fault.
    """
    faults = list(FAULTS.values()) if names is None else [get(name) for name in names]
    right = run_row(None, preset, seed, levels)
    yield right
    for fault in faults:
        yield run_row(fault, preset, seed, levels, right)


def run_row(
    fault: Fault | None,
    preset: Preset,
    seed: int = 7,
    levels: Collection[int] = ALL_LEVELS,
    right: Row | None = None,
) -> Row:
    """Every check of ``levels`` on the preset's model, built with the fault; nothing that breaks in it is raised.

    ``right`` is the row of the right model at the same preset, seed and levels; without it the checks that only warn
    are run on the right model where the broken one got a warning.
    """
    started = perf_counter()
    checks = [each for each in CHECKS if each.level in levels]
    try:
        subject = subject_of(OWN if fault is None else fault.shop, preset, seed)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        cells = tuple(Cell(None if fault is None else fault.name, each.name, "silent", None) for each in checks)
        return Row(fault, cells, perf_counter() - started, _first_line(error))
    cells = tuple(_cell(each, subject, fault) for each in checks)
    if fault is not None and any(cell.result and cell.result.warning for cell in cells):
        warned = _warned(right, checks, preset, seed)
        cells = tuple(_judged(cell, fault, warned) for cell in cells)
    return Row(fault, cells, perf_counter() - started)


def subject_of(shop: Workshop, preset: Preset, seed: int) -> Subject:
    """The preset's model in evaluation mode, built by ``shop``, and one run of its batch."""
    model = shop.model.build(preset.model, preset.masks, seed=seed).eval()
    with one_thread():
        return Subject(model, preset.batch(seed), shop=shop, seed=seed)


def _cell(check: Check, subject: Subject, fault: Fault | None) -> Cell:
    name = None if fault is None else fault.name
    if check.level != STRUCTURE and (subject.failure is not None or not subject.has_numbers):
        return Cell(name, check.name, "silent", None)
    started = perf_counter()
    try:
        with one_thread():
            result = check.run(subject)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        return Cell(name, check.name, "caught", None, perf_counter() - started, _first_line(error))
    return Cell(name, check.name, verdict(check, result, fault), result, perf_counter() - started)


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {error}".splitlines()[0]


def verdict(check: Check, result: CheckResult | None, fault: Fault | None, warned: Collection[str] = ()) -> str:
    """One of ``VERDICTS``. ``warned`` names the checks that warn on the right model too; None as fault is that model.

    >>> from transformer_core.faults import FAULTS
    >>> verdict(CHECKS[0], None, FAULTS["no_scaling"])
    'silent'
    """
    if result is None:
        return "silent"
    if not result.passed or (result.warning and fault is not None and check.name not in warned):
        return "caught"
    wrongly = fault is not None and not check.claims.isdisjoint(fault.breaks)
    return "passes_wrongly" if wrongly else "not_seen"


def _warned(right: Row | None, checks: Sequence[Check], preset: Preset, seed: int) -> set[str]:
    """The checks that warn on the right model."""
    if right is not None:
        return {cell.check for cell in right.cells if cell.result is not None and cell.result.warning}
    subject = subject_of(OWN, preset, seed)
    results = [_cell(each, subject, None).result for each in checks if each.only_warns]
    return {result.name for result in results if result is not None and result.warning}


def _judged(cell: Cell, fault: Fault, warned: Collection[str]) -> Cell:
    if cell.result is None:
        return cell
    check = next(each for each in CHECKS if each.name == cell.check)
    return replace(cell, verdict=verdict(check, cell.result, fault, warned))


@contextmanager
def one_thread() -> Iterator[None]:
    """A tensor of these sizes is computed faster by one thread than it is shared out to several."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
