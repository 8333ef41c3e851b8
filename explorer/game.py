"""The mystery game: a fault that nobody names, checks to spend, hints to buy, a score. Knows no model and no gradio.

A ``Game`` never changes; each move gives the next one. A move that the rules do not allow gives the same game back, so
that a second click, or a request of a stranger, does nothing.

>>> game = new(7, ["no_scaling", "mask_inverted", "causal_missing"], rounds=2)
>>> game = game.check("row_sums").hint().guess(game.now.fault)
>>> game.now.end, game.now.points, game.total
('named', 8, 8)
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

ROUNDS = 8
START = 10  # points of a round before anything is spent
FREE = 3  # checks that cost nothing
MOST = 8  # checks of one round
CHECK, HINT, WRONG = 1, 2, 3  # what each costs
HINTS = ("group", "aspect", "method")  # what the first, second and third hint tell
MAX_SEED = 2**31 - 1


@dataclass(frozen=True)
class Round:
    """One broken model: what was spent on it, and how it ended ("", "named" or "given_up")."""

    fault: str
    checks: tuple[str, ...] = ()
    hints: int = 0
    wrong: tuple[str, ...] = ()
    end: str = ""

    @property
    def left(self) -> int:
        """Checks that may still be run."""
        return MOST - len(self.checks)

    @property
    def points(self) -> int:
        """10 - 1 a check beyond the free ones - 2 a hint - 3 a wrong name, never below 0; nothing for giving up."""
        if self.end == "given_up":
            return 0
        spent = CHECK * max(0, len(self.checks) - FREE) + HINT * self.hints + WRONG * len(self.wrong)
        return max(0, START - spent)


@dataclass(frozen=True)
class Game:
    """All rounds in their order; those before ``at`` are over. The same seed and faults give the same game."""

    seed: int
    names: frozenset[str]
    rounds: tuple[Round, ...]
    at: int = 0

    # ---- what it is

    @property
    def now(self) -> Round:
        """The round that is played, or was played last."""
        return self.rounds[self.at]

    @property
    def over(self) -> bool:
        """Every round has ended."""
        return self.at == len(self.rounds) - 1 and bool(self.now.end)

    @property
    def total(self) -> int:
        """The points of the rounds that have ended."""
        return sum(each.points for each in self.rounds if each.end)

    # ---- the moves

    def check(self, name: str) -> Game:
        """Spends one check. The same check is not paid for twice."""
        now = self.now
        if now.end or now.left < 1 or name in now.checks:
            return self
        return self._with(checks=(*now.checks, name))

    def hint(self) -> Game:
        """Buys the next hint."""
        now = self.now
        return self if now.end or now.hints == len(HINTS) else self._with(hints=now.hints + 1)

    def guess(self, name: str) -> Game:
        """Names a fault: the right name ends the round, a wrong one costs points, and nothing more at the next try."""
        now = self.now
        if now.end or name not in self.names or name in now.wrong:
            return self
        return self._with(end="named") if name == now.fault else self._with(wrong=(*now.wrong, name))

    def give_up(self) -> Game:
        """Ends the round without points."""
        return self if self.now.end else self._with(end="given_up")

    def next(self) -> Game:
        """The next round, once this one has ended."""
        return dataclasses.replace(self, at=self.at + 1) if self.now.end and not self.over else self

    def _with(self, **changes: Any) -> Game:
        rounds = list(self.rounds)
        rounds[self.at] = dataclasses.replace(self.now, **changes)
        return dataclasses.replace(self, rounds=tuple(rounds))

    # ---- what may be told

    def told(self) -> dict[str, Any]:
        """The game as the page shows it. The name of a fault is in it only where its round has ended."""
        now = self.now
        return {
            "seed": self.seed, "round": self.at + 1, "rounds": len(self.rounds), "total": self.total,
            "best": START * len(self.rounds), "over": self.over, "points": now.points, "end": now.end,
            "checks": list(now.checks), "left": now.left, "hints": now.hints, "wrong": list(now.wrong),
            "answer": now.fault if now.end else "",
            "ended": [{"fault": each.fault, "end": each.end, "points": each.points}
                      for each in self.rounds if each.end],
        }  # fmt: skip


def new(seed: int, names: Collection[str], rounds: int = ROUNDS) -> Game:
    """A game of so many different faults. The order comes from the seed and the names alone, on every machine.

    Raises:
        ValueError: the seed is not in 1 ≤ seed < 2³¹, or there is no fault to draw.
    """
    if not 1 <= seed <= MAX_SEED:
        raise ValueError(f"the seed of a game must be from 1 to {MAX_SEED}, got {seed}")
    if not names:
        raise ValueError("a game needs at least one fault to draw")
    drawn = sorted(names, key=lambda name: hashlib.sha256(f"{seed} {name}".encode()).digest())
    return Game(seed, frozenset(names), tuple(Round(name) for name in drawn[:rounds]))


def rules() -> dict[str, int]:
    """The numbers of the rules, which the page states."""
    return {
        "rounds": ROUNDS, "start": START, "free": FREE, "most": MOST, "check": CHECK, "hint": HINT, "wrong": WRONG,
    }  # fmt: skip
