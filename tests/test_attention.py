"""Attention: pencil numbers, torch.nn with the same weights, and what each fill does to a row without keys."""

import math

import pytest
import torch
from torch import nn

from transformer_core import masks
from transformer_core.attention import MultiHeadAttention, attend, masked_softmax
from transformer_core.layers import Dropout, Noise
from transformer_core.ledger import trace
from transformer_core.parity import torch_state


def normal(*shape, seed=7, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def test_scores_are_divided_by_the_root_of_d_head():
    """d_model 8, 2 heads: d_head 4. A dot product of 4 against 0 gives weights of softmax([2, 0])."""
    q = torch.tensor([[[[2.0, 0, 0, 0]]]])
    k = torch.tensor([[[[2.0, 0, 0, 0], [0, 0, 0, 0]]]])
    _, weights = attend(q, k, k)
    torch.testing.assert_close(weights.flatten(), torch.tensor([0.880797, 0.119203]), atol=1e-6, rtol=0)
    _, unscaled = attend(q, k, k, scale=False)
    torch.testing.assert_close(unscaled.flatten(), torch.tensor([4.0, 0.0]).softmax(0))


def test_weights_times_values_by_hand():
    q, k = torch.zeros(1, 1, 2, 3), torch.zeros(1, 1, 4, 3)
    v = torch.tensor([[[[1.0, 0, 3], [2, 0, 3], [6, 0, 3], [50, 50, 50]]]])
    context, weights = attend(q, k, v, torch.tensor([True, True, True, False]))
    torch.testing.assert_close(weights[0, 0], torch.tensor([1 / 3, 1 / 3, 1 / 3, 0.0]).expand(2, 4))
    assert context.flatten().tolist() == pytest.approx([3.0, 0.0, 3.0] * 2)


def test_the_softmax_is_over_keys():
    _, weights = attend(normal(2, 3, 5, 7), normal(2, 3, 11, 7), normal(2, 3, 11, 7))
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 5, dtype=torch.float64))
    assert not torch.allclose(weights.sum(-2), torch.ones(2, 3, 11, dtype=torch.float64))


def test_attend_equals_scaled_dot_product_attention():
    q, k, v, allowed = normal(3, 2, 5, 7), normal(3, 2, 11, 7, seed=8), normal(3, 2, 11, 7, seed=9), masks.causal(5, 11)
    expected = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    torch.testing.assert_close(attend(q, k, v, allowed)[0], expected, atol=1e-12, rtol=0)


def test_a_query_without_keys_gets_nothing_and_disturbs_nobody():
    scores = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]], dtype=torch.float64, requires_grad=True)
    weights = masked_softmax(scores, torch.tensor([[False, False, False], [True, True, False]]))
    assert weights[0].tolist() == [0, 0, 0]
    assert weights[1].tolist() == pytest.approx([0.26894142137, 0.73105857863, 0.0])
    weights.square().sum().backward()
    assert scores.grad.isfinite().all() and scores.grad[0].eq(0).all() and scores.grad[1].ne(0).any()


def test_the_output_of_a_query_without_keys_is_the_bias_of_w_o():
    attention = MultiHeadAttention(6, 2)
    x = normal(1, 3, 6, dtype=torch.float32)
    out = attention(x, x, torch.tensor([[True, True, True], [False, False, False], [True, False, False]]))
    assert torch.equal(out[0, 1], attention.w_o.bias)
    assert not torch.allclose(out[0, 0], attention.w_o.bias)


@pytest.mark.parametrize(
    ("fill", "row"), [("exclude", [0, 0, 0]), ("finfo_min", [1 / 3] * 3), ("-1e9", [1 / 3] * 3), ("-inf", None)]
)
def test_what_each_fill_does_with_a_row_without_keys(fill, row):
    weights = masked_softmax(torch.tensor([[1.0, 2.0, 3.0]]), torch.tensor([False, False, False]), fill)
    if row is None:
        assert weights.isnan().all()
    else:
        assert weights[0].tolist() == pytest.approx(row)


def test_minus_infinity_poisons_the_gradient_of_every_value():
    scores = torch.zeros(2, 3, requires_grad=True)
    allowed = torch.tensor([[False, False, False], [True, True, True]])
    masked_softmax(scores * 1.0, allowed, "-inf").square().sum().backward()
    assert scores.grad.isfinite().all(), "masked_fill stops the gradient of hidden scores"
    weights = masked_softmax(scores, allowed, "-inf")
    values = torch.ones(3, requires_grad=True)
    (weights @ values).sum().backward()
    assert values.grad.isnan().all()


@pytest.mark.parametrize("fill", ["exclude", "-inf", "finfo_min", "-1e9"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_masked_key_gets_exactly_nothing_in_every_dtype(dtype, fill):
    scores, allowed = torch.tensor([[1.0, 2.0, 3.0]], dtype=dtype), torch.tensor([True, True, False])
    if fill == "-1e9" and dtype == torch.float16:
        with pytest.raises(ValueError, match="fill -1e9 does not fit in float16, whose lowest number is -65504"):
            masked_softmax(scores, allowed, fill)
        return
    weights = masked_softmax(scores, allowed, fill)
    assert weights.dtype == dtype and weights[0, 2].item() == 0.0
    assert weights.sum().item() == pytest.approx(1.0, abs=4 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("large", [1e4, 1e30])
def test_large_scores_neither_overflow_nor_open_the_mask(large):
    weights = masked_softmax(torch.tensor([[large, 0.0, 2 * large]]), torch.tensor([True, True, False]))
    assert weights.tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize(("d_model", "n_heads"), [(6, 2), (15, 3), (7, 1), (7, 7)])
def test_multi_head_attention_equals_torch_with_the_same_weights(d_model, n_heads):
    torch.manual_seed(3)
    ours = MultiHeadAttention(d_model, n_heads).double()
    theirs = nn.MultiheadAttention(d_model, n_heads, batch_first=True).double().eval()
    theirs.load_state_dict(torch_state(ours))
    x, memory = normal(3, 5, d_model), normal(3, 11, d_model, seed=8)
    allowed = masks.padding(torch.tensor([[4] * 11, [4] * 7 + [0] * 4, [4] + [0] * 10]), 0)
    with trace(ours) as ledger:
        out = ours(x, memory, allowed)
    expected, weights = theirs(
        x, memory, memory, key_padding_mask=masks.to_key_padding_mask(allowed), average_attn_weights=False
    )
    torch.testing.assert_close(out, expected, atol=1e-12, rtol=0)
    torch.testing.assert_close(ledger["weights"].value, weights, atol=1e-12, rtol=0)


def test_heads_are_slices_of_features_not_of_tokens():
    attention = MultiHeadAttention(4, 2)
    x = torch.tensor([[[0.0, 1, 2, 3], [4, 5, 6, 7]]])
    heads = attention.split(x)
    assert heads.tolist() == [[[[0, 1], [4, 5]], [[2, 3], [6, 7]]]]
    assert torch.equal(attention.merge(heads), x)


def test_length_one_keeps_every_axis():
    attention = MultiHeadAttention(6, 3)
    x = normal(1, 1, 6, dtype=torch.float32)
    with trace(attention) as ledger:
        assert attention(x, x).shape == (1, 1, 6)
    assert ledger["weights"].value.tolist() == [[[[1.0]], [[1.0]], [[1.0]]]]


def test_weights_in_the_ledger_are_taken_before_dropout():
    attention = MultiHeadAttention(6, 2, dropout=Dropout(0.5, Noise(7)))
    x = normal(3, 5, 6, dtype=torch.float32)
    with trace(attention) as ledger:
        dropped = attention(x, x)
    torch.testing.assert_close(ledger["weights"].value.sum(-1), torch.ones(3, 2, 5))
    attention.dropout.eval()
    assert not torch.allclose(dropped, attention(x, x))


def test_the_dropout_module_is_a_child_that_follows_train_and_eval():
    attention = MultiHeadAttention(6, 2, dropout=Dropout(0.5, Noise(7))).eval()
    assert not attention.dropout.training


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="d_model 10 is not divisible by 3 heads; the nearest that divide: 2 and 5"):
        MultiHeadAttention(10, 3)


def test_an_additive_mask_is_refused_with_the_way_out():
    q = torch.zeros(1, 1, 2, 3)
    with pytest.raises(ValueError, match="must be boolean with True = may attend, got float32"):
        attend(q, q, q, masks.to_additive(masks.causal(2)))


def test_a_mask_of_another_shape_is_refused_with_both_shapes():
    q, k = torch.zeros(2, 4, 5, 3), torch.zeros(2, 4, 7, 3)
    with pytest.raises(ValueError, match=r"\(2, 1, 1, 6\), which does not broadcast to the scores \(2, 4, 5, 7\)"):
        attend(q, k, k, torch.ones(2, 1, 1, 6, dtype=torch.bool))
    with pytest.raises(ValueError, match="does not broadcast"):
        attend(q, k, k, torch.ones(3, 2, 4, 5, 7, dtype=torch.bool))


def test_an_unknown_fill_names_the_known_ones():
    with pytest.raises(ValueError, match="fill 'zero' is not known; exclude, -inf, finfo_min, -1e9 are"):
        masked_softmax(torch.zeros(1, 2), torch.tensor([True, False]), "zero")


def test_equation_one_one_number_at_a_time():
    q, k, v = (normal(1, 1, n, 3, seed=n) for n in (2, 5, 5))
    context, _ = attend(q, k, v)
    for i in range(2):
        exps = [math.exp(sum((q[0, 0, i] * k[0, 0, j]).tolist()) / math.sqrt(3)) for j in range(5)]
        for d in range(3):
            expected = sum(exps[j] / sum(exps) * v[0, 0, j, d].item() for j in range(5))
            assert context[0, 0, i, d].item() == pytest.approx(expected, rel=1e-12)
