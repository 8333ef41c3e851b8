"""One row step by step, a map in sums, and the row without any key: by hand and beside ``attend``."""

import json
import math
from typing import Any

import pytest
import torch

from transformer_core import masks
from transformer_core.attention import attend
from transformer_core.config import FILLS, MaskConfig
from transformer_core.model import build
from transformer_core.presets import load_preset
from transformer_core.softmax_lab import SENTENCES, EmptyRow, empty_row_lab, map_summary, row_pipeline

Q = torch.tensor([[[[9.0, 9, 9, 9], [2, 0, 0, 0]]]], dtype=torch.float64)
K = torch.tensor([[[[1.0, 0, 0, 0], [3, 0, 0, 0], [9, 9, 9, 9]]]], dtype=torch.float64)
SEEN = torch.tensor([True, True, False])


# One row


def test_a_row_by_hand() -> None:
    made = row_pipeline(Q, K, SEEN, row=1)
    assert made.dots == [2, 6, 18] and made.scaled == [1, 3, 9] and made.masked == [1, 3, -math.inf]
    assert made.exps == pytest.approx([math.exp(-2), 1, 0], abs=1e-15)
    assert made.weights == pytest.approx([0.1192029220, 0.8807970780, 0], abs=1e-9)
    assert made.exps_sum == pytest.approx(1 + math.exp(-2)) and made.weights_sum == pytest.approx(1, abs=1e-15)
    assert made.dropped == made.weights and made.max_hidden == 0 and made.visible == [True, True, False]


def test_h13_the_division_is_by_the_width_of_a_head() -> None:
    q, k = torch.tensor([[[[2.0, 0, 0, 0]]]]), torch.tensor([[[[2.0, 0, 0, 0], [0, 1, 0, 0]]]])
    assert row_pipeline(q, k, None).weights == pytest.approx([0.880797, 0.119203], abs=1e-6)
    assert row_pipeline(q, k, None, scale=False).scaled == [4, 0]


def test_the_row_is_that_of_attend() -> None:
    draw = torch.Generator().manual_seed(3)
    q, k = (torch.randn(2, 3, n, 7, generator=draw, dtype=torch.float64) for n in (5, 11))
    allowed = masks.compose(["causal", "padding"], 5, torch.randint(0, 3, (2, 11), generator=draw))
    assert allowed is not None
    _, weights = attend(q, k, k, allowed)
    for sample, head, row in ((0, 0, 4), (1, 2, 0), (1, 1, 3)):
        made = row_pipeline(q, k, allowed, sample=sample, head=head, row=row)
        assert made.weights == pytest.approx(weights[sample, head, row].tolist(), abs=1e-14)
        assert made.visible == allowed.expand(2, 3, 5, 11)[sample, head, row].tolist()


def test_h08_dropout_comes_behind_the_softmax_and_has_a_sum_of_its_own() -> None:
    made = row_pipeline(Q, K, None, row=1, dropout=lambda weights: weights * torch.tensor([2.0, 0, 0]))
    assert made.weights_sum == pytest.approx(1, abs=1e-12)
    assert made.dropped == pytest.approx([2 * made.weights[0], 0, 0]) and made.dropped_sum != made.weights_sum


@pytest.mark.parametrize(
    ("fill", "masked", "exps", "weights"),
    [
        ("exclude", -math.inf, 0.0, 0.0),
        ("-inf", -math.inf, math.nan, math.nan),
        ("finfo_min", torch.finfo(torch.float64).min, 1.0, 1 / 3),
        ("-1e9", -1e9, 1.0, 1 / 3),
    ],
)
def test_a_row_without_keys_in_every_fill(fill: str, masked: float, exps: float, weights: float) -> None:
    made = row_pipeline(Q, K, torch.zeros(3, dtype=torch.bool), row=1, fill=fill)
    assert made.masked == [masked] * 3
    assert made.exps == pytest.approx([exps] * 3, nan_ok=True)
    assert made.weights == pytest.approx([weights] * 3, nan_ok=True)
    assert made.max_hidden == pytest.approx(weights, nan_ok=True)
    json.dumps(made.to_row(), allow_nan=False)


def test_a_leaking_fill_shows_in_the_largest_hidden_weight() -> None:
    far = row_pipeline(Q, K, SEEN, row=1, fill="-1e9")
    assert far.max_hidden == 0.0
    huge = row_pipeline(Q * 1e10, -K * 1e10, torch.tensor([False, True, True]), row=1, fill="-1e9")
    assert huge.max_hidden == pytest.approx(1.0)


def test_there_is_no_such_row() -> None:
    with pytest.raises(IndexError):
        row_pipeline(Q, K, None, row=2)


# One map


def test_a_map_by_hand() -> None:
    weights = torch.tensor([[[[1.0, 0, 0], [0.5, 0.5, 0], [0, 0, 0]]]])
    allowed = torch.tensor([[True, False, False], [True, True, False], [False, False, False]])
    summary = map_summary(weights, allowed)
    assert summary.row_sums == [1, 1, 0] and summary.column_sums == [1.5, 0.5, 0]
    assert summary.entropy == pytest.approx([0, math.log(2), 0]) and summary.visible == [1, 2, 0]
    assert summary.max_hidden == 0 and summary.empty_rows == [2] and summary.averaged == 1
    leaky = map_summary(weights, torch.tensor([False, True, True]))
    assert leaky.max_hidden == 1 and leaky.visible == [2, 2, 2]


def test_h09_an_average_over_heads_is_labelled_as_one() -> None:
    weights = torch.tensor([[[[1.0, 0.0]], [[0.0, 1.0]], [[0.0, 1.0]]]])
    assert [map_summary(weights, None, head=head).column_sums for head in (0, 1)] == [[1, 0], [0, 1]]
    mean = map_summary(weights, None, head=None)
    assert mean.averaged == 3 and mean.column_sums == pytest.approx([1 / 3, 2 / 3])
    assert mean.entropy[0] == pytest.approx(-math.log(1 / 3) / 3 - 2 * math.log(2 / 3) / 3)  # of the mean, not a mean


def test_an_average_is_hidden_where_every_head_hides() -> None:
    allowed = torch.tensor([[[[True, False, False]], [[False, True, False]]]])
    weights = torch.tensor([[[[1.0, 0, 0]], [[0, 1.0, 0]]]])
    mean = map_summary(weights, allowed, head=None)
    assert mean.visible == [2] and mean.max_hidden == 0 and mean.empty_rows == []


def test_even_attention_has_the_entropy_of_its_number_of_keys() -> None:
    summary = map_summary(torch.full((1, 1, 2, 7), 1 / 7, dtype=torch.float64), None)
    assert summary.entropy == pytest.approx([math.log(7)] * 2)


def test_nan_is_shown_and_not_lost() -> None:
    summary = map_summary(torch.full((1, 1, 1, 2), math.nan), torch.zeros(1, 2, dtype=torch.bool))
    assert math.isnan(summary.max_hidden) and math.isnan(summary.row_sums[0])
    assert summary.to_row()["row_sums"] == ["nan"]


# The row without any key


def by_case(*dtypes: torch.dtype) -> dict[tuple[str, str], EmptyRow]:
    return {(row.fill, row.dtype): row for row in empty_row_lab(dtypes=dtypes)}


def test_h01_h10_every_fill_in_two_dtypes() -> None:
    rows = by_case(torch.float32, torch.float16)
    told = {case: (row.what, row.gradient) for case, row in rows.items()}
    assert told == {
        ("exclude", "float32"): ("zeros", "zero"), ("exclude", "float16"): ("zeros", "zero"),
        ("-inf", "float32"): ("nan", "nan"), ("-inf", "float16"): ("nan", "nan"),
        ("finfo_min", "float32"): ("even", "finite"), ("finfo_min", "float16"): ("even", "finite"),
        ("-1e9", "float32"): ("even", "finite"), ("-1e9", "float16"): ("refused", "none"),
    }  # fmt: skip
    assert {fill for fill, _ in told} == set(FILLS) and {what for what, _ in told.values()} == set(SENTENCES)
    assert rows["exclude", "float16"].weights == [0, 0, 0] and rows["exclude", "float16"].sum == 0
    assert (
        rows["finfo_min", "float32"].weights == pytest.approx([1 / 3] * 3) and rows["-1e9", "float16"].weights is None
    )
    assert rows["-1e9", "float16"].sentence.startswith("float16 cannot hold")
    assert "0.333 to each" in rows["-1e9", "float32"].sentence
    for row in rows.values():
        json.dumps(row.to_row(), allow_nan=False)


def test_the_sentences_hold_in_a_whole_model() -> None:
    """-inf carries NaN into the weights in one step, exclude nothing, and finfo_min lets padding be trained."""
    preset = load_preset("left_padding")
    batch = preset.batch(7)
    broken = {}
    for fill in ("exclude", "-inf", "finfo_min"):
        model = build(preset.model, preset.masks.replace(fill=fill), seed=7)
        model(batch.src, batch.tgt).square().mean().backward()
        gradients: list[Any] = [each.grad for each in model.parameters() if each.grad is not None]
        broken[fill] = sum(bool(each.isnan().any()) for each in gradients)
    assert broken["exclude"] == broken["finfo_min"] == 0 and broken["-inf"] > 0.9 * len(gradients)


def test_the_lab_of_any_scores() -> None:
    rows = empty_row_lab([4.0, -2.0, 0.0, 1.0, 7.0], dtypes=[torch.float64])
    assert [row.sum for row in rows] == pytest.approx([0, math.nan, 1, 1], nan_ok=True)
    assert all(len(row.weights or ()) == 5 for row in rows)


def test_masks_of_the_settings_reach_the_lab() -> None:
    allowed = masks.for_attention(MaskConfig(), "decoder_self", 3, torch.tensor([[0, 5, 6]]))
    made = row_pipeline(torch.zeros(1, 2, 3, 4), torch.zeros(1, 2, 3, 4), allowed, head=1, row=2)
    assert made.weights == [0, 0.5, 0.5]
