"""The payloads of Explore: complete, plain, small, in one language; and what the scripts rely on is there."""

from __future__ import annotations

import base64
import json
import re
import struct

import pytest
import torch

from explorer import figures, mathml, payload, theme, words
from explorer.detail import MASKED, REASONS, detail_payload
from explorer.limits import Limits
from explorer.live import run
from explorer.payload import explore_payload
from explorer.session import Session
from explorer.views import explore
from transformer_core import formulas

CROSS = "decoder.layers.1.cross_attention/weights"
SCRIPT = "\n".join((theme.ASSETS / name).read_text(encoding="utf-8") for name in explore.SCRIPTS)


def live_of(**choices):
    return run(Session.of_preset(choices.pop("preset", "first_look")).change(**choices), None, None, Limits())


@pytest.fixture(scope="module")
def live():
    return live_of()


@pytest.fixture(scope="module")
def shown(live):
    return explore_payload(live, "en")


def floats(encoded):
    raw = base64.b64decode(encoded)
    return list(struct.unpack(f"<{len(raw) // 4}f", raw))


# ----------------------------------------------------------------------------------------------------------- the ledger


def test_every_tensor_is_a_row_and_every_row_is_in_one_group_and_one_block(live, shown):
    assert [row["key"] for row in shown["rows"]] == live.ledger.keys()
    numbers = list(range(len(shown["rows"])))
    assert sorted(n for group in shown["groups"] for n in group["rows"]) == numbers
    assert sorted(n for block in shown["blocks"].values() for n in block["rows"]) == numbers
    for group in shown["groups"]:
        assert group["bytes"] == sum(shown["rows"][n]["bytes"] for n in group["rows"])


def test_rows_say_what_the_ledger_says(live, shown):
    told = {row["key"]: row for row in shown["rows"]}
    for wanted in live.ledger.to_rows():
        key = f"{wanted['path']}/{wanted['name']}" if wanted["path"] else wanted["name"]
        row = told[key]
        for name in ("index", "path", "name", "axes", "shape", "dtype", "contiguous", "bytes", "source"):
            assert row[name] == wanted[name], (key, name)
        formula = shown["formulas"][row["formula"]]
        assert formula["latex"] == wanted["formula"] and formula["paper"] == wanted["paper"]
        for told_number, number in zip(
            row["statistics"], [wanted[n] for n in ("min", "max", "mean", "std")], strict=False
        ):
            assert told_number == pytest.approx(number, rel=1e-5)


def test_a_row_carries_the_checks_that_speak_of_it(live, shown):
    told = {row["key"]: {shown["checks"][n]["name"] for n in row["checks"]} for row in shown["rows"]}
    for key in (CROSS, "src", "logits", "decoder.layers.0/cross_attention_norm"):
        assert told[key] == {result.name for result in live.results if key in result.entries}
    assert {"row_sums", "masked_keys"} <= told[CROSS]


def test_the_payload_is_strict_json_and_small(shown):
    text = json.dumps(shown, allow_nan=False)
    assert len(text) < 120_000
    assert len(json.dumps(shown["detail"])) < 10_000


@pytest.mark.parametrize(
    "choices",
    [
        {"preset": "deep_pre"},
        {"preset": "minimal_encoder"},
        {"architecture": "decoder", "positions": "none"},
        {"fill": "-inf", "pad_side": "left", "dtype": "bfloat16"},
        {"src_len": 80, "tgt_len": 70, "n_heads": 8},
        {"preset": "paper_big"},
    ],
    ids=lambda choices: " ".join(map(str, choices.values())),
)
def test_every_kind_of_run_has_a_payload_and_a_detail_for_every_row(choices):
    found = live_of(**choices)
    shown = explore_payload(found, "zh")
    json.dumps(shown, allow_nan=False)
    some = shown["rows"] if len(shown["rows"]) < 100 else shown["rows"][::7]
    for row in some:
        detail = detail_payload(found, row["key"], 1, 1, "en")
        json.dumps(detail, allow_nan=False)
        assert detail["code"] is not None, row["key"]
        assert detail["formula"]["sentence"], row["key"]
        assert detail["tensor"]["count"] * 1 == torch.Size(row["shape"]).numel()


# -------------------------------------------------------------------------------------------------------- the selection


def test_the_first_selection_is_the_last_cross_attention(shown):
    assert shown["selected"] == {"key": CROSS, "sample": 1, "head": 0, "chosen": False}
    assert shown["detail"]["key"] == CROSS


def test_a_selection_survives_while_its_tensor_exists():
    kept = explore_payload(live_of(selected="encoder.layers.0/feed_forward_sum", sample=1, head=3, n_heads=2), "en")
    assert kept["selected"] == {"key": "encoder.layers.0/feed_forward_sum", "sample": 1, "head": 1, "chosen": True}
    gone = explore_payload(live_of(selected=CROSS, architecture="encoder"), "en")
    assert gone["selected"]["key"] == "encoder.layers.1.self_attention/weights"


# ------------------------------------------------------------------------------------------------------------ the panes


def test_the_numbers_of_a_small_tensor_travel_whole_and_exact(live):
    tensor = detail_payload(live, CROSS, 0, 0, "en")["tensor"]
    value = live.ledger[CROSS].value
    assert tensor["whole"] and tensor["shape"] == list(value.shape)
    assert floats(tensor["values"]) == value.flatten().tolist()
    assert tensor["columns"] == live.batch.src_tokens and tensor["rows"] == live.batch.tgt_tokens


def test_a_large_map_travels_as_block_means_of_one_head():
    found = live_of(src_len=80, tgt_len=5)
    key = "encoder.layers.0.self_attention/weights"
    tensor = detail_payload(found, key, 1, 2, "en")["tensor"]
    value, allowed = found.ledger[key].value[1, 2], found.ledger[key.replace("weights", "allowed")].value[1, 2]
    assert not tensor["whole"] and tensor["block"] == [2, 2] and tensor["shown"] == [40, 40]
    assert allowed[:2, :2].all()
    assert floats(tensor["values"])[0] == pytest.approx(value[:2, :2].mean().item())
    assert tensor["leak"] == 0 and tensor["sums"] == pytest.approx([1.0, 1.0], abs=1e-6)
    assert len(base64.b64decode(tensor["why"])) == 1600


def test_why_a_pair_is_masked_names_the_rules(live):
    key = "decoder.layers.0.self_attention/allowed"
    tensor = detail_payload(live, key, 1, 0, "en")["tensor"]
    bits = base64.b64decode(tensor["why"])[25:]
    padding, causal = 1 << REASONS.index("padding"), 1 << REASONS.index("causal")
    assert bits[0] == 0
    assert bits[1] == causal | MASKED
    assert bits[4] == padding | causal | MASKED
    assert bits[24] == padding | MASKED


def test_rules_that_tell_heads_and_sentences_apart_name_their_reasons_for_each():
    found = live_of(encoder_self=("where:h == 1 or k < 2 + b", "documents", "padding"))
    key = "encoder.layers.0.self_attention/allowed"
    tensor = detail_payload(found, key, 1, 0, "en")["tensor"]
    value = found.ledger[key].value
    bits = torch.frombuffer(bytearray(base64.b64decode(tensor["why"])), dtype=torch.uint8).view(value.shape)
    assert tensor["whole"] and torch.equal(bits & MASKED == 0, value)
    own, padding = 1 << REASONS.index("custom"), 1 << REASONS.index("padding")
    assert bits[0, 0, 3].tolist() == [0, 0, *[own | MASKED] * 5] and not bits[0, 1].any()
    assert bits[1, 0, 0].tolist() == [0, 0, 0, own | MASKED, *[own | padding | MASKED] * 3]
    large = live_of(src_len=70, encoder_self=("where:h == 1 or k < 2",))
    reasons = [detail_payload(large, key, 0, head, "en")["tensor"]["why"] for head in (0, 1)]
    assert [len(set(base64.b64decode(each))) for each in reasons] == [2, 1]  # one head at a time, the one that is shown


def test_the_terms_of_a_formula_lead_to_the_rows_they_come_from(live):
    formula = detail_payload(live, CROSS.replace("weights", "scores"), 0, 0, "en")["formula"]
    queries, keys, root = formula["terms"]
    assert (queries["key"], keys["key"]) == (CROSS.replace("weights", "q"), CROSS.replace("weights", "k"))
    assert (queries["shape"], keys["shape"], root["shape"]) == ("2×4×5×16", "2×4×7×16", "√16 = 4")
    assert formula["result"]["key"] == CROSS
    hidden = detail_payload(live, "encoder.layers.0.feed_forward/hidden", 0, 0, "en")["formula"]["terms"]
    assert [term["shape"] for term in hidden if term.get("note") == "w_1.weight"] == ["128×64"]


def test_the_likeliest_words_are_those_of_the_logits(live):
    top = detail_payload(live, "logits", 1, 0, "en")["tensor"]["top"]
    value = live.ledger["logits"].value[1]
    assert len(top) == 5 and all(len(line) == 5 for line in top)
    assert top[3][0][1] == pytest.approx(value[3].max().item(), rel=1e-5)


def test_checks_are_said_in_both_languages(live):
    for result in live.results:
        english, chinese = (payload.check_words(result, lang) for lang in ("en", "zh"))
        assert english["title"] and re.search("[\u4e00-\u9fff]", chinese["title"])
        assert english["say"] != chinese["say"]
        assert english["blind"] and chinese["blind"]


# ------------------------------------------------------------------------------------------------------------- formulas


def test_every_formula_becomes_mathml_without_error_marks():
    for formula in formulas.FORMULAS:
        for latex in {formula.latex, *(formula.latex.replace(change.old, change.new) for change in formula.changes)}:
            for markup in (mathml.inline(latex, True), *mathml.block(latex, True)):
                assert markup.startswith("<math") and markup.endswith("</math>")
                assert "merror" not in markup and "\\" not in markup, latex
            assert "<mfrac>" not in mathml.inline(latex)


def test_queries_keys_and_values_have_their_colours():
    markup = mathml.inline(r"a = \frac{Q K^{\top}}{\sqrt{d_k}}", True)
    assert '<mi class="tl-mq">Q</mi>' in markup and '<mi class="tl-mk">K</mi>' in markup
    assert mathml.one_line(r"\frac{a + b}{c}") == "(a + b) / c"
    with pytest.raises(ValueError, match="unbalanced"):
        mathml.one_line(r"\frac{a")


# ---------------------------------------------------------------------------------------------------------- the scripts


def test_every_sentence_the_scripts_say_is_kept_in_both_languages():
    keys = words.section("en", "explore")
    said = set(re.findall(r"""\bt\(\s*"([a-z_0-9A-Z]+)["]""", SCRIPT)) | set(
        re.findall(r"""\bsay\("([a-z_]+)"\)""", SCRIPT)
    )
    said |= {name for pair in re.findall(r"""\bt\([^()"`]*\? "([a-z_]+)" : "([a-z_]+)\"""", SCRIPT) for name in pair}
    assert len(said) > 60
    assert said <= set(keys), said - set(keys)
    for family, names in {
        "reason": REASONS,
        "pane": ("formula", "tensor", "code", "check"),
        "empty": ("formula", "tensor", "code", "check"),
        "role": ("q", "k", "v"),
        "state": ("ok", "warn", "bad"),
        "column": re.findall(r'"(\w+)"', SCRIPT.split("const COLUMNS = [")[1].split("]")[0]),
        "code": ("made", "made_fed", "noted", "noted_fed"),
        "axis": ("B", "H", "q", "k", "n", "S", "T", "D", "Dh", "F", "V", "C"),
    }.items():
        assert {f"{family}_{name}" for name in names} <= set(keys), family


def test_every_label_of_the_figure_has_a_word():
    from explorer.places import towers
    from transformer_core import ModelConfig

    keys = words.section("en", "explore")
    for order in ("post", "pre"):
        for norm in ("layer", "none"):
            for architecture, classes in (("encoder_decoder", 0), ("encoder", 2), ("decoder", 0)):
                config = ModelConfig(architecture=architecture, norm_order=order, norm=norm, n_classes=classes)
                for tower in towers(config):
                    items = (*tower.below, *(item for part in tower.layer for item in part), *tower.above)
                    for item in items:
                        if item.kind not in ("tokens", "wire"):
                            assert f"block_{item.label or item.kind}" in keys


def test_the_scripts_take_no_markup_but_our_formulas():
    assert "innerHTML" not in SCRIPT and "insertAdjacentHTML" not in SCRIPT
    marked_up = re.findall(r"TL\.markup\(([^)]*)\)", SCRIPT)
    assert marked_up and all(
        re.fullmatch(r"formula\.inline|part|term\.math|found\.result\.math", each) for each in marked_up
    )


def test_the_style_sheet_has_no_list_that_gradio_would_cut():
    sheet = re.sub(r"/\*.*?\*/", "", (theme.ASSETS / "explore.css").read_text(encoding="utf-8"), flags=re.S)
    assert not re.search(r":(is|where|not|has)\([^)]*,", sheet)


def ramp(theme_name, ramp_name, part):
    """A cell's colour as CSS mixes it: linear in OKLab between the tokens."""
    token = theme.tokens()[theme_name]
    if ramp_name == "probability":
        ends = (token["p0"], token["pm"], part * 2) if part <= 0.5 else (token["pm"], token["p1"], part * 2 - 1)
    else:
        ends = (token["dmid"], token["dpos" if ramp_name == "positive" else "dneg"], part)
    one, other = (oklab(each) for each in ends[:2])
    return hex_of([a * (1 - ends[2]) + b * ends[2] for a, b in zip(one, other, strict=True)])


TO_LMS = [
    [0.4122214708, 0.5363325363, 0.0514459929],
    [0.2119034982, 0.6806995451, 0.1073969566],
    [0.0883024619, 0.2817188376, 0.6299787005],
]
TO_LAB = [
    [0.2104542553, 0.7936177850, -0.0040720468],
    [1.9779984951, -2.4285922050, 0.4505937099],
    [0.0259040371, 0.7827717662, -0.8086757660],
]


def oklab(colour):
    parts = torch.tensor([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)], dtype=torch.float64)
    linear = torch.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    return (
        torch.tensor(TO_LAB, dtype=torch.float64) @ (torch.tensor(TO_LMS, dtype=torch.float64) @ linear) ** (1 / 3)
    ).tolist()


def hex_of(lab):
    root = torch.linalg.solve(torch.tensor(TO_LAB, dtype=torch.float64), torch.tensor(lab, dtype=torch.float64))
    linear = torch.linalg.solve(torch.tensor(TO_LMS, dtype=torch.float64), root**3).clamp(0, 1)
    parts = torch.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return "#" + "".join(f"{round(part * 255):02X}" for part in parts.tolist())


@pytest.mark.parametrize("theme_name", ["light", "dark"])
@pytest.mark.parametrize("ramp_name", ["probability", "positive", "negative"])
def test_the_number_on_a_cell_has_the_contrast_it_needs(theme_name, ramp_name):
    table = {"light": "WHITE_FROM", "dark": "BLACK_FROM"}[theme_name]
    threshold = float(re.search(rf"const {table} = .*?{ramp_name}: ([\d.]+)", SCRIPT)[1])
    before, after = ("#000000", "#FFFFFF") if theme_name == "light" else ("#FFFFFF", "#000000")
    for step in range(figures.STEPS + 1):
        part = step / figures.STEPS
        number = after if part > threshold else before
        assert theme.contrast(number, ramp(theme_name, ramp_name, part)) >= 4.5, part


def test_the_component_is_one_constant_template_that_fires_select():
    html = explore.build().html
    assert html.html_template == '<div class="tl-explore"></div>'
    assert callable(html.select)
    assert "'select'" in html.js_on_load and html.js_on_load.startswith("TL.views.explore(")
    assert 'trigger("select"' in SCRIPT
