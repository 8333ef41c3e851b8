"""What one person has chosen: a frozen Session, and the query string that restores it.

Nothing here knows gradio; nothing here builds a model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from explorer import painted
from explorer.fields import ATTENTIONS, BY_NAME, FIELDS, NO_FAULT, clip, refusal_of
from explorer.limits import Limits
from explorer.refusals import Notice, Refusal, notice
from transformer_core.batches import batch_sizes
from transformer_core.config import DataConfig, MaskConfig, ModelConfig
from transformer_core.errors import ConfigError
from transformer_core.presets import Preset, load_preset, preset_names

if TYPE_CHECKING:
    from transformer_core.tasks import Task

DEFAULT_PRESET = "first_look"
DEFAULT_TASK = "copy"
SIZES = ("src_len", "tgt_len", "batch_size", "padding", "pad_side")
EXAMPLES = {
    "src_text": "I read a book\nshe drinks tea",
    "tgt_text": "我 读 一 本 书\n她 喝 茶",
}  # what the text boxes hold at first


@dataclass(frozen=True)
class Session:
    """Everything one person has chosen. The defaults of the model, masks and data are those of the preset.

    >>> Session.of_preset("first_look").change(d_model=128).to_query()
    {'d_model': '128'}
    """

    preset: str = DEFAULT_PRESET
    architecture: str = "encoder_decoder"
    d_model: int = 64
    n_heads: int = 4
    n_encoder_layers: int = 2
    n_decoder_layers: int = 2
    d_ff: int = 128
    norm_order: str = "post"
    activation: str = "relu"
    positions: str = "sinusoidal"
    encoder_self: tuple[str, ...] = ("padding",)
    decoder_self: tuple[str, ...] = ("padding", "causal")
    cross: tuple[str, ...] = ("padding",)
    encoder_self_custom: str = ""
    decoder_self_custom: str = ""
    cross_custom: str = ""
    fill: str = "exclude"
    tokens: str = "random"
    split: str = "word"
    src_text: str = EXAMPLES["src_text"]
    tgt_text: str = EXAMPLES["tgt_text"]
    src_len: int = 7
    tgt_len: int = 5
    padding: str = "last"
    pad_side: str = "right"
    batch_size: int = 2
    dropout: float = 0.0
    mode: str = "eval"
    dtype: str = "float32"
    device: str = "cpu"
    seed: int = 7
    weights: str = "fresh"
    fault: str = NO_FAULT
    lang: str = "en"
    tab: str = "explore"
    selected: str = ""
    sample: int = 0
    head: int = 0
    picked: str = NO_FAULT
    game: int = 0
    mask_at: str = "encoder_self"
    mask_show: str = "weights"
    mask_heads: str = "one"
    mask_layer: int = 0
    mask_row: int = 0
    task: str = "copy"
    recipe: str = "task"
    steps: int = 600
    train_batch: int = 64
    optimizer: str = "adamw"
    schedule: str = "warmup"
    lr: float = 0.2
    warmup: int = 60
    train_dropout: float = 0.0
    smoothing: float = 0.1
    clip: float = 1.0
    train_seed: int = 7
    train_device: str = "cpu"
    lesson: str = "none"
    cmp_weights: str = "explore"
    cmp_mode: str = "eval"
    cmp_dtype: str = "float32"
    cmp_norm: str = "same"
    cmp_limit: str = "usual"
    cmp_way: str = "forward"
    cmp_lengths: str = "some"
    cmp_numbers: str = "float32"
    cmp_fast: str = "on"
    dec_from: str = "model"
    dec_text: str = ""
    dec_item: int = 0
    dec_table: str = ""
    dec_method: str = "beam"
    dec_width: int = 3
    dec_norm: str = "off"
    dec_temperature: float = 1.0
    dec_top_k: int = 0
    dec_top_p: float = 1.0
    dec_seed: int = 7
    dec_length: int = 16
    dec_step: int = 0
    dec_node: str = ""
    dec_layer: int = 0
    dec_head: int = 0

    # ---- made from

    @classmethod
    def of_preset(cls, name: str = DEFAULT_PRESET) -> Session:
        """The session in which nothing differs from this preset."""
        return cls(preset=name, **_preset_values(preset_of(name)), task=DEFAULT_TASK, **_recipe_values(DEFAULT_TASK))

    @classmethod
    def from_query(cls, params: Mapping[str, str], limits: Limits | None = None) -> tuple[Session, list[Notice]]:
        """The session of a link; whatever in it cannot be is left at its default and named in a notice."""
        limits = limits or Limits.from_environment()
        notices: list[Notice] = []
        given: dict[str, Any] = {}
        for name, value in list(params.items())[:120]:
            if name.startswith("__") or name in ("view", "session_hash"):
                continue  # gradio's own
            field = BY_NAME.get(name)
            if field is None:
                notices.append(notice("notices.unknown_key", name=clip(name)))
                continue
            try:
                given[name] = field.parse(value, limits)
            except Refusal as refusal:
                notices.append(notice("notices.bad_value", refusal, name=name))
        base = cls.of_preset(given.pop("preset", DEFAULT_PRESET)).with_task(given.get("task", DEFAULT_TASK))
        session = base.change(**given)
        try:
            session.checked(limits)
        except Refusal as refusal:
            notices.append(notice("notices.bad_together", refusal))
            session = _largest_valid(base, given, limits)
        return session, notices[:6]

    # ---- written as

    def to_query(self) -> dict[str, str]:
        """Only what differs from the preset's and the class's defaults, in the order of FIELDS.

        A large painted layer is left out.
        """
        base = Session.of_preset(self.preset).with_task(self.task).change(task=DEFAULT_TASK)
        query = {} if self.preset == DEFAULT_PRESET else {"preset": self.preset}
        for field in FIELDS:
            value = getattr(self, field.name)
            if field.kind == "painted" and not painted.linked(value):
                continue  # it travels as a file
            if field.name != "preset" and value != getattr(base, field.name):
                query[field.name] = field.format(value)
        return query

    def model_config(self) -> ModelConfig:
        """The preset's model with the chosen fields replaced.

        Raises:
            ConfigError: the fields do not fit together.
        """
        changes = {field.name: getattr(self, field.name) for field in FIELDS if field.group == "model"}
        return preset_of(self.preset).model.replace(**changes)

    def mask_config(self, painted_too: bool = True) -> MaskConfig:
        """The chosen rules, and the painted cells as one more; those belong to these lengths and can be left out.

        Raises:
            ConfigError: the rules cannot be.
        """
        changes: dict[str, Any] = {"fill": self.fill}
        for name in ATTENTIONS:
            cells = painted.matrix(getattr(self, f"{name}_custom")) if painted_too else None
            changes[name] = getattr(self, name) if cells is None else (*getattr(self, name), "custom")
            changes[f"{name}_custom"] = cells
        return dataclasses.replace(preset_of(self.preset).masks, **changes)

    def data_config(self) -> DataConfig:
        """Where the tokens come from. A preset's own ids stay while lengths, padding and batch are the preset's."""
        sizes = {name: getattr(self, name) for name in SIZES}
        if self.tokens == "text":
            return DataConfig(**sizes, src_text=_lines(self.src_text), tgt_text=_lines(self.tgt_text), split=self.split)
        preset = preset_of(self.preset)
        given = _preset_values(preset)
        if given["tokens"] == "random" and all(given[name] == value for name, value in sizes.items()):
            return preset.data
        return DataConfig(**sizes)

    # ---- transitions

    def change(self, **values: Any) -> Session:
        """These fields replaced, nothing checked: ``checked`` does that."""
        return dataclasses.replace(self, **values)

    def choose_preset(self, name: str) -> Session:
        """Model, masks and data of another preset, with fresh weights. Language, tab, seed, device, training stay."""
        return self.change(
            preset=name, **_preset_values(preset_of(name)), weights="fresh", selected="", sample=0, head=0
        )

    def with_task(self, task: str) -> Session:
        """Another task, with the numbers of the recipe that learns it."""
        return self.change(task=task, **_recipe_values(task))

    def select(self, key: str, sample: int, head: int) -> Session:
        """Another tensor, sentence or head to look at."""
        return self.change(selected=key, sample=sample, head=head)

    def cleaned(self, values: Mapping[str, Any], limits: Limits) -> Session:
        """These fields replaced by values of a stranger: each in its type and range, then all together.

        Raises:
            Refusal: the first field that cannot be, or the reason why they do not fit together.
        """
        cleaned = {name: BY_NAME[name].clean(value, limits) for name, value in values.items()}
        return self.change(**cleaned).checked(limits)

    def checked(self, limits: Limits) -> Session:
        """This session, if its model, masks and data can be configured together. Builds nothing.

        Raises:
            Refusal: with the core's reason and the nearest choices.
        """
        if self.tokens == "text":
            self._check_text(limits)
        try:
            self.mask_config()
            batch_sizes(self.model_config(), self.data_config())
        except ConfigError as error:
            raise refusal_of(error, self._control_of(error.field)) from error
        return self

    def _control_of(self, field: str) -> str:
        """The choice behind a setting of the core: the source is a length or a text, and so is its vocabulary."""
        side = field.removesuffix("_vocab_size").removesuffix("_text")
        return f"{side}_{'text' if self.tokens == 'text' else 'len'}" if side in ("src", "tgt") else field

    def _check_text(self, limits: Limits) -> None:
        sides = {"encoder_decoder": ("src_text", "tgt_text"), "encoder": ("src_text",), "decoder": ("tgt_text",)}
        for name in sides[self.architecture]:
            lines = _lines(getattr(self, name))
            if lines is None:
                raise Refusal("no_text", name, ({name: EXAMPLES[name]}, {"tokens": "random"}))
            if len(lines) > limits.max_batch:
                raise Refusal("too_many_lines", name, given=len(lines), high=limits.max_batch)
            longest = max(len(line) if self.split == "char" else len(line.split()) for line in lines)
            if longest > limits.max_length:
                raise Refusal("line_too_long", name, given=longest, high=limits.max_length)


def _largest_valid(base: Session, given: Mapping[str, Any], limits: Limits) -> Session:
    """What remains of a link whose choices do not fit together: without its model, then its data, then its masks."""
    kept = dict(given)
    for group in ("model", "data", "masks"):
        kept = {name: value for name, value in kept.items() if BY_NAME[name].group != group}
        try:
            return base.change(**kept).checked(limits)
        except Refusal:
            continue
    return base.change(**kept)


def _lines(text: str) -> tuple[str, ...] | None:
    lines = tuple(line.strip() for line in text.split("\n") if line.strip())
    return lines or None


def _shown_rules(rules: Sequence[str]) -> tuple[str, ...]:
    return tuple(rule for rule in rules if rule != "custom")


@lru_cache(maxsize=32)
def preset_of(name: str) -> Preset:
    """A preset that comes with the library, read once. Never a path: names come from links."""
    if name not in preset_names():
        raise ValueError(f"no preset {name!r}")
    return load_preset(name)


def _recipe_values(task: str) -> dict[str, Any]:
    from transformer_core import tasks  # read late, as above

    return recipe_of(tasks.get(task))


def recipe_of(task: Task) -> dict[str, Any]:
    """The recipe with which this task is known to learn, by the names of the page's fields."""
    recipe = task.training
    return {
        "steps": recipe.total_steps, "train_batch": recipe.batch_size, "optimizer": recipe.optimizer,
        "schedule": recipe.schedule, "lr": recipe.lr, "warmup": recipe.warmup, "train_dropout": task.model.dropout,
        "smoothing": recipe.label_smoothing, "clip": recipe.clip_norm or 0.0,
    }  # fmt: skip


def _preset_values(preset: Preset) -> dict[str, Any]:
    """The fields that this preset decides."""
    values: dict[str, Any] = {}
    for field in FIELDS:
        if field.group not in ("model", "masks", "data"):
            continue
        part = getattr(preset, field.group)
        if field.name == "tokens":
            values["tokens"] = "text" if part.src_text or part.tgt_text else "random"
        elif field.kind == "rules":
            values[field.name] = _shown_rules(getattr(part, field.name))
        elif field.kind == "painted":
            values[field.name] = painted.word(getattr(part, field.name))
        elif field.kind == "text":
            lines = getattr(part, field.name)
            values[field.name] = "\n".join(lines) if lines else EXAMPLES[field.name]
        else:
            values[field.name] = getattr(part, field.name)
    rows, src_len, tgt_len = batch_sizes(preset.model, preset.data)  # of its own ids or sentences where it has some
    sizes = {"batch_size": rows, "src_len": src_len, "tgt_len": tgt_len}
    return values | {name: size for name, size in sizes.items() if size}
