"""Parity: our model beside torch.nn with the same weights - tensor by tensor, over many settings, and in words."""

from transformer_core.parity.comparison import NOTES, Comparison, Difference
from transformer_core.parity.kit import Reading
from transformer_core.parity.reading import ROWS, reading_table
from transformer_core.parity.sdpa import compare_attention
from transformer_core.parity.speed import SpeedRow, attention_speed, present_devices
from transformer_core.parity.sweep import WHAT, SweepPoint, sweep
from transformer_core.parity.tensors import LIMITS, compare, stir
from transformer_core.parity.weights import NoCounterpart, load_from_torch, names, to_torch, torch_state

__all__ = [
    "LIMITS",
    "NOTES",
    "ROWS",
    "WHAT",
    "Comparison",
    "Difference",
    "NoCounterpart",
    "Reading",
    "SpeedRow",
    "SweepPoint",
    "attention_speed",
    "compare",
    "compare_attention",
    "load_from_torch",
    "names",
    "present_devices",
    "reading_table",
    "stir",
    "sweep",
    "to_torch",
    "torch_state",
]
