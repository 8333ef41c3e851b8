"""The recipes with a name: what each sets of a training run, by the names of the page's fields. Knows no gradio."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from explorer.session import Session, recipe_of
from transformer_core import tasks
from transformer_core.config import TrainConfig
from transformer_core.training import RECIPES

NAMES: Mapping[str, str] = MappingProxyType({
    "batch_size": "train_batch", "label_smoothing": "smoothing", "clip_norm": "clip", "dropout": "train_dropout",
    "seed": "train_seed", "device": "train_device",
})  # fmt: skip
"""What a setting of the core is called on the page, where the names differ."""
OWN = "own"


def on_page(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the core by the names of the page's fields; no clipping is a limit of 0.

    >>> on_page({"lr": 0.001, "clip_norm": None})
    {'lr': 0.001, 'clip': 0.0}
    """
    named = {NAMES.get(name, name): value for name, value in settings.items()}
    return named | ({"clip": named["clip"] or 0.0} if "clip" in named else {})


def recipes(task: str) -> dict[str, dict[str, Any]]:
    """Every recipe with a name, the task's own first. Steps and batch are the task's in each of them."""
    own = recipe_of(tasks.get(task))
    named = {name: on_page(changes) for name, changes in RECIPES.items()}
    return {OWN: own} | {name: own | {key: changes[key] for key in changes if key in own}
                         for name, changes in named.items()}  # fmt: skip


def name_of(session: Session) -> str:
    """The recipe that this session has, whatever its steps and batch are; "" where it is a mixture."""
    for name, settings in recipes(session.task).items():
        compared = [key for key in settings if key not in ("steps", "train_batch")]
        if all(getattr(session, key) == settings[key] for key in compared):
            return name
    return ""


def by_schedule(task: str) -> dict[str, list[Any]]:
    """The rate and warm-up that go with each schedule: a factor of equation 3 is no rate, nor the other way round."""
    table = {settings["schedule"]: [settings["lr"], settings["warmup"]] for settings in recipes(task).values()}
    own = recipe_of(tasks.get(task))
    return table | {own["schedule"]: [own["lr"], own["warmup"]]}


def weight_decay(task: str, optimizer: str) -> float:
    """What decays with this optimizer: as the task's recipe has it, else nothing with Adam and torch's 0.01 with AdamW.

    >>> weight_decay("copy", "adamw"), weight_decay("copy", "adam")
    (0.01, 0.0)
    """
    own: TrainConfig = tasks.get(task).training
    return own.weight_decay if own.optimizer == optimizer else {"adam": 0.0, "adamw": 0.01}[optimizer]
