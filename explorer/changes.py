"""What a choice changes: the handlers of the page as functions from what was asked to what is shown. Knows no gradio.

An impossible choice leaves the last valid run as it was and says why; what nobody expected is logged on the server and
said in one sentence. Nothing is remembered between two calls but what the caller hands in.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from explorer import live as running
from explorer.detail import detail_payload
from explorer.fields import ATTENTIONS, BY_NAME, FROM_PRESET, NO_FAULT, PAINTED, TRAINING
from explorer.limits import Limits
from explorer.live import Live, Trained
from explorer.payload import strip_payload
from explorer.refusals import Notice, Refusal, notice
from explorer.session import EXAMPLES, Session, preset_of
from explorer.words import LANGUAGES, has, text
from transformer_core.checks.table import BEHAVIOUR, LEARNING, REFERENCE
from transformer_core.errors import show

log = logging.getLogger(__name__)

CONTROLS = (
    "preset", "architecture", "d_model", "n_heads", "d_ff", "n_encoder_layers", "n_decoder_layers", "norm_order",
    "activation", "positions", "tokens", "split", "src_text", "tgt_text", "src_len", "tgt_len", "batch_size", "padding",
    "pad_side", "masks", "fill", "weights", "mode", "dropout", "dtype", "device", "seed",
)  # fmt: skip
FURTHER = (BEHAVIOUR, LEARNING, REFERENCE)
"""The levels of checks that are run when asked for; those before them are part of every run."""
PATIENCE = 15  # seconds that a request waits for its turn
FORWARDS = threading.BoundedSemaphore(max(1, (os.cpu_count() or 2) - 1))  # models at work at once, over all visitors


@dataclass(frozen=True)
class Asked:
    """One request: what the tab holds, what its controls say, what the event carries, and the query of its address."""

    session: Session | None = None
    live: Live | None = None
    trained: Trained | None = None
    values: tuple[Any, ...] = ()
    data: Any = None
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits.from_environment)

    def held(self) -> Session:
        """The session of the tab; what it held is freed after half an hour, and then the address still tells."""
        return self.session if self.session is not None else Session.from_query(self.query, self.limits)[0]

    def named(self) -> dict[str, Any]:
        """Control values by the name of their field; the masks control holds three of them.

        Raises:
            Refusal: too few values, or the masks are not a table of rules.
        """
        if len(self.values) != len(CONTROLS):
            raise Refusal("not_controls", given=len(self.values), wanted=len(CONTROLS))
        values = dict(zip(CONTROLS, self.values, strict=True))
        masks = values.pop("masks")
        if not isinstance(masks, Mapping) or set(masks) != set(ATTENTIONS):
            raise Refusal("not_masks", "masks")
        return values | {name: masks[name] for name in ATTENTIONS}


@dataclass(frozen=True)
class Change:
    """What to show: a run, or why there is none; and whether the controls have to move."""

    session: Session | None = None  # None: as it was
    live: Live | None = None
    frame: Mapping[str, Any] | None = None
    controls: bool = False  # all controls take the values of the session
    touched: frozenset[str] = frozenset()  # else: the fields that changed, and those that could not stay as asked
    words: bool = False  # everything with a label changes its language
    opened: bool = False  # the page was just opened: the tab too
    detail: Mapping[str, Any] | None = None  # the panes of the tensor that is looked at


Handler = Callable[[Asked], Change]


def guarded(handler: Handler) -> Handler:
    """The handler, with every refusal and surprise turned into a sentence beside the last valid run."""

    def safe(asked: Asked) -> Change:
        try:
            return handler(asked)
        except Refusal as refusal:
            return refused(asked, refusal)
        except Exception:
            log.exception("%s failed", handler.__name__)
            return refused(asked, Refusal("unexpected"))

    safe.__name__, safe.__doc__ = handler.__name__, handler.__doc__
    return safe


# ----------------------------------------------------------------------------------------------------------- handlers


@guarded
def refresh(asked: Asked) -> Change:
    """A control was moved: its value and all others, checked, run."""
    before = asked.held()
    return shown(asked, before.cleaned(asked.named(), asked.limits), before)


@guarded
def choose_preset(asked: Asked) -> Change:
    """Another preset: the model, masks and data are its own; language, seed, device and training stay."""
    name = BY_NAME["preset"].clean(asked.named()["preset"], asked.limits)
    if asked.live is not None and asked.held().preset == name:
        return Change()  # gradio's dropdown tells of one choice twice
    return shown(asked, asked.held().choose_preset(name), controls=True)


@guarded
def apply(asked: Asked) -> Change:
    """A remedy was chosen: the controls as they stand with these changes."""
    before = asked.held()
    changes = asked.data.get("changes") if isinstance(asked.data, Mapping) else None
    allowed = (set(asked.named()) | {"fault", "selected", "sample", "head", *PAINTED}) - {"preset"}
    if not isinstance(changes, Mapping) or not changes or not set(changes) <= allowed:
        raise Refusal("not_changes")
    return shown(asked, before.cleaned(asked.named() | dict(changes), asked.limits), controls=True)


@guarded
def reset(asked: Asked) -> Change:
    """Back to the first preset, in the same language and on the same tab."""
    before = asked.held()
    change = shown(asked, Session.of_preset().change(lang=before.lang, tab=before.tab), controls=True)
    return dataclasses.replace(change, frame={**(change.frame or {}), "anew": True})


@guarded
def speak(asked: Asked) -> Change:
    """Another language, in place: the same run, described anew."""
    lang = asked.data.get("lang") if isinstance(asked.data, Mapping) else None
    session = asked.held().change(lang=BY_NAME["lang"].clean(lang, asked.limits))
    live = asked.live or run(session, None, asked.trained, asked.limits)
    return Change(session, live, frame(session, live, trained=asked.trained), words=True)


@guarded
def show_trained(asked: Asked) -> Change:
    """A training run ended: Explore shows its model on sentences of its task."""
    if asked.trained is None:
        return Change()
    config, masks = asked.trained.config, asked.trained.masks
    chosen = {name: getattr(config, name) for name in FROM_PRESET if BY_NAME[name].group == "model"}
    rules = {name: tuple(rule for rule in getattr(masks, name) if rule != "custom") for name in ATTENTIONS}
    session = asked.held().change(
        **chosen,
        **rules,
        **{name: "" for name in PAINTED},
        fill=masks.fill,
        weights="trained",
        tokens="task",
        task=asked.trained.task,
        selected="",
        sample=0,
        head=0,
    )
    return shown(asked, session, controls=True)


@guarded
def look(asked: Asked) -> Change:
    """Another tensor, sentence or head is looked at: its panes, and the address. Nothing is run again."""
    data = asked.data if isinstance(asked.data, Mapping) else {}
    looked = {"selected": data.get("key"), "sample": data.get("sample", 0), "head": data.get("head", 0)}
    cleaned = {name: BY_NAME[name].clean(value, asked.limits) for name, value in looked.items()}
    if asked.live is None:
        return shown(asked, asked.held().change(**cleaned))
    if not any(entry.key == cleaned["selected"] for entry in asked.live.ledger):
        return Change()
    sizes = asked.live.ledger.sizes
    for name, axis in (("sample", "B"), ("head", "H")):
        cleaned[name] = min(cleaned[name], sizes.get(axis, 1) - 1)
    session = asked.held().change(**cleaned)
    return Change(session, detail=detail_payload(asked.live, *cleaned.values(), session.lang))


@guarded
def probe(asked: Asked) -> Change:
    """One more level of checks for the run that is shown: behaviour, learning, or torch as a reference."""
    level = asked.data.get("level") if isinstance(asked.data, Mapping) else None
    if isinstance(level, bool) or level not in FURTHER:
        raise Refusal("not_a_level", levels=", ".join(map(str, FURTHER)), given=show(level))
    session = asked.held()
    live = asked.live or run(session, None, asked.trained, asked.limits)
    live = running.checked_further(live, level, turn)
    return Change(session, live, frame(session, live, trained=asked.trained))


@guarded
def pick(asked: Asked) -> Change:
    """Another fault is looked at in Break it, or a game begins or ends: the address follows, nothing is run."""
    data = asked.data if isinstance(asked.data, Mapping) else {}
    cleaned = {name: BY_NAME[name].clean(data[name], asked.limits) for name in ("picked", "game") if name in data}
    return Change(asked.held().change(**cleaned))


@guarded
def remember_training(asked: Asked) -> Change:
    """The recipe of Train was changed: the address follows. Train itself says what is wrong with it."""
    values = dict(zip(TRAINING, asked.values, strict=True))
    try:
        cleaned = {name: BY_NAME[name].clean(value, asked.limits) for name, value in values.items()}
    except Refusal:
        return Change()
    return Change(asked.held().change(**cleaned))


@guarded
def restore(asked: Asked) -> Change:
    """The page was opened: the session of its address, in the language of the link, the person, or the browser."""
    query = asked.query
    session, notices = Session.from_query(query, asked.limits)
    linked = query.get("lang") in LANGUAGES
    if not linked:
        session = session.change(lang=preferred(asked.data, asked.headers.get("accept-language", "")))
    try:
        live = run(session, None, asked.trained, asked.limits)
    except Refusal as refusal:
        notices.append(notice("notices.bad_together", refusal))
        session = Session.of_preset().change(lang=session.lang, tab=session.tab)
        live = run(session, None, asked.trained, asked.limits)
    session = settled(session, live)
    payload = frame(session, live, trained=asked.trained) | {
        "opened": True, "linked_lang": linked, "tab": session.tab, "link_notices": [told(each) for each in notices],
    }  # fmt: skip
    return Change(session, live, payload, controls=True, words=True, opened=True)


# ------------------------------------------------------------------------------------------------------------- pieces


def shown(asked: Asked, session: Session, before: Session | None = None, controls: bool = False) -> Change:
    """This session, run. Trained weights that no longer fit give way to fresh ones, with the way back."""
    same_weights = session.weights == "fresh" or (asked.live is not None and asked.live.trained is asked.trained)
    if asked.live is not None and asked.session == session == asked.live.session and same_weights:
        return Change(session, frame=frame(session, asked.live, trained=asked.trained), controls=controls)
    live = run(session, asked.live, asked.trained, asked.limits)
    actual = settled(session, live)
    touched = {
        name
        for name in BY_NAME
        if getattr(actual, name) != getattr(before or session, name) or getattr(actual, name) != getattr(session, name)
    }
    return Change(actual, live, frame(actual, live, trained=asked.trained), controls, frozenset(touched))


def settled(session: Session, live: Live) -> Session:
    """The session as it was really run: the device that was there, the weights and painted cells that did fit."""
    if any(each.key in ("notices.nothing_trained", "notices.weights_do_not_fit") for each in live.notices):
        session = session.change(weights="fresh")
    if live.device != "meta":
        session = session.change(device=live.device)
    return session.change(**{name: getattr(live.session, name) for name in PAINTED})


def refused(asked: Asked, refusal: Refusal) -> Change:
    """Nothing changes but the sentence."""
    session = asked.session or Session.of_preset()
    return Change(frame=frame(session, asked.live, refusal, asked.trained))


def run(session: Session, held: Live | None, trained: Trained | None, limits: Limits) -> Live:
    """The model of this session, when it is this request's turn.

    Raises:
        Refusal: the choices cannot be run, or too many others are at work.
    """
    with turn():
        return running.run(session, held, trained, limits)


@contextmanager
def turn() -> Iterator[None]:
    """One of the few places at work, over all visitors.

    Raises:
        Refusal: none became free in time.
    """
    if not FORWARDS.acquire(timeout=PATIENCE):
        raise Refusal("busy")
    try:
        yield
    finally:
        FORWARDS.release()


def preferred(data: Any, accept: str) -> str:
    """The language to begin with: chosen here before, else the browser's first.

    >>> preferred('{"kept": "", "browser": "zh-CN"}', ""), preferred(None, "zh-TW,zh;q=0.9"), preferred("{", "fr")
    ('zh', 'zh', 'en')
    """
    try:
        hint = json.loads(data) if isinstance(data, str) and len(data) < 500 else {}
    except ValueError:
        hint = {}
    hint = hint if isinstance(hint, dict) else {}
    if hint.get("kept") in LANGUAGES:
        return hint["kept"]
    first = str(hint.get("browser") or accept).split(",")[0].strip().lower()
    return "zh" if first.split("-")[0] == "zh" else "en"


# -------------------------------------------------------------------------------------------------------- the payload


def frame(
    session: Session, live: Live | None, refusal: Refusal | None = None, trained: Trained | None = None
) -> dict[str, Any]:
    """What frame.js draws. Sentences come in both languages: the page may change its own before the next answer."""
    preset = preset_of(session.preset)
    notices = live.notices if live is not None and refusal is None else ()
    return {
        "lang": session.lang,
        "strip": strip_payload(live, session.lang) if live is not None else None,
        "refusal": _refusal(refusal) if refusal is not None else None,
        "notices": [*_fault_on(session), *(told(each, _way_back(each, session, trained)) for each in notices)],
        "query": address(session),
        "show": {
            "architecture": session.architecture,
            "tokens": session.tokens,
            "trained": "no" if trained is None else "yes",
            "d_head": str(session.d_model // session.n_heads),
        },
        "lesson": {"en": preset.lesson, "zh": preset.lesson_zh},
    }  # fmt: skip


def _fault_on(session: Session) -> list[dict[str, Any]]:
    """While a fault is in the code every tab says so, with the way out."""
    if session.fault == NO_FAULT:
        return []
    titles = {lang: text(lang, f"faults.{session.fault}.title") for lang in LANGUAGES}
    off = {"label": {lang: text(lang, "notices.fault_off") for lang in LANGUAGES}, "changes": {"fault": NO_FAULT}}
    said = {lang: text(lang, "notices.fault_on", title=titles[lang]) for lang in LANGUAGES}
    return [{"text": said, "actions": [off]}]


def address(session: Session) -> dict[str, str]:
    """The query of this session without language and tab, which the browser knows first."""
    return {name: value for name, value in session.to_query().items() if name not in ("lang", "tab")}


def told(each: Notice, actions: Iterable[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """A notice with its buttons."""
    return {"text": {lang: each.text(lang) for lang in LANGUAGES}, "actions": list(actions)}


def _refusal(refusal: Refusal) -> dict[str, Any]:
    field_name = "masks" if refusal.field in ATTENTIONS else refusal.field
    choices = [choice for choice in refusal.choices if set(choice) <= set(BY_NAME) - {"preset"}]
    return {
        "field": field_name,
        "text": {lang: refusal.text(lang) for lang in LANGUAGES},
        "choices": [
            {"label": {lang: choice_label(choice, lang) for lang in LANGUAGES}, "changes": choice}
            for choice in choices[:4]
        ],
    }


def choice_label(choice: Mapping[str, Any], lang: str) -> str:
    """What a button for these changes says.

    >>> choice_label({"d_model": 60}, "en"), choice_label({"tokens": "random"}, "en")
    ('d_model 60', 'tokens: random')
    """
    parts = []
    for name, value in choice.items():
        label = text(lang, f"sidebar.{name}") if has(f"sidebar.{name}") else name
        if name in EXAMPLES:
            parts.append(text(lang, "sidebar.example"))
        elif has(f"sidebar.{name}_{value}"):
            parts.append(f"{label}: {text(lang, f'sidebar.{name}_{value}')}")
        else:
            parts.append(f"{label} {value}")
    return ", ".join(parts)


def _way_back(each: Notice, session: Session, trained: Trained | None) -> list[dict[str, Any]]:
    """The button under "the trained weights no longer fit": the trained model's own sizes again."""
    if each.key != "notices.weights_do_not_fit" or trained is None:
        return []
    names = [
        name
        for name in FROM_PRESET
        if BY_NAME[name].group == "model" and getattr(trained.config, name) != getattr(session, name)
    ]
    changes = {name: getattr(trained.config, name) for name in names} | {"weights": "trained"}
    return [{"label": {lang: text(lang, "notices.back_to_trained") for lang in LANGUAGES}, "changes": changes}]
