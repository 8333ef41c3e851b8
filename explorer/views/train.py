"""The Train view: choose a task, play, pause, step, rewind, stop, and watch it learn.

A run advances only in ``tick``: bounded slices that the tab's own timer asks for. Gradio serves the slices of all tabs
in the order in which they ask, a few at a time, so everyone gets a share, and a tab that is gone asks no more.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.context import Context

from explorer import plans, theme
from explorer.facts import facts_of
from explorer.fields import BY_NAME
from explorer.limits import Limits
from explorer.news import news, nothing_new, status
from explorer.offers import refusal_payload
from explorer.refusals import Refusal
from explorer.runs import Desk, Run
from explorer.session import Session
from explorer.views.train_sidebar import (
    FIELDS,
    RECIPE,
    TrainSidebar,
    build_sidebar,
    recipes_script,
    schedules_script,
)

__all__ = ["TrainSidebar", "TrainView", "build_sidebar", "build_tab"]

SLICE = 0.7  # seconds of steps before the next tab may have its turn; a look at the end may add a little
ALONE = 3.0  # the same while no other run wants a turn: each slice costs a way to the browser and back
EVERY = 0.25  # seconds between two messages to the browser: it draws no faster, and a slow one is not flooded
AGAIN = 0.1  # seconds until a tab asks for its next slice
COMMANDS = ("play", "pause", "step", "more", "rewind", "stop", "rate", "resync", "wake", "preview")
MORE = 20
SCRIPTS = (
    "train.js", "train-transport.js", "train-scale.js", "train-chart.js", "train-rates.js", "train-film.js",
    "train-samples.js", "train-foot.js", "train-recipes.js", "train-end.js",
)  # fmt: skip
TEMPLATE = '<div class="tl-train"></div>'


def slots(cores: int | None = None) -> int:
    """How many slices may run at once: all cores but one, which is left to Explore.

    >>> slots(1), slots(2), slots(16)
    (1, 1, 4)
    """
    if cores is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(4, cores - 1))


# ------------------------------------------------------------------------------------------------------------------ tab


@dataclass(frozen=True)
class TrainView:
    """The inside of the tab. After each of ``trained_events``, ``trained_state`` holds a new model.

    ``runs_state`` holds how many runs have ended on this desk: its ``change`` tells of one more, whose record is in
    ``desk.runs``. ``preview`` with ``preview_inputs`` shows what would start now, on a desk with another corpus.
    """

    html: gr.HTML
    timer: gr.Timer
    desk_state: gr.State
    runs_state: gr.State
    trained_events: list[Any]
    preview_inputs: list[Any]

    @property
    def relabel_targets(self) -> list[gr.components.Component]:
        return []

    def relabel(self, lang: str) -> list[dict[str, Any]]:
        """Nothing: the view holds both languages and follows the page's."""
        return []


def build_tab(sidebar: TrainSidebar, session_state: gr.State, trained_state: gr.State) -> TrainView:
    """The chart and its controls, wired to the sidebar. ``trained_state`` receives the model of each run that ends."""
    desk_state = gr.State(None, time_to_live=1800, delete_callback=forget)
    runs_state = gr.State(0, time_to_live=1800)
    timer = gr.Timer(AGAIN, active=False)
    start = preview_payload(None, tuple(field.value for field in sidebar.fields.values()))
    html = gr.HTML(
        value={},
        plan=packed(start),
        html_template=TEMPLATE,
        js_on_load=theme.mount("train", "command", "halt", "apply", "mend"),
        elem_id="tl-train",
        apply_default_css=False,
    )
    fields = list(sidebar.fields.values())
    # Not preprocessed: gradio would answer a number out of a slider's range with an error instead of a sentence.
    quiet: dict[str, Any] = {"preprocess": False, "show_progress": "hidden", "api_visibility": "private"}
    html.command(
        command,
        [desk_state, session_state, *fields],
        [desk_state, html, timer],
        queue=False,
        trigger_mode="multiple",
        **quiet,
    )
    # Through the queue: gradio tells of a changed state only from there. What must be quick, "stop" has done before.
    html.halt(hand_over, desk_state, [html, trained_state, runs_state], concurrency_limit=None, **quiet)
    timer.tick(
        tick,
        desk_state,
        [desk_state, html, timer, trained_state, runs_state],
        concurrency_id="train",
        concurrency_limit=slots(),
        trigger_mode="once",
        **quiet,
    )
    html.apply(apply, None, fields, queue=False, **quiet)
    # In the browser alone: an answer that came later would overwrite what was typed meanwhile.
    by_name = sidebar.fields
    by_name["task"].input(None, by_name["task"], [by_name[name] for name in RECIPE], js=recipes_script(), **quiet)
    rated = [by_name["lr"], by_name["warmup"]]
    by_name["schedule"].input(
        None, [by_name["schedule"], by_name["task"], *rated], rated, js=schedules_script(), **quiet
    )
    inputs = [session_state, desk_state, *fields]
    gr.on(
        [field.change for field in fields], preview, inputs, html, queue=False, trigger_mode="always_last", **quiet
    )
    noted = trained_state.change(note_trained, None, None, queue=False, **quiet)
    if Context.root_block is not None:
        Context.root_block.unload(TabClosed(Context.root_block, desk_state._id))
    return TrainView(html, timer, desk_state, runs_state, [noted], inputs)


class TabClosed:
    """Gradio keeps the state of a closed tab for an hour, in case it comes back; its model need not wait that long."""

    def __init__(self, blocks: gr.Blocks, state: int) -> None:
        self.blocks, self.state = blocks, state

    def __call__(self, request: gr.Request) -> None:
        held = self.blocks.state_holder.session_data.get(getattr(request, "session_hash", None))
        forget(held.state_data.get(self.state) if held is not None else None)


def forget(desk: Desk | None) -> None:
    """The tab is gone, or has been idle for too long."""
    if desk is not None:
        desk.leave()


def note_trained() -> None:
    """The moment at which ``trained_state`` holds another model: whoever shows it follows this event."""


# ------------------------------------------------------------------------------------------------------------- handlers


def command(event: gr.EventData, desk: Desk | None, session: Session | None, *values: Any) -> tuple[Any, Any, Any]:
    """A button or key of the transport. Answers at once: the work itself is done by ``tick``.

    Returns the desk, the view and the timer.
    """
    do = asked(event)
    desk = desk or Desk()
    if do == "preview":
        return gr.skip(), preview(session, desk, *values), gr.skip()
    try:
        run = laid_out(do, desk, session, values)
        if run is not None and do == "rate":
            run.change_rate(BY_NAME["lr"].clean(sent(event, "lr"), Limits.from_environment()))
    except Refusal as refusal:
        told = status(desk.run) if desk.run is not None else {}
        where = {"at": "rate"} if do == "rate" else {}
        told = {"refusal": refusal_payload(refusal) | where, "reply": do, **nothing_new(desk.run), **told}
        return gr.skip(), gr.HTML(value=packed(told)), gr.skip()
    if run is None:
        return gr.skip(), gr.HTML(value=packed({"reply": do, "gone": True})), gr.Timer(active=False)
    if do == "play":
        run.play()
    elif do in ("step", "more"):
        run.forward(1 if do == "step" else MORE)
    elif do == "pause":
        run.pause()
    elif do == "stop":
        run.stop()
    told = news(run) if do == "resync" or not run.reports else nothing_new(run) | status(run)
    return desk, gr.HTML(value=packed({**told, "reply": do})), gr.Timer(active=run.running or run.behind)


def laid_out(do: str, desk: Desk, session: Session | None, values: tuple[Any, ...]) -> Run | None:
    """The run that lies on the desk; for a rewind, or to play after an end, a new one takes its place.

    Raises:
        Refusal: the choices cannot be trained; the run that was there stays.
    """
    if do == "rewind" or (do in ("play", "step", "more") and (desk.run is None or desk.run.ended)):
        fresh = Run(plans.plan(chosen(session, values), Limits.from_environment(), desk.corpus))
        desk.clear()
        desk.run = fresh
    return desk.run


def hand_over(desk: Desk | None) -> tuple[Any, Any, Any]:
    """The model of a run that was stopped, for Explore, and what it answers at the step at which it was stopped.

    Returns the view, the model, and how many runs the desk has kept.
    """
    run = desk.run if desk is not None else None
    trained = run.finish() if run is not None and run.ended == "stopped" else None
    if trained is None:
        return gr.skip(), gr.skip(), gr.skip()
    # All looks: the last words of the slice that was stopped may still be on their way, and theirs with them.
    return gr.HTML(value=packed(news(run, run.step))), trained, desk.keep(run)


def tick(desk: Desk | None) -> Iterator[tuple[Any, Any, Any, Any, Any]]:
    """One slice of a run that is to go on; the timer sleeps when there is none.

    No torch context is open across a yield: gradio resumes generators in other threads. Yields the desk, the view, the
    timer, the model of a run that has ended, and how many runs the desk has kept.
    """
    run = desk.run if desk is not None else None
    if run is None or not (run.running or run.behind):
        gone = gr.HTML(value=packed({"gone": True})) if run is None else gr.skip()
        yield gr.skip(), gone, gr.Timer(active=False), gr.skip(), gr.skip()
        return
    step, looks = run.step, len(run.looks)

    def so_far() -> tuple[Any, Any, Any, Any, Any]:
        return gr.skip(), gr.HTML(value=packed(news(run, step, looks))), gr.skip(), gr.skip(), gr.skip()

    for _ in run.work(SLICE, EVERY, ALONE):
        yield so_far()
    if run.behind:  # paused, or as many steps taken as were asked for: first the steps, then what has come of them
        yield so_far()
        run.catch_up()
    # The desk goes out once a slice, so that the state of a tab at work does not expire.
    if desk.run is not run:  # rewound meanwhile: what is shown, and the timer, are the new run's
        yield desk, gr.skip(), gr.skip(), gr.skip(), gr.skip()
        return
    trained, kept = None, gr.skip()
    if run.ended in ("finished", "failed"):
        if run.to_be_scored:
            yield so_far()
        trained = run.finish()
        kept = desk.keep(run)
    over = gr.Timer(active=False) if run.ended else gr.skip()
    yield desk, gr.HTML(value=packed(news(run, step, looks))), over, trained or gr.skip(), kept


def preview(session: Session | None, desk: Desk | None, *values: Any) -> Any:
    """What the settings would start now, or why they cannot; nothing is built."""
    return gr.HTML(plan=packed(preview_payload(session, values, desk)))


def preview_payload(session: Session | None, values: tuple[Any, ...], desk: Desk | None = None) -> dict[str, Any]:
    corpus = desk.corpus if desk is not None else None
    try:
        return {"facts": facts_of(plans.plan(chosen(session, values), Limits.from_environment(), corpus))}
    except Refusal as refusal:
        return {"refusal": refusal_payload(refusal)}


def apply(event: gr.EventData) -> list[Any]:
    """The way out that a refusal offered, written into the controls."""
    given = sent(event, "changes")
    changes: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    limits, updates = Limits.from_environment(), []
    for name in FIELDS:
        try:
            updates.append(BY_NAME[name].clean(changes[name], limits))
        except (KeyError, Refusal):
            updates.append(gr.skip())
    return updates


def packed(payload: Any) -> str:
    """A payload as one JSON text: see TL.unpacked."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")


def asked(event: gr.EventData) -> str:
    """The command in an event; a stranger's nonsense asks for nothing but the state of things."""
    do = sent(event, "do")
    return do if isinstance(do, str) and do in COMMANDS else "resync"


def sent(event: gr.EventData, name: str) -> Any:
    """What an event carries beside its command; None where it carries no such thing."""
    data = getattr(event, "_data", None)
    return data.get(name) if isinstance(data, Mapping) else None


def chosen(session: Session | None, values: tuple[Any, ...]) -> Session:
    """The session with the sidebar's values, each checked here: the API does not go through the controls.

    Raises:
        Refusal: a value of another type, out of range, or not one of the choices.
    """
    base = session if isinstance(session, Session) else Session.of_preset()
    return base.cleaned(dict(zip(FIELDS, values, strict=True)), Limits.from_environment())
