"""Checks: what must hold of a Transformer and of one run of it, each with its number and with what it cannot see.

A verdict is data (``CheckResult``), so that the page, the command line and a test read the same one. ``CHECKS`` is the
table in the order in which they run: structure first, since numbers in tensors of the wrong shape say nothing.
"""

from collections.abc import Collection

from transformer_core.batches import Batch
from transformer_core.checks import (
    answers,
    attention_numbers,
    behaviour,
    extremes,
    leaks,
    learning,
    numerics,
    procedures,
    reference,
    stream,
    structure,
)
from transformer_core.checks.subject import AnyTransformer, Subject
from transformer_core.checks.table import ALL_LEVELS, NUMERICS, STRUCTURE, Check, CheckResult, Finding, check
from transformer_core.ledger import Ledger
from transformer_core.workshop import OWN, Workshop

__all__ = [
    "ALL_LEVELS", "CHECKS", "NUMERICS", "STRUCTURE", "Check", "CheckResult", "Finding", "check", "due", "examine",
    "run_checks",
]  # fmt: skip

CHECKS: tuple[Check, ...] = (
    structure.shapes,
    structure.head_width,
    structure.head_order,
    structure.layers_independent,
    structure.parameter_count,
    structure.buffers,
    attention_numbers.row_sums,
    attention_numbers.masked_keys,
    attention_numbers.padded_keys,
    attention_numbers.future_keys,
    attention_numbers.visible_keys,
    attention_numbers.attention_formula,
    attention_numbers.score_scale,
    stream.embeddings,
    stream.residuals,
    stream.feed_forward_formula,
    stream.norms,
    numerics.output_sums,
    numerics.finite_tensors,
    numerics.finite_loss,
    numerics.finite_gradients,
    numerics.gradients_arrive,
    leaks.encoder_leak,
    leaks.decoder_leak,
    leaks.cross_leak,
    behaviour.padding_length,
    behaviour.batch_mates,
    behaviour.token_order,
    behaviour.repeated_token,
    answers.step_by_step,
    answers.repeatable,
    extremes.empty_rows,
    extremes.hidden_scores,
    extremes.dtypes,
    procedures.target_shift,
    procedures.loss_padding,
    procedures.fresh_gradients,
    procedures.weights_before_dropout,
    learning.loss_falls,
    learning.one_batch,
    learning.own_words,
    reference.equals_torch,
    reference.gradients_equal_torch,
    reference.equals_sdpa,
)


def run_checks(
    model: AnyTransformer,
    batch: Batch,
    ledger: Ledger | None = None,
    *,
    levels: Collection[int] = (STRUCTURE, NUMERICS),
    shop: Workshop = OWN,
    seed: int = 0,
) -> list[CheckResult]:
    """One verdict for each check that has something to say about this model and batch, in the order of ``CHECKS``.

    ``shop`` is the code that the model was built with, and ``seed`` that of the probes' tokens and perturbations.
    Without a ``ledger`` of the same model and batch one is traced here. Mode, parameters, ``.grad`` and every source of
    random numbers are left as they were. Shapes alone (the device "meta") get the checks of structure.

    Raises:
        ValueError: the batch does not fit the model.
    """
    return examine(model, batch, ledger, levels=levels, shop=shop, seed=seed)[1]


def examine(
    model: AnyTransformer,
    batch: Batch,
    ledger: Ledger | None = None,
    *,
    levels: Collection[int] = (STRUCTURE, NUMERICS),
    shop: Workshop = OWN,
    seed: int = 0,
) -> tuple[Ledger, list[CheckResult]]:
    """``run_checks`` with the ledger that it looked at: one forward gives the record, the verdicts and the gradients.

    A forward that breaks off inside the model gives the rows up to there, and a failed check of the shapes.

    Raises:
        ValueError: the batch does not fit the model.
    """
    subject = Subject(model, batch, ledger, shop, seed)
    results = [row.run(subject) for row in due(subject, levels)]
    return subject.ledger, [result for result in results if result is not None]


def due(subject: Subject, levels: Collection[int]) -> list[Check]:
    """The checks of these levels that can be run: without numbers those of structure alone, and after a forward that
    broke off none that reads its numbers."""
    there = {STRUCTURE}
    if subject.has_numbers:
        there |= set(ALL_LEVELS) - ({NUMERICS} if subject.failure is not None else set())
    return [row for row in CHECKS if row.level in there and row.level in levels]
