"""The sentences that one tab learns to translate: its file, sent in pieces, and the corpus made of it. Knows no gradio.

A file never touches the disk, and nobody else's tab sees it. What it may cost is limited before anything is made of it.
"""

from __future__ import annotations

import base64
import binascii
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from explorer.fields import refusal_of
from explorer.limits import Limits
from explorer.refusals import Refusal
from transformer_core.translation import Corpus, Pairs, builtin, make_corpus, read_pairs
from transformer_core.translation.builtin import NAME

PIECE = 160 * 1024
"""The most bytes of a file that travel in one request; the app takes no larger ones."""
SHOWN = 6
"""Held-out pairs that are shown."""
MAX_NAME = 80
FORWARD, BACKWARD = "forward", "backward"
DEFAULTS: Mapping[str, Any] = {
    "origin": "built_in", "direction": FORWARD, "min_count": 2, "max_vocabulary": 6000, "max_length": 20,
    "simplified": False,
}  # fmt: skip
NUMBERS = {"min_count": (1, 100), "max_vocabulary": (100, 20_000), "max_length": (3, 60)}
"""What the page lets one choose; the core allows more."""


@dataclass
class Sheet:
    """What a tab has put in, and what it has chosen to be made of it."""

    name: str = ""
    pairs: Pairs | None = None
    options: dict[str, Any] = field(default_factory=lambda: dict(DEFAULTS))
    corpus: Corpus | None = None
    """None: the built-in sentences from Chinese, as a tab has them that chose nothing."""
    coming: list[bytes] = field(default_factory=list)
    """The pieces of a file that is still on its way."""
    size: int = 0
    """How many bytes it will have."""

    def begin(self, name: object, size: object, limits: Limits) -> None:
        """A file is announced; what was on its way before is forgotten.

        Raises:
            Refusal: it is too large, or says nothing sensible of itself.
        """
        self.coming, self.size = [], 0
        if isinstance(size, bool) or not isinstance(size, int) or size < 0 or not isinstance(name, str):
            raise Refusal("corpus_broken")
        if size > limits.max_corpus_bytes:
            raise Refusal("corpus_large", size=f"{-(-size // 1024):,}", high=f"{limits.max_corpus_bytes // 1024:,}")
        self.name, self.size = name[:MAX_NAME], size

    def take(self, text: object) -> int:
        """The next piece in base 64; gives how many bytes have come.

        Raises:
            Refusal: it is none, or more than was announced; the file is given up.
        """
        try:
            piece = base64.b64decode(text if isinstance(text, str) else b"!", validate=True)
        except (binascii.Error, ValueError):
            piece = b""
        come = sum(map(len, self.coming)) + len(piece)
        if not piece or len(piece) > PIECE or come > self.size:
            self.coming, self.size = [], 0
            raise Refusal("corpus_broken")
        self.coming.append(piece)
        return come

    def read(self, limits: Limits) -> None:
        """The whole file as sentence pairs.

        Raises:
            Refusal: a part is missing, or there are no pairs in it; what was there before stays.
        """
        data, wanted = b"".join(self.coming), self.size
        self.coming, self.size = [], 0
        if len(data) != wanted:
            raise Refusal("corpus_broken")
        try:
            self.pairs = read_pairs(data, max_lines=limits.max_corpus_lines)
        except ValueError as error:
            raise refusal_of(error, "pairs") from error

    def make(self, wanted: Mapping[str, Any]) -> None:
        """The corpus of these options; those that are not given stay as they are.

        Raises:
            Refusal: an option that cannot be, or too little is left; the corpus that was there stays.
        """
        options = cleaned({**self.options, **wanted})
        if options["origin"] == "file" and self.pairs is None:
            raise Refusal("corpus_missing")
        try:
            corpus = self._made(options)
        except ValueError as error:
            raise refusal_of(error, "corpus") from error
        self.corpus, self.options = corpus, options

    def _made(self, options: Mapping[str, Any]) -> Corpus | None:
        direction = options["direction"]
        if options["origin"] == "built_in" or self.pairs is None:
            return None if direction == FORWARD else builtin(direction)
        chosen = {key: value for key, value in options.items() if key != "origin"}
        return make_corpus(self.pairs, name=self.name or "file", **chosen)

    def clear(self) -> None:
        """Nobody will come back to this tab."""
        self.pairs, self.corpus, self.coming, self.size = None, None, [], 0


def cleaned(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that there are, each of its own type; numbers within what the page offers.

    Raises:
        Refusal: one of them cannot be.
    """
    clean = {key: options.get(key, value) for key, value in DEFAULTS.items()}
    if clean["origin"] not in ("built_in", "file") or clean["direction"] not in (FORWARD, BACKWARD):
        raise Refusal("corpus_broken")
    if not isinstance(clean["simplified"], bool):
        raise Refusal("corpus_broken")
    for key, (low, high) in NUMBERS.items():
        value = clean[key]
        if isinstance(value, float) and value.is_integer():
            value = clean[key] = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise Refusal("corpus_number", key, low=f"{low:,}", high=f"{high:,}")
    return clean


def told(sheet: Sheet, limits: Limits) -> dict[str, Any]:
    """What the panel shows, as JSON: where the sentences are from, what became of them, and some of them."""
    corpus = sheet.corpus or builtin()
    own = corpus.name == NAME and sheet.options["origin"] == "built_in"
    return {
        "origin": "built_in" if own else "file",
        "name": "" if own else corpus.name,
        "has_file": sheet.pairs is not None,
        "file": sheet.name if sheet.pairs is not None else "",
        "languages": list(corpus.options["languages"]),
        "options": dict(sheet.options),
        "numbers": {key: list(bounds) for key, bounds in NUMBERS.items()},
        "report": dict(corpus.report),
        "pairs": examples(corpus),
        "can_simplify": importlib.util.find_spec("opencc") is not None,
        "most": {"bytes": limits.max_corpus_bytes, "lines": limits.max_corpus_lines, "piece": PIECE * 3 // 4},
    }


def examples(corpus: Corpus) -> list[dict[str, Any]]:
    """A few held-out pairs, spread over all: the source word by word, unknown words marked, and the target."""
    step = max(1, len(corpus.held_out) // SHOWN)
    chosen = list(zip(corpus.held_out, corpus.references, strict=True))[::step][:SHOWN]
    return [
        {"src": [[corpus.src_symbols[token], token == 3] for token in src], "tgt": reference,
         "unknown": [corpus.tgt_symbols[token] for token in tgt].count(corpus.tgt_symbols[3])}
        for (src, tgt), reference in chosen
    ]  # fmt: skip
