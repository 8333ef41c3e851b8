"""What the panel Runs of one tab holds: a row for each run, and runs that are made one after another. No gradio."""

from __future__ import annotations

import string
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from explorer import words
from explorer.runs import Run
from explorer.words import LANGUAGES

if TYPE_CHECKING:
    from explorer.live import Trained
    from explorer.plans import Plan
    from explorer.runs import Desk
    from transformer_core.model import Transformer
    from transformer_core.records import RunRecord

MAX_ROWS = 24
"""So many runs a tab keeps; the oldest makes room."""
KEPT_BYTES = 32 * 1024**2
"""Weights of all rows together; the oldest rows keep their records and give up their weights first."""
MAX_NAME = 40
LIVE = "live"
"""The id of the run that is still on the chart."""

Label = Mapping[str, str]


@dataclass(eq=False)
class Row:
    """A run of this tab: its record, and its model while there is room for it."""

    id: str
    label: Label
    record: RunRecord
    origin: str  # "page", "series", or "again": the repeat of a record
    model: Transformer | None = None
    name: str = ""


@dataclass(eq=False)
class Wish:
    """A run that is to be made beside the one of the chart."""

    label: Label
    plan: Plan


@dataclass(eq=False)
class Series:
    """Runs made one after another, in slices that the tab's own timer asks for: a closed tab ends them."""

    wishes: Sequence[Wish]
    done: int = 0
    stopped: bool = False
    run: Run | None = None

    @property
    def running(self) -> bool:
        return not self.stopped and self.done < len(self.wishes)

    def stop(self) -> None:
        """No step after the one under way; what the run has reached is kept as a row."""
        self.stopped = True
        run = self.run
        if run is not None:
            run.stop()

    def work(self, shelf: Shelf, seconds: float, every: float) -> Iterator[None]:
        """One slice. Yields now and then; a run that ended is put on the shelf."""
        if not self.running and self.run is None:
            return
        if self.run is None:
            self.run = Run(self.wishes[self.done].plan)
            self.run.play()
            if self.stopped:  # between the two lines above
                self.run.stop()
        yield from self.run.work(seconds, every)
        if self.run.ended:
            self._put_away(shelf)

    def _put_away(self, shelf: Shelf) -> None:
        run, wish, self.run = self.run, self.wishes[self.done], None
        self.done += 1
        if run is None or run.ended == "closed":
            return
        trained = run.finish()
        if run.reports:
            shelf.add(run.record(), wish.label, "series", trained.model if trained is not None else None)

    def close(self) -> None:
        """Nobody will come back: stop, and free the model."""
        self.stopped = True
        if self.run is not None:
            self.run.close()

    def told(self) -> dict[str, Any]:
        """As the page shows it: which run, at which step."""
        run, wish = self.run, self.wishes[min(self.done, len(self.wishes) - 1)]
        return {
            "at": min(self.done + 1, len(self.wishes)), "of": len(self.wishes), "label": dict(wish.label),
            "step": run.step if run is not None else 0, "steps": wish.plan.steps, "running": self.running,
            "seed": wish.plan.seed,
        }  # fmt: skip


@dataclass(eq=False)
class Shelf:
    """The rows of one tab, the newest last, and the one that the others are compared with."""

    rows: list[Row] = field(default_factory=list)
    chosen: str = ""
    series: Series | None = None
    made: int = 0
    _taking: threading.Lock = field(default_factory=threading.Lock)

    def take(self, desk: Desk | None, trained: Trained | None = None) -> None:
        """The runs of the chart that ended since; the model of the last one is the tab's trained model."""
        with self._taking:  # two events of one tab may tell of the same run at once
            self._take(desk, trained)

    def _take(self, desk: Desk | None, trained: Trained | None) -> None:
        for record in list(desk.runs) if desk is not None else ():
            if all(row.record is not record for row in self.rows):
                last = desk is not None and desk.run is not None and record is desk.runs[-1]
                again = desk.run.again if last else None
                row = self.add(record, task_label(record), "page" if again is None else "again")
                self.chosen = row.id if self.chosen in (LIVE, "") else self.chosen
        if trained is not None and trained.record is not None:
            for row in self.rows:
                if row.model is None and same_run(row.record, trained.record):
                    row.model = trained.model
            self._make_room()

    def add(self, record: RunRecord, label: Label, origin: str, model: Transformer | None = None) -> Row:
        """One more row; its id is its seed and a letter, as in 7a."""
        row = Row(f"{record.seed}{letters(self.made)}", label, record, origin, model)
        self.made += 1
        self.rows.append(row)
        self._make_room()
        return row

    def _make_room(self) -> None:
        del self.rows[: max(0, len(self.rows) - MAX_ROWS)]
        held = 0
        for row in reversed(self.rows):
            if row.model is not None:
                held += sum(weight.numel() * weight.element_size() for weight in row.model.parameters())
                if held > KEPT_BYTES:
                    row.model = None

    def row(self, name: Any) -> Row | None:
        return next((row for row in self.rows if row.id == name), None)

    def rename(self, row: Row, name: Any) -> None:
        """A name of one's own, in one line; an empty one brings the first one back."""
        told = "".join(sign if sign.isprintable() else " " for sign in name) if isinstance(name, str) else ""
        row.name = " ".join(told.split())[:MAX_NAME]

    def remove(self, row: Row, desk: Desk | None) -> None:
        self.rows = [each for each in self.rows if each is not row]
        if desk is not None:
            desk.runs = [record for record in desk.runs if record is not row.record]

    def close(self) -> None:
        """The tab is gone."""
        if self.series is not None:
            self.series.close()
        self.rows, self.series = [], None


def same_run(one: RunRecord, other: RunRecord) -> bool:
    """Whether two records are of one run, made at different moments."""
    return (one.seed, one.model, one.masks, one.losses) == (other.seed, other.model, other.masks, other.losses)


def letters(number: int) -> str:
    """a to z, then aa and on.

    >>> letters(0), letters(25), letters(26)
    ('a', 'z', 'aa')
    """
    out = ""
    number += 1
    while number:
        number, place = divmod(number - 1, 26)
        out = string.ascii_lowercase[place] + out
    return out


def task_label(record: RunRecord) -> dict[str, str]:
    """What a run is called until somebody names it: its task."""
    key = f"train.task_{record.task}"
    return {lang: words.text(lang, key) if words.has(key) else record.task for lang in LANGUAGES}


def seed_label(base: str | Label, seed: int) -> dict[str, str]:
    """The name of a run that is one more seed of another."""
    names = {lang: base for lang in LANGUAGES} if isinstance(base, str) else base
    return {lang: words.text(lang, "runs.seed_label", name=names[lang], seed=seed) for lang in LANGUAGES}
