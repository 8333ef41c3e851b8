"""A record: all that a run depended on, where it ran, and every number that came out. Text in, text out, nothing run.

Two runs of one record's settings, seed and rate changes, on one machine with as many threads, have the same losses to
the last digit. What is merely told, such as seconds and looks, plays no part in that.
"""

import json
from dataclasses import dataclass, field
from typing import Any, ClassVar

from transformer_core.checked import Checked, check_choice, checked, real, text, whole
from transformer_core.config import MaskConfig, ModelConfig, TrainConfig
from transformer_core.errors import ConfigError
from transformer_core.records.fields import (
    MAX_STEPS,
    MAX_THREADS,
    check_changes,
    check_corpus,
    check_fault,
    check_looks,
    check_object,
    check_task,
    curve,
    plain_object,
    settings,
)
from transformer_core.records.reading import beginning, parse
from transformer_core.training import MAX_SEED

FORMAT, VERSION = "transformer-ledger run", 1
"""What a record calls itself, and the one version that is read."""
ENDINGS = ("finished", "paused", "stopped", "failed")
"""How a run ended: all steps taken, to be continued, given up, or broken off by a number that is not finite."""
CURVES = ("losses", "accuracies", "rates", "grad_norms")


@dataclass(frozen=True)
class RunRecord(Checked):
    """One run. ``losses``, ``accuracies``, ``rates`` and ``grad_norms`` hold a number a step, or all of them nothing.

    >>> record = RunRecord(task="copy", steps=2, losses=[2.5, 2.25], ended="paused")
    >>> RunRecord.from_json(record.to_json()) == record, record.without_curves().losses
    (True, ())

    Raises:
        ConfigError: a value of the wrong kind, or curves that do not have ``steps`` numbers.
    """

    section: ClassVar[str] = "record"

    task: str = checked("copy", check_task, "choice")
    corpus: dict[str, Any] | None = field(default=None, metadata=plain_object(check_corpus))
    """Of a translation: name, sha256, options and counts; None stands for the built-in one."""
    model: ModelConfig = field(default=ModelConfig(), metadata=settings(ModelConfig))
    masks: MaskConfig = field(default=MaskConfig(), metadata=settings(MaskConfig))
    training: TrainConfig = field(default=TrainConfig(), metadata=settings(TrainConfig))
    seed: int = whole(7, 0, MAX_SEED)
    fault: str = checked("", check_fault, "choice")
    """The name of the fault that the code had, or nothing."""
    rate_changes: tuple[tuple[int, float], ...] = checked((), check_changes, "list")
    """(first step it holds for, rate): what was changed by hand while the run was under way."""

    device: str = text("cpu")
    threads: int = whole(1, 1, MAX_THREADS)
    torch: str = text("")
    python: str = text("")
    platform: str = text("")
    commit: str = text("")
    """Of the checkout that the library was run from, if it was one."""
    source: str = text("")
    """sha256 of the library's code: of two records, whether one code made them."""

    parameters: int = whole(0, 0, 1 << 40)
    steps: int = whole(0, 0, MAX_STEPS)
    """Steps taken."""
    seconds: float = real(0.0, 0.0, 1e9)
    ended: str = checked("paused", lambda field, value: check_choice(field, value, ENDINGS), "choice")
    losses: tuple[float, ...] = curve()
    accuracies: tuple[float, ...] = curve()
    rates: tuple[float, ...] = curve()
    grad_norms: tuple[float, ...] = curve()
    looks: tuple[dict[str, Any], ...] = checked((), check_looks, "list")
    """What held-out questions said on the way."""
    result: dict[str, Any] | None = field(default=None, metadata=plain_object(check_object))
    """What held-out questions said at the end."""

    def together(self) -> None:
        """The curves are as long as the run; the training is of the record's task."""
        for name in CURVES:
            if len(getattr(self, name)) not in (0, self.steps):
                raise ConfigError("record_curve", field=name, given=len(getattr(self, name)), steps=self.steps)
        if self.training.task != self.task:
            raise ConfigError("record_task", field="task", given=self.task, wanted=self.training.task)
        if self.steps > self.training.total_steps:
            raise ConfigError("record_steps", field="steps", given=self.steps, total=self.training.total_steps)

    def without_curves(self) -> "RunRecord":
        """The same run without its curves and looks: short enough for a browser to keep."""
        return self.replace(**dict.fromkeys((*CURVES, "looks"), ()))

    def to_json(self) -> str:
        """The record as text: a setting a line, a curve a line; every number reads back as the very same."""
        parts = []
        for key, value in {"format": FORMAT, "version": VERSION, **self.to_dict()}.items():
            plain = value.to_dict() if isinstance(value, Checked) else value
            deep = key in ("model", "masks", "training", "corpus", "result") and plain
            said = json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=2 if deep else None)
            parts.append(f"  {json.dumps(key)}: " + said.replace("\n", "\n  "))
        return "{\n" + ",\n".join(parts) + "\n}\n"

    @classmethod
    def from_json(cls, content: str | bytes) -> "RunRecord":
        """The record that a text holds. Whatever the text is, it is only read.

        Raises:
            ConfigError: it is too large, no JSON, no record, of another version, has a key that is not known, with the
                nearest, or a value that cannot be.
        """
        found = parse(content, FORMAT)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ConfigError("record_none", field="record", given=beginning(content), wanted=FORMAT)
        if found.pop("format") and (version := found.pop("version", None)) != VERSION:
            raise ConfigError("record_version", field="version", given=version, known=VERSION)
        if missing := [key for key in ("task", "model", "masks", "training", "seed") if key not in found]:
            raise ConfigError("record_missing", field=missing[0], given=missing[0], keys=missing)
        return cls.from_dict(found)

    def check_task(self, name: str) -> None:
        """Passes when the record is of this task.

        Raises:
            ConfigError: it is of another.
        """
        if self.task != name:
            raise ConfigError("record_task", field="task", given=self.task, wanted=name, choices=[{"task": self.task}])
