"""Weights to torch.nn and back: every kind of module there and back, copies and not views, and every refusal."""

import copy

import pytest
import torch
from torch import nn

from transformer_core.attention import MultiHeadAttention
from transformer_core.config import ModelConfig
from transformer_core.layers import DecoderLayer, Dropout, EncoderLayer, Noise
from transformer_core.model import Transformer, build
from transformer_core.parity import NoCounterpart, load_from_torch, names, to_torch
from transformer_core.parity.tensors import stir
from transformer_core.workshop import altered

CONFIG = ModelConfig(d_model=15, n_heads=3, d_ff=11, n_encoder_layers=1, n_decoder_layers=2, src_vocab_size=19,
                     tgt_vocab_size=23, max_seq_len=16)  # fmt: skip
KINDS = {
    "attention": nn.MultiheadAttention,
    "encoder_layer": nn.TransformerEncoderLayer,
    "decoder_layer": nn.TransformerDecoderLayer,
    "encoder": nn.TransformerEncoder,
    "decoder": nn.TransformerDecoder,
    "model": nn.Transformer,
    "encoder_only": nn.TransformerEncoder,
    "decoder_only": nn.TransformerEncoder,
}


def part(kind: str, config: ModelConfig = CONFIG, seed: int = 7) -> nn.Module:
    side = {"encoder_only": "encoder", "decoder_only": "decoder"}.get(kind, "encoder_decoder")
    model = build(config.replace(architecture=side), seed=seed)
    stir(model, 0.5, seed)
    parts = {
        "attention": lambda: model.encoder.layers[0].self_attention,
        "encoder_layer": lambda: model.encoder.layers[0],
        "decoder_layer": lambda: model.decoder.layers[1],
        "encoder": lambda: model.encoder,
        "decoder": lambda: model.decoder,
    }
    return parts.get(kind, lambda: model)()


@pytest.mark.parametrize("changes", [{}, {"norm_order": "pre", "activation": "gelu"}, {"bias": False}])
@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back_gives_the_same_numbers(kind, changes):
    config = CONFIG.replace(**changes)
    ours, other = part(kind, config), part(kind, config, seed=8)
    theirs = to_torch(ours)
    assert type(theirs) is KINDS[kind]
    load_from_torch(other, theirs)
    held = {name for parts in names(ours).values() for name in parts}
    for name, value in ours.named_parameters():
        assert torch.equal(value, other.get_parameter(name)) == (name in held), name
    outside = {name for name, _ in ours.named_parameters()} - held
    assert outside <= {"src_embedding.weight", "tgt_embedding.weight", "output.weight", "output.bias"}
    assert held and set(names(ours)) == set(theirs.state_dict())


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_copied_shares_no_memory(kind):
    ours = part(kind)
    theirs = to_torch(ours)
    before = copy.deepcopy(ours.state_dict())
    with torch.no_grad():
        for each in theirs.parameters():
            each.fill_(3.0)
    assert all(torch.equal(value, before[name]) for name, value in ours.state_dict().items())
    load_from_torch(ours, theirs)
    with torch.no_grad():
        for each in theirs.parameters():
            each.fill_(5.0)
    held = [name for parts in names(ours).values() for name in parts]
    assert all(ours.state_dict()[name].eq(3.0).all() for name in held)


def test_the_three_projections_lie_one_below_the_other():
    ours = MultiHeadAttention(6, 2)
    with torch.no_grad():
        for number, linear in enumerate((ours.w_q, ours.w_k, ours.w_v), 1):
            linear.weight.fill_(number)
            linear.bias.fill_(10 * number)
    theirs = to_torch(ours)
    assert theirs.in_proj_weight[:, 0].tolist() == [1] * 6 + [2] * 6 + [3] * 6
    assert theirs.in_proj_bias.tolist() == [10] * 6 + [20] * 6 + [30] * 6
    assert torch.equal(theirs.out_proj.weight, ours.w_o.weight)


def test_a_layer_numbers_its_norms_in_the_order_of_use():
    found = names(part("decoder_layer"))
    assert [found[f"norm{number}.weight"] for number in (1, 2, 3)] == [
        ("self_attention_norm.weight",), ("cross_attention_norm.weight",), ("feed_forward_norm.weight",)
    ]  # fmt: skip
    assert found["multihead_attn.in_proj_bias"] == tuple(f"cross_attention.w_{each}.bias" for each in "qkv")
    assert names(part("encoder_layer"))["norm2.bias"] == ("feed_forward_norm.bias",)


def test_mode_dtype_and_dropout_go_along_and_nothing_is_drawn():
    config = CONFIG.replace(dropout=0.25, attention_dropout=0.5)
    ours = build(config, seed=7, dtype=torch.float64).train()
    state = torch.get_rng_state()
    theirs = to_torch(ours)
    assert torch.equal(torch.get_rng_state(), state)
    layer = theirs.decoder.layers[1]
    assert theirs.training and layer.norm1.weight.dtype == torch.float64
    rates = (layer.self_attn.dropout, layer.multihead_attn.dropout, layer.dropout1.p, layer.dropout3.p, layer.dropout.p)
    assert rates == (0.5, 0.5, 0.25, 0.25, 0.0), "inside the feed-forward network the paper has none"
    assert not to_torch(ours.eval()).training


def test_the_final_norms_are_as_many_as_asked_for():
    post, pre = build(CONFIG, seed=7), build(CONFIG.replace(norm_order="pre"), seed=7)
    assert to_torch(post).encoder.norm is None and to_torch(pre).decoder.norm is not None
    added = to_torch(post, final_norm="torch")
    assert added.encoder.norm.weight.eq(1).all() and added.decoder.norm.bias.eq(0).all()
    stir(pre, 0.5)
    assert torch.equal(to_torch(pre, final_norm="torch").encoder.norm.weight, pre.encoder.norm.weight)
    with pytest.raises(ValueError, match="final_norm 'always' is not known; same and torch are"):
        to_torch(post, final_norm="always")


def test_a_copy_of_our_classes_with_a_changed_line_is_translated_too():
    shop = altered("masks.causal", "key <= query", "key <= query + 1")
    model = shop.model.build(CONFIG, seed=7)
    assert not isinstance(model, Transformer)
    assert torch.equal(to_torch(model).decoder.layers[0].linear1.bias, model.decoder.layers[0].feed_forward.w_1.bias)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"norm": "rms"}, "normalise with LayerNorm; RMSNorm has no place in them"),
        ({"norm": "batch"}, "TokenBatchNorm has no place"),
        ({"norm": "none"}, "Identity has no place"),
        ({"scale_scores": False}, "not divided by √d_head"),
    ],
)
def test_what_torch_cannot_compute_is_refused(changes, text):
    with pytest.raises(NoCounterpart, match=text):
        to_torch(build(CONFIG.replace(**changes), seed=7))


def test_biases_in_some_places_only_are_refused():
    attention = MultiHeadAttention(6, 2)
    attention.w_k = nn.Linear(6, 6, bias=False)
    with pytest.raises(NoCounterpart, match="in all four projections or in none, not in some"):
        to_torch(attention)
    layer = EncoderLayer(CONFIG, Noise())
    layer.feed_forward.w_2 = nn.Linear(11, 15, bias=False)
    with pytest.raises(NoCounterpart, match="in all matrices or in none, not in some"):
        to_torch(layer)


def test_another_activation_and_another_module_are_refused():
    layer = DecoderLayer(CONFIG, Noise())
    layer.feed_forward.activation = nn.GELU(approximate="tanh")
    with pytest.raises(NoCounterpart, match="neither ReLU nor the exact GELU"):
        to_torch(layer)
    with pytest.raises(NoCounterpart, match="Dropout is none of attention, layer, encoder, decoder and model"):
        to_torch(Dropout(0.1, Noise()))


@pytest.mark.parametrize(
    ("theirs", "text"),
    [
        (lambda: nn.TransformerEncoderLayer(15, 5, 11), "number of heads of self_attn is 5 in torch's module and 3"),
        (lambda: nn.TransformerEncoderLayer(15, 3, 13), "linear1.weight is 13 x 15 in torch's module and 11 x 15"),
        (lambda: nn.TransformerEncoderLayer(15, 3, 11, norm_first=True), "the norm order is pre in torch's module and"),
        (
            lambda: nn.TransformerEncoderLayer(15, 3, 11, activation="gelu"),
            "activation is gelu in torch's module and r",
        ),
        (lambda: nn.TransformerEncoderLayer(15, 3, 11, layer_norm_eps=1e-6), "eps of norm1 is 1e-06 in torch's module"),
        (
            lambda: nn.TransformerEncoderLayer(15, 3, 11, bias=False),
            "in_proj_bias is absent in torch's module and 45 i",
        ),
        (
            lambda: nn.TransformerDecoderLayer(15, 3, 11),
            "module is TransformerDecoderLayer in torch's module and Trans",
        ),
    ],
)
def test_a_layer_built_otherwise_is_not_loaded(theirs, text):
    ours = part("encoder_layer")
    before = copy.deepcopy(ours.state_dict())
    with pytest.raises(NoCounterpart, match=text):
        load_from_torch(ours, theirs())
    assert all(torch.equal(value, before[name]) for name, value in ours.state_dict().items()), "nothing half loaded"


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
def test_a_whole_model_needs_as_many_layers_and_norms():
    ours = build(CONFIG, seed=7)
    with pytest.raises(NoCounterpart, match="number of layers of encoder is 2 in torch's module and 1 in ours"):
        load_from_torch(ours, nn.Transformer(15, 3, 2, 2, 11))
    with pytest.raises(
        NoCounterpart, match="norm at the end of encoder is present in torch's module and absent in ours"
    ):
        load_from_torch(ours, nn.Transformer(15, 3, 1, 2, 11))
    load_from_torch(build(CONFIG.replace(final_norm=True), seed=8), nn.Transformer(15, 3, 1, 2, 11))


def test_keys_of_zeros_and_of_another_width_are_no_counterpart():
    ours = MultiHeadAttention(15, 3)
    with pytest.raises(NoCounterpart, match="extra key of zeros is present in torch's module and absent in ours"):
        load_from_torch(ours, nn.MultiheadAttention(15, 3, add_zero_attn=True))
    with pytest.raises(NoCounterpart, match="in_proj_weight is absent"):
        load_from_torch(ours, nn.MultiheadAttention(15, 3, kdim=7, vdim=7))
