"""The rows of the reading table that are about layers, stacks and what stands around them."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from transformer_core.parity.kit import Kit, Seen, distance, row
from transformer_core.parity.sweep import fast_path_switch
from transformer_core.parity.weights import to_torch

EPS = 1e-5
"""layer_norm_eps of torch's layers."""


def norms(theirs: nn.Module) -> list[nn.LayerNorm]:
    """Every norm of one of torch's modules."""
    return [each for each in theirs.modules() if isinstance(each, nn.LayerNorm)]


@row(
    ours="{order}-norm",
    theirs="post-norm, unless norm_first=True",
    look_at="The same weights fit both orders, so nothing complains: output of the first layer.",
)
def norm_order(kit: Kit) -> Seen:
    def change(theirs: Any) -> None:
        theirs.norm_first = False

    seen = kit.layer_apart(change)
    return Seen(seen.measured, seen.heeded, {"order": kit.config.norm_order})


@row(
    ours="{activation}",
    theirs="relu, unless activation says otherwise",
    look_at="An activation has no weights, so no name tells it: output of the first layer.",
)
def activation(kit: Kit) -> Seen:
    def change(theirs: Any) -> None:
        theirs.activation = F.relu

    seen = kit.layer_apart(change)
    return Seen(seen.measured, seen.heeded, {"activation": kit.config.activation})


@row(
    ours="eps {eps:g} in every norm",
    theirs="layer_norm_eps 1e-5",
    look_at="Other libraries use 1e-6 or 1e-12: output of the first layer.",
)
def norm_eps(kit: Kit) -> Seen:
    def change(theirs: nn.Module) -> None:
        for each in norms(theirs):
            each.eps = EPS

    seen = kit.layer_apart(change)
    return Seen(seen.measured, seen.heeded, {"eps": kit.config.norm_eps})


@row(
    ours="bias={bias} concerns the matrices; norms keep theirs",
    theirs="bias=False takes the bias out of the norms too",
    look_at="Output of the first layer with torch's layer made by bias={bias}.",
)
def biases(kit: Kit) -> Seen:
    def change(theirs: nn.Module) -> None:
        if not kit.config.bias:
            for each in norms(theirs):
                each.bias = None  # type: ignore[assignment]

    seen = kit.layer_apart(change)
    return Seen(seen.measured, seen.heeded, {"bias": kit.config.bias})


@row(
    ours="dropout {rate:g} on each sub-layer's output and on the embeddings",
    theirs="also on the attention weights and inside the feed-forward network",
    look_at="The share of hidden features that torch's layer drops in training and ours does not.",
)
def dropout_places(kit: Kit) -> Seen:
    theirs: Any = to_torch(kit.layer).train()
    hidden, rate, found = torch.ones(100, 100), kit.config.dropout, []
    for p in (rate, theirs.dropout.p):
        theirs.dropout.p = p
        found.append(float(theirs.dropout(hidden).eq(0).double().mean()))
    return Seen(found[0], found[1], {"rate": rate})


@row(
    ours="stacks that end with a norm: {count} of {stacks}",
    theirs="nn.Transformer: one at the end of each",
    look_at="Output of the first stack. The paper has no norm there, and neither has nn.Transformer with "
    "custom_encoder=nn.TransformerEncoder(..., norm=None).",
)
def final_norm(kit: Kit) -> Seen:
    wanted = kit.stack(kit.x, kit.allowed)
    ends = [getattr(kit.model, side).norm is not None for side in ("encoder", "decoder") if hasattr(kit.model, side)]
    as_it_comes, as_ours = (kit.stack_output(to_torch(kit.stack, final_norm=which)) for which in ("torch", "same"))
    return Seen(kit.apart(wanted, as_it_comes), kit.apart(wanted, as_ours), {"count": sum(ends), "stacks": len(ends)})


@row(
    ours="embedding x {scale:.4g}, then {positions} positions",
    theirs="nn.Transformer has neither: its inputs are vectors",
    look_at="What goes into the first layer, against a bare nn.Embedding with the same weights.",
)
def embedding(kit: Kit) -> Seen:
    name = "src" if kit.side == "encoder" else "tgt"
    table = getattr(kit.model, f"{name}_embedding")
    scale = math.sqrt(kit.config.d_model) if kit.config.scale_embedding else 1.0
    there = getattr(kit.model, f"{name}_positions")
    heeded = there(F.embedding(kit.tokens, table.weight) * scale)
    with_positions = kit.config.positions if name == "src" or kit.config.positions_on_decoder else "none"
    facts = {"scale": scale, "positions": with_positions}
    return Seen(kit.apart(kit.x, F.embedding(kit.tokens, table.weight)), kit.apart(kit.x, heeded), facts)


@row(
    ours="padded positions are computed like all others and never seen",
    theirs="in evaluation without gradients the fast path leaves them out and puts 0 there",
    look_at="Padded positions after the first stack, fast path on and off; enable_nested_tensor=False leaves it off.",
)
def fast_path_padding(kit: Kit) -> Seen | None:
    if not hasattr(kit.model, "encoder"):
        return None
    theirs, padded, found = to_torch(kit.stack, nested=True), ~kit.real, []
    with torch.no_grad():
        wanted = kit.stack(kit.x, kit.allowed)[padded]
        for enabled in (True, False):
            with fast_path_switch(enabled):
                found.append(distance(wanted, kit.stack_output(theirs)[padded]))
    return Seen(found[0], found[1])
