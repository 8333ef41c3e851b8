"""Rows without keys, enormous scores, half precision; and the procedures: targets, loss, steps and shown weights."""

from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tests.probe_cases import DECODER, ENCODER, SMALL, probe, subject, verdict
from transformer_core import load_preset, tasks
from transformer_core.checks import extremes, procedures
from transformer_core.checks.extremes import NEAR
from transformer_core.checks.probes import Probe, probe_of
from transformer_core.config import MaskConfig
from transformer_core.ledger import trace
from transformer_core.workshop import altered

MASKED = "visible = scores.masked_fill(~allowed, -math.inf)"


def passes(name: str, *args: Any, **how: Any) -> Any:
    result = verdict(name, *args, **how)
    assert result is not None and result.passed, result
    return result


def fails(name: str, *args: Any, **how: Any) -> Any:
    result = verdict(name, *args, **how)
    assert result is not None and not result.passed, result
    return result


# Rows without keys.


def test_empty_rows_counts_them_by_hand() -> None:
    """H01: of first_look's probe (3 sentences, S 7, T 5) one is padding only: 4 heads, 2 layers, three attentions."""
    preset = load_preset("first_look")
    result = passes("empty_rows", preset.model, preset.masks, batch=preset.batch(7))
    assert result.facts["rows"] == 4 * 2 * (7 + 5 + 5)
    unmasked = MaskConfig(encoder_self=(), decoder_self=("causal",), cross=())
    assert verdict("empty_rows", masks=unmasked) is None, "there every query sees a key"


def test_an_empty_row_gives_the_bias_of_the_output_projection() -> None:
    """H01: context 0, so that what attention adds is the bias alone; all other rows are as usual."""
    about = probe(ENCODER)
    tokens = about.words("src", 3, 7)
    tokens[1] = 0
    with torch.no_grad(), trace(about.model) as ledger:
        about.model.encode(tokens)
    output = ledger["encoder.layers.0.self_attention/output"].value
    bias = about.model.encoder.layers[0].self_attention.w_o.bias
    assert torch.equal(output[1], bias.expand(7, 12)) and not torch.equal(output[0], bias.expand(7, 12))


@pytest.mark.parametrize(
    "wrong",
    [
        "visible = scores.masked_fill(~allowed, torch.finfo(scores.dtype).min)",
        "visible = scores - 1e4 * (~allowed)",
        "return scores.masked_fill(~allowed, -math.inf).softmax(dim=-1)",
    ],
)
def test_empty_rows_convicts_attention_to_padding_and_nan(wrong: str) -> None:
    result = fails("empty_rows", shop=altered("attention.masked_softmax", MASKED, wrong))
    assert result.sentence == "fails" and result.facts["weights"] == result.facts["rows"]
    assert (result.facts["gradients"] > 0) == ("-math.inf" in wrong)


@pytest.mark.parametrize("fill", ["-inf", "finfo_min", "-1e9"])
def test_a_fill_that_was_chosen_is_named(fill: str) -> None:
    result = fails("empty_rows", masks=MaskConfig(fill=fill))
    assert result.sentence == "fill" and result.finding.startswith(f"the fill {fill} gives")
    assert (result.facts["gradients"] > 0) == (fill == "-inf")


# Enormous scores.


@pytest.mark.parametrize(
    "wrong", ["visible = scores.masked_fill(~allowed, -1e4)", "visible = scores - 1e4 * (~allowed)",
              "visible = scores.masked_fill(~allowed, -1e7)"],
)  # fmt: skip
def test_hidden_scores_convicts_fills_that_ordinary_scores_respect(wrong: str) -> None:
    """At ordinary scores exp(-10000) is exactly 0, and no look at one run finds anything."""
    shop = altered("attention.masked_softmax", MASKED, wrong)
    masks = MaskConfig(decoder_self=("causal",))
    assert fails("hidden_scores", DECODER, masks, shop).facts["weight"] == 1.0
    passes("decoder_leak", DECODER, masks, shop)
    if wrong.endswith("-1e4)"):  # the two others do not go with half precision
        passes("dtypes", DECODER, masks, shop)


@pytest.mark.parametrize("fill", ["exclude", "-inf", "finfo_min", "-1e9"])
def test_hidden_scores_are_below_what_the_offered_fills_hide(fill: str) -> None:
    result = passes("hidden_scores", masks=MaskConfig(fill=fill))
    assert 1e7 < result.facts["score"] < 1e9 and result.facts["hidden"] > 0


def test_hidden_scores_convicts_a_mask_after_the_softmax() -> None:
    """Its hidden weights are 0; but an enormous hidden score leaves nothing to the visible keys."""
    wrong = "weights = scores.softmax(dim=-1) * visible_pairs(allowed, scores)"
    shop = altered("attention.attend", "weights = masked_softmax(scores, allowed, fill)", wrong)
    result = fails("hidden_scores", shop=shop)
    assert result.facts["seen"] == 0 and result.facts["odd"] > 0


def test_hidden_scores_counts_the_queries_that_are_hidden_from_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted a second way: rows that may see themselves and nothing else, in 3 heads and 2 layers."""
    drawn: list[dict[str, torch.Tensor]] = []
    draw = Probe.batch
    about = subject(DECODER, shop=altered("masks.causal", "key <= query", "key < query"))
    found = probe_of(about)
    assert found is not None
    monkeypatch.setattr(Probe, "batch", lambda self, rows=None: drawn.append(draw(self, rows)) or drawn[-1])
    result = extremes.hidden_scores.run(about)
    assert result is not None and not result.passed
    view = found.views(drawn[0])["decoder_self"]
    own = view & torch.eye(view.shape[-1], dtype=torch.bool)
    lonely = own.any(dim=-1) & ~(view & ~own).any(dim=-1)
    assert result.facts["odd"] == 2 * int(lonely.sum()) and result.facts["seen"] == 0


# Half precision.


def test_every_dtype_is_as_near_as_its_rounding() -> None:
    """H10: in all four the hidden probability is exactly 0."""
    facts = passes("dtypes").facts
    assert facts["float64"] < facts["float32"] < facts["float16"] < facts["bfloat16"] < NEAR[torch.bfloat16]
    assert facts["float32"] > 1e-9 and facts["hidden"] > 0


def test_dtypes_convicts_a_fill_that_does_not_fit() -> None:
    """H10: -1e9 cannot be converted to float16, and a mask in float32 does not meet scores in half precision."""
    shop = altered("attention.masked_softmax", MASKED, "visible = scores.masked_fill(~allowed, -1e9)")
    result = fails("dtypes", shop=shop)
    assert result.sentence == "stops" and "overflow" in result.finding
    result = passes("dtypes", masks=MaskConfig(fill="-1e9"))
    assert result.sentence == "holds_fill", "the library refuses that in words"


def test_dtypes_convicts_a_small_fill_and_a_result_of_another_dtype() -> None:
    small = altered("attention.masked_softmax", MASKED, "visible = scores.masked_fill(~allowed, -10.0)")
    result = fails("dtypes", ENCODER, shop=small)
    assert result.sentence == "fails_hidden" and result.facts["first"] == "float64"
    wide = altered("model.Transformer.encode", "memory = self.encoder(", "memory = 1.0 * self.encoder(")
    passes("dtypes", ENCODER, shop=wide)
    text = 'note("memory", memory, "B S D")\n        return memory'
    wide = altered("model.Transformer.encode", text, text.replace("return memory", "return memory.double()"))
    result = fails("dtypes", ENCODER, shop=wide)
    assert result.sentence == "fails_dtype" and result.facts["first"] == "float32" and result.facts["got"] == "float64"


def test_dtypes_convicts_sums_that_a_half_cannot_hold() -> None:
    """The mean square of numbers of size 300 is 90000, more than float16 has."""
    wrong = "x = x + 1e-9 * (300 * x).square()"
    shop = altered("layers.FeedForward.forward", "hidden = self", wrong + "; hidden = self")
    result = fails("dtypes", ENCODER.replace(d_model=24), shop=shop)
    assert result.facts["first"] == "float16" and not result.facts["off"] <= NEAR[torch.float16]


# Targets.


def test_target_shift_counts_every_place() -> None:
    """Four questions of each task that writes, a target of its own and one batch for the loss."""
    result = passes("target_shift")
    writing = [name for name, task in tasks.TASKS.items() if task.model.has_decoder]
    assert result.facts["tasks"] == ", ".join(writing) and result.facts["places"] >= 2 * 4 * 4 + 5 * 5 + 5 * 6
    assert passes("target_shift", DECODER).passed and verdict("target_shift", ENCODER) is None


@pytest.mark.parametrize(
    ("place", "right", "wrong", "first"),
    [
        ("tasks.base.shift", "return target[:, :-1], target[:, 1:]", "return target[:, 1:], target[:, 1:]", "copy"),
        ("tasks.base.shift", "return target[:, :-1], target[:, 1:]", "return target[:, :-2], target[:, 2:]", "copy"),
        ("tasks.letters.draw", "decoder_input, labels)", "decoder_input, labels.roll(-1, 1))", "copy"),
        ("training.loss.loss_and_accuracy", "logits = ask(model, batch)", "logits = ask(model, batch).roll(1, 1)",
         "loss_and_accuracy"),
        ("training.loss.ask", "(batch.src, batch.tgt)",
         "(batch.src, None if batch.tgt is None else batch.tgt.roll(-1, 1))", "loss_and_accuracy"),
    ],
)  # fmt: skip
def test_target_shift_convicts_no_shift_and_a_second_one(place: str, right: str, wrong: str, first: str) -> None:
    """H23: decoder input [BOS, a, b], labels [a, b, EOS]; not shifted, or shifted again in the task or in the loss."""
    result = fails("target_shift", shop=altered(place, right, wrong))
    assert result.facts["first"] == first and result.measured > 0


# Loss.


def test_loss_padding_convicts_a_mean_over_all_places() -> None:
    """H24: 0.169202 instead of 0.507606 - here the loss over padding is recomputed beside the check."""
    shop = altered("training.loss.smoothed_cross_entropy", "real = targets != pad_id", "real = targets != -100")
    about = subject(DECODER, shop=shop)
    result = procedures.loss_padding.run(about)
    assert result is not None and not result.passed and result.measured > 1e-3
    divided = "loss = -log_p.gather(-1, targets[real][:, None]).mean()"
    by_padding_too = divided.replace("mean()", "sum() / targets.numel()")
    by_all = altered("training.loss.smoothed_cross_entropy", divided, by_padding_too)
    result = fails("loss_padding", DECODER, shop=by_all)
    padded, targets = result.facts["padded"], result.facts["targets"]
    assert result.measured == pytest.approx(padded / targets), "each share is too small by that part"


def test_loss_padding_with_another_padding_id_and_smoothing() -> None:
    assert passes("loss_padding", SMALL.replace(pad_id=5)).measured < 1e-14
    smoothed = "loss = (1 - smoothing) * loss - smoothing * log_p.mean()"
    shop = altered("training.loss.smoothed_cross_entropy", smoothed, smoothed.replace("log_p.mean()", "log_p.sum()"))
    assert fails("loss_padding", shop=shop).facts["first"] == "loss", "only with smoothing"
    assert verdict("loss_padding", ENCODER.replace(n_classes=3)) is None


def test_loss_padding_looks_at_the_gradient_too() -> None:
    """The loss is right, and a detach stops what it should teach."""
    right = "log_p = logits[real].log_softmax(dim=-1)"
    wrong = "log_p = logits[real].detach().log_softmax(dim=-1) + 0 * logits.sum()"
    shop = altered("training.loss.smoothed_cross_entropy", right, wrong)
    assert fails("loss_padding", shop=shop).facts["first"] == "gradient"


def test_the_loss_of_the_check_is_torchs_own() -> None:
    logits, targets = torch.tensor([[2.0, 1.0, 0.0]]), torch.tensor([0])
    assert float(F.cross_entropy(logits, targets, label_smoothing=0.1)) == pytest.approx(0.507606, abs=1e-6)


# Steps.


@pytest.mark.parametrize("config", [SMALL, DECODER, ENCODER.replace(n_classes=3), SMALL.replace(norm="batch")], ids=str)
def test_two_steps_have_one_norm(config: Any) -> None:
    assert passes("fresh_gradients", config.replace(dropout=0.3)).facts["one"] > 0
    assert verdict("fresh_gradients", ENCODER) is None, "without classes it answers nothing"


def test_fresh_gradients_convicts_a_gradient_that_is_not_cleared() -> None:
    """The second norm is that of the same gradient added to itself: twice the first."""
    right = "model.noise.reseed(noise)\n    optimizer.zero_grad()"
    result = fails("fresh_gradients", shop=altered("training.step.take_step", right, "model.noise.reseed(noise)\n"))
    assert result.measured == pytest.approx(1.0) and result.facts["two"] == pytest.approx(2 * result.facts["one"])


def test_fresh_gradients_names_a_loss_that_is_none() -> None:
    shop = altered("attention.masked_softmax", MASKED, "visible = scores + (~allowed) * -math.inf")
    result = fails("fresh_gradients", shop=shop)
    assert result.sentence == "stops" and "is not finite" in result.finding


# Shown weights.


@pytest.mark.parametrize("config", [SMALL, SMALL.replace(attention_dropout=0.4, dropout=0.1)], ids=["without", "with"])
def test_weights_before_dropout_convicts_weights_noted_behind_it(config: Any) -> None:
    """H08: rows that sum to 0.19, 2.0 or 0.55 in training mode, and called a bug."""
    right = 'note("weights", weights, "B H q k")'
    wrong = f"weights, dropout = (weights if dropout is None else dropout(weights)), None; {right}"
    shop = altered("attention.attend", right, wrong)
    result = fails("weights_before_dropout", config, shop=shop)
    assert result.measured > 0.3 and result.facts["first"].endswith("attention/weights")
    assert passes("weights_before_dropout", config).measured < 1e-12
