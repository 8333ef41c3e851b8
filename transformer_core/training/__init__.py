"""Training (section 5): the model answers a batch, and every weight moves a little against the gradient of its loss.

``train`` takes one step whenever it is asked for the next report, so that whoever asks may look, wait or stop in
between. Everything random in it comes from its seed.

>>> from transformer_core import build, tasks
>>> task = tasks.get("copy")
>>> run = train(build(task.model, seed=7), task, task.training, seed=7)
>>> run.lr = 0.1  # from the next step on
>>> report = next(run)
>>> report.step, run.rate_changes, max(report.layer_norms, key=report.layer_norms.get)
(1, [(1, 0.1)], 'decoder.layers.1')
"""

from transformer_core.tasks.base import shift
from transformer_core.training.evaluation import HELD_OUT, MAX_SEED, Evaluation, evaluate, predict
from transformer_core.training.loss import (
    count_tokens,
    loss_and_accuracy,
    perplexity,
    smoothed_cross_entropy,
    smoothing_floor,
)
from transformer_core.training.run import StepReport, Training, train
from transformer_core.training.schedules import RECIPES, rate, schedule_curve, warmup_rate
from transformer_core.training.step import NonFinite, clip_gradients, layer_norms, make_optimizer, take_step

__all__ = [
    "HELD_OUT", "MAX_SEED", "RECIPES", "Evaluation", "NonFinite", "StepReport", "Training", "clip_gradients",
    "count_tokens", "evaluate", "layer_norms", "loss_and_accuracy", "make_optimizer", "perplexity", "predict", "rate",
    "schedule_curve", "shift", "smoothed_cross_entropy", "smoothing_floor", "take_step", "train", "warmup_rate",
]  # fmt: skip
