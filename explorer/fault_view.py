"""One fault as the page shows it: the line right and wrong, the tensors it changes, and what each check says of it.

Knows no gradio. Code comes from the file itself and from the text the broken modules were read from, so that the lines
on the page are those that ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from explorer import code_view
from explorer.code_view import ROOT, Piece
from explorer.facts import plain
from explorer.faulting import MARKS, Setting, fault_words
from explorer.payload import check_words
from explorer.words import LANGUAGES
from transformer_core.checks import CHECKS
from transformer_core.faults import FAULTS
from transformer_core.faults.changed import changed_tensors
from transformer_core.faults.matrix import Cell

AROUND = 2  # lines shown before and after those that differ
Line = tuple[int, list[tuple[str, str, bool]], bool]
"""Number, pieces of (text, syntax class, whether this stretch is the difference), whether the line differs."""


def shown(name: str, setting: Setting | None) -> dict[str, Any]:
    """All of a fault that does not depend on the checks: two forwards are run, right and wrong.

    Without a setting, where the model on Explore is too large for that, no tensors are told.
    """
    return {**explained(name), "tensors": tensors(name, setting) if setting is not None else None}


def explained(name: str) -> dict[str, Any]:
    """A fault in words and code; nothing is run."""
    fault = FAULTS[name]
    return {
        "name": name, "group": fault.group, "section": fault.section, "place": fault.place,
        "title": fault_words(name, "title"), "story": fault_words(name, "story"), "code": code(name),
    }  # fmt: skip


def code(name: str) -> dict[str, Any]:
    """The lines around the difference, twice, with true numbers."""
    ((path, wrong),) = FAULTS[name].shop.texts.items()
    right = Path(path).read_text(encoding="utf-8")
    before, after = right.splitlines(), wrong.splitlines()
    differ = [i for i, (one, other) in enumerate(zip(before, after, strict=True), start=1) if one != other]
    first, last = code_view.around(right, differ[0], differ[-1], AROUND)
    while not before[first - 1].strip():
        first += 1
    while not before[last - 1].strip():
        last -= 1
    return {
        "file": f"{ROOT.name}/{Path(path).relative_to(ROOT).as_posix()}",
        "right": _lines(right, after, first, last),
        "wrong": _lines(wrong, before, first, last),
    }


def _lines(text: str, other: list[str], first: int, last: int) -> list[Line]:
    """These lines of one text, each compared with the same line of the other."""
    own, lines = text.splitlines(), []
    for number, pieces in code_view.stretch(text, first, last):
        mine, theirs = own[number - 1], other[number - 1]
        if mine == theirs:
            lines.append((number, [(part, kind, False) for part, kind in pieces], False))
            continue
        start, end = difference(mine, theirs)
        cut = len(mine) - sum(len(part) for part, _ in pieces)
        lines.append((number, _marked(pieces, start - cut, end - cut), True))
    return lines


def difference(mine: str, theirs: str) -> tuple[int, int]:
    """The stretch of ``mine`` that is not in ``theirs``, widened to whole words and operators.

    >>> mine = "weights = scores.softmax(dim=-1)"
    >>> start, end = difference(mine, "weights = scores.softmax(dim=-2)")
    >>> mine[start:end]
    '1'
    """
    short = min(len(mine), len(theirs))
    start = next((i for i in range(short) if mine[i] != theirs[i]), short)
    tail = next((i for i in range(short - start) if mine[-1 - i] != theirs[-1 - i]), short - start)
    end = len(mine) - tail
    edge = mine[start] if start < end else mine[start - 1 : start]
    while start > 0 and _kind(mine[start - 1]) == _kind(edge) != "":
        start -= 1
    while end < len(mine) and _kind(mine[end]) == _kind(mine[end - 1]) != "":
        end += 1
    return start, end


def _kind(sign: str) -> str:
    """Whether a sign is part of a word or of an operator; nothing for all others."""
    return "word" if sign.isalnum() or sign == "_" else "operator" if sign and sign in "<>=!+-*/@" else ""


def _marked(pieces: tuple[Piece, ...], start: int, end: int) -> list[tuple[str, str, bool]]:
    """The pieces cut where the difference begins and ends."""
    found, at = [], 0
    for part, kind in pieces:
        stops = sorted({at, at + len(part), *(stop for stop in (start, end) if at < stop < at + len(part))})
        for one, other in pairwise(stops):
            found.append((part[one - at : other - at], kind, start <= one < end))
        at += len(part)
    return found


def tensors(name: str, setting: Setting) -> dict[str, Any]:
    """The ledger rows that differ, in their order: key, both shapes (empty: missing), the largest difference.

    The difference is None where it is no number: the shapes differ, or one side holds NaN.
    """
    rows = [
        [row.key, list(row.shape_right), list(row.shape_wrong), plain(row.max_abs)]
        for row in changed_tensors(FAULTS[name], setting.preset, setting.seed)
    ]
    return {"rows": rows, "reshaped": sum(right != wrong for _, right, wrong, _ in rows)}


def verdicts(cells: Mapping[str, Cell], without_effect: bool = False) -> list[dict[str, Any]]:
    """What each check says of the broken model, in both languages, in the order of CHECKS.

    Of a fault without effect on this model none can be right or wrong.
    """
    told = []
    for check in CHECKS:
        cell = cells.get(check.name)
        if cell is None:
            continue
        words: dict[str, Any] = {"claim": {"en": check.claim, "zh": check.claim}, "say": None, "blind": None}
        if cell.result is not None:
            each = {lang: check_words(cell.result, lang) for lang in LANGUAGES}
            words = {part: {lang: each[lang][part] for lang in LANGUAGES} for part in ("claim", "say", "blind")}
            words["state"] = each["en"]["state"]
        elif cell.error:
            words |= {"say": {lang: cell.error for lang in LANGUAGES}, "state": "bad"}
        mark = MARKS["silent" if without_effect else cell.verdict]
        told.append({"check": check.name, "level": check.level, "mark": mark, **words})
    return told
