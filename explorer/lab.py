"""What one browser tab holds of Break it: a matrix, a duel, a game, and the work still to do. Knows no gradio.

Nothing works by itself: whoever holds the lab calls ``work`` for a bounded slice, as with a training run. Checks that
a player asked for go first; then the matrix and the duel take turns.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Collection, Iterator
from typing import Any

from explorer import fault_view, game, mystery
from explorer.changes import FORWARDS, PATIENCE
from explorer.duel import Duel
from explorer.faulting import LEVEL, Matrix, Setting
from explorer.game import Game
from explorer.mystery import Mystery
from explorer.refusals import Refusal
from transformer_core.faults import FAULTS

LEDGER = ""
"""Stands among the checks a player asked for, for the first forward of the broken model."""
TURN = 0.15  # seconds of steps of a duel before the matrix has its turn
PARTS = ("board", "detail", "duel", "game")


class Lab:
    """The tab's state is the lab, whatever matrix, duel or game lies in it."""

    def __init__(self) -> None:
        self.picked = ""
        self.matrix: Matrix | None = None
        self.duel: Duel | None = None
        self.game: Game | None = None
        self.mystery: Mystery | None = None
        self._setting: Setting | None = None
        self._shown: dict[str, dict[str, Any]] = {}
        self._checking: deque[str] = deque()
        self._guard = threading.Lock()  # held while the plan of work is read or changed, never during work
        self._working = threading.Lock()

    # ---- what the buttons do: flags and plans only, so that each answers at once

    def run(self, setting: Setting, names: Collection[str], levels: Collection[int], anew: bool = False) -> None:
        """Rows of the matrix; one of another setting begins with an empty table.

        Raises:
            Refusal: a name or a level that there is none of.
        """
        matrix = self.matrix
        if matrix is None or matrix.setting != setting:
            matrix = Matrix(setting)
        matrix.ask(names, levels, anew)
        with self._guard:
            if self.matrix is not None and self.matrix is not matrix:
                self.matrix.stop()
            self.matrix = matrix

    def race(self, fault: str) -> None:
        """Right against this fault, from the first step on."""
        if fault not in FAULTS:
            raise Refusal("no_fault", given=fault)
        self.duel = Duel(fault)

    def stop(self) -> None:
        """The matrix stops after the piece under way."""
        if self.matrix is not None:
            self.matrix.stop()

    def stop_race(self) -> None:
        if self.duel is not None:
            self.duel.stop()

    def clear(self) -> None:
        """Nobody will come back: no more work, and what was found is freed."""
        with self._guard:
            for part in (self.matrix, self.duel):
                if part is not None:
                    part.stop()
            self._checking.clear()
            self.matrix = self.duel = self.game = self.mystery = None
            self._shown.clear()

    # ---- the game

    def play(self, seed: int) -> None:
        """A new game; the one before it is forgotten.

        Raises:
            Refusal: the seed is none.
        """
        try:
            self._turn_to(game.new(seed, FAULTS))
        except ValueError as error:
            raise Refusal("no_game") from error

    def leave(self) -> None:
        """No game."""
        with self._guard:
            self.game = self.mystery = None
            self._checking.clear()

    def move(self, name: str, value: str = "") -> None:
        """One move of the game: check, hint, guess, give_up or next. What the rules do not allow changes nothing."""
        if self.game is None:
            return
        before = self.game
        if name == "check":
            if value not in LEVEL:
                return
            after = before.check(value)
            if after is not before:
                with self._guard:
                    self.game = after
                    self._checking.append(value)
            return
        after = before.guess(value) if name == "guess" else getattr(before, name)()
        self._turn_to(after)

    def _turn_to(self, after: Game) -> None:
        with self._guard:
            another = self.game is None or self.game.now.fault != after.now.fault
            self.game = after
            if another or self.mystery is None:
                self.mystery = Mystery(after.now.fault)
                self._checking = deque([LEDGER])

    # ---- what it does

    @property
    def busy(self) -> bool:
        """Whether there is work for a slice."""
        matrix, duel = self.matrix, self.duel
        return bool(self._checking) or bool(matrix and matrix.running) or bool(duel and duel.running)

    def work(self, seconds: float, every: float) -> Iterator[set[str]]:
        """One slice. Yields the names of the parts that have news, now and then and at the end."""
        if not self._working.acquire(blocking=False):
            return  # another slice of this tab is under way
        try:
            started = last = time.monotonic()
            news: set[str] = set()
            while self.busy:
                news |= self._piece()
                now = time.monotonic()
                if now - started >= seconds:
                    break
                if news and now - last >= every:
                    last = now
                    yield news
                    news = set()
            if news:
                yield news
        finally:
            self._working.release()

    def _piece(self) -> set[str]:
        """A bounded piece of each kind of work that waits."""
        news: set[str] = set()
        with self._guard:
            checking, broken, matrix, duel = self._checking, self.mystery, self.matrix, self.duel
            asked = checking[0] if checking else None
        if asked is not None and broken is not None:
            with FORWARDS:
                broken.check(asked) if asked != LEDGER else broken.record()
            with self._guard:
                if self._checking and self._checking[0] == asked:
                    self._checking.popleft()
            return {"game"}
        if matrix is not None and matrix.running:
            with FORWARDS:
                name = matrix.advance()
            news |= {"board", "detail"} if name is not None and name == self.picked else {"board"}
        if duel is not None and duel.running:
            until = time.monotonic() + TURN
            while duel.running and time.monotonic() < until:
                duel.advance()
            news.add("duel")
        return news

    # ---- what it tells

    def told(self, part: str) -> dict[str, Any] | None:
        """One of PARTS as plain data; None where there is nothing of it."""
        if part == "board":
            return None if self.matrix is None else self.matrix.told()
        if part == "duel":
            return None if self.duel is None else self.duel.told()
        if part == "game":
            return self._game()
        return self._detail()

    def look(self, fault: str, setting: Setting | None) -> None:
        """Another fault is looked at: its code and the tensors it changes, which takes two forwards.

        Without a setting, where the model on Explore is too large to be run twice here, only its code.

        Raises:
            Refusal: there is no such fault, or everyone is at work.
        """
        if fault not in FAULTS:
            raise Refusal("no_fault", given=fault)
        self.picked = fault
        if self._setting != setting:
            self._setting, self._shown = setting, {}
        if fault not in self._shown:
            if not FORWARDS.acquire(timeout=PATIENCE):
                raise Refusal("busy")
            try:
                self._shown[fault] = fault_view.shown(fault, setting)
            finally:
                FORWARDS.release()

    def _detail(self) -> dict[str, Any] | None:
        shown, matrix = self._shown.get(self.picked), self.matrix
        if shown is None:
            return None
        if matrix is None or matrix.setting != self._setting:
            return {**shown, "verdicts": [], "idle": False}
        idle = self.picked in matrix.idle
        return {**shown, "verdicts": fault_view.verdicts(matrix.cells.get(self.picked, {}), idle), "idle": idle}

    def _game(self) -> dict[str, Any] | None:
        with self._guard:
            played, broken = self.game, self.mystery
        if played is None or broken is None:
            return None
        told = played.told() | {
            "hinted": mystery.hints(played.now), "findings": broken.findings(played.now.checks),
            "ledger": broken.ledger,
        }  # fmt: skip
        if told["answer"]:
            told["explained"] = fault_view.explained(told["answer"])
        return told
