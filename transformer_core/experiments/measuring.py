"""Runs the variants of a lesson one after the other, a step at a time, and measures what each came to."""

import dataclasses
import time
from collections import deque
from collections.abc import Iterator

import torch

from transformer_core.batches import Batch
from transformer_core.decoding import evaluating
from transformer_core.experiments.lesson import Lesson, Measured, Variant
from transformer_core.ledger import trace
from transformer_core.model import Transformer, build
from transformer_core.training import evaluate, predict, train
from transformer_core.training.evaluation import HELD_OUT
from transformer_core.training.loss import ask, labels_of

QUESTIONS = 1000
"""How many held-out questions each variant answers."""
LAST = 20
"""The loss at the end is the mean of so many: that of one batch jumps."""
LOOKED_AT = 97
"""How many questions the attention and the tokens are looked at with."""


@dataclasses.dataclass(frozen=True)
class Progress:
    """A step of one variant; with the last one comes what was measured."""

    variant: str
    step: int
    steps: int
    loss: float
    measured: Measured | None = None


def run(lesson: Lesson, seed: int, steps: int | None = None) -> Iterator[Progress]:
    """Trains every variant and measures it. A variant that only decodes otherwise takes the model of the one before.

    Raises:
        NonFinite: a training came to a loss or gradient that is not finite.
        ConfigError: ``seed`` or ``steps`` is out of range.
    """
    trained: tuple[Variant, Transformer, Measured] | None = None
    for variant in lesson.variants:
        config = variant.training if steps is None else variant.training.replace(steps=steps, epochs=None)
        if trained is not None and same_training(variant, trained[0]):
            result = dataclasses.replace(trained[2], variant=variant.name, exact=exact(trained[1], variant, seed))
            yield Progress(variant.name, config.total_steps, config.total_steps, result.loss, result)
            continue
        task = variant.task
        model = build(variant.model, variant.masks, seed=seed)
        batch = questions(variant, seed, LOOKED_AT)
        sharp_before, seconds = sharpness(model, batch), 0.0
        losses: deque[float] = deque(maxlen=LAST)
        reports = train(model, task, config, seed)
        while True:
            started = time.process_time()
            report = next(reports, None)
            seconds += time.process_time() - started
            if report is None:
                break
            losses.append(report.loss)
            if report.step < config.total_steps:
                yield Progress(variant.name, report.step, config.total_steps, report.loss)
        outcome = evaluate(model, task, QUESTIONS, seed)
        token_alone, confidence = alone(model, batch)
        result = Measured(
            variant.name, seed, config.total_steps, sum(losses) / len(losses), outcome.loss, outcome.token_accuracy,
            token_alone, exact(model, variant, seed), confidence, sharp_before, sharpness(model, batch),
            sum(weight.numel() for weight in model.parameters()), seconds,
        )  # fmt: skip
        trained = (variant, model, result)
        yield Progress(variant.name, config.total_steps, config.total_steps, losses[-1], result)


def same_training(one: Variant, other: Variant) -> bool:
    """Whether the two differ in nothing that a training depends on."""
    return all(getattr(one, name) == getattr(other, name) for name in ("model", "masks", "training", "letters"))


@torch.no_grad()
def exact(model: Transformer, variant: Variant, seed: int) -> float:
    """The share of whole answers that are right, written by the model or read off one forward of the right answer."""
    batch = questions(variant, seed, QUESTIONS)
    labels, pad_id = labels_of(model, batch)
    if variant.decode == "greedy":
        return variant.task.exact_match(predict(model, batch), labels).float().mean().item()
    with evaluating(model):
        answers = ask(model, batch).argmax(dim=-1)
    return ((answers == labels) | (labels == pad_id)).all(dim=-1).float().mean().item()


def questions(variant: Variant, seed: int, n: int) -> Batch:
    """New questions, drawn apart from those of every training run."""
    return variant.task.sample(n, torch.Generator().manual_seed(HELD_OUT + seed), "new")


@torch.no_grad()
def alone(model: Transformer, batch: Batch) -> tuple[float, float]:
    """The share of tokens that are right in answers the model wrote by itself, and how sure it is of its likeliest."""
    labels, pad_id = labels_of(model, batch)
    real = labels != pad_id
    written = predict(model, batch)
    written = torch.nn.functional.pad(written, (0, labels.shape[1] - written.shape[1]), value=pad_id)
    with evaluating(model):
        likeliest = ask(model, batch).softmax(dim=-1).amax(dim=-1)
    return (written == labels)[real].float().mean().item(), likeliest[real].mean().item()


@torch.no_grad()
def sharpness(model: Transformer, batch: Batch) -> float:
    """mean_q max_k weights[q, k] over every attention: 1 where each query looks at a single key."""
    with evaluating(model), trace(model) as ledger:
        ask(model, batch)
    largest = [entry.value.amax(dim=-1) for entry in ledger if entry.key.endswith("/weights")]
    return sum(each.mean().item() for each in largest) / len(largest)
