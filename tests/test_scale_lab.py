"""Why scores are divided: the spread of q·k grows as √d_head, the weights get hard, and the gradient dies."""

import itertools
import math

import pytest
import torch

from transformer_core.scale_lab import D_HEADS, QUANTILES, ScaleRow, scale_table

TABLE = scale_table()
PLAIN, DIVIDED = ([row for row in TABLE if row.scaled is scaled] for scaled in (False, True))


def test_there_is_a_row_with_and_without_for_each_width() -> None:
    assert [(row.d_head, row.scaled) for row in TABLE] == [(d, scaled) for d in D_HEADS for scaled in (False, True)]
    assert D_HEADS == tuple(2**n for n in range(10))


@pytest.mark.parametrize("row", TABLE, ids=lambda row: f"{row.d_head} {row.scaled}")
def test_the_spread_is_the_square_root_of_the_width_unless_it_is_divided_out(row: ScaleRow) -> None:
    assert row.std == pytest.approx(1 if row.scaled else math.sqrt(row.d_head), rel=0.13)
    low, _, quarter, middle, three_quarters, _, high = row.quantiles
    assert len(row.quantiles) == len(QUANTILES) and low < quarter < middle < three_quarters < high
    if row.d_head >= 16:  # by then nearly normal: the quartiles lie 0.674 deviations out
        assert (three_quarters - quarter) / row.std == pytest.approx(2 * 0.6745, rel=0.1)
    assert 0 <= row.entropy <= math.log(row.n_keys) and 1 / row.n_keys <= row.largest <= 1


def test_undivided_weights_get_harder_with_every_doubling_and_the_gradient_dies() -> None:
    for narrow, wide in itertools.pairwise(PLAIN):
        assert wide.entropy < narrow.entropy and wide.largest > narrow.largest
    assert PLAIN[-1].largest > 0.9 and PLAIN[-1].entropy < 0.25
    assert PLAIN[-1].gradient < DIVIDED[-1].gradient / 3 and PLAIN[-1].gradient < PLAIN[0].gradient / 3


def test_divided_weights_are_alike_at_every_width() -> None:
    entropies, gradients = ([getattr(row, name) for row in DIVIDED] for name in ("entropy", "gradient"))
    assert max(entropies) - min(entropies) < 0.15 and max(gradients) < 1.15 * min(gradients)


def test_at_width_one_there_is_nothing_to_divide_by() -> None:
    assert PLAIN[0].to_row() | {"scaled": True} == DIVIDED[0].to_row()


def test_the_gradient_is_that_of_the_formula() -> None:
    """s -> w (g - Σ w g): computed once more, by hand, with the same draws."""
    draw = torch.Generator().manual_seed(11)
    q, k, wish = (torch.randn(*shape, generator=draw, dtype=torch.float64) for shape in ((5, 1, 4), (5, 3, 4), (5, 3)))
    weights = ((q * k).sum(-1) / 2).softmax(-1)
    by_hand = weights * (wish - (weights * wish).sum(-1, keepdim=True))
    _, row = scale_table([4], seed=11, n_queries=5, n_keys=3)
    assert row.gradient == pytest.approx(float((by_hand.norm(dim=-1) / wish.norm(dim=-1)).mean()))
    assert row.entropy == pytest.approx(float(-(weights * weights.log()).sum(-1).mean()))


def test_one_seed_one_table_and_torch_draws_as_before() -> None:
    state = torch.get_rng_state()
    assert scale_table([8], seed=3) == scale_table([8], seed=3) != scale_table([8], seed=4)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("arguments", [{"d_heads": [0]}, {"n_keys": 0}, {"n_queries": -1}])
def test_nothing_to_measure_is_refused(arguments: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="must be at least 1"):
        scale_table(**{"d_heads": [2], **arguments})
