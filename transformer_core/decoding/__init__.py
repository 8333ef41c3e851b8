"""Decoding: the model writes one token at a time and reads what it has written so far (section 3).

``writing`` takes the likeliest token each time, ``sampling`` draws it, and ``reading`` asks a model for what ``search``
wants to know; ``search`` itself knows no model, and ``traps`` are tables to try it on.
"""

from transformer_core.decoding.reading import Reader, beam, next_log_probs_of
from transformer_core.decoding.sampling import pick, restricted, sample
from transformer_core.decoding.search import (
    Beam,
    BeamStep,
    Candidate,
    Hypothesis,
    beam_search,
    beam_steps,
    count_sequences,
    exhaustive,
)
from transformer_core.decoding.traps import TRAPS, Trap
from transformer_core.decoding.writing import both_ways, evaluating, greedy, token_log_probs

__all__ = [
    "TRAPS",
    "Beam",
    "BeamStep",
    "Candidate",
    "Hypothesis",
    "Reader",
    "Trap",
    "beam",
    "beam_search",
    "beam_steps",
    "both_ways",
    "count_sequences",
    "evaluating",
    "exhaustive",
    "greedy",
    "next_log_probs_of",
    "pick",
    "restricted",
    "sample",
    "token_log_probs",
]
