"""A small model learns one batch by heart and writes it; a falling loss alone acquits models that cannot."""

import itertools
import json
import math
from typing import Any

import pytest
import torch

from explorer import words
from transformer_core.batches import make_batch
from transformer_core.checks import CHECKS, CheckResult, run_checks
from transformer_core.checks.learning import (
    RIGHT_SENTENCES,
    SENTENCES,
    SHORTEST,
    STEPS,
    _answers,
    _batch,
    _learnable,
    _small,
    trial,
)
from transformer_core.checks.subject import Subject
from transformer_core.checks.table import LEARNING, NUMERICS, STRUCTURE
from transformer_core.config import DataConfig, MaskConfig, ModelConfig
from transformer_core.model import build
from transformer_core.presets import Preset, load_preset, preset_names
from transformer_core.workshop import OWN, Workshop, altered

SMALL = ModelConfig(d_model=12, n_heads=3, d_ff=17, src_vocab_size=29, tgt_vocab_size=31)
NAMES = ["loss_falls", "one_batch", "own_words"]
SEES_AHEAD = MaskConfig(decoder_self=("padding",))
SHIFT = ("tasks.base.shift", "return target[:, :-1], target[:, 1:]")


def learned(
    config: ModelConfig = SMALL, masks: MaskConfig | None = None, shop: Workshop = OWN, seed: int = 7
) -> dict[str, CheckResult]:
    """The results by name, each said in both languages."""
    model, batch = shop.model.build(config, masks, seed=7).eval(), make_batch(config, DataConfig(), 7)
    results = run_checks(model, batch, levels=[LEARNING], shop=shop, seed=seed)
    for result in results:
        for language in words.LANGUAGES:
            said = words.text(language, f"checks.{result.name}.{result.sentence}", **result.facts)
            assert said == result.finding or language == "zh"
        json.dumps(result.to_row(), allow_nan=False)
    return {result.name: result for result in results}


def marks(results: dict[str, CheckResult]) -> list[bool]:
    return [result.passed for result in results.values()]


# No false alarm.


def same_kind(preset: Preset) -> ModelConfig:
    """The small model that a preset comes to. Those that come to the same one need one training among them."""
    return _small(preset.model, OWN.tasks.get("first_last" if preset.model.architecture == "encoder" else "copy"))


PRESETS = [load_preset(name) for name in reversed(preset_names())]
KINDS = {(same_kind(preset), preset.masks): preset for preset in PRESETS if _learnable(preset.model, preset.masks)}


@pytest.mark.parametrize("seed", [7, 1, 2, 3, 4])
@pytest.mark.parametrize("preset", KINDS.values(), ids=lambda preset: preset.name)
def test_no_preset_fails_to_learn(preset: Preset, seed: int) -> None:
    subject = Subject(build(preset.model, preset.masks, device="meta"), preset.batch(7), seed=seed)
    run = trial(subject)
    assert run is not None and not run.error and not run.writing_error
    assert run.steps < STEPS and run.end < 0.02 * run.start and run.accuracy == 1
    assert not preset.model.has_decoder or run.right == run.sentences == SENTENCES


@pytest.mark.parametrize(
    "changes",
    [
        {"norm_order": "pre", "final_norm": False},
        {"norm": "rms", "norm_order": "pre"},
        {"norm": "batch"},
        {"norm": "none"},
        {"positions": "none"},
        {"positions": "learned", "activation": "gelu", "positions_on_decoder": False},
        {"bias": False, "tie_weights": True},
        {"scale_scores": False, "scale_embedding": False},
        {"dropout": 0.5, "attention_dropout": 0.5, "pad_id": 5},
        {"n_heads": 1, "positions": "none"},
        {"architecture": "decoder"},
        {"architecture": "decoder", "positions": "learned", "norm_order": "pre"},
        {"architecture": "encoder", "n_classes": 3},
        {"architecture": "encoder", "norm": "batch"},
        {"norm": "batch", "norm_order": "pre", "final_norm": False, "scale_embedding": False, "positions": "learned"},
        {"norm": "batch", "norm_order": "pre", "scale_scores": False, "scale_embedding": False, "bias": False},
    ],
    ids=str,
)
def test_no_false_alarm_over_the_configurations(changes: dict[str, Any]) -> None:
    results = learned(SMALL.replace(**changes))
    assert list(results) == (NAMES[:2] if changes.get("architecture") == "encoder" else NAMES)
    assert all(marks(results)), {name: each.finding for name, each in results.items()}


@pytest.mark.parametrize("name", preset_names())
@pytest.mark.parametrize("seed", [7, 1, 2, 3, 4])
def test_no_preset_fails_a_check_of_structure_or_numerics(name: str, seed: int) -> None:
    preset = load_preset(name)
    wide, large = preset.model.d_model > 300, preset.model.d_model > 600
    if wide and seed not in (7, 1):
        pytest.skip("many weights take long to draw; two seeds of the wide models will do")
    other = {"post": "pre", "pre": "post"}[preset.model.norm_order]
    config = preset.model.replace(norm_order=other) if seed == 1 else preset.model
    model = build(config, preset.masks, seed=seed, device="meta" if large else "cpu")
    results = run_checks(model.train(seed == 2), make_batch(config, preset.data, seed))
    assert len(results) >= 6 and max(each.level for each in results) == (STRUCTURE if large else NUMERICS)
    assert not [each.finding for each in results if not each.passed]


# The lesson.


@pytest.mark.parametrize("config", [SMALL, SMALL.replace(norm_order="pre"), SMALL.replace(architecture="decoder")])
def test_without_the_causal_mask_the_loss_falls_and_the_model_cannot_write(config: ModelConfig) -> None:
    """The teacher-forced loss looks as good as that of the right model: the next token stands in the input."""
    results = learned(config, SEES_AHEAD)
    assert marks(results) == [True, True, False]
    assert results["one_batch"].measured == 1.0 and results["loss_falls"].measured < 0.01
    result = results["own_words"]
    assert result.measured <= 3 / SENTENCES and result.facts["accuracy"] == 1.0
    assert result.facts["wanted"].endswith("⟨/s⟩") and result.facts["wanted"] != result.facts["written"]
    assert result.facts["written"] in result.finding


@pytest.mark.parametrize(
    "wrong", ["return target[:, :-1], target[:, :-1]", "return target[:, 1:], target[:, 1:]"], ids=["begin", "end"]
)
def test_a_target_that_is_not_shifted_is_learned_perfectly_and_says_nothing(wrong: str) -> None:
    results = learned(shop=altered(*SHIFT, wrong))
    assert marks(results) == [True, True, False] and results["own_words"].measured == 0.0


def test_without_the_source_the_first_letter_is_a_guess() -> None:
    """The words are known by heart, only not which one is asked for: a part of the labels stays wrong."""
    shop = altered("layers.DecoderLayer.forward", "if memory is not None:", "if False:")
    results = learned(shop=shop)
    assert marks(results) == [True, False, False]
    assert results["own_words"].measured <= 2 / SENTENCES


def test_a_model_that_learns_nothing_fails_all_three() -> None:
    shop = altered("training.step.take_step", 'group["lr"] = step_rate', 'group["lr"] = 0.0')
    results = learned(shop=shop)
    assert marks(results) == [False, False, False]
    facts = results["loss_falls"].facts
    assert results["loss_falls"].measured == pytest.approx(1.0) and facts["steps"] == STEPS
    assert facts["start"] == pytest.approx(facts["end"])
    assert results["one_batch"].measured < 0.5


def test_a_loss_of_nan_and_a_decoder_that_stops_end_in_a_sentence() -> None:
    """Whatever a broken model raises is a finding."""
    results = learned(shop=altered("attention.attend", "scores / math.sqrt(q.shape[-1])", "scores * math.nan"))
    assert marks(results) == [False, False, False]
    assert {each.sentence for each in results.values()} == {"stops"}
    assert results["loss_falls"].finding.startswith("training stops at step 1: step 1: the loss is not finite.")
    assert math.isnan(results["one_batch"].measured)

    results = learned(shop=altered("decoding.writing.greedy", "begin_id, device=src.device", "-1, device=src.device"))
    assert marks(results) == [True, True, False]
    assert results["own_words"].finding.startswith("nothing is written: tgt holds the id -1")


def test_a_loss_that_falls_a_little_is_not_enough() -> None:
    slow = learned(shop=altered("training.step.take_step", "= step_rate", "= step_rate / 1000"))["loss_falls"]
    assert not slow.passed and 0.5 < slow.measured < 1


# Where there is nothing to say.


@pytest.mark.parametrize(
    "masks",
    [
        MaskConfig(cross=("padding", "window:1")),
        MaskConfig(cross=("causal", "padding")),
        MaskConfig(decoder_self=("causal", "prefix:3")),
        MaskConfig(encoder_self=("custom",), encoder_self_custom=((True,) * 7,) * 7),
    ],
    ids=lambda masks: f"{masks.encoder_self}{masks.decoder_self}{masks.cross}",
)
def test_masks_under_which_the_batch_cannot_be_learned_by_right_are_not_judged(masks: MaskConfig) -> None:
    assert trial(Subject(build(SMALL, masks, device="meta"), make_batch(SMALL, DataConfig(), 7))) is None


@pytest.mark.parametrize("changes", [{"positions": "none"}, {"positions_on_decoder": False}], ids=str)
def test_a_decoder_that_can_put_its_tokens_in_no_order_is_not_judged(changes: dict[str, Any]) -> None:
    """What it sees is a heap: the causal mask shows an order only where there is a source to look it up in."""
    model, batch = SMALL.replace(**changes), make_batch(SMALL, DataConfig(), 7)
    assert trial(Subject(build(model, SEES_AHEAD, device="meta"), batch)) is None
    alone = model.replace(architecture="decoder", n_heads=1, tie_weights=True)
    assert trial(Subject(build(alone, device="meta"), make_batch(alone, DataConfig(), 7))) is None
    assert trial(Subject(build(model, device="meta"), batch)) is not None


def test_an_encoder_writes_nothing() -> None:
    assert list(learned(SMALL.replace(architecture="encoder"))) == ["loss_falls", "one_batch"]


# How it is done.


def test_the_small_model_is_of_the_same_kind() -> None:
    config = SMALL.replace(
        d_model=512, n_heads=8, n_encoder_layers=6, norm="rms", norm_order="pre", dropout=0.3, tie_weights=True,
        positions="learned", scale_scores=False, architecture="decoder", pad_id=5,
    )  # fmt: skip
    small = _small(config, OWN.tasks.get("copy"))
    assert (small.d_model, small.n_heads, small.n_encoder_layers, small.n_decoder_layers) == (32, 4, 1, 1)
    for name in ("norm", "norm_order", "tie_weights", "positions", "scale_scores", "architecture"):
        assert getattr(small, name) == getattr(config, name)
    assert small.dropout == 0 and small.pad_id == 0
    assert _small(SMALL, OWN.tasks.get("copy")).n_heads == 2, "3 heads do not divide 32; 2 are still several"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("architecture", ["encoder_decoder", "decoder", "encoder"])
def test_the_sentences_can_be_told_apart_by_their_first_token(architecture: str, seed: int) -> None:
    task = OWN.tasks.get("first_last" if architecture == "encoder" else "copy")
    config = _small(SMALL.replace(architecture=architecture), task)
    read, batch = _batch(config, task, seed)
    rows = [[token for token in row if token] for row in read.tolist()]
    assert len(rows) == SENTENCES == len({row[0] for row in rows})
    assert all(len(row) >= SHORTEST and all(a != b for a, b in itertools.pairwise(row)) for row in rows)
    assert batch.labels is not None and len(batch.labels) == SENTENCES
    if architecture == "decoder":
        assert batch.src is None and batch.labels[:, 0].eq(0).all(), "the first letter is given, not asked for"
        assert torch.equal(batch.labels[:, 1:], _answers(read)[:, 1:])
    elif architecture == "encoder_decoder":
        assert torch.equal(batch.labels, _answers(read)), "two ways to the same answer"


def test_one_training_serves_all_three_and_repeats() -> None:
    model, batch = build(SMALL, seed=7).eval(), make_batch(SMALL, DataConfig(), 7)
    subject = Subject(model, batch, seed=5)
    assert trial(subject) is trial(subject)
    first, again, other = (run_checks(model, batch, levels=[LEARNING], seed=seed) for seed in (5, 5, 6))
    assert first == again != other
    assert {result.facts["steps"] for result in first} == {trial(subject).steps}  # type: ignore[union-attr]


@pytest.mark.parametrize("architecture", ["encoder_decoder", "decoder"])
def test_own_words_are_what_the_small_model_writes(architecture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share is counted once more, by hand, on answers that are made up: two words spoiled, one cut short."""
    from transformer_core.checks import learning

    write = learning._write

    def spoiled(model: Any, shop: Any, read: torch.Tensor, batch: Any) -> torch.Tensor:
        written = write(model, shop, read, batch).clone()
        assert torch.equal(written.where(_answers(read) != 0, 0), _answers(read)), "it had them all"
        written[0, 2], written[4, 0], written[6, 5:] = 3, 4, 2
        written[1, 7:] = 9 if read[1, 6] == 0 else written[1, 7:]  # behind the end of a word of six nothing counts
        return written

    monkeypatch.setattr(learning, "_write", spoiled)
    result = learned(SMALL.replace(architecture=architecture))["own_words"]
    assert result.facts["right"] in (6, 7) and result.measured == result.facts["right"] / 9
    assert result.passed == (result.measured >= RIGHT_SENTENCES)
    assert result.facts["written"].split()[2] == "⟨?⟩" != result.facts["wanted"].split()[2]


def test_looking_touches_neither_model_nor_random_numbers() -> None:
    model, batch = build(SMALL.replace(dropout=0.5), seed=7).train(), make_batch(SMALL, DataConfig(), 7)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    noise, world = model.noise.generator(torch.device("cpu")).get_state(), torch.get_rng_state()
    with torch.no_grad():
        assert all(result.passed for result in run_checks(model, batch, levels=[LEARNING]))
    assert model.training and all(each.grad is None for each in model.parameters())
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert torch.equal(model.noise.generator(torch.device("cpu")).get_state(), noise)
    assert torch.equal(torch.get_rng_state(), world)


def test_a_falling_loss_is_taken_as_proof_of_everything_and_own_words_of_less() -> None:
    claims = {row.name: row.claims for row in CHECKS if row.level == LEARNING}
    assert list(claims) == NAMES and claims["loss_falls"] == claims["one_batch"] > claims["own_words"]
