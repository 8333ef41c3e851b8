"""What a record holds beyond the settings of a preset: curves, plain data, a corpus, changes of the rate."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

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
)
from transformer_core.errors import ConfigError, nearest
from transformer_core.faults import FAULTS

MAX_DEPTH, MAX_STEPS = 12, 1_000_000
MAX_THREADS = 1024
"""Whoever repeats a run starts as many; where the system has no more to give, the process ends without a word."""
CORPUS = ("name", "sha256", "options", "counts")
"""What is kept of a corpus; its sentences are not."""


def settings(section: type[Checked]) -> dict[str, Any]:
    """What ``Checked`` needs to know of a field for a section of settings, given as itself or as plain data."""

    def check(field: str, value: Any) -> Any:
        if isinstance(value, section):
            return value
        if not isinstance(value, Mapping):
            raise ConfigError("not_section", field=field, given=value, wanted=section.__name__)
        return section.from_dict({str(key): each for key, each in value.items()})

    return {"check": check, "kind": "section"}


def curve() -> Any:
    """A field for one finite number a step."""
    return checked((), check_curve, "curve")


def plain_object(check: Callable[[str, Any], Any]) -> dict[str, Any]:
    """What ``Checked`` needs to know of a field for a JSON object, or None."""
    return {"check": lambda field, value: None if value is None else check(field, value), "kind": "object"}


def check_curve(field: str, value: Any) -> tuple[float, ...]:
    """Finite numbers, one a step."""
    numbers = check_list(field, value)
    for place, each in enumerate(numbers, start=1):
        if type(each) is not float or not math.isfinite(each):  # check_number, where it has something to say
            check_number(f"{field} step {place}", each)
    return tuple(map(float, numbers))


def check_plain(field: str, value: Any, depth: int = 0) -> Any:
    """Text, numbers, true, false and null, and lists and objects of them: what JSON can hold."""
    if depth > MAX_DEPTH:
        raise ConfigError("record_deep", field=field, given=value, high=MAX_DEPTH)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return check_text(field, value)
    if isinstance(value, Mapping):
        return {check_text(field, key): check_plain(field, each, depth + 1) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [check_plain(field, each, depth + 1) for each in value]
    number = check_number(field, value)
    return value if isinstance(value, int) else number


def check_object(field: str, value: Any) -> dict[str, Any]:
    """A JSON object of plain data."""
    if not isinstance(value, Mapping):
        raise ConfigError("not_section", field=field, given=value, wanted="JSON object")
    plain: dict[str, Any] = check_plain(field, value)
    return plain


def check_looks(field: str, value: Any) -> tuple[dict[str, Any], ...]:
    """A list of JSON objects."""
    return tuple(check_object(f"{field} {number}", each) for number, each in enumerate(check_list(field, value), 1))


def check_corpus(field: str, value: Any) -> dict[str, Any]:
    """Name, sha256, options and counts of a corpus."""
    corpus = check_object(field, value)
    for key in corpus:
        if key not in CORPUS:
            raise ConfigError("unknown_key", field=key, given=key, section=field, keys=list(CORPUS),
                              nearest=nearest(key, CORPUS))  # fmt: skip
    check_text(f"{field}.name", corpus.get("name"))
    if not re.fullmatch("[0-9a-f]{64}", check_text(f"{field}.sha256", corpus.get("sha256"))):
        raise ConfigError("record_hash", field=f"{field}.sha256", given=corpus["sha256"])
    return {key: corpus.get(key, {}) for key in CORPUS}


def check_changes(field: str, value: Any) -> tuple[tuple[int, float], ...]:
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


def check_fault(field: str, value: Any) -> str:
    """The name of a fault, or nothing."""
    return "" if value == "" else check_choice(field, value, tuple(FAULTS))


def check_task(field: str, value: Any) -> str:
    """The name of a task; that of translation is always known."""
    return check_choice(field, value, tuple(dict.fromkeys([*tasks.TASKS, "translation"])))
