"""The padding mask on its way to B H q k, and four wrong views, counted by hand where sizes differ and agree."""

import pytest
import torch

from transformer_core.broadcasting import View, views

TOKENS = torch.tensor([[5, 6, 7], [8, 0, 0]])


def by_name(tokens: torch.Tensor, n_heads: int, **how: int) -> dict[str, View]:
    return {view.name: view for view in views(tokens, 0, n_heads, **how)}


def test_three_steps_lead_there_and_none_of_them_hides_a_wrong_cell() -> None:
    made = by_name(TOKENS, 5)
    steps = [view for view in made.values() if view.right]
    assert [(view.name, view.axes, view.shape) for view in steps] == [
        ("tokens", "B S", (2, 3)), ("keys", "B 1 1 S", (2, 1, 1, 3)), ("full", "B H q S", (2, 5, 3, 3)),
    ]  # fmt: skip
    for view in steps:
        assert view.result is not None and view.wrong_cells == 0 and view.error == ""
        assert view.result[0].all() and view.result[1, :, :, 0].all() and not view.result[1, :, :, 1:].any()


def test_where_sizes_differ_three_wrong_views_are_errors_and_one_is_silent() -> None:
    made = by_name(TOKENS, 5)
    queries = made["queries"]
    # Sentence 2 sees key 0 only. On the query axis, row 0 sees all (2 leaks), rows 1 and 2 nothing (1 lost each).
    assert queries.shape == (2, 1, 3, 1) and queries.error == "" and queries.laid == (2, 5, 3, 3)
    assert (queries.leaks, queries.lost, queries.wrong_cells) == (5 * 2, 5 * 2, 20)
    for name, sizes in {"swapped": "5.*2", "one_axis": "5.*2", "none": "3.*2"}.items():
        refused = made[name]
        assert refused.result is None and refused.laid is None and refused.wrong_cells == 0
        with pytest.raises(RuntimeError, match=sizes) as met:
            _ = torch.zeros(2, 5, 3, 3) + by_hand(name, TOKENS != 0)
        assert str(met.value) == refused.error and refused.error.startswith("The size of tensor a (")


def by_hand(name: str, real: torch.Tensor) -> torch.Tensor:
    return {"swapped": real[None, :, None, :], "one_axis": real[:, None, :], "none": real}[name]


def test_with_as_many_sentences_as_heads_the_heads_get_the_sentences() -> None:
    made = by_name(TOKENS, 2)
    for name in ("swapped", "one_axis"):
        view = made[name]
        assert view.error == "" and view.result is not None
        # Head 0 has the mask of sentence 1, head 1 that of sentence 2, in both sentences.
        assert view.result[:, 0].all() and not view.result[:, 1, :, 1:].any()
        # Sentence 1 loses 2 of 3 keys in head 1, sentence 2 gains 2 in head 0, in 3 rows each.
        assert (view.leaks, view.lost, view.wrong_cells) == (6, 6, 12)
    assert made["none"].result is None


def test_with_as_many_sentences_as_tokens_the_rows_get_the_sentences() -> None:
    made = by_name(torch.tensor([[5, 6], [8, 0]]), 3)
    view = made["none"]
    assert view.error == "" and view.result is not None
    assert view.result[0, 0].tolist() == view.result[1, 2].tolist() == [[True, True], [True, False]]
    # Sentence 1 loses one cell in its second row, sentence 2 shows its padding to its first, in 3 heads.
    assert (view.leaks, view.lost) == (3, 3)
    assert made["swapped"].result is None and made["queries"].wrong_cells == 6


def test_one_sentence_hides_three_of_the_four() -> None:
    made = by_name(torch.tensor([[5, 6, 0]]), 5)
    assert [name for name, view in made.items() if view.wrong_cells] == ["queries"]
    assert not any(view.error for view in made.values())


def test_with_one_head_the_scores_grow() -> None:
    view = by_name(TOKENS, 1)["swapped"]
    assert view.laid == (2, 2, 3, 3) and view.result is None and view.error == ""


def test_cross_attention_has_queries_of_its_own() -> None:
    made = by_name(TOKENS, 5, q_len=7)
    assert made["full"].shape == (2, 5, 7, 3) and made["full"].wrong_cells == 0
    assert made["queries"].result is None and made["queries"].error.startswith("The size of tensor a (7)")


def test_rows_are_plain_data() -> None:
    row = by_name(TOKENS, 2)["one_axis"].to_row()
    assert row == {
        "name": "one_axis", "expression": "real[:, None, :]", "axes": "B 1 S", "shape": [2, 1, 3], "right": False,
        "laid": [2, 2, 3, 3], "wrong_cells": 12, "leaks": 6, "lost": 6, "cells": 36, "error": "",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["keys", "queries", "swapped", "one_axis", "none"])
def test_an_expression_is_code_that_gives_the_shape(name: str) -> None:
    view = by_name(TOKENS, 2)[name]
    assert tuple(eval(view.expression, {"real": TOKENS != 0}).shape) == view.shape


def test_nothing_to_look_at_is_refused() -> None:
    with pytest.raises(ValueError, match="2 sentences of 3 tokens, 3 queries and 0 heads; each needs at least one"):
        views(TOKENS, 0, 0)
