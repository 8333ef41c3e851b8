"""The page: sidebar, strip and tabs, and the wires between them. What a choice changes is in ``explorer.changes``."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr
from starlette.middleware import Middleware

from explorer import api, changes, comparing, decoding_view, studio, theme
from explorer.changes import CONTROLS, TRAINING, Asked, Change, Handler
from explorer.guard import Guard
from explorer.limits import Limits
from explorer.payload import explore_payload
from explorer.session import Session
from explorer.views import break_it, compare, corpus, decode, explore, masks, runs, sidebar, train
from explorer.words import LANGUAGES, section, text

STATE_SECONDS = 1800  # what a tab holds is freed half an hour after its last change
# Values arrive as they were sent: gradio's own checks differ from control to control, say nothing readable, and cost a
# thread switch each. Session.cleaned checks every one.
QUIET: dict[str, Any] = {"queue": False, "preprocess": False, "show_progress": "hidden", "api_visibility": "private"}
WORDS_OF_SCRIPTS = ("frame", "sidebar", "masks", "train", "corpus", "runs", "decode", "break", "compare")
TABS = ("explore", "masks", "train", "decode", "break", "compare")
SCRIPTS = {
    "explore": explore.SCRIPTS, "masks": masks.SCRIPTS, "train": train.SCRIPTS, "corpus": corpus.SCRIPTS,
    "runs": runs.SCRIPTS,
    "decode": decode.SCRIPTS, "break": break_it.SCRIPTS, "compare": compare.SCRIPTS,
}  # fmt: skip
TITLE = "Transformer Ledger"


@dataclass(frozen=True)
class Page:
    """The components that are written to, in one place, and a change as their updates."""

    states: tuple[gr.State, gr.State, gr.State]  # session, live, trained
    frame: gr.HTML
    side: sidebar.Sidebar
    train_side: train.TrainSidebar
    tabs: gr.Tabs
    tab_items: tuple[gr.Tab, ...]
    explore: explore.ExploreView
    masks: masks.MasksView
    train: train.TrainView
    runs: runs.RunsView
    decode: decode.DecodeView
    broken: break_it.BreakView
    compare_side: compare.CompareSidebar
    compare: compare.CompareView

    @property
    def run_outputs(self) -> list[Any]:
        """What every change of a control writes: the run, and the few controls that depend on others."""
        return [
            *self.states[:2],
            self.frame,
            self.explore.html,
            *(self.side.controls[name] for name in sidebar.DEPENDENT),
        ]

    @property
    def control_outputs(self) -> list[Any]:
        """The run and every control of Explore."""
        return [*self.run_outputs[:4], *self.side.inputs]

    @property
    def word_outputs(self) -> list[Any]:
        """The run and everything with a label."""
        labels = [self.side, self.train_side, self.compare_side, self.explore, self.train]
        return [*self.run_outputs[:4], *self.tab_items, *(target for part in labels for target in part.relabel_targets)]

    @property
    def open_outputs(self) -> list[Any]:
        """Everything."""
        others = [*self.tab_items, *self.explore.relabel_targets, *self.train.relabel_targets]
        sides = [*self.train_side.fields.values(), *self.compare_side.fields.values()]
        return [*self.control_outputs, *sides, *others, self.tabs]

    def run_updates(self, change: Change) -> list[Any]:
        return [*self._core(change), *self.side.dependent(change.session, change.touched)]

    def control_updates(self, change: Change) -> list[Any]:
        session = change.session
        moved = (
            self.side.updates(session, session.lang) if session and change.controls else [gr.skip() for _ in CONTROLS]
        )
        return [*self._core(change), *moved]

    def look_updates(self, change: Change) -> list[Any]:
        if change.detail is None or change.session is None:
            return self._core(change)
        return [
            change.session,
            gr.skip(),
            gr.HTML(address=packed(changes.address(change.session))),
            gr.HTML(detail=packed(change.detail)),
        ]

    def mask_updates(self, change: Change) -> list[Any]:
        """A mask was changed, or another one looked at: the tab Masks at once, Explore a moment later."""
        core = self._core(dataclasses.replace(change, live=None))[:3]
        if change.live is not None:
            core[1] = change.live
        if change.session is None:
            return [*core, gr.skip(), gr.skip(), self._masks(change)]
        if change.frame is None:
            core[2] = gr.HTML(address=packed(changes.address(change.session)))
        rules, fill = gr.HTML(value=sidebar.masks_value(change.session)), gr.update(value=change.session.fill)
        return [*core, rules, fill, self._masks(change)]

    def trap_updates(self, change: Change) -> list[Any]:
        """A trap moves many controls; of a refusal only the view hears."""
        return [*self.control_updates(change), self._masks(change)]

    def _masks(self, change: Change) -> Any:
        return gr.skip() if change.detail is None else gr.HTML(value=packed(change.detail))

    def decode_updates(self, change: Change) -> list[Any]:
        """A search on Decode, or why there is none; the address has its choices."""
        kept = remembered(change)
        return [*kept, gr.HTML(value=packed(change.detail))]

    def catch_up(self, change: Change) -> Any:
        """Explore after a change on Masks."""
        return self._core(change)[3]

    def probe_updates(self, change: Change) -> list[Any]:
        """The run with more verdicts, or why not; answered in either case, since equal verdicts are no new value."""
        refusal = (change.frame or {}).get("refusal")
        answer = {"id": uuid.uuid4().hex, "refused": refusal["text"] if refusal else None}
        shown = explore_payload(change.live, change.session.lang) if change.live and change.session else None
        value = {} if shown is None else {"value": packed(shown)}
        return [*self._core(change)[:3], gr.HTML(answered=packed(answer), **value)]

    def word_updates(self, change: Change) -> list[Any]:
        if change.session is None:
            return [*self._core(change), *(gr.skip() for _ in self.word_outputs[4:])]
        lang = change.session.lang
        parts = [self.side, self.train_side, self.compare_side, self.explore, self.train]
        return [
            *self._core(change),
            *self._tab_labels(lang),
            *(update for part in parts for update in part.relabel(lang)),
        ]

    def open_updates(self, change: Change) -> list[Any]:
        session = change.session
        if session is None:
            return [*self._core(change), *(gr.skip() for _ in self.open_outputs[4:])]
        lang = session.lang
        training = [
            update | {"value": getattr(session, name)}
            for side in (self.train_side, self.compare_side)
            for name, update in zip(side.fields, side.relabel(lang), strict=True)
        ]
        others = [*self._tab_labels(lang), *self.explore.relabel(lang), *self.train.relabel(lang)]
        return [
            *self._core(change),
            *self.side.updates(session, lang),
            *training,
            *others,
            gr.Tabs(selected=session.tab),
        ]

    def _core(self, change: Change) -> list[Any]:
        """Session, run, frame, ledger; what did not change is left alone."""
        shown = explore_payload(change.live, change.session.lang) if change.live and change.session else None
        return [
            change.session if change.session is not None else gr.skip(),
            change.live if change.live is not None else gr.skip(),
            gr.HTML(value=packed(change.frame)) if change.frame is not None else gr.skip(),
            gr.HTML(value=packed(shown)) if shown is not None else gr.skip(),
        ]

    def _tab_labels(self, lang: str) -> list[Any]:
        return [gr.Tab(label=text(lang, f"frame.tab_{name}")) for name in TABS]


def build() -> gr.Blocks:
    """The page as gradio blocks; ``launch_options`` has the rest of its looks and limits."""
    limits, first = Limits.from_environment(), Session.of_preset()
    with gr.Blocks(fill_width=True, title=TITLE, analytics_enabled=False, delete_cache=(3600, 3600)) as blocks:
        states = tuple(gr.State(None, time_to_live=STATE_SECONDS) for _ in range(3))
        with gr.Sidebar(width=216, elem_id="tl-side", open=True):
            side = sidebar.build(limits, first)
            train_side = train.build_sidebar(first, limits)
            masks.build_sidebar()
            decode.build_sidebar()
            break_it.build_sidebar()
            compare_side = compare.build_sidebar(first)
            foot = sidebar.build_foot()
        frame = gr.HTML(
            value=None,
            address=None,
            html_template='<div class="tl-frame"></div>',
            apply_default_css=False,
            elem_id="tl-frame",
            js_on_load="TL.frame.mount(element, props, watch, trigger); /* sends 'language' and 'apply' */",
        )
        with gr.Tabs(elem_id="tl-tabs", selected="explore") as tabs:
            with gr.Tab(text("en", "frame.tab_explore"), id="explore", elem_id="tl-tab-explore") as explore_tab:
                explore_view = explore.build()
            with gr.Tab(text("en", "frame.tab_masks"), id="masks", elem_id="tl-tab-masks") as masks_tab:
                masks_view = masks.build_tab()
            with gr.Tab(text("en", "frame.tab_train"), id="train", elem_id="tl-tab-train") as train_tab:
                train_view = train.build_tab(train_side, states[0], states[2])
                corpus.build_tab(train_side, train_view)
                runs_view = runs.build_tab(train_side, train_view, states[0], states[2])
            with gr.Tab(text("en", "frame.tab_decode"), id="decode", elem_id="tl-tab-decode") as decode_tab:
                decode_view = decode.build_tab()
            with gr.Tab(text("en", "frame.tab_break"), id="break", elem_id="tl-tab-break") as break_tab:
                break_view = break_it.build_tab(states[0])
            with gr.Tab(text("en", "frame.tab_compare"), id="compare", elem_id="tl-tab-compare") as compare_tab:
                compare_view = compare.build_tab(compare_side, states)
        hint = gr.Textbox(visible="hidden", label="hint")
        items = (explore_tab, masks_tab, train_tab, decode_tab, break_tab, compare_tab)
        views = (explore_view, masks_view, train_view, runs_view, decode_view, break_view, compare_side, compare_view)
        page = Page(states, frame, side, train_side, tabs, items, *views)
        _wire(page, blocks, foot, hint)
        blocks.unload(TabClosed(blocks, [state._id for state in states]))
        api.add()
    blocks.queue(max_size=128, default_concurrency_limit=4)
    return blocks


class TabClosed:
    """Gradio keeps the state of a closed tab, in case it comes back; the address is enough to build it again."""

    def __init__(self, blocks: gr.Blocks, states: Sequence[int]) -> None:
        self.blocks, self.states = blocks, states

    def __call__(self, request: gr.Request) -> None:
        held = self.blocks.state_holder.session_data.get(getattr(request, "session_hash", None))
        if held is not None:
            held.state_data.update(dict.fromkeys(self.states))


def _wire(page: Page, blocks: gr.Blocks, foot: gr.HTML, hint: gr.Textbox) -> None:
    latest = {**QUIET, "trigger_mode": "always_last"}
    controls = [*page.states, *page.side.inputs]
    moved = [moved_by_hand(control) for name, control in page.side.controls.items() if name not in ("preset", "masks")]
    gr.on(
        [*moved, page.side.masks.edit], served(changes.refresh, page.run_updates), controls, page.run_outputs, **latest
    )
    wires: Sequence[tuple[Callable[..., Any], Handler]] = (
        (page.side.controls["preset"].input, changes.choose_preset),
        (page.frame.apply, changes.apply),
        (page.runs.html.apply, changes.apply),
        (page.broken.html.apply, changes.apply),
        (page.compare.html.apply, changes.apply),
        (foot.reset, changes.reset),
    )
    for event, handler in wires:
        event(served(handler, page.control_updates), controls, page.control_outputs, **latest)
    mended = page.train.html.mend(
        served(changes.apply, page.control_updates), controls, page.control_outputs, **latest
    )
    mended.then(train.preview, page.train.preview_inputs, page.train.html, **QUIET)
    for done in page.train.trained_events:
        done.then(served(changes.show_trained, page.control_updates), controls, page.control_outputs, **QUIET)
    page.frame.language(served(changes.speak, page.word_updates), controls, page.word_outputs, **latest)
    page.explore.html.select(served(changes.look, page.look_updates), [*page.states], page.run_outputs[:4], **latest)
    # Through the queue: a level of checks may take seconds, and its answer must not hold up a connection.
    slow = {**QUIET, "queue": True, "trigger_mode": "multiple", "concurrency_limit": 2}
    page.explore.html.probe(served(changes.probe, page.probe_updates), [*page.states], page.run_outputs[:4], **slow)
    _wire_masks(page, slow)
    _wire_decode(page, slow)
    page.broken.html.pick(served(changes.pick, remembered), [*page.states], [page.states[0], page.frame], **latest)
    gr.on(
        [field.change for field in page.train_side.fields.values()], served(changes.remember_training, remembered),
        [*page.states, *(page.train_side.fields[name] for name in TRAINING)], [page.states[0], page.frame], **latest,
    )  # fmt: skip
    sides, written = list(page.compare_side.fields.values()), [page.states[0], page.frame]
    kept = served(comparing.remember, remembered)
    gr.on([field.input for field in sides], kept, [*page.states, *sides], written, **latest)
    page.compare.html.look(kept, [*page.states], written, **latest)
    for name, tab in zip(TABS, page.tab_items, strict=True):
        tab.select(None, None, None, js=f"() => {{ TL.frame.setTab('{name}'); return []; }}")
    opened = served(changes.restore, page.open_updates, opening=True)
    blocks.load(
        opened, [*page.states, hint], page.open_outputs, js="(a, b, c, hint) => [a, b, c, TL.frame.hint()]", **QUIET
    )


def _wire_masks(page: Page, slow: dict[str, Any]) -> None:
    """A change is answered to the tab Masks alone; Explore, which has much to draw, is told when it is opened again.

    The view numbers its events and lets one change travel at a time. "always_last" would send the last event with the
    data of the first one.
    """
    every = {**QUIET, "trigger_mode": "multiple"}
    html, rules, fill = page.masks.html, page.side.masks, page.side.controls["fill"]
    states, outputs = [*page.states], [*page.states[:2], page.frame, rules, fill, html]
    html.look(served(studio.look, page.mask_updates), states, outputs, **every)
    html.edit(served(studio.edit, page.mask_updates), states, outputs, **every)
    html.trap(served(studio.trap, page.trap_updates), states, [*page.control_outputs, html], **every)
    html.leave(served(studio.caught_up, page.catch_up), states, page.explore.html, **every)
    html.measure(served(studio.measure, measured), states, html, **slow)


def _wire_decode(page: Page, slow: dict[str, Any]) -> None:
    """A search and what is measured of it go through the queue; where one looks is only remembered."""
    html, states = page.decode.html, [*page.states]
    html.ask(served(decoding_view.ask, page.decode_updates), states, [page.states[0], page.frame, html], **slow)
    html.measure(served(decoding_view.measure, measured), states, html, **slow)
    html.look(served(decoding_view.remember, remembered), states, [page.states[0], page.frame],
              **{**QUIET, "trigger_mode": "always_last"})  # fmt: skip


def moved_by_hand(control: Any) -> Any:
    """The event of a control that a person has moved.

    A text box tells ``input`` of key presses alone: not of pasting, deleting, or writing Chinese with an input method.
    Its ``change`` tells of everything, also of our own updates, which then ask for the run that is already there.
    """
    return control.change if isinstance(control, gr.Textbox) else control.input


def served(handler: Handler, updates: Callable[[Change], Any], opening: bool = False) -> Callable[..., Any]:
    """A handler as gradio calls it: states, values of the controls, event and request in one ``Asked``."""

    def answer(request: gr.Request, event: gr.EventData, session: Any, live: Any, trained: Any, *values: Any) -> Any:
        data = values[0] if opening and values else getattr(event, "_data", None)
        query = dict(request.query_params) if request is not None else {}
        headers = dict(request.headers) if request is not None else {}
        return updates(handler(Asked(session, live, trained, () if opening else values, data, query, headers)))

    answer.__name__ = handler.__name__
    return answer


def measured(change: Change) -> Any:
    """What was measured on Masks or Decode; an answer in every case."""
    return gr.HTML(measured=packed(change.detail))


def remembered(change: Change) -> list[Any]:
    """Session and address; nothing is run and nothing redrawn."""
    if change.session is None:
        return [gr.skip(), gr.skip()]
    return [change.session, gr.HTML(address=packed(changes.address(change.session)))]


def packed(payload: Any) -> str:
    """A payload as one JSON text, which gradio hands on without copying it piece by piece: see TL.unpacked.

    >>> packed({"loss": float("nan"), "step": 3})
    '{"loss":null,"step":3}'

    What a visitor typed is no markup, and gradio logs a warning where a value looks like it.

    >>> packed({"given": "<b>"})
    '{"given":"\\\\u003cb>"}'
    """
    try:
        return json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
    except ValueError:  # JSON has no NaN and no infinity
        return packed(_finite(payload))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, (list, tuple)) else value


def launch_options() -> dict[str, Any]:
    """What ``launch`` needs beside the blocks: looks, scripts, and all that this app does not want switched on."""
    words_of_scripts = {
        lang: {f"{name}.{key}": said for name in WORDS_OF_SCRIPTS for key, said in section(lang, name).items()}
        for lang in LANGUAGES
    }
    everywhere = "0.0.0.0" if os.environ.get("SPACE_ID") else "127.0.0.1"
    return {
        "server_name": os.environ.get("GRADIO_SERVER_NAME", everywhere),
        "theme": theme.build(),
        "css": theme.css(),
        "head": theme.head(words_of_scripts, SCRIPTS),
        "footer_links": [],
        "max_threads": 100,
        "ssr_mode": False,
        "run_history": False,
        "enable_monitoring": False,
        "show_error": False,
        "max_file_size": "1kb",
        "state_session_capacity": 100,
        "app_kwargs": {"middleware": [Middleware(Guard)]},
    }
