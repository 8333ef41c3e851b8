"""One search as it is chosen, over a model or a table, with every limit checked. ``decode_tree`` carries it out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from explorer import decode_subject, decode_table
from explorer import live as running
from explorer.decode_subject import Source, Subject
from explorer.decode_table import Table
from explorer.decode_watch import ModelReader, Seen, Watch
from explorer.limits import Limits
from explorer.live import Trained
from explorer.refusals import Refusal
from explorer.session import Session
from transformer_core import decoding
from transformer_core.config import BEGIN, END
from transformer_core.cost import estimate

DRAWS = 5
"""Sampling draws so many sentences, each with a seed of its own."""
MOST_LOOKED = 4096
"""Exhaustive search computes so many next-token distributions of a model, or of a table."""
MOST_TIMES = 2
"""One search may cost so many times the operations that one forward on Explore may."""
COMPUTED = ("dec_from", "dec_text", "dec_item", "dec_table", "dec_method", "dec_width", "dec_norm", "dec_temperature",
            "dec_top_k", "dec_top_p", "dec_seed", "dec_length", "dec_layer")  # fmt: skip
"""The choices that numbers depend on; the others are where one looks."""


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
    def decoding(self) -> Any:
        """The library's ways to decode a model, with the fault that is switched on."""
        return running.shop_of(self.session.fault).decoding

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

    def distributions(self, length: int) -> int:
        """Σ_t (V - 1)^t, t < length: so many next-token distributions do all sequences of that length need."""
        return sum((self.vocabulary - 1) ** t for t in range(length))

    def fits(self) -> int:
        """The longest length whose sequences can all be looked at here; 0 if even one token is too much."""
        lengths = [n for n in range(1, self.longest + 1) if self.distributions(n) <= MOST_LOOKED]
        known = [n for n in lengths if decoding.count_sequences(self.vocabulary, n) <= decoding.search.MAX_SEQUENCES]
        return known[-1] if known else 0


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
            "dec_exhaustive", "dec_method", [*([{"dec_length": fits}] if fits else []), {"dec_method": "beam"}],
            length=search.longest, vocabulary=search.vocabulary, limit=f"{MOST_LOOKED:,}",
            count=about(search.distributions(search.longest)),
        )  # fmt: skip
    if search.subject is None:
        return
    rows = {"greedy": 1, "beam": session.dec_width, "sample": DRAWS, "exhaustive": 1}[session.dec_method]
    config, source = search.subject.model.config, len(search.source.ids)
    passes = search.longest if session.dec_method != "exhaustive" else search.distributions(search.longest)
    flops = passes * rows * estimate(config, 1, source, max(1, search.longest // 2)).flops
    most = MOST_TIMES * search.limits.max_flops
    if flops > most:
        shorter = search.longest * most // flops
        raise Refusal(
            "dec_costly", "dec_length", [*([{"dec_length": shorter}] if shorter else []), {"dec_method": "greedy"}],
            got=f"{flops / 1e9:,.0f}", high=f"{most / 1e9:,.0f}",
        )  # fmt: skip
