"""The runs of one tab as a table: how each differs from the chosen one, what it reached, what several seeds share.

Pure: a record in, plain numbers and keys of words out. Knows no gradio, and builds no model.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from explorer.facts import plain
from explorer.fields import NO_FAULT
from transformer_core import tasks

if TYPE_CHECKING:
    from transformer_core.records import RunRecord
    from transformer_core.tasks import Task

LAST = 20
"""A run's loss is the mean of so many of its last steps: one batch is luck."""
POINTS = 80
"""A curve is drawn through so many means at most."""
GOAL = 0.95
"""The share of whole answers at which a run counts as having got there."""
LIFT = 0.15
"""Less than this share of the way from guessing to knowing is told as guessing, where nothing lies between the two."""
NEAR = 0.03
"""So far above a level of guessing a run still counts as being at it."""


class Seen(NamedTuple):
    """A look at new questions: after how many steps, which share of tokens and whole answers is right, and the loss."""

    step: int
    token: float
    exact: float
    loss: float | None


def seen(record: RunRecord) -> list[Seen]:
    """The looks of a record; what a file calls a look and is none is left out."""
    found = []
    for look in record.looks:
        step, sets = look.get("step"), look.get("sets")
        new = sets.get("new") if isinstance(sets, Mapping) else None
        if isinstance(step, bool) or not isinstance(step, int) or not isinstance(new, Mapping):
            continue
        token, exact, loss = (new.get(name) for name in ("token_accuracy", "exact_match", "loss"))
        if share(token) and share(exact):
            known = isinstance(loss, (int, float)) and not isinstance(loss, bool)
            found.append(Seen(step, float(token), float(exact), float(loss) if known else None))
    return found


def share(value: Any) -> bool:
    """Whether this is a number between 0 and 1."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1


def configuration(record: RunRecord) -> dict[str, Any]:
    """Every setting that shapes the curve, by the paper's names, in the order of task, model, masks, recipe, seed.

    Settings of a side that the architecture lacks have no effect, and are left out.
    """
    model = {field.name: getattr(record.model, field.name) for field in dataclasses.fields(record.model)}
    for side in ("encoder", "decoder"):
        if not getattr(record.model, f"has_{side}"):
            model.pop(f"n_{side}_layers")
            model.pop({"encoder": "src_vocab_size", "decoder": "tgt_vocab_size"}[side])
    if record.model.positions != "learned":  # a longer table of sines begins with the shorter one
        model.pop("max_seq_len")
    masks = {field.name: getattr(record.masks, field.name) for field in dataclasses.fields(record.masks)}
    training = {field.name: getattr(record.training, field.name) for field in dataclasses.fields(record.training)}
    for name in ("task", "epochs", "steps"):
        training.pop(name, None)
    if record.training.schedule == "constant":
        training.pop("warmup", None)
    return {
        "task": record.task, "corpus": corpus_of(record), **model, **masks, "steps": record.training.total_steps,
        **training, "rate_changes": tuple(record.rate_changes), "fault": record.fault or NO_FAULT, "seed": record.seed,
    }  # fmt: skip


def corpus_of(record: RunRecord) -> str:
    """The name of the corpus and the first signs of its sum: two files of one name are two corpora."""
    corpus = record.corpus
    return "" if corpus is None else f"{corpus['name']} {str(corpus['sha256'])[:8]}"


def differences(record: RunRecord, reference: RunRecord) -> list[dict[str, str]]:
    """What was set otherwise than in the reference: ``{"name": "n_heads", "from": "4", "to": "1"}``."""
    here, there = configuration(record), configuration(reference)
    names = [*there, *(name for name in here if name not in there)]
    return [
        {"name": name, "from": printed(there.get(name)), "to": printed(here.get(name))}
        for name in names
        if here.get(name) != there.get(name)
    ]


def printed(value: Any) -> str:
    """A setting as the table prints it.

    >>> printed(("padding", "causal")), printed(1e-3), printed(()), printed(None), printed(True)
    ('padding ∧ causal', '0.001', '∅', '–', 'true')
    """
    if value is None or value == "":
        return "–"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, (tuple, list)):
        if value and isinstance(value[0], (tuple, list)):  # changes of the rate, or the rows of a painted mask
            return f"{len(value)} × {len(value[0])}" if len(value[0]) > 2 else "; ".join(map(printed_change, value))
        return " ∧ ".join(map(str, value)) or "∅"
    return str(value)


def printed_change(change: Sequence[float]) -> str:
    """A rate that was changed by hand, and the first step it held for: ``0.01 @ 40``."""
    return f"{change[1]:g} @ {change[0]:.0f}"


# ------------------------------------------------------------------------------------------------------ what it reached


def measures(record: RunRecord) -> dict[str, Any]:
    """The numbers of one row; None where nothing was measured."""
    last = (seen(record) or [None])[-1]
    losses = [loss for loss in record.losses[-LAST:] if math.isfinite(loss)]
    return {
        "loss": plain(statistics.fmean(losses)) if losses else None,
        "token": None if last is None else plain(last.token),
        "exact": None if last is None else plain(last.exact),
        "to_goal": steps_to_goal(record),
        "steps": record.steps, "of": record.training.total_steps,
    }  # fmt: skip


def steps_to_goal(record: RunRecord) -> int | None:
    """The first look at which 95 % of whole held-out answers were right, as finely as the looks were taken."""
    return next((look.step for look in seen(record) if look.step and look.exact >= GOAL), None)


def shows(record: RunRecord) -> dict[str, Any]:
    """One sentence on what this run shows, as a key of words and its numbers. Every case is told by a measurement."""
    last = (seen(record) or [None])[-1]
    if record.ended == "failed":
        return {"key": "failed", "step": record.steps}
    if last is None or not record.steps:
        return {"key": "nothing"}
    values = {"step": last.step, "token": percent(last.token), "exact": percent(last.exact)}
    task = task_of(record)
    if last.exact >= GOAL:
        return {"key": "learned", **values, "goal": steps_to_goal(record) or last.step}
    if last.token >= GOAL and last.exact < 0.5:
        return {"key": "leans", **values}
    if task is None:  # what guessing gives on sentences of one's own stands in no record
        return {"key": "unsolved", **values}
    blind = task.blind_accuracy > task.chance_accuracy
    if last.token < task.chance_accuracy + (NEAR if blind else LIFT * (1 - task.chance_accuracy)):
        return {"key": "chance", **values, "chance": f"{100 * task.chance_accuracy:.2g}"}
    if blind and last.token <= task.blind_accuracy + NEAR:
        return {"key": "blind", **values, "blind": percent(task.blind_accuracy)}
    return {"key": "partly", **values}


def task_of(record: RunRecord) -> Task | None:
    """The task in the register; none where it is made of a corpus, whose numbers differ from file to file."""
    return tasks.TASKS.get(record.task) if record.corpus is None else None


def percent(share: float) -> str:
    """A share as the page prints it: 100 only where it is 100.

    >>> percent(1.0), percent(0.9996), percent(0.071)
    ('100', '99.9', '7.1')
    """
    return "100" if share >= 1 else f"{min(100 * share, 99.9):.1f}"


# --------------------------------------------------------------------------------------------------------------- curves


def width_of_bins(longest: int) -> int:
    """How many steps one point of a curve stands for, so that the longest curve has at most POINTS of them.

    >>> width_of_bins(80), width_of_bins(600)
    (1, 8)
    """
    return max(1, math.ceil(longest / POINTS))


def thin(values: Sequence[float], width: int) -> list[float | None]:
    """The means of ``width`` steps each; the last of fewer. None where none of them is finite.

    >>> thin([1.0, 3.0, 5.0, 7.0, 8.0], 2)
    [2.0, 6.0, 8.0]
    """
    means: list[float | None] = []
    for start in range(0, len(values), width):
        part = [value for value in values[start : start + width] if math.isfinite(value)]
        means.append(plain(statistics.fmean(part)) if part else None)
    return means


# ---------------------------------------------------------------------------------------------------------------- seeds


def same_but_for_seed(one: RunRecord, other: RunRecord) -> bool:
    """Whether two runs are two seeds of one configuration."""
    here, there = configuration(one), configuration(other)
    return {**here, "seed": 0} == {**there, "seed": 0}


def seeds_of(records: Sequence[RunRecord], reference: RunRecord) -> list[int]:
    """The places of the runs that are seeds of the reference's configuration: one for each seed, the longest of it."""
    longest: dict[int, int] = {}
    for place, record in enumerate(records):
        if record.steps and same_but_for_seed(record, reference):
            held = longest.get(record.seed)
            if held is None or record.steps > records[held].steps:
                longest[record.seed] = place
    return sorted(longest.values())


def spread(records: Sequence[RunRecord], width: int) -> dict[str, Any]:
    """Lowest, mean and highest over the seeds: of the curves as far as all of them go, and of what they reached."""
    shortest = min(record.steps for record in records)
    curves = [thin(record.losses[:shortest], width) for record in records]
    columns = [[value for value in column if value is not None] for column in zip(*curves, strict=True)]
    reached = [measures(record) for record in records]
    told: dict[str, Any] = {
        "seeds": [record.seed for record in records],
        "steps": shortest,
        "curve": {name: [plain(of(column)) if column else None for column in columns] for name, of in SPREAD.items()},
    }
    for name in ("loss", "token", "exact", "to_goal"):
        values = [row[name] for row in reached if row[name] is not None]
        complete = len(values) == len(records)
        told[name] = {each: plain(of(values)) for each, of in SPREAD.items()} | {"n": len(values)} if values else None
        if name == "to_goal" and values and not complete:
            told[name]["mean"] = None  # a mean over those that got there would hide those that did not
    return told


SPREAD = {"low": min, "mean": statistics.fmean, "high": max}
