"""The Break it view: which check sees which fault, one fault in full, and the mystery game.

What takes time is done in ``tick``: bounded slices that the tab's own timer asks for, in the same line as training, so
everyone gets a share, and a tab that is gone asks no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import gradio as gr
from gradio.context import Context

from explorer import game, theme
from explorer.faulting import catalogue, setting
from explorer.lab import PARTS, Lab
from explorer.limits import Limits
from explorer.refusals import Refusal
from explorer.session import Session
from explorer.views.train import AGAIN, EVERY, SLICE, TabClosed, slots
from explorer.words import LANGUAGES
from transformer_core.faults import FAULTS

SCRIPTS = ("break-board.js", "break-fault.js", "break-game.js", "break.js")
TEMPLATE = '<div class="tl-break"></div>'
MOVES = ("check", "hint", "guess", "give_up", "next")
COMMANDS = ("resync", "look", "run_all", "run_row", "stop", "race", "stop_race", "play", "leave", *MOVES)


@dataclass(frozen=True)
class BreakView:
    """The inside of the tab. ``html`` fires ``apply`` with the fault to switch on, and ``pick`` with what the address
    is to say: the fault looked at and the seed of the game."""

    html: gr.HTML
    timer: gr.Timer
    lab_state: gr.State
    relabel_targets: list[Any] = field(default_factory=list)

    def relabel(self, lang: str) -> list[Any]:
        """Nothing: the view holds both languages and follows the page's."""
        return []


def build_sidebar() -> gr.HTML:
    """The place of the view's own settings in the sidebar; break.js draws them."""
    return gr.HTML(html_template='<div class="tl-b-side tl-break-only"></div>', apply_default_css=False,
                   elem_id="tl-b-side", elem_classes="tl-break-only")  # fmt: skip


def build_tab(session_state: gr.State) -> BreakView:
    """The component, wired to its own work; the page wires ``apply`` and ``pick``."""
    lab_state = gr.State(None, time_to_live=1800, delete_callback=forget)
    timer = gr.Timer(AGAIN, active=False)
    html = gr.HTML(
        value=None,
        catalogue=packed({**catalogue(), "rules": game.rules()}),
        board=None,
        detail=None,
        duel=None,
        game=None,
        html_template=TEMPLATE,
        js_on_load=theme.mount("break", "command", "apply", "pick"),
        elem_id="tl-break",
        apply_default_css=False,
    )
    quiet: dict[str, Any] = {"preprocess": False, "show_progress": "hidden", "api_visibility": "private"}
    html.command(
        command,
        [lab_state, session_state],
        [lab_state, html, timer],
        queue=False,
        trigger_mode="multiple",
        api_name="break_command",
        **quiet,
    )
    timer.tick(
        tick,
        lab_state,
        [lab_state, html, timer],
        concurrency_id="train",
        concurrency_limit=slots(),
        trigger_mode="once",
        api_name="break_tick",
        **quiet,
    )
    if Context.root_block is not None:
        Context.root_block.unload(TabClosed(Context.root_block, lab_state._id))
    return BreakView(html, timer, lab_state)


def forget(lab: Lab | None) -> None:
    """The tab is gone, or has been idle for too long."""
    if lab is not None:
        lab.clear()


# ------------------------------------------------------------------------------------------------------------- handlers


def command(lab: Lab | None, session: Session | None, event: gr.EventData) -> tuple[Any, Any, Any]:
    """A button or key of the view. Answers at once with what changed; the long work is done by ``tick``.

    Returns the lab, the view and the timer.
    """
    lab = lab if isinstance(lab, Lab) else Lab()
    do, given = asked(event)
    try:
        parts = _obey(lab, do, given, session if isinstance(session, Session) else Session.of_preset())
    except Refusal as refusal:
        said = {"refusal": {lang: refusal.text(lang) for lang in LANGUAGES}, "reply": do}
        return lab, gr.HTML(value=packed(said)), gr.skip()
    return lab, gr.HTML(value=packed({"reply": do}), **told(lab, parts)), gr.Timer(active=lab.busy)


def _obey(lab: Lab, do: str, given: Mapping[str, Any], session: Session) -> set[str]:
    """Does what was asked; gives the parts of the page that changed.

    Raises:
        Refusal: it cannot be done, with the reason.
    """
    limits = Limits.from_environment()
    fault = given["fault"]
    if do == "look":
        try:
            lab.look(fault, setting(session, limits))
        except Refusal as refusal:
            if refusal.code != "matrix_too_large":
                raise
            lab.look(fault, None)
        return {"detail"}
    if do in ("run_all", "run_row"):
        names = [fault] if do == "run_row" else given["faults"] or list(FAULTS)
        lab.run(setting(session, limits), names, given["levels"], given["anew"])
        return {"board"}
    if do == "stop":
        lab.stop()
        return {"board"}
    if do in ("race", "stop_race"):
        lab.race(fault) if do == "race" else lab.stop_race()
        return {"duel"}
    if do == "play":
        lab.play(given["seed"])
        return {"game"}
    if do == "leave":
        lab.leave()
        return {"game"}
    if do in MOVES:
        lab.move(do, given["check"] if do == "check" else fault)
        return {"game"}
    return set(PARTS)


def tick(lab: Lab | None) -> Iterator[tuple[Any, Any, Any]]:
    """One slice of the work of this tab; the timer sleeps when there is none.

    No torch context is open across a yield: gradio resumes generators in other threads.
    """
    if not isinstance(lab, Lab) or not lab.busy:
        yield gr.skip(), gr.skip(), gr.Timer(active=False)
        return
    for parts in lab.work(SLICE, EVERY):
        yield gr.skip(), gr.HTML(**told(lab, parts)), gr.skip()
    # The lab goes out once a slice, so that the state of a tab at work does not expire.
    yield lab, gr.skip(), gr.skip() if lab.busy else gr.Timer(active=False)


def told(lab: Lab, parts: set[str]) -> dict[str, str]:
    """These parts, each whole and as one JSON text: a message that is lost is made up for by the next one."""
    return {part: packed(lab.told(part) or {}) for part in PARTS if part in parts}


def asked(event: gr.EventData) -> tuple[str, dict[str, Any]]:
    """The command in an event and its arguments, each in its type; a stranger's nonsense asks how things stand."""
    data = getattr(event, "_data", None)
    data = data if isinstance(data, Mapping) else {}
    do = data.get("do")
    do = do if isinstance(do, str) and do in COMMANDS else "resync"

    def text(name: str) -> str:
        value = data.get(name)
        return value[:60] if isinstance(value, str) else ""

    def several(name: str, kind: type) -> list[Any]:
        value = data.get(name)
        return [each for each in value[:100] if type(each) is kind] if isinstance(value, list) else []

    seed = data.get("seed")
    return do, {
        "fault": text("fault"), "check": text("check"), "seed": seed if type(seed) is int else 0,
        "levels": several("levels", int), "faults": several("faults", str), "anew": data.get("anew") is True,
    }  # fmt: skip


def packed(payload: Any) -> str:
    """A payload as one JSON text; the numbers in it are finite already."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
