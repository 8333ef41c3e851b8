"""The sweep: every point where torch computes the same function holds, and the others are named by what torch did."""

import itertools
import json
import math

import pytest
import torch

from transformer_core.parity import LIMITS, WHAT, SweepPoint, sweep
from transformer_core.parity.sweep import _batch, _what, fast_path_switch

SOME = {"lengths": (1, 2, 7), "dtypes": ("float64",)}


@pytest.fixture(scope="module")
def points() -> list[SweepPoint]:
    return list(sweep(**SOME))


def those(points: list[SweepPoint], **wanted: object) -> list[SweepPoint]:
    return [each for each in points if all(getattr(each, name) == value for name, value in wanted.items())]


def test_every_combination_comes_once(points: list[SweepPoint]) -> None:
    seen = {(p.length, p.padding, p.mode, p.fast_path, p.norm_order, p.dtype) for p in points}
    wanted = itertools.product(
        (1, 2, 7), ("none", "right", "left", "holes"), ("train", "eval", "no_grad"), (True, False),
        ("post", "pre"), ("float64",),
    )  # fmt: skip
    assert seen == set(wanted) and len(points) == len(seen) == 144


def test_where_torch_computes_the_same_function_the_limits_hold(points: list[SweepPoint]) -> None:
    assert all(point.passed and point.limit == LIMITS[torch.float64] for point in points)
    for point in points:
        assert point.what in WHAT and point.why == WHAT[point.what]
        if point.what != "nan_spreads":
            assert point.error <= point.limit
    single = list(sweep(lengths=(7,), dtypes=("float32",)))
    assert all(point.passed and point.limit == 2e-5 for point in single)
    assert max(point.error for point in single if point.what == "equal") > 1e-9, "float32 rounds"


def test_without_its_fast_path_torch_is_one_function(points: list[SweepPoint]) -> None:
    for chosen in (those(points, fast_path=False), those(points, mode="train"), those(points, mode="eval"),
                   those(points, padding="none")):  # fmt: skip
        assert {point.what for point in chosen} == {"equal"}
        assert all(point.padded_error is None or point.padded_error <= point.limit for point in chosen)


def test_the_fast_path_zeroes_padding_on_the_right_of_a_post_norm_encoder(points: list[SweepPoint]) -> None:
    fast = those(points, mode="no_grad", fast_path=True, padding="right")
    assert {p.what for p in fast if p.norm_order == "post" and p.length > 1} == {"zeroes_padding"}
    assert all(p.padded_error > 0.1 and p.error <= p.limit for p in fast if p.what == "zeroes_padding")
    assert {p.what for p in fast if p.norm_order == "pre"} == {"equal"}


@pytest.mark.parametrize("padding", ["left", "holes"])
def test_the_fast_path_carries_nan_from_a_query_without_keys(points: list[SweepPoint], padding: str) -> None:
    fast = those(points, mode="no_grad", fast_path=True, padding=padding, length=7)
    assert {point.what for point in fast} == {"nan_spreads"}
    assert all(math.isnan(point.error) and point.passed for point in fast)


@pytest.mark.parametrize(
    ("seen", "what"),
    [
        ((1e-13, None, 1e-12, False, True, False), "equal"),
        ((1e-13, 1e-13, 1e-12, False, True, False), "equal"),
        ((1e-13, 0.5, 1e-12, False, True, False), "zeroes_padding"),
        ((1e-13, 0.5, 1e-12, False, False, False), "padding_differs"),
        ((1e-13, math.nan, 1e-12, False, False, True), "nan_padding"),
        ((1e-13, None, 1e-12, True, True, False), "shortens"),
        ((math.nan, math.nan, 1e-12, False, False, True), "nan_spreads"),
        ((math.nan, math.nan, 1e-12, False, False, False), "differs"),
        ((1e-3, None, 1e-12, False, True, False), "differs"),
        ((1e-3, None, 1e-12, True, True, True), "differs"),
    ],
)
def test_what_torch_did_is_read_from_its_numbers(seen: tuple, what: str) -> None:
    assert _what(*seen) == what


@pytest.mark.parametrize(
    ("padding", "kept"),
    [
        ("none", [[0, 1, 2, 3, 4]] * 3),
        ("right", [[0, 1, 2, 3, 4], [0, 1, 2], [0]]),
        ("left", [[0, 1, 2, 3, 4], [2, 3, 4], [4]]),
    ],
)
def test_one_sentence_is_whole_one_half_and_one_a_single_token(padding: str, kept: list[list[int]]) -> None:
    src, tgt = (_batch(5, padding, 7).src, _batch(5, padding, 7).tgt)
    assert src is not None and tgt is not None and tgt.shape == (3, 6)
    assert [row.nonzero().flatten().tolist() for row in src] == kept
    holes = _batch(5, "holes", 7).src
    assert holes is not None and holes.ne(0).sum(dim=1).tolist() == [5, 3, 1]


def test_it_can_be_stopped_and_leaves_torchs_switch_as_it_was() -> None:
    before = torch.backends.mha.get_fastpath_enabled()
    running = sweep(lengths=(3,), fast_paths=(not before,))
    assert next(running).length == 3
    assert torch.backends.mha.get_fastpath_enabled() is before and torch.is_grad_enabled()
    running.close()
    with pytest.raises(RuntimeError), fast_path_switch(not before):
        raise RuntimeError
    assert torch.backends.mha.get_fastpath_enabled() is before


def test_a_point_is_plain_data(points: list[SweepPoint]) -> None:
    row = json.loads(json.dumps(those(points, mode="no_grad", fast_path=True, padding="left", length=7)[0].to_row()))
    assert row["error"] == "nan" and row["what"] == "nan_spreads" and row["why"].startswith("torch gives NaN")


def test_another_seed_draws_other_numbers() -> None:
    one, other = (next(sweep(lengths=(5,), paddings=("right",), dtypes=("float32",), seed=seed)) for seed in (7, 8))
    assert one.error != other.error
