"""What a training run depends on, checked before anything is built: task, model, recipe, seed. Knows no gradio."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch

from explorer.fields import NO_FAULT, refusal_of
from explorer.limits import Limits
from explorer.refusals import Refusal
from explorer.session import Session
from transformer_core import build, tasks
from transformer_core.config import MaskConfig, ModelConfig, TrainConfig
from transformer_core.cost import estimate
from transformer_core.training import smoothing_floor

BACKWARD = 3  # forward and backward together cost three forwards
LOOKS = 15  # pauses in which the model answers held-out questions
QUESTIONS = 100  # in each of them


@dataclass(frozen=True)
class Plan:
    """All that a run depends on: two runs of one plan on one machine give the same curve, number for number."""

    task: str
    recipe: str
    model: ModelConfig
    masks: MaskConfig
    training: TrainConfig
    seed: int
    device: str
    parameters: int
    instead_of: str = ""  # the architecture chosen on Explore, where the task has another
    fault: str = NO_FAULT

    @property
    def steps(self) -> int:
        return self.training.total_steps

    @property
    def every(self) -> int:
        """Steps from one look at held-out sentences to the next."""
        return round_interval(self.steps)

    def facts(self) -> dict[str, Any]:
        """What the page prints of this plan, as plain numbers and words."""
        task, smoothing = tasks.get(self.task), self.training.label_smoothing
        layers = {
            "encoder_decoder": f"{self.model.n_encoder_layers}+{self.model.n_decoder_layers}",
            "encoder": str(self.model.n_encoder_layers),
            "decoder": str(self.model.n_decoder_layers),
        }
        return {
            "task": self.task, "recipe": self.recipe, "steps": self.steps, "every": self.every, "seed": self.seed,
            "answers": task.n_answers,
            "chance_loss": plain(task.chance_loss), "chance_accuracy": plain(task.chance_accuracy),
            "blind_loss": plain(task.blind_loss(smoothing)), "blind_accuracy": plain(task.blind_accuracy),
            "floor": plain(smoothing_floor(smoothing, task.n_answers)), "smoothing": smoothing,
            "learns_in": task.training.total_steps, "held_out": QUESTIONS, "kind": kind(self.model),
            "batch": self.training.batch_size, "lr": plain(self.training.lr), "schedule": self.training.schedule,
            "warmup": self.training.warmup, "optimizer": self.training.optimizer,
            "clip": plain(self.training.clip_norm or 0.0),
            "dropout": plain(self.model.dropout), "device": self.device, "dtype": "float32", "torch": torch.__version__,
            "parameters": self.parameters, "d_model": self.model.d_model, "n_heads": self.model.n_heads,
            "layers": layers[self.model.architecture], "architecture": self.model.architecture,
            "instead_of": self.instead_of, "fault": self.fault, "d_ff": self.model.d_ff, "norm": self.model.norm_order,
            "positions": self.model.positions,
            "lesson": {"en": task.lesson, "zh": task.lesson_zh}, "needs": {"en": task.needs, "zh": task.needs_zh},
        }  # fmt: skip


def round_interval(steps: int) -> int:
    """1, 2, 5, 10, 20, 50, ...: the first that leaves at most LOOKS intervals.

    >>> [round_interval(steps) for steps in (1, 80, 300, 600, 5000)]
    [1, 10, 20, 50, 500]
    """
    for magnitude in range(7):
        for digit in (1, 2, 5):
            if digit * 10**magnitude * LOOKS >= steps:
                return digit * 10**magnitude
    return steps


def kind(model: ModelConfig) -> str:
    """What the model answers with: "class", or "sequence"."""
    return "sequence" if model.has_decoder else "class"


def plan(session: Session, limits: Limits) -> Plan:
    """The run this session asks for. Nothing is built but shapes.

    Raises:
        Refusal: a choice that cannot be trained, or a run too large for this host, with the nearest that fits.
    """
    task, instead_of = tasks.get(session.task), ""
    try:
        if session.recipe == "mine":
            wanted, masks = session.model_config(), session.mask_config(painted_too=False)
            model = task.fit(wanted)
            instead_of = wanted.architecture if wanted.architecture != model.architecture else ""
        else:
            model, masks = task.model, task.masks
        training = replace(
            task.training,
            task=session.task,
            steps=session.steps,
            epochs=None,
            batch_size=session.train_batch,
            lr=session.lr,
        )
        example = task.sample(1, torch.Generator().manual_seed(0))
        source, target = length(example.src), length(example.tgt)
        cost = estimate(model, training.batch_size, source, target)
        refuse_costly(training, cost.parameters, cost.flops, cost.activation_bytes, limits)
        with torch.no_grad():  # masks that do not fit these lengths are found here, where they cost nothing
            build(model, masks, device="meta")(meta(example.src), meta(example.tgt))
    except ValueError as error:
        raise refusal_of(error) from error
    device = session.device if available(session.device) else "cpu"
    seed, parameters = session.train_seed, cost.parameters
    return Plan(
        session.task, session.recipe, model, masks, training, seed, device, parameters, instead_of, session.fault
    )


def available(device: str) -> bool:
    """Whether this host can train there; the page prints the device that a run really has."""
    return {"cuda": torch.cuda.is_available, "mps": torch.backends.mps.is_available}.get(device, lambda: True)()


def refuse_costly(training: TrainConfig, parameters: int, flops: int, activation_bytes: int, limits: Limits) -> None:
    """Each number alone may be allowed and all together still be too much.

    Raises:
        Refusal: the bytes or the operations of the whole run are above what one tab may have here.
    """
    needed = 16 * parameters + 2 * activation_bytes
    if parameters > limits.max_parameters or needed > limits.max_training_bytes:
        fewer = training.batch_size * limits.max_training_bytes // max(needed, 1)
        choices = (
            [{"train_batch": fewer}] if parameters <= limits.max_parameters and fewer >= 1 else [{"recipe": "task"}]
        )
        raise Refusal(
            "training_too_large",
            "train_batch",
            choices,
            got=f"{needed / 1024**2:,.0f}",
            high=f"{limits.max_training_bytes / 1024**2:,.0f}",
            parameters=f"{parameters:,}",
        )
    step = BACKWARD * flops
    if step > limits.max_flops:  # a step cannot be interrupted: Pause and everyone else would wait for it
        fewer = training.batch_size * limits.max_flops // step
        raise Refusal(
            "training_step_too_long",
            "train_batch",
            [{"train_batch": fewer} if fewer else {"recipe": "task"}],
            got=f"{step / 1e9:,.1f}",
            high=f"{limits.max_flops / 1e9:,.0f}",
        )
    total = step * training.total_steps
    if total > limits.max_training_flops:
        most = limits.max_training_flops // step
        raise Refusal(
            "training_too_long",
            "steps",
            [{"steps": most}],
            got=f"{total / 1e12:,.1f}",
            high=f"{limits.max_training_flops / 1e12:,.0f}",
            steps=f"{most:,}",
        )


def length(tokens: torch.Tensor | None) -> int:
    return 1 if tokens is None else tokens.shape[1]


def meta(tokens: torch.Tensor | None) -> torch.Tensor | None:
    return None if tokens is None else tokens.to("meta")


def plain(number: float) -> float | None:
    """Five figures of a finite number, None of any other: JSON has no NaN.

    >>> plain(0.123456789), plain(float("nan"))
    (0.12346, None)
    """
    return float(f"{number:.5g}") if math.isfinite(number) else None
