"""What the commands share: options, sizes, tables and the sentences above a result."""

import argparse
import math
import platform
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import torch

from transformer_core.batches import Batch, batch_sizes
from transformer_core.checked import check_whole
from transformer_core.checks.table import ALL_LEVELS
from transformer_core.config import ModelConfig
from transformer_core.cost import Cost, estimate
from transformer_core.errors import ConfigError
from transformer_core.model import Transformer, build
from transformer_core.presets import Preset, apply_settings, load_preset
from transformer_core.training import MAX_SEED

WIDTH = 120
"""No line of a table is longer."""
MAX_PARAMETERS, MAX_LEDGER_BYTES = 100_000_000, 256 << 20
"""Above either, a model is laid out on the device "meta": it has shapes but no numbers."""
MAX_WEIGHTS = 2 << 30
"""The largest file of weights that is read: those of ``MAX_PARAMETERS``, with what the optimizer remembers of each."""
FAILED, REFUSED, STOPPED, CLOSED = 1, 2, 130, 141
"""Exit statuses; the last two are those of a program that Ctrl-C or a closed pipe ends."""


class Parser(argparse.ArgumentParser):
    """Refuses with one sentence instead of a page of usage."""

    def error(self, message: str) -> NoReturn:
        self.exit(REFUSED, f"{message[:1].upper()}{message[1:]}. {self.prog} --help shows what there is.\n")


def asks_for_a_model(one: Parser, preset: str | None = "first_look") -> None:
    """The options that say which model is meant, and which weights and tokens."""
    one.add_argument("--preset", default=preset, metavar="NAME_OR_FILE", help="a preset, or a TOML file")
    one.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="settings",
                     help="change one setting, as in d_model=128 or masks.fill=-inf; may be repeated")  # fmt: skip
    one.add_argument("--seed", type=int, default=7, help="of weights and tokens (7)")


def asks_for_levels(one: Parser, default: str) -> None:
    """The option that says how deep to check."""
    levels = "|".join(map(str, ALL_LEVELS))
    one.add_argument("--level", action="append", default=[], metavar=f"{levels}|all", dest="levels",
                     help=f"the levels of checks, as in 1,3; may be repeated ({default})")  # fmt: skip
    one.set_defaults(default_levels=default)


def asked_levels(options: argparse.Namespace) -> tuple[int, ...]:
    """The levels that were asked for, in the order of their cost.

    Raises:
        ValueError: there is no such level.
    """
    asked = {each.strip() for given in options.levels or [options.default_levels] for each in given.split(",")}
    known = {str(level): level for level in ALL_LEVELS}
    for each in sorted(asked - known.keys() - {"all"}):
        raise ValueError(f"there is no level {each!r} of checks; {', '.join(known)} and all are")
    return tuple(level for name, level in known.items() if "all" in asked or name in asked)


def asked_preset(options: argparse.Namespace) -> Preset:
    """The preset that was asked for, with what ``--set`` changes.

    Raises:
        ConfigError: there is no such preset or setting.
    """
    return apply_settings(load_preset(options.preset), options.settings)


def prepare(preset: Preset, seed: int, shapes_only: bool = False) -> tuple[Transformer, Batch, bool]:
    """The preset's model in evaluation mode with its batch, and whether it has shapes only because it is too large."""
    shapes_only = shapes_only or too_large(cost(preset))
    model = build(preset.model, preset.masks, seed=checked_seed(seed), device="meta" if shapes_only else "cpu").eval()
    batch = preset.batch(seed)
    if shapes_only:
        src, tgt = (None if ids is None else ids.to("meta") for ids in (batch.src, batch.tgt))
        batch = Batch(src, tgt)
    return model, batch, shapes_only


def checked_seed(seed: int) -> int:
    check_whole("seed", seed, 0, MAX_SEED)
    return seed


def refuse_unused(options: argparse.Namespace, places: Mapping[str, tuple[bool, str]]) -> None:
    """Passes when every option that was given has a say in what is asked; their default is None.

    ``places`` maps an option's name to whether it has one here, and to where it has.

    Raises:
        ValueError: one has none. To pass over it in silence would answer another question than the one asked.
    """
    for name, (used, where) in places.items():
        if not used and getattr(options, name) not in (None, []):
            raise ValueError(f"--{name.replace('_', '-')} goes with {where}; here it would change nothing")


def read_file(path: Path, field: str, limit: int) -> bytes:
    """What a file holds; of one that never ends, such as /dev/zero, no more than ``limit`` bytes are taken.

    Raises:
        ValueError: it cannot be read, or is larger.
    """
    try:
        with path.open("rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError("file_unreadable", field=field, given=str(path), reason=reason) from None
    if len(data) > limit:
        raise ValueError(f"{path} holds more than the {limit:,} bytes that are read of such a file")
    return data


def finite(value: Any) -> Any:
    """The same data with None where JSON has no number."""
    if isinstance(value, dict):
        return {key: finite(each) for key, each in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def cost(preset: Preset) -> Cost:
    return estimate(preset.model, *batch_sizes(preset.model, preset.data))


def too_large(price: Cost) -> bool:
    return price.parameters > MAX_PARAMETERS or price.activation_bytes > MAX_LEDGER_BYTES


def setting(preset: Preset, seed: int, shapes_only: bool) -> dict[str, Any]:
    """Where the numbers are from: a result without it says nothing."""
    return {
        "preset": preset.name,
        "seed": seed,
        "device": "meta" if shapes_only else "cpu",
        "dtype": "float32",
        "mode": "eval",
        "torch": torch.__version__,
        "python": platform.python_version(),
        "model": preset.model.to_dict(),
        "masks": preset.masks.to_dict(),
    }


def introduction(preset: Preset, seed: int, shapes_only: bool) -> Iterator[str]:
    price = cost(preset)
    yield f"{preset.name}: {describe(preset.model)}, {price.parameters:,} parameters"
    yield f"torch {torch.__version__}, seed {seed}, evaluation mode, float32, device {'meta' if shapes_only else 'cpu'}"
    if shapes_only:
        size = f"{price.parameters:,} parameters and {price.activation_bytes:,} bytes of tensors"
        yield f"Shapes only: {size} are laid out, not computed."
    yield ""


def describe(model: ModelConfig) -> str:
    """The sizes of a model in one breath: "encoder_decoder 2 + 2, d 64, h 4, ff 128"."""
    layers = [str(model.n_encoder_layers)] * model.has_encoder + [str(model.n_decoder_layers)] * model.has_decoder
    return f"{model.architecture} {' + '.join(layers)}, d {model.d_model}, h {model.n_heads}, ff {model.d_ff}"


def number(value: float) -> str:
    """A whole number as such, any other with three digits."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:.3g}"


def mark(sign: str, word: str) -> str:
    """The sign, or the word where the terminal cannot show it."""
    try:
        sign.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return word
    return sign


def table(header: Sequence[str], rows: Sequence[Sequence[str]], right: Sequence[int], flexible: int) -> Iterator[str]:
    """Columns side by side in at most ``WIDTH`` signs; if need be, the ``flexible`` column loses its beginning."""
    widths = [max(len(row[i]) for row in (header, *rows)) for i in range(len(header))]
    widths[flexible] -= max(0, sum(widths) + 2 * (len(widths) - 1) - WIDTH)
    for row in (header, *rows):
        padded = []
        for i, (cell, width) in enumerate(zip(row, widths, strict=True)):
            fitted = cell if len(cell) <= width else "~" + cell[len(cell) - width + 1 :]
            padded.append(fitted.rjust(width) if i in right else fitted.ljust(width))
        yield "  ".join(padded).rstrip()


def print_lines(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)
