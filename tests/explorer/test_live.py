"""A run is what was chosen, checked before it is built; nobody's weights are touched, and too large is shapes only."""

from __future__ import annotations

import dataclasses
import json
import threading

import pytest
import torch

from explorer.detail import detail_payload
from explorer.limits import Limits
from explorer.live import Live, Trained, run, shell
from explorer.payload import explore_payload, strip_payload
from explorer.refusals import Refusal
from explorer.session import Session
from transformer_core import build, tasks, trace

LIMITS = Limits()
CROSS = "decoder.layers.1.cross_attention/weights"


def live_of(limits: Limits = LIMITS, **choices: object) -> Live:
    return run(Session.of_preset().change(**choices), None, None, limits)


def trained_on(task: str = "copy", seed: int = 3) -> Trained:
    """A model in the shape of a task, with weights that no fresh model of this seed has."""
    found = tasks.get(task)
    model = build(found.model, found.masks, seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.125)
    return Trained(model, found.model, found.masks, task, 40, seed)


def of_task(trained: Trained, **choices: object) -> Session:
    """The session in which Explore shows a trained model."""
    config = trained.config
    names = ("architecture", "d_model", "n_heads", "n_encoder_layers", "n_decoder_layers", "d_ff", "norm_order")
    fields = {name: getattr(config, name) for name in (*names, "activation", "positions", "dropout")}
    session = Session.of_preset().change(**fields, weights="trained", tokens="task", task=trained.task)
    return session.change(**choices)


# --------------------------------------------------------------------------------------------------------- the same run


def test_a_run_is_the_library_run_on_the_same_settings():
    live = live_of()
    session = live.session
    model = build(session.model_config(), session.mask_config(), session.seed).eval()
    with torch.no_grad(), trace(model) as ledger:
        model(live.batch.src, live.batch.tgt)
    assert live.ledger.keys() == ledger.keys()
    assert all(torch.equal(live.ledger[key].value, ledger[key].value) for key in ledger.keys())
    assert not live.model.training
    assert all(result.passed for result in live.results)


def test_the_weights_are_kept_while_nothing_that_shapes_them_changes():
    first = live_of()
    for change in ({"decoder_self": ("padding",)}, {"fill": "-inf"}, {"src_len": 11}, {"mode": "train"}):
        again = run(first.session.change(**change), first, None, LIMITS)
        pairs = zip(first.model.parameters(), again.model.parameters(), strict=True)
        assert all(one is other for one, other in pairs), change
    for change in ({"seed": 8}, {"d_ff": 64}, {"dtype": "float64"}, {"norm_order": "pre"}):
        again = run(first.session.change(**change), first, None, LIMITS)
        assert next(again.model.parameters()) is not next(first.model.parameters()), change


def test_large_weights_do_not_stay_with_the_run(monkeypatch):
    kept = live_of()
    assert not next(kept.model.parameters()).is_meta
    monkeypatch.setattr("explorer.live.KEPT_BYTES", 1000)
    freed = live_of()
    assert all(parameter.is_meta for parameter in freed.model.parameters())
    assert freed.ledger["logits"].value.equal(kept.ledger["logits"].value)
    again = run(freed.session, freed, None, LIMITS)
    assert again.ledger["logits"].value.equal(kept.ledger["logits"].value)


def test_in_float64_half_as_many_parameters_fit():
    parameters = live_of().cost.parameters
    limits = dataclasses.replace(LIMITS, max_parameters=parameters)
    assert not live_of(limits).shapes_only
    assert live_of(limits, dtype="float64").shapes_only


def test_one_choice_told_twice_is_one_run_and_another_is_another():
    assert live_of().id == live_of().id
    assert len({live_of().id, live_of(seed=8).id, live_of(fill="-inf").id, live_of(mode="train").id}) == 4


def test_reused_weights_give_the_numbers_of_a_fresh_build():
    first = live_of()
    session = first.session.change(decoder_self=("padding", "window:2"), pad_side="left")
    reused, fresh = run(session, first, None, LIMITS), run(session, None, None, LIMITS)
    assert all(torch.equal(reused.ledger[key].value, fresh.ledger[key].value) for key in fresh.ledger.keys())


def test_an_older_run_keeps_its_masks_and_mode_when_a_newer_one_shares_its_weights():
    first = live_of()
    run(
        first.session.change(encoder_self=("padding", "causal"), fill="-inf", mode="train", dropout=0.5),
        first,
        None,
        LIMITS,
    )
    assert first.model.masks.encoder_self == ("padding",)
    assert not first.model.training
    again = run(first.session, first, None, LIMITS)
    assert torch.equal(again.ledger[CROSS].value, first.ledger[CROSS].value)


def test_dropout_noise_repeats_with_the_seed():
    first = live_of(mode="train", dropout=0.4)
    again = run(first.session, first, None, LIMITS)
    other = run(first.session.change(seed=8), None, None, LIMITS)
    assert first.model.training
    assert torch.equal(first.ledger["logits"].value, again.ledger["logits"].value)
    assert not torch.equal(first.ledger["logits"].value, other.ledger["logits"].value)
    # dropout was really on: the same weights in evaluation mode give something else
    still = run(first.session.change(mode="eval"), first, None, LIMITS)
    assert not torch.equal(still.ledger["logits"].value, first.ledger["logits"].value)


def test_a_shell_shares_parameters_and_nothing_that_a_forward_changes():
    first = live_of()
    other = shell(first.model, first.model.masks, True, 5)
    assert other.noise is not first.model.noise
    assert all(module.training for module in other.modules())
    assert not any(module.training for module in first.model.modules())
    buffers = zip(first.model.buffers(), other.buffers(), strict=True)
    assert all(one is not two for one, two in buffers)


def test_two_tabs_at_once_do_not_mix_their_ledgers():
    wanted = {length: run(Session.of_preset().change(src_len=length), None, None, LIMITS) for length in (5, 9)}
    found: dict[tuple[int, int], Live] = {}

    def tab(length: int) -> None:
        for turn in range(4):
            found[length, turn] = run(Session.of_preset().change(src_len=length), wanted[length], None, LIMITS)

    threads = [threading.Thread(target=tab, args=(length,)) for length in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    for (length, _), live in found.items():
        assert live.ledger.sizes["S"] == length
        assert torch.equal(live.ledger["logits"].value, wanted[length].ledger["logits"].value)


# ------------------------------------------------------------------------------------------------------ trained weights


def test_trained_weights_are_read_and_never_written():
    trained = trained_on()
    before = {name: value.clone() for name, value in trained.model.state_dict().items()}
    live = run(of_task(trained, mode="train", dropout=0.3, batch_size=3), None, trained, LIMITS)
    assert live.trained is trained
    assert live.notices == ()
    assert live.batch.src.shape[0] == 3
    state = live.model.state_dict()
    assert all(torch.equal(state[name], value) for name, value in before.items())
    assert all(torch.equal(trained.model.state_dict()[name], value) for name, value in before.items())
    theirs = {value.data_ptr() for value in trained.model.state_dict().values()}
    assert not theirs & {value.data_ptr() for value in state.values()}
    assert live.batch.labels is not None


def test_trained_weights_that_no_longer_fit_give_fresh_ones_and_say_so():
    trained = trained_on()
    wider = trained.config.d_model * 2
    live = run(of_task(trained, d_model=wider), None, trained, LIMITS)
    assert live.trained is None
    assert live.model.config.d_model == wider
    [notice] = live.notices
    assert f"d_model {trained.config.d_model} → {wider}" in notice.text("en")
    assert str(live.session.seed) in notice.text("zh")


def test_trained_without_a_trained_model_is_fresh_and_says_so():
    live = live_of(weights="trained")
    assert live.trained is None
    assert [notice.key for notice in live.notices] == ["notices.nothing_trained"]
    assert torch.equal(live.ledger["logits"].value, live_of().ledger["logits"].value)


def test_masks_of_a_trained_model_can_be_changed_to_see_what_breaks():
    trained = trained_on()
    plain = run(of_task(trained), None, trained, LIMITS)
    open_masks = run(of_task(trained, decoder_self=("padding",)), plain, trained, LIMITS)
    assert open_masks.trained is trained
    assert not torch.equal(plain.ledger["logits"].value, open_masks.ledger["logits"].value)


# --------------------------------------------------------------------------------------------------------------- limits


def test_a_model_too_large_for_the_host_is_laid_out_and_not_computed():
    live = run(Session.of_preset("paper_big"), None, None, LIMITS)
    assert live.shapes_only and live.device == "meta"
    assert all(entry.value.is_meta for entry in live.ledger)
    assert live.ledger[CROSS].shape[1] == 16
    assert (
        live.cost.parameters == sum(parameter.numel() for parameter in live.model.parameters()) > LIMITS.max_parameters
    )
    assert live.cost.activation_bytes == live.ledger.total_bytes
    payload = explore_payload(live, "en")
    assert payload["shapes_only"] and payload["maps"] == {}
    assert payload["detail"]["tensor"]["shape"] == list(live.ledger[payload["selected"]["key"]].shape)
    assert "values" not in payload["detail"]["tensor"]
    assert payload["detail"]["code"] and payload["detail"]["formula"]


@pytest.mark.parametrize("limit", ["max_parameters", "max_ledger_bytes", "max_flops"])
def test_each_limit_alone_makes_it_shapes_only(limit):
    fits = live_of()
    facts = {
        "max_parameters": fits.cost.parameters,
        "max_ledger_bytes": fits.ledger.total_bytes,
        "max_flops": fits.cost.flops,
    }
    at_the_limit = dataclasses.replace(LIMITS, **{limit: facts[limit]})
    below = dataclasses.replace(LIMITS, **{limit: facts[limit] - 1})
    assert not live_of(at_the_limit).shapes_only
    assert live_of(below).shapes_only


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        ({"n_heads": 7}, "64 is not divisible by 7"),
        ({"d_model": 1 << 20}, "d_model"),
        ({"src_len": True}, "src_len"),
        ({"dropout": float("nan")}, "dropout"),
        ({"batch_size": 10**9}, "batch_size"),
        ({"dtype": "int8"}, "dtype"),
        ({"encoder_self": ("window:0",)}, "window:0"),
        ({"tokens": "text", "src_text": "a b", "tgt_text": ""}, "at least one sentence"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_is_built(choice, said, monkeypatch):
    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("built")

    monkeypatch.setattr("explorer.live.build", forbidden)
    with pytest.raises(Refusal, match=said) as caught:
        live_of(**choice)
    assert caught.value.text("zh")


def test_a_vocabulary_too_small_for_the_text_is_refused_in_the_cores_words():
    text = " ".join(f"w{n}" for n in range(120))
    with pytest.raises(Refusal, match="vocab"):
        live_of(tokens="text", src_text=text, tgt_text="x")


def test_a_device_that_is_not_there_falls_back_to_the_cpu_and_says_so(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    live = live_of(device="cuda")
    assert live.device == "cpu"
    assert [notice.key for notice in live.notices] == ["notices.no_device"]


# --------------------------------------------------------------------------------------------------- runs that go wrong


def test_a_forward_that_stops_keeps_its_rows_and_its_reason():
    live = live_of(fill="-1e9", dtype="float16")
    keys = live.ledger.keys()
    assert keys[-1] == "encoder.layers.0.self_attention/allowed"
    assert "-1e9" in live.error and "float16" in live.error
    assert len(live.results) > 0
    assert strip_payload(live, "en")["verdict"] == "fails"
    payload = explore_payload(live, "zh")
    assert live.error in payload["error"]
    assert payload["selected"]["key"] == keys[-1]
    assert len(payload["rows"]) == len(keys)


def test_a_nan_fill_runs_to_the_end_and_the_checks_see_it():
    live = live_of(fill="-inf", pad_side="left")
    assert live.error == ""
    assert not all(result.passed for result in live.results)
    strip = strip_payload(live, "en")
    assert strip["verdict"] == "fails"
    assert strip["held"] < strip["total"] == len(strip["ticks"])
    text = json.dumps(explore_payload(live, "en"), allow_nan=False)
    assert "NaN" in text


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_every_dtype_runs_and_its_masked_keys_are_exactly_zero(dtype):
    live = live_of(dtype=dtype)
    assert live.error == ""
    weights, allowed = live.ledger[CROSS].value, live.ledger[CROSS.replace("weights", "allowed")].value
    assert weights.dtype == getattr(torch, dtype)
    assert weights[~allowed].abs().max() == 0


# ------------------------------------------------------------------------------------------------------------ the strip


def test_the_strip_counts_what_holds_in_both_languages():
    live = live_of()
    english, chinese = strip_payload(live, "en"), strip_payload(live, "zh")
    total = len(live.results)
    assert english["verdict"] == "holds" and english["sentence"] == f"{total} of {total} checks hold"
    assert chinese["sentence"].startswith(f"{total} / {total}")
    assert english["counts"][0] == [str(len(live.ledger)), "tensors"]
    assert english["counts"][1][0] == f"{live.cost.parameters:,}"
    assert english["facts"][1:] == ["eval mode", "float32", "cpu", "seed 7"]
    assert {tick["state"] for tick in english["ticks"]} == {"holds"}


def test_the_strip_names_train_mode_and_a_warning():
    noisy = strip_payload(live_of(mode="train", dropout=0.1), "en")
    assert any("dropout 0.1" in fact for fact in noisy["facts"])
    blind = strip_payload(live_of(pad_side="left"), "en")
    assert blind["verdict"] == "warning"
    assert "no key" in blind["sentence"]


def test_details_outside_the_run_are_moved_into_it_or_refused():
    live = live_of()
    assert detail_payload(live, "no/such", 0, 0, "en") is None
    found = detail_payload(live, CROSS, 99, -3, "en")
    assert (found["sample"], found["head"]) == (1, 0)
