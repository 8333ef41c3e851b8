"""The Decode view: a search through next tokens as a tree, what each step reads, and what it is measured against.

It asks for a search only while its tab is shown; what takes longer is measured afterwards, one thing at a time. The
handlers are in ``explorer.decoding_view``; the page wires them, since the choices are fields of the session.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from explorer import theme

SCRIPTS = ("decode-tree.js", "decode-panels.js", "decode-side.js", "decode.js")


@dataclass(frozen=True)
class DecodeView:
    """The inside of the tab. ``html`` takes answers as ``value`` and ``measured``, and fires ``ask``, ``measure`` and
    ``look``, which carries where one looks and is only remembered."""

    html: gr.HTML
    relabel_targets: list[Any] = field(default_factory=list)

    def relabel(self, lang: str) -> list[Any]:
        """Nothing: the view holds both languages and follows the page's."""
        return []


def build_sidebar() -> gr.HTML:
    """The place of the model, the method and its numbers; decode-side.js draws them."""
    return gr.HTML(html_template='<div class="tl-d-side tl-decode-only"></div>', apply_default_css=False,
                   js_on_load="TL.emit('decode-side', element);", elem_id="tl-d-side",
                   elem_classes="tl-decode-only")  # fmt: skip


def build_tab() -> DecodeView:
    """The component, empty until its tab is opened."""
    return DecodeView(
        gr.HTML(
            value=None,
            measured=None,
            html_template='<div class="tl-decode"></div>',
            js_on_load=theme.mount("decode", "ask", "measure", "look"),
            apply_default_css=False,
            elem_id="tl-decode",
            padding=False,
            container=False,
        )
    )
