"""What a look shows is what the model did: its answers beside the wanted ones, and a map whose rows are shares."""

import doctest
import json

import pytest
import torch

from explorer import looks
from explorer.looks import look
from transformer_core import build, tasks
from transformer_core.training import Evaluation


def test_the_examples_in_the_docstrings():
    assert doctest.testmod(looks).failed == 0


@pytest.mark.parametrize("task", list(tasks.TASKS))
def test_a_look_shows_answers_beside_what_was_wanted_and_a_map_whose_rows_sum_to_one(task):
    asked = tasks.get(task)
    seen, scene = look(build(asked.model, asked.masks, seed=7), asked, seed=7, step=3)
    cells = seen.cells
    assert len(cells) == len(scene["rows"]) and all(len(row) == len(scene["columns"]) for row in cells)
    assert all(abs(sum(row) - 100) <= len(row) for row in cells), "whole per cents"
    samples = seen.samples
    assert (seen.step, samples["of"]) == (3, len(samples["rows"])) == (3, looks.SAMPLES)
    assert set(seen.told()["sets"]) == set(asked.held_out) - {"new"}
    assert set(seen.result()["sets"]) == set(asked.held_out)
    for row in samples["rows"]:
        assert row["ok"] == (row["got"] == row["want"]) or row["got"] == row["want"], "an answer may lack only its end"
        expected = {
            "copy": row["src"],
            "reverse": row["src"][::-1],
            "sort": sorted(row["src"]),
            "first_last": [str(int(row["src"][0] == row["src"][-1]))],
        }
        assert task not in expected or row["want"] == expected[task]


def test_an_answer_without_its_end_is_wrong():
    batch = tasks.get("copy").sample(1, torch.Generator().manual_seed(3))
    label = [token for token in batch.labels[0].tolist() if token]
    compared = looks.compare(tasks.get("copy"), batch, [[*label[:-1], 0]])
    assert compared["right"] == 0 and compared["rows"][0]["got"] == compared["rows"][0]["want"]


def test_the_same_model_is_asked_the_same_questions_and_stays_as_it_is():
    task = tasks.get("reverse")
    model = build(task.model.replace(dropout=0.3), task.masks, seed=7).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    drawn = model.noise.generator(torch.device("cpu")).get_state()
    first, second = look(model, task, seed=7, step=1), look(model, task, seed=7, step=1)
    assert first == second and model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(model.noise.generator(torch.device("cpu")).get_state(), drawn), "dropout was off"
    assert look(model, task, seed=8, step=1) != first


def test_a_number_that_is_not_finite_is_told_without_breaking_json():
    bad, good = Evaluation(0.5, 0.25, float("nan")), Evaluation(1.0, 0.5, 0.1)
    told = looks.Look(3, {"new": bad, "longer": good}, [[100]]).told()
    assert told["loss"] is None and json.loads(json.dumps(told, allow_nan=False))["exact"] == 0.25
    assert told["sets"] == {"longer": {"loss": 0.1, "token": 1.0, "exact": 0.5}}


def test_sources_and_answers_are_printed_each_in_their_own_words():
    task = tasks.get("translation")
    seen, scene = look(build(task.model, task.masks, seed=7), task, seed=7, step=1)

    def has_han(words: list[str]) -> bool:
        return any("\u4e00" <= sign <= "\u9fff" for word in words for sign in word)

    assert all(has_han(row["src"]) and not has_han(row["want"]) for row in seen.samples["rows"])
    assert has_han(scene["columns"]) and not has_han(scene["rows"])
