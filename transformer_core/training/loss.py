"""What a model is told: its loss on a batch, per real token, and how much of that no model can avoid (section 5.4)."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_core.batches import Batch
from transformer_core.model import Transformer


def smoothed_cross_entropy(
    logits: Float[Tensor, "*b V"], targets: Int[Tensor, "*b"], smoothing: float = 0.0, pad_id: int = 0
) -> Float[Tensor, ""]:
    """-Σ_v wanted(v) ln p(v), mean over real targets; wanted(v) = (1 - ε) [v = target] + ε / V (section 5.4).

    Targets equal to ``pad_id`` neither count nor divide; -1 makes every target real, as classes are.

    >>> logits = torch.tensor([[2.0, 1.0, 0.0], [9.0, 9.0, 8.0]])
    >>> targets = torch.tensor([0, -1])  # here -1 is the padding
    >>> [f"{smoothed_cross_entropy(logits, targets, smoothing, pad_id=-1):.6f}" for smoothing in (0.0, 0.1)]
    ['0.407606', '0.507606']

    Differs from the paper, which does not say over what ε is spread: here over all V, the target and padding included.

    Raises:
        ValueError: all targets are padding, or ``smoothing`` is not in 0 ≤ ε < 1.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must be at least 0 and less than 1, got {smoothing}")
    real = targets != pad_id
    if not real.any():
        raise ValueError(f"there is no target: all {targets.numel()} are padding (pad_id {pad_id})")
    log_p = logits[real].log_softmax(dim=-1)
    loss = -log_p.gather(-1, targets[real][:, None]).mean()
    if smoothing:  # a factor 0 would not do: with p(v) = 0 it gives 0 · ∞
        loss = (1 - smoothing) * loss - smoothing * log_p.mean()
    return loss


def smoothing_floor(smoothing: float, n_answers: int) -> float:
    """-Σ_v wanted(v) ln wanted(v): the smoothed loss of a model that is right, p = wanted. It cannot be less.

    >>> f"{smoothing_floor(0.1, 11):.6f}", smoothing_floor(0.0, 11)
    ('0.513962', 0.0)
    """
    other = smoothing / n_answers
    wanted = [1 - smoothing + other, *[other] * (n_answers - 1)]
    return math.fsum(p * -math.log(p) for p in wanted if 0 < p < 1)


def perplexity(loss: float) -> float:
    """exp(loss), of the loss without smoothing (table 3, section 6.2); infinite where a float cannot hold it.

    A model of perplexity n is as unsure as one that chooses evenly among n words.

    >>> round(perplexity(math.log(14)), 6), perplexity(800.0)
    (14.0, inf)
    """
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def loss_and_accuracy(model: Transformer, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The loss per real target, and the share of real targets that have the largest logit; one forward.

    Raises:
        ValueError: the batch has no labels, or all of them are padding.
    """
    labels, pad_id = labels_of(model, batch)
    logits = ask(model, batch)
    right = logits.argmax(dim=-1) == labels
    return smoothed_cross_entropy(logits, labels, smoothing, pad_id), right[labels != pad_id].float().mean()


def ask(model: Transformer, batch: Batch) -> Tensor:
    """The logits for a batch, which is brought to the model's device."""
    return model(*(None if side is None else side.to(device_of(model)) for side in (batch.src, batch.tgt)))


def labels_of(model: Transformer, batch: Batch) -> tuple[Tensor, int]:
    """The labels on the model's device, and which of them is padding: -1 for classes, since there 0 is a class."""
    if batch.labels is None:
        raise ValueError("the batch has no labels, so there is nothing to learn from it")
    return batch.labels.to(device_of(model)), model.config.pad_id if model.config.has_decoder else -1


def count_tokens(model: Transformer, batch: Batch) -> tuple[int, int]:
    """How many tokens of source and target are real, and how many labels."""
    labels, pad_id = labels_of(model, batch)
    n_read = 0 if batch.src is None else int((batch.src != model.config.pad_id).sum())
    n_targets = int((labels != pad_id).sum())
    return n_read + (n_targets if model.config.has_decoder else 0), n_targets


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
