"""The lessons of the core on the page: which there are, what a variant sets, and which variant a model is of.

Knows no gradio. A variant is named ``lesson.variant``, in the link too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from explorer.fields import NO_LESSON
from explorer.recipes import on_page
from explorer.session import Session
from transformer_core import experiments, tasks

if TYPE_CHECKING:
    from transformer_core.config import MaskConfig, ModelConfig, TrainConfig
    from transformer_core.experiments import Lesson, Variant
    from transformer_core.tasks import Task

NONE = NO_LESSON


def pairs() -> list[tuple[Lesson, Variant]]:
    return [(lesson, variant) for lesson in experiments.LESSONS.values() for variant in lesson.variants]


def find(name: str) -> tuple[Lesson, Variant] | None:
    """The lesson and the variant of this name."""
    return next((pair for pair in pairs() if f"{pair[0].name}.{pair[1].name}" == name), None)


def chosen(session: Session) -> tuple[Lesson, Variant] | None:
    """The variant whose model this session trains: while its task is chosen, and not a model from Explore."""
    found = find(session.lesson) if session.lesson != NONE and session.recipe == "task" else None
    return found if found is not None and found[0].task == session.task else None


def task_of(name: str) -> Task | None:
    """The task of a variant that has words of its own; None where it is the task of the register."""
    found = find(name) if name != NONE else None
    return found[1].task if found is not None and found[1].letters is not None else None


def of(task: str, model: ModelConfig, masks: MaskConfig, training: TrainConfig) -> str:
    """The variant of this model and these masks, with this recipe if there is one; "" where there is none.

    A model that the task has itself is of a lesson only with the recipe of one.
    """
    near = ""
    for lesson, variant in pairs():
        if (lesson.task, variant.model.replace(dropout=model.dropout), variant.masks) != (task, model, masks):
            continue
        full = f"{lesson.name}.{variant.name}"
        recipe = variant.training.replace(steps=training.total_steps, epochs=None)
        if variant.model == model and recipe == training.replace(steps=training.total_steps, epochs=None):
            return full
        own = tasks.get(task)
        near = near or ("" if (variant.model, masks) == (own.model, own.masks) else full)
    return near


def settings(name: str, seed: int) -> dict[str, Any]:
    """The choices of the page that load a variant.

    Raises:
        KeyError: there is no such variant.
    """
    found = find(name)
    if found is None:
        raise KeyError(name)
    lesson, variant = found
    recipe = variant.training
    return on_page({
        "task": lesson.task, "recipe": "task", "steps": recipe.total_steps, "batch_size": recipe.batch_size,
        "optimizer": recipe.optimizer, "schedule": recipe.schedule, "lr": recipe.lr, "warmup": recipe.warmup,
        "dropout": variant.model.dropout, "label_smoothing": recipe.label_smoothing, "clip_norm": recipe.clip_norm,
        "seed": seed, "lesson": name,
    })  # fmt: skip


def variants(name: Any) -> list[tuple[str, Variant]]:
    """The full name and the variant, for each variant of a lesson; none where there is no such lesson."""
    return [(f"{lesson.name}.{variant.name}", variant) for lesson, variant in pairs() if lesson.name == name]


def title(variant: Variant) -> dict[str, str]:
    return {"en": variant.title, "zh": variant.title_zh}


def told() -> list[dict[str, Any]]:
    """Every lesson as the page shows it: the question, the variants, the answer, and what was measured."""
    found = []
    for lesson in experiments.LESSONS.values():
        texts = {
            name: {"en": getattr(lesson, name), "zh": getattr(lesson, f"{name}_zh")}
            for name in ("title", "question", "answer")
        }
        shown = [{"name": full, "title": title(variant)} for full, variant in variants(lesson.name)]
        found.append({"name": lesson.name, "task": lesson.task, **texts, "variants": shown})
    return found
