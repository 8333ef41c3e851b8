"""Records of runs: what was run, on what and with which result, written so that it can be repeated to the last digit.

A record goes out as JSON, as a table of its curve, beside the weights, and as a script or
notebook that needs only torch.
"""

from transformer_core.records.curve import to_csv
from transformer_core.records.loggers import Logger, open_logger
from transformer_core.records.making import continued, record_of
from transformer_core.records.notebook import notebook
from transformer_core.records.record import RunRecord
from transformer_core.records.replaying import Replayed, replay, resume
from transformer_core.records.script import standalone
from transformer_core.records.weights import load_training, load_weights, read_record, save_weights

__all__ = [
    "Logger", "Replayed", "RunRecord", "continued", "load_training", "load_weights", "notebook", "open_logger",
    "read_record", "record_of", "replay", "resume", "save_weights", "standalone", "to_csv",
]  # fmt: skip
