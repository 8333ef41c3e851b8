"""The same from a program: ``ledger``, ``check`` and ``check_levels`` over HTTP, under the limits of the page."""

from __future__ import annotations

import logging
from typing import Any

import gradio as gr
import torch

from explorer.changes import FORWARDS, turn
from explorer.fields import BY_NAME, refusal_of
from explorer.limits import Limits
from explorer.refusals import Refusal
from explorer.session import preset_of
from explorer.words import text
from transformer_core.batches import Batch, batch_sizes
from transformer_core.checks import ALL_LEVELS, NUMERICS, STRUCTURE, due
from transformer_core.checks.subject import Subject
from transformer_core.cost import estimate
from transformer_core.errors import show
from transformer_core.ledger import trace
from transformer_core.model import Transformer, build
from transformer_core.presets import apply_settings

log = logging.getLogger(__name__)
MAX_SETTINGS = 64
LONGEST_SETTING = 400
MAX_POSITIONS = 8192  # rows of the position table, which is computed for max_seq_len whatever the length of the batch


def add() -> None:
    """The functions as endpoints of the page that is being built."""
    for function in (ledger, check, check_levels):
        gr.api(function, api_name=function.__name__, concurrency_limit=2)


def ledger(preset: str = "first_look", settings: list[str] | None = None, seed: int = 7) -> list[dict[str, Any]]:
    """Every tensor of one forward: path, name, axes, shape, dtype, bytes, formula, section, source line, statistics.

    A model above the limits of this host is laid out without numbers: its rows have shapes and no statistics.

    Args:
        preset: The name of a preset, such as first_look.
        settings: Changes such as ["d_model=128", "masks.fill=-inf"].
        seed: Seed of the weights and of the tokens.
    """
    try:
        with FORWARDS:
            model, batch = _prepared(preset, settings, seed)
            with torch.no_grad(), trace(model) as rows:
                model(batch.src, batch.tgt)
            return rows.to_rows()
    except Exception as error:
        raise _said(error) from error


def check(preset: str = "first_look", settings: list[str] | None = None, seed: int = 7) -> list[dict[str, Any]]:
    """Every check of one forward: level, name, claim, measured, expected, tolerance, passed, and what it cannot see.

    Args:
        preset: The name of a preset, such as first_look.
        settings: Changes such as ["d_model=128", "masks.fill=-inf"].
        seed: Seed of the weights and of the tokens.
    """
    return check_levels(preset, settings, seed, [STRUCTURE, NUMERICS])


def check_levels(
    preset: str = "first_look", settings: list[str] | None = None, seed: int = 7, levels: list[int] | None = None
) -> list[dict[str, Any]]:
    """The checks of these levels, as ``check`` gives them: 1 structure, 2 numerics, 3 behaviour, 4 learning, 5 torch.

    Args:
        preset: The name of a preset, such as first_look.
        settings: Changes such as ["d_model=128", "masks.fill=-inf"].
        seed: Seed of the weights and of the tokens.
        levels: Whole numbers from 1 to 5; all of them by default.
    """
    names = (
        "level",
        "name",
        "claim",
        "measured",
        "expected",
        "tolerance",
        "passed",
        "warning",
        "entries",
        "cannot_see",
    )
    try:
        wanted = _levels(levels)
        found = []
        with turn():
            model, batch = _prepared(preset, settings, seed)
            subject = Subject(model, batch)
        for each in due(subject, wanted):
            with turn():
                result = each.run(subject)
            found += [{name: getattr(result, name) for name in names}] if result is not None else []
        return found
    except Exception as error:
        raise _said(error) from error


def _levels(levels: Any) -> tuple[int, ...]:
    if levels is None:
        return ALL_LEVELS
    given = levels if isinstance(levels, list) and len(levels) <= 2 * len(ALL_LEVELS) else [levels]
    for level in given:
        if isinstance(level, bool) or not isinstance(level, int) or level not in ALL_LEVELS:
            raise Refusal("not_a_level", levels=", ".join(map(str, ALL_LEVELS)), given=show(level))
    return tuple(given)


def _prepared(preset: Any, settings: Any, seed: Any) -> tuple[Transformer, Batch]:
    """The model and its tokens, after everything that is too large, or not what it should be, has been refused."""
    limits = Limits.from_environment()
    name = BY_NAME["preset"].clean(preset, limits)
    seed = BY_NAME["seed"].clean(seed, limits)
    settings = [] if settings is None else settings
    fine = isinstance(settings, list) and len(settings) <= MAX_SETTINGS
    if not fine or any(not isinstance(each, str) or len(each) > LONGEST_SETTING for each in settings):
        raise Refusal("not_settings", high=MAX_SETTINGS, length=LONGEST_SETTING)
    chosen = apply_settings(preset_of(name), settings)
    for size in ("d_model", "n_heads", "n_encoder_layers", "n_decoder_layers", "d_ff"):
        BY_NAME[size].clean(getattr(chosen.model, size), limits)
    if chosen.model.max_seq_len > MAX_POSITIONS:
        raise Refusal(
            "out_of_range",
            "max_seq_len",
            given=chosen.model.max_seq_len,
            low=1,
            high=MAX_POSITIONS,
            nearest=MAX_POSITIONS,
        )
    rows, *lengths = batch_sizes(chosen.model, chosen.data)
    BY_NAME["batch_size"].clean(rows, limits)
    for length_name, length in zip(("src_len", "tgt_len"), lengths, strict=True):
        BY_NAME[length_name].clean(max(length, 1), limits)
    cost = estimate(chosen.model, rows, *(max(length, 1) for length in lengths))
    device = "cpu" if limits.fit(cost) else "meta"
    batch = chosen.batch(seed)
    src, tgt = (None if ids is None else ids.to(device) for ids in (batch.src, batch.tgt))
    return build(chosen.model, chosen.masks, seed, device).eval(), Batch(src, tgt)


def _said(error: Exception) -> gr.Error:
    """One sentence for the caller; what nobody expected is logged and not told."""
    if isinstance(error, ValueError):
        return gr.Error(refusal_of(error).text("en"), print_exception=False)
    log.exception("an API call failed", exc_info=error)
    return gr.Error(text("en", "errors.unexpected"), print_exception=False)
