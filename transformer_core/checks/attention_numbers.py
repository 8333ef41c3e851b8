"""Level 2, attention: the probabilities, what the masks hide, the size of the scores, and equation 1."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_core.checks.rounding import RELATIVE, ROW_SUM, SQUARES, relative, wide
from transformer_core.checks.subject import Attention, Subject, largest
from transformer_core.checks.table import NUMERICS, Finding, check
from transformer_core.config import parse_rule
from transformer_core.ledger import Entry


@check(
    NUMERICS,
    claim="Each row of attention weights sums to 1, read from the softmax before any dropout.",
    cannot_see="Which keys the weights fall on: most faults of attention leave the sums at 1.",
    claims=("softmax", "masks"),
    holds="{rows} rows, largest |Σ - 1| = {measured:.2g}; rows without a visible key, counted apart: {empty}",
    fails="largest |Σ - 1| = {measured:.3g} among {rows} rows, in {first}; rows without a visible key: {empty}",
)
def row_sums(subject: Subject) -> Finding | None:
    if not subject.attentions:
        return None
    deviations, rows, empty = [], 0, 0
    for attention in subject.attentions:
        sums = wide(attention.value("weights")).sum(dim=-1)
        blind = ~attention.value("allowed").any(dim=-1)
        deviation = (sums - 1).abs()
        if blind.any():  # such a row has nothing to share out: 0 is right, and naive fills give 1 (or NaN, which stays)
            deviation = torch.where(blind, torch.minimum(sums.abs(), deviation), deviation)
            empty += int(blind.sum())
        deviations.append(deviation.max())
        rows += sums.numel()
    measured, place = largest(deviations)
    weights = [attention.parts["weights"] for attention in subject.attentions]
    facts = {"rows": rows - empty, "empty": empty, "first": weights[place].key}
    tolerance = ROW_SUM[weights[place].value.dtype]
    return Finding(measured, tuple(each.key for each in weights), 0.0, tolerance, facts)


@check(
    NUMERICS,
    claim="The probability on every masked key is exactly 0.",
    cannot_see="A mask that is wrong itself; here the recorded mask is taken at its word.",
    claims=("masks", "padding", "future"),
    holds="{cells} masked cells, all exactly 0",
    fails="up to {measured:.3g} on a masked key, in {first}; {cells} cells are masked",
)
def masked_keys(subject: Subject) -> Finding | None:
    return _hidden(subject, [(each, each.value("allowed")) for each in subject.attentions])


@check(
    NUMERICS,
    claim="Where padding is masked, no probability falls on a padded token, judged by the tokens themselves.",
    cannot_see="Padding that gets in by another route, for example through a norm over the batch.",
    claims=("masks", "padding"),
    holds="{cells} cells over padded keys, all exactly 0",
    fails="up to {measured:.3g} on a padded key, in {first}; {cells} cells lie over padding",
)
def padded_keys(subject: Subject) -> Finding | None:
    found = []
    for attention in subject.attentions:
        if "padding" in getattr(subject.masks, attention.kind):
            real = subject.key_tokens(attention.kind) != subject.config.pad_id
            if real.shape[1] != attention.value("weights").shape[-1]:
                continue  # it attends to something else, which the check of the shapes tells
            found.append((attention, real[:, None, None, :].expand_as(attention.value("weights"))))
    return _hidden(subject, found)


@check(
    NUMERICS,
    claim="Where attention is causal, no probability falls on a later position, judged by the order alone.",
    cannot_see="A view of the future that comes from elsewhere, such as a target that was not shifted.",
    claims=("masks", "future"),
    holds="{cells} cells over later positions, all exactly 0",
    fails="up to {measured:.3g} on a later position, in {first}; {cells} cells lie in the future",
)
def future_keys(subject: Subject) -> Finding | None:
    found = []
    for attention in subject.attentions:
        rules = dict(parse_rule(rule) for rule in getattr(subject.masks, attention.kind))
        if "causal" in rules or "prefix" in rules:
            weights = attention.value("weights")
            q_len, k_len = weights.shape[-2:]
            past = torch.ones(q_len, k_len, dtype=torch.bool, device=weights.device).tril(k_len - q_len)
            past[:, : rules.get("prefix") or 0] = True
            found.append((attention, past.expand_as(weights)))
    return _hidden(subject, found)


def _hidden(subject: Subject, found: list[tuple[Attention, Tensor]]) -> Finding | None:
    """The largest weight outside the visible pairs of each attention; None where nothing is hidden."""
    cells = [visible.numel() - int(visible.sum()) for _, visible in found]
    if not sum(cells):
        return None
    worst = [each.value("weights").masked_fill(visible, 0).abs().max() for each, visible in found]
    measured, place = largest(worst)
    keys = tuple(key for each, _ in found for key in each.keys("weights", "allowed"))
    return Finding(measured, keys, facts={"cells": sum(cells), "first": found[place][0].parts["weights"].key})


@check(
    NUMERICS,
    claim="Every query sees at least one key.",
    cannot_see="Queries that see keys, but the wrong ones.",
    claims=("masks",),
    only_warns=True,
    holds="{queries} queries, each with a key to attend to",
    fails="{measured:.0f} of {queries} queries see no key; the first is position {position} of sentence {sentence} "
    "in {first}",
)
def visible_keys(subject: Subject) -> Finding | None:
    """A row without keys is not an error of the model: with the fill ``exclude`` its weights and its context are 0."""
    if not subject.attentions:
        return None
    blind: dict[tuple[str, int, int], str] = {}
    queries: dict[str, int] = {}
    touched: list[str] = []
    for attention in subject.attentions:
        sees = attention.value("allowed").any(dim=-1).all(dim=1)  # B q: a key in every head
        queries[attention.kind] = sees.numel()
        if not sees.all():
            touched += attention.keys("allowed", "weights", "heads")
            for row, position in (~sees).nonzero().tolist():
                blind.setdefault((attention.kind, row, position), attention.parts["allowed"].key)
    facts: dict[str, Any] = {"queries": sum(queries.values()), "rows": [[*place] for place in blind][:100]}
    if blind:
        (_, row, position), first = next(iter(blind.items()))
        facts |= {"first": first, "sentence": row + 1, "position": position + 1}
    everything = [key for each in subject.attentions for key in each.keys("allowed", "weights")]
    return Finding(len(blind), tuple(touched or everything), facts=facts)


@check(
    NUMERICS,
    claim="Scores, weights, heads and output of every attention follow equation 1 and section 3.2.2 from their inputs.",
    cannot_see="A q, k, v or mask that is wrong to begin with.",
    claims=("softmax", "masks", "scale", "heads"),
    holds="{tensors} tensors recomputed head by head, largest relative difference {measured:.2g}",
    fails="relative difference {measured:.3g} in {first} ({tensors} tensors recomputed head by head)",
)
def attention_formula(subject: Subject) -> Finding | None:
    if not subject.attentions:
        return None
    entries, differences = [], []
    for attention in subject.attentions:
        for entry, wanted in _recomputed(subject, attention):
            entries.append(entry)
            differences.append(relative(wide(entry.value), wanted))
    measured, place = largest(differences)
    facts = {"tensors": len(entries), "first": entries[place].key}
    keys = [key for each in subject.attentions for key in each.keys("q", "k", "v", "allowed")]
    tolerance = RELATIVE[entries[place].value.dtype]
    return Finding(measured, (*keys, *(each.key for each in entries)), 0.0, tolerance, facts)


def _recomputed(subject: Subject, attention: Attention) -> Iterator[tuple[Entry, Tensor]]:
    """Each tensor from the recorded tensors before it, by other operations than the model's."""
    q, k, v = (wide(attention.value(each)) for each in ("q", "k", "v"))
    scores, weights, heads = (wide(attention.value(each)) for each in ("scores", "weights", "heads"))
    config, parts = subject.config, attention.parts
    scale = 1 / math.sqrt(config.d_head) if config.scale_scores else 1.0
    yield parts["scores"], torch.einsum("bhqd,bhkd->bhqk", q * scale, k)
    allowed = attention.value("allowed")
    visible = torch.where(allowed, scores, -math.inf)
    shares = (visible - visible.amax(dim=-1, keepdim=True)).exp().masked_fill(~allowed, 0.0)
    shares = shares / shares.sum(dim=-1, keepdim=True)
    yield parts["weights"], shares.masked_fill(~allowed.any(dim=-1, keepdim=True), 0.0)
    if not (subject.model.training and config.attention_dropout):  # otherwise v meets the weights after dropout
        yield parts["heads"], torch.einsum("bhqk,bhkd->bhqd", weights, v)
    w_o = subject.module(attention).w_o
    bias = None if w_o.bias is None else wide(w_o.bias.detach())
    side_by_side = torch.cat(heads.unbind(dim=1), dim=-1)
    fits = side_by_side.shape[-1] == w_o.in_features
    yield parts["output"], F.linear(side_by_side, wide(w_o.weight.detach()), bias) if fits else side_by_side


@check(
    NUMERICS,
    claim="The mean square of the scores is 1 / d_head of that of q · k; undivided where the configuration says so.",
    cannot_see="Whether q and k have the right size: new weights give scores of about 1, training may enlarge them.",
    claims=("scale",),
    holds="{attentions} attentions: mean square of the scores {low:.2g} to {high:.2g}, of q · k up to {undivided:.2g}",
    fails="in {first} the mean square is {got:.3g}, {measured:.3g} times the {wanted:.3g} that q and k give divided by "
    "√d_head; the factor should be {expected:.0f}",
)
def score_scale(subject: Subject) -> Finding | None:
    """No score is computed again: Σ_qk (q · k)² = tr(Σ_q q qᵀ · Σ_k k kᵀ), whatever the weights are."""
    config, attentions = subject.config, subject.attentions
    if not attentions or config.d_head == 1:  # a division by 1 leaves nothing to see
        return None
    squares, undivided = [], []
    for attention in attentions:
        q, k, scores = (wide(attention.value(each)) for each in ("q", "k", "scores"))
        squares.append(scores.square().mean())
        undivided.append(((q.mT @ q) * (k.mT @ k)).sum() / scores.numel())
    got, whole = torch.stack(squares), torch.stack(undivided)
    expected = 1 if config.scale_scores else config.d_head
    factors = got * config.d_head / whole
    factors = factors.where((whole > 0) | (got > 0), expected)  # q or k is 0, and so is every score
    _, place = largest(list((factors.clamp_min(1e-30) / expected).log().abs()))
    facts = {
        "attentions": len(attentions), "low": float(got.min()), "high": float(got.max()), "got": float(got[place]),
        "undivided": float(whole.max()), "wanted": float(whole[place]) / config.d_head,
        "first": attentions[place].parts["scores"].key,
    }  # fmt: skip
    keys = tuple(key for each in attentions for key in each.keys("q", "k", "scores"))
    tolerance = expected * SQUARES[attentions[place].value("scores").dtype]
    return Finding(float(factors[place]), keys, expected, tolerance, facts)
