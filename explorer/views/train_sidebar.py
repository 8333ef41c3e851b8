"""The controls of Train in the sidebar: the task and its recipe, and what is said when they cannot be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import gradio as gr

from explorer import words
from explorer.limits import Limits
from explorer.refusals import Refusal, in_line
from explorer.session import Session
from transformer_core import tasks

FIELDS = ("task", "recipe", "steps", "train_batch", "lr", "train_seed")
RECIPE = ("steps", "train_batch", "lr")  # what a task decides of them


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
        return [
            gr.update(label=labels[name], **({"choices": choices[name]} if name in choices else {}))
            for name in self.fields
        ]


def task_choices(lang: str) -> list[tuple[str, str]]:
    """Each task with its name on the first line, and below it what it asks and what guessing gives."""
    choices = []
    for name, task in tasks.TASKS.items():
        percent = f"{100 * task.chance_accuracy:.2g}"
        lines = (words.text(lang, f"train.task_{name}") if words.has(f"train.task_{name}") else name,
                 words.text(lang, f"train.about_{name}") if words.has(f"train.about_{name}") else task.needs,
                 words.text(lang, "train.chance_short", percent=percent))  # fmt: skip
        choices.append((f"{lines[0]}\n{lines[1]} · {lines[2]}", name))
    return choices


def recipe_choices(lang: str) -> list[tuple[str, str]]:
    return [(words.text(lang, f"train.recipe_{name}"), name) for name in ("task", "mine")]


def group(word: str) -> None:
    gr.HTML(
        f'<div class="tl-group"><h2 data-tl-word="train.{word}">{words.text("en", f"train.{word}")}</h2></div>',
        elem_classes="tl-train-only",
    )


def build_sidebar(session: Session | None = None, limits: Limits | None = None) -> TrainSidebar:
    """The groups Task and Recipe, for the inside of the page's sidebar."""
    session, limits = session or Session(), limits or Limits.from_environment()
    recipe = recipe_of(session.task)

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
    fields["recipe"] = gr.Radio(
        recipe_choices("en"), value=session.recipe, label=say("model"), **only("recipe", "tl-seg")
    )
    fields["steps"] = gr.Slider(
        1, limits.max_training_steps, recipe["steps"], step=1, label=say("steps"), buttons=[], **only("steps", "tl-row")
    )
    fields["train_batch"] = gr.Slider(
        1,
        limits.max_training_batch,
        recipe["train_batch"],
        step=1,
        label=say("train_batch"),
        buttons=[],
        **only("train_batch", "tl-row"),
    )
    with gr.Row(elem_classes=["tl-two", "tl-train-only"]):
        fields["lr"] = gr.Number(recipe["lr"], label=say("lr"), **only("lr", "tl-number"))
        fields["train_seed"] = gr.Number(
            session.train_seed, precision=0, label=say("train_seed"), **only("train_seed", "tl-number")
        )
    return TrainSidebar(fields)


def recipe_of(task: str) -> dict[str, Any]:
    """The numbers with which this task is known to learn."""
    recipe = tasks.get(task).training
    return {"steps": recipe.total_steps, "train_batch": recipe.batch_size, "lr": recipe.lr}


def recipes_script() -> str:
    """JavaScript: another task brings its own steps, batch and learning rate."""
    table = {name: [recipe_of(name)[field] for field in RECIPE] for name in tasks.TASKS}
    return f"(task) => ({json.dumps(table)})[task]"


def refusal_payload(refusal: Refusal) -> dict[str, Any]:
    """A refusal in both languages, with its ways out as buttons."""
    choices = [
        {"changes": dict(choice), "label": {lang: choice_label(choice, lang) for lang in words.LANGUAGES}}
        for choice in refusal.choices
        if set(choice) <= set(FIELDS)
    ]
    return {
        "field": refusal.field,
        "text": {lang: refusal.text(lang) for lang in words.LANGUAGES},
        "choices": choices[:4],
    }


def choice_label(choice: Mapping[str, Any], lang: str) -> str:
    """A way out, short enough for a button.

    >>> choice_label({"steps": 4000, "lr": 1e-6}, "en")
    'steps 4,000, lr 0.000001'
    """
    labels = {"recipe": "model", "lr": "lr_short"}
    parts = []
    for name, value in choice.items():
        label = words.text(lang, f"train.{labels.get(name, name)}")
        if name == "recipe":
            shown = words.text(lang, f"train.recipe_{value}")
        else:
            shown = f"{value:,}" if isinstance(value, int) else in_line(lang, name, value)
        parts.append(f"{label} {shown}")
    return ", ".join(parts)
