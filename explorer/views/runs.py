"""The panel Runs, below the chart of Train: the runs of this tab side by side, taken home, brought back, made again.

Runs that are made beside the chart, such as more seeds, advance only in ``advance``: bounded slices that the tab's own
timer asks for, in one queue with the training of everyone, so a tab that is gone makes no more of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr
from gradio.context import Context

from explorer import lessons, plans, taking_up, theme
from explorer.fields import BY_NAME
from explorer.limits import Limits
from explorer.live import Trained
from explorer.news import news
from explorer.refusals import Refusal
from explorer.run_rows import chosen_of, file_of, rows_of, told
from explorer.runs import Desk, Run
from explorer.session import Session
from explorer.shelf import Row, Shelf
from explorer.views.train import AGAIN, EVERY, SLICE, TrainSidebar, TrainView, packed, slots
from explorer.wishes import begin, both_variants, more_seeds
from explorer.words import LANGUAGES

__all__ = ["RunsView", "build_tab"]

log = logging.getLogger(__name__)

COMMANDS = ("look", "choose", "rename", "remove", "seeds", "stop", "file", "lesson_run")
LOADS = ("put_in", "take_up", "restore", "lesson", "lesson_leave")
SCRIPTS = ("runs-table.js", "runs-overlay.js", "runs-lessons.js", "runs.js")


@dataclass(frozen=True)
class RunsView:
    """The inside of the panel. Its event ``apply`` carries choices of Explore, which the page sets."""

    html: gr.HTML
    timer: gr.Timer
    shelf_state: gr.State


def build_tab(
    sidebar: TrainSidebar, train: TrainView, session_state: gr.State, trained_state: gr.State
) -> RunsView:
    """The panel and its timer, wired to the desk of the chart and to the sidebar of Train."""
    shelf_state = gr.State(None, time_to_live=1800, delete_callback=forget)
    timer = gr.Timer(AGAIN, active=False)
    html = gr.HTML(
        value=None, job=None, file=None,
        html_template='<div class="tl-runs"></div>', js_on_load=theme.mount("runs", "command", "load", "apply"),
        elem_id="tl-runs", apply_default_css=False, padding=False, container=False,
    )  # fmt: skip
    quiet: dict[str, Any] = {"preprocess": False, "show_progress": "hidden", "api_visibility": "private"}
    quick: dict[str, Any] = {**quiet, "queue": False}
    states = [train.desk_state, shelf_state, session_state, trained_state]
    html.command(command, states, [shelf_state, html, timer], trigger_mode="multiple", **quick)
    written = [train.desk_state, train.html, train.timer, *sidebar.fields.values()]
    html.load(load, states, [shelf_state, html, *written], trigger_mode="multiple", **quick)
    collected = [states, [shelf_state, html]]
    train.runs_state.change(collect, *collected, **quick)
    for done in train.trained_events:
        done.then(collect, *collected, **quick)
    timer.tick(
        advance, [train.desk_state, shelf_state], [shelf_state, html, timer], concurrency_id="train",
        concurrency_limit=slots(), trigger_mode="once", **quiet,
    )  # fmt: skip
    if Context.root_block is not None:
        Context.root_block.unload(TabClosed(Context.root_block, shelf_state._id))
    return RunsView(html, timer, shelf_state)


class TabClosed:
    """A tab that is gone asks for no more slices; what it began ends here, and its weights are freed."""

    def __init__(self, blocks: gr.Blocks, state: int) -> None:
        self.blocks, self.state = blocks, state

    def __call__(self, request: gr.Request) -> None:
        held = self.blocks.state_holder.session_data.get(getattr(request, "session_hash", None))
        forget(held.state_data.get(self.state) if held is not None else None)


def forget(shelf: Shelf | None) -> None:
    """The tab is gone, or has been idle for too long."""
    if shelf is not None:
        shelf.close()


# ------------------------------------------------------------------------------------------------------------- handlers


def command(
    desk: Desk | None, shelf: Shelf | None, session: Session | None, trained: Trained | None, event: gr.EventData
) -> tuple[Any, Any, Any]:
    """A button of the panel that leaves the chart alone. Answers at once: runs are made in ``advance``.

    Returns the shelf, the view and the timer.
    """
    do, data = asked(event, COMMANDS)
    shelf = shelf or Shelf()
    shelf.take(desk, trained)
    answer: dict[str, Any] = {"reply": do, "number": data.get("number")}
    answer |= {"lessons": lessons.told()} if data.get("lessons") is True else {}
    sent: dict[str, Any] = {}
    try:
        row = _row(shelf, desk, data.get("id"))
        if do == "choose":
            shelf.chosen = row().id
        elif do == "rename":
            shelf.rename(row(), data.get("name"))
        elif do == "remove":
            shelf.remove(row(), desk)
        elif do == "seeds":
            begin(shelf, more_seeds(row(), rows_of(shelf, desk), desk))
            shelf.chosen = row().id
        elif do == "lesson_run":
            begin(shelf, both_variants(data.get("name"), session))
        elif do == "stop" and shelf.series is not None:
            shelf.series.stop()
        elif do == "file":
            file = file_of(row(), str(data.get("kind")), desk.corpus if desk is not None else None)
            sent["file"] = packed(file | {"number": data.get("number")})
    except Exception as error:
        answer["refusal"] = reason(error, do)
    busy = shelf.series is not None and (shelf.series.running or shelf.series.run is not None)
    return shelf, gr.HTML(value=packed(told(shelf, desk) | answer), **sent), gr.Timer(active=busy)


def load(
    desk: Desk | None, shelf: Shelf | None, session: Session | None, trained: Trained | None, event: gr.EventData
) -> tuple[Any, ...]:
    """What puts settings into the page: a record from a file or from the browser's memory, a row, a lesson.

    Returns the shelf, the view, the desk, the chart, its timer, and the controls of Train.
    """
    do, data = asked(event, LOADS)
    shelf, desk = shelf or Shelf(), desk or Desk()
    shelf.take(desk, trained)
    base = session if isinstance(session, Session) else Session.of_preset()
    answer: dict[str, Any] = {"reply": do, "number": data.get("number")}
    chart, timer, fields = gr.skip(), gr.skip(), [gr.skip() for _ in taking_up.train_values(base)]
    try:
        if do in ("lesson", "lesson_leave"):
            fields = taking_up.train_values(lesson_session(do, data.get("name"), base))
        elif do in LOADS:
            limits = Limits.from_environment()
            row = _row(shelf, desk, data.get("id"))
            record = row().record if do == "restore" else taking_up.read(data.get("text"), limits)
            plan = taking_up.plan_of(record, limits, desk.corpus)
            session = taking_up.session_of(record, base)
            answer |= restored(record, session, base, limits, desk)
            run = Run(plan, record, record.steps)
            desk.clear()
            desk.run = run
            chart = gr.HTML(value=packed({**news(run), "reply": "rewind"}))
            timer, fields = gr.Timer(active=run.running), taking_up.train_values(session)
    except Exception as error:
        answer["refusal"] = reason(error, do)
    view = gr.HTML(value=packed(told(shelf, desk) | answer))
    return shelf, view, desk, chart, timer, *fields


def collect(
    desk: Desk | None, shelf: Shelf | None, session: Session | None, trained: Trained | None
) -> tuple[Any, Any]:
    """A run of the chart has ended, or its model has arrived: one more row."""
    shelf = shelf or Shelf()
    shelf.take(desk, trained)
    return shelf, gr.HTML(value=packed(told(shelf, desk)))


def advance(desk: Desk | None, shelf: Shelf | None) -> Iterator[tuple[Any, Any, Any]]:
    """One slice of the runs that are made beside the chart; the timer sleeps when there is none.

    No torch context is open across a yield: gradio resumes generators in other threads.
    """
    series = shelf.series if shelf is not None else None
    if shelf is None or series is None:
        yield gr.skip(), gr.skip(), gr.Timer(active=False)
        return
    done = series.done
    for _ in series.work(shelf, SLICE, EVERY):
        yield gr.skip(), gr.HTML(job=packed(series.told())), gr.skip()
    over = not series.running and series.run is None
    news_of_rows = {"value": packed(told(shelf, desk))} if over or series.done != done else {}
    # The shelf goes out once a slice, so that the state of a tab at work does not expire.
    yield shelf, gr.HTML(job=packed(series.told()), **news_of_rows), gr.Timer(active=False) if over else gr.skip()


# --------------------------------------------------------------------------------------------------------------- pieces


def reason(error: Exception, do: str) -> dict[str, str]:
    """Why a command could not be done, in both languages; what nobody expected is logged and told in one sentence."""
    if not isinstance(error, Refusal):
        log.exception("%s failed", do, exc_info=error)
        error = Refusal("unexpected")
    return {lang: error.text(lang) for lang in LANGUAGES}


def lesson_session(do: str, name: Any, base: Session) -> Session:
    """The page with a variant of a lesson in it, or with the task's own recipe again.

    Raises:
        Refusal: there is no such variant.
    """
    if do == "lesson_leave":
        return base.with_task(base.task).change(recipe="task", lesson=lessons.NONE)
    clean = BY_NAME["lesson"].clean(name, Limits.from_environment())
    if clean == lessons.NONE:
        raise Refusal("no_lesson", given=clean)
    return base.change(**lessons.settings(clean, base.train_seed))


def restored(
    record: Any, session: Session, base: Session, limits: Limits, desk: Desk
) -> dict[str, Any]:
    """What the page has to set beside Train, and what of the record it has no control for."""
    changes = taking_up.explore_changes(record) | {"weights": "fresh"} if session.recipe == "mine" else {}
    if session.fault != base.fault:
        changes["fault"] = session.fault
    try:
        lacking = taking_up.without_control(record, plans.plan(session, limits, desk.corpus))
    except Refusal:
        lacking = []
    return {"changes": changes, "lacking": lacking}


def _row(shelf: Shelf, desk: Desk | None, name: Any) -> Callable[[], Row]:
    """The row of this id, when it is asked for."""

    def find() -> Row:
        rows = rows_of(shelf, desk)
        found = chosen_of(shelf, rows) if name is None else next((row for row in rows if row.id == name), None)
        if found is None:
            raise Refusal("no_run")
        return found

    return find


def asked(event: gr.EventData, allowed: tuple[str, ...]) -> tuple[str, Mapping[str, Any]]:
    """The command in an event and what it carries; a stranger's nonsense asks for nothing but the state of things."""
    data = getattr(event, "_data", None)
    data = data if isinstance(data, Mapping) else {}
    do = data.get("do")
    return (do if isinstance(do, str) and do in allowed else "look"), data
