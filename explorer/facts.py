"""What the page prints of a run before its first step: its numbers, its schedule as a curve, and what is expected."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from explorer import recipes
from explorer.plans import Plan
from transformer_core.config import ModelConfig
from transformer_core.tasks.expected import expected
from transformer_core.training import schedule_curve

if TYPE_CHECKING:
    from transformer_core.tasks import Task

QUESTIONS = 100
"""New questions at each look."""
OTHERS = 50
"""Of each other held-out set: longer ones, and those with fresh symbols."""
POINTS = 120
"""Of a schedule; the page draws straight lines between them."""
SERIES = ("loss", "held_out_loss", "token", "exact")
FREE_OF_LENGTH = ("constant", "warmup")
"""Schedules in which the rate of a step does not depend on how many steps there are in all."""


def facts_of(plan: Plan) -> dict[str, Any]:
    """All of it as JSON: numbers, words, and lists of them."""
    task, smoothing = plan.task_of(), plan.training.label_smoothing
    layers = {
        "encoder_decoder": f"{plan.model.n_encoder_layers}+{plan.model.n_decoder_layers}",
        "encoder": str(plan.model.n_encoder_layers),
        "decoder": str(plan.model.n_decoder_layers),
    }
    return {
        "task": plan.task, "recipe": plan.recipe, "steps": plan.steps, "every": plan.every, "seed": plan.seed,
        "answers": task.n_answers,
        "chance_loss": plain(task.chance_loss), "chance_accuracy": plain(task.chance_accuracy),
        **blind(task, smoothing),
        "floor": plain(task.floor(smoothing)), "smoothing": smoothing,
        "learns_in": task.training.total_steps, "held_out": QUESTIONS, "others": OTHERS, "kind": kind(plan.model),
        "batch": plan.training.batch_size, "lr": plain(plan.training.lr), "schedule": plan.training.schedule,
        "warmup": plan.training.warmup, "optimizer": plan.training.optimizer,
        "weight_decay": plan.training.weight_decay, "clip": plain(plan.training.clip_norm or 0.0),
        "dropout": plain(plan.model.dropout), "device": plan.device, "dtype": "float32", "torch": torch.__version__,
        "parameters": plan.parameters, "d_model": plan.model.d_model, "n_heads": plan.model.n_heads,
        "layers": layers[plan.model.architecture], "architecture": plan.model.architecture,
        "instead_of": plan.instead_of, "fault": plan.fault, "d_ff": plan.model.d_ff, "norm": plan.model.norm_order,
        "positions": plan.model.positions,
        "lesson": both(task, "lesson"), "needs": both(task, "needs"), "not_proved": both(task, "not_proved"),
        "sets": [{"name": name, "title": both(held, "title")} for name, held in task.held_out.items()],
        "curve": curve(plan), "band": band(plan, task), "named": plan.named, "recipes": recipes.recipes(plan.task),
        "corpus": plan.corpus.name if plan.corpus is not None else "",
    }  # fmt: skip


def blind(task: Task, smoothing: float) -> dict[str, float | None]:
    """The best without reading the source. Counted in 20,000 sentences it takes half a second, so the last is kept."""
    kept = vars(task).get("blind")  # as a cached_property keeps its value
    if kept is None or kept[0] != smoothing:
        told = {"blind_loss": plain(task.blind_loss(smoothing)), "blind_accuracy": plain(task.blind_accuracy)}
        kept = vars(task)["blind"] = (smoothing, told)
    return kept[1]


def both(holder: Any, name: str) -> dict[str, str]:
    """A text in both languages."""
    return {"en": getattr(holder, name), "zh": getattr(holder, f"{name}_zh")}


def kind(model: ModelConfig) -> str:
    """What the model answers with: "class", or "sequence"."""
    return "sequence" if model.has_decoder else "class"


def curve(plan: Plan) -> list[list[float | None]]:
    """The rates that the schedule will give, as [step, rate]; the largest is among them."""
    rates = schedule_curve(plan.training, plan.model.d_model)
    last = len(rates) - 1
    shown = {round(last * i / (POINTS - 1)) for i in range(POINTS)} | {max(range(len(rates)), key=rates.__getitem__)}
    return [[i + 1, plain(rates[i])] for i in sorted(shown)]


def band(plan: Plan, task: Task) -> dict[str, Any] | None:
    """Lowest, mean and highest of five seeds at each look, where this run has the task's own recipe; else None.

    A run of fewer steps is compared where the rate of a step does not depend on the number of all.
    """
    measured = expected(plan.task) if plan.corpus is None and plan.fault == "none" else None
    if measured is None or (plan.model, plan.masks) != (task.model, task.masks):
        return None
    own = replace(task.training, task=plan.task, epochs=None, steps=task.training.total_steps)
    same_length = plan.training.schedule in FREE_OF_LENGTH
    if plan.training != (replace(own, steps=plan.steps) if same_length else own):
        return None
    told: dict[str, Any] = {"steps": list(measured.steps), "seeds": list(measured.seeds)}
    for name in SERIES:
        series = getattr(measured, name)
        told[name] = [[plain(value) for value in getattr(series, each)] for each in ("low", "mean", "high")]
    return told


def plain(number: float) -> float | None:
    """Five figures of a finite number, None of any other: JSON has no NaN.

    >>> plain(0.123456789), plain(float("nan"))
    (0.12346, None)
    """
    return float(f"{number:.5g}") if math.isfinite(number) else None
