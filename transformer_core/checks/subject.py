"""What the checks look at: one run of one model, its ledger, its loss and its gradients."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_core.batches import Batch
from transformer_core.ledger import Entry, Ledger, ShapeError, trace
from transformer_core.model import Transformer
from transformer_core.workshop import OWN, Workshop

AnyTransformer = Any
"""The library's own Transformer, or one of a workshop with a changed line: that is a class of its own."""
_PARTS = ("q", "k", "v", "scores", "allowed", "weights", "heads", "output")


@dataclass(frozen=True)
class Attention:
    """The recorded tensors of one attention; ``kind`` is encoder_self, decoder_self or cross, as in MaskConfig."""

    path: str
    kind: str
    parts: dict[str, Entry]

    def value(self, name: str) -> Tensor:
        return self.parts[name].value

    def keys(self, *names: str) -> tuple[str, ...]:
        return tuple(self.parts[name].key for name in names)


@dataclass(frozen=True)
class Loss:
    """A number to differentiate. Without any target token ``kind`` is mean_square of the output instead of a loss."""

    value: Tensor
    kind: str
    targets: int
    chance: float
    """The loss of guessing evenly: ln V."""


class Subject:
    """A model, a batch and what a forward with them recorded; the costly parts are computed when first asked for.

    ``shop`` is the code that the model was built with and is trained and decoded with. The model is left as it was:
    mode, parameters, ``.grad``, the state of its dropout noise and of batch norms.
    """

    def __init__(
        self, model: AnyTransformer, batch: Batch, ledger: Ledger | None = None, shop: Workshop = OWN, seed: int = 0
    ) -> None:
        self.model, self.batch = model, _moved(batch, next(model.parameters()).device)
        self.shop, self.seed = shop, seed
        self.config, self.masks = model.config, model.masks
        self.failure: str | None = None  # why the forward stopped, when it did
        self.ledger = self._trace() if ledger is None else ledger
        self.entries = {entry.key: entry for entry in self.ledger}
        self.end = "logits" if self.config.has_decoder or self.config.n_classes else "memory"
        if self.failure is None and self.end not in self.entries:
            self.failure = f"{self.end} was not recorded"

    def _trace(self) -> Ledger:
        """A recorded forward that can be differentiated. A fault inside ends it; wrong tokens or rules are raised."""
        ledger = Ledger()
        for side, tokens in (("src", self.batch.src), ("tgt", self.batch.tgt)):
            if getattr(self.config, "has_encoder" if side == "src" else "has_decoder"):
                self.model.check_tokens(side, tokens, getattr(self.config, f"{side}_vocab_size"))
        self._try_masks()
        try:
            with untouched(self.model), torch.enable_grad(), trace(self.model) as ledger:
                self.output = self.model(self.batch.src, self.batch.tgt)
        except ShapeError as error:
            self.failure, ledger = str(error), error.ledger
        except torch.OutOfMemoryError:
            raise
        except (RuntimeError, ValueError, IndexError) as error:
            if not len(ledger):
                raise
            self.failure = str(error).splitlines()[0]
        return ledger

    def _try_masks(self) -> None:
        """Composes each mask once with the library's own code: what that refuses is a wrong setting, not a fault.

        Raises:
            ValueError: a rule does not fit these lengths.
        """
        src, tgt, config = self.batch.src, self.batch.tgt, self.config
        both = config.has_encoder and config.has_decoder
        present = {"encoder_self": (config.has_encoder, src, src), "decoder_self": (config.has_decoder, tgt, tgt),
                   "cross": (both, tgt, src)}  # fmt: skip
        for kind, (there, queries, keys) in present.items():
            if there and queries is not None and keys is not None:
                Transformer.allowed(self.model, kind, queries.shape[1], keys)

    @property
    def has_numbers(self) -> bool:
        """False on the meta device, where tensors have shapes only."""
        return not any(entry.value.is_meta for entry in self.ledger)

    @property
    def output_keys(self) -> tuple[str, ...]:
        """The ledger keys of the output, as far as it was recorded: loss, gradients and answers are made of it."""
        return tuple(key for key in (self.end, "probabilities") if key in self.entries)

    @cached_property
    def floats(self) -> list[Entry]:
        """The recorded tensors of real numbers: all but token ids and masks."""
        return [entry for entry in self.entries.values() if entry.value.is_floating_point()]

    @cached_property
    def attentions(self) -> list[Attention]:
        """Every attention whose tensors were all recorded, in the order of the forward."""
        paths = dict.fromkeys(entry.path for entry in self.entries.values() if entry.name == "scores")
        found = []
        for path in paths:
            parts = {name: self.entries[f"{path}/{name}"] for name in _PARTS if f"{path}/{name}" in self.entries}
            if len(parts) == len(_PARTS):
                cross = path.endswith("cross_attention")
                kind = "cross" if cross else "encoder_self" if path.startswith("encoder") else "decoder_self"
                found.append(Attention(path, kind, parts))
        return found

    def key_tokens(self, kind: str) -> Tensor:
        """The tokens that an attention of this kind attends to."""
        tokens = self.batch.tgt if kind == "decoder_self" else self.batch.src
        assert tokens is not None
        return tokens

    def module(self, attention: Attention) -> Any:
        """The module at the attention's path; any module with split, merge and w_o will do."""
        return self.model.get_submodule(attention.path)

    @cached_property
    def stacks(self) -> dict[str, nn.ModuleList]:
        """The layers of each side that the model has."""
        sides = (side for side in ("encoder", "decoder") if hasattr(self.model, side))
        return {side: getattr(self.model, side).layers for side in sides}

    @cached_property
    def output(self) -> Tensor:
        with untouched(self.model), torch.enable_grad():
            return self.model(self.batch.src, self.batch.tgt)

    @cached_property
    @torch.enable_grad()
    def loss(self) -> Loss:
        """Cross-entropy per real target token: the labels of the batch, else each next token of ``tgt``."""
        labels, output = self.batch.labels, self.output
        if labels is None and self.config.has_decoder:
            assert self.batch.tgt is not None
            labels, output = self.batch.tgt[:, 1:], output[:, :-1]
        if labels is not None and labels.dim() == output.dim() - 1:
            ignored = self.config.pad_id if labels.dim() == 2 else -100
            targets = int((labels != ignored).sum())
            if targets:
                logits = output.flatten(0, -2).to(_wide(output.dtype))
                value = F.cross_entropy(logits, labels.flatten(), ignore_index=ignored)
                return Loss(value, "cross_entropy", targets, math.log(output.shape[-1]))
        return Loss(self.output.to(_wide(self.output.dtype)).square().mean(), "mean_square", 0, math.nan)

    @cached_property
    def trained(self) -> dict[str, nn.Parameter]:
        """The parameters that training would change."""
        return {name: each for name, each in self.model.named_parameters() if each.requires_grad}

    @cached_property
    def gradients(self) -> dict[str, Tensor | None]:
        """The gradient of the loss for every trained parameter; None where the loss does not depend on it."""
        if not self.trained:
            return {}
        parameters = list(self.trained.values())
        return dict(zip(self.trained, torch.autograd.grad(self.loss.value, parameters, allow_unused=True), strict=True))


def _moved(batch: Batch, device: torch.device) -> Batch:
    """The ids on the device of the model, where its masks will be made of them."""
    src, tgt, labels = (None if ids is None else ids.to(device) for ids in (batch.src, batch.tgt, batch.labels))
    return Batch(src, tgt, labels)


def _wide(dtype: torch.dtype) -> torch.dtype:
    """The dtype to add up in: half precision would round the sum itself."""
    return dtype if dtype == torch.float64 else torch.float32


@contextmanager
def untouched(model: AnyTransformer) -> Iterator[None]:
    """Puts back what a forward in training mode moves: the dropout noise and the running means of batch norms."""
    device = next(model.parameters()).device
    noise = None if device.type == "meta" else model.noise.generator(device)
    state = None if noise is None else noise.get_state()
    norms = [module for module in model.modules() if isinstance(module, nn.BatchNorm1d)]
    kept = [dict(norm.named_buffers()) for norm in norms]
    for norm in norms:  # stand-ins, not copies to write back: a graph that holds a buffer must not see it change
        for name, buffer in norm.named_buffers():
            setattr(norm, name, buffer.clone())
    try:
        yield
    finally:
        if noise is not None and state is not None:
            noise.set_state(state)
        for norm, buffers in zip(norms, kept, strict=True):
            for name, buffer in buffers.items():
                setattr(norm, name, buffer)


def largest(values: list[Tensor]) -> tuple[float, int]:
    """The largest of some scalar tensors and its place; NaN counts as larger than everything."""
    numbers: list[Any] = torch.stack([value.float() for value in values]).tolist()
    place = max(range(len(numbers)), key=lambda i: (math.isnan(numbers[i]), numbers[i]))
    return numbers[place], place
