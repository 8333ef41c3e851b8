"""The whole model: torch.nn.Transformer with the same weights, seeds, leaks, padding, batch mates, refusals."""

import math

import pytest
import torch
from torch import nn

from transformer_core.config import MaskConfig, ModelConfig
from transformer_core.ledger import trace
from transformer_core.model import Transformer, build
from transformer_core.parity import torch_state
from transformer_core.positions import sinusoidal

CONFIG = ModelConfig(d_model=15, n_heads=3, d_ff=11, src_vocab_size=19, tgt_vocab_size=23, max_seq_len=16)
SRC = torch.tensor([[5, 6, 7, 8, 9, 10, 11], [12, 13, 14, 0, 0, 0, 0], [4, 5, 6, 7, 8, 0, 0]])
TGT = torch.tensor([[1, 4, 5, 6, 7], [1, 8, 9, 0, 0], [1, 4, 0, 0, 0]])


@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:The PyTorch API of nested")
@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-5), (torch.float64, 1e-12)])
def test_the_model_equals_nn_transformer_with_the_same_weights(order, dtype, tolerance):
    ours = build(CONFIG.replace(norm_order=order, final_norm=True), seed=7, dtype=dtype).eval()
    theirs = nn.Transformer(15, 3, 2, 2, 11, 0.0, batch_first=True, norm_first=order == "pre").to(dtype).eval()
    theirs.load_state_dict(torch_state(ours))
    with torch.no_grad():
        hidden = theirs(
            ours.embed("src", SRC), ours.embed("tgt", TGT),
            tgt_mask=~torch.ones(5, 5, dtype=torch.bool).tril(), tgt_key_padding_mask=TGT == 0,
            src_key_padding_mask=SRC == 0, memory_key_padding_mask=SRC == 0,
        )  # fmt: skip
        expected, got = ours.output(hidden), ours(SRC, TGT)
    torch.testing.assert_close(got[TGT != 0], expected[TGT != 0], atol=tolerance, rtol=0)


def test_a_seed_gives_the_same_weights_and_leaves_the_global_state_alone():
    state = torch.get_rng_state()
    first, again, other = build(CONFIG, seed=7), build(CONFIG, seed=7), build(CONFIG, seed=8)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), again.parameters(), strict=True))
    assert not torch.equal(first.output.weight, other.output.weight)


def test_the_start_is_xavier_for_matrices_and_small_for_embeddings():
    model = build(CONFIG.replace(d_model=64, n_heads=4, src_vocab_size=997), seed=7)
    bound = math.sqrt(6 / (64 + 64))
    weight = model.encoder.layers[0].self_attention.w_q.weight
    assert weight.abs().max() <= bound and weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert model.src_embedding.weight[1:].std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert model.src_embedding.weight[0].eq(0).all() and model.output.bias.eq(0).all()
    layers = list(model.encoder.layers)
    assert not torch.equal(layers[0].feed_forward.w_1.weight, layers[1].feed_forward.w_1.weight)


def test_parameter_names_are_the_public_ones():
    names = set(build(CONFIG.replace(positions="learned", norm_order="pre")).state_dict())
    for name in (
        "src_embedding.weight", "tgt_embedding.weight", "output.weight", "output.bias", "src_positions.weight",
        "tgt_positions.weight", "encoder.norm.weight", "decoder.norm.bias",
        "encoder.layers.1.self_attention.w_q.weight", "decoder.layers.0.cross_attention.w_o.bias",
        "decoder.layers.1.feed_forward.w_2.bias", "decoder.layers.0.cross_attention_norm.weight",
        "encoder.layers.0.feed_forward_norm.bias",
    ):  # fmt: skip
        assert name in names
    assert "classifier.weight" in build(CONFIG.replace(architecture="encoder", n_classes=2)).state_dict()


@pytest.mark.parametrize("changes", [{}, {"norm_order": "pre"}, {"n_encoder_layers": 1, "n_decoder_layers": 3}])
def test_layers_in_a_stack_share_nothing(changes):
    model = build(CONFIG.replace(**changes))
    pointers = [p.data_ptr() for p in model.parameters()]
    assert len(pointers) == len(set(pointers))


@pytest.mark.parametrize("order", ["post", "pre"])
def test_pre_norm_ends_with_a_norm_and_post_norm_does_not(order):
    model = build(CONFIG.replace(norm_order=order)).eval()
    assert (model.encoder.norm is None) == (order == "post")
    memory = model.encode(SRC)
    torch.testing.assert_close(memory.mean(-1), torch.zeros(3, 7), atol=1e-5, rtol=0)
    torch.testing.assert_close(memory.var(-1, correction=0), torch.ones(3, 7), atol=1e-3, rtol=0)


def test_tied_weights_are_one_tensor_also_after_moving():
    model = build(CONFIG.replace(tie_weights=True), dtype=torch.float64)
    assert model.output.weight is model.tgt_embedding.weight
    assert model(SRC, TGT).dtype == torch.float64


@pytest.mark.parametrize("architecture", ["encoder_decoder", "decoder"])
def test_no_position_sees_a_later_one(architecture):
    model = build(CONFIG.replace(architecture=architecture), seed=7, dtype=torch.float64).eval()
    src = SRC if architecture == "encoder_decoder" else None
    changed = TGT.clone()
    changed[0, 3] = 20
    before, after = model(src, TGT), model(src, changed)
    assert torch.equal(before[0, :3], after[0, :3]) and not torch.equal(before[0, 3:], after[0, 3:])
    assert torch.equal(before[1:], after[1:])


def test_more_padding_changes_nothing_that_is_real():
    model = build(CONFIG, seed=7, dtype=torch.float64).eval()
    wider = torch.nn.functional.pad(SRC, (0, 3))
    torch.testing.assert_close(model(SRC, TGT), model(wider, TGT), atol=1e-12, rtol=0)


def test_batch_mates_change_nothing():
    model = build(CONFIG, seed=7, dtype=torch.float64).eval()
    torch.testing.assert_close(model(SRC, TGT)[1:2], model(SRC[1:2], TGT[1:2]), atol=1e-12, rtol=0)


def test_a_changed_source_moves_the_output():
    model = build(CONFIG, seed=7, dtype=torch.float64).eval()
    changed = SRC.clone()
    changed[0, 2] = 18
    assert (model(SRC, TGT)[0] - model(changed, TGT)[0]).abs().amax(-1).min() > 1e-4


def test_without_positions_the_order_of_the_source_is_unknown():
    order = torch.tensor([3, 0, 6, 1, 5, 2, 4])
    for positions, equal in (("none", True), ("sinusoidal", False)):
        model = build(CONFIG.replace(positions=positions), seed=7, dtype=torch.float64).eval()
        same = torch.allclose(model(SRC, TGT), model(SRC[:, order], TGT), atol=1e-10)
        assert same == equal


def test_positions_on_the_decoder_can_be_left_out():
    model = build(CONFIG.replace(positions_on_decoder=False)).eval()
    with trace(model) as ledger:
        model(SRC, TGT)
    assert "src_positions/positions" in ledger and "tgt_positions/positions" not in ledger


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_positions_are_exact_in_the_dtype_of_the_model(dtype):
    model = build(CONFIG, dtype=dtype)
    assert torch.equal(model.src_positions.weight, sinusoidal(16, 15, dtype))


def test_embeddings_are_scaled_by_the_root_of_d_model():
    model = build(CONFIG).eval()
    with trace(model) as ledger:
        model(SRC, TGT)
    torch.testing.assert_close(ledger["src_embeddings"].value, model.src_embedding(SRC).detach() * 15**0.5)
    unscaled = build(CONFIG.replace(scale_embedding=False)).eval()
    with trace(unscaled) as ledger:
        unscaled(SRC, TGT)
    assert torch.equal(ledger["src_embeddings"].value, model.src_embedding(SRC).detach())


def test_dropout_acts_in_training_only_and_repeats_with_the_seed():
    model = build(CONFIG.replace(dropout=0.5, attention_dropout=0.25), seed=7)
    first = model(SRC, TGT)
    assert not torch.equal(first, model(SRC, TGT))
    model.noise.reseed(7)
    assert torch.equal(first, model(SRC, TGT))
    model.eval()
    assert torch.equal(model(SRC, TGT), model(SRC, TGT))


def test_decoding_step_by_step_equals_teacher_forcing():
    model = build(CONFIG, seed=7, dtype=torch.float64).eval()
    whole, memory = model(SRC, TGT), model.encode(SRC)
    for length in range(1, 6):
        step = model.output(model.decode(TGT[:, :length], memory, SRC))[:, -1]
        torch.testing.assert_close(step, whole[:, length - 1], atol=1e-12, rtol=0)


def test_the_encoder_alone_and_with_a_classifier_on_position_0():
    encoder = CONFIG.replace(architecture="encoder")
    memory = build(encoder, seed=7).eval()(SRC)
    assert memory.shape == (3, 7, 15)
    model = build(encoder.replace(n_classes=2), seed=7).eval()
    torch.testing.assert_close(model(SRC), model.classifier(memory[:, 0]))


@pytest.mark.parametrize("architecture", ["encoder_decoder", "encoder", "decoder"])
def test_a_model_on_meta_has_the_shapes_of_the_real_one(architecture):
    config = CONFIG.replace(architecture=architecture)
    ledgers = []
    for device in ("cpu", "meta"):
        model = build(config, device=device).eval()
        with trace(model) as ledger:
            model(SRC.to(device), TGT.to(device))
        ledgers.append([(entry.key, entry.shape, entry.value.dtype) for entry in ledger])
    assert ledgers[0] == ledgers[1]


def test_a_row_without_keys_stays_finite_forward_and_backward():
    model = build(CONFIG, seed=7)
    src = SRC.clone()
    src[2] = 0
    model(src, TGT).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())


def test_the_custom_mask_reaches_its_attention():
    matrix = tuple(tuple(j % 2 == 0 for j in range(7)) for _ in range(5))
    model = build(CONFIG, MaskConfig(cross=("padding", "custom"), cross_custom=matrix)).eval()
    with trace(model) as ledger:
        model(SRC, TGT)
    assert ledger["decoder.layers.0.cross_attention/weights"].value[..., 1::2].eq(0).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_dtypes_run_and_stay_finite(dtype):
    model = build(CONFIG, seed=7, dtype=dtype).eval()
    logits = model(SRC, TGT)
    assert logits.dtype == dtype and logits.isfinite().all()


@pytest.mark.parametrize(
    ("src", "tgt", "text"),
    [
        (SRC + 10, TGT, "src holds the id 24; a vocabulary of 19 has 0 to 18"),
        (SRC - 1, TGT, "src holds the id -1; a vocabulary of 19 has 0 to 18"),
        (SRC, TGT + 20, "tgt holds the id 29; a vocabulary of 23 has 0 to 22"),
        (torch.ones(3, 17, dtype=torch.int64), TGT, "src has 17 tokens, more than max_seq_len 16"),
        (SRC[:, :0], TGT, r"src is empty, shape \(3, 0\); it needs at least one token"),
        (SRC[0], TGT, r"src must be token ids, .* of shape \(sentences, tokens\); got torch.int64 of shape \(7,\)"),
        (SRC.float(), TGT, "got torch.float32"),
        (SRC, None, "tgt must be token ids, .* got nothing"),
        (SRC[:2], TGT, "src has 2 sentences and tgt 3; they must be pairs"),
    ],
)  # fmt: skip
def test_tokens_that_cannot_be_are_refused_by_name(src, tgt, text):
    with pytest.raises(ValueError, match=text):
        build(CONFIG)(src, tgt)


def test_the_weights_of_a_seed_do_not_depend_on_torchs_default_dtype():
    expected = build(CONFIG, seed=7)
    torch.set_default_dtype(torch.float64)
    try:
        got = build(CONFIG, seed=7)
    finally:
        torch.set_default_dtype(torch.float32)
    assert all(torch.equal(a, b) for a, b in zip(got.parameters(), expected.parameters(), strict=True))


def test_masks_on_meta_take_no_memory():
    model = build(CONFIG.replace(max_seq_len=1 << 20), MaskConfig(encoder_self=("padding", "window:3")), device="meta")
    tokens = torch.zeros(1, 1 << 20, dtype=torch.int64, device="meta")
    assert model(tokens, tokens).shape == (1, 1 << 20, 23)  # a real mask of these lengths would hold 2^40 cells


def test_a_source_that_the_memory_is_not_made_of_is_refused():
    model = build(CONFIG)
    with pytest.raises(ValueError, match=r"memory is of \(3, 7\) tokens, src of \(1, 7\)"):
        model.decode(TGT, model.encode(SRC), SRC[:1])


@pytest.mark.parametrize("seed", [-1, 1 << 31, True])
def test_a_seed_that_torch_would_not_tell_apart_is_refused(seed):
    with pytest.raises(ValueError, match="seed"):
        build(CONFIG, seed=seed)


def test_decode_wants_the_source_beside_the_memory():
    model = build(CONFIG)
    with pytest.raises(ValueError, match="decode takes memory and the src it was made of"):
        model.decode(TGT, model.encode(SRC))


def test_built_directly_the_model_runs_too():
    assert Transformer(CONFIG).eval()(SRC, TGT).shape == (3, 5, 23)
