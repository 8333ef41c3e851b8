"""The command line: ``python -m transformer_core check | ledger | train | presets``.

Results go to stdout, refusals to stderr as one sentence. The exit status is 0, 1 when a check fails or a training
breaks down, 2 when what was asked for cannot be, 130 after Ctrl-C.
"""

import argparse
import json
import math
import os
import platform
import shutil
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, NoReturn

import torch

from transformer_core import tasks
from transformer_core.batches import Batch, batch_sizes
from transformer_core.checked import check_whole
from transformer_core.checks import STRUCTURE, CheckResult, examine
from transformer_core.config import DataConfig, ModelConfig
from transformer_core.cost import Cost, estimate
from transformer_core.ledger import Ledger, trace
from transformer_core.model import Transformer, build
from transformer_core.presets import Preset, apply_settings, load_preset, preset_names
from transformer_core.tasks import Task
from transformer_core.training import MAX_SEED, Evaluation, NonFinite, StepReport, evaluate, train

WIDTH = 120
"""No line of a table is longer."""
BAR = 79
"""The width of the progress bar: a line that wraps could not be written over."""
MAX_PARAMETERS, MAX_LEDGER_BYTES = 100_000_000, 256 << 20
"""Above either, a model is laid out on the device "meta": it has shapes but no numbers."""
MAX_TRAINING_BYTES = 2 << 30
"""Above it, the tensors of one training step are too many."""
QUESTIONS = 1000
"""How many new questions a trained model is asked."""
LEARNED = 0.99
"""The share of whole answers that must be right before this program says that a task was learned."""
FAILED, REFUSED, STOPPED, CLOSED = 1, 2, 130, 141
"""Exit statuses; the last two are those of a program that Ctrl-C or a closed pipe ends."""


class Parser(argparse.ArgumentParser):
    """Refuses with one sentence instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(REFUSED, f"{message[:1].upper()}{message[1:]}. {self.prog} --help shows what there is.\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # a sign that the terminal lacks is printed as "?", and ends nothing
            stream.reconfigure(errors="replace")
    try:
        status = run(arguments)
        if sys.stdout is not None:  # closed from the start
            sys.stdout.flush()
        return status
    except NonFinite as error:
        return comfinite(error, FAILED)
    except ValueError as error:
        return comfinite(error, REFUSED)
    except KeyboardInterrupt:
        return comfinite("Stopped by Ctrl-C; nothing was saved.", STOPPED)
    except BrokenPipeError:  # whoever reads, for example head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python flushes once more and complains
        return CLOSED
    except OSError as error:  # a full disk, for example
        return comfinite(f"The output cannot be written: {error.strerror}.", FAILED)


def comfinite(error: object, status: int) -> int:
    if sys.stderr is not None:
        print(error, file=sys.stderr)
    return status


def run(arguments: Sequence[str] | None) -> int:
    options = parser().parse_args(arguments)
    status: int = options.command(options)
    return status


def parser() -> Parser:
    top = Parser(prog="python -m transformer_core", description="A hand-written Transformer, looked at from outside.")
    commands = top.add_subparsers(required=True, metavar="check | ledger | train | presets")

    def command(name: str, function: Any, text: str) -> Parser:
        one: Parser = commands.add_parser(name, help=text, description=text)
        one.set_defaults(command=function)
        one.add_argument("--json", action="store_true", help="plain data instead of text")
        return one

    def asks_for_a_model(one: Parser, preset: str | None) -> None:
        one.add_argument("--preset", default=preset, metavar="NAME_OR_FILE", help="a preset, or a TOML file")
        one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings",
                         help="change one setting, as in d_model=128 or masks.fill=-inf; may be repeated")  # fmt: skip
        one.add_argument("--seed", type=int, default=7, help="of weights and tokens (7)")

    check = command("check", check_command, "run a model once and print every check with its verdict")
    asks_for_a_model(check, "first_look")
    ledger = command("ledger", ledger_command, "run a model once and list every tensor")
    asks_for_a_model(ledger, "first_look")
    ledger.add_argument("--shapes-only", action="store_true", help="lay the model out without numbers")
    trains = command("train", train_command, "train a model on a toy task, by default as the task's recipe says")
    trains.add_argument("task", metavar=" | ".join(tasks.TASKS), help="the task")
    asks_for_a_model(trains, None)
    trains.add_argument("--steps", type=int, help="how many steps to take (the recipe's)")
    command("presets", presets_command, "list the presets with their sizes and costs")
    return top


# check


def check_command(options: argparse.Namespace) -> int:
    preset = apply_settings(load_preset(options.preset), options.settings)
    model, batch, shapes_only = prepare(preset, options.seed)
    ledger, results = examine(model, batch)
    if options.json:
        about = setting(preset, options.seed, shapes_only)
        about["shapes"] = {entry.key: list(entry.shape) for entry in ledger}
        about["checks"] = [each.to_row() for each in results]
        print(json.dumps(about, ensure_ascii=False))
    else:
        print_lines(introduction(preset, options.seed, shapes_only))
        print_lines(shape_lines(ledger))
        for result in results:
            print_lines(check_lines(result))
        print(verdict(results, shapes_only))
    return 0 if all(result.passed for result in results) else FAILED


def check_lines(result: CheckResult) -> Iterator[str]:
    """A check in four lines: mark and name, claim, finding, and the numbers that were compared."""
    signs = {"holds": "✓", "fails": "✗", "note": "!"}
    word = "fails" if not result.passed else "note" if result.warning else "holds"
    yield f"{mark(signs[word], word)} {result.name}"
    yield from textwrap.wrap(result.claim, WIDTH, initial_indent="    ", subsequent_indent="    ")
    yield from textwrap.wrap(result.finding, WIDTH, initial_indent="    ", subsequent_indent="    ")
    tolerance = f", tolerance {result.tolerance:.3g}" if result.tolerance else " exactly"
    yield f"    measured {number(result.measured)}, expected {number(result.expected)}{tolerance}"


def verdict(results: list[CheckResult], shapes_only: bool) -> str:
    failed = [result.name for result in results if not result.passed]
    warned = [result.name for result in results if result.warning]
    lines = [f"{len(results) - len(failed)} of {len(results)} checks hold"]
    lines += [f"{', '.join(failed)} failed"] if failed else []
    lines += [f"look at {', '.join(warned)}"] if warned else []
    lines += [f"only structure (level {STRUCTURE}) can be checked without numbers"] if shapes_only else []
    return "; ".join(lines) + "."


def shape_lines(ledger: Ledger) -> Iterator[str]:
    """Input, memory, output, and the weights of all attentions of one kind in one line."""
    ends = [entry for entry in ledger if entry.name in ("src", "tgt", "memory", "logits")]
    yield "    ".join(f"{entry.name} {entry.shape}" for entry in ends)
    alike: dict[tuple[str, tuple[int, ...]], int] = {}
    for entry in ledger:
        if entry.name == "weights":
            side, *_, attention = entry.path.split(".")
            place = f"{side} {attention}", entry.shape
            alike[place] = alike.get(place, 0) + 1
    for (attention, shape), layers in alike.items():
        yield f"{attention} weights {shape} in " + (f"each of {layers} layers" if layers > 1 else "its one layer")
    yield ""


# ledger


def ledger_command(options: argparse.Namespace) -> int:
    preset = apply_settings(load_preset(options.preset), options.settings)
    model, batch, shapes_only = prepare(preset, options.seed, options.shapes_only)
    with torch.no_grad(), trace(model) as ledger:
        model(batch.src, batch.tgt)
    if options.json:
        if shapes_only:
            print(*introduction(preset, options.seed, shapes_only), sep="\n", file=sys.stderr)
        print(json.dumps([finite(row) for row in ledger.to_rows()], ensure_ascii=False, indent=1))
        return 0
    print_lines(introduction(preset, options.seed, shapes_only))
    rows = ledger.to_rows(statistics=False)
    header = ("#", "tensor", "axes", "shape", "dtype", "bytes", "paper", "source")
    cells = [(str(row["index"]), f"{row['path']}/{row['name']}" if row["path"] else row["name"], row["axes"],
              " x ".join(map(str, row["shape"])), row["dtype"], f"{row['bytes']:,}", row["paper"],
              row["source"].rpartition("/")[2]) for row in rows]  # fmt: skip
    print_lines(table(header, cells, right=(0, 5), flexible=1))
    print(f"{len(ledger)} tensors, {ledger.total_bytes:,} bytes")
    return 0


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int], flexible: int) -> Iterator[str]:
    """Columns side by side in at most ``WIDTH`` signs; if need be, the ``flexible`` column loses its beginning."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    widths[flexible] -= max(0, sum(widths) + 2 * (len(widths) - 1) - WIDTH)
    for row in (header, *rows):
        padded = []
        for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
            fitted = cell if len(cell) <= width else "~" + cell[len(cell) - width + 1 :]
            padded.append(fitted.rjust(width) if i in right else fitted.ljust(width))
        yield "  ".join(padded).rstrip()


# train


def train_command(options: argparse.Namespace) -> int:
    task = tasks.get(options.task)
    preset = recipe(task, options)
    seed = checked_seed(options.seed)
    model = build(preset.model, preset.masks, seed=seed)
    total = preset.training.total_steps
    if options.json:
        say = json_line
    else:
        say = progress_bar if sys.stdout.isatty() else progress_line
        print_lines(training_introduction(task, preset, seed))
    started = time.perf_counter()
    try:
        for report in train(model, task, preset.training, seed):
            say(report, total)
    except BaseException:
        if say is progress_bar:
            print()  # what comes next does not belong on the bar's line
        raise
    seconds = time.perf_counter() - started
    result = evaluate(model, task, QUESTIONS, seed)
    if options.json:
        chance = {"chance_accuracy": task.chance_accuracy, "blind_accuracy": task.blind_accuracy,
                  "chance_loss": task.chance_loss}  # fmt: skip
        learned = result.exact_match >= LEARNED
        line = {"evaluation": asdict(result), **chance, "learned": learned, "steps": total, "seconds": seconds}
        print(json.dumps(finite(line)))
    else:
        print_lines(outcome(task, preset, result, seconds))
    return 0


def recipe(task: Task, options: argparse.Namespace) -> Preset:
    """The task's own recipe, or the model and training of a preset fitted to the task; then what ``--set`` changes.

    Raises:
        ConfigError: a setting that cannot be.
        ValueError: a setting that the task does not allow.
    """
    one_token = DataConfig(src_len=1, tgt_len=1)
    if options.preset is None:
        base = Preset(name=task.name, model=task.model, masks=task.masks, training=task.training, data=one_token)
    else:
        given = load_preset(options.preset)
        training = given.training.replace(task=task.name)
        base = given.replace(model=task.fit(given.model), training=training, data=one_token)
    changed = apply_settings(base, options.settings)
    if options.steps is not None:
        changed = changed.replace(training=changed.training.replace(steps=options.steps, epochs=None))
    for what, now, was in (("training.task", changed.training.task, task.name), ("data", changed.data, one_token)):
        if now != was:
            raise ValueError(f"{what} cannot be set here: {task.name} was asked for, and it makes its own questions")
    task.check(changed.model)
    example = task.sample(1, torch.Generator().manual_seed(0))
    lengths = (1 if ids is None else ids.shape[1] for ids in (example.src, example.tgt))
    price = estimate(changed.model, changed.training.batch_size, *lengths)
    if price.parameters > MAX_PARAMETERS or price.activation_bytes > MAX_TRAINING_BYTES:
        raise ValueError(
            f"{price.parameters:,} parameters and {price.activation_bytes / 2**20:,.0f} MiB of tensors a step are too "
            f"large to train here; at most {MAX_PARAMETERS:,} and {MAX_TRAINING_BYTES / 2**20:,.0f} MiB are not"
        )
    return changed


def training_introduction(task: Task, preset: Preset, seed: int) -> Iterator[str]:
    how = preset.training
    rate = f"rate {how.lr:g}"
    if how.schedule == "warmup":
        rate += f" x equation 3, warm-up {how.warmup}"
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


# presets


def presets_command(options: argparse.Namespace) -> int:
    found = [load_preset(name) for name in preset_names()]
    if options.json:
        rows = [{"name": each.name, "title": each.title, "lesson": each.lesson, "model": each.model.to_dict(),
                 "cost": asdict(cost(each))} for each in found]  # fmt: skip
        print(json.dumps(rows, ensure_ascii=False, indent=1))
        return 0
    header = ("name", "title", "model", "parameters", "MFLOP", "ledger KiB")
    cells = []
    for each in found:
        price = cost(each)
        figures = f"{price.parameters:,}", f"{price.flops / 1e6:,.1f}", f"{price.activation_bytes / 1024:,.1f}"
        cells.append((each.name, each.title, describe(each.model), *figures))
    print_lines(table(header, cells, right=(3, 4, 5), flexible=1))
    large = [each.name for each in found if too_large(cost(each))]
    if large:
        print(f"Too large to compute here, so shapes only: {', '.join(large)}.")
    return 0


# What the commands share.


def prepare(preset: Preset, seed: int, shapes_only: bool = False) -> tuple[Transformer, Batch, bool]:
    """The preset's model in evaluation mode with its batch, and whether it has shapes only because it is too large."""
    shapes_only = shapes_only or too_large(cost(preset))
    model = build(preset.model, preset.masks, seed=checked_seed(seed), device="meta" if shapes_only else "cpu").eval()
    batch = preset.batch(seed)
    if shapes_only:
        src, tgt = (None if ids is None else ids.to("meta") for ids in (batch.src, batch.tgt))
        batch = Batch(src, tgt)
    return model, batch, shapes_only


def checked_seed(seed: int) -> int:
    check_whole("seed", seed, 0, MAX_SEED)
    return seed


def finite(value: Any) -> Any:
    """The same data with None where JSON has no number."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def cost(preset: Preset) -> Cost:
    return estimate(preset.model, *batch_sizes(preset.model, preset.data))


def too_large(price: Cost) -> bool:
    return price.parameters > MAX_PARAMETERS or price.activation_bytes > MAX_LEDGER_BYTES


def setting(preset: Preset, seed: int, shapes_only: bool) -> dict[str, Any]:
    """Where the numbers are from: a result without it says nothing."""
    return {
        "preset": preset.name,
        "seed": seed,
        "device": "meta" if shapes_only else "cpu",
        "dtype": "float32",
        "mode": "eval",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "model": preset.model.to_dict(),
        "masks": preset.masks.to_dict(),
    }


def introduction(preset: Preset, seed: int, shapes_only: bool) -> Iterator[str]:
    price = cost(preset)
    yield f"{preset.name}: {describe(preset.model)}, {price.parameters:,} parameters"
    yield f"torch {torch.__version__}, seed {seed}, evaluation mode, float32, device {'meta' if shapes_only else 'cpu'}"
    if shapes_only:
        size = f"{price.parameters:,} parameters and {price.activation_bytes:,} bytes of tensors"
        yield f"Shapes only: {size} are laid out, not computed."
    yield ""


def describe(model: ModelConfig) -> str:
    """The sizes of a model in one breath: "encoder_decoder 2 + 2, d 64, h 4, ff 128"."""
    layers = [str(model.n_encoder_layers)] * model.has_encoder + [str(model.n_decoder_layers)] * model.has_decoder
    return f"{model.architecture} {' + '.join(layers)}, d {model.d_model}, h {model.n_heads}, ff {model.d_ff}"


def number(value: float) -> str:
    """A whole number as such, any other with three digits."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"


def mark(sign: str, word: str) -> str:
    """The sign, or the word where the terminal cannot show it."""
    try:
        sign.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return word
    return sign


def print_lines(lines: Iterator[str]) -> None:
    for line in lines:
        print(line)


if __name__ == "__main__":
    sys.exit(main())
