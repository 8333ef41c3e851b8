"""The benchmarks compare what they say they compare; their figures are not tested."""

import pytest
import torch

from benchmarks.__main__ import config, padded_batch
from benchmarks.decoding import pair, rerun, sides
from benchmarks.peers import TorchTransformer, core_without_notes
from benchmarks.proof import levels
from benchmarks.timing import cpu_seconds, ratio
from transformer_core.decoding import greedy
from transformer_core.ledger import trace
from transformer_core.model import build


def test_the_copy_without_notes_computes_the_same_and_records_nothing():
    src, tgt = padded_batch("tiny")
    bare, model = core_without_notes().build(config("tiny")).eval(), build(config("tiny")).eval()
    with trace(bare) as ledger:
        out = bare(src, tgt)
    assert len(ledger) == 0
    assert torch.equal(out, model(src, tgt))


@pytest.mark.parametrize("size", ["tiny", "classroom"])
def test_both_sides_have_the_same_number_of_parameters(size):
    ours, theirs = build(config(size)), TorchTransformer(config(size))
    assert sum(p.numel() for p in ours.parameters()) == sum(p.numel() for p in theirs.parameters())


@pytest.mark.parametrize("size", ["tiny", "classroom"])
def test_the_batch_is_padded_on_the_right_and_never_empty(size):
    for tokens in padded_batch(size):
        real = tokens.ne(0)
        assert real[:, 0].all() and not real.all()
        assert (real.long().diff(dim=1) <= 0).all()


def test_every_level_is_timed_and_the_first_three_are_added_up():
    rows = list(levels("hand_computed"))
    assert [name.partition(":")[0] for name, *_ in rows] == [
        "level 1", "level 2", "level 3", "levels 1 to 3", "level 4", "level 5",
    ]  # fmt: skip
    assert sum(cpu for _, cpu, _ in rows[:3]) == pytest.approx(rows[3][1])
    assert all(cpu >= 0 and clock >= 0 for _, cpu, clock in rows)


def test_a_ratio_is_a_over_b():
    slow, fast = (lambda: sum(range(20_000))), (lambda: sum(range(2_000)))
    measured = ratio(slow, fast, rounds=7, least=0.002)
    assert measured.low <= measured.median <= measured.high
    assert measured.median > 3 and measured.a_ms > measured.b_ms
    assert cpu_seconds(slow, 3) > 0


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_writing_with_a_cache_is_compared_with_the_same_answer_of_torch():
    small = config("tiny").replace(n_encoder_layers=1, n_decoder_layers=1, d_model=8, d_ff=8)
    ours, theirs = pair(small)
    src = torch.tensor([[4, 5, 6], [7, 8, 0]])
    assert torch.equal(greedy(ours, src, max_length=7), rerun(theirs, src, 7))
    assert sides(small, 5, batch=2)["cached"]().shape == (2, 5), "it never writes the end"
    src_, tgt = padded_batch("tiny")
    torch.testing.assert_close(theirs(src_[:2], tgt[:2]), ours(src_[:2], tgt[:2]), atol=1e-5, rtol=1e-4)
