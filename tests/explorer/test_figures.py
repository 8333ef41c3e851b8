"""What is drawn is chosen by axes and kind, and the bytes that travel are the numbers of the ledger."""

from __future__ import annotations

import base64
import struct

import pytest
import torch

from explorer import figures, picture
from explorer.figures import HIDDEN, INFINITE, MIDDLE, NOT_A_NUMBER, STEPS, Look
from explorer.limits import Limits
from explorer.live import run
from explorer.places import most_telling, place, towers
from explorer.session import Session
from transformer_core import ModelConfig, formulas

NAN, INF = float("nan"), float("inf")


def bytes_of(encoded: str) -> list[int]:
    return list(base64.b64decode(encoded))


# --------------------------------------------------------------------------------------------------------- what to draw


@pytest.mark.parametrize(
    ("axes", "dtype", "latex", "kind", "sample", "head", "rows", "columns"),
    [
        ("B H q k", torch.float32, r"\mathrm{softmax}(s)", "probability", True, True, "q", "k"),
        ("B H q k", torch.float16, "Q K", "signed", True, True, "q", "k"),
        ("B H q k", torch.bool, "M", "mask", True, True, "q", "k"),
        ("B H k Dh", torch.float32, "x W", "signed", True, True, "k", "Dh"),
        ("B n F", torch.bfloat16, "", "signed", True, False, "n", "F"),
        ("B T V", torch.float32, r"\mathrm{softmax}(l)", "probability", True, False, "T", "V"),
        ("B S", torch.int64, "", "ids", False, False, "B", "S"),
        ("B C", torch.float32, "", "signed", False, False, "B", "C"),
        ("n D", torch.float64, "", "signed", False, False, "n", "D"),
    ],
)
def test_axes_and_kind_choose_the_drawing(axes, dtype, latex, kind, sample, head, rows, columns):
    assert figures.look(axes.split(), dtype, latex) == Look(kind, sample, head, rows, columns)


def test_an_axis_counts_the_tokens_of_the_side_it_comes_from():
    cross = "decoder.layers.0.cross_attention"
    assert [figures.token_side(cross, "weights", axis) for axis in ("q", "k")] == ["tgt", "src"]
    assert figures.token_side("encoder.layers.3.self_attention", "q", "q") == "src"
    assert figures.token_side("decoder.layers.3", "feed_forward_sum", "n") == "tgt"
    assert figures.token_side("src_positions", "positions", "n") == "src"
    assert figures.token_side(cross, "q", "Dh") == ""


# ------------------------------------------------------------------------------------------------------------ the bytes


def test_probabilities_are_coded_from_0_to_the_number_of_steps():
    values = torch.tensor([[0.0, 1.0, 0.5, 0.25, NAN, INF]])
    assert figures.codes(values, "probability").tolist() == [[0, STEPS, 125, 62, NOT_A_NUMBER, INFINITE]]


def test_signed_numbers_are_centred_at_zero_and_end_at_the_limit():
    values = torch.tensor([-2.0, 0.0, 2.0, 1.0, -8.0])
    assert figures.codes(values, "signed", 2.0).tolist() == [0, MIDDLE, STEPS, 188, 0]


def test_only_a_masked_cell_without_probability_is_hidden():
    values = torch.tensor([[0.0, 0.5, 0.0]])
    visible = torch.tensor([[False, False, True]])
    assert figures.codes(values, "probability", 1.0, visible).tolist() == [[HIDDEN, 125, 0]]


def test_block_means_are_means_of_what_counts():
    values = torch.tensor([[1.0, 3.0, 5.0], [7.0, 9.0, 11.0], [2.0, 4.0, 6.0]])
    means, counted, block = figures.block_means(values, 2)
    assert block == (2, 2) and counted is None
    assert means.tolist() == [[5.0, 8.0], [3.0, 6.0]]
    visible = torch.tensor([[True, False, True], [False, False, False], [True, True, False]])
    means, counted, _ = figures.block_means(values, 2, visible)
    assert means.tolist() == [[1.0, 5.0], [3.0, 0.0]]
    assert counted.tolist() == [[True, True], [True, False]]


def test_a_map_that_is_small_enough_is_left_alone():
    values = torch.rand(2, 3, 64, 7)
    means, _, block = figures.block_means(values, 64)
    assert means is values and block == (1, 1)


def test_thumbs_carry_every_sentence_and_head_in_order():
    value = torch.linspace(0, 1, 2 * 3 * 4 * 5).reshape(2, 3, 4, 5)
    found = figures.thumbs(value, Look("probability", True, True, "q", "k"), 1.0, None)
    assert found["shape"] == [2, 3, 4, 5]
    assert bytes_of(found["data"]) == (value * STEPS).round().int().flatten().tolist()
    large = figures.thumbs(torch.rand(1, 2, 80, 70), Look("probability", True, True, "q", "k"), 1.0, None)
    assert large["shape"] == [1, 2, 27, 24]


def test_numbers_travel_as_little_endian_float32():
    raw = base64.b64decode(figures.packed(torch.tensor([1.5, -2.0], dtype=torch.float64)))
    assert struct.unpack("<2f", raw) == (1.5, -2.0)


def test_the_scale_ends_at_the_largest_finite_number():
    assert figures.limit_of(torch.tensor([1.0, -3.5, 2.0])) == 3.5
    assert figures.limit_of(torch.tensor([NAN, -2.0, INF])) == 2.0
    assert figures.limit_of(torch.zeros(3)) == 1.0


def test_a_histogram_counts_the_finite_numbers():
    bins = figures.histogram(torch.tensor([0.0, 0.1, 1.0, NAN]), 0.0, 1.0)
    assert len(bins) == figures.BINS
    assert (bins[0], bins[2], bins[-1], sum(value > 0 for value in bins)) == (100, 100, 100, 3)
    assert figures.histogram(torch.tensor([2.0, 2.0]), 2.0, 2.0) == []
    assert figures.rounded(INF) is None and figures.rounded(None) is None
    assert figures.rounded(1 / 3, 3) == 0.333


# ------------------------------------------------------------------------------------------------------------- figure 1


def ids(tower):
    return [item.id for item in (*tower.below, *(item for part in tower.layer for item in part), *tower.above)]


def test_the_norm_changes_its_place_with_the_norm_order():
    post = towers(ModelConfig())[0].layer
    pre = towers(ModelConfig(norm_order="pre"))[0].layer
    assert [[item.kind for item in part] for part in post] == [["attention", "add_norm"], ["ffn", "add_norm"]]
    assert [[item.kind for item in part] for part in pre] == [["norm", "attention", "add"], ["norm", "ffn", "add"]]
    assert "encoder/final_norm" not in ids(towers(ModelConfig())[0])
    assert "encoder/final_norm" in ids(towers(ModelConfig(norm_order="pre"))[0])


def test_an_architecture_has_the_towers_it_needs():
    both = towers(ModelConfig(n_encoder_layers=1, n_decoder_layers=3))
    assert [(tower.stack, tower.layers) for tower in both] == [("encoder", 1), ("decoder", 3)]
    [encoder] = towers(ModelConfig(architecture="encoder"))
    assert ids(encoder)[-1] == "memory"
    [classifier] = towers(ModelConfig(architecture="encoder", n_classes=2))
    assert ids(classifier)[-2:] == ["logits", "probabilities"]
    [decoder] = towers(ModelConfig(architecture="decoder"))
    assert not any("cross" in each for each in ids(decoder))
    assert not any("positions" in each for each in ids(towers(ModelConfig(positions="none"))[0]))


@pytest.mark.parametrize("norm_order", ["post", "pre"])
@pytest.mark.parametrize("architecture", ["encoder_decoder", "encoder", "decoder"])
def test_every_tensor_of_a_run_lies_in_a_block_of_its_figure(architecture, norm_order):
    live = run(Session.of_preset().change(architecture=architecture, norm_order=norm_order), None, None, Limits())
    drawn = set()
    for tower in towers(live.model.config):
        for layer in range(tower.layers):
            drawn |= {each.replace("{i}", str(layer)) for each in ids(tower)}
    for entry in live.ledger:
        assert place(entry.path, entry.name, norm_order).block in drawn, entry.key


def test_the_first_tensor_shown_of_a_block_is_its_most_telling():
    assert most_telling(["q", "weights", "output"]) == "weights"
    assert most_telling(["self_attention_sum", "self_attention_norm"]) == "self_attention_norm"
    assert place("somewhere.else", "thing", "post") == ("somewhere.else", "somewhere.else")


def test_maps_of_all_layers_travel_until_they_are_too_many(monkeypatch):
    live = run(Session.of_preset(), None, None, Limits())
    entries = live.entries()
    every = {key for key in entries if key.endswith("/weights")}
    assert set(picture.maps(live, entries, "src")) == every
    assert picture.layer_maps(entries, "decoder.layers.0.self_attention/q") == {}
    monkeypatch.setattr(picture, "MAX_MAP_BYTES", 100)
    some = picture.maps(live, entries, "src")
    assert set(some) == {key for key in every if ".layers.1." in key}
    later = picture.layer_maps(entries, "decoder.layers.0.self_attention/q")
    assert set(later) == {key for key in every if key.startswith("decoder.layers.0.")}


def test_the_figure_prints_numbers_of_this_run():
    live = run(Session.of_preset(), None, None, Limits())
    entries = live.entries()
    shown = picture.figure(live, entries)
    hidden = live.ledger["encoder.layers.1.feed_forward/hidden"].value
    assert shown["active"]["encoder.layers.1.feed_forward"] == pytest.approx(
        (hidden > 0).float().mean().item(), abs=6e-4
    )
    best = live.ledger["logits"].value.argmax(-1)[0].tolist()
    words = picture.vocabulary(live)
    assert shown["out"][0] == [words.get(token, str(token)) for token in best]
    broken = run(live.session.change(fill="-inf", pad_side="left"), None, None, Limits())
    assert "NaN" in picture.figure(broken, broken.entries())["out"][1]
    assert all(formulas.find(key) for key in entries)
