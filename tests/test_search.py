"""Beam search on tables: the two traps number by number, and exhaustive search as the ground truth of every other."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.config import ConfigError
from transformer_core.decoding import TRAPS, Hypothesis, beam_search, beam_steps, count_sequences, exhaustive

EOS, A, B = 0, 1, 2
GREEDY, LENGTH = TRAPS["greedy_trap"], TRAPS["length_trap"]


def search(trap, width, length_norm=False, max_length=None):
    length = max_length or trap.max_length
    return beam_search(trap.next_log_probs, trap.begin_id, trap.end_id, width, length, length_norm)


def every(trap, length_norm=False):
    return exhaustive(trap.next_log_probs, trap.begin_id, trap.end_id, trap.vocabulary, trap.max_length, length_norm)


def random_table(seed, vocabulary, certain=False):
    """Log-probabilities behind every beginning, the same whenever one asks; some are 0 if ``certain``."""
    rows = {}

    def next_log_probs(beginnings):
        for beginning in beginnings:
            if beginning not in rows:
                generator = torch.Generator().manual_seed(hash((seed, beginning)) % 2**31)
                logits = torch.randn(vocabulary, generator=generator, dtype=torch.float64) * 2
                if certain:
                    logits[int(torch.randint(vocabulary, (), generator=generator))] = -math.inf
                rows[beginning] = logits.log_softmax(-1)
        return torch.stack([rows[beginning] for beginning in beginnings])

    return next_log_probs


# ---- H29


def test_h29_greedy_search_walks_into_the_trap_and_says_that_it_has_not_finished():
    (only,) = search(GREEDY, width=1)
    assert only.tokens == (A, A, A, A) and not only.finished
    assert only.log_prob == pytest.approx(-3.4136, abs=5e-5) and only.log_prob == only.score
    assert only.log_prob == pytest.approx(math.log(0.6) + 3 * math.log(0.38), abs=1e-12)


@pytest.mark.parametrize("width", [2, 3, 31])
def test_h29_a_beam_of_two_finds_what_greedy_search_passes_over(width):
    best = search(GREEDY, width)[0]
    assert best.tokens == (B, EOS) and best.finished
    assert best.log_prob == pytest.approx(-1.021651, abs=5e-7)


def test_h29_is_the_likeliest_of_all_sequences():
    found = every(GREEDY)
    assert found[0].tokens == (B, EOS) and len(found) == 30, "the end cannot stand first"
    assert math.fsum(math.exp(each.log_prob) for each in found) == pytest.approx(1.0, abs=1e-12)
    assert next(each for each in found if each.tokens == (A, A, A, A)).log_prob == search(GREEDY, 1)[0].log_prob


# ---- H30


def test_h30_without_normalisation_the_short_answer_wins():
    best = search(LENGTH, width=3)[0]
    assert best.tokens == (A, EOS) and best.finished
    assert best.log_prob == best.score == pytest.approx(-0.867501, abs=5e-7)


def test_h30_with_normalisation_the_search_goes_on_past_the_first_that_ends():
    best = search(LENGTH, width=3, length_norm=True)[0]
    assert best.tokens == (B, A, B, EOS) and best.finished
    assert best.log_prob == pytest.approx(-0.977209, abs=5e-7)
    assert best.score == pytest.approx(-0.244302, abs=5e-7), "divided by 4: the end counts"
    first = next(step for step in steps(LENGTH, 3, True) if step.finished)
    assert first.step == 2 and first.finished[0].tokens == (A, EOS) and not first.stopped


def test_h30_agrees_with_all_sequences_either_way():
    for length_norm in (False, True):
        assert search(LENGTH, 3, length_norm)[0] == every(LENGTH, length_norm)[0]
    assert LENGTH.width == 3 and LENGTH.max_length == 5 and LENGTH.length_norm
    assert GREEDY.width == 2 and GREEDY.max_length == 4


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
def test_every_row_of_a_trap_is_a_distribution(trap):
    for row in trap.rows.values():
        assert len(row) == trap.vocabulary == 3 and sum(row) == pytest.approx(1.0)
    assert len(trap.symbols) == 4 and trap.begin_id == 3


# ---- the steps


def steps(trap, width, length_norm=False, **how):
    how = {"max_length": trap.max_length} | how
    return list(beam_steps(trap.next_log_probs, trap.begin_id, trap.end_id, width, length_norm=length_norm, **how))


def test_the_first_steps_of_the_trap_by_hand():
    first, second, *_ = steps(GREEDY, 2)
    assert [(each.token, each.fate) for each in first.candidates] == [(A, "kept"), (B, "kept")], "the end is impossible"
    assert [each.running for each in first.candidates] == pytest.approx([math.log(0.6), math.log(0.4)])
    told = {(each.prefix, each.token): (each.fate, round(math.exp(each.running), 6)) for each in second.candidates}
    assert told == {
        ((A,), A): ("kept", 0.228), ((A,), B): ("kept", 0.192), ((A,), EOS): ("cut", 0.18),
        ((B,), EOS): ("finished", 0.36), ((B,), A): ("cut", 0.024), ((B,), B): ("cut", 0.016),
    }  # fmt: skip
    assert [each.tokens for each in second.open] == [(A, A), (A, B)]
    (ended,) = second.finished
    assert ended.tokens == (B, EOS) and ended.finished and ended.score == pytest.approx(math.log(0.36))
    assert second.stopped == "won", "0.228 cannot become 0.36 any more"


@pytest.mark.parametrize("trap", TRAPS.values(), ids=TRAPS)
@pytest.mark.parametrize("width", [1, 2, 3])
@pytest.mark.parametrize("length_norm", [False, True])
def test_the_steps_are_those_of_the_search(trap, width, length_norm):
    told = steps(trap, width, length_norm)
    last = told[-1]
    together = sorted([*last.open, *last.finished], key=lambda each: (-each.score, each.tokens))
    assert together == search(trap, width, length_norm)
    assert [step.step for step in told] == list(range(1, len(told) + 1))
    assert [bool(step.stopped) for step in told] == [False] * (len(told) - 1) + [True]
    for before, step in zip([None, *told], told, strict=False):
        beginnings = {each.tokens for each in before.open} if before else {()}
        assert {each.prefix for each in step.candidates} == beginnings
        kept = {each.tokens: each for each in step.candidates if each.fate == "kept"}
        assert kept.keys() == {each.tokens for each in step.open} and len(kept) <= width
        for each in step.open:
            assert (each.log_prob, each.score) == (kept[each.tokens].running, kept[each.tokens].score)
        ended = [each for each in step.candidates if each.fate == "finished"]
        assert all(each.token == EOS for each in ended)
        assert {each.tokens for each in ended} <= {each.tokens for each in step.finished}


def test_only_so_many_that_are_cut_are_told():
    table = random_table(5, 11)
    for most in (0, 2):
        for step in beam_steps(table, 99, 0, 3, 4, most=most):
            for prefix in {each.prefix for each in step.candidates}:
                own = [each for each in step.candidates if each.prefix == prefix]
                cut = [each.log_prob for each in own if each.fate == "cut"]
                assert len(cut) <= most and sorted((each.log_prob for each in own), reverse=True) == [
                    each.log_prob for each in own
                ]
    assert [s.open for s in beam_steps(table, 99, 0, 3, 4, most=0)] == [s.open for s in beam_steps(table, 99, 0, 3, 4)]


# ---- against exhaustive search


@given(seed=st.integers(0, 10_000), vocabulary=st.integers(2, 4), length=st.integers(1, 4), norm=st.booleans(),
       certain=st.booleans())  # fmt: skip
def test_a_beam_that_is_wide_enough_is_exhaustive_search(seed, vocabulary, length, norm, certain):
    table = random_table(seed, vocabulary, certain)
    found = beam_search(table, 99, 0, vocabulary**length, length, norm)
    truth = exhaustive(table, 99, 0, vocabulary, length, norm)
    assert found[0] == truth[0]
    assert {each for each in found if each.finished or len(each.tokens) == length} <= set(truth)
    assert math.fsum(math.exp(each.log_prob) for each in truth) == pytest.approx(1.0, abs=1e-9)
    assert len(truth) <= count_sequences(vocabulary, length)
    if not certain:
        assert len(truth) == count_sequences(vocabulary, length)


@given(seed=st.integers(0, 10_000), width=st.integers(1, 5), norm=st.booleans())
def test_no_beam_beats_exhaustive_search_and_each_is_rightly_added_up(seed, width, norm):
    table, length = random_table(seed, 4), 4
    found = beam_search(table, 99, 0, width, length, norm)
    assert found[0].score <= exhaustive(table, 99, 0, 4, length, norm)[0].score
    assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)
    for each in found:
        beginnings = [(99, *each.tokens[:n]) for n in range(len(each.tokens))]
        parts = [table([beginning])[0, token].item() for beginning, token in zip(beginnings, each.tokens, strict=True)]
        assert each.log_prob == pytest.approx(sum(parts), abs=1e-12)
        assert each.score == pytest.approx(sum(parts) / len(parts) if norm else sum(parts), abs=1e-12)
        assert each.finished == (each.tokens[-1] == 0) and 0 not in each.tokens[:-1]


@given(seed=st.integers(0, 10_000), vocabulary=st.integers(2, 7))
def test_a_beam_of_one_is_greedy_search(seed, vocabulary):
    table, tokens = random_table(seed, vocabulary), [99]
    while len(tokens) < 7 and tokens[-1] != 0:
        tokens.append(int(table([tuple(tokens)])[0].argmax()))
    best = beam_search(table, 99, 0, 1, 6)[0]
    assert [99, *best.tokens] == tokens and best.finished == (tokens[-1] == 0)


def test_by_hand_there_are_so_many_sequences():
    assert [count_sequences(3, n) for n in (1, 2, 3, 4)] == [3, 7, 15, 31]
    assert count_sequences(1, 9) == 1, "with nothing but the end there is one"


# ---- ties, ends and lengths


def flat(vocabulary):
    return lambda beginnings: torch.full((len(beginnings), vocabulary), -math.log(vocabulary), dtype=torch.float64)


def test_a_tie_goes_to_the_lower_ids():
    """All sequences of one length are equally likely: those with the lowest ids stay, in the order of their ids."""
    found = list(beam_steps(flat(5), 9, 4, 3, 2))
    assert [each.tokens for each in found[0].open] == [(0,), (1,), (2,)]
    assert [each.tokens for each in found[1].open] == [(0, 0), (0, 1), (0, 2)]
    assert [each.tokens for each in beam_search(flat(5), 9, 4, 3, 2)] == [(0, 0), (0, 1), (0, 2)]
    assert [each.tokens for each in exhaustive(flat(2), 9, 0, 2, 2)] == [(0,), (1, 0), (1, 1)]


def test_an_end_outside_the_width_is_not_kept():
    """The end is the worst of three: a beam of two never looks at it again."""
    def table(beginnings):
        return torch.tensor([[0.1, 0.5, 0.4]] * len(beginnings)).log()  # fmt: skip

    assert not any(each.finished for each in beam_search(table, 9, 0, 2, 3))
    assert any(each.finished for each in beam_search(table, 9, 0, 3, 3))


def test_finished_ones_are_kept_and_the_others_marked():
    found = beam_search(random_table(3, 4), 99, 0, 4, 5, length_norm=True)
    assert {each.finished for each in found} == {True, False}
    assert all(len(each.tokens) <= 5 for each in found)


def test_max_length_is_where_the_search_ends():
    assert [each.tokens for each in search(GREEDY, 2, max_length=1)] == [(A,), (B,)]
    assert steps(GREEDY, 2, max_length=1)[-1].stopped == "length"
    assert [each.finished for each in search(GREEDY, 2, max_length=1)] == [False, False]


def test_a_search_with_nothing_left_open_ends():
    table = lambda beginnings: torch.tensor([[1.0, 0.0]] * len(beginnings)).log()  # noqa: E731
    (only,) = beam_search(table, 9, 0, 3, 7)
    assert only == Hypothesis((0,), 0.0, 0.0, True)
    assert list(beam_steps(table, 9, 0, 3, 7))[-1].stopped == "none"
    assert exhaustive(table, 9, 0, 2, 7) == [only]


# ---- refusals


@pytest.mark.parametrize("width", [0, -1, 1025, 2.5, True])
def test_an_impossible_width_is_refused(width, unchecked_shapes):
    with pytest.raises(ConfigError, match="width"):
        beam_search(flat(3), 9, 0, width, 3)


def test_an_impossible_length_is_refused():
    for ask in (lambda: beam_search(flat(3), 9, 0, 2, 0), lambda: exhaustive(flat(3), 9, 0, 3, 0)):
        with pytest.raises(ConfigError, match="max_length is 0; it must lie between 1"):
            ask()


def test_too_many_sequences_are_refused_with_the_nearest_length():
    with pytest.raises(ValueError, match=r"10 has more than 100,000 sequences of up to 6 tokens.* max_length is 5"):
        exhaustive(flat(10), 9, 0, 10, 6)
    assert count_sequences(10, 5) <= 100_000 < count_sequences(10, 6)
    with pytest.raises(ValueError, match="even one token is too much"):
        exhaustive(flat(3), 9, 0, 200_000, 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (torch.zeros(3), r"shape \(3,\) for 1 beginnings; \(1, (V|3)\) is wanted"),
        (torch.zeros(2, 3), r"shape \(2, 3\) for 1 beginnings"),
        (torch.tensor([[2.0, 1.0, 0.5]]), "gave 2; the logarithm of a probability is at most 0"),
        (torch.tensor([[-1.0, math.nan, -2.0]]), "gave nan"),
        (torch.zeros(1, 2), "end_id is 2, and next_log_probs tells of the tokens 0 to 1"),
    ],
)
def test_what_is_no_log_probability_is_refused(given, words):
    for ask in (
        lambda: beam_search(lambda _: given, 9, 2, 2, 3),
        lambda: exhaustive(lambda _: given, 9, 2, 3 if given.shape[-1] == 3 else 2, 3),
    ):
        with pytest.raises(ValueError, match=words):
            ask()
