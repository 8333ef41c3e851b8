"""Right against wrong on one small task: two models of one seed, fed the same questions, step by step. Knows no gradio.

The loss is measured with the right answer so far given to the model, as in training. Beside it stands what the model
writes when it has only its own words: a fault may lower the first and ruin the second.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator
from typing import Any

from explorer.facts import plain
from transformer_core.faults import FAULTS
from transformer_core.workshop import OWN, Workshop

log = logging.getLogger(__name__)

TASK = "copy"
SEED = 7
STEPS = 300
EVERY = 30  # steps between two looks at held-out questions
QUESTIONS = 60
RECIPE = {"steps": STEPS, "batch_size": 48, "label_smoothing": 0.0}  # the task's own otherwise


class Side:
    """One of the two: built, trained and judged by its own code, as whoever wrote that code would see it."""

    def __init__(self, shop: Workshop) -> None:
        self.shop = shop
        self.loss: list[float | None] = []
        self.looks: list[list[float | None]] = []  # step, accuracy of the next token, whole answers of its own
        self.failed = ""
        self._model: Any = None
        self._training: Iterator[Any] | None = None

    @property
    def over(self) -> bool:
        return bool(self.failed) or len(self.loss) >= STEPS

    def advance(self) -> None:
        """One step, and a look where one is due; an error ends this side with its first line."""
        try:
            if self._training is None:
                task = self.shop.tasks.get(TASK)
                self._model = self.shop.model.build(task.model, task.masks, seed=SEED)
                recipe = dataclasses.replace(task.training, **RECIPE)
                self._training = iter(self.shop.training.train(self._model, task, recipe, SEED))
                self._look()
            self.loss.append(plain(next(self._training).loss))
            if len(self.loss) % EVERY == 0:
                self._look()
        except Exception as error:  # a fault may break anything; that is what it is here for
            log.info("a side of a duel ended: %s", error)
            self.failed = (str(error).splitlines() or [type(error).__name__])[0][:300]
        if self.over:
            self._model = self._training = None

    def _look(self) -> None:
        seen = self.shop.training.evaluate(self._model, self.shop.tasks.get(TASK), QUESTIONS, SEED)
        self.looks.append([len(self.loss), plain(seen.token_accuracy), plain(seen.exact_match)])

    def told(self) -> dict[str, Any]:
        return {"loss": self.loss, "looks": self.looks, "failed": self.failed}


class Duel:
    """Both sides, in turns. Nothing is done until ``advance`` is called."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.right, self.wrong = Side(OWN), Side(FAULTS[fault].shop)
        self.stopped = False

    @property
    def running(self) -> bool:
        return not self.stopped and not (self.right.over and self.wrong.over)

    def stop(self) -> None:
        """No step after the one under way; the curves stay."""
        self.stopped = self.stopped or self.running

    def advance(self) -> None:
        """One step of the side that is behind."""
        open_sides = [side for side in (self.right, self.wrong) if not side.over]
        if open_sides:
            min(open_sides, key=lambda side: len(side.loss)).advance()

    def told(self) -> dict[str, Any]:
        """Both curves from the start, as the page draws them."""
        return {
            "fault": self.fault, "task": TASK, "seed": SEED, "steps": STEPS, "questions": QUESTIONS,
            "batch": RECIPE["batch_size"],
            "state": "running" if self.running else "stopped" if self.stopped else "done",
            "right": self.right.told(), "wrong": self.wrong.told(),
        }  # fmt: skip
