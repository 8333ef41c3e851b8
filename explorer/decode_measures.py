"""Three measurements beside a search: the best of all, training and decoding on one sentence, and the cache."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from explorer.decode_payload import _plain, text, word
from explorer.decode_search import MOST_LOOKED, Search, about
from explorer.decode_watch import Beginning
from explorer.refusals import Refusal
from transformer_core import decoding
from transformer_core.config import BEGIN, END, PAD
from transformer_core.decoding import Hypothesis

Found = TypeVar("Found")
WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8)
RUNS, ENOUGH = 3, 400
"""Times are the fastest of so many runs: whatever else the host does only makes them longer. After so many milliseconds
no further run is begun."""
LIMIT = 2e-5
"""Of a difference, relative to the largest logit: rounding in float32, as everywhere on the page."""


def truth(search: Search) -> dict[str, Any]:
    """What each beam width finds, and where all sequences can be looked at, whether it is the best of them."""
    watch, norm = search.watcher(False), search.norm
    widths = [width for width in WIDTHS if width <= search.limits.max_beam]
    if search.subject is not None and search.subject.model.config.tgt_vocab_size > 1000:
        widths = [width for width in widths if width in (1, 2, 4, 8)]
    best = None
    if search.fits() >= search.longest:
        best = decoding.exhaustive(watch, search.begin, search.end, search.vocabulary, search.longest, norm)[0]
    count = search.distributions(search.longest) if best is None else len(watch.seen)
    found = []
    for width in widths:
        asked: set[Beginning] = set()

        def counting(beginnings: list[Beginning], asked: set[Beginning] = asked) -> Tensor:
            asked.update(beginnings)
            return watch(beginnings)

        first = decoding.beam_search(counting, search.begin, search.end, width, search.longest, norm)[0]
        found.append(_told(search, first) | {
            "width": width, "looked": len(asked),
            "found": best is not None and (first.tokens == best.tokens or abs(first.score - best.score) < 1e-9),
        })  # fmt: skip
    return {
        "best": None if best is None else _told(search, best), "widths": found,
        "first": next((each["width"] for each in found if each["found"]), None),
        "count": about(count), "limit": MOST_LOOKED, "fits": search.fits(),
    }  # fmt: skip


def _told(search: Search, found: Hypothesis) -> dict[str, Any]:
    return {"text": text(search, found.tokens), "score": _plain(found.score, 9), "finished": found.finished}


def both_ways(search: Search) -> dict[str, Any]:
    """One target read at once and one token at a time: the right answer, and the model's own words.

    Raises:
        Refusal: there is no model, so nothing reads.
    """
    if search.subject is None or search.source is None:
        raise Refusal("dec_no_measure", given="ways", allowed=["truth"])
    row = search.source.row()
    own = tuple(search.decoding.greedy(search.subject.model, row, max_length=search.longest)[0].tolist())
    targets = {"teacher": search.source.reference, "own": own}
    parts = [_way(search, row, name, tokens) for name, tokens in targets.items() if tokens]
    return {"parts": parts}


def _way(search: Search, row: Tensor, name: str, tokens: tuple[int, ...]) -> dict[str, Any]:
    model = search.subject.model
    tokens = tokens[: model.config.max_seq_len]
    tgt = torch.tensor([[BEGIN, *tokens[:-1]]])
    device = model.output.weight.device
    with torch.no_grad():
        _, at_once = _fastest(lambda: model(row.to(device), tgt.to(device)))
    both, together = _fastest(lambda: search.decoding.both_ways(model, row, tgt))  # that pass again, then one by one
    parallel, single = (logits[0].cpu() for logits in both)
    differences = (parallel - single).abs().amax(dim=-1)
    limit = LIMIT * max(1.0, float(parallel.abs().max()))
    rows = []
    for place, (one, other) in enumerate(zip(parallel.softmax(-1), single.softmax(-1), strict=True)):
        rows.append({
            "read": word(search, int(tgt[0, place])), "wanted": word(search, tokens[place]),
            "parallel": _likeliest(search, one), "single": _likeliest(search, other),
            "largest": _plain(float(differences[place]), 3),
        })  # fmt: skip
    largest = float(differences.max())
    return {
        "name": name, "rows": rows, "largest": _plain(largest, 3), "limit": _plain(limit, 2), "equal": largest <= limit,
        "passes": len(tokens), "ms": [round(at_once, 3), round(max(together - at_once, 0.0), 3)],
    }  # fmt: skip


def _likeliest(search: Search, shares: Tensor) -> list[Any]:
    token = int(shares.argmax())
    return [word(search, token), _plain(float(shares[token]), 4)]


def cache(search: Search) -> dict[str, Any]:
    """The same searches with keys and values kept and without: their answers, their scores, their times.

    The last row ignores the end, so that it shows the longest answer that there may be.

    Raises:
        Refusal: there is no model, so nothing is kept.
    """
    if search.subject is None or search.source is None:
        raise Refusal("dec_no_measure", given="cache", allowed=["truth"])
    width = search.session.dec_width if search.session.dec_method == "beam" and search.session.dec_width > 1 else 4
    longest = min(search.subject.model.config.max_seq_len, search.limits.max_decoded)
    rows = [_greedy_row(search, END, search.longest, "greedy"), _beam_row(search, width)]
    if longest > rows[0]["tokens"]:
        rows.append(_greedy_row(search, PAD, longest, "long"))
    return {"rows": rows, "runs": RUNS}


def _greedy_row(search: Search, end: int, longest: int, name: str) -> dict[str, Any]:
    model, row = search.subject.model, search.source.row()
    asked = {"max_length": longest, "end_id": end}
    ways = {kept: functools.partial(search.decoding.greedy, model, row, **asked, cache=kept) for kept in (False, True)}
    (plain, without), (cached, kept_ms) = _fastest(ways[False]), _fastest(ways[True])
    scores = [_score_of(search, cached[0].tolist(), kept) for kept in (False, True)]
    return {
        "name": name, "width": 1, "tokens": int(plain.shape[1]), "same": torch.equal(plain, cached),
        "largest": _plain(abs(scores[0] - scores[1]), 3), "without": round(without, 3), "cached": round(kept_ms, 3),
    }  # fmt: skip


def _score_of(search: Search, tokens: list[int], kept: bool) -> float:
    """The log-probability of these tokens, asked for one after another."""
    read = search.decoding.next_log_probs_of(search.subject.model, search.source.row(), cache=kept)
    return sum(float(read([(BEGIN, *tokens[:n])])[0, token]) for n, token in enumerate(tokens))


def _beam_row(search: Search, width: int) -> dict[str, Any]:
    model, row = search.subject.model, search.source.row()

    def found(kept: bool) -> list[Hypothesis]:
        asked = {"max_length": search.longest, "length_norm": search.norm, "cache": kept}
        return search.decoding.beam(model, row, width, **asked)[0]

    ways = {kept: functools.partial(found, kept) for kept in (False, True)}
    (plain, without), (cached, kept_ms) = _fastest(ways[False]), _fastest(ways[True])
    pairs = list(zip(plain, cached, strict=False))
    return {
        "name": "beam", "width": width, "tokens": len(plain[0].tokens),
        "same": [each.tokens for each in plain] == [each.tokens for each in cached],
        "largest": _plain(max(abs(one.log_prob - other.log_prob) for one, other in pairs), 3),
        "without": round(without, 3), "cached": round(kept_ms, 3),
    }  # fmt: skip


def _fastest(run: Callable[[], Found]) -> tuple[Found, float]:
    """What a function gives, and the milliseconds of its fastest run."""
    times: list[float] = []
    while len(times) < RUNS and sum(times) < ENOUGH:
        start = time.perf_counter()
        found = run()
        times.append(1000 * (time.perf_counter() - start))
    return found, min(times)
