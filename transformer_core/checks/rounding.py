"""How far rounding alone may take a number from what it should be."""

import math

import torch
from torch import Tensor

ROW_SUM = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}
"""How far a sum of probabilities may be from 1: in half precision one unit in the last place of 1."""
RELATIVE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2.0**-5, torch.float16: 2.0**-8}
"""How far a tensor may be from the same formula computed another way, as a part of its largest number."""
NORMED = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 2.0**-5, torch.float16: 2.0**-7}
"""How far mean and variance after a norm may be off."""
SQUARES = {torch.float64: 1e-9, torch.float32: 1e-3, torch.bfloat16: 2.0**-4, torch.float16: 2.0**-6}
"""How far a mean of squares may be off, as a part of it: scores of nearly orthogonal q and k are small differences."""


def wide(value: Tensor) -> Tensor:
    """The same numbers in a dtype that does not round their sums."""
    return value if value.dtype == torch.float64 else value.float()


def relative(got: Tensor, wanted: Tensor) -> Tensor:
    """max |got - wanted| / max |wanted|; tensors of different shapes are infinitely far apart.

    >>> relative(torch.tensor([3.0, 4.5]), torch.tensor([3.0, 5.0])).item()
    0.10000000149011612
    """
    if got.shape != wanted.shape:
        return torch.tensor(math.inf, device=got.device)
    return (got - wanted).abs().max() / wanted.abs().max().clamp_min(1e-30)
