"""What one request may ask of this host: one table, each row an environment variable."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from transformer_core.cost import Cost

PREFIX = "TRANSFORMER_LEDGER_"


@dataclass(frozen=True)
class Limits:
    """What one request may ask of this host. Each is read from TRANSFORMER_LEDGER_ and its name in capitals, where set.

    The first three decide whether a model is run or only measured: above any of them it is laid out on the meta device,
    where it has shapes but no numbers. The others are refused, with a sentence.
    """

    max_parameters: int = 60_000_000  # paper_base (about 46 million) runs, paper_big is shapes only
    max_ledger_bytes: int = 32 * 1024**2
    max_flops: int = 20_000_000_000  # of one forward; about a second on one core
    max_d_model: int = 1024
    max_d_ff: int = 4096
    max_heads: int = 64
    max_layers: int = 24  # of each stack
    max_length: int = 128
    max_batch: int = 32
    max_text: int = 2000  # characters of one text box
    max_record: int = 240 * 1024  # characters of a record that is put in
    max_corpus_bytes: int = 4 * 1024**2  # of a file of sentence pairs; twenty thousand are 1.3 MB
    max_corpus_lines: int = 50_000
    max_beam: int = 8  # hypotheses kept at once
    max_decoded: int = 64  # tokens of one decoded sentence
    max_training_steps: int = 5000
    max_training_batch: int = 256
    max_training_flops: int = 20_000_000_000_000  # of all steps of a run; some fifteen minutes on one core
    max_training_bytes: int = 512 * 1024**2  # weights, gradients, Adam's two moments, activations kept for the way back

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Limits:
        """The defaults, each replaced by its environment variable where that is set.

        >>> Limits.from_environment({"TRANSFORMER_LEDGER_MAX_BATCH": "4"}).max_batch
        4

        Raises:
            ValueError: a variable is not a whole number above zero.
        """
        environ = os.environ if environ is None else environ
        changes = {}
        for field in dataclasses.fields(cls):
            variable = PREFIX + field.name.upper()
            given = environ.get(variable)
            if given is None:
                continue
            if not re.fullmatch(r"[1-9][0-9_]{0,18}", given):
                raise ValueError(f"{variable} must be a whole number above zero, got {given!r}")
            changes[field.name] = int(given)
        return cls(**changes)

    def fit(self, cost: Cost, bytes_per_number: int = 4) -> bool:
        """Whether a model of this cost is run here; a larger one is shown as shapes only.

        Parameters are counted in float32: in float64 half as many fit.
        """
        return (
            cost.parameters * bytes_per_number <= 4 * self.max_parameters
            and cost.activation_bytes <= self.max_ledger_bytes
            and cost.flops <= self.max_flops
        )
