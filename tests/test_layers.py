"""Layers: both norm orders by hand, equation 2, dropout with its own noise, torch.nn with the same weights."""

import copy

import pytest
import torch
from torch import nn

from transformer_core import layers
from transformer_core.config import ModelConfig
from transformer_core.layers import DecoderLayer, Dropout, EncoderLayer, FeedForward, Noise, make_norm
from transformer_core.parity import torch_state

CONFIG = ModelConfig(d_model=15, n_heads=3, d_ff=11)


def layer(order, **changes):
    return layers.Layer(ModelConfig(d_model=4, n_heads=1, norm_order=order, **changes), Noise())


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("post", [1.732046, -0.577349, -0.577349, -0.577349]),
        ("pre", [4.464009, -1.154670, -1.154670, -1.154670]),
    ],
)
def test_both_norm_orders_by_hand(order, expected):
    x = torch.tensor([[[1.0, 0, 0, 0]]])
    out = layer(order).residual("sub", x, nn.LayerNorm(4, eps=1e-5), lambda t: 2 * t)
    torch.testing.assert_close(out[0, 0], torch.tensor(expected), atol=1e-5, rtol=0)


def test_layer_norm_divides_by_the_biased_deviation_with_eps_inside_the_root():
    norm = make_norm(ModelConfig(d_model=4, n_heads=1))
    got = norm(torch.tensor([1.0, 0, 0, 0]))
    torch.testing.assert_close(got, torch.tensor([1.732016, -0.577339, -0.577339, -0.577339]), atol=2e-5, rtol=0)
    with torch.no_grad():
        norm.bias.fill_(3.0)
    assert norm(torch.full((4,), 7.0)).tolist() == [3.0] * 4


def test_the_feed_forward_network_by_hand():
    ff = FeedForward(2, 3)
    with torch.no_grad():
        ff.w_1.weight.copy_(torch.tensor([[1.0, 0], [0, 1], [-1, 0]]))
        ff.w_1.bias.copy_(torch.tensor([0.0, -1, 0]))
        ff.w_2.weight.copy_(torch.tensor([[1.0, 10, 100], [1, 1, 1]]))
        ff.w_2.bias.copy_(torch.tensor([0.5, 0]))
    assert ff(torch.tensor([[[2.0, 3.0]]])).tolist() == [[[22.5, 4.0]]]  # hidden = [2, 2, 0]


def test_gelu_may_stand_in_for_the_maximum():
    relu, gelu = FeedForward(5, 7), FeedForward(5, 7, activation="gelu")
    gelu.load_state_dict(relu.state_dict())
    x = torch.linspace(-2, 2, 15).view(1, 3, 5)
    assert not torch.allclose(relu(x), gelu(x))
    torch.testing.assert_close(gelu(x), gelu.w_2(nn.functional.gelu(gelu.w_1(x))))


def test_the_network_acts_on_each_position_alone():
    ff, x = FeedForward(5, 7), torch.randn(2, 3, 5, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(ff(x)[:, 1:2], ff(x[:, 1:2]))


@pytest.mark.parametrize("kind", ["layer", "rms", "batch", "none"])
def test_every_norm_keeps_the_shape_and_does_what_it_says(kind):
    norm = make_norm(CONFIG.replace(norm=kind))
    x = 3 + 2 * torch.randn(5, 7, 15, generator=torch.Generator().manual_seed(1))
    out = norm(x)
    assert out.shape == x.shape
    if kind == "layer":
        assert out.mean(-1).abs().max() < 1e-5
    elif kind == "rms":
        torch.testing.assert_close(out.square().mean(-1), torch.ones(5, 7), atol=1e-4, rtol=0)
    elif kind == "batch":
        assert out.mean((0, 1)).abs().max() < 1e-5
    else:
        assert torch.equal(out, x)


def test_batch_norm_over_tokens_equals_torch_over_channels():
    x = torch.randn(5, 7, 3, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(layers.TokenBatchNorm(3)(x), nn.BatchNorm1d(3)(x.transpose(1, 2)).transpose(1, 2))


def test_dropout_zeroes_a_share_and_keeps_the_mean():
    x = torch.ones(100, 101)
    out = Dropout(0.25, Noise(7))(x)
    assert out.eq(0).float().mean().item() == pytest.approx(0.25, abs=0.02)
    assert out.mean().item() == pytest.approx(1.0, abs=0.02)
    assert out.unique().tolist() == pytest.approx([0.0, 4 / 3])


def test_dropout_repeats_with_its_seed_and_leaves_the_global_state_alone():
    x, state = torch.ones(11, 13), torch.get_rng_state()
    noise = Noise(7)
    first = Dropout(0.5, noise)(x)
    second = Dropout(0.5, noise)(x)
    noise.reseed(7)
    assert torch.equal(Dropout(0.5, noise)(x), first) and not torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), state)


def test_dropout_is_the_identity_in_evaluation_and_at_zero():
    x = torch.ones(3)
    assert Dropout(0.5, Noise()).eval()(x) is x
    assert Dropout(0.0, Noise())(x) is x


def test_a_copied_model_draws_its_own_noise():
    twin = copy.deepcopy(pair := nn.Sequential(Dropout(0.5, noise := Noise(7)), Dropout(0.5, noise)))
    assert twin[0].noise is twin[1].noise and twin[0].noise is not pair[0].noise


def test_dropout_is_on_the_sublayer_and_not_on_the_residual():
    x, wrapped = torch.ones(2, 3, 4), layer("pre", dropout=0.5)
    out = wrapped.residual("sub", x, nn.Identity(), lambda t: 10 * t)
    assert set(out.unique().tolist()) == {1.0, 21.0}


def torch_layer(kind, ours, **options):
    theirs = kind(15, 3, 11, 0.0, batch_first=True, **options).double().eval()
    theirs.load_state_dict(torch_state(ours))
    return theirs


@pytest.mark.parametrize("order", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_layers_equal_those_of_torch_with_the_same_weights(order, activation):
    config = CONFIG.replace(norm_order=order, activation=activation)
    x, memory = torch.randn(2, 3, 5, 15, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    keys = torch.tensor([[True] * 5, [True, True, False, False, False], [True, False, True, False, True]])
    allowed, options = keys[:, None, None], {"norm_first": order == "pre", "activation": activation}

    ours = EncoderLayer(config, Noise()).double()
    expected = torch_layer(nn.TransformerEncoderLayer, ours, **options)(x, src_key_padding_mask=~keys)
    torch.testing.assert_close(ours(x, allowed)[keys], expected[keys], atol=1e-12, rtol=0)

    ours = DecoderLayer(config, Noise()).double()
    theirs = torch_layer(nn.TransformerDecoderLayer, ours, **options)
    future = ~torch.ones(5, 5, dtype=torch.bool).tril()
    expected = theirs(x, memory, tgt_mask=future, memory_key_padding_mask=~keys)
    torch.testing.assert_close(ours(x, ~future, memory, allowed), expected, atol=1e-12, rtol=0)
