"""Masks: counts by hand, composition, and the other conventions against torch.nn with the same scores."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from transformer_core import masks
from transformer_core.attention import attend, masked_softmax

TOKENS = torch.tensor([[5, 6, 7, 0], [8, 0, 0, 0], [4, 5, 6, 7]])


def rows(mask):
    return ["".join("1" if cell else "0" for cell in row) for row in mask.tolist()]


def test_padding_hides_keys_in_every_head_and_every_row():
    allowed = masks.padding(torch.tensor([[7, 8, 0], [9, 0, 0]]), pad_id=0)
    assert allowed.shape == (2, 1, 1, 3)
    weights = masked_softmax(torch.zeros(2, 2, 3, 3), allowed)
    assert torch.equal(weights[0], torch.tensor([0.5, 0.5, 0.0]).expand(2, 3, 3))
    assert torch.equal(weights[1], torch.tensor([1.0, 0.0, 0.0]).expand(2, 3, 3))


def test_causal_square_and_aligned_to_the_last_key():
    assert rows(masks.causal(3)) == ["100", "110", "111"]
    assert masks.causal(2, 5).sum(-1).tolist() == [4, 5]
    assert masks.causal(5, 2).sum(-1).tolist() == [0, 0, 0, 1, 2]


def test_a_causal_window_counts_the_query_itself():
    assert masks.window(5, 5, 3).sum(-1).tolist() == [1, 2, 3, 3, 3]


def test_a_two_sided_window_is_a_distance():
    assert masks.window(5, 5, 1, causal=False).sum(-1).tolist() == [2, 3, 3, 3, 2]


def test_a_window_of_unequal_lengths_is_aligned_like_causal():
    assert rows(masks.window(2, 5, 2)) == ["00110", "00011"]


def test_prefix_is_seen_whole():
    assert rows(masks.prefix(4, 2)) == ["1100", "1100", "1110", "1111"]


def test_block_and_strided():
    assert rows(masks.block(5, 5, 2)) == ["11000", "11000", "00110", "00110", "00001"]
    assert rows(masks.strided(5, 5, 3)) == ["10010", "01001", "00100", "10010", "01001"]


@pytest.mark.parametrize("make", [masks.window, masks.block, masks.strided])
@pytest.mark.parametrize("width", [0, -3])
def test_a_width_below_one_is_refused(make, width):
    with pytest.raises(ValueError, match=f"{make.__name__} must be at least 1, got {width}"):
        make(4, 4, width)


def test_a_prefix_beyond_the_sequence_is_refused():
    with pytest.raises(ValueError, match="prefix 5 is longer than the sequence of 4; at most 4 fits"):
        masks.prefix(4, 5)
    with pytest.raises(ValueError, match="prefix must be at least 1, got 0"):
        masks.prefix(4, 0)


@pytest.mark.parametrize(("lengths", "what"), [((0, 3), "0 queries"), ((3, 0), "0 keys")])
def test_an_empty_side_is_refused(lengths, what):
    with pytest.raises(ValueError, match=f"at least one query and one key, got {what}"):
        masks.causal(*lengths)


def test_compose_joins_with_and():
    allowed = masks.compose(["padding", "causal", "window:2"], 4, TOKENS)
    assert allowed.shape == (3, 1, 4, 4)
    assert rows(allowed[0, 0]) == ["1000", "1100", "0110", "0010"]
    assert rows(allowed[1, 0]) == ["1000", "1000", "0000", "0000"]


def test_compose_of_no_rules_is_no_mask():
    assert masks.compose([], 4, TOKENS) is None


def test_prefix_is_joined_with_causal_before_padding_is_applied():
    allowed = masks.compose(["padding", "causal", "prefix:2"], 4, torch.tensor([[5, 6, 7, 0]]))
    assert rows(allowed[0, 0]) == ["1100", "1100", "1110", "1110"]


def test_two_sided_makes_the_window_a_distance():
    assert rows(masks.compose(["window:1"], 3, TOKENS[:, :3], two_sided=True)) == ["110", "111", "011"]
    assert rows(masks.compose(["window:1"], 3, TOKENS[:, :3])) == ["100", "010", "001"]


def test_a_prefix_is_refused_between_unequal_lengths():
    with pytest.raises(ValueError, match="prefix:2 is for self-attention; here are 3 queries and 4 keys"):
        masks.compose(["prefix:2"], 3, TOKENS)


def test_a_custom_matrix_is_taken_as_it_is_and_its_shape_is_checked():
    matrix = [[True, False, True, False], [False, True, True, True]]
    assert rows(masks.compose(["custom"], 2, TOKENS, custom=matrix)) == ["1010", "0111"]
    with pytest.raises(ValueError, match="the custom mask is 2 x 4, this attention has 3 queries x 4 keys"):
        masks.compose(["custom"], 3, TOKENS, custom=matrix)
    with pytest.raises(ValueError, match="needs its matrix beside it"):
        masks.compose(["custom"], 2, TOKENS)


def test_left_padding_under_a_causal_mask_leaves_two_empty_rows():
    allowed = masks.compose(["padding", "causal"], 4, torch.tensor([[0, 0, 5, 6]]))
    assert masks.empty_rows(allowed) == [(0, 0, 0), (0, 0, 1)]
    weights = masked_softmax(torch.zeros(1, 1, 4, 4), allowed)[0, 0]
    assert weights.tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0.5, 0.5]]


def test_cross_attention_masks_the_keys_of_the_source():
    allowed = masks.compose(["padding"], 2, torch.tensor([[5, 6, 7, 0]]))
    weights = masked_softmax(torch.zeros(1, 1, 2, 4), allowed)
    torch.testing.assert_close(weights[0, 0], torch.tensor([1 / 3, 1 / 3, 1 / 3, 0.0]).expand(2, 4))
    assert weights[..., 3].eq(0).all()


def test_one_mask_means_the_same_in_every_convention():
    allowed = masks.padding(torch.tensor([[5, 6, 0]]), 0)
    assert masks.to_key_padding_mask(allowed).tolist() == [[False, False, True]]
    assert masks.to_attn_mask(allowed.expand(1, 1, 2, 3)).tolist() == [[False, False, True]] * 2
    with pytest.raises(ValueError, match="one row for all queries; use to_key_padding_mask"):
        masks.to_attn_mask(allowed)
    assert masks.to_additive(allowed).tolist() == [[[[0.0, 0.0, -float("inf")]]]]


def test_a_mask_of_queries_is_no_key_padding_mask():
    with pytest.raises(ValueError, match=r"\(B 1 1 k\), got shape \(3, 3\); use to_attn_mask"):
        masks.to_key_padding_mask(masks.causal(3))


def test_heads_of_a_mask_are_its_own_or_given():
    per_head = torch.stack([masks.causal(3), masks.window(3, 3, 1)]).expand(5, 2, 3, 3)
    assert torch.equal(masks.from_attn_mask(masks.to_attn_mask(per_head), 2), per_head)
    assert masks.to_attn_mask(per_head[:, :1], n_heads=7).shape == (35, 3, 3)
    with pytest.raises(ValueError, match="allowed has 2 heads, n_heads is 3; they must be equal"):
        masks.to_attn_mask(per_head, n_heads=3)
    with pytest.raises(ValueError, match=r"shape \(2, 3, 3\); q k or B H q k is wanted"):
        masks.to_attn_mask(per_head[0])


def test_a_finite_bias_is_no_mask():
    with pytest.raises(ValueError, match="holds 0 and -inf only, got -1e\\+09"):
        masks.from_additive(torch.tensor([0.0, -1e9]))


lengths = st.integers(1, 7)
rules = st.lists(
    st.sampled_from(["padding", "causal", "window:2", "window:5", "block:3", "strided:2"]), unique=True, max_size=4
).filter(lambda chosen: sum(rule.startswith("window") for rule in chosen) < 2)


@st.composite
def arguments(draw):
    """A random composition over random tokens, padding anywhere."""
    q_len, k_len, batch = draw(lengths), draw(lengths), draw(st.integers(1, 3))
    keys = draw(st.lists(st.lists(st.integers(0, 5), min_size=k_len, max_size=k_len), min_size=batch, max_size=batch))
    return draw(rules), q_len, keys, draw(st.booleans())


def composed(chosen, q_len, keys, two_sided):
    """The mask at its full shape, for two heads."""
    full = torch.ones(len(keys), 2, q_len, len(keys[0]), dtype=torch.bool)
    allowed = masks.compose(chosen, q_len, torch.tensor(keys), two_sided=two_sided)
    return full if allowed is None else allowed & full


@settings(deadline=None, max_examples=60)
@given(arguments())
def test_conversions_go_there_and_back(case):
    allowed = composed(*case)
    assert torch.equal(masks.from_additive(masks.to_additive(allowed)), allowed)
    assert torch.equal(masks.from_attn_mask(masks.to_attn_mask(allowed, n_heads=2), n_heads=2), allowed)
    keys = allowed[:, :1, :1]
    assert torch.equal(masks.from_key_padding_mask(masks.to_key_padding_mask(keys)), keys)


@settings(deadline=None, max_examples=60)
@given(arguments())
def test_weights_equal_those_of_torch_where_a_key_is_visible_and_are_zero_elsewhere(case):
    allowed = composed(*case)
    batch, heads, q_len, k_len = allowed.shape
    generator = torch.Generator().manual_seed(q_len * 8 + k_len)
    q = torch.randn(batch, heads, q_len, 3, generator=generator, dtype=torch.float64, requires_grad=True)
    k = torch.randn(batch, heads, k_len, 3, generator=generator, dtype=torch.float64)
    v = torch.randn(batch, heads, k_len, 3, generator=generator, dtype=torch.float64)
    context, weights = attend(q, k, v, allowed)
    visible = allowed.any(-1)
    reference = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
    torch.testing.assert_close(context[visible], reference[visible], atol=1e-12, rtol=0)
    assert weights[~allowed].eq(0).all()
    assert context[~visible].eq(0).all()
    torch.testing.assert_close(weights.sum(-1), visible.double(), atol=1e-12, rtol=0)
    context.square().sum().backward()
    assert q.grad.isfinite().all()


def test_the_mask_of_multi_head_attention_gives_the_same_weights():
    allowed = masks.compose(["padding", "causal"], 4, TOKENS).expand(3, 2, 4, 4)
    torch.manual_seed(0)
    reference = nn.MultiheadAttention(6, 2, batch_first=True).double().eval()
    x = torch.randn(3, 4, 6, dtype=torch.float64)
    _, weights = reference(x, x, x, attn_mask=masks.to_attn_mask(allowed, n_heads=2), average_attn_weights=False)
    q, k, v = (
        part.unflatten(-1, (2, 3)).transpose(1, 2)
        for part in (x @ reference.in_proj_weight.T + reference.in_proj_bias).chunk(3, dim=-1)
    )
    torch.testing.assert_close(attend(q, k, v, allowed)[1], weights, atol=1e-12, rtol=0)
