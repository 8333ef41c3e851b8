"""Sentence pairs out of a tab-separated file: what can be read is kept, what cannot is named with its line.

Two columns, or three as in the files for flash cards, where the third says whose sentences they are and is not read.

>>> pairs = read_pairs("Hi.\\t你好。\\nBye.\\t再见。\\tCC-BY\\n\\nHi.\\t你好。\\nHm.")
>>> pairs.sources, pairs.targets
(('你好。', '再见。'), ('Hi.', 'Bye.'))
>>> for dropped in pairs.dropped:
...     print(dropped)
blank lines: 1 (line 3)
lines without exactly two or three columns: 1 (line 5)
pairs that stood there before: 1 (line 4)
"""

import codecs
import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from transformer_core.errors import ConfigError
from transformer_core.translation.tokens import clean, language_of, simplified

REASONS: Mapping[str, str] = {
    "blank": "blank lines",
    "long_line": "lines that are too long to be a sentence",
    "sign": "lines with characters that are no text",
    "columns": "lines without exactly two or three columns",
    "one_side": "lines with nothing on one side",
    "twice": "pairs that stood there before",
    "long": "pairs with more words than the longest that is kept",
    "unknown": "pairs with a side of which no word is in the vocabulary",
    "seen": "held-out pairs whose source reads like one in training",
}
"""Why a line or pair is dropped, in the order in which it is asked."""
MAX_BYTES, MAX_LINES, MAX_LINE = 64 << 20, 500_000, 2_000
"""The largest file, and the longest line in characters, that is read."""
NO_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff\ufffd]")
"""Control characters, halves of characters, and the sign that stands where a character was lost."""
NAMED = 20
"""So many line numbers are kept with each reason."""


@dataclass(frozen=True)
class Dropped:
    """How many lines or pairs were left out for one reason, and where the first of them stand."""

    reason: str
    count: int
    lines: tuple[int, ...]

    def __str__(self) -> str:
        some = ", ".join(map(str, self.lines[:5])) + (", ..." if self.count > 5 else "")
        where = f" (line{'s' if self.count > 1 else ''} {some})" if self.lines else ""
        return f"{REASONS[self.reason]}: {self.count:,}{where}"


def tally(found: Iterable[tuple[str, int]]) -> tuple[Dropped, ...]:
    """(reason, line) of everything that was dropped, counted, in the order of ``REASONS``."""
    lines: dict[str, list[int]] = {}
    for reason, line in found:
        lines.setdefault(reason, []).append(line)
    return tuple(
        Dropped(reason, len(lines[reason]), tuple(lines[reason][:NAMED])) for reason in REASONS if reason in lines
    )


@dataclass(frozen=True)
class Pairs:
    """Sentences and their translations, each with the line it stood on; no pair stands there twice."""

    sources: tuple[str, ...]
    targets: tuple[str, ...]
    lines: tuple[int, ...]
    languages: tuple[str, str]
    """ "zh" or "other", of source and target."""
    read: int
    """How many lines the file had."""
    dropped: tuple[Dropped, ...]
    sha256: str
    """Of the file as it came."""

    def __len__(self) -> int:
        return len(self.sources)

    def backward(self) -> "Pairs":
        """The same pairs with source and target changed over."""
        return Pairs(self.targets, self.sources, self.lines, self.languages[::-1], self.read, self.dropped, self.sha256)

    def simplified(self) -> "Pairs":
        """The same pairs with Chinese in simplified characters.

        Raises:
            ValueError: OpenCC is not installed.
        """
        sources, targets = (
            tuple(simplified("\n".join(side)).split("\n")) if language == "zh" else side
            for side, language in zip((self.sources, self.targets), self.languages, strict=True)
        )
        return Pairs(sources, targets, self.lines, self.languages, self.read, self.dropped, self.sha256)


def read_pairs(data: str | bytes, *, source: str | int = "auto", max_lines: int = MAX_LINES) -> Pairs:
    """The pairs of a tab-separated text. ``source`` is the column that is translated from, 0 or 1.

    "auto" takes the Chinese column; where both or neither are Chinese, the first. Bytes are UTF-8 with or without a
    byte-order mark, or UTF-16 with one. Lines may end in any way.

    Raises:
        ConfigError: the file is too large, in another encoding, or holds no pair.
        ValueError: there is no such column.
    """
    if source not in ("auto", 0, 1) or isinstance(source, bool):
        raise ValueError(f"source is {source!r}; it can be 'auto', 0 (the first column) or 1 (the second)")
    raw = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    if len(raw) > MAX_BYTES:
        raise ConfigError("pairs_large", field="pairs", size=f"{len(raw):,}", high=f"{MAX_BYTES:,}")
    rows = (data if isinstance(data, str) else text_of(data)).lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = rows.split("\n")
    if lines and not lines[-1].strip():
        lines.pop()  # a line break ends the last line, it does not begin another
    if len(lines) > max_lines:
        raise ConfigError("pairs_lines", field="pairs", lines=f"{len(lines):,}", high=f"{max_lines:,}")
    kept: dict[tuple[str, str], int] = {}
    dropped = []
    for number, line in enumerate(lines, start=1):
        pair = pair_of(line)
        if isinstance(pair, tuple) and pair in kept:
            pair = "twice"
        if isinstance(pair, str):
            dropped.append((pair, number))
        else:
            kept[pair] = number
    if not kept:
        raise ConfigError("pairs_none", field="pairs", lines=f"{len(lines):,}")
    columns = tuple(zip(*kept, strict=True))
    languages = tuple(map(language_of, columns))
    first = source if isinstance(source, int) else int(languages == ("other", "zh"))
    pairs = Pairs(
        columns[0], columns[1], tuple(kept.values()), (languages[0], languages[1]), len(lines), tally(dropped),
        hashlib.sha256(raw).hexdigest(),
    )  # fmt: skip
    return pairs.backward() if first else pairs


def text_of(data: bytes) -> str:
    """Bytes as text: UTF-16 where its mark is in front, else UTF-8.

    Raises:
        ConfigError: they are in another encoding; the text names the line.
    """
    wide = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        return data.decode("utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        line, byte = 1 + data[: error.start].count(b"\n"), f"0x{data[error.start]:02x}"
        raise ConfigError("pairs_encoding", field="pairs", given=byte, row=line) from None


def pair_of(line: str) -> tuple[str, str] | str:
    """Both sides of a line, or the reason why there are none."""
    if not line.strip():
        return "blank"
    if len(line) > MAX_LINE:
        return "long_line"
    if NO_TEXT.search(line):
        return "sign"
    columns = line.split("\t")
    if len(columns) not in (2, 3):
        return "columns"
    first, second = clean(columns[0]), clean(columns[1])
    return (first, second) if first and second else "one_side"
