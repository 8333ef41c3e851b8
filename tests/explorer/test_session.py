"""A session is its preset and what differs from it; a link restores it, and nothing in a link is trusted."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from explorer.fields import BY_NAME, FIELDS, FROM_PRESET, clip, refusal_of
from explorer.limits import Limits
from explorer.refusals import Refusal, in_line
from explorer.session import EXAMPLES, Session, preset_of
from transformer_core.config import DataConfig, ModelConfig
from transformer_core.cost import estimate
from transformer_core.errors import ConfigError
from transformer_core.presets import preset_names

LIMITS = Limits()


# ---------------------------------------------------------------------------------------------------------- the table


def test_the_table_and_the_dataclass_have_the_same_fields_in_the_same_order():
    assert [field.name for field in FIELDS] == list(Session.__dataclass_fields__)


@pytest.mark.parametrize("name", preset_names())
def test_a_preset_is_a_session_in_which_nothing_differs(name):
    session, preset = Session.of_preset(name), preset_of(name)
    assert session.to_query() == ({} if name == "first_look" else {"preset": name})
    assert session.model_config() == preset.model
    assert session.mask_config() == preset.masks
    assert session.checked(LIMITS) is session


def test_a_preset_with_its_own_ids_keeps_them_until_its_sizes_are_changed():
    session = Session.of_preset("minimal_encoder")
    assert session.data_config().src == ((1, 2, 3, 4, 0), (5, 6, 7, 0, 0))
    assert (session.src_len, session.batch_size) == (5, 2)  # what the controls show is what runs
    assert session.change(src_len=6).data_config() == DataConfig(src_len=6, tgt_len=5, batch_size=2)


def test_conditions_of_masks_travel_in_the_link():
    rules = ("causal", "where:q - k < min(n_k, 3) and not h == 1", "random:99", "documents")
    first = Session.of_preset("first_look")
    session = first.change(decoder_self=rules)
    query = session.to_query()
    assert query == {"decoder_self": "causal,where:q - k < min(n_k, 3) and not h == 1,random:99,documents"}
    assert Session.from_query(query, LIMITS) == (session, [])
    assert session.mask_config().decoder_self == rules
    broken, notices = Session.from_query({"decoder_self": "causal,where:q - kk < 3"}, LIMITS)
    assert broken == first and "kk" in str(notices[0]) and "column 5" in str(notices[0])


def test_a_preset_is_never_read_from_a_path():
    for name in ("/etc/hostname", "../README", "presets/first_look.toml"):
        with pytest.raises(Refusal, match="preset"):
            BY_NAME["preset"].clean(name, LIMITS)
        with pytest.raises(ValueError, match="no preset"):
            preset_of(name)


# ----------------------------------------------------------------------------------------------------------- the link

CHANGES: dict[str, st.SearchStrategy[Any]] = {
    "preset": st.sampled_from(preset_names()),
    "d_ff": st.integers(1, 4096),
    "norm_order": st.sampled_from(["post", "pre"]),
    "positions": st.sampled_from(["sinusoidal", "learned", "none"]),
    "encoder_self": st.sampled_from([(), ("padding",), ("padding", "window:3"), ("block:2", "strided:4")]),
    "decoder_self": st.sampled_from([("causal",), ("padding", "causal", "prefix:1")]),
    "fill": st.sampled_from(["exclude", "-inf", "finfo_min", "-1e9"]),
    "src_text": st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=60),
    "dropout": st.floats(0, 0.9),
    "seed": st.integers(0, 2**31 - 1),
    "dtype": st.sampled_from(["float32", "float64", "bfloat16"]),
    "lang": st.sampled_from(["en", "zh"]),
    "tab": st.sampled_from(["explore", "train"]),
    "selected": st.sampled_from(["", "encoder.layers.0.self_attention/weights"]),
    "head": st.integers(0, 15),
    "task": st.sampled_from(["copy", "reverse", "first_last"]),
    "steps": st.integers(1, 5000),
}


@given(st.fixed_dictionaries({}, optional=CHANGES))
def test_a_link_gives_back_the_session_it_was_made_of(changes):
    session = (
        Session.of_preset(changes.pop("preset", "first_look")).with_task(changes.pop("task", "copy")).change(**changes)
    )
    try:
        session.checked(LIMITS)
    except Refusal:
        assume(False)  # one sentence against the preset's three
    assert Session.from_query(session.to_query(), LIMITS) == (session, [])


@given(
    st.dictionaries(st.one_of(st.sampled_from(list(BY_NAME)), st.text(max_size=30)), st.text(max_size=80), max_size=8)
)
def test_no_link_breaks_the_page(params):
    session, notices = Session.from_query(params, LIMITS)
    assert session.checked(LIMITS) is session
    assert len(notices) <= 6
    for each in notices:
        assert each.text("en") and each.text("zh")


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"d_modle": "64"}, "d_modle"),
        ({"d_model": "abc"}, "whole number"),
        ({"d_model": "1000000"}, "1024"),
        ({"n_heads": "1e9"}, "whole number"),
        ({"seed": "-1"}, "0 and 2147483647"),
        ({"dropout": "nan"}, "number"),
        ({"preset": "/etc/passwd"}, "first_look"),
        ({"positions": "rotary"}, "sinusoidal"),
        ({"cross": "window"}, "window:3"),
        ({"cross": "window:9999999"}, "window"),
        ({"encoder_self": "custom"}, "custom"),
        ({"selected": "<script>"}, "tensor"),
        ({"src_text": "x" * 5000}, "5000"),
        ({"d_model": "66"}, "not divisible"),
        ({"tokens": "text", "src_text": " ", "tgt_text": "a"}, "at least one sentence"),
        ({"tokens": "text", "src_text": "a\nb", "tgt_text": "a"}, "sentence"),
        ({"src_len": "100", "tgt_len": "128", "batch_size": "33"}, "32"),
    ],
)
def test_what_cannot_be_in_a_link_is_named_and_left_out(params, said):
    session, notices = Session.from_query(params, LIMITS)
    assert len(notices) == 1
    assert said in notices[0].text("en")
    assert session.checked(LIMITS).to_query().keys() <= {"tokens", "src_len", "tgt_len"} - set(params) | {
        "src_len",
        "tgt_len",
    }


def test_a_bad_value_does_not_take_the_good_ones_with_it():
    session, notices = Session.from_query(
        {"d_model": "66", "n_heads": "7", "cross": "padding,window:3", "seed": "11"}, LIMITS
    )
    assert [each.key for each in notices] == ["notices.bad_together"]
    assert session == Session.of_preset().change(cross=("padding", "window:3"), seed=11)


def test_gradios_own_parameters_are_no_notice():
    assert Session.from_query({"__theme": "dark", "view": "api", "session_hash": "x"}, LIMITS) == (
        Session.of_preset(),
        [],
    )


def test_another_task_brings_its_recipe_and_only_differences_from_it_are_written():
    session = Session.of_preset().with_task("first_last")
    assert session.steps == 700
    assert session.to_query() == {"task": "first_last"}
    assert session.change(steps=80).to_query() == {"task": "first_last", "steps": "80"}
    assert Session.from_query({"task": "first_last"}, LIMITS)[0].steps == 700


# --------------------------------------------------------------------------------------------------- untrusted values


@pytest.mark.parametrize(
    "value", [math.nan, math.inf, None, "64", "false", True, [64], {"a": 1}, 64.5, -1, 0, 10**400, 5000]
)
def test_a_width_that_is_none_is_refused_and_the_session_stays(value):
    session = Session.of_preset()
    with pytest.raises(Refusal, match="d_model") as caught:
        session.cleaned({"d_model": value}, LIMITS)
    assert len(str(caught.value)) < 300
    assert caught.value.field == "d_model"
    assert session == Session.of_preset()


def test_a_whole_number_may_come_as_a_float_since_sliders_send_those():
    cleaned = Session.of_preset().cleaned({"d_model": 128.0}, LIMITS).d_model
    assert cleaned == 128 and type(cleaned) is int


@pytest.mark.parametrize(
    "value", [None, "padding", ["padding", 3], ["nonsense"], ["window:0"], ["window:x"], ["padding"] * 9, [["causal"]]]
)
def test_rules_that_are_none_are_refused(value):
    with pytest.raises(Refusal):
        Session.of_preset().cleaned({"cross": value}, LIMITS)


@pytest.mark.parametrize("value", [None, 1, "", "Eval", ["eval"], {"mode": "eval"}])
def test_a_choice_is_one_of_the_words_and_nothing_like_it(value):
    with pytest.raises(Refusal, match="mode"):
        Session.of_preset().cleaned({"mode": value}, LIMITS)


def test_a_refusal_of_the_core_keeps_its_sentence_and_its_ways_out():
    with pytest.raises(Refusal) as caught:
        Session.of_preset().cleaned({"d_model": 66}, LIMITS)
    refusal = caught.value
    assert refusal.choices == ({"n_heads": 3}, {"n_heads": 6}, {"d_model": 64}, {"d_model": 68})
    for choice in refusal.choices:
        Session.of_preset().cleaned({"d_model": 66} | choice, LIMITS)  # each of them does help
    assert refusal.text("en") == str(refused_by_the_core(d_model=66))
    assert "66" in refusal.text("zh") and "整除" in refusal.text("zh")


def refused_by_the_core(**changes: Any) -> ConfigError:
    try:
        ModelConfig(**changes)
    except ConfigError as error:
        return error
    raise AssertionError(f"{changes} can be built")


def test_an_error_without_a_code_is_told_as_it_is():
    assert refusal_of(ValueError("the tea is cold")).text("zh") == "the tea is cold"


def test_a_length_is_refused_at_the_control_that_holds_it():
    with pytest.raises(Refusal) as caught:
        Session.of_preset("minimal_encoder").cleaned({"src_len": 13}, LIMITS)
    assert caught.value.field == "src_len"
    assert {"src_len": 12} in caught.value.choices


def test_values_of_strangers_are_clipped_before_they_are_printed():
    assert clip("a\x00b" + "c" * 100) == "a b" + "c" * 36 + "…"


def test_lists_are_joined_as_each_language_joins_them():
    assert in_line("en", "allowed", ["a", "b", "c"]) == "a, b or c"
    assert in_line("zh", "allowed", ["a", "b", "c"]) == "a、b 或 c"


# --------------------------------------------------------------------------------------------------------- typed text


def test_typed_text_becomes_sentences_and_words():
    session = Session.of_preset().change(tokens="text", src_text="the tea\n\n  is hot  ", tgt_text="茶 热\n好")
    assert session.data_config().src_text == ("the tea", "is hot")
    assert session.checked(LIMITS) is session


def test_the_boxes_begin_with_sentences_that_can_be_run():
    session = Session.of_preset().change(tokens="text")
    assert session.src_text == EXAMPLES["src_text"]
    assert session.checked(LIMITS).to_query() == {"tokens": "text"}


def test_too_many_sentences_or_words_are_refused_before_anything_is_built():
    small = Limits(max_batch=2, max_length=4)
    base = Session.of_preset().change(tokens="text", tgt_text="a\nb", src_text="a\nb")
    with pytest.raises(Refusal, match="3 sentences"):
        base.change(src_text="a\nb\nc").checked(small)
    with pytest.raises(Refusal, match="5 tokens"):
        base.change(src_text="a b c d e\nf").checked(small)
    with pytest.raises(Refusal, match="5 tokens"):
        base.change(src_text="abcde\nf", split="char").checked(small)


# ------------------------------------------------------------------------------------------------ transitions, limits


def test_another_preset_keeps_what_is_not_its_own():
    before = Session.of_preset().change(
        lang="zh", seed=11, dtype="float64", tab="train", d_model=128, selected="memory", head=2, weights="trained"
    )
    after = before.choose_preset("shape_check")
    assert {name: getattr(after, name) for name in FROM_PRESET} == {
        name: getattr(Session.of_preset("shape_check"), name) for name in FROM_PRESET
    }
    assert (after.lang, after.seed, after.dtype, after.tab) == ("zh", 11, "float64", "train")
    assert (after.selected, after.head, after.weights) == ("", 0, "fresh")


def test_touched_masks_drop_the_presets_matrix_and_untouched_ones_keep_it():
    assert Session.of_preset().change(cross=("window:2",)).mask_config().cross == ("window:2",)
    assert Session.of_preset().mask_config() == preset_of("first_look").masks


def test_limits_come_from_the_environment_and_nonsense_there_stops_the_start():
    assert Limits.from_environment({}) == Limits()
    assert Limits.from_environment({"TRANSFORMER_LEDGER_MAX_LENGTH": "64"}) == Limits(max_length=64)
    for nonsense in ("", "0", "-3", "many", "1e9"):
        with pytest.raises(ValueError, match="TRANSFORMER_LEDGER_MAX_LENGTH"):
            Limits.from_environment({"TRANSFORMER_LEDGER_MAX_LENGTH": nonsense})


def test_paper_base_is_run_and_paper_big_is_only_laid_out():
    costs = {name: estimate(preset_of(name).model, 2, 13, 11) for name in ("first_look", "paper_base", "paper_big")}
    assert [LIMITS.fit(cost) for cost in costs.values()] == [True, True, False]
