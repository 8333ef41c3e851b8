"""``lessons``: the questions with their measured answers; or one of them, run again on this machine."""

import argparse
import dataclasses
import json
import platform
import textwrap
from collections.abc import Iterator, Sequence

import torch

from transformer_core.commands.common import WIDTH, Parser, checked_seed, print_lines, refuse_unused, table
from transformer_core.commands.train import SEED
from transformer_core.experiments import LESSONS, Lesson, Measured, get, run_lesson

HELP = "questions about the Transformer with measured answers; with a name, run that lesson again"
COLUMNS = ("variant", "seed", "steps", "loss", "new", "tokens", "alone", "whole", "sure", "sharp", "seconds")
LEGEND = (
    "loss: the mean of the last 20 steps of training, label smoothing included. All behind it is of new questions. "
    "new: the loss without smoothing. tokens: those that are right, the right beginning being given; alone: where the "
    "model has only its own words. whole: answers right as a whole, decoded as the variant says. sure: the probability "
    "of the likeliest token. sharp: the largest weight of each query, before training and after. seconds: of CPU."
)


def arguments(one: Parser) -> None:
    one.add_argument("name", nargs="?", metavar="NAME", help=f"one lesson: {', '.join(LESSONS)}; default all, not run")
    one.add_argument("--seed", type=int, help="of weights and questions (7)")
    one.add_argument("--steps", type=int, help="how many steps each variant takes (the lesson's own)")


def run(options: argparse.Namespace) -> int:
    refuse_unused(options, dict.fromkeys(("seed", "steps"), (options.name is not None, "the name of a lesson")))
    if options.name is None:
        if options.json:
            print(json.dumps({name: told(lesson) for name, lesson in LESSONS.items()}, ensure_ascii=False))
        else:
            for lesson in LESSONS.values():
                print_lines(portrait(lesson))
            print_lines(textwrap.wrap(LEGEND, WIDTH))
        return 0
    lesson, seed = get(options.name), checked_seed(SEED if options.seed is None else options.seed)
    if not options.json:
        print_lines(portrait(lesson))
        print(f"Again, seed {seed}, cpu, torch {torch.__version__}, {torch.get_num_threads()} threads:", flush=True)
    found = []
    for progress in run_lesson(lesson.name, seed, options.steps):
        if progress.measured is not None:
            found.append(progress.measured)
            if not options.json:
                print(f"  {progress.variant} is measured", flush=True)
    if options.json:
        about = {"seed": seed, "torch": torch.__version__, "device": "cpu", "threads": torch.get_num_threads(),
                 "python": platform.python_version()}  # fmt: skip
        runs = [dataclasses.asdict(each) for each in found]
        print(json.dumps(told(lesson) | about | {"runs": runs}, ensure_ascii=False))
    else:
        print_lines(results(found))
        print_lines(["", *textwrap.wrap(LEGEND, WIDTH)])
    return 0


def told(lesson: Lesson) -> dict[str, object]:
    """The lesson as plain data, with what was measured when its answer was written."""
    texts = {name: getattr(lesson, name) for name in ("name", "title", "question", "answer", "task", "command")}
    runs = [dataclasses.asdict(each) for each in lesson.measured]
    return {**texts, "measured_with": f"torch {lesson.torch}", "measured": runs}


def portrait(lesson: Lesson) -> Iterator[str]:
    """The question, the answer, and the runs that it quotes."""
    yield f"{lesson.name}: {lesson.title}"
    for text in (lesson.question, lesson.answer):
        yield from textwrap.wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ")
    yield f"  Measured with torch {lesson.torch}, one thread; python -m benchmarks.lessons {lesson.name}:"
    yield from results(lesson.measured)
    yield ""


def results(runs: Sequence[Measured]) -> Iterator[str]:
    """A row for each run."""
    rows = [
        (each.variant, str(each.seed), str(each.steps), f"{each.loss:.3f}", f"{each.held_out_loss:.3f}",
         f"{each.token:.1%}", f"{each.token_alone:.1%}", f"{each.exact:.1%}", f"{each.confidence:.1%}",
         f"{each.sharp_before:.2f} {each.sharp:.2f}", f"{each.seconds:.0f}")
        for each in runs
    ]  # fmt: skip
    for line in table(COLUMNS, rows, right=range(1, len(COLUMNS)), flexible=0):
        yield f"  {line}"
