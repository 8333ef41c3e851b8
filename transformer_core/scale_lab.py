"""Why scores are divided by √d_head (section 3.2.1), measured from d_head 1 to 512.

The components of q and k are drawn with mean 0 and variance 1. Then q·k is a sum of d_head products of variance 1 each:
its variance is d_head, its standard deviation √d_head. Undivided, a wide head has scores so far apart that the softmax
is nearly 1 for one key and 0 for the others. There it is flat: whatever the loss says, hardly any gradient comes back.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

D_HEADS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)
"""The shares of scores below the numbers in ``ScaleRow.quantiles``."""


@dataclass(frozen=True)
class ScaleRow:
    """One width, with the division or without: what the scores, the weights and the gradient are like on average.

    ``std`` is that of the scores. ``entropy`` is in nats and at most ln ``n_keys``; ``largest`` is the mean of the
    largest weight of each row, at least 1 / ``n_keys``. ``gradient`` is the size of the loss's gradient behind the
    softmax over its size before it, the mean over rows.
    """

    d_head: int
    scaled: bool
    n_keys: int
    std: float
    quantiles: tuple[float, ...]
    entropy: float
    largest: float
    gradient: float

    def to_row(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def scale_table(
    d_heads: Sequence[int] = D_HEADS, seed: int = 7, *, n_queries: int = 128, n_keys: int = 16
) -> list[ScaleRow]:
    """For each width a row without the division and one with it, on the same q and k.

    >>> plain, divided = scale_table([64])
    >>> 7 < plain.std < 9, 0.9 < divided.std < 1.1, plain.largest > divided.largest, plain.gradient < divided.gradient
    (True, True, True, True)

    Raises:
        ValueError: a width or a number of queries or keys is below 1.
    """
    if min(*d_heads, n_queries, n_keys, 1) < 1:
        raise ValueError("d_head and the numbers of queries and keys must be at least 1")
    rows = []
    for d_head in d_heads:
        draw = torch.Generator().manual_seed(seed)
        q = torch.randn(n_queries, 1, d_head, generator=draw, dtype=torch.float64)
        k = torch.randn(n_queries, n_keys, d_head, generator=draw, dtype=torch.float64)  # of its own for each query
        wish = torch.randn(n_queries, n_keys, generator=draw, dtype=torch.float64)
        dots = (q * k).sum(dim=-1)
        for scaled in (False, True):
            rows.append(_row(d_head, scaled, dots / math.sqrt(d_head) if scaled else dots, wish))
    return rows


def _row(d_head: int, scaled: bool, scores: torch.Tensor, wish: torch.Tensor) -> ScaleRow:
    """``wish`` is the gradient that the loss has for the weights; the softmax passes on what it can of it."""
    scores = scores.detach().requires_grad_()
    weights = scores.softmax(dim=-1)
    (gradient,) = torch.autograd.grad(weights, scores, wish)
    numbers = scores.detach()
    cuts = torch.quantile(numbers.flatten(), torch.tensor(QUANTILES, dtype=numbers.dtype))
    return ScaleRow(
        d_head=d_head,
        scaled=scaled,
        n_keys=scores.shape[-1],
        std=float(numbers.std()),
        quantiles=tuple(cuts.tolist()),
        entropy=float(torch.special.entr(weights.detach()).sum(dim=-1).mean()),
        largest=float(weights.detach().amax(dim=-1).mean()),
        gradient=float((gradient.norm(dim=-1) / wish.norm(dim=-1)).mean()),
    )
