"""Records of runs: what was run, on what and with which result, written so that it can be repeated to the last digit.

A record goes out as JSON, as a table of its curve, beside the weights, and as a script or notebook that needs only
torch.
"""

from transformer_core.records.curve import to_csv
from transformer_core.records.making import record_of
from transformer_core.records.record import RunRecord

__all__ = ["RunRecord", "record_of", "to_csv"]
