"""Schedules: by hand, against torch's own, and what holds for each: rates above 0, one per update, lr as a factor."""

import itertools
import math

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from transformer_core import tasks
from transformer_core.config import ConfigError, TrainConfig
from transformer_core.model import build
from transformer_core.training import RECIPES, rate, schedule_curve, train, warmup_rate
from transformer_core.training.schedules import cosine_share, one_cycle_share

SCHEDULES = TrainConfig.facts("schedule")["choices"]


def config(schedule, **changes):
    return TrainConfig(**{"steps": 101, "lr": 0.7, "schedule": schedule, "warmup": 13} | changes)


def by_torch(make, steps):
    """The rates that one of torch's schedulers gives to each of so many updates."""
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.7)
    scheduler, rates = make(optimizer), []
    for _ in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


def test_there_are_four():
    assert SCHEDULES == ("constant", "warmup", "cosine", "one_cycle")
    with pytest.raises(ConfigError, match=r'schedule is "cosin"; it can be .* The nearest is cosine'):
        TrainConfig(schedule="cosin")


def test_h26_warm_up_has_the_rates_of_the_paper_from_update_1_on():
    """H26: d 512, warm-up 4000. No division by zero at the first update, and no rate is used twice."""
    curve = schedule_curve(TrainConfig(steps=16000, lr=1.0, schedule="warmup", warmup=4000), d_model=512)
    assert curve[:3] == pytest.approx([1.746928e-7, 3.493856e-7, 5.240784e-7], rel=5e-7)
    assert max(curve) == curve[4000 - 1] == pytest.approx(6.987712e-4, rel=5e-7)
    assert curve[16000 - 1] == pytest.approx(curve[4000 - 1] / 2)
    assert all(one != other for one, other in itertools.pairwise(curve))


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("warmup", [1, 2, 13, 5000])
def test_every_update_has_a_rate_above_0_and_none_above_the_highest(schedule, warmup):
    """Also where the run ends before its warm-up does."""
    for steps in (1, 2, 3, 4, 12, 13, 14, 101):
        how = config(schedule, steps=steps, warmup=warmup)
        curve = schedule_curve(how, d_model=6)
        assert len(curve) == steps and all(0 < each < math.inf for each in curve)
        if schedule != "warmup":
            assert max(curve) <= how.lr
        assert curve == [rate(how, 6, step) for step in range(1, steps + 1)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_lr_is_a_factor_on_the_whole_curve(schedule):
    """So that another lr in the middle of a run moves what is left of the curve and keeps its shape."""
    one, three = (schedule_curve(config(schedule, lr=lr), 6) for lr in (0.1, 0.3))
    assert three == pytest.approx([3 * each for each in one])


def test_cosine_by_hand():
    """Up in a straight line to 1 at update 4, then half a cosine whose 0 would be update 11, the one after the last."""
    expected = [0.25, 0.5, 0.75, 1.0, *((1 + math.cos(math.pi * n / 7)) / 2 for n in range(1, 7))]
    assert [cosine_share(step, steps=10, warmup=4) for step in range(1, 11)] == pytest.approx(expected)


def test_cosine_without_warm_up_is_that_of_torch():
    theirs = by_torch(lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, T_max=101), 101)
    assert schedule_curve(config("cosine", warmup=0), 6) == pytest.approx(theirs)


@pytest.mark.parametrize("steps", [4, 20, 101, 600])
def test_one_cycle_is_that_of_torch(steps):
    theirs = by_torch(lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.7, total_steps=steps), steps - 1)
    assert schedule_curve(config("one_cycle", steps=steps, warmup=0), 6)[:-1] == pytest.approx(theirs)


def test_one_cycle_by_hand():
    """From 1/25 to 1 at three tenths of 20, and down to 1/250000; ``warmup`` puts the peak elsewhere."""
    shares = [one_cycle_share(step, steps=20) for step in range(1, 21)]
    assert shares[0] == pytest.approx(1 / 25) and shares[5] == 1.0 and shares[-1] == pytest.approx(4e-6)
    assert shares[12] == pytest.approx((1 + 4e-6) / 2), "half-way down"
    assert shares[:6] == sorted(shares[:6]) and shares[5:] == sorted(shares[5:], reverse=True)
    later = [one_cycle_share(step, steps=20, warmup=11) for step in range(1, 21)]
    assert later.index(max(later)) == 10 and later[5] == pytest.approx((1 / 25 + 1) / 2), "half-way up"


@pytest.mark.parametrize("share", [cosine_share, one_cycle_share])
@pytest.mark.parametrize(("step", "steps"), [(0, 5), (1, 0)])
def test_there_is_no_update_number_zero(share, step, steps):
    with pytest.raises(ValueError, match="must be at least 1, got 0"):
        share(step, steps)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_says_everything_that_another_could_have_changed(name):
    """In whatever order they are tried, the last one decides."""
    task = tasks.get("copy")
    names = set().union(*RECIPES.values()) - {"label_smoothing"}
    assert names <= RECIPES[name].keys()
    for other in RECIPES.values():
        changed = task.training.replace(**other).replace(**RECIPES[name])
        assert {key: getattr(changed, key) for key in RECIPES[name]} == dict(RECIPES[name])


def test_the_papers_recipe_is_the_papers():
    how = TrainConfig(**RECIPES["paper"])
    assert (how.optimizer, how.schedule, how.label_smoothing, how.weight_decay) == ("adam", "warmup", 0.1, 0.0)
    with pytest.raises(TypeError):
        RECIPES["paper"] = {}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_run_uses_the_rates_of_the_preview(schedule):
    task = tasks.get("reverse")
    model = build(task.model.replace(d_model=6, n_heads=2, d_ff=7, n_layers=1), task.masks, seed=3)
    how = TrainConfig(steps=5, batch_size=2, lr=0.003, schedule=schedule, warmup=2)
    assert [report.rate for report in train(model, task, how, 7)] == schedule_curve(how, 6)
    if schedule == "warmup":
        assert schedule_curve(how, 6)[0] == 0.003 * warmup_rate(1, 6, 2)
