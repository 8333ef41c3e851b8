"""The tokens can be read on each other in both themes, and nothing in the assets comes from elsewhere."""

from __future__ import annotations

import json
import re

import pytest

from explorer import theme

TOKENS = theme.tokens()
SURFACES = ("paper", "sunken", "raised")
TINTS = ("hl", "hl2", "okbg", "badbg", "warnbg")
# Text on what it is really set on. ink3 is too light for the strong highlighter and must not stand there.
TEXT = [
    *((ink, ground) for ink in ("ink", "ink2") for ground in (*SURFACES, *TINTS)),
    *(("ink3", ground) for ground in (*SURFACES, "hl2")),
    *(("accent", ground) for ground in (*SURFACES, "hl", "hl2")),
    *((letter, ground) for letter in ("q", "k", "v") for ground in (*SURFACES, "hl")),
    ("ok", "okbg"), ("bad", "badbg"), ("warn", "warnbg"), *((verdict, "paper") for verdict in ("ok", "bad", "warn")),
    *((code, ground) for code in ("kw", "str", "com", "num", "fn") for ground in ("sunken", "paper")),
    ("paper", "ink"), ("paper", "ok"), ("paper", "bad"), ("paper", "warn"), ("paper", "ink3"), ("onaccent", "accent"),
    ("ink2", "hatchbg"), ("ink", "hatchbg"),
]  # fmt: skip
MARKUP = re.compile(r"\.(inner|outer)HTML\s*\+?=(?!=)|insertAdjacentHTML|document\.write")
OUTLINES = (
    [("edge", ground) for ground in SURFACES]
    + [("accent", ground) for ground in SURFACES]
    + [("hledge", "paper"), ("hledge", "hl")]
)


@pytest.mark.parametrize("look", ["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), TEXT)
def test_text_can_be_read(look, ink, ground):
    assert theme.contrast(TOKENS[look][ink], TOKENS[look][ground]) >= 4.5


@pytest.mark.parametrize("look", ["light", "dark"])
@pytest.mark.parametrize(("line", "ground"), OUTLINES)
def test_outlines_can_be_seen(look, line, ground):
    assert theme.contrast(TOKENS[look][line], TOKENS[look][ground]) >= 3.0


@pytest.mark.parametrize("look", ["light", "dark"])
@pytest.mark.parametrize("ends", [("p0", "pm"), ("pm", "p1"), ("dmid", "dneg"), ("dmid", "dpos")])
def test_one_of_black_and_white_can_be_read_on_every_colour_of_a_ramp(look, ends):
    one, other = (TOKENS[look][name] for name in ends)
    for step in range(21):
        mixed = "#" + "".join(
            f"{round(int(one[i : i + 2], 16) * (1 - step / 20) + int(other[i : i + 2], 16) * step / 20):02x}"
            for i in (1, 3, 5)
        )
        assert max(theme.contrast(mixed, "#000000"), theme.contrast(mixed, "#ffffff")) >= 4.5


def test_both_themes_have_the_same_tokens():
    assert TOKENS["light"].keys() == TOKENS["dark"].keys()
    assert len(TOKENS["light"]) >= 38


def test_contrast_is_that_of_the_guidelines():
    assert theme.contrast("#000000", "#FFFFFF") == pytest.approx(21)
    assert theme.contrast("#777777", "#FFFFFF") == pytest.approx(4.478, abs=0.001)  # the grey that just fails
    assert theme.contrast("#FFFFFF", "#FFFFFF") == 1


@pytest.mark.parametrize("path", sorted(theme.ASSETS.iterdir()), ids=lambda path: path.name)
def test_no_asset_asks_another_host(path):
    text = path.read_text(encoding="utf-8")
    addresses = set(re.findall(r"(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s\"'`)]*", text)) - {"//www.w3.org/2000/svg"}
    assert not {each for each in addresses if "www.w3.org" not in each}
    assert "@import" not in text


@pytest.mark.parametrize("path", sorted(theme.ASSETS.glob("*.js")), ids=lambda path: path.name)
def test_no_script_makes_markup_of_text(path):
    """innerHTML is for TL.markup alone, which takes the formulas of our own table."""
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if MARKUP.search(line)]
    assert len(lines) == (1 if path.name == "shared.js" else 0), lines


@pytest.mark.parametrize("path", sorted(theme.ASSETS.glob("*.css")), ids=lambda path: path.name)
def test_every_token_that_a_style_sheet_uses_exists(path):
    known = set(re.findall(r"(--[a-z0-9_-]+)\s*:", theme.css())) | {"--range_progress"}
    text = path.read_text(encoding="utf-8")
    used = {name for name in re.findall(r"var\((--[a-z0-9_-]+)\s*\)", text)}
    set_by_scripts = set(
        re.findall(
            r"[\"'`](--[a-z0-9_-]+)", "\n".join(p.read_text(encoding="utf-8") for p in theme.ASSETS.glob("*.js"))
        )
    )
    assert not used - known - set_by_scripts


def test_words_cannot_end_the_script_they_stand_in():
    head = theme.head({"en": {"frame.title": "</script><b>"}})
    assert "</script><b>" not in head
    said = json.loads(re.search(r"window\.TL_WORDS = (.*?);</script>", head)[1])
    assert said == {"en": {"frame.title": "</script><b>"}}


def test_a_script_that_would_end_its_element_is_refused(tmp_path, monkeypatch):
    (tmp_path / "bad.js").write_text("const x = '</script>';")
    monkeypatch.setattr(theme, "ASSETS", tmp_path)
    with pytest.raises(ValueError, match=r"bad\.js"):
        theme.script("bad.js")


def test_gradio_is_pointed_at_our_tokens_in_both_themes():
    built = theme.build()
    assert built.body_background_fill == built.body_background_fill_dark == "var(--paper)"
    assert "fonts.googleapis" not in built._get_theme_css()
