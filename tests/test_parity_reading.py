"""The reading table: every row has a live number, which moves with the setting that it is about."""

import json
import math

import pytest
import torch

from explorer import words
from transformer_core.batches import make_batch
from transformer_core.config import DataConfig, MaskConfig, ModelConfig
from transformer_core.model import build
from transformer_core.parity import ROWS, NoCounterpart, Reading, reading_table

CONFIG = ModelConfig(d_model=14, n_heads=2, d_ff=11, n_encoder_layers=2, n_decoder_layers=1, src_vocab_size=19,
                     tgt_vocab_size=23, max_seq_len=16)  # fmt: skip
DATA = DataConfig(src_len=7, tgt_len=5, batch_size=3)


def read(masks: MaskConfig | None = None, data: DataConfig = DATA, **changes: object) -> dict[str, Reading]:
    config = CONFIG.replace(**changes)
    return {each.name: each for each in reading_table(build(config, masks, seed=7), make_batch(config, data, 7))}


@pytest.fixture(scope="module")
def usual() -> dict[str, Reading]:
    return read()


def test_every_row_is_there_and_heeding_it_makes_torch_the_same(usual: dict[str, Reading]) -> None:
    assert list(usual) == [row.name for row in ROWS]
    for name, each in usual.items():
        wanted = "same" if each.measured <= 1e-9 else "adapted" if each.heeded <= 1e-9 else "differs"
        assert each.verdict == wanted
        assert (each.verdict == "differs") == (name == "blind_rows"), name
    adapted = {name for name, each in usual.items() if each.verdict == "adapted"}
    assert adapted == {
        "layout", "true_in_attn_mask", "true_in_key_padding_mask", "causal_alignment", "averaged_weights",
        "packed_projection", "final_norm", "embedding", "fast_path_padding",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("norm_order", {"norm_order": "pre"}),
        ("activation", {"activation": "gelu"}),
        ("norm_eps", {"norm_eps": 1e-2}),
        ("biases", {"bias": False}),
        ("dropout_places", {"dropout": 0.25}),
        ("weights_after_dropout", {"dropout": 0.25}),
    ],
)
def test_a_setting_that_is_not_torchs_default_turns_its_row(
    usual: dict[str, Reading], name: str, changes: dict
) -> None:
    """... and leaves the rows of the others as they were."""
    now = read(**changes)
    assert usual[name].verdict == "same" and now[name].verdict == "adapted"
    assert now[name].measured > 1e-3 > 1e-9 >= now[name].heeded
    others = {"norm_order", "activation", "norm_eps", "biases"} - {name}
    assert {now[other].verdict for other in others} == {"same"}


@pytest.mark.parametrize(
    ("name", "changes"), [("final_norm", {"final_norm": True}), ("fast_path_padding", {"norm_order": "pre"})]
)
def test_a_setting_that_is_torchs_default_settles_its_row(usual: dict[str, Reading], name: str, changes: dict) -> None:
    assert usual[name].verdict == "adapted" and read(**changes)[name].verdict == "same"


def test_the_numbers_by_hand(usual: dict[str, Reading]) -> None:
    quarter = read(dropout=0.25)
    assert quarter["dropout_places"].measured == pytest.approx(0.25, abs=0.02)
    assert usual["packed_projection"].facts == {"rows": 42, "columns": 14}
    assert usual["causal_alignment"].facts == {"queries": 4, "keys": 7, "ours": "4..7", "theirs": "1..4"}
    assert usual["final_norm"].facts == {"count": 0, "stacks": 2}
    assert 0 < usual["true_in_key_padding_mask"].measured <= 1
    config = CONFIG.replace(positions="none", scale_embedding=False)
    bare = {each.name: each for each in reading_table(build(config, seed=7), make_batch(config, DATA, 7))}
    assert bare["embedding"].measured == 0 and bare["embedding"].ours == "embedding x 1, then none positions"


def test_a_mask_that_hides_nothing_leaves_nothing_to_get_wrong() -> None:
    open_to_all = MaskConfig(encoder_self=(), decoder_self=(), cross=())
    now = read(open_to_all, DataConfig(src_len=7, tgt_len=5, batch_size=3, padding="none"))
    for name in ("true_in_attn_mask", "true_in_key_padding_mask", "fast_path_padding"):
        assert now[name].measured == 0 and now[name].verdict == "same", name


def test_a_query_without_keys_answers_by_its_fill(usual: dict[str, Reading]) -> None:
    assert math.isnan(usual["blind_rows"].measured) and usual["blind_rows_in_sdpa"].measured == 0
    unfilled = read(MaskConfig(fill="-inf"))
    assert unfilled["blind_rows"].verdict == "same", "NaN on both sides"
    assert math.isnan(unfilled["blind_rows_in_sdpa"].measured) and unfilled["blind_rows_in_sdpa"].verdict == "differs"


def test_one_sided_models_have_the_rows_that_concern_them() -> None:
    alone = read(architecture="decoder")
    assert "fast_path_padding" not in alone and alone["final_norm"].facts["stacks"] == 1
    assert alone["causal_alignment"].facts["keys"] == 5
    short = read(data=DataConfig(src_len=1, tgt_len=5, batch_size=3), architecture="encoder")
    assert "causal_alignment" not in short, "one query and one key cannot be unequal"


def test_what_torch_cannot_compute_is_refused_and_nothing_is_drawn() -> None:
    state = torch.get_rng_state()
    with pytest.raises(NoCounterpart, match="RMSNorm"):
        read(norm="rms")
    read(dropout=0.5)
    assert torch.equal(torch.get_rng_state(), state)


def test_every_row_is_told_in_both_languages_word_for_word(usual: dict[str, Reading]) -> None:
    told = words.section("en", "reading")
    assert {key.partition(".")[0] for key in told} == set(usual)
    for row in ROWS:
        for part in ("ours", "theirs", "look_at"):
            assert told[f"{row.name}.{part}"] == getattr(row, part)
        for language in words.LANGUAGES:
            for part in ("title", "ours", "theirs", "look_at"):
                assert words.text(language, f"reading.{row.name}.{part}", **usual[row.name].facts)


def test_a_row_is_plain_data(usual: dict[str, Reading]) -> None:
    row = json.loads(json.dumps(usual["blind_rows"].to_row()))
    assert row["measured"] == "nan" and row["verdict"] == "differs" and "exclude" in row["ours"]
