"""A record of a run as a run of this page: what it asks of this host, which controls show it, how its repeat compares.

Knows no gradio. Whatever a file says, nothing is built but shapes before every limit was checked.
"""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from explorer import lessons, plans
from explorer.fields import ATTENTIONS, BY_NAME, FIELDS, NO_FAULT, TRAINING, refusal_of
from explorer.limits import Limits
from explorer.plans import TRANSLATION, Plan
from explorer.recipes import on_page
from explorer.refusals import Refusal
from explorer.session import Session
from transformer_core import tasks
from transformer_core.records import RunRecord
from transformer_core.records.making import fingerprint, machine
from transformer_core.training import StepReport

if TYPE_CHECKING:
    from transformer_core.translation import Corpus

LAST_LOSS = "last_loss"
"""Where a record that a browser keeps holds the one loss by which its repeat is compared."""
MAX_POSITIONS = 4096
"""The longest sequence that a model from a file may be made for: its table of positions costs memory."""
MODEL = tuple(field.name for field in FIELDS if field.group == "model" and field.name != "dropout")


def read(text: Any, limits: Limits) -> RunRecord:
    """The record that a file or a browser sent.

    Raises:
        Refusal: it is no text, too long, or no record, with the reason.
    """
    if not isinstance(text, str):
        raise Refusal("no_record")
    if len(text) > limits.max_record:
        raise Refusal("record_too_long", given=f"{len(text) // 1024:,}", high=f"{limits.max_record // 1024:,}")
    try:
        return RunRecord.from_json(text)
    except ValueError as error:
        raise refusal_of(error) from error


def plan_of(record: RunRecord, limits: Limits, corpus: Corpus | None = None) -> Plan:
    """The plan that gives this record once more. The model is the record's own, whatever the page has controls for.

    Raises:
        Refusal: it is larger than this host allows, its parts do not fit together, or its sentences are not here.
    """
    corpus = corpus_of(record, corpus)
    session, training = session_of(record), record.training.replace(steps=record.training.total_steps, epochs=None)
    task = tasks.get(record.task) if corpus is None else tasks.translation.task_of(corpus)
    task = lessons.task_of(session.lesson) or task
    refuse_large(record, limits)
    parameters = plans.measured(task, record.model, record.masks, training, limits)
    device = plans.device_of(BY_NAME["train_device"].clean(record.device.partition(":")[0], limits))
    own = Plan(
        record.task, session.recipe, record.model, record.masks, training, record.seed, device, parameters, "",
        record.fault or NO_FAULT, corpus, "", session.lesson,
    )  # fmt: skip
    try:
        shown = plans.plan(session, limits, corpus)
    except Refusal:
        return own
    # Of two plans of one run, the page's own is taken: it says of itself what the controls say.
    told = replace(own, instead_of=shown.instead_of, named=shown.named)
    return shown if told == shown else own


def refuse_large(record: RunRecord, limits: Limits) -> None:
    """The same limits as for the controls, for numbers that never passed one.

    Raises:
        Refusal: the first number that is out of its range, with the nearest.
    """
    recipe = {"steps": record.training.total_steps, "train_batch": record.training.batch_size, "lr": record.training.lr,
              "train_seed": record.seed}  # fmt: skip
    sizes = {name: getattr(record.model, name) for name in MODEL if BY_NAME[name].kind == "int"}
    for name, value in (recipe | sizes).items():
        BY_NAME[name].clean(value, limits)
    if record.model.max_seq_len > MAX_POSITIONS:
        raise Refusal("record_positions", given=f"{record.model.max_seq_len:,}", high=f"{MAX_POSITIONS:,}")


def corpus_of(record: RunRecord, held: Corpus | None) -> Corpus | None:
    """The sentences of a record of a translation: none where they are the built-in ones as every tab has them.

    Raises:
        Refusal: they are another file than the one the tab holds, read with other options, or it holds none.
    """
    if record.task != TRANSLATION or record.corpus is None:
        return None
    from transformer_core import translation  # read late: the other tasks have no sentences

    options = record.corpus["options"]
    if record.corpus["sha256"] == translation.builtin().sha256:
        return translation.builtin("backward") if options.get("direction") == "backward" else None
    asked = {key: value for key, value in getattr(held, "options", {}).items() if key != "languages"}
    if held is not None and record.corpus["sha256"] == held.sha256 and asked.items() <= options.items():
        return held
    raise Refusal("record_sentences", name=str(record.corpus["name"])[:80])


# ------------------------------------------------------------------------------------------------------------- controls


def session_of(record: RunRecord, base: Session | None = None) -> Session:
    """The choices of the page that come nearest to this record; what it has no control for stays as it was."""
    task, training = tasks.get(record.task), record.training
    named = on_page({
        "task": record.task, "steps": training.total_steps, "batch_size": training.batch_size, "lr": training.lr,
        "optimizer": training.optimizer, "schedule": training.schedule, "warmup": training.warmup,
        "dropout": record.model.dropout, "label_smoothing": training.label_smoothing, "clip_norm": training.clip_norm,
        "seed": record.seed, "device": record.device.partition(":")[0],
    })  # fmt: skip
    model, masks = record.model.replace(dropout=task.model.dropout), record.masks
    own = record.corpus is not None or (model, masks) == (task.model, task.masks)
    recipe = task.training.replace(task=record.task, steps=training.total_steps, epochs=None)
    plain = own and training.replace(steps=training.total_steps, epochs=None) == recipe
    lesson = "" if plain else lessons.of(record.task, record.model, record.masks, training)
    changes = named | {"recipe": "task" if own or lesson else "mine", "lesson": lesson or lessons.NONE}
    changes |= {"fault": record.fault or NO_FAULT}
    if changes["recipe"] == "mine":
        changes |= explore_changes(record)
    return (base or Session.of_preset()).change(**changes)


def explore_changes(record: RunRecord) -> dict[str, Any]:
    """The controls of Explore for the model and masks of a record, where it has a choice for them."""
    changes: dict[str, Any] = {}
    for name in MODEL:
        value = getattr(record.model, name)
        if not BY_NAME[name].choices or value in BY_NAME[name].choices:
            changes[name] = value
    for name in ATTENTIONS:
        changes[name] = tuple(rule for rule in getattr(record.masks, name) if rule != "custom")
    return changes | {"fill": record.masks.fill}


def train_values(session: Session) -> list[Any]:
    """The controls of the sidebar of Train, in their order; of the devices, it has those of this host."""
    session = session.change(train_device=plans.device_of(session.train_device))
    return [getattr(session, name) for name in TRAINING]


def without_control(record: RunRecord, planned: Plan) -> list[str]:
    """The settings of a record that no control of the page can show: its repeat has them, a Rewind has not."""
    pairs = ((record.model, planned.model), (record.masks, planned.masks), (record.training, planned.training))
    names = [
        field.name
        for mine, theirs in pairs
        for field in dataclasses.fields(mine)
        if getattr(mine, field.name) != getattr(theirs, field.name) and field.name != "epochs"
    ]
    if record.model.positions != "learned":  # a longer table of sines begins with the shorter one
        names = [name for name in names if name != "max_seq_len"]
    return names + (["rate_changes"] if record.rate_changes else [])


# ----------------------------------------------------------------------------------------------------------- comparison


def light(record: RunRecord) -> RunRecord:
    """What a browser keeps: the settings, and of the curve the last loss alone, by which a repeat is compared."""
    result = {key: value for key, value in (record.result or {}).items() if isinstance(value, (int, float, str))}
    if record.losses:
        result[LAST_LOSS] = record.losses[-1]
    return dataclasses.replace(record.without_curves(), result=result)


def compared(record: RunRecord, reports: Sequence[StepReport], differs: int) -> dict[str, Any]:
    """How the losses of a run that repeats this record compare with its own; ``differs`` as the run has it."""
    step = len(reports)
    told: dict[str, Any] = {"step": step, "to": record.steps, "differs": differs, "here": None, "there": None}
    if record.losses:
        told["compared"] = min(step, len(record.losses))
        if differs:
            told |= {"here": reports[differs - 1].loss, "there": record.losses[differs - 1]}
    else:
        last = (record.result or {}).get(LAST_LOSS)
        known = isinstance(last, float) and 0 < record.steps <= step
        told["compared"] = int(known)
        if known and reports[record.steps - 1].loss != last:
            told |= {"differs": record.steps, "here": reports[record.steps - 1].loss, "there": last}
    return told | {"curve": bool(record.losses), "elsewhere": elsewhere(record)}


def elsewhere(record: RunRecord) -> list[dict[str, str]]:
    """What of the machine is not as it was recorded: the reasons why a last digit may differ."""
    here: Mapping[str, Any] = {
        "torch": torch.__version__, "platform": machine(), "threads": torch.get_num_threads(),
        "python": platform.python_version(), "source": fingerprint(),
    }  # fmt: skip
    found = []
    for name, value in here.items():
        recorded = getattr(record, name)
        if recorded and recorded != value:
            short = 8 if name == "source" else 80
            found.append({"name": name, "from": str(recorded)[:short], "to": str(value)[:short]})
    return found
