"""A run once more: its losses beside those recorded, or its next step where it was left."""

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch

from transformer_core.config import FIRST_FREE
from transformer_core.errors import ConfigError
from transformer_core.experiments.lesson import copy_of
from transformer_core.faults import FAULTS
from transformer_core.model import Transformer
from transformer_core.records.making import corpus_facts
from transformer_core.records.record import RunRecord
from transformer_core.records.weights import load_training, load_weights
from transformer_core.tasks import Task
from transformer_core.training import Training
from transformer_core.workshop import OWN, Workshop

LETTERS = range(1, 10_001)
"""How many letters a record may have them copy; a list of millions, out of a file of strangers, would take minutes."""


class Replayed(NamedTuple):
    """One step of a run that is repeated: its loss now and then, and whether they are one number."""

    step: int
    loss: float
    recorded: float | None
    """None where the record has no curve."""
    equal: bool


def shop_of(record: RunRecord) -> Workshop:
    """The code of the run: the library's own, or that with its fault."""
    return FAULTS[record.fault].shop if record.fault else OWN


def task_of(record: RunRecord, corpus: Any = None, shop: Workshop | None = None) -> Task:
    """The task of the run as its code has it: of a translation that of its corpus, of a lesson with its letters.

    Raises:
        ConfigError: the corpus is not the run's, or is needed and missing.
    """
    tasks = (shop or shop_of(record)).tasks
    sentences = corpus_of(record, corpus)
    task: Task = tasks.get(record.task) if sentences is None else tasks.task_of(sentences)
    letters = record.model.src_vocab_size - FIRST_FREE
    if record.task == "copy" and record.model.src_vocab_size != task.model.src_vocab_size and letters in LETTERS:
        return copy_of(letters)  # the lesson that has many letters
    return task


def corpus_of(record: RunRecord, corpus: Any = None) -> Any:
    """The corpus of a translation: the one given, or the built-in one; None for other tasks.

    Raises:
        ConfigError: it is not the one that the run learned from.
    """
    if record.task != "translation":
        return None
    from transformer_core.translation import builtin  # made when first asked for
    from transformer_core.translation.making import DIRECTIONS

    if corpus is None:
        asked = (record.corpus or {}).get("options", {}).get("direction")
        corpus = builtin(asked) if asked in DIRECTIONS else builtin()
    if record.corpus is not None:
        given = corpus_facts(corpus) or {}
        if any(given[key] != record.corpus[key] for key in given if key != "name"):
            said = f"{corpus.name} (sha256 {corpus.sha256})"
            raise ConfigError("record_corpus", field="corpus", given=said, name=record.corpus["name"],
                              wanted=record.corpus["sha256"])  # fmt: skip
    return corpus


def start(record: RunRecord, corpus: Any = None) -> tuple[Transformer, Training]:
    """The run before its first step.

    Raises:
        ConfigError: the corpus is not the run's, or is needed and missing; or there is no such device here.
        ValueError: the model does not fit the task.
    """
    check_device(record.device)
    shop = shop_of(record)
    task = task_of(record, corpus, shop)
    model = shop.model.build(record.model, record.masks, seed=record.seed, device=record.device)
    training = shop.training.train(model, task, record.training, record.seed, rate_changes=record.rate_changes)
    return model, training


def check_device(name: str) -> None:
    """Passes when torch can compute on this device here.

    Raises:
        ConfigError: it cannot, or there is no device of that name.
    """
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError, ImportError):  # what torch raises differs from device to device
        raise ConfigError("record_device", field="device", given=name) from None


def replay(record: RunRecord, steps: int | None = None, corpus: Any = None) -> Iterator[Replayed]:
    """Takes the run's steps again, ``steps`` of them or all, and compares each loss bit for bit.

    A step at which the run broke off is not repeated. torch computes with as many threads as it is set to; whoever
    wants the recorded number sets it before.

    Raises:
        ConfigError: the corpus is not the run's, or is needed and missing.
        NonFinite: a loss is not finite now, and was then.
    """
    _, training = start(record, corpus)
    for report in itertools.islice(training, record.steps if steps is None else min(steps, record.steps)):
        recorded = record.losses[report.step - 1] if record.losses else None
        yield Replayed(report.step, report.loss, recorded, recorded is None or report.loss == recorded)


def resume(record: RunRecord, checkpoint: bytes | None = None, corpus: Any = None) -> tuple[Transformer, Training]:
    """The run where it was left, ready for its next step; the loss of that step is the one it would have had.

    With a ``checkpoint``, weights saved with the state of the training, that takes a moment; without, every step is
    taken again.

    Raises:
        ConfigError: the checkpoint is of another run, or the corpus is.
        ValueError: a repeated loss is not the recorded one, or the checkpoint is of another step, so that it would not
            be the same run that goes on.
    """
    model, training = start(record, corpus)
    if checkpoint is not None and (state := load_training(checkpoint)) is not None:
        model.load_state_dict(load_weights(checkpoint)[1])
        training.restore(state)
        if (training.step, tuple(training.rate_changes)) != (record.steps, record.rate_changes):
            raise ValueError(
                f"the weights are those after step {training.step} with the rate changes {training.rate_changes}, and "
                f"the record beside them is of {record.steps} steps with {list(record.rate_changes)}; one was edited"
            )
        return model, training
    for report in itertools.islice(training, record.steps):
        if record.losses and report.loss != record.losses[report.step - 1]:
            raise ValueError(
                f"the loss of step {report.step} is {report.loss!r} here and {record.losses[report.step - 1]!r} in "
                f"the record, so this would be another run; it was recorded with torch {record.torch}, "
                f"{record.threads} threads, on {record.platform or 'another machine'}"
            )
    return model, training
