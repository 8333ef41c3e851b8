"""How a model does on questions that no training run was asked, in evaluation mode."""

from dataclasses import dataclass

import torch
from torch import Tensor

from transformer_core.batches import Batch
from transformer_core.checked import check_whole
from transformer_core.decoding import evaluating, greedy
from transformer_core.model import Transformer
from transformer_core.tasks.base import Task
from transformer_core.training.loss import ask, count_tokens, labels_of, loss_and_accuracy

MAX_SEED = (1 << 31) - 1
HELD_OUT = 1 << 31
"""Added to the seed of an evaluation: no training run starts from the same random numbers. torch's generator on the CPU
reads the lower 32 bits of a seed and no more, so half of those are for training and half for evaluation."""
CHUNK, MAX_QUESTIONS = 250, 1 << 20
"""How many questions an evaluation asks at a time, and in all."""


@dataclass(frozen=True)
class Evaluation:
    """How a model does on held-out questions, dropout off."""

    token_accuracy: float
    """The right tokens before each being given; for classes the same as ``exact_match``."""
    exact_match: float
    """The share of whole answers that are right to the end, the model having only its own words to go by."""
    loss: float
    """Per real token, without label smoothing."""


@torch.no_grad()
def evaluate(model: Transformer, task: Task, n: int, seed: int, on: str = "new") -> Evaluation:
    """Asks ``n`` questions of a held-out set, in evaluation mode and drawn apart from those of every training run.

    A training run between whose steps it is called does not feel it; every module is left in the mode it was in.

    Raises:
        ValueError: the model does not fit the task, or the task has no such held-out set.
        ConfigError: ``n`` or ``seed`` is no whole number, or out of range.
    """
    task.check(model.config)
    check_whole("n", n, 1, MAX_QUESTIONS)
    questions = torch.Generator().manual_seed(HELD_OUT + check_whole("seed", seed, 0, MAX_SEED))
    losses = hits = matches = total = 0.0
    with evaluating(model):
        for done in range(0, n, CHUNK):
            batch = task.sample(min(CHUNK, n - done), questions, on)
            _, n_targets = count_tokens(model, batch)
            loss, accuracy = loss_and_accuracy(model, batch)
            losses += loss.item() * n_targets
            hits += accuracy.item() * n_targets
            matches += task.exact_match(predict(model, batch), labels_of(model, batch)[0]).sum().item()
            total += n_targets
    return Evaluation(token_accuracy=hits / total, exact_match=matches / n, loss=losses / total)


@torch.no_grad()
def predict(model: Transformer, batch: Batch) -> Tensor:
    """The model's own answers: a class each, or tokens written greedily, at most as many as the labels are wide."""
    labels, _ = labels_of(model, batch)
    if model.config.has_decoder and batch.src is not None:
        return greedy(model, batch.src, max_length=labels.shape[1])
    with evaluating(model):
        return ask(model, batch).argmax(dim=-1)
