"""Which runs are to be made beside the chart: more seeds of a run, or the variants of a lesson. Knows no gradio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from explorer import lessons, plans, taking_up
from explorer.fields import BY_NAME
from explorer.limits import Limits
from explorer.refusals import Refusal
from explorer.run_table import same_but_for_seed
from explorer.runs import Desk
from explorer.session import Session
from explorer.shelf import Row, Series, Shelf, Wish, seed_label

SEEDS = 4


def begin(shelf: Shelf, wishes: list[Wish]) -> None:
    """These runs, one after another.

    Raises:
        Refusal: others are still under way.
    """
    if shelf.series is not None and (shelf.series.running or shelf.series.run is not None):
        raise Refusal("series_busy")
    shelf.series = Series(wishes)


def more_seeds(row: Row, rows: Sequence[Row], desk: Desk | None) -> list[Wish]:
    """The next seeds that no row of the same configuration has yet.

    Raises:
        Refusal: the run cannot be repeated here, or not without the hand that changed its rate.
    """
    if row.record.rate_changes:
        raise Refusal("seeds_by_hand")
    plan = taking_up.plan_of(row.record, Limits.from_environment(), desk.corpus if desk is not None else None)
    taken = {each.record.seed for each in rows if same_but_for_seed(each.record, row.record)}
    high = int(BY_NAME["train_seed"].high) + 1
    free = (seed % high for seed in range(row.record.seed + 1, row.record.seed + high))
    seeds = list(islice((seed for seed in free if seed not in taken), SEEDS))
    name = row.name or row.label
    return [Wish(seed_label(name, seed), replace(plan, seed=seed)) for seed in seeds]


def both_variants(name: Any, session: Session | None) -> list[Wish]:
    """Every variant of a lesson, with the seed of the page.

    Raises:
        Refusal: there is no such lesson, or this host cannot train it.
    """
    base = session if isinstance(session, Session) else Session.of_preset()
    limits = Limits.from_environment()
    wishes: list[Wish] = []
    for full, variant in lessons.variants(name):
        plan = plans.plan(base.cleaned(lessons.settings(full, base.train_seed), limits), limits)
        same = replace(plan, lesson=lessons.NONE)
        if all(replace(wish.plan, lesson=lessons.NONE) != same for wish in wishes):  # some differ in decoding alone
            wishes.append(Wish(lessons.title(variant), plan))
    if not wishes:
        raise Refusal("no_lesson", given=str(name)[:40])
    return wishes
