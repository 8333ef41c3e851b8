"""Every sentence on screen, in English and Simplified Chinese, from words/*.toml.

One file a view: ``words/explore.toml`` holds the table ``[explore]`` with ``key = {en = "...", zh = "..."}``.
Tables may be nested; their names are joined by dots, as in ``checks.row_sums.claim``.
"""

from __future__ import annotations

import string
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

FOLDER = Path(__file__).with_name("words")
LANGUAGES = ("en", "zh")


def _flat(prefix: str, table: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    for name, value in table.items():
        key = f"{prefix}.{name}" if prefix else name
        if isinstance(value, dict) and set(value) <= set(LANGUAGES) and all(isinstance(v, str) for v in value.values()):
            yield key, dict(value)
        elif isinstance(value, dict):
            yield from _flat(key, value)
        else:
            raise ValueError(f"{key} must be a table with {' and '.join(LANGUAGES)}, got {value!r}")


@lru_cache(maxsize=1)
def table() -> Mapping[str, Mapping[str, str]]:
    """All keys of all files: ``{"frame.copy_link": {"en": ..., "zh": ...}}``, read once and read-only.

    Raises:
        ValueError: a file is not TOML, or a key stands in two files.
    """
    found: dict[str, Mapping[str, str]] = {}
    for path in sorted(FOLDER.glob("*.toml")):
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"{path.name} is not TOML: {error}") from error
        for key, texts in _flat("", content):
            if key in found:
                raise ValueError(f"{key} is said twice; the second time in {path.name}")
            found[key] = MappingProxyType(texts)
    return MappingProxyType(found)


def text(lang: str, key: str, /, **values: object) -> str:
    """The sentence of this key in this language with its values filled in.

    >>> text("en", "frame.checks_hold", held=14, total=14)
    '14 of 14 checks hold'

    Raises:
        KeyError: no such key, or a value for a placeholder is missing.
    """
    entry = table().get(key)
    if entry is None:
        raise KeyError(f"no words for {key!r}")
    sentence = entry.get(lang) or entry["en"]
    return sentence.format(**values) if values or "{" in sentence else sentence


def has(key: str) -> bool:
    """Whether this key has words."""
    return key in table()


def placeholders(sentence: str) -> set[str]:
    """The names in braces: ``{"held", "total"}`` for "{held} of {total} checks hold"."""
    return {name for _, name, _, _ in string.Formatter().parse(sentence) if name}


def section(lang: str, prefix: str) -> dict[str, str]:
    """All sentences under a prefix, unformatted, for JavaScript: ``section("zh", "keys")``."""
    start = prefix + "."
    found = {key.removeprefix(start): entry for key, entry in table().items() if key.startswith(start)}
    return {key: entry.get(lang) or entry["en"] for key, entry in found.items()}


class Words:
    """The sentences of one language: ``Words("zh")("frame.copy_link")``."""

    def __init__(self, lang: str) -> None:
        self.lang = lang if lang in LANGUAGES else "en"

    def __call__(self, key: str, /, **values: object) -> str:
        return text(self.lang, key, **values)
