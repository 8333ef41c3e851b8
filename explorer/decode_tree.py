"""What a search does, as a tree: greedy, by beam, drawn, or exhaustive; and which candidates it did not go on with."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from explorer.decode_search import DRAWS, Search
from explorer.decode_watch import begun
from explorer.refusals import Refusal
from transformer_core import decoding
from transformer_core.decoding import BeamStep, Hypothesis

CUT_DRAWN = 3
"""So many of the candidates that were cut are drawn at each step, the likeliest."""
BEST_DRAWN = 8
"""So many of all sequences that there are."""


@dataclass(frozen=True)
class Node:
    """One candidate: the tokens up to it, the log-probability of its own and of all of them, and its fate.

    ``fate`` is kept, cut, finished, or open: kept, and unfinished when the search ended.
    """

    tokens: tuple[int, ...]
    log_prob: float
    total: float
    fate: str


@dataclass(frozen=True)
class Step:
    """How many candidates there were at a step, and what became of them; ``more`` of the cut ones are not drawn."""

    looked: int
    kept: int
    finished: int
    cut: int
    more: int = 0


@dataclass(frozen=True)
class Answer:
    """A hypothesis, and the seed it was drawn with if it was."""

    hypothesis: Hypothesis
    seed: int | None = None


@dataclass(frozen=True)
class Tree:
    """What one search did. ``stopped`` is why it ended: length, won, none, or nothing where it looked at everything."""

    nodes: tuple[Node, ...]
    steps: tuple[Step, ...]
    answers: tuple[Answer, ...]
    stopped: str = ""


def tree_of(search: Search) -> Tree:
    """The search itself.

    Raises:
        Refusal: it takes too long, or the model's probabilities are no numbers.
    """
    ways = {"greedy": _greedy, "beam": _beam, "sample": _sampled, "exhaustive": _exhaustive}
    return ways[search.session.dec_method](search)


def _beam(search: Search) -> Tree:
    """Every step of the core's beam search, with the likeliest of what it cut."""
    return _by_steps(search, search.session.dec_width, search.norm)


def _greedy(search: Search) -> Tree:
    """A beam of one that is never told of a second best: what the core's ``greedy`` writes."""
    tree = _by_steps(search, 1, False)
    best = tree.answers[0].hypothesis
    written = {best.tokens[:n] for n in range(1, len(best.tokens) + 1)}
    nodes = [node if node.tokens in written else Node(node.tokens, node.log_prob, node.total, "cut")
             for node in tree.nodes]  # fmt: skip
    steps = []
    for n, step in enumerate(tree.steps, start=1):
        ends = int(best.finished and n == len(best.tokens))
        steps.append(Step(step.looked, 1 - ends, ends, step.looked - 1, step.more))
    return Tree(tuple(nodes), tuple(steps), (Answer(best),), "none" if best.finished else "length")


def _by_steps(search: Search, width: int, norm: bool) -> Tree:
    nodes: list[Node] = []
    steps: list[Step] = []
    last: BeamStep | None = None
    asked = (search.watch, search.begin, search.end, width, search.longest, norm)
    for last in decoding.beam_steps(*asked, most=CUT_DRAWN):
        looked = sum(_possible(search, prefix) for prefix in {each.prefix for each in last.candidates})
        cut = [each for each in last.candidates if each.fate == "cut"]
        cut.sort(key=lambda each: (-each.running, each.tokens))
        there = [each for each in last.candidates if each.fate != "cut"]
        for each in (*there, *cut[:CUT_DRAWN]):
            fate = "open" if each.fate == "kept" and last.stopped else each.fate
            nodes.append(Node(each.tokens, each.log_prob, each.running, fate))
        finished = sum(each.fate == "finished" for each in there)
        others = looked - len(there)
        steps.append(Step(looked, len(there) - finished, finished, others, others - len(cut[:CUT_DRAWN])))
    if last is None:
        raise Refusal("unexpected")
    answers = sorted((*last.finished, *last.open), key=lambda each: (-each.score, each.tokens))
    return Tree(tuple(nodes), tuple(steps), tuple(Answer(each) for each in answers), last.stopped)


def _possible(search: Search, tokens: Sequence[int]) -> int:
    """How many next tokens have a probability above 0."""
    return int(search.watch.seen[begun(search.begin, tokens)].log_probs.isfinite().sum())


def shares_of(search: Search, log_probs: torch.Tensor) -> torch.Tensor:
    """The probabilities by which sampling draws: temperature, top-k, top-p."""
    session = search.session
    top_k = min(session.dec_top_k, search.vocabulary) or None
    top_p = session.dec_top_p if session.dec_top_p < 1 else None
    return decoding.restricted(log_probs[None], session.dec_temperature, top_k, top_p)[0]


def _sampled(search: Search) -> Tree:
    """``DRAWS`` sentences, drawn as the core's ``sample`` draws with these seeds; beside them what was not drawn."""
    answers: list[Answer] = []
    for seed in range(search.session.dec_seed, search.session.dec_seed + DRAWS):
        generator = torch.Generator().manual_seed(seed % 2**31)
        drawn = torch.rand(1, search.longest, dtype=torch.float64, generator=generator)
        tokens: tuple[int, ...] = ()
        total = 0.0
        while len(tokens) < search.longest and tokens[-1:] != (search.end,):
            log_probs = search.watch([begun(search.begin, tokens)])[0]
            token = int(decoding.pick(shares_of(search, log_probs)[None], drawn[:, len(tokens)])[0])
            tokens, total = (*tokens, token), total + float(log_probs[token])
        answers.append(Answer(Hypothesis(tokens, total, total, tokens[-1] == search.end), seed % 2**31))
    answers.sort(key=lambda each: (-each.hypothesis.score, each.seed or 0))
    return Tree(*_of_answers(search, answers, CUT_DRAWN), tuple(answers), "length")


def _exhaustive(search: Search) -> Tree:
    """Every sequence there is; the best are drawn."""
    found = decoding.exhaustive(search.watch, search.begin, search.end, search.vocabulary, search.longest, search.norm)
    answers = [Answer(each) for each in found[:BEST_DRAWN]]
    nodes, drawn = _of_answers(search, answers, 0)
    steps = []
    for n, step in enumerate(drawn, start=1):
        asked = [beginning for beginning in search.watch.seen if len(beginning) == n]
        looked = sum(int(search.watch.seen[beginning].log_probs.isfinite().sum()) for beginning in asked)
        steps.append(Step(looked, step.kept, step.finished, 0, looked - step.kept - step.finished))
    return Tree(nodes, tuple(steps), tuple(answers), "length")


def _of_answers(
    search: Search, answers: Sequence[Answer], others: int
) -> tuple[tuple[Node, ...], tuple[Step, ...]]:
    """The nodes of these answers as one tree, and at each step the likeliest tokens that none of them has."""
    nodes: list[Node] = []
    steps: list[Step] = []
    for n in range(1, max(len(each.hypothesis.tokens) for each in answers) + 1):
        there = dict.fromkeys(each.hypothesis.tokens[:n] for each in answers if len(each.hypothesis.tokens) >= n)
        rest: list[Node] = []
        fates: list[str] = []
        looked = 0
        for before in dict.fromkeys(tokens[:-1] for tokens in there):
            log_probs, so_far = search.watch.seen[begun(search.begin, before)].log_probs, _total(search, before)
            looked += int(log_probs.isfinite().sum())
            for token in log_probs.argsort(descending=True, stable=True)[: others + len(there)].tolist():
                step = float(log_probs[token])
                if (*before, token) not in there and math.isfinite(step):
                    rest.append(Node((*before, token), step, so_far + step, "cut"))
            for tokens in (tokens for tokens in there if tokens[:-1] == before):
                step = float(log_probs[tokens[-1]])
                fate = "finished" if tokens[-1] == search.end else "open" if n == search.longest else "kept"
                fates.append(fate)
                nodes.append(Node(tokens, step, so_far + step, fate))
        finished = fates.count("finished")
        nodes += sorted(rest, key=lambda node: (-node.total, node.tokens))[:others]
        steps.append(Step(looked, len(fates) - finished, finished, 0, 0))
    return tuple(nodes), tuple(steps)


def _total(search: Search, tokens: Sequence[int]) -> float:
    """The log-probability of tokens that were asked for one after another."""
    return math.fsum(
        float(search.watch.seen[begun(search.begin, tokens[:n])].log_probs[token]) for n, token in enumerate(tokens)
    )
