"""Which tensors of a run a fault changes, beside the run of the right model."""

import math
from typing import NamedTuple

import torch

from transformer_core.faults.matrix import one_thread
from transformer_core.faults.table import Fault
from transformer_core.ledger import Ledger, trace
from transformer_core.presets import Preset
from transformer_core.workshop import OWN, Workshop


class Changed(NamedTuple):
    """A row of the ledger that reads otherwise. A shape is empty where the row is missing."""

    key: str
    shape_right: tuple[int, ...]
    shape_wrong: tuple[int, ...]
    max_abs: float
    """NaN where one of the numbers is, infinity where the shapes differ; of masks 1, a cell that is turned over."""


def changed_tensors(fault: Fault, preset: Preset, seed: int = 7) -> list[Changed]:
    """The tensors of one forward that the fault changes, in the order in which they are computed.

    Faults of training, decoding and gradients change none. A forward that stops gives the rows up to there, and those
    behind it as missing.
    """
    values, others = (
        {entry.key: entry.value for entry in reversed(_traced(shop, preset, seed).entries)}  # of two, the first
        for shop in (OWN, fault.shop)
    )
    found = []
    for key in dict.fromkeys((*reversed(values), *reversed(others))):
        one, other = values.get(key), others.get(key)
        if one is None or other is None or one.shape != other.shape:
            shape, changed = (() if each is None else tuple(each.shape) for each in (one, other))
            found.append(Changed(key, shape, changed, math.inf))
        elif not torch.equal(one, other):
            difference = (one.double() - other.double()).abs().max().item()
            found.append(Changed(key, tuple(one.shape), tuple(other.shape), difference))
    return found


def _traced(shop: Workshop, preset: Preset, seed: int) -> Ledger:
    model, batch = shop.model.build(preset.model, preset.masks, seed=seed).eval(), preset.batch(seed)
    with torch.no_grad(), one_thread(), trace(model) as ledger:
        try:
            model(batch.src, batch.tgt)
        except (RuntimeError, ValueError, IndexError):
            pass
    return ledger
