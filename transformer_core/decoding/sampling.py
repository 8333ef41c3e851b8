"""Sampling: the next token is drawn, not chosen, and so the same question may have several answers."""

from contextlib import nullcontext

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_core.checked import check_positive, check_whole
from transformer_core.config import BEGIN, END
from transformer_core.decoding.writing import check_can_write, evaluating
from transformer_core.key_value_cache import KeyValueCache
from transformer_core.model import Transformer

MAX_SEED = (1 << 31) - 1
MAX_TEMPERATURE = 100.0


@torch.no_grad()
def sample(
    model: Transformer,
    src: Int[Tensor, "B S"],
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int,
    max_length: int,
    begin_id: int = BEGIN,
    end_id: int = END,
    cache: bool = True,
) -> Int[Tensor, "B n"]:
    """token[t] drawn from ``restricted`` p(v | token[<t], src); otherwise as ``greedy``.

    All random numbers are drawn at first, one for each sentence and place, so that the same seed gives the same answer
    whether or not the neighbours in the batch end early. torch's global generator is not touched.

    Raises:
        ValueError: as ``greedy``.
        ConfigError: ``temperature``, ``top_k``, ``top_p`` or ``seed`` is out of range.
    """
    check_can_write("sample", model, max_length, begin_id, end_id)
    check_sampling(temperature, top_k, top_p)
    generator = torch.Generator().manual_seed(check_whole("seed", seed, 0, MAX_SEED))
    device = model.output.weight.device
    drawn = torch.rand(len(src), max_length, dtype=torch.float64, generator=generator).to(device)
    with evaluating(model):
        src = src.to(device)
        memory = model.encode(src)
        written = torch.full((len(src), 1), begin_id, device=device)
        ended = torch.zeros(len(src), dtype=torch.bool, device=device)
        with KeyValueCache().open() if cache else nullcontext():
            while written.shape[1] <= max_length and not ended.all():
                logits = model.output(model.decode(written, memory, src)[:, -1])
                shares = restricted(logits, temperature, top_k, top_p)
                token = pick(shares, drawn[:, written.shape[1] - 1]).masked_fill(ended, model.config.pad_id)
                written = torch.cat([written, token[:, None]], dim=1)
                ended |= token == end_id
    return written[:, 1:]


def restricted(
    logits: Float[Tensor, "B V"], temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> Float[Tensor, "B V"]:
    """p(v) = softmax(logits / temperature), cut to the likeliest tokens and divided by what is left of it.

    ``top_k`` leaves the k likeliest tokens (Fan et al. 2018); of equally likely ones those with the lower ids.
    ``top_p`` leaves the fewest likeliest ones that together have at least the share p (Holtzman et al. 2020) of what
    ``top_k`` has left. A low temperature sharpens: near 0 it is greedy search, at 1 all is as the model has it, above
    that it becomes more even.

    >>> logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()
    >>> [[round(share, 3) for share in restricted(logits, **how)[0].tolist()] for how in ({"top_k": 2}, {"top_p": 0.9})]
    [[0.625, 0.375, 0.0, 0.0], [0.526, 0.316, 0.158, 0.0]]

    Raises:
        ConfigError: ``temperature``, ``top_k`` or ``top_p`` is out of range.
    """
    check_sampling(temperature, top_k, top_p)
    logits = logits.double() / temperature
    shares = logits.softmax(dim=-1)
    if top_k is None and top_p is None:
        return shares
    falling, order = shares.sort(dim=-1, descending=True, stable=True)
    if top_k is not None:
        falling[:, top_k:] = 0.0
    if top_p is not None:
        falling = falling / falling.sum(dim=-1, keepdim=True)
        before = falling.cumsum(dim=-1) - falling
        falling = falling.masked_fill(before >= top_p, 0.0)  # whoever reaches the share is the last one that stays
    shares = torch.zeros_like(shares).scatter(-1, order, falling)
    return shares / shares.sum(dim=-1, keepdim=True)


def pick(shares: Float[Tensor, "B V"], drawn: Float[Tensor, " B"]) -> Int[Tensor, " B"]:
    """The token in whose stretch of 0..1 the drawn number falls, the stretches lying in the order of the ids.

    >>> pick(torch.tensor([[0.2, 0.0, 0.8]]).expand(3, 3), torch.tensor([0.1, 0.2, 0.999])).tolist()
    [0, 2, 2]
    """
    edges = shares.cumsum(dim=-1)
    edges = edges / edges[:, -1:]  # the last edge is 1 exactly, above every number that can be drawn
    return (edges <= drawn[:, None]).sum(dim=-1)


def check_sampling(temperature: float, top_k: int | None, top_p: float | None) -> None:
    """Passes for a temperature above 0, a whole top_k from 1, and a top_p above 0 and at most 1.

    Raises:
        ConfigError: one of them is out of range. A temperature of 0 would divide by it; greedy search is its limit.
    """
    check_positive("temperature", temperature, MAX_TEMPERATURE)
    if top_k is not None:
        check_whole("top_k", top_k, 1, 1 << 24)
    if top_p is not None:
        check_positive("top_p", top_p, 1.0)
