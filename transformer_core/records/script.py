"""A run as one file that needs torch and nothing else, written out of the library's own code."""

import functools
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch

from transformer_core.config import MaskConfig
from transformer_core.faults import FAULTS
from transformer_core.records.flatten import Part, StandIn, flatten
from transformer_core.records.pruning import Facts
from transformer_core.records.questions import drawn
from transformer_core.records.record import RunRecord
from transformer_core.records.replaying import corpus_of, shop_of, task_of
from transformer_core.records.settings import WIDTH, literal, plain_conditions, plain_settings
from transformer_core.records.sources import Library, Place
from transformer_core.rules import parse_rule
from transformer_core.workshop import PACKAGE

WITHOUT = frozenset({"parse(size, field)", "k, v = remembered(self, k, v)"})
"""Statements without effect in a training: one reads a text again only to refuse it, one asks a cache for decoding."""
PASSING = frozenset({"unread"})
"""Functions that hand their arguments on while no cache is open."""
RUN = '''
def main(steps: int) -> int:
    """Takes so many steps and gives 0, or 1 as soon as a loss is not the one recorded."""
    torch.set_num_threads(THREADS)  # a long sum is split among threads, and rounded differently
    model = build(ModelConfig(), MaskConfig(), seed=SEED, device=DEVICE)
    training = train(model, TASK, TrainConfig(), SEED, rate_changes=RATE_CHANGES)
    for _ in range(steps):
        report = next(training)
        print(f"step {report.step:>{len(str(steps))}}  loss {report.loss!r}", flush=True)
        if report.step <= len(RECORDED) and report.loss != RECORDED[report.step - 1]:
            print(f"Recorded was {RECORDED[report.step - 1]!r}: here the two runs part. Recorded with {MADE_WITH}.")
            return 1
    print(f"{min(steps, len(RECORDED))} of {steps} losses compared, all equal to the last digit.")
    return 0
'''
"""What the script does. ``RECORDED`` and the other names in capitals are set above it."""


@dataclass(frozen=True)
class Assembled:
    """What script and notebook share: a head in words, imports, the parts of the code bottom to top, and the run."""

    title: str
    head: str
    imports: tuple[str, ...]
    parts: tuple[Part, ...]


def standalone(record: RunRecord, corpus: Any = None) -> str:
    """A script that repeats the run of ``record`` and compares every loss with the one recorded.

    It is made of the library's own source, of a fault's if the run had one, so it cannot drift from what the library
    does; it needs torch and the standard library, reads and writes no file, and ends with 1 at the first loss that
    differs. A record without curves gives a script that has nothing to compare with. A translation needs its
    ``corpus``, unless that is the built-in one.

    Raises:
        ConfigError: the corpus is not the run's, or is needed and missing.
    """
    made = assemble(record, corpus)
    text = f'"""{made.title}\n\n{made.head}\n"""\n\nfrom __future__ import annotations\n\n' + "\n".join(made.imports)
    for part in made.parts:
        text += f"\n\n\n{heading(part)}\n\n{part.code.strip()}"
    return text + '\n\n\nif __name__ == "__main__":\n    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else STEPS))\n'


def heading(part: Part) -> str:
    """What a part is about, under a line that can be seen from afar."""
    words = textwrap.wrap(part.heading, WIDTH - 2, break_long_words=False)
    return "\n".join(["# " + "-" * (WIDTH - 2), *(f"# {line}" for line in words)])


def assemble(record: RunRecord, corpus: Any = None) -> Assembled:
    """The pieces of a program that repeats a run.

    Raises:
        ConfigError: the corpus is not the run's, or is needed and missing.
    """
    shop = shop_of(record)
    library = Library(shop.texts)
    questions = drawn(task_of(record, corpus, shop), corpus_of(record, corpus))
    stand_ins: dict[Place, StandIn] = {
        _place("config", type(section).__name__): functools.partial(plain_settings, library, section)
        for section in (record.model, record.masks, record.training)
    }
    if conditions := plain_conditions(record.masks):
        stand_ins[_place("rules", "condition")] = lambda used: conditions
    own = [("sys", ""), ("types", "SimpleNamespace"), ("dataclasses", "dataclass"), ("torch", ""), *questions.imports]
    roots = [_place("model", "build"), *questions.places, _place("training.run", "train"), *list(stand_ins)[:3]]
    program = flatten(library, facts_of(record), roots, stand_ins, RUN, own)
    run = "\n".join([
        f"SEED, THREADS, DEVICE, STEPS = {record.seed}, {record.threads}, {literal(record.device)}, {record.steps}",
        f"RATE_CHANGES = {literal(list(record.rate_changes))}  # (from this step on, this lr)",
        f"MADE_WITH = {literal(_made_with(record))}",
        "", "", RUN.strip("\n"),
    ])  # fmt: skip
    sample = questions.written([program.names[place] for place in questions.places])
    data = [*questions.data, f"TASK = SimpleNamespace(name={literal(record.task)}, sample={sample})"]
    return Assembled(
        title=f"{record.task}, seed {record.seed}: a run of {record.steps} steps, repeated to the last digit.",
        head=_head(record),
        imports=program.imports,
        parts=(
            *program.parts, Part("The run.", run),
            Part("What it asks, and the losses that were recorded.", "\n".join([*data, *_recorded(record)])),
        ),
    )  # fmt: skip


def facts_of(record: RunRecord) -> Facts:
    """What can be decided of the library's code before this run starts: module -> names and their values."""
    model, training, masks = record.model, record.training, record.masks
    norm = object() if model.has_final_norm else None
    dropout = object() if model.attention_dropout else None
    unchanged = SimpleNamespace(lr=0.0, _current=SimpleNamespace(lr=0.0))  # all that is asked of the two: equal
    values: dict[str, Mapping[str, Any]] = {
        "attention": {"fill": masks.fill, "scale": model.scale_scores, "dropout": dropout},
        "layers": {"config": model, "self": SimpleNamespace(norm_order=model.norm_order), "cross": model.has_encoder,
                   "activation": model.activation},
        "masks": {"has_prefix": any(rule.startswith("prefix") for rule in _rules(masks))},
        "model": {"config": model, "self": SimpleNamespace(config=model, norm=norm), "device": record.device,
                  "torch": torch},
        "positions": {"kind": model.positions} if model.positions_on_decoder or not model.has_decoder else {},
        "training.loss": {"model": SimpleNamespace(config=model), "smoothing": training.label_smoothing},
        "training.run": {} if record.rate_changes else {"self": unchanged},
        "training.schedules": {"config": training},
        "training.step": {"config": training} | ({"limit": None} if training.clip_norm is None else {}),
    }  # fmt: skip
    if record.fault:  # its line may hand on another value than the settings have: then nothing is known beforehand
        values = {}
    absent = {"LearnedPositions": model.positions != "learned", "SinusoidalPositions": model.positions != "sinusoidal"}
    return Facts(
        values=lambda module: values.get(module.removeprefix(f"{PACKAGE}."), {}),
        rules=frozenset(parse_rule(rule)[0] for rule in _rules(masks)),
        dead=frozenset(name for name, is_absent in absent.items() if is_absent),
        without=WITHOUT,
        passing=PASSING,
    )


def _rules(masks: MaskConfig) -> tuple[str, ...]:
    return (*masks.encoder_self, *masks.decoder_self, *masks.cross)


def _place(module: str, name: str) -> Place:
    return f"{PACKAGE}.{module}", name


def _made_with(record: RunRecord) -> str:
    threads = f"{record.threads} thread{'s' * (record.threads > 1)}"
    parts = (f"torch {record.torch}", f"Python {record.python}", record.platform, threads)
    return ", ".join(part for part in parts if part and not part.endswith(" "))


def _recorded(record: RunRecord) -> list[str]:
    """The losses as they were, as many to a line as fit."""
    lines, line = ["RECORDED = ["], "   "
    for loss in record.losses:
        if len(line) + len(repr(loss)) + 2 > WIDTH:
            lines, line = [*lines, line], "   "
        line += f" {loss!r},"
    return [*lines, *([line] if line.strip() else []), "]", '"""Every loss, the first step first."""']


def _head(record: RunRecord) -> str:
    fault = ""
    if record.fault:
        fault = f"\n\nThe code has a fault on purpose, as it had in the run: {FAULTS[record.fault].title}."
    return f"""\
Made from the record of the run by Transformer Ledger, out of its own source: what this run does not need was left out
(other norms, masks and schedules, and the refusal of wrong settings). Everything random comes from the seed.

It needs Python 3.11 and torch, and reads and writes no file. It prints every loss, compares it with the one that was
recorded, and ends with status 1 at the first that differs; a number behind its name takes so many steps only.
Recorded with {_made_with(record)}.
Another processor, torch or number of threads may round differently, and the last digits then part.

In shapes: B sentences, S and T their tokens in source and target, D d_model, H heads, Dh d_head, F d_ff, V words;
q queries, k keys, n tokens. allowed is True where a query may see a key.{fault}"""
