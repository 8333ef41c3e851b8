"""``compare``: the model beside torch.nn with the same weights, tensor by tensor; sweep and speed on request."""

import argparse
import json
import math
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

from transformer_core.commands.common import (
    FAILED,
    WIDTH,
    Parser,
    asked_preset,
    asks_for_a_model,
    introduction,
    mark,
    prepare,
    print_lines,
    setting,
    table,
)
from transformer_core.parity import (
    NOTES,
    WHAT,
    Comparison,
    Difference,
    Reading,
    SweepPoint,
    attention_speed,
    compare,
    reading_table,
    sweep,
)

HELP = "put the same weights into torch.nn and compare every tensor and every gradient"
DTYPES = ("float32", "float64")
BAR, LOWEST, HIGHEST = 28, -17, 1
"""Width of the bar, and the powers of ten at its two ends."""


def arguments(one: Parser) -> None:
    asks_for_a_model(one)
    one.add_argument("--final-norm", choices=("same", "torch"), default="same",
                     help="as many final norms as the model has (same), or nn.Transformer's own (torch)")  # fmt: skip
    one.add_argument("--training", action="store_true", help="in training mode, dropout 0 on both sides")
    one.add_argument("--sweep", action="store_true", help="then many lengths, paddings and modes of a small model")
    one.add_argument("--speed", action="store_true", help="then attention against scaled_dot_product_attention")


def run(options: argparse.Namespace) -> int:
    """Status 1 when a limit is broken although torch computes the same function."""
    preset = asked_preset(options)
    model, batch, shapes_only = prepare(preset, options.seed)
    if shapes_only:
        raise ValueError(f"{preset.name} is too large to be computed here, and shapes alone cannot be compared")
    asked = {"training": options.training, "final_norm": options.final_norm}
    found = {name: compare(model, batch, dtype=getattr(torch, name), **asked) for name in DTYPES}
    mode = "train" if options.training else "eval"
    readings, points, speeds = reading_table(model, batch), [], []
    if not options.json:
        print(next(introduction(preset, options.seed, False)))
        print(f"torch {torch.__version__}, seed {options.seed}, {mode}, device cpu")
        print_lines(tensor_lines(found))
        print_lines(gradient_lines(found))
        print_lines(reading_lines(readings))
    if options.sweep:
        points = list(sweep(seed=options.seed))
        print_lines([] if options.json else sweep_lines(points))
    if options.speed:
        speeds = list(attention_speed(seed=options.seed))
        print_lines([] if options.json else speed_lines(speeds))
    if options.json:
        about = setting(preset, options.seed, False) | {"mode": mode, "dtype": list(DTYPES)}
        about |= {"comparisons": {name: each.to_row() for name, each in found.items()}}
        about |= {"readings": [each.to_row() for each in readings], "sweep": [each.to_row() for each in points]}
        print(json.dumps(about | {"speed": [each.to_row() for each in speeds]}, ensure_ascii=False))
    other = any("added_norm" in each.notes for each in found.values())  # then torch computes another function
    held = other or all(each.passed for each in found.values())
    return 0 if held and all(point.passed for point in points) else FAILED


# Tensor by tensor.


def tensor_lines(found: dict[str, Comparison]) -> Iterator[str]:
    """A line for every tensor: the bar shows float32 on a log scale with its limit, the numbers both dtypes."""
    single, double = (found[name] for name in DTYPES)
    about = single.settings
    yield f"beside {about['counterpart']} with the same {about['numbers']:,} weights, limits " + ", ".join(
        f"{each.settings['limit']:g} ({name})" for name, each in found.items()
    )
    for note in single.notes:
        yield from textwrap.wrap(NOTES[note], WIDTH, initial_indent="  ", subsequent_indent="  ")
    yield ""
    others = {each.key: each for each in double.forward}
    rows = [(each.key, " x ".join(map(str, each.shape)), bar(each), size(each.max_abs), size(each.padded),
             size(others[each.key].max_abs) if each.key in others else "",
             "<-" if each.key in (single.first, double.first) else "") for each in single.forward]  # fmt: skip
    scale = f"1e{LOWEST}".ljust(BAR - len(f"1e{HIGHEST}")) + f"1e{HIGHEST}"
    yield from table(("tensor", "shape", scale, "float32", "padded", "float64", ""), rows, (3, 4, 5), flexible=0)
    for name, each in found.items():
        yield outcome(name, each)
    yield ""


def bar(difference: Difference) -> str:
    """The error as a dot (a cross above the limit) between the powers of ten, with the limit as a bar."""
    signs = [" "] * BAR
    signs[place(difference.limit)] = "|"
    signs[place(difference.max_abs)] = mark("●", "o") if difference.passed else mark("✗", "x")
    return "".join(signs)


def place(error: float) -> int:
    """Where on the bar a number stands; 0 at its beginning, infinity and NaN at its end."""
    if not error < math.inf:
        return BAR - 1
    power = math.log10(error) if error > 0 else LOWEST
    return min(max(round((power - LOWEST) / (HIGHEST - LOWEST) * (BAR - 1)), 0), BAR - 1)


def size(number: float | None) -> str:
    return "" if number is None else "0" if number == 0 else f"{number:.1e}"


def outcome(dtype: str, found: Comparison) -> str:
    agree = sum(each.passed for each in found.forward)
    text = f"{dtype}: {agree} of {len(found.forward)} tensors agree, largest difference {size(found.worst)}"
    if found.failure is not None:
        return f"{text}; our forward stops: {found.failure}"[:WIDTH]
    return text + (f"; they part at {found.first}" if found.first else "")


def gradient_lines(found: dict[str, Comparison]) -> Iterator[str]:
    for dtype, each in found.items():
        off = [gradient for gradient in each.backward if not gradient.passed]
        text = f"{dtype}: {len(each.backward) - len(off)} of {len(each.backward)} gradients agree, largest difference "
        yield text + size(each.worst_gradient) + (f"; first apart: {off[0].key}" if off else "")
    yield ""


# What to look at.


def reading_lines(readings: list[Reading]) -> Iterator[str]:
    """Each point with its two numbers: the difference when it is overlooked, and when it is heeded."""
    signs = {"same": mark("✓", "="), "adapted": mark("→", ">"), "differs": mark("✗", "x")}
    yield "Before comparing, look at (difference when overlooked, when heeded):"
    for each in readings:
        yield f"{signs[each.verdict]} {each.name}: {size(each.measured)}, {size(each.heeded)} ({each.verdict})"
        for text in (f"ours: {each.ours}; torch: {each.theirs}", each.look_at):
            yield from textwrap.wrap(text, WIDTH, initial_indent="    ", subsequent_indent="    ")
    yield ""


# The sweep and the speed.


def sweep_lines(points: list[SweepPoint]) -> Iterator[str]:
    """Where torch computes the same, how closely; and every kind of place where it does not, with why."""
    yield f"Sweep of {len(points):,} points:"
    for dtype in dict.fromkeys(point.dtype for point in points):
        errors = [point.error for point in points if point.dtype == dtype and not math.isnan(point.error)]
        limit = next(point.limit for point in points if point.dtype == dtype)
        yield f"  {dtype}: largest difference at real positions {size(max(errors))}, limit {limit:g}"
    for what, count in Counter(point.what for point in points).most_common():
        yield from textwrap.wrap(
            f"{count:,} {what}: {WHAT[what]}", WIDTH, initial_indent="  ", subsequent_indent="    "
        )
        if what != "equal":
            where = Counter((p.norm_order, p.mode, p.fast_path, p.padding) for p in points if p.what == what)
            for (order, mode, fast, padding), times in where.items():
                yield f"    {times} of {order}-norm, {mode}, fast path {'on' if fast else 'off'}, padding {padding}"
    yield ""


def speed_lines(rows: list[Any]) -> Iterator[str]:
    yield "attend against F.scaled_dot_product_attention, median time ratio [quartiles]:"
    cells = [(row.device, row.dtype, str(row.length), size(row.error), f"{row.ratio:.2f}",
              f"[{row.low:.2f} .. {row.high:.2f}]", f"{row.ours_ms:.3f}", f"{row.theirs_ms:.3f}")
             for row in rows]  # fmt: skip
    header = ("device", "dtype", "length", "error", "ratio", "quartiles", "ours ms", "torch ms")
    yield from table(header, cells, right=(2, 3, 4, 6, 7), flexible=0)
