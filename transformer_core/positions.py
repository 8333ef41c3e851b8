"""Positions (section 3.5): attention alone cannot tell the order of its keys, so each place adds its own vector.

Rotary positions and linear biases act inside attention instead and are not built.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_core.ledger import note


def sinusoidal(max_len: int, d_model: int, dtype: torch.dtype = torch.float32) -> Float[Tensor, "n D"]:
    r"""PE(p, 2i) = sin(p / 10000^(2i / D)), PE(p, 2i + 1) = cos(p / 10000^(2i / D)) (section 3.5).

    Each pair of columns is the hand of a clock; the first turns once in 2π positions, the last in 2π · 10000^(1 - 2/D),
    for a large D close to the paper's 10000 · 2π.
    Angles are computed in float64 and rounded once at the end: in bfloat16, position 257 itself would already be wrong.

    Differs from the paper: an odd ``d_model`` is allowed; the last sine then has no cosine.

    >>> sinusoidal(2, 4)[1].tolist()
    [0.8414709568023682, 0.5403022766113281, 0.009999833069741726, 0.9999499917030334]

    Raises:
        ValueError: ``max_len`` or ``d_model`` is not positive.
    """
    if max_len < 1 or d_model < 1:
        raise ValueError(f"a table of {max_len} positions by {d_model} features is empty; both must be at least 1")
    position = torch.arange(max_len, dtype=torch.float64, device="cpu")
    even = torch.arange(0, d_model, 2, dtype=torch.float64, device="cpu")
    angle = position[:, None] * 10000.0 ** (-even / d_model)
    waves = torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1)  # sin, cos, sin, cos, ...
    return waves[:, :d_model].to(dtype)


class Positions(nn.Module):
    """x + table[:n]. What the table holds is the only difference between the kinds."""

    weight: Tensor

    def forward(self, x: Float[Tensor, "B n D"]) -> Float[Tensor, "B n D"]:
        """The input with the vector of its place added to each token.

        Raises:
            ValueError: the sequence is longer than the table.
        """
        length, max_len = x.shape[1], self.weight.shape[0]
        if length > max_len:
            raise ValueError(f"{length} positions do not fit in max_seq_len {max_len}; raise max_seq_len")
        positions = self.weight[:length]
        note("positions", positions, "n D")
        return x + positions


class SinusoidalPositions(Positions):
    """Fixed waves (section 3.5). Nothing here is learned, so the table is no parameter and is not saved."""

    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        self.register_buffer("weight", torch.empty(max_len, d_model), persistent=False)
        self.reset()

    def reset(self) -> None:
        """Fills the table; needed again after the module was built without storage."""
        if not self.weight.is_meta:
            max_len, d_model = self.weight.shape
            self.weight.copy_(sinusoidal(max_len, d_model, self.weight.dtype))


class LearnedPositions(Positions):
    """One trained vector per place (section 3.5: nearly identical results; table 3, row E)."""

    def __init__(self, max_len: int, d_model: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(max_len, d_model))
        self.reset()

    def reset(self, generator: torch.Generator | None = None) -> None:
        """Draws the table anew: normal, with the spread of an embedding."""
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5, generator=generator)


class NoPositions(nn.Module):
    """x. Attention then treats its keys as a set: permuting them changes nothing."""

    def forward(self, x: Float[Tensor, "B n D"]) -> Float[Tensor, "B n D"]:
        return x


def make_positions(kind: str, max_len: int, d_model: int) -> nn.Module:
    """The module for a name in ModelConfig.positions.

    Raises:
        ValueError: the name is none of sinusoidal, learned, none.
    """
    if kind == "sinusoidal":
        return SinusoidalPositions(max_len, d_model)
    if kind == "learned":
        return LearnedPositions(max_len, d_model)
    if kind == "none":
        return NoPositions()
    raise ValueError(f"positions {kind!r} are not known; sinusoidal, learned and none are")
