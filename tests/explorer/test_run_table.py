"""The table of runs says what its records say: differences, numbers, curves, seeds. Records here are made by hand."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

import explorer
from explorer import run_table
from explorer.run_table import configuration, differences, measures, same_but_for_seed, seeds_of, shows, spread, thin
from explorer.words import has
from transformer_core import tasks
from transformer_core.faults import FAULTS
from transformer_core.records import RunRecord

COPY = tasks.get("copy")
LOOKS = ((0, 0.07, 0.0), (3, 0.61, 0.2), (6, 0.97, 0.95), (7, 0.99, 0.96))


def made(looks: tuple[tuple[int, float, float], ...] = LOOKS, name: str = "copy", **changes: Any) -> RunRecord:
    """Seven of eleven steps of a task's own recipe, with losses 7, 6, ..., 1."""
    task, losses = tasks.get(name), tuple(float(loss) for loss in (7, 6, 5, 4, 3, 2, 1))
    return RunRecord(**{
        "task": name, "model": task.model, "masks": task.masks, "seed": 7, "steps": 7, "ended": "stopped",
        "training": dataclasses.replace(task.training, task=name, steps=11, epochs=None), "losses": losses,
        "accuracies": losses_as_shares(7), "rates": losses_as_shares(7), "grad_norms": losses_as_shares(7),
        "looks": [look(*numbers) for numbers in looks],
    } | changes)  # fmt: skip


def look(step: int, token: Any, exact: Any, loss: Any = 1.0) -> dict[str, Any]:
    return {"step": step, "sets": {"new": {"token_accuracy": token, "exact_match": exact, "loss": loss}, "longer": {}}}


def losses_as_shares(n: int) -> tuple[float, ...]:
    return tuple((i + 1) / n for i in range(n))


def names(record: RunRecord, reference: RunRecord) -> dict[str, tuple[str, str]]:
    return {each["name"]: (each["from"], each["to"]) for each in differences(record, reference)}


# --------------------------------------------------------------------------------------------------------- differences


def test_only_what_was_set_otherwise_is_written_out():
    one = made()
    masks = dataclasses.replace(COPY.masks, decoder_self=("padding",))
    other = made(
        seed=8, model=COPY.model.replace(n_heads=1, positions="none"), masks=masks,
        training=one.training.replace(lr=0.5, steps=13), rate_changes=((5, 0.25),), fault=next(iter(FAULTS)),
    )  # fmt: skip
    assert differences(one, one) == []
    assert names(other, one) == {
        "n_heads": (str(COPY.model.n_heads), "1"),
        "positions": ("sinusoidal", "none"),
        "decoder_self": ("padding ∧ causal", "padding"),
        "steps": ("11", "13"),
        "lr": (f"{one.training.lr:g}", "0.5"),
        "rate_changes": ("∅", "0.25 @ 5"),
        "fault": ("none", other.fault),
        "seed": ("7", "8"),
    }
    back = names(one, other)
    assert {name: (there, here) for name, (here, there) in back.items()} == names(other, one)


def test_where_it_ran_and_how_far_it_came_is_no_difference_of_configuration():
    other = made(threads=2, torch="0", python="0", platform="elsewhere", commit="0", seconds=9.0, steps=0, losses=(),
                 accuracies=(), rates=(), grad_norms=(), looks=(), ended="paused")  # fmt: skip
    assert differences(other, made()) == []


def test_settings_of_a_side_that_the_model_lacks_are_left_out():
    settings = configuration(made(name="first_last"))
    assert "n_decoder_layers" not in settings and "tgt_vocab_size" not in settings
    assert "n_encoder_layers" in settings and "src_vocab_size" in settings


def test_two_corpora_of_one_name_differ():
    one, other = (made(corpus={"name": "pairs", "sha256": sign * 64}) for sign in "ab")
    assert names(one, other) == {"corpus": ("pairs bbbbbbbb", "pairs aaaaaaaa")}


# ------------------------------------------------------------------------------------------------------ what it reached


def test_the_numbers_of_a_row():
    assert measures(made()) == {"loss": 4.0, "token": 0.99, "exact": 0.96, "to_goal": 6, "steps": 7, "of": 11}
    long = made(steps=27, losses=tuple(float(loss) for loss in range(27)), accuracies=(), rates=(), grad_norms=(),
                training=made().training.replace(steps=31))  # fmt: skip
    assert measures(long)["loss"] == sum(range(7, 27)) / 20, "the mean of the last 20 steps"
    none = made(steps=0, losses=(), accuracies=(), rates=(), grad_norms=(), looks=())
    assert measures(none) == {"loss": None, "token": None, "exact": None, "to_goal": None, "steps": 0, "of": 11}


def test_the_goal_is_95_per_cent_of_whole_answers_and_never_the_start():
    assert run_table.steps_to_goal(made(((0, 1.0, 1.0), (4, 0.99, 0.949), (6, 0.99, 0.95)))) == 6
    assert run_table.steps_to_goal(made(((0, 0.1, 0.1), (7, 0.99, 0.949)))) is None


@pytest.mark.parametrize(
    ("looks", "changes", "key"),
    [
        (LOOKS, {}, "learned"),
        (((7, 0.99, 0.0),), {}, "leans"),
        (((7, 0.5, 0.1),), {}, "partly"),
        (((7, COPY.chance_accuracy, 0.0),), {}, "chance"),
        (((7, COPY.blind_accuracy + 0.02, 0.0),), {}, "blind"),
        (((7, COPY.chance_accuracy + 0.05, 0.0),), {}, "blind"),
        (((7, 0.57, 0.57),), {"name": "first_last"}, "chance"),
        (LOOKS, {"ended": "failed"}, "failed"),
        ((), {}, "nothing"),
        (((7, 0.5, 0.1),), {"corpus": {"name": "pairs", "sha256": "a" * 64}}, "unsolved"),
    ],
)
def test_what_a_run_shows_is_told_by_its_measurements(looks, changes, key):
    """H32, H33: a small loss says nothing of the answers; the sentence is chosen by what held-out questions gave."""
    told = shows(made(looks, **changes))
    assert told["key"] == key
    assert has(f"runs.shows_{key}")


def test_the_chart_says_the_same_of_a_run_as_its_row():
    """The chart chooses its sentence in the browser, by the same levels; a small chance level is not rounded away."""
    foot = (Path(explorer.__file__).parent / "assets" / "train-foot.js").read_text(encoding="utf-8")
    assert f"GOAL = {run_table.GOAL}, LIFT = {run_table.LIFT}, NEAR = {run_table.NEAR};" in foot
    chart = (Path(explorer.__file__).parent / "assets" / "train-scale.js").read_text(encoding="utf-8")
    assert f"MEAN = {run_table.LAST};" in chart
    told = shows(made(((7, 0.001, 0.0),), "translation"))
    assert (told["key"], told["chance"]) == ("chance", "0.25")


def test_what_is_no_look_is_left_out():
    """A record may come from a stranger: its looks are any JSON."""
    looks = [{}, {"step": 7}, {"step": 7, "sets": []}, {"step": 7, "sets": {"new": 1}}, look("7", 1.0, 1.0),
             look(7, "x", 1.0), look(True, 1.0, 1.0), look(7, 17.0, 1.0), look(7, True, 1.0), look(5, 0.5, 1, None)]
    assert run_table.seen(dataclasses.replace(made(), looks=tuple(looks))) == [(5, 0.5, 1.0, None)]


# -------------------------------------------------------------------------------------------------------------- curves


def test_a_thin_curve_is_made_of_means():
    assert thin([1.0, 3.0, 5.0, 7.0, 8.0], 2) == [2.0, 6.0, 8.0]
    assert thin([float("nan"), float("inf"), 4.0, float("nan")], 2) == [None, 4.0]
    assert thin([], 3) == []
    assert len(thin([1.0] * 5000, run_table.width_of_bins(5000))) <= run_table.POINTS


# --------------------------------------------------------------------------------------------------------------- seeds


def test_seeds_of_one_configuration_are_found_and_nothing_else():
    one = made()
    shorter = made(steps=3, losses=(7.0, 6.0, 5.0), accuracies=(), rates=(), grad_norms=())
    records = [one, made(seed=8), made(seed=9, model=COPY.model.replace(n_heads=1)), shorter, made(seed=11)]
    assert seeds_of(records, one) == [0, 1, 4], "another width is no seed, and of one seed the longest run counts"
    assert same_but_for_seed(one, records[1]) and not same_but_for_seed(one, records[2])


def test_mean_and_spread_by_hand():
    one = made()
    other = made(((7, 0.5, 0.2),), seed=8, steps=5, losses=(9.0, 8.0, 7.0, 6.0, 5.0), accuracies=(), rates=(),
                 grad_norms=())  # fmt: skip
    told = spread([one, other], width=2)
    assert told["seeds"] == [7, 8] and told["steps"] == 5, "as far as both go"
    assert told["curve"] == {"low": [6.5, 4.5, 3.0], "mean": [7.5, 5.5, 4.0], "high": [8.5, 6.5, 5.0]}
    assert told["loss"] == {"low": 4.0, "mean": 5.5, "high": 7.0, "n": 2}
    assert told["exact"] == {"low": 0.2, "mean": 0.58, "high": 0.96, "n": 2}
    assert told["to_goal"] == {"low": 6.0, "mean": None, "high": 6.0, "n": 1}, "no mean over those that got there"
    json.dumps(told, allow_nan=False)


def test_a_rate_that_was_changed_by_hand_is_another_configuration():
    assert not same_but_for_seed(made(), made(seed=8, rate_changes=((3, 0.5),)))
