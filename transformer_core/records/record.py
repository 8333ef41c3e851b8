"""A record: all that a run depended on, where it ran, and every number that came out. Text in, text out, nothing run.

Two runs of one record's settings, seed and rate changes, on one machine with as many threads, have the same losses to
the last digit. What is merely told, such as seconds and looks, plays no part in that.
"""

import dataclasses
import json
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NoReturn

from transformer_core import tasks
from transformer_core.checked import (
    Checked,
    check_choice,
    check_list,
    check_number,
    check_positive,
    check_text,
    check_whole,
    checked,
    real,
    text,
    whole,
)
from transformer_core.config import MaskConfig, ModelConfig, TrainConfig
from transformer_core.errors import ConfigError, nearest
from transformer_core.faults import FAULTS
from transformer_core.training import MAX_SEED

FORMAT, VERSION = "transformer-ledger run", 1
"""What a record calls itself, and the one version that is read."""
MAX_BYTES = 16 << 20
"""The largest record that is read: a run of some 150,000 steps."""
MAX_BRACKETS = 400_000
"""So many objects and lists may be in it; without a limit a file of brackets alone would take gigabytes to read."""
MAX_DEPTH, MAX_STEPS = 12, 1_000_000
ENDINGS = ("finished", "paused", "stopped", "failed")
"""How a run ended: all steps taken, to be continued, given up, or broken off by a number that is not finite."""
CURVES = ("losses", "accuracies", "rates", "grad_norms")
CORPUS = ("name", "sha256", "options", "counts")
"""What is kept of a corpus; its sentences are not."""


def _settings(section: type[Checked]) -> Any:
    """A field for a section of settings, given as itself or as plain data."""

    def check(field: str, value: Any) -> Any:
        if isinstance(value, section):
            return value
        if not isinstance(value, Mapping):
            raise ConfigError("not_section", field=field, given=value, wanted=section.__name__)
        return section.from_dict({str(key): each for key, each in value.items()})

    return checked(section(), check, "section")


def _curve() -> Any:
    return checked((), _check_curve, "curve")


def _check_curve(field: str, value: Any) -> tuple[float, ...]:
    """Finite numbers, one a step."""
    numbers = check_list(field, value)
    for place, each in enumerate(numbers, start=1):
        if type(each) is not float or not math.isfinite(each):  # check_number, where it has something to say
            check_number(f"{field} step {place}", each)
    return tuple(map(float, numbers))


def _check_plain(field: str, value: Any, depth: int = 0) -> Any:
    """Text, numbers, true, false and null, and lists and objects of them: what JSON can hold."""
    if depth > MAX_DEPTH:
        raise ConfigError("record_deep", field=field, given=value, high=MAX_DEPTH)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return check_text(field, value)
    if isinstance(value, Mapping):
        return {check_text(field, key): _check_plain(field, each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_check_plain(field, each, depth + 1) for each in value]
    number = check_number(field, value)
    return value if isinstance(value, int) else number


def _check_object(field: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise ConfigError("not_section", field=field, given=value, wanted="JSON object")
    plain: dict[str, Any] = _check_plain(field, value)
    return plain


def _check_looks(field: str, value: Any) -> tuple[dict[str, Any], ...]:
    return tuple(_check_object(f"{field} {number}", each) for number, each in enumerate(check_list(field, value), 1))


def _check_corpus(field: str, value: Any) -> dict[str, Any]:
    corpus = _check_object(field, value)
    for key in corpus:
        if key not in CORPUS:
            raise ConfigError("unknown_key", field=key, given=key, section=field, keys=list(CORPUS),
                              nearest=nearest(key, CORPUS))  # fmt: skip
    check_text(f"{field}.name", corpus.get("name"))
    if not re.fullmatch("[0-9a-f]{64}", check_text(f"{field}.sha256", corpus.get("sha256"))):
        raise ConfigError("record_hash", field=f"{field}.sha256", given=corpus["sha256"])
    return {key: corpus.get(key, {}) for key in CORPUS}


def _check_changes(field: str, value: Any) -> tuple[tuple[int, float], ...]:
    """(first step it holds for, rate), in the order of the steps."""
    changes: list[tuple[int, float]] = []
    for place, pair in enumerate(check_list(field, value), start=1):
        name = f"{field} {place}"
        step_and_rate = check_list(name, pair)
        if len(step_and_rate) != 2:
            raise ConfigError("record_pair", field=name, given=pair)
        step = check_whole(f"{name}, step", step_and_rate[0], changes[-1][0] if changes else 1, MAX_STEPS + 1)
        changes.append((step, check_positive(f"{name}, rate", step_and_rate[1], 100.0)))
    return tuple(changes)


def _optional(check: Callable[[str, Any], Any]) -> Any:
    return checked(None, lambda field, value: None if value is None else check(field, value), "object")


def _check_fault(field: str, value: Any) -> str:
    return check_choice(field, value, ("", *FAULTS))


def _check_task(field: str, value: Any) -> str:
    return check_choice(field, value, tuple(dict.fromkeys([*tasks.TASKS, "translation"])))


@dataclasses.dataclass(frozen=True)
class RunRecord(Checked):
    """One run. ``losses``, ``accuracies``, ``rates`` and ``grad_norms`` hold a number a step, or all of them nothing.

    >>> record = RunRecord(task="copy", steps=2, losses=[2.5, 2.25], ended="paused")
    >>> RunRecord.from_json(record.to_json()) == record, record.without_curves().losses
    (True, ())

    Raises:
        ConfigError: a value of the wrong kind, or curves that do not have ``steps`` numbers.
    """

    section: ClassVar[str] = "record"

    task: str = checked("copy", _check_task, "choice")
    corpus: dict[str, Any] | None = _optional(_check_corpus)
    """Of a translation: name, sha256 of the ids, options and counts."""
    model: ModelConfig = _settings(ModelConfig)
    masks: MaskConfig = _settings(MaskConfig)
    training: TrainConfig = _settings(TrainConfig)
    seed: int = whole(7, 0, MAX_SEED)
    fault: str = checked("", _check_fault, "choice")
    """The name of the fault that the code had, or nothing."""
    rate_changes: tuple[tuple[int, float], ...] = checked((), _check_changes, "list")
    """(first step it holds for, rate): what was changed by hand while the run was under way."""

    device: str = text("cpu")
    threads: int = whole(1, 1, 1 << 16)
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
    losses: tuple[float, ...] = _curve()
    accuracies: tuple[float, ...] = _curve()
    rates: tuple[float, ...] = _curve()
    grad_norms: tuple[float, ...] = _curve()
    looks: tuple[dict[str, Any], ...] = checked((), _check_looks, "list")
    """What held-out questions said on the way."""
    result: dict[str, Any] | None = _optional(_check_object)
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
        return dataclasses.replace(self, **dict.fromkeys((*CURVES, "looks"), ()))

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
        found = _parsed(content)
        if not isinstance(found, dict) or found.get("format") != FORMAT:
            raise ConfigError("record_none", field="record", given=_beginning(content), wanted=FORMAT)
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


def _parsed(content: str | bytes) -> Any:
    """The JSON in a text, or a refusal: nothing that a stranger sends takes much memory, or goes on to the next step."""
    size = len(content)
    if size > MAX_BYTES:
        raise ConfigError("record_large", field="record", given=size, high=MAX_BYTES)
    try:
        written = content if isinstance(content, str) else content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("record_none", field="record", given=_beginning(content), wanted=FORMAT) from None
    if written.count("[") + written.count("{") > MAX_BRACKETS:
        raise ConfigError("record_large", field="record", given=size, high=MAX_BYTES)
    try:
        return json.loads(written.removeprefix("\ufeff"), object_pairs_hook=_once, parse_constant=_no_constant)
    except RecursionError:
        reason = "it is nested too deeply"
    except ConfigError:
        raise
    except ValueError as error:  # also a number of more digits than Python reads
        reason = str(error).rstrip(".")
    raise ConfigError("json_broken", field="record", given="the record", reason=reason)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ConfigError("json_twice", field="record", given=twice)
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")


def _beginning(content: str | bytes) -> str:
    return (content if isinstance(content, str) else content.decode("utf-8", "replace"))[:60].strip()
