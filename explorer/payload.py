"""A run as plain data for the page: the verdict strip, Figure 1, the ledger, the checks. Words are in one language.

Panes that need the numbers of one entry get them from ``explorer.detail``; what is here is small and complete, so that
folding, finding, selecting and choosing a layer need no answer from the server.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any

from explorer import figures, mathml, picture, words
from explorer.detail import detail_payload
from explorer.fields import NO_FAULT
from explorer.live import Live
from explorer.places import most_telling, place
from transformer_core import formulas
from transformer_core.checks import CheckResult
from transformer_core.checks.table import ALL_LEVELS
from transformer_core.ledger import Entry, summary

MAX_COUNTED_BYTES = 32 * 1024**2
"""Up to this size of the ledger the statistics of all rows come with the run, above it those of one row at a time."""


VERDICTS = {"ok": "holds", "warn": "warning", "bad": "fails"}


def strip_payload(live: Live, lang: str) -> dict[str, Any]:
    """The verdict strip: its sentence, one tick a check, and the facts of the run, ready to print."""
    say = words.Words(lang)
    held = sum(result.passed for result in live.results)
    odd = next((r for r in live.results if not r.passed), None) or next((r for r in live.results if r.warning), None)
    worst = "bad" if live.error or held < len(live.results) else "warn" if odd else "ok"
    sentence = say("frame.checks_hold", held=held, total=len(live.results))
    more = ""
    if live.session.fault != NO_FAULT:
        worst, more = "bad", say("frame.fault_on", title=say(f"faults.{live.session.fault}.title"))
    elif live.error:
        more = say("explore.stopped_short", count=len(live.ledger))
    elif odd is not None:
        said = check_words(odd, lang)
        failed = len(live.results) - held
        key = "explore.verdict_fails_more" if failed > 1 else "explore.verdict_fails"
        more = said["say"] if odd.passed else say(key, title=said["title"], more=failed - 1)
    if live.shapes_only:
        more = more or say("explore.shapes_only_short")
    session = live.session
    facts = [say("explore.milliseconds", ms=f"{live.milliseconds:.1f}")] if not live.shapes_only else []
    mode = (
        say("explore.dropout_fact", p=f"{live.model.config.dropout:g}")
        if session.mode == "train"
        else say("explore.eval_fact")
    )
    facts += [mode, session.dtype, live.device, say("explore.seed_fact", seed=session.seed)]
    if live.trained is not None:
        facts.append(say("explore.trained_fact", task=live.trained.task, step=live.trained.step))
    return {
        "verdict": "shapes" if live.shapes_only and worst == "ok" else VERDICTS[worst],
        "sentence": say("explore.verdict_more", sentence=sentence, say=more) if more else sentence,
        "ticks": [{"state": VERDICTS[state(r)], "text": check_words(r, lang)["title"]} for r in live.results],
        "counts": [
            [f"{len(live.ledger):,}", say("explore.tensors_unit")],
            [f"{live.cost.parameters:,}", say("explore.parameters_unit")],
        ],
        "facts": facts,
        "held": held,
        "total": len(live.results),
        "shapes_only": live.shapes_only,
    }


def explore_payload(live: Live, lang: str) -> dict[str, Any]:
    """Everything Explore shows of a run, with the detail of the selected entry already in it."""
    entries = live.entries()
    selected = selection(live, entries)
    groups, blocks = _places(live, entries)
    of_entry = _checks_of_entries(live)
    table: dict[str, dict[str, Any]] = {}
    counted = live.ledger.total_bytes <= MAX_COUNTED_BYTES
    find = lru_cache(maxsize=None)(lambda key: formulas.find(key, live.model.config, live.model.masks))
    place_of = lru_cache(maxsize=None)(str)  # many rows share a formula and a line of code; each is looked up once
    rows = [
        _row(entry, find(re.sub(r"\d+", "0", entry.key)), of_entry.get(entry.key, []), table, counted)
        | {"source": place_of(entry.source)}
        for entry in entries.values()
    ]
    _group_facts(groups, entries, rows)
    return {
        "run": f"{live.id}-{lang}",
        "lang": lang,
        "words": words.section(lang, "explore"),
        "rows": rows,
        "formulas": table,
        "groups": groups,
        "blocks": blocks,
        "checks": [check_words(r, lang) for r in live.results],
        "levels": {level: words.text(lang, f"checks.level_{level}") for level in ALL_LEVELS},
        "figure": picture.figure(live, entries),
        "maps": picture.maps(live, entries, selected["key"]),
        "selected": selected,
        "detail": detail_payload(live, selected["key"], selected["sample"], selected["head"], lang)
        if entries
        else None,
        "error": _stopped(live, lang) if live.error else "",
        "shapes_only": live.shapes_only,
        "cost": _cost(live),
        "facts": {
            "tensors": len(rows),
            "bytes": live.ledger.total_bytes,
            "mode": live.session.mode,
            "dtype": live.session.dtype,
            "device": live.device,
            "seed": live.session.seed,
            "dropout": live.model.config.dropout,
        },
    }


def selection(live: Live, entries: dict[str, Entry]) -> dict[str, Any]:
    """The selected tensor, sentence and head: as in the session while they exist, else the last attention weights."""
    session = live.session
    key = session.selected if session.selected in entries else _first_choice(entries, bool(live.error))
    sizes = live.ledger.sizes
    fresh = not session.selected
    sample = sizes.get("B", 1) - 1 if fresh else min(session.sample, sizes.get("B", 1) - 1)
    return {
        "key": key,
        "sample": max(sample, 0),
        "head": min(session.head, max(sizes.get("H", 1) - 1, 0)),
        "chosen": not fresh,
    }


def _first_choice(entries: dict[str, Entry], stopped: bool) -> str:
    """The last attention weights; of a forward that stopped, the tensor just before the fault."""
    weights = [key for key in entries if key.endswith("/weights")]
    last = next(reversed(entries), "")
    return last if stopped or not weights else weights[-1]


# ----------------------------------------------------------------------------------------------------------- the ledger


def _row(
    entry: Entry, formula: formulas.Formula | None, checks: list[int], table: dict[str, dict[str, Any]], counted: bool
) -> dict[str, Any]:
    """One line of the ledger. Formulas are kept once in ``table`` and named in the rows."""
    if formula is not None and formula.name not in table:
        coloured = "attention" in formula.where
        table[formula.name] = {
            "inline": mathml.inline(formula.latex, coloured),
            "latex": formula.latex,
            "section": formula.section,
            "paper": formula.paper,
            "equation": formula.equation.removeprefix("eq. "),
            "block": list(mathml.block(formula.latex, coloured)),
        }
    value = entry.value
    seen = figures.look(entry.axes, value.dtype, formula.latex if formula else "")
    numbers = summary(value) if counted else dict.fromkeys(("min", "max", "mean", "std", "nan", "inf"))
    return {
        "index": entry.index,
        "key": entry.key,
        "path": entry.path,
        "name": entry.name,
        "axes": " ".join(entry.axes),
        "shape": list(entry.shape),
        "dtype": str(value.dtype).removeprefix("torch."),
        "contiguous": value.is_contiguous(),
        "bytes": entry.bytes,
        "formula": formula.name if formula else "",
        "kind": seen.kind,
        "sample": seen.sample,
        "head": seen.head,
        "attends": seen.attends,
        "checks": checks,
        "statistics": [figures.rounded(numbers[name]) for name in ("min", "max", "mean", "std")]
        + [numbers["nan"], numbers["inf"]],
    }


def _places(live: Live, entries: dict[str, Entry]) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Groups of the ledger in the order of their first row, and blocks of the figure, each with its row numbers."""
    groups: dict[str, dict[str, Any]] = {}
    blocks: dict[str, dict[str, Any]] = {}
    for number, entry in enumerate(entries.values()):
        where = place(entry.path, entry.name, live.model.config.norm_order)
        groups.setdefault(where.group, {"path": where.group, "rows": []})["rows"].append(number)
        block = blocks.setdefault(where.block, {"group": where.group, "rows": [], "names": []})
        block["rows"].append(number)
        block["names"].append(entry.name)
    for block in blocks.values():
        names = block.pop("names")
        block["best"] = block["rows"][names.index(most_telling(names))]
    return list(groups.values()), blocks


def _group_facts(groups: list[dict[str, Any]], entries: dict[str, Entry], rows: list[dict[str, Any]]) -> None:
    """Bytes of each group, and how the numbers of what it hands on are spread."""
    values = list(entries.values())
    for group in groups:
        group["bytes"] = sum(rows[number]["bytes"] for number in group["rows"])
        shown = [n for n in group["rows"] if rows[n]["kind"] == "signed"]
        output = next((n for n in shown if rows[n]["name"] == "output"), shown[-1] if shown else None)
        group["histogram"] = None
        if output is None or values[output].value.is_meta:
            continue
        low, high = rows[output]["statistics"][:2]
        if low is not None and high is not None:
            bins = figures.histogram(values[output].value, low, high)
            group["histogram"] = {"of": rows[output]["name"], "low": low, "high": high, "bins": bins}


# ----------------------------------------------------------------------------------------------------------- the checks


def state(result: CheckResult) -> str:
    """ok, warn or bad"""
    return "bad" if not result.passed else "warn" if result.warning else "ok"


def check_words(result: CheckResult, lang: str) -> dict[str, Any]:
    """A verdict in this language: claim, what was found, the limit, the place on a log ruler, what it cannot see."""
    off = abs(result.measured - result.expected)
    return {
        "name": result.name,
        "level": result.level,
        "state": state(result),
        "title": _say(result, "title", result.name.replace("_", " "), lang),
        "claim": _say(result, "claim", result.claim, lang),
        "say": _say(result, result.sentence, result.finding, lang),
        "blind": _say(result, "cannot_see", result.cannot_see, lang),
        "off": off if math.isfinite(off) else None,
        "limit": result.tolerance if math.isfinite(result.tolerance) else None,
    }


def _say(result: CheckResult, part: str, english: str, lang: str) -> str:
    key = f"checks.{result.name}.{part}"
    if not words.has(key):
        return english
    try:
        return words.text(lang, key, **result.facts)
    except (KeyError, ValueError, IndexError):
        return english


def _checks_of_entries(live: Live) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, result in enumerate(live.results):
        for key in dict.fromkeys(result.entries):
            found.setdefault(key, []).append(number)
    return found


def _stopped(live: Live, lang: str) -> str:
    return words.text(lang, "explore.stopped", count=len(live.ledger), reason=live.error)


def _cost(live: Live) -> dict[str, int]:
    cost = live.cost
    return {
        "parameters": cost.parameters,
        "flops": cost.flops,
        "bytes": cost.activation_bytes,
        "maps": cost.attention_bytes,
    }
