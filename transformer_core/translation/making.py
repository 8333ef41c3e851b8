"""From sentence pairs to a corpus: words, vocabularies, a length limit, and a split with no source on both sides.

The steps, in this order: cut into words; drop what is too long; split by source sentence; choose the vocabularies from
the training part alone; number the words; drop what has become meaningless or has been seen.
"""

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch

from transformer_core.checked import check_choice, check_flag, check_positive, check_whole
from transformer_core.config import FIRST_FREE, UNKNOWN
from transformer_core.errors import ConfigError
from transformer_core.translation.corpus import SPECIAL, Corpus, ids_of
from transformer_core.translation.pairs import Dropped, Pairs, tally
from transformer_core.translation.tokens import capital, clean, join, split
from transformer_core.translation.tokens import simplified as to_simplified

DIRECTIONS = ("forward", "backward")
MAX_SEED = (1 << 31) - 1
LIMITS: Mapping[str, tuple[int, int]] = {
    "min_count": (1, 1000),
    "max_vocabulary": (10, 100_000),
    "max_length": (1, 200),
}
"""What the numbers of ``make_corpus`` may be."""


@dataclasses.dataclass(frozen=True)
class Cut:
    """One pair cut into words, with what it was cut from."""

    src: tuple[str, ...]
    tgt: tuple[str, ...]
    reference: str
    line: int
    key: str
    """Letters and digits of the source: what decides on which side of the split the pair goes."""


def make_corpus(
    pairs: Pairs, *, direction: str = "forward", min_count: int = 2, max_vocabulary: int = 8000, max_length: int = 20,
    held_out_share: float = 0.05, seed: int = 0, simplified: bool = False, name: str = "pairs",
    words: Collection[str] | None = None,
) -> Corpus:  # fmt: skip
    """Cuts, filters, splits and numbers the pairs. The same pairs and settings give the same corpus on every machine.

    ``direction`` "backward" translates from the targets to the sources. A word gets an id if it is met ``min_count``
    times in training and is among the ``max_vocabulary`` most frequent; ties go to the one that is first in the
    alphabet. Sentences of more than ``max_length`` words and signs are left out. Two sources that differ only in their
    punctuation or capital letters are one and the same for the split, and so are two that read alike once rare words
    are unknown; a target may well be the translation of sources on both sides. Chinese is cut by rjieba, or by
    ``words`` where these are given.

    Raises:
        ValueError: a setting that cannot be, a library that is needed and not installed, or too few pairs are left.
    """
    options = checked_options(
        direction=direction, min_count=min_count, max_vocabulary=max_vocabulary, max_length=max_length,
        held_out_share=held_out_share, seed=seed, simplified=simplified,
    )  # fmt: skip
    if direction == "backward":
        pairs = pairs.backward()
    if simplified:
        pairs = pairs.simplified()
    cuts = cut(pairs, words)
    dropped = [("long", each.line) for each in cuts if max(len(each.src), len(each.tgt)) > max_length]
    fitting = [each for each in cuts if max(len(each.src), len(each.tgt)) <= max_length]
    train, held_out = split_by_source(fitting, held_out_share, seed)
    symbols = [
        vocabulary((getattr(each, side) for each in train), min_count, max_vocabulary) for side in ("src", "tgt")
    ]
    known = [{word: i for i, word in enumerate(side) if i >= FIRST_FREE} for side in symbols]

    def numbered(part: Sequence[Cut]) -> list[tuple[tuple[int, ...], tuple[int, ...], Cut]]:
        rows = [(ids_of(each.src, known[0]), ids_of(each.tgt, known[1]), each) for each in part]
        meaningless = [{UNKNOWN} in (set(src), set(tgt)) for src, tgt, _ in rows]
        dropped.extend(("unknown", row[2].line) for row, bad in zip(rows, meaningless, strict=True) if bad)
        return [row for row, bad in zip(rows, meaningless, strict=True) if not bad]

    learned, asked = numbered(train), numbered(held_out)
    met = {src for src, _, _ in learned}
    dropped.extend(("seen", row[2].line) for row in asked if row[0] in met)
    asked = [row for row in asked if row[0] not in met]
    if not learned or not asked:
        raise ConfigError("pairs_left", field="pairs", pairs=f"{len(pairs):,}", train=f"{len(learned):,}",
                          held_out=f"{len(asked):,}")  # fmt: skip
    lost = (*pairs.dropped, *tally(sorted(dropped, key=lambda each: each[1])))
    languages = pairs.languages
    return Corpus(
        src_symbols=symbols[0],
        tgt_symbols=symbols[1],
        train=tuple((src, tgt) for src, tgt, _ in learned),
        held_out=tuple((src, tgt) for src, tgt, _ in asked),
        references=tuple(each.reference for _, _, each in asked),
        name=name,
        sha256=pairs.sha256,
        options=MappingProxyType({**options, "languages": languages, "cut_by": "words" if words else "rjieba"}),
        report=MappingProxyType(report(pairs, learned, asked, train, symbols, lost)),
    )


def checked_options(**given: Any) -> dict[str, Any]:
    """The settings, each refused with a sentence where it cannot be."""
    check_choice("direction", given["direction"], DIRECTIONS)
    check_flag("simplified", given["simplified"])
    check_whole("seed", given["seed"], 0, MAX_SEED)
    for name, (low, high) in LIMITS.items():
        check_whole(name, given[name], low, high)
    check_positive("held_out_share", given["held_out_share"], 0.5)
    return given


def cut(pairs: Pairs, words: Collection[str] | None = None) -> list[Cut]:
    """Every pair in words. The capital letter at the beginning of a sentence is taken back where it says nothing."""
    sides = []
    for sentences, language in zip((pairs.sources, pairs.targets), pairs.languages, strict=True):
        rows = [split(sentence, language, words) for sentence in sentences]
        sides.append(rows if language == "zh" else without_capitals(rows))
    return [
        Cut(tuple(src), tuple(tgt), reference, line, key_of(source))
        for src, tgt, source, reference, line in zip(*sides, pairs.sources, pairs.targets, pairs.lines, strict=True)
    ]


def without_capitals(rows: list[list[str]]) -> list[list[str]]:
    """Each first word in small letters if it is also met in small letters inside a sentence: The, but not Tom.

    >>> without_capitals([["The", "end"], ["Tom", "is", "the", "boss"]])
    [['the', 'end'], ['Tom', 'is', 'the', 'boss']]
    """
    small = {word for row in rows for word in row[1:]}
    return [[small_first(row[0], small), *row[1:]] if row else row for row in rows]


def small_first(word: str, known: Collection[str]) -> str:
    """The word in small letters if that is known."""
    return word.lower() if word.lower() in known else word


def key_of(source: str) -> str:
    """Letters and digits of a sentence, small; a sentence without any is its own key.

    >>> key_of("No, WAY!") == key_of("no way"), key_of("?!")
    (True, '?!')
    """
    return "".join(sign for sign in source.casefold() if sign.isalnum()) or source


def split_by_source(cuts: Sequence[Cut], share: float, seed: int) -> tuple[list[Cut], list[Cut]]:
    """Training and held-out pairs: sources in an order drawn from ``seed``, all pairs of a source together.

    Sources go to the held-out part until it has its share of the pairs. Both parts keep the order of the file.
    """
    keys = list(dict.fromkeys(each.key for each in cuts))
    counts = Counter(each.key for each in cuts)
    wanted, chosen, taken = max(1, round(share * len(cuts))), set(), 0
    for i in torch.randperm(len(keys), generator=torch.Generator().manual_seed(seed)).tolist():
        if taken >= wanted:
            break
        chosen.add(keys[i])
        taken += counts[keys[i]]
    return [each for each in cuts if each.key not in chosen], [each for each in cuts if each.key in chosen]


def vocabulary(sentences: Iterable[Sequence[str]], min_count: int, limit: int) -> tuple[str, ...]:
    """The special signs, then the words from the most frequent to the rarest that are kept.

    >>> vocabulary([["a", "b"], ["b", "c", "c"], ["b", "a"]], min_count=2, limit=10)[4:]
    ('b', 'a', 'c')
    """
    counts = Counter(word for sentence in sentences for word in sentence if word not in SPECIAL)
    often = [(-count, word) for word, count in counts.items() if count >= min_count]
    return (*SPECIAL, *(word for _, word in sorted(often)[:limit]))


def report(
    pairs: Pairs, learned: Sequence[Any], asked: Sequence[Any], train: Sequence[Cut],
    symbols: Sequence[Sequence[str]], dropped: Sequence[Dropped],
) -> dict[str, Any]:  # fmt: skip
    """The counts that tell what became of the file, as plain data."""
    unknown = {
        f"{side}_{part}": round(sum(row[at].count(UNKNOWN) for row in rows) / sum(len(row[at]) for row in rows), 6)
        for at, side in enumerate(("src", "tgt"))
        for part, rows in (("train", learned), ("held_out", asked))
    }
    different = [len({word for each in train for word in getattr(each, side)}) for side in ("src", "tgt")]
    return {
        "read": pairs.read,
        "pairs": len(pairs),
        "train": len(learned),
        "held_out": len(asked),
        "dropped": [{"reason": each.reason, "count": each.count, "lines": list(each.lines)} for each in dropped],
        "words": {"src": different[0], "tgt": different[1]},
        "kept_words": {"src": len(symbols[0]) - FIRST_FREE, "tgt": len(symbols[1]) - FIRST_FREE},
        "unknown": unknown,
    }


def encode(corpus: Corpus, sentence: str) -> tuple[int, ...]:
    """The ids of a source sentence; a word that is not in the vocabulary has the unknown id.

    Raises:
        ValueError: the sentence is empty or has more words than the corpus allows.
    """
    language = corpus.options["languages"][0]
    known = corpus.src_ids if corpus.options.get("cut_by") == "words" else None
    text = clean(sentence)
    if language == "zh" and corpus.options.get("simplified"):
        text = to_simplified(text)
    words = split(text, language, known)
    if words and language != "zh":
        words[0] = small_first(words[0], corpus.src_ids)
    limit = max(corpus.longest[0], int(corpus.options.get("max_length", 0)))
    if not 1 <= len(words) <= limit:
        raise ConfigError("sentence_length", field="sentence", given=len(words), high=limit)
    return ids_of(words, corpus.src_ids)


def decode_ids(corpus: Corpus, ids: Iterable[int]) -> str:
    """The target sentence of these ids up to its end, written as one is: capital letter in front, signs in place."""
    words = []
    for token in ids:
        if token == 2:
            break
        if token > 2:
            words.append(corpus.tgt_symbols[token])
    language = corpus.options["languages"][1]
    text = join(words, language)
    return text if language == "zh" else capital(text)
