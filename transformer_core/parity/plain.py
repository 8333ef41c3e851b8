"""Results as data that JSON can hold."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """Dataclasses as dicts, tuples as lists, a number that is not finite as its name.

    >>> plain({"error": float("inf"), "shape": (2, 3)})
    {'error': 'inf', 'shape': [2, 3]}
    """
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
