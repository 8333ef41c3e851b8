"""The divergence doctor: every kind of trouble, made on purpose, is recognised by a measure, and no run is wronged."""

import functools
import math
import string

import pytest
import torch

from transformer_core import tasks
from transformer_core.config import MaskConfig, TrainConfig
from transformer_core.doctor import CAUSES, KINDS, REMEDIES, Diagnosis, Vitals, diagnose
from transformer_core.doctor.vitals import sharp, squares
from transformer_core.model import build
from transformer_core.training import NonFinite, StepReport, layer_norms, loss_and_accuracy, train

pytestmark = pytest.mark.usefixtures("unchecked_shapes")  # trained models: the checks of shapes would double the time

REVERSE = tasks.get("reverse")
SMALL = {"d_model": 32, "n_heads": 4, "d_ff": 48, "n_layers": 1}
STEADY = {"schedule": "constant", "warmup": 0}


def case(model=None, training=None, masks=None, task=REVERSE, seed=7, steps=50, prepare=lambda model: None):
    """A small model trained for so many steps, or as far as it came: all that the doctor is given."""
    model = build(task.model.replace(**SMALL | (model or {})), masks or task.masks, seed=seed)
    prepare(model)
    config = task.training.replace(**{"steps": steps, "batch_size": 32} | (training or {}))
    reports, error = [], None
    try:
        reports.extend(train(model, task, config, seed))
    except NonFinite as caught:
        error = caught
    return model, task, config, reports, error, seed


def found(*given, **more):
    return told(diagnose(*case(*given, **more)))


def told(diagnosis):
    """The diagnosis, whose sentence holds no gap and no number of ten figures."""
    assert isinstance(diagnosis, Diagnosis) and diagnosis.kind in KINDS
    assert "{" not in str(diagnosis) and not any(len(word) > 12 for word in str(diagnosis).split() if word[0].isdigit())
    return diagnosis


@functools.cache
def still(steps=50):
    """A run that a rate of next to nothing left where it began."""
    return case(training={**STEADY, "lr": 1e-6}, steps=steps)


# ---- a run that stopped


def test_a_query_without_a_key_under_the_fill_inf():
    hidden = MaskConfig(fill="-inf", encoder_self=("custom",), encoder_self_custom=((False,) * 7, *((True,) * 7,) * 6))
    diagnosis = found(masks=hidden)
    assert (diagnosis.kind, diagnosis.cause, diagnosis.change) == ("not_finite", "no_visible_key", {"fill": "exclude"})
    assert diagnosis.tensor == "encoder.layers.0.self_attention/weights"
    assert diagnosis.evidence["rows"] * 7 == diagnosis.evidence["of"] == 40 * 4 * 7, "one row of seven, in every head"
    assert diagnose(*case(masks=hidden.replace(fill="exclude"))) is None, "the change that was to be tried"


def test_a_rate_that_explodes():
    """H28: the run stops at the first NaN or infinity; without a norm nothing holds the weights back."""
    model, task, config, reports, error, seed = case({"norm": "none"}, {**STEADY, "lr": 100.0, "clip_norm": None})
    assert error is not None and len(reports) == error.step - 1
    diagnosis = told(diagnose(model, task, config, reports, error, seed))
    assert (diagnosis.kind, diagnosis.cause, diagnosis.tensor) == ("not_finite", "weights_grown", error.tensor)
    assert diagnosis.evidence["grown"] > 10 and diagnosis.change["lr"] < 0.01
    assert diagnose(*case({"norm": "none"}, {**STEADY, **diagnosis.change, "clip_norm": None})) is None


def test_a_weight_that_is_no_number_is_named_and_blamed_on_no_rate():
    model, *rest = still()
    broken = build(model.config, model.masks, seed=7)
    broken.decoder.layers[0].feed_forward.w_2.weight.data[3, 4] = math.nan
    error = NonFinite(51, "loss", "decoder.layers.0.feed_forward/output", "NaN")
    diagnosis = told(diagnose(broken, *rest[:3], error, 7))
    assert (diagnosis.cause, diagnosis.tensor) == ("weight_broken", "decoder.layers.0.feed_forward.w_2.weight")
    assert diagnosis.change == {} and diagnosis.evidence["grown"] == pytest.approx(1, abs=0.01)


def test_what_no_measure_explains_is_said_to_be_so():
    model, *rest = still()
    error = NonFinite(51, "gradient", "the norm of all gradients", "infinity")
    diagnosis = told(diagnose(model, *rest[:3], error, 7))
    assert diagnosis.cause == "overflow" and "Nothing else that was measured stands out" in str(diagnosis)
    assert 1 < diagnosis.evidence["largest"] < 100 and diagnosis.change == {"lr": 2e-7}


# ---- a run that does not learn


def test_a_rate_of_next_to_nothing():
    diagnosis = told(diagnose(*still()))
    assert (diagnosis.kind, diagnosis.cause) == ("slow_start", "rate_low")
    assert diagnosis.evidence["moved"] < 0.1 and diagnosis.change["lr"] == pytest.approx(0.01 * 32**-0.5, rel=0.1)


def test_a_warm_up_that_takes_longer_than_the_run():
    diagnosis = found(training={"lr": 1.0, "warmup": 4000})
    assert (diagnosis.kind, diagnosis.cause) == ("slow_start", "warmup_long")
    assert diagnosis.change == {"warmup": 5} and diagnosis.evidence["warmup"] == 4000


def test_a_rate_too_high_that_stays_finite():
    diagnosis = found(training={**STEADY, "lr": 0.1})
    assert (diagnosis.kind, diagnosis.cause) == ("rate_too_high", "weights_grown")
    assert diagnosis.evidence["grown"] > 1.5 and 0.001 < diagnosis.change["lr"] < 0.003


def test_a_deep_post_norm_at_a_rate_that_pre_norm_bears():
    """H33, the setting of it: 6 + 6 layers at 1e-2. What is measured is that the gradient reaches the first no more."""
    deep = {"n_layers": 6}
    diagnosis = found(deep, {**STEADY, "lr": 1e-2, "batch_size": 8})
    assert (diagnosis.kind, diagnosis.cause) == ("rate_too_high", "gradient_lost")
    assert diagnosis.evidence["least"] < 1e-3 < diagnosis.evidence["at_start"]
    assert diagnosis.change["lr"] == pytest.approx(0.01 * 32**-0.5, rel=0.1)
    assert diagnose(*case({**deep, "norm_order": "pre"}, {**STEADY, "lr": 1e-2, "batch_size": 8})) is None


def test_scores_that_are_not_scaled_saturate_the_softmax():
    wide = {"d_model": 256, "n_heads": 1, "d_ff": 32, "scale_scores": False}
    diagnosis = found(wide, {"batch_size": 16})
    assert (diagnosis.kind, diagnosis.cause) == ("saturated_attention", "unscaled")
    assert diagnosis.tensor.endswith("_attention/weights") and diagnosis.change == {"scale_scores": True}
    assert diagnosis.evidence["sharp"] > 90 > 50 > diagnosis.evidence["if_scaled"]


def test_hidden_units_that_are_always_0():
    def kill(model):
        for stack in (model.encoder, model.decoder):
            stack.layers[0].feed_forward.w_1.bias.data.fill_(-9.0)

    diagnosis = found(prepare=kill)
    assert (diagnosis.kind, diagnosis.cause) == ("dead_units", "units_dead")
    assert diagnosis.evidence["dead"] == 100 and diagnosis.change == {"activation": "gelu"}
    assert diagnosis.tensor == "encoder.layers.0.feed_forward/hidden"


def test_a_model_that_cannot_tell_the_order():
    diagnosis = found({"positions": "none"})
    assert (diagnosis.kind, diagnosis.change) == ("blind_to_order", {"positions": "sinusoidal"})
    assert diagnosis.evidence["effect"] < 1e-5


def test_a_model_whose_decoder_does_not_see_the_source():
    blind = MaskConfig(cross=("custom",), cross_custom=((False,) * 7,) * 8)
    diagnosis = found(masks=blind)
    assert (diagnosis.kind, diagnosis.change) == ("blind_to_source", {"cross": ("padding",)})


def a_curve(losses, rate=0.001):
    return [StepReport(step, loss, 0.1, rate, 1.0, 1.0) for step, loss in enumerate(losses, start=1)]


def moved(seed=7, by=0.05):
    """A model that has moved some way from the weights of its seed, in no direction that was learned."""
    model, generator = build(REVERSE.model.replace(**SMALL), REVERSE.masks, seed=seed), torch.Generator().manual_seed(1)
    for weight in model.parameters():
        weight.data += by * weight.data.std().nan_to_num(0.0) * torch.randn(weight.shape, generator=generator)
    return model


def test_a_stall_at_the_blind_loss_is_called_one_only_where_the_recipe_would_have_learned():
    """With nothing found the measures that were in order are named, and the recipe's own rate is what to try."""
    blind = REVERSE.blind_loss(0.1)
    config = REVERSE.training.replace(lr=0.05)
    assert diagnose(moved(), REVERSE, config, a_curve([blind] * 300), None, 7) is None
    diagnosis = told(diagnose(moved(), REVERSE, config, a_curve([blind] * 400), None, 7))
    assert (diagnosis.kind, diagnosis.cause, diagnosis.change) == ("stall", "nothing_found", {"lr": 0.2})
    assert diagnosis.evidence["loss"] == pytest.approx(blind, rel=0.01) == diagnosis.evidence["blind"]
    diagnosis = told(diagnose(moved(), REVERSE, REVERSE.training, a_curve([blind] * 400), None, 7))
    assert (diagnosis.remedy, diagnosis.change) == ("recipe_model", {})


def test_a_loss_that_is_thrown_back():
    curve = a_curve([2.4] * 30 + [1.0] * 40 + [2.3] * 25)
    diagnosis = told(diagnose(moved(), REVERSE, REVERSE.training, curve, None, 7))
    assert (diagnosis.kind, diagnosis.cause) == ("rate_too_high", "thrown_back")
    assert diagnosis.evidence["best"] == 1.0 and diagnosis.evidence["loss"] == 2.3
    assert 50 <= diagnosis.evidence["best_step"] <= 70


def test_a_loss_that_falls_or_has_fallen_is_no_case():
    for losses in ([2.4 - 0.02 * n for n in range(80)], [2.4] * 40 + [0.6] * 400):
        assert diagnose(moved(), REVERSE, REVERSE.training, a_curve(losses), None, 7) is None


# ---- no false alarm


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("name", ["copy", "first_last"])
def test_a_healthy_run_is_left_alone(name, seed):
    """At every look, also where first_last is still at the loss of guessing, as it is for hundreds of steps."""
    *given, reports, error, _ = case(None, {"batch_size": 16}, task=tasks.get(name), seed=seed, steps=100)
    assert error is None
    for step in (0, 1, 20, 49):
        assert diagnose(*given, reports[:step], None, seed) is None
    assert diagnose(*given, reports, None, seed) is None


def test_the_run_does_not_feel_the_doctor():
    """With dropout on: the same losses whether he comes after every step or never. Every module keeps its mode."""
    sizes = {**SMALL, "dropout": 0.2, "norm": "batch", "tie_weights": True}
    config = TrainConfig(steps=4, batch_size=6, lr=1e-6)

    def losses(visited):
        model = build(REVERSE.model.replace(**sizes), REVERSE.masks, seed=7)
        seen = []
        for report in train(model, REVERSE, config, 7):
            seen.append(report.loss)
            if visited:
                modes = [module.training for module in model.modules()]
                gradients = [weight.grad.clone() for weight in model.parameters()]
                assert diagnose(model, REVERSE, config, a_curve([3.0] * 60), None, 7) is not None
                assert diagnose(model, REVERSE, config, [], NonFinite(1, "loss", "logits", "NaN"), 7) is not None
                Vitals(model, REVERSE, 7).least_gradient(), Vitals(model, REVERSE, 7).deadest()
                assert modes == [module.training for module in model.modules()]
                assert all(torch.equal(one, weight.grad)
                           for one, weight in zip(gradients, model.parameters(), strict=True))  # fmt: skip
        return seen

    before = torch.get_rng_state()
    assert losses(True) == losses(False) and torch.equal(torch.get_rng_state(), before)


# ---- the measures


def test_the_weights_are_measured_against_those_of_the_seed():
    model = moved(by=0.0)
    vitals = Vitals(model, REVERSE, 7)
    assert (vitals.moved, vitals.grown, vitals.broken_weight) == (0.0, 1.0, "")
    assert vitals.weight_size == pytest.approx(32**-0.5, rel=0.1)
    for weight in model.parameters():
        weight.data *= 3
    vitals = Vitals(model, REVERSE, 7)
    assert (vitals.moved, vitals.grown) == pytest.approx((2.0, 3.0))


def test_the_least_gradient_is_that_of_the_library():
    model, batch = moved(), Vitals(moved(), REVERSE, 7).batch
    part, share = Vitals(model, REVERSE, 7).least_gradient()
    model.eval()
    loss_and_accuracy(model, batch)[0].backward()
    norms = layer_norms({name: weight.grad for name, weight in model.named_parameters()})
    assert part == min(norms, key=norms.get) and share == pytest.approx(norms[part] / max(norms.values()))


def test_sharp_rows_by_hand():
    """Three rows: one key has all the weight, an even one, and one with a single key to choose from."""
    weights = torch.tensor([[0.995, 0.005], [0.5, 0.5], [1.0, 0.0]])
    allowed = torch.tensor([[True, True], [True, True], [True, False]])
    assert sharp(weights, allowed) == 0.5 and sharp(weights[2:], allowed[2:]) == 0.0
    assert squares([torch.tensor([3.0, math.nan]), torch.tensor([4.0, math.inf])]) == 25.0


def test_every_sentence_has_its_place_and_its_values():
    """Causes and remedies are one table of words to the page, so no key is in both."""
    assert not set(CAUSES) & set(REMEDIES)
    for sentence in (*CAUSES.values(), *REMEDIES.values()):
        names = [name for _, name, _, _ in string.Formatter().parse(sentence) if name is not None]
        assert all(names) and sentence.endswith(".")
