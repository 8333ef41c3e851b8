"""Positions: hand-computed waves, a second formulation in plain Python, half precision, odd widths."""

import math

import pytest
import torch

from transformer_core.positions import LearnedPositions, NoPositions, SinusoidalPositions, make_positions, sinusoidal


def wave(position, column, d_model):
    """The paper's formula, one number at a time."""
    angle = position / 10000 ** (2 * (column // 2) / d_model)
    return math.cos(angle) if column % 2 else math.sin(angle)


def test_the_table_by_hand():
    torch.testing.assert_close(
        sinusoidal(2, 4)[1], torch.tensor([0.841471, 0.540302, 0.010000, 0.999950]), atol=1e-6, rtol=0
    )


def test_an_odd_width_ends_with_a_sine():
    torch.testing.assert_close(
        sinusoidal(2, 5)[1], torch.tensor([0.841471, 0.540302, 0.025116, 0.999685, 0.000631]), atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("d_model", [1, 2, 7, 64, 509])
@pytest.mark.parametrize("position", [0, 1, 257, 4999])
def test_every_number_equals_the_formula(d_model, position):
    row = sinusoidal(5000, d_model)[position]
    expected = torch.tensor([wave(position, column, d_model) for column in range(d_model)])
    torch.testing.assert_close(row, expected, atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_dtypes_are_the_exact_table_rounded_once(dtype):
    exact = sinusoidal(5000, 13, torch.float64)
    assert torch.equal(sinusoidal(5000, 13, dtype), exact.to(dtype))


def test_a_fixed_offset_is_a_rotation():
    """PE(p + k) is a linear function of PE(p) (section 3.5): each pair turns by an angle that depends on k alone."""
    table = sinusoidal(50, 6, torch.float64)
    for pair in range(3):
        turn = 11 / 10000 ** (2 * pair / 6)
        sin, cos = table[3, 2 * pair : 2 * pair + 2].tolist()
        assert table[14, 2 * pair].item() == pytest.approx(sin * math.cos(turn) + cos * math.sin(turn), abs=1e-12)


@pytest.mark.parametrize("kind", ["sinusoidal", "learned"])
def test_positions_are_added_and_do_not_depend_on_the_batch(kind):
    module, x = make_positions(kind, 11, 7), torch.zeros(3, 5, 7)
    out = module(x)
    assert out.shape == (3, 5, 7)
    assert torch.equal(out[0], out[2])
    assert torch.equal(out[1], module.weight[:5])


def test_learned_positions_are_trained_and_sinusoidal_ones_are_not_even_saved():
    assert [name for name, _ in LearnedPositions(11, 7).named_parameters()] == ["weight"]
    assert not list(SinusoidalPositions(11, 7).parameters()) and not SinusoidalPositions(11, 7).state_dict()


def test_no_positions_returns_its_input():
    x = torch.ones(2, 3, 5)
    assert NoPositions()(x) is x


def test_a_sequence_longer_than_the_table_is_refused():
    with pytest.raises(ValueError, match="17 positions do not fit in max_seq_len 16"):
        SinusoidalPositions(16, 4)(torch.zeros(1, 17, 4))


@pytest.mark.parametrize("size", [(0, 4), (4, 0)])
def test_an_empty_table_is_refused(size):
    with pytest.raises(ValueError, match="is empty"):
        sinusoidal(*size)


def test_an_unknown_kind_names_the_known_ones():
    with pytest.raises(ValueError, match="'rotary' are not known; sinusoidal, learned and none"):
        make_positions("rotary", 4, 4)
