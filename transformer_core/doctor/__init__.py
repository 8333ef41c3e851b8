"""The divergence doctor: why a run stopped at NaN or does not learn, measured on that run, and one change to try.

Every sentence rests on numbers that were taken from this model and these reports. What no number shows is not said:
then the diagnosis tells what was looked at and found in order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from transformer_core.config import TrainConfig
from transformer_core.doctor.texts import CAUSES, REMEDIES
from transformer_core.doctor.vitals import Vitals
from transformer_core.model import Transformer
from transformer_core.tasks.base import Task
from transformer_core.training import StepReport, rate, schedule_curve

__all__ = ["CAUSES", "KINDS", "REMEDIES", "Diagnosis", "Vitals", "diagnose"]

KINDS = (
    "not_finite", "blind_to_source", "blind_to_order", "slow_start", "rate_too_high", "vanishing_gradient",
    "saturated_attention", "dead_units", "stall",
)  # fmt: skip

WINDOW = 20
"""Over so many steps a loss is averaged: one batch alone is luck."""
PATIENCE = 50
"""Before so many steps only a run that stopped by itself is looked at."""
GENTLE = 0.01
"""A rate of 1 % of the usual size of a weight, close to what the recipes have, whatever the width."""
GROWN = 1.5
"""So many times as large as at the start no weights are that learn: with the recipes it is 1.1 at most."""


@dataclass(frozen=True)
class Diagnosis:
    """What is wrong. ``cause`` and ``remedy`` are keys of ``CAUSES`` and ``REMEDIES``, ``evidence`` what fills them.

    ``change`` is the one setting to try, by its name in the configuration; empty where none would help.
    """

    kind: str
    tensor: str
    """The first bad tensor, or the one that gives it away; may be empty."""
    cause: str
    remedy: str
    change: Mapping[str, Any] = field(default_factory=dict)
    evidence: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{CAUSES[self.cause].format(**self.evidence)} {REMEDIES[self.remedy].format(**self.evidence)}"


def diagnose(
    model: Transformer, task: Task, config: TrainConfig, reports: Sequence[StepReport],
    error: Exception | None = None, seed: int = 0,
) -> Diagnosis | None:  # fmt: skip
    """What is wrong with a run, or None. ``error`` is what stopped it, ``seed`` that of the run and its first weights.

    It costs about as much as three steps and the run does not feel it.
    """
    case = Case(model, task, config, reports, Vitals(model, task, seed))
    if error is not None:
        return case.not_finite(getattr(error, "tensor", ""))
    if len(reports) < PATIENCE or case.learned:
        return None
    looks = (case.too_slow, case.too_fast, case.cannot_see, case.starved, case.saturated, case.dead, case.stalled)
    return next((found for look in looks if (found := look()) is not None), None)


class Case:
    """One run on the doctor's table: its curve, and what can be measured on its model."""

    def __init__(
        self, model: Transformer, task: Task, config: TrainConfig, reports: Sequence[StepReport], vitals: Vitals
    ) -> None:
        self.model, self.task, self.config, self.vitals = model, task, config, vitals
        self.step = reports[-1].step if reports else 0
        self.losses = [report.loss for report in reports]
        self.blind = task.blind_loss(config.label_smoothing)
        self.gap = self.blind - task.floor(config.label_smoothing)
        """What there is to gain by reading the source."""
        curve = schedule_curve(config, model.config.d_model)
        self.peak = max(curve)
        self.rate = max((report.rate for report in reports), default=curve[0])

    # ---- the curve

    def loss_at(self, end: int) -> float:
        """The mean loss of the steps before ``end``, ``WINDOW`` of them at most."""
        window = self.losses[max(0, end - WINDOW) : end]
        return sum(window) / len(window)

    @property
    def loss(self) -> float:
        return self.loss_at(len(self.losses))

    @property
    def learned(self) -> bool:
        """Four fifths of the way from answering blindly to the smallest loss."""
        return self.loss < self.blind - 0.8 * self.gap

    @property
    def learning(self) -> bool:
        """A tenth of that way: the source is read."""
        return self.loss < self.blind - 0.1 * self.gap

    @property
    def stuck(self) -> bool:
        """After three fifths of the task's own recipe not half-way, and hardly further than at half the steps."""
        late = self.step >= 0.6 * self.task.training.total_steps and self.loss > self.blind - 0.5 * self.gap
        return late and self.loss > self.loss_at(len(self.losses) // 2) - 0.05 * self.gap

    # ---- what may be wrong

    def not_finite(self, tensor: str) -> Diagnosis:
        """A NaN or an infinity stopped the run."""
        vitals = self.vitals
        if tensor.endswith("/weights") and self.model.masks.fill == "-inf":
            for path, rows, of in vitals.blind_rows():
                if tensor == f"{path}/weights":
                    seen = {"rows": rows, "of": of, "attention": path}
                    return Diagnosis("not_finite", tensor, "no_visible_key", "fill_exclude", {"fill": "exclude"}, seen)
        if vitals.grown > GROWN:
            return self._lower("not_finite", tensor, "weights_grown", grown=vitals.grown)
        seen = {"grown": figures(vitals.grown), "step": self.step}
        if vitals.broken_weight:
            return Diagnosis("not_finite", vitals.broken_weight, "weight_broken", "start_again", {},
                             {**seen, "tensor": vitals.broken_weight})  # fmt: skip
        largest = max((float(entry.value.float().abs().max()) for entry in vitals.ledger
                       if entry.value.is_floating_point() and entry.value.isfinite().all()), default=0.0)  # fmt: skip
        return self._lower("not_finite", tensor, "overflow", grown=vitals.grown, largest=largest)

    def too_slow(self) -> Diagnosis | None:
        """The weights are still where they started."""
        vitals, gentle = self.vitals, GENTLE * self.vitals.weight_size
        if self.learning or vitals.moved > 0.01 or self.rate > gentle:
            return None
        seen = {"step": self.step, "moved": figures(100 * vitals.moved), "rate": figures(self.rate),
                "size": figures(vitals.weight_size)}  # fmt: skip
        top = rate(self.config, self.model.config.d_model, max(1, self.config.warmup))
        if self.step < self.config.warmup and top > 3 * self.rate:
            warmup = max(1, self.config.total_steps // 10)
            seen |= {"warmup": self.config.warmup, "new_warmup": warmup}
            return Diagnosis("slow_start", "", "warmup_long", "shorter_warmup", {"warmup": warmup}, seen)
        return Diagnosis("slow_start", "", "rate_low", "higher_rate", *self._rate_of(gentle, seen))

    def too_fast(self) -> Diagnosis | None:
        """The weights have grown, or what was learned is lost again."""
        best_step = min(range(min(WINDOW, len(self.losses)), len(self.losses) + 1), key=self.loss_at)
        best = self.loss_at(best_step)
        if best < self.blind - 0.3 * self.gap and self.loss > best + 0.5 * (self.blind - best):
            return self._lower("rate_too_high", "", "thrown_back", best=best, best_step=best_step, loss=self.loss)
        if self.loss > self.blind - 0.5 * self.gap and self.vitals.grown > GROWN:
            return self._lower("rate_too_high", "", "weights_grown", grown=self.vitals.grown)
        return None

    def cannot_see(self) -> Diagnosis | None:
        """Source, or order of the source, without any effect, now and at the start: the model is not built for it."""
        vitals, parts = self.vitals, self.task.needs_parts
        if "cross_attention" in parts and vitals.source_effect() < SAME and vitals.source_effect(fresh=True) < SAME:
            seen = {"effect": figures(vitals.source_effect())}
            return Diagnosis("blind_to_source", "", "source_unread", "read_source", {"cross": ("padding",)}, seen)
        if "order" in parts and vitals.order_effect() < SAME and vitals.order_effect(fresh=True) < SAME:
            seen = {"effect": figures(vitals.order_effect())}
            change = {"positions": "sinusoidal"}
            return Diagnosis("blind_to_order", "", "order_unread", "give_positions", change, seen)
        return None

    def starved(self) -> Diagnosis | None:
        """A part of the model that next to no gradient reaches."""
        if self.learning:
            return None
        part, least = self.vitals.least_gradient()
        if least > 1e-3:
            return None
        _, at_start = self.vitals.least_gradient(fresh=True)
        seen = {"part": part, "least": least, "at_start": at_start}
        if at_start > 10 * least:
            return self._lower("rate_too_high", "", "gradient_lost", **seen)
        if self.model.config.norm_order == "pre":
            return None
        told = {key: figures(value) for key, value in seen.items()}
        return Diagnosis("vanishing_gradient", "", "gradient_weak", "norm_first", {"norm_order": "pre"}, told)

    def saturated(self) -> Diagnosis | None:
        """An attention in which nearly every query looks at one key alone."""
        if self.learning and not self.stuck:
            return None
        tensor, sharp = self.vitals.sharpest()
        if sharp < 0.9:
            return None
        seen = {"tensor": tensor, "sharp": figures(100 * sharp)}
        at_start, if_scaled = self.vitals.sharp_at_start(tensor)
        if not self.model.config.scale_scores and if_scaled < at_start / 2:
            seen |= {"at_start": figures(100 * at_start), "if_scaled": figures(100 * if_scaled)}
            return Diagnosis("saturated_attention", tensor, "unscaled", "scale_scores", {"scale_scores": True}, seen)
        return self._lower("saturated_attention", tensor, "saturated", **seen)

    def dead(self) -> Diagnosis | None:
        """A layer in which most hidden units are always 0, or nearly all, even if the others learn without it."""
        tensor, share = self.vitals.deadest()
        if share < (0.9 if self.learning and not self.stuck else 0.5):
            return None
        seen = {"tensor": tensor, "dead": figures(100 * share)}
        if self.rate > 5 * GENTLE * self.vitals.weight_size:
            return self._lower("dead_units", tensor, "units_dead", **seen)
        return Diagnosis("dead_units", tensor, "units_dead", "gelu", {"activation": "gelu"}, seen)

    def stalled(self) -> Diagnosis | None:
        """The loss stays where it is, and nothing that was measured says why."""
        if not self.stuck:
            return None
        recipe = self.task.training
        seen = {"loss": figures(self.loss), "step": self.step, "blind": figures(self.blind),
                "moved": figures(100 * self.vitals.moved), "dead": figures(100 * self.vitals.deadest()[1]),
                "lr": recipe.lr, "schedule": recipe.schedule}  # fmt: skip
        if recipe.schedule == self.config.schedule and recipe.lr != self.config.lr:
            return Diagnosis("stall", "", "nothing_found", "recipe", {"lr": recipe.lr}, seen)
        return Diagnosis("stall", "", "nothing_found", "recipe_model", {}, seen)

    # ---- one change

    def _lower(self, kind: str, tensor: str, cause: str, /, **seen: Any) -> Diagnosis:
        """A rate as gentle as the recipes', or a fifth of this one if it is that already."""
        size = self.vitals.weight_size
        told = {"tensor": tensor, "rate": self.rate, "size": size, "share": 100 * self.rate / size, **seen}
        aim = GENTLE * size if self.rate > 1.5 * GENTLE * size else self.rate / 5
        return Diagnosis(kind, tensor, cause, "lower_rate", *self._rate_of(aim, told))

    def _rate_of(self, aim: float, seen: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """``lr`` so that the schedule's highest rate is ``aim``; and the evidence with it, in three figures."""
        lr = min(figures(self.config.lr * aim / self.peak, 2), TrainConfig.facts("lr")["high"])
        told = {**seen, "lr": lr, "new_rate": aim, "new_share": 100 * aim / self.vitals.weight_size}
        return {"lr": lr}, {key: figures(value) for key, value in told.items()}


SAME = 1e-5
"""Logits that differ by less, as a share of their spread, are the same but for rounding."""


def figures(value: Any, n: int = 3) -> Any:
    """A float as a sentence can quote it; anything else as it is.

    >>> figures(0.0012345), figures(7), figures(1234.6)
    (0.00123, 7, 1230.0)
    """
    return float(f"{value:.{n}g}") if isinstance(value, float) else value
