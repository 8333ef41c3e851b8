"""ModelConfig, MaskConfig, TrainConfig, DataConfig: what they accept, and the sentences with which they refuse."""

import copy
import dataclasses
import json
import math
import pickle
import re
import string
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transformer_core.checked import Checked, check_whole
from transformer_core.config import (
    MAX_WIDTH,
    RULES,
    ConfigError,
    DataConfig,
    MaskConfig,
    ModelConfig,
    TrainConfig,
    divisors,
    parse_rule,
)
from transformer_core.errors import MESSAGES, show
from transformer_core.rules import condition, split_rules

SECTIONS: tuple[type[Checked], ...] = (ModelConfig, MaskConfig, TrainConfig, DataConfig)


def refused(kind: Any, **settings: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        kind(**settings)
    return caught.value


# The heads and the width


@pytest.mark.parametrize(
    ("d_model", "n_heads", "text", "choices"),
    [
        (512, 7, "d_model 512 is not divisible by 7 heads; 4 and 8 are the nearest that divide it.",
         [{"n_heads": 4}, {"n_heads": 8}, {"d_model": 511}, {"d_model": 518}]),
        (10, 3, "d_model 10 is not divisible by 3 heads; 2 and 5 are the nearest that divide it. "
         "Possible head counts: 1, 2, 5, 10. With 3 heads the nearest widths are 9 and 12.",
         [{"n_heads": 2}, {"n_heads": 5}, {"d_model": 9}, {"d_model": 12}]),
        (64, 6, "Possible head counts: 1, 2, 4, 8, 16, 32, 64. With 6 heads the nearest widths are 60 and 66.",
         [{"n_heads": 4}, {"n_heads": 8}, {"d_model": 60}, {"d_model": 66}]),
        (4, 7, "d_model 4 is too narrow for 7 heads; 4 is the nearest that divides it.",
         [{"n_heads": 4}, {"d_model": 7}]),
    ],
)  # fmt: skip
def test_a_width_that_the_heads_do_not_divide_is_refused_with_all_ways_out(
    d_model: int, n_heads: int, text: str, choices: list[dict[str, int]]
) -> None:
    error = refused(ModelConfig, d_model=d_model, n_heads=n_heads)
    assert text in str(error)
    assert error.choices == choices
    assert (error.code, error.field, error.given) == (error.code, "n_heads", n_heads)
    assert error.values["d_model"] == d_model


@given(st.integers(1, MAX_WIDTH), st.integers(1, MAX_WIDTH))
def test_every_way_out_of_a_refused_width_is_open_and_no_nearer_one_exists(d_model: int, n_heads: int) -> None:
    settings = {"d_model": d_model, "n_heads": n_heads}
    if d_model % n_heads == 0:
        assert ModelConfig(**settings).d_head * n_heads == d_model
        return
    error = refused(ModelConfig, **settings)
    assert error.code == ("heads_divide" if n_heads < d_model else "heads_too_many")
    for choice in error.choices:
        ModelConfig(**{**settings, **choice})
    nearest = min(divisors(d_model), key=lambda n: abs(n - n_heads))
    assert {"n_heads": nearest} in error.choices
    assert nearest in error.values["counts"]


@pytest.mark.parametrize("number", [1, 2, 36, 97, 720, 65_536])
def test_divisors_are_exactly_the_numbers_that_divide(number: int) -> None:
    assert divisors(number) == [n for n in range(1, number + 1) if number % n == 0]


def test_an_odd_width_is_allowed() -> None:
    assert ModelConfig(d_model=21, n_heads=3, positions="sinusoidal").d_head == 7


# One value


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ("d_model", "64", 'd_model must be a whole number, got "64".'),
        ("d_model", 64.0, "d_model must be a whole number, got 64.0."),
        ("d_model", True, "d_model must be a whole number, got true."),
        ("d_model", None, "d_model must be a whole number, got None."),
        ("d_model", math.nan, "d_model must be a whole number, got nan."),
        ("d_model", Decimal(64), "d_model must be a whole number, got 64."),
        ("d_model", Fraction(64), "d_model must be a whole number, got 64."),
        ("d_model", [64], "d_model must be a whole number, got [64]."),
        ("d_model", 0, "d_model is 0; it must lie between 1 and 65536. The nearest is 1."),
        ("d_model", 70_000, "d_model is 70000; it must lie between 1 and 65536. The nearest is 65536."),
        pytest.param("d_model", 10**5000, "d_model is a number of thousands of digits; it must", id="huge"),
        ("n_heads", -4, "n_heads is -4; it must lie between 1 and 65536. The nearest is 1."),
        ("n_encoder_layers", 0, "n_encoder_layers is 0; it must lie between 1 and 1024."),
        ("src_vocab_size", 1, "src_vocab_size is 1; it must lie between 2 and 16777216."),
        ("pad_id", -1, "pad_id is -1; it must lie between 0 and"),
        ("dropout", math.nan, "dropout must be a finite number, got nan."),
        ("dropout", -math.inf, "dropout must be a finite number, got -inf."),
        ("dropout", 10**400, "dropout must be a finite number, got 1000"),
        ("dropout", "0.1", 'dropout must be a number, got "0.1".'),
        ("dropout", False, "dropout must be a number, got false."),
        ("dropout", 1, "dropout is 1; it must be at least 0 and less than 1. The nearest is 0.9."),
        ("dropout", -0.5, "dropout is -0.5; it must be at least 0 and less than 1. The nearest is 0."),
        ("norm_eps", 0.0, "norm_eps is 0.0; it must be greater than 0 and at most 1."),
        ("norm_eps", 2, "norm_eps is 2; it must be greater than 0 and at most 1."),
        ("bias", 1, "bias must be true or false, got 1."),
        ("bias", None, "bias must be true or false, got None."),
        ("final_norm", "yes", 'final_norm must be true or false, got "yes".'),
        ("norm_order", 1, "norm_order must be text, got 1."),
        ("norm_order", "poast", 'norm_order is "poast"; it can be post or pre. The nearest is post.'),
        ("norm_order", "\ud800", "norm_order holds half of a character"),
        ("norm", "batchnorm", 'norm is "batchnorm"; it can be layer, rms, batch or none. The nearest is batch.'),
        ("architecture", "decoder-only", "it can be encoder_decoder, encoder or decoder. The nearest is decoder."),
        ("positions", "rotary", 'positions "rotary" is not built yet; sinusoidal, learned and none are.'),
        ("positions", "alibi", 'positions "alibi" is not built yet; sinusoidal, learned and none are.'),
    ],
)
def test_a_model_setting_that_cannot_be_is_refused_by_name(field: str, value: Any, text: str) -> None:
    error = refused(ModelConfig, **{field: value})
    assert text in str(error)
    assert error.field == field
    assert error.given is value
    str(error).encode()  # whatever was given, the sentence can be shown


@pytest.mark.parametrize(
    ("settings", "choices"),
    [
        ({"d_model": 64.2}, [{"d_model": 64}]),
        ({"d_model": 1e9}, [{"d_model": 65_536}]),
        ({"d_model": math.inf}, []),
        ({"n_heads": 0}, [{"n_heads": 1}]),
        ({"dropout": 3}, [{"dropout": 0.9}]),
        ({"norm_eps": 7.0}, [{"norm_eps": 1.0}]),
        ({"bias": "no"}, [{"bias": True}, {"bias": False}]),
        ({"activation": "gleu"}, [{"activation": "gelu"}]),
        ({"positions": "rotary"}, [{"positions": "sinusoidal"}, {"positions": "learned"}, {"positions": "none"}]),
    ],
)
def test_a_refusal_offers_values_that_are_accepted(settings: dict[str, Any], choices: list[dict[str, Any]]) -> None:
    error = refused(ModelConfig, **settings)
    assert error.choices == choices
    for choice in choices:
        ModelConfig(**choice)


def test_numbers_of_other_libraries_become_plain_ones() -> None:
    config = ModelConfig(d_model=numpy.int64(60), n_heads=numpy.uint8(5), dropout=numpy.float32(0.25), norm_eps=1)
    assert [type(config.d_model), type(config.n_heads), type(config.dropout), type(config.norm_eps)] == [
        int, int, float, float,
    ]  # fmt: skip
    assert config == ModelConfig(d_model=60, n_heads=5, dropout=0.25, norm_eps=1.0)
    with pytest.raises(ConfigError, match="must be a whole number"):
        check_whole("d_model", numpy.bool_(True), 1, 9)


# The model as a whole


@pytest.mark.parametrize(
    ("norm_order", "final_norm", "expected"),
    [("post", None, False), ("pre", None, True), ("post", True, True), ("pre", False, False)],
)
def test_the_final_norm_follows_the_norm_order_unless_it_is_set(
    norm_order: str, final_norm: bool | None, expected: bool
) -> None:
    assert ModelConfig(norm_order=norm_order, final_norm=final_norm).has_final_norm is expected


@pytest.mark.parametrize(
    ("architecture", "encoder", "decoder"),
    [("encoder_decoder", True, True), ("encoder", True, False), ("decoder", False, True)],
)
def test_the_architecture_says_which_sides_there_are(architecture: str, encoder: bool, decoder: bool) -> None:
    config = ModelConfig(architecture=architecture)
    assert (config.has_encoder, config.has_decoder) == (encoder, decoder)


def test_padding_must_be_an_id_of_every_vocabulary_in_use() -> None:
    error = refused(ModelConfig, pad_id=89)
    assert str(error) == "pad_id is 89, but src_vocab_size is 89: ids go from 0 to 88."
    assert error.choices == [{"pad_id": 0}]
    assert ModelConfig(pad_id=89, architecture="decoder").pad_id == 89  # the source vocabulary is not in use


def test_n_layers_sets_both_sides() -> None:
    config = ModelConfig.from_dict({"n_layers": 3, "d_model": 32})
    assert (config.n_encoder_layers, config.n_decoder_layers, config.d_model) == (3, 3, 32)
    assert config.replace(n_layers=5).n_decoder_layers == 5
    with pytest.raises(ConfigError, match="n_layers sets n_encoder_layers and n_decoder_layers together"):
        ModelConfig.from_dict({"n_layers": 3, "n_encoder_layers": 2})
    with pytest.raises(ConfigError, match="n_layers must be a whole number, got true"):
        config.replace(n_layers=True)
    with pytest.raises(ConfigError, match="n_layers is 0; it must lie between 1 and 1024"):
        ModelConfig.from_dict({"n_layers": 0})


@pytest.mark.parametrize(
    ("key", "nearest"), [("d_modle", "d_model"), ("n_layer", "n_layers"), ("heads", "n_heads"), ("Dropout", "dropout")]
)
def test_an_unknown_key_is_refused_with_the_nearest_one(key: str, nearest: str) -> None:
    with pytest.raises(ConfigError) as caught:
        ModelConfig.from_dict({key: 3})
    assert f'[model] has no "{key}"; the nearest is {nearest}. It has: architecture, d_model,' in str(caught.value)
    assert caught.value.choices == [{nearest: 3}]
    with pytest.raises(ConfigError, match=re.escape(f'[model] has no "{key}"')):
        ModelConfig().replace(**{key: 3})


def test_replace_checks_again_and_leaves_the_original() -> None:
    config = ModelConfig()
    assert config.replace(d_model=72, n_heads=9).d_head == 8
    with pytest.raises(ConfigError, match="d_model 64 is not divisible by 5 heads"):
        config.replace(n_heads=5)
    assert config == ModelConfig()


@pytest.mark.parametrize("section", SECTIONS)
def test_sections_are_frozen_hashable_and_copied_whole(section: type[Checked]) -> None:
    config = section()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(config, config.keys()[0], None)
    assert hash(config) == hash(section())
    assert pickle.loads(pickle.dumps(config)) == copy.deepcopy(config) == config
    assert section.from_dict(config.to_dict()) == config.replace() == config


@pytest.mark.parametrize("section", SECTIONS)
def test_a_widget_learns_from_each_setting_what_it_takes(section: type[Checked]) -> None:
    for key in section.keys():
        facts = section.facts(key)
        assert facts["default"] == getattr(section(), key)
        if facts["kind"] == "whole":
            for edge in {facts["low"], facts["high"]} - {facts["default"]}:
                assert check_whole(key, edge, facts["low"], facts["high"]) == edge
        if facts["kind"] == "choice":
            for choice in facts["choices"]:
                extra = {"warmup": 1} if choice == "warmup" else {}
                assert getattr(section.from_dict({key: choice, **extra}), key) == choice


# Masks


@pytest.mark.parametrize("rule", ["padding", "causal", "documents", "custom"])
def test_rules_without_a_size(rule: str) -> None:
    assert parse_rule(rule) == (rule, None)
    with pytest.raises(ConfigError, match=f'the mask rule "{rule}:3" in cross takes no size; write {rule}.'):
        parse_rule(f"{rule}:3", "cross")


@pytest.mark.parametrize("rule", ["window", "prefix", "block", "strided"])
def test_rules_with_a_size(rule: str) -> None:
    assert parse_rule(f"{rule}:3") == parse_rule(f" {rule}: 03 ") == (rule, 3)
    for missing in (rule, f"{rule}:", f"{rule}: "):
        with pytest.raises(ConfigError, match=f"needs a size, as in {rule}:3"):
            parse_rule(missing)
    sizes = {"0": 1, "-2": 1, "2.5": 1, "three": 1, "٣": 1, "99999999": 1 << 20, "9" * 99: 1 << 20, "9" * 9999: 1}
    for size, nearest in sizes.items():
        with pytest.raises(ConfigError) as caught:
            parse_rule(f"{rule}:{size}")
        assert str(caught.value).endswith(f"a whole size between 1 and 1048576. The nearest is {rule}:{nearest}.")


def test_random_is_in_per_cent() -> None:
    assert parse_rule("random:1") == ("random", 1) and parse_rule("random: 099") == ("random", 99)
    for size, nearest in {"0": 1, "100": 99, "12.5": 1}.items():
        with pytest.raises(ConfigError, match=f"size between 1 and 99. The nearest is random:{nearest}"):
            parse_rule(f"random:{size}")
    with pytest.raises(ConfigError, match="needs a size, as in random:30"):
        parse_rule("random")


def test_a_condition_is_a_rule_in_one_spelling() -> None:
    masks = MaskConfig(cross=[" where:  q -k<3  and k>0"], decoder_self=["where:q < min(k, 3)"])
    assert masks.cross == ("where:q -k<3 and k>0",) and masks.decoder_self == ("where:q < min(k, 3)",)
    assert condition(masks.cross[0]).needs == {"q", "k"}
    for missing in ("where", "where:", "where: "):
        with pytest.raises(ConfigError, match="needs a condition behind the colon, as in where:q - k < 3"):
            parse_rule(missing)
    error = refused(MaskConfig, cross=["padding", "where:q - k < kk"])
    assert str(error) == (
        'the condition in cross names "kk" at column 9; it can be q, k, b, h, n_q, n_k, abs, min or max. '
        "The nearest is k."
    )
    assert error.choices == [{"cross": ("padding", "where:q - k < k")}]
    assert pickle.loads(pickle.dumps(error)).choices == error.choices


def test_rules_of_one_sequence_are_no_rules_between_two() -> None:
    for rule, said in {"prefix:2": "a prefix is for", "documents": "documents are for"}.items():
        error = refused(MaskConfig, cross=["padding", rule])
        assert f"{said} self-attention" in str(error) and error.choices == [{"cross": ("padding",)}]


def test_commas_between_rules_and_commas_inside_them() -> None:
    assert split_rules("causal,where:min(q,max(k,2))<3,window:2") == ["causal", "where:min(q,max(k,2))<3", "window:2"]
    assert split_rules("where:q < 3),causal") == ["where:q < 3)", "causal"]  # broken, and told so by its own rule
    assert split_rules("") == [""]


def test_an_unknown_rule_is_refused_with_the_nearest_one() -> None:
    error = refused(MaskConfig, decoder_self=["padding", "casual"])
    assert str(error) == (
        'decoder_self names the mask rule "casual"; it can be padding, causal, window:3, prefix:3, block:3, strided:3, '
        "random:30, documents, where:q - k < 3 or custom. The nearest is causal."
    )
    assert error.choices == [{"decoder_self": ("padding", "causal")}]
    assert MaskConfig(**error.choices[0]).decoder_self == ("padding", "causal")


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"cross": "padding"}, 'cross must be a list, got "padding".'),
        ({"cross": None}, "cross must be a list, got None."),
        ({"cross": [3]}, "cross must be text, got 3."),
        ({"cross": ["window:2", "window:3"]}, 'cross names the mask rule "window" twice'),
        ({"cross": ["where:q < 2", "where:k < 2"]}, 'cross names the mask rule "where" twice'),
        ({"cross": ["custom"]}, 'cross names "custom", but cross_custom holds no matrix'),
        ({"cross_custom": [[True]]}, 'cross_custom holds a matrix, but cross does not name "custom".'),
        ({"cross": ["custom"], "cross_custom": [[1, 2]]}, "row 1, column 2 is 2; a custom mask holds true"),
        ({"cross": ["custom"], "cross_custom": [[1.0]]}, "cross_custom row 1, column 1 is 1.0; a custom mask holds"),
        ({"cross": ["custom"], "cross_custom": [[1, 0], [1]]}, "row 2 holds 1 entries, but row 1 holds 2"),
        ({"cross": ["custom"], "cross_custom": []}, "cross_custom is empty"),
        ({"cross": ["custom"], "cross_custom": [[]]}, "cross_custom row 1 is empty"),
        ({"cross": ["custom"], "cross_custom": [1]}, "cross_custom row 1 must be a list, got 1"),
        ({"fill": "-1e8"}, 'fill is "-1e8"; it can be exclude, -inf, finfo_min or -1e9. The nearest is -1e9.'),
        ({"fill": -math.inf}, "fill must be text, got -inf."),
    ],
)
def test_masks_that_cannot_be_are_refused(settings: dict[str, Any], text: str) -> None:
    assert text in str(refused(MaskConfig, **settings))


def test_rules_and_matrices_are_kept_in_one_spelling() -> None:
    matrix = [[1, 0], [True, False]]
    masks = MaskConfig(encoder_self=[" window:03"], decoder_self=[], cross=["custom"], cross_custom=matrix)
    assert masks.encoder_self == ("window:3",)
    assert masks.decoder_self == ()
    assert masks.cross_custom == ((True, False), (True, False))
    assert {name for name, _ in map(parse_rule, masks.encoder_self + masks.cross)} <= set(RULES)


# Training


@pytest.mark.parametrize(
    ("settings", "steps"),
    [({}, 600), ({"epochs": 20}, 2000), ({"steps": 80}, 80), ({"steps": 80, "epochs": 20}, 80)],
)
def test_steps_count_before_epochs(settings: dict[str, int], steps: int) -> None:
    assert TrainConfig(**settings).total_steps == steps


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"schedule": "warmup"}, 'schedule "warmup" needs a warmup of at least 1 step, got 0; the paper takes 4000.'),
        ({"lr": 0}, "lr is 0; it must be greater than 0 and at most 100."),
        ({"lr": math.nan}, "lr must be a finite number, got nan."),
        ({"lr": 1000}, "lr is 1000; it must be greater than 0 and at most 100."),
        ({"steps": 0}, "steps is 0; it must lie between 1 and 1000000."),
        ({"steps": True}, "steps must be a whole number, got true."),
        ({"epochs": 2.5}, "epochs must be a whole number, got 2.5."),
        ({"batch_size": 0}, "batch_size is 0"),
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0; it must be at least 0 and less than 1."),
        ({"weight_decay": -1}, "weight_decay is -1; it must lie between 0 and 100. The nearest is 0."),
        ({"clip_norm": 0.0}, "clip_norm is 0.0; it must be greater than 0"),
        ({"optimizer": "adamW"}, "it can be adam or adamw. The nearest is adam"),
        ({"task": 3}, "task must be text, got 3."),
    ],
)
def test_training_that_cannot_be_is_refused(settings: dict[str, Any], text: str) -> None:
    assert text in str(refused(TrainConfig, **settings))


# Data


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"src_len": 0}, "src_len is 0; it must lie between 1 and"),
        ({"src": []}, "src is empty; it needs at least one entry."),
        ({"src": [[]]}, "src row 1 is empty"),
        ({"src": [[4, 5], [6]]}, "src row 2 holds 1 entries, but row 1 holds 2; all rows must be equally long."),
        ({"src": [[4, 5.0]]}, "src row 1, position 2 is 5.0; ids are whole numbers."),
        ({"src": [[4], [True]]}, "src row 2, position 1 is true; ids are whole numbers."),
        ({"src": "4 5"}, 'src must be a list, got "4 5".'),
        ({"src": ["45"]}, 'src row 1 must be a list, got "45".'),
        ({"tgt": [[1]], "tgt_text": ["a"]}, "tgt and tgt_text are both given; keep one of them."),
        ({"src_text": ""}, "src_text is empty"),
        ({"src_text": "\n \n"}, "src_text is empty"),
        ({"src_text": []}, "src_text is empty"),
        ({"src_text": "one\n\nthree"}, "src_text sentence 2 is blank"),
        ({"src_text": ["one", "  "]}, "src_text sentence 2 is blank"),
        ({"src_text": ["one", 2]}, "src_text sentence 2 must be text, got 2."),
        ({"src_text": ["\udfff"]}, "src_text sentence 1 holds half of a character"),
        ({"src_text": 3}, "src_text must be a list, got 3."),
        ({"split": "letters"}, "it can be word or char"),
        ({"pad_side": "top"}, "it can be left or right"),
    ],
)
def test_data_that_cannot_be_are_refused(settings: dict[str, Any], text: str) -> None:
    error = refused(DataConfig, **settings)
    assert text in str(error)
    str(error).encode()


def test_one_text_is_cut_into_its_lines() -> None:
    assert DataConfig(src_text="one two\nthree\n\n").src_text == ("one two", "three")
    assert DataConfig(src=[[4, 5]]).src == ((4, 5),)


# The sentences


def test_every_refusal_is_a_value_error_that_survives_a_copy() -> None:
    error = refused(ModelConfig, n_heads=6)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert isinstance(twin, ValueError)
        assert str(twin) == str(error)
        assert (twin.code, twin.field, twin.given, twin.choices, twin.values) == (
            error.code, error.field, error.given, error.choices, error.values,
        )  # fmt: skip


def test_values_of_a_refusal_fill_the_sentence_of_its_code_and_go_into_json() -> None:
    error = refused(ModelConfig, d_model=10, n_heads=3)
    names = {name for _, name, _, _ in string.Formatter().parse(MESSAGES[error.code]) if name}
    assert names <= set(error.values)
    assert json.loads(json.dumps(error.values))["counts"] == [1, 2, 5, 10]


@given(st.one_of(st.text(), st.binary(), st.integers(), st.floats(), st.lists(st.integers()), st.none(), st.booleans()))
def test_anything_at_all_is_either_accepted_or_refused_in_a_sentence_of_bounded_length(value: Any) -> None:
    for section in SECTIONS:
        for key in section.keys():
            try:
                section(**{key: value})
            except ConfigError as error:
                assert len(str(error)) < 700
                assert str(error).endswith(".")
                str(error).encode()


@given(st.text(alphabet=st.characters(exclude_categories=[])))
def test_show_keeps_any_text_short_and_writable(text: str) -> None:
    shown = show(text)
    assert len(shown) <= 60
    shown.encode()
