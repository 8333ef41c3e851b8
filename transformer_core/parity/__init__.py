"""Parity: our model beside torch.nn with the same weights - tensor by tensor, over many settings, and in words."""

from transformer_core.parity.sweep import WHAT, SweepPoint, sweep
from transformer_core.parity.tensors import LIMITS, NOTES, Comparison, Difference, compare, stir
from transformer_core.parity.weights import NoCounterpart, load_from_torch, names, to_torch

__all__ = [
    "LIMITS",
    "NOTES",
    "WHAT",
    "Comparison",
    "Difference",
    "NoCounterpart",
    "SweepPoint",
    "compare",
    "load_from_torch",
    "names",
    "stir",
    "sweep",
    "to_torch",
]
