"""A refusal, or a change to try, as Train shows it: in both languages, with the ways out as buttons."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer import words
from explorer.fields import TRAINING
from explorer.refusals import Refusal, in_line


def refusal_payload(refusal: Refusal) -> dict[str, Any]:
    """A refusal in both languages, with its ways out as buttons."""
    choices = [
        {"changes": dict(choice), "label": {lang: choice_label(choice, lang) for lang in words.LANGUAGES}}
        for choice in refusal.choices
        if set(choice) <= set(TRAINING)
    ]
    return {
        "field": refusal.field,
        "text": {lang: refusal.text(lang) for lang in words.LANGUAGES},
        "choices": choices[:4],
    }


def choice_label(choice: Mapping[str, Any], lang: str) -> str:
    """A way out, short enough for a button.

    >>> choice_label({"steps": 4000, "lr": 1e-6}, "en")
    'steps 4,000, lr 0.000001'
    """
    labels = {"recipe": "model", "lr": "lr_short"}
    parts = []
    for name, value in choice.items():
        section = "train" if name in TRAINING else "sidebar"
        label = words.text(lang, f"{section}.{labels.get(name, name)}")
        if words.has(f"{section}.{name}_{value}"):
            shown = words.text(lang, f"{section}.{name}_{value}")
        else:
            shown = f"{value:,}" if isinstance(value, int) else in_line(lang, name, value)
        parts.append(f"{label} {shown}")
    return ", ".join(parts)
