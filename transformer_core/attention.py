"""Attention (section 3.2). Axes: B batch, H heads, q queries, k keys, D d_model, Dh d_head = D / H."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_core.config import FILLS, divisors
from transformer_core.errors import join
from transformer_core.key_value_cache import remembered
from transformer_core.ledger import note


def attend(
    q: Float[Tensor, "B H q Dh"],
    k: Float[Tensor, "B H k Dh"],
    v: Float[Tensor, "B H k Dh"],
    allowed: Tensor | None = None,
    *,
    fill: str = "exclude",
    scale: bool = True,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Float[Tensor, "B H q Dh"], Float[Tensor, "B H q k"]]:
    """softmax(q kᵀ / √d_head) v over the pairs where ``allowed`` is True (equation 1). Returns context and weights.

    ``allowed`` broadcasts to B H q k; None lets every query see every key. ``dropout`` acts on what is multiplied
    with v; the weights that are returned and noted are the softmax itself.

    Equal scores average the values that may be seen:

    >>> q, k, v = torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 3, 2), torch.tensor([[[[1.0, 0], [3, 8], [99, 99]]]])
    >>> context, weights = attend(q, k, v, torch.tensor([True, True, False]))
    >>> weights.tolist(), context.tolist()
    ([[[[0.5, 0.5, 0.0]]]], [[[[2.0, 4.0]]]])

    Raises:
        ValueError: ``allowed`` is not boolean or does not broadcast to the scores, or ``fill`` is unknown.
    """
    note("q", q, "B H q Dh")
    note("k", k, "B H k Dh")
    note("v", v, "B H k Dh")

    scores = q @ k.transpose(-2, -1)
    if scale:
        scores = scores / math.sqrt(q.shape[-1])
    note("scores", scores, "B H q k")

    check_allowed(allowed, scores)
    note("allowed", lambda: visible_pairs(allowed, scores), "B H q k")

    weights = masked_softmax(scores, allowed, fill)
    note("weights", weights, "B H q k")

    context = (weights if dropout is None else dropout(weights)) @ v
    note("heads", context, "B H q Dh")
    return context, weights


def masked_softmax(
    scores: Float[Tensor, "*b q k"], allowed: Tensor | None, fill: str = "exclude"
) -> Float[Tensor, "*b q k"]:
    """exp(s) / Σ exp(s), over the allowed keys only (section 3.2.3: the others are set to -∞ before the softmax).

    The highest score is taken off first, which changes no quotient and lets no exponential overflow; one of the
    exponentials is then exp(0) = 1. So the sum is below 1 for one kind of row only, a query without any visible key,
    and raising it to 1 gives that row weights 0 / 1 = 0, forward and backward finite, and touches no other.

    This is the fill ``exclude``. The others are what is often written instead, kept so that one can see what they do
    with such a row: ``-inf`` gives NaN, ``finfo_min`` and ``-1e9`` give attention to padding.

    >>> masked_softmax(torch.zeros(2, 3), torch.tensor([[True, True, False], [False, False, False]])).tolist()
    [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]]

    Raises:
        ValueError: ``fill`` is unknown, or -1e9 does not fit the dtype.
    """
    if fill not in FILLS:
        raise ValueError(f"fill {fill!r} is not known; {', '.join(FILLS)} are")
    if allowed is None:
        return scores.softmax(dim=-1)
    if fill == "exclude":
        visible = scores.masked_fill(~allowed, -math.inf)
        highest = visible.detach().amax(dim=-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
        exps = (visible - highest).exp()
        return exps / exps.sum(dim=-1, keepdim=True).clamp(min=1.0)
    lowest = torch.finfo(scores.dtype).min
    if fill == "-1e9" and lowest > -1e9:
        dtype = str(scores.dtype).removeprefix("torch.")
        raise ValueError(f"fill -1e9 does not fit in {dtype}, whose lowest number is {lowest:g}; use exclude or -inf")
    hidden_score = {"-inf": -math.inf, "finfo_min": lowest, "-1e9": -1e9}[fill]
    return scores.masked_fill(~allowed, hidden_score).softmax(dim=-1)


class MultiHeadAttention(nn.Module):
    """Concat(head_1, ..., head_H) W_o, head_i = attend(x W_q,i, memory W_k,i, memory W_v,i) (section 3.2.2).

    In self-attention ``memory`` is ``x`` itself; in cross-attention it is the output of the encoder.
    The H projections to d_head are the column blocks of one W (the rows of ``w_q.weight``: nn.Linear keeps it
    transposed).

    Differs from the paper: each projection also adds a bias; ``bias=False`` takes it away.

    Raises:
        ValueError: ``n_heads`` does not divide ``d_model``, or ``fill`` is unknown.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        *,
        bias: bool = True,
        scale: bool = True,
        fill: str = "exclude",
        dropout: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        if n_heads < 1 or d_model % n_heads:
            counts = divisors(d_model)
            near = join([n for n in counts if n < n_heads][-1:] + [n for n in counts if n > n_heads][:1])
            raise ValueError(f"d_model {d_model} is not divisible by {n_heads} heads; the nearest that divide: {near}")
        if fill not in FILLS:
            raise ValueError(f"fill {fill!r} is not known; {', '.join(FILLS)} are")
        self.n_heads, self.scale, self.fill, self.dropout = n_heads, scale, fill, dropout
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)

    def forward(
        self, x: Float[Tensor, "B q D"], memory: Float[Tensor, "B k D"], allowed: Tensor | None = None
    ) -> Float[Tensor, "B q D"]:
        q = self.split(self.w_q(x))
        k = self.split(self.w_k(memory))
        v = self.split(self.w_v(memory))
        k, v = remembered(self, k, v)
        heads, _ = attend(q, k, v, allowed, fill=self.fill, scale=self.scale, dropout=self.dropout)
        output = self.w_o(self.merge(heads))
        note("output", output, "B q D")
        return output

    def split(self, x: Float[Tensor, "B n D"]) -> Float[Tensor, "B H n Dh"]:
        """Cuts the features into H slices, then brings the heads forward. A bare view to B H n Dh would mix tokens."""
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

    def merge(self, heads: Float[Tensor, "B H n Dh"]) -> Float[Tensor, "B n D"]:
        """Undoes ``split``: heads back beside each other, in their order."""
        return heads.transpose(1, 2).flatten(2)


def check_allowed(allowed: Tensor | None, scores: Tensor) -> None:
    """``allowed`` is None or boolean, and broadcasts to the scores.

    Raises:
        ValueError: it does not, or holds something else.
    """
    if allowed is None:
        return
    if allowed.dtype != torch.bool:
        dtype = str(allowed.dtype).removeprefix("torch.")
        raise ValueError(
            f"allowed must be boolean with True = may attend, got {dtype}; masks.from_additive and .bool() convert"
        )
    try:
        fits = torch.broadcast_shapes(allowed.shape, scores.shape) == scores.shape
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"allowed has shape {tuple(allowed.shape)}, which does not broadcast to the scores {tuple(scores.shape)}; "
            "its last two axes are queries and keys, its first two batch and heads"
        )


def visible_pairs(allowed: Tensor | None, scores: Tensor) -> Tensor:
    """``allowed`` seen at the full shape of the scores, without copying it."""
    if allowed is None:
        return torch.ones((), dtype=torch.bool, device=scores.device).expand(scores.shape)
    return allowed.expand(scores.shape)
