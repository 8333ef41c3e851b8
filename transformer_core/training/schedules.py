"""The rate of each update (section 5.3): four schedules, from the paper's warm-up to a single cycle.

Updates are counted from 1, and each rate is above 0: no update is spent on nothing. ``lr`` is a factor on the whole
curve, so that a change of it while a run is on moves the rest of the curve up or down and keeps its shape.
"""

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from transformer_core.config import TrainConfig

LOWEST, FIRST = 1e-4 / 25, 1 / 25
"""one_cycle: the last rate and the first, as shares of the highest."""
RISE = 0.3
"""one_cycle: the share of all steps in which the rate rises, unless ``warmup`` says how many."""

RECIPES: Mapping[str, Mapping[str, Any]] = MappingProxyType({
    "paper": {"optimizer": "adam", "schedule": "warmup", "lr": 0.2, "warmup": 60, "weight_decay": 0.0,
              "label_smoothing": 0.1, "clip_norm": None},
    "adamw_constant": {"optimizer": "adamw", "schedule": "constant", "lr": 1e-3, "warmup": 0, "weight_decay": 0.01,
                       "clip_norm": 1.0},
    "cosine": {"optimizer": "adamw", "schedule": "cosine", "lr": 3e-3, "warmup": 60, "weight_decay": 0.01,
               "clip_norm": 1.0},
    "one_cycle": {"optimizer": "adamw", "schedule": "one_cycle", "lr": 3e-3, "warmup": 0, "weight_decay": 0.01,
                  "clip_norm": 1.0},
})  # fmt: skip
"""Ways to train, each as what it changes of a ``TrainConfig``: ``config.replace(**RECIPES["paper"])``.

"paper" has the optimizer, schedule and label smoothing of section 5. Differs from the paper: 60 steps of warm-up and a
fifth of the rate, for runs of some hundred steps instead of a hundred thousand.
"""


def warmup_rate(step: int, d_model: int, warmup: int) -> float:
    """rate = d_model^-0.5 · min(step^-0.5, step · warmup^-1.5) (section 5.3, equation 3).

    It rises in a straight line for ``warmup`` updates, then falls as 1 / √step. The first update is number 1.

    >>> [f"{warmup_rate(step, d_model=512, warmup=4000):.6e}" for step in (1, 2, 4000, 16000)]
    ['1.746928e-07', '3.493856e-07', '6.987712e-04', '3.493856e-04']

    Raises:
        ValueError: ``step``, ``d_model`` or ``warmup`` is below 1.
    """
    _check_counts(step=step, d_model=d_model, warmup=warmup)
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def cosine_share(step: int, steps: int, warmup: int = 0) -> float:
    """step / warmup up to there, then (1 + cos π t) / 2, t = (step - peak) / (steps + 1 - peak), peak = max(1, warmup).

    Half a cosine, from 1 at the peak to what would be 0 one update after the last, so that the last still moves
    something (Loshchilov and Hutter 2017, "SGDR", equation 5, without restarts; the warm-up is not theirs).

    >>> [f"{cosine_share(step, steps=5, warmup=2):.4f}" for step in range(1, 6)]
    ['0.5000', '1.0000', '0.8536', '0.5000', '0.1464']

    Raises:
        ValueError: ``step`` or ``steps`` is below 1.
    """
    _check_counts(step=step, steps=steps)
    if step < warmup:
        return step / warmup
    peak = max(1, warmup)
    if step == peak:
        return 1.0
    return (1 + math.cos(math.pi * min(1.0, (step - peak) / (steps + 1 - peak)))) / 2


def one_cycle_share(step: int, steps: int, warmup: int = 0) -> float:
    """Half a cosine up from 1/25 at step 1 to 1 at the peak, and half a cosine down to 1/250000 at the last step.

    The peak is at ``warmup``, or if that is 0 at three tenths of ``steps``. One large hump instead of a decay: the
    high rates in the middle keep the weights out of narrow valleys, the low ones at the end settle them (Smith and
    Topin 2018, "Super-Convergence"; the numbers and the cosine are those of torch's OneCycleLR). Differs from both:
    the optimizer's averages forget at one speed throughout.

    >>> [f"{one_cycle_share(step, steps=20):.6f}" for step in (1, 6, 13, 20)]
    ['0.040000', '1.000000', '0.500002', '0.000004']

    Raises:
        ValueError: ``step`` or ``steps`` is below 1.
    """
    _check_counts(step=step, steps=steps)
    peak = max(1.0, warmup or RISE * steps)
    if step < peak:
        return _between(FIRST, 1.0, (step - 1) / (peak - 1))
    if step == peak:
        return 1.0
    return _between(1.0, LOWEST, min(1.0, (step - peak) / (steps - peak)))


def rate(config: TrainConfig, d_model: int, step: int) -> float:
    """The rate of one update: ``lr`` times what the schedule makes of it; "warmup" is equation 3."""
    if config.schedule == "warmup":
        return config.lr * warmup_rate(step, d_model, config.warmup)
    if config.schedule == "cosine":
        return config.lr * cosine_share(step, config.total_steps, config.warmup)
    if config.schedule == "one_cycle":
        return config.lr * one_cycle_share(step, config.total_steps, config.warmup)
    return config.lr


def schedule_curve(config: TrainConfig, d_model: int) -> list[float]:
    """The rate of every update of a run, the first at place 0; for a look before anything is trained.

    >>> [round(rate, 4) for rate in schedule_curve(TrainConfig(steps=3, lr=0.5, schedule="cosine"), d_model=64)]
    [0.5, 0.375, 0.125]
    """
    return [rate(config, d_model, step) for step in range(1, config.total_steps + 1)]


def _between(start: float, end: float, share: float) -> float:
    """Half a cosine from ``start`` to ``end``."""
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


def _check_counts(**counts: int) -> None:
    for name, value in counts.items():
        if value < 1:
            why = "; updates are counted from 1" if name == "step" else ""
            raise ValueError(f"{name} must be at least 1, got {value}{why}")
