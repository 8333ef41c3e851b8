"""The Explore view: one gr.HTML with the figure, the ledger and the four panes. It gets plain data, no markup."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import gradio as gr

from explorer import theme

SCRIPTS = (
    "explore-maps.js", "explore-figure.js", "explore-ledger.js", "explore-panes.js", "explore-checks.js", "explore.js",
)  # fmt: skip


@dataclass(frozen=True)
class ExploreView:
    """What the page wires. ``html`` takes an explore payload as ``value`` and a detail payload as ``detail``, as data
    or as JSON text, fires ``select`` with the key, sentence and head that are looked at, and ``probe`` with a level of
    checks that is to be run."""

    html: gr.HTML
    relabel_targets: list[Any] = field(default_factory=list)

    def relabel(self, lang: str) -> list[Any]:
        """Nothing of gradio's is labelled here; the payload brings its own words."""
        return []


def build() -> ExploreView:
    """The component, empty until it gets its first payload. The template never changes, so it is never drawn anew."""
    return ExploreView(
        gr.HTML(
            value=None,
            detail=None,
            answered=None,
            html_template='<div class="tl-explore"></div>',
            js_on_load=theme.mount("explore", "select", "probe"),
            apply_default_css=False,
            elem_id="tl-explore",
            padding=False,
            container=False,
        )
    )
