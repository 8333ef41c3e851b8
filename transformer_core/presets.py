"""Presets: one file of settings each, with a title and a lesson that says what to look at. TOML in and out."""

import dataclasses
import json
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from transformer_core.batches import Batch, batch_sizes, make_batch
from transformer_core.checked import Checked, check_text, text
from transformer_core.config import DataConfig, MaskConfig, ModelConfig, TrainConfig
from transformer_core.errors import ConfigError, nearest
from transformer_core.rules import split_rules

FOLDER = Path(__file__).resolve().parent.parent / "presets"
FIRST = ("first_look", "sentences", "hand_computed", "shape_check", "minimal_encoder", "left_padding", "empty_row",
         "low_memory", "paper_base", "paper_big", "deep_post", "deep_pre")  # fmt: skip
"""The order in which presets are offered: from the easiest on. Other files of the folder follow."""
MAX_BYTES = 1 << 20
"""The largest file that is read as a preset."""

SECTIONS: Mapping[str, type[Checked]] = {
    section.section: section for section in (ModelConfig, MaskConfig, TrainConfig, DataConfig)
}
TEXTS = ("name", "title", "title_zh", "lesson", "lesson_zh")


def _part(section: type[Checked]) -> dict[str, Any]:
    """What ``Checked`` needs to know of a field that is itself a section."""

    def check(field: str, value: Any) -> Any:
        if not isinstance(value, section):
            raise ConfigError("not_section", field=field, given=value, wanted=section.__name__)
        return value

    return {"check": check, "kind": "section"}


@dataclasses.dataclass(frozen=True)
class Preset(Checked):
    """A model, its masks, its training and its data, and in two languages what to look at.

    Raises:
        ConfigError: a part of the wrong kind, or data that do not fit the model.
    """

    section: ClassVar[str] = "preset"

    name: str = text("custom")
    title: str = text("")
    title_zh: str = text("")
    lesson: str = text("")
    lesson_zh: str = text("")
    model: ModelConfig = dataclasses.field(default=ModelConfig(), metadata=_part(ModelConfig))
    masks: MaskConfig = dataclasses.field(default=MaskConfig(), metadata=_part(MaskConfig))
    training: TrainConfig = dataclasses.field(default=TrainConfig(), metadata=_part(TrainConfig))
    data: DataConfig = dataclasses.field(default=DataConfig(), metadata=_part(DataConfig))

    def together(self) -> None:
        """The data fit the model."""
        batch_sizes(self.model, self.data)

    def batch(self, seed: int = 0) -> Batch:
        """The tokens to look at; the same seed gives the same ones."""
        return make_batch(self.model, self.data, seed)

    def to_toml(self) -> str:
        """The whole preset as text that ``preset_from_toml`` reads back to an equal one."""
        lines = [f"{key} = {_literal(getattr(self, key))}" for key in TEXTS]
        for name in SECTIONS:
            settings = getattr(self, name).to_dict().items()
            given = [f"{key} = {_literal(value)}" for key, value in settings if value is not None]
            lines += ["", f"[{name}]", *given]
        return "\n".join(lines) + "\n"


def _literal(value: Any) -> str:
    """A value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return f"[{', '.join(map(_literal, value))}]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # the one sign JSON leaves as it is
    return repr(value)


def preset_from_toml(text: str, name: str = "custom") -> Preset:
    """The preset that a TOML text describes; ``name`` is its name unless the text has one.

    The plain style loads as it stands: ``n_layers``, and ``src_vocab_size`` and ``tgt_vocab_size`` in [data].

    >>> preset_from_toml("[model]\\nd_model = 30\\nn_heads = 5\\nn_layers = 3").model.n_decoder_layers
    3

    Raises:
        ConfigError: broken TOML, an unknown section or key with the nearest known one, or a value that cannot be.
    """
    return _from_tables(_parse(text, name), name)


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        reason = "it is nested too deeply"
    except ValueError as error:  # also a number of more digits than Python reads
        reason = str(error).rstrip(".")
    raise ConfigError("toml_broken", field=name, given=name, reason=reason)


def _from_tables(tables: dict[str, Any], name: str) -> Preset:
    for key, value in tables.items():
        if key not in SECTIONS and key not in TEXTS:
            close = nearest(key, [*SECTIONS, *TEXTS])
            raise ConfigError("unknown_setting", field=key, given=key, nearest=close)
        if key in SECTIONS and not isinstance(value, dict):
            raise ConfigError("toml_section", field=key, given=key, section=key)
    settings = {section: dict(tables.get(section, {})) for section in SECTIONS}
    for key in ("src_vocab_size", "tgt_vocab_size", "max_seq_len", "pad_id"):  # of the model, often kept with the data
        if key in settings["data"]:
            if key in settings["model"]:
                raise ConfigError("two_sections", field=key, given=key, section="model", other="data")
            settings["model"][key] = settings["data"].pop(key)
    for section, kind in SECTIONS.items():
        for key in settings[section]:
            owner = [other for other in _owners(key) if other != section]
            if key not in kind.names() and owner:
                raise ConfigError("other_section", field=key, given=key, section=section, nearest=owner[0])
    model = ModelConfig.from_dict(settings["model"])
    for key in ("src_len", "tgt_len"):  # a short model is no reason to refuse a file that gives no lengths
        settings["data"].setdefault(key, min(DataConfig.facts(key)["default"], model.max_seq_len))
    return Preset(
        **{"name": name, **{key: tables[key] for key in TEXTS if key in tables}},
        model=model,
        masks=MaskConfig.from_dict(settings["masks"]),
        training=TrainConfig.from_dict(settings["training"]),
        data=DataConfig.from_dict(settings["data"]),
    )


def _owners(key: str) -> list[str]:
    """The sections that have a setting of this name."""
    return [section for section, kind in SECTIONS.items() if key in kind.names()]


def preset_names() -> list[str]:
    """The presets that come with the library, in the order in which they are offered."""
    found = sorted(file.stem for file in FOLDER.glob("*.toml"))
    return [name for name in FIRST if name in found] + [name for name in found if name not in FIRST]


def load_preset(name_or_path: str | Path) -> Preset:
    """A preset of the library by its name, or any TOML file by its path.

    Raises:
        ConfigError: there is no such preset or file, it cannot be read, or something in it cannot be.
    """
    names = preset_names()
    path = FOLDER / f"{name_or_path}.toml" if str(name_or_path) in names else Path(name_or_path)
    given = str(name_or_path)
    try:
        if not path.exists():
            close = nearest(path.stem, names)
            raise ConfigError("file_missing", field="preset", given=given, keys=names, nearest=close,
                              choices=[{"preset": close}])  # fmt: skip
        if not path.is_file():
            kind = "it is a folder" if path.is_dir() else "it is no ordinary file"
            raise ConfigError("file_unreadable", field="preset", given=given, reason=kind)
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError("file_unreadable", field="preset", given=given, reason=reason) from None
    if len(content) > MAX_BYTES:
        raise ConfigError("file_large", field="preset", given=given, limit=MAX_BYTES)
    try:
        written = content.decode("utf-8-sig")  # some editors put a mark before the first character
    except UnicodeDecodeError:
        raise ConfigError("file_not_text", field="preset", given=given) from None
    return preset_from_toml(written, path.stem)


def apply_settings(preset: Preset, settings: Iterable[str]) -> Preset:
    """A copy of the preset with ``key=value`` settings; they are applied together, so their order does not matter.

    A key may name its section. Lists of mask rules are written with commas, matrices as in TOML, and "none" takes an
    optional setting back.

    >>> apply_settings(Preset(), ["d_model=60", "n_heads=6", "masks.cross=padding,window:3"]).masks.cross
    ('padding', 'window:3')

    Raises:
        ConfigError: an unknown or ambiguous key, a value that cannot be, or one that would have no effect.
    """
    changes: dict[str, dict[str, Any]] = {section: {} for section in SECTIONS}
    for setting in settings:
        key, equals, value = check_text("setting", setting).partition("=")
        if not equals:
            raise ConfigError("setting_form", field="setting", given=setting)
        section, name = _locate(key.strip())
        changes[section][name] = _read(section, name, value.strip())
    parts = {section: getattr(preset, section).replace(**changed) for section, changed in changes.items()}
    for name in changes["data"]:
        _check_effect(name, parts["data"])
    return preset.replace(**parts)


def _locate(key: str) -> tuple[str, str]:
    """Section and name of a setting."""
    section, dot, name = key.rpartition(".")
    owners = _owners(name)
    if dot and section in SECTIONS:
        if section in owners:
            return section, name
        if owners:
            raise ConfigError("other_section", field=name, given=name, section=section, nearest=owners[0],
                              choices=[{f"{owner}.{name}": None} for owner in owners])  # fmt: skip
        known = list(SECTIONS[section].names())
        raise ConfigError("unknown_key", field=name, given=name, section=section, keys=known,
                          nearest=nearest(name, known))  # fmt: skip
    if dot or not owners:
        every = [known for kind in SECTIONS.values() for known in kind.names()]
        raise ConfigError("unknown_setting", field=key, given=key, nearest=nearest(name, every))
    if len(owners) > 1:
        raise ConfigError("setting_section", field=key, given=key, allowed=[f"{owner}.{key}" for owner in owners])
    return owners[0], name


def _read(section: str, name: str, value: str) -> Any:
    """The value as the setting wants it; what cannot be read stays text, which the setting then refuses by name."""
    kind = SECTIONS[section]
    facts = kind.facts(name) if name in kind.keys() else {"kind": "whole", "default": 0}
    if facts["kind"] in ("choice", "text"):
        return value.strip("\"'")
    if value.lower() == "none" and facts["default"] is None:
        return None
    if facts["kind"] == "flag":
        return {"true": True, "false": False}.get(value.lower(), value)
    if facts["kind"] in ("whole", "real"):
        return _number(value)
    if value.startswith("["):
        tables = _parse(f"value = {value}", f"{section}.{name}")
        if len(tables) > 1:
            raise ConfigError("toml_broken", field=name, given=f"{section}.{name}", reason="one value is wanted")
        return tables["value"]
    return [rule for rule in split_rules(value) if rule.strip()] if facts["kind"] == "rules" else value


def _number(value: str) -> int | float | str:
    for convert in (int, float):
        try:
            return convert(value)
        except ValueError:
            continue
    return value


def _check_effect(name: str, data: DataConfig) -> None:
    """A length, or a number of sentences, is of no use beside tokens that are given."""
    sides = {"src_len": ("src",), "tgt_len": ("tgt",), "batch_size": ("src", "tgt")}.get(name, ())
    for key in (key for side in sides for key in (side, f"{side}_text")):
        if getattr(data, key) is not None:
            raise ConfigError("no_effect", field=name, given=name, other=key, choices=[{key: None}])
