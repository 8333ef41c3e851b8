"""The Masks view: three attentions as grids, their rules as layers, and what a mask does to a row.

It asks for a payload only while its tab is shown; what takes longer is measured when it is asked for. The handlers are
in ``explorer.studio``; the page wires them, since a change of a mask is a change of the run.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from explorer import theme

SCRIPTS = (
    "explore-maps.js", "masks-cells.js", "masks-grid.js", "masks-paint.js", "masks-files.js", "masks-row.js",
    "masks-labs.js", "masks-side.js", "masks.js",
)  # fmt: skip


@dataclass(frozen=True)
class MasksView:
    """The inside of the tab. ``html`` takes answers as ``value`` and ``measured``, and fires ``look``, ``edit``,
    ``trap`` and ``measure``, and ``leave`` when Explore is opened after a change."""

    html: gr.HTML
    relabel_targets: list[Any] = field(default_factory=list)

    def relabel(self, lang: str) -> list[Any]:
        """Nothing: the view holds both languages and follows the page's."""
        return []


def build_sidebar() -> gr.HTML:
    """The place of the rules and of what is looked at; masks-side.js draws them."""
    return gr.HTML(html_template='<div class="tl-m-side tl-masks-only"></div>', apply_default_css=False,
                   elem_id="tl-m-side", elem_classes="tl-masks-only")  # fmt: skip


def build_tab() -> MasksView:
    """The component, empty until its tab is opened."""
    return MasksView(
        gr.HTML(
            value=None,
            measured=None,
            html_template='<div class="tl-studio"></div>',
            js_on_load=theme.mount("masks", "look", "edit", "trap", "measure", "leave"),
            apply_default_css=False,
            elem_id="tl-masks",
            padding=False,
            container=False,
        )
    )
