"""One search as it is chosen: greedy, drawn, by beam or exhaustive, over a model or a table; and what it looked at."""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch

from explorer import decode_subject, decode_table
from explorer.decode_subject import Source, Subject
from explorer.decode_table import Table
from explorer.decode_watch import Beginning, ModelReader, Seen, Watch, begun
from explorer.limits import Limits
from explorer.live import Trained
from explorer.refusals import Refusal
from explorer.session import Session
from transformer_core import decoding
from transformer_core.config import BEGIN, END
from transformer_core.cost import estimate
from transformer_core.decoding import Hypothesis

DRAWS = 5
"""Sampling draws so many sentences, each with a seed of its own."""
CUT_DRAWN = 3
"""So many of the candidates that were cut are drawn at each step, the likeliest."""
BEST_DRAWN = 8
"""So many of all sequences that there are."""
MOST_LOOKED = 4096
"""Exhaustive search computes so many next-token distributions of a model, or of a table."""
COMPUTED = ("dec_from", "dec_text", "dec_item", "dec_table", "dec_method", "dec_width", "dec_norm", "dec_temperature",
            "dec_top_k", "dec_top_p", "dec_seed", "dec_length", "dec_layer")  # fmt: skip
"""The choices that numbers depend on; the others are where one looks."""


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


@dataclass(eq=False)
class Search:
    """The choices of a session, ready to be searched: limits were checked, nothing was searched yet."""

    session: Session
    limits: Limits
    subject: Subject | None
    source: Source | None
    table: Table | None
    longest: int
    id: str

    @property
    def begin(self) -> int:
        return BEGIN if self.table is None else self.table.begin

    @property
    def end(self) -> int:
        return END if self.table is None else 0

    @property
    def vocabulary(self) -> int:
        return self.subject.model.config.tgt_vocab_size if self.subject is not None else len(self.table.symbols)

    @property
    def norm(self) -> bool:
        return self.session.dec_norm == "on" and self.session.dec_method in ("beam", "exhaustive")

    @property
    def layer(self) -> int:
        """The decoder layer whose cross-attention is shown; 0 in a link is the last one."""
        layers = self.subject.model.config.n_decoder_layers
        return layers - 1 if not 1 <= self.session.dec_layer <= layers else self.session.dec_layer - 1

    @cached_property
    def watch(self) -> Watch:
        """What the search asks, with the attention of every beginning."""
        return self.watcher(True)

    def watcher(self, attention: bool) -> Watch:
        if self.table is not None:
            table = self.table
            return Watch(lambda beginnings: [Seen(row) for row in table.next_log_probs(beginnings)])
        return Watch(ModelReader(self.subject.model, self.source.row(), self.layer if attention else None))

    @cached_property
    def tree(self) -> Tree:
        """The search itself, with its time in ``milliseconds`` afterwards."""
        start = time.perf_counter()
        found = {"greedy": _greedy, "beam": _beam, "sample": _sampled, "exhaustive": _exhaustive}[
            self.session.dec_method
        ](self)
        self.milliseconds = 1000 * (time.perf_counter() - start)
        return found

    def distributions(self, length: int) -> int:
        """How many next-token distributions all sequences of at most ``length`` tokens need: Σ (V - 1)^t, t < length."""
        return sum((self.vocabulary - 1) ** t for t in range(length))

    def fits(self) -> int:
        """The longest length whose sequences can all be looked at here; 0 if even one token is too much."""
        lengths = [n for n in range(1, self.longest + 1) if self.distributions(n) <= MOST_LOOKED]
        known = [n for n in lengths if decoding.count_sequences(self.vocabulary, n) <= MOST_SEQUENCES]
        return known[-1] if known else 0


MOST_SEQUENCES = 100_000


def prepared(session: Session, trained: Trained | None, limits: Limits) -> Search:
    """The search that these choices ask for.

    Raises:
        Refusal: there is nothing to decode, the sentence or the table cannot be read, or it is too much for this host.
    """
    chosen = [getattr(session, name) for name in COMPUTED]
    if session.dec_from != "model":
        own = decode_table.of_trap(session.dec_from)
        table = decode_table.read_table(session.dec_table) if session.dec_table.strip() else own
        found = Search(session, limits, None, None, table, session.dec_length, _identity(chosen, "table"))
    else:
        subject = decode_subject.subject_of(session, trained, limits)
        source = decode_subject.source_of(subject, session)
        longest = min(session.dec_length, subject.model.config.max_seq_len)
        of = [id(trained), repr(subject.model.config), repr(subject.model.masks), subject.seed, session.fault]
        found = Search(session, limits, subject, source, None, longest, _identity(chosen, of))
    _refuse_costly(found)
    return found


def about(count: int) -> str:
    """
    >>> about(2955), about(1_172_812_402_961)
    ('2,955', '1.2·10¹²')
    """
    if count < 10**7:
        return f"{count:,}"
    factor, _, power = f"{count:.1e}".partition("e+")
    return f"{factor}·10{power.lstrip('0').translate(str.maketrans('0123456789', '⁰¹²³⁴⁵⁶⁷⁸⁹'))}"


def _identity(chosen: Sequence[object], of: object) -> str:
    return hashlib.sha1(repr((chosen, of)).encode()).hexdigest()[:10]


def _refuse_costly(search: Search) -> None:
    """Widths and lengths are limited one by one; together with a large model they can still be too much.

    Raises:
        Refusal: with the length, or the method, that fits.
    """
    session = search.session
    if session.dec_method == "exhaustive" and search.fits() < search.longest:
        fits = search.fits()
        raise Refusal(
            "dec_exhaustive", "dec_method", ({"dec_length": fits} if fits else {"dec_method": "beam"}, {"dec_method": "beam"})[: 2 if fits else 1],
            length=search.longest, vocabulary=search.vocabulary, limit=f"{MOST_LOOKED:,}",
            count=about(search.distributions(search.longest)),
        )  # fmt: skip
    if search.subject is None:
        return
    rows = {"greedy": 1, "beam": session.dec_width, "sample": DRAWS, "exhaustive": 1}[session.dec_method]
    config, source = search.subject.model.config, len(search.source.ids)
    passes = search.longest if session.dec_method != "exhaustive" else search.distributions(search.longest)
    flops = passes * rows * estimate(config, 1, source, max(1, search.longest // 2)).flops
    if flops > 2 * search.limits.max_flops:
        shorter = max(1, int(search.longest * 2 * search.limits.max_flops / flops))
        choices = [{"dec_length": shorter}] if shorter < search.longest else []
        raise Refusal(
            "dec_costly", "dec_length", [*choices, {"dec_method": "greedy"}], got=f"{flops / 1e9:,.0f}",
            high=f"{2 * search.limits.max_flops / 1e9:,.0f}",
        )  # fmt: skip


# --------------------------------------------------------------------------------------------------------- the methods


def _beam(search: Search) -> Tree:
    """Every step of the core's beam search, with the likeliest of what it cut."""
    return _by_steps(search, search.session.dec_width, search.norm)


def _greedy(search: Search) -> Tree:
    """A beam of one that is never told of a second best: what the core's ``greedy`` writes."""
    tree = _by_steps(search, 1, False)
    best = tree.answers[0].hypothesis
    chosen = {best.tokens[:n] for n in range(1, len(best.tokens) + 1)}
    nodes = tuple(node if node.tokens in chosen else Node(node.tokens, node.log_prob, node.total, "cut")
                  for node in tree.nodes)  # fmt: skip
    steps = tuple(
        Step(step.looked, int(not ends), int(ends), step.looked - 1, step.more)
        for step, ends in zip(tree.steps, [n == len(best.tokens) and best.finished for n in range(1, len(tree.steps) + 1)], strict=True)
    )
    return Tree(nodes, steps, (Answer(best),), "length" if not best.finished else "none")


def _by_steps(search: Search, width: int, norm: bool) -> Tree:
    nodes: list[Node] = []
    steps: list[Step] = []
    last = None
    for last in decoding.beam_steps(search.watch, search.begin, search.end, width, search.longest, norm, most=CUT_DRAWN):
        asked = {each.prefix for each in last.candidates}
        looked = sum(_possible(search, prefix) for prefix in asked)
        by_fate = {fate: [each for each in last.candidates if each.fate == fate] for fate in ("kept", "finished", "cut")}
        drawn = sorted(by_fate["cut"], key=lambda each: (-each.running, each.tokens))[:CUT_DRAWN]
        unfinished = "open" if last.stopped else "kept"
        for each in (*by_fate["kept"], *by_fate["finished"], *drawn):
            nodes.append(Node(each.tokens, each.log_prob, each.running, unfinished if each.fate == "kept" else each.fate))
        kept, finished = len(by_fate["kept"]), len(by_fate["finished"])
        cut = looked - kept - finished
        steps.append(Step(looked, kept, finished, cut, cut - len(drawn)))
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
        there = {each.hypothesis.tokens[:n]: each.hypothesis for each in answers if len(each.hypothesis.tokens) >= n}
        rest: list[Node] = []
        looked = 0
        fates = []
        for before in dict.fromkeys(tokens[:-1] for tokens in there):
            log_probs, so_far = search.watch.seen[begun(search.begin, before)].log_probs, _total(search, before)
            looked += int(log_probs.isfinite().sum())
            for token in log_probs.argsort(descending=True, stable=True)[: others + len(there)].tolist():
                if (*before, token) not in there and math.isfinite(log_probs[token]):
                    rest.append(Node((*before, token), float(log_probs[token]), so_far + float(log_probs[token]), "cut"))
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
