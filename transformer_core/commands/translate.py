"""``translate``: learns a corpus of sentence pairs, or takes weights that have, and translates what it is given."""

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from transformer_core.checked import check_whole
from transformer_core.commands.common import (
    MAX_WEIGHTS,
    Parser,
    checked_seed,
    describe,
    print_lines,
    read_file,
    refuse_unused,
)
from transformer_core.commands.keeping import check_can_be_written, write
from transformer_core.commands.pairs import asked_corpus, asks_for_pairs, corpus_of
from transformer_core.commands.train import SEED, json_line, progress_bar, progress_line, refuse_large
from transformer_core.model import Transformer, build
from transformer_core.presets import Preset, apply_settings
from transformer_core.records import load_weights, record_of, save_weights
from transformer_core.tasks.translation import task_of
from transformer_core.training import StepReport, train
from transformer_core.translating import MAX_WIDTH, score, translate
from transformer_core.translation import REASONS, Corpus, encode
from transformer_core.translation.making import DIRECTIONS

HELP = "learn to translate from sentence pairs, by default the built-in ones, and translate sentences"


CUTTING = ("min_count", "max_vocabulary", "max_length", "simplified")
"""What can be asked of a file of pairs; the built-in ones are kept as they are."""


def arguments(one: Parser) -> None:
    one.add_argument("sentences", nargs="*", metavar="SENTENCE", help="what to translate; none: the lines of stdin")
    asks_for_pairs(one)
    one.add_argument("--direction", metavar="|".join(DIRECTIONS),
                     help="forward translates from Chinese, or from the first column (forward)")  # fmt: skip
    one.add_argument("--min-count", type=int, help="words met less often are unknown (2)")
    one.add_argument("--max-vocabulary", type=int, help="the most words of a language (8000)")
    one.add_argument("--max-length", type=int, help="the longest sentence, in words and signs (20)")
    one.add_argument("--simplified", action="store_true", default=None,
                     help="turn traditional characters into simplified ones")  # fmt: skip
    one.add_argument("--seed", type=int, help="of weights and batches (7)")
    one.add_argument("--steps", type=int, help="how many steps to train (the recipe's)")
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                     help="change one setting of the recipe, as in d_model=192; may be repeated")  # fmt: skip
    one.add_argument("--weights", type=Path, metavar="FILE", help="weights to translate with, instead of training")
    one.add_argument("--save", type=Path, metavar="FILE", help="where to put the weights after training")
    one.add_argument("--width", type=int, default=1, help="of the beam; 1 takes the likeliest word each time (1)")


def run(options: argparse.Namespace) -> int:
    check_whole("width", options.width, 1, MAX_WIDTH)  # before a training of minutes, not behind it
    learns = options.weights is None
    refuse_unused(options, {
        **dict.fromkeys(("direction", "seed", "set", "steps", "save"), (learns, "a training, not with --weights")),
        **dict.fromkeys(CUTTING, (learns and options.pairs is not None, "a training from --pairs")),
    })  # fmt: skip
    if not learns:
        model, corpus = loaded(options)
    else:
        settings = {name: given for name in CUTTING if (given := getattr(options, name)) is not None}
        corpus = asked_corpus(options.pairs, options.direction or "forward", **settings)
        if options.json:
            print(json.dumps({"corpus": facts(corpus)}, ensure_ascii=False))
        else:
            print_lines(told(corpus))
        for line in options.sentences:
            encode(corpus, line)  # refused before a training of minutes, not behind it
        model = trained(corpus, options)
    judged = score(model, corpus, width=options.width)
    if options.json:
        print(json.dumps({"score": dataclasses.asdict(judged)}))
    else:
        figures = f"BLEU {judged.bleu:.2f}, chrF {judged.chrf:.2f} ({judged.signature})"
        print(f"\nOn {judged.n:,} held-out sentences: {figures}.")
    for line in sentences(options):
        ids = encode(corpus, line)
        answer = translate(model, corpus, [line], options.width)[0]
        if options.json:
            print(json.dumps({"source": line, "translation": answer, "unknown": ids.count(3)}, ensure_ascii=False))
        else:
            print_lines(["", line, f"  {answer}"])
            if ids.count(3):
                print(f"  ({ids.count(3)} of {len(ids)} words are not in the vocabulary)")
    return 0


def loaded(options: argparse.Namespace) -> tuple[Transformer, Corpus]:
    """The model of a weights file, with the corpus that it learned.

    Raises:
        ValueError: the file cannot be read or is of another task, or its corpus is another one than the given.
    """
    record, weights = load_weights(read_file(options.weights, "weights", MAX_WEIGHTS))
    corpus = corpus_of(record, options)
    if corpus is None:
        raise ValueError(f"{options.weights} holds the weights of the task {record.task}; translation is needed here")
    refuse_large(task_of(corpus), record.model, record.training)
    model = build(record.model, record.masks, device="cpu")
    model.load_state_dict(weights)
    return model.eval(), corpus


def trained(corpus: Corpus, options: argparse.Namespace) -> Transformer:
    """A model that has learned the corpus, by its recipe and what the options change of it.

    Raises:
        ValueError: a setting that cannot be, or weights that could not be saved.
    """
    if options.save is not None:
        check_can_be_written("save", options.save)
    task, seed = task_of(corpus), checked_seed(SEED if options.seed is None else options.seed)
    recipe = Preset(name=task.name, model=task.model, masks=task.masks, training=task.training)
    preset = apply_settings(recipe, options.set)
    if options.steps is not None:
        preset = preset.replace(training=preset.training.replace(steps=options.steps, epochs=None))
    if preset.training.task != task.name:
        raise ValueError(f"training.task cannot be set here: {task.name} is what is learned")
    refuse_large(task, preset.model, preset.training)
    model, total = build(preset.model, preset.masks, seed=seed), preset.training.total_steps
    say = json_line if options.json else progress_bar if sys.stdout.isatty() else progress_line
    if not options.json:
        print(f"{describe(preset.model)}; {total:,} steps of {preset.training.batch_size} pairs, seed {seed}, "
              f"torch {torch.__version__}\n")  # fmt: skip
    reports: list[StepReport] = []
    started = time.perf_counter()
    for report in train(model, task, preset.training, seed):
        say(report, total)
        reports.append(report)
    if options.save is not None:
        record = record_of(model=preset.model, masks=preset.masks, training=preset.training, seed=seed, corpus=corpus,
                           reports=reports, ended="finished", seconds=time.perf_counter() - started)  # fmt: skip
        write(options.save, save_weights(model, record))
    return model.eval()


def facts(corpus: Corpus) -> dict[str, Any]:
    content = {"name": corpus.name, "sha256": corpus.sha256}
    return {**content, "options": dict(corpus.options), "report": dict(corpus.report)}


def told(corpus: Corpus) -> Iterator[str]:
    """What became of the file, and how many of its words are known."""
    report = corpus.report
    yield (
        f"{corpus.name}: {report['read']:,} lines, {report['train']:,} pairs to learn, {report['held_out']:,} held out "
        "(no source is in both)"
    )
    for each in report["dropped"]:
        lines = ", ".join(map(str, each["lines"][:5])) + (", ..." if each["count"] > 5 else "")
        yield f"  left out, {REASONS[each['reason']]}: {each['count']:,} (line {lines})"
    for side, name in (("src", "source"), ("tgt", "target")):
        yield (
            f"  {name}: {report['kept_words'][side]:,} of {report['words'][side]:,} words have an id; unknown are "
            f"{report['unknown'][f'{side}_train']:.1%} of the words in training and "
            f"{report['unknown'][f'{side}_held_out']:.1%} of those held out"
        )
    yield ""


def sentences(options: argparse.Namespace) -> Iterator[str]:
    """Those of the command line, else the lines of stdin; at a terminal that gives neither, none."""
    if options.sentences:
        yield from options.sentences
    elif not sys.stdin.isatty():
        yield from (line.strip() for line in sys.stdin if line.strip())
