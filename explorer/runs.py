"""A training run of one browser tab: played, paused, repeated, stopped. Knows no gradio.

A ``Run`` never works by itself: whoever holds it calls ``work`` for a bounded slice, and between slices nothing is
done. A tab that is closed stops asking, so its training stops; many tabs that ask in turn each get their share.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections import deque
from collections.abc import Iterator
from typing import Any

from explorer.live import Trained, shop_of
from explorer.looks import Look, look
from explorer.plans import Plan, plain
from transformer_core import build
from transformer_core.model import Transformer
from transformer_core.training import StepReport

log = logging.getLogger(__name__)


class Run:
    """One run of one plan. Its lock is held for one step at a time, never across a pause of ``work``."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.id = uuid.uuid4().hex[:12]
        self.reports: list[StepReport] = []
        self.looks: list[Look] = []
        self.samples: dict[str, Any] | None = None
        self.scene: dict[str, Any] | None = None
        self.fault: dict[str, Any] | None = None
        self.ended = ""  # "finished", "stopped", "failed" or "closed"
        self._goal = 0
        self._playing = False
        self._lock = threading.Lock()
        self._model: Transformer | None = None
        self._training: Iterator[StepReport] | None = None
        self._pace: deque[tuple[float, int]] = deque(maxlen=24)

    # ---- what the buttons do: flags only, so that each answers at once

    def play(self) -> None:
        """Go on to the last step."""
        self._playing, self._goal = True, self.plan.steps

    def forward(self, steps: int) -> None:
        """Take so many steps and pause there; while playing, pause after them."""
        start = len(self.reports) if self._playing else max(self._goal, len(self.reports))
        self._playing, self._goal = False, min(start + steps, self.plan.steps)

    def pause(self) -> None:
        """No step after the one under way."""
        self._playing, self._goal = False, 0
        self._pace.clear()

    def stop(self, ended: str = "stopped") -> None:
        """No step after the one under way, ever. ``finish`` then hands out the model."""
        self.pause()
        self.ended = self.ended or ended

    def close(self) -> None:
        """Stop, and let go of model and optimiser. The curve stays."""
        self.stop("closed")
        with self._lock:
            self._model = self._training = None

    # ---- what it is

    @property
    def step(self) -> int:
        """Steps taken."""
        return len(self.reports)

    @property
    def running(self) -> bool:
        return not self.ended and self._goal > self.step

    @property
    def behind(self) -> bool:
        """The last look is older than the last step, and no step is to come that would bring the next one."""
        halted = not self.running and self.ended in ("", "stopped") and self._model is not None
        return halted and bool(self.looks) and self.looks[-1].step < self.step

    @property
    def state(self) -> str:
        """Ready, running, paused, or how it ended."""
        if self.ended:
            return self.ended
        return "running" if self.running else "paused" if self.reports else "ready"

    @property
    def speed(self) -> float | None:
        """Steps a second over the last seconds, the waiting for others included; None while that cannot be said."""
        if len(self._pace) < 2:
            return None
        (begun, first), (now, last) = self._pace[0], self._pace[-1]
        return (last - first) / (now - begun) if now > begun and last > first else None

    # ---- what it does

    def work(self, seconds: float, every: float) -> Iterator[None]:
        """One slice: steps until the time is over, the goal is reached or someone pauses; yields now and then."""
        started = last = time.monotonic()
        while self.running:
            self._advance()
            now = time.monotonic()
            if not self._pace or now - self._pace[-1][0] >= 0.25:
                self._pace.append((now, self.step))
            if now - started >= seconds:
                return
            if now - last >= every:
                last = now
                yield

    def catch_up(self) -> None:
        """A look at a run that was halted between two looks: what is said of it is then of the step it stands at."""
        with self._lock:
            self._catch_up()

    def _catch_up(self) -> None:
        if not self.behind:
            return
        try:
            self._look()
        except Exception as error:  # as in a step; the model can still be handed out
            log.exception("a look at step %d failed", self.step)
            self._fail("broken", error)

    def finish(self) -> Trained | None:
        """End the run and hand out its model: a private copy in eval mode, with the weights of the last good step."""
        self.stop()
        with self._lock:
            self._catch_up()
            model, self._model, self._training = self._model, None, None
        if model is None or not self.reports:
            return None
        copy = build(self.plan.model, self.plan.masks, seed=self.plan.seed, device=self.plan.device)
        copy.load_state_dict(model.state_dict())
        return Trained(copy.eval(), self.plan.model, self.plan.masks, self.plan.task, self.step, self.plan.seed)

    def _advance(self) -> None:
        """One step, and a look where one is due."""
        with self._lock:
            if not self.running:
                return
            try:
                if self._training is None:
                    self._begin()
                self.reports.append(next(self._training))
                if self.step % self.plan.every == 0 or self.step == self.plan.steps:
                    self._look()
                if self.step == self.plan.steps:
                    self.ended = self.ended or "finished"
            except ArithmeticError as error:  # NonFinite, of the library or of code with a fault in it
                self._fail("not_finite", error)
            except Exception as error:  # a broken run must end as a sentence, and leave the curve it has
                log.exception("training run failed at step %d", self.step + 1)
                self._fail("broken", error)

    def _begin(self) -> None:
        shop, plan = shop_of(self.plan.fault), self.plan
        self._model = shop.model.build(plan.model, plan.masks, seed=plan.seed, device=plan.device)
        self._training = iter(shop.training.train(self._model, shop.tasks.get(plan.task), plan.training, plan.seed))
        self._look()

    def _fail(self, why: str, error: Exception) -> None:
        self.ended = "failed"
        self.fault = {
            "why": why,
            "step": getattr(error, "step", None) or self.step + 1,
            "tensor": getattr(error, "tensor", ""),
            "text": str(error)[:300],
        }

    def _look(self) -> None:
        shop, plan = shop_of(self.plan.fault), self.plan
        seen, self.samples, self.scene = look(self._model, shop.tasks.get(plan.task), plan.seed, self.step, shop)
        self.looks.append(seen)


class Desk:
    """What one tab holds: at most one run. The tab's state is the desk, whatever run lies on it.

    So a slice of an old run that ends late cannot put that run back in the place of a new one.
    """

    def __init__(self, run: Run | None = None) -> None:
        self.run = run

    def clear(self) -> None:
        """Nobody will come back to this run: stop it and free its model."""
        if self.run is not None:
            self.run.close()


def status(run: Run) -> dict[str, Any]:
    """Where the run stands, without its curve."""
    speed = run.speed if run.running else None
    return {
        "run": run.id,
        "state": run.state,
        "step": run.step,
        "steps": run.plan.steps,
        "fault": run.fault,
        "looked": len(run.looks),
        "speed": speed and plain(speed),
        "left": speed and plain((run.plan.steps - run.step) / speed),
    }


def news(run: Run, step: int = 0, looks: int = 0) -> dict[str, Any]:
    """The curve from ``step`` on and the looks from number ``looks`` on: a delta, or with zeros the whole of it."""
    told = {**status(run), "from": step, "looks_from": looks, "plan": run.plan.facts() if step == looks == 0 else None}
    reports, seen = run.reports[step:], run.looks[looks:]
    for name in ("loss", "accuracy", "rate", "grad_norm"):
        told[name] = [plain(getattr(report, name)) for report in reports]
    told["skipped"] = any(report.note for report in reports)
    told["looks"] = [each.told() for each in seen]
    if seen:
        told |= {"samples": run.samples, "scene": run.scene}
    return told
