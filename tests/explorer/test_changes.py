"""The handlers as plain functions: what was asked, what is shown, and that nothing is lost on the way."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from explorer import changes, live
from explorer.changes import CONTROLS, TRAINING, Asked
from explorer.fields import ATTENTIONS
from explorer.limits import Limits
from explorer.live import Trained
from explorer.session import Session
from transformer_core import tasks
from transformer_core.model import build

FAULT = "merge_without_transpose"


def controls(session: Session, **moved: Any) -> tuple[Any, ...]:
    """The values of all controls for this session, some of them moved."""
    masks = {name: list(getattr(session, name)) for name in ATTENTIONS}
    values = {name: masks if name == "masks" else getattr(session, name) for name in CONTROLS}
    return tuple((values | moved).values())


@pytest.fixture(scope="module")
def opened() -> changes.Change:
    return changes.restore(Asked(query={}))


def ask(opened: changes.Change, **moved: Any) -> Asked:
    return Asked(opened.session, opened.live, None, controls(opened.session, **moved))


def trained(session: Session, task: str = "copy") -> Trained:
    recipe = tasks.get(task)
    config = recipe.fit(session.model_config())
    return Trained(build(config, recipe.masks, 3).eval(), config, recipe.masks, task, 30, 3)


# ----------------------------------------------------------------------------------------------------------- a change


def test_a_control_leads_to_a_new_run_and_the_address_says_so(opened):
    change = changes.refresh(ask(opened, d_model=128))
    assert change.live.ledger["memory"].shape == (2, 7, 128)
    assert change.frame["query"] == {"d_model": "128"}
    assert change.frame["refusal"] is None
    assert not change.controls  # the control that is being moved is left alone
    assert "d_model" in change.touched and "seed" not in change.touched


def test_an_impossible_choice_leaves_the_run_and_names_the_ways_out(opened):
    change = changes.refresh(ask(opened, d_model=66))
    assert change.session is None and change.live is None
    refusal = change.frame["refusal"]
    assert refusal["field"] == "n_heads"
    assert [choice["label"]["en"] for choice in refusal["choices"]] == [
        "heads 3",
        "heads 6",
        "d_model 64",
        "d_model 68",
    ]
    assert refusal["choices"][0]["label"]["zh"] == "头数 3"
    assert "整除" in refusal["text"]["zh"]
    assert change.frame["query"] == {}  # the address is that of the run on screen


def test_a_busy_host_says_so_and_keeps_the_run(opened, monkeypatch):
    monkeypatch.setattr(changes, "PATIENCE", 0.01)
    taken = 0
    while changes.FORWARDS.acquire(blocking=False):
        taken += 1
    try:
        change = changes.refresh(ask(opened, d_model=128))
    finally:
        for _ in range(taken):
            changes.FORWARDS.release()
    assert change.live is None and "busy" in change.frame["refusal"]["text"]["en"]
    assert changes.refresh(ask(opened, d_model=128)).live is not None


def test_half_a_character_is_refused(opened):
    change = changes.refresh(ask(opened, tokens="text", src_text="a \ud800 b"))
    assert change.live is None and "half a character" in change.frame["refusal"]["text"]["en"]


def test_a_model_trained_anew_takes_the_place_of_the_one_before(opened):
    first, second = trained(opened.session), trained(opened.session)
    shown = changes.show_trained(Asked(opened.session, opened.live, first))
    again = changes.show_trained(Asked(shown.session, shown.live, second))
    assert shown.live.trained is first and again.live.trained is second


@pytest.mark.parametrize("number", range(4))
def test_each_way_out_is_one(opened, number):
    asked = ask(opened, d_model=66)
    offered = changes.refresh(asked).frame["refusal"]["choices"][number]["changes"]
    change = changes.apply(Asked(asked.session, asked.live, None, asked.values, {"changes": offered}))
    assert change.frame["refusal"] is None and change.controls
    run = change.live or asked.live  # with 64 it is the run that is still held
    assert run.ledger["memory"].shape[-1] == change.session.d_model


@pytest.mark.parametrize(
    "moved",
    [{"d_model": float("nan")}, {"d_model": None}, {"seed": [7]}, {"mode": "false"}, {"masks": None},
     {"masks": {"cross": []}}, {"masks": {name: "padding" for name in ATTENTIONS}}, {"dropout": 1.0}, {"src_text": 5},
     {"n_encoder_layers": 10**9}],
)  # fmt: skip
def test_values_that_skip_the_page_are_refused_in_a_sentence(opened, moved):
    change = changes.refresh(ask(opened, **moved))
    assert change.session is None and change.live is None
    assert change.frame["refusal"]["text"]["en"].endswith((".", "?"))
    assert "Traceback" not in change.frame["refusal"]["text"]["en"]


def test_too_few_values_are_refused(opened):
    change = changes.refresh(Asked(opened.session, opened.live, None, (1, 2, 3)))
    assert "3 values" in change.frame["refusal"]["text"]["en"]


@pytest.mark.parametrize(
    "data",
    [None, {}, {"changes": 3}, {"changes": {}}, {"changes": {"lang": "zh"}}, {"changes": {"preset": "shape_check"}}],
)
def test_a_remedy_changes_what_a_control_could_and_nothing_else(opened, data):
    asked = ask(opened)
    assert changes.apply(Asked(asked.session, asked.live, None, asked.values, data)).frame["refusal"] is not None


def test_what_nobody_expected_is_logged_and_told_in_one_sentence(opened, monkeypatch, caplog):
    def broken(*_: Any) -> None:
        raise RuntimeError("secret path /srv/x")

    monkeypatch.setattr(live, "run", broken)
    with caplog.at_level(logging.ERROR):
        change = changes.refresh(ask(opened, d_model=128))
    assert "secret" not in str(change.frame)
    assert change.frame["refusal"]["text"]["en"].startswith("Something went wrong")
    assert "secret path" in caplog.text


def test_the_same_choice_again_is_not_run_again(opened):
    change = changes.refresh(ask(opened))
    assert change.live is None and change.session == opened.session and change.frame["refusal"] is None


# --------------------------------------------------------------------------------------------------- preset, language


def test_another_preset_moves_all_controls(opened):
    change = changes.choose_preset(ask(opened, preset="shape_check"))
    assert change.controls and change.session.d_model == 512
    assert changes.choose_preset(Asked(change.session, change.live, None, controls(change.session))) == changes.Change()


def test_a_model_too_large_for_this_host_has_all_its_shapes(opened):
    change = changes.choose_preset(ask(opened, preset="paper_big"))
    assert change.live.shapes_only
    assert change.live.ledger["decoder.layers.5.cross_attention/weights"].shape == (2, 16, 11, 13)


def test_the_language_changes_in_place(opened):
    asked = ask(opened)
    change = changes.speak(Asked(asked.session, asked.live, None, asked.values, {"lang": "zh"}))
    assert change.words and not change.controls
    assert change.live is opened.live
    assert "项检查成立" in change.frame["strip"]["sentence"]
    for nonsense in (None, {"lang": "fr"}, {"lang": ["zh"]}):
        assert changes.speak(Asked(asked.session, asked.live, None, asked.values, nonsense)).session is None


def test_reset_keeps_the_language_and_the_tab(opened):
    session = opened.session.change(lang="zh", tab="train", d_model=128)
    change = changes.reset(Asked(session, opened.live, None, controls(session)))
    assert change.session == Session.of_preset().change(lang="zh", tab="train")


# ------------------------------------------------------------------------------------------------------------ opening


@pytest.mark.parametrize(
    ("query", "hint", "accepted", "lang"),
    [
        ({}, "", "", "en"),
        ({}, '{"kept": "", "browser": "zh-CN"}', "en", "zh"),
        ({}, "", "zh-Hans-CN,zh;q=0.9,en;q=0.8", "zh"),
        ({}, '{"kept": "en", "browser": "zh-CN"}', "zh", "en"),
        ({"lang": "en"}, '{"kept": "zh", "browser": "zh-CN"}', "zh", "en"),
        ({"lang": "xx"}, '{"kept": 3}', "fr", "en"),
        ({}, "[" * 400, "zh", "zh"),
    ],
)
def test_the_first_language_is_the_links_else_the_persons_else_the_browsers(query, hint, accepted, lang):
    change = changes.restore(Asked(query=query, data=hint, headers={"accept-language": accepted}))
    assert change.session.lang == change.frame["lang"] == lang


def test_a_link_restores_the_page_and_says_what_it_left_out():
    change = changes.restore(
        Asked(query={"d_model": "96", "tab": "train", "selected": "memory", "oops": "1", "lang": "zh"})
    )
    assert (change.session.d_model, change.session.tab, change.session.selected) == (96, "train", "memory")
    assert change.opened and change.frame["linked_lang"]
    assert [each["text"]["zh"] for each in change.frame["link_notices"]] == ["链接中的“oops”不是本页的选项，已忽略。"]


def test_a_device_that_is_not_here_gives_way_to_the_cpu_and_says_so_once(opened):
    import torch

    if torch.cuda.is_available():
        pytest.skip("this host has cuda")
    change = changes.restore(Asked(query={"device": "cuda"}))
    assert change.session.device == "cpu"
    assert "cuda" in change.frame["notices"][0]["text"]["en"]
    again = changes.refresh(Asked(change.session, change.live, None, controls(change.session, d_model=96)))
    assert again.frame["notices"] == []


def test_a_tab_whose_state_was_freed_goes_on_from_its_address(opened):
    change = changes.refresh(
        Asked(None, None, None, controls(opened.session, d_model=96), query={"lang": "zh", "tab": "train"})
    )
    assert (change.session.d_model, change.session.lang, change.session.tab) == (96, "zh", "train")


# ------------------------------------------------------------------------------------------------------------ trained


def test_after_training_explore_shows_that_model_on_its_task(opened):
    model = trained(opened.session)
    change = changes.show_trained(Asked(opened.session, opened.live, model, controls(opened.session)))
    assert change.controls and change.live.trained is model
    assert change.frame["query"] == {"tokens": "task", "weights": "trained"}
    assert change.live.batch.src_tokens is not None


def test_trained_weights_that_no_longer_fit_give_way_with_a_way_back(opened):
    model = trained(opened.session)
    shown = changes.show_trained(Asked(opened.session, opened.live, model, controls(opened.session)))
    moved = changes.refresh(Asked(shown.session, shown.live, model, controls(shown.session, d_model=96)))
    assert moved.session.weights == "fresh" and "weights" in moved.touched
    told = moved.frame["notices"][0]
    assert "d_model 64 → 96" in told["text"]["en"] and "seed 7" in told["text"]["en"]
    back = changes.apply(
        Asked(moved.session, moved.live, model, controls(moved.session), {"changes": told["actions"][0]["changes"]})
    )
    assert back.live.trained is model and back.session.d_model == 64


def test_asking_for_trained_weights_without_any_says_where_they_come_from(opened):
    change = changes.refresh(ask(opened, weights="trained"))
    assert change.session.weights == "fresh"
    assert "Train" in change.frame["notices"][0]["text"]["en"]


# ------------------------------------------------------------------------------------------------------------ looking


def test_looking_at_a_tensor_runs_nothing_and_is_kept_in_the_address(opened):
    change = changes.look(Asked(opened.session, opened.live, None, (), {"key": "memory", "sample": 1, "head": 99}))
    assert change.live is None
    assert (change.session.selected, change.session.sample, change.session.head) == ("memory", 1, 3)
    assert change.detail["key"] == "memory"
    assert changes.address(change.session) == {"selected": "memory", "sample": "1", "head": "3"}


@pytest.mark.parametrize(
    "data",
    [None, {"key": "nothing"}, {"key": "memory", "sample": "1"}, {"key": "memory", "head": -1}, {"key": ["memory"]}],
)
def test_looking_at_nothing_changes_nothing(opened, data):
    change = changes.look(Asked(opened.session, opened.live, None, (), data))
    assert change.session is None and change.live is None and change.detail is None


def test_the_recipe_of_train_is_kept_in_the_address_and_nonsense_is_not(opened):
    recipe = {name: getattr(opened.session, name) for name in TRAINING} | {
        "task": "reverse", "recipe": "mine", "steps": 20, "schedule": "cosine", "lr": 0.01, "clip": 0.0,
    }  # fmt: skip
    change = changes.remember_training(Asked(opened.session, opened.live, None, tuple(recipe.values())))
    query = changes.address(change.session)
    assert (query["steps"], query["schedule"], query["lr"], query["clip"]) == ("20", "cosine", "0.01", "0.0")
    broken = tuple((recipe | {"steps": None}).values())
    assert changes.remember_training(Asked(opened.session, opened.live, None, broken)).session is None


def test_limits_are_those_of_the_host(monkeypatch):
    monkeypatch.setenv("TRANSFORMER_LEDGER_MAX_D_MODEL", "32")
    assert Asked().limits == Limits(max_d_model=32)


# ------------------------------------------------------------------------------------------- faults and deeper levels


def test_a_fault_is_on_until_it_is_turned_off_and_every_answer_says_so(opened):
    on = changes.apply(
        Asked(opened.session, opened.live, None, controls(opened.session), {"changes": {"fault": FAULT}})
    )
    assert on.session.fault == FAULT and on.frame["query"] == {"fault": FAULT}
    assert on.live.ledger.keys() == opened.live.ledger.keys()
    assert not all(result.passed for result in on.live.results)
    moved = changes.refresh(Asked(on.session, on.live, None, controls(on.session, d_model=96)))
    for change in (on, moved):
        assert change.frame["strip"]["verdict"] == "fails" and "fault is on" in change.frame["strip"]["sentence"]
    (told,) = moved.frame["notices"]
    off = changes.apply(
        Asked(moved.session, moved.live, None, controls(moved.session), {"changes": told["actions"][0]["changes"]})
    )
    assert off.session.fault == "none" and not off.frame["notices"]
    assert all(result.passed for result in off.live.results)


def test_a_fault_is_in_the_link_and_an_unknown_one_is_told():
    opened = changes.restore(Asked(query={"fault": FAULT}))
    assert opened.live.session.fault == FAULT and opened.frame["query"] == {"fault": FAULT}
    stray = changes.restore(Asked(query={"fault": "no_such_fault"}))
    assert stray.session.fault == "none" and stray.frame["link_notices"]


def test_a_level_is_added_to_the_run_and_the_rest_stays(opened):
    change = changes.probe(Asked(opened.session, opened.live, None, (), {"level": 3}))
    assert {result.level for result in change.live.results} == {1, 2, 3}
    assert change.live.id == opened.live.id and change.live.ledger is opened.live.ledger
    assert change.live.results[: len(opened.live.results)] == opened.live.results
    assert change.frame["strip"]["total"] == len(change.live.results) > len(opened.live.results)
    again = changes.probe(Asked(opened.session, change.live, None, (), {"level": 3}))
    assert [result.name for result in again.live.results] == [result.name for result in change.live.results]


@pytest.mark.parametrize(
    "data", [None, {}, {"level": 1}, {"level": "3"}, {"level": True}, {"level": [3]}, {"level": 6}]
)
def test_a_level_that_cannot_be_run_is_refused(opened, data):
    change = changes.probe(Asked(opened.session, opened.live, None, (), data))
    assert change.live is None and "3, 4, 5" in change.frame["refusal"]["text"]["en"]


def test_what_has_no_numbers_cannot_be_probed(opened):
    large = changes.choose_preset(
        Asked(opened.session, opened.live, None, controls(opened.session, preset="paper_big"))
    )
    change = changes.probe(Asked(large.session, large.live, None, (), {"level": 3}))
    assert change.live is None and "shapes only" in change.frame["refusal"]["text"]["en"]


def test_a_probe_waits_for_its_turn_and_gives_up(opened, monkeypatch):
    monkeypatch.setattr(changes, "PATIENCE", 0.01)
    taken = [changes.FORWARDS.acquire(timeout=0) for _ in range(32)]
    try:
        change = changes.probe(Asked(opened.session, opened.live, None, (), {"level": 3}))
    finally:
        for _ in range(sum(taken)):
            changes.FORWARDS.release()
    assert change.live is None and "busy" in change.frame["refusal"]["text"]["en"]
