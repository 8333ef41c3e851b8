"""Tensor by tensor: where our model and torch's modules with the same weights part, forward and backward."""

import copy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from transformer_core.batches import Batch
from transformer_core.errors import first_line
from transformer_core.ledger import Entry, Ledger, trace
from transformer_core.parity.comparison import Comparison, Difference, difference
from transformer_core.parity.torch_run import ends_of, loss_of, run_torch, visible
from transformer_core.parity.weights import names, to_torch

LIMITS = {torch.float32: 2e-5, torch.float64: 1e-12}
"""How far two computations of one formula may be apart, by dtype."""


@dataclass
class _Own:
    """One recorded run of our model: what it was given, the loss, and why it stopped."""

    ledger: Ledger = field(default_factory=Ledger)
    loss: Tensor | None = None
    failure: str | None = None


@torch.enable_grad()
def compare(
    model: nn.Module,
    batch: Batch,
    *,
    dtype: torch.dtype | None = None,
    training: bool = False,
    final_norm: str = "same",
    limit: float | None = None,
    backward: bool = True,
    stirred: float = 0.0,
) -> Comparison:
    """Our model and torch's with the same weights, on the same embedded tokens, masks and loss; the model stays as is.

    ``dtype`` is float32 or float64, by default the model's own and at least float32. With ``final_norm`` "torch"
    torch's module has the norms at the end of its stacks that nn.Transformer always has; "same" gives it as many as
    ours. ``limit`` replaces the one in ``LIMITS``. ``stirred`` shakes the gains and biases of both, see ``stir``.

    Raises:
        NoCounterpart: torch.nn cannot compute this function; the text says why.
        ValueError: the batch does not fit the model, the model has no numbers, or ``dtype`` is below float32.
    """
    ours, moved = copies(model, batch, dtype, training)
    if stirred:
        stir(ours, stirred)
    theirs = to_torch(ours, final_norm=final_norm)
    some = next(ours.parameters())
    bound = LIMITS[some.dtype] if limit is None else limit
    own = _run_ours(ours, moved)
    found, failure = {}, own.failure
    try:
        found = run_torch(theirs, ours, moved)
    except Exception as error:  # in our embeddings or output layer, where a broken model may break
        failure = failure or first_line(error)
    blind = _blind_rows(ours, moved)
    apart = _apart(ours, moved, blind)
    entries = {entry.key: entry for entry in reversed(own.ledger.entries)}  # of a layer used twice, its first turn
    forward = [difference(entry.value, found[key].detach(), _where(entry, apart), key, bound)
               for key, entry in reversed(entries.items()) if key in found]  # fmt: skip
    if own.loss is not None and "loss" in found:
        forward.append(difference(own.loss.detach(), found["loss"].detach(), None, "loss", bound))
    gradients: list[Difference] = []
    if backward and own.loss is not None and "loss" in found:
        gradients = _gradients(ours, theirs, own.loss, found["loss"], bound)
    first = next((each.key for each in forward if not each.passed), None)
    added = final_norm == "torch" and any(key.endswith("/final_norm") and key not in entries for key in found)
    present = {"behind_embeddings": True, "no_dropout": training, "blind_rows": bool(blind), "added_norm": added}
    settings = {
        "counterpart": f"nn.{type(theirs).__name__}", "dtype": str(some.dtype).removeprefix("torch."),
        "device": str(some.device), "training": training, "final_norm": final_norm, "limit": bound,
        "stirred": stirred, "torch": torch.__version__, "numbers": sum(each.numel() for each in theirs.parameters()),
    }  # fmt: skip
    notes = tuple(note for note, holds in present.items() if holds)
    return Comparison(tuple(forward), tuple(gradients), first, settings, failure, notes, blind)


def stir(model: nn.Module, spread: float, seed: int = 7) -> None:
    """Adds normal noise of this spread to every gain and bias.

    At the start gains are 1 and biases 0, and the norm of a normed tensor changes nothing: fresh weights let a bias in
    the wrong place, two norms exchanged or one too many pass.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for each in model.parameters():
            if each.dim() == 1:
                each.add_(spread * torch.randn(each.shape, generator=generator, dtype=torch.float64).to(each))


def copies(model: Any, batch: Batch, dtype: torch.dtype | None, training: bool) -> tuple[Any, Batch]:
    """A copy of the model in this dtype and mode, without dropout in training, and the batch on its device.

    Raises:
        ValueError: the batch does not fit the model, the model has no numbers, or ``dtype`` is below float32.
    """
    some = next(model.parameters())
    if some.is_meta:
        raise ValueError("the model is on the device meta, where it has shapes but no numbers to compare")
    wanted = dtype or (torch.float64 if some.dtype == torch.float64 else torch.float32)
    if wanted not in LIMITS:
        raise ValueError(f"dtype must be float32 or float64 to compare, got {wanted}")
    for side, tokens in (("src", batch.src), ("tgt", batch.tgt)):
        if getattr(model.config, "has_encoder" if side == "src" else "has_decoder"):
            model.check_tokens(side, tokens, getattr(model.config, f"{side}_vocab_size"))
    device = torch.device("cpu") if some.device.type == "mps" and wanted == torch.float64 else some.device
    ours = copy.deepcopy(model).to(device, wanted).train(training).requires_grad_(True)
    for module in ours.modules():
        if training and hasattr(module, "noise") and hasattr(module, "p"):
            module.p = 0.0
    src, tgt, labels = (None if ids is None else ids.to(device) for ids in (batch.src, batch.tgt, batch.labels))
    return ours, Batch(src, tgt, labels)


def _run_ours(ours: Any, batch: Batch) -> _Own:
    own = _Own()
    with trace(ours) as own.ledger:
        try:
            own.loss = loss_of(ours.config, batch, ours(batch.src, batch.tgt))
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a broken model may break anywhere, which is a finding
            own.failure = first_line(error)
    return own


def pairs(ours: Any, batch: Batch, kind: str) -> Tensor:
    """What one kind of attention may see for every sentence: B 1 q k, or B H q k where heads differ."""
    queries, keys = ends_of(batch, kind)
    allowed = visible(ours, batch, kind, getattr(ours.masks, kind))
    everything = torch.ones(len(keys), 1, queries.shape[1], keys.shape[1], dtype=torch.bool, device=keys.device)
    return everything if allowed is None else allowed & everything


def _blind_rows(ours: Any, batch: Batch) -> tuple[tuple[str, int, int], ...]:
    """Every query that some head leaves without a key: kind of attention, sentence and position."""
    both = ours.config.has_encoder and ours.config.has_decoder
    present = {"encoder_self": ours.config.has_encoder, "decoder_self": ours.config.has_decoder, "cross": both}
    found = []
    for kind in (kind for kind, there in present.items() if there):
        sees = pairs(ours, batch, kind).any(dim=-1).all(dim=1)
        found += [(kind, row, place) for row, place in (~sees).nonzero().tolist()]
    return tuple(found)


def _apart(ours: Any, batch: Batch, blind: tuple[tuple[str, int, int], ...]) -> dict[str, Tensor]:
    """The positions of each side that are judged apart: padding, and queries without a key."""
    tokens = {"src": batch.src, "tgt": batch.tgt}
    apart = {side: ids == ours.config.pad_id for side, ids in tokens.items() if ids is not None}
    for kind, row, place in blind:
        apart["src" if kind == "encoder_self" else "tgt"][row, place] = True
    return apart


def _where(entry: Entry, apart: dict[str, Tensor]) -> Tensor | None:
    """The cells of a recorded tensor that lie at such a position, as a query or as a key."""
    own = "src" if entry.path.startswith("encoder") else "tgt"
    keys = "src" if entry.path.endswith("cross_attention") else own
    sides = {"S": "src", "T": "tgt", "q": own, "n": own, "k": keys}
    where: Tensor | None = None
    for dim, axis in enumerate(entry.axes):
        positions = apart.get(sides.get(axis, ""))
        if positions is not None and entry.axes[0] == "B" and positions.shape == (entry.shape[0], entry.shape[dim]):
            shape = [len(positions), *(positions.shape[1] if at == dim else 1 for at in range(1, len(entry.shape)))]
            where = positions.view(shape) if where is None else where | positions.view(shape)
    return where


def _gradients(ours: nn.Module, theirs: nn.Module, own: Tensor, its: Tensor, limit: float) -> list[Difference]:
    """The gradient of the two losses for every parameter of ours; torch's packed one is cut into its three."""
    mine = dict(ours.named_parameters(remove_duplicate=False))
    packed = names(ours)
    shared = {part for parts in packed.values() for part in parts}
    rest = {name: each for name, each in mine.items() if name not in shared}  # embeddings, output layer: also torch's
    found = dict(zip(mine, _grad(own, list(mine.values())), strict=True))
    there = {name: each for name, each in theirs.named_parameters() if name in packed}
    given = _grad(its, [*there.values(), *rest.values()])
    wanted = dict(zip(rest, given[len(there) :], strict=True))
    for name, value in zip(there, given, strict=False):
        wanted |= dict(zip(packed[name], value.chunk(len(packed[name])), strict=True))
    return [difference(found[name], wanted[name], None, name, limit) for name in mine]


def _grad(loss: Tensor, parameters: list[nn.Parameter]) -> list[Tensor]:
    """The gradients, 0 where the loss does not depend on a parameter."""
    found = torch.autograd.grad(loss, parameters, allow_unused=True)
    return [torch.zeros_like(each) if grad is None else grad for each, grad in zip(parameters, found, strict=True)]
