"""What the tab Masks shows and does: the masks of the run on Explore, and changes of them. Knows no gradio.

The masks are the session's own rules and painted cells, so a change here is a change of the run, as on Explore. Words
are not in the payload: the page holds both languages.
"""

from __future__ import annotations

import csv
import functools
import io
import logging
from collections.abc import Callable, Mapping
from typing import Any

from explorer import changes, painted
from explorer import live as running
from explorer.changes import Asked, Change
from explorer.fields import ATTENTIONS, BY_NAME, NO_FAULT, PAINTED, clip, refusal_of
from explorer.grids import ENDS, payload
from explorer.limits import Limits
from explorer.live import Live, attention_sizes
from explorer.refusals import Refusal
from explorer.session import Session
from explorer.words import LANGUAGES
from transformer_core.checks.influence import OUTPUTS, influence
from transformer_core.errors import ConfigError, show
from transformer_core.masks import for_attention
from transformer_core.scale_lab import scale_table

log = logging.getLogger(__name__)

LOOKED = ("mask_at", "mask_show", "mask_heads", "mask_layer", "mask_row", "sample", "head")
"""What is looked at; it is in the address and changes no number."""
EDITED = (*ATTENTIONS, *PAINTED, "fill")
MAX_CSV = 128 * 1024
"""Characters of an uploaded mask: 128 rows of "false" and commas."""
OPEN, CLOSED = ("1", "true"), ("0", "false")
MOST_NUDGES = 20_000_000_000
"""Operations of one probe; beyond it only the chosen token is nudged."""

_WHOLE = {"architecture": "encoder_decoder", "fault": NO_FAULT}
_TOKENS = {"tokens": "random", "src_len": 7, "tgt_len": 5, "batch_size": 2, "padding": "last", "sample": 1, "head": 0}
TRAPS: Mapping[str, Mapping[str, Any]] = {
    "window_padding": {
        **_WHOLE, **_TOKENS, "pad_side": "right", "encoder_self": ("padding", "window:2"), "encoder_self_custom": "",
        "mask_at": "encoder_self", "mask_row": 6, "mask_layer": 0,
    },
    "left_padding": {
        **_WHOLE, **_TOKENS, "pad_side": "left", "decoder_self": ("padding", "causal"), "decoder_self_custom": "",
        "mask_at": "decoder_self", "mask_row": 0, "mask_layer": 0,
    },
    "true_ignores": {**_WHOLE, "fault": "mask_inverted", "mask_at": "decoder_self", "mask_layer": 0},
    "causal_shifted": {
        **_WHOLE, "fault": "causal_sees_next", "decoder_self": ("padding", "causal"), "mask_at": "decoder_self",
        "mask_row": 2, "mask_layer": 0,
    },
}  # fmt: skip
"""Four mistakes that everyone makes once, as the choices that lead there."""


# ----------------------------------------------------------------------------------------------------------- handlers


def answering(handler: Callable[[Asked], Change]) -> Callable[[Asked], Change]:
    """The handler with its refusal as an answer to the view, which shows it where the hand is. Never raises."""

    @functools.wraps(handler)
    def safe(asked: Asked) -> Change:
        try:
            return handler(asked)
        except Refusal as refusal:
            return Change(detail=_head(asked) | {"refused": refused(refusal)})
        except Exception:
            log.exception("%s failed", handler.__name__)
            return Change(detail=_head(asked) | {"refused": refused(Refusal("unexpected"))})

    return safe


@answering
def look(asked: Asked) -> Change:
    """Another attention, sentence, layer, head or row is looked at, or the tab was opened. Nothing is run again."""
    session, live = _held(asked)
    session = session.change(**_cleaned(_given(asked, "chosen"), LOOKED, asked.limits))
    return Change(session, live, detail=_head(asked) | {"shown": shown(session, live, asked.limits)})


@answering
def edit(asked: Asked) -> Change:
    """Rules, painted cells or the fill were changed, or a mask was read from a file: the run with them."""
    before, live = _held(asked)
    given = _cleaned(_given(asked, "changes"), EDITED, asked.limits)
    file = asked.data.get("file") if isinstance(asked.data, Mapping) else None
    if file is not None:
        given |= _uploaded(file, live)
    if not given:
        raise Refusal("not_changes")
    session = before.change(**given).change(**_cleaned(_given(asked, "chosen"), LOOKED, asked.limits))
    _composable(session.checked(asked.limits), live)
    return _run(asked, session, live)


@answering
def trap(asked: Asked) -> Change:
    """One of the known traps: all its choices at once."""
    before, live = _held(asked)
    name = asked.data.get("trap") if isinstance(asked.data, Mapping) else None
    if not isinstance(name, str) or name not in TRAPS:
        raise Refusal("no_trap", given=show(name))
    return _run(asked, before.cleaned(TRAPS[name], asked.limits), live, controls=True)


@answering
def measure(asked: Asked) -> Change:
    """What takes longer: the leak probe of one side, or the table of scales. The run stays as it is."""
    what = asked.data.get("what") if isinstance(asked.data, Mapping) else None
    if what == "scale":
        with changes.turn():
            return Change(detail=_head(asked) | {"scale": [row.to_row() for row in scale_table()]})
    if not isinstance(what, str) or what not in OUTPUTS:
        raise Refusal("no_measure", given=show(what))
    session, live = _held(asked)
    return Change(live=live, detail=_head(asked) | {"probe": probe(session, live, what, _given(asked, "chosen"))})


def caught_up(asked: Asked) -> Change:
    """The run as the tab holds it, for the views that were not told of a change here."""
    return Change(asked.session, asked.live)


# ------------------------------------------------------------------------------------------------------------- pieces


def shown(session: Session, live: Live, limits: Limits) -> dict[str, Any]:
    """Everything the tab shows of a run, but what is measured on demand.

    Raises:
        Refusal: the rules of the session cannot be computed.
    """
    try:
        told = payload(session, live)
    except ConfigError as error:
        raise refusal_of(error) from error
    return told | {
        "traps": [name for name, wanted in TRAPS.items() if _holds(session, wanted)],
        "probe": how_to_probe(live),
        "longest": limits.max_length,
        "linked": {name: painted.linked(getattr(session, f"{name}_custom")) for name in ATTENTIONS},
    }


def how_to_probe(live: Live) -> str:
    """How the probe is offered: "auto" where it takes a moment, "ask" for seconds, "one" token at a time, or "no"."""
    if live.shapes_only or live.error:
        return "no"
    tokens = sum(0 if ids is None else ids.shape[1] for ids in (live.batch.src, live.batch.tgt))
    operations = live.cost.flops * tokens
    return "auto" if operations < 10**8 else "ask" if operations < MOST_NUDGES else "one"


def probe(session: Session, live: Live, side: str, chosen: Mapping[str, Any]) -> dict[str, Any]:
    """How far each output moves when one token of ``side`` is nudged, beside what the masks allow.

    Raises:
        Refusal: there are no numbers, no such side, or the forward of a broken model stops.
    """
    way, config = how_to_probe(live), live.model.config
    ids = getattr(live.batch, side)
    if way == "no":
        raise Refusal("no_numbers")
    if ids is None or not (config.has_encoder if side == "src" else config.has_decoder):
        raise Refusal("no_side", given=side)
    place = chosen.get("mask_row")
    place = place if isinstance(place, int) and 0 <= place < ids.shape[1] else 0
    places = [place] if way == "one" else None
    sample = min(session.sample, len(ids) - 1)
    with changes.turn():
        try:
            moves, may = influence(running.with_numbers(live), live.batch, side, places=places)
        except Exception as error:  # a broken model may raise anything
            first = next(iter(str(error).splitlines()), type(error).__name__)
            raise Refusal("probe_stopped", reason=clip(first, 160)) from error
    moved, allowed = moves[sample], may[sample]
    return {
        "run": live.id, "side": side, "sample": sample, "places": places or list(range(ids.shape[1])),
        "output": "logits" if config.has_decoder else "memory",
        "moves": [[float(f"{cell:.4g}") for cell in row] for row in moved.tolist()],
        "may": [[int(cell) for cell in row] for row in allowed.tolist()],
        "leaks": int(((moved != 0) & ~allowed).sum()), "still": int(((moved == 0) & allowed).sum()),
        "hidden": int((~allowed).sum()),
    }  # fmt: skip


def read_csv(text: Any, rows: int, columns: int) -> painted.Matrix:
    """A mask from a file: 1 or true = may attend, 0 or false = hidden; a line and a column of tokens may stand around.

    >>> read_csv("1,0\\n1,1", 2, 2)
    ((True, False), (True, True))

    Raises:
        Refusal: too long, another shape, or something else than 0, 1, true and false.
    """
    if not isinstance(text, str) or not text.strip():
        raise Refusal("csv_empty")
    if len(text) > MAX_CSV:
        raise Refusal("csv_large", length=len(text), high=MAX_CSV)
    signs = "\t" if "\t" in text else ";" if ";" in text and "," not in text else ","
    try:
        read = csv.reader(io.StringIO(text.lstrip("\ufeff"), newline=None), delimiter=signs)  # lines end as they like
        lines = [line for line in read if any(line)]
    except csv.Error as error:
        raise Refusal("csv_broken") from error
    if len(lines) == rows + 1 and len(lines[-1]) == columns + 1:
        lines = [line[1:] for line in lines[1:]]
    widths = {len(line) for line in lines}
    if len(lines) != rows or widths != {columns}:
        wide = "/".join(str(width) for width in sorted(widths)[:3])
        raise Refusal("csv_shape", given=f"{len(lines)} × {wide}", rows=rows, columns=columns)
    for i, line in enumerate(lines, start=1):
        for j, cell in enumerate(line, start=1):
            if cell.strip().lower() not in (*OPEN, *CLOSED):
                raise Refusal("csv_cell", given=show(clip(cell)), row=i, column=j)
    return tuple(tuple(cell.strip().lower() in OPEN for cell in line) for line in lines)


def refused(refusal: Refusal) -> dict[str, Any]:
    """A refusal in both languages, with the rules that would do as buttons."""
    choices = [choice for choice in refusal.choices if set(choice) <= set(EDITED)][:4]
    near = refusal.values.get("nearest")
    return {
        "field": refusal.field,
        "nearest": near if isinstance(near, str) and near.startswith("where:") else None,
        "text": {lang: refusal.text(lang) for lang in LANGUAGES},
        "choices": [
            {"label": ", ".join(BY_NAME[name].format(value) for name, value in choice.items()), "changes": choice}
            for choice in choices
        ],
    }


def _run(asked: Asked, session: Session, live: Live, controls: bool = False) -> Change:
    change = changes.shown(Asked(asked.session, live, asked.trained, limits=asked.limits), session, controls=controls)
    actual, run = change.session or session, change.live or live
    detail = _head(asked) | {"shown": shown(actual, run, asked.limits)}
    return Change(actual, change.live, change.frame, controls, change.touched, detail=detail)


def _composable(session: Session, live: Live) -> None:
    """Asks the rules for their masks on the tokens of the run, so that what cannot be computed stops no forward.

    Raises:
        Refusal: a condition divides by 0, or a rule does not fit these lengths.
    """
    for name, (rows, _) in attention_sizes(live.batch).items():
        keys = getattr(live.batch, ENDS[name][1])
        try:
            for_attention(session.mask_config(), name, rows, keys, n_heads=live.model.config.n_heads)
        except ValueError as error:
            raise refusal_of(error, name) from error


def _held(asked: Asked) -> tuple[Session, Live]:
    """The session of the tab and its run, which is made anew when it has been freed."""
    session = asked.held()
    return session, asked.live or changes.run(session, None, asked.trained, asked.limits)


def _head(asked: Asked) -> dict[str, Any]:
    number = asked.data.get("number") if isinstance(asked.data, Mapping) else None
    return {"number": number if isinstance(number, int) else 0}


def _given(asked: Asked, name: str) -> Mapping[str, Any]:
    given = asked.data.get(name) if isinstance(asked.data, Mapping) else None
    return given if isinstance(given, Mapping) else {}


def _cleaned(given: Mapping[str, Any], known: tuple[str, ...], limits: Limits) -> dict[str, Any]:
    return {name: BY_NAME[name].clean(given[name], limits) for name in known if name in given}


def _uploaded(file: Any, live: Live) -> dict[str, str]:
    name = file.get("attention") if isinstance(file, Mapping) else None
    sizes = attention_sizes(live.batch)
    if not isinstance(name, str) or name not in sizes:
        raise Refusal("no_attention", given=show(name))
    return {f"{name}_custom": painted.word(read_csv(file.get("text"), *sizes[name]))}


def _holds(session: Session, wanted: Mapping[str, Any]) -> bool:
    """Whether a trap is what is on screen; where one looks does not matter."""
    return all(getattr(session, name) == value for name, value in wanted.items() if name not in LOOKED)
