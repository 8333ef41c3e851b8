"""Level 2, the stream: what the layers start from, what each sub-layer adds to it, and the norms along the way."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_core.checks.rounding import NORMED, RELATIVE, relative, wide
from transformer_core.checks.subject import Subject, largest
from transformer_core.checks.table import NUMERICS, Finding, check
from transformer_core.ledger import Entry


@check(
    NUMERICS,
    claim="Each side starts from √d_model times the rows of its embedding table, as far as configured, and adds to "
    "each token the vector of its place.",
    cannot_see="Whether table and positions hold useful numbers.",
    claims=("embeddings", "positions"),
    holds="{tensors} tensors looked up anew, largest relative difference {measured:.2g}",
    fails="relative difference {measured:.3g} in {first} ({tensors} tensors looked up anew)",
)
def embeddings(subject: Subject) -> Finding | None:
    pairs = [pair for side in ("src", "tgt") for pair in _starts(subject, side)]
    return _compared(pairs, {key for key in subject.entries if key.endswith("_positions/positions")})


def _starts(subject: Subject, side: str) -> Iterator[tuple[Entry, Tensor]]:
    """The recorded embeddings and the input of the stack, each with what it should be."""
    config, model = subject.config, subject.model
    scaled = subject.entries.get(f"{side}_embeddings")
    if scaled is None:
        return
    factor = math.sqrt(config.d_model) if config.scale_embedding else 1.0
    tokens = getattr(subject.batch, side)
    wanted = wide(getattr(model, f"{side}_embedding").weight.detach())[tokens] * factor
    yield scaled, wanted
    start = subject.entries.get("encoder/input" if side == "src" else "decoder/input")
    if start is not None and not _drops(subject):
        kind = config.positions if side == "src" or config.positions_on_decoder else "none"
        table = getattr(getattr(model, f"{side}_positions"), "weight", None)
        places = _places(kind, table, tokens.shape[1], config.d_model)
        if places is not None:
            wanted = wanted + _as_held(places, table).to(wanted.dtype).to(wanted.device)
        yield start, wanted


def _places(kind: str, table: Tensor | None, length: int, d_model: int) -> Tensor | None:
    """The vectors of the first places. The waves are computed one by one: feature 2i is a sine, 2i + 1 its cosine."""
    if kind == "learned":
        return None if table is None else table.detach()[:length]
    if kind == "none":
        return None
    place = torch.arange(length, dtype=torch.float64)[:, None]
    feature = torch.arange(d_model, dtype=torch.float64)
    odd = feature % 2
    return (place / 10000.0 ** ((feature - odd) / d_model) + odd * math.pi / 2).sin()  # cos x = sin(x + π/2)


def _as_held(places: Tensor, table: Tensor | None) -> Tensor:
    """The rows of the table itself where they are the waves rounded to float32: ``double()`` makes them no finer."""
    held = None if table is None else table.detach()[: len(places)].to(places)
    if held is None or held.shape != places.shape or float((held - places).abs().max()) > 2.0**-24:
        return places
    return held


@check(
    NUMERICS,
    claim="Each sub-layer is added to the very vector that went by it, and what leaves a stack is what its last layer "
    "left.",
    cannot_see="What a sub-layer makes of its input; and everything while dropout acts, which changes each sum.",
    claims=("residuals", "norms"),
    holds="{tensors} tensors added up anew, largest relative difference {measured:.2g}",
    fails="relative difference {measured:.3g} in {first} ({tensors} tensors added up anew)",
)
def residuals(subject: Subject) -> Finding | None:
    if _drops(subject):
        return None
    pairs = []
    latest: dict[str, Entry] = {}
    for before, entry in _steps(subject, latest):
        came = wide(before.value)
        if entry.name.endswith("_sum"):
            output = latest.get(f"{entry.path}.{entry.name.removesuffix('_sum')}/output")
            if output is not None:
                pairs.append((entry, came + wide(output.value)))
        elif entry.name == "memory":
            pairs.append((entry, came))
        elif entry.name == "logits":
            last: Any = getattr(subject.model, "output", None) or subject.model.classifier
            came = came[:, 0] if entry.value.dim() == 2 else came
            bias = None if last.bias is None else wide(last.bias.detach())
            pairs.append((entry, F.linear(came, wide(last.weight.detach()), bias)))
    return _compared(pairs, {key for key in subject.entries if key.endswith("/output")})


def _drops(subject: Subject) -> bool:
    """Whether dropout has set numbers to 0 in this run."""
    return subject.model.training and subject.config.dropout > 0


def _compared(pairs: list[tuple[Entry, Tensor]], more: set[str]) -> Finding | None:
    """The largest relative difference of a recorded tensor from what it should be; ``more`` are keys that went in."""
    if not pairs:
        return None
    measured, place = largest([relative(wide(entry.value), wanted) for entry, wanted in pairs])
    first = pairs[place][0]
    facts = {"tensors": len(pairs), "first": first.key}
    keys = dict.fromkeys([*(entry.key for entry, _ in pairs), *sorted(more)])
    return Finding(measured, tuple(keys), 0.0, RELATIVE[first.value.dtype], facts)


@check(
    NUMERICS,
    claim="Each feed-forward network is max(0, x W_1 + b_1) W_2 + b_2 of the vector before it, or GELU in place of the "
    "maximum (equation 2).",
    cannot_see="Whether the right vector went in.",
    claims=("feed_forward",),
    holds="{tensors} tensors recomputed, largest relative difference {measured:.2g}",
    fails="relative difference {measured:.3g} in {first} ({tensors} tensors recomputed)",
)
def feed_forward_formula(subject: Subject) -> Finding | None:
    """In the ledger the norm that the network reads stands right before ``hidden``, and that before ``output``."""
    activation = F.gelu if subject.config.activation == "gelu" else torch.relu
    pairs, before = [], None
    for entry in subject.ledger:
        if before is not None and entry.path.endswith(".feed_forward"):
            network: Any = subject.model.get_submodule(entry.path)
            linear = network.w_1 if entry.name == "hidden" else network.w_2
            bias = None if linear.bias is None else wide(linear.bias.detach())
            wanted = F.linear(wide(before.value), wide(linear.weight.detach()), bias)
            pairs.append((entry, activation(wanted) if entry.name == "hidden" else wanted))
        before = entry
    return _compared(pairs, set())


@check(
    NUMERICS,
    claim="After every norm, gain and bias undone, each token has mean 0 and variance v / (v + eps), v being its "
    "variance before: 1 unless the token was nearly constant.",
    cannot_see="Whether the norm stands at the right place in the layer.",
    holds="{norms} norms, {tokens} tokens: largest |mean| {mean:.2g}, variance off by at most {measured:.2g}",
    claims=("norms",),
    fails="{first}: mean or variance of a token is off by {measured:.3g} ({norms} norms, {tokens} tokens)",
)
def norms(subject: Subject) -> Finding | None:
    off, entries, means, tokens = [], [], [], 0
    for before, after, module in _norms(subject):
        gain = wide(module.weight.detach())
        if gain.abs().min() < 1e-3:  # such a gain cannot be undone
            continue
        x, z = wide(before.value), wide(after.value)
        if isinstance(module, nn.LayerNorm) and module.bias is not None:
            z = z - wide(module.bias.detach())
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
    for before, entry in _steps(subject, {}):
        if entry.name.endswith("_norm"):
            name = "norm" if entry.name == "final_norm" else entry.name
            module = subject.model.get_submodule(f"{entry.path}.{name}")
            if isinstance(module, nn.LayerNorm | nn.RMSNorm):
                yield before, entry, module


def _steps(subject: Subject, latest: dict[str, Entry]) -> Iterator[tuple[Entry, Entry]]:
    """Each tensor that is made of the stream, after the tensor that the stream was then: sums, norms, the ends.

    The ledger itself is read, in which a layer that is used twice stands twice; ``latest`` has its last row of each key
    so far. In post-norm a sum goes into its norm and only the norm goes on, in pre-norm the sum itself goes on.
    """
    post = subject.config.norm_order == "post"
    stream: Entry | None = None
    total: Entry | None = None
    for entry in subject.ledger:
        latest[entry.key] = entry
        if entry.name == "input":
            stream = total = entry
        elif stream is None or total is None:
            continue
        elif entry.name.endswith("_sum"):
            yield stream, entry
            total = entry
            stream = stream if post else entry
        elif entry.name == "final_norm":
            yield stream, entry
            stream = total = entry
        elif entry.name.endswith("_norm"):
            yield total, entry
            stream = entry if post else stream
        elif entry.name in ("memory", "logits"):
            yield stream, entry
