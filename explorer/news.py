"""What a run tells the page: where it stands, and what is new of its curve, its looks and its health. As plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from explorer import recipes, words
from explorer.facts import facts_of, plain
from explorer.fields import BY_NAME, TRAINING
from explorer.offers import choice_label

if TYPE_CHECKING:
    from explorer.runs import Run
    from transformer_core.doctor import Diagnosis

CURVES = ("loss", "accuracy", "rate", "grad_norm")


def status(run: Run) -> dict[str, Any]:
    """Where the run stands, without its curve."""
    speed = run.speed if run.running else None
    return {
        "run": run.id,
        "state": run.state,
        "step": run.step,
        "steps": run.plan.steps,
        "lr": plain(run.lr),
        "rate_changes": [[step, plain(lr)] for step, lr in run.rate_changes],
        "fault": run.fault,
        "doctor": None if run.diagnosis is None else told(run.diagnosis),
        "score": None if run.score is None else {key: plain(value) if isinstance(value, float) else value
                                                 for key, value in asdict(run.score).items()},
        "scored": not run.to_be_scored,
        "again": None if run.again is None else {"steps": run.again.steps, "differs": run.differs},
        "looked": len(run.looks),
        "speed": speed and plain(speed),
        "left": speed and plain((run.plan.steps - run.step) / speed),
    }  # fmt: skip


def news(run: Run, step: int = 0, looks: int = 0) -> dict[str, Any]:
    """The curve from ``step`` on and the looks from number ``looks`` on: a delta, or with zeros the whole of it."""
    plan = facts_of(run.plan) if step == looks == 0 else None
    told = {**status(run), "from": step, "looks_from": looks, "plan": plan}
    reports, seen = run.reports[step:], run.looks[looks:]
    for name in CURVES:
        told[name] = [plain(getattr(report, name)) for report in reports]
    told["layers"] = [[short(norm) for norm in report.layer_norms.values()] for report in reports]
    told["parts"] = list(reports[0].layer_norms) if reports else []
    told["skipped"] = any(report.note for report in reports)
    told["looks"] = [each.told() for each in seen]
    if seen:
        told |= {"scene": run.scene, "kept": run.kept()}
    return told


def nothing_new(run: Run | None) -> dict[str, Any]:
    """An empty delta: the browser has the curve already, or asks for it."""
    step, looks = (run.step, len(run.looks)) if run is not None else (0, 0)
    empty: dict[str, Any] = {name: [] for name in (*CURVES, "layers", "parts", "looks")}
    return {"from": step, "looks_from": looks, **empty, "plan": None}


def short(number: float) -> float | None:
    """Three figures: the shade of a cell shows no more."""
    number = plain(number)
    return None if number is None else float(f"{number:.3g}")


def told(found: Diagnosis) -> dict[str, Any]:
    """What the doctor found, in both languages, and the one change to try, of a control of Train or of Explore."""
    change = {name: value for name, value in recipes.on_page(found.change).items() if name in BY_NAME}
    return {
        "kind": found.kind,
        "tensor": found.tensor,
        "cause": said(found.cause, found.evidence),
        "remedy": said(found.remedy, found.evidence),
        "change": change or None,
        "of_explore": bool(change) and not set(change) <= set(TRAINING),
        "label": {lang: choice_label(change, lang) for lang in words.LANGUAGES},
    }


def said(key: str, evidence: Mapping[str, Any]) -> dict[str, str]:
    """A sentence of the doctor with what was measured in it."""
    shown = {name: f"{value:g}" if isinstance(value, float) else value for name, value in evidence.items()}
    return {lang: words.text(lang, f"doctor.{key}", **shown) for lang in words.LANGUAGES}
