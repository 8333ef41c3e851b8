"""What a Transformer, its masks, its training and its data may be: frozen settings that refuse what cannot be built.

The names are the paper's (Vaswani et al. 2017, table 3 and section 5). Nothing here computes; a wrong setting is
refused with a ``ConfigError`` before a single tensor exists.
"""

import dataclasses
import numbers
from collections.abc import Mapping
from typing import Any, ClassVar

from transformer_core.checked import (
    Checked,
    check_list,
    check_rows,
    check_text,
    check_whole,
    checked,
    choice,
    flag,
    fraction,
    optional,
    positive,
    real,
    text,
    whole,
)
from transformer_core.errors import ConfigError
from transformer_core.rules import RULES, check_matrix, check_rules, parse_rule

__all__ = ["RULES", "ConfigError", "DataConfig", "MaskConfig", "ModelConfig", "TrainConfig", "parse_rule"]

PAD, BEGIN, END, UNKNOWN = 0, 1, 2, 3
"""The special ids."""
FIRST_FREE = 4
"""The first id of an ordinary token."""

FILLS = ("exclude", "-inf", "finfo_min", "-1e9")
"""What may stand in hidden places before the softmax."""

# Far above any model that fits one machine: they stop a slip of the finger, not an ambition.
MAX_WIDTH, MAX_BATCH = 1 << 16, 1 << 16
MAX_HIDDEN, MAX_LENGTH = 1 << 20, 1 << 20
MAX_VOCABULARY = 1 << 24
MAX_LAYERS = 1 << 10


def divisors(number: int) -> list[int]:
    """All whole numbers that divide ``number``, in rising order: the possible head counts of a width.

    >>> divisors(10)
    [1, 2, 5, 10]
    """
    low = [n for n in range(1, int(number**0.5) + 1) if number % n == 0]
    return sorted({*low, *(number // n for n in low)})


@dataclasses.dataclass(frozen=True)
class ModelConfig(Checked):
    """The sizes and choices of one Transformer; the defaults are small and their sizes pairwise distinct.

    ``final_norm`` None means: after a pre-norm stack, not after a post-norm one. ``n_classes`` puts a classifier on
    position 0 of an encoder-only model. Settings of a side that the architecture lacks are kept and not used.

    Raises:
        ConfigError: a setting of the wrong type, out of its range, or one that does not go with another.
    """

    section: ClassVar[str] = "model"
    aliases: ClassVar[tuple[str, ...]] = ("n_layers",)

    architecture: str = choice("encoder_decoder", "encoder_decoder", "encoder", "decoder")
    d_model: int = whole(64, 1, MAX_WIDTH)
    n_heads: int = whole(4, 1, MAX_WIDTH)
    n_encoder_layers: int = whole(2, 1, MAX_LAYERS)
    n_decoder_layers: int = whole(2, 1, MAX_LAYERS)
    d_ff: int = whole(128, 1, MAX_HIDDEN)
    dropout: float = fraction(0.0)
    attention_dropout: float = fraction(0.0)
    norm_order: str = choice("post", "post", "pre")
    norm: str = choice("layer", "layer", "rms", "batch", "none")
    activation: str = choice("relu", "relu", "gelu")
    positions: str = choice("sinusoidal", "sinusoidal", "learned", "none", later=("rotary", "alibi"))
    positions_on_decoder: bool = flag(True)
    scale_scores: bool = flag(True)
    scale_embedding: bool = flag(True)
    tie_weights: bool = flag(False)
    bias: bool = flag(True)
    norm_eps: float = positive(1e-5, 1.0)
    final_norm: bool | None = flag(None)
    src_vocab_size: int = whole(89, 2, MAX_VOCABULARY)
    tgt_vocab_size: int = whole(97, 2, MAX_VOCABULARY)
    max_seq_len: int = whole(512, 1, MAX_LENGTH)
    pad_id: int = whole(PAD, 0, MAX_VOCABULARY)
    n_classes: int = whole(0, 0, MAX_VOCABULARY)

    def together(self) -> None:
        """n_heads divides d_model (section 3.2.2), and padding has an id in each vocabulary."""
        if self.d_model % self.n_heads:
            raise self._heads_refused()
        for field, used in (("src_vocab_size", self.has_encoder), ("tgt_vocab_size", self.has_decoder)):
            size = getattr(self, field)
            if used and self.pad_id >= size:
                raise ConfigError("pad_outside", field=field, given=self.pad_id, size=size, high=size - 1,
                                  choices=[{"pad_id": PAD}])  # fmt: skip

    def _heads_refused(self) -> ConfigError:
        counts = divisors(self.d_model)
        below = [n for n in counts if n < self.n_heads][-1:]
        above = [n for n in counts if n > self.n_heads][:1]
        floor = self.d_model // self.n_heads * self.n_heads
        widths = [width for width in (floor, floor + self.n_heads) if 0 < width <= MAX_WIDTH]
        close = sorted(counts, key=lambda n: abs(n - self.n_heads))[:16]
        return ConfigError(
            "heads_divide" if above else "heads_too_many", field="n_heads", given=self.n_heads,
            d_model=self.d_model, n_heads=self.n_heads, nearest=below + above, counts=sorted(close), widths=widths,
            choices=[{"n_heads": n} for n in below + above] + [{"d_model": width} for width in widths],
        )  # fmt: skip

    @property
    def d_head(self) -> int:
        """d_head = d_model / n_heads (section 3.2.2)."""
        return self.d_model // self.n_heads

    @property
    def has_final_norm(self) -> bool:
        """Whether each stack ends with a norm: as set, else with pre-norm only (the paper has none)."""
        return self.norm_order == "pre" if self.final_norm is None else self.final_norm

    @property
    def has_encoder(self) -> bool:
        """Whether there is a source side."""
        return self.architecture != "decoder"

    @property
    def has_decoder(self) -> bool:
        """Whether there is a target side."""
        return self.architecture != "encoder"

    @classmethod
    def spread(cls, settings: Mapping[str, Any]) -> dict[str, Any]:
        """``n_layers`` sets the layers of both sides.

        Raises:
            ConfigError: ``n_layers`` stands beside one of the two that it sets, or is no possible number of layers.
        """
        spread = dict(settings)
        if "n_layers" in spread:
            both = ("n_encoder_layers", "n_decoder_layers")
            if any(side in spread for side in both):
                raise ConfigError("key_twice", field="n_layers", given=spread["n_layers"], others=list(both))
            spread |= dict.fromkeys(both, check_whole("n_layers", spread.pop("n_layers"), 1, MAX_LAYERS))
        return spread


@dataclasses.dataclass(frozen=True)
class MaskConfig(Checked):
    """Which keys each of the three attentions may use (section 3.2.3): a key must pass every rule that is named.

    ``fill`` is what stands in hidden places before the softmax; "exclude" is exact, the others show what is often
    written instead. A custom matrix has a row for each query and a column for each key. Lists are kept as tuples.

    Raises:
        ConfigError: an unknown rule, a size that cannot be, or a custom matrix without its rule.
    """

    section: ClassVar[str] = "masks"

    encoder_self: tuple[str, ...] = checked(("padding",), check_rules, "rules")
    decoder_self: tuple[str, ...] = checked(("padding", "causal"), check_rules, "rules")
    cross: tuple[str, ...] = checked(("padding",), check_rules, "rules")
    fill: str = choice("exclude", *FILLS)
    encoder_self_custom: tuple[tuple[bool, ...], ...] | None = optional(check_matrix, "list")
    decoder_self_custom: tuple[tuple[bool, ...], ...] | None = optional(check_matrix, "list")
    cross_custom: tuple[tuple[bool, ...], ...] | None = optional(check_matrix, "list")

    def together(self) -> None:
        """The rule "custom" and its matrix come together or not at all; some rules are for self-attention."""
        for rule in self.cross:
            name = rule.partition(":")[0]
            if name in ("prefix", "documents"):
                kept = tuple(other for other in self.cross if other != rule)
                raise ConfigError(f"{name}_cross", field="cross", given=rule, choices=[{"cross": kept}])
        for field in ("encoder_self", "decoder_self", "cross"):
            named, matrix = "custom" in getattr(self, field), getattr(self, f"{field}_custom")
            if named != (matrix is not None):
                raise ConfigError("custom_missing" if named else "custom_unused", field=field, given="custom")


@dataclasses.dataclass(frozen=True)
class TrainConfig(Checked):
    """How to train (section 5): ``lr`` is the rate, or with schedule "warmup" a factor on equation 3 (the paper: 1).

    With schedule "cosine" or "one_cycle" ``lr`` is the highest rate. ``warmup`` is the number of steps in which the
    rate rises; 0 means none with "cosine", and three tenths of all with "one_cycle"; "constant" has no use for it.
    ``steps`` takes precedence over ``epochs``; an epoch of an endless task is 100 steps. Whether ``task``
    exists is known to the register of tasks.

    Raises:
        ConfigError: a setting of the wrong type or out of its range, or schedule "warmup" without steps to warm up.
    """

    section: ClassVar[str] = "training"

    task: str = text("copy")
    steps: int | None = whole(None, 1, 1_000_000)
    epochs: int | None = whole(None, 1, 10_000)
    batch_size: int = whole(64, 1, MAX_BATCH)
    lr: float = positive(1e-3, 100.0)
    schedule: str = choice("constant", "constant", "warmup", "cosine", "one_cycle")
    warmup: int = whole(0, 0, 1_000_000)
    optimizer: str = choice("adam", "adam", "adamw")
    weight_decay: float = real(0.0, 0.0, 100.0)
    label_smoothing: float = fraction(0.0)
    clip_norm: float | None = positive(None, 1e6)

    def together(self) -> None:
        """A warm-up has at least one step, since its rate divides by their number."""
        if self.schedule == "warmup" and not self.warmup:
            choices: list[dict[str, Any]] = [{"warmup": 4000}, {"schedule": "constant"}]
            raise ConfigError("warmup_needed", field="warmup", given=self.warmup, choices=choices)

    @property
    def total_steps(self) -> int:
        """``steps``, else 100 an epoch, else 600."""
        return self.steps or (self.epochs * 100 if self.epochs else 600)


def _check_ids(field: str, value: Any) -> tuple[tuple[int, ...], ...]:
    """Rows of whole numbers; whether they are ids of the vocabulary is known only with the model."""
    rows = check_rows(field, value)
    for i, row in enumerate(rows, start=1):
        for j, token in enumerate(row, start=1):
            if isinstance(token, bool) or not isinstance(token, numbers.Integral):
                raise ConfigError("id_not_whole", field=field, given=token, row=i, column=j)
    return tuple(tuple(int(token) for token in row) for row in rows)


def _check_sentences(field: str, value: Any) -> tuple[str, ...]:
    """Sentences, none of them blank. One text is cut into its lines; blank lines at its end are no sentences."""
    lines = check_list(field, check_text(field, value).rstrip().splitlines() if isinstance(value, str) else value)
    if not lines:
        raise ConfigError("empty", field=field, given=value)
    for number, line in enumerate(lines, start=1):
        if not check_text(f"{field} sentence {number}", line).strip():
            raise ConfigError("blank_line", field=field, given=line, row=number)
    return lines


@dataclasses.dataclass(frozen=True)
class DataConfig(Checked):
    """Where the tokens of each side come from: explicit ids, typed sentences, or else random ids of these lengths.

    The lengths, ``batch_size`` and ``padding`` shape random ids only: with padding "last" the last sentence is
    shorter. Sentences are split into words or characters and padded to the longest, on ``pad_side``. Lists are kept
    as tuples.

    Raises:
        ConfigError: a setting of the wrong type or range, tokens that are empty or uneven, or two origins on one side.
    """

    section: ClassVar[str] = "data"

    src_len: int = whole(7, 1, MAX_LENGTH)
    tgt_len: int = whole(5, 1, MAX_LENGTH)
    batch_size: int = whole(2, 1, MAX_BATCH)
    padding: str = choice("last", "none", "last")
    pad_side: str = choice("right", "left", "right")
    src: tuple[tuple[int, ...], ...] | None = optional(_check_ids, "list")
    tgt: tuple[tuple[int, ...], ...] | None = optional(_check_ids, "list")
    src_text: tuple[str, ...] | None = optional(_check_sentences, "sentences")
    tgt_text: tuple[str, ...] | None = optional(_check_sentences, "sentences")
    split: str = choice("word", "word", "char")

    def together(self) -> None:
        """Each side has one origin."""
        for field in ("src", "tgt"):
            if getattr(self, field) is not None and getattr(self, f"{field}_text") is not None:
                raise ConfigError("ids_and_text", field=field, given=f"{field}_text")
