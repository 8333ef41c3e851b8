"""Masks: counts by hand, composition, and the other conventions against torch.nn with the same scores."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from transformer_core import masks
from transformer_core.attention import MultiHeadAttention, attend, masked_softmax
from transformer_core.config import MaskConfig
from transformer_core.ledger import trace
from transformer_core.model import build

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


# Random, documents and conditions


def test_random_is_the_same_every_time_on_every_length_and_keeps_the_diagonal():
    small, large = masks.random(5, 5, 30), masks.random(11, 11, 30)
    assert torch.equal(small, masks.random(5, 5, 30)) and torch.equal(small, large[:5, :5])
    assert torch.equal(masks.random(2, 5, 30), small[3:])  # the last queries stand at the last keys
    assert small.diagonal().all()
    free = masks.random(41, 41, 30, diagonal=False)
    assert not free.diagonal().all() and torch.equal(free | torch.eye(41).bool(), masks.random(41, 41, 30))


@pytest.mark.parametrize("percent", [1, 10, 50, 99])
def test_random_opens_as_many_pairs_as_it_says_in_every_part(percent):
    drawn = masks.random(400, 400, percent, diagonal=False).double()
    share, spread = percent / 100, (percent / 100 * (1 - percent / 100) / 400) ** 0.5
    assert abs(drawn.mean() - share) < 4 * spread / 20
    for axis in (0, 1):  # rows and columns spread as independent draws do
        assert 0.85 * spread < drawn.mean(axis).std() < 1.15 * spread
    beside = (
        (drawn[1:] * drawn[:-1]).mean(),
        (drawn[:, 1:] * drawn[:, :-1]).mean(),
        (drawn[1:, 1:] * drawn[:-1, :-1]).mean(),
    )
    assert all(abs(each - share**2) < 0.01 for each in beside)
    with pytest.raises(ValueError, match="random must be from 1 to 99 per cent, got 100"):
        masks.random(4, 4, 100)


def test_a_document_ends_with_its_end_token():
    allowed = masks.documents(torch.tensor([[5, 2, 6, 7, 2], [2, 2, 5, 6, 7]]), end_id=2)
    assert allowed.shape == (2, 1, 5, 5)
    assert rows(allowed[0, 0]) == ["11000", "11000", "00111", "00111", "00111"]
    assert rows(allowed[1, 0]) == ["10000", "01000", "00111", "00111", "00111"]


def test_the_new_rules_compose_with_the_others():
    keys = torch.tensor([[5, 2, 6, 7, 0]])
    assert rows(masks.compose(["padding", "causal", "documents"], 5, keys)[0, 0]) == [
        "10000", "11000", "00100", "00110", "00110",
    ]  # fmt: skip
    assert rows(masks.compose(["causal", "where:q - k < 2"], 4, TOKENS)) == ["1000", "1100", "0110", "0011"]
    open_pairs = masks.compose(["random:30", "causal"], 5, keys)
    assert torch.equal(open_pairs, masks.random(5, 5, 30) & masks.causal(5))
    with pytest.raises(ValueError, match="documents is for self-attention; here are 3 queries and 5 keys"):
        masks.compose(["documents"], 3, keys)


def test_no_diagonal_stays_open_in_cross_attention():
    keys = torch.ones(1, 41, dtype=torch.int64)
    here = masks.compose(["random:7"], 41, keys)
    there = masks.compose(["random:7"], 41, keys, cross=True)
    assert here.diagonal().all() and not there.diagonal().all() and torch.equal(here & there, there)


def test_a_condition_may_differ_between_sentences_and_heads():
    by_head = masks.compose(["where:k == h"], 2, TOKENS, n_heads=2)
    assert by_head.shape == (1, 2, 2, 4)
    assert [rows(head) for head in by_head[0]] == [["1000", "1000"], ["0100", "0100"]]
    by_sentence = masks.compose(["where:b < 2 or q == k"], 2, TOKENS)
    assert by_sentence.shape == (3, 1, 2, 4)
    assert rows(by_sentence[1, 0]) == ["1111", "1111"] and rows(by_sentence[2, 0]) == ["1000", "0100"]
    both = masks.compose(["padding", "where:(b + h) % 2 == 0"], 2, TOKENS, n_heads=5)
    assert both.shape == (3, 5, 2, 4) and both[0, 1].sum() == 0 and rows(both[1, 1]) == ["1000", "1000"]
    with pytest.raises(ValueError, match="where:k == h needs the number of heads"):
        masks.compose(["where:k == h"], 2, TOKENS)


def test_a_condition_counts_rows_and_can_be_aligned_by_hand():
    assert rows(masks.compose(["where:k <= q"], 2, torch.ones(1, 5, dtype=torch.int64))) == ["10000", "11000"]
    aligned = masks.compose(["where:k <= q + n_k - n_q"], 2, torch.ones(1, 5, dtype=torch.int64))
    assert torch.equal(aligned, masks.causal(2, 5))


def test_the_settings_give_the_mask_of_each_attention():
    settings = MaskConfig(
        encoder_self=["window:1"], decoder_self=["window:1"], cross=["custom", "where:h == 0"],
        cross_custom=[[1, 0, 1, 1], [0, 1, 1, 1]],
    )  # fmt: skip
    assert rows(masks.for_attention(settings, "encoder_self", 4, TOKENS)) == ["1100", "1110", "0111", "0011"]
    assert rows(masks.for_attention(settings, "decoder_self", 4, TOKENS)) == ["1000", "0100", "0010", "0001"]
    cross = masks.for_attention(settings, "cross", 2, TOKENS, n_heads=3)
    assert [rows(head) for head in cross[0]] == [["1011", "0111"], ["0000"] * 2, ["0000"] * 2]
    assert masks.for_attention(MaskConfig(cross=[]), "cross", 2, TOKENS) is None


def test_masks_of_heads_reach_the_weights_of_a_model(tiny, tiny_batch):
    settings = MaskConfig(encoder_self=["padding", "where:h != 1 or q == k"], cross=["where:b == 0 or k == 0"])
    model = build(tiny, settings, seed=7).eval()
    with torch.no_grad(), trace(model) as ledger:
        model(tiny_batch.src, tiny_batch.tgt)
    encoder = ledger["encoder.layers.0.self_attention/weights"].value
    assert torch.equal(encoder[0, 1], torch.eye(5)) and not torch.equal(encoder[0, 0], torch.eye(5))
    cross = ledger["decoder.layers.0.cross_attention/weights"].value
    assert cross[1, :, :, 0].eq(1).all() and cross[0, :, :, 1].gt(0).all()


@pytest.mark.parametrize("rule", ["random:40", "documents", "where:q - k < 3 and b + h < 3"])
def test_the_new_rules_take_no_memory_on_meta(rule):
    settings = MaskConfig(encoder_self=[rule])
    allowed = masks.for_attention(settings, "encoder_self", 5, torch.ones(2, 5, device="meta").long(), n_heads=3)
    assert allowed.is_meta and torch.broadcast_shapes(allowed.shape, (2, 3, 5, 5)) == (2, 3, 5, 5)


def test_each_rule_by_itself():
    settings = MaskConfig(decoder_self=["padding", "causal", "prefix:2", "where:h == 0 or q == k"])
    alone = masks.by_rule(settings, "decoder_self", 4, TOKENS, n_heads=2)
    assert list(alone) == ["padding", "prefix:2", "where:h == 0 or q == k"]
    assert {tuple(each.shape) for each in alone.values()} == {(3, 2, 4, 4)}
    assert rows(alone["prefix:2"][0, 0]) == ["1100", "1100", "1110", "1111"]


# The requirement examples: masks


def test_h01_a_query_without_a_key_leaves_the_bias_of_the_output_projection():
    attention = MultiHeadAttention(6, 2).double()
    torch.nn.init.normal_(attention.w_o.bias)
    x = torch.randn(3, 4, 6, dtype=torch.float64, requires_grad=True)
    allowed = torch.ones(3, 1, 4, 4, dtype=torch.bool)
    allowed[1] = False
    output = attention(x, x, allowed)
    assert torch.equal(output[1], attention.w_o.bias.expand(4, 6))
    output.square().sum().backward()
    assert x.grad.isfinite().all() and masks.empty_rows(allowed) == [(1, 0, row) for row in range(4)]
    alone = attention(x[:1], x[:1])
    torch.testing.assert_close(output[:1], alone)


def test_h04_a_padding_mask_hides_keys_and_no_rows():
    allowed = masks.padding(torch.tensor([[7, 8, 0], [9, 0, 0]]), 0)
    weights = masked_softmax(torch.zeros(2, 2, 3, 3, dtype=torch.float64), allowed)
    assert weights.sum(-1).eq(1).all()  # those of padded queries too


def test_h06_h07_counts_of_visible_keys():
    keys = torch.ones(1, 5, dtype=torch.int64)
    assert masks.compose(["causal"], 2, keys).sum(-1).tolist() == [4, 5]
    assert masks.compose(["causal", "window:3"], 5, keys).sum(-1).tolist() == [1, 2, 3, 3, 3]
    assert masks.compose(["window:1"], 5, keys, two_sided=True).sum(-1).tolist() == [2, 3, 3, 3, 2]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_h10_what_is_hidden_is_exactly_0_in_every_dtype(dtype):
    weights = masked_softmax(torch.tensor([[1.0, 2, 3]], dtype=dtype), torch.tensor([[True, True, False]]))
    assert weights.dtype == dtype and weights[0, 2] == 0
    torch.testing.assert_close(weights[0, :2].double(), torch.tensor([0.268941, 0.731059]).double(), atol=4e-3, rtol=0)


# Any composition at all

EVERY = ("padding", "causal", "window:2", "block:3", "strided:2", "random:40", "documents", "where:q - k < 3 or b == h")


@st.composite
def compositions(draw):
    """Random rules over random tokens: padding and ends of documents anywhere, also rows that see nothing."""
    length, batch, cross = draw(st.integers(1, 6)), draw(st.integers(1, 3)), draw(st.booleans())
    q_len = draw(st.integers(1, 6)) if cross else length
    row = st.lists(st.integers(0, 5), min_size=length, max_size=length)
    keys = torch.tensor(draw(st.lists(row, min_size=batch, max_size=batch)))
    chosen = draw(st.lists(st.sampled_from(EVERY), unique=True, max_size=5))
    if cross:
        chosen = [rule for rule in chosen if rule != "documents"]
    return chosen, q_len, keys, {"two_sided": draw(st.booleans()), "cross": cross, "n_heads": 2}


@settings(max_examples=60)
@given(compositions())
def test_any_composition_is_the_and_of_its_rules_and_broadcasts(case):
    chosen, q_len, keys, how = case
    shape = (len(keys), 2, q_len, keys.shape[1])
    joined = torch.ones(shape, dtype=torch.bool)
    for rule in chosen:
        joined &= masks.compose([rule], q_len, keys, **how)
    allowed = masks.compose(chosen, q_len, keys, **how)
    assert (allowed is None) == (not chosen)
    full = joined if allowed is None else allowed.expand(shape)
    assert torch.equal(full, joined)
    assert len(masks.empty_rows(full)) == int((full.sum(-1) == 0).sum())
    if "padding" in chosen:
        assert not full.any(dim=1).any(dim=1)[keys == 0].any()


@settings(max_examples=50)
@given(compositions())
def test_any_composition_gives_the_weights_of_torch_exact_zeros_and_finite_gradients(case):
    chosen, q_len, keys, how = case
    allowed = masks.compose(chosen, q_len, keys, **how)
    full = torch.ones(len(keys), 2, q_len, keys.shape[1], dtype=torch.bool)
    full = full if allowed is None else allowed.expand(full.shape)
    q, k, v = (torch.randn(len(keys), 2, n, 3, dtype=torch.float64, requires_grad=True)
               for n in (q_len, keys.shape[1], keys.shape[1]))  # fmt: skip
    context, weights = attend(q, k, v, allowed)
    seen = full.any(-1)
    reference = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=full)
    torch.testing.assert_close(context[seen], reference[seen], atol=1e-12, rtol=0)
    assert weights[~full].eq(0).all() and context[~seen].eq(0).all()
    torch.testing.assert_close(weights.sum(-1), seen.double(), atol=1e-12, rtol=0)
    context.square().sum().backward()
    assert all(each.grad.isfinite().all() for each in (q, k, v))

    theirs = nn.MultiheadAttention(6, 2, batch_first=True, dtype=torch.float64).eval()
    ours = to_ours(theirs)
    x, memory = torch.randn(len(keys), q_len, 6).double(), torch.randn(len(keys), keys.shape[1], 6).double()
    ignored = (~full).flatten(0, 1)
    output, _ = theirs(x, memory, memory, attn_mask=ignored)
    everywhere = seen.all(dim=1)  # one head without any key spoils the whole vector in torch's module
    torch.testing.assert_close(ours(x, memory, allowed)[everywhere], output[everywhere], atol=1e-12, rtol=0)


def to_ours(theirs):
    """Our attention with the weights of torch's."""
    ours = MultiHeadAttention(theirs.embed_dim, theirs.num_heads).double()
    with torch.no_grad():
        for mine, weight, bias in zip((ours.w_q, ours.w_k, ours.w_v), theirs.in_proj_weight.chunk(3),
                                      theirs.in_proj_bias.chunk(3), strict=True):  # fmt: skip
            mine.weight.copy_(weight)
            mine.bias.copy_(bias)
        ours.w_o.weight.copy_(theirs.out_proj.weight)
        ours.w_o.bias.copy_(theirs.out_proj.bias)
    return ours
