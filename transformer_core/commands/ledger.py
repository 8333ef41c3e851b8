"""``ledger``: runs a model once and lists every tensor."""

import argparse
import json
import sys

import torch

from transformer_core.commands.common import (
    Parser,
    asked_preset,
    asks_for_a_model,
    finite,
    introduction,
    prepare,
    print_lines,
    table,
)
from transformer_core.ledger import trace

HELP = "run a model once and list every tensor"


def arguments(one: Parser) -> None:
    asks_for_a_model(one)
    one.add_argument("--shapes-only", action="store_true", help="lay the model out without numbers")


def run(options: argparse.Namespace) -> int:
    preset = asked_preset(options)
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
