"""``check``: runs a model once and prints every check with its verdict."""

import argparse
import json
import textwrap
from collections.abc import Iterator

from transformer_core.checks import STRUCTURE, CheckResult, examine
from transformer_core.commands.common import (
    FAILED,
    WIDTH,
    Parser,
    asked_levels,
    asked_preset,
    asks_for_a_model,
    asks_for_levels,
    introduction,
    mark,
    number,
    prepare,
    print_lines,
    setting,
)
from transformer_core.ledger import Ledger

HELP = "run a model once and print every check with its verdict"


def arguments(one: Parser) -> None:
    asks_for_a_model(one)
    asks_for_levels(one, "1,2")


def run(options: argparse.Namespace) -> int:
    preset = asked_preset(options)
    model, batch, shapes_only = prepare(preset, options.seed)
    ledger, results = examine(model, batch, levels=asked_levels(options), seed=options.seed)
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
