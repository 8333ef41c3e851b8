"""Presets: the files that come along, what their lessons claim, TOML in and out, and settings on top."""

import math
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_core import presets
from transformer_core.batches import batch_sizes
from transformer_core.config import ConfigError, DataConfig, MaskConfig, ModelConfig, TrainConfig
from transformer_core.cost import estimate
from transformer_core.ledger import Ledger, trace
from transformer_core.model import build
from transformer_core.presets import Preset, apply_settings, load_preset, preset_from_toml, preset_names

NAMES = preset_names()
SEEDS = (0, 7, 11)


def run(name: str, seed: int, training: bool = False) -> Ledger:
    preset = load_preset(name)
    model = build(preset.model, preset.masks, seed=seed).train(training)
    batch = preset.batch(seed)
    with torch.no_grad(), trace(model) as ledger:
        model(batch.src, batch.tgt)
    return ledger


# The files that come along


def test_the_presets_are_offered_from_the_easiest_on() -> None:
    assert NAMES == [
        "first_look", "sentences", "hand_computed", "shape_check", "minimal_encoder", "left_padding", "empty_row",
        "low_memory", "paper_base", "paper_big", "deep_post", "deep_pre",
    ]  # fmt: skip
    assert {file.stem for file in presets.FOLDER.iterdir()} == set(NAMES)


def test_a_file_added_to_the_folder_is_offered_after_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    for name in ("zebra", "deep_pre", "first_look", "apple"):
        (tmp_path / f"{name}.toml").write_text("[model]\nd_model = 20\n", encoding="utf-8")
    assert preset_names() == ["first_look", "deep_pre", "apple", "zebra"]
    assert load_preset("apple").model.d_model == 20


@pytest.mark.parametrize("name", NAMES)
def test_each_preset_explains_itself_in_both_languages(name: str) -> None:
    preset = load_preset(name)
    assert preset.name == name
    for text in (preset.title, preset.title_zh, preset.lesson, preset.lesson_zh):
        assert text == text.strip() != ""
        assert "\n" not in text and "  " not in text
    assert any("\u4e00" <= sign <= "\u9fff" for sign in preset.title_zh)


@pytest.mark.parametrize("name", NAMES)
def test_each_preset_comes_back_from_toml_unchanged(name: str) -> None:
    preset = load_preset(name)
    assert preset_from_toml(preset.to_toml()) == preset


@pytest.mark.parametrize("name", NAMES)
def test_each_preset_runs_and_costs_what_was_estimated(name: str) -> None:
    preset = load_preset(name)
    rows, src_len, tgt_len = batch_sizes(preset.model, preset.data)
    model = build(preset.model, preset.masks, device="meta").eval()
    src = torch.ones(rows, src_len, dtype=torch.int64, device="meta") if src_len else None
    tgt = torch.ones(rows, tgt_len, dtype=torch.int64, device="meta") if tgt_len else None
    with trace(model) as ledger:
        model(src, tgt)
    assert estimate(preset.model, rows, src_len, tgt_len).activation_bytes == ledger.total_bytes


@pytest.mark.parametrize(
    ("name", "sizes", "batch"),
    [
        ("first_look", (64, 4, 2, 2, 128), (2, 7, 5)),
        ("sentences", (64, 4, 2, 2, 128), (3, 7, 11)),
        ("hand_computed", (2, 1, 1, 1, 3), (1, 2, 2)),
        ("shape_check", (512, 8, 1, 1, 2048), (2, 10, 10)),
        ("minimal_encoder", (64, 4, 2, 2, 128), (2, 5, 0)),
        ("left_padding", (64, 4, 2, 2, 128), (2, 7, 5)),
        ("empty_row", (64, 4, 2, 2, 128), (2, 7, 5)),
        ("low_memory", (256, 8, 3, 3, 1024), (2, 13, 11)),
        ("paper_base", (512, 8, 6, 6, 2048), (2, 13, 11)),
        ("paper_big", (1024, 16, 6, 6, 4096), (2, 13, 11)),
        ("deep_post", (32, 4, 24, 2, 64), (2, 7, 5)),
        ("deep_pre", (32, 4, 24, 2, 64), (2, 7, 5)),
    ],
)
def test_sizes_of_the_presets(name: str, sizes: tuple[int, ...], batch: tuple[int, ...]) -> None:
    model = load_preset(name).model
    assert (model.d_model, model.n_heads, model.n_encoder_layers, model.n_decoder_layers, model.d_ff) == sizes
    assert batch_sizes(model, load_preset(name).data) == batch
    paper = name in ("low_memory", "paper_base", "paper_big")
    assert (model.dropout, model.attention_dropout) == (0.1 if paper else 0.0, 0.0)


# What the lessons claim


def test_first_look_has_no_two_equal_sizes_and_its_padding_is_never_looked_at() -> None:
    ledger = run("first_look", 7)
    sizes = [ledger.sizes[axis] for axis in ("B", "S", "T", "D", "H", "Dh", "F", "V")]
    assert len(set(sizes)) == len(sizes)
    weights = ledger["encoder.layers.0.self_attention/weights"].value[1]
    assert (weights[..., 4:] == 0).all() and (weights[..., :4] > 0).all()
    assert torch.allclose(weights.sum(dim=-1), torch.ones(()))


def test_sentences_are_of_different_length_and_stand_as_words() -> None:
    batch = load_preset("sentences").batch()
    assert [row.count("∅") for row in batch.src_tokens] == [2, 5, 0]
    assert len({row.count("∅") for row in batch.tgt_tokens}) == 3
    assert batch.src_tokens[1][:2] == ["今天", "下雨"]
    assert batch.tgt_tokens[1][:4] == ["⟨s⟩", "it", "rains", "today"]
    assert run("sentences", 7)["decoder.layers.0.cross_attention/weights"].shape == (3, 4, 11, 7)


@pytest.mark.parametrize("seed", SEEDS)
def test_left_padding_leaves_a_query_without_a_key_and_each_fill_shows_it(seed: int) -> None:
    key = "decoder.layers.0.self_attention"
    ledger = run("left_padding", seed)
    allowed, weights = ledger[f"{key}/allowed"].value, ledger[f"{key}/weights"].value
    assert allowed[1, 0].sum(dim=-1).tolist() == [0, 1, 2, 3, 4]
    assert weights[1, :, 0].eq(0).all() and ledger["logits"].value.isfinite().all()
    preset = load_preset("left_padding")
    for fill, first in (("-inf", math.nan), ("finfo_min", 0.2)):
        model = build(preset.model, preset.masks.replace(fill=fill), seed=seed).eval()
        batch = preset.batch(seed)
        with torch.no_grad(), trace(model) as changed:
            logits = model(batch.src, batch.tgt)
        got = changed[f"{key}/weights"].value[1, :, 0]
        torch.testing.assert_close(got, torch.full_like(got, first), equal_nan=True)
        assert logits[1, 0].isnan().all() == math.isnan(first)


@pytest.mark.parametrize("seed", SEEDS)
def test_window_and_padding_together_leave_two_rows_empty_and_one_of_a_single_key(seed: int) -> None:
    ledger = run("empty_row", seed)
    key = "encoder.layers.0.self_attention"
    assert ledger[f"{key}/allowed"].value[1, 0].sum(dim=-1).tolist() == [2, 3, 3, 2, 1, 0, 0]
    weights = ledger[f"{key}/weights"].value[1]
    assert weights[:, 5:].eq(0).all() and weights[:, 4, 3].eq(1).all()


def test_hand_computed_numbers_come_out_with_a_pencil() -> None:
    ledger = run("hand_computed", 7)
    path = "encoder.layers.0.self_attention"
    q, k, scores, weights = (ledger[f"{path}/{name}"].value[0, 0].tolist() for name in ("q", "k", "scores", "weights"))
    for i in range(2):
        by_hand = [(q[i][0] * k[j][0] + q[i][1] * k[j][1]) / math.sqrt(2) for j in range(2)]
        assert scores[i] == pytest.approx(by_hand, abs=1e-6)
        total = math.exp(by_hand[0]) + math.exp(by_hand[1])
        assert weights[i] == pytest.approx([math.exp(score) / total for score in by_hand], abs=1e-6)
    assert ledger["src_positions/positions"].value[1].tolist() == pytest.approx([0.8415, 0.5403], abs=5e-5)


def test_shape_check_shapes() -> None:
    ledger = run("shape_check", 7)
    assert ledger["encoder.layers.0.self_attention/q"].shape == (2, 8, 10, 64)
    for attention in ("encoder.layers.0.self_attention", "decoder.layers.0.cross_attention"):
        assert ledger[f"{attention}/scores"].shape == (2, 8, 10, 10)


def test_minimal_encoder_hides_padding_as_a_key_and_not_as_a_query() -> None:
    batch = load_preset("minimal_encoder").batch()
    assert batch.src.tolist() == [[1, 2, 3, 4, 0], [5, 6, 7, 0, 0]]
    ledger = run("minimal_encoder", 7)
    assert ledger["memory"].shape == (2, 5, 64)
    weights = ledger["encoder.layers.0.self_attention/weights"].value
    assert weights.shape == (2, 4, 5, 5)
    assert (weights[1, :, :, 3:] == 0).all()
    assert torch.allclose(weights.sum(dim=-1), torch.ones(()))


def layer_parameters(name: str) -> int:
    model = load_preset(name).model
    ends = model.src_vocab_size * model.d_model + model.tgt_vocab_size * (2 * model.d_model + 1)
    return estimate(model, 1, 1, 1).parameters - ends


def test_low_memory_holds_about_an_eighth() -> None:
    assert layer_parameters("low_memory") / layer_parameters("paper_base") == pytest.approx(1 / 8, rel=0.01)


def test_paper_base_changes_its_first_weights_in_training_mode() -> None:
    key = "encoder.layers.0.self_attention/weights"
    evaluating, training = run("paper_base", 7)[key].value, run("paper_base", 7, training=True)[key].value
    assert (evaluating - training).abs().max() > 1e-3


def test_paper_big_counts_in_millions() -> None:
    total = estimate(load_preset("paper_big").model, 1, 1, 1).parameters
    assert round(layer_parameters("paper_big") / 1e6) == 176
    assert round((total - layer_parameters("paper_big")) / 1e6) == 114


def spread(ledger: Ledger, key: str) -> float:
    return ledger[key].value.std().item()


def likeness(memory: torch.Tensor) -> float:
    """The mean cosine between the tokens of the first sentence, which has no padding."""
    rows = torch.nn.functional.normalize(memory[0], dim=-1)
    return (rows @ rows.T).mean().item()


@pytest.mark.parametrize("seed", SEEDS)
def test_deep_presets_behave_as_their_lessons_say(seed: int) -> None:
    post, pre = run("deep_post", seed), run("deep_pre", seed)
    first, last = "encoder.layers.0/feed_forward_sum", "encoder.layers.23/feed_forward_sum"
    assert 0.7 < spread(post, last) / spread(post, first) < 1.4
    assert 3.3 < spread(pre, last) / spread(pre, first) < 4.7
    assert spread(pre, "encoder/final_norm") == pytest.approx(1, abs=0.02)
    if seed == 7:
        assert [round(spread(post, key), 1) for key in (first, last)] == [1.2, 1.5]
    assert likeness(post["memory"].value) > 0.99
    assert likeness(pre["memory"].value) < 0.95


# TOML


PLAIN = """
[model]
d_model = 30
n_heads = 5
n_layers = 3
d_ff = 60
dropout = 0.1
max_seq_len = 40

[training]
batch_size = 32
lr = 0.0001
epochs = 20

[data]
src_vocab_size = 1000
tgt_vocab_size = 1100
"""


def test_a_plain_file_loads_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(PLAIN, encoding="utf-8")
    for name_or_path in (path, str(path)):
        preset = load_preset(name_or_path)
        assert preset.name == "config"
        assert preset.model == ModelConfig(
            d_model=30, n_heads=5, n_encoder_layers=3, n_decoder_layers=3, d_ff=60, dropout=0.1, max_seq_len=40,
            src_vocab_size=1000, tgt_vocab_size=1100,
        )  # fmt: skip
        assert preset.training == TrainConfig(batch_size=32, lr=1e-4, epochs=20)
        assert preset.training.total_steps == 2000
        assert preset.data == DataConfig()


def test_a_short_model_shortens_lengths_that_the_file_does_not_give() -> None:
    assert preset_from_toml("[model]\nmax_seq_len = 3").batch().src.shape == (2, 3)
    with pytest.raises(ConfigError, match="src is 7 tokens long, but max_seq_len is 3"):
        preset_from_toml("[model]\nmax_seq_len = 3\n[data]\nsrc_len = 7")


def test_windows_files_with_a_byte_order_mark_load(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"\xef\xbb\xbf" + PLAIN.replace("\n", "\r\n").encode())
    assert load_preset(path).model.d_model == 30


@pytest.mark.parametrize(
    ("toml", "text"),
    [
        ("[modle]\nd_model = 3", 'there is no setting "modle"; the nearest is model.'),
        ("titel = 'x'", 'there is no setting "titel"; the nearest is title.'),
        ("[model]\nd_modle = 3", '[model] has no "d_modle"; the nearest is d_model.'),
        ("[masks]\ncrossing = []", '[masks] has no "crossing"; the nearest is cross.'),
        ("[training]\nepoch = 3", '[training] has no "epoch"; the nearest is epochs.'),
        ("[data]\nsource_len = 3", '[data] has no "source_len"; the nearest is src_len.'),
        ("[training]\ndropout = 0.1", '[training] has no "dropout"; it belongs in [model].'),
        ("[model]\nsrc_len = 3", '[model] has no "src_len"; it belongs in [data].'),
        ("[model]\npad_id = 0\n[data]\npad_id = 0", '"pad_id" stands in [model] and in [data]; keep one of them.'),
        ("[model]\nn_layers = 3\nn_decoder_layers = 2", "n_layers sets n_encoder_layers and n_decoder_layers together"),
        ("model = 3", '"model" must be a section with keys below it; write [model].'),
        ("[[model]]\nd_model = 3", '"model" must be a section with keys below it; write [model].'),
        ("title = 3", "title must be text, got 3."),
        ("[model]\nd_model = 512.0", "d_model must be a whole number, got 512.0."),
        ("[model]\nd_model = 1979-05-27", "d_model must be a whole number, got 1979-05-27."),
        ("[model.d_model]\nx = 1", "d_model must be a whole number, got {'x': 1}."),
        ("[model]\ndropout = nan", "dropout must be a finite number, got nan."),
        ("[model]\nn_heads = 3", "d_model 64 is not divisible by 3 heads"),
        ("[model", '"custom" is not valid TOML: '),
        ("[model]\nd_model = 3\nd_model = 4", '"custom" is not valid TOML: '),
        ("[model]\nd_model = " + "9" * 5000, '"custom" is not valid TOML: '),
        ("x = " + "[" * 10_000, '"custom" is not valid TOML: '),
        ("[data]\nsrc = [[200]]", "src row 1, position 1 holds the id 200, but src_vocab_size is 89"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_toml_that_cannot_be_is_refused_by_name(toml: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        preset_from_toml(toml)
    assert text in str(caught.value)


def test_files_that_cannot_be_read_are_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "picture.toml").write_bytes(b"\x89PNG\r\n\x1a\n\x00\xff")
    (tmp_path / "large.toml").write_bytes(b"#" * (presets.MAX_BYTES + 1))
    (tmp_path / "broken.toml").write_text("[model\n", encoding="utf-8")
    for name_or_path, text in {
        "fist_look": 'there is no preset and no file "fist_look"; the presets are first_look, sentences,',
        "": "cannot be read",
        str(tmp_path): "cannot be read: it is a folder.",
        str(tmp_path / "none.toml"): "there is no preset and no file",
        str(tmp_path / "picture.toml"): "is not a text file in UTF-8, so it cannot be TOML.",
        str(tmp_path / "large.toml"): "is larger than 1048576 bytes, so it is no preset.",
        str(tmp_path / "broken.toml"): '"broken" is not valid TOML: ',
        "a\0b": r'"a\x00b"',
        "x" * 5000: '"xxx',
    }.items():
        with pytest.raises(ConfigError) as caught:
            load_preset(name_or_path)
        assert text in str(caught.value)
        assert len(str(caught.value)) < 500
    with pytest.raises(ConfigError) as caught:
        load_preset("fist_look")
    assert caught.value.choices == [{"preset": "first_look"}]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(ConfigError, match="cannot be read: it is no ordinary file"):
        load_preset(tmp_path / "pipe.toml")


any_text = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=30)


@given(
    any_text, any_text, any_text, st.floats(0, 0.99), st.floats(1e-12, 1.0), st.sampled_from([None, True, False]),
    st.lists(any_text.filter(str.strip), min_size=1, max_size=3), st.sampled_from([(), ("causal",), ("window:3",)]),
    st.sampled_from([None, ((True, False),)]),
)  # fmt: skip
def test_any_preset_comes_back_from_toml_unchanged(
    name: str, title: str, lesson_zh: str, dropout: float, norm_eps: float, final_norm: bool | None,
    sentences: list[str], rules: tuple[str, ...], matrix: Any,
) -> None:  # fmt: skip
    preset = Preset(
        name=name, title=title, lesson_zh=lesson_zh,
        model=ModelConfig(dropout=dropout, norm_eps=norm_eps, final_norm=final_norm, src_vocab_size=999),
        masks=MaskConfig(encoder_self=rules, cross=("custom",) if matrix else (), cross_custom=matrix),
        training=TrainConfig(clip_norm=norm_eps, steps=7),
        data=DataConfig(src_text=sentences, split="char", tgt=[[1, 5]] * len(sentences)),
    )  # fmt: skip
    assert preset_from_toml(preset.to_toml()) == preset


def test_a_preset_refuses_parts_that_are_none() -> None:
    for part in ("model", "masks", "training", "data"):
        with pytest.raises(ConfigError, match=f"{part} must be a .*Config, got 3"):
            Preset(**{part: 3})
    with pytest.raises(ConfigError, match="title must be text, got None"):
        Preset(title=None)
    with pytest.raises(ConfigError, match="src is 7 tokens long, but max_seq_len is 5"):
        Preset(model=ModelConfig(max_seq_len=5))


# Settings on top


def test_settings_reach_their_section_and_are_applied_together() -> None:
    preset = apply_settings(
        load_preset("first_look"),
        ["d_model=60", "n_heads=5", "masks.fill=-inf", "src_len=9", "training.batch_size=3", "data.batch_size=4",
         "lr=.5", "model.bias=False", "final_norm=true", "cross=padding,window:2", "decoder_self=[]", "steps = 80",
         "positions=none", "n_layers=1", "norm_eps=1e-6"],
    )  # fmt: skip
    model = preset.model
    assert (model.d_model, model.n_heads, model.bias, model.final_norm) == (60, 5, False, True)
    assert (model.n_encoder_layers, model.n_decoder_layers, model.positions, model.norm_eps) == (1, 1, "none", 1e-6)
    assert (preset.masks.fill, preset.masks.cross, preset.masks.decoder_self) == ("-inf", ("padding", "window:2"), ())
    assert (preset.training.batch_size, preset.training.lr, preset.training.steps) == (3, 0.5, 80)
    assert (preset.data.src_len, preset.data.batch_size) == (9, 4)
    assert preset.lesson == load_preset("first_look").lesson


def test_settings_give_tokens_and_take_them_back() -> None:
    preset = load_preset("minimal_encoder")
    assert apply_settings(preset, ["src=[[4, 5, 6]]"]).batch().src.tolist() == [[4, 5, 6]]
    assert apply_settings(preset, ["src=none", "src_len=3", "padding=none"]).batch().src.shape == (2, 3)
    typed = apply_settings(preset, ["src=none", "src_text=good night"])
    assert typed.batch().src_tokens == [["good", "night"]]
    several = apply_settings(preset, ["src=none", 'src_text=["good night", "moon"]'])
    assert several.batch().src_tokens == [["good", "night"], ["moon", "∅"]]
    assert apply_settings(preset, ["masks.encoder_self=custom", "encoder_self_custom=[[1, 0], [1, 1]]"]).masks == (
        MaskConfig(encoder_self=("custom",), encoder_self_custom=((True, False), (True, True)))
    )
    assert apply_settings(preset, []) == preset


def test_a_condition_of_a_mask_may_hold_spaces_and_the_comma_of_a_function() -> None:
    chosen = "masks.decoder_self=padding,where:q - k < 3,causal"
    assert apply_settings(Preset(), [chosen]).masks.decoder_self == ("padding", "where:q - k < 3", "causal")
    two = apply_settings(Preset(), ["cross=where:abs(q - min(k, 2)) <= max(h,1),random:40", "encoder_self=documents"])
    assert two.masks.cross == ("where:abs(q - min(k, 2)) <= max(h,1)", "random:40")
    assert preset_from_toml(two.to_toml()) == two
    assert MaskConfig.from_dict(two.masks.to_dict()) == two.masks


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (["d_model"], 'the setting "d_model" is not of the form key=value, as in d_model=128.'),
        (["=3"], 'there is no setting ""'),
        (["d_modle=3"], 'there is no setting "d_modle"; the nearest is d_model.'),
        (["modle.d_model=3"], 'there is no setting "modle.d_model"; the nearest is d_model.'),
        (["masks.fil=-inf"], '[masks] has no "fil"; the nearest is fill. It has: encoder_self,'),
        (["training.d_model=3"], '[training] has no "d_model"; it belongs in [model].'),
        (["batch_size=3"], 'the setting "batch_size" stands in several sections; '
         "write training.batch_size or data.batch_size."),
        (["d_model=wide"], 'd_model must be a whole number, got "wide".'),
        (["d_model=64.0"], "d_model must be a whole number, got 64.0."),
        (["d_model=none"], 'd_model must be a whole number, got "none".'),
        (["lr=nan"], "lr must be a finite number, got nan."),
        (["bias=yes"], 'bias must be true or false, got "yes".'),
        (["n_heads=7"], "d_model 64 is not divisible by 7 heads"),
        (["n_layers=2", "n_encoder_layers=3"], "n_layers sets n_encoder_layers and n_decoder_layers together"),
        (["cross=windo:2"], 'cross names the mask rule "windo:2"'),
        (["src=[[4"], '"data.src" is not valid TOML'),
        (["src=[[4]]\nx = 3"], '"data.src" is not valid TOML: one value is wanted.'),
        (["src=4"], 'src must be a list, got "4".'),
        (["src_len=600"], "src is 600 tokens long, but max_seq_len is 512"),
        (["src_len=9", "src=[[4]]"], "src_len has no effect, because src gives the tokens; set src=none for random"),
        (["tgt_text=a", "data.batch_size=3"], "batch_size has no effect, because tgt_text gives the tokens"),
        ([3], "setting must be text, got 3."),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
def test_settings_that_cannot_be_are_refused_by_name(settings: list[Any], text: str, unchecked_shapes: None) -> None:
    with pytest.raises(ConfigError) as caught:
        apply_settings(load_preset("first_look"), settings)
    assert text in str(caught.value)
