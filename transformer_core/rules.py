"""Mask rules as text: "padding", "causal", "window:3", "prefix:2", "block:4", "strided:2", "custom".

Here they are only read and checked; what they mean is in masks.py.
"""

import numbers
import re
from typing import Any

from transformer_core.checked import check_list, check_rows, check_text
from transformer_core.errors import ConfigError, nearest

RULES = ("padding", "causal", "window", "prefix", "block", "strided", "custom")
"""The mask rules."""
SIZED = ("window", "prefix", "block", "strided")
"""The rules that take a size of at least 1, as in "window:3"."""
MAX_SIZE = 1 << 20
"""The largest size; no sequence is longer."""


def parse_rule(rule: Any, field: str = "masks") -> tuple[str, int | None]:
    """A mask rule as its name and size; ``field`` is what an error calls the setting.

    >>> parse_rule("window:3"), parse_rule("causal")
    (('window', 3), ('causal', None))

    Raises:
        ConfigError: an unknown rule, or a size that is missing, not wanted, not whole or too small.
    """
    name, colon, size = check_text(field, rule).strip().partition(":")
    if name not in RULES:
        close = _example(nearest(name, RULES))
        raise ConfigError("rule_unknown", field=field, given=rule, nearest=close, allowed=[_example(r) for r in RULES])
    if name not in SIZED:
        if colon:
            raise ConfigError("rule_takes_none", field=field, given=rule, nearest=name)
        return name, None
    if not size.strip():
        raise ConfigError("rule_needs_size", field=field, given=rule, nearest=_example(name))
    digits = re.fullmatch(r"[+-]?[0-9]{1,300}", size.strip())
    width = int(size) if digits else 0
    if not 1 <= width <= MAX_SIZE:
        close = f"{name}:{min(max(width, 1), MAX_SIZE)}"
        raise ConfigError("rule_size", field=field, given=rule, low=1, high=MAX_SIZE, nearest=close)
    return name, width


def _example(name: str) -> str:
    return f"{name}:3" if name in SIZED else name


def check_rules(field: str, value: Any) -> tuple[str, ...]:
    """A list of mask rules in one spelling, each kind at most once. An empty list hides nothing."""
    rules, parsed = check_list(field, value), []
    for place, rule in enumerate(rules):
        try:
            parsed.append(parse_rule(rule, field))
        except ConfigError as error:
            if "nearest" in error.values:
                error.choices = [{field: (*rules[:place], error.values["nearest"], *rules[place + 1 :])}]
            raise
    names = [name for name, _ in parsed]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("rule_twice", field=field, given=name)
    return tuple(name if size is None else f"{name}:{size}" for name, size in parsed)


def check_matrix(field: str, value: Any) -> tuple[tuple[bool, ...], ...]:
    """A custom mask: rows of true (may attend) and false; 1 and 0 mean the same."""
    rows = check_rows(field, value)
    for i, row in enumerate(rows, start=1):
        for j, cell in enumerate(row, start=1):
            if not isinstance(cell, numbers.Integral) or cell not in (0, 1):  # bool is one of the whole numbers
                raise ConfigError("custom_cell", field=field, given=cell, row=i, column=j)
    return tuple(tuple(bool(cell) for cell in row) for row in rows)
