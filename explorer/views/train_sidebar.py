"""The controls of Train in the sidebar: the task and its recipe, and what is said when they cannot be."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import gradio as gr

from explorer import words
from explorer.fields import BY_NAME, TRAINING
from explorer.limits import Limits
from explorer.plans import available
from explorer.recipes import by_schedule
from explorer.session import Session, recipe_of
from transformer_core import tasks
from transformer_core.tasks import Task
from transformer_core.tasks.base import PARTS

FIELDS = TRAINING
RECIPE = tuple(recipe_of(tasks.get("copy")))  # what a task decides of them
CHOICES = ("optimizer", "schedule", "train_device")


@dataclass(frozen=True)
class TrainSidebar:
    """The controls of Train, by the names of the session's fields."""

    fields: dict[str, gr.components.Component]

    @property
    def relabel_targets(self) -> list[gr.components.Component]:
        return list(self.fields.values())

    def relabel(self, lang: str) -> list[dict[str, Any]]:
        """The same controls in another language; what is chosen stays."""
        labels = {name: words.text(lang, f"train.{'model' if name == 'recipe' else name}") for name in self.fields}
        choices = {"task": task_choices(lang), "recipe": recipe_choices(lang)}
        choices |= {name: choices_of(name, lang) for name in CHOICES}
        return [
            gr.update(label=labels[name], **({"choices": choices[name]} if name in choices else {}))
            for name in self.fields
        ]


def task_choices(lang: str) -> list[tuple[str, str]]:
    """Each task with its name on the first line; below it what it asks, what guessing gives, and what it needs."""
    choices = []
    for name, task in tasks.TASKS.items():
        chance = words.text(lang, "train.chance_short", percent=f"{100 * task.chance_accuracy:.2g}")
        asks = words.text(lang, f"train.about_{name}") if words.has(f"train.about_{name}") else task.title
        title = words.text(lang, f"train.task_{name}") if words.has(f"train.task_{name}") else name
        choices.append((f"{title}\n{asks} · {chance}\n{needs_of(task, lang)}", name))
    return choices


def needs_of(task: Task, lang: str) -> str:
    """The parts of a model without which none learns it; cross-attention is attention, too."""
    implied = ("cross_position",) if "cross_attention" in task.needs_parts else ()
    parts = [part for part in PARTS if part in task.needs_parts and part not in implied]
    between = "、" if lang == "zh" else ", "
    return words.text(lang, "train.needs_short", parts=between.join(words.text(lang, f"train.needs_part_{part}")
                                                                   for part in parts))  # fmt: skip


def recipe_choices(lang: str) -> list[tuple[str, str]]:
    return [(words.text(lang, f"train.recipe_{name}"), name) for name in ("task", "mine")]


def choices_of(name: str, lang: str) -> list[tuple[str, str]]:
    """The entries of a dropdown; of the devices, those of this host."""
    values = BY_NAME[name].choices
    if name == "train_device":
        return [(value, value) for value in values if available(value)]
    return [(words.text(lang, f"train.{name}_{value}"), value) for value in values]


def group(word: str) -> None:
    gr.HTML(
        f'<div class="tl-group"><h2 data-tl-word="train.{word}">{words.text("en", f"train.{word}")}</h2></div>',
        elem_classes="tl-train-only",
    )


def build_sidebar(session: Session | None = None, limits: Limits | None = None) -> TrainSidebar:
    """The groups Task and Recipe, for the inside of the page's sidebar."""
    session, limits = session or Session(), limits or Limits.from_environment()
    recipe = recipe_of(tasks.get(session.task))

    def say(key: str) -> str:
        return words.text("en", f"train.{key}")

    def only(name: str, *classes: str) -> dict[str, Any]:
        return {"elem_id": f"tl-f-{name}", "elem_classes": ["tl-train-only", *classes]}

    group("task")
    fields: dict[str, gr.components.Component] = {
        "task": gr.Radio(
            task_choices("en"), value=session.task, label=say("task"), show_label=False, **only("task", "tl-tasks")
        ),
    }
    group("recipe_heading")
    # The recipes with a name, one a button: filled in by assets/train-recipes.js, which knows what each of them sets.
    gr.HTML('<div class="tl-tr-recipes" id="tl-tr-recipes"></div>', elem_classes="tl-train-only")
    fields["recipe"] = gr.Radio(
        recipe_choices("en"), value=session.recipe, label=say("model"), **only("recipe", "tl-seg")
    )

    def slider(name: str, high: float, step: float) -> None:
        low = BY_NAME[name].low
        fields[name] = gr.Slider(
            low, high, recipe[name], step=step, label=say(name), buttons=[], **only(name, "tl-row")
        )

    def number(name: str, value: float) -> None:
        fields[name] = gr.Number(value, label=say(name), min_width=0, **only(name, "tl-number"))

    def dropdown(name: str, value: str) -> None:
        fields[name] = gr.Dropdown(
            choices_of(name, "en"), value=value, label=say(name), filterable=False, min_width=0, **only(name)
        )

    slider("steps", limits.max_training_steps, 1)
    slider("train_batch", limits.max_training_batch, 1)
    with gr.Row(elem_classes=["tl-two", "tl-train-only"]):
        dropdown("optimizer", recipe["optimizer"])
        dropdown("schedule", recipe["schedule"])
    with gr.Row(elem_classes=["tl-two", "tl-train-only"]):
        number("lr", recipe["lr"])
        number("warmup", recipe["warmup"])
    with gr.Row(elem_classes=["tl-two", "tl-train-only"]):
        number("train_dropout", recipe["train_dropout"])
        number("smoothing", recipe["smoothing"])
    with gr.Row(elem_classes=["tl-two", "tl-train-only"]):
        number("clip", recipe["clip"])
        number("train_seed", session.train_seed)
    dropdown("train_device", session.train_device)
    fields["lesson"] = gr.Textbox(session.lesson, visible="hidden", label=say("lesson"))  # chosen in the panel Runs
    return TrainSidebar(fields)


def recipes_script() -> str:
    """JavaScript: another task brings the whole of its own recipe."""
    table = {name: list(recipe_of(task).values()) for name, task in tasks.TASKS.items()}
    return f"(task) => ({json.dumps(table)})[task]"


def schedules_script() -> str:
    """JavaScript: another schedule brings the rate and the warm-up that go with it."""
    table = {name: by_schedule(name) for name in tasks.TASKS}
    return f"(schedule, task, lr, warmup) => ({json.dumps(table)})[task]?.[schedule] ?? [lr, warmup]"
