"""Level 3, extremes: rows that see nothing, scores beyond all measure, and numbers of half the width."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import torch
from torch import Tensor

from transformer_core.checks.probes import STOPS, Probe, hooked, probing, worst
from transformer_core.checks.table import BEHAVIOUR, Finding, check
from transformer_core.ledger import Entry, Ledger, trace

ENORMOUS = 1e4
"""Factor on q and on k, which makes scores of about ±10⁸: beyond the fills -10 and -10000, within -1e9."""
NEAR = {torch.float64: 1e-12, torch.float32: 1e-4, torch.bfloat16: 0.3, torch.float16: 0.05}
"""How far results may be from those in float64, as a part of their size: what rounding in many layers adds up to."""


def _recorded(ledger: Ledger, name: str, views: dict[str, Tensor]) -> Iterator[tuple[Entry, Tensor]]:
    """The recorded tensors of this name, each with what its queries may see, B H q k.

    Raises:
        ValueError: one has another shape than its attention should have.
    """
    for entry in (entry for entry in ledger if entry.name == name):
        view = views["cross" if "cross" in entry.path else f"{entry.path.partition('.')[0]}_self"]
        if entry.shape[:3] != view.shape[:3]:
            raise ValueError(f"{entry.key} has shape {entry.shape}, and B H q k are {tuple(view.shape)}")
        yield entry, view


@check(
    BEHAVIOUR,
    claim="A query without any visible key, as in a sentence of padding only, has weights 0 and context 0, and every "
    "gradient is finite.",
    cannot_see="A mask that lets such a query see something.",
    claims=("softmax",),
    holds="{rows} rows without a visible key: weights and context exactly 0, all {numbers:,} gradients finite",
    fails="of {rows} rows without a visible key {weights} have weights and {contexts} a context that is not 0; "
    "{gradients:,} gradients are not finite",
    fill="the fill {fill} gives {weights} of {rows} rows without a visible key weights that are not 0, and "
    "{gradients:,} gradients that are not finite; exclude gives 0",
    stops=STOPS,
)
@probing
def empty_rows(probe: Probe) -> Finding | None:
    tokens = {side: probe.words(side, probe.rows, length) for side, length in probe.lengths.items()}
    for ids in tokens.values():
        ids[1] = probe.config.pad_id
    views = probe.views(tokens)
    if all(view.any(dim=-1).all() for view in views.values()):
        return None
    with probe.training(dropout=0.0), trace(probe.model) as ledger:
        probe.model.eval()
        with torch.enable_grad():
            probe.output(tokens).square().mean().backward()
        gradients = [each.grad for each in probe.model.parameters() if each.grad is not None]
        facts = {"gradients": sum(int((~each.isfinite()).sum()) for each in gradients)}
        facts["numbers"] = sum(each.numel() for each in gradients)
    facts |= {"rows": 0, "weights": 0, "contexts": 0}
    for name, count in (("weights", "weights"), ("heads", "contexts")):
        for entry, view in _recorded(ledger, name, views):
            empty = entry.value[~view.any(dim=-1)]
            facts[count] += int((empty != 0).any(dim=-1).sum())  # NaN is not 0 either
            facts["rows"] += len(empty) if name == "weights" else 0
    wrong = facts["weights"] + facts["contexts"] + facts["gradients"]
    fill = probe.masks.fill
    sentence = "fill" if wrong and fill != "exclude" else None
    entries = probe.keys("weights", "allowed", "heads")
    return Finding(wrong, entries, facts={**facts, "fill": fill}, sentence=sentence)


@check(
    BEHAVIOUR,
    claim="The probability on a hidden key is exactly 0 whatever the score, and the visible keys share 1.",
    cannot_see="Hidden values that get in by another way than the weights.",
    claims=("masks", "softmax"),
    holds="{rows} rows with scores up to ±{score:.1g}: {hidden} hidden weights exactly 0, largest |Σ - 1| = {sum:.2g}",
    fails="of {rows} rows with scores up to ±{score:.1g} {seen} have weight on a hidden key, up to {weight:.3g}, and "
    "{odd} do not sum to 1; first in {first}",
    stops=STOPS,
)
@probing
def hidden_scores(probe: Probe) -> Finding | None:
    """What is hidden is read off the rules, so a mask of the wrong kind is found too."""
    tokens = probe.batch()
    if tokens is None:
        return None
    views = probe.views(tokens)
    larger: Callable[..., Tensor] = lambda _module, _inputs, output: output * _enormous(output)  # noqa: E731
    with torch.no_grad(), ExitStack() as hooks, trace(probe.model) as ledger:
        for name, module in probe.model.named_modules():
            if name.rpartition(".")[2] in ("w_q", "w_k"):
                hooks.enter_context(hooked(module, larger))
        probe.output(tokens)
    rows = covered = seen = odd = 0
    weight = off = score = 0.0
    first = ""
    for entry, view in _recorded(ledger, "weights", views):
        hidden, sums = entry.value.masked_fill(view, 0.0), entry.value.sum(dim=-1)
        away = (sums - view.any(dim=-1).double()).abs()
        wrong = int((hidden != 0).any(dim=-1).sum()), int((~(away <= 1e-12)).sum())
        first = first or (entry.key if any(wrong) else "")
        rows, covered = rows + sums.numel(), covered + int((~view).sum())
        seen, odd = seen + wrong[0], odd + wrong[1]
        weight, off = max(weight, float(hidden.abs().max()), key=worst), max(off, float(away.max()), key=worst)
    for entry, _ in _recorded(ledger, "scores", views):
        score = max(score, float(entry.value.abs().max()))
    facts = {"rows": rows, "hidden": covered, "seen": seen, "odd": odd, "weight": weight, "sum": off,
             "score": score, "first": first}  # fmt: skip
    return Finding(seen + odd, probe.keys("scores", "allowed", "weights"), facts=facts) if rows else None


def _enormous(output: Tensor) -> Tensor:
    """The factor; less for what is large already, as behind layers without a norm: it would pass -1e9 by right."""
    return ENORMOUS / output.square().mean().sqrt().clamp_min(1.0)


@check(
    BEHAVIOUR,
    claim="In float64, float32, bfloat16 and float16 all results are finite and near those in float64, and the "
    "probability on a hidden key is exactly 0.",
    cannot_see="Errors smaller than the rounding of the dtype.",
    claims=("softmax",),
    holds="off by {float32:.2g} in float32, {bfloat16:.2g} in bfloat16, {float16:.2g} in float16; {hidden} hidden "
    "weights exactly 0 in each",
    holds_fill="off by {float32:.2g} in float32 and {bfloat16:.2g} in bfloat16; {hidden} hidden weights exactly 0 in "
    "each; the fill -1e9 does not fit in float16",
    fails="in {first} the result is off by {off:.3g}, more than {limit:.2g}",
    fails_hidden="in {first} up to {weight:.3g} of the probability falls on a hidden key",
    fails_dtype="in {first} the result comes out as {got}",
    stops=STOPS,
)
@probing
def dtypes(probe: Probe) -> Finding | None:
    tokens = probe.batch()
    if tokens is None:
        return None
    views, wanted, facts = probe.views(tokens), probe.output(tokens), {}
    wrong: list[tuple[str, dict[str, object]]] = []
    hidden = 0
    for dtype, limit in NEAR.items():
        name = str(dtype).removeprefix("torch.")
        if probe.masks.fill == "-1e9" and torch.finfo(dtype).min > -1e9:
            continue  # the model refuses that, in words
        model = probe.copy(dtype)
        with torch.no_grad(), trace(model) as ledger:
            result = probe.output(tokens, model)
        weights = list(_recorded(ledger, "weights", views))
        weight = max((float(entry.value.masked_fill(view, 0.0).abs().max()) for entry, view in weights), default=0.0)
        hidden = sum(int((~view).sum()) for _, view in weights)
        off = (result.double() - wanted).square().mean().sqrt() / wanted.square().mean().sqrt()
        facts[name] = float(off)
        if result.dtype != dtype:
            wrong.append(("fails_dtype", {"first": name, "got": str(result.dtype).removeprefix("torch.")}))
        elif weight != 0:
            wrong.append(("fails_hidden", {"first": name, "weight": weight}))
        elif not off <= limit:
            wrong.append(("fails", {"first": name, "off": float(off), "limit": limit}))
    sentence, more = wrong[0] if wrong else ("holds" if len(facts) == len(NEAR) else "holds_fill", {})
    entries = probe.keys("weights", "allowed", "scores")
    return Finding(len(wrong), entries, facts={**facts, "hidden": hidden, **more}, sentence=sentence)
