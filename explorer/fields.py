"""``FIELDS``, the one table of choices: how each is read, what it may be, where its default comes from.

Validation, the sidebar and the share link all read it, so a new choice is one new row.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from explorer import painted, words
from explorer.limits import Limits
from explorer.refusals import Refusal
from transformer_core.config import RULES, parse_rule
from transformer_core.errors import ConfigError, nearest, show
from transformer_core.presets import preset_names
from transformer_core.rules import split_rules

ATTENTIONS = ("encoder_self", "decoder_self", "cross")
PAINTED = tuple(f"{name}_custom" for name in ATTENTIONS)
NO_FAULT = "none"
NO_LESSON = "none"
TRAINING = (
    "task", "recipe", "steps", "train_batch", "optimizer", "schedule", "lr", "warmup", "train_dropout", "smoothing",
    "clip", "train_seed", "train_device", "lesson",
)  # fmt: skip
"""The choices that have a control in the sidebar of Train, in its order."""
COMPARE_LIMITS = ("usual", "1e-3", "1e-4", "1e-5", "1e-6", "1e-7", "1e-8", "1e-10", "1e-12", "1e-14")
NUMBERS = {
    "int": r"[+-]?[0-9]{1,12}",
    "float": r"[+-]?([0-9]{1,20}\.?[0-9]{0,20}|\.[0-9]{1,20})(e[+-]?[0-9]{1,3})?",
}


@dataclass(frozen=True)
class Field:
    """One choice: how it is read, what it may be, and where its default comes from."""

    name: str
    group: str  # model, masks, data: defaults come from the preset; the others: from the Session class
    kind: str  # int, float, choice, rules, painted, text, key
    low: float = 0
    high: float | str = math.inf  # a number, or the name of a limit
    choices: tuple[str, ...] = ()

    def top(self, limits: Limits) -> float:
        return getattr(limits, self.high) if isinstance(self.high, str) else self.high

    def clean(self, value: Any, limits: Limits) -> Any:
        """The value in its own type.

        Raises:
            Refusal: another type, NaN, out of range, or not one of the choices.
        """
        try:
            return getattr(self, f"_clean_{self.kind}")(value, limits)
        except ConfigError as error:
            raise refusal_of(error, self.name) from error

    def parse(self, given: str, limits: Limits) -> Any:
        """The value of a query string, where everything is text and nothing can be trusted.

        Raises:
            Refusal: as ``clean``.
        """
        if self.kind in NUMBERS:
            if not re.fullmatch(NUMBERS[self.kind], given):
                raise Refusal("not_whole" if self.kind == "int" else "not_number", self.name, given=show(clip(given)))
            return self.clean(int(given) if self.kind == "int" else float(given), limits)
        if self.kind == "rules":
            return self.clean([] if given == "none" else split_rules(given[:400]), limits)
        return self.clean(given, limits)

    def format(self, value: Any) -> str:
        if self.kind == "rules":
            return ",".join(value) or "none"
        if self.kind == "painted":
            return value or "none"
        if self.kind == "float":
            return repr(value)
        return str(value)

    def _number(self, value: Any) -> float:
        if value is None:  # a box that was cleared
            raise Refusal("no_number", self.name)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise Refusal("not_whole" if self.kind == "int" else "not_number", self.name, given=show(value))
        if isinstance(value, float) and not math.isfinite(value):
            raise Refusal("not_finite", self.name, given=show(value))
        return value

    def _in_range(self, value: float, limits: Limits) -> None:
        low, high = _plain(self.low), _plain(self.top(limits))
        if not low <= value <= high:
            nearest = min(max(value, low), high)
            raise Refusal(
                "out_of_range",
                self.name,
                ({self.name: nearest},),
                given=show(value),
                low=low,
                high=high,
                nearest=nearest,
            )

    def _clean_int(self, value: Any, limits: Limits) -> int:
        number = self._number(value)
        if number != int(number):
            nearest = round(min(max(number, self.low), self.top(limits)))
            raise Refusal("not_whole", self.name, ({self.name: nearest},), given=show(value))
        self._in_range(int(number), limits)
        return int(number)

    def _clean_float(self, value: Any, limits: Limits) -> float:
        number = self._number(value)
        self._in_range(number, limits)  # before it is made a float: a whole number may be too large for one
        return float(number)

    def _clean_choice(self, value: Any, limits: Limits) -> str:
        allowed = self.choices or open_choices(self.name)
        if not isinstance(value, str):
            raise Refusal("not_text", self.name, given=show(value))
        if value not in allowed:
            close = nearest(value, allowed)
            raise Refusal(
                "not_choice",
                self.name,
                ({self.name: close},),
                given=show(clip(value)),
                allowed=list(allowed),
                nearest=close,
            )
        return value

    def _clean_text(self, value: Any, limits: Limits) -> str:
        if not isinstance(value, str):
            raise Refusal("not_text", self.name, given=show(value))
        if len(value) > limits.max_text:
            raise Refusal("text_too_long", self.name, length=len(value), high=limits.max_text)
        if not value.isascii() and any("\ud800" <= sign <= "\udfff" for sign in value):
            raise Refusal("text_broken", self.name)
        return value.replace("\r\n", "\n")

    def _clean_key(self, value: Any, limits: Limits) -> str:
        if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9_./]{0,120}", value):
            raise Refusal("not_a_key", self.name, given=show(clip(value)))
        return value

    def _clean_painted(self, value: Any, limits: Limits) -> str:
        if not isinstance(value, str):
            raise Refusal("not_text", self.name, given=show(value))
        return painted.word(painted.matrix(value, self.name, limits.max_length))

    def _clean_rules(self, value: Any, limits: Limits) -> tuple[str, ...]:
        if not isinstance(value, (list, tuple)) or len(value) > len(RULES):
            raise Refusal("not_list", self.name, given=show(value))
        for rule in value:
            name, size = parse_rule(rule, self.name)
            if name == "custom":
                raise Refusal("custom_missing", self.name)
            if size is not None and name != "random" and size > limits.max_length:  # random's is in per cent
                raise Refusal("rule_too_wide", self.name, given=show(rule), high=limits.max_length)
        return tuple(value)


def clip(value: object, length: int = 40) -> str:
    """A value of a stranger, short enough to print."""
    shown = value if isinstance(value, str) else repr(value)
    shown = "".join(sign if sign.isprintable() else " " for sign in shown)
    return shown if len(shown) <= length else shown[: length - 1] + "…"


def _plain(number: float) -> float | int:
    return int(number) if float(number).is_integer() else number


def open_choices(name: str) -> tuple[str, ...]:
    if name == "preset":
        return tuple(preset_names())
    if name == "lesson":  # the registries are read late: this table is imported by everything
        from transformer_core.experiments import LESSONS

        variants = [f"{lesson.name}.{variant.name}" for lesson in LESSONS.values() for variant in lesson.variants]
        return (NO_LESSON, *variants)
    from transformer_core import faults, tasks

    return (NO_FAULT, *faults.FAULTS) if name in ("fault", "picked") else tuple(tasks.TASKS)


FIELDS: tuple[Field, ...] = (
    Field("preset", "run", "choice"),
    Field("architecture", "model", "choice", choices=("encoder_decoder", "encoder", "decoder")),
    Field("d_model", "model", "int", 1, "max_d_model"),
    Field("n_heads", "model", "int", 1, "max_heads"),
    Field("n_encoder_layers", "model", "int", 1, "max_layers"),
    Field("n_decoder_layers", "model", "int", 1, "max_layers"),
    Field("d_ff", "model", "int", 1, "max_d_ff"),
    Field("norm_order", "model", "choice", choices=("post", "pre")),
    Field("activation", "model", "choice", choices=("relu", "gelu")),
    Field("positions", "model", "choice", choices=("sinusoidal", "learned", "none")),
    Field("encoder_self", "masks", "rules"),
    Field("decoder_self", "masks", "rules"),
    Field("cross", "masks", "rules"),
    *(Field(name, "masks", "painted") for name in PAINTED),
    Field("fill", "masks", "choice", choices=("exclude", "-inf", "finfo_min", "-1e9")),
    Field("tokens", "data", "choice", choices=("random", "text", "task")),
    Field("split", "data", "choice", choices=("word", "char")),
    Field("src_text", "data", "text"),
    Field("tgt_text", "data", "text"),
    Field("src_len", "data", "int", 1, "max_length"),
    Field("tgt_len", "data", "int", 1, "max_length"),
    Field("padding", "data", "choice", choices=("none", "last")),
    Field("pad_side", "data", "choice", choices=("right", "left")),
    Field("batch_size", "data", "int", 1, "max_batch"),
    Field("dropout", "model", "float", 0.0, 0.9),
    Field("mode", "run", "choice", choices=("eval", "train")),
    Field("dtype", "run", "choice", choices=("float32", "float64", "bfloat16", "float16")),
    Field("device", "run", "choice", choices=("cpu", "cuda", "mps")),
    Field("seed", "run", "int", 0, 2**31 - 1),
    Field("weights", "run", "choice", choices=("fresh", "trained")),
    Field("fault", "run", "choice"),
    Field("lang", "view", "choice", choices=words.LANGUAGES),
    Field("tab", "view", "choice", choices=("explore", "masks", "train", "decode", "break", "compare")),
    Field("selected", "view", "key"),
    Field("sample", "view", "int", 0, 10_000),
    Field("head", "view", "int", 0, 10_000),
    Field("picked", "view", "choice"),
    Field("game", "view", "int", 0, 2**31 - 1),
    Field("mask_at", "masks_view", "choice", choices=ATTENTIONS),
    Field("mask_show", "masks_view", "choice", choices=("mask", "scores", "weights")),
    Field("mask_heads", "masks_view", "choice", choices=("one", "mean")),
    Field("mask_layer", "masks_view", "int", 0, 10_000),
    Field("mask_row", "masks_view", "int", 0, 10_000),
    Field("task", "train", "choice"),
    Field("recipe", "train", "choice", choices=("task", "mine")),
    Field("steps", "train", "int", 1, "max_training_steps"),
    Field("train_batch", "train", "int", 1, "max_training_batch"),
    Field("optimizer", "train", "choice", choices=("adam", "adamw")),
    Field("schedule", "train", "choice", choices=("constant", "warmup", "cosine", "one_cycle")),
    Field("lr", "train", "float", 1e-6, 10.0),
    Field("warmup", "train", "int", 0, 100_000),
    Field("train_dropout", "train", "float", 0.0, 0.9),
    Field("smoothing", "train", "float", 0.0, 0.9),
    Field("clip", "train", "float", 0.0, 1000.0),  # 0: nothing is clipped
    Field("train_seed", "train", "int", 0, 2**31 - 1),
    Field("train_device", "train", "choice", choices=("cpu", "cuda", "mps")),
    Field("lesson", "train", "choice"),  # a lesson and one of its variants: explorer/lessons.py
    Field("cmp_weights", "compare", "choice", choices=("explore", "fresh", "trained")),
    Field("cmp_mode", "compare", "choice", choices=("eval", "train")),
    Field("cmp_dtype", "compare", "choice", choices=("float32", "float64")),
    Field("cmp_norm", "compare", "choice", choices=("same", "torch")),
    Field("cmp_limit", "compare", "choice", choices=COMPARE_LIMITS),
    Field("cmp_way", "compare", "choice", choices=("forward", "backward")),
    Field("cmp_lengths", "compare", "choice", choices=("some", "all")),
    Field("cmp_numbers", "compare", "choice", choices=("float32", "float64")),
    Field("cmp_fast", "compare", "choice", choices=("on", "off")),
    Field("dec_from", "decode", "choice", choices=("model", "greedy_trap", "length_trap")),
    Field("dec_text", "decode", "text"),
    Field("dec_item", "decode", "int", 0, 10_000),
    Field("dec_table", "decode", "text"),
    Field("dec_method", "decode", "choice", choices=("greedy", "sample", "beam", "exhaustive")),
    Field("dec_width", "decode", "int", 1, "max_beam"),
    Field("dec_norm", "decode", "choice", choices=("off", "on")),
    Field("dec_temperature", "decode", "float", 0.05, 20.0),
    Field("dec_top_k", "decode", "int", 0, 1_000_000),  # 0: every token may be drawn
    Field("dec_top_p", "decode", "float", 0.01, 1.0),
    Field("dec_seed", "decode", "int", 0, 2**31 - 1),
    Field("dec_length", "decode", "int", 1, "max_decoded"),
    Field("dec_step", "decode", "int", 0, 10_000),  # 0: all of them
    Field("dec_node", "decode", "key"),
    Field("dec_layer", "decode", "int", 0, 10_000),  # 0: the last one
    Field("dec_head", "decode", "int", 0, 10_000),  # 0: the mean of all
)
BY_NAME = {field.name: field for field in FIELDS}
FROM_PRESET = tuple(field.name for field in FIELDS if field.group in ("model", "masks", "data"))


def refusal_of(error: ValueError, field: str = "") -> Refusal:
    """A mistake the core names (ConfigError or any ValueError), as the page shows it."""
    if isinstance(error, Refusal):
        return error
    facts = dict(getattr(error, "values", None) or {})
    choices = [choice for choice in (getattr(error, "choices", None) or ()) if isinstance(choice, Mapping)]
    choices = [choice for choice in choices if all(name in BY_NAME for name in choice)]
    named = facts.pop("field", "")
    refusal = Refusal(getattr(error, "code", "core"), field or named, choices, message=str(error), **facts)
    refusal.values["field"] = named
    return refusal
