"""One update (section 5.3): the gradient of a batch's loss, its norm, and a move of every weight against it."""

import math
from collections.abc import Iterable, Mapping
from functools import cache

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_core.batches import Batch
from transformer_core.config import TrainConfig
from transformer_core.ledger import trace
from transformer_core.model import Transformer
from transformer_core.training.loss import ask, loss_and_accuracy


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


def layer_norms(gradients: Mapping[str, Tensor]) -> dict[str, float]:
    """√(Σ g²) over the gradients of each part of a model, by their parameters' names; the parts are ``part_of``'s.

    >>> gradients = {"output.weight": torch.tensor([3.0, 4.0]), "output.bias": torch.tensor([12.0])}
    >>> layer_norms(gradients)
    {'output': 13.0}
    """
    squares: dict[str, float] = {}
    if gradients:
        norms = torch.stack(torch._foreach_norm(list(gradients.values()))).tolist()
        for name, norm in zip(gradients, norms, strict=True):
            part = part_of(name)
            squares[part] = squares.get(part, 0.0) + norm * norm
    return {part: math.sqrt(square) for part, square in squares.items()}


@cache
def part_of(parameter: str) -> str:
    """The part of a model to which a parameter belongs: a layer, a final norm, or what stands before and behind them.

    >>> [part_of(name) for name in ("encoder.layers.1.feed_forward.w_1.bias", "decoder.norm.weight", "output.bias")]
    ['encoder.layers.1', 'decoder.norm', 'output']
    """
    path = parameter.split(".")
    return ".".join(path[: 3 if path[1] == "layers" else 2 if path[0] in ("encoder", "decoder") else 1])


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


def take_step(
    model: Transformer, batch: Batch, optimizer: torch.optim.Optimizer, config: TrainConfig, step: int,
    step_rate: float, noise: int,
) -> tuple[float, float, float, dict[str, float]]:  # fmt: skip
    """weight ← weight - rate · direction, the direction being what the optimizer makes of the gradient.

    Gives loss, accuracy, gradient norm and the norm of each part, both before clipping. Loss and gradient are looked
    at before anything moves, since one NaN would stay in the optimizer's averages for good.

    Raises:
        NonFinite: one of them is not finite; weights, optimizer and running means are as they were.
    """
    # The running means of a batch norm move in the forward already.
    moving = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]
    kept = [(buffer, buffer.clone()) for module in moving for buffer in module.buffers()]

    model.train()
    model.noise.reseed(noise)
    optimizer.zero_grad()
    with torch.enable_grad():
        loss, accuracy = loss_and_accuracy(model, batch, config.label_smoothing)
        loss.backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    norms = layer_norms(gradients)
    norm = clip_gradients(gradients.values(), config.clip_norm)

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
    return loss.item(), accuracy.item(), norm.item(), norms


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
