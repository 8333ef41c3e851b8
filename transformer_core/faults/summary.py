"""What the rows of the matrix come to: who catches what, who is fooled, and how few checks would do."""

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

from transformer_core.checks import CHECKS
from transformer_core.faults.matrix import Row


@dataclass(frozen=True)
class Summary:
    """What the rows come to, counted both ways."""

    rows: tuple[Row, ...]

    @cached_property
    def broken(self) -> list[Row]:
        """The rows of the faults."""
        return [row for row in self.rows if row.fault is not None]

    @property
    def checks(self) -> list[str]:
        return [cell.check for cell in self.rows[0].cells] if self.rows else []

    @property
    def false_alarms(self) -> list[str]:
        """The checks that fail on the right model; there should be none."""
        return [name for row in self.rows if row.fault is None for name in row.caught_by]

    @cached_property
    def without_effect(self) -> list[str]:
        """The faults with which every check measures what it measures on the right model: their line is not reached.

        A fault of the decoder is none in an encoder alone. Some levels alone cannot tell: then none is named.
        """
        if not {check.name for check in CHECKS} <= set(self.checks):
            return []
        right = next((_measured(row) for row in self.rows if row.fault is None), None)
        return [str(row.name) for row in self.broken if not row.failure and _measured(row) == right]

    @cached_property
    def uncaught(self) -> list[str]:
        """The faults that have an effect and that no check sees; there should be none.

        What cannot even be built is seen by anyone.
        """
        unseen = [str(row.name) for row in self.broken if not row.caught_by and not row.failure]
        return [name for name in unseen if name not in self.without_effect]

    def by_check(self, verdict: str) -> dict[str, list[str]]:
        """For each check the faults on which it has this verdict."""
        return {
            check: [str(row.name) for row in self.broken if check in row.with_verdict(verdict)] for check in self.checks
        }

    @cached_property
    def idle(self) -> list[str]:
        """The checks that catch no fault."""
        return [check for check, caught in self.by_check("caught").items() if not caught]

    @cached_property
    def smallest_set(self) -> list[str]:
        """As few checks as possible that together catch every fault that any of them catches."""
        return smallest_cover({check: set(caught) for check, caught in self.by_check("caught").items()})

    def to_row(self) -> dict[str, Any]:
        """The summary as plain data that JSON can hold."""
        return {
            "faults": {str(row.name): row.caught_by for row in self.broken},
            "checks": {
                check: {"caught": caught, "passes_wrongly": wrongly}
                for (check, caught), wrongly in zip(
                    self.by_check("caught").items(), self.by_check("passes_wrongly").values(), strict=True
                )
            },
            "false_alarms": self.false_alarms,
            "uncaught": self.uncaught,
            "without_effect": self.without_effect,
            "idle": self.idle,
            "smallest_set": self.smallest_set,
        }


def _measured(row: Row) -> list[str]:
    """What each check measured and whether it failed, in a form in which NaN equals NaN."""
    return [
        f"{cell.verdict == 'caught'} {cell.result and (cell.result.measured, cell.result.facts)}" for cell in row.cells
    ]


def smallest_cover(sets: dict[str, set[str]]) -> list[str]:
    """The names of as few sets as possible whose union is that of all; of several such choices, the first.

    Always taking the set with most new members gives a choice that covers; smaller ones are then tried one by one.

    >>> smallest_cover({"a": {"1", "2", "3"}, "b": {"1", "2", "4"}, "c": {"3", "5"}, "d": {"4"}})
    ['b', 'c']
    """
    # A set within another adds nothing; of two equal ones the first stays.
    names = [
        name
        for i, name in enumerate(sets)
        if not any(sets[name] < other or (sets[name] == other and j < i) for j, other in enumerate(sets.values()))
    ]
    wanted = set().union(*sets.values())
    chosen: list[str] = []
    while missing := wanted.difference(*(sets[name] for name in chosen)):
        chosen.append(max(names, key=lambda name: len(sets[name] & missing)))
    for size in range(len(chosen)):
        for some in combinations(names, size):
            if set().union(*(sets[name] for name in some)) == wanted:
                return list(some)
    return [name for name in names if name in chosen]
