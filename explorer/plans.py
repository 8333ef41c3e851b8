"""What a training run depends on, checked before anything is built: task, model, recipe, seed. Knows no gradio."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch

from explorer import lessons, recipes
from explorer.fields import NO_FAULT, refusal_of
from explorer.limits import Limits
from explorer.refusals import Refusal
from explorer.session import Session
from transformer_core import build, tasks
from transformer_core.config import MaskConfig, ModelConfig, TrainConfig
from transformer_core.cost import estimate
from transformer_core.workshop import OWN, Workshop

if TYPE_CHECKING:
    from transformer_core.tasks import Task
    from transformer_core.translation import Corpus

BACKWARD = 3  # forward and backward together cost three forwards
LOOKS = 15  # pauses in which the model answers held-out questions
TRANSLATION = "translation"


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
    corpus: Corpus | None = None  # the sentences that were put in; None: the task's own
    named: str = ""  # the recipe with a name that this is, or "" for a mixture
    lesson: str = lessons.NONE  # the variant of a lesson whose model this is

    @property
    def steps(self) -> int:
        return self.training.total_steps

    @property
    def every(self) -> int:
        """Steps from one look at held-out sentences to the next."""
        return round_interval(self.steps)

    def task_of(self, shop: Workshop = OWN) -> Task:
        """The task as this code has it: of the register, or of the sentences that were put in."""
        if self.corpus is not None:
            return task_of_corpus(self.corpus) if shop is OWN else shop.tasks.translation.task_of(self.corpus)
        if (words := lessons.task_of(self.lesson)) is not None:
            return words
        return shop.tasks.get(self.task)


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


def plan(session: Session, limits: Limits, corpus: Corpus | None = None) -> Plan:
    """The run this session asks for. Nothing is built but shapes.

    ``corpus`` takes the place of the built-in sentences where the task is translation.

    Raises:
        Refusal: a choice that cannot be trained, or a run too large for this host, with the nearest that fits.
    """
    corpus = corpus if session.task == TRANSLATION else None
    task, instead_of = tasks.get(session.task) if corpus is None else task_of_corpus(corpus), ""
    lesson, own = lessons.chosen(session), task.training
    if lesson is not None:
        task = lessons.task_of(session.lesson) or task
    decay = recipes.weight_decay(session.task, session.optimizer)
    try:
        if session.recipe == "mine":
            wanted, masks = session.model_config(), session.mask_config(painted_too=False)
            model = task.fit(wanted)
            instead_of = wanted.architecture if wanted.architecture != model.architecture else ""
        elif lesson is not None:
            model, masks, own = lesson[1].model, lesson[1].masks, lesson[1].training
            decay = own.weight_decay if own.optimizer == session.optimizer else decay
        else:
            model, masks = task.model, task.masks
        model = model.replace(dropout=session.train_dropout)
        training = replace(
            own,
            task=session.task,
            steps=session.steps,
            epochs=None,
            batch_size=session.train_batch,
            lr=session.lr,
            schedule=session.schedule,
            warmup=session.warmup,
            optimizer=session.optimizer,
            weight_decay=decay,
            label_smoothing=session.smoothing,
            clip_norm=session.clip or None,
        )
    except ValueError as error:
        raise at_its_control(refusal_of(error)) from error
    parameters = measured(task, model, masks, training, limits)
    return Plan(
        session.task, session.recipe, model, masks, training, session.train_seed, device_of(session.train_device),
        parameters, instead_of, session.fault, corpus, recipes.name_of(session),
        session.lesson if lesson is not None else lessons.NONE,
    )  # fmt: skip


def measured(task: Task, model: ModelConfig, masks: MaskConfig, training: TrainConfig, limits: Limits) -> int:
    """The parameters of a model that can be trained here, and so. Nothing is built but shapes.

    Raises:
        Refusal: it does not fit the task, or is too large for this host.
    """
    try:
        task.check(model)
        example = task.sample(1, torch.Generator().manual_seed(0))
        cost = estimate(model, training.batch_size, length(example.src), length(example.tgt))
        refuse_costly(training, cost.parameters, cost.flops, cost.activation_bytes, limits)
        with torch.no_grad():  # masks that do not fit these lengths are found here, where they cost nothing
            build(model, masks, device="meta")(meta(example.src), meta(example.tgt))
    except ValueError as error:
        raise at_its_control(refusal_of(error)) from error
    return cost.parameters


def task_of_corpus(corpus: Corpus) -> Task:
    """The task of these sentences, made once and kept with them: what it counts in them takes a second of 20,000."""
    kept = vars(corpus)  # as a cached_property does it; the sentences themselves stay as they are
    if "task" not in kept:
        kept["task"] = tasks.translation.task_of(corpus)
    return kept["task"]


def at_its_control(refusal: Refusal) -> Refusal:
    """A refusal of the core's settings, told by the names of the page's."""
    refusal.field = recipes.NAMES.get(refusal.field, refusal.field)
    refusal.choices = tuple(recipes.on_page(choice) for choice in refusal.choices)
    return refusal


def device_of(wanted: str) -> str:
    """The device on which this host trains where that one is asked for; the page prints the one that a run has."""
    return wanted if available(wanted) else "cpu"


def available(device: str) -> bool:
    """Whether this host can train there."""
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
