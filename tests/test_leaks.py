"""Leaks and dead connections: each of the three checks finds what was broken, and what fools a weaker probe."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests.probe_cases import DECODER, ENCODER, SMALL, probe, subject, verdict
from transformer_core.checks import leaks
from transformer_core.checks.probes import Probe, hooked, probe_of
from transformer_core.checks.reach import reach, views
from transformer_core.config import MaskConfig
from transformer_core.workshop import altered

SELF = "lambda x: self.self_attention(x, x, allowed)"
NO_CAUSAL = altered("masks.causal", "return key <= query", "return key < key + 1 + 0 * query")
ONE_AHEAD = altered("masks.causal", "return key <= query", "return key <= query + 1")
SELF_FED = altered("layers.DecoderLayer.forward", "(x, memory, memory_allowed)", "(x, x, allowed)")
MERGED_WRONGLY = altered(
    "attention.MultiHeadAttention.merge",
    "heads.transpose(1, 2).flatten(2)",
    "heads.reshape(heads.shape[0], heads.shape[2], -1)",
)


def fill(number: float) -> Any:
    """Hidden scores replaced by this number instead of -∞."""
    right = "visible = scores.masked_fill(~allowed, -math.inf)"
    return altered("attention.masked_softmax", right, right.replace("-math.inf", str(number)))


def lose(result: Any) -> Any:
    assert result is not None and not result.passed
    return result


# The right model.


def test_of_the_right_model_exactly_the_visible_pairs_move() -> None:
    for name in ("encoder_leak", "decoder_leak", "cross_leak"):
        result = verdict(name)
        assert result is not None and result.passed and result.sentence == "holds"
        assert result.facts["size"] == 0.0, "what is hidden does not move at all, not even by rounding"
        assert 0 < result.facts["visible"] < result.facts["pairs"]


def test_a_side_that_is_not_there_has_no_leak() -> None:
    assert verdict("decoder_leak", ENCODER) is None and verdict("cross_leak", ENCODER) is None
    assert verdict("encoder_leak", DECODER) is None and verdict("cross_leak", DECODER) is None


def test_the_entries_are_those_of_the_attention_in_question() -> None:
    result = verdict("cross_leak")
    assert result is not None and "decoder.layers.1.cross_attention/weights" in result.entries
    assert not any("self_attention" in key for key in result.entries)


def test_every_pair_is_looked_at() -> None:
    """5 sentences of 7 source tokens, none of the sizes a 3 or a 4; then 7 and 3 sentences, one output each."""
    result = verdict("encoder_leak")
    assert result is not None and result.facts["pairs"] == 5 * 7 * 7 + 7 * 7 + 3 * 7
    assert result.facts["batches"] == "5, 7, 3"


# Leaks.


@pytest.mark.parametrize("norm_order", ["post", "pre"])
def test_decoder_leak_convicts_a_causal_mask_that_sees_one_ahead(norm_order: str) -> None:
    config = SMALL.replace(norm_order=norm_order)
    result = lose(verdict("decoder_leak", config, shop=ONE_AHEAD))
    assert result.sentence == "fails" and result.facts["size"] > 1e-3
    assert result.facts["output"] < result.facts["input"]
    for name in ("encoder_leak", "cross_leak"):
        other = verdict(name, config, shop=ONE_AHEAD)
        assert other is not None and other.passed


def test_the_number_of_leaks_is_that_of_the_two_masks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted a second way: what the wrong mask lets through in two layers, less what the right one does."""
    batches: list[dict[str, Tensor]] = []
    draw = Probe.batch

    def recorded(self: Probe, rows: int | None = None) -> Any:
        batches.append(draw(self, rows))
        return batches[-1]

    about = subject(shop=NO_CAUSAL)
    probe_of(about)
    monkeypatch.setattr(Probe, "batch", recorded)
    result = lose(leaks.decoder_leak.run(about))
    leaking = 0
    for tokens in batches:
        right = reach(SMALL, views(SMALL, MaskConfig(), tokens))["logits_tgt"]
        wrong = reach(SMALL, views(SMALL, MaskConfig(decoder_self=("padding",)), tokens))["logits_tgt"]
        more = wrong & ~right
        if len(more) == 5:  # every output of every sentence
            leaking += int(more.sum())
        else:  # one output of each
            row = torch.arange(len(more))
            leaking += int(more[row, row % more.shape[1]].sum())
    assert [len(tokens["tgt"]) for tokens in batches] == [5, 6, 3]
    assert result.facts["leaks"] == result.measured == leaking


def test_the_size_of_a_leak_is_that_of_two_forwards() -> None:
    """A token behind the last query is changed by hand: the first output moves, as the check says it does."""
    about = probe(shop=NO_CAUSAL)
    tokens = about.whole()
    assert tokens is not None
    before = about.output(tokens)
    noise = torch.randn(12, dtype=torch.float64)

    def change(_module: Any, _inputs: Any, output: Tensor) -> Tensor:
        output = output.clone()
        output[:, -1] += noise
        return output

    with hooked(about.model.tgt_embedding, change):
        after = about.output(tokens)
    assert (after - before)[:, 0].abs().max() > 1e-3


def test_encoder_leak_convicts_heads_merged_without_a_transpose() -> None:
    result = lose(verdict("encoder_leak", shop=MERGED_WRONGLY))
    assert result.facts["leaks"] == result.facts["hidden"], "each output is made of every token"


def test_cross_leak_convicts_padding_that_the_decoder_sees() -> None:
    """H05: without the mask of the source, its padding gets a share of the attention."""
    shop = altered("layers.DecoderLayer.forward", "(x, memory, memory_allowed)", "(x, memory)")
    assert lose(verdict("cross_leak", shop=shop)).sentence == "fails"
    encoder = verdict("encoder_leak", shop=shop)
    assert encoder is not None and encoder.passed


def test_encoder_leak_convicts_a_mask_on_the_query_axis() -> None:
    """H04: laid along the queries, a padding mask hides rows and lets every real token see padding."""
    shop = altered("masks.compose", "mask = padding(keys, pad_id)", "mask = padding(keys, pad_id).mT")
    config = ENCODER
    assert lose(verdict("encoder_leak", config, shop=shop)).sentence == "fails"


# Dead connections.


def test_cross_leak_convicts_a_decoder_that_attends_to_itself_twice() -> None:
    """Nothing leaks where nothing arrives: the two others are content."""
    result = lose(verdict("cross_leak", shop=SELF_FED))
    assert result.sentence == "dead" and result.facts["leaks"] == 0
    assert result.facts["dead"] == result.facts["visible"]
    for name in ("encoder_leak", "decoder_leak"):
        other = verdict(name, shop=SELF_FED)
        assert other is not None and other.passed


def test_cross_leak_convicts_a_memory_cut_off_from_the_gradient() -> None:
    shop = altered(
        "model.Transformer.forward",
        "self.encode(src) if self.config.has_encoder",
        "self.encode(src).detach() if self.config.has_encoder",
    )
    result = lose(verdict("cross_leak", shop=shop))
    assert result.sentence == "dead" and result.facts["size"] == 0


def test_encoder_leak_convicts_a_causal_mask_that_does_not_belong_there() -> None:
    right = 'self.allowed("encoder_self", src.shape[1], src)'
    shop = altered("model.Transformer.encode", right, right.replace("encoder_self", "decoder_self"))
    result = lose(verdict("encoder_leak", shop=shop))
    assert result.sentence == "dead" and result.facts["leaks"] == 0


# What fools a weaker probe.


def test_a_constant_is_taken_out_by_the_next_norm_and_a_random_vector_is_not() -> None:
    config = SMALL.replace(norm_order="pre")
    about = probe(config, shop=NO_CAUSAL)
    tokens = about.whole()
    assert tokens is not None
    before = about.output(tokens)
    constant = torch.zeros(len(before), before.shape[1], 1, dtype=torch.float64)
    constant[:, -1] = 3.0
    with hooked(about.model.tgt_embedding, lambda _module, _inputs, output: output + constant):
        after = about.output(tokens)
    assert (after - before).abs().max() < 1e-12, "a constant moves nothing, not even its own place"
    assert lose(verdict("decoder_leak", config, shop=NO_CAUSAL)).facts["size"] > 1e-3


@pytest.mark.parametrize("number", [-10.0, -40.0])
def test_a_leak_below_rounding_is_seen_by_its_gradient(number: float) -> None:
    """exp(-40) is 4e-18: added to a sum near 1 it changes no digit, and its derivative is not 0."""
    masks = MaskConfig(decoder_self=("causal",))  # every query sees a key
    result = lose(verdict("decoder_leak", DECODER, masks, fill(number)))
    assert result.facts["leaks"] == result.facts["hidden"]
    assert (result.facts["size"] < 1e-15) == (number < -30)


def test_a_leak_without_a_gradient_is_seen_by_its_value() -> None:
    shop = altered(
        "layers.DecoderLayer.forward",
        SELF + ")\n        if",
        SELF + ") + x.detach().mean(1, keepdim=True)\n        if",
    )
    result = lose(verdict("decoder_leak", shop=shop))
    assert result.facts["leaks"] > 0 and result.facts["size"] > 1e-3


@pytest.mark.parametrize(
    "condition",
    ["len(tokens) == 3", "len(tokens) == tokens.shape[1]"],
    ids=["as many sentences as heads", "as many sentences as tokens"],
)
def test_a_mask_that_is_wrong_only_where_two_sizes_are_equal(condition: str) -> None:
    """Each axis fits the other there, and no shape tells. With other sizes the same code is right."""
    swapped = "(tokens != pad_id)[None, :, None, :]" if "3" in condition else "(tokens != pad_id).T[:, None, None, :]"
    shop = altered(
        "masks.padding",
        "return (tokens != pad_id)[:, None, None, :]",
        f"return {swapped} if {condition} else (tokens != pad_id)[:, None, None, :]",
    )
    result = lose(verdict("encoder_leak", ENCODER, shop=shop))
    assert result.facts["rows"] == (3 if "3" in condition else 7)
    assert result.facts["batches"] == "5, 7, 3"


def test_one_head_hides_a_wrong_merge() -> None:
    """With one head there is nothing to transpose: the wrong line is right there, and the check says so."""
    result = verdict("encoder_leak", SMALL.replace(n_heads=1), shop=MERGED_WRONGLY)
    assert result is not None and result.passed


def test_a_mask_without_the_head_axis_stops_or_falls_onto_the_heads() -> None:
    shop = altered("masks.padding", "[:, None, None, :]", "[:, None, :]")
    result = lose(verdict("encoder_leak", ENCODER, shop=shop))
    assert result.sentence == "stops" and "does not broadcast" in result.finding
    assert result.measured != result.measured


def test_a_model_that_gives_nan_is_no_right_model() -> None:
    wrong = "visible = scores + (~allowed) * -math.inf"
    shop = altered("attention.masked_softmax", "visible = scores.masked_fill(~allowed, -math.inf)", wrong)
    result = lose(verdict("decoder_leak", shop=shop))
    assert result.facts["leaks"] == result.facts["hidden"]
