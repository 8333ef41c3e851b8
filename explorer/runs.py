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
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from explorer import taking_up
from explorer.fields import NO_FAULT
from explorer.live import Trained, shop_of
from explorer.looks import Look, look
from explorer.plans import TRANSLATION, Plan
from explorer.turns import TURNS
from transformer_core import build
from transformer_core.doctor import Diagnosis, diagnose
from transformer_core.model import Transformer
from transformer_core.records import RunRecord, record_of
from transformer_core.training import StepReport, Training

if TYPE_CHECKING:
    from transformer_core.translating import Score

log = logging.getLogger(__name__)

KEPT_RUNS = 12
"""So many ended runs are remembered by a tab."""
SCORED = 200
"""Held-out sentences that are translated when a run ends."""


class Run:
    """One run of one plan. Its lock is held for one step at a time, never across a pause of ``work``.

    ``again`` is a record of the same plan: the run then changes the rate where that one did, and compares its losses
    with those that are written there. With ``until``, it goes there by itself and pauses: a run that was taken up.
    """

    def __init__(self, plan: Plan, again: RunRecord | None = None, until: int = 0) -> None:
        self.plan = plan
        self.id = uuid.uuid4().hex[:12]
        self.reports: list[StepReport] = []
        self.looks: list[Look] = []
        self.scene: dict[str, Any] | None = None
        self.fault: dict[str, Any] | None = None
        self.diagnosis: Diagnosis | None = None
        self.score: Score | None = None
        self.again, self.differs = again, 0  # the first step with another loss than was recorded
        self.ended = ""  # "finished", "stopped", "failed" or "closed"
        self.seconds = 0.0
        self.rate_changes: list[tuple[int, float]] = []
        self._goal = min(until, plan.steps)
        self._playing = False
        self._lr: float | None = None  # asked for, to hold from the next step on
        self._last_lr = plan.training.lr
        self._lock = threading.Lock()
        self._model: Transformer | None = None
        self._training: Training | None = None
        self._kept = 0, ""
        self._pace: deque[tuple[float, int]] = deque(maxlen=24)

    # ---- what the buttons do: flags only, so that each answers at once

    def play(self) -> None:
        """Go on to the last step."""
        self._playing, self._goal = True, self.plan.steps
        TURNS.want(self.id)

    def forward(self, steps: int) -> None:
        """Take so many steps and pause there; while playing, pause after them."""
        start = self.step if self._playing else max(self._goal, self.step)
        self._playing, self._goal = False, min(start + steps, self.plan.steps)
        TURNS.want(self.id)

    def pause(self) -> None:
        """No step after the one under way."""
        self._playing, self._goal = False, 0
        self._pace.clear()
        TURNS.leave(self.id)

    def stop(self, ended: str = "stopped") -> None:
        """No step after the one under way, ever. ``finish`` then hands out the model."""
        self.pause()
        self.ended = self.ended or ended

    def close(self) -> None:
        """Stop, and let go of model and optimiser. The curve stays."""
        self.stop("closed")
        with self._lock:
            self._model = self._training = None

    def change_rate(self, lr: float) -> None:
        """Another rate from the next step on; with a schedule, the rest of its curve moves up or down with it."""
        self._lr = lr

    # ---- what it is

    @property
    def step(self) -> int:
        """Steps taken."""
        return len(self.reports)

    @property
    def lr(self) -> float:
        """The rate that holds for the next step, before the schedule makes something of it."""
        if self._lr is not None:
            return self._lr
        return self._last_lr

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

    def record(self) -> RunRecord:
        """What was run, on what, with which result: enough to repeat it to the last digit."""
        plan, ended = self.plan, self.ended or "paused"
        last = self.looks[-1].result() if self.looks else None
        if last is not None and self.score is not None:
            last |= {"bleu": self.score.bleu, "chrf": self.score.chrf, "signature": self.score.signature}
        return record_of(
            model=plan.model, masks=plan.masks, training=plan.training, seed=plan.seed, reports=tuple(self.reports),
            ended="stopped" if ended == "closed" else ended, seconds=self.seconds, device=plan.device,
            fault="" if plan.fault == NO_FAULT else plan.fault, corpus=plan.corpus, rate_changes=self.rate_changes,
            looks=[look.result() for look in tuple(self.looks)], result=last, parameters=plan.parameters,
        )  # fmt: skip

    def kept(self) -> str:
        """What the browser keeps at each look, so that a run which was lost can be taken up."""
        if self._kept[0] != len(self.looks):
            self._kept = len(self.looks), taking_up.light(self.record()).to_json()
        return self._kept[1]

    # ---- what it does

    def work(self, seconds: float, every: float, alone: float = 0.0) -> Iterator[None]:
        """One slice: steps until the time is over, the goal is reached or someone pauses; yields now and then.

        While no other run wants a turn, the slice goes on for ``alone`` seconds.
        """
        started = last = time.monotonic()
        while self.running:
            self._advance()
            now = time.monotonic()
            if not self._pace or now - self._pace[-1][0] >= 0.25:
                self._pace.append((now, self.step))
            TURNS.want(self.id)
            if now - started >= seconds and (now - started >= alone or not TURNS.alone(self.id)):
                return
            if now - last >= every:
                last = now
                yield
        TURNS.leave(self.id)

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
        plan = self.plan
        copy = build(plan.model, plan.masks, seed=plan.seed, device=plan.device)
        copy.load_state_dict(model.state_dict())
        self._measure(copy)
        return Trained(
            copy.eval(), plan.model, plan.masks, plan.task, self.step, plan.seed, plan.corpus, self.record()
        )

    @property
    def to_be_scored(self) -> bool:
        """A translation that has ended is scored as it is handed out, which takes some seconds."""
        return self.plan.task == TRANSLATION and self.ended in ("finished", "stopped") and self._model is not None

    def _measure(self, model: Transformer) -> None:
        """BLEU and chrF of a translation, over sentences that were held out."""
        if self.plan.task != TRANSLATION or self.ended not in ("finished", "stopped"):
            return
        from transformer_core.translating import score  # read late: the other tasks have no such measure
        from transformer_core.translation import builtin

        corpus = self.plan.corpus or builtin()
        try:
            self.score = score(model, corpus, min(SCORED, len(corpus.held_out)), self.plan.seed)
        except Exception:  # the run and its model are there all the same
            log.exception("the translations could not be scored")

    def _advance(self) -> None:
        """One step, and a look where one is due."""
        with self._lock:
            if not self.running:
                return
            started = time.perf_counter()
            try:
                if self._training is None:
                    self._training = self._begin()
                self._take_step(self._training)
                if self.step % self.plan.every == 0 or self.step == self.plan.steps:
                    self._look()
                if self.step == self.plan.steps:
                    self.ended = self.ended or "finished"
            except ArithmeticError as error:  # NonFinite, of the library or of code with a fault in it
                self._fail("not_finite", error)
            except Exception as error:  # a broken run must end as a sentence, and leave the curve it has
                log.exception("training run failed at step %d", self.step + 1)
                self._fail("broken", error)
            finally:
                self.seconds += time.perf_counter() - started

    def _begin(self) -> Training:
        shop, plan = shop_of(self.plan.fault), self.plan
        changes: Sequence[tuple[int, float]] = () if self.again is None else self.again.rate_changes
        self._model = shop.model.build(plan.model, plan.masks, seed=plan.seed, device=plan.device)
        training = shop.training.train(
            self._model, plan.task_of(shop), plan.training, plan.seed, rate_changes=changes
        )
        self._look()
        return training

    def _take_step(self, training: Training) -> None:
        lr, self._lr = self._lr, None
        if lr is not None and lr != training.lr:
            training.lr = lr
        self.reports.append(next(training))
        self._last_lr = training.lr
        self.rate_changes = [(step, lr) for step, lr in training.rate_changes if step <= self.step]
        before = self.again.losses if self.again is not None else ()
        if self.step <= len(before) and before[self.step - 1] != self.reports[-1].loss and not self.differs:
            self.differs = self.step

    def _fail(self, why: str, error: Exception) -> None:
        self.ended = "failed"
        self.fault = {
            "why": why,
            "step": getattr(error, "step", None) or self.step + 1,
            "tensor": getattr(error, "tensor", ""),
            "text": str(error)[:300],
        }
        if why == "not_finite":
            self._ask_the_doctor(error)

    def _look(self) -> None:
        shop, plan = shop_of(self.plan.fault), self.plan
        seen, self.scene = look(self._model, plan.task_of(shop), plan.seed, self.step, shop)
        self.looks.append(seen)
        if self.step:
            self._ask_the_doctor()

    def _ask_the_doctor(self, error: Exception | None = None) -> None:
        """Whether something is wrong with this run, and what; measured on its model."""
        plan = self.plan
        try:
            self.diagnosis = diagnose(
                self._model, plan.task_of(shop_of(plan.fault)), plan.training, self.reports, error, plan.seed
            )
        except Exception:  # a doctor who fails must not end the run
            log.exception("no diagnosis at step %d", self.step)
            self.diagnosis = None


class Desk:
    """What one tab holds: a run, the sentences to translate, and the records of the runs that ended.

    The tab's state is the desk, whatever run lies on it, so a slice of an old run that ends late cannot put that run
    back in the place of a new one.
    """

    def __init__(self, run: Run | None = None, corpus: Any = None, runs: Sequence[RunRecord] = ()) -> None:
        self.run = run
        self.corpus = corpus
        self.runs: list[RunRecord] = list(runs)
        self._kept: list[str] = []

    def keep(self, run: Run) -> int:
        """Remember a run that ended, once; the oldest is forgotten for it. Gives how many have ended in all."""
        if run.reports and run.id not in self._kept:
            self._kept.append(run.id)
            self.runs = [*self.runs, run.record()][-KEPT_RUNS:]
        return len(self._kept)

    def clear(self) -> None:
        """Nobody will come back to this run: stop it and free its model."""
        if self.run is not None:
            self.run.close()

    def leave(self) -> None:
        """Nobody will come back to this desk."""
        self.clear()
        self.corpus, self.runs = None, []
