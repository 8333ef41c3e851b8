"""``faults``: every check on every fault, a row each; or one fault with its code and its story."""

import argparse
import json
import textwrap
from collections.abc import Iterator, Sequence
from string import ascii_letters, digits

from transformer_core.checks import CHECKS
from transformer_core.commands.common import (
    FAILED,
    WIDTH,
    Parser,
    asked_levels,
    asked_preset,
    asks_for_a_model,
    asks_for_levels,
    checked_seed,
    cost,
    introduction,
    mark,
    print_lines,
    setting,
    table,
    too_large,
)
from transformer_core.faults import FAULTS, Fault, get
from transformer_core.faults.changed import changed_tensors
from transformer_core.faults.matrix import Row, run_matrix
from transformer_core.faults.summary import Summary
from transformer_core.presets import Preset

HELP = "break the model in every known way, one at a time, and show which checks see it"
SIGNS = {"caught": ("●", "X"), "not_seen": ("·", "."), "passes_wrongly": ("△", "!"), "silent": (" ", " ")}
"""How a verdict prints, and how where the terminal cannot show that."""
RIGHT = "(the right model)"
GLUE = "\u00a0"
"""A space at which no line is broken."""


def arguments(one: Parser) -> None:
    one.add_argument("name", nargs="?", metavar="NAME", help="one fault, with its code and its story; default all")
    asks_for_a_model(one)
    asks_for_levels(one, "all")


def run(options: argparse.Namespace) -> int:
    """Status 1 when no check sees a fault, or one fails on the right model."""
    names = None if options.name is None else [get(options.name).name]
    preset, seed, levels = asked_preset(options), checked_seed(options.seed), asked_levels(options)
    if too_large(cost(preset)):
        raise ValueError(f"{preset.name} is too large to be run with every fault; first_look is made for it")
    rows: list[Row] = []
    found = run_matrix(preset, seed, names, levels)
    if options.json:
        rows += found
        about = setting(preset, seed, False) | {"levels": list(levels)}
        if names:
            about |= code(FAULTS[names[0]])
        about |= {"rows": [row.to_row() for row in rows], "summary": Summary(tuple(rows)).to_row()}
        print(json.dumps(about, ensure_ascii=False))
    else:
        print_lines(introduction(preset, seed, False))
        print_lines(legend(levels) if names is None else portrait(FAULTS[names[0]], preset, seed))
        for row in found:
            rows.append(row)
            print(line(row), flush=True) if names is None else print_lines(particulars(row))
        print_lines(totals(Summary(tuple(rows))) if names is None else [])
    summary = Summary(tuple(rows))
    return FAILED if summary.uncaught or summary.false_alarms else 0


# The matrix.


def legend(levels: Sequence[int]) -> Iterator[str]:
    """The letter of each check, a paragraph a level."""
    letters = iter(ascii_letters + digits)
    for level in levels:
        checks = "  ".join(f"{next(letters)}{GLUE}{each.name}" for each in CHECKS if each.level == level)
        for text in textwrap.wrap(checks, WIDTH, initial_indent=f"level {level}:  ", subsequent_indent=" " * 10):
            yield text.replace(GLUE, " ")
    signs = [f"{sign(verdict)} {verdict.replace('_', ' ')}" for verdict in SIGNS if verdict != "silent"]
    yield f"{'   '.join(signs)}   blank: nothing to say"
    yield ""
    heads = iter(ascii_letters + digits)
    groups = ["".join(next(heads) for each in CHECKS if each.level == level) for level in levels]
    yield f"{'':{name_width()}}  {' '.join(group for group in groups if group)}"


def line(row: Row) -> str:
    """A row of the matrix: a sign for each check, then how many caught the fault."""
    signs: dict[int, str] = {}
    levels = {each.name: each.level for each in CHECKS}
    for cell in row.cells:
        signs[levels[cell.check]] = signs.get(levels[cell.check], "") + sign(cell.verdict)
    caught = len(row.caught_by)
    if row.fault is None:
        outcome = f"{', '.join(row.caught_by)} failed" if caught else "ok"
    else:
        outcome = str(caught) if caught or not row.failure else "stops"
    return f"{row.name or RIGHT:<{name_width()}}  {' '.join(signs.values())}  {outcome}"


def name_width() -> int:
    return max(map(len, (*FAULTS, RIGHT)))


def sign(verdict: str) -> str:
    return mark(*SIGNS[verdict])


def totals(summary: Summary) -> Iterator[str]:
    """How often each check caught a fault or passed wrongly, and which few are enough."""
    levels = {each.name: str(each.level) for each in CHECKS}
    caught, wrongly = summary.by_check("caught"), summary.by_check("passes_wrongly")
    cells = [(levels[name], name, str(len(caught[name])), str(len(wrongly[name]))) for name in summary.checks]
    yield ""
    yield from table(("level", "check", "caught", "passes wrongly"), cells, right=(0, 2, 3), flexible=1)
    yield ""
    total = len(summary.broken)
    acting = total - len(summary.without_effect)
    sentences = [f"{acting - len(summary.uncaught)} of {acting} faults are caught."]
    if summary.without_effect:
        sentences += [f"On this model nothing comes of {', '.join(summary.without_effect)}."]
    if summary.uncaught:
        sentences += [f"No check sees {', '.join(summary.uncaught)}."]
    if summary.idle:
        sentences += [f"These checks catch nothing here: {', '.join(summary.idle)}."]
    if summary.false_alarms:
        sentences += [f"On the right model {', '.join(summary.false_alarms)} failed."]
    else:
        sentences += ["On the right model no check fails."]
    few = summary.smallest_set
    if few:
        sentences += [f"{len(few)} of {len(summary.checks)} checks are enough for all that are caught: "
                      f"{', '.join(few)}."]  # fmt: skip
    for sentence in sentences:
        yield from textwrap.wrap(sentence, WIDTH)


# One fault.


def code(fault: Fault) -> dict[str, object]:
    """The changed place as plain data."""
    file, function, first, right, wrong = fault.lines()
    return {"story": fault.story, "section": fault.section, "file": file, "function": function, "line": first,
            "right": right, "wrong": wrong}  # fmt: skip


def portrait(fault: Fault, preset: Preset, seed: int) -> Iterator[str]:
    """Title, story, the two codes, and where the ledger first differs."""
    file, function, first, right, wrong = fault.lines()
    yield f"{fault.name}: {fault.title}"
    yield from textwrap.wrap(fault.story, WIDTH, initial_indent="    ", subsequent_indent="    ")
    yield f"    {file}:{first}, {function} (section {fault.section})"
    yield ""
    for what, lines in (("right", right), ("wrong", wrong)):
        yield f"{what}:"
        yield from (f"{first + i:>5}  {each}".rstrip()[:WIDTH] for i, each in enumerate(lines))
    changed = changed_tensors(fault, preset, seed)
    if changed:
        yield f"{len(changed)} tensors of a forward differ, the first is {changed[0].key}."
    else:
        yield "Every tensor of a forward in evaluation mode is as it should be."
    yield ""


def particulars(row: Row) -> Iterator[str]:
    """The checks by verdict, with the findings of those that caught it."""
    if row.fault is None:
        if row.caught_by:
            yield f"On the right model {', '.join(row.caught_by)} failed."
        return
    if row.failure:
        yield f"No model can be built: {row.failure}"
    yield f"{len(row.caught_by)} of {len(row.cells)} checks catch it{':' if row.caught_by else '.'}"
    for cell in row.cells:
        if cell.verdict == "caught":
            finding = cell.error if cell.result is None else cell.result.finding
            yield from textwrap.wrap(f"{sign('caught')} {cell.check}: {finding}", WIDTH, subsequent_indent="    ")
    for verdict, text in (("passes_wrongly", "Pass wrongly"), ("not_seen", "Do not see it"), ("silent", "Silent")):
        names = row.with_verdict(verdict)
        if names:
            yield from textwrap.wrap(f"{text}: {', '.join(names)}.", WIDTH, subsequent_indent="    ")
