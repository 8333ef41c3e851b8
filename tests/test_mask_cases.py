"""What went wrong with masks for others, case by case, with the numbers that are right (scores before the softmax)."""

import pytest
import torch
from torch import Tensor

from transformer_core import DataConfig, MaskConfig, ModelConfig, build, run_checks, trace
from transformer_core.attention import MultiHeadAttention, attend, masked_softmax
from transformer_core.batches import make_batch
from transformer_core.masks import causal, compose, empty_rows, padding, prefix, to_attn_mask, window
from transformer_core.softmax_lab import map_summary


def keep(rows: list[list[int]]) -> Tensor:
    """Rows of tokens in which 1 is a word and 0 is padding, as the mask they lead to."""
    return padding(torch.tensor(rows), pad_id=0)


def test_h01_a_row_with_every_key_blocked_gives_zeros_and_the_bias() -> None:
    allowed = torch.tensor([[False, False, False], [True, True, False]])
    scores = torch.tensor([[1.0, 2.0, 3.0], [1.0, 1.0, 9.0]], requires_grad=True)
    weights = masked_softmax(scores, allowed)
    assert weights.tolist() == [[0, 0, 0], [0.5, 0.5, 0]]
    (weights * torch.tensor([1.0, 3.0, 5.0])).sum().backward()
    assert scores.grad is not None and scores.grad[0].tolist() == [0, 0, 0] and scores.grad[1].isfinite().all()
    layer = MultiHeadAttention(6, 3)
    torch.nn.init.normal_(layer.w_o.bias)
    x = torch.randn(2, 5, 6)
    output = layer(x, x, keep([[0, 0, 0, 0, 0], [1, 1, 1, 0, 0]]))
    assert torch.equal(output[0], layer.w_o.bias.expand(5, 6)) and not torch.equal(output[1, 0], layer.w_o.bias)


def test_h02_left_padding_under_a_causal_mask_leaves_two_empty_rows() -> None:
    allowed = compose(["padding", "causal"], 4, torch.tensor([[0, 0, 7, 8]]))
    assert allowed is not None
    weights = masked_softmax(torch.zeros(1, 1, 4, 4), allowed)
    assert weights[0, 0].tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0.5, 0.5]]
    assert len(empty_rows(allowed)) == 2


def test_h03_true_means_may_attend_and_each_library_gets_its_own_form() -> None:
    allowed = keep([[1, 1, 0]]).expand(1, 1, 3, 3)
    assert masked_softmax(torch.zeros(1, 1, 3, 3), allowed)[0, 0].tolist() == [[0.5, 0.5, 0]] * 3
    q, v = torch.zeros(1, 1, 3, 2), torch.eye(3)[None, None]
    theirs = torch.nn.functional.scaled_dot_product_attention(q, q, v, attn_mask=allowed)
    assert theirs[0, 0].tolist() == [[0.5, 0.5, 0]] * 3
    heads = torch.nn.MultiheadAttention(2, 1, batch_first=True)
    torch.nn.init.zeros_(heads.in_proj_weight)
    _, weights = heads(q[0], q[0], q[0], attn_mask=to_attn_mask(allowed))
    assert weights[0].tolist() == [[0.5, 0.5, 0]] * 3


def test_h04_padding_hides_keys_and_rows_of_padding_still_sum_to_1() -> None:
    weights = masked_softmax(torch.zeros(2, 2, 3, 3), keep([[1, 1, 0], [1, 0, 0]]))
    assert weights[0].tolist() == [[[0.5, 0.5, 0]] * 3] * 2 and weights[1].tolist() == [[[1, 0, 0]] * 3] * 2


def test_h05_cross_attention_is_a_rectangle_with_the_mask_of_the_source() -> None:
    allowed = compose(["padding"], 2, torch.tensor([[5, 6, 7, 0]]), cross=True)
    weights = masked_softmax(torch.zeros(1, 3, 2, 4), allowed)
    assert weights.shape == (1, 3, 2, 4)
    assert weights[0, 0].tolist() == [pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])] * 2


def test_h06_two_new_queries_behind_three_earlier_keys_see_four_and_five() -> None:
    assert causal(2, 5).sum(dim=-1).tolist() == [4, 5]


def test_h07_counts_of_window_and_prefix() -> None:
    assert window(5, 5, 3).sum(dim=-1).tolist() == [1, 2, 3, 3, 3]
    assert window(5, 5, 1, causal=False).sum(dim=-1).tolist() == [2, 3, 3, 3, 2]
    assert prefix(4, 2).int().tolist() == [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]


@pytest.mark.parametrize("training", [True, False])
def test_h08_row_sums_are_read_before_dropout(training: bool) -> None:
    config = ModelConfig(d_model=12, n_heads=3, d_ff=14, attention_dropout=0.5, max_seq_len=16)
    batch = make_batch(config, DataConfig(src_len=7, tgt_len=5))
    model = build(config).train(training)
    with trace(model) as ledger:
        model(batch.src, batch.tgt)
    sums = [entry.value.sum(dim=-1) for entry in ledger if entry.name == "weights"]
    assert sums and all(torch.allclose(each, torch.ones_like(each), atol=1e-6) for each in sums)
    assert {each.name: each.passed for each in run_checks(model, batch)}["row_sums"]


def test_h09_heads_stay_apart_and_an_average_says_that_it_is_one() -> None:
    weights = torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]]]])  # B 1, H 2, q 1, k 2
    allowed = torch.ones_like(weights, dtype=torch.bool)
    assert map_summary(weights, allowed, head=0).column_sums == [1, 0]
    assert map_summary(weights, allowed, head=1).column_sums == [0, 1]
    mean = map_summary(weights, allowed, head=None)
    assert mean.averaged == 2 and mean.column_sums == [0.5, 0.5]
    assert map_summary(weights, allowed, head=1).averaged == 1
    q = torch.randn(2, 3, 5, 7)
    assert attend(q, q, q)[1].shape == (2, 3, 5, 5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_h10_a_blocked_key_has_probability_0_in_every_dtype(dtype: torch.dtype) -> None:
    scores = torch.tensor([[1.0, 2.0, 3.0]], dtype=dtype)
    weights = masked_softmax(scores, torch.tensor([True, True, False]))
    assert weights[0, 2].item() == 0 and weights.dtype == dtype
    assert weights[0, :2].tolist() == pytest.approx([0.268941, 0.731059], abs=4e-3)


def test_the_settings_lead_to_the_same_masks() -> None:
    """H02 once more, from a typed sentence: the ledger lists the two empty rows and a check warns of them."""
    config = ModelConfig(architecture="decoder", d_model=12, n_heads=3, d_ff=14, max_seq_len=16)
    model = build(config, MaskConfig(), seed=7).eval()
    batch = make_batch(config, DataConfig(tgt=[[0, 0, 7, 8]]), 7)
    result = next(each for each in run_checks(model, batch) if each.name == "visible_keys")
    assert result.passed and result.warning and result.measured == 2
