"""Level 3, leaks: one input is changed and every output looked at. What moves is exactly what the masks allow.

Both directions count. Where something moves that is hidden, there is a leak. Where something visible moves nothing, the
connection is dead, and a dead connection passes every test that looks for leaks only.

It is asked twice. By value: a random vector is added to the embedding of one token, and outputs before and after are
compared, number by number. By gradient: one output is differentiated after all embeddings at once, which also sees what
is too small to change a sum.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from transformer_core.checks.probes import STOPS, Probe, hooked, probing, worst
from transformer_core.checks.reach import reach
from transformer_core.checks.table import BEHAVIOUR, Finding, check

HOLDS = (
    "{pairs} pairs of output and input, in batches of {batches} sentences: the {visible} visible ones move and no other"
)
FAILS = (
    "{leaks} of {hidden} hidden pairs move (by value up to {size:.2g}); first output {output} at input {input} of "
    "sentence {sentence}, batch of {rows}"
)
DEAD = (
    "{dead} of {visible} visible pairs do not move; first output {output} at input {input} of sentence {sentence}, "
    "batch of {rows}"
)
PLACES = 7
"""At most so many tokens of a sentence are changed, evenly spread."""


@check(
    BEHAVIOUR,
    claim="A vector of memory depends on exactly those source tokens that the encoder's masks allow, by value and by "
    "gradient.",
    cannot_see="A mask of the configuration that is not what was meant.",
    claims=("padding",),
    holds=HOLDS,
    fails=FAILS,
    dead=DEAD,
    stops=STOPS,
)
@probing
def encoder_leak(probe: Probe) -> Finding | None:
    return _judge(probe, "src", "memory", "encoder_self") if probe.config.has_encoder else None


@check(
    BEHAVIOUR,
    claim="The logits of a place depend on exactly those target tokens that the decoder's masks allow, by value and by "
    "gradient.",
    cannot_see="A target that was not shifted: then the token that is asked for is allowed.",
    claims=("future",),
    holds=HOLDS,
    fails=FAILS,
    dead=DEAD,
    stops=STOPS,
)
@probing
def decoder_leak(probe: Probe) -> Finding | None:
    return _judge(probe, "tgt", "logits_tgt", "decoder_self") if probe.config.has_decoder else None


@check(
    BEHAVIOUR,
    claim="The logits of a place depend on exactly those source tokens that the masks of encoder, cross-attention and "
    "decoder let through, by value and by gradient.",
    cannot_see="What the target does with the source that it sees.",
    claims=("source",),
    holds=HOLDS,
    fails=FAILS,
    dead=DEAD,
    stops=STOPS,
)
@probing
def cross_leak(probe: Probe) -> Finding | None:
    return _judge(probe, "src", "logits_src", "cross") if len(probe.sides) == 2 else None


@dataclass
class _Tally:
    """Pairs of output and input so far, over all batches."""

    pairs: int = 0
    visible: int = 0
    leaks: int = 0
    dead: int = 0
    size: float = 0.0
    batches: list[str] = field(default_factory=list)
    first: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, looked: Tensor, visible: Tensor, leaks: Tensor, dead: Tensor) -> None:
        """Which pairs were looked at, and which of them are visible, leak or are dead; each B out in."""
        self.pairs += int(looked.sum())
        self.visible += int(visible.sum())
        self.leaks += int(leaks.sum())
        self.dead += int(dead.sum())
        self.batches.append(str(len(looked)))
        for name, wrong in (("fails", leaks), ("dead", dead)):
            if wrong.any():
                row, output, source = (wrong.nonzero()[0] + 1).tolist()
                place = {"sentence": row, "output": output, "input": source, "rows": len(looked)}
                self.first.setdefault(name, place)


def _judge(probe: Probe, side: str, reached: str, kind: str) -> Finding | None:
    """Three batches: one in which all sizes differ, one of as many sentences as places, one of as many as heads."""
    forward: Callable[[dict[str, Tensor]], Tensor] = probe.output
    if reached == "memory":
        forward = lambda tokens: probe.model.encode(tokens["src"])  # noqa: E731
    tokens = probe.batch()
    if tokens is None:
        return None
    tally = _Tally()
    _every_place(probe, side, reached, forward, tokens, tally)
    length = probe.lengths["src" if reached == "memory" else "tgt"]
    for rows in dict.fromkeys((length, probe.config.n_heads)):
        again = probe.batch(rows) if 2 <= rows <= 16 else None
        if again is not None:
            _one_place_each(probe, side, reached, forward, again, tally)
    facts = {"pairs": tally.pairs, "visible": tally.visible, "hidden": tally.pairs - tally.visible,
             "leaks": tally.leaks, "dead": tally.dead, "size": tally.size,
             "batches": ", ".join(tally.batches)}  # fmt: skip
    sentence = "fails" if tally.leaks else "dead" if tally.dead else "holds"
    entries = probe.keys("weights", "allowed", kind=kind)
    return Finding(tally.leaks + tally.dead, entries, facts=facts | tally.first.get(sentence, {}), sentence=sentence)


def _every_place(
    probe: Probe, side: str, reached: str, forward: Callable[[dict[str, Tensor]], Tensor],
    tokens: dict[str, Tensor], tally: _Tally,
) -> None:  # fmt: skip
    """Each sentence stands in the batch once for every place; in copy p, input p is changed and output p looked at.

    Both forwards have the same shape, so that unchanged numbers are computed in the same order and are equal.
    """
    rows, n_out, n_in = reach(probe.config, probe.views(tokens))[reached].shape
    outputs, inputs = _spread_out(n_out), _spread_out(n_in)
    copies = max(len(outputs), len(inputs))
    repeated = {name: ids.repeat_interleave(copies, 0) for name, ids in tokens.items()}
    row = torch.arange(rows).repeat_interleave(copies)
    output = outputs.repeat(copies)[:copies].repeat(rows)
    token = inputs.repeat(copies)[:copies].repeat(rows)

    before, gradient, embedding = _gradient(probe, side, forward, repeated, output)
    change = torch.zeros_like(embedding)
    length = embedding.square().mean().sqrt()
    change[torch.arange(len(row)), token] = length * torch.randn(len(row), change.shape[-1], generator=probe.random,
                                                                 dtype=torch.float64)  # fmt: skip
    with torch.no_grad(), hooked(_embedding(probe, side), lambda _module, _inputs, output: output + change):
        after = forward(repeated)

    distance = (after - before).abs().amax(dim=-1)  # copies of sentences, outputs
    copy = torch.arange(len(row))
    allowed = reach(probe.config, probe.views(repeated))[reached]
    may, should = allowed[copy, :, token], allowed[copy, output]  # of the changed input, of the output looked at
    looked, visible, leaks, dead = (torch.zeros(rows, n_out, n_in, dtype=torch.bool) for _ in range(4))
    looked[row, :, token] = ~may
    looked[row, output], visible[row, output] = True, should
    leaks[row, :, token] = (distance != 0) & ~may  # NaN is not 0 either
    leaks[row, output] |= gradient & ~should
    dead[row, output] = should & ~gradient
    hidden = distance.masked_fill(may, 0.0)
    size = float(hidden.max() / before.abs().max().clamp_min(1e-30))
    tally.size = max(tally.size, size, key=worst)
    tally.add(looked, visible, leaks, dead)


def _one_place_each(
    probe: Probe, side: str, reached: str, forward: Callable[[dict[str, Tensor]], Tensor],
    tokens: dict[str, Tensor], tally: _Tally,
) -> None:  # fmt: skip
    """Sentence b is asked for its output b only, by gradient: little work, in batches where sizes coincide."""
    allowed = reach(probe.config, probe.views(tokens))[reached]
    row = torch.arange(len(allowed))
    output = row % allowed.shape[1]
    moved, looked = torch.zeros_like(allowed), torch.zeros_like(allowed)
    moved[row, output] = _gradient(probe, side, forward, tokens, output)[1]
    looked[row, output] = True
    tally.add(looked, allowed & looked, moved & ~allowed, allowed & looked & ~moved)


def _gradient(
    probe: Probe, side: str, forward: Callable[[dict[str, Tensor]], Tensor], tokens: dict[str, Tensor], place: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The outputs, which inputs the output at ``place`` of each row depends on (B in), and the embeddings."""
    leaves: list[Tensor] = []

    def keep(_module: object, _inputs: object, output: Tensor) -> Tensor:
        leaves.append(output.detach().requires_grad_())
        return leaves[-1]

    with torch.enable_grad(), hooked(_embedding(probe, side), keep):
        outputs = forward(tokens)
        looked_at = outputs[torch.arange(len(place)), place]
        direction = torch.randn(looked_at.shape, generator=probe.random, dtype=torch.float64)
        number = (looked_at * direction).sum()
        if not number.requires_grad:  # nothing of the embedding got there
            return outputs, torch.zeros(tokens[side].shape, dtype=torch.bool), leaves[0]
        (gradient,) = torch.autograd.grad(number, leaves[:1], materialize_grads=True)
    return outputs.detach(), (gradient != 0).any(dim=-1), leaves[0].detach()


def _embedding(probe: Probe, side: str) -> torch.nn.Module:
    module = getattr(probe.model, f"{side}_embedding")
    assert isinstance(module, torch.nn.Module)
    return module


def _spread_out(length: int) -> Tensor:
    return torch.linspace(0, length - 1, min(length, PLACES)).round().long()
