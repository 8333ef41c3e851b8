"""Every fault is one changed stretch that does what its story says, and keeps the shapes right where it says so."""

import math
import re
from typing import Any

import pytest
import torch
from torch import Tensor

from explorer import words
from transformer_core import load_preset, trace
from transformer_core.checks.table import ASPECTS
from transformer_core.config import MaskConfig, TrainConfig
from transformer_core.faults import FAULTS, GROUPS, Fault, get
from transformer_core.faults.changed import changed_tensors
from transformer_core.workshop import OWN, Workshop, source

PRESET = load_preset("first_look")
EVERY = pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.name)

# Where the ledger first reads otherwise; "" for the faults that a forward in evaluation mode does not show.
FIRST = {
    "softmax_over_queries": "encoder.layers.0.self_attention/weights",
    "softmax_over_heads": "encoder.layers.0.self_attention/weights",
    "no_scaling": "encoder.layers.0.self_attention/scores",
    "scaled_by_d_model": "encoder.layers.0.self_attention/scores",
    "split_without_transpose": "encoder.layers.0.self_attention/q",
    "merge_without_transpose": "encoder.layers.0.self_attention/output",
    "heads_and_width_swapped": "encoder.layers.0.self_attention/q",
    "keys_from_query_matrix": "encoder.layers.0.self_attention/k",
    "weights_after_dropout": "",
    "mask_inverted": "encoder.layers.0.self_attention/weights",
    "mask_on_query_axis": "encoder.layers.0.self_attention/allowed",
    "mask_after_softmax": "encoder.layers.0.self_attention/weights",
    "mask_times_infinity": "encoder.layers.0.self_attention/weights",
    "fill_too_small": "encoder.layers.0.self_attention/weights",
    "fill_overtaken": "",
    "mask_without_head_axis": "encoder.layers.0.self_attention/allowed",
    "empty_row_nan": "",
    "causal_missing": "decoder.layers.0.self_attention/allowed",
    "causal_sees_next": "decoder.layers.0.self_attention/allowed",
    "causal_hides_itself": "decoder.layers.0.self_attention/allowed",
    "causal_on_encoder": "encoder.layers.0.self_attention/allowed",
    "causal_on_cross": "decoder.layers.0.cross_attention/allowed",
    "padding_ignored": "encoder.layers.0.self_attention/allowed",
    "cross_padding_ignored": "decoder.layers.0.cross_attention/allowed",
    "shared_layer": "encoder.layers.1.self_attention/q",
    "equal_start": "encoder.layers.0.self_attention/q",
    "residual_missing": "encoder.layers.0/self_attention_sum",
    "residual_from_normed": "encoder.layers.0/self_attention_sum",
    "norm_misplaced": "encoder.layers.0.feed_forward/hidden",
    "norm_over_sentence": "encoder.layers.0/self_attention_norm",
    "activation_missing": "encoder.layers.0.feed_forward/hidden",
    "cross_attention_to_itself": "decoder.layers.0.cross_attention/k",
    "memory_detached": "",
    "output_softmax_over_positions": "probabilities",
    "embedding_not_scaled": "src_embeddings",
    "positions_missing_on_decoder": "tgt_positions/positions",
    "positions_on_batch_axis": "encoder/input",
    "position_table_is_parameter": "",
    "target_not_shifted": "",
    "loss_over_padding": "",
    "gradients_not_cleared": "",
    "eval_forgotten": "",
}
# Those that a shape or a missing row of the ledger gives away; all others leave every one of them right.
SHAPES_WRONG = {
    "heads_and_width_swapped", "mask_without_head_axis", "cross_attention_to_itself", "positions_missing_on_decoder",
    "shared_layer",
}  # fmt: skip


def run(shop: Workshop, architecture: str, dtype: torch.dtype, training: bool) -> Tensor:
    config = PRESET.model.replace(architecture=architecture, attention_dropout=0.1, dropout=0.1)
    model = shop.model.build(config, PRESET.masks, seed=7, dtype=dtype).train(training)
    batch = PRESET.batch(7)
    return model(None if architecture == "decoder" else batch.src, None if architecture == "encoder" else batch.tgt)


def ledger_of(name: str, preset: Any = PRESET) -> Any:
    shop, batch = FAULTS[name].shop if name else OWN, preset.batch(7)
    model = shop.model.build(preset.model, preset.masks, seed=7).eval()
    with torch.no_grad(), trace(model) as ledger:
        model(batch.src, batch.tgt)
    return ledger


# The table.


def test_there_are_enough_faults_under_their_own_names_in_every_group() -> None:
    assert len(FAULTS) >= 20 and all(name == fault.name for name, fault in FAULTS.items())
    assert list(dict.fromkeys(fault.group for fault in FAULTS.values())) == list(GROUPS)
    assert {len({getattr(fault, part) for fault in FAULTS.values()}) for part in ("title", "story")} == {len(FAULTS)}


@EVERY
def test_a_fault_has_a_short_title_a_story_and_a_section(fault: Fault) -> None:
    assert len(fault.title) <= 80 and not fault.title.endswith(".")
    sentences = re.findall(r"[.!?](?: |$)", fault.story)
    assert fault.story.endswith(".") and 2 <= len(sentences) <= 4, fault.story
    assert re.fullmatch(r"[3-5](\.\d)*", fault.section)
    assert fault.breaks <= set(ASPECTS)


@EVERY
def test_the_words_are_those_of_the_table_in_english_and_stand_beside_it_in_chinese(fault: Fault) -> None:
    for part in ("title", "story"):
        entry = words.table()[f"faults.{fault.name}.{part}"]
        assert entry["en"] == getattr(fault, part)
        assert re.search(r"[\u4e00-\u9fff]", entry["zh"])


def test_no_words_are_left_of_a_fault_that_is_gone() -> None:
    named = {key.split(".")[1] for key in words.table() if key.startswith("faults.")}
    assert named == set(FAULTS)


@EVERY
def test_the_lines_are_those_of_the_file_and_each_differs_in_what_was_changed(fault: Fault) -> None:
    file, function, first, right, wrong = fault.lines()
    module = file.removeprefix("transformer_core/").removesuffix(".py").replace("/", ".")
    own = source(module).splitlines()
    assert own[first - 1 : first - 1 + len(right)] == right and right != wrong and len(right) == len(wrong) <= 3
    assert fault.place == f"{module}.{function}"
    assert max(map(len, wrong)) <= 120


def test_an_unknown_name_is_answered_with_the_nearest() -> None:
    assert get("no_scaling") is FAULTS["no_scaling"]
    with pytest.raises(ValueError, match=r"there is no fault 'no_scale'; .* The nearest is no_scaling\."):
        get("no_scale")


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"group": "heads"}, "group 'heads' is not known; attention, masks"),
        ({"breaks": frozenset(("scale", "colour"))}, "breaks colour; at least one of shapes"),
        ({"breaks": frozenset()}, "breaks nothing"),
    ],
)
def test_a_fault_in_no_group_or_of_no_aspect_is_refused(changed: dict[str, Any], text: str) -> None:
    parts = {name: getattr(FAULTS["no_scaling"], name) for name in Fault.__dataclass_fields__}
    with pytest.raises(ValueError, match=text):
        Fault(**parts | changed)


# What each does to a forward.


@EVERY
def test_the_ledger_first_differs_where_the_fault_is(fault: Fault) -> None:
    changed = changed_tensors(fault, PRESET)
    assert (changed[0].key if changed else "") == FIRST[fault.name]
    shapes = [each.key for each in changed if each.shape_right != each.shape_wrong]
    assert bool(shapes) == (fault.name in SHAPES_WRONG)


@EVERY
@pytest.mark.parametrize("architecture", ["encoder_decoder", "encoder", "decoder"])
@pytest.mark.parametrize(("dtype", "training"), [(torch.float32, True), (torch.float64, False)])
def test_it_raises_nothing(fault: Fault, architecture: str, dtype: torch.dtype, training: bool) -> None:
    if fault.name == "mask_without_head_axis":
        with pytest.raises(ValueError, match="does not broadcast"):
            run(fault.shop, architecture, dtype, training)
        return
    logits = run(fault.shop, architecture, dtype, training)
    assert logits.dtype == dtype and logits.isfinite().all() == (fault.name != "mask_times_infinity")


def test_a_mask_without_its_head_axis_is_silent_when_batch_and_heads_are_equal() -> None:
    preset = PRESET.replace(data=PRESET.data.replace(batch_size=4))
    allowed = ledger_of("mask_without_head_axis", preset)["encoder.layers.0.self_attention/allowed"].value
    right = ledger_of("", preset)["encoder.layers.0.self_attention/allowed"].value
    real = preset.batch(7).src != 0
    for head in range(4):  # head h has the padding of sentence h, in every sentence
        assert torch.equal(allowed[:, head], real[head].expand(4, 7, 7))
    assert not torch.equal(allowed, right)


def test_softmax_over_another_axis_sums_to_1_there_and_not_over_the_keys() -> None:
    for name, axis in (("softmax_over_queries", -2), ("softmax_over_heads", 1)):
        weights = ledger_of(name)["decoder.layers.0.cross_attention/weights"].value
        torch.testing.assert_close(weights.sum(axis), torch.ones_like(weights.sum(axis)))
        assert (weights.sum(-1) - 1).abs().max() > 0.1


def test_scales_are_off_by_the_root_of_the_width_and_of_the_heads() -> None:
    key = "encoder.layers.0.self_attention/scores"  # 4 heads of 16
    right = ledger_of("")[key].value
    torch.testing.assert_close(ledger_of("no_scaling")[key].value, right * 4)
    torch.testing.assert_close(ledger_of("scaled_by_d_model")[key].value, right / 2)


def test_swapped_heads_are_16_of_4_and_no_mistake_where_both_are_equal() -> None:
    assert ledger_of("heads_and_width_swapped")["encoder.layers.0.self_attention/q"].shape == (2, 16, 7, 4)
    equal = PRESET.replace(model=PRESET.model.replace(n_heads=8))
    assert changed_tensors(FAULTS["heads_and_width_swapped"], equal) == []


def test_keys_of_the_query_matrix_make_the_scores_of_self_attention_symmetric() -> None:
    scores = ledger_of("keys_from_query_matrix")["encoder.layers.0.self_attention/scores"].value
    torch.testing.assert_close(scores, scores.mT)
    right = ledger_of("")["encoder.layers.0.self_attention/scores"].value
    assert not torch.allclose(right, right.mT)


def test_causal_masks_are_off_by_one_diagonal_either_way() -> None:
    key, ones = "decoder.layers.0.self_attention/allowed", torch.ones(5, 5, dtype=torch.bool)
    for name, diagonal in (("causal_sees_next", 1), ("causal_hides_itself", -1), ("", 0), ("causal_missing", 5)):
        assert torch.equal(ledger_of(name)[key].value[0, 0], ones.tril(diagonal)), name  # sentence 1 has no padding


def test_inverted_mask_swaps_what_is_seen_and_empties_the_rows_that_hid_nothing() -> None:
    weights = ledger_of("mask_inverted")["encoder.layers.0.self_attention/weights"].value
    assert weights[0].abs().max() == 0  # nothing was hidden in sentence 1
    assert weights[1, ..., :4].max() == 0 and torch.allclose(weights[1].sum(-1), torch.ones(4, 7))


def test_a_mask_after_the_softmax_hides_the_weights_and_not_the_denominator() -> None:
    ledger = ledger_of("mask_after_softmax")
    weights, scores = (ledger[f"encoder.layers.0.self_attention/{name}"].value for name in ("weights", "scores"))
    assert weights[1, ..., 4:].max() == 0
    torch.testing.assert_close(weights[1, ..., :4], scores[1].softmax(-1)[..., :4])


def test_fills_that_are_too_small_or_can_be_overtaken() -> None:
    scores, allowed = torch.tensor([[0.0, 2.0, 3.0e4]]), torch.tensor([[True, True, False]])
    small = FAULTS["fill_too_small"].shop.attention.masked_softmax(scores, allowed)
    e2 = math.exp(2)
    torch.testing.assert_close(small, torch.tensor([[1.0, e2, 1.0]]) / (2 + e2))
    overtaken = FAULTS["fill_overtaken"].shop.attention.masked_softmax
    assert overtaken(scores, allowed).tolist() == [[0.0, 0.0, 1.0]]
    assert overtaken(scores / 1e4, allowed)[0, 2] == 0


def test_an_empty_row_is_nan_and_every_other_row_as_it_was() -> None:
    scores, allowed = torch.tensor([[0.5, 2.0], [1.0, 3.0]]), torch.tensor([[True, True], [False, False]])
    weights = FAULTS["empty_row_nan"].shop.attention.masked_softmax(scores, allowed)
    assert torch.equal(weights[0], OWN.attention.masked_softmax(scores, allowed)[0]) and weights[1].isnan().all()


def test_weights_are_recorded_after_dropout_only_where_there_is_some() -> None:
    q = torch.randn(2, 3, 5, 7)
    zero = FAULTS["weights_after_dropout"].shop.attention.attend(q, q, q, dropout=torch.zeros_like)
    kept = FAULTS["weights_after_dropout"].shop.attention.attend(q, q, q)
    assert zero[1].abs().max() == 0
    assert all(map(torch.equal, kept, OWN.attention.attend(q, q, q)))


def test_layers_are_one_object_or_start_equal() -> None:
    model = FAULTS["shared_layer"].shop.model.build(PRESET.model, seed=7)
    assert model.encoder.layers[0] is model.encoder.layers[1]
    equal = FAULTS["equal_start"].shop.model.build(PRESET.model, seed=7)
    one, other = (layer.self_attention for layer in equal.encoder.layers)
    assert torch.equal(one.w_q.weight, other.w_q.weight) and torch.equal(one.w_q.weight, one.w_k.weight)
    assert one.w_q.weight.data_ptr() != other.w_q.weight.data_ptr()


def test_sums_without_the_stream_and_from_its_norm() -> None:
    missing = ledger_of("residual_missing")
    output = missing["encoder.layers.0.self_attention/output"].value
    assert torch.equal(missing["encoder.layers.0/self_attention_sum"].value, output)
    normed = ledger_of("residual_from_normed")
    x, output = normed["encoder/input"].value, normed["encoder.layers.0.self_attention/output"].value
    wanted = torch.layer_norm(x, (64,)) + output
    torch.testing.assert_close(normed["encoder.layers.0/self_attention_sum"].value, wanted)


def test_a_norm_over_the_sentence_has_mean_0_there_and_not_at_each_token() -> None:
    normed = ledger_of("norm_over_sentence")["encoder.layers.0/self_attention_norm"].value
    assert normed.mean(dim=(1, 2)).abs().max() < 1e-6 and normed.mean(dim=-1).abs().max() > 0.01


def test_a_source_that_never_arrives_and_one_that_learns_nothing() -> None:
    batch = PRESET.batch(7)
    itself = FAULTS["cross_attention_to_itself"].shop.model.build(PRESET.model, seed=7)
    assert torch.equal(itself(batch.src, batch.tgt), itself(batch.src.flip(1), batch.tgt))
    detached = FAULTS["memory_detached"].shop.model.build(PRESET.model, seed=7)
    detached(batch.src, batch.tgt).sum().backward()
    reached = {name.partition(".")[0] for name, each in detached.named_parameters() if each.grad is not None}
    assert reached == {"tgt_embedding", "decoder", "output"}


def test_shown_probabilities_sum_to_1_over_the_positions() -> None:
    shown = ledger_of("output_softmax_over_positions")["probabilities"].value
    torch.testing.assert_close(shown.sum(1), torch.ones(2, 97))


def test_positions_along_the_batch_are_the_same_at_every_place() -> None:
    ledger = ledger_of("positions_on_batch_axis")
    added = ledger["encoder/input"].value - ledger["src_embeddings"].value
    waves = OWN.positions.sinusoidal(2, 64)
    torch.testing.assert_close(added, waves[:, None].expand(2, 7, 64))


def test_without_positions_a_repeated_word_is_the_same_everywhere() -> None:
    model = FAULTS["positions_missing_on_decoder"].shop.model.build(PRESET.model, seed=7)
    for side, same in (("src", False), ("tgt", True)):
        x = model.embed(side, torch.full((1, 3), 5))
        assert torch.equal(x[:, 0], x[:, 2]) == same


def test_a_table_of_waves_that_counts_as_a_parameter_gives_the_same_numbers() -> None:
    model = FAULTS["position_table_is_parameter"].shop.model.build(PRESET.model, PRESET.masks, seed=7)
    assert "src_positions.weight" in dict(model.named_parameters())
    assert sum(each.numel() for each in model.parameters()) == 185_633 + 2 * 512 * 64


# What each does to training and decoding.


def test_the_target_is_its_own_label() -> None:
    shift = FAULTS["target_not_shifted"].shop.training.shift
    given, asked = shift(torch.tensor([[1, 7, 8, 2]]))
    assert given.tolist() == asked.tolist() == [[7, 8, 2]]


def test_padding_counts_in_the_loss() -> None:
    logits, targets = torch.tensor([[2.0, 0.0], [2.0, 0.0]]), torch.tensor([1, 0])
    one, other = math.log(1 + math.exp(2)), math.log(1 + math.exp(-2))
    wrong = FAULTS["loss_over_padding"].shop.training.smoothed_cross_entropy(logits, targets)
    assert wrong.item() == pytest.approx((one + other) / 2)
    assert OWN.training.smoothed_cross_entropy(logits, targets).item() == pytest.approx(one)


@pytest.mark.parametrize(("name", "factor"), [("", 1.0), ("gradients_not_cleared", 2.0)])
def test_a_gradient_that_is_not_cleared_is_twice_as_long_in_the_second_step(name: str, factor: float) -> None:
    shop = FAULTS[name].shop if name else OWN
    task = shop.tasks.get("copy")
    model, batch = shop.model.build(task.model, seed=7), task.sample(3, torch.Generator().manual_seed(5))
    config = TrainConfig(task="copy", batch_size=3, steps=2, lr=1e-9)
    optimizer = shop.training.make_optimizer(model.parameters(), config)
    norms = [shop.training.take_step(model, batch, optimizer, config, step, 0.0, noise=3)[2] for step in (1, 2)]
    assert norms[1] / norms[0] == pytest.approx(factor)


@pytest.mark.parametrize(("name", "same"), [("", True), ("eval_forgotten", False)])
def test_decoding_in_training_mode_differs_from_time_to_time(name: str, same: bool) -> None:
    shop = FAULTS[name].shop if name else OWN
    model = shop.model.build(PRESET.model.replace(dropout=0.5), seed=7).train()
    answers = [shop.decoding.greedy(model, PRESET.batch(7).src, max_length=7) for _ in range(2)]
    assert torch.equal(*answers) == same


@pytest.mark.parametrize("name", [name for name in FAULTS if name not in ("mask_times_infinity",)])
def test_it_can_be_trained(name: str) -> None:
    shop = FAULTS[name].shop
    task = shop.tasks.get("copy")
    model = shop.model.build(task.model.replace(d_model=8, n_heads=4, d_ff=8), MaskConfig(), seed=7)
    reports = list(shop.training.train(model, task, TrainConfig(task="copy", steps=2, batch_size=4), seed=3))
    assert [report.step for report in reports] == [1, 2] and math.isfinite(reports[1].loss)


def test_a_mask_times_infinity_ends_the_first_step() -> None:
    shop = FAULTS["mask_times_infinity"].shop
    task = shop.tasks.get("copy")
    model = shop.model.build(task.model, seed=7)
    with pytest.raises(shop.training.NonFinite, match="step 1: the loss is not finite"):
        next(shop.training.train(model, task, task.training, seed=3))
