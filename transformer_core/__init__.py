"""A hand-written Transformer in which every tensor is tied to its formula, its line of code and its check."""

from transformer_core.batches import Batch
from transformer_core.checks import CheckResult, run_checks
from transformer_core.config import ConfigError, DataConfig, MaskConfig, ModelConfig, TrainConfig
from transformer_core.cost import Cost, estimate
from transformer_core.ledger import Entry, Ledger, ShapeError, note, trace
from transformer_core.model import Transformer, build
from transformer_core.presets import Preset, load_preset

__all__ = [
    "Batch",
    "CheckResult",
    "ConfigError",
    "Cost",
    "DataConfig",
    "Entry",
    "Ledger",
    "MaskConfig",
    "ModelConfig",
    "Preset",
    "ShapeError",
    "TrainConfig",
    "Transformer",
    "build",
    "estimate",
    "load_preset",
    "note",
    "run_checks",
    "trace",
]
