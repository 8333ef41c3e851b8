"""The cache: with it the same tokens and the same scores, under every rule, and one token read where one is new."""

from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from transformer_core.config import MaskConfig, ModelConfig
from transformer_core.decoding import beam, both_ways, greedy, next_log_probs_of, sample
from transformer_core.key_value_cache import KeyValueCache
from transformer_core.ledger import trace
from transformer_core.masks import causal
from transformer_core.model import build

pytestmark = pytest.mark.usefixtures("unchecked_shapes")  # thousands of small calls, whose shapes others test
SIZES = {"d_model": 20, "n_heads": 2, "d_ff": 23, "n_encoder_layers": 1, "n_decoder_layers": 2,
         "src_vocab_size": 13, "tgt_vocab_size": 11, "max_seq_len": 17}  # fmt: skip
RIGHT, LEFT = torch.tensor([[4, 5, 6, 7, 8], [9, 10, 0, 0, 0], [3, 0, 0, 0, 0]]), torch.tensor([[4, 5, 6], [0, 0, 7]])
LENGTH = 6
TGT = torch.tensor([[1, 7, 4, 2, 9, 5, 2], [1, 10, 3, 0, 0, 0, 0], [1, 2, 0, 0, 6, 6, 8]])
RULES = ("padding", "causal", "window:3", "prefix:1", "block:2", "strided:2", "random:40", "documents",
         "where:k <= q", "where:k <= q + n_k - n_q", "where:n_k < 5 or k > 1", "where:h == 0 or k < 2",
         "where:b == 0 or k < 3")  # fmt: skip
CROSS = ("padding", "causal", "window:2", "block:2", "strided:2", "random:40", "where:q == k", "where:h == k % 2",
         "where:k < n_q", "where:b == 0 or k < 3")  # fmt: skip


def model_of(masks=None, **changes):
    """In double precision, so that rounding cannot turn one token into another; the embeddings are spread apart."""
    model = build(ModelConfig(**SIZES | changes), masks, seed=5, dtype=torch.float64).eval()
    with torch.no_grad():
        model.output.weight.mul_(3)
    return model


class Counted:
    """How many places of the target the first decoder layer reads at each step."""

    def __init__(self, model):
        self.read, self.layer = [], model.decoder.layers[0]

    def __enter__(self):
        self.handle = self.layer.register_forward_pre_hook(lambda _, given: self.read.append(given[0].shape[1]))
        return self.read

    def __exit__(self, *_):
        self.handle.remove()


def same_either_way(model, src):
    """Tokens and logits with the cache and without."""
    written = [greedy(model, src, max_length=LENGTH, end_id=10, cache=cache) for cache in (True, False)]
    assert torch.equal(*written)
    drawn = [sample(model, src, seed=3, max_length=LENGTH, cache=cache) for cache in (True, False)]
    assert torch.equal(*drawn)
    tgt = TGT[: len(src)]
    memory, cached, anew = model.encode(src), [], []
    for t in range(1, tgt.shape[1] + 1):
        anew.append(model.decode(tgt[:, :t], memory, src)[:, -1])
    with KeyValueCache().open():
        for t in range(1, tgt.shape[1] + 1):
            cached.append(model.decode(tgt[:, :t], memory, src)[:, -1])
    torch.testing.assert_close(torch.stack(cached), torch.stack(anew), atol=1e-12, rtol=1e-10)


# ---- the same, whatever the settings


@pytest.mark.parametrize("rules", [(rule, *more) for rule in RULES for more in ((), ("causal",)) if rule not in more])
@torch.no_grad()
def test_every_rule_of_self_attention(rules):
    same_either_way(model_of(MaskConfig(decoder_self=rules)), RIGHT)


@pytest.mark.parametrize("rule", CROSS)
@torch.no_grad()
def test_every_rule_of_cross_attention(rule):
    same_either_way(model_of(MaskConfig(cross=(rule,))), RIGHT)


@settings(max_examples=10)
@given(
    own=st.lists(st.sampled_from(RULES), max_size=4, unique_by=lambda rule: rule.partition(":")[0]),
    cross=st.lists(st.sampled_from(CROSS), max_size=3, unique_by=lambda rule: rule.partition(":")[0]),
    order=st.sampled_from(["post", "pre"]),
    left=st.booleans(),
)
@torch.no_grad()
def test_any_rules_together(own, cross, order, left):
    same_either_way(model_of(MaskConfig(decoder_self=own, cross=cross), norm_order=order), LEFT if left else RIGHT)


@pytest.mark.parametrize("masks", [MaskConfig(), MaskConfig(decoder_self=[]), MaskConfig(decoder_self=["padding"])])
@pytest.mark.parametrize("src", [RIGHT, LEFT, RIGHT[:1], torch.zeros(2, 3, dtype=torch.int64)],
                         ids=["right", "left", "one", "nothing but padding"])  # fmt: skip
@torch.no_grad()
def test_either_padding_side(masks, src):
    same_either_way(model_of(masks), src)


@pytest.mark.parametrize(
    ("positions", "order", "norm", "activation"),
    [*product(("sinusoidal", "learned", "none"), ("post", "pre"), ("layer",), ("relu",)),
     ("sinusoidal", "pre", "rms", "gelu"), ("sinusoidal", "post", "batch", "relu"), ("learned", "pre", "none", "gelu")],
)  # fmt: skip
@torch.no_grad()
def test_every_norm_and_position(positions, order, norm, activation):
    same_either_way(model_of(positions=positions, norm_order=order, norm=norm, activation=activation), RIGHT)


@pytest.mark.parametrize(
    "changes",
    [{"positions_on_decoder": False}, {"bias": False}, {"scale_scores": False, "scale_embedding": False},
     {"tie_weights": True}, {"final_norm": True}, {"n_heads": 1}, {"n_decoder_layers": 1}],
    ids=str,
)  # fmt: skip
@torch.no_grad()
def test_every_other_choice(changes):
    same_either_way(model_of(**changes), RIGHT)


@pytest.mark.parametrize("fill", ["exclude", "-inf", "finfo_min", "-1e9"])
@torch.no_grad()
def test_every_fill(fill):
    same_either_way(model_of(MaskConfig(fill=fill)), RIGHT)


@torch.no_grad()
def test_a_matrix_of_ones_own_fits_one_length_only_and_says_so_either_way():
    matrix = [[True, False], [True, True]]
    model = model_of(MaskConfig(decoder_self=["custom"], decoder_self_custom=matrix))
    for cache in (True, False):
        with pytest.raises(ValueError, match="the custom mask is 2 x 2, this attention has 1 queries x 1 keys"):
            greedy(model, RIGHT, max_length=2, cache=cache)
    one = model_of(MaskConfig(decoder_self=["custom"], decoder_self_custom=[[True]]))
    assert torch.equal(*(greedy(one, RIGHT, max_length=1, cache=cache) for cache in (True, False)))


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize(
    "masks",
    [
        MaskConfig(),
        MaskConfig(decoder_self=["padding", "window:2"]),
        MaskConfig(decoder_self=["padding"]),
        MaskConfig(cross=["padding", "causal"]),
    ],
)
@pytest.mark.parametrize("src", [RIGHT, LEFT], ids=["right", "left"])
def test_a_beam_finds_the_same_either_way(masks, src, norm):
    model = model_of(masks)
    with_cache, without = (beam(model, src, 3, max_length=7, length_norm=norm, cache=cache) for cache in (True, False))
    for ours, theirs in zip(with_cache, without, strict=True):
        assert [(each.tokens, each.finished) for each in ours] == [(each.tokens, each.finished) for each in theirs]
        assert [each.score for each in ours] == pytest.approx([each.score for each in theirs], abs=1e-12)


def test_both_ways_give_the_same_logits_under_a_causal_mask_and_only_there():
    """Training reads the whole shifted target at once, writing one token at a time."""
    parallel, one_by_one = both_ways(model_of(), RIGHT, TGT)
    assert parallel.shape == one_by_one.shape == (3, 7, 11)
    torch.testing.assert_close(parallel, one_by_one, atol=1e-12, rtol=1e-10)
    parallel, one_by_one = both_ways(model_of(MaskConfig(decoder_self=["padding"])), RIGHT, TGT)
    assert (parallel - one_by_one)[:, :-1].abs().amax() > 1e-2, "each place has seen what comes behind it"
    torch.testing.assert_close(parallel[:, -1], one_by_one[:, -1], atol=1e-12, rtol=1e-10)


# ---- what is saved


def test_a_step_reads_one_token():
    model = model_of()
    for cache, expected in ((True, [1] * LENGTH), (False, list(range(1, LENGTH + 1)))):
        with Counted(model) as read:
            greedy(model, RIGHT, max_length=LENGTH, end_id=0, begin_id=1, cache=cache)
        assert read == expected, "n against n (n + 1) / 2"


@pytest.mark.parametrize(
    ("masks", "kept"),
    [
        (MaskConfig(decoder_self=["causal"]), True),
        (MaskConfig(decoder_self=["window:2"]), True),
        (MaskConfig(decoder_self=["where:k <= q"]), True),
        (MaskConfig(decoder_self=["documents", "causal"]), True),
        (MaskConfig(cross=["padding", "where:q < k"]), True),
        (MaskConfig(decoder_self=["padding"]), False),
        (MaskConfig(decoder_self=[]), False),
        (MaskConfig(decoder_self=["causal", "where:k > n_k - 4 - q"]), False),
        (MaskConfig(cross=["causal"]), False),
    ],
)
@torch.no_grad()
def test_what_is_kept_where_the_earlier_places_see_what_they_saw(masks, kept):
    model = model_of(masks)
    memory = model.encode(RIGHT)
    with Counted(model) as read, KeyValueCache().open():
        for t in range(1, 6):
            model.decode(TGT[:, :t], memory, RIGHT)
    assert (read == [1] * 5) == kept, read


@torch.no_grad()
def test_h06_two_new_queries_after_three_places_see_four_and_five_keys():
    """The rows of the mask are the last ones: lower right alignment."""
    model, seen = model_of(MaskConfig(decoder_self=["causal"])), []
    memory = model.encode(RIGHT)
    keep = lambda _, given: seen.append(given[1])  # noqa: E731
    with KeyValueCache().open() as cache:
        model.decode(TGT[:, :3], memory, RIGHT)
        model.decoder.layers[0].register_forward_pre_hook(keep)
        two = model.decode(TGT[:, :5], memory, RIGHT)
    assert seen[0].sum(dim=-1).tolist() == [4, 5] and torch.equal(seen[0], causal(2, 5))
    assert two.shape == (3, 2, 20) and cache.length == 5
    torch.testing.assert_close(two, model.decode(TGT[:, :5], memory, RIGHT)[:, 3:], atol=1e-12, rtol=1e-10)


@torch.no_grad()
def test_h14_one_sentence_of_one_token_keeps_its_axes():
    model = model_of()
    for cache in (True, False):
        assert greedy(model, RIGHT[:1, :1], max_length=1, cache=cache).shape == (1, 1)
        assert next_log_probs_of(model, RIGHT[0, :1], cache)([(1,)]).shape == (1, 11)


# ---- what must not be kept


@torch.no_grad()
@pytest.mark.parametrize("what", ["another beginning", "another source", "another batch", "the same again", "shorter"])
def test_another_reading_starts_anew(what):
    model = model_of()
    src, tgt = RIGHT, TGT[:, :5]
    cache = KeyValueCache()
    with cache.open():
        model.decode(tgt[:, :4], memory_of(model, src), src)
        if what == "another beginning":
            tgt = torch.cat([tgt[:, :1], tgt[:, 1:] + 1], dim=1) % 11
        elif what == "another source":
            src = (src + 1) % 13
        elif what == "another batch":
            src, tgt = src[:2], tgt[:2]
        else:
            tgt = tgt[:, :4] if what == "the same again" else tgt[:, :2]
        memory = memory_of(model, src)
        out = model.decode(tgt, memory, src)
    assert torch.equal(out, model.decode(tgt, memory, src))


def memory_of(model, src):
    """The encoder asked where no cache is open."""
    from transformer_core import key_value_cache

    token = key_value_cache._open_cache.set(None)
    memory = model.encode(src)
    key_value_cache._open_cache.reset(token)
    return memory


@torch.no_grad()
def test_rows_can_be_chosen_and_doubled():
    model, rows = model_of(), [2, 0, 2, 1]
    memory = model.encode(RIGHT)
    with Counted(model) as read, KeyValueCache().open() as cache:
        model.decode(TGT[:, :4], memory, RIGHT)
        cache.select(rows)
        out = model.decode(TGT[rows, :5], memory[rows], RIGHT[rows])
    assert read == [4, 1]
    whole = model.decode(TGT[rows, :5], memory[rows], RIGHT[rows])
    torch.testing.assert_close(out, whole[:, -1:], atol=1e-12, rtol=1e-10)


def test_a_beam_reads_one_token_of_each_beginning():
    model = model_of()
    for cache, expected in ((True, {1}), (False, set(range(1, 8)))):
        with Counted(model) as read:
            beam(model, RIGHT, 3, max_length=7, end_id=0, cache=cache)
        assert set(read) == expected


def test_a_ledger_shows_whole_tensors():
    model = model_of().eval()
    with trace(model) as ledger:
        written = greedy(model, RIGHT, max_length=4, end_id=0)
    assert ledger["decoder.layers.1.self_attention/weights"].shape == (3, 2, 4, 4)
    assert torch.equal(written, greedy(model, RIGHT, max_length=4, end_id=0))


def test_nothing_of_a_search_stays_in_the_model():
    model = model_of()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    beam(model, RIGHT, 2, max_length=5)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    with torch.no_grad():
        again = model(RIGHT, TGT)
    assert again.shape == (3, 7, 11) and isinstance(model, nn.Module)


@torch.no_grad()
def test_a_decoder_alone_reads_on_too():
    model = build(ModelConfig(**SIZES | {"architecture": "decoder"}), seed=5, dtype=torch.float64).eval()
    with Counted(model) as read, KeyValueCache().open():
        steps = [model.decode(TGT[:, :t])[:, -1] for t in range(1, 8)]
    assert read == [1] * 7
    torch.testing.assert_close(torch.stack(steps, dim=1), model.decode(TGT), atol=1e-12, rtol=1e-10)
