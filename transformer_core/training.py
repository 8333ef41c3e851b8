"""Training (section 5): the model answers a batch, and every weight moves a little against the gradient of its loss.

``train`` is a generator: it takes one step whenever it is asked for the next report, so that whoever asks may look,
wait or stop in between. Everything random in it comes from its seed.
"""

import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_core.batches import Batch
from transformer_core.checked import check_whole
from transformer_core.config import TrainConfig
from transformer_core.decoding import evaluating, greedy
from transformer_core.ledger import trace
from transformer_core.model import Transformer
from transformer_core.tasks.base import Task, shift

__all__ = [
    "Evaluation", "NonFinite", "StepReport", "clip_gradients", "evaluate", "loss_and_accuracy", "make_optimizer",
    "perplexity", "predict", "rate", "shift", "smoothed_cross_entropy", "smoothing_floor", "train", "warmup_rate",
]  # fmt: skip

MAX_SEED = (1 << 31) - 1
HELD_OUT = 1 << 31
"""Added to the seed of an evaluation: no training run starts from the same random numbers. torch's generator on the CPU
reads the lower 32 bits of a seed and no more, so half of those are for training and half for evaluation."""
PATIENCE = 100
"""After so many batches in a row without any target, training gives up."""
CHUNK, MAX_QUESTIONS = 250, 1 << 20
"""How many questions an evaluation asks at a time, and in all."""


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


@dataclass(frozen=True)
class Evaluation:
    """How a model does on held-out questions, dropout off."""

    token_accuracy: float
    """The right tokens before each being given; for classes the same as ``exact_match``."""
    exact_match: float
    """The share of whole answers that are right to the end, the model having only its own words to go by."""
    loss: float
    """Per real token, without label smoothing."""


class NonFinite(ArithmeticError):
    """Loss or gradient is NaN or infinite. ``tensor`` names the first bad tensor; the step was not taken."""

    def __init__(self, step: int, what: str, tensor: str, value: str) -> None:
        super().__init__(step, what, tensor, value)
        self.step, self.what, self.tensor, self.value = step, what, tensor, value

    def __str__(self) -> str:
        remedy = "A lower rate, a longer warm-up or clip_norm often helps."
        if self.tensor.endswith("/weights"):  # its scores were finite, so it is not the rate
            remedy = 'A query that may see no key has such weights with the fill "-inf"; "exclude" gives it zeros.'
        return (
            f"step {self.step}: the {self.what} is not finite. The first tensor that is not is {self.tensor}, which "
            f"holds {self.value}. The step was not taken: the weights are those after step {self.step - 1}. {remedy}"
        )


def warmup_rate(step: int, d_model: int, warmup: int) -> float:
    """rate = d_model^-0.5 · min(step^-0.5, step · warmup^-1.5) (section 5.3, equation 3).

    It rises in a straight line for ``warmup`` updates, then falls as 1 / √step. The first update is number 1.

    >>> [f"{warmup_rate(step, d_model=512, warmup=4000):.6e}" for step in (1, 2, 4000, 16000)]
    ['1.746928e-07', '3.493856e-07', '6.987712e-04', '3.493856e-04']

    Raises:
        ValueError: ``step``, ``d_model`` or ``warmup`` is below 1.
    """
    for name, value in (("step", step), ("d_model", d_model), ("warmup", warmup)):
        if value < 1:
            why = "; updates are counted from 1" if name == "step" else ""
            raise ValueError(f"{name} must be at least 1, got {value}{why}")
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def rate(config: TrainConfig, d_model: int, step: int) -> float:
    """The rate of one update: ``lr`` itself, or with the schedule "warmup" ``lr`` times equation 3."""
    return config.lr * (warmup_rate(step, d_model, config.warmup) if config.schedule == "warmup" else 1.0)


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


def clip_gradients(gradients: Iterable[Tensor], limit: float | None = None) -> Float[Tensor, ""]:
    """norm = √(Σ g²) over all gradients; above ``limit`` each is multiplied, in place, by limit / norm.

    Gives the norm before that. One that is not finite multiplies nothing: a single NaN would spread to all.

    >>> gradients = [torch.tensor([3.0, 4.0]), torch.tensor([12.0])]
    >>> clip_gradients(gradients, limit=6.5).item(), [gradient.tolist() for gradient in gradients]
    (13.0, [[1.5, 2.0], [6.0]])

    Differs from the paper, which does not clip.
    """
    gradients = list(gradients)
    norm = torch.nn.utils.get_total_norm(gradients)
    if limit is not None and limit < norm < math.inf:
        for gradient in gradients:
            gradient.mul_(limit / norm)
    return norm


def make_optimizer(parameters: Iterable[nn.Parameter], config: TrainConfig) -> torch.optim.Optimizer:
    """Adam with β₁ 0.9, β₂ 0.98, ε 1e-9 (section 5.3), or AdamW with torch's own β₂ 0.999, ε 1e-8.

    The smaller β₂ forgets sooner how large gradients were, in 50 steps instead of 1000.
    """
    parameters = list(parameters)
    # One pass over the weights instead of several: on a CPU a fifth of the time, for the same numbers.
    fused = all(parameter.device.type in ("cpu", "cuda") for parameter in parameters)
    decay = config.weight_decay
    if config.optimizer == "adamw":
        return torch.optim.AdamW(parameters, config.lr, weight_decay=decay, fused=fused, foreach=not fused)
    return torch.optim.Adam(
        parameters, config.lr, betas=(0.9, 0.98), eps=1e-9, weight_decay=decay, fused=fused, foreach=not fused
    )


def train(model: Transformer, task: Task, config: TrainConfig, seed: int) -> Iterator[StepReport]:
    """Takes ``config.total_steps`` steps, one each time the next report is asked for.

    The same model, seed and settings give the same losses on one machine, whatever happens between the steps or in
    other threads: questions and dropout come from this run's own generators, and every step starts its dropout anew.
    Between two steps nothing is held open; the model may be looked at, evaluated, or left in another mode.

    A batch in which every target is padding is skipped and changes nothing; the next report notes it.

    Raises:
        NonFinite: loss or gradient is NaN or infinite. The weights are as the step before left them.
        ValueError: the model does not fit the task or has no numbers, or no batch has a target.
        ConfigError: ``seed`` is no whole number, or out of range.
    """
    task.check(model.config)
    if device_of(model).type == "meta":
        raise ValueError('a model on the device "meta" has shapes and no numbers; build it on another to train it')
    questions = torch.Generator().manual_seed(check_whole("seed", seed, 0, MAX_SEED))
    optimizer = make_optimizer(model.parameters(), config)
    step, skipped = 1, 0
    while step <= config.total_steps:
        started = time.perf_counter()
        batch = task.sample(config.batch_size, questions)
        noise = int(torch.randint(MAX_SEED, (), generator=questions))
        n_tokens, n_targets = count_tokens(model, batch)
        if not n_targets:
            skipped += 1
            if skipped == PATIENCE:
                raise ValueError(f"the task {task.name} gave {skipped} batches in a row without any target")
            continue
        step_rate = rate(config, model.config.d_model, step)
        loss, accuracy, norm = take_step(model, batch, optimizer, config, step, step_rate, noise)
        note = f"batches without any target, skipped before this step: {skipped}" if skipped else ""
        yield StepReport(step, loss, accuracy, step_rate, norm, n_tokens / (time.perf_counter() - started), note)
        step, skipped = step + 1, 0


def take_step(
    model: Transformer, batch: Batch, optimizer: torch.optim.Optimizer, config: TrainConfig, step: int,
    step_rate: float, noise: int,
) -> tuple[float, float, float]:  # fmt: skip
    """weight ← weight - rate · direction, the direction being what the optimizer makes of the gradient.

    Gives loss, accuracy and gradient norm. Loss and gradient are looked at before anything moves, since one NaN would
    stay in the optimizer's averages for good.

    Raises:
        NonFinite: one of them is not finite; weights, optimizer and running means are as they were.
    """
    # The running means of a batch norm move in the forward already.
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]
    kept = [(buffer, buffer.clone()) for module in norms for buffer in module.buffers()]

    model.train()
    model.noise.reseed(noise)
    optimizer.zero_grad()
    with torch.enable_grad():
        loss, accuracy = loss_and_accuracy(model, batch, config.label_smoothing)
        loss.backward()
    norm = clip_gradients((weight.grad for weight in model.parameters() if weight.grad is not None), config.clip_norm)

    if not (loss.isfinite() and norm.isfinite()):
        what = "gradient" if loss.isfinite() else "loss"
        tensor, value = first_bad(model, batch, noise, what)
        for buffer, before in kept:
            buffer.copy_(before)
        optimizer.zero_grad()
        raise NonFinite(step, what, tensor, value)
    for group in optimizer.param_groups:
        group["lr"] = step_rate
    optimizer.step()
    return loss.item(), accuracy.item(), norm.item()


@torch.no_grad()
def first_bad(model: Transformer, batch: Batch, noise: int, what: str) -> tuple[str, str]:
    """The first tensor that is not finite, and what it holds.

    The same forward runs again, with the same dropout and an open ledger. If all is well there, it is the loss itself
    or the first gradient in the order of the parameters.
    """
    model.noise.reseed(noise)
    with trace(model) as ledger:
        ask(model, batch)
    tensors = [(entry.key, entry.value) for entry in ledger]
    if what == "gradient":
        named = model.named_parameters()
        tensors += [(f"the gradient of {name}", weight.grad) for name, weight in named if weight.grad is not None]
    for name, tensor in tensors:
        if not tensor.isfinite().all():
            return name, "NaN" if tensor.isnan().any() else "infinity"
    return ("the norm of all gradients" if what == "gradient" else "the loss itself"), "infinity"


@torch.no_grad()
def evaluate(model: Transformer, task: Task, n: int, seed: int) -> Evaluation:
    """Asks ``n`` questions in evaluation mode. They are drawn apart from those of every training run.

    A training run between whose steps it is called does not feel it; every module is left in the mode it was in.

    Raises:
        ValueError: the model does not fit the task.
        ConfigError: ``n`` or ``seed`` is no whole number, or out of range.
    """
    task.check(model.config)
    check_whole("n", n, 1, MAX_QUESTIONS)
    questions = torch.Generator().manual_seed(HELD_OUT + check_whole("seed", seed, 0, MAX_SEED))
    losses = hits = matches = total = 0.0
    with evaluating(model):
        for done in range(0, n, CHUNK):
            batch = task.sample(min(CHUNK, n - done), questions)
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
