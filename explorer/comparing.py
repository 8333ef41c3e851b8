"""What Compare shows: our model beside torch.nn, tensor by tensor, the sweep and the speed. Knows no gradio.

The comparison is one answer. Sweep and speed are jobs: whoever holds a ``Job`` calls ``work`` for a bounded slice, and
between slices nothing is done, as with the runs of Train.
"""

from __future__ import annotations

import logging
import math
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any

import torch
from torch import nn

from explorer import live as running
from explorer.changes import FORWARDS, PATIENCE, Asked, Change, choice_label
from explorer.fields import BY_NAME, FIELDS, NO_FAULT, refusal_of
from explorer.limits import Limits
from explorer.live import Live, Trained
from explorer.mathml import block
from explorer.refusals import Refusal
from explorer.session import Session
from explorer.words import LANGUAGES, text
from transformer_core import parity
from transformer_core.batches import Batch
from transformer_core.parity import Comparison, Difference, Reading, SweepPoint

log = logging.getLogger(__name__)

CONTROLS = ("cmp_weights", "cmp_mode", "cmp_dtype", "cmp_norm", "cmp_limit", "cmp_lengths", "cmp_numbers", "cmp_fast")
CHOICES = tuple(field.name for field in FIELDS if field.group == "compare")
LENGTHS = {"some": (1, 2, 3, 5, 8, 13, 21, 32), "all": tuple(range(1, 33))}
PADDINGS = ("none", "right", "left", "holes")
MODES = ("train", "eval", "no_grad")
NORM_ORDERS = ("post", "pre")
DTYPES = ("float32", "float64")
SPEED_LENGTHS = (8, 32, 128, 512)
SPEED_DTYPES = ("float32", "float64", "bfloat16", "float16")
TORCH = threading.Lock()
"""torch's fast path is one switch for the whole process: whoever compares or sweeps holds this for a piece of work."""


# ----------------------------------------------------------------------------------------------------- the comparison


def remember(asked: Asked) -> Change:
    """A control of Compare was moved or its view switched: the address follows, and then the view asks for numbers."""
    given = asked.data if isinstance(asked.data, Mapping) else dict(zip(CONTROLS, asked.values, strict=False))
    try:
        cleaned = {name: BY_NAME[name].clean(value, asked.limits) for name, value in given.items() if name in CHOICES}
    except Refusal:
        return Change()
    return Change(asked.held().change(**cleaned)) if cleaned else Change()


def chosen(session: Session) -> dict[str, str]:
    """What the view itself switches, and what it needs to know of the controls."""
    return {name: getattr(session, name) for name in CHOICES}


def shown(desk: Desk, asked: Asked) -> dict[str, Any]:
    """The comparison on the desk where it is still the one asked for, else a new one, which then lies there."""
    session = asked.held()
    of = identity(session, asked.live, asked.trained)
    if desk.shown is None or desk.of != of:
        desk.shown, desk.of = comparison(session, asked.live, asked.trained, asked.limits, desk.kept), of
    return desk.shown


def comparison(
    session: Session, live: Live | None, trained: Trained | None, limits: Limits, kept: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Our model and torch's with the same weights and tokens, for compare.js; or why there is nothing to draw.

    ``kept`` holds what was found before and does not depend on all of the choices.
    """
    if not FORWARDS.acquire(timeout=PATIENCE):
        return refused(Refusal("busy"))
    try:
        return _comparison(session, live, trained, limits, {} if kept is None else kept)
    except parity.NoCounterpart as error:
        return refused(without_counterpart(error, session))
    except ValueError as error:
        return refused(refusal_of(error))
    except Exception:
        log.exception("the comparison failed")
        return refused(Refusal("unexpected"))
    finally:
        FORWARDS.release()


def without_counterpart(error: parity.NoCounterpart, session: Session) -> Refusal:
    """The core's reason why torch.nn cannot compute this function; in Chinese where it is one of the usual ones."""
    config = session.model_config()
    known = {"norm": config.norm != "layer", "scale": not config.scale_scores}
    name = next((name for name, holds in known.items() if holds), "other")
    english = text("en", "errors.compare_counterpart", reason=str(error))
    chinese = text("zh", f"compare.counterpart_{name}", norm=config.norm)
    return Refusal("compare_counterpart", "", (), english, reason=chinese)


def identity(session: Session, live: Live | None, trained: Trained | None) -> str:
    """What a comparison depends on: two of one identity show the same numbers."""
    chosen = [getattr(session, name) for name in ("cmp_weights", "cmp_mode", "cmp_dtype", "cmp_norm", "cmp_limit")]
    return "|".join([live.id if live is not None else "none", str(id(trained)), *chosen])


def refused(refusal: Refusal) -> dict[str, Any]:
    """Why there is no comparison, in both languages, with the changes that lead out as buttons."""
    choices = [choice for choice in refusal.choices if set(choice) <= set(BY_NAME)]
    return {
        "state": "refused",
        "text": {lang: refusal.text(lang) for lang in LANGUAGES},
        "choices": [
            {"changes": choice, "label": {lang: label_of(choice, lang) for lang in LANGUAGES}} for choice in choices[:4]
        ],
    }


def label_of(choice: Mapping[str, Any], lang: str) -> str:
    """What a button for these changes says.

    >>> label_of({"cmp_weights": "fresh"}, "en"), label_of({"d_model": 64}, "en")
    ('weights: fresh', 'd_model 64')
    """
    own = [f"{text(lang, f'compare.{name}')}: {text(lang, f'compare.{name}_{value}')}"
           for name, value in choice.items() if name in CHOICES]  # fmt: skip
    return ", ".join(own) or choice_label(choice, lang)


def _comparison(
    session: Session, live: Live | None, trained: Trained | None, limits: Limits, kept: dict[str, Any]
) -> dict[str, Any]:
    subject = _subject(session, live, trained, limits)
    limit = None if session.cmp_limit == "usual" else float(session.cmp_limit)
    asked = {"dtype": getattr(torch, session.cmp_dtype), "training": session.cmp_mode == "train", "limit": limit}
    found = _compare(subject, final_norm=session.cmp_norm, **asked)
    # The same with as many final norms on both sides: what remains there is rounding, and the rest is the norms' doing.
    added = "added_norm" in found.notes
    matched = _compare(subject, final_norm="same", **asked) if added else found
    model = f"{subject.id}|{session.cmp_weights}|{id(trained)}"
    reading = _once(kept, "reading", model, lambda: _readings(subject))
    settings = f"{model}|{session.cmp_dtype}|{limit}"
    measured = {name: asked[name] for name in ("dtype", "limit")}
    evidence = _once(kept, "evidence", settings, lambda: _evidence(session, subject, trained, limits, measured))
    ways = {way: _rows(getattr(found, way), getattr(matched, way), subject) for way in ("forward", "backward")}
    first = {way: next((n for n, row in enumerate(rows) if not row["passed"]), None) for way, rows in ways.items()}
    config = subject.model.config
    return {
        "state": "compared",
        "id": uuid.uuid4().hex[:12],
        "ways": ways,
        "first": first,
        "cause": {way: cause(session, rows, first[way], added) for way, rows in ways.items()},
        "failure": found.failure,
        "notes": [note for note in found.notes if note != "added_norm"],
        "blind": [list(each) for each in found.blind],
        "limit": found.settings["limit"],
        "evidence": evidence,
        "reading": reading,
        "formulas": {name: "".join(block(latex)) for name, latex in FORMULAS.items()},
        "facts": {
            **found.settings,
            "parameters": sum(parameter.numel() for parameter in subject.model.parameters()),
            "norm_order": config.norm_order,
            "seed": session.seed,
            "fault": session.fault,
            "step": subject.trained.step if subject.trained is not None else None,
        },
    }


def _readings(subject: Live) -> list[dict[str, Any]]:
    with TORCH:
        return [reading_row(reading) for reading in parity.reading_table(subject.model, subject.batch)]


def reading_row(reading: Reading) -> dict[str, Any]:
    """A row of the reading table: its numbers, and its texts in both languages."""
    texts = {
        lang: {part: text(lang, f"reading.{reading.name}.{part}", **reading.facts) for part in READING}
        for lang in LANGUAGES
    }
    measured = {"measured": number(reading.measured), "heeded": number(reading.heeded), "verdict": reading.verdict}
    return {"name": reading.name, **measured, **texts}


READING = ("title", "ours", "theirs", "look_at")
FORMULAS = {"torch": r"m = \mathrm{LayerNorm}(x_N)", "ours": r"m = x_N"}
"""What follows the last layer of a stack: torch's final norm, and nothing, as in the paper."""


def _subject(session: Session, live: Live | None, trained: Trained | None, limits: Limits) -> Live:
    """The run whose model is compared: Explore's, or the same with other weights.

    Raises:
        Refusal: it has no numbers, or there are no trained weights that fit.
    """
    wanted = session.cmp_weights
    # What a tab held is freed after half an hour; its session is enough to run it anew.
    subject = live if live is not None else running.run(session, None, trained, limits)
    if wanted != "explore" and wanted != ("fresh" if subject.trained is None else "trained"):
        subject = running.run(subject.session.change(weights=wanted), None, trained, limits)
        if wanted == "trained" and subject.trained is None:
            raise Refusal("compare_untrained", "cmp_weights", ({"cmp_weights": "fresh"},))
    if subject.shapes_only or any(parameter.is_meta for parameter in subject.model.parameters()):
        raise Refusal("compare_large", parameters=f"{subject.cost.parameters:,}", options=options_of(session))
    return subject


def options_of(session: Session) -> str:
    """The preset and the changed model as the command line takes them.

    >>> options_of(Session.of_preset("first_look").change(d_model=512))
    '--preset first_look --set d_model=512'
    """
    query = session.to_query()
    changed = [f"--set {name}={query[name]}" for name in query if BY_NAME[name].group == "model"]
    return " ".join([f"--preset {session.preset}", *changed])


def _compare(subject: Live, **asked: Any) -> Comparison:
    batch: Batch = subject.batch
    model: nn.Module = subject.model
    with TORCH:
        return parity.compare(model, batch, **asked)


def _rows(found: list[Difference], matched: list[Difference], subject: Live) -> list[dict[str, Any]]:
    """One row a tensor, in the order of computation; ``matched`` is its error with as many norms on both sides."""
    entries = subject.entries()
    other = {difference.key: difference.max_abs for difference in matched}
    rows = []
    for difference in found:
        entry = entries.get(difference.key)
        rows.append({
            "key": difference.key,
            "index": entry.index if entry is not None else None,
            "shape": list(difference.shape),
            "error": number(difference.max_abs),
            "rel": number(difference.max_rel),
            "matched": number(other.get(difference.key)),
            "padded": number(difference.padded),
            "passed": difference.passed,
        })  # fmt: skip
    return rows


def cause(session: Session, rows: list[dict[str, Any]], first: int | None, added: bool) -> str:
    """Why the first divergence is one, as the name of a sentence; ``added`` norms can also hide below the limit."""
    if first is None:
        return "hidden_norm" if added else "none"
    if session.fault != NO_FAULT:
        return "fault"
    row = rows[first]
    if added and row["error"] != row["matched"]:
        return "final_norm"
    usual = parity.LIMITS[getattr(torch, session.cmp_dtype)]
    return "rounding" if session.cmp_limit != "usual" and size(row["error"]) <= usual else "unknown"


def _once(kept: dict[str, Any], name: str, of: str, make: Callable[[], Any]) -> Any:
    """What ``make`` finds; the last time's where it was made of the same."""
    if kept.get(name, ("", None))[0] != of:
        kept[name] = of, make()
    return kept[name][1]


def _evidence(
    session: Session, subject: Live, trained: Trained | None, limits: Limits, asked: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """What torch's own final norms change, with fresh weights and with trained ones where some fit.

    Nothing where our stacks end with norms of their own: then torch adds none.
    """
    found: list[dict[str, Any]] = []
    if subject.model.config.has_final_norm:
        return found
    for weights in ("fresh", "trained"):
        try:
            one = _subject(session.change(cmp_weights=weights), subject, trained, limits)
        except Refusal:
            continue
        both = [_compare(one, final_norm=norm, backward=False, **asked) for norm in ("same", "torch")]
        found.append({
            "weights": weights,
            "step": one.trained.step if one.trained is not None else None,
            "matched": number(both[0].worst),
            "error": number(both[1].worst),
            "verdict": "wrong_reason" if both[1].first is None else "differs",
        })  # fmt: skip
    return found


def number(value: float | None) -> float | str | None:
    """A number for JSON, in five figures; what is not finite by its name.

    >>> number(1.2345678e-7), number(float("nan")), number(float("inf")), number(None)
    (1.2346e-07, 'nan', 'inf', None)
    """
    if value is None or math.isfinite(value):
        return None if value is None else float(f"{value:.5g}")
    return "nan" if math.isnan(value) else "inf"


def size(value: float | str | None) -> float:
    """A number of ``number`` for comparisons: what is not finite is larger than everything."""
    return math.inf if isinstance(value, str) else value or 0.0


# ------------------------------------------------------------------------------------------------------ sweep and speed


class Job:
    """Rows that are found one after another, a slice at a time. Its lock is held for one row, never across a pause."""

    def __init__(self, kind: str, rows: Iterator[Any], total: int, plan: Mapping[str, Any]) -> None:
        self.kind, self.total, self.plan = kind, total, dict(plan)
        self.id = uuid.uuid4().hex[:12]
        self.rows: list[Any] = []
        self.ended = ""  # "finished", "stopped" or "failed"
        self.fault = ""
        self.seconds = 0.0
        self._source: Iterator[Any] | None = rows
        self._lock = threading.Lock()

    @property
    def running(self) -> bool:
        return not self.ended

    def stop(self) -> None:
        """No row after the one under way. The rows that were found stay."""
        self.ended = self.ended or "stopped"

    def work(self, seconds: float, every: float) -> Iterator[None]:
        """One slice: rows until the time is over or someone stops; yields now and then."""
        started = last = time.monotonic()
        while self.running:
            self._advance()
            now = time.monotonic()
            if now - started >= seconds:
                return
            if now - last >= every:
                last = now
                yield

    def _advance(self) -> None:
        with self._lock:
            if self._source is None or not self.running:
                return
            begun = time.monotonic()
            try:
                with TORCH:
                    self.rows.append(next(self._source))
            except StopIteration:
                self.ended = self.ended or "finished"
                self.total, self._source = len(self.rows), None
            except Exception as error:  # what is there stays, with a sentence
                log.exception("the %s failed after %d rows", self.kind, len(self.rows))
                self.ended, self.fault, self._source = self.ended or "failed", str(error)[:300], None
            self.seconds += time.monotonic() - begun


def news(job: Job, start: int = 0) -> dict[str, Any]:
    """The rows of a job from number ``start`` on, and where it stands."""
    return {
        "id": job.id,
        "kind": job.kind,
        "state": job.ended or "running",
        "from": start,
        "rows": job.rows[start:],
        "done": len(job.rows),
        "total": job.total,
        "seconds": round(job.seconds, 1),
        "fault": job.fault,
        "plan": job.plan,
    }


def sweep(session: Session) -> Job:
    """The sweep that this session asks for; what the view shows now comes first."""
    lengths = LENGTHS[session.cmp_lengths]
    dtypes = sorted(DTYPES, key=lambda dtype: dtype != session.cmp_numbers)
    paths = sorted((True, False), key=lambda fast: fast != (session.cmp_fast == "on"))

    def rows() -> Iterator[list[Any]]:
        for dtype, fast in product(dtypes, paths):
            points = parity.sweep(
                lengths=lengths, paddings=PADDINGS, modes=MODES, fast_paths=(fast,), norm_orders=NORM_ORDERS,
                dtypes=(dtype,), seed=session.seed,
            )  # fmt: skip
            for point in points:
                yield point_row(point)

    plan = {"lengths": lengths, "paddings": PADDINGS, "modes": MODES, "norm_orders": NORM_ORDERS, "seed": session.seed}
    total = len(lengths) * len(PADDINGS) * len(MODES) * len(NORM_ORDERS) * len(dtypes) * len(paths)
    return Job("sweep", rows(), total, plan)


def point_row(point: SweepPoint) -> list[Any]:
    """A point of the sweep: where it lies, what was measured, and whether that is equal, torch's own way, or wrong."""
    verdict = {"equal": "equal", "differs": "wrong"}.get(point.what, "other")
    return [
        DTYPES.index(point.dtype), int(point.fast_path), NORM_ORDERS.index(point.norm_order), MODES.index(point.mode),
        PADDINGS.index(point.padding), point.length, number(point.error), number(point.padded_error), verdict,
        point.what, number(point.limit),
    ]  # fmt: skip


def speed() -> Job:
    """Hand-written attention beside torch's own, by dtype and length, on every device of this host."""
    devices = parity.present_devices()

    def rows() -> Iterator[dict[str, Any]]:
        for row in parity.attention_speed(SPEED_DTYPES, SPEED_LENGTHS, devices):
            yield {name: number(value) if isinstance(value, float) else value for name, value in vars(row).items()}

    return Job("speed", rows(), len(devices) * len(SPEED_DTYPES) * len(SPEED_LENGTHS), {"devices": devices})


class Desk:
    """What one tab holds: the comparison on screen, and at most one job of each kind."""

    def __init__(self) -> None:
        self.shown: dict[str, Any] | None = None
        self.of = ""
        self.kept: dict[str, Any] = {}
        self.jobs: dict[str, Job] = {}

    def begin(self, job: Job) -> Job:
        """This job, in the place of the one before it."""
        if job.kind in self.jobs:
            self.jobs[job.kind].stop()
        self.jobs[job.kind] = job
        return job

    def at_work(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.running]

    def clear(self) -> None:
        """Nobody will come back: nothing more is computed."""
        for job in self.jobs.values():
            job.stop()
