"""``train``: trains a model on a task and says what it can do then, beside what guessing gives; or resumes a run."""

import argparse
import json
import math
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from transformer_core import tasks
from transformer_core.commands.common import (
    MAX_PARAMETERS,
    STOPPED,
    Parser,
    asks_for_a_model,
    checked_seed,
    describe,
    finite,
    print_lines,
)
from transformer_core.commands.keeping import Keeper, asks_for_files, read_run
from transformer_core.commands.pairs import asks_for_pairs, corpus_of
from transformer_core.config import DataConfig, ModelConfig, TrainConfig
from transformer_core.cost import estimate
from transformer_core.model import Transformer, build
from transformer_core.presets import Preset, apply_settings, load_preset
from transformer_core.records import RunRecord, resume
from transformer_core.records.replaying import task_of
from transformer_core.tasks import Task
from transformer_core.training import Evaluation, StepReport, Training, evaluate, train

HELP = "train a model on a task, by default as the task's recipe says, or go on with a run"
SEED = 7
ONE_TOKEN = DataConfig(src_len=1, tgt_len=1)
"""Data for presets whose task makes its own."""
BAR = 79
"""The width of the progress bar: a line that wraps could not be written over."""
MAX_TRAINING_BYTES = 2 << 30
"""Above it, the tensors of one training step are too many."""
QUESTIONS = 1000
"""How many new questions a trained model is asked."""
LEARNED = 0.99
"""The share of whole answers that must be right before this program says that a task was learned."""


def arguments(one: Parser) -> None:
    one.add_argument("task", nargs="?", metavar=" | ".join(tasks.TASKS), help="the task")
    asks_for_a_model(one, None)
    one.set_defaults(seed=None)
    one.add_argument("--steps", type=int, help="how many steps to take (the recipe's)")
    one.add_argument("--resume", type=Path, metavar="RECORD", help="go on with a run from its record or its weights")
    asks_for_pairs(one)
    asks_for_files(one)


def run(options: argparse.Namespace) -> int:
    start, corpus, model, training = resumed(options) if options.resume is not None else begun(options)
    task, seed, total = task_of(start, corpus), start.seed, start.training.total_steps
    preset = Preset(name=task.name, model=start.model, masks=start.masks, training=start.training, data=ONE_TOKEN)
    keeper = Keeper(options, start, model, training, corpus)
    if options.json:
        say = json_line
    else:
        say = progress_bar if sys.stdout.isatty() else progress_line
        print_lines(training_introduction(task, preset, seed))
        if start.steps:
            print(f"The {start.steps} steps of the record were taken; from here on it is the same run.\n")
    ended, result = "failed", None
    try:
        with interrupted_between_steps() as stop_if_asked:
            for report in training:
                keeper.step(report)
                say(report, total)
                stop_if_asked()
        ended = "finished"
        result = evaluate(model, task, QUESTIONS, seed)
    except KeyboardInterrupt:
        if not keeper.paths:
            raise
        ended = "finished" if ended == "finished" else "paused"
    finally:
        if result is None:
            if say is progress_bar:
                print()  # what comes next does not belong on the bar's line
            kept = list(keeper.save(ended))
    if result is None:
        print(f"Stopped by Ctrl-C after step {training.step}; kept: {', '.join(kept)}.", file=sys.stderr)
        return STOPPED
    seconds = keeper.record("finished").seconds
    files = list(keeper.save("finished", asdict(result)))
    if options.json:
        chance = {"chance_accuracy": task.chance_accuracy, "blind_accuracy": task.blind_accuracy,
                  "chance_loss": task.chance_loss}  # fmt: skip
        learned = result.exact_match >= LEARNED
        line = {"evaluation": asdict(result), **chance, "learned": learned, "steps": total, "seconds": seconds}
        print(json.dumps(finite(line)))
    else:
        print_lines([*outcome(task, preset, result, seconds), *files])
    return 0


@contextmanager
def interrupted_between_steps() -> Iterator[Callable[[], None]]:
    """Ctrl-C takes effect where the function given is called; a second one at once.

    In the middle of a step the batch is drawn and some weights have moved: no run goes on from there as if it had not
    been stopped.
    """
    asked: list[int] = []

    def remember(number: int, frame: object) -> None:
        asked.append(number)
        if len(asked) > 1:
            raise KeyboardInterrupt

    def stop_if_asked() -> None:
        if asked:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # signals go to the main thread only
        yield stop_if_asked
        return
    before = signal.signal(signal.SIGINT, remember)
    try:
        yield stop_if_asked
    finally:
        signal.signal(signal.SIGINT, before)


Run = tuple[RunRecord, Any, Transformer, Training]
"""What was run so far, the corpus of a translation, and model and training at that step."""


def begun(options: argparse.Namespace) -> Run:
    """A run before its first step, as the options have it.

    Raises:
        ValueError: no task, or a setting that cannot be.
    """
    if options.task is None:
        raise ValueError(f"name a task to train: {', '.join(tasks.TASKS)}; or a run to go on with, as --resume RECORD")
    task = tasks.get(options.task)
    if options.pairs is not None:
        raise ValueError("--pairs goes with --resume; translate --pairs FILE learns from a file of sentence pairs")
    preset, seed = recipe(task, options), checked_seed(SEED if options.seed is None else options.seed)
    model = build(preset.model, preset.masks, seed=seed)
    start = RunRecord(task=task.name, model=preset.model, masks=preset.masks, training=preset.training, seed=seed)
    return start, None, model, train(model, task, preset.training, seed)


def resumed(options: argparse.Namespace) -> Run:
    """A run where its record left it.

    Raises:
        ValueError: the record cannot be read, is of another task, is complete, or its run cannot be repeated here.
    """
    given = {"--preset": options.preset, "--set": options.settings or None, "--seed": options.seed,
             "--steps": options.steps}  # fmt: skip
    if wrong := [name for name, each in given.items() if each is not None]:
        raise ValueError(f"{wrong[0]} does not go with --resume: a run goes on with the settings of its record")
    record, weights = read_run(options.resume)
    if options.task is not None:
        record.check_task(options.task)
    corpus = corpus_of(record, options)
    task = task_of(record, corpus)
    refuse_large(task, record.model, record.training)
    if record.steps >= record.training.total_steps:
        raise ValueError(f"this run has taken all its {record.steps} steps; replay repeats it")
    torch.set_num_threads(record.threads)
    model, training = resume(record, weights, corpus)
    return record, corpus, model, training


def recipe(task: Task, options: argparse.Namespace) -> Preset:
    """The task's own recipe, or the model and training of a preset fitted to the task; then what ``--set`` changes.

    Raises:
        ConfigError: a setting that cannot be.
        ValueError: a setting that the task does not allow.
    """
    if options.preset is None:
        base = Preset(name=task.name, model=task.model, masks=task.masks, training=task.training, data=ONE_TOKEN)
    else:
        given = load_preset(options.preset)
        training = given.training.replace(task=task.name)
        base = given.replace(model=task.fit(given.model), training=training, data=ONE_TOKEN)
    changed = apply_settings(base, options.settings)
    if options.steps is not None:
        changed = changed.replace(training=changed.training.replace(steps=options.steps, epochs=None))
    for what, now, was in (("training.task", changed.training.task, task.name), ("data", changed.data, ONE_TOKEN)):
        if now != was:
            raise ValueError(f"{what} cannot be set here: {task.name} was asked for, and it makes its own questions")
    refuse_large(task, changed.model, changed.training)
    return changed


def refuse_large(task: Task, model: ModelConfig, training: TrainConfig) -> None:
    """Passes when a model can be asked the task's questions, and trained here.

    Raises:
        ValueError: it does not fit the task, or is too large.
    """
    task.check(model)
    example = task.sample(1, torch.Generator().manual_seed(0))
    lengths = (1 if ids is None else ids.shape[1] for ids in (example.src, example.tgt))
    price = estimate(model, training.batch_size, *lengths)
    places = 0 if model.positions == "none" else model.max_seq_len * (model.has_encoder + model.has_decoder)
    needed = price.activation_bytes + 4 * places * model.d_model  # the tables of positions, whatever is read of them
    if price.parameters > MAX_PARAMETERS or needed > MAX_TRAINING_BYTES:
        raise ValueError(
            f"{price.parameters:,} parameters and {needed / 2**20:,.0f} MiB of tensors a step are too "
            f"large to train here; at most {MAX_PARAMETERS:,} and {MAX_TRAINING_BYTES / 2**20:,.0f} MiB are not"
        )


def training_introduction(task: Task, preset: Preset, seed: int) -> Iterator[str]:
    how = preset.training
    rate = f"rate {how.lr:g}"
    if how.schedule == "warmup":
        rate += f" x equation 3, warm-up {how.warmup}"
    elif how.schedule != "constant":
        rate += f" at most ({how.schedule})"
    yield f"{task.name}: {describe(preset.model)}"
    yield (
        f"{how.total_steps} steps of {how.batch_size}, {how.optimizer}, {rate}, seed {seed}, cpu, float32, "
        f"torch {torch.__version__}"
    )
    yield ""


def progress_line(report: StepReport, total: int) -> None:
    """About ten lines a run, and every line that has something to note."""
    if report.step in (1, total) or report.step % max(1, total // 10) == 0 or report.note:
        print(f"step {report.step:>{len(str(total))}}/{total}  {figures(report)}", flush=True)
        if report.note:
            print(f"  {report.note}")


def progress_bar(report: StepReport, total: int) -> None:
    """One line that is written over again: about a hundred times a run, since a terminal is slower than a step."""
    if report.step in (1, total) or report.step % max(1, total // 100) == 0:
        bar = f"[{'#' * (24 * report.step // total):.<24}] {report.step}/{total}  {figures(report)}"
        end = "\n" if report.step == total else ""
        width = min(BAR, shutil.get_terminal_size().columns - 1)
        print(f"\r{bar[:width]:<{width}}", end=end, flush=True)


def figures(report: StepReport) -> str:
    return (
        f"loss {report.loss:.4f}  accuracy {report.accuracy:.3f}  {report.tokens_per_second:,.0f} tokens/s  "
        f"rate {report.rate:.2e}  gradient {report.grad_norm:.3g}"
    )


def json_line(report: StepReport, total: int) -> None:
    print(json.dumps(finite(asdict(report))), flush=True)


def outcome(task: Task, preset: Preset, result: Evaluation, seconds: float) -> Iterator[str]:
    """What the model can do now, beside what guessing gives; "learned" only when nearly every answer is right."""
    steps, accuracy = preset.training.total_steps, result.token_accuracy
    yield ""
    yield (
        f"After {steps} steps ({seconds:.1f} s), on {QUESTIONS:,} new questions: accuracy {accuracy:.1%}, "
        f"whole answers right {result.exact_match:.1%}, loss {result.loss:.4f}."
    )
    yield (
        f"Guessing evenly has accuracy {task.chance_accuracy:.1%} and loss {task.chance_loss:.4f}; the best answer "
        f"without reading the source has accuracy {task.blind_accuracy:.1%}."
    )
    error = math.sqrt(task.blind_accuracy * (1 - task.blind_accuracy) / QUESTIONS)
    if result.exact_match >= LEARNED:
        yield f"It has learned {task.name}, as far as these questions tell."
        return
    if accuracy > task.blind_accuracy + 3 * error:
        yield f"It has learned part of {task.name}: better than guessing, but not {LEARNED:.0%} of whole answers."
    else:
        yield f"It has not learned {task.name}: on {QUESTIONS:,} questions, guessing alone comes as close as this."
    if steps < task.training.total_steps:
        yield f"The task's own recipe takes {task.training.total_steps} steps."
