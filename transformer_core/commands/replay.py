"""``replay``: takes the steps of a recorded run again and says whether every loss is the same, bit for bit."""

import argparse
import json
from pathlib import Path

import torch

from transformer_core.commands.common import FAILED, Parser
from transformer_core.commands.keeping import read_run
from transformer_core.commands.pairs import asks_for_pairs, corpus_of
from transformer_core.commands.train import refuse_large
from transformer_core.records import replay
from transformer_core.records.making import fingerprint
from transformer_core.records.replaying import task_of

HELP = "repeat a recorded run and compare every loss"


def arguments(one: Parser) -> None:
    one.add_argument("record", type=Path, metavar="RECORD", help="the record of a run, or weights with one in them")
    one.add_argument("--steps", type=int, help="how many of its steps (all)")
    asks_for_pairs(one)


def run(options: argparse.Namespace) -> int:
    record, _ = read_run(options.record)
    if options.steps is not None and not 1 <= options.steps <= max(1, record.steps):
        raise ValueError(f"--steps is {options.steps}; the record has {record.steps} steps, so 1 to that can be taken")
    corpus = corpus_of(record, options)
    refuse_large(task_of(record, corpus), record.model, record.training)
    torch.set_num_threads(record.threads)
    total = options.steps or record.steps
    if not options.json:
        print(f"{record.task}, seed {record.seed}: {record.steps} steps, recorded with torch {record.torch} on "
              f"{record.platform}, {record.threads} threads")  # fmt: skip
        if record.source != fingerprint():
            print("The library has changed since then; the losses may be others.")
    for one in replay(record, options.steps, corpus):
        if options.json:
            print(json.dumps(one._asdict()), flush=True)
        elif not one.equal or one.step in (1, total) or one.step % max(1, total // 10) == 0:
            beside = "not recorded" if one.recorded is None else "the same" if one.equal else f"was {one.recorded!r}"
            print(f"step {one.step:>{len(str(total))}}/{total}  loss {one.loss!r}  {beside}", flush=True)
        if not one.equal:
            if not options.json:
                print("Here the two runs part.")
            return FAILED
    if not options.json:
        same = f"All {total} losses are the same to the last digit."
        print(same if record.losses else "The record has no curve, so nothing was compared.")
    return 0
