"""Parity: our model beside torch.nn with the same weights - tensor by tensor, over many settings, and in words."""

from transformer_core.parity.tensors import LIMITS, NOTES, Comparison, Difference, compare
from transformer_core.parity.weights import NoCounterpart, load_from_torch, names, to_torch

__all__ = [
    "LIMITS",
    "NOTES",
    "Comparison",
    "Difference",
    "NoCounterpart",
    "compare",
    "load_from_torch",
    "names",
    "to_torch",
]
