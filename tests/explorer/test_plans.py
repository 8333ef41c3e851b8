"""A run is refused before anything is built: one value that cannot be, or sizes that are too much together."""

import doctest
import math
from dataclasses import replace
from types import SimpleNamespace

import pytest

from explorer import facts, plans, recipes
from explorer.facts import facts_of
from explorer.limits import Limits
from explorer.plans import Plan
from explorer.refusals import Refusal
from explorer.session import Session
from transformer_core import tasks
from transformer_core.tasks.expected import Band
from transformer_core.training import schedule_curve

LIMITS = Limits()


def session(**changes) -> Session:
    small = {"d_model": 12, "n_heads": 3, "d_ff": 17, "n_encoder_layers": 1, "n_decoder_layers": 1, "recipe": "mine"}
    return Session.of_preset().change(**{**small, "task": "copy", **changes})


def plan(**changes) -> Plan:
    return plans.plan(session(**changes), LIMITS)


def test_the_examples_in_the_docstrings():
    assert [doctest.testmod(module).failed for module in (plans, facts, recipes)] == [0, 0, 0]


@pytest.mark.parametrize(("field", "value"), [
    ("steps", 10**9), ("steps", 0), ("steps", math.nan), ("steps", None), ("steps", "70"), ("steps", True),
    ("steps", 3.5),
    ("train_batch", 10**6), ("train_batch", [3]), ("lr", math.inf), ("lr", -1.0), ("lr", None), ("lr", "0.1"),
    ("optimizer", "sgd"), ("schedule", "step"), ("warmup", -1), ("train_dropout", 1.0), ("smoothing", 2), ("clip", -1),
    ("train_device", "tpu"),
    ("train_seed", -1), ("train_seed", 2**40), ("task", "translat"), ("task", ["copy"]), ("recipe", None),
])  # fmt: skip
def test_a_value_that_cannot_be_is_refused_by_its_field(field, value):
    with pytest.raises(Refusal) as caught:
        session().cleaned({field: value}, LIMITS)
    assert caught.value.field == field and caught.value.text("zh") != caught.value.text("en")


def test_steps_and_sizes_together_are_refused_with_the_steps_that_fit(monkeypatch):
    monkeypatch.setattr(plans, "build", lambda *_, **__: pytest.fail("nothing may be built"))
    large = {"d_model": 96, "d_ff": 384, "n_encoder_layers": 2, "n_decoder_layers": 2, "train_batch": 256}
    with pytest.raises(Refusal, match="operations") as caught:
        plan(**large, steps=5000)
    assert caught.value.field == "steps"
    monkeypatch.undo()
    most = caught.value.choices[0]["steps"]
    assert 0 < most < 5000 and plan(**large, steps=most).steps == most


def test_a_step_too_long_to_interrupt_is_refused_with_the_batch_that_fits(monkeypatch):
    large = {"d_model": 384, "d_ff": 1536, "n_encoder_layers": 2, "n_decoder_layers": 2, "train_batch": 128}
    monkeypatch.setattr(plans, "build", lambda *_, **__: pytest.fail("nothing may be built"))
    with pytest.raises(Refusal, match="cannot be interrupted") as caught:
        plan(**large)
    monkeypatch.undo()
    assert plan(**{**large, **caught.value.choices[0]}).training.batch_size == caught.value.choices[0]["train_batch"]


def test_a_model_too_large_to_train_is_refused_by_its_bytes(monkeypatch):
    monkeypatch.setattr(plans, "build", lambda *_, **__: pytest.fail("nothing may be built"))
    with pytest.raises(Refusal, match="MB") as caught:
        plan(d_model=1024, n_heads=16, d_ff=4096, n_encoder_layers=6, n_decoder_layers=6)
    assert "parameters" in str(caught.value)


def test_masks_of_another_length_are_refused_where_they_cost_nothing():
    custom = replace(session().mask_config(), cross=("custom",), cross_custom=((True, False), (True, True)))

    class Odd(Session):
        def mask_config(self, painted_too=True):
            return custom

    odd = Odd(**vars(session()))
    with pytest.raises(Refusal):
        plans.plan(odd, LIMITS)


def test_the_task_s_own_recipe_is_the_task_s_own():
    task = tasks.get("first_last")
    asked = plans.plan(Session.of_preset().with_task("first_last").change(steps=80), LIMITS)
    assert (asked.model, asked.masks) == (task.model, task.masks)
    assert asked.training == replace(task.training, steps=80) and asked.named == "own"


def test_a_model_that_the_task_cannot_take_is_replaced_and_the_facts_say_so():
    told = facts_of(plan(task="first_last"))
    assert (told["architecture"], told["instead_of"], told["layers"]) == ("encoder", "encoder_decoder", "1")
    told = facts_of(plan(architecture="decoder"))
    assert (told["architecture"], told["instead_of"]) == ("encoder_decoder", "decoder")
    for kept in (plan(), plan(task="first_last", architecture="encoder"), plan(task="first_last", recipe="task")):
        assert facts_of(kept)["instead_of"] == ""


def test_there_are_never_more_looks_than_promised():
    for steps in (1, 2, 14, 15, 16, 99, 600, 5000):
        assert math.ceil(steps / plans.round_interval(steps)) <= plans.LOOKS


def test_a_device_that_is_not_there_is_replaced_by_the_one_that_is(monkeypatch):
    monkeypatch.setattr(plans.torch.cuda, "is_available", lambda: False)
    assert plan(train_device="cuda").device == "cpu" == facts_of(plan(train_device="cuda"))["device"]


def test_two_plans_of_one_session_are_equal_and_of_another_are_not():
    assert plan() == plan() and plan() != plan(train_seed=8) and plan() != plan(train_dropout=0.1)


# ------------------------------------------------------------------------------------------------ schedules and recipes


@pytest.mark.parametrize("schedule", ["constant", "warmup", "cosine", "one_cycle"])
def test_the_schedule_is_previewed_by_the_rates_that_the_run_will_have(schedule):
    asked = plan(schedule=schedule, steps=331, warmup=60)
    rates = schedule_curve(asked.training, asked.model.d_model)
    curve = facts_of(asked)["curve"]
    assert [step for step, _ in curve] == sorted({step for step, _ in curve})
    assert (curve[0][0], curve[-1][0]) == (1, 331) and len(curve) <= facts.POINTS + 1
    assert all(rate == pytest.approx(rates[step - 1], rel=1e-4) and rate > 0 for step, rate in curve)
    assert max(rate for _, rate in curve) == pytest.approx(max(rates), rel=1e-4)


@pytest.mark.parametrize("task", list(tasks.TASKS))
def test_each_recipe_with_a_name_can_be_trained_and_is_known_again(task):
    for name, settings in recipes.recipes(task).items():
        asked = plans.plan(Session.of_preset().with_task(task).change(**settings), LIMITS)
        assert asked.named == name or recipes.recipes(task)[asked.named] == settings
        assert asked.training.optimizer == settings["optimizer"]
    assert plans.plan(Session.of_preset().with_task(task).change(lr=0.123), LIMITS).named == ""


def test_no_clipping_is_a_limit_of_zero_and_comes_back_from_the_link():
    free = session(clip=0.0)
    assert plans.plan(free, LIMITS).training.clip_norm is None
    assert Session.from_query(free.to_query())[0] == free


def test_what_decays_goes_with_the_optimizer():
    assert plan(optimizer="adam").training.weight_decay == 0.0
    assert plan(optimizer="adamw").training.weight_decay == tasks.get("copy").training.weight_decay


def test_the_band_is_shown_beside_the_task_s_own_recipe_alone(monkeypatch):
    series = Band((1.0,), (1.5,), (math.nan,))
    measured = SimpleNamespace(steps=(50,), seeds=(1, 2), **dict.fromkeys(facts.SERIES, series))
    monkeypatch.setattr(facts, "expected", lambda task: measured)
    own = Session.of_preset()
    band = facts_of(plans.plan(own, LIMITS))["band"]
    assert band["seeds"] == [1, 2] and band["loss"] == [[1.0], [1.5], [None]]
    shorter = facts_of(plans.plan(own.change(steps=80), LIMITS))["band"]
    assert shorter is not None, "with eq. 3 the rate of a step does not depend on how many there are"
    for other in ({"train_batch": 64}, {"lr": 0.1}, {"smoothing": 0.0}, {"recipe": "mine"}, {"fault": "no_scaling"},
                  {"train_dropout": 0.1}):  # fmt: skip
        assert facts_of(plans.plan(own.change(**other), LIMITS))["band"] is None, other
    assert facts_of(plans.plan(own.change(train_seed=8), LIMITS))["band"] is not None
