"""Mask rules as text: "padding", "causal", "window:3", "prefix:2", "block:4", "strided:2", "random:30", "documents",
"where:q - k < 3" and "custom".

Here they are only read and checked; what they mean is in masks.py.
"""

import numbers
import re
from typing import Any

from transformer_core.checked import check_list, check_rows, check_text
from transformer_core.errors import ConfigError, nearest
from transformer_core.predicates import EXAMPLE, Predicate, parse

RULES = ("padding", "causal", "window", "prefix", "block", "strided", "random", "documents", "where", "custom")
"""The mask rules."""
MAX_SIZE = 1 << 20
"""The largest width; no sequence is longer."""
SIZED = {"window": MAX_SIZE, "prefix": MAX_SIZE, "block": MAX_SIZE, "strided": MAX_SIZE, "random": 99}
"""The rules that take a size of at least 1, as in "window:3", and their largest; that of random is in per cent."""
EXAMPLES = {**{name: f"{name}:3" for name in SIZED}, "random": "random:30", "where": f"where:{EXAMPLE}"}
"""How a rule with something behind its colon is written."""


def parse_rule(rule: Any, field: str = "masks") -> tuple[str, int | None]:
    """A mask rule as its name and size; ``field`` is what an error calls the setting.

    The condition of a ``where`` is read too, but it is no size; ``condition`` gives it.

    >>> parse_rule("window:3"), parse_rule("causal"), parse_rule("where:q < 3")
    (('window', 3), ('causal', None), ('where', None))

    Raises:
        ConfigError: an unknown rule, a size that is missing, not wanted, not whole or out of range, or a condition
            that is missing or cannot be read.
    """
    name, colon, size = check_text(field, rule).strip().partition(":")
    if name not in RULES:
        close = _example(nearest(name, RULES))
        raise ConfigError("rule_unknown", field=field, given=rule, nearest=close, allowed=[_example(r) for r in RULES])
    if name == "where":
        if not size.strip():
            raise ConfigError("rule_needs_condition", field=field, given=rule, nearest=_example(name))
        parse(size, field)
        return name, None
    if name not in SIZED:
        if colon:
            raise ConfigError("rule_takes_none", field=field, given=rule, nearest=name)
        return name, None
    if not size.strip():
        raise ConfigError("rule_needs_size", field=field, given=rule, nearest=_example(name))
    digits = re.fullmatch(r"[+-]?[0-9]{1,300}", size.strip())
    width, high = int(size) if digits else 0, SIZED[name]
    if not 1 <= width <= high:
        close = f"{name}:{min(max(width, 1), high)}"
        raise ConfigError("rule_size", field=field, given=rule, low=1, high=high, nearest=close)
    return name, width


def condition(rule: str, field: str = "masks") -> Predicate:
    """The condition of a rule "where:...".

    >>> sorted(condition("where:q - k < n_k // 2").needs)
    ['k', 'n_k', 'q']

    Raises:
        ConfigError: it cannot be read.
    """
    return parse(rule.partition(":")[2], field)


def split_rules(text: str) -> list[str]:
    """The rules of a text with commas between them; the comma in min(q, 3) is not one of those.

    >>> split_rules("causal,where:q - k < min(n_k, 3),window:2")
    ['causal', 'where:q - k < min(n_k, 3)', 'window:2']
    """
    pieces, depth = [""], 0
    for sign in text:
        depth += (sign == "(") - (sign == ")")
        if sign == "," and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += sign
    return pieces


def _example(name: str) -> str:
    return EXAMPLES.get(name, name)


def check_rules(field: str, value: Any) -> tuple[str, ...]:
    """A list of mask rules in one spelling, each kind at most once. An empty list hides nothing."""
    rules, parsed = check_list(field, value), []
    for place, rule in enumerate(rules):
        try:
            name, size = parse_rule(rule, field)
            told: Any = condition(rule, field).text if name == "where" else size
            parsed.append((name, told))
        except ConfigError as error:
            if "nearest" in error.values:
                error.choices = [{field: (*rules[:place], error.values["nearest"], *rules[place + 1 :])}]
            raise
    names = [name for name, _ in parsed]
    for name in names:
        if names.count(name) > 1:
            raise ConfigError("rule_twice", field=field, given=name)
    return tuple(name if told is None else f"{name}:{told}" for name, told in parsed)


def check_matrix(field: str, value: Any) -> tuple[tuple[bool, ...], ...]:
    """A custom mask: rows of true (may attend) and false; 1 and 0 mean the same."""
    rows = check_rows(field, value)
    for i, row in enumerate(rows, start=1):
        for j, cell in enumerate(row, start=1):
            if not isinstance(cell, numbers.Integral) or cell not in (0, 1):  # bool is one of the whole numbers
                raise ConfigError("custom_cell", field=field, given=cell, row=i, column=j)
    return tuple(tuple(bool(cell) for cell in row) for row in rows)
