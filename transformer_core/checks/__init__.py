"""Checks: what must hold of a Transformer and of one run of it, each with its number and with what it cannot see.

A verdict is data (``CheckResult``), so that the page, the command line and a test read the same one. ``CHECKS`` is the
table in the order in which they run: structure first, since numbers in tensors of the wrong shape say nothing.
"""

from collections.abc import Collection

from transformer_core.batches import Batch
from transformer_core.checks import numerics, structure
from transformer_core.checks.subject import Subject
from transformer_core.checks.table import NUMERICS, STRUCTURE, Check, CheckResult, Finding, check
from transformer_core.ledger import Ledger
from transformer_core.model import Transformer
from transformer_core.workshop import OWN, Workshop

__all__ = ["CHECKS", "NUMERICS", "STRUCTURE", "Check", "CheckResult", "Finding", "check", "examine", "run_checks"]

CHECKS: tuple[Check, ...] = (
    structure.shapes,
    structure.head_width,
    structure.head_order,
    structure.layers_independent,
    structure.parameter_count,
    numerics.row_sums,
    numerics.masked_keys,
    numerics.padded_keys,
    numerics.future_keys,
    numerics.visible_keys,
    numerics.attention_formula,
    numerics.norms,
    numerics.output_sums,
    numerics.finite_tensors,
    numerics.finite_loss,
    numerics.finite_gradients,
    numerics.gradients_arrive,
)


def run_checks(
    model: Transformer,
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
    model: Transformer,
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
    broken = subject.failure is not None
    results: list[CheckResult] = []
    for row in CHECKS:
        if row.level not in levels or (row.level != STRUCTURE and (broken or not subject.has_numbers)):
            continue
        result = row.run(subject)
        if result is not None:
            results.append(result)
    return subject.ledger, results
