"""The panel Sentences inside Train: the built-in sentences or a file of one's own, and what became of its lines.

A file comes in pieces through events, each small enough for the app's limit of a request. What costs time, reading and
cutting into words, is done in a queued event, one at a time.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.context import Context

from explorer import theme
from explorer.corpora import Sheet, told
from explorer.limits import Limits
from explorer.refusals import Refusal
from explorer.runs import Desk
from explorer.session import recipe_of
from explorer.views import train as chart
from explorer.views.train import RECIPE, TrainSidebar, TrainView, packed
from explorer.words import LANGUAGES
from transformer_core.tasks import task_of
from transformer_core.translation import builtin

__all__ = ["CorpusView", "build_tab"]

log = logging.getLogger(__name__)

SCRIPTS = ("corpus-parts.js", "corpus.js")


@dataclass(frozen=True)
class CorpusView:
    """The inside of the panel."""

    html: gr.HTML
    sheet_state: gr.State


def build_tab(sidebar: TrainSidebar, train: TrainView) -> CorpusView:
    """The panel, wired to the desk of the chart and to the recipe in the sidebar."""
    sheet_state = gr.State(None, time_to_live=1800, delete_callback=forget)
    html = gr.HTML(
        value=packed(told(Sheet(), Limits.from_environment())), html_template='<div class="tl-corpus"></div>',
        js_on_load=theme.mount("corpus", "piece", "make"), elem_id="tl-corpus", apply_default_css=False,
        padding=False, container=False,
    )  # fmt: skip
    quiet: dict[str, Any] = {
        "preprocess": False, "show_progress": "hidden", "api_visibility": "private", "trigger_mode": "multiple",
    }  # fmt: skip
    html.piece(piece, sheet_state, [sheet_state, html], queue=False, **quiet)
    recipe = [sidebar.fields[name] for name in RECIPE]
    made = html.make(
        make, [train.desk_state, sheet_state], [train.desk_state, sheet_state, html, *recipe],
        concurrency_id="corpus", concurrency_limit=1, **quiet,
    )  # fmt: skip
    made.then(chart.preview, train.preview_inputs, train.html, queue=False, **quiet)
    if Context.root_block is not None:
        Context.root_block.unload(TabClosed(Context.root_block, sheet_state._id))
    return CorpusView(html, sheet_state)


class TabClosed:
    """The file of a tab that is gone is forgotten at once."""

    def __init__(self, blocks: gr.Blocks, state: int) -> None:
        self.blocks, self.state = blocks, state

    def __call__(self, request: gr.Request) -> None:
        held = self.blocks.state_holder.session_data.get(getattr(request, "session_hash", None))
        forget(held.state_data.get(self.state) if held is not None else None)


def forget(sheet: Sheet | None) -> None:
    """The tab is gone, or has been idle for too long."""
    if sheet is not None:
        sheet.clear()


def piece(sheet: Sheet | None, event: gr.EventData) -> tuple[Any, Any]:
    """A file is announced, or its next piece has come. Returns the sheet and the view."""
    sheet, data = sheet or Sheet(), sent(event)
    answer: dict[str, Any] = {"reply": "piece", "number": data.get("number")}
    try:
        if "size" in data:
            sheet.begin(data.get("name"), data.get("size"), Limits.from_environment())
        answer["come"] = sheet.take(data["text"]) if "text" in data else 0
    except Exception as error:
        answer["refusal"] = reason(error)
    return sheet, gr.HTML(value=packed(told(sheet, Limits.from_environment()) | answer))


def make(desk: Desk | None, sheet: Sheet | None, event: gr.EventData) -> tuple[Any, ...]:
    """The corpus that is asked for, onto the desk; the next run learns from it, and the sidebar has its recipe.

    Returns the desk, the sheet, the view and the recipe's controls.
    """
    desk, sheet, data = desk or Desk(), sheet or Sheet(), sent(event)
    limits = Limits.from_environment()
    answer: dict[str, Any] = {"reply": "make", "number": data.get("number")}
    recipe: list[Any] = [gr.skip() for _ in RECIPE]
    wanted = data.get("options")
    try:
        if data.get("whole") is True:
            sheet.read(limits)
        sheet.make(wanted if isinstance(wanted, Mapping) else {})
        if sheet.corpus != desk.corpus:
            values = recipe_of(task_of(sheet.corpus or builtin()))
            recipe = [values[name] for name in RECIPE]
            desk.corpus = sheet.corpus
    except Exception as error:
        answer["refusal"] = reason(error)
    return desk, sheet, gr.HTML(value=packed(told(sheet, limits) | answer)), *recipe


def sent(event: gr.EventData) -> Mapping[str, Any]:
    """What an event carries; a stranger's nonsense carries nothing."""
    data = getattr(event, "_data", None)
    return data if isinstance(data, Mapping) else {}


def reason(error: Exception) -> dict[str, str]:
    """Why it could not be done, in both languages, and which choice is meant; the unexpected is logged."""
    if not isinstance(error, Refusal):
        log.exception("the sentences could not be made", exc_info=error)
        error = Refusal("unexpected")
    return {lang: error.text(lang) for lang in LANGUAGES} | {"field": error.field}
