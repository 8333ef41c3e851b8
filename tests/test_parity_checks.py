"""Level 5: the right model of every kind equals torch.nn; a broken one does not, and the sentence says where."""

import pytest
import torch

from explorer import words
from transformer_core.batches import make_batch
from transformer_core.checks import CHECKS, CheckResult, run_checks
from transformer_core.checks.table import REFERENCE
from transformer_core.config import DataConfig, MaskConfig, ModelConfig
from transformer_core.model import build
from transformer_core.presets import load_preset
from transformer_core.workshop import OWN, Workshop, altered

CONFIG = ModelConfig(d_model=14, n_heads=2, d_ff=11, n_encoder_layers=2, n_decoder_layers=1, src_vocab_size=19,
                     tgt_vocab_size=23, max_seq_len=16)  # fmt: skip
DATA = DataConfig(src_len=7, tgt_len=5, batch_size=3)


def verdicts(
    shop: Workshop = OWN, config: ModelConfig = CONFIG, masks: MaskConfig | None = None, **how: object
) -> dict:
    """The results of level 5 by name, each said in both languages."""
    model = shop.model.build(config, masks, seed=7, **how)
    results = run_checks(model, make_batch(config, DATA, 7), levels=(REFERENCE,), shop=shop)
    for each in results:
        for language in words.LANGUAGES:
            said = words.text(language, f"checks.{each.name}.{each.sentence}", **each.facts)
            assert said == each.finding or language == "zh"
    return {each.name: each for each in results}


def test_they_are_the_last_checks() -> None:
    assert [each.name for each in CHECKS if each.level == REFERENCE] == [each.name for each in CHECKS[-3:]]
    assert [each.name for each in CHECKS[-3:]] == ["equals_torch", "gradients_equal_torch", "equals_sdpa"]


@pytest.mark.parametrize(
    "changes",
    [{}, {"norm_order": "pre", "activation": "gelu"}, {"bias": False, "tie_weights": True, "final_norm": True},
     {"dropout": 0.5, "attention_dropout": 0.5}, {"architecture": "encoder", "n_classes": 3},
     {"architecture": "decoder", "norm_eps": 1e-3, "positions": "learned"}],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_right_model_equals_torch(changes: dict, dtype: torch.dtype) -> None:
    found = verdicts(config=CONFIG.replace(**changes), dtype=dtype)
    assert list(found) == ["equals_torch", "gradients_equal_torch", "equals_sdpa"]
    assert all(each.passed and not each.warning and each.measured <= 1e-12 for each in found.values())


@pytest.mark.parametrize("fill", ["exclude", "-inf", "finfo_min", "-1e9"])
def test_a_query_that_sees_nothing_is_a_false_alarm_of_no_fill(fill: str) -> None:
    """The NaN of the fill -inf is none: the next layer carries it to queries that do see keys."""
    masks, config = MaskConfig(fill=fill), CONFIG.replace(n_decoder_layers=2)
    data = DataConfig(src_len=7, tgt_len=5, batch_size=2, pad_side="left")
    results = run_checks(build(config, masks, seed=7), make_batch(config, data, 7), levels=(REFERENCE,))
    stray = {"equals_torch", "gradients_equal_torch"} if fill == "-inf" else set()
    assert {each.name for each in results if not each.passed} == stray


def test_a_single_query_of_a_single_head_has_a_mask_like_any_other() -> None:
    """B 1 1 k looks like a mask of padding, and is one of sentences that differ."""
    masks = MaskConfig(decoder_self=("causal", "where:b != k"), cross=("where:b <= k", "padding"))
    config = CONFIG.replace(n_heads=1)
    batch = make_batch(config, DataConfig(src_len=7, tgt_len=1, batch_size=3), 7)
    results = run_checks(build(config, masks, seed=7), batch, levels=(REFERENCE,))
    assert [each.name for each in results] == ["equals_torch", "gradients_equal_torch", "equals_sdpa"]
    assert not [each.finding for each in results if not each.passed]


@pytest.mark.parametrize("fill", ["exclude", "finfo_min", "-1e9"])
@pytest.mark.parametrize(
    ("masks", "tgt"),
    [
        (MaskConfig(decoder_self=("where:q != k",)), ((1,), (6,))),  # real tokens that see nothing
        (MaskConfig(), ((4, 0, 0), (0, 5, 0))),  # padding that sees nothing, and no target to ask for
    ],
    ids=["real tokens", "no targets"],
)
def test_a_loss_that_depends_on_the_fill_has_no_counterpart(masks: MaskConfig, tgt: tuple, fill: str) -> None:
    """torch has NaN for a query without keys; what another number makes of it is compared with nothing."""
    batch = make_batch(CONFIG, DataConfig(tgt=tgt, src_len=7, batch_size=2), 7)
    results = run_checks(build(CONFIG, masks.replace(fill=fill), seed=7), batch, levels=(REFERENCE,))
    compared = {"equals_torch", "gradients_equal_torch"} if fill == "exclude" else set()
    assert {each.name for each in results} == compared | {"equals_sdpa"}
    assert all(each.passed for each in results)


@pytest.mark.parametrize(
    "name", ["first_look", "sentences", "hand_computed", "minimal_encoder", "deep_post", "deep_pre"]
)
def test_no_preset_is_a_false_alarm(name: str) -> None:
    preset = load_preset(name)
    results = run_checks(build(preset.model, preset.masks, seed=7), preset.batch(7), levels=(REFERENCE,))
    assert len(results) == 3 and all(each.passed for each in results)


@pytest.mark.parametrize(
    "changes", [{"norm": "rms"}, {"norm": "batch"}, {"norm": "none"}, {"scale_scores": False}], ids=str
)
def test_where_torch_has_no_counterpart_only_attention_is_compared(changes: dict) -> None:
    found = verdicts(config=CONFIG.replace(**changes))
    assert list(found) == ["equals_sdpa"] and found["equals_sdpa"].passed


def failed(found: dict[str, CheckResult]) -> set[str]:
    return {name for name, each in found.items() if not each.passed}


def test_a_forgotten_scale_fails_and_is_named() -> None:
    found = verdicts(altered("attention.attend", "    if scale:", "    if not scale:"))
    assert failed(found) == {"equals_torch", "gradients_equal_torch", "equals_sdpa"}
    assert found["equals_torch"].finding.startswith("encoder.layers.0.self_attention/scores is the first to differ")
    assert found["equals_sdpa"].facts["off"] == found["equals_sdpa"].facts["attentions"] == 4


def test_heads_merged_in_another_order_fail_outside_of_attention_alone() -> None:
    found = verdicts(altered("attention.MultiHeadAttention.merge", "heads.transpose", "heads.flip(1).transpose"))
    assert failed(found) == {"equals_torch", "gradients_equal_torch"}


def test_a_detached_memory_fails_by_its_gradients_alone() -> None:
    found = verdicts(altered("model.Transformer.decode", "memory, memory_allowed)", "memory.detach(), memory_allowed)"))
    assert failed(found) == {"gradients_equal_torch"}
    assert found["gradients_equal_torch"].facts["first"] == "src_embedding.weight"


def test_an_exchange_of_two_fresh_norms_is_seen_since_they_are_stirred() -> None:
    """At the start every gain is 1 and every bias 0: on fresh weights the two norms are the same function."""
    found = verdicts(
        altered("layers.EncoderLayer.forward", "x, self.feed_forward_norm,", "x, self.self_attention_norm,")
    )
    assert "equals_torch" in failed(found)
    assert found["equals_torch"].facts["first"] == "encoder.layers.0/feed_forward_norm"


def test_a_fault_in_the_embeddings_is_not_seen_as_it_says() -> None:
    found = verdicts(altered("model.Transformer.embed", "x * math.sqrt", "x / math.sqrt"))
    assert not failed(found) and "Embeddings" in found["equals_torch"].cannot_see


def test_a_forward_that_stops_fails_with_the_reason() -> None:
    """In evaluation: the traced forward of the subject, in training mode, goes through."""
    shop = altered("layers.FeedForward.forward", "output = self.w_2(hidden)",
                   "output = self.w_2(hidden if self.training else hidden.mT)")  # fmt: skip
    found = verdicts(shop)
    assert failed(found) == set(found) and {each.sentence for each in found.values()} == {"stops"}
    assert "shapes cannot be multiplied" in found["equals_sdpa"].finding


def test_one_comparison_serves_both_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformer_core.checks import reference

    calls, once = [], reference.compare
    monkeypatch.setattr(reference, "compare", lambda *given, **how: calls.append(given) or once(*given, **how))
    verdicts()
    assert len(calls) == 1
