"""The matrix of Break it: every fault against every check, worked off a piece at a time. Knows no gradio.

Nothing is kept between visits: each mark on the page was computed in this process, for the model that is named beside
it. A piece is one fault at one level of checks, so that a run can be stopped between two of them.
"""

from __future__ import annotations

import dataclasses
import logging
import time
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from explorer.fields import BY_NAME, FROM_PRESET
from explorer.limits import Limits
from explorer.refusals import Refusal
from explorer.session import Session, preset_of
from explorer.words import LANGUAGES, has, text
from transformer_core.checks import CHECKS
from transformer_core.checks.table import ALL_LEVELS
from transformer_core.cost import estimate
from transformer_core.faults import FAULTS
from transformer_core.faults.matrix import Cell, Row, run_row
from transformer_core.faults.summary import Summary, smallest_cover
from transformer_core.presets import Preset

log = logging.getLogger(__name__)

RIGHT = ""
"""The row of the right model, where other rows have the name of a fault."""
MARKS = {"caught": "c", "not_seen": "n", "passes_wrongly": "w", "silent": "s"}
NOT_RUN = "."
OF = (*FROM_PRESET, "preset", "seed")
"""The fields of a session that a matrix depends on: with another value of one of them it is out of date."""
MOST_PARAMETERS = 1_000_000  # a piece cannot be interrupted, and level 4 trains; everyone else waits meanwhile
MOST_FLOPS = 100_000_000
LEVEL = {check.name: check.level for check in CHECKS}


@dataclass(frozen=True)
class Setting:
    """What a matrix is of: a model with its masks and tokens, and the seed of its weights."""

    preset: Preset
    seed: int
    query: Mapping[str, str]
    """The choices of OF that differ from the first preset, as an address has them."""

    def told(self) -> dict[str, Any]:
        """Plain data for the page; the names of what was changed on Explore are those of the address."""
        changed = [name for name in self.query if name not in ("preset", "seed")]
        title = {"en": self.preset.title, "zh": self.preset.title_zh}
        half = "" if self.preset.model.architecture == "encoder_decoder" else self.preset.model.architecture
        return {"preset": title, "seed": self.seed, "changed": changed, "query": dict(self.query), "half": half}


def setting(session: Session, limits: Limits) -> Setting:
    """The model of Explore, right and with fresh weights, as what the faults are put into.

    Raises:
        Refusal: it is too large to be broken in every way while others wait.
    """
    session.checked(limits)
    chosen = dataclasses.replace(
        preset_of(session.preset),
        model=session.model_config(),
        masks=session.mask_config(),
        data=session.data_config(),
    )
    batch = chosen.batch(session.seed)
    sentences = len(batch.src if batch.src is not None else batch.tgt)  # type: ignore[arg-type]
    cost = estimate(chosen.model, sentences, *(1 if ids is None else ids.shape[1] for ids in (batch.src, batch.tgt)))
    if cost.parameters > MOST_PARAMETERS or cost.flops > MOST_FLOPS:
        raise Refusal("matrix_too_large", "preset", ({"preset": "first_look"},), parameters=f"{cost.parameters:,}",
                      high=f"{MOST_PARAMETERS:,}")  # fmt: skip
    return Setting(chosen, session.seed, asked_for(session))


def asked_for(session: Session) -> dict[str, str]:
    """The part of the address that a matrix depends on."""
    return {name: value for name, value in session.to_query().items() if name in OF}


# --------------------------------------------------------------------------------------------------------- the matrix


class Matrix:
    """The cells of one setting: those that are there, and the pieces still to do. Holds no model."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.cells: dict[str, dict[str, Cell]] = {}
        self.done: set[tuple[str, int]] = set()
        self.idle: set[str] = set()  # faults whose line this model never reaches
        self.todo: deque[tuple[str, int]] = deque()
        self.asked = 0  # pieces of the run under way, or of the last one
        self.seconds = 0.0  # at work, without the waiting for others
        self.finished = 0.0  # when the last piece was done, as time.time()
        self.stopped = False
        self._summed: tuple[dict[str, str], dict[str, Any]] | None = None

    @property
    def running(self) -> bool:
        return bool(self.todo)

    def ask(self, names: Iterable[str], levels: Collection[int], anew: bool = False) -> None:
        """These rows at these levels, the right model first: a warning counts only where it has none.

        Raises:
            Refusal: a name that is no fault, or no level.
        """
        names, levels = list(dict.fromkeys(names)), sorted(set(levels) & set(ALL_LEVELS))
        if not levels:
            raise Refusal("no_levels")
        for name in names:
            if name not in FAULTS:
                raise Refusal("no_fault", given=name)
        right, rows = [(RIGHT, level) for level in levels], [(name, level) for name in names for level in levels]
        if anew:
            self.done -= set(rows)
        fresh = [piece for piece in right + rows if piece not in self.done] or right + rows
        self.done -= set(fresh)
        if not self.todo:
            self.seconds = 0.0
        self.todo = deque(fresh)
        self.asked, self.stopped = len(fresh), False

    def stop(self) -> None:
        """No piece after the one under way; what is there stays."""
        self.stopped = self.stopped or bool(self.todo)
        self.todo = deque()  # another one: the piece under way takes itself out of its own

    def advance(self) -> str | None:
        """The next piece; gives the name of its row."""
        todo = self.todo
        if not todo:
            return None
        name, level = todo[0]
        started = time.monotonic()
        try:
            fault = FAULTS[name] if name != RIGHT else None
            found = {
                cell.check: cell for cell in run_row(fault, self.setting.preset, self.setting.seed, (level,)).cells
            }
        except Exception:  # one row less, and the page says which; the others are not touched
            log.exception("the row %r failed at level %d", name, level)
            found = {}
        kept = {check: cell for check, cell in self.cells.get(name, {}).items() if LEVEL.get(check) != level}
        self.cells[name] = kept | found
        self.done.add((name, level))
        (self.idle.add if self._without_effect(name) else self.idle.discard)(name)
        self.seconds += time.monotonic() - started
        self.finished = time.time()
        todo.popleft()
        return name

    def _without_effect(self, name: str) -> bool:
        """Whether every check of every level measures what it measures on the right model, so that none can see it."""
        if name == RIGHT or not all((row, level) in self.done for row in (RIGHT, name) for level in LEVEL.values()):
            return False
        cells = [tuple(self.cells[row].get(check.name) for check in CHECKS) for row in (RIGHT, name)]
        if None in (*cells[0], *cells[1]):
            return False
        right, wrong = (tuple(cell for cell in row if cell is not None) for row in cells)
        return bool(Summary((Row(None, right), Row(FAULTS[name], wrong))).without_effect)

    def marks(self, name: str) -> str:
        """One sign a check, in the order of CHECKS: c caught, n not seen, w passes wrongly, s silent, . not run.

        Of a fault without effect all checks are silent: none of them can be right or wrong about it.
        """
        if name in self.idle:
            return MARKS["silent"] * len(CHECKS)
        cells = self.cells.get(name, {})
        signs = []
        for check in CHECKS:
            cell = cells.get(check.name)
            ran = (name, check.level) in self.done
            signs.append(MARKS[cell.verdict] if cell is not None else MARKS["silent"] if ran else NOT_RUN)
        return "".join(signs)

    def right(self) -> dict[str, Any]:
        """How the right model fared: checks that hold, checks that spoke, and the names of those that fail on it."""
        results = [cell.result for cell in self.cells.get(RIGHT, {}).values() if cell.result is not None]
        alarms = [result.name for result in results if not result.passed]
        return {"held": len(results) - len(alarms), "of": len(results), "alarms": alarms}

    def rows(self) -> dict[str, str]:
        """The marks of every fault of which something is there."""
        return {name: self.marks(name) for name in FAULTS if name in self.cells}

    def _summary(self, rows: dict[str, str]) -> dict[str, Any]:
        """Of the same marks once: the search for the smallest set takes a while."""
        if self._summed is None or self._summed[0] != rows:
            self._summed = (rows, summary(rows))
        return self._summed[1]

    def told(self) -> dict[str, Any]:
        """The whole matrix as the page draws it; small enough to be sent with every piece."""
        doing = self.todo[0] if self.todo else None
        rows = self.rows()
        return {
            "state": "running" if self.todo else "stopped" if self.stopped else "done" if self.done else "empty",
            "doing": None if doing is None else {"fault": doing[0], "level": doing[1]},
            "left": len(self.todo), "asked": self.asked,
            "seconds": round(self.seconds, 1), "finished": round(self.finished),
            "of": self.setting.told(), "right": self.right(), "rows": rows,
            "levels": sorted({level for _, level in self.done}), "idle": sorted(self.idle),
            "summary": None if self.todo else self._summary(rows),
        }  # fmt: skip


def summary(rows: Mapping[str, str]) -> dict[str, Any]:
    """What the marks say together: the smallest set of checks that catches all faults, and who is fooled most often.

    Only rows that are complete count: a fault that a check has not looked at yet is not one that it missed.
    """
    looked = [i for i in range(len(CHECKS)) if any(marks[i] != NOT_RUN for marks in rows.values())]
    full = {name: marks for name, marks in rows.items() if all(marks[i] != NOT_RUN for i in looked)}
    full = {name: marks for name, marks in full.items() if set(marks) != {MARKS["silent"]}}  # those without effect
    caught = {CHECKS[i].name: {name for name, marks in full.items() if marks[i] == "c"} for i in looked}
    wrongly = {CHECKS[i].name: sum(marks[i] == "w" for marks in full.values()) for i in looked}
    every = len(looked) == len(CHECKS) and set(rows) == set(FAULTS) and NOT_RUN not in "".join(rows.values())
    fooled = max(wrongly, key=lambda name: wrongly[name], default="")
    return {
        "rows": len(full), "all": every,
        "uncaught": [name for name, marks in full.items() if "c" not in marks],
        "smallest": smallest_cover({name: found for name, found in caught.items() if found}),
        "fooled": fooled if fooled and wrongly[fooled] else "", "times": wrongly.get(fooled, 0),
    }  # fmt: skip


# --------------------------------------------------------------------------------------------------- what never changes


def catalogue() -> dict[str, Any]:
    """The names of all faults and checks in both languages, sent once. Which fault is played is not here."""
    return {
        "faults": [
            {"name": name, "group": fault.group, "section": fault.section, "title": fault_words(name, "title")}
            for name, fault in FAULTS.items()
        ],
        "groups": list(dict.fromkeys(fault.group for fault in FAULTS.values())),
        "checks": [{"name": check.name, "level": check.level, "title": _title(check.name)} for check in CHECKS],
        "levels": [level for level in ALL_LEVELS if level in LEVEL.values()],
        "of": [name for name in OF if name in BY_NAME],
    }


def fault_words(name: str, part: str) -> dict[str, str]:
    """Title or story of a fault in both languages."""
    key = f"faults.{name}.{part}"
    return {lang: text(lang, key) if has(key) else getattr(FAULTS[name], part) for lang in LANGUAGES}


def _title(name: str) -> dict[str, str]:
    key = f"checks.{name}.title"
    return {lang: text(lang, key) if has(key) else name.replace("_", " ") for lang in LANGUAGES}
