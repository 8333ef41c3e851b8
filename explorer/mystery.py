"""The broken model of one round of the mystery game, and the evidence found in it. Knows no gradio.

Nothing here names the fault: checks speak of what they measured, and the ledger of what was recorded.
"""

from __future__ import annotations

from typing import Any

from explorer.facts import plain
from explorer.faulting import LEVEL
from explorer.game import Round
from explorer.payload import check_words, state
from explorer.session import DEFAULT_PRESET, preset_of
from explorer.words import LANGUAGES
from transformer_core.checks import CHECKS, CheckResult
from transformer_core.checks.subject import Subject
from transformer_core.checks.table import STRUCTURE
from transformer_core.faults import FAULTS

SEED = 7
"""Of the weights and tokens: a whole class looks at the same model."""


class Mystery:
    """One broken model. It is built when first looked at; each check is run once."""

    def __init__(self, fault: str) -> None:
        self._fault = fault
        self._subject: Subject | None = None
        self._results: dict[str, CheckResult | None] = {}
        self.ledger: list[list[Any]] = []
        """Every recorded tensor: key, shape, mean, smallest and largest number. Where it differs is not told."""

    @property
    def subject(self) -> Subject:
        """One recorded forward of the broken model, on the tokens of the first preset."""
        if self._subject is None:
            preset, shop = preset_of(DEFAULT_PRESET), FAULTS[self._fault].shop
            model = shop.model.build(preset.model, preset.masks, seed=SEED).eval()
            self._subject = Subject(model, preset.batch(SEED), shop=shop, seed=SEED)
        return self._subject

    def check(self, name: str) -> None:
        """Runs one check. Where the forward breaks off, only the checks of structure can."""
        if name in self._results:
            return
        check = next(each for each in CHECKS if each.name == name)
        possible = check.level == STRUCTURE or self.subject.failure is None
        self._results[name] = check.run(self.subject) if possible else None

    def findings(self, names: tuple[str, ...]) -> list[dict[str, Any]]:
        """What these checks found, in both languages; those that are still to run have no state yet."""
        told = []
        for name in names:
            finding: dict[str, Any] = {"check": name, "level": LEVEL[name], "state": ""}
            if name in self._results:
                result = self._results[name]
                finding["state"] = "silent" if result is None else state(result)
                if result is not None:
                    each = {lang: check_words(result, lang) for lang in LANGUAGES}
                    finding |= {part: {lang: each[lang][part] for lang in LANGUAGES} for part in ("claim", "say")}
            told.append(finding)
        return told

    def record(self) -> None:
        """The broken model's first forward, and its ledger."""
        rows = []
        for entry in self.subject.ledger:
            value = entry.value.detach()
            numbers: list[float | None] = [None, None, None]
            if value.is_floating_point() and value.numel():
                numbers = [plain(float(each)) for each in (value.double().mean(), value.min(), value.max())]
            rows.append([entry.key, list(value.shape), *numbers])
        self.ledger = rows


def hints(played: Round) -> list[dict[str, Any]]:
    """The hints that were bought: the group, the aspects it breaks, the function it stands in."""
    fault = FAULTS[played.fault]
    *_, owner, function = ("", *fault.place.split("."))
    method = f"{owner}.{function}" if owner[:1].isupper() else function
    all_hints: tuple[dict[str, Any], ...] = (
        {"hint": "group", "group": fault.group},
        {"hint": "aspect", "aspects": sorted(fault.breaks)},
        {"hint": "method", "method": method},
    )
    return list(all_hints[: played.hints])
