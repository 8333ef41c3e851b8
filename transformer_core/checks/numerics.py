"""Level 2, the end: output probabilities, loss and gradients, and that every number on the way is finite."""

import math
from typing import Any

import torch
from torch import nn

from transformer_core.checks.rounding import ROW_SUM, wide
from transformer_core.checks.subject import Subject
from transformer_core.checks.table import NUMERICS, Finding, check
from transformer_core.ledger import Entry


@check(
    NUMERICS,
    claim="The output probabilities of each position sum to 1.",
    cannot_see="Whether they belong to the right position or token.",
    claims=("softmax",),
    holds="{rows} rows over {classes} choices, largest |Σ - 1| = {measured:.2g}",
    fails="largest |Σ - 1| = {measured:.3g} among {rows} rows over {classes} choices",
)
def output_sums(subject: Subject) -> Finding | None:
    entry = subject.entries.get("probabilities")
    if entry is None:
        return None
    sums = wide(entry.value).sum(dim=-1)
    facts = {"rows": sums.numel(), "classes": entry.shape[-1]}
    return Finding(float((sums - 1).abs().max()), (entry.key, "logits"), 0.0, ROW_SUM[entry.value.dtype], facts)


@check(
    NUMERICS,
    claim="No recorded tensor holds NaN or infinity.",
    cannot_see="Wrong numbers that are finite.",
    claims=("softmax", "scale"),
    holds="{numbers:,} numbers in {tensors} tensors, all finite",
    fails="{measured:,.0f} numbers are not finite, first in {first} ({nan:,} NaN, {inf:,} infinite there); "
    "{bad} of {tensors} tensors have some",
)
def finite_tensors(subject: Subject) -> Finding:
    sums = torch.stack([wide(entry.value).sum() for entry in subject.floats]).isfinite().tolist()
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


@check(
    NUMERICS,
    claim="The loss is finite.",
    cannot_see="Whether the loss compares with the right targets; a falling loss proves little.",
    claims=("loss", "training"),
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
    return Finding(float(not finite), subject.output_keys, facts=facts, sentence=sentence)


@check(
    NUMERICS,
    claim="The gradient of the loss is finite in every trained parameter.",
    cannot_see="Gradients that are finite and wrong.",
    claims=("gradients", "training"),
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
    return Finding(sum(bad.values()), subject.output_keys, facts=facts)


@check(
    NUMERICS,
    claim="The loss depends on every trained parameter.",
    cannot_see="A dependence that is wrong or vanishingly small.",
    claims=("gradients", "source"),
    holds="{parameters} parameter tensors, each reached by the gradient",
    fails="{measured:.0f} of {parameters} parameter tensors get no gradient, first {first}",
)
def gradients_arrive(subject: Subject) -> Finding | None:
    if not subject.trained:
        return None
    missing = [name for name, each in subject.gradients.items() if each is None]
    facts = {"parameters": len(subject.trained), "missing": missing, "first": missing[0] if missing else ""}
    return Finding(len(missing), subject.output_keys, facts=facts)
