"""What the page says when a choice cannot be run, and what it tells once: in both languages, with ways out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from explorer import words
from transformer_core.errors import LAST, join


class Refusal(ValueError):
    """A choice that cannot be run: which field, why, and the nearest choices that can.

    ``choices`` are sets of changes, each enough to make the session valid: ``({"n_heads": 4}, {"d_model": 66})``.
    """

    def __init__(
        self, code: str, field: str = "", choices: Sequence[Mapping[str, Any]] = (), message: str = "", **values: object
    ) -> None:
        self.code, self.field, self.values = code, field, {"field": field, **values}
        self.choices = tuple(dict(choice) for choice in choices)
        self.message = message
        super().__init__(self.text("en"))

    def text(self, lang: str) -> str:
        """The sentence in this language; the core's own English where no words are kept for its code."""
        key = f"errors.{self.code}"
        if words.has(key) and (lang != "en" or not self.message):
            try:
                return words.text(
                    lang, key, **{name: in_line(lang, name, value) for name, value in self.values.items()}
                )
            except (KeyError, IndexError, ValueError):
                pass  # the core changed its facts: its own sentence below is still right
        return self.message or self.code


def in_line(lang: str, name: str, value: object) -> str:
    """A value inside a sentence: whole lists, joined as the language joins them, and numbers written out.

    >>> in_line("en", "widths", [60, 66]), in_line("zh", "widths", [60, 66])
    ('60 and 66', '60 和 66')
    >>> in_line("en", "low", 1e-06), in_line("en", "high", 0.9)
    ('0.000001', '0.9')
    """
    if isinstance(value, float) and 1e-12 <= abs(value) < 1e-3:
        return f"{value:.15f}".rstrip("0")
    if isinstance(value, (list, tuple)):
        items = [str(item) for item in value]
        if lang == "en":
            return join(items, LAST.get(name, " and "))
        last = {"counts": "、", "keys": "、", "allowed": " 或 "}.get(name, " 和 ")
        return last.join(["、".join(items[:-1]), items[-1]] if len(items) > 1 else items)
    return str(value)


@dataclass(frozen=True)
class Notice:
    """One thing the page tells once and lets you dismiss: a key of words and its values."""

    key: str
    values: tuple[tuple[str, object], ...] = ()
    refusal: Refusal | None = None

    def text(self, lang: str) -> str:
        values = dict(self.values)
        if self.refusal is not None:
            values["reason"] = self.refusal.text(lang)
        return words.text(lang, self.key, **values)


def notice(key: str, refusal: Refusal | None = None, **values: object) -> Notice:
    """``notice("notices.unknown_key", name="d_modle")``."""
    return Notice(key, tuple(values.items()), refusal)
