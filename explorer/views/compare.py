"""The Compare view: our model beside torch.nn, tensor by tensor; the sweep and the speed fill in while they run.

The comparison is computed when the view asks for it, which it does only while its tab is shown. Sweep and speed advance
only in ``advance``, bounded slices that the tab's own timer asks for, in one queue with the training of everyone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.context import Context

from explorer import comparing, theme
from explorer.changes import Asked
from explorer.comparing import Desk
from explorer.fields import BY_NAME
from explorer.limits import Limits
from explorer.live import Live, Trained
from explorer.refusals import Refusal
from explorer.session import Session
from explorer.views.compare_sidebar import CompareSidebar, build_sidebar
from explorer.views.train import AGAIN, EVERY, SLICE, slots

__all__ = ["CompareSidebar", "CompareView", "build_sidebar", "build_tab"]

COMMANDS = ("compare", "sweep", "speed", "stop", "resync", "reset")
SCRIPTS = ("compare-rows.js", "compare-side.js", "compare-sweep.js", "compare.js")


@dataclass(frozen=True)
class CompareView:
    """The inside of the tab. Its event ``look`` carries fields of the session, which the page remembers."""

    html: gr.HTML
    timer: gr.Timer
    desk_state: gr.State

    @property
    def relabel_targets(self) -> list[gr.components.Component]:
        return []

    def relabel(self, lang: str) -> list[dict[str, Any]]:
        """Nothing: the view holds both languages and follows the page's."""
        return []


def build_tab(sidebar: CompareSidebar, states: tuple[gr.State, gr.State, gr.State]) -> CompareView:
    """The view and its timer, wired to the session, the run and the trained model of the page."""
    desk_state = gr.State(None, time_to_live=1800, delete_callback=forget)
    timer = gr.Timer(AGAIN, active=False)
    html = gr.HTML(
        value=None,
        job=None,
        html_template='<div class="tl-compare"></div>',
        js_on_load=theme.mount("compare", "command", "look", "apply"),
        elem_id="tl-compare",
        apply_default_css=False,
        padding=False,
        container=False,
    )
    quiet: dict[str, Any] = {"preprocess": False, "show_progress": "hidden", "api_visibility": "private"}
    html.command(
        ask, [desk_state, *states], [desk_state, html, timer, *sidebar.fields.values()], queue=False,
        trigger_mode="multiple", **quiet,
    )  # fmt: skip
    html.look(moved, None, list(sidebar.fields.values()), queue=False, **quiet)
    timer.tick(
        advance, desk_state, [desk_state, html, timer], concurrency_id="train", concurrency_limit=slots(),
        trigger_mode="once", **quiet,
    )  # fmt: skip
    if Context.root_block is not None:
        Context.root_block.unload(TabClosed(Context.root_block, desk_state._id))
    return CompareView(html, timer, desk_state)


class TabClosed:
    """A tab that is gone asks for no more slices; what it began ends here."""

    def __init__(self, blocks: gr.Blocks, state: int) -> None:
        self.blocks, self.state = blocks, state

    def __call__(self, request: gr.Request) -> None:
        held = self.blocks.state_holder.session_data.get(getattr(request, "session_hash", None))
        forget(held.state_data.get(self.state) if held is not None else None)


def forget(desk: Desk | None) -> None:
    """The tab is gone, or has been idle for too long."""
    if desk is not None:
        desk.clear()


# ------------------------------------------------------------------------------------------------------------- handlers


def ask(
    desk: Desk | None,
    session: Session | None,
    live: Live | None,
    trained: Trained | None,
    request: gr.Request,
    event: gr.EventData,
) -> tuple[Any, ...]:
    """What the view asks for: the comparison as things stand, or the start or end of a job. Jobs work in ``advance``.

    Returns the desk, the view, the timer, and the controls, which move only after a reset.
    """
    do, number = asked(event)
    desk = desk or Desk()
    held = Asked(session, live, trained, query=dict(request.query_params) if request is not None else {})
    session = held.held()
    answer: dict[str, Any] = {"reply": do, "number": number, "chosen": comparing.chosen(session)}
    if do in ("compare", "reset", "resync"):
        answer["comparison"] = comparing.shown(desk, held)
    elif do == "stop":
        desk.clear()
    elif do == "sweep":
        desk.begin(comparing.sweep(session))
    elif do == "speed":
        desk.begin(comparing.speed())
    whole = [comparing.news(job) for job in desk.jobs.values()] if do in ("reset", "resync", "sweep", "speed") else []
    ends = [comparing.news(job, len(job.rows)) for job in desk.jobs.values()] if do == "stop" else []
    fields = [getattr(session, name) if do == "reset" else gr.skip() for name in comparing.CONTROLS]
    return desk, gr.HTML(value=packed(answer | {"jobs": whole + ends})), gr.Timer(active=bool(desk.at_work())), *fields


def advance(desk: Desk | None) -> Iterator[tuple[Any, Any, Any]]:
    """One slice of what is to be worked on; the timer sleeps when there is nothing.

    No torch context is open across a yield: gradio resumes generators in other threads.
    """
    jobs = desk.at_work() if desk is not None else []
    starts = [(job, len(job.rows)) for job in jobs]

    def told() -> Any:
        return gr.HTML(job=packed({"jobs": [comparing.news(job, start) for job, start in starts]}))

    for job in jobs:
        for _ in job.work(SLICE / len(jobs), EVERY):
            yield gr.skip(), told(), gr.skip()
    over = gr.Timer(active=False) if desk is None or not desk.at_work() else gr.skip()
    # The desk goes out once a slice, so that the state of a tab at work does not expire.
    yield desk if desk is not None else gr.skip(), told() if jobs else gr.skip(), over


def moved(event: gr.EventData) -> list[Any]:
    """What the view switched or proposed, written into the controls."""
    data = event._data if isinstance(event._data, Mapping) else {}
    limits, updates = Limits.from_environment(), []
    for name in comparing.CONTROLS:
        try:
            updates.append(BY_NAME[name].clean(data[name], limits))
        except (KeyError, Refusal):
            updates.append(gr.skip())
    return updates


def asked(event: gr.EventData) -> tuple[str, int]:
    """The command in an event and its number; a stranger's nonsense asks for nothing but the state of things."""
    data = getattr(event, "_data", None)
    data = data if isinstance(data, Mapping) else {}
    do, number = data.get("do"), data.get("number")
    known = isinstance(do, str) and do in COMMANDS
    return (do if known else "resync"), (number if isinstance(number, int) else 0)


def packed(payload: Any) -> str:
    """A payload as one JSON text: see TL.unpacked."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
