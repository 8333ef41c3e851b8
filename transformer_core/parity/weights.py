"""Our weights in torch's modules and back, by name.

| ours             | torch.nn                                                         |
|------------------|------------------------------------------------------------------|
| attention        | MultiheadAttention                                               |
| encoder layer    | TransformerEncoderLayer                                          |
| decoder layer    | TransformerDecoderLayer; without cross-attention, an EncoderLayer |
| encoder, decoder | TransformerEncoder, TransformerDecoder                           |
| whole model      | Transformer; of one side only, a TransformerEncoder              |

Which of them a module is shows in its parts (``w_q``, ``feed_forward``, ``layers``), so that a copy of our classes
with one line changed is translated like the library's own. torch's modules of the whole model have no embeddings and
no output layer: they begin behind the one and end before the other.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

SUBLAYERS = {"self_attention": "self_attn", "cross_attention": "multihead_attn", "feed_forward": ""}
"""The sub-layers in the order of use, with torch's names; torch's feed-forward network has none of its own."""


class NoCounterpart(ValueError):
    """torch.nn has no module that computes the same function."""


def to_torch(ours: nn.Module, *, final_norm: str = "same", nested: bool = False) -> nn.Module:
    """torch's module for ``ours``, with copies of its weights, in its dtype, on its device and in its mode.

    Dropout stands where ours does. With ``final_norm`` "torch" each stack has a norm at its end, as nn.Transformer
    always makes it, gain 1 and bias 0 where ours has none. ``nested`` is nn.TransformerEncoder's
    enable_nested_tensor, which skips padding in evaluation.

    Raises:
        NoCounterpart: torch has no module for it; the text says why.
        ValueError: ``final_norm`` is neither "same" nor "torch".
    """
    if final_norm not in ("same", "torch"):
        raise ValueError(f"final_norm {final_norm!r} is not known; same and torch are")
    theirs = _skeleton(ours, final_norm == "torch", nested)
    some, state = next(ours.parameters()), torch_state(ours)
    for name, empty in theirs.state_dict().items():  # the norms that ours has not
        state.setdefault(name, torch.full(empty.shape, float(name.endswith("weight"))))
    theirs.to_empty(device=some.device).to(some.dtype).load_state_dict(state)
    return theirs.train(ours.training)


def torch_state(ours: nn.Module) -> dict[str, Tensor]:
    """Our weights under torch's names, for ``load_state_dict`` of a module made by hand."""
    own = ours.state_dict()
    return {name: torch.cat([own[part] for part in parts]) for name, parts in names(ours).items()}


def load_from_torch(ours: nn.Module, theirs: nn.Module) -> None:
    """The way back: copies torch's weights into ours, by name.

    Raises:
        NoCounterpart: the two are not built alike; the text names the first difference.
    """
    wanted, given = _construction(_skeleton(ours, False, False)), _construction(theirs)
    for what in dict.fromkeys([*wanted, *given]):
        mine, its = wanted.get(what, "absent"), given.get(what, "absent")
        if mine != its:
            raise NoCounterpart(f"{what} is {its} in torch's module and {mine} in ours; both must be built alike")
    own, state = ours.state_dict(), theirs.state_dict()
    with torch.no_grad():
        for name, parts in names(ours).items():
            for part, value in zip(parts, state[name].chunk(len(parts)), strict=True):
                own[part].copy_(value)


def names(ours: nn.Module) -> dict[str, tuple[str, ...]]:
    """torch's name of each parameter -> our parameters that it holds, one below the other.

    >>> names(nn.ModuleDict({each: nn.Linear(2, 2, bias=False) for each in ("w_q", "w_k", "w_v", "w_o")}))
    {'in_proj_weight': ('w_q.weight', 'w_k.weight', 'w_v.weight'), 'out_proj.weight': ('w_o.weight',)}
    """
    return dict(_names(ours, "", ""))


def sides(model: nn.Module) -> tuple[str, ...]:
    """Which of encoder and decoder a whole model has."""
    return tuple(side for side in ("encoder", "decoder") if hasattr(model, side))


def _has(ours: nn.Module, part: str) -> bool:
    return part in dict(ours.named_children())


def _names(module: Any, ours: str, theirs: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    if _has(module, "w_q"):
        for part in _parts(module.w_q):
            yield f"{theirs}in_proj_{part}", tuple(f"{ours}{each}.{part}" for each in ("w_q", "w_k", "w_v"))
        yield from _plain(module.w_o, f"{ours}w_o", f"{theirs}out_proj")
    elif _has(module, "feed_forward"):
        present = [each for each in SUBLAYERS if _has(module, each)]
        for each in present[:-1]:
            yield from _names(getattr(module, each), f"{ours}{each}.", f"{theirs}{SUBLAYERS[each]}.")
        for number in (1, 2):
            inner = getattr(module.feed_forward, f"w_{number}")
            yield from _plain(inner, f"{ours}feed_forward.w_{number}", f"{theirs}linear{number}")
        for number, each in enumerate(present, 1):
            yield from _plain(getattr(module, f"{each}_norm"), f"{ours}{each}_norm", f"{theirs}norm{number}")
    elif _has(module, "layers"):
        for number, layer in enumerate(module.layers):
            yield from _names(layer, f"{ours}layers.{number}.", f"{theirs}layers.{number}.")
        if module.norm is not None:
            yield from _plain(module.norm, f"{ours}norm", f"{theirs}norm")
    else:
        both = len(sides(module)) == 2
        for side in sides(module):
            yield from _names(getattr(module, side), f"{ours}{side}.", f"{theirs}{side}." if both else theirs)


def _plain(module: nn.Module, ours: str, theirs: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    """A module whose parameters have the same names on both sides: Linear, LayerNorm."""
    for part in _parts(module):
        yield f"{theirs}.{part}", (f"{ours}.{part}",)


def _parts(module: nn.Module) -> list[str]:
    return [part for part, _ in module.named_parameters()]


def _skeleton(ours: Any, norm_at_end: bool, nested: bool) -> nn.Module:
    """torch's module without numbers: nothing is drawn, so torch's global generator does not move."""
    if _has(ours, "w_q"):
        return _attention(ours)
    if _has(ours, "feed_forward"):
        return _layer(ours)
    if _has(ours, "layers"):
        return _stack(ours, norm_at_end, nested)
    stacks = {side: _stack(getattr(ours, side), norm_at_end, nested) for side in sides(ours)}
    if not stacks:
        raise NoCounterpart(f"{type(ours).__name__} is none of attention, layer, encoder, decoder and model")
    if len(stacks) == 1:
        return next(iter(stacks.values()))
    first = ours.encoder.layers[0].self_attention
    width = first.w_o.out_features
    custom: dict[str, Any] = {f"custom_{side}": stack for side, stack in stacks.items()}
    return nn.Transformer(width, first.n_heads, dropout=0.0, batch_first=True, device="meta", **custom)


def _attention(ours: Any) -> nn.Module:
    if not ours.scale:
        raise NoCounterpart("scores that are not divided by √d_head (scale_scores false) cannot be had in torch.nn")
    biases = [each.bias is not None for each in (ours.w_q, ours.w_k, ours.w_v, ours.w_o)]
    if len(set(biases)) > 1:
        raise NoCounterpart("nn.MultiheadAttention has biases in all four projections or in none, not in some")
    theirs = nn.MultiheadAttention(
        ours.w_q.in_features, ours.n_heads, _rate(ours.dropout), bias=biases[0], batch_first=True, device="meta"
    )
    theirs.dropout = _rate(ours.dropout)
    return theirs


def _layer(ours: Any) -> nn.Module:
    cross, inner, rate = _has(ours, "cross_attention"), ours.feed_forward, _rate(ours.dropout)
    self_attn = _attention(ours.self_attention)
    biases = [ours.self_attention.w_o.bias is not None, inner.w_1.bias is not None, inner.w_2.bias is not None]
    if len(set(biases)) > 1:
        raise NoCounterpart("torch's layers have biases in all matrices or in none, not in some")
    kind = nn.TransformerDecoderLayer if cross else nn.TransformerEncoderLayer
    theirs: Any = kind(
        ours.self_attention.w_q.in_features, ours.self_attention.n_heads, inner.w_1.out_features, rate,
        activation=_activation(inner.activation), norm_first=ours.norm_order == "pre", bias=biases[0],
        batch_first=True, device="meta",
    )  # fmt: skip
    theirs.self_attn, theirs.dropout.p = self_attn, 0.0  # inside the feed-forward network the paper has no dropout
    if cross:
        theirs.multihead_attn = _attention(ours.cross_attention)
    present = [each for each in SUBLAYERS if _has(ours, each)]
    for number, each in enumerate(present, 1):  # of its own: bias=False would take the bias out of torch's norms too
        setattr(theirs, f"norm{number}", _norm(getattr(ours, f"{each}_norm")))
    return theirs


def _stack(ours: Any, norm_at_end: bool, nested: bool) -> nn.Module:
    layers: list[Any] = [_layer(each) for each in ours.layers]
    norm = _norm(ours.norm) if ours.norm is not None else None
    if norm is None and norm_at_end:
        norm = _norm(ours.layers[0].feed_forward_norm)
    if _has(ours.layers[0], "cross_attention"):
        theirs: Any = nn.TransformerDecoder(layers[0], 1, norm)
    else:
        with warnings.catch_warnings():  # torch warns where it cannot use nested tensors, and goes on without
            warnings.filterwarnings("ignore", message="enable_nested_tensor")
            theirs = nn.TransformerEncoder(layers[0], 1, norm, enable_nested_tensor=nested)
    theirs.layers, theirs.num_layers = nn.ModuleList(layers), len(layers)
    return theirs


def _norm(ours: nn.Module) -> nn.LayerNorm:
    if type(ours) is not nn.LayerNorm:
        raise NoCounterpart(f"torch's layers normalise with LayerNorm; {type(ours).__name__} has no place in them")
    return nn.LayerNorm(ours.normalized_shape, ours.eps, bias=ours.bias is not None, device="meta")


def _rate(dropout: Any) -> float:
    return 0.0 if dropout is None else float(dropout.p)


def _activation(function: Any) -> str:
    """relu or gelu, from a module or a function."""
    name = type(function).__name__.lower() if isinstance(function, nn.Module) else str(function.__name__)
    if name not in ("relu", "gelu") or getattr(function, "approximate", "none") != "none":
        raise NoCounterpart(f"the activation {function} is neither ReLU nor the exact GELU")
    return name


def _construction(module: nn.Module) -> dict[str, str]:
    """What the weights alone do not tell about one of torch's modules, and their shapes."""
    found = {"the module": type(module).__name__}
    for path, each in module.named_modules():
        at = f" of {path}" if path else ""
        if isinstance(each, nn.TransformerEncoder | nn.TransformerDecoder):
            found[f"the number of layers{at}"] = str(each.num_layers)
            found[f"the norm at the end{at}"] = "present" if each.norm is not None else "absent"
        elif isinstance(each, nn.TransformerEncoderLayer | nn.TransformerDecoderLayer):
            found[f"the norm order{at}"] = "pre" if each.norm_first else "post"
            found[f"the activation{at}"] = _activation(each.activation)
        elif isinstance(each, nn.MultiheadAttention):
            found[f"the number of heads{at}"] = str(each.num_heads)
            found[f"the extra key of zeros{at}"] = "present" if each.add_zero_attn else "absent"
        elif isinstance(each, nn.LayerNorm):
            found[f"eps{at}"] = f"{each.eps:g}"
    return found | {name: _shape(value) for name, value in module.state_dict().items()}


def _shape(value: Tensor) -> str:
    return " x ".join(map(str, value.shape))
