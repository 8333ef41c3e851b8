"""A run that is held: its rate changed on the way, its state kept; the next loss is then the same, bit for bit."""

import itertools
import math
import threading

import pytest
import torch
from torch import nn

from transformer_core import tasks, training
from transformer_core.config import ConfigError, TrainConfig
from transformer_core.model import build
from transformer_core.training import NonFinite, Training, evaluate, layer_norms, make_optimizer, predict, train
from transformer_core.training.step import part_of, take_step

REVERSE = tasks.get("reverse")
HOW = TrainConfig(steps=6, batch_size=5, lr=0.5, schedule="warmup", warmup=3, label_smoothing=0.1, clip_norm=0.7)


def small(**changes):
    """A model for the task with little to compute, dropout on."""
    sizes = {"d_model": 12, "n_heads": 2, "d_ff": 14, "n_layers": 1, "dropout": 0.2, "attention_dropout": 0.1}
    return build(REVERSE.model.replace(**sizes | changes), REVERSE.masks, seed=3)


def run(model=None, config=HOW, seed=7, **more):
    return train(model or small(), REVERSE, config, seed, **more)


def losses(training):
    return [report.loss for report in training]


def take(training, steps):
    return [next(training).loss for _ in range(steps)]


# ---- the same seed


@pytest.mark.parametrize("changes", [{}, {"optimizer": "adamw", "schedule": "cosine", "weight_decay": 0.1}])
def test_h38_the_same_seed_gives_the_same_losses_bit_for_bit(changes):
    """H38: twice in one process; with the model looked at in between; beside another training in a thread."""
    how = HOW.replace(**changes)
    alone = losses(run(config=how))
    assert losses(run(config=how)) == alone and losses(run(config=how, seed=8)) != alone

    model = small()
    seen = []
    for report in run(model, how):
        seen.append(report.loss)
        evaluate(model, REVERSE, 3, seed=7)
        predict(model, REVERSE.sample(2, torch.Generator().manual_seed(1)))
        torch.rand(3)
    assert seen == alone

    other = []
    thread = threading.Thread(target=lambda: other.extend(run(small(d_model=16), how.replace(steps=20), seed=1)))
    thread.start()
    assert losses(run(config=how)) == alone
    thread.join()
    assert len(other) == 20


# ---- the rate while it runs


def test_a_rate_that_is_set_holds_from_the_next_step_on_and_is_written_down():
    training = run(config=HOW.replace(schedule="constant", lr=0.01))
    assert training.lr == 0.01 and training.rate_changes == []
    next(training)
    training.lr = 0.003
    assert training.lr == 0.003 and training.rate_changes == [(2, 0.003)]
    assert [next(training).rate for _ in range(2)] == [0.003, 0.003]
    training.lr = 0.02
    training.lr = 0.001  # before any step: the last one counts
    assert training.rate_changes == [(2, 0.003), (4, 0.001)] and next(training).rate == 0.001


def test_a_schedule_keeps_its_shape_when_its_rate_is_changed():
    expected = training.schedule_curve(HOW, 12)
    changed = run()
    rates = [next(changed).rate for _ in range(2)]
    changed.lr = HOW.lr / 10
    rates += [report.rate for report in changed]
    assert rates == pytest.approx([*expected[:2], *(each / 10 for each in expected[2:])])


def test_the_same_changes_given_at_the_start_give_the_same_losses():
    """As a replay does it."""
    by_hand = run()
    seen = take(by_hand, 3)
    by_hand.lr = 0.05
    seen += take(by_hand, 1)
    by_hand.lr = 2.0
    seen += losses(by_hand)
    repeated = run(rate_changes=by_hand.rate_changes)
    assert losses(repeated) == seen != losses(run()) and repeated.rate_changes == [(4, 0.05), (5, 2.0)]


def test_a_change_before_one_that_was_given_leaves_that_one():
    training = run(rate_changes=[(3, 0.1), (6, 0.2)])
    take(training, 3)
    training.lr = 0.7
    assert training.rate_changes == [(3, 0.1), (4, 0.7), (6, 0.2)]
    take(training, 2)
    assert training.lr == 0.2


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, 101.0, "fast", None, True])
def test_a_rate_that_cannot_be_is_refused_and_changes_nothing(value):
    training = run()
    with pytest.raises(ConfigError, match="lr"):
        training.lr = value
    assert training.lr == HOW.lr and training.rate_changes == []


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(("changes", "text"), [
    ([(0, 0.1)], "rate_changes step is 0"), ([(2.5, 0.1)], "rate_changes step must be a whole number"),
    ([(3, 0.1), (3, 0.2)], "rising steps, got 3 and then 3"), ([(3, 0.0)], "lr is 0"),
])  # fmt: skip
def test_changes_that_cannot_be_are_refused_at_once(changes, text):
    with pytest.raises(ValueError, match=text):
        run(rate_changes=changes)


# ---- the state


@pytest.mark.parametrize("changes", [{}, {"norm": "batch"}, {"tie_weights": True}, {"dropout": 0.0}])
@pytest.mark.parametrize("steps", [0, 3])
def test_the_next_loss_of_a_restored_run_is_that_of_the_undisturbed_one(changes, steps):
    """With Adam's averages, a rate that was changed, dropout, running means, and a model built from another seed."""
    undisturbed = run(small(**changes))
    take(undisturbed, steps)
    undisturbed.lr = 0.3
    weights = {name: value.clone() for name, value in undisturbed.model.state_dict().items()}
    state = undisturbed.state()
    expected = losses(undisturbed)
    assert len(expected) == HOW.steps - steps

    other = build(undisturbed.model.config, REVERSE.masks, seed=99)
    other.load_state_dict(weights)
    restored = run(other, seed=5)
    take(restored, 2)  # whatever it did before
    other.load_state_dict(weights)
    restored.restore(state)
    assert (restored.step, restored.lr) == (steps, 0.3)
    assert losses(restored) == expected


def test_a_state_is_a_copy_and_goes_through_a_file(tmp_path):
    """What is kept does not move on with the run, and restoring does not use it up."""
    training = run()
    take(training, 3)
    state = training.state()
    before = {name: value.clone() for name, value in state.items()}
    weights = {name: value.clone() for name, value in training.model.state_dict().items()}
    expected = losses(training)
    assert state.keys() == before.keys() and all(torch.equal(state[name], before[name]) for name in state)
    assert all(isinstance(value, torch.Tensor) and value.is_contiguous() for value in state.values())

    torch.save(state, tmp_path / "state.pt")
    read = torch.load(tmp_path / "state.pt", weights_only=True)
    for _ in range(2):
        training.model.load_state_dict(weights)
        training.restore(read)
        assert losses(training) == expected


def test_the_state_holds_what_it_says():
    training = run()
    assert sorted(training.state()) == ["generator", "rate_changes", "step"]
    take(training, 2)
    state = training.state()
    names = [name for name, _ in training.model.named_parameters()]
    remembered = {f"optimizer.{name}.{what}" for name in names for what in ("step", "exp_avg", "exp_avg_sq")}
    assert state.keys() == {"generator", "rate_changes", "step"} | remembered
    assert state["step"].item() == 2 and state["optimizer.output.bias.step"].item() == 2
    assert state["optimizer.output.weight.exp_avg"].shape == training.model.output.weight.shape


def broken(state, **changes):
    return {name: value for name, value in (state | changes).items() if value is not None}


@pytest.mark.parametrize(("changes", "text"), [
    ({"step": None}, "this one has no step"),
    ({"generator": None}, "this one has no generator"),
    ({"step": torch.tensor(7)}, "from 0 to 6"),
    ({"step": torch.tensor(-1)}, "from 0 to 6"),
    ({"step": torch.tensor(2.0)}, "must be a whole number"),
    ({"generator": torch.zeros(3, dtype=torch.uint8)}, "generator is none that torch can go on with"),
    ({"generator": torch.zeros(5056)}, "generator is none that torch can go on with"),
    ({"rate_changes": torch.ones(3)}, "pairs of step and lr"),
    ({"rate_changes": torch.tensor([[4.0, math.nan]])}, "lr must be a finite number"),
    ({"rate_changes": torch.tensor([[math.nan, 0.1]])}, "begin with whole steps"),
    ({"weights": torch.zeros(2)}, "'weights', which is nothing"),
    ({"optimizer.output.bias.momentum": torch.zeros(17)}, "which is nothing"),
    ({"optimizer.output.bias.exp_avg": torch.zeros(2)}, r"of shape \(17,\)"),
    ({"optimizer.output.bias.exp_avg": torch.zeros(17, dtype=torch.int64)}, "hold floats, got"),
    ({"optimizer.output.bias.exp_avg": None}, "of output.bias the state holds only step, exp_avg_sq"),
])  # fmt: skip
def test_a_state_that_cannot_be_is_refused_and_the_run_is_as_it_was(changes, text):
    expected = losses(run())
    training = run()
    seen = take(training, 2)
    with pytest.raises(ValueError, match=text):
        training.restore(broken(training.state(), **changes))
    assert seen + losses(training) == expected


def test_a_run_that_was_closed_or_stopped_by_an_error_takes_no_step_until_it_is_restored():
    training = run()
    first = take(training, 2)
    state, weights = training.state(), {name: value.clone() for name, value in training.model.state_dict().items()}
    third = next(training).loss
    training.model.output.bias.data[0] = math.nan
    with pytest.raises(NonFinite):
        next(training)
    assert training.ended and losses(training) == [] and training.step == 3
    training.model.load_state_dict(weights)
    training.restore(state)
    assert not training.ended and next(training).loss == third and len(first) == 2
    training.close()
    assert training.ended and losses(training) == []


def test_a_run_knows_where_it_stands():
    held = run()
    assert isinstance(held, Training) and iter(held) is held and (held.step, held.ended) == (0, False)
    for step, report in enumerate(held, start=1):
        assert held.step == report.step == step
    assert held.ended and held.step == HOW.steps


# ---- the gradient, part by part


@pytest.mark.parametrize("changes", [{}, {"norm_order": "pre", "positions": "learned"}, {"tie_weights": True}])
def test_the_squares_of_the_parts_add_up_to_the_whole(changes):
    for report in itertools.islice(run(small(n_layers=2, **changes)), 3):
        assert math.fsum(norm**2 for norm in report.layer_norms.values()) == pytest.approx(report.grad_norm**2)


def test_the_parts_are_those_of_the_model_in_its_order():
    report = next(run(small(n_layers=2, norm_order="pre")))
    assert list(report.layer_norms) == [
        "src_embedding", "encoder.layers.0", "encoder.layers.1", "encoder.norm", "tgt_embedding", "decoder.layers.0",
        "decoder.layers.1", "decoder.norm", "output",
    ]  # fmt: skip
    first_last = tasks.get("first_last")
    model = build(first_last.model.replace(d_model=8, n_heads=2, d_ff=9, positions="learned"), seed=1)
    report = next(train(model, first_last, TrainConfig(steps=1, batch_size=3), 7))
    assert list(report.layer_norms) == ["src_embedding", "src_positions", "encoder.layers.0", "encoder.layers.1",
                                        "classifier"]  # fmt: skip


def test_h27_the_norms_of_the_parts_are_those_before_clipping():
    """H27: a limit of 0.001 leaves next to nothing in the gradients, and the report says what they were."""
    model, batch = small(dropout=0.0, attention_dropout=0.0), REVERSE.sample(5, torch.Generator().manual_seed(1))
    expected, _ = training.loss_and_accuracy(model, batch)
    expected.backward()
    by_part = {}
    for name, weight in model.named_parameters():
        by_part.setdefault(part_of(name), []).append(weight.grad.clone())
    optimizer = make_optimizer(model.parameters(), HOW)
    *_, norm, norms = take_step(model, batch, optimizer, HOW.replace(clip_norm=0.001, label_smoothing=0.0), 1, 1e-9, 7)
    assert norms == pytest.approx({part: nn.utils.get_total_norm(each).item() for part, each in by_part.items()})
    clipped = nn.utils.get_total_norm([weight.grad for weight in model.parameters()])
    assert clipped.item() == pytest.approx(0.001) and norm > 0.1


def test_norms_by_hand_and_of_nothing():
    gradients = {"output.weight": torch.tensor([3.0, 4.0]), "output.bias": torch.tensor([12.0]),
                 "decoder.layers.11.self_attention.w_q.weight": torch.tensor([[8.0], [15.0]])}  # fmt: skip
    assert layer_norms(gradients) == {"output": 13.0, "decoder.layers.11": 17.0}
    assert layer_norms({}) == {}
