"""make_batch: random ids, explicit ids and typed sentences, how they print, and what does not fit a model."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.batches import MAX_TOKENS, Batch, batch_sizes, make_batch
from transformer_core.config import ConfigError, DataConfig, ModelConfig

MODEL = ModelConfig(d_model=21, n_heads=3, src_vocab_size=29, tgt_vocab_size=31, max_seq_len=37)


def refused(data: DataConfig, model: ModelConfig = MODEL, seed: Any = 0) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        make_batch(model, data, seed)
    return caught.value


# Random ids


def test_random_ids_have_the_sizes_asked_for_and_print_as_themselves() -> None:
    batch = make_batch(MODEL, DataConfig(src_len=11, tgt_len=7, batch_size=3, padding="none"), seed=7)
    assert batch.src.shape == (3, 11)
    assert batch.tgt.shape == (3, 7)
    assert batch.src.dtype == batch.tgt.dtype == torch.int64
    assert 4 <= batch.src.min() <= batch.src.max() < 29
    assert batch.tgt[:, 0].tolist() == [1, 1, 1]
    assert 4 <= batch.tgt[:, 1:].min() <= batch.tgt.max() < 31
    assert batch.src_tokens == [[str(token) for token in row] for row in batch.src.tolist()]
    assert [row[0] for row in batch.tgt_tokens] == ["⟨s⟩"] * 3
    assert batch.labels is None


def test_random_ids_reach_the_whole_vocabulary() -> None:
    batch = make_batch(MODEL, DataConfig(src_len=37, tgt_len=37, batch_size=50, padding="none"))
    assert set(batch.src.unique().tolist()) == set(range(4, 29))
    assert set(batch.tgt[:, 1:].unique().tolist()) == set(range(4, 31))


@pytest.mark.parametrize("pad_side", ["right", "left"])
def test_padding_shortens_the_last_sentence_only(pad_side: str) -> None:
    batch = make_batch(MODEL, DataConfig(src_len=7, tgt_len=5, batch_size=3, pad_side=pad_side))
    pads, kept = [0, 0, 0], [1, 1, 1, 1]
    assert batch.src.ne(0).int().tolist() == [[1] * 7, [1] * 7, kept + pads if pad_side == "right" else pads + kept]
    assert batch.tgt.ne(0).int().tolist() == [[1] * 5, [1] * 5, [*kept, 0] if pad_side == "right" else [0, *kept]]
    begin = batch.tgt_tokens[2].index("⟨s⟩")
    assert begin == (0 if pad_side == "right" else 1)
    assert batch.src_tokens[2].count("∅") == 3


@given(st.integers(1, 37), st.integers(1, 37), st.integers(1, 3), st.sampled_from(["left", "right"]))
def test_at_least_one_token_stays_and_one_goes_where_there_are_two(
    src_len: int, tgt_len: int, batch_size: int, pad_side: str
) -> None:
    data = DataConfig(src_len=src_len, tgt_len=tgt_len, batch_size=batch_size, pad_side=pad_side)
    batch = make_batch(MODEL, data)
    for ids in (batch.src, batch.tgt):
        kept = ids.ne(0).sum(dim=-1)
        assert 1 <= kept[-1] <= max(1, ids.shape[1] - 1)
        assert (kept[:-1] == ids.shape[1]).all()


def test_the_same_seed_gives_the_same_ids_and_moves_no_other_generator() -> None:
    before = torch.get_rng_state()
    data = DataConfig(src_len=11, tgt_len=13)
    first, again, other = (make_batch(MODEL, data, seed) for seed in (7, 7, 8))
    assert torch.equal(first.src, again.src) and torch.equal(first.tgt, again.tgt)
    assert not torch.equal(first.src, other.src)
    assert torch.equal(torch.get_rng_state(), before)
    longer = make_batch(MODEL, DataConfig(src_len=12, tgt_len=13), 7)
    assert torch.equal(longer.tgt, first.tgt)  # the length of one side does not change the other


def test_random_ids_avoid_the_padding_id_wherever_it_is() -> None:
    data = DataConfig(src_len=37, tgt_len=37, batch_size=20, padding="none")
    batch = make_batch(MODEL.replace(pad_id=9), data)
    assert set(batch.src.unique().tolist()) == set(range(4, 29)) - {9}
    padded = make_batch(MODEL.replace(pad_id=9), DataConfig())
    assert padded.src[-1].tolist()[-3:] == [9, 9, 9]


@pytest.mark.parametrize(
    ("architecture", "src", "tgt"),
    [("encoder_decoder", True, True), ("encoder", True, False), ("decoder", False, True)],
)
def test_a_side_that_the_model_lacks_is_none(architecture: str, src: bool, tgt: bool) -> None:
    batch = make_batch(MODEL.replace(architecture=architecture), DataConfig())
    assert [side is not None for side in (batch.src, batch.src_tokens, batch.tgt, batch.tgt_tokens)] == [
        src, src, tgt, tgt,
    ]  # fmt: skip


# Explicit ids


def test_explicit_ids_are_taken_as_they_are() -> None:
    rows = [[1, 2, 3, 4, 0], [5, 6, 7, 0, 0]]
    batch = make_batch(MODEL.replace(architecture="encoder"), DataConfig(src=rows))
    assert batch.src.tolist() == rows
    assert batch.src_tokens == [["⟨s⟩", "⟨/s⟩", "⟨?⟩", "4", "∅"], ["5", "6", "7", "∅", "∅"]]


@pytest.mark.parametrize("token", [10, -1])
def test_an_id_outside_the_vocabulary_is_refused_with_both_numbers(token: int) -> None:
    """H15: vocabulary 10, ids 10 and -1."""
    error = refused(DataConfig(src=[[4, 5], [6, token]]), MODEL.replace(src_vocab_size=10))
    assert str(error) == (
        f"src row 2, position 2 holds the id {token}, but src_vocab_size is 10: ids go from 0 to 9."
    )
    assert error.choices == ([{"src_vocab_size": 11}] if token == 10 else [])


def test_random_ids_of_one_side_follow_the_sentences_of_the_other() -> None:
    rows = [[4], [5], [6], [7]]
    assert make_batch(MODEL, DataConfig(src=rows)).tgt.shape == (4, 5)
    assert make_batch(MODEL, DataConfig(tgt=rows)).src.shape == (4, 7)
    assert make_batch(MODEL, DataConfig(tgt_text=["a", "b", "c"])).src.shape == (3, 7)


def test_different_numbers_of_sentences_are_refused() -> None:
    error = refused(DataConfig(src_text=["a", "b", "c"], tgt=[[1], [1]]))
    assert str(error) == "src has 3 sentences and tgt has 2; each source sentence needs one target sentence."
    batch = make_batch(MODEL.replace(architecture="decoder"), DataConfig(src_text=["a", "b", "c"], tgt=[[1], [1]]))
    assert batch.tgt.shape == (2, 1)  # without a source side there is nothing to match


# Sentences


def test_words_get_ids_in_order_of_first_sight_and_targets_begin() -> None:
    data = DataConfig(src_text=["the cat sees the dog", "a dog"], tgt_text=["猫 看见 狗", "狗"])
    batch = make_batch(MODEL, data)
    assert batch.src.tolist() == [[4, 5, 6, 4, 7], [8, 7, 0, 0, 0]]
    assert batch.src_tokens == [["the", "cat", "sees", "the", "dog"], ["a", "dog", "∅", "∅", "∅"]]
    assert batch.tgt.tolist() == [[1, 4, 5, 6], [1, 6, 0, 0]]
    assert batch.tgt_tokens == [["⟨s⟩", "猫", "看见", "狗"], ["⟨s⟩", "狗", "∅", "∅"]]


def test_characters_leave_the_spaces_out() -> None:
    data = DataConfig(src_text=["ab a", "b"], tgt_text=["今天", "天"], split="char", pad_side="left")
    batch = make_batch(MODEL, data)
    assert batch.src_tokens == [["a", "b", "a"], ["∅", "∅", "b"]]
    assert batch.tgt.tolist() == [[1, 4, 5], [0, 1, 5]]


def test_a_padding_id_among_the_words_is_left_out() -> None:
    batch = make_batch(MODEL.replace(pad_id=5), DataConfig(src_text=["a b c", "a"]))
    assert batch.src.tolist() == [[4, 6, 7], [4, 5, 5]]
    assert batch.src_tokens == [["a", "b", "c"], ["a", "∅", "∅"]]


def test_words_that_look_like_signs_stay_words() -> None:
    batch = make_batch(MODEL, DataConfig(src_text=["∅ 0 ⟨s⟩"]))
    assert batch.src.tolist() == [[4, 5, 6]]
    assert batch.src_tokens == [["∅", "0", "⟨s⟩"]]


# What does not fit


@pytest.mark.parametrize(
    ("data", "text", "choices"),
    [
        (DataConfig(src_len=38), "src is 38 tokens long, but max_seq_len is 37; shorten it or raise max_seq_len.",
         [{"src_len": 37}, {"max_seq_len": 38}]),
        (DataConfig(tgt=[[4] * 40]), "tgt is 40 tokens long, but max_seq_len is 37", [{"max_seq_len": 40}]),
        (DataConfig(tgt_text=["a " * 37]), "tgt is 38 tokens long, but max_seq_len is 37", [{"max_seq_len": 38}]),
        (DataConfig(src_text=["a b c d e f g h i j k l m n o p q r s t u v w x y z"]),
         "src_vocab_size is 29, but 30 ids are needed", [{"src_vocab_size": 30}]),
    ],
)  # fmt: skip
def test_tokens_that_do_not_fit_the_model_are_refused(
    data: DataConfig, text: str, choices: list[dict[str, int]]
) -> None:
    error = refused(data)
    assert text in str(error)
    assert error.choices == choices


def test_the_vocabulary_needs_one_ordinary_token_and_the_special_ids() -> None:
    assert "src_vocab_size is 4, but 5 ids are needed" in str(refused(DataConfig(), MODEL.replace(src_vocab_size=4)))
    assert set(make_batch(MODEL.replace(src_vocab_size=5), DataConfig(padding="none")).src.unique().tolist()) == {4}
    tight = MODEL.replace(src_vocab_size=5, pad_id=4)
    assert "src_vocab_size is 5, but 6 ids are needed" in str(refused(DataConfig(), tight))
    assert make_batch(MODEL.replace(src_vocab_size=4), DataConfig(src=[[0, 3]])).src.tolist() == [[0, 3]]


@pytest.mark.parametrize("pad_id", [1, 2, 3])
def test_padding_cannot_take_a_special_id_where_those_are_used(pad_id: int) -> None:
    error = refused(DataConfig(), MODEL.replace(pad_id=pad_id))
    assert f"pad_id {pad_id} is taken" in str(error)
    assert error.choices == [{"pad_id": 0}]


def test_a_batch_that_would_fill_the_memory_is_refused_before_it_is_made() -> None:
    model = MODEL.replace(max_seq_len=1 << 20)
    error = refused(DataConfig(src_len=1 << 20, batch_size=65_536), model)
    assert f"src would be 65536 sentences of 1048576 tokens; a batch holds at most {MAX_TOKENS} tokens." == str(error)
    assert error.choices == [{"batch_size": 1}]


@pytest.mark.parametrize("seed", [-1, 1 << 31, True])
def test_a_seed_is_a_whole_number_that_a_generator_takes(seed: int) -> None:
    assert refused(DataConfig(), seed=seed).field == "seed"
    assert make_batch(MODEL, DataConfig(), (1 << 31) - 1).src.shape == (2, 7)


@given(
    st.sampled_from(["encoder_decoder", "encoder", "decoder"]),
    st.sampled_from([{}, {"src": [[4, 5, 6]]}, {"src_text": ["x y", "z"]}]),
    st.sampled_from([{}, {"tgt": [[1, 5], [1, 6]]}, {"tgt_text": ["one"]}]),
    st.integers(1, 40),
)
def test_batch_sizes_tells_what_make_batch_makes(
    architecture: str, src: dict[str, Any], tgt: dict[str, Any], length: int
) -> None:
    model, data = MODEL.replace(architecture=architecture), DataConfig(**src, **tgt, src_len=length, tgt_len=length)
    try:
        sizes = batch_sizes(model, data)
    except ConfigError as error:
        assert str(refused(data, model)) == str(error)
        return
    batch: Batch = make_batch(model, data)
    rows = {len(ids) for ids in (batch.src, batch.tgt) if ids is not None}
    assert rows == {sizes[0]}
    assert sizes[1:] == tuple(0 if ids is None else ids.shape[1] for ids in (batch.src, batch.tgt))
