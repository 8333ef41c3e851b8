"""Level 3, invariances: what must not matter to a result does not, and what must matter does."""

from collections.abc import Callable

import torch
from torch import Tensor

from transformer_core.checks.probes import SAME, STOPS, Probe, apart, finite, hooked, probing, worst
from transformer_core.checks.table import BEHAVIOUR, Finding, check


@check(
    BEHAVIOUR,
    claim="More padding changes no result at a real token, on either side of the sentence, where padding is masked.",
    cannot_see="A loss that counts padded targets.",
    claims=("padding",),
    holds="padding added to {where}: largest relative change {measured:.2g}",
    fails="padding added to {first} changes results by {measured:.3g}",
    stops=STOPS,
)
@probing
def padding_length(probe: Probe) -> Finding | None:
    """On the left every real token moves to a later place, so that side is tried with the positions taken out."""
    changes: dict[str, float] = {}
    for side in probe.sides:
        for left in (False, True):
            change = _padded_further(probe, side, left)
            if change is not None:
                changes[f"{side}, {'left' if left else 'right'}"] = change
    if not changes:
        return None
    first = max(changes, key=lambda name: worst(changes[name]))
    facts = {"where": "; ".join(changes), "first": first}
    return Finding(changes[first], probe.keys("allowed", "weights"), 0.0, SAME, facts)


def _padded_further(probe: Probe, side: str, left: bool) -> float | None:
    """The change at real tokens; None where the configuration's own masks see the added padding or count places."""
    more = min(3, probe.config.max_seq_len - 1)
    if more < 1:
        return None
    length = min(probe.lengths[side], probe.config.max_seq_len - more)
    tokens = {name: probe.words(name, probe.rows, length if name == side else n) for name, n in probe.lengths.items()}
    for row in range(1, min(length, probe.rows)):  # whole, one padded, two padded, ...
        tokens[side][row, slice(row) if left else slice(length - row, None)] = probe.config.pad_id
    pads = torch.full((probe.rows, more), probe.config.pad_id)
    longer = tokens | {side: torch.cat([pads, tokens[side]] if left else [tokens[side], pads], dim=1)}
    shown = slice(more, None) if left else slice(length)
    if not probe.same_view(side, tokens, longer, shown):
        return None
    of_side = side == probe.sides[-1]  # else its places are not those of the output
    real = (tokens[side] != probe.config.pad_id) if of_side else slice(None)
    if not left:
        before, after = probe.output(tokens), probe.output(longer)
    else:
        without: Callable[..., Tensor] = lambda _module, inputs, _output: inputs[0]  # noqa: E731
        with hooked(getattr(probe.model, f"{side}_positions"), without):
            before, after = probe.output(tokens), probe.output(longer)
    return apart((after[:, shown] if of_side else after)[real], before[real])


@check(
    BEHAVIOUR,
    claim="A sentence has the same result whatever the other sentences of its batch are, at any row of it, and alone.",
    cannot_see="Sentences that are wrong alone as well.",
    claims=("shapes",),
    holds="batches of {batches} sentences with other neighbours in other rows, and one sentence alone: largest "
    "relative change {measured:.2g}",
    fails="in a batch of {first} sentences the results change by {measured:.3g} with the neighbours",
    stops=STOPS,
)
@probing
def batch_mates(probe: Probe) -> Finding | None:
    """Also in batches of as many sentences as there are tokens or heads: swapped axes then go unnoticed otherwise."""
    changes: dict[int, float] = {}
    for rows in dict.fromkeys((probe.rows, probe.lengths[probe.sides[-1]], probe.config.n_heads)):
        tokens, others = probe.batch(rows), probe.batch(rows)
        if not 2 <= rows <= 16 or tokens is None or others is None:
            continue
        moved = {side: ids.roll(1, dims=0) for side, ids in tokens.items()}  # each sentence one row further down
        stay = torch.arange(rows) % 2 == 1
        mixed = {side: torch.where(stay[:, None], moved[side], others[side]) for side in moved}
        alone = {side: ids[-1:] for side, ids in tokens.items()}
        before, views = probe.output(tokens), probe.views(tokens)
        found = []
        if _same(probe.views(mixed), {kind: view.roll(1, dims=0) for kind, view in views.items()}, stay):
            found.append(apart(probe.output(mixed)[stay], before.roll(1, dims=0)[stay]))
        if _same(probe.views(alone), {kind: view[-1:] for kind, view in views.items()}, slice(None)):
            found.append(apart(probe.output(alone), before[-1:]))
        if found:
            changes[rows] = max(found, key=worst)
    if not changes:
        return None
    first = max(changes, key=lambda rows: worst(changes[rows]))
    facts = {"batches": ", ".join(map(str, changes)), "first": first}
    return Finding(changes[first], probe.keys("allowed", "weights"), 0.0, SAME, facts)


def _same(views: dict[str, Tensor], others: dict[str, Tensor], rows: Tensor | slice) -> bool:
    """Whether by the rules these sentences see the same; a condition on b may tell the rows of a batch apart."""
    return all(torch.equal(views[kind][rows], others[kind][rows]) for kind in views)


@check(
    BEHAVIOUR,
    claim="The encoder tells the order of its tokens if it has positions or a mask that counts places; without them, "
    "permuted tokens give the same vectors, permuted.",
    cannot_see="Whether the order is told well; and the order of the target.",
    claims=("positions",),
    holds="tokens in another order change memory by {change:.3g}, as with positions or such a mask they should",
    holds_set="tokens in another order give the same vectors in that order, up to {change:.2g}: there are no positions",
    fails="tokens in another order give the same vectors in that order, as if there were no positions",
    fails_set="without positions, tokens in another order change memory by {change:.3g}",
    stops=STOPS,
)
@probing
def token_order(probe: Probe) -> Finding | None:
    if not probe.config.has_encoder or probe.lengths["src"] < 2:
        return None
    tokens = probe.batch()
    if tokens is None:
        return None
    src = tokens["src"]
    order = torch.randperm(src.shape[1], generator=probe.random)
    if torch.equal(order, torch.arange(len(order))):
        order = order.flip(0)
    views = [probe.views({"src": each})["encoder_self"] for each in (src, src[:, order])]
    a_set = probe.config.positions == "none" and torch.equal(views[0][:, :, order][..., order], views[1])
    change = apart(finite(probe.model.encode(src[:, order])), finite(probe.model.encode(src))[:, order])
    right = change <= SAME if a_set else change > SAME
    sentence = ("holds" if right else "fails") + ("_set" if a_set else "")
    facts = {"change": change}
    return Finding(int(not right), probe.keys("src_embeddings", "positions", "memory"), facts=facts, sentence=sentence)


@check(
    BEHAVIOUR,
    claim="In a sentence of one repeated token every place has a vector of its own if there are positions, and none "
    "has without.",
    cannot_see="Whether the positions are the right ones.",
    claims=("positions",),
    holds="{sides}: no two of the repeated tokens alike with positions, all alike without",
    fails="{first}: {alike} of {pairs} pairs of repeated tokens are alike",
    fails_set="{first} has no positions, yet {different} of {pairs} pairs of repeated tokens differ",
    stops=STOPS,
)
@probing
def repeated_token(probe: Probe) -> Finding | None:
    wrong, sides, facts, sentence = 0, [], {}, "holds"
    for side in probe.sides:
        tokens = {name: probe.words(name, probe.rows, 1).repeat(1, n) for name, n in probe.lengths.items()}
        pairs = torch.combinations(torch.arange(probe.lengths[side]))
        positions = probe.config.positions != "none" and (side == "src" or probe.config.positions_on_decoder)
        if not len(pairs) or probe.blind(tokens).any() or not (positions or _even(probe, side, tokens)):
            continue
        result = probe.model.encode(tokens["src"]) if side == "src" else probe.output(tokens)
        distance = (finite(result)[:, pairs[:, 0]] - result[:, pairs[:, 1]]).abs().amax(dim=-1) / result.abs().max()
        strays = int(((distance <= SAME) if positions else (distance > SAME)).sum())
        sides.append(side)
        if strays and not wrong:
            sentence = "fails" if positions else "fails_set"
            facts = {"first": side, "pairs": distance.numel(), "alike" if positions else "different": strays}
        wrong += strays
    if not sides:
        return None
    entries = probe.keys("src_embeddings", "tgt_embeddings", "positions")
    return Finding(wrong, entries, facts={"sides": ", ".join(sides)} | facts, sentence=sentence)


def _even(probe: Probe, side: str, tokens: dict[str, Tensor]) -> bool:
    """Whether all queries of the target see the same of a source whose places differ."""
    if side == "src" or "src" not in probe.sides or probe.config.positions == "none":
        return True
    cross = probe.views(tokens)["cross"]
    return bool((cross == cross[:, :, :1]).all())
