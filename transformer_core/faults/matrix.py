"""Every check on every fault: what is caught, what is not seen, and what passes wrongly. Computed, never stored.

A check catches a fault when it fails on the broken model, or warns where it does not warn on the right one. It passes
wrongly when it stays green although the fault breaks something that it claims; else it does not see it. The first row
is the right model, on which nothing may fail.
"""

import math
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from time import perf_counter
from typing import Any, NamedTuple

import torch

from transformer_core.checks import CHECKS, STRUCTURE, Check, CheckResult
from transformer_core.checks.subject import Subject
from transformer_core.checks.table import ALL_LEVELS
from transformer_core.faults import FAULTS, Fault, get
from transformer_core.ledger import Ledger, trace
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


@dataclass(frozen=True)
class Summary:
    """What the rows come to, counted both ways."""

    rows: tuple[Row, ...]

    @cached_property
    def broken(self) -> list[Row]:
        """The rows of the faults."""
        return [row for row in self.rows if row.fault is not None]

    @property
    def checks(self) -> list[str]:
        return [cell.check for cell in self.rows[0].cells] if self.rows else []

    @property
    def false_alarms(self) -> list[str]:
        """The checks that fail on the right model; there should be none."""
        return [name for row in self.rows if row.fault is None for name in row.caught_by]

    @cached_property
    def without_effect(self) -> list[str]:
        """The faults with which every check measures what it measures on the right model: their line is not reached.

        A fault of the decoder is none in an encoder alone. Some levels alone cannot tell: then none is named.
        """
        if not {check.name for check in CHECKS} <= set(self.checks):
            return []
        right = next((_measured(row) for row in self.rows if row.fault is None), None)
        return [str(row.name) for row in self.broken if not row.failure and _measured(row) == right]

    @cached_property
    def uncaught(self) -> list[str]:
        """The faults that have an effect and that no check sees; there should be none.

        What cannot even be built is seen by anyone.
        """
        unseen = [str(row.name) for row in self.broken if not row.caught_by and not row.failure]
        return [name for name in unseen if name not in self.without_effect]

    def by_check(self, verdict: str) -> dict[str, list[str]]:
        """For each check the faults on which it has this verdict."""
        return {
            check: [str(row.name) for row in self.broken if check in row.with_verdict(verdict)] for check in self.checks
        }

    @cached_property
    def idle(self) -> list[str]:
        """The checks that catch no fault."""
        return [check for check, caught in self.by_check("caught").items() if not caught]

    @cached_property
    def smallest_set(self) -> list[str]:
        """As few checks as possible that together catch every fault that any of them catches."""
        return smallest_cover({check: set(caught) for check, caught in self.by_check("caught").items()})

    def to_row(self) -> dict[str, Any]:
        """The summary as plain data that JSON can hold."""
        return {
            "faults": {str(row.name): row.caught_by for row in self.broken},
            "checks": {
                check: {"caught": caught, "passes_wrongly": wrongly}
                for (check, caught), wrongly in zip(
                    self.by_check("caught").items(), self.by_check("passes_wrongly").values(), strict=True
                )
            },
            "false_alarms": self.false_alarms,
            "uncaught": self.uncaught,
            "without_effect": self.without_effect,
            "idle": self.idle,
            "smallest_set": self.smallest_set,
        }


def _measured(row: Row) -> list[str]:
    """What each check measured and whether it failed, in a form in which NaN equals NaN."""
    return [
        f"{cell.verdict == 'caught'} {cell.result and (cell.result.measured, cell.result.facts)}" for cell in row.cells
    ]


def smallest_cover(sets: dict[str, set[str]]) -> list[str]:
    """The names of as few sets as possible whose union is that of all; of several such choices, the first.

    Always taking the set with most new members gives a choice that covers; smaller ones are then tried one by one.

    >>> smallest_cover({"a": {"1", "2", "3"}, "b": {"1", "2", "4"}, "c": {"3", "5"}, "d": {"4"}})
    ['b', 'c']
    """
    # A set within another adds nothing; of two equal ones the first stays.
    names = [
        name
        for i, name in enumerate(sets)
        if not any(sets[name] < other or (sets[name] == other and j < i) for j, other in enumerate(sets.values()))
    ]
    wanted = set().union(*sets.values())
    chosen: list[str] = []
    while missing := wanted.difference(*(sets[name] for name in chosen)):
        chosen.append(max(names, key=lambda name: len(sets[name] & missing)))
    for size in range(len(chosen)):
        for some in combinations(names, size):
            if set().union(*(sets[name] for name in some)) == wanted:
                return list(some)
    return [name for name in names if name in chosen]


class Changed(NamedTuple):
    """A row of the ledger that reads otherwise. A shape is empty where the row is missing."""

    key: str
    shape_right: tuple[int, ...]
    shape_wrong: tuple[int, ...]
    max_abs: float
    """NaN where one of the numbers is, infinity where the shapes differ; of masks 1, a cell that is turned over."""


def changed_tensors(fault: Fault, preset: Preset, seed: int = 7) -> list[Changed]:
    """The tensors of one forward that the fault changes, in the order in which they are computed.

    Faults of training, decoding and gradients change none. A forward that stops gives the rows up to there, and those
    behind it as missing.
    """
    values, others = (
        {entry.key: entry.value for entry in reversed(_traced(shop, preset, seed).entries)}  # of two, the first
        for shop in (OWN, fault.shop)
    )
    found = []
    for key in dict.fromkeys((*reversed(values), *reversed(others))):
        one, other = values.get(key), others.get(key)
        if one is None or other is None or one.shape != other.shape:
            shape, changed = (() if each is None else tuple(each.shape) for each in (one, other))
            found.append(Changed(key, shape, changed, math.inf))
        elif not torch.equal(one, other):
            difference = (one.double() - other.double()).abs().max().item()
            found.append(Changed(key, tuple(one.shape), tuple(other.shape), difference))
    return found


def _traced(shop: Workshop, preset: Preset, seed: int) -> Ledger:
    model, batch = shop.model.build(preset.model, preset.masks, seed=seed).eval(), preset.batch(seed)
    with torch.no_grad(), one_thread(), trace(model) as ledger:
        try:
            model(batch.src, batch.tgt)
        except (RuntimeError, ValueError, IndexError):
            pass
    return ledger
