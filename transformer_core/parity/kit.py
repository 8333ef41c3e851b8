"""What a row of the reading table is, and what the rows measure with."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from transformer_core.batches import Batch
from transformer_core.parity.plain import plain
from transformer_core.parity.tensors import copies, stir
from transformer_core.parity.torch_run import ends_of, torch_masks, visible
from transformer_core.parity.weights import sides, to_torch

SAME = 1e-9
"""Below it, two float64 computations of one layer are the same; what is overlooked costs far more."""


@dataclass(frozen=True)
class Reading:
    """One row. ``measured`` is the largest difference when the point is overlooked, ``heeded`` when it is heeded.

    ``verdict`` is "same" when torch's default does it our way, "adapted" when it can be told to, and "differs" when it
    cannot. ``facts`` are the values in the three texts.
    """

    name: str
    ours: str
    theirs: str
    look_at: str
    measured: float
    heeded: float
    verdict: str
    facts: dict[str, Any] = field(default_factory=dict)

    def to_row(self) -> dict[str, Any]:
        """Plain data that JSON can hold."""
        return plain(self)


@dataclass(frozen=True)
class Seen:
    """What a row brings back: the difference when overlooked, the one left when heeded, the values in its texts."""

    measured: float
    heeded: float
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Row:
    """One line of the table, before it is measured; None where the model has nothing of the kind."""

    name: str
    ours: str
    theirs: str
    look_at: str
    measure: Callable[["Kit"], Seen | None]

    def read(self, kit: "Kit") -> Reading | None:
        """The row with its numbers."""
        seen = self.measure(kit)
        if seen is None:
            return None
        verdict = "same" if seen.measured <= SAME else "adapted" if seen.heeded <= SAME else "differs"
        ours, theirs, look_at = (text.format(**seen.facts) for text in (self.ours, self.theirs, self.look_at))
        return Reading(self.name, ours, theirs, look_at, seen.measured, seen.heeded, verdict, seen.facts)


def row(ours: str, theirs: str, look_at: str) -> Callable[[Callable[["Kit"], Seen | None]], Row]:
    """Makes a row out of the function that measures; the function's name is the name of the row."""

    def make(measure: Callable[["Kit"], Seen | None]) -> Row:
        return Row(measure.__name__, ours, theirs, look_at, measure)

    return make


class Kit:
    """What the rows measure with: a float64 copy of the model in evaluation mode with gains and biases stirred, its
    first stack, first layer and first attention, and torch's for each."""

    def __init__(self, model: nn.Module, batch: Batch) -> None:
        self.model, self.batch = copies(model, batch, torch.float64, False)
        stir(self.model, 0.3)
        self.config = self.model.config
        self.side = sides(self.model)[0]
        self.kind = f"{self.side}_self"
        self.stack = getattr(self.model, self.side)
        self.layer = self.stack.layers[0]
        self.attention = self.layer.self_attention
        self.tokens = ends_of(self.batch, self.kind)[0]
        self.real = self.tokens != self.config.pad_id

    @cached_property
    def x(self) -> Tensor:
        """The embedded tokens, B n D."""
        return self.model.embed("src" if self.side == "encoder" else "tgt", self.tokens).detach()

    @cached_property
    def allowed(self) -> Tensor | None:
        """The mask of the first attention as the model composes it, True = may attend."""
        return visible(self.model, self.batch, self.kind, getattr(self.model.masks, self.kind))

    @cached_property
    def pairs(self) -> Tensor:
        """The same for every sentence, B 1 q k, or B H q k where heads differ."""
        rows, length = self.tokens.shape
        everything = torch.ones(rows, 1, length, length, dtype=torch.bool, device=self.tokens.device)
        return everything if self.allowed is None else self.allowed & everything

    @cached_property
    def theirs(self) -> dict[str, Tensor | None]:
        """The same as torch's two arguments, True = ignore."""
        attn_mask, ignored = torch_masks(self.model, self.batch, self.kind)
        return {"attn_mask": attn_mask, "key_padding_mask": ignored}

    @cached_property
    def judged(self) -> Tensor:
        """The real positions that see a key, B n."""
        return self.real & self.pairs.any(dim=-1).all(dim=1)

    def heads(self) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v of the first attention."""
        inner = self.attention
        return inner.split(inner.w_q(self.x)), inner.split(inner.w_k(self.x)), inner.split(inner.w_v(self.x))

    def attends(self, theirs: nn.Module, **options: Any) -> tuple[Tensor, Tensor]:
        """Output and weights of torch's attention on the first layer's input, every head by itself."""
        asked = {"need_weights": True, "average_attn_weights": False, **self.theirs, **options}
        output, weights = theirs(self.x, self.x, self.x, **asked)
        return output.detach(), weights.detach()

    def layer_output(self, theirs: nn.Module) -> Tensor:
        """Output of torch's layer on the first layer's input."""
        return theirs(self.x, src_mask=self.theirs["attn_mask"], src_key_padding_mask=self.theirs["key_padding_mask"])

    def stack_output(self, theirs: nn.Module) -> Tensor:
        """Output of torch's stack on the embedded tokens."""
        return theirs(self.x, mask=self.theirs["attn_mask"], src_key_padding_mask=self.theirs["key_padding_mask"])

    def apart(self, ours: Tensor, theirs: Tensor) -> float:
        """The largest difference at the judged positions of two tensors whose first axes are B and n."""
        return distance(ours[self.judged], theirs[self.judged])

    def layer_apart(self, change: Callable[[Any], object]) -> Seen:
        """The first layers' difference, torch's with ``change`` made to it and without."""
        ours, theirs = self.layer(self.x, self.allowed), to_torch(self.layer)
        heeded = self.apart(ours, self.layer_output(theirs))
        change(theirs)
        return Seen(self.apart(ours, self.layer_output(theirs)), heeded)


def distance(ours: Tensor, theirs: Tensor) -> float:
    """The largest difference; cells that are NaN on both sides agree, NaN on one side only is NaN."""
    off = (ours - theirs).detach().abs().masked_fill(ours.isnan() & theirs.isnan(), 0.0)
    return float(off.max()) if off.numel() else 0.0
