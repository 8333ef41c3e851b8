"""Sampling: which tokens are left, how often each is drawn, and the same seed twice."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.config import ConfigError, ModelConfig
from transformer_core.decoding import greedy, pick, restricted, sample
from transformer_core.model import build

SRC = torch.tensor([[4, 5, 6], [7, 8, 0]])
SHARES = torch.tensor([[0.1, 0.4, 0.2, 0.3]], dtype=torch.float64)


@pytest.fixture
def model():
    config = ModelConfig(d_model=20, n_heads=2, d_ff=23, n_encoder_layers=1, n_decoder_layers=1, dropout=0.5,
                         src_vocab_size=13, tgt_vocab_size=11, max_seq_len=12)  # fmt: skip
    return build(config, seed=3)


# ---- which tokens are left


@pytest.mark.parametrize(
    ("how", "left"),
    [
        ({}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_k": 1}, [0, 1, 0, 0]),
        ({"top_k": 2}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_k": 99}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_p": 0.39}, [0, 1, 0, 0]),
        ({"top_p": 0.41}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_p": 0.7}, [0, 4 / 7, 0, 3 / 7]),
        ({"top_p": 0.89}, [0, 4 / 9, 2 / 9, 3 / 9]),
        ({"top_p": 1.0}, [0.1, 0.4, 0.2, 0.3]),
        ({"top_k": 3, "top_p": 0.5}, [0, 4 / 7, 0, 3 / 7]),  # of 4/9, 3/9, 2/9 the first two have 7/9
        ({"temperature": 0.5}, [1 / 30, 16 / 30, 4 / 30, 9 / 30]),  # squares
    ],
    ids=str,
)
def test_the_shares_by_hand(how, left):
    assert restricted(SHARES.log(), **how)[0].tolist() == pytest.approx(left, abs=1e-12)


def test_of_equally_likely_tokens_the_lower_ids_stay():
    assert restricted(torch.zeros(1, 5), top_k=2)[0].tolist() == [0.5, 0.5, 0, 0, 0]
    assert restricted(torch.zeros(1, 4, dtype=torch.float64), top_p=0.5)[0].tolist() == [0.5, 0.5, 0, 0]


@given(
    logits=st.lists(st.floats(-20, 20), min_size=1, max_size=9), temperature=st.floats(0.05, 20),
    top_k=st.none() | st.integers(1, 12), top_p=st.none() | st.floats(0.01, 1),
)  # fmt: skip
def test_what_is_left_is_a_distribution_of_the_likeliest(logits, temperature, top_k, top_p):
    row = torch.tensor([logits], dtype=torch.float64)
    all_of_it, left = restricted(row, temperature)[0], restricted(row, temperature, top_k, top_p)[0]
    assert left.sum().item() == pytest.approx(1.0, abs=1e-9) and bool((left >= 0).all())
    kept = left > 0
    assert 1 <= int(kept.sum()) <= (top_k or len(logits))
    if not kept.all():
        assert all_of_it[kept].min() >= all_of_it[~kept].max() or math.isclose(all_of_it[~kept].max(), 0.0)
    if top_p is not None and top_k is None:
        assert all_of_it[kept].sum() >= top_p - 1e-9
        assert all_of_it[kept].sum() - all_of_it[kept].min() < top_p + 1e-9, "none too many"


# ---- how often


@pytest.mark.parametrize("how", [{}, {"temperature": 2.0}, {"top_k": 3}, {"top_p": 0.75}], ids=str)
def test_each_token_is_drawn_as_often_as_its_share(how):
    shares = restricted(SHARES.log(), **how)
    drawn = torch.rand(40_000, dtype=torch.float64, generator=torch.Generator().manual_seed(11))
    counts = pick(shares.expand(len(drawn), -1), drawn).bincount(minlength=4) / len(drawn)
    for share, count in zip(shares[0].tolist(), counts.tolist(), strict=True):
        assert abs(count - share) <= 4 * math.sqrt(share * (1 - share) / len(drawn)), (share, count)
        assert share or not count


def test_the_stretches_of_the_tokens_lie_side_by_side():
    drawn = torch.tensor([0.0, 0.0999, 0.1001, 0.4999, 0.5001, 0.7001, 1 - 2**-53], dtype=torch.float64)
    assert pick(SHARES.expand(7, -1), drawn).tolist() == [0, 0, 1, 1, 2, 3, 3]
    impossible = torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64)
    assert pick(impossible.expand(7, -1), drawn).tolist() == [1] * 7


def test_a_model_writes_each_first_token_as_often_as_its_share(model):
    """Many copies of one sentence: what is drawn is p(v | begin, source) of the model's own forward."""
    model.eval()
    with torch.no_grad():
        shares = model(SRC[:1], torch.ones(1, 1, dtype=torch.int64))[0, 0].softmax(-1).tolist()
    written = sample(model, SRC[:1].expand(2000, -1), seed=5, max_length=1)
    counts = (written[:, 0].bincount(minlength=11) / len(written)).tolist()
    assert all(abs(c - s) <= 4 * math.sqrt(s * (1 - s) / 2000) + 1e-9 for c, s in zip(counts, shares, strict=True))


# ---- of a model


def test_the_likeliest_token_alone_is_greedy_search(model):
    model.double()
    for how in ({"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-4}):
        assert torch.equal(sample(model, SRC, seed=2, max_length=9, **how), greedy(model, SRC, max_length=9))


def test_the_same_seed_writes_the_same_and_the_global_generator_is_left_alone(model):
    state = torch.get_rng_state()
    first, second, other = (sample(model, SRC, seed=seed, max_length=10, temperature=3.0) for seed in (7, 7, 8))
    assert torch.equal(first, second) and not torch.equal(first, other)
    assert torch.equal(torch.get_rng_state(), state)


def test_h31_dropout_is_off_and_the_mode_comes_back(model):
    model.train()
    first, second = (sample(model, SRC, seed=7, max_length=10) for _ in range(2))
    assert torch.equal(first, second) and model.training and torch.is_grad_enabled()


def test_a_neighbour_changes_nothing(model):
    model.double()
    together = sample(model, SRC, seed=4, max_length=9, temperature=2.0)
    alone = sample(model, SRC[:1], seed=4, max_length=9, temperature=2.0)
    assert together[0, : alone.shape[1]].tolist() == alone[0].tolist() and not together[0, alone.shape[1] :].any()


def test_behind_the_end_stands_padding(model):
    for seed in range(5):
        for row in sample(model, SRC, seed=seed, max_length=11, temperature=3.0, end_id=6).tolist():
            behind = row[row.index(6) + 1 :] if 6 in row else []
            assert not any(behind)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"temperature": 0.0}, "temperature is 0.0; it must be greater than 0"),
        ({"temperature": -1.0}, "temperature is -1.0"),
        ({"temperature": math.nan}, "temperature must be a finite number"),
        ({"top_k": 0}, "top_k is 0; it must lie between 1"),
        ({"top_p": 0.0}, "top_p is 0.0; it must be greater than 0 and at most 1"),
        ({"top_p": 1.5}, "top_p is 1.5"),
        ({"seed": -1}, "seed is -1; it must lie between 0"),
    ],
    ids=str,
)
def test_what_cannot_be_drawn_is_refused(model, how, words):
    with pytest.raises(ConfigError, match=words):
        sample(model, SRC, max_length=3, **{"seed": 1} | how)


def test_the_refusals_of_greedy_are_those_of_sample(model):
    with pytest.raises(ValueError, match=r"max_length is 13; it must be between 1 and .* max_seq_len 12"):
        sample(model, SRC, seed=1, max_length=13)
    half = build(ModelConfig(d_model=8, n_heads=2, architecture="decoder"))
    with pytest.raises(ValueError, match="sample writes a target for a source, so it needs encoder and decoder"):
        sample(half, SRC, seed=1, max_length=3)
