"""What can be measured on a model in training without its run feeling it: on held-out questions, in evaluation mode."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from transformer_core.attention import masked_softmax
from transformer_core.batches import Batch
from transformer_core.decoding import evaluating
from transformer_core.ledger import Entry, Ledger, trace
from transformer_core.model import Transformer, build
from transformer_core.tasks.base import Task
from transformer_core.training import HELD_OUT, layer_norms, smoothed_cross_entropy
from transformer_core.training.loss import device_of, labels_of

QUESTIONS = 40
SHARP = 0.99
"""An attention weight above this leaves next to nothing for the other keys, and the softmax next to no gradient."""


@dataclass(frozen=True)
class Vitals:
    """Measures of one model, each taken when it is first asked for. ``seed`` is that of the model's first weights.

    No gradient is left in the model, no generator of the run is drawn from, and every module keeps its mode.
    """

    model: Transformer
    task: Task
    seed: int

    @cached_property
    def batch(self) -> Batch:
        """Questions that no training run is asked."""
        return self.task.sample(QUESTIONS, torch.Generator().manual_seed(HELD_OUT + self.seed), "new")

    @cached_property
    def fresh(self) -> dict[str, Tensor]:
        """The weights of ``seed``, before any training."""
        some = next(self.model.parameters())
        start = build(self.model.config, self.model.masks, self.seed, some.device, some.dtype)
        return {name: weight.detach() for name, weight in start.named_parameters()}

    @cached_property
    def ledger(self) -> Ledger:
        """Every tensor of one forward."""
        with torch.no_grad(), trace(self.model) as ledger:
            self.logits(dict(self.model.named_parameters()), self.batch.src)
        return ledger

    @cached_property
    def first_ledger(self) -> Ledger:
        """Every tensor of the same forward with the fresh weights."""
        with torch.no_grad(), trace(self.model) as ledger:
            self.logits(self.fresh, self.batch.src)
        return ledger

    # ---- the weights

    @cached_property
    def weight_size(self) -> float:
        """√(mean w²) of the fresh matrices: how large a weight usually is."""
        matrices = [weight for weight in self.fresh.values() if weight.dim() > 1]
        return math.sqrt(squares(matrices) / sum(weight.numel() for weight in matrices))

    @cached_property
    def moved(self) -> float:
        """|w - w_fresh| / |w_fresh|: how far training has come from its start, in lengths of the start."""
        now = dict(self.model.named_parameters())
        return math.sqrt(squares(now[name].detach() - weight for name, weight in self.fresh.items())
                         / squares(self.fresh.values()))  # fmt: skip

    @cached_property
    def grown(self) -> float:
        """|w| / |w_fresh|, over the matrices."""
        now = (weight.detach() for weight in self.model.parameters() if weight.dim() > 1)
        return math.sqrt(squares(now) / squares(weight for weight in self.fresh.values() if weight.dim() > 1))

    @cached_property
    def broken_weight(self) -> str:
        """The first weight that is not finite, or nothing."""
        named = self.model.named_parameters()
        return next((name for name, weight in named if not weight.detach().isfinite().all()), "")

    # ---- the gradient

    def least_gradient(self, fresh: bool = False) -> tuple[str, float]:
        """The part of the model that gets least of the gradient, and its norm as a share of the largest part's."""
        weights = self.fresh if fresh else {name: weight.detach() for name, weight in self.model.named_parameters()}
        asked = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
        labels, pad_id = labels_of(self.model, self.batch)
        with torch.enable_grad():
            loss = smoothed_cross_entropy(self.logits(asked, self.batch.src), labels, pad_id=pad_id)
            gradients = torch.autograd.grad(loss, list(asked.values()), allow_unused=True)
        norms = layer_norms({name: each for name, each in zip(asked, gradients, strict=True) if each is not None})
        least = min(norms, key=lambda part: norms[part])
        return least, norms[least] / max(max(norms.values()), 1e-30)

    # ---- what the answers depend on

    def source_effect(self, fresh: bool = False) -> float:
        """How much the logits change when every question gets the source of the next one, in their own spread."""
        assert self.batch.src is not None
        return self._effect(self.batch.src.roll(1, 0), fresh)

    def order_effect(self, fresh: bool = False) -> float:
        """How much the logits change when the tokens behind the first of each source are turned round."""
        assert self.batch.src is not None
        source = self.batch.src.clone()
        for row in source:
            places = (row != self.model.config.pad_id).nonzero().flatten()[1:]
            row[places] = row[places.flip(0)]
        return self._effect(source, fresh)

    def _effect(self, source: Tensor, fresh: bool) -> float:
        weights: Mapping[str, Tensor] = self.fresh if fresh else dict(self.model.named_parameters())
        with torch.no_grad():
            before, after = self.logits(weights, self.batch.src), self.logits(weights, source)
        return ((after - before).abs().max() / before.std().clamp(min=1e-30)).item()

    def logits(self, weights: Mapping[str, Tensor], source: Tensor | None) -> Tensor:
        """What the model answers with these weights in the place of its own."""
        device = device_of(self.model)
        sides = tuple(None if side is None else side.to(device) for side in (source, self.batch.tgt))
        with evaluating(self.model):
            return torch.func.functional_call(self.model, dict(weights), sides)

    # ---- inside a layer

    def blind_rows(self) -> Iterator[tuple[str, int, int]]:
        """Each attention with queries that may see no key: its path, how many of them, of how many."""
        for entry in self._noted("allowed"):
            rows = ~entry.value.any(dim=-1)
            if rows.any():
                yield entry.path, int(rows.sum()), rows.numel()

    def sharpest(self) -> tuple[str, float]:
        """The attention with most rows in which one key has all the weight, and the share of those rows."""
        shares = {entry.key: sharp(entry.value, self.ledger[f"{entry.path}/allowed"].value)
                  for entry in self._noted("weights")}  # fmt: skip
        worst = max(shares, key=lambda key: shares[key])
        return worst, shares[worst]

    def sharp_at_start(self, key: str) -> tuple[float, float]:
        """That share of an attention with the fresh weights: as it is, and with its scores divided by √d_head."""
        path = key.rpartition("/")[0]
        noted = (self.first_ledger[f"{path}/{name}"].value for name in ("weights", "scores", "allowed"))
        weights, scores, allowed = noted
        divided = masked_softmax(scores / math.sqrt(self.model.config.d_head), allowed)
        return sharp(weights, allowed), sharp(divided, allowed)

    def deadest(self) -> tuple[str, float]:
        """The feed-forward layer with most hidden units that are 0 for every real token, and their share."""
        shares = {}
        for entry in self._noted("hidden"):
            tokens = self.batch.src if entry.path.startswith("encoder") else self.batch.tgt
            assert tokens is not None
            real = entry.value[(tokens != self.model.config.pad_id).to(entry.value.device)]
            shares[entry.key] = (real == 0).all(dim=0).float().mean().item()
        worst = max(shares, key=lambda key: shares[key])
        return worst, shares[worst]

    def _noted(self, name: str) -> list[Entry]:
        return [entry for entry in self.ledger if entry.name == name]


def sharp(weights: Tensor, allowed: Tensor) -> float:
    """The share of rows in which one of several keys has more than ``SHARP`` of the weight."""
    chosen = allowed.sum(dim=-1) > 1  # a single key has all the weight anyway
    return (weights.amax(dim=-1) > SHARP)[chosen].float().mean().item() if chosen.any() else 0.0


def squares(tensors: Iterable[Tensor]) -> float:
    """Σ x² over the finite numbers of all tensors, in float64."""
    return math.fsum(float(each.double().nan_to_num(0.0, 0.0, 0.0).square().sum()) for each in tensors)
