"""``presets``: lists the presets with their sizes and costs."""

import argparse
import json
from dataclasses import asdict

from transformer_core.commands.common import Parser, cost, describe, print_lines, table, too_large
from transformer_core.presets import load_preset, preset_names

HELP = "list the presets with their sizes and costs"


def arguments(one: Parser) -> None:
    """It takes none."""


def run(options: argparse.Namespace) -> int:
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
