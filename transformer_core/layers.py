"""Encoder and decoder layers (section 3.1): sub-layers, each with a residual connection and a normalisation.

Post-norm, as in the paper:  x ← norm(x + dropout(sublayer(x)))
Pre-norm:                    x ← x + dropout(sublayer(norm(x)))
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_core.attention import MultiHeadAttention
from transformer_core.config import ModelConfig
from transformer_core.ledger import note


class Noise:
    """The random numbers of one model's dropout, apart from everyone else's.

    Two runs in one process, each with its own noise, cannot disturb each other; the same seed repeats a run.
    """

    def __init__(self, seed: int = 0) -> None:
        self.reseed(seed)

    def reseed(self, seed: int) -> None:
        """Starts the sequence again."""
        self.seed = seed
        self._generators: dict[torch.device, torch.Generator] = {}

    def generator(self, device: torch.device) -> torch.Generator:
        if device not in self._generators:
            self._generators[device] = torch.Generator(device).manual_seed(self.seed)
        return self._generators[device]


class Dropout(nn.Module):
    """Sets each number to 0 with probability p and divides the others by 1 - p (section 5.4). In evaluation: x.

    Differs from nn.Dropout: the random numbers come from ``noise`` instead of torch's global generator.
    """

    def __init__(self, p: float, noise: Noise) -> None:
        super().__init__()
        self.p, self.noise = p, noise

    def forward(self, x: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
        if not self.training or self.p == 0 or x.is_meta:
            return x
        drop = torch.rand(x.shape, device=x.device, generator=self.noise.generator(x.device)) < self.p
        return x.masked_fill(drop, 0.0) / (1 - self.p)


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2, at each position alone (equation 2). GELU may stand in for the maximum."""

    def __init__(self, d_model: int, d_ff: int, activation: str = "relu", bias: bool = True) -> None:
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff, bias=bias)
        self.w_2 = nn.Linear(d_ff, d_model, bias=bias)
        self.activation = nn.GELU() if activation == "gelu" else nn.ReLU()

    def forward(self, x: Float[Tensor, "B n D"]) -> Float[Tensor, "B n D"]:
        hidden = self.activation(self.w_1(x))
        note("hidden", hidden, "B n F")
        output = self.w_2(hidden)
        note("output", output, "B n D")
        return output


class TokenBatchNorm(nn.BatchNorm1d):
    """Normalises each feature over all tokens of the batch, padding included; for comparison with LayerNorm."""

    def forward(self, x: Float[Tensor, "B n D"]) -> Float[Tensor, "B n D"]:
        return super().forward(x.flatten(0, 1)).view_as(x)


def make_norm(config: ModelConfig) -> nn.Module:
    """The normalisation named in ``config.norm``; the paper's is LayerNorm."""
    if config.norm == "layer":
        return nn.LayerNorm(config.d_model, eps=config.norm_eps)
    if config.norm == "rms":
        return nn.RMSNorm(config.d_model, eps=config.norm_eps)
    if config.norm == "batch":
        return TokenBatchNorm(config.d_model, eps=config.norm_eps)
    return nn.Identity()


class Layer(nn.Module):
    """What encoder and decoder layers share: the way a sub-layer is wrapped."""

    def __init__(self, config: ModelConfig, noise: Noise) -> None:
        super().__init__()
        self.norm_order = config.norm_order
        self.dropout = Dropout(config.dropout, noise)

    def residual(
        self, name: str, x: Float[Tensor, "B n D"], norm: nn.Module, sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "B n D"]:
        """norm(x + sublayer(x)) in post-norm, x + sublayer(norm(x)) in pre-norm (sections 3.1 and 5.4)."""
        if self.norm_order == "post":
            total = x + self.dropout(sublayer(x))
            note(f"{name}_sum", total, "B n D")
            normed = norm(total)
            note(f"{name}_norm", normed, "B n D")
            return normed
        normed = norm(x)
        note(f"{name}_norm", normed, "B n D")
        total = x + self.dropout(sublayer(normed))
        note(f"{name}_sum", total, "B n D")
        return total


class EncoderLayer(Layer):
    """Self-attention, then the feed-forward network (section 3.1, encoder)."""

    def __init__(self, config: ModelConfig, noise: Noise, fill: str = "exclude") -> None:
        super().__init__(config, noise)
        self.self_attention = make_attention(config, noise, fill)
        self.self_attention_norm = make_norm(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation, config.bias)
        self.feed_forward_norm = make_norm(config)

    def forward(self, x: Float[Tensor, "B S D"], allowed: Tensor | None) -> Float[Tensor, "B S D"]:
        x = self.residual("self_attention", x, self.self_attention_norm, lambda x: self.self_attention(x, x, allowed))
        return self.residual("feed_forward", x, self.feed_forward_norm, self.feed_forward)


class DecoderLayer(Layer):
    """Masked self-attention, attention to ``memory``, then the feed-forward network (section 3.1, decoder).

    In cross-attention the queries come from the decoder, keys and values from the encoder (section 3.2.3).
    A decoder-only model has no cross-attention.
    """

    def __init__(self, config: ModelConfig, noise: Noise, fill: str = "exclude", cross: bool = True) -> None:
        super().__init__(config, noise)
        self.self_attention = make_attention(config, noise, fill)
        self.self_attention_norm = make_norm(config)
        if cross:
            self.cross_attention = make_attention(config, noise, fill)
            self.cross_attention_norm = make_norm(config)
        self.feed_forward = FeedForward(config.d_model, config.d_ff, config.activation, config.bias)
        self.feed_forward_norm = make_norm(config)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        allowed: Tensor | None,
        memory: Float[Tensor, "B S D"] | None = None,
        memory_allowed: Tensor | None = None,
    ) -> Float[Tensor, "B T D"]:
        x = self.residual("self_attention", x, self.self_attention_norm, lambda x: self.self_attention(x, x, allowed))
        if memory is not None:
            x = self.residual(
                "cross_attention", x, self.cross_attention_norm,
                lambda x: self.cross_attention(x, memory, memory_allowed),
            )  # fmt: skip
        return self.residual("feed_forward", x, self.feed_forward_norm, self.feed_forward)


def make_attention(config: ModelConfig, noise: Noise, fill: str) -> MultiHeadAttention:
    """One attention as the configuration describes it."""
    return MultiHeadAttention(
        config.d_model, config.n_heads, bias=config.bias, scale=config.scale_scores, fill=fill,
        dropout=Dropout(config.attention_dropout, noise) if config.attention_dropout else None,
    )  # fmt: skip
