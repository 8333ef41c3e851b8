"""What a check is and what it says: one claim, one number, one verdict."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from transformer_core.checks.subject import Subject
from transformer_core.parity.plain import plain

STRUCTURE, NUMERICS, BEHAVIOUR, LEARNING, REFERENCE = 1, 2, 3, 4, 5
"""Levels in the order of their cost: 1 looks at shapes and parameters, 2 reads the numbers of one run, 3 runs the model
again with something changed, 4 trains a small model of the same kind, 5 compares with torch.nn on the same weights."""
ALL_LEVELS = (STRUCTURE, NUMERICS, BEHAVIOUR, LEARNING, REFERENCE)

ASPECTS = (
    "shapes", "heads", "layers", "softmax", "masks", "padding", "future", "scale", "norms", "residuals",
    "feed_forward", "positions", "embeddings", "source", "gradients", "loss", "training", "decoding", "display",
)  # fmt: skip
"""What can be wrong with a Transformer. A check names the aspects that a reader takes it to vouch for; where a fault
breaks one of those and the check stays green, it passes wrongly."""


@dataclass(frozen=True)
class CheckResult:
    """One verdict: |measured - expected| <= tolerance, and what it is about.

    ``entries`` are the ledger keys it speaks of. ``sentence`` names the wording that fits the outcome (holds, fails,
    ...) and ``facts`` are the numbers and names in it, so that any language can say it; ``finding`` says it in English.
    A ``warning`` has passed but is worth a look.
    """

    level: int
    name: str
    claim: str
    measured: float
    expected: float
    tolerance: float
    passed: bool
    entries: tuple[str, ...]
    cannot_see: str
    facts: dict[str, Any]
    warning: bool = False
    sentence: str = "holds"
    finding: str = ""

    def to_row(self) -> dict[str, Any]:
        """The result as plain data that JSON can hold: a number that is not finite becomes its name."""
        row: dict[str, Any] = plain(self)
        return row


@dataclass(frozen=True)
class Finding:
    """What the function of a check brings back; ``sentence`` overrides the wording that the verdict would choose."""

    measured: float | int
    entries: tuple[str, ...]
    expected: float | int = 0
    tolerance: float | int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    sentence: str | None = None


@dataclass(frozen=True)
class Check:
    """One row of the table of checks. ``measure`` gives None where the check has nothing to say about this model.

    ``wording`` holds English sentences for the outcomes, with the facts in braces.
    """

    level: int
    name: str
    claim: str
    cannot_see: str
    wording: dict[str, str]
    measure: Callable[[Subject], Finding | None]
    only_warns: bool = False
    claims: frozenset[str] = frozenset()
    """The aspects (``ASPECTS``) that a reader takes it to vouch for."""

    def run(self, subject: Subject) -> CheckResult | None:
        """The verdict on one run of one model."""
        finding = self.measure(subject)
        return None if finding is None else self.judge(finding)

    def judge(self, finding: Finding) -> CheckResult:
        """NaN is never within the tolerance. The finding of an ``only_warns`` check passes and is marked."""
        measured, expected, tolerance = map(float, (finding.measured, finding.expected, finding.tolerance))
        close = abs(measured - expected) <= tolerance
        sentence = finding.sentence or ("holds" if close else "fails")
        facts = {"measured": measured, "expected": expected, "tolerance": tolerance} | finding.facts
        return CheckResult(
            level=self.level,
            name=self.name,
            claim=self.claim,
            measured=measured,
            expected=expected,
            tolerance=tolerance,
            passed=close or self.only_warns,
            entries=finding.entries,
            cannot_see=self.cannot_see,
            facts=facts,
            warning=self.only_warns and not close,
            sentence=sentence,
            finding=self.wording[sentence].format(**facts),
        )


def check(
    level: int, claim: str, cannot_see: str, only_warns: bool = False, claims: Collection[str] = (), **wording: str
) -> Callable[[Callable[[Subject], Finding | None]], Check]:
    """Makes a row of the table out of the function that measures; the function's name is the name of the check."""

    def row(measure: Callable[[Subject], Finding | None]) -> Check:
        return Check(level, measure.__name__, claim, cannot_see, wording, measure, only_warns, frozenset(claims))

    return row
