"""Beam search (section 6.1) and its ground truth: which sequence of tokens is the likeliest as a whole?

A model says how likely each next token is after a beginning; the probability of a sequence is the product of them, its
logarithm their sum. Which sequence has the largest one cannot be read off step by step: behind a likely token there may
be nothing likely. Beam search keeps several beginnings in the running, the ``width`` best of every length.

Nothing here knows a model. ``next_log_probs`` maps beginnings, the begin id first in each, to the log-probabilities of
every next token, so a table on paper will do:

>>> after = {(9,): [0.0, 0.6, 0.4], (9, 1): [0.4, 0.3, 0.3], (9, 2): [0.9, 0.1, 0.0]}  # the end, A, B
>>> table = lambda beginnings: torch.tensor([after[beginning] for beginning in beginnings]).log()
>>> for width in (1, 2):  # 0.6 · 0.4 against 0.4 · 0.9
...     best = beam_search(table, begin_id=9, end_id=0, width=width, max_length=2)[0]
...     print(best.tokens, f"{best.log_prob:.4f}", best.finished)
(1, 0) -1.4271 True
(2, 0) -1.0217 True
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer_core.checked import check_whole

Beginning = tuple[int, ...]
"""The tokens of a target so far, the begin id first."""
NextLogProbs = Callable[[list[Beginning]], Tensor]
"""n beginnings, all equally long -> their n x V log-probabilities of the next token."""

MAX_WIDTH, MAX_LENGTH = 1024, 1 << 20
MAX_SEQUENCES = 100_000
"""``exhaustive`` looks at so many sequences and no more."""


@dataclass(frozen=True)
class Hypothesis:
    """One possible answer: its tokens behind the begin id, the end id among them if it has one."""

    tokens: tuple[int, ...]
    log_prob: float
    """ln p(tokens) = Σ_t ln p(token[t] | token[<t])."""
    score: float
    """What it is ranked by: ``log_prob``, or with length normalisation ``log_prob`` / the number of tokens."""
    finished: bool
    """Whether it has its end id; otherwise it was cut, at the greatest length or because it could no longer win."""


@dataclass(frozen=True)
class Candidate:
    """One token that may go behind one beginning, and what became of it."""

    prefix: tuple[int, ...]
    """The tokens before it, without the begin id."""
    token: int
    log_prob: float
    """Of this token alone."""
    running: float
    """Of all tokens up to this one."""
    score: float
    fate: str
    """"kept": it goes on; "finished": it has ended and is put aside; "cut": others are better."""

    @property
    def tokens(self) -> tuple[int, ...]:
        return (*self.prefix, self.token)


@dataclass(frozen=True)
class BeamStep:
    """One step of the search: all that was looked at, and what there is afterwards, the best first."""

    step: int
    candidates: tuple[Candidate, ...]
    """In the order of their beginnings, the likeliest first behind each; impossible tokens are left out."""
    open: tuple[Hypothesis, ...]
    finished: tuple[Hypothesis, ...]
    stopped: str
    """Why the search ends with this step: "length", "won" (no open one can become the best), "none" (none is open);
    empty if it goes on."""


class Beam:
    """The state of one search. ``advance`` takes one step, given the log-probabilities behind all ``beginnings``.

    At every step the candidates are all tokens behind all open beginnings, ranked by their running log-probability; a
    tie goes to the one with the lower token ids. The ``width`` best of those that do not end go on. One that ends is
    put aside if it is among the ``width`` best of all. The first to end need not be the best: the search goes on as
    long as an open one can still become it.

    score = log_prob, or with ``length_norm`` log_prob / n with the end token counted in n. Each further token makes a
    log-probability smaller, so that without normalisation short answers are favoured.

    Differs from the paper, which divides by ((5 + n) / 6)^0.6 (Wu et al. 2016) and looks at widths of 4.

    Raises:
        ConfigError: ``width`` or ``max_length`` is no whole number, or out of range.
    """

    def __init__(self, begin_id: int, end_id: int, width: int, max_length: int, length_norm: bool = False) -> None:
        self.begin_id, self.end_id, self.length_norm = begin_id, end_id, length_norm
        self.width = check_whole("width", width, 1, MAX_WIDTH)
        self.max_length = check_whole("max_length", max_length, 1, MAX_LENGTH)
        self.step = 0
        self.open = [Hypothesis((), 0.0, 0.0, False)]
        """In the order of their token ids."""
        self.finished: list[Hypothesis] = []
        self.stopped = ""

    @property
    def beginnings(self) -> list[Beginning]:
        """What ``advance`` wants to know the next token of."""
        return [(self.begin_id, *each.tokens) for each in self.open]

    @property
    def hypotheses(self) -> list[Hypothesis]:
        """All answers so far, the best first."""
        return ranked(self.finished + self.open)

    def advance(self, log_probs: Tensor) -> dict[tuple[int, int], str]:
        """Goes one token further. Gives (row of the beginning, token) -> "kept" or "finished"; the others are cut.

        Raises:
            ValueError: these are no log-probabilities, a row for each beginning.
        """
        log_probs = checked_log_probs(log_probs, len(self.open), self.end_id)
        running = log_probs + torch.tensor([each.log_prob for each in self.open], dtype=torch.float64)[:, None]
        kept: list[Hypothesis] = []
        ended: list[Hypothesis] = []
        fates = {}
        # Behind each beginning one candidate ends at most: among width + len(open) there are width that do not.
        for rank, place in enumerate(largest(running.flatten(), self.width + len(self.open))):
            row, token = divmod(place, running.shape[1])
            tokens, log_prob = (*self.open[row].tokens, token), running[row, token].item()
            new = Hypothesis(tokens, log_prob, self.score(log_prob, len(tokens)), token == self.end_id)
            if new.finished and rank < self.width:
                ended.append(new)
                fates[row, token] = "finished"
            elif not new.finished and len(kept) < self.width:
                kept.append(new)
                fates[row, token] = "kept"
        self.step += 1
        self.open = sorted(kept, key=lambda each: each.tokens)  # so places in ``running`` are in the order of tokens
        self.finished += ended
        self.stopped = self._reason_to_stop()
        return fates

    def score(self, log_prob: float, length: int) -> float:
        return log_prob / length if self.length_norm else log_prob

    def _reason_to_stop(self) -> str:
        if not self.open:
            return "none"
        if self.step == self.max_length:
            return "length"
        # At best every further token is certain, and log_prob stays as it is; to divide by more is better then.
        reachable = self.score(max(each.log_prob for each in self.open), self.max_length)
        return "won" if any(each.score > reachable for each in self.finished) else ""


def beam_search(
    next_log_probs: NextLogProbs, begin_id: int, end_id: int, width: int, max_length: int, length_norm: bool = False
) -> list[Hypothesis]:
    """The answers that a beam of ``width`` finds, the best first: all that ended, and those still open when it stopped.

    ``Beam`` says how it chooses, and with the module's first lines there is an example.

    Raises:
        ConfigError: ``width`` or ``max_length`` is no whole number, or out of range.
        ValueError: what ``next_log_probs`` gives are no log-probabilities.
    """
    beam = Beam(begin_id, end_id, width, max_length, length_norm)
    while not beam.stopped:
        beam.advance(next_log_probs(beam.beginnings))
    return beam.hypotheses


def beam_steps(
    next_log_probs: NextLogProbs, begin_id: int, end_id: int, width: int, max_length: int, length_norm: bool = False,
    most: int | None = None,
) -> Iterator[BeamStep]:  # fmt: skip
    """The same search step by step, with every candidate and its fate; the last step's hypotheses are the answer.

    With ``most``, only so many of the candidates that are cut are told behind each beginning, the likeliest.

    Raises:
        ConfigError, ValueError: as ``beam_search``.
    """
    beam = Beam(begin_id, end_id, width, max_length, length_norm)
    while not beam.stopped:
        before, log_probs = beam.open, next_log_probs(beam.beginnings)
        fates = beam.advance(log_probs)
        candidates = tuple(_candidates(beam, before, log_probs.double().cpu(), fates, most))
        yield BeamStep(beam.step, candidates, tuple(ranked(beam.open)), tuple(ranked(beam.finished)), beam.stopped)


def _candidates(
    beam: Beam, before: list[Hypothesis], log_probs: Tensor, fates: dict[tuple[int, int], str], most: int | None
) -> Iterator[Candidate]:
    for row, beginning in enumerate(before):
        cut = 0
        for token in largest(log_probs[row], log_probs.shape[1]):
            fate = fates.get((row, token), "cut")
            cut += fate == "cut"
            if fate != "cut" or most is None or cut <= most:
                log_prob = log_probs[row, token].item()
                running = beginning.log_prob + log_prob
                score = beam.score(running, len(beginning.tokens) + 1)
                yield Candidate(beginning.tokens, token, log_prob, running, score, fate)


def exhaustive(
    next_log_probs: NextLogProbs, begin_id: int, end_id: int, vocabulary: int, max_length: int,
    length_norm: bool = False,
) -> list[Hypothesis]:  # fmt: skip
    """Every sequence there is, the best first: those that end within ``max_length`` tokens, and those cut there.

    Their probabilities add up to 1. Of V tokens and n places there are (V - 1)^0 + ... + (V - 1)^(n - 1) that end, and
    (V - 1)^n that do not; a beam that is as wide as that cannot miss any. Impossible ones are left out.

    Raises:
        ConfigError: ``vocabulary`` or ``max_length`` is no whole number, or out of range.
        ValueError: there are too many of them, or what ``next_log_probs`` gives are no log-probabilities.
    """
    check_whole("vocabulary", vocabulary, 1, 1 << 24)
    check_whole("max_length", max_length, 1, MAX_LENGTH)
    if count_sequences(vocabulary, max_length) > MAX_SEQUENCES:
        fits = [length for length in range(1, 18) if count_sequences(vocabulary, length) <= MAX_SEQUENCES]
        nearest = f"the nearest max_length is {fits[-1]}" if fits else "even one token is too much"
        raise ValueError(
            f"a vocabulary of {vocabulary} has more than {MAX_SEQUENCES:,} sequences of up to {max_length} tokens, too "
            f"many to look at each; {nearest}"
        )
    done: list[Hypothesis] = []
    beginnings: dict[tuple[int, ...], float] = {(): 0.0}  # tokens -> log_prob
    for length in range(1, max_length + 1):
        asked: list[Beginning] = [(begin_id, *tokens) for tokens in beginnings]
        log_probs = checked_log_probs(next_log_probs(asked), len(asked), end_id, vocabulary)
        longer: dict[tuple[int, ...], float] = {}
        for (tokens, so_far), row in zip(beginnings.items(), log_probs.tolist(), strict=True):
            for token, log_prob in enumerate(row):
                total = so_far + log_prob
                if total == -math.inf:
                    continue
                if token == end_id or length == max_length:
                    score = total / length if length_norm else total
                    done.append(Hypothesis((*tokens, token), total, score, token == end_id))
                else:
                    longer[*tokens, token] = total
        beginnings = longer
        if not beginnings:
            break
    return ranked(done)


def count_sequences(vocabulary: int, max_length: int) -> int:
    """How many sequences end within ``max_length`` tokens or are cut there.

    >>> count_sequences(3, 1), count_sequences(3, 4)
    (3, 31)
    """
    total, open_ones = 0, 1
    for _ in range(max_length):
        total += open_ones
        open_ones *= vocabulary - 1
        if total + open_ones > MAX_SEQUENCES or not open_ones:
            break
    return total + open_ones


def ranked(hypotheses: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The best score first; of equal ones, the one with the lower token ids."""
    return sorted(hypotheses, key=lambda each: (-each.score, each.tokens))


def largest(values: Tensor, n: int) -> list[int]:
    """The places of the n largest values, the largest first; of equal ones the first first, of -∞ none.

    ``topk`` alone does not say which of equal values it takes.
    """
    least = values.topk(min(n, len(values))).values[-1]
    places = ((values >= least) & (values > -math.inf)).nonzero()[:, 0]
    order = values[places].argsort(descending=True, stable=True)[:n]
    chosen: list[int] = places[order].tolist()
    return chosen


def checked_log_probs(log_probs: Tensor, rows: int, end_id: int, vocabulary: int | None = None) -> Tensor:
    """The log-probabilities in float64 on the CPU.

    Raises:
        ValueError: they are not one row for each beginning, have no place for the end id, or cannot be logarithms of
            probabilities.
    """
    shape = tuple(log_probs.shape)
    if len(shape) != 2 or shape[0] != rows or (vocabulary is not None and shape[1] != vocabulary):
        wanted = f"({rows}, {'V' if vocabulary is None else vocabulary})"
        raise ValueError(f"next_log_probs gave shape {shape} for {rows} beginnings; {wanted} is wanted, a row for each")
    if not 0 <= end_id < shape[1]:
        raise ValueError(f"end_id is {end_id}, and next_log_probs tells of the tokens 0 to {shape[1] - 1}")
    log_probs = log_probs.detach().double().cpu()
    highest = log_probs.max().item()
    if math.isnan(highest) or highest > 1e-4:
        raise ValueError(
            f"next_log_probs gave {highest:g}; the logarithm of a probability is at most 0 (log_softmax makes them of "
            "logits)"
        )
    return log_probs
