"""``decode``: lets a trained model write, or searches a table on which searches differ."""

import argparse
import json
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from transformer_core import tasks
from transformer_core.batches import Batch
from transformer_core.checked import check_whole
from transformer_core.commands.common import (
    MAX_WEIGHTS,
    WIDTH,
    Parser,
    checked_seed,
    print_lines,
    read_file,
    refuse_unused,
)
from transformer_core.commands.pairs import asks_for_pairs, corpus_of
from transformer_core.commands.train import refuse_large
from transformer_core.config import BEGIN, END
from transformer_core.decoding import (
    TRAPS,
    Hypothesis,
    Trap,
    beam,
    beam_search,
    exhaustive,
    greedy,
    next_log_probs_of,
    sample,
    token_log_probs,
)
from transformer_core.errors import nearest
from transformer_core.model import Transformer, build
from transformer_core.records import RunRecord, load_weights, resume
from transformer_core.records.replaying import shop_of, task_of
from transformer_core.tasks import Task
from transformer_core.training import train

HELP = "let a trained model write: greedily, by sampling, by beam search, or all that there is; or search a small table"
METHODS = ("greedy", "sample", "beam", "exhaustive")
MOST = 64
"""So many sentences are written at a time, and so many answers told of each as plain data."""
SHOWN = 8
"""So many answers to one sentence are printed."""


@dataclass(frozen=True)
class Written:
    """One sentence and what was written for it, the best first. ``right`` is its right answer, if that is known."""

    source: list[str]
    right: list[str] | None
    answers: list[dict[str, Any]]


def arguments(one: Parser) -> None:
    model = one.add_mutually_exclusive_group(required=True)
    model.add_argument("--record", type=Path, metavar="FILE", help="a run's record; its steps are taken once more")
    model.add_argument("--weights", type=Path, metavar="FILE", help="weights with their record beside them")
    model.add_argument("--task", metavar="NAME", help="a task; its recipe trains a model first")
    model.add_argument("--trap", metavar="|".join(TRAPS), help="a table instead of a model")
    one.add_argument("--method", choices=METHODS, help="how to write (greedy; of a table, all but sample)")
    one.add_argument("--source", action="append", default=[], metavar="TEXT",
                     help="a sentence of the task, such as 'a b c'; may be repeated (new questions)")  # fmt: skip
    one.add_argument("--sentences", type=int, help="how many new questions to ask (3)")
    one.add_argument("--width", type=int, help="of the beam (4, or the table's own)")
    one.add_argument("--length-norm", action="store_true", help="rank by log-probability / length, the end counted")
    one.add_argument("--max-length", type=int, help="the most tokens to write (what the task needs)")
    one.add_argument("--temperature", type=float, help="of sampling; lower is surer (1)")
    one.add_argument("--top-k", type=int, help="sample of the k likeliest tokens only")
    one.add_argument("--top-p", type=float, help="sample of the likeliest tokens that together have the share p")
    one.add_argument("--no-cache", action="store_true", default=None, help="read all that is written anew each time")
    one.add_argument("--steps", type=int, help="how many steps --task trains (the recipe's)")
    asks_for_pairs(one)
    one.add_argument("--seed", type=int, default=7, help="of questions, sampling and training (7)")


def run(options: argparse.Namespace) -> int:
    checked_seed(options.seed)
    writes, sampling = options.trap is None, options.method == "sample"
    refuse_unused(options, {
        "width": (options.method == "beam" or not (writes or options.method), "--method beam"),
        **dict.fromkeys(("temperature", "top_k", "top_p"), (writes and sampling, "--method sample")),
        "sentences": (writes and not options.source, "a model and without --source"),
        **dict.fromkeys(("source", "no_cache"), (writes, "a model")),
        "pairs": (writes and options.task is None, "--record or --weights"),
        "steps": (options.task is not None, "--task"),
    })  # fmt: skip
    if options.trap is not None:
        return _searched(_asked_trap(options.trap), options)
    model, task, corpus = _asked_model(options)
    batch = _asked_sentences(task, corpus, options)
    assert batch.src is not None
    length = batch.labels.shape[1] if batch.labels is not None else model.config.max_seq_len
    length = length if options.max_length is None else options.max_length
    method = options.method or "greedy"
    found = _found(model, batch.src, method, length, options)
    sources = _words(task, batch.src, "src")
    right = [None] * len(found) if batch.labels is None else _words(task, batch.labels, "tgt")
    written = [
        Written(source, wanted, [_plain(each, _words(task, torch.tensor([each.tokens]), "tgt")[0]) for each in answers])
        for source, wanted, answers in zip(sources, right, found, strict=True)
    ]
    if options.json:
        head = {"task": task.name, "method": method, "max_length": length, "seed": options.seed}
        print(json.dumps({**head, "sentences": [asdict(each) for each in written]}, ensure_ascii=False))
    else:
        print_lines(_lines(task, method, written, options))
    return 0


def _found(
    model: Transformer, src: Tensor, method: str, length: int, options: argparse.Namespace
) -> list[list[Hypothesis]]:
    """The answers to every sentence, the best first."""
    cache, norm = not options.no_cache, options.length_norm
    if method == "beam":
        width = 4 if options.width is None else options.width
        return [each[:MOST] for each in beam(model, src, width, max_length=length, length_norm=norm, cache=cache)]
    if method == "exhaustive":
        vocabulary = model.config.tgt_vocab_size
        asked = [next_log_probs_of(model, row, cache) for row in src]
        return [exhaustive(each, BEGIN, END, vocabulary, length, norm)[:MOST] for each in asked]
    if method == "sample":
        warmth = 1.0 if options.temperature is None else options.temperature
        how = {"temperature": warmth, "top_k": options.top_k, "top_p": options.top_p, "seed": options.seed}
        tokens = sample(model, src, max_length=length, cache=cache, **how)
    else:
        tokens = greedy(model, src, max_length=length, cache=cache)
    return [[each] for each in _as_hypotheses(model, src, tokens, norm)]


def _as_hypotheses(model: Transformer, src: Tensor, tokens: Tensor, length_norm: bool) -> Iterator[Hypothesis]:
    for row, log_probs in zip(tokens.tolist(), token_log_probs(model, src, tokens).double(), strict=True):
        n = row.index(END) + 1 if END in row else len(row)
        total = float(log_probs[:n].sum())
        yield Hypothesis(tuple(row[:n]), total, total / n if length_norm else total, END in row)


def _asked_model(options: argparse.Namespace) -> tuple[Transformer, Task, Any]:
    """The model that was asked for, its task, and the corpus of a translation.

    Raises:
        ValueError: a file cannot be read, or there is no such task, or it has nothing to write.
    """
    if options.task is not None:
        task = tasks.get(options.task)
        _can_write(task)
        steps = {} if options.steps is None else {"steps": options.steps, "epochs": None}
        model = build(task.model, task.masks, seed=options.seed)
        for _ in train(model, task, task.training.replace(**steps), options.seed):
            pass
        return model.eval(), task, _corpus(task)
    field, path = ("record", options.record) if options.record is not None else ("weights", options.weights)
    data = read_file(path, field, MAX_WEIGHTS)
    if options.record is not None:
        record, weights = RunRecord.from_json(data), None
    else:
        record, weights = load_weights(data)
    corpus = corpus_of(record, options)
    task = task_of(record, corpus)
    _can_write(task)
    refuse_large(task, record.model, record.training)
    if weights is None:
        torch.set_num_threads(record.threads)
        return resume(record, corpus=corpus)[0].eval(), task, corpus
    model = shop_of(record).model.build(record.model, record.masks)
    model.load_state_dict(weights)
    return model.eval(), task, corpus


def _can_write(task: Task) -> None:
    if not task.model.has_decoder:
        writing = [name for name, each in tasks.TASKS.items() if each.model.has_decoder]
        raise ValueError(f"the task {task.name} is answered with a class; nothing is written. {', '.join(writing)} are")


def _corpus(task: Task) -> Any:
    if task.name != "translation":
        return None
    from transformer_core.translation import builtin  # made when first asked for

    return builtin()


def _asked_sentences(task: Task, corpus: Any, options: argparse.Namespace) -> Batch:
    """The given sentences, padded behind; or new questions of the task with their answers."""
    if not options.source:
        asked = 3 if options.sentences is None else check_whole("sentences", options.sentences, 1, MOST)
        return task.sample(asked, torch.Generator().manual_seed(options.seed), on="new")
    rows = [_read(task, corpus, line) for line in options.source]
    width = max(map(len, rows))
    return Batch(torch.tensor([[*row, *[0] * (width - len(row))] for row in rows]), None)


def _read(task: Task, corpus: Any, line: str) -> list[int]:
    """The ids of a sentence, its signs with or without spaces between them.

    Raises:
        ValueError: a sign is none of the task's; the text names the nearest.
    """
    if corpus is not None:
        from transformer_core.translation import encode

        return list(encode(corpus, line))
    symbols = {symbol: token for token, symbol in enumerate(task.src_symbols or task.symbols)}
    signs = line.split()
    if not set(signs) <= symbols.keys():
        signs = [sign for word in signs for sign in ([word] if word in symbols else word)]
    for sign in signs:
        if sign not in symbols:
            raise ValueError(f"{sign!r} is no sign of the task {task.name}; the nearest is {nearest(sign, symbols)!r}")
    if not signs:
        raise ValueError("a source is blank; it needs at least one sign")
    return [symbols[sign] for sign in signs]


def _words(task: Task, ids: Tensor, side: str) -> list[list[str]]:
    """Each row as it prints, without the padding behind it."""
    rows = [[token for token in row if token] for row in ids.tolist()]
    return task.describe_tokens(rows, side=side)


def _plain(answer: Hypothesis, words: Sequence[str]) -> dict[str, Any]:
    return {"words": list(words), **asdict(answer)}


def _lines(task: Task, method: str, written: Sequence[Written], options: argparse.Namespace) -> Iterator[str]:
    by = "log-probability / length, the end counted" if options.length_norm else "log-probability"
    yield f"{task.name}, {method}, evaluation mode; score = {by}"
    for each in written:
        yield ""
        yield f"source  {' '.join(each.source)}"
        if each.right is not None:
            yield f"right   {' '.join(each.right)}"
        for answer in each.answers[:SHOWN]:
            yield "        " + _line(answer["words"], answer)


def _line(words: Sequence[str], answer: dict[str, Any]) -> str:
    mark = "" if answer["finished"] else "   not finished"
    return f"{' '.join(words):32s}  ln p {answer['log_prob']:9.6f}  score {answer['score']:9.6f}{mark}"


def _asked_trap(name: str) -> Trap:
    if name not in TRAPS:
        raise ValueError(f"there is no trap {name!r}; {' and '.join(TRAPS)} are. The nearest is {nearest(name, TRAPS)}")
    return TRAPS[name]


def _searched(trap: Trap, options: argparse.Namespace) -> int:
    """Every search on a table, or the one asked for; where the length decides, with and without normalisation."""
    if options.method == "sample":
        raise ValueError("a trap is a table to search; greedy, beam and exhaustive can be asked of it")
    width = trap.width if options.width is None else options.width
    length = trap.max_length if options.max_length is None else options.max_length
    norms = [True] if options.length_norm else [False, True] if trap.length_norm else [False]
    found: list[dict[str, Any]] = []
    for method in [options.method] if options.method else ["greedy", "beam", "exhaustive"]:
        for norm in [False] if method == "greedy" and False in norms else norms:
            asked = trap.next_log_probs, trap.begin_id, trap.end_id
            if method == "exhaustive":
                answers = exhaustive(*asked, trap.vocabulary, length, norm)
            else:
                answers = beam_search(*asked, 1 if method == "greedy" else width, length, norm)
                answers = answers[:1] if method == "greedy" else answers
            plain = [_plain(each, [trap.symbols[token] for token in each.tokens]) for each in answers[:MOST]]
            how = {"method": method, "width": {"greedy": 1, "beam": width}.get(method), "length_norm": norm}
            found.append({**how, "answers": plain})
    if options.json:
        print(json.dumps({"trap": trap.name, "max_length": length, "searches": found}))
        return 0
    print_lines([*textwrap.wrap(f"{trap.title}. {trap.lesson}", WIDTH), ""])
    for tokens, row in trap.rows.items():
        behind = " ".join(trap.symbols[token] for token in tokens)
        shares = ", ".join(f"{trap.symbols[token]} {share:g}" for token, share in enumerate(row) if share)
        print(f"{f'after {behind}' if behind else 'at the start':14s} {shares}")
    for each in found:
        by = "by the mean over the tokens" if each["length_norm"] else "by the sum"
        size = f" of {each['width']}" if each["method"] == "beam" else ""
        print(f"\n{each['method']}{size}, at most {length} tokens, {by}")
        print_lines("  " + _line(answer["words"], answer) for answer in each["answers"][:SHOWN])
    return 0
