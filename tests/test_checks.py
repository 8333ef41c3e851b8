"""Every check acquits the right model and convicts one in which something real was broken.

Each ``test_..._convicts_...`` replaces a method or a number of the model by a mistake that people make; the check stays
as it is.
"""

import copy
import dataclasses
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from explorer import words
from transformer_core import attention
from transformer_core.batches import Batch, make_batch
from transformer_core.checks import CHECKS, NUMERICS, STRUCTURE, CheckResult, Finding, examine, run_checks
from transformer_core.checks.table import ASPECTS
from transformer_core.config import DataConfig, MaskConfig, ModelConfig
from transformer_core.ledger import trace
from transformer_core.model import Transformer, build
from transformer_core.workshop import altered

NAMES = [row.name for row in CHECKS if row.level in (STRUCTURE, NUMERICS)]
"""The checks that run where no level is named."""
SMALL = ModelConfig(d_model=12, n_heads=3, d_ff=17, src_vocab_size=29, tgt_vocab_size=31, n_encoder_layers=2)
DATA = DataConfig(src_len=7, tgt_len=5, batch_size=2)


def case(config: ModelConfig = SMALL, masks: MaskConfig | None = None, data: DataConfig = DATA, **how: Any) -> tuple:
    return build(config, masks, seed=7, **how).eval(), make_batch(config, data, seed=7)


def verdicts(model: Transformer, batch: Batch) -> dict[str, CheckResult]:
    """The results by name; each is also said in both languages, which needs every fact of its sentence."""
    results = run_checks(model, batch)
    for result in results:
        for language in words.LANGUAGES:
            said = words.text(language, f"checks.{result.name}.{result.sentence}", **result.facts)
            assert said == result.finding or language == "zh"
    return {result.name: result for result in results}


def failed(model: Transformer, batch: Batch) -> set[str]:
    return {name for name, result in verdicts(model, batch).items() if not result.passed}


# The right model.


def test_the_right_model_passes_every_check() -> None:
    results = verdicts(*case())
    assert list(results) == NAMES
    assert all(result.passed and not result.warning for result in results.values())


@pytest.mark.parametrize(
    "changes",
    [
        {"norm_order": "pre"},
        {"norm_order": "pre", "final_norm": False},
        {"final_norm": True},
        {"norm": "rms", "norm_order": "pre"},
        {"norm": "batch"},
        {"norm": "none"},
        {"activation": "gelu", "positions": "learned"},
        {"positions": "none", "scale_embedding": False},
        {"positions_on_decoder": False},
        {"bias": False, "tie_weights": True},
        {"scale_scores": False, "n_heads": 1},
        {"n_heads": 12, "n_encoder_layers": 1, "n_decoder_layers": 3},
        {"architecture": "decoder"},
        {"architecture": "decoder", "norm_order": "pre"},
        {"architecture": "encoder"},
        {"architecture": "encoder", "n_classes": 3, "norm_order": "pre"},
        {"pad_id": 5},
        {"d_model": 13, "n_heads": 1},
    ],
    ids=str,
)
@pytest.mark.parametrize("training", [False, True])
def test_no_false_alarm_over_the_configurations(changes: dict[str, Any], training: bool) -> None:
    model, batch = case(SMALL.replace(dropout=0.3, attention_dropout=0.2, **changes))
    assert failed(model.train(training), batch) == set()


@pytest.mark.parametrize(
    "masks",
    [
        MaskConfig(encoder_self=(), decoder_self=(), cross=()),
        MaskConfig(decoder_self=("causal", "window:2")),
        MaskConfig(decoder_self=("causal", "prefix:3")),
        MaskConfig(decoder_self=("prefix:2",), encoder_self=("window:1", "padding")),
        MaskConfig(encoder_self=("block:3",), cross=("strided:2",), decoder_self=("strided:2", "causal", "padding")),
        MaskConfig(encoder_self=("causal",), cross=("causal", "padding")),
    ],
    ids=lambda masks: f"{masks.encoder_self}{masks.decoder_self}{masks.cross}",
)
@pytest.mark.parametrize("data", [DATA, DataConfig(padding="none"), DataConfig(batch_size=3, pad_side="left")])
def test_no_false_alarm_over_the_masks(masks: MaskConfig, data: DataConfig) -> None:
    assert failed(*case(masks=masks, data=data)) == set()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_no_false_alarm_over_the_dtypes(dtype: torch.dtype) -> None:
    config = SMALL.replace(d_model=64, n_heads=4, norm_order="pre")
    model, batch = case(config, dtype=dtype, data=DataConfig(src_len=31, tgt_len=17, batch_size=3))
    assert failed(model, batch) == set()


@pytest.mark.parametrize("positions", ["sinusoidal", "learned"])
def test_a_model_that_was_turned_into_float64_is_not_accused(positions: str) -> None:
    """``double()`` makes the table of waves no finer than the float32 in which it was made."""
    model, batch = case(SMALL.replace(positions=positions))
    assert failed(model.double(), batch) == set()
    if positions == "sinusoidal":
        model.src_positions.weight[1] += 1e-6
        assert failed(model, batch) == {"embeddings"}


@pytest.mark.parametrize("lengths", [(1, 1, 1), (1, 9, 2), (3, 1, 1)])
def test_no_false_alarm_at_the_smallest_sizes(lengths: tuple[int, int, int]) -> None:
    src_len, tgt_len, rows = lengths
    model, batch = case(data=DataConfig(src_len=src_len, tgt_len=tgt_len, batch_size=rows, padding="none"))
    assert failed(model, batch) == set()


def test_no_false_alarm_after_training() -> None:
    model, batch = case(SMALL.replace(norm_order="pre"))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    for _ in range(20):
        logits = model.train()(batch.src, batch.tgt)
        nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), batch.tgt[:, 1:].flatten(), ignore_index=0).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert failed(model.eval(), batch) == set()


def test_minimal_encoder_on_given_tokens() -> None:
    config = ModelConfig(architecture="encoder", d_model=64, n_heads=4, d_ff=128, n_encoder_layers=2, src_vocab_size=64,
                         max_seq_len=12)  # fmt: skip
    model = build(config, seed=0).eval()
    batch = Batch(torch.tensor([[1, 2, 3, 4, 0], [5, 6, 7, 0, 0]]), None)
    with torch.no_grad(), trace(model) as ledger:
        output = model(batch.src)
    assert output.shape == (2, 5, 64)
    padded = batch.src == 0
    for layer in range(2):
        weights = ledger[f"encoder.layers.{layer}.self_attention/weights"].value
        assert weights.shape == (2, 4, 5, 5)
        assert (weights.sum(-1) - 1).abs().max() <= 1e-6
        assert torch.equal(weights[padded[:, None, None].expand_as(weights)], torch.zeros(2 * 4 * 5 * 1 + 4 * 5))
    results = {result.name: result for result in run_checks(model, batch, ledger)}
    assert all(result.passed for result in results.values())
    assert results["row_sums"].facts["rows"] == 2 * 2 * 4 * 5
    assert results["padded_keys"].facts["cells"] == 2 * 4 * 5 * 3
    assert results["finite_loss"].facts["kind"] == "mean_square"


# What a result is.


def test_results_are_plain_data_and_follow_one_rule() -> None:
    model, batch = case()
    ledger_keys = set(_ledger(model, batch).keys())
    for result in run_checks(model, batch):
        assert result.passed == (abs(result.measured - result.expected) <= result.tolerance)
        assert result.entries and set(result.entries) <= ledger_keys
        assert result.claim and result.cannot_see and result.finding
        assert {"measured", "expected", "tolerance"} <= result.facts.keys()
        json.dumps(result.to_row(), allow_nan=False)


def test_nan_is_never_within_the_tolerance_and_survives_json() -> None:
    result = next(row for row in CHECKS if row.name == "finite_loss").judge(
        Finding(math.nan, ("logits",), tolerance=math.inf, facts={"loss": math.nan, "worst": [math.inf]})
    )
    assert not result.passed
    row = result.to_row()
    assert row["measured"] == row["facts"]["loss"] == "nan" and row["facts"]["worst"] == ["inf"]


def test_every_row_of_the_ledger_is_spoken_of() -> None:
    model, batch = case(SMALL.replace(norm_order="pre"))
    results = run_checks(model, batch)
    about = {key: [each.name for each in results if key in each.entries] for key in _ledger(model, batch).keys()}
    assert all(about.values())
    weights = about["decoder.layers.0.self_attention/weights"]
    hidden = {"masked_keys", "padded_keys", "future_keys"}
    assert {"row_sums", "attention_formula", "finite_tensors"} | hidden <= {*weights}
    assert "future_keys" not in about["decoder.layers.0.cross_attention/weights"]


def test_a_given_ledger_gives_the_same_verdicts() -> None:
    model, batch = case()
    assert run_checks(model, batch, _ledger(model, batch)) == run_checks(model, batch)


def test_levels_can_be_chosen() -> None:
    model, batch = case()
    assert {result.level for result in run_checks(model, batch, levels=[STRUCTURE])} == {STRUCTURE}
    assert {result.level for result in run_checks(model, batch, levels=[NUMERICS])} == {NUMERICS}


def test_shapes_without_numbers_get_the_checks_of_structure() -> None:
    config = SMALL.replace(d_model=1024, n_heads=16, d_ff=4096)
    results = run_checks(build(config, device="meta"), make_batch(config, DATA, 1))
    assert [result.name for result in results] == [row.name for row in CHECKS if row.level == STRUCTURE]
    assert all(result.passed for result in results)


def test_tokens_that_do_not_fit_are_refused_with_their_text() -> None:
    model, _ = case()
    with pytest.raises(ValueError, match="id 29"):
        run_checks(model, Batch(torch.tensor([[29]]), torch.tensor([[1]])))


def test_every_check_vouches_for_something() -> None:
    for row in CHECKS:
        assert row.claims and row.claims <= set(ASPECTS), row.name
    assert set().union(*(row.claims for row in CHECKS)) == set(ASPECTS), "an aspect that nobody looks at"


def test_claims_and_sentences_in_english_are_those_of_the_page() -> None:
    table = words.table()
    for row in CHECKS:
        said = {key.rpartition(".")[2] for key in table if key.startswith(f"checks.{row.name}.")}
        assert said == {"title", "claim", "cannot_see", *row.wording}
        assert table[f"checks.{row.name}.claim"]["en"] == row.claim
        assert table[f"checks.{row.name}.cannot_see"]["en"] == row.cannot_see
        for outcome, sentence in row.wording.items():
            assert table[f"checks.{row.name}.{outcome}"]["en"] == sentence
    for entry in (value for key, value in table.items() if key.startswith("checks.")):
        assert entry["en"] and entry["zh"]
        assert words.placeholders(entry["en"]) == words.placeholders(entry["zh"])


# Looking must not touch.


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_nothing_of_the_model_changes(training: bool, norm: str) -> None:
    model, batch = case(SMALL.replace(dropout=0.5, norm=norm))
    model.train(training)
    model.output.weight.grad = torch.ones_like(model.output.weight)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    noise = model.noise.generator(torch.device("cpu")).get_state()
    world = torch.get_rng_state()
    run_checks(model, batch)
    run_checks(model, batch, _ledger(model.eval(), batch))
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items() if training is False)
    assert torch.equal(model.noise.generator(torch.device("cpu")).get_state(), noise)
    assert torch.equal(torch.get_rng_state(), world)
    grads = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    assert grads.keys() == {"output.weight"} and grads["output.weight"].eq(1).all()


def test_mode_and_running_means_stay_in_training_mode() -> None:
    model, batch = case(SMALL.replace(dropout=0.5, norm="batch"))
    model.train()
    before = {name: value.clone() for name, value in model.named_buffers()}
    first, second = run_checks(model, batch), run_checks(model, batch)
    assert model.training
    assert first == second, "dropout drew other numbers the second time"
    assert all(torch.equal(value, before[name]) for name, value in model.named_buffers())


def test_works_under_no_grad_and_with_frozen_parameters() -> None:
    model, batch = case()
    with torch.no_grad():
        assert len(run_checks(model, batch)) == len(NAMES)
    frozen = case()[0].requires_grad_(False)
    names = [result.name for result in run_checks(frozen, batch)]
    assert names == [name for name in NAMES if name not in ("finite_gradients", "gradients_arrive")]


def test_dropout_on_the_weights_does_not_touch_the_row_sums() -> None:
    model, batch = case(SMALL.replace(attention_dropout=0.5))
    result = verdicts(model.train(), batch)["row_sums"]
    assert result.passed and result.measured <= 1e-6


# Structure.


def test_shapes_convicts_sizes_other_than_the_configured() -> None:
    model, batch = case()
    model.config = model.config.replace(d_ff=19)
    result = verdicts(model, batch)["shapes"]
    assert not result.passed and result.measured == 4
    assert result.facts["first"] == "encoder.layers.0.feed_forward/hidden"
    assert (result.facts["axis"], result.facts["got"], result.facts["wanted"]) == ("F", 17, 19)


def test_shapes_convicts_an_axis_that_changes_its_size() -> None:
    model, batch = case()
    feed_forward = model.encoder.layers[1].feed_forward
    feed_forward.w_1, feed_forward.w_2 = nn.Linear(12, 19), nn.Linear(19, 12)
    results = verdicts(model, batch)
    result = results["shapes"]
    assert not result.passed and result.sentence == "stops"
    assert "F is 19 here but 17 before" in result.finding
    assert all(each.level == STRUCTURE for each in results.values()), "no number behind the break is judged"


def test_shapes_convicts_a_ledger_that_ends_too_early() -> None:
    model, batch = case()
    ledger = _ledger(model, batch)
    del ledger.entries[40:]
    results = {result.name: result for result in run_checks(model, batch, ledger)}
    assert not results["shapes"].passed and "logits was not recorded" in results["shapes"].finding
    assert all(result.level == STRUCTURE for result in results.values())


def test_examine_gives_the_ledger_with_the_verdicts() -> None:
    model, batch = case()
    ledger, results = examine(model, batch)
    assert ledger.keys() == _ledger(model, batch).keys() and results == run_checks(model, batch)
    assert not any(entry.value.requires_grad for entry in ledger)
    model.decoder.layers[0].feed_forward.w_2 = nn.Linear(18, 12)
    ledger, results = examine(model, batch)
    assert ledger.keys()[-1] == "decoder.layers.0.feed_forward/hidden" and not results[0].passed


def test_shapes_convicts_a_layer_that_does_not_fit_the_next() -> None:
    model, batch = case()
    model.decoder.layers[0].feed_forward.w_2 = nn.Linear(18, 12)
    result = verdicts(model, batch)["shapes"]
    assert not result.passed and result.sentence == "stops"
    assert result.entries[-1] == "decoder.layers.0.feed_forward/hidden"


def test_head_width_convicts_heads_that_are_too_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    split, merge = attention.MultiHeadAttention.split, attention.MultiHeadAttention.merge
    widen: Callable[..., Tensor] = lambda self, x: nn.functional.pad(split(self, x), (0, 1))  # noqa: E731
    monkeypatch.setattr(attention.MultiHeadAttention, "split", widen)
    monkeypatch.setattr(attention.MultiHeadAttention, "merge", lambda self, heads: merge(self, heads[..., :-1]))
    result = verdicts(*case())["head_width"]
    assert (result.passed, result.measured, result.expected) == (False, 15, 12)


def test_head_width_convicts_heads_and_width_swapped() -> None:
    """4 heads of 3 instead of 3 heads of 4: the product is the same, and so is every count."""
    shop = altered("attention.MultiHeadAttention.split", "(self.n_heads, -1)", "(-1, self.n_heads)")
    result = verdicts(shop.model.build(SMALL, seed=7).eval(), make_batch(SMALL, DATA, 7))["head_width"]
    assert (result.passed, result.sentence, result.measured, result.expected) == (False, "swapped", 4, 3)
    assert result.finding.startswith("4 heads × 3 in encoder.layers.0.self_attention/q;")
    assert "3 × 4 was configured" in result.finding


def test_head_order_convicts_a_view_without_transpose(monkeypatch: pytest.MonkeyPatch) -> None:
    def view_only(self: Any, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], self.n_heads, x.shape[1], -1)

    monkeypatch.setattr(attention.MultiHeadAttention, "split", view_only)
    results = verdicts(*case())
    assert not results["head_order"].passed
    assert results["shapes"].passed and results["row_sums"].passed, "the shapes are right: that is the point"


def test_head_order_convicts_heads_merged_in_another_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention.MultiHeadAttention, "merge", lambda self, heads: heads.permute(0, 2, 3, 1).flatten(2))
    assert {"head_order", "attention_formula"} <= failed(*case())


def test_layers_independent_convicts_one_layer_used_twice() -> None:
    model, batch = case()
    model.encoder.layers[1] = model.encoder.layers[0]
    results = verdicts(model, batch)
    result = results["layers_independent"]
    assert not result.passed
    assert result.facts["shared"] == 16 and result.facts["first"] == "encoder.layers.0 = encoder.layers.1"
    assert not results["parameter_count"].passed


def test_layers_independent_convicts_copies_with_equal_weights() -> None:
    model, batch = case(SMALL.replace(n_decoder_layers=3))
    model.decoder.layers[2] = copy.deepcopy(model.decoder.layers[1])
    results = verdicts(model, batch)
    result = results["layers_independent"]
    assert not result.passed and (result.facts["shared"], result.facts["equal"]) == (0, 1)
    assert result.facts["first"] == "decoder.layers.1 = decoder.layers.2"
    assert results["parameter_count"].passed, "a count cannot see this"


def test_layers_independent_sees_shared_layers_without_storage() -> None:
    model, batch = build(SMALL, device="meta"), make_batch(SMALL, DATA, 1)
    model.encoder.layers[1] = model.encoder.layers[0]
    assert not verdicts(model, batch)["layers_independent"].passed


def test_parameter_count_is_that_of_the_hand_count_and_convicts_one_more() -> None:
    config = ModelConfig(d_model=32, n_heads=4, d_ff=64)
    model, batch = case(config)
    result = verdicts(model, batch)["parameter_count"]
    assert result.passed
    outside = sum(each.weight.numel() for each in (model.src_embedding, model.tgt_embedding, model.output))
    assert result.measured - outside - model.output.bias.numel() == 42_752  # 2 + 2 layers with biases, by hand
    model.extra = nn.Parameter(torch.zeros(1))
    result = verdicts(model, batch)["parameter_count"]
    assert not result.passed and result.measured == result.expected + 1


def test_buffers_are_counted_and_a_trained_table_of_waves_is_convicted() -> None:
    model, batch = case()
    facts = verdicts(model, batch)["buffers"].facts
    layers = 2 * (4 * 2 + 2 * 2 + 2 * 2) + 2 * (8 * 2 + 2 * 2 + 3 * 2)  # attention, feed-forward, norms
    assert facts["parameters"] == layers + 2 + 2 and facts["buffers"] == 2 and facts["device"] == "cpu"

    waves = model.src_positions.weight
    del model.src_positions.weight
    model.src_positions.weight = nn.Parameter(waves)
    result = verdicts(model, batch)["buffers"]
    assert not result.passed and result.measured == 1
    assert result.finding == (
        f"1 of {facts['parameters'] + 2} tensors are kept as the wrong kind, first src_positions.weight: parameter, "
        "buffer is right"
    )


def test_buffers_convicts_a_learned_table_that_is_not_trained_and_a_tensor_that_is_neither() -> None:
    model, batch = case(SMALL.replace(positions="learned"))
    table = model.tgt_positions.weight.detach()
    del model.tgt_positions.weight
    model.tgt_positions.register_buffer("weight", table)
    result = verdicts(model, batch)["buffers"]
    assert (result.measured, result.facts["kept"], result.facts["wanted"]) == (1, "buffer", "parameter")

    model, batch = case()
    model.encoder.layers[1].gate = torch.ones(3)
    result = verdicts(model, batch)["buffers"]
    assert (result.measured, result.facts["first"]) == (1, "encoder.layers.1.gate")


def test_buffers_convicts_running_means_that_are_parameters() -> None:
    model, batch = case(SMALL.replace(norm="batch"))
    norm = model.encoder.layers[0].self_attention_norm
    mean = norm.running_mean
    del norm.running_mean
    norm.running_mean = nn.Parameter(mean)
    result = verdicts(model, batch)["buffers"]
    assert (result.measured, result.facts["first"]) == (1, "encoder.layers.0.self_attention_norm.running_mean")


def test_buffers_convicts_a_tensor_on_another_device() -> None:
    model, batch = build(SMALL, device="meta"), make_batch(SMALL, DATA, 1)
    model.output.register_buffer("elsewhere", torch.ones(2))
    result = verdicts(model, batch)["buffers"]
    assert (result.passed, result.sentence, result.measured) == (False, "elsewhere", 1)
    assert result.finding.endswith("are not on meta, first output.elsewhere on cpu")


# Probabilities and masks.


def broken_softmax(monkeypatch: pytest.MonkeyPatch, softmax: Callable[[Tensor, Tensor], Tensor]) -> None:
    def instead(scores: Tensor, allowed: Tensor | None, fill: str = "exclude") -> Tensor:
        return softmax(scores, torch.ones_like(scores, dtype=torch.bool) if allowed is None else allowed)

    monkeypatch.setattr(attention, "masked_softmax", instead)


def test_row_sums_convicts_a_softmax_over_the_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    broken_softmax(monkeypatch, lambda scores, allowed: scores.masked_fill(~allowed, -1e4).softmax(dim=-2))
    result = verdicts(*case())["row_sums"]
    assert not result.passed and result.measured > 0.1


def test_row_sums_convicts_weights_read_after_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    broken_softmax(
        monkeypatch,
        lambda scores, allowed: nn.functional.dropout(scores.masked_fill(~allowed, -math.inf).softmax(dim=-1), 0.5),
    )
    assert "row_sums" in failed(*case())


def test_masked_keys_convicts_a_fill_that_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    broken_softmax(monkeypatch, lambda scores, allowed: scores.masked_fill(~allowed, -10.0).softmax(dim=-1))
    results = verdicts(*case())
    assert not results["masked_keys"].passed and 0 < results["masked_keys"].measured < 0.1
    assert results["row_sums"].passed, "row sums cannot see it"


def test_padded_keys_convicts_a_mask_that_forgets_the_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = Transformer.allowed

    def forgets(self: Transformer, kind: str, q_len: int, keys: Tensor) -> Tensor | None:
        return allowed(self, kind, q_len, torch.full_like(keys, 9))

    monkeypatch.setattr(Transformer, "allowed", forgets)
    results = verdicts(*case())
    assert not results["padded_keys"].passed and results["padded_keys"].measured > 0.01
    assert results["masked_keys"].passed, "the recorded mask is obeyed; it is the mask that is wrong"


def test_future_keys_convicts_a_causal_mask_that_sees_one_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformer_core import masks

    right = masks.causal
    monkeypatch.setattr(masks, "causal", lambda q_len, k_len=None: right(q_len, k_len).roll(-1, dims=0).index_fill(
        0, torch.tensor([q_len - 1]), True))  # fmt: skip
    results = verdicts(*case())
    assert not results["future_keys"].passed
    assert results["future_keys"].entries == tuple(
        f"decoder.layers.{i}.self_attention/{name}" for i in range(2) for name in ("weights", "allowed")
    )
    assert results["masked_keys"].passed


def test_masks_without_anything_to_hide_are_not_counted_as_evidence() -> None:
    masks = MaskConfig(encoder_self=(), decoder_self=(), cross=())
    names = verdicts(*case(masks=masks, data=DataConfig(padding="none")))
    assert not {"masked_keys", "padded_keys", "future_keys"} & names.keys()


def test_visible_keys_lists_left_padding_under_a_causal_mask() -> None:
    model, batch = case(data=DataConfig(src=((5, 6, 7),), tgt=((0, 0, 5, 6),)))
    results = verdicts(model, batch)
    result = results["visible_keys"]
    assert result.passed and result.warning and result.measured == 2
    assert result.facts["rows"] == [["decoder_self", 0, 0], ["decoder_self", 0, 1]]
    assert (result.facts["sentence"], result.facts["position"]) == (1, 1)
    assert "decoder.layers.1.self_attention/weights" in result.entries
    assert "encoder.layers.0.self_attention/weights" not in result.entries
    assert results["row_sums"].facts["empty"] == 2 * 3 * 2  # layers, heads, rows
    assert all(each.passed for each in results.values())


def test_visible_keys_lists_a_sentence_of_nothing_but_padding() -> None:
    model, batch = case(data=DataConfig(src=((5, 6), (0, 0)), tgt=((1, 5), (1, 6))))
    results = verdicts(model, batch)
    assert [row[:2] for row in results["visible_keys"].facts["rows"]] == [["encoder_self", 1]] * 2 + [["cross", 1]] * 2
    assert all(each.passed for each in results.values())


@pytest.mark.parametrize(
    ("fill", "convicted"),
    [
        ("-inf", {"row_sums", "masked_keys", "attention_formula", "finite_tensors", "finite_gradients"}),
        ("finfo_min", {"masked_keys", "padded_keys", "attention_formula"}),
        ("-1e9", {"masked_keys", "padded_keys", "attention_formula"}),
    ],
)
def test_naive_fills_are_shown_for_what_they_are(fill: str, convicted: set[str]) -> None:
    """A row that sees no key gets NaN from -inf, and attention to padding from a large negative number."""
    masks = MaskConfig(fill=fill)
    assert failed(*case(masks=masks)) == set(), "as long as every query sees a key, all fills agree"
    left = DataConfig(src=((5, 6, 7),), tgt=((0, 0, 5, 6),))
    model, batch = case(masks=masks, data=left)
    assert convicted <= failed(model, batch)
    row_sums = verdicts(model, batch)["row_sums"]
    assert row_sums.passed == (fill != "-inf"), "attention to padding sums to 1 as well"


# Formulas.


def test_attention_formula_convicts_scores_without_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = case()
    for module in model.modules():
        if isinstance(module, attention.MultiHeadAttention):
            module.scale = False
    result = verdicts(model, batch)["attention_formula"]
    assert not result.passed and result.facts["first"].endswith("scores")
    assert result.measured == pytest.approx(1.0, abs=1e-5)  # sqrt(d_head) = 2: the scores are twice too large


def test_attention_formula_convicts_weights_read_after_dropout(monkeypatch: pytest.MonkeyPatch) -> None:
    broken_softmax(monkeypatch, lambda scores, allowed: scores.masked_fill(~allowed, -math.inf).softmax(dim=-1) ** 2)
    assert not verdicts(*case())["attention_formula"].passed


@pytest.mark.parametrize(
    ("wrong", "factor"),
    [
        ("scores = scores", 4),  # d_head is 4
        ("scores = scores / q.shape[-1]", 1 / 4),
        ("scores = scores / math.sqrt(3 * q.shape[-1])", 1 / 3),  # √d_model
        ("scores = scores * math.sqrt(q.shape[-1])", 16),
    ],
)
def test_score_scale_convicts_every_other_division_and_measures_it(wrong: str, factor: float) -> None:
    shop = altered("attention.attend", "scores = scores / math.sqrt(q.shape[-1])", wrong)
    result = verdicts(shop.model.build(SMALL, seed=7).eval(), make_batch(SMALL, DATA, 7))["score_scale"]
    assert not result.passed and result.measured == pytest.approx(factor, rel=1e-5) and result.expected == 1


def test_score_scale_says_how_large_the_scores_are() -> None:
    model, batch = case()
    ledger = _ledger(model, batch)
    squares = [entry.value.square().mean().item() for entry in ledger if entry.name == "scores"]
    products = [
        (ledger[entry.key].value @ ledger[f"{entry.path}/k"].value.transpose(-2, -1)).square().mean().item()
        for entry in ledger
        if entry.name == "q"
    ]
    facts = verdicts(model, batch)["score_scale"].facts
    assert (facts["low"], facts["high"]) == pytest.approx((min(squares), max(squares)))
    assert facts["undivided"] == pytest.approx(max(products)) and facts["attentions"] == len(squares) == 6
    assert 0.3 < facts["low"] < facts["high"] < 4, "new weights give scores near 1"


def test_score_scale_wants_no_division_where_none_is_configured() -> None:
    model, batch = case(SMALL.replace(scale_scores=False))
    result = verdicts(model, batch)["score_scale"]
    assert result.passed and result.expected == 4 and result.measured == pytest.approx(4)
    for module in model.modules():
        if isinstance(module, attention.MultiHeadAttention):
            module.scale = True
    assert "score_scale" in failed(model, batch)
    assert "score_scale" not in verdicts(*case(SMALL.replace(n_heads=12))), "divided by 1 there is nothing to see"


def test_score_scale_holds_for_scores_of_0() -> None:
    model, batch = case()
    with torch.no_grad():
        model.encoder.layers[0].self_attention.w_q.weight.zero_()
    assert verdicts(model, batch)["score_scale"].passed


def test_embeddings_convicts_a_table_that_is_not_scaled() -> None:
    shop = altered("model.Transformer.embed", "x = x * math.sqrt(self.config.d_model)", "x = x")
    result = verdicts(shop.model.build(SMALL, seed=7).eval(), make_batch(SMALL, DATA, 7))["embeddings"]
    assert not result.passed and result.facts["first"] in ("src_embeddings", "tgt_embeddings")
    assert result.measured == pytest.approx(1 - 12**-0.5)  # (√12 - 1) x against √12 x


@pytest.mark.parametrize(
    ("place", "right", "wrong"),
    [
        ("positions.Positions.forward", "return x + positions", "return x"),
        ("positions.Positions.forward", "return x + positions", "return x + self.weight[: x.shape[0], None]"),
        ("positions.Positions.forward", "return x + positions", "return x + positions.flip(0)"),
        ("positions.sinusoidal", "[angle.sin(), angle.cos()]", "[angle.cos(), angle.sin()]"),
    ],
    ids=["none", "by the sentence", "backwards", "cosine first"],
)
def test_embeddings_convicts_positions_that_are_not_added(place: str, right: str, wrong: str) -> None:
    shop = altered(place, right, wrong)
    result = verdicts(shop.model.build(SMALL, seed=7).eval(), make_batch(SMALL, DATA, 7))["embeddings"]
    assert not result.passed and result.measured > 0.01 and result.facts["first"].endswith("/input")


def test_embeddings_looks_at_the_table_itself_and_not_at_what_dropout_left() -> None:
    model, batch = case(SMALL.replace(dropout=0.5))
    result = verdicts(model.train(), batch)["embeddings"]
    assert result.passed and result.facts["tensors"] == 2
    assert verdicts(model.eval(), batch)["embeddings"].facts["tensors"] == 4


@pytest.mark.parametrize("norm_order", ["post", "pre"])
@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("total = x + self.dropout(sublayer(normed))", "total = normed + self.dropout(sublayer(normed))"),
        ("total = x + self.dropout(sublayer(normed))", "total = self.dropout(sublayer(normed))"),
        ("total = x + self.dropout(sublayer(x))", "total = self.dropout(sublayer(x))"),
        ('if self.norm_order == "post"', 'if (self.norm_order == "post") != (name == "feed_forward")'),
    ],
    ids=["from the normed", "pre: none", "post: none", "one norm in another place"],
)
def test_residuals_convicts_a_sum_of_something_else(norm_order: str, right: str, wrong: str) -> None:
    shop = altered("layers.Layer.residual", right, wrong)
    config = SMALL.replace(norm_order=norm_order)
    model, batch = shop.model.build(config, seed=7).eval(), make_batch(config, DATA, 7)
    in_use = "if" in right or ("sublayer(x)" in right) == (norm_order == "post")
    result = verdicts(model, batch)["residuals"]
    assert result.passed != in_use, "only the branch in use has a number to show"
    if in_use:
        assert result.measured > 0.1


def test_residuals_measures_the_missing_stream_by_hand() -> None:
    shop = altered(
        "layers.Layer.residual", "total = x + self.dropout(sublayer(x))", "total = self.dropout(sublayer(x))"
    )
    config = SMALL.replace(n_encoder_layers=1, n_decoder_layers=1)
    model, batch = shop.model.build(config, seed=7).eval(), make_batch(config, DATA, 7)
    ledger = _ledger(model, batch)
    off = []
    for side, names in (("encoder", ("self_attention", "feed_forward")),
                        ("decoder", ("self_attention", "cross_attention", "feed_forward"))):  # fmt: skip
        came = ledger[f"{side}/input"].value
        for name in names:
            output = ledger[f"{side}.layers.0.{name}/output"].value
            off.append(float(came.abs().max() / (came + output).abs().max()))
            came = ledger[f"{side}.layers.0/{name}_norm"].value
    result = verdicts(model, batch)["residuals"]
    assert result.facts["tensors"] == len(off) + 2, "memory and logits too"
    assert result.measured == pytest.approx(max(off))


def test_residuals_follows_the_stream_to_its_end() -> None:
    for place, right, wrong, first in [
        ("model.Transformer.encode", 'memory = self.encoder(x, self.allowed("encoder_self", src.shape[1], src))',
         'memory = 2 * self.encoder(x, self.allowed("encoder_self", src.shape[1], src))', "memory"),
        ("model.Transformer.forward", "self.output(self.decode(", "2 * self.output(self.decode(", "logits"),
    ]:  # fmt: skip
        shop = altered(place, right, wrong)
        result = verdicts(shop.model.build(SMALL, seed=7).eval(), make_batch(SMALL, DATA, 7))["residuals"]
        assert not result.passed and result.facts["first"] == first


def test_residuals_is_silent_while_dropout_acts() -> None:
    model, batch = case(SMALL.replace(dropout=0.5))
    assert "residuals" not in verdicts(model.train(), batch)
    assert "residuals" in verdicts(model.eval(), batch)


def test_residuals_does_not_blame_a_layer_that_is_used_twice() -> None:
    model, batch = case()
    model.encoder.layers[1] = model.encoder.layers[0]
    assert "residuals" not in failed(model, batch), "every sum is right; it is the weights that are shared"


def test_norms_convicts_the_sample_standard_deviation(monkeypatch: pytest.MonkeyPatch) -> None:
    def sample(self: nn.LayerNorm, x: Tensor) -> Tensor:
        return self.weight * (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + self.eps) + self.bias

    monkeypatch.setattr(nn.LayerNorm, "forward", sample)
    result = verdicts(*case())["norms"]
    assert not result.passed and result.measured == pytest.approx(1 / 12, rel=0.01)


def test_norms_holds_for_a_constant_token_and_undoes_gain_and_bias() -> None:
    model, batch = case(SMALL.replace(norm_order="pre"))
    with torch.no_grad():
        model.src_embedding.weight.zero_()
        model.encoder.norm.weight.fill_(3.0)
        model.encoder.norm.bias.fill_(-2.0)
    result = verdicts(model, batch)["norms"]
    assert result.passed and result.facts["norms"] == 12


def test_final_norm_gives_mean_0_and_variance_1() -> None:
    config = SMALL.replace(norm_order="pre", n_encoder_layers=6, d_model=64, n_heads=4)
    model, batch = case(config)
    ledger = _ledger(model, batch)
    for key in ("encoder/final_norm", "decoder/final_norm"):
        value = ledger[key].value
        assert value.mean(-1).abs().max() < 1e-3
        assert (value.var(-1, correction=0) - 1).abs().max() < 1e-3


def test_output_sums_convicts_probabilities_that_are_none() -> None:
    model, batch = case()
    with torch.no_grad():
        model.output.bias.fill_(math.inf)
    result = verdicts(model, batch)["output_sums"]
    assert not result.passed and math.isnan(result.measured)


def test_output_sums_convicts_a_softmax_over_the_positions() -> None:
    model, batch = case()
    ledger = _ledger(model, batch)
    place = next(i for i, entry in enumerate(ledger.entries) if entry.name == "probabilities")
    wrong = ledger["logits"].value.softmax(dim=1)
    ledger.entries[place] = dataclasses.replace(ledger.entries[place], value=wrong)
    assert not {each.name: each for each in run_checks(model, batch, ledger)}["output_sums"].passed


# Finite numbers.


def test_finite_tensors_names_the_first_bad_tensor() -> None:
    model, batch = case()
    with torch.no_grad():
        model.decoder.layers[0].feed_forward.w_1.bias[3] = math.nan
    result = verdicts(model, batch)["finite_tensors"]
    assert not result.passed
    assert result.facts["first"] == "decoder.layers.0.feed_forward/hidden"
    assert result.facts["nan"] == 2 * 5 and result.facts["inf"] == 0
    assert result.facts["bad"] > 1, "everything behind it inherits the NaN"


def test_finite_tensors_does_not_mistake_a_large_sum_for_infinity() -> None:
    model, batch = case(dtype=torch.float16)
    with torch.no_grad():
        model.output.bias.fill_(60_000.0)
    result = verdicts(model, batch)["finite_tensors"]
    assert result.passed, "the sum of the logits overflows half precision, the logits do not"


def test_finite_loss_convicts_an_infinite_one() -> None:
    model, batch = case()
    with torch.no_grad():
        model.output.weight[5] = math.inf
    results = verdicts(model, batch)
    assert not results["finite_loss"].passed and "nan" in results["finite_loss"].finding


def test_loss_is_the_mean_over_real_targets() -> None:
    model, batch = case(data=DataConfig(src=((5, 6, 7), (5, 6, 7)), tgt=((1, 8, 9, 2), (1, 8, 0, 0))))
    with torch.no_grad():
        shares = model(batch.src, batch.tgt).log_softmax(-1)
    wanted = -(shares[0, 0, 8] + shares[0, 1, 9] + shares[0, 2, 2] + shares[1, 0, 8]) / 4
    facts = verdicts(model, batch)["finite_loss"].facts
    assert facts["loss"] == pytest.approx(float(wanted), rel=1e-5)
    assert facts["targets"] == 4 and facts["chance"] == pytest.approx(math.log(31))


def test_loss_takes_the_labels_of_the_batch() -> None:
    config = SMALL.replace(architecture="encoder", n_classes=2)
    model, batch = case(config)
    labelled = dataclasses.replace(batch, labels=torch.tensor([1, 0]))
    with torch.no_grad():
        wanted = nn.functional.cross_entropy(model(batch.src), labelled.labels)
    facts = verdicts(model, labelled)["finite_loss"].facts
    assert facts["loss"] == pytest.approx(float(wanted)) and facts["targets"] == 2


def test_a_target_of_one_token_leaves_no_loss_but_a_number_to_differentiate() -> None:
    result = verdicts(*case(data=DataConfig(tgt_len=1)))["finite_loss"]
    assert result.passed and result.sentence == "holds_square" and "mean square" in result.finding


def test_finite_gradients_convicts_a_root_hidden_by_where(monkeypatch: pytest.MonkeyPatch) -> None:
    model, batch = case()
    activation = model.encoder.layers[0].feed_forward.activation
    monkeypatch.setattr(activation, "forward", lambda x: torch.where(x > 0, x.sqrt(), 0.0))
    results = verdicts(model, batch)
    assert not results["finite_gradients"].passed and results["finite_gradients"].measured > 0
    assert results["finite_tensors"].passed and results["finite_loss"].passed, "the forward looks healthy"


def test_gradients_arrive_convicts_a_detached_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    encode = Transformer.encode
    monkeypatch.setattr(Transformer, "encode", lambda self, src: encode(self, src).detach())
    result = verdicts(*case())["gradients_arrive"]
    assert not result.passed
    assert result.measured == sum(name.startswith(("src", "encoder")) for name, _ in case()[0].named_parameters())


def _ledger(model: Transformer, batch: Batch) -> Any:
    with torch.no_grad(), trace(model) as ledger:
        model(batch.src, batch.tgt)
    return ledger


@pytest.mark.parametrize("norm_order", ["post", "pre"])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("norm", ["layer", "rms", "batch", "none"])
def test_feed_forward_formula_holds_whatever_stands_before_the_network(
    norm_order: str, activation: str, norm: str
) -> None:
    model, batch = case(SMALL.replace(norm_order=norm_order, activation=activation, norm=norm))
    result = verdicts(model, batch)["feed_forward_formula"]
    assert result.passed and result.facts["tensors"] == 2 * (SMALL.n_encoder_layers + SMALL.n_decoder_layers)


@pytest.mark.parametrize("norm_order", ["post", "pre"])
@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("hidden = self.activation(self.w_1(x))", "hidden = self.w_1(x)", "hidden"),
        ("hidden = self.activation(self.w_1(x))", "hidden = torch.tanh(self.w_1(x))", "hidden"),
        ("output = self.w_2(hidden)", "output = self.activation(self.w_2(hidden))", "output"),
    ],
)
def test_feed_forward_formula_convicts_another_activation(norm_order: str, right: str, wrong: str, name: str) -> None:
    shop = altered("layers.FeedForward.forward", right, wrong)
    config = SMALL.replace(norm_order=norm_order)
    result = verdicts(shop.model.build(config, seed=7).eval(), make_batch(config, DATA, 7))["feed_forward_formula"]
    assert not result.passed and result.facts["first"].endswith(f"feed_forward/{name}")


def test_feed_forward_formula_measures_the_lost_negatives_by_hand() -> None:
    shop = altered("layers.FeedForward.forward", "self.activation(self.w_1(x))", "self.w_1(x)")
    config = SMALL.replace(n_encoder_layers=1, n_decoder_layers=1)
    model, batch = shop.model.build(config, seed=7).eval(), make_batch(config, DATA, 7)
    hidden = [each.value for each in _ledger(model, batch) if each.name == "hidden"]
    result = verdicts(model, batch)["feed_forward_formula"]
    assert result.measured == pytest.approx(max(float(-each.min() / each.max()) for each in hidden))
