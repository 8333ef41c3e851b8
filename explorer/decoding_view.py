"""What the tab Decode shows: one search with all that it looked at, and three measurements beside it. Knows no gradio.

Everything here is bounded before it starts, in tokens, hypotheses and operations, and waits for its turn as every run.
Words are not in the payload: the page holds both languages.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

from explorer import changes, decode_measures, decode_payload, decode_search
from explorer.changes import Asked, Change
from explorer.fields import BY_NAME, FIELDS, NO_FAULT, clip, refusal_of
from explorer.refusals import Refusal
from explorer.session import Session
from explorer.words import LANGUAGES, text
from transformer_core.errors import show

log = logging.getLogger(__name__)

FIELDS_HERE = tuple(field.name for field in FIELDS if field.group == "decode")
LOOKED = ("dec_step", "dec_node", "dec_head")
"""Where one looks; it is in the address and changes no number."""
MEASURES: Mapping[str, Callable[[decode_search.Search], dict[str, Any]]] = {
    "truth": decode_measures.truth, "ways": decode_measures.both_ways, "cache": decode_measures.cache,
}  # fmt: skip


def answering(handler: Callable[[Asked], Change]) -> Callable[[Asked], Change]:
    """The handler with its refusal as an answer to the view, which shows it at its control. Never raises."""

    @functools.wraps(handler)
    def safe(asked: Asked) -> Change:
        try:
            return handler(asked)
        except Refusal as refusal:
            return Change(detail=_head(asked) | {"refused": refused(refusal)})
        except ValueError as error:
            return Change(detail=_head(asked) | {"refused": refused(refusal_of(error))})
        except Exception as error:
            if asked.held().fault != NO_FAULT:  # a broken model may raise anything
                first = next(iter(str(error).splitlines()), type(error).__name__)
                told = refused(Refusal("dec_stopped", reason=clip(first, 160)))
                return Change(detail=_head(asked) | {"refused": told})
            log.exception("%s failed", handler.__name__)
            return Change(detail=_head(asked) | {"refused": refused(Refusal("unexpected"))})

    return safe


@answering
def ask(asked: Asked) -> Change:
    """The tab was opened or something else chosen: the search with these choices.

    An answer takes a moment, in which other tabs go on: the session is written only when a choice of this tab changed.
    """
    given = _cleaned(asked, FIELDS_HERE)
    session = asked.held().change(**given)
    with changes.turn():
        shown = decode_payload.payload(decode_search.prepared(session, asked.trained, asked.limits))
    return Change(session if given else None, detail=_head(asked) | {"shown": shown | {"chosen": chosen(session)}})


@answering
def measure(asked: Asked) -> Change:
    """One of the measurements of the search that is shown."""
    what = asked.data.get("what") if isinstance(asked.data, Mapping) else None
    if not isinstance(what, str) or what not in MEASURES:
        raise Refusal("dec_no_measure", given=show(what), allowed=list(MEASURES))
    with changes.turn():
        found = decode_search.prepared(asked.held(), asked.trained, asked.limits)
        head = _head(asked) | {"id": found.id}
        told = answering(lambda _: Change(detail={"found": MEASURES[what](found)}))(asked)
    return Change(detail=(told.detail or {}) | head)


def remember(asked: Asked) -> Change:
    """Another step, box or head is looked at: the address follows, nothing is computed."""
    try:
        given = asked.data if isinstance(asked.data, Mapping) else {}
        cleaned = {name: BY_NAME[name].clean(given[name], asked.limits) for name in LOOKED if name in given}
    except Refusal:
        return Change()
    return Change(asked.held().change(**cleaned)) if cleaned else Change()


def chosen(session: Session) -> dict[str, Any]:
    """What the controls of the tab stand at."""
    return {name: getattr(session, name) for name in FIELDS_HERE}


def refused(refusal: Refusal) -> dict[str, Any]:
    """A refusal in both languages, with the changes that lead out as buttons, and whether Train does."""
    choices = [choice for choice in refusal.choices if set(choice) <= set(FIELDS_HERE)]
    return {
        "field": refusal.field,
        "train": refusal.code in ("dec_no_target", "dec_large"),
        "text": {lang: refusal.text(lang) for lang in LANGUAGES},
        "choices": [
            {"changes": choice, "label": {lang: label_of(choice, lang) for lang in LANGUAGES}} for choice in choices[:4]
        ],
    }


def label_of(choice: Mapping[str, Any], lang: str) -> str:
    """What a button for these changes says.

    >>> label_of({"dec_length": 4}, "en"), label_of({"dec_method": "greedy"}, "en")
    ('longest 4', 'Method: greedy')
    """
    if "dec_table" in choice:
        return text(lang, "decode.table_scale")
    if "dec_from" in choice:
        return text(lang, f"decode.{choice['dec_from']}")
    if "dec_method" in choice:
        method = text(lang, f"decode.method_{choice['dec_method']}")
        return text(lang, "decode.method") + text(lang, "decode.colon") + method
    return ", ".join(f"{text(lang, f'decode.{name}')} {value}" for name, value in choice.items())


def _head(asked: Asked) -> dict[str, Any]:
    data = asked.data if isinstance(asked.data, Mapping) else {}
    number, what = data.get("number"), data.get("what")
    return {"number": number if isinstance(number, int) else 0, "chosen": chosen(asked.held()),
            "what": what if isinstance(what, str) and what in MEASURES else ""}  # fmt: skip


def _cleaned(asked: Asked, known: tuple[str, ...]) -> dict[str, Any]:
    """The changes in an event, each in its type and range.

    Raises:
        Refusal: the first that cannot be.
    """
    given = asked.data.get("changes") if isinstance(asked.data, Mapping) else None
    given = given if isinstance(given, Mapping) else {}
    return {name: BY_NAME[name].clean(given[name], asked.limits) for name in known if name in given}
