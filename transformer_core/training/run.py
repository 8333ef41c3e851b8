"""A run: one update whenever the next report is asked for, repeatable to the last digit."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from transformer_core.checked import check_whole
from transformer_core.config import TrainConfig
from transformer_core.model import Transformer
from transformer_core.tasks.base import Task
from transformer_core.training.evaluation import MAX_SEED
from transformer_core.training.loss import count_tokens, device_of
from transformer_core.training.schedules import rate
from transformer_core.training.state import check_changes, read_memory, read_progress
from transformer_core.training.step import make_optimizer, take_step

PATIENCE = 100
"""After so many batches in a row without any target, training gives up."""


@dataclass(frozen=True)
class StepReport:
    """What one step did. ``loss`` and ``accuracy`` are those of its own batch, before the weights moved."""

    step: int
    loss: float
    """Per real token, label smoothing included: what was minimised."""
    accuracy: float
    """The share of real tokens that the model found likeliest, the right ones before each being given to it."""
    rate: float
    grad_norm: float
    """Before clipping."""
    tokens_per_second: float
    """Source and target tokens; padding is not counted."""
    note: str = ""
    layer_norms: Mapping[str, float] = field(default_factory=dict)
    """The same norm part by part, in the order of the model; the squares add up to that of ``grad_norm``."""


class Training:
    """A run as an iterator: ``next`` takes one step of ``config.total_steps`` and reports it.

    The same model, seed, settings and rate changes give the same losses on one machine, whatever happens between the
    steps or in other threads: questions and dropout come from this run's own generators, and every step starts its
    dropout anew. Between two steps nothing is held open; the model may be looked at, evaluated, or left in another
    mode. A step that stopped on an error is the last one.

    A batch in which every target is padding is skipped and changes nothing; the next report notes it.

    Raises:
        ValueError: the model does not fit the task or has no numbers, the rate changes are not in order; or, from
            ``next``, no batch has a target.
        ConfigError: ``seed``, or a rate change, is no number that can be, or out of range.
        NonFinite: from ``next``: loss or gradient is NaN or infinite. The weights are as the step before left them.
    """

    def __init__(
        self, model: Transformer, task: Task, config: TrainConfig, seed: int,
        rate_changes: Iterable[tuple[int, float]] = (),
    ) -> None:  # fmt: skip
        task.check(model.config)
        if device_of(model).type == "meta":
            raise ValueError('a model on the device "meta" has shapes and no numbers; build it on another to train it')
        self.model, self.task, self.config, self.seed = model, task, config, seed
        self.step = 0
        """Steps taken."""
        self.rate_changes = check_changes(rate_changes)
        """(the first step it holds for, the ``lr`` from there on), in that order."""
        self._questions = torch.Generator().manual_seed(check_whole("seed", seed, 0, MAX_SEED))
        self._optimizer = make_optimizer(model.parameters(), config)
        self._current = config
        self._closed = False

    def __iter__(self) -> "Training":
        return self

    def __next__(self) -> StepReport:
        if self.ended:
            raise StopIteration
        try:
            return self._next()
        except BaseException:
            self.close()
            raise

    @property
    def ended(self) -> bool:
        """No step is to come: all were taken, one stopped on an error, or the run was closed."""
        return self._closed or self.step >= self.config.total_steps

    def close(self) -> None:
        """No step after this."""
        self._closed = True

    @property
    def lr(self) -> float:
        """What the schedule multiplies in the next step. Another one holds from then on."""
        held = [lr for step, lr in self.rate_changes if step <= self.step + 1]
        return held[-1] if held else self.config.lr

    @lr.setter
    def lr(self, value: float) -> None:
        (change,) = check_changes([(self.step + 1, value)])
        earlier = [each for each in self.rate_changes if each[0] < change[0]]
        later = [each for each in self.rate_changes if each[0] > change[0]]
        self.rate_changes = [*earlier, change, *later]

    def _next(self) -> StepReport:
        skipped, started = 0, time.perf_counter()
        while True:
            batch = self.task.sample(self.config.batch_size, self._questions)
            noise = int(torch.randint(MAX_SEED, (), generator=self._questions))
            n_tokens, n_targets = count_tokens(self.model, batch)
            if n_targets:
                break
            skipped += 1
            if skipped == PATIENCE:
                raise ValueError(f"the task {self.task.name} gave {skipped} batches in a row without any target")
            started = time.perf_counter()
        step = self.step + 1
        if self.lr != self._current.lr:
            self._current = self.config.replace(lr=self.lr)
        step_rate = rate(self._current, self.model.config.d_model, step)
        loss, accuracy, norm, norms = take_step(
            self.model, batch, self._optimizer, self.config, step, step_rate, noise
        )  # fmt: skip
        self.step = step
        note = f"batches without any target, skipped before this step: {skipped}" if skipped else ""
        speed = n_tokens / (time.perf_counter() - started)
        return StepReport(step, loss, accuracy, step_rate, norm, speed, note, norms)

    def state(self) -> dict[str, Tensor]:
        """All that decides the next losses beside the model's own ``state_dict()``: flat, copied, ready for a file.

        ``step``, ``generator``, ``rate_changes``, and of each weight what the optimizer remembers.
        """
        kept = {
            "step": torch.tensor(self.step),
            "generator": self._questions.get_state(),
            "rate_changes": torch.tensor(self.rate_changes, dtype=torch.float64).reshape(-1, 2),
        }
        for name, weight in self.model.named_parameters():
            for what, value in self._optimizer.state.get(weight, {}).items():
                kept[f"optimizer.{name}.{what}"] = value.detach().clone()
        return kept

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Goes on where ``state`` was taken; with the weights of that moment the next loss is the same, bit for bit.

        Raises:
            ValueError: the state lacks something, holds something else, or is of another model; nothing was changed.
        """
        weights = dict(self.model.named_parameters())
        steps, changes, questions = read_progress(state, self.config.total_steps)
        memory = read_memory(state, {name: weight.shape for name, weight in weights.items()})
        remembered = {i: memory[name] for i, name in enumerate(weights) if name in memory}
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": remembered, "param_groups": groups})
        self.step, self.rate_changes, self._questions, self._closed = steps, changes, questions, False


def train(
    model: Transformer, task: Task, config: TrainConfig, seed: int, *, rate_changes: Iterable[tuple[int, float]] = ()
) -> Training:
    """Takes ``config.total_steps`` steps, one each time the next report is asked for.

    ``rate_changes``, as (step, lr) pairs in rising order, repeat what was done to ``lr`` in another run.

    Raises:
        ValueError, ConfigError, NonFinite: as ``Training``.
    """
    return Training(model, task, config, seed, rate_changes)
