"""Our weights under the names that torch.nn gives them, for the tests that compare the two."""

import torch
from torch import Tensor, nn

from transformer_core.attention import MultiHeadAttention
from transformer_core.layers import Layer
from transformer_core.model import Transformer


def plain(at: str, ours: nn.Module) -> dict[str, Tensor]:
    """A module whose parameters have the same names on both sides: Linear, LayerNorm."""
    return {f"{at}.{name}": value for name, value in ours.state_dict().items()}


def attention(at: str, ours: MultiHeadAttention) -> dict[str, Tensor]:
    """nn.MultiheadAttention keeps the three input projections in one tensor."""
    inputs = (ours.w_q, ours.w_k, ours.w_v)
    return {
        f"{at}in_proj_weight": torch.cat([linear.weight for linear in inputs]),
        f"{at}in_proj_bias": torch.cat([linear.bias for linear in inputs]),
        **plain(f"{at}out_proj", ours.w_o),
    }


def layer(ours: Layer, at: str = "") -> dict[str, Tensor]:
    """nn.TransformerEncoderLayer or nn.TransformerDecoderLayer, whose norms are numbered in the order of use."""
    state = attention(f"{at}self_attn.", ours.self_attention)
    names = [name for name in ("self_attention", "cross_attention", "feed_forward") if hasattr(ours, name)]
    if "cross_attention" in names:
        state |= attention(f"{at}multihead_attn.", ours.cross_attention)
    state |= plain(f"{at}linear1", ours.feed_forward.w_1) | plain(f"{at}linear2", ours.feed_forward.w_2)
    for number, name in enumerate(names, 1):
        state |= plain(f"{at}norm{number}", getattr(ours, f"{name}_norm"))
    return state


def transformer(ours: Transformer) -> dict[str, Tensor]:
    """nn.Transformer, which always has a norm after each stack."""
    state = {}
    for side, stack in (("encoder", ours.encoder), ("decoder", ours.decoder)):
        for number, each in enumerate(stack.layers):
            state |= layer(each, f"{side}.layers.{number}.")
        state |= plain(f"{side}.norm", stack.norm)
    return state
