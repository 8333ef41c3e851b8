"""Sentences: built-in or a file, in both directions, learned from; by keys, on a phone, in Chinese."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from playwright.sync_api import expect

from tests.browser.conftest import PATIENCE, Visitor
from tests.browser.test_access import PHONE, overflow, violations

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Locator

LONG = 3 * PATIENCE


def panel(visitor: Visitor) -> Locator:
    return visitor.page.locator(".tl-corpus")


def press(visitor: Visitor, key: str) -> None:
    visitor.page.locator(f'.tl-corpus [data-key="{key}"]').click()


def pairs(folder: Path) -> Path:
    """80 pairs, a blank line, and one that would like to be markup."""
    animals, verbs = (
        ("猫 cat", "狗 dog", "鸟 bird", "马 horse"),
        ("看见 sees", "喜欢 likes", "怕 fears", "等 awaits", "叫 calls"),
    )
    lines = []
    for (who, one), (does, verb), (whom, other) in product(
        *([each.split() for each in part] for part in (animals, verbs, animals))
    ):
        lines.append(f"The {one} {verb} the {other}.\t{who}{does}{whom}。")
    path = folder / "animals.tsv"
    path.write_text("\n".join([*lines, "", "<img src=x onerror=alert(1)>\t<b>坏</b>"]), encoding="utf-8")
    return path


def test_a_file_is_put_in_turned_round_and_learned_from(newcomer: Callable[..., Visitor], tmp_path: Path) -> None:
    visitor = newcomer().open({"tab": "train", "task": "translation"})
    page, box = visitor.page, panel(visitor)
    expect(box).to_contain_text("6,300 lines · 5,985 pairs to learn · 315 held out", timeout=LONG)
    page.locator(".tl-corpus input[type=file]").set_input_files(str(pairs(tmp_path)))
    expect(box).to_contain_text("82 lines", timeout=LONG)
    expect(box).to_contain_text("1 blank lines 81")
    expect(box.get_by_role("button", name="animals.tsv")).to_have_attribute("aria-pressed", "true")
    assert page.locator(".tl-corpus img, .tl-corpus .tl-co-pairs b").count() == 0
    press(visitor, "backward")
    expect(box.locator(".tl-co-src").first).to_contain_text(re.compile("[a-z]"), timeout=LONG)
    # A number that cannot be is refused beside it, and the sentences stay.
    page.get_by_label("words met at least").fill("0")
    page.keyboard.press("Tab")
    expect(box.get_by_role("alert")).to_have_text(
        "words met at least: a whole number between 1 and 100 is wanted.", timeout=LONG
    )
    visitor.type("steps", 2)
    visitor.press("play")
    expect(visitor.state).to_contain_text("All 2 steps done", timeout=LONG)
    press(visitor, "built-in")
    expect(box).to_contain_text("6,300 lines", timeout=LONG)
    visitor.train("copy", 2)
    expect(box).to_be_hidden()


def test_it_is_read_on_a_phone_in_chinese_and_by_a_screen_reader(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer(**PHONE).open({"tab": "train", "task": "translation", "lang": "zh"})
    expect(panel(visitor)).to_contain_text("没有源句同时出现在两边", timeout=LONG)
    assert overflow(visitor) == 0
    assert [each for each in violations(visitor) if "tl-co" in each] == []
