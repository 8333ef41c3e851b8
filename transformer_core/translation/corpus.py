"""A corpus: sentence pairs as ids, split into training and held-out, with the words that the ids stand for.

``pack`` writes one as a line of text, so that a run can take its sentences along; ``unpack`` reads it back.
"""

import base64
import binascii
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from transformer_core.batches import PAD_SIGN, SIGNS
from transformer_core.config import BEGIN, END, FIRST_FREE, PAD, UNKNOWN

Ids = tuple[int, ...]
Pair = tuple[Ids, Ids]
"""Source and target, without the ids that begin and end a target."""

SPECIAL = (PAD_SIGN, *(SIGNS[token] for token in sorted(SIGNS)))
"""How the ids 0 to 3 print on both sides."""
MAX_PACKED, MAX_UNPACKED = 16 << 20, 64 << 20
"""The longest text that is unpacked, and the most bytes that may come out of it."""
FORMAT = "translation corpus 1"


@dataclass(frozen=True)
class Corpus:
    """Token ids of both sides and what is needed to read them. No source of ``held_out`` is in ``train``."""

    src_symbols: tuple[str, ...]
    tgt_symbols: tuple[str, ...]
    train: tuple[Pair, ...]
    held_out: tuple[Pair, ...]
    references: tuple[str, ...]
    """The held-out target sentences as they were written, unknown words and all: what a translation is held against."""
    name: str
    sha256: str
    """Of the file that the pairs came from."""
    options: Mapping[str, Any]
    """What ``make_corpus`` was asked, and ``languages``, "zh" or "other", of source and target."""
    report: Mapping[str, Any] = field(default_factory=dict)
    """What was read, kept and dropped, and why; see ``making.make_corpus``."""

    @cached_property
    def src_ids(self) -> Mapping[str, int]:
        """Word -> id on the source side; the special signs are no words."""
        return MappingProxyType({word: i for i, word in enumerate(self.src_symbols) if i >= FIRST_FREE})

    @cached_property
    def tgt_ids(self) -> Mapping[str, int]:
        """Word -> id on the target side."""
        return MappingProxyType({word: i for i, word in enumerate(self.tgt_symbols) if i >= FIRST_FREE})

    @cached_property
    def tensors(self) -> Mapping[str, tuple[Tensor, Tensor]]:
        """ "train" and "held_out" as ``padded`` gives them; made once."""
        return MappingProxyType({"train": padded(self.train), "held_out": padded(self.held_out)})

    @cached_property
    def longest(self) -> tuple[int, int]:
        """The most tokens of a source, and of a target without its begin and end."""
        pairs = (*self.train, *self.held_out)
        return max(len(src) for src, _ in pairs), max(len(tgt) for _, tgt in pairs)

    def __hash__(self) -> int:
        return hash((self.sha256, len(self.train), self.name))

    def __reduce__(self) -> tuple[Any, ...]:
        """A corpus travels packed, without what can be made of it anew."""
        return unpack, (pack(self),)


def padded(pairs: Sequence[Pair]) -> tuple[Int[Tensor, "N s"], Int[Tensor, "N t"]]:
    """All sources, and all targets between begin and end, each side as wide as its longest.

    >>> [side.tolist() for side in padded([((7, 8), (9,)), ((7,), (5, 6))])]
    [[[7, 8], [7, 0]], [[1, 9, 2, 0], [1, 5, 6, 2]]]
    """
    src = pad_sequence([torch.tensor(src) for src, _ in pairs], batch_first=True, padding_value=PAD)
    target = [torch.tensor([BEGIN, *tgt, END]) for _, tgt in pairs]
    return src, pad_sequence(target, batch_first=True, padding_value=PAD)


def ids_of(words: Iterable[str], known: Mapping[str, int]) -> Ids:
    """The ids of these words, the unknown id for each that is not in the vocabulary."""
    return tuple(known.get(word, UNKNOWN) for word in words)


def pack(corpus: Corpus) -> str:
    """The corpus as one line of ASCII: JSON, compressed, in base 64. Only words, ids and settings are in it."""
    content = {
        "format": FORMAT,
        "name": corpus.name,
        "sha256": corpus.sha256,
        "options": dict(corpus.options),
        "report": dict(corpus.report),
        "src_symbols": corpus.src_symbols[FIRST_FREE:],
        "tgt_symbols": corpus.tgt_symbols[FIRST_FREE:],
        "train": corpus.train,
        "held_out": corpus.held_out,
        "references": corpus.references,
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(), 9)).decode()


def unpack(text: str) -> Corpus:
    """The corpus of a packed line. Nothing in it is executed, and what it may take of memory is limited.

    Raises:
        ValueError: it is too long or damaged, or no corpus.
    """
    if len(text) > MAX_PACKED:
        raise ValueError(f"a packed corpus of {len(text):,} characters is too long; at most {MAX_PACKED:,} are read")
    try:
        opened = zlib.decompressobj()
        content = opened.decompress(base64.b64decode(text, validate=True), MAX_UNPACKED)
        if not opened.eof:
            raise ValueError(f"a packed corpus ends too early, or holds more than {MAX_UNPACKED:,} bytes")
        parts = json.loads(content)
    except (binascii.Error, zlib.error, UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"this is no packed corpus, or it was damaged on its way: {error}") from None
    if not isinstance(parts, dict) or parts.get("format") != FORMAT:
        raise ValueError(f"this is no packed corpus: its format is not {FORMAT!r}")
    symbols = [_words(parts, side) for side in ("src_symbols", "tgt_symbols")]
    train, held_out = (_pairs(parts, part, len(symbols[0]), len(symbols[1])) for part in ("train", "held_out"))
    references = _texts(parts, "references")
    if not train or not held_out or len(references) != len(held_out):
        raise ValueError("a packed corpus needs pairs to train on, pairs held out, and a reference for each of these")
    for key, kind in (("name", str), ("sha256", str), ("options", dict), ("report", dict)):
        if not isinstance(parts.get(key), kind):
            raise ValueError(f"{key} of a packed corpus must be {'text' if kind is str else 'a table'}")
    options = {**parts["options"], "languages": _languages(parts["options"].get("languages"))}
    return Corpus(symbols[0], symbols[1], train, held_out, references, parts["name"], parts["sha256"],
                  MappingProxyType(options), MappingProxyType(parts["report"]))  # fmt: skip


def _texts(parts: Mapping[str, Any], key: str) -> tuple[str, ...]:
    given = parts.get(key)
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise ValueError(f"{key} of a packed corpus must be a list of texts")
    return tuple(given)


def _words(parts: Mapping[str, Any], key: str) -> tuple[str, ...]:
    symbols = (*SPECIAL, *_texts(parts, key))
    if len(set(symbols)) != len(symbols) or not all(symbols):
        raise ValueError(f"{key} of a packed corpus holds a word twice, an empty one, or a special sign")
    return symbols


def _pairs(parts: Mapping[str, Any], key: str, n_src: int, n_tgt: int) -> tuple[Pair, ...]:
    given = parts.get(key)
    if not isinstance(given, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in given):
        raise ValueError(f"{key} of a packed corpus must be a list of pairs")
    return tuple((_ids(key, src, n_src), _ids(key, tgt, n_tgt)) for src, tgt in given)


def _ids(key: str, given: Any, size: int) -> Ids:
    if not isinstance(given, list) or not given or not all(type(i) is int and UNKNOWN <= i < size for i in given):
        raise ValueError(f"{key} of a packed corpus holds a sentence that is empty or has an id outside its vocabulary")
    return tuple(given)


def _languages(given: Any) -> tuple[str, str]:
    if not isinstance(given, list) or len(given) != 2 or not all(each in ("zh", "other") for each in given):
        raise ValueError("languages of a packed corpus must be two out of zh and other")
    return given[0], given[1]
