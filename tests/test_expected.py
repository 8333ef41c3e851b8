"""The published curves: of the recipe as it is now, in the order low, mean, high, and near what a run does today."""

import json

import pytest

from benchmarks.expected import band, looks, recipe
from explorer.plans import round_interval
from transformer_core import tasks
from transformer_core.model import build
from transformer_core.tasks.expected import CURVES, FOLDER, expected
from transformer_core.training import train

PUBLISHED = sorted(file.stem for file in FOLDER.glob("*.json"))


def test_every_toy_task_has_its_curves_and_nothing_else_has():
    assert {"first_last", "copy", "reverse", "sort", "addition"} <= set(PUBLISHED) <= set(tasks.TASKS)
    assert expected("nothing") is None


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_curves_are_of_the_recipe_as_it_is_now(name):
    """A recipe that is changed has to be measured anew: python -m benchmarks.expected NAME."""
    curves, task = expected(name), tasks.get(name)
    assert curves.recipe == json.loads(json.dumps(recipe(task)))
    assert list(curves.steps) == looks(task)
    every = round_interval(task.training.total_steps)
    assert curves.steps[0] == every and curves.steps[-1] == task.training.total_steps
    assert len(set(curves.seeds)) == 5


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_band_holds_its_mean_and_stays_within_what_can_be(name):
    curves, task = expected(name), tasks.get(name)
    for curve in CURVES:
        of = getattr(curves, curve)
        rows = list(zip(of.low, of.mean, of.high, strict=True))
        assert len(rows) == len(curves.steps)
        assert all(low <= mean + 1e-4 and mean <= high + 1e-4 for low, mean, high in rows)
        lowest = {"loss": task.floor(task.training.label_smoothing)}.get(curve, 0.0)
        assert min(of.low) >= lowest - 1e-4
        assert max(of.high) <= (1 if curve in ("token", "exact") else 2 * task.chance_loss)
    assert curves.loss.mean[0] > curves.loss.mean[-1] and curves.loss.low[-1] < task.blind_loss()


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name != "translation"])
def test_the_recipe_learns_its_task_with_every_seed(name):
    assert expected(name).exact.low[-1] >= 0.99


def test_a_run_of_today_lies_near_the_band():
    """First = last, of whose first 50 steps the band is narrow; another machine may differ in the last digits."""
    task, curves = tasks.get("first_last"), expected("first_last")
    model = build(task.model, task.masks, seed=11)
    losses = [report.loss for report in train(model, task, task.training.replace(steps=75), seed=11)]
    around = sum(losses[25:75]) / 50
    assert curves.steps[0] == 50 and curves.loss.low[0] - 0.02 <= around <= curves.loss.high[0] + 0.02


def test_a_band_by_hand():
    assert band([[1.0, 0.00004], [4.0, 0.5], [1.0, 1.0]]) == {
        "low": [1.0, 0.0], "mean": [2.0, 0.5], "high": [4.0, 1.0],
    }  # fmt: skip
