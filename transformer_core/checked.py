"""Checked settings: a dataclass field says what it may hold, and refuses everything else with a ``ConfigError``."""

import dataclasses
import math
import numbers
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

from transformer_core.errors import ConfigError, nearest

Check = Callable[[str, Any], Any]
"""(name of the setting, value) -> the value as it is kept; a value that cannot be raises ConfigError."""

Section = TypeVar("Section", bound="Checked")


@dataclasses.dataclass(frozen=True)
class Checked:
    """A frozen section of settings: every field passes its check, then ``together`` looks at them side by side."""

    section: ClassVar[str] = ""
    """The section's name in a TOML file."""
    aliases: ClassVar[tuple[str, ...]] = ()
    """Names that ``from_dict`` and ``replace`` take beside the fields' own."""

    # A section answers a wrong type itself, in a sentence. The checker of annotations that tests switch on would be
    # faster, and lists, which become tuples here, would not reach __post_init__.
    __no_type_check__ = True

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            object.__setattr__(self, field.name, field.metadata["check"](field.name, getattr(self, field.name)))
        self.together()

    def together(self) -> None:
        """What no field can say alone; a section overrides it where its fields bind each other."""

    @classmethod
    def keys(cls) -> tuple[str, ...]:
        """The names of the settings, in the order of definition."""
        return tuple(field.name for field in dataclasses.fields(cls))

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Every name that ``from_dict`` takes."""
        return (*cls.keys(), *cls.aliases)

    @classmethod
    def facts(cls, key: str) -> Mapping[str, Any]:
        """What a widget may want to know of a setting: ``kind``, ``default``, and ``low``, ``high`` or ``choices``."""
        return {field.name: field.metadata for field in dataclasses.fields(cls)}[key]

    @classmethod
    def spread(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """The settings with every alias replaced by what it stands for."""
        return dict(settings)

    @classmethod
    def from_dict(cls: type[Section], settings: Mapping[str, Any]) -> Section:
        """The section with these settings, and defaults elsewhere.

        Raises:
            ConfigError: an unknown name, with the nearest known one, or a value that cannot be.
        """
        spread = cls.spread(settings)
        for key in spread:
            if key not in cls.keys():
                close = nearest(key, cls.names())
                raise ConfigError("unknown_key", field=key, given=key, section=cls.section, nearest=close,
                                  keys=list(cls.names()), choices=[{close: spread[key]}])  # fmt: skip
        return cls(**spread)

    def replace(self: Section, **changes: Any) -> Section:
        """A copy with some settings changed.

        Raises:
            ConfigError: an unknown name, with the nearest known one, or a value that cannot be.
        """
        return self.from_dict({**self.to_dict(), **self.spread(changes)})

    def to_dict(self) -> dict[str, Any]:
        """Name -> value, in the order of definition."""
        return {key: getattr(self, key) for key in self.keys()}


def checked(default: Any, check: Check, kind: str, **facts: Any) -> Any:
    """A field of a ``Checked`` section: its default, its check, and what a widget may want to know of it."""
    return dataclasses.field(default=default, metadata={"check": check, "kind": kind, "default": default, **facts})


def whole(default: int | None, low: int, high: int) -> Any:
    """A field for a whole number in ``low..high``; one whose default is None may be None."""
    check = _optional(default, lambda field, value: check_whole(field, value, low, high))
    return checked(default, check, "whole", low=low, high=high)


def real(default: float, low: float, high: float) -> Any:
    """A field for a finite number in ``low..high``."""
    return checked(default, lambda field, value: check_real(field, value, low, high), "real", low=low, high=high)


def fraction(default: float) -> Any:
    """A field for a number that is at least 0 and less than 1."""
    return checked(default, check_fraction, "real", low=0.0, high=1.0)


def positive(default: float | None, high: float) -> Any:
    """A field for a number above 0; one whose default is None may be None."""
    check = _optional(default, lambda field, value: check_positive(field, value, high))
    return checked(default, check, "real", low=0.0, high=high)


def flag(default: bool | None) -> Any:
    """A field for true or false; one whose default is None may be None."""
    return checked(default, _optional(default, check_flag), "flag")


def choice(default: str, *choices: str, later: tuple[str, ...] = ()) -> Any:
    """A field for one of a few words; ``later`` are known ones that are not built yet."""
    return checked(
        default, lambda field, value: check_choice(field, value, choices, later), "choice", choices=choices
    )  # fmt: skip


def text(default: str) -> Any:
    """A field for any text."""
    return checked(default, check_text, "text")


def optional(check: Check, kind: str) -> Any:
    """A field that is None unless it is given."""
    return checked(None, _optional(None, check), kind)


def _optional(default: Any, check: Check) -> Check:
    if default is not None:
        return check
    return lambda field, value: None if value is None else check(field, value)


def check_whole(field: str, value: Any, low: int, high: int) -> int:
    """``value`` as an int in ``low..high``. True is not 1 and 64.0 is not 64: a size is never a guess.

    Raises:
        ConfigError: it is no whole number, or out of range.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        close = [round(value)] if isinstance(value, float) and math.isfinite(value) else []
        replacements = [{field: min(max(number, low), high)} for number in close]
        raise ConfigError("not_whole", field=field, given=value, choices=replacements)
    number = int(value)
    if not low <= number <= high:
        close_number = min(max(number, low), high)
        raise ConfigError("out_of_range", field=field, given=value, low=low, high=high, nearest=close_number,
                          choices=[{field: close_number}])  # fmt: skip
    return number


def check_number(field: str, value: Any) -> float:
    """``value`` as a finite float; whole numbers are numbers too.

    Raises:
        ConfigError: it is no number, or NaN, or infinite.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ConfigError("not_number", field=field, given=value)
    try:
        number = float(value)
    except OverflowError:  # a whole number beyond the largest float
        number = math.inf
    if not math.isfinite(number):
        raise ConfigError("not_finite", field=field, given=value)
    return number


def check_real(field: str, value: Any, low: float, high: float) -> float:
    """``value`` as a float, low <= value <= high.

    Raises:
        ConfigError: it is no finite number, or out of range.
    """
    number = check_number(field, value)
    if not low <= number <= high:
        close = min(max(number, low), high)
        raise ConfigError("out_of_range", field=field, given=value, low=f"{low:g}", high=f"{high:g}",
                          nearest=f"{close:g}", choices=[{field: close}])  # fmt: skip
    return number


def check_fraction(field: str, value: Any) -> float:
    """``value`` as a float, 0 <= value < 1: a share that always leaves something.

    Raises:
        ConfigError: it is no finite number, or out of range.
    """
    number = check_number(field, value)
    if not 0 <= number < 1:
        close = 0.0 if number < 0 else 0.9
        raise ConfigError("not_fraction", field=field, given=value, nearest=f"{close:g}", choices=[{field: close}])
    return number


def check_positive(field: str, value: Any, high: float) -> float:
    """``value`` as a float, 0 < value <= high.

    Raises:
        ConfigError: it is no finite number, or out of range.
    """
    number = check_number(field, value)
    if not 0 < number <= high:
        choices = [{field: high}] if number > high else []
        raise ConfigError("not_positive", field=field, given=value, high=f"{high:g}", choices=choices)
    return number


def check_flag(field: str, value: Any) -> bool:
    """``value``, which must be True or False: 1 and "yes" are not.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(value, bool):
        return value
    raise ConfigError("not_flag", field=field, given=value, choices=[{field: True}, {field: False}])


def check_text(field: str, value: Any) -> str:
    """``value``, which must be text that UTF-8 can hold.

    Raises:
        ConfigError: it is no text, or holds half of a surrogate pair.
    """
    if not isinstance(value, str):
        raise ConfigError("not_text", field=field, given=value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ConfigError("not_unicode", field=field, given=value) from None
    return value


def check_choice(field: str, value: Any, choices: tuple[str, ...], later: tuple[str, ...] = ()) -> str:
    """``value``, which must be one of ``choices``.

    Raises:
        ConfigError: it is another word, with the nearest one, or one that is not built yet.
    """
    word = check_text(field, value)
    if word in later:
        replacements = [{field: choice} for choice in choices]
        raise ConfigError("not_built", field=field, given=word, built=list(choices), choices=replacements)
    if word not in choices:
        close = nearest(word, choices)
        raise ConfigError("not_choice", field=field, given=word, allowed=list(choices), nearest=close,
                          choices=[{field: close}])  # fmt: skip
    return word


def check_list(field: str, value: Any) -> tuple[Any, ...]:
    """``value`` as a tuple; a text is not meant as the list of its characters.

    Raises:
        ConfigError: it is neither list nor tuple.
    """
    if not isinstance(value, list | tuple):
        raise ConfigError("not_list", field=field, given=value)
    return tuple(value)


def check_rows(field: str, value: Any) -> tuple[tuple[Any, ...], ...]:
    """``value`` as a rectangle of entries, at least one by one.

    Raises:
        ConfigError: it has no rows, an empty row, or rows of different lengths.
    """
    rows = tuple(check_list(f"{field} row {number}", row) for number, row in enumerate(check_list(field, value), 1))
    if not rows:
        raise ConfigError("empty", field=field, given=value)
    for number, row in enumerate(rows, start=1):
        if not row:
            raise ConfigError("empty_row", field=field, given=row, row=number)
        if len(row) != len(rows[0]):
            raise ConfigError("ragged", field=field, given=len(row), row=number, wanted=len(rows[0]))
    return rows
