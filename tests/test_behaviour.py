"""Padding, neighbours, order and repetition: what must not matter does not, and what must matter does."""

import math
from typing import Any

import pytest
import torch

from tests.probe_cases import DECODER, ENCODER, SMALL, probe, verdict
from transformer_core.config import MaskConfig
from transformer_core.workshop import altered

NO_POSITIONS_ON_TARGET = altered(
    "model.Transformer.embed", "self.dropout(positions(x))", 'self.dropout(positions(x) if side == "src" else x)'
)
NO_POSITIONS_ON_SOURCE = altered(
    "model.Transformer.embed", "self.dropout(positions(x))", 'self.dropout(positions(x) if side == "tgt" else x)'
)
ON_THE_BATCH = altered("positions.Positions.forward", "x + positions", "x + self.weight[: len(x), None]")


def passes(name: str, *args: Any, **how: Any) -> Any:
    result = verdict(name, *args, **how)
    assert result is not None and result.passed, result
    return result


def fails(name: str, *args: Any, **how: Any) -> Any:
    result = verdict(name, *args, **how)
    assert result is not None and not result.passed, result
    return result


# Padding.


def test_padding_is_added_on_both_sides_of_both_sentences() -> None:
    assert passes("padding_length").facts["where"] == "src, right; src, left; tgt, right; tgt, left"
    assert passes("padding_length", ENCODER).facts["where"] == "src, right; src, left"
    assert passes("padding_length", DECODER).facts["where"] == "tgt, right; tgt, left"


def test_padding_length_convicts_a_mask_that_looks_for_another_id() -> None:
    shop = altered("masks.padding", "(tokens != pad_id)", "(tokens != -1)")
    for config in (SMALL, ENCODER, DECODER):
        assert fails("padding_length", config, shop=shop).measured > 1e-3
    assert fails("padding_length", DECODER, shop=shop).facts["first"] == "tgt, left", "causal hides the right anyway"


def test_padding_length_convicts_a_decoder_that_sees_padded_memory() -> None:
    shop = altered("layers.DecoderLayer.forward", "(x, memory, memory_allowed)", "(x, memory)")
    assert fails("padding_length", shop=shop).facts["first"].startswith("src")
    passes("padding_length", ENCODER, shop=shop)


def test_padding_length_convicts_a_norm_over_the_sentence() -> None:
    shop = altered("layers.Layer.residual", "normed = norm(total)", "normed = torch.layer_norm(total, total.shape[1:])")
    fails("padding_length", shop=shop)


def test_the_change_is_that_of_one_sentence_by_hand() -> None:
    """Averaged values instead of attention, so that padding enters by its share: the mean of 3 tokens and of 4."""
    shop = altered("masks.padding", "(tokens != pad_id)", "(tokens != -1)")
    about = probe(ENCODER, shop=shop)
    tokens = about.words("src", 1, 3)
    before = about.model.encode(tokens)
    after = about.model.encode(torch.cat([tokens, torch.zeros(1, 1, dtype=torch.int64)], dim=1))[:, :3]
    assert (before - after).abs().max() > 1e-3
    right = probe(ENCODER)
    padded = torch.cat([tokens, torch.zeros(1, 1, dtype=torch.int64)], dim=1)
    assert (right.model.encode(tokens) - right.model.encode(padded)[:, :3]).abs().max() < 1e-14


def test_where_the_rules_see_padding_or_count_places_nothing_is_claimed() -> None:
    unmasked = MaskConfig(encoder_self=(), cross=(), decoder_self=())
    assert verdict("padding_length", masks=unmasked) is None
    causal_only = MaskConfig(encoder_self=(), cross=(), decoder_self=("causal",))
    assert passes("padding_length", masks=causal_only).facts["where"] == "tgt, right"
    blocks = MaskConfig(encoder_self=("block:2", "padding"))
    assert passes("padding_length", masks=blocks).facts["where"] == "src, right; tgt, right; tgt, left"
    assert verdict("padding_length", SMALL.replace(max_seq_len=1), batch=one_token()) is None


def one_token() -> Any:
    from transformer_core.batches import Batch

    return Batch(torch.tensor([[5], [6]]), torch.tensor([[1], [7]]))


# Neighbours.


def test_batch_mates_are_tried_where_sizes_coincide() -> None:
    assert passes("batch_mates").facts["batches"] == "5, 6, 3"


def test_batch_mates_convicts_positions_along_the_batch() -> None:
    assert fails("batch_mates", shop=ON_THE_BATCH).measured > 1e-3


def test_batch_mates_convicts_a_norm_over_the_batch() -> None:
    """The mean of all sentences is the same whatever their order: the neighbours themselves must change."""
    shop = altered(
        "layers.Layer.residual", "normed = norm(total)", "normed = norm(total - total.mean(0, keepdim=True))"
    )
    assert fails("batch_mates", shop=shop).measured > 1e-3


def test_batch_mates_convicts_sentences_that_fall_onto_heads() -> None:
    """Silent in a batch of as many sentences as heads, and only there."""
    shop = altered(
        "masks.padding",
        "return (tokens != pad_id)[:, None, None, :]",
        "return (tokens != pad_id)[None if len(tokens) == 3 else slice(None), None, :].swapaxes(0, 1)"
        " if len(tokens) == 3 else (tokens != pad_id)[:, None, None, :]",
    )
    result = verdict("batch_mates", ENCODER, shop=shop)
    assert result is not None and not result.passed


# Order.


def test_token_order_wants_order_to_be_seen_with_positions_only() -> None:
    assert passes("token_order").sentence == "holds"
    assert passes("token_order", SMALL.replace(positions="none")).sentence == "holds_set"
    assert verdict("token_order", DECODER) is None


def test_a_mask_that_counts_places_tells_the_order_too() -> None:
    config = SMALL.replace(positions="none")
    assert passes("token_order", config, MaskConfig(encoder_self=("causal",))).sentence == "holds"
    assert passes("token_order", config, MaskConfig(encoder_self=())).sentence == "holds_set"


def test_token_order_convicts_forgotten_positions() -> None:
    result = fails("token_order", shop=NO_POSITIONS_ON_SOURCE)
    assert result.sentence == "fails" and result.facts["change"] < 1e-12
    passes("token_order", shop=NO_POSITIONS_ON_TARGET)


def test_token_order_convicts_positions_that_were_not_asked_for() -> None:
    right = 'if kind == "none":\n        return NoPositions()'
    shop = altered(
        "positions.make_positions", right, right.replace("NoPositions()", "LearnedPositions(max_len, d_model)")
    )
    assert fails("token_order", SMALL.replace(positions="none"), shop=shop).sentence == "fails_set"
    assert fails("repeated_token", SMALL.replace(positions="none"), shop=shop).sentence == "fails_set"


# Repetition.


@pytest.mark.parametrize("config", [SMALL, ENCODER, DECODER], ids=["both", "encoder", "decoder"])
@pytest.mark.parametrize("positions", ["sinusoidal", "learned", "none"])
def test_repeated_tokens_differ_by_their_place_alone(config: Any, positions: str) -> None:
    result = passes("repeated_token", config.replace(positions=positions))
    sides = {"src": config.has_encoder, "tgt": config.has_decoder}
    assert result.facts["sides"] == ", ".join(side for side, there in sides.items() if there)


def test_repeated_token_convicts_each_side_without_positions() -> None:
    result = fails("repeated_token", shop=NO_POSITIONS_ON_TARGET)
    rows, pairs = 5, math.comb(6, 2)
    assert (result.facts["first"], result.facts["alike"]) == ("tgt", rows * pairs) and result.measured == rows * pairs
    result = fails("repeated_token", shop=NO_POSITIONS_ON_SOURCE)
    assert (result.facts["first"], result.facts["alike"]) == ("src", 5 * math.comb(7, 2))
    passes("repeated_token", SMALL.replace(positions_on_decoder=False), shop=NO_POSITIONS_ON_TARGET)


def test_repeated_token_convicts_positions_along_the_batch() -> None:
    """Every token of a sentence gets the same vector."""
    assert fails("repeated_token", DECODER, shop=ON_THE_BATCH).measured == 5 * math.comb(6, 2)


def test_a_target_without_positions_may_see_the_order_of_the_source() -> None:
    """Each query sees another part of a memory that has positions: its places then differ by right."""
    config = SMALL.replace(positions_on_decoder=False)
    assert passes("repeated_token", config, MaskConfig(cross=("window:1",))).facts["sides"] == "src"
    assert passes("repeated_token", config).facts["sides"] == "src, tgt"


def test_numbers_that_are_none_prove_no_order() -> None:
    shop = altered("model.Transformer.encode", "x = self.embed", "x = math.nan * self.embed")
    assert fails("token_order", ENCODER, shop=shop).sentence == "stops"
    assert "NaN" in fails("repeated_token", ENCODER, shop=shop).finding
