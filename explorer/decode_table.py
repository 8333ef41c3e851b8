"""A table of next-token probabilities in the place of a model: small enough to search whole, and to change by hand."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from explorer.fields import clip
from explorer.refusals import Refusal
from transformer_core.decoding import TRAPS
from transformer_core.errors import show

MOST_SYMBOLS, MOST_ROWS = 6, 24
SUM_WITHIN = 5e-4
"""How far a row may be from 1: three places typed by hand are rounded."""
SYMBOL = r"[^\s,.:/]{1,12}"
NUMBER = r"(?:[01](?:\.[0-9]{0,16})?|\.[0-9]{1,16}|[1-9](?:\.[0-9]{0,16})?e-[0-9]{1,2})"


@dataclass(frozen=True)
class Table:
    """``rows[written]`` are the probabilities of each symbol after ``written``; the first symbol ends a sentence.

    What has no row of its own has that of its longest ending: in the trap for greedy search only the last token counts.
    """

    symbols: tuple[str, ...]
    rows: dict[tuple[int, ...], tuple[float, ...]]

    @property
    def begin(self) -> int:
        """An id that is none of the symbols: nothing was written yet."""
        return len(self.symbols)

    def row(self, written: Sequence[int]) -> tuple[float, ...]:
        """
        >>> table = Table(("EOS", "A"), {(): (0.25, 0.75), (1,): (1.0, 0.0)})
        >>> table.row([]), table.row([1, 1])
        ((0.25, 0.75), (1.0, 0.0))
        """
        written = tuple(written)
        endings = (written[start:] for start in range(len(written) + 1))
        found = next((self.rows[ending] for ending in endings if ending in self.rows), self.rows[()])
        total = math.fsum(found)
        return tuple(p / total for p in found)  # exactly 1 after numbers that were rounded

    def next_log_probs(self, prefixes: Sequence[Sequence[int]]) -> Tensor:
        """What ``beam_search`` asks; each prefix begins with the begin id."""
        return torch.tensor([self.row(prefix[1:]) for prefix in prefixes], dtype=torch.float64).log()

    def text(self) -> str:
        """The table as links carry it: symbols, and a row for each thing written: ``EOS,A/:0.25,0.75/A:1,0``."""
        rows = [
            f"{'.'.join(self.symbols[token] for token in written)}:{','.join(f'{p:g}' for p in row)}"
            for written, row in self.rows.items()
        ]
        return "/".join([",".join(self.symbols), *rows])


def of_trap(name: str) -> Table:
    """The table of one of the core's traps."""
    trap = TRAPS[name]
    return Table(trap.symbols[: trap.vocabulary], dict(trap.rows))


def read_table(text: str) -> Table:
    """The table of a link or of the page's editor.

    >>> read_table("EOS,A/:0.25,0.75/A:1,0").rows
    {(): (0.25, 0.75), (1,): (1.0, 0.0)}

    Raises:
        Refusal: it is no table, too large, or a row does not add up to 1; then with the row scaled.
    """
    first, *lines = text.strip().split("/")
    symbols = tuple(first.split(","))
    if not 2 <= len(symbols) <= MOST_SYMBOLS or len(set(symbols)) != len(symbols):
        raise Refusal("dec_table_broken", "dec_table", given=show(clip(first)))
    if not all(re.fullmatch(SYMBOL, symbol) for symbol in symbols) or not 1 <= len(lines) <= MOST_ROWS:
        raise Refusal("dec_table_broken", "dec_table", given=show(clip(first)))
    rows: dict[tuple[int, ...], tuple[float, ...]] = {}
    for line in lines:
        after, _, numbers = line.partition(":")
        written = tuple(after.split(".")) if after else ()
        given = numbers.split(",")
        if len(given) != len(symbols) or not set(written) <= set(symbols[1:]):
            raise Refusal("dec_table_broken", "dec_table", given=show(clip(line)))
        if not all(number and re.fullmatch(NUMBER, number) for number in given):
            raise Refusal("dec_table_number", "dec_table", given=show(clip(numbers)), after=" ".join(written) or "–")
        rows[tuple(symbols.index(symbol) for symbol in written)] = tuple(float(number) for number in given)
    if () not in rows:
        raise Refusal("dec_table_start", "dec_table")
    table = Table(symbols, rows)
    for written, row in rows.items():
        if max(row) > 1 or abs(math.fsum(row) - 1) > SUM_WITHIN:
            raise Refusal("dec_table_sum", "dec_table", _scaled(table, written),
                          after=" ".join(symbols[token] for token in written) or "–",
                          given=f"{math.fsum(row):.6g}")  # fmt: skip
    return table


def _scaled(table: Table, written: tuple[int, ...]) -> tuple[dict[str, str], ...]:
    """The same table with every row divided by its sum, where they have one."""
    if any(math.fsum(row) <= 0 for row in table.rows.values()):
        return ()
    rows = {key: tuple(round(p / math.fsum(row), 6) for p in row) for key, row in table.rows.items()}
    return ({"dec_table": Table(table.symbols, rows).text()},)
