"""The controls of Compare in the sidebar: what is compared and how, and what the sweep shows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import gradio as gr

from explorer.comparing import CONTROLS
from explorer.fields import BY_NAME
from explorer.session import Session
from explorer.words import text

DROPDOWNS = ("cmp_norm", "cmp_limit")


@dataclass(frozen=True)
class CompareSidebar:
    """The controls of Compare, by the names of the session's fields."""

    fields: dict[str, gr.components.Component]

    @property
    def relabel_targets(self) -> list[gr.components.Component]:
        return list(self.fields.values())

    def relabel(self, lang: str) -> list[dict[str, Any]]:
        """The same controls in another language; what is chosen stays."""
        return [gr.update(label=text(lang, f"compare.{name}"), choices=choices(name, lang)) for name in self.fields]

    def values(self, session: Session) -> list[dict[str, Any]]:
        """Every control with the choice of this session."""
        return [gr.update(value=getattr(session, name)) for name in self.fields]


def build_sidebar(session: Session, lang: str = "en") -> CompareSidebar:
    """The groups Reference and Sweep, for the inside of the page's sidebar."""
    fields: dict[str, gr.components.Component] = {}

    def add(name: str) -> None:
        kind, style = (gr.Dropdown, []) if name in DROPDOWNS else (gr.Radio, ["tl-seg"])
        options = {"filterable": False} if name in DROPDOWNS else {}
        fields[name] = kind(
            choices(name, lang), value=getattr(session, name), label=text(lang, f"compare.{name}"), min_width=0,
            elem_id=f"tl-f-{name}", elem_classes=["tl-compare-only", *style], **options,
        )  # fmt: skip

    _html('<div class="tl-group"><h2 data-tl-word="compare.reference"></h2></div>')
    for name in CONTROLS[:2]:
        add(name)
    _html('<p class="tl-c-own" id="tl-c-own"></p>')
    for name in CONTROLS[2:5]:
        add(name)
    _html('<div class="tl-group"><h2 data-tl-word="compare.sweep"></h2></div>')
    for name in CONTROLS[5:]:
        add(name)
    _html(
        '<div class="tl-c-run"><button type="button" class="tl-button" data-do="sweep" data-tl-word="compare.run">'
        '</button><button type="button" class="tl-button" data-do="stop" data-tl-word="compare.stop"></button></div>'
    )
    return CompareSidebar(fields)


def choices(name: str, lang: str) -> list[tuple[str, str]]:
    """What a control offers: dtypes and limits are written alike in every language."""
    return [(_label(name, choice, lang), choice) for choice in BY_NAME[name].choices]


def _label(name: str, choice: str, lang: str) -> str:
    if name in ("cmp_dtype", "cmp_numbers"):
        return choice
    if name == "cmp_limit" and choice != "usual":
        return power(choice)
    return text(lang, f"compare.{name}_{choice}")


def power(number: str) -> str:
    """
    >>> power("1e-12")
    '10⁻¹²'
    """
    return "10" + number.removeprefix("1e").translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def _html(markup: str) -> None:
    gr.HTML(
        html_template=markup, js_on_load="TL.translate(element); TL.emit('compare-side', element);",
        apply_default_css=False, elem_classes="tl-compare-only",
    )  # fmt: skip
