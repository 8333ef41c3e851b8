"""The corpus of a command: the built-in one or that of a file of sentence pairs; of a recorded run, the run's own."""

import argparse
from pathlib import Path
from typing import Any

from transformer_core.commands.common import Parser, read_file
from transformer_core.records import RunRecord
from transformer_core.translation import Corpus, builtin, make_corpus, read_pairs
from transformer_core.translation.builtin import NAME
from transformer_core.translation.pairs import MAX_BYTES

OPTIONS = ("direction", "min_count", "max_vocabulary", "max_length", "held_out_share", "seed", "simplified")
"""Of what a record says of its corpus, that with which ``make_corpus`` makes it again."""


def asks_for_pairs(one: Parser) -> None:
    """The option that names the file."""
    one.add_argument("--pairs", type=Path, metavar="FILE", help="tab-separated sentence pairs (the built-in corpus)")


def asked_corpus(path: Path | None, direction: str, **settings: Any) -> Corpus:
    """The corpus of this file, made with these settings; without a file the built-in one.

    Raises:
        ValueError: the file cannot be read, or a setting cannot be.
    """
    if path is None:
        return builtin(direction)
    pairs = read_pairs(read_file(path, "pairs", MAX_BYTES))
    return make_corpus(pairs, name=path.name, direction=direction, **settings)


def corpus_of(record: RunRecord, options: argparse.Namespace) -> Corpus | None:
    """The corpus that a recorded run learned from; None when it learned another task.

    Raises:
        ValueError: the run needs a file that was not given, or another one than was.
    """
    path: Path | None = options.pairs
    if record.task != "translation":
        if path is not None:
            raise ValueError(f"--pairs does not go with a run of the task {record.task}, which makes its own questions")
        return None
    known = record.corpus or {"name": NAME, "sha256": builtin().sha256, "options": {}}
    if (path is None) != (known["name"] == NAME):
        way = "leave --pairs out" if known["name"] == NAME else "give that file with --pairs"
        raise ValueError(f"this run learned from {known['name']}; {way}")
    settings = {"direction": "forward", **{key: known["options"][key] for key in OPTIONS if key in known["options"]}}
    corpus = asked_corpus(path, **settings)
    if corpus.sha256 != known["sha256"]:
        raise ValueError(
            f"{corpus.name} is not the file from which this run learned: its sha256 begins with {corpus.sha256[:12]}, "
            f"not with {known['sha256'][:12]}, so the words would have other numbers"
        )
    return corpus
