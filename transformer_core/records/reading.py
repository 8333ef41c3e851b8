"""A text of strangers as JSON: it is read, never run, and takes no more memory than a record needs."""

import json
from collections import Counter
from typing import Any, NoReturn

from transformer_core.errors import ConfigError

MAX_BYTES = 16 << 20
"""The largest record that is read: a run of some 150,000 steps."""
MAX_BRACKETS = 400_000
"""So many objects and lists may be in it; without a limit, a file of brackets alone would take gigabytes to read."""


def parse(content: str | bytes, wanted: str) -> Any:
    """The JSON in a text; ``wanted`` is the format that an error names.

    Raises:
        ConfigError: it is too large, no text, no JSON, or an object in it has a key twice.
    """
    size = len(content)
    if size > MAX_BYTES:
        raise ConfigError("record_large", field="record", given=size, high=MAX_BYTES)
    try:
        written = content if isinstance(content, str) else content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError("record_none", field="record", given=beginning(content), wanted=wanted) from None
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


def beginning(content: str | bytes) -> str:
    """The first signs of a text, for an error to quote."""
    return (content[:60] if isinstance(content, str) else content[:60].decode("utf-8", "replace")).strip()


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ConfigError("json_twice", field="record", given=twice)
    return found


def _no_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")
