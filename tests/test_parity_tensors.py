"""Parity tensor by tensor: the right model agrees everywhere, a broken one parts at the tensor that is broken."""

import json
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from transformer_core.batches import Batch, make_batch
from transformer_core.config import DataConfig, MaskConfig, ModelConfig
from transformer_core.model import build
from transformer_core.parity import LIMITS, NOTES, NoCounterpart, compare, compare_attention, stir, to_torch
from transformer_core.parity.comparison import difference, worst
from transformer_core.parity.torch_run import listening, loss_of
from transformer_core.presets import load_preset
from transformer_core.workshop import altered

CONFIG = ModelConfig(d_model=15, n_heads=3, d_ff=11, n_encoder_layers=2, n_decoder_layers=1, src_vocab_size=19,
                     tgt_vocab_size=23, max_seq_len=16)  # fmt: skip
BATCH = Batch(
    torch.tensor([[5, 6, 7, 8, 9, 10, 11], [12, 13, 14, 0, 0, 0, 0], [4, 5, 6, 7, 8, 0, 0]]),
    torch.tensor([[1, 4, 5, 6, 7], [1, 8, 9, 0, 0], [1, 4, 0, 0, 0]]),
)


def model_of(masks=None, **changes):
    return build(CONFIG.replace(**changes), masks, seed=7).eval()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"norm_order": "pre"},
        {"final_norm": True, "activation": "gelu"},
        {"norm_order": "pre", "final_norm": False, "bias": False},
        {"tie_weights": True, "positions": "learned", "norm_eps": 1e-3},
        {"architecture": "decoder"},
        {"architecture": "encoder", "norm_order": "pre"},
        {"architecture": "encoder", "n_classes": 5},
    ],
)
def test_every_tensor_and_every_gradient_of_the_right_model_agrees(changes, dtype):
    found = compare(model_of(**changes), BATCH, dtype=dtype, stirred=0.3)
    assert found.passed and found.first is None and found.first_gradient is None
    assert found.worst <= LIMITS[dtype] and all(each.max_rel <= LIMITS[dtype] for each in found.forward)
    assert any(each.padded is not None for each in found.forward)
    assert len(found.backward) == len(list(model_of(**changes).parameters())) + bool(changes.get("tie_weights"))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_papers_base_model_agrees(dtype):
    preset = load_preset("paper_base")
    found = compare(build(preset.model, preset.masks, seed=7), preset.batch(7), dtype=dtype)
    assert found.passed and len(found.forward) == 216 and len(found.backward) == 256
    assert found.worst <= LIMITS[dtype] and found.worst_gradient <= LIMITS[dtype]


def test_every_tensor_behind_the_embeddings_is_compared_in_the_order_of_the_ledger():
    found = compare(model_of(norm_order="pre"), BATCH, dtype=torch.float64)
    keys = [each.key for each in found.forward]
    parts = ("q", "k", "v", "scores", "weights", "heads", "output")
    assert keys[:11] == [
        "encoder/input", "encoder.layers.0/self_attention_norm",
        *(f"encoder.layers.0.self_attention/{each}" for each in parts), "encoder.layers.0/self_attention_sum",
        "encoder.layers.0/feed_forward_norm",
    ]  # fmt: skip
    assert keys[-5:] == ["decoder.layers.0/feed_forward_sum", "decoder/final_norm", "logits", "probabilities", "loss"]
    assert keys.index("encoder/final_norm") + 1 == keys.index("memory") < keys.index("decoder/input")
    shapes = {each.key: each.shape for each in found.forward}
    assert shapes["decoder.layers.0.cross_attention/weights"] == (3, 3, 5, 7) and shapes["loss"] == ()
    assert found.settings["counterpart"] == "nn.Transformer" and "behind_embeddings" in found.notes
    assert set(found.notes) <= set(NOTES)


def test_logits_equal_those_of_nn_transformer_called_as_a_whole():
    """The stacks are listened to one after the other; torch's own forward must come to the same."""
    ours = build(CONFIG.replace(final_norm=True), seed=7, dtype=torch.float64).eval()
    src_ignored, tgt_ignored = BATCH.src == 0, BATCH.tgt == 0
    hidden = to_torch(ours)(
        ours.embed("src", BATCH.src), ours.embed("tgt", BATCH.tgt), tgt_mask=torch.ones(5, 5).tril() == 0,
        tgt_key_padding_mask=tgt_ignored, src_key_padding_mask=src_ignored, memory_key_padding_mask=src_ignored,
    )  # fmt: skip
    torch.testing.assert_close(ours(BATCH.src, BATCH.tgt), ours.output(hidden), atol=1e-12, rtol=0)


@pytest.mark.parametrize("side", ["same", "torch"])
def test_the_final_norm_is_where_the_paper_and_torch_part(side):
    found = compare(model_of(), BATCH, final_norm=side, stirred=0.3)
    if side == "same":
        assert found.passed and "added_norm" not in found.notes
        return
    assert found.first == "memory" and "added_norm" in found.notes
    errors = {each.key: each for each in found.forward}
    assert errors["memory"].max_abs > 0.1
    for key, each in errors.items():
        upstream = key.startswith(("encoder", "decoder/input", "decoder.layers.0.self")) or key.startswith(
            ("decoder.layers.0/self", "decoder.layers.0.cross_attention/q")
        )
        assert each.passed == upstream, key


def test_a_fresh_final_norm_is_almost_invisible_and_a_stirred_model_shows_it():
    fresh, stirred = (compare(model_of(), BATCH, final_norm="torch", stirred=spread) for spread in (0.0, 0.3))
    assert fresh.worst < 1e-3 < stirred.worst


@pytest.mark.parametrize(
    ("place", "right", "wrong", "first"),
    [
        ("attention.attend", "math.sqrt(q.shape[-1])", "math.sqrt(2 * q.shape[-1])",
         "encoder.layers.0.self_attention/scores"),
        ("attention.MultiHeadAttention.merge", "heads.transpose(1, 2)", "heads.flip(1).transpose(1, 2)",
         "encoder.layers.0.self_attention/output"),
        ("masks.causal", "key <= query", "key <= query + 1", "decoder.layers.0.self_attention/weights"),
        ("layers.Layer.residual", 'total = x + self.dropout(sublayer(x))\n            note(f"{name}_sum"',
         'total = x - self.dropout(sublayer(x))\n            note(f"{name}_sum"',
         "encoder.layers.0/self_attention_sum"),
        ("layers.FeedForward.forward", "self.activation(self.w_1(x))", "self.w_1(x)",
         "encoder.layers.0.feed_forward/hidden"),
        ("layers.DecoderLayer.forward", "self.cross_attention(x, memory, memory_allowed)",
         "self.cross_attention(x, x, None)", "decoder.layers.0.cross_attention/k"),
    ],
)  # fmt: skip
def test_a_broken_model_parts_first_at_the_broken_tensor(place, right, wrong, first):
    shop = altered(place, right, wrong)
    found = compare(shop.model.build(CONFIG, seed=7).eval(), BATCH, dtype=torch.float64, stirred=0.3)
    assert found.first == first and not found.passed
    before = [each.key for each in found.forward].index(first)
    assert before > 0 and all(each.passed for each in found.forward[:before])


def test_a_gradient_that_is_lost_shows_although_the_forward_agrees():
    shop = altered("model.Transformer.decode", "memory, memory_allowed)", "memory.detach(), memory_allowed)")
    found = compare(shop.model.build(CONFIG, seed=7), BATCH, dtype=torch.float64)
    assert found.first is None and not found.passed
    assert found.first_gradient == "src_embedding.weight"
    apart = {each.key for each in found.backward if not each.passed}
    assert (
        "encoder.layers.0.self_attention.w_q.weight" in apart
        and "decoder.layers.0.self_attention.w_q.weight" not in apart
    )


def test_a_layer_used_twice_computes_the_same_and_has_another_gradient():
    """Found by its gradient alone: the one layer gets the sum of what two layers with equal weights get."""
    model = model_of()
    model.encoder.layers[1] = model.encoder.layers[0]
    found = compare(model, BATCH, dtype=torch.float64)
    assert found.first is None
    assert {each.key.split(".")[0] for each in found.backward if not each.passed} == {"encoder"}


def test_shapes_that_differ_are_infinitely_apart():
    shop = altered("attention.MultiHeadAttention.split", "(self.n_heads, -1)", "(-1, self.n_heads)")
    found = compare(shop.model.build(CONFIG, seed=7), BATCH)
    assert found.first == "encoder.layers.0.self_attention/q" and found.worst == math.inf
    assert json.loads(json.dumps(found.to_row()))["forward"][1]["max_abs"] == "inf"


def test_a_model_that_stops_is_compared_up_to_there():
    shop = altered("layers.FeedForward.forward", "output = self.w_2(hidden)", "output = self.w_2(hidden.mT)")
    found = compare(shop.model.build(CONFIG, seed=7), BATCH)
    assert "mat1 and mat2 shapes" in found.failure and not found.passed and not found.backward
    assert found.forward[-1].key == "encoder.layers.0.feed_forward/hidden" and found.first is None


def test_a_model_that_cannot_embed_is_reported():
    shop = altered("model.Transformer.embed", "embedding(tokens)", "embedding(tokens)[:, :, :3]")
    found = compare(shop.model.build(CONFIG, seed=7), BATCH)
    assert found.failure and found.forward == ()


def test_gradients_are_those_of_the_loss_on_real_targets():
    model = build(CONFIG, seed=7, dtype=torch.float64)
    found = {each.key: each for each in compare(model, BATCH).backward}
    logits = model(BATCH.src, BATCH.tgt)[:, :-1]
    labels = BATCH.tgt[:, 1:].masked_fill(BATCH.tgt[:, :-1] == 0, 0)
    loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=0)
    (gradient,) = torch.autograd.grad(loss, [model.output.bias])
    counts = torch.zeros(23, dtype=torch.float64)
    for label in labels[labels != 0]:
        counts[label] += 1
    by_hand = (logits.softmax(-1)[labels != 0].sum(0) - counts) / (labels != 0).sum()
    torch.testing.assert_close(gradient, by_hand, atol=1e-12, rtol=0)
    assert found["output.bias"].passed
    share = found["output.bias"].max_rel * float(gradient.abs().max())
    assert share == pytest.approx(found["output.bias"].max_abs, rel=1e-6)


def test_nothing_is_asked_of_padding_and_labels_of_the_batch_come_first():
    output = torch.zeros(1, 4, 5)
    output[0, 1, 3] = 100.0
    padded = Batch(
        None, torch.tensor([[0, 1, 3, 0]])
    )  # one target only: 3 after 1; that 1 follows padding is not asked
    config = CONFIG.replace(architecture="decoder")
    assert loss_of(config, padded, output).item() == pytest.approx(0.0, abs=1e-6)
    labelled = Batch(None, padded.tgt, torch.tensor([[0, 4, 0, 0]]))
    assert loss_of(config, labelled, output).item() == pytest.approx(100.0)
    nothing = Batch(None, torch.tensor([[1, 0, 0, 0]]))
    assert loss_of(config, nothing, output).item() == pytest.approx(100.0**2 / 20)


@pytest.mark.parametrize("side", ["right", "left"])
def test_padded_positions_and_queries_without_a_key_are_judged_apart(side):
    data = DataConfig(src_len=7, tgt_len=5, batch_size=2, padding="last", pad_side=side)
    batch = make_batch(CONFIG, data, seed=7)
    found = compare(model_of(), batch, dtype=torch.float64)
    assert found.passed
    assert found.blind == ((("decoder_self", 1, 0),) if side == "left" else ())
    assert ("blind_rows" in found.notes) == (side == "left")
    weights = next(each for each in found.forward if each.key == "decoder.layers.0.self_attention/weights")
    assert math.isnan(weights.padded) if side == "left" else weights.padded <= 1e-12


def test_a_difference_at_padding_only_is_shown_and_not_held_against_the_model():
    shop = altered("layers.EncoderLayer.forward", "self.feed_forward_norm, self.feed_forward)",
                   "self.feed_forward_norm, self.feed_forward) + ~allowed[:, 0, 0, :, None] * 1.0")  # fmt: skip
    found = compare(shop.model.build(CONFIG, seed=7), BATCH, dtype=torch.float64)
    memory = next(each for each in found.forward if each.key == "memory")
    assert memory.passed and memory.padded > 0.5 and found.passed


@pytest.mark.parametrize(
    "masks",
    [
        MaskConfig(encoder_self=("padding", "window:2"), decoder_self=("prefix:2", "causal"), cross=("strided:2",)),
        MaskConfig(encoder_self=(), decoder_self=("causal",), cross=()),
        MaskConfig(encoder_self=("block:3",), cross=("padding", "window:3")),
    ],
)
def test_every_rule_is_told_to_torch(masks):
    assert compare(model_of(masks), BATCH, dtype=torch.float64, stirred=0.3).passed


def test_in_training_mode_dropout_is_off_on_both_sides_and_that_is_said():
    model = model_of(dropout=0.5, attention_dropout=0.5).train()
    found = compare(model, BATCH, dtype=torch.float64, training=True)
    assert found.passed and "no_dropout" in found.notes and found.settings["training"]
    assert "no_dropout" not in compare(model, BATCH).notes


def test_the_model_stays_as_it_was():
    model = model_of(dropout=0.1).train()
    model.output.bias.requires_grad_(False)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    drawn = torch.get_rng_state()
    with torch.no_grad():
        assert compare(model, BATCH, dtype=torch.float64, stirred=0.5).passed
    assert model.training and model.dropout.p == 0.1 and not model.output.bias.requires_grad
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert model.src_embedding.weight.grad is None and torch.equal(torch.get_rng_state(), drawn)


def test_half_precision_is_compared_in_float32():
    found = compare(build(CONFIG, seed=7, dtype=torch.bfloat16), BATCH)
    assert found.settings["dtype"] == "float32" and found.passed


def test_a_limit_of_ones_own_moves_the_verdict():
    found = compare(model_of(), BATCH, limit=1e-9)
    assert not found.passed and found.first.startswith("encoder.layers.0") and found.settings["limit"] == 1e-9


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(NoCounterpart, match="RMSNorm"):
        compare(model_of(norm="rms"), BATCH)
    with pytest.raises(ValueError, match="device meta, where it has shapes but no numbers"):
        compare(build(CONFIG, device="meta"), BATCH)
    with pytest.raises(ValueError, match=r"float32 or float64 to compare, got torch\.float16"):
        compare(model_of(), BATCH, dtype=torch.float16)
    with pytest.raises(ValueError, match="src holds the id 99"):
        compare(model_of(), Batch(torch.tensor([[99]]), torch.tensor([[1]])))


def test_stirring_moves_gains_and_biases_only():
    model, fresh = model_of(), model_of()
    stir(model, 0.3, seed=5)
    moved = {name for name, each in model.named_parameters() if not torch.equal(each, fresh.get_parameter(name))}
    assert moved == {name for name, each in fresh.named_parameters() if each.dim() == 1}
    noise = torch.cat([(model.get_parameter(name) - fresh.get_parameter(name)).flatten() for name in moved])
    assert noise.std().item() == pytest.approx(0.3, rel=0.2)


def test_attention_alone_equals_scaled_dot_product_attention():
    found = compare_attention(
        model_of(norm="rms"), BATCH, stirred=0.3
    )  # torch's layers have no such norm, attention has
    assert [each.key for each in found] == [
        "encoder.layers.0.self_attention/heads", "encoder.layers.1.self_attention/heads",
        "decoder.layers.0.self_attention/heads", "decoder.layers.0.cross_attention/heads",
    ]  # fmt: skip
    assert all(each.passed for each in found)
    assert all(each.passed for each in compare_attention(model_of(scale_scores=False), BATCH))
    shop = altered("masks.padding", "tokens != pad_id", "tokens == tokens")
    broken = compare_attention(shop.model.build(CONFIG, seed=7), BATCH)
    assert not any(each.passed for each in broken if "encoder" in each.key or "cross" in each.key)


def test_two_tensors_side_by_side():
    nan = math.nan
    ours, theirs = torch.tensor([1.0, nan, 3.0, nan]), torch.tensor([1.5, nan, 4.0, 2.0])
    apart = torch.tensor([False, False, True, True])
    found = difference(ours, theirs, apart, "x", 0.6)
    assert (found.max_abs, found.passed) == (0.5, True) and math.isnan(found.padded), "NaN on both sides is the same"
    assert found.max_rel == pytest.approx(0.5 / 1.5)
    whole = difference(ours, theirs, None, "x", 0.6)
    assert math.isnan(whole.max_abs) and not whole.passed and whole.padded is None
    assert worst([found, whole]) == math.inf and worst([found]) == 0.5 and worst([]) == 0
    zero = difference(torch.ones(2), torch.zeros(2), None, "x", 0.6)
    assert zero.max_rel == math.inf and difference(torch.zeros(2), torch.zeros(2), None, "x", 0.6).max_rel == 0


def test_the_hooks_are_taken_away_again():
    module = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    with listening(module) as calls:
        module(torch.ones(1, 2))
    assert set(calls) == {"", "0", "1"} and calls["1"].args[0] is calls["0"].output
    assert not any(each._forward_hooks for each in module.modules())
