"""At once or step by step, once or twice: the answers of a right model agree, and of a broken one do not."""

from typing import Any

import pytest
import torch

from tests.probe_cases import DECODER, ENCODER, probe, verdict
from transformer_core.config import MaskConfig
from transformer_core.workshop import altered


def passes(name: str, *args: Any, **how: Any) -> Any:
    result = verdict(name, *args, **how)
    assert result is not None and result.passed, result
    return result


def fails(name: str, *args: Any, **how: Any) -> Any:
    result = verdict(name, *args, **how)
    assert result is not None and not result.passed, result
    return result


# Step by step.


def test_each_beginning_of_the_target_is_read_alone() -> None:
    result = passes("step_by_step")
    assert result.facts["steps"] == 5 and result.facts["written"] > 0, "a target of six tokens"
    assert passes("step_by_step", DECODER).facts["written"] == 0, "without a source nothing is written"
    assert verdict("step_by_step", ENCODER) is None


def test_step_by_step_convicts_a_decoder_without_its_causal_mask() -> None:
    right = 'self.allowed("decoder_self", tgt.shape[1], tgt)'
    shop = altered("model.Transformer.decode", right, right.replace("decoder_self", "encoder_self"))
    result = fails("step_by_step", shop=shop)
    assert result.sentence == "fails"
    about = probe(shop=shop)  # the same number by hand: one token alone against the first of a pair
    tokens = about.whole()
    assert tokens is not None
    alone = about.output(tokens | {"tgt": tokens["tgt"][:, :1]})
    assert (about.output(tokens)[:, :1] - alone).abs().max() > 1e-3 and result.measured > 1e-3


def test_where_the_rules_let_the_future_in_nothing_is_claimed() -> None:
    assert verdict("step_by_step", masks=MaskConfig(decoder_self=("padding",))) is None
    assert verdict("step_by_step", masks=MaskConfig(cross=("causal",))) is None, "its triangle moves with the length"
    assert passes("step_by_step", masks=MaskConfig(decoder_self=("prefix:2",))).facts["steps"] == 4, "2 to 5 tokens"
    assert passes("step_by_step", masks=MaskConfig(decoder_self=("block:2", "causal"))).facts["steps"] == 5


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("model.decode(written, memory, src)[:, -1]", "model.decode(written, memory, src)[:, 0]"),
        ("model.decode(written, memory, src)", "model.decode(written[:, -1:], memory, src)"),
        (".argmax(dim=-1)", ".argmin(dim=-1)"),
    ],
)
def test_step_by_step_convicts_writing_that_is_not_what_the_model_thinks(right: str, wrong: str) -> None:
    """The place that is read, the words before it, and the choice: the forward itself is right in all three."""
    result = fails("step_by_step", shop=altered("decoding.writing.greedy", right, wrong))
    assert result.sentence == "fails_own" and 0 < result.facts["strays"] == result.measured


# Twice.


def test_repeatable_asks_what_a_model_can_answer() -> None:
    assert passes("repeatable").facts["ways"] == "evaluation, decoding"
    assert passes("repeatable", ENCODER).facts["ways"] == passes("repeatable", DECODER).facts["ways"] == "evaluation"
    assert passes("repeatable").measured == 0.0


def test_repeatable_convicts_decoding_with_dropout() -> None:
    """H31: dropout still on while decoding, and two different answers. The model's own dropout is 0: it is set here."""
    shop = altered("decoding.writing.greedy", "with evaluating(model):", "with torch.no_grad():")
    result = fails("repeatable", shop=shop)
    assert result.sentence == "fails" and result.facts["first"] == "decoding" and result.measured > 1e-3


def test_repeatable_convicts_an_evaluation_in_training_mode() -> None:
    shop = altered("decoding.writing.evaluating", "model.eval()", "model.train()")
    assert fails("repeatable", shop=shop).facts["first"] in ("evaluation", "decoding")


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("module.training = True", "module.training = False"),
        ("for module in training:", "for module in model.modules():"),
    ],
)
def test_repeatable_convicts_a_mode_that_is_not_put_back(right: str, wrong: str) -> None:
    """H31: afterwards training goes on in training mode; and what stood in evaluation mode is left there."""
    result = fails("repeatable", shop=altered("decoding.writing.evaluating", right, wrong))
    assert result.sentence == "fails_mode" and result.measured > 0


def test_repeatable_convicts_numbers_drawn_in_evaluation() -> None:
    shop = altered("layers.Dropout.forward", "if not self.training or self.p == 0", "if self.p == 0")
    fails("repeatable", ENCODER, shop=shop)
    assert torch.initial_seed(), "the global generator is not asked"
