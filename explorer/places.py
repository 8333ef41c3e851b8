"""Figure 1 as data: which blocks a model has, from bottom to top, and in which of them a ledger entry lies.

A block is what one can select in the figure; a group is what folds in the ledger: a sub-layer and what is around it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from transformer_core.config import ModelConfig

_LAYER = re.compile(r"(encoder|decoder)\.layers\.(\d+)(?:\.(self_attention|cross_attention|feed_forward))?")
_RESIDUAL = re.compile(r"(self_attention|cross_attention|feed_forward)_(sum|norm)")
_ENDS = {
    "src": ("src", "src_embedding"),
    "src_embeddings": ("src_embedding", "src_embedding"),
    "src_positions/positions": ("src_positions", "src_embedding"),
    "encoder/input": ("encoder/input", "src_embedding"),
    "encoder/final_norm": ("encoder/final_norm", "encoder"),
    "memory": ("memory", "encoder"),
    "tgt": ("tgt", "tgt_embedding"),
    "tgt_embeddings": ("tgt_embedding", "tgt_embedding"),
    "tgt_positions/positions": ("tgt_positions", "tgt_embedding"),
    "decoder/input": ("decoder/input", "tgt_embedding"),
    "decoder/final_norm": ("decoder/final_norm", "output"),
    "logits": ("logits", "output"),
    "probabilities": ("probabilities", "output"),
}


class Place(NamedTuple):
    """Where an entry lies: its block in the figure, its group in the ledger."""

    block: str
    group: str


def place(path: str, name: str, norm_order: str) -> Place:
    """The block and the group of a ledger entry.

    >>> place("decoder.layers.1.cross_attention", "weights", "post")
    Place(block='decoder.layers.1.cross_attention', group='decoder.layers.1.cross_attention')
    >>> place("decoder.layers.1", "cross_attention_sum", "post").block
    'decoder.layers.1/cross_attention_norm'
    """
    key = f"{path}/{name}" if path else name
    if key in _ENDS:
        return Place(*_ENDS[key])
    if (layer := _LAYER.fullmatch(path)) and layer[3]:
        return Place(path, path)
    if layer and (residual := _RESIDUAL.fullmatch(name)):
        # In post-norm the sum and its norm are one box, "Add & Norm", as the paper draws them.
        block = f"{path}/{residual[1]}_norm" if norm_order == "post" else key
        return Place(block, f"{path}.{residual[1]}")
    return Place(path or name, path or "model")


def most_telling(names: Iterable[str]) -> str:
    """Of the tensors of one block the one to show first: the attention weights, else what the block hands on.

    >>> most_telling(["q", "scores", "weights", "heads", "output"])
    'weights'
    """
    *_, last = known = list(names)
    return "weights" if "weights" in known else last


@dataclass(frozen=True)
class Item:
    """One thing in a tower. ``id`` names its block, with ``{i}`` for the layer; ``kind`` says how it is drawn:
    tokens, block, wave, plus, attention, norm, add, add_norm, ffn or wire."""

    id: str
    kind: str
    label: str = ""
    note: str = ""


@dataclass(frozen=True)
class Tower:
    """One column of the figure: what lies below the layers, the sub-layers of one layer, what lies above."""

    stack: str
    side: str
    layers: int
    below: tuple[Item, ...]
    layer: tuple[tuple[Item, ...], ...]
    above: tuple[Item, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the page."""
        return {
            "stack": self.stack,
            "side": self.side,
            "layers": self.layers,
            "below": _plain(self.below),
            "layer": [_plain(sublayer) for sublayer in self.layer],
            "above": _plain(self.above),
        }


def towers(config: ModelConfig, masked: bool = True) -> tuple[Tower, ...]:
    """The one or two columns of this model's Figure 1; ``masked`` says whether the decoder hides the future."""
    found = []
    if config.has_encoder:
        classes = (
            (*_ends("classifier", config.d_model, config.n_classes),)
            if not config.has_decoder and config.n_classes
            else ()
        )
        above = (*_final_norm("encoder", config), Item("memory", "wire", "memory"), *classes)
        found.append(
            Tower(
                "encoder",
                "src",
                config.n_encoder_layers,
                _below("src", "encoder", config, config.positions != "none"),
                _layer("encoder", ("self_attention", "feed_forward"), config, "self_attention"),
                above,
            )
        )
    if config.has_decoder:
        names = ("self_attention", *(("cross_attention",) if config.has_encoder else ()), "feed_forward")
        positions = config.positions != "none" and config.positions_on_decoder
        above = (*_final_norm("decoder", config), *_ends("linear", config.d_model, config.tgt_vocab_size))
        found.append(
            Tower(
                "decoder",
                "tgt",
                config.n_decoder_layers,
                _below("tgt", "decoder", config, positions),
                _layer("decoder", names, config, "masked_self_attention" if masked else "self_attention"),
                above,
            )
        )
    return tuple(found)


def _below(side: str, stack: str, config: ModelConfig, positions: bool) -> tuple[Item, ...]:
    scale = f"× √{config.d_model}" if config.scale_embedding else ""
    wave = (Item(f"{side}_positions", "wave"),) if positions else ()
    return (
        Item(side, "tokens"),
        Item(f"{side}_embedding", "block", "embedding", scale),
        *wave,
        Item(f"{stack}/input", "plus"),
    )


def _layer(stack: str, names: Iterable[str], config: ModelConfig, first: str) -> tuple[tuple[Item, ...], ...]:
    """The sub-layers in order, each from the residual's start to its end: the place of the norm is the norm order."""
    sublayers = []
    for name in names:
        path = f"{stack}.layers.{{i}}"
        kind = "ffn" if name == "feed_forward" else "attention"
        core = Item(f"{path}.{name}", kind, first if name == "self_attention" else name)
        norm = "norm" if config.norm != "none" else "no_norm"
        if config.norm_order == "post":
            label = "add_norm" if config.norm != "none" else "add"
            sublayers.append((core, Item(f"{path}/{name}_norm", "add_norm", label)))
        else:
            sublayers.append((Item(f"{path}/{name}_norm", "norm", norm), core, Item(f"{path}/{name}_sum", "add")))
    return tuple(sublayers)


def _final_norm(stack: str, config: ModelConfig) -> tuple[Item, ...]:
    return (Item(f"{stack}/final_norm", "norm", "final_norm"),) if config.has_final_norm else ()


def _ends(label: str, width: int, size: int) -> tuple[Item, ...]:
    return Item("logits", "block", label, f"{width} → {size}"), Item("probabilities", "block", "softmax")


def _plain(items: Iterable[Item]) -> list[dict[str, str]]:
    return [{"id": item.id, "kind": item.kind, "label": item.label, "note": item.note} for item in items]
