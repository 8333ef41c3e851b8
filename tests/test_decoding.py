"""Decoding: a table in place of a model, so that every choice is known; then real models against their own forward."""

import math

import pytest
import torch
from torch import nn

from transformer_core.config import MaskConfig, ModelConfig
from transformer_core.decoding import (
    beam,
    beam_search,
    both_ways,
    evaluating,
    exhaustive,
    greedy,
    next_log_probs_of,
    token_log_probs,
)
from transformer_core.model import build

A, B, C, END = 4, 5, 6, 2
SRC = torch.tensor([[4, 5, 6], [7, 8, 0]])


class FromTable(nn.Module):
    """A model that looks its next-token scores up under what is written so far; it counts how often it is asked."""

    def __init__(self, table, default=None):
        super().__init__()
        self.config = ModelConfig(src_vocab_size=14, tgt_vocab_size=14, max_seq_len=9)
        self.table, self.default, self.asked = table, default, 0
        self.output = nn.Linear(14, 14, bias=False)
        nn.init.eye_(self.output.weight)

    def encode(self, src):
        return src

    def decode(self, written, memory, src):
        self.asked += 1
        scores = torch.full((*written.shape, 14), -100.0)
        for row, tokens in enumerate(written.tolist()):
            after = tuple(tokens[1:])
            for token, score in self.table.get((row, after), self.table.get(after, self.default)).items():
                scores[row, -1, token] = score
        return scores


@pytest.fixture
def write(unchecked_shapes):
    """greedy without the check of its signature, which asks for a real Transformer."""
    return lambda model, src=SRC[:1], **options: greedy(model, src, **options)


# ---- choices known beforehand


def log(**shares):
    return {{"end": END, "a": A, "b": B, "c": C}[name]: math.log(share) for name, share in shares.items()}


def test_the_trap_greedy_search_walks_into(write):
    """The likeliest first token leads where no sentence ends; the other one would have led to a likely sentence."""
    after_a, after_b = log(end=0.30, a=0.38, b=0.32), log(end=0.90, a=0.06, b=0.04)

    class Trap(dict):
        def get(self, key, default=None):
            tokens = key[1] if len(key) == 2 and isinstance(key[1], tuple) else key
            return log(a=0.6, b=0.4) if not tokens else after_a if tokens[-1] == A else after_b

    written = write(FromTable(Trap()), max_length=4)
    assert written.tolist() == [[A, A, A, A]]
    assert END not in written
    assert math.log(0.6) + 3 * math.log(0.38) == pytest.approx(-3.4136, abs=5e-5)
    assert math.log(0.4) + math.log(0.9) == pytest.approx(-1.021651, abs=5e-7)  # B and the end, passed over


def test_a_tie_goes_to_the_lower_id(write):
    assert write(FromTable({(): {9: 1.5, B: 1.5, 12: 1.5}, (B,): {END: 0.0}}), max_length=3).tolist() == [[B, END]]
    assert write(FromTable({}, default=dict.fromkeys(range(14), 0.0)), max_length=2).tolist() == [[0, 0]]


def test_each_sentence_ends_for_itself_and_padding_follows(write):
    table = {
        (0, ()): {END: 0.0},
        (0, (END,)): {A: 0.0}, (0, (END, 0)): {A: 0.0},
        (1, ()): {A: 0.0}, (1, (A,)): {B: 0.0}, (1, (A, B)): {END: 0.0},
    }  # fmt: skip
    model = FromTable(table)
    assert write(model, SRC, max_length=8).tolist() == [[END, 0, 0], [A, B, END]]
    assert model.asked == 3, "it stops when all have ended"


def test_the_ids_of_begin_and_end_can_be_others(write):
    assert write(FromTable({(): {A: 0.0}, (A,): {C: 0.0}}), begin_id=3, end_id=C, max_length=5).tolist() == [[A, C]]


def test_max_length_counts_the_written_tokens(write):
    for length in (1, 2, 9):
        assert write(FromTable({}, default={A: 0.0}), max_length=length).tolist() == [[A] * length]


# ---- real models


@pytest.fixture
def model():
    config = ModelConfig(
        d_model=20, n_heads=2, d_ff=24, n_encoder_layers=2, n_decoder_layers=2, dropout=0.5,
        src_vocab_size=14, tgt_vocab_size=14, max_seq_len=11,
    )  # fmt: skip
    return build(config, seed=3)


def test_each_token_is_the_likeliest_after_those_before_it(model):
    """The whole answer in one teacher-forced forward must agree with the answer written token by token."""
    written = greedy(model, SRC, max_length=10)
    model.eval()
    begun = torch.cat([torch.ones(2, 1, dtype=torch.int64), written[:, :-1]], dim=1)
    likeliest = model(SRC, begun).argmax(dim=-1)
    assert written.shape[1] > 1 and written.dtype == torch.int64
    for row, tokens in enumerate(written.tolist()):
        real = tokens.index(END) + 1 if END in tokens else len(tokens)
        assert likeliest[row, :real].tolist() == tokens[:real] and set(tokens[real:]) <= {0}


def test_neither_padding_nor_the_neighbour_changes_an_answer(model):
    model.double()
    together = greedy(model, SRC, max_length=10)
    for row, src in enumerate((SRC[:1], SRC[1:, :2])):
        alone = greedy(model, src, max_length=10)
        assert together[row, : alone.shape[1]].tolist() == alone[0].tolist()
        assert not together[row, alone.shape[1] :].any()


def test_dropout_is_off_while_decoding_and_the_mode_comes_back(model):
    model.train()
    model.encoder.layers[0].eval()
    state, noise = torch.get_rng_state(), model.noise.generator(torch.device("cpu")).get_state()
    before = {name: module.training for name, module in model.named_modules()}
    first, second = greedy(model, SRC, max_length=10), greedy(model, SRC, max_length=10)
    assert torch.equal(first, second) and not first.requires_grad
    assert {name: module.training for name, module in model.named_modules()} == before
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(model.noise.generator(torch.device("cpu")).get_state(), noise)
    assert torch.is_grad_enabled()


def test_the_mode_comes_back_after_an_error_too(model):
    model.train()
    with pytest.raises(ValueError, match="src holds the id 99"):
        greedy(model, torch.tensor([[99]]), max_length=3)
    assert model.training
    with pytest.raises(KeyError), evaluating(model):
        assert not any(module.training for module in model.modules())
        raise KeyError
    assert all(module.training for module in model.modules())


def test_the_longest_answer_is_as_long_as_the_model_allows(model):
    assert greedy(model, SRC, max_length=11).shape[1] <= 11
    assert greedy(model, SRC[:, :1], max_length=1).shape == (2, 1)


# ---- refusals


@pytest.mark.parametrize("architecture", ["encoder", "decoder"])
def test_half_a_model_cannot_translate(architecture):
    half = build(ModelConfig(d_model=8, n_heads=2, architecture=architecture))
    with pytest.raises(ValueError, match=f"needs encoder and decoder; this model has architecture '{architecture}'"):
        greedy(half, SRC, max_length=3)


@pytest.mark.parametrize("length", [0, -1, 12])
def test_an_impossible_length_is_refused(model, length):
    with pytest.raises(ValueError, match=f"max_length is {length}; it must be between 1 and .* max_seq_len 11"):
        greedy(model, SRC, max_length=length)


def test_true_is_no_length(model):
    with pytest.raises(ValueError, match="max_length must be a whole number"):
        greedy(model, SRC, max_length=True)


@pytest.mark.parametrize(("option", "token"), [("begin_id", 14), ("end_id", -1)])
def test_ids_outside_the_vocabulary_are_refused(model, option, token):
    with pytest.raises(ValueError, match=f"{option} is {token}; a target vocabulary of 14 has ids 0 to 13"):
        greedy(model, SRC, max_length=3, **{option: token})


def test_a_source_without_tokens_is_refused(model):
    with pytest.raises(ValueError, match="src is empty"):
        greedy(model, torch.zeros(2, 0, dtype=torch.int64), max_length=3)


# ---- beam search on a model


def test_a_beam_of_one_writes_what_greedy_search_writes(model):
    model.double()
    written = greedy(model, SRC, max_length=10)
    for row, found in zip(written.tolist(), beam(model, SRC, 1, max_length=10), strict=True):
        best = found[0]
        assert list(best.tokens) == row[: len(best.tokens)] and not any(row[len(best.tokens) :])
        assert best.finished == (END in row)


def test_a_beam_of_everything_finds_the_likeliest_of_all():
    config = ModelConfig(
        d_model=8, n_heads=2, d_ff=8, n_encoder_layers=1, n_decoder_layers=1, src_vocab_size=14, tgt_vocab_size=5,
    )  # fmt: skip
    small = build(config, seed=3, dtype=torch.float64)
    for norm in (False, True):
        both = beam(small, SRC, 5**3, max_length=3, length_norm=norm)
        for src, found in zip(SRC, both, strict=True):
            truth = exhaustive(next_log_probs_of(small, src), 1, END, 5, 3, norm)
            assert found[0].tokens == truth[0].tokens and found[0].score == pytest.approx(truth[0].score, abs=1e-12)
            assert math.fsum(math.exp(each.log_prob) for each in truth) == pytest.approx(1.0, abs=1e-12)


def test_a_batch_of_beams_is_the_beam_of_each_sentence(model):
    model.double()
    together = beam(model, SRC, 3, max_length=9)
    for row, found in enumerate(together):
        (alone,) = beam(model, SRC[row : row + 1], 3, max_length=9)
        by_hand = beam_search(next_log_probs_of(model, SRC[row]), 1, END, 3, 9)
        for other in (alone, by_hand):
            assert [each.tokens for each in found] == [each.tokens for each in other]
            assert [each.score for each in found] == pytest.approx([each.score for each in other], abs=1e-12)


def test_the_score_of_a_hypothesis_is_what_one_pass_over_it_gives(model):
    model.double()
    for row, found in enumerate(beam(model, SRC, 3, max_length=6)):
        for each in found:
            parts = token_log_probs(model, SRC[row : row + 1], torch.tensor([each.tokens]))
            assert each.log_prob == pytest.approx(float(parts.sum()), abs=1e-12)


def test_padding_behind_an_answer_has_no_share(model):
    tokens = torch.tensor([[A, END, 0, 0], [A, B, C, A]])
    parts = token_log_probs(model, SRC, tokens)
    assert parts[0, 2:].tolist() == [0.0, 0.0] and bool((parts[0, :2] < 0).all()) and bool((parts[1] < 0).all())


def test_h31_every_way_of_writing_has_dropout_off_and_gives_the_mode_back(model):
    model.train()
    ask = next_log_probs_of(model, SRC[0])
    tokens = torch.tensor([[A, B], [B, END]])
    ways = (
        lambda: beam(model, SRC, 2, max_length=5),
        lambda: ask([(1, A), (1, B)]).tolist(),
        lambda: [side.tolist() for side in both_ways(model, SRC, tokens)],
        lambda: token_log_probs(model, SRC, tokens).tolist(),
    )
    for way in ways:
        assert way() == way() and model.training and torch.is_grad_enabled()


def test_a_rule_that_asks_for_the_place_in_the_batch_cannot_be_searched():
    config = ModelConfig(d_model=8, n_heads=2, src_vocab_size=14, tgt_vocab_size=14)
    odd = build(config, MaskConfig(cross=["where:b == 0"]))
    for way in (lambda: beam(odd, SRC, 2, max_length=3), lambda: next_log_probs_of(odd, SRC[0])):
        with pytest.raises(ValueError, match="where:b == 0 asks for b, the place in the batch"):
            way()


def test_beginnings_of_different_lengths_are_not_read_together(model):
    with pytest.raises(ValueError, match=r"equally long to be read together; got lengths \[1, 2\]"):
        next_log_probs_of(model, SRC[0])([(1,), (1, A)])
    with pytest.raises(ValueError, match=r"src_row must be one sentence, .* got shape \(2, 3\)"):
        next_log_probs_of(model, SRC)


@pytest.mark.parametrize("way", ["beam", "next_log_probs_of", "both_ways", "token_log_probs"])
def test_half_a_model_writes_nothing_in_any_way(way):
    half = build(ModelConfig(d_model=8, n_heads=2, architecture="decoder"))
    calls = {
        "beam": lambda: beam(half, SRC, 2, max_length=3),
        "next_log_probs_of": lambda: next_log_probs_of(half, SRC[0]),
        "both_ways": lambda: both_ways(half, SRC, SRC),
        "token_log_probs": lambda: token_log_probs(half, SRC, SRC),
    }
    with pytest.raises(ValueError, match=f"{way} writes a target for a source, so it needs encoder and decoder"):
        calls[way]()
