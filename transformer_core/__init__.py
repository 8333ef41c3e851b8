"""A hand-written Transformer in which every tensor is tied to its formula, its line of code and its check."""

from transformer_core.config import MaskConfig, ModelConfig, TrainConfig
from transformer_core.ledger import Entry, Ledger, ShapeError, note, trace
from transformer_core.model import Transformer, build

__all__ = [
    "Entry",
    "Ledger",
    "MaskConfig",
    "ModelConfig",
    "ShapeError",
    "TrainConfig",
    "Transformer",
    "build",
    "note",
    "trace",
]
