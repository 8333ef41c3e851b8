"""Level 2: the numbers of one run - probabilities, masks, norms, loss and gradients."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_core.checks.subject import Attention, Subject, largest
from transformer_core.checks.table import NUMERICS, Finding, check
from transformer_core.config import parse_rule
from transformer_core.ledger import Entry

ROW_SUM = {torch.float64: 1e-12, torch.float32: 1e-6, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10}
"""How far a sum of probabilities may be from 1: in half precision one unit in the last place of 1."""
RELATIVE = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2.0**-5, torch.float16: 2.0**-8}
"""How far a tensor may be from the same formula computed another way, as a part of its largest number."""
NORMED = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 2.0**-5, torch.float16: 2.0**-7}
"""How far mean and variance after a norm may be off."""


def _wide(value: Tensor) -> Tensor:
    """The same numbers in a dtype that does not round their sums."""
    return value if value.dtype == torch.float64 else value.float()


@check(
    NUMERICS,
    claim="Each row of attention weights sums to 1, read from the softmax before any dropout.",
    cannot_see="Which keys the weights fall on: most faults of attention leave the sums at 1.",
    holds="{rows} rows, largest |Σ - 1| = {measured:.2g}; rows without a visible key, counted apart: {empty}",
    fails="largest |Σ - 1| = {measured:.3g} among {rows} rows, in {first}; rows without a visible key: {empty}",
)
def row_sums(subject: Subject) -> Finding | None:
    if not subject.attentions:
        return None
    deviations, rows, empty = [], 0, 0
    for attention in subject.attentions:
        sums = _wide(attention.value("weights")).sum(dim=-1)
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
    holds="{cells} masked cells, all exactly 0",
    fails="up to {measured:.3g} on a masked key, in {first}; {cells} cells are masked",
)
def masked_keys(subject: Subject) -> Finding | None:
    return _hidden(subject, [(each, each.value("allowed")) for each in subject.attentions])


@check(
    NUMERICS,
    claim="Where padding is masked, no probability falls on a padded token, judged by the tokens themselves.",
    cannot_see="Padding that gets in by another route, for example through a norm over the batch.",
    holds="{cells} cells over padded keys, all exactly 0",
    fails="up to {measured:.3g} on a padded key, in {first}; {cells} cells lie over padding",
)
def padded_keys(subject: Subject) -> Finding | None:
    found = []
    for attention in subject.attentions:
        if "padding" in getattr(subject.masks, attention.kind):
            real = subject.key_tokens(attention.kind) != subject.config.pad_id
            found.append((attention, real[:, None, None, :].expand_as(attention.value("weights"))))
    return _hidden(subject, found)


@check(
    NUMERICS,
    claim="Where attention is causal, no probability falls on a later position, judged by the order alone.",
    cannot_see="A view of the future that comes from elsewhere, such as a target that was not shifted.",
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
            differences.append(_relative(_wide(entry.value), wanted))
    measured, place = largest(differences)
    facts = {"tensors": len(entries), "first": entries[place].key}
    keys = [key for each in subject.attentions for key in each.keys("q", "k", "v", "allowed")]
    tolerance = RELATIVE[entries[place].value.dtype]
    return Finding(measured, (*keys, *(each.key for each in entries)), 0.0, tolerance, facts)


def _relative(got: Tensor, wanted: Tensor) -> Tensor:
    """max |got - wanted| / max |wanted|; tensors of different shapes are infinitely far apart."""
    if got.shape != wanted.shape:
        return torch.tensor(math.inf, device=got.device)
    return (got - wanted).abs().max() / wanted.abs().max().clamp_min(1e-30)


def _recomputed(subject: Subject, attention: Attention) -> Iterator[tuple[Entry, Tensor]]:
    """Each tensor from the recorded tensors before it, by other operations than the model's."""
    q, k, v = (_wide(attention.value(each)) for each in ("q", "k", "v"))
    scores, weights, heads = (_wide(attention.value(each)) for each in ("scores", "weights", "heads"))
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
    bias = None if w_o.bias is None else _wide(w_o.bias.detach())
    side_by_side = torch.cat(heads.unbind(dim=1), dim=-1)
    fits = side_by_side.shape[-1] == w_o.in_features
    yield parts["output"], F.linear(side_by_side, _wide(w_o.weight.detach()), bias) if fits else side_by_side


@check(
    NUMERICS,
    claim="After every norm, gain and bias undone, each token has mean 0 and variance v / (v + eps), v being its "
    "variance before: 1 unless the token was nearly constant.",
    cannot_see="Whether the norm stands at the right place in the layer.",
    holds="{norms} norms, {tokens} tokens: largest |mean| {mean:.2g}, variance off by at most {measured:.2g}",
    fails="{first}: mean or variance of a token is off by {measured:.3g} ({norms} norms, {tokens} tokens)",
)
def norms(subject: Subject) -> Finding | None:
    off, entries, means, tokens = [], [], [], 0
    for before, after, module in _norms(subject):
        gain = _wide(module.weight.detach())
        if gain.abs().min() < 1e-3:  # such a gain cannot be undone
            continue
        x, z = _wide(before.value), _wide(after.value)
        if isinstance(module, nn.LayerNorm) and module.bias is not None:
            z = z - _wide(module.bias.detach())
        z = z / gain
        mean = z.mean(dim=-1)
        if isinstance(module, nn.RMSNorm):  # its variance is the mean square: nothing is subtracted
            variance, mean = x.square().mean(dim=-1), torch.zeros_like(mean)
        else:
            variance = (x - x.mean(dim=-1, keepdim=True)).square().mean(dim=-1)
        eps = module.eps if module.eps is not None else torch.finfo(before.value.dtype).eps
        spread = ((z - mean[..., None]).square().mean(dim=-1) - variance / (variance + eps)).abs()
        entries.append(after)
        means.append(mean.abs().max())
        off.append(torch.maximum(mean.abs(), spread).max())
        tokens += mean.numel()
    if not entries:
        return None
    measured, place = largest(off)
    facts = {"norms": len(entries), "tokens": tokens, "mean": largest(means)[0], "first": entries[place].key}
    keys = tuple(each.key for each in entries)
    return Finding(measured, keys, 0.0, NORMED[entries[place].value.dtype], facts)


def _norms(subject: Subject) -> Iterator[tuple[Entry, Entry, nn.LayerNorm | nn.RMSNorm]]:
    """Each recorded norm with what went into it and the module that did it."""
    stream: Entry | None = None
    for entry in subject.entries.values():
        if entry.name == "input" or entry.name.endswith("_sum"):
            stream = entry
        elif entry.name.endswith("_norm"):
            name = "norm" if entry.name == "final_norm" else entry.name
            module = subject.model.get_submodule(f"{entry.path}.{name}")
            if stream is not None and isinstance(module, nn.LayerNorm | nn.RMSNorm):
                yield stream, entry, module
            if subject.config.norm_order == "post":
                stream = entry


@check(
    NUMERICS,
    claim="The output probabilities of each position sum to 1.",
    cannot_see="Whether they belong to the right position or token.",
    holds="{rows} rows over {classes} choices, largest |Σ - 1| = {measured:.2g}",
    fails="largest |Σ - 1| = {measured:.3g} among {rows} rows over {classes} choices",
)
def output_sums(subject: Subject) -> Finding | None:
    entry = subject.entries.get("probabilities")
    if entry is None:
        return None
    sums = _wide(entry.value).sum(dim=-1)
    facts = {"rows": sums.numel(), "classes": entry.shape[-1]}
    return Finding(float((sums - 1).abs().max()), (entry.key, "logits"), 0.0, ROW_SUM[entry.value.dtype], facts)


@check(
    NUMERICS,
    claim="No recorded tensor holds NaN or infinity.",
    cannot_see="Wrong numbers that are finite.",
    holds="{numbers:,} numbers in {tensors} tensors, all finite",
    fails="{measured:,.0f} numbers are not finite, first in {first} ({nan:,} NaN, {inf:,} infinite there); "
    "{bad} of {tensors} tensors have some",
)
def finite_tensors(subject: Subject) -> Finding:
    sums = torch.stack([_wide(entry.value).sum() for entry in subject.floats]).isfinite().tolist()
    bad: list[tuple[Entry, int, int]] = []
    for entry, finite in zip(subject.floats, sums, strict=True):
        if not finite:  # only now are they counted: the sum shows them at a fraction of the cost
            nan, inf = int(entry.value.isnan().sum()), int(entry.value.isinf().sum())
            bad += [(entry, nan, inf)] if nan or inf else []
    numbers = sum(entry.value.numel() for entry in subject.floats)
    facts: dict[str, Any] = {"numbers": numbers, "tensors": len(subject.floats), "bad": len(bad)}
    if bad:
        facts |= {"first": bad[0][0].key, "nan": bad[0][1], "inf": bad[0][2]}
    return Finding(sum(nan + inf for _, nan, inf in bad), tuple(each.key for each in subject.floats), facts=facts)


def _end(subject: Subject) -> tuple[str, ...]:
    """The keys of the output, which the loss and with it every gradient is made of."""
    return ("logits", "probabilities") if subject.end == "logits" else (subject.end,)


@check(
    NUMERICS,
    claim="The loss is finite.",
    cannot_see="Whether the loss compares with the right targets; a falling loss proves little.",
    holds="{loss:.4f} per target, over {targets} of them; guessing evenly would give {chance:.4f}",
    holds_square="{loss:.4f}, the mean square of the output: without targets it stands in for a loss",
    fails="the loss is {loss}",
)
def finite_loss(subject: Subject) -> Finding:
    loss = subject.loss
    value = loss.value.item()
    finite = math.isfinite(value)
    facts = {"loss": value, "targets": loss.targets, "chance": loss.chance, "kind": loss.kind}
    sentence = "holds_square" if finite and loss.kind == "mean_square" else None
    return Finding(float(not finite), _end(subject), facts=facts, sentence=sentence)


@check(
    NUMERICS,
    claim="The gradient of the loss is finite in every trained parameter.",
    cannot_see="Gradients that are finite and wrong.",
    holds="{numbers:,} gradients in {parameters} parameter tensors, all finite; norm {norm:.3g}",
    fails="{measured:,.0f} of {numbers:,} gradients are not finite, first in {first}",
)
def finite_gradients(subject: Subject) -> Finding | None:
    gradients = {name: each for name, each in subject.gradients.items() if each is not None}
    if not gradients:
        return None
    norm = float(nn.utils.get_total_norm(list(gradients.values())))
    bad = {} if math.isfinite(norm) else {name: int((~each.isfinite()).sum()) for name, each in gradients.items()}
    facts = {
        "numbers": sum(each.numel() for each in gradients.values()), "parameters": len(gradients), "norm": norm,
        "first": next((name for name, count in bad.items() if count), ""),
    }  # fmt: skip
    return Finding(sum(bad.values()), _end(subject), facts=facts)


@check(
    NUMERICS,
    claim="The loss depends on every trained parameter.",
    cannot_see="A dependence that is wrong or vanishingly small.",
    holds="{parameters} parameter tensors, each reached by the gradient",
    fails="{measured:.0f} of {parameters} parameter tensors get no gradient, first {first}",
)
def gradients_arrive(subject: Subject) -> Finding | None:
    if not subject.trained:
        return None
    missing = [name for name, each in subject.gradients.items() if each is None]
    facts = {"parameters": len(subject.trained), "missing": missing, "first": missing[0] if missing else ""}
    return Finding(len(missing), _end(subject), facts=facts)
