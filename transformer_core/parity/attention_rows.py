"""The rows of the reading table that are about attention."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_core import attention, masks
from transformer_core.parity.kit import Kit, Seen, distance, row
from transformer_core.parity.weights import to_torch


def attend(kit: Kit, allowed: Tensor | None, queries: int | None = None) -> tuple[Tensor, Tensor]:
    """Our context and weights for q, k and v of the first attention, of its first ``queries`` only if given."""
    q, k, v = kit.heads()
    context, weights = attention.attend(q[:, :, :queries], k, v, allowed, fill=kit.attention.fill)
    return context.detach(), weights.detach()


def without_nan(value: Tensor) -> Tensor:
    """NaN as 0, to measure what else a wrong mask does."""
    return value.nan_to_num(nan=0.0)


@row(
    ours="B n D: the sentences of a batch are the first axis",
    theirs="n B D, unless batch_first=True",
    look_at="Hand our tensor over as it is, and torch attends across sentences instead of within them.",
)
def layout(kit: Kit) -> Seen:
    theirs: Any = to_torch(kit.attention)
    wanted = kit.attention(kit.x, kit.x, None)
    heeded, _ = theirs(kit.x, kit.x, kit.x)
    theirs.batch_first = False
    overlooked, _ = theirs(kit.x, kit.x, kit.x)
    return Seen(distance(wanted, overlooked), distance(wanted, heeded))


@row(
    ours="True = may attend",
    theirs="nn.MultiheadAttention(attn_mask=...): True = ignore",
    look_at="The largest weight that falls on a hidden pair when the mask is handed over as it is.",
)
def true_in_attn_mask(kit: Kit) -> Seen:
    hidden = ~kit.pairs.expand(-1, kit.attention.n_heads, -1, -1)
    theirs = to_torch(kit.attention)
    found = []
    for ignore in (kit.pairs, ~kit.pairs):  # B 1 q k, written out for every head
        written = ignore.expand(-1, kit.attention.n_heads, -1, -1).flatten(0, 1)
        _, weights = kit.attends(theirs, attn_mask=written, key_padding_mask=None)
        found.append(float(without_nan(weights).masked_fill(~hidden, 0).max()))
    return Seen(found[0], found[1])


@row(
    ours="padding is a mask like the others, B 1 1 k, True = may attend",
    theirs="key_padding_mask, B k, True = ignore",
    look_at="The largest weight that falls on padding when tokens != pad is handed over as it is.",
)
def true_in_key_padding_mask(kit: Kit) -> Seen:
    theirs: Any = to_torch(kit.attention)
    found = []
    for ignore in (kit.real, ~kit.real):
        _, weights = kit.attends(theirs, attn_mask=None, key_padding_mask=ignore)
        found.append(float(without_nan(weights).masked_fill(kit.real[:, None, None], 0).max()))
    return Seen(found[0], found[1])


@row(
    ours="True = may attend",
    theirs="F.scaled_dot_product_attention(attn_mask=...): True = may attend",
    look_at="The same name as in nn.MultiheadAttention and the opposite meaning; here our mask goes in as it is.",
)
def true_in_sdpa(kit: Kit) -> Seen:
    wanted, _ = attend(kit, kit.allowed)
    given = F.scaled_dot_product_attention(*kit.heads(), attn_mask=kit.allowed)
    seen = kit.pairs.any(dim=-1, keepdim=True).expand_as(wanted)
    apart = distance(wanted[seen], given[seen])
    return Seen(apart, apart)


@row(
    ours="the last key that a query sees is its own place, also when there are more keys than queries",
    theirs="is_causal=True counts queries and keys from the first",
    look_at="{queries} queries and {keys} keys: ours see {ours} keys, torch's {theirs}. Hand over the mask instead.",
)
def causal_alignment(kit: Kit) -> Seen | None:
    keys = kit.tokens.shape[1]
    queries = (keys + 1) // 2
    if queries == keys:
        return None
    q, k, v = kit.heads()
    q, allowed = q[:, :, :queries], masks.causal(queries, keys).to(kit.x.device)
    wanted, _ = attend(kit, allowed, queries)
    flagged = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    handed = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    counts = f"{keys - queries + 1}..{keys}", f"1..{queries}"
    facts = {"queries": queries, "keys": keys, "ours": counts[0], "theirs": counts[1]}
    return Seen(distance(wanted, flagged), distance(wanted, handed), facts)


@row(
    ours="weights of every head, B H q k",
    theirs="the average over heads, B q k, unless average_attn_weights=False",
    look_at="The largest difference between a head and the average that is returned in its place.",
)
def averaged_weights(kit: Kit) -> Seen:
    _, wanted = attend(kit, kit.allowed)
    theirs: Any = to_torch(kit.attention)
    _, average = kit.attends(theirs, average_attn_weights=True)
    _, apart = kit.attends(theirs)
    rows = kit.judged
    by_query = wanted.transpose(1, 2)[rows]
    return Seen(
        distance(by_query, average[rows][:, None].expand_as(by_query)),
        distance(by_query, apart.transpose(1, 2)[rows]),
    )


@row(
    ours="the weights shown are the softmax itself",
    theirs="need_weights=True returns them after dropout",
    look_at="In training with dropout {rate:g} on the weights, the largest |Σ - 1| of a row that torch returns; "
    "ours: {own:.2g}.",
)
def weights_after_dropout(kit: Kit) -> Seen:
    theirs: Any = to_torch(kit.attention)
    rate = max(kit.config.dropout, kit.config.attention_dropout)
    _, wanted = attend(kit, kit.allowed)
    own = float((wanted.sum(dim=-1).transpose(1, 2)[kit.judged] - 1).abs().max())
    found = []
    for training in (True, False):
        theirs.train(training)
        theirs.dropout = rate
        _, weights = kit.attends(theirs)
        found.append(float((weights.sum(dim=-1).transpose(1, 2)[kit.judged] - 1).abs().max()))
    return Seen(found[0], found[1], {"rate": rate, "own": own})


@row(
    ours="a query that sees no key gets weights 0 (fill exclude), here: {fill}",
    theirs="nn.MultiheadAttention with need_weights=True gives NaN",
    look_at="Weights of a query from which every key is hidden. NaN on one side only counts as a difference.",
)
def blind_rows(kit: Kit) -> Seen:
    nothing = torch.zeros_like(kit.pairs)
    _, wanted = attend(kit, nothing)
    ignore = (~nothing).expand(-1, kit.attention.n_heads, -1, -1).flatten(0, 1)
    _, weights = kit.attends(to_torch(kit.attention), attn_mask=ignore, key_padding_mask=None)
    apart = distance(wanted, weights)
    return Seen(apart, apart, {"fill": kit.attention.fill})


@row(
    ours="its context is 0 (fill exclude), here: {fill}",
    theirs="F.scaled_dot_product_attention gives 0 (older versions NaN)",
    look_at="Context of a query from which every key is hidden; a model changes its answer with the function it calls.",
)
def blind_rows_in_sdpa(kit: Kit) -> Seen:
    nothing = torch.zeros_like(kit.pairs)
    wanted, _ = attend(kit, nothing)
    apart = distance(wanted, F.scaled_dot_product_attention(*kit.heads(), attn_mask=nothing))
    return Seen(apart, apart, {"fill": kit.attention.fill})


@row(
    ours="three matrices: w_q, w_k, w_v",
    theirs="one, in_proj_weight of {rows} x {columns}: q, k and v one below the other",
    look_at="Read its thirds in another order, and every shape still fits: here k, q, v.",
)
def packed_projection(kit: Kit) -> Seen:
    theirs: Any = to_torch(kit.attention)
    wanted = kit.attention(kit.x, kit.x, kit.allowed)
    heeded, _ = kit.attends(theirs)
    facts = dict(zip(("rows", "columns"), theirs.in_proj_weight.shape, strict=True))
    with torch.no_grad():
        for packed in (theirs.in_proj_weight, theirs.in_proj_bias):
            if packed is not None:
                q, k, v = packed.chunk(3)
                packed.copy_(torch.cat([k, q, v]))
    overlooked, _ = kit.attends(theirs)
    return Seen(kit.apart(wanted, overlooked), kit.apart(wanted, heeded), facts)
