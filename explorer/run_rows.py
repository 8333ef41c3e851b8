"""The panel Runs as JSON: its rows, what the seeds of the chosen one share, what is under way. Knows no gradio."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from explorer import run_table, taking_up
from explorer.facts import plain
from explorer.refusals import Refusal
from explorer.shelf import LIVE, Row, Shelf, task_label
from transformer_core import records
from transformer_core.tasks.expected import expected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from explorer.runs import Desk
    from transformer_core.records import RunRecord
    from transformer_core.translation import Corpus

FILES = {
    "record": ("json", "application/json"), "curve": ("csv", "text/csv;charset=utf-8"),
    "script": ("py", "text/x-python;charset=utf-8"), "notebook": ("ipynb", "application/x-ipynb+json"),
    "weights": ("safetensors", "application/octet-stream"),
}  # fmt: skip
"""What a run can be taken home as: the ending of the file, and its type."""


def rows_of(shelf: Shelf, desk: Desk | None) -> list[Row]:
    """The run on the chart, while it goes on, and below it those that ended, the newest first."""
    run = desk.run if desk is not None else None
    rows = list(reversed(shelf.rows))
    if run is not None and run.reports and not run.ended:
        record = run.record()
        rows.insert(0, Row(LIVE, task_label(record), record, "page" if run.again is None else "again"))
    return rows


def chosen_of(shelf: Shelf, rows: Sequence[Row]) -> Row | None:
    """The row that the others are compared with: the chosen one while it is there, else the newest."""
    return next((row for row in rows if row.id == shelf.chosen), rows[0] if rows else None)


def told(shelf: Shelf, desk: Desk | None) -> dict[str, Any]:
    """Everything that the panel draws."""
    rows = rows_of(shelf, desk)
    chosen = chosen_of(shelf, rows)
    width = run_table.width_of_bins(max((row.record.steps for row in rows), default=1))
    run = desk.run if desk is not None else None
    return {
        "rows": [told_of(row, chosen, width) for row in rows],
        "chosen": chosen.id if chosen is not None else "",
        "width": width,
        "spread": spread_of(rows, chosen, width),
        "series": shelf.series.told() if shelf.series is not None else None,
        "again": taking_up.compared(run.again, run.reports, run.differs) if run is not None and run.again else None,
    }


def told_of(row: Row, chosen: Row | None, width: int) -> dict[str, Any]:
    """One row of the table."""
    record = row.record
    return {
        "id": row.id, "label": dict(row.label), "name": row.name, "origin": row.origin, "live": row.id == LIVE,
        "task": record.task, "seed": record.seed, "ended": record.ended,
        "differs": run_table.differences(record, chosen.record) if chosen is not None else [],
        "curve": run_table.thin(record.losses, width), **run_table.measures(record),
        "looks": [[look.step, plain(look.exact)] for look in run_table.seen(record)],
        "shows": run_table.shows(record), "band": band(record), "model": row.model is not None,
    }  # fmt: skip


def spread_of(rows: Sequence[Row], chosen: Row | None, width: int) -> dict[str, Any] | None:
    """What the seeds of the chosen run's configuration share; None for fewer than two of them."""
    if chosen is None:
        return None
    all_records = [row.record for row in rows]
    places = sorted(run_table.seeds_of(all_records, chosen.record), key=lambda place: all_records[place].seed)
    if len(places) < 2:
        return None
    return run_table.spread([all_records[place] for place in places], width) | {"ids": [rows[i].id for i in places]}


def band(record: RunRecord) -> str:
    """Where the held-out loss lies beside the published band: "inside", "above", "below"; "" where there is none.

    The band is of the task's own recipe, so a run with any other setting has none.
    """
    task, published = run_table.task_of(record), expected(record.task) if record.corpus is None else None
    looks = [look for look in run_table.seen(record) if look.loss is not None]
    if task is None or published is None or record.fault or not looks or record.rate_changes:
        return ""
    recipe = task.training.replace(task=record.task, epochs=None, steps=record.training.total_steps)
    own = (task.model, task.masks, recipe) == (record.model, record.masks, record.training.replace(epochs=None))
    last = looks[-1]
    if not own or task.training.total_steps != record.training.total_steps or last.step not in published.steps:
        return ""
    place, loss = published.steps.index(last.step), last.loss
    if loss < published.held_out_loss.low[place]:
        return "below"
    return "above" if loss > published.held_out_loss.high[place] else "inside"


# ---------------------------------------------------------------------------------------------------------------- files


def file_of(row: Row, kind: str, corpus: Corpus | None = None) -> dict[str, Any]:
    """One run as a file: its name, its type, and its text, or its bytes in base 64.

    Raises:
        Refusal: there is no such kind, the weights are no longer here, or the run cannot be written so.
    """
    if kind not in FILES:
        raise Refusal("no_file_kind", allowed=list(FILES), given=str(kind)[:40])
    record = row.record
    ending, mime = FILES[kind]
    name = f"run-{record.task}-{'seed' + str(record.seed) if row.id == LIVE else row.id}.{ending}"
    told: dict[str, Any] = {"name": name, "type": mime}
    if kind == "weights":
        if row.model is None:
            raise Refusal("no_weights")
        return told | {"base64": base64.b64encode(records.save_weights(row.model, record)).decode()}
    if kind == "record":
        return told | {"text": record.to_json()}
    if kind == "curve":
        return told | {"text": records.to_csv(record)}
    try:
        of_record = taking_up.corpus_of(record, corpus)
        write = records.standalone if kind == "script" else records.notebook
        return told | {"text": write(record) if of_record is None else write(record, of_record)}
    except ValueError as error:
        raise error if isinstance(error, Refusal) else Refusal("no_script", message=str(error)) from error
