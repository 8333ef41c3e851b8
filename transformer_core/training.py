"""Training (section 5): a model reads batch after batch, and each time every weight moves a little against its gradient.

``train`` is a generator: it takes one step whenever it is asked for the next report, so that whoever asks may look,
wait or stop in between. Everything random in it comes from the seed.
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
    "Evaluation",
    "NonFinite",
    "StepReport",
    "clip_gradients",
    "evaluate",
    "loss_and_accuracy",
    "make_optimizer",
    "perplexity",
    "predict",
    "rate",
    "shift",
    "smoothed_cross_entropy",
    "smoothing_floor",
    "train",
    "warmup_rate",
]

MAX_SEED = (1 << 62) - 1
HELD_OUT = 1 << 62
"""Added to the seed of an evaluation, so that no training run draws the same questions."""
PATIENCE = 100
"""After so many batches in a row without any target, training gives up."""
CHUNK, MAX_QUESTIONS = 250, 1 << 20
"""How many questions an evaluation asks at a time, and at most."""


@dataclass(frozen=True)
class StepReport:
    """What one step did. ``loss`` and ``accuracy`` are of the step's own batch, before the weights moved."""

    step: int
    loss: float
    """Per real token, label smoothing included: what was minimised."""
    accuracy: float
    """The share of real tokens that were the likeliest, the right ones before them being given."""
    rate: float
    grad_norm: float
    """Before clipping."""
    tokens_per_second: float
    """Source and target tokens, padding not counted."""
    note: str = ""


@dataclass(frozen=True)
class Evaluation:
    """How a model does on questions that it was not trained on, dropout off."""

    token_accuracy: float
    """The right tokens before each being given; for classes the same as ``exact_match``."""
    exact_match: float
    """The share of whole answers that are right to the last token, the model having only its own words to go by."""
    loss: float
    """Per real token, without label smoothing."""


class NonFinite(ArithmeticError):
    """Loss or gradient is NaN or infinite. ``tensor`` is the first bad one; the step was not taken."""

    def __init__(self, step: int, what: str, tensor: str, value: str) -> None:
        super().__init__(step, what, tensor, value)
        self.step, self.what, self.tensor, self.value = step, what, tensor, value

    def __str__(self) -> str:
        return (
            f"step {self.step}: the {self.what} is not finite. The first tensor that is not is {self.tensor}, which "
            f"holds {self.value}. The step was not taken: the weights are those after step {self.step - 1}. "
            "A lower rate, a longer warm-up or clip_norm may help."
        )


def warmup_rate(step: int, d_model: int, warmup: int) -> float:
    """rate = d_model^-0.5 · min(step^-0.5, step · warmup^-1.5) (section 5.3, equation 3).

    It rises in a straight line for ``warmup`` updates and then falls as 1/√step. The first update is number 1.

    >>> [f"{warmup_rate(step, d_model=512, warmup=4000):.6e}" for step in (1, 2, 4000, 16000)]
    ['1.746928e-07', '3.493856e-07', '6.987712e-04', '3.493856e-04']

    Raises:
        ValueError: ``step``, ``d_model`` or ``warmup`` is below 1.
    """
    for name, value in (("step", step), ("d_model", d_model), ("warmup", warmup)):
        if value < 1:
            raise ValueError(f"{name} must be at least 1, got {value}; updates are counted from 1")
    return d_model**-0.5 * min(step**-0.5, step * warmup**-1.5)


def rate(config: TrainConfig, d_model: int, step: int) -> float:
    """The rate of one update: ``lr`` itself, or with the schedule "warmup" ``lr`` times equation 3."""
    return config.lr * (warmup_rate(step, d_model, config.warmup) if config.schedule == "warmup" else 1.0)


def smoothed_cross_entropy(
    logits: Float[Tensor, "*b V"], targets: Int[Tensor, "*b"], smoothing: float = 0.0, pad_id: int | None = 0
) -> Float[Tensor, ""]:
    """-Σ_v wanted(v) ln p(v), mean over real targets; wanted = (1 - ε) [v = target] + ε / V (section 5.4).

    Targets equal to ``pad_id`` neither count nor divide; with None every target is real, as for classes.

    >>> logits = torch.tensor([[2.0, 1.0, 0.0], [9.0, 9.0, 9.0]])
    >>> f"{smoothed_cross_entropy(logits, torch.tensor([1, 0]), smoothing=0.1, pad_id=0):.6f}"
    '1.407606'

    Differs from the paper, which does not say whether ε is spread over all V words or over the V - 1 others: over all.

    Raises:
        ValueError: no target is real, or ``smoothing`` is not in 0 ≤ ε < 1.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing must be at least 0 and less than 1, got {smoothing}")
    real = torch.ones_like(targets, dtype=torch.bool) if pad_id is None else targets != pad_id
    if not real.any():
        raise ValueError(f"none of the {targets.numel()} targets is real, all are padding (pad_id {pad_id})")
    log_p = logits[real].log_softmax(dim=-1)
    loss = -log_p.gather(-1, targets[real][:, None]).mean()
    if smoothing:  # not by a factor 0: a word of probability 0 would make it 0 · ∞
        loss = (1 - smoothing) * loss - smoothing * log_p.mean()
    return loss


def smoothing_floor(smoothing: float, n_answers: int) -> float:
    """-Σ_v wanted(v) ln wanted(v): the least that the smoothed loss can be, when p = wanted (section 5.4).

    >>> f"{smoothing_floor(0.1, 11):.6f}", smoothing_floor(0.0, 11)
    ('0.513962', 0.0)
    """
    other = smoothing / n_answers
    wanted = [1 - smoothing + other, *[other] * (n_answers - 1)]
    return sum(-p * math.log(p) for p in wanted if p) + 0.0


def perplexity(loss: float) -> float:
    """exp(loss) of the loss without smoothing (section 6.1); infinite where the number is too large for a float.

    A model of perplexity n is as unsure as one that chooses evenly among n words.

    >>> round(perplexity(math.log(14)), 6), perplexity(800.0)
    (14.0, inf)
    """
    try:
        return math.exp(loss)
    except OverflowError:
        return math.inf


def clip_gradients(gradients: Iterable[Tensor], limit: float | None = None) -> Float[Tensor, ""]:
    """norm = √(Σ g²) over all gradients together; above ``limit`` each is multiplied in place by limit / norm.

    Returns the norm as it was before.

    >>> gradients = [torch.tensor([3.0, 4.0]), torch.tensor([12.0])]
    >>> clip_gradients(gradients, limit=6.5).item(), [gradient.tolist() for gradient in gradients]
    (13.0, [[1.5, 2.0], [6.0]])

    Differs from the paper, which does not clip.
    """
    gradients = list(gradients)
    norm = torch.nn.utils.get_total_norm(gradients)
    if limit is not None and norm > limit:
        for gradient in gradients:
            gradient.mul_(limit / norm)
    return norm


def make_optimizer(parameters: Iterable[nn.Parameter], config: TrainConfig) -> torch.optim.Optimizer:
    """Adam with the paper's β₁ 0.9, β₂ 0.98, ε 1e-9 (section 5.3), or AdamW with the defaults of torch.

    The fused form computes the same in one pass over the weights, where a device has it.
    """
    parameters = list(parameters)
    fused = all(parameter.device.type in ("cpu", "cuda") for parameter in parameters)
    way = {"fused": True} if fused else {"foreach": True}
    if config.optimizer == "adamw":
        return torch.optim.AdamW(parameters, config.lr, weight_decay=config.weight_decay, **way)
    return torch.optim.Adam(
        parameters, config.lr, betas=(0.9, 0.98), eps=1e-9, weight_decay=config.weight_decay, **way
    )  # fmt: skip


def loss_and_accuracy(model: Transformer, batch: Batch, smoothing: float = 0.0) -> tuple[Tensor, Tensor]:
    """The loss per real token, and the share of real tokens on which the largest logit lies; one forward.

    Raises:
        ValueError: the batch has no labels, or none that is real.
    """
    labels, pad_id = targets(model, batch)
    logits = ask(model, batch)
    right = logits.argmax(dim=-1) == labels
    accuracy = right.float().mean() if pad_id is None else right[labels != pad_id].float().mean()
    return smoothed_cross_entropy(logits, labels, smoothing, pad_id), accuracy


def train(model: Transformer, task: Task, config: TrainConfig, seed: int) -> Iterator[StepReport]:
    """Takes ``config.total_steps`` steps, one each time the next report is asked for.

    The same seed, settings and machine give the same losses, whatever else goes on between the steps or in other
    threads: questions and dropout come from generators of this run, and step n's dropout is drawn anew. In between,
    no step is half done and nothing is held; the model may be looked at, evaluated or put into another mode.

    A batch in which every target is padding is skipped; it changes nothing, and the next report notes it.

    Raises:
        NonFinite: loss or gradient is NaN or infinite. The weights are as the step before has left them.
        ValueError: the model does not fit the task or has no numbers, or too many batches were without targets.
        ConfigError: ``seed`` is no whole number, or out of range.
    """
    task.check(model.config)
    if device_of(model).type == "meta":
        raise ValueError('a model on the device "meta" has shapes only; build it on another to train it')
    questions = torch.Generator().manual_seed(check_whole("seed", seed, 0, MAX_SEED))
    optimizer = make_optimizer(model.parameters(), config)
    step, skipped = 1, 0
    while step <= config.total_steps:
        started = time.perf_counter()
        batch = task.sample(config.batch_size, questions)
        noise = int(torch.randint(MAX_SEED, (), generator=questions))
        tokens, n_targets = count_tokens(model, batch)
        if not n_targets:
            skipped += 1
            if skipped == PATIENCE:
                raise ValueError(f"the task {task.name} gave {skipped} batches in a row without any target")
            continue
        now = rate(config, model.config.d_model, step)
        loss, accuracy, norm = update(model, optimizer, batch, config, step, now, noise)
        seconds = time.perf_counter() - started
        note = f"{skipped} batches without any target were skipped before this step" if skipped else ""
        yield StepReport(step, loss, accuracy, now, norm, tokens / seconds, note)
        step, skipped = step + 1, 0


def update(
    model: Transformer, optimizer: torch.optim.Optimizer, batch: Batch, config: TrainConfig, step: int, rate: float,
    noise: int,
) -> tuple[float, float, float]:  # fmt: skip
    """weights ← weights - rate · (the direction Adam makes of the gradient); gives loss, accuracy, gradient norm.

    Loss and gradient are looked at first: one NaN among them, and Adam would spread it over every weight.

    Raises:
        NonFinite: one of them is not finite; weights, optimizer and running means are as they were.
    """
    for group in optimizer.param_groups:
        group["lr"] = rate
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]
    before = [(buffer, buffer.clone()) for module in norms for buffer in module.buffers()]

    model.train()
    model.noise.reseed(noise)
    optimizer.zero_grad()
    with torch.enable_grad():
        loss, accuracy = loss_and_accuracy(model, batch, config.label_smoothing)
        loss.backward()
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    norm = clip_gradients(gradients, config.clip_norm)

    if not (loss.isfinite() and norm.isfinite()):
        what = "gradient" if loss.isfinite() else "loss"
        tensor, value = first_bad(model, batch, noise, what)
        for buffer, kept in before:
            buffer.copy_(kept)
        optimizer.zero_grad()
        raise NonFinite(step, what, tensor, value)
    optimizer.step()
    return loss.item(), accuracy.item(), norm.item()


@torch.no_grad()
def first_bad(model: Transformer, batch: Batch, noise: int, what: str) -> tuple[str, str]:
    """The first tensor that is not finite, and what it holds: of the ledger of the same forward run again, else the
    loss, else of the gradients, in the order of the parameters."""
    model.noise.reseed(noise)
    with trace(model) as ledger:
        ask(model, batch)
    for entry in ledger:
        if not entry.value.isfinite().all():
            return entry.key, bad_value(entry.value)
    if what == "gradient":
        for name, parameter in model.named_parameters():
            if parameter.grad is not None and not parameter.grad.isfinite().all():
                return f"the gradient of {name}", bad_value(parameter.grad)
        return "the norm of all gradients", "a number too large for its dtype"
    return "the loss", "a number too large for its dtype"


def bad_value(tensor: Tensor) -> str:
    return "NaN" if tensor.isnan().any() else "infinity"


@torch.no_grad()
def evaluate(model: Transformer, task: Task, n: int, seed: int) -> Evaluation:
    """Asks ``n`` questions that no training run of the same seed is asked, in evaluation mode.

    A training run between whose steps it is called does not feel it. Afterwards the model is in the mode in which it was.

    Raises:
        ValueError: the model does not fit the task.
        ConfigError: ``n`` or ``seed`` is no whole number, or out of range.
    """
    task.check(model.config)
    questions = torch.Generator().manual_seed(HELD_OUT + check_whole("seed", seed, 0, MAX_SEED))
    sizes = [min(CHUNK, n - done) for done in range(0, check_whole("n", n, 1, MAX_QUESTIONS), CHUNK)]
    loss = accuracy = matches = total = 0.0
    with evaluating(model):
        for size in sizes:
            batch = task.sample(size, questions)
            n_targets = count_tokens(model, batch)[1]
            mean_loss, mean_accuracy = loss_and_accuracy(model, batch)
            loss, accuracy = loss + mean_loss.item() * n_targets, accuracy + mean_accuracy.item() * n_targets
            matches += int(task.exact_match(predict(model, batch), targets(model, batch)[0]).sum())
            total += n_targets
    return Evaluation(accuracy / total, matches / n, loss / total)


@torch.no_grad()
def predict(model: Transformer, batch: Batch) -> Tensor:
    """The model's own answers: one class each, or tokens that it writes greedily, as many as the longest label has."""
    labels, _ = targets(model, batch)
    if labels.dim() == 1:
        with evaluating(model):
            return ask(model, batch).argmax(dim=-1)
    if batch.src is None:
        raise ValueError("the batch has no source, so there is nothing to answer")
    return greedy(model, batch.src, max_length=labels.shape[1])


def ask(model: Transformer, batch: Batch) -> Tensor:
    """The logits for a batch, which is brought to the model's device."""
    device = device_of(model)
    return model(*(None if side is None else side.to(device) for side in (batch.src, batch.tgt)))


def targets(model: Transformer, batch: Batch) -> tuple[Tensor, int | None]:
    """The labels on the model's device, and which of them is padding: none when they are classes, where 0 is one."""
    if batch.labels is None:
        raise ValueError("the batch has no labels, so there is nothing to learn from it")
    return batch.labels.to(device_of(model)), model.config.pad_id if batch.labels.dim() == 2 else None


def count_tokens(model: Transformer, batch: Batch) -> tuple[int, int]:
    """How many tokens of source and target are real, and how many labels are."""
    labels, pad_id = targets(model, batch)
    n_targets = labels.numel() if pad_id is None else int((labels != pad_id).sum())
    read = 0 if batch.src is None else int((batch.src != model.config.pad_id).sum())
    return read + (n_targets if pad_id is not None else 0), n_targets


def device_of(model: nn.Module) -> torch.device:
    return next(model.parameters()).device
