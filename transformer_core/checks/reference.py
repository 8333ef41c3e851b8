"""Level 5: torch.nn computes the same, tensor by tensor and gradient by gradient, from the same weights.

On a float64 copy in evaluation mode with its gains and biases stirred, so that rounding, dropout and the ones and zeros
of a fresh start hide nothing.
"""

from typing import Any
from weakref import WeakKeyDictionary

import torch

from transformer_core.checks.subject import Subject
from transformer_core.checks.table import REFERENCE, Finding, check
from transformer_core.errors import first_line
from transformer_core.parity.comparison import Comparison, Difference, worst
from transformer_core.parity.sdpa import compare_attention
from transformer_core.parity.tensors import LIMITS, compare
from transformer_core.parity.weights import NoCounterpart

STIRRED = 0.3
"""The spread of the noise on gains and biases."""
STOPS = "the forward stops before torch's does: {error}"
_compared: WeakKeyDictionary[Subject, Comparison | None] = WeakKeyDictionary()


def _comparison(subject: Subject) -> Comparison | None:
    """One comparison serves two checks; None where torch.nn has no counterpart."""
    if subject not in _compared:
        try:
            found = compare(subject.model, subject.batch, dtype=torch.float64, stirred=STIRRED)
            _compared[subject] = None if _fill_counts(subject, found) else found
        except NoCounterpart:
            _compared[subject] = None
    return _compared[subject]


def _fill_counts(subject: Subject, found: Comparison) -> bool:
    """Whether the loss depends on what a fill makes of queries without a key, for which torch has NaN.

    It does not where these queries are padding, of which nothing is asked; a loss without targets asks all positions.
    """
    if subject.masks.fill == "exclude" or not found.blind:
        return False
    src, tgt, labels, pad = subject.batch.src, subject.batch.tgt, subject.batch.labels, subject.config.pad_id
    for kind, row, place in found.blind:
        tokens = src if kind == "encoder_self" else tgt
        if tokens is not None and tokens[row, place] != pad:
            return True
    if labels is None and tgt is not None:
        labels = tgt[:, 1:].masked_fill(tgt[:, :-1] == pad, pad)
    return labels is None or not bool((labels != pad).any())


@check(
    REFERENCE,
    claim="From the embeddings to the loss, every tensor that torch.nn's modules compute from the same weights is the "
    "same.",
    cannot_see="Embeddings, positions, data and training, of which torch.nn has nothing; what these tokens and weights "
    "do not bring out; padded positions.",
    claims=(
        "shapes", "heads", "softmax", "masks", "padding", "future", "scale", "norms", "residuals", "feed_forward",
        "source",
    ),
    holds="{tensors} tensors beside {counterpart}, largest difference {measured:.2g}",
    fails="{first} is the first to differ, by {apart:.3g}; {off} of {tensors} tensors beside {counterpart} do",
    stops=STOPS,
)
def equals_torch(subject: Subject) -> Finding | None:
    found = _comparison(subject)
    if found is None:
        return None
    keys = tuple(each.key for each in found.forward if each.key in subject.entries)
    if found.failure is not None:
        return Finding(float("inf"), keys, facts={"error": found.failure}, sentence="stops")
    off = [each for each in found.forward if not each.passed]
    facts = {"tensors": len(found.forward), "counterpart": found.settings["counterpart"], "off": len(off)} | _first(off)
    return Finding(found.worst, keys, 0.0, LIMITS[torch.float64], facts)


@check(
    REFERENCE,
    claim="The gradient of the loss for every parameter is that of torch.nn's modules with the same weights.",
    cannot_see="What training does with the gradients; a parameter that both lack.",
    claims=("gradients",),
    holds="{parameters} parameter tensors, largest difference of a gradient {measured:.2g}",
    fails="the gradient of {first} is the first to differ, by {apart:.3g}; {off} of {parameters} do",
    stops=STOPS,
)
def gradients_equal_torch(subject: Subject) -> Finding | None:
    found = _comparison(subject)
    if found is None:
        return None
    end = subject.output_keys[:1]
    if found.failure is not None:
        return Finding(float("inf"), end, facts={"error": found.failure}, sentence="stops")
    off = [each for each in found.backward if not each.passed]
    facts = {"parameters": len(found.backward), "off": len(off)} | _first(off)
    return Finding(found.worst_gradient, end, 0.0, LIMITS[torch.float64], facts)


@check(
    REFERENCE,
    claim="The heads of every attention are those of F.scaled_dot_product_attention for the same q, k and v and the "
    "mask that the rules give.",
    cannot_see="A wrong q, k or v; queries that see no key.",
    claims=("softmax", "masks", "padding", "future", "scale"),
    holds="{attentions} attentions beside F.scaled_dot_product_attention, largest difference {measured:.2g}",
    fails="{first} differs from F.scaled_dot_product_attention by {apart:.3g}; {off} of {attentions} attentions do",
    stops=STOPS,
)
def equals_sdpa(subject: Subject) -> Finding | None:
    if not subject.attentions:
        return None
    keys = tuple(each.parts["heads"].key for each in subject.attentions)
    try:
        found = compare_attention(subject.model, subject.batch, stirred=STIRRED)
    except (RuntimeError, ValueError, IndexError) as error:
        return Finding(float("inf"), keys, facts={"error": first_line(error)}, sentence="stops")
    off = [each for each in found if not each.passed]
    facts = {"attentions": len(found), "off": len(off)} | _first(off)
    return Finding(worst(found), keys, 0.0, LIMITS[torch.float64], facts)


def _first(off: list[Difference]) -> dict[str, Any]:
    return {"first": off[0].key, "apart": off[0].max_abs} if off else {}
