"""Everyone can use it: by keys alone, on a phone, in both themes and languages, as axe sees it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

if TYPE_CHECKING:
    from tests.browser.conftest import Visitor

PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True, "device_scale_factor": 2}
GRAVE = ("serious", "critical")


def violations(visitor: Visitor, contrast: bool = True) -> list[str]:
    """What axe finds grave on the page as it is now: rule, and where. Contrast takes most of its time."""
    visitor.page.evaluate("Promise.all(document.getAnimations().map((each) => each.finished))")  # no colour half way
    options = {"resultTypes": ["violations"], "rules": {"color-contrast": {"enabled": contrast}}}
    return [
        f"{rule['id']} ({rule['impact']}): {node['target'][-1]} {' '.join(node['failureSummary'].split())[:160]}"
        for rule in Axe().run(visitor.page, options=options).response["violations"]
        if rule["impact"] in GRAVE
        for node in rule["nodes"]
    ]


def overflow(visitor: Visitor) -> float:
    """By how many pixels the page is wider than its window."""
    return visitor.page.evaluate("document.scrollingElement.scrollWidth - document.documentElement.clientWidth")


@pytest.mark.timeout(300)  # twelve looks, each at a few thousand elements
def test_axe_finds_nothing_grave(newcomer: Callable[..., Visitor]) -> None:
    """On three tabs, in both themes and both languages; the typed sentences and a finished run are on the page too."""
    visitor = newcomer().open({"tokens": "text", "steps": 4})
    page = visitor.page
    visitor.tab("Train")
    visitor.press("play")
    expect(visitor.progress).to_have_attribute("aria-valuenow", "4")
    expect(page.locator(".tl-tr-samples tbody tr").first).to_be_visible()
    found = {}
    for theme in ("light", "dark"):
        for lang in ("en", "zh"):
            page.locator(f".tl-lang [data-lang={lang}]").click()
            expect(visitor.explore).to_have_attribute("data-ready", re.compile(f"-{lang}$"))
            for tab in (0, 1, 2):
                page.get_by_role("tab").nth(tab).click()
                # A theme changes colours only, a language words only: each of both once with everything is enough.
                found[theme, lang, tab] = violations(
                    visitor, contrast=(theme, lang) in (("light", "en"), ("dark", "zh"))
                )
        page.locator("button.tl-theme").click()
    assert {place: grave for place, grave in found.items() if grave} == {}


def test_axe_finds_nothing_grave_where_something_is_wrong(newcomer: Callable[..., Visitor]) -> None:
    """Refusal, notice, failed checks and the list of keys are read as well."""
    selected = "decoder.layers.0.self_attention/weights"
    visitor = newcomer().open({"nonsense": 1, "pad_side": "left", "fill": "-inf", "selected": selected})
    visitor.type("d_model", 63)
    expect(visitor.page.get_by_role("alert").filter(has_text="not divisible")).to_be_visible()
    assert violations(visitor) == []
    visitor.page.get_by_role("button", name="? keys").click()
    expect(visitor.page.get_by_role("dialog")).to_be_visible()
    assert violations(visitor) == []


def test_a_phone_shows_everything_within_its_width(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer(**PHONE).open()
    page = visitor.page
    side, menu = page.locator("#tl-side"), page.get_by_role("button", name="Open the settings")
    expect(side.get_by_role("heading", name="Model")).not_to_be_in_viewport()
    assert overflow(visitor) <= 0
    assert violations(visitor) == []
    # The settings open over the page, close again, and the run follows.
    menu.click()
    expect(side.get_by_role("heading", name="Model")).to_be_in_viewport()
    box = side.bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390
    with visitor.new_run():
        visitor.pick("n_heads", "8")
    assert overflow(visitor) <= 0
    side.get_by_role("button", name="Close the settings").click()
    expect(side.get_by_role("heading", name="Model")).not_to_be_in_viewport()
    expect(menu).to_be_visible()
    # A block is tapped, its row opens, the bar at the edge jumps to the panes.
    page.locator(".tl-x-fig1 [data-block$='layers.1.self_attention']").first.tap()
    selected = page.locator(".tl-x-rows tr[aria-selected=true]")
    expect(selected).to_have_attribute("data-key", re.compile("self_attention/"))
    bar = page.get_by_role("navigation", name="Panes")
    for name in ("code", "formula", "check", "tensor"):
        expect(bar).to_be_in_viewport(ratio=1)
        bar.get_by_role("button", name=name, exact=False).tap()
        expect(visitor.pane(name).get_by_role("heading")).to_be_in_viewport()
        expect(visitor.pane(name)).to_be_focused()
        assert overflow(visitor) <= 0
    expect(bar).to_be_in_viewport(ratio=1)
    visitor.tab("Train")
    expect(visitor.page.get_by_role("button", name="Play", exact=True)).to_be_in_viewport()
    assert overflow(visitor) <= 0
    assert violations(visitor) == []


def test_the_whole_way_by_keys_alone(visitor: Visitor) -> None:
    page, press = visitor.page, visitor.page.keyboard.press

    def walk(to: str, key: str = "Tab", limit: int = 90) -> None:
        """Tab until the focus is on what this selector names; every stop must be visible."""
        for _ in range(limit):
            press(key)
            here = page.evaluate(
                """(to) => { const at = document.activeElement; const box = at.getBoundingClientRect();
                   return { there: at.matches(to), seen: box.width * box.height > 0 || at === document.body,
                            name: `${at.tagName} ${at.className} ${at.id}` }; }""",
                to,
            )
            assert here["seen"], f"the focus is on {here['name']}, which cannot be seen"
            if here["there"]:
                return
        raise AssertionError(f"no way by {key} to {to}")

    walk("#tl-f-n_heads input:checked")  # a group of choices is one stop; the arrows move inside it
    with visitor.new_run():
        press("ArrowRight")
    expect(visitor.control("n_heads").get_by_role("radio", name="8", exact=True)).to_be_checked()
    walk("#tl-f-masks input[aria-label='window, encoder self-attention']")
    with visitor.new_run():
        press("Space")
    walk(".tl-x-fig1 [data-block]")
    press("ArrowLeft")
    assert page.evaluate("document.activeElement.dataset.block").startswith("encoder.")
    press("Enter")
    expect(page.locator(".tl-x-fig1 [aria-pressed=true]")).to_have_attribute("data-block", re.compile("^encoder"))
    walk(".tl-x-rows tr")
    expect(page.locator("*:focus")).to_have_attribute("aria-selected", "true")
    key = page.locator("*:focus").get_attribute("data-key")
    press("ArrowUp")
    press("Enter")
    expect(page.locator(".tl-x-rows tr[aria-selected=true]")).not_to_have_attribute("data-key", key or "")
    selected = page.locator(".tl-x-rows tr[aria-selected=true]").get_attribute("data-key")
    visitor.shown(selected or "")
    press("ArrowLeft")  # to the line of its group, which the next one folds
    press("ArrowLeft")
    expect(page.locator("*:focus")).to_have_attribute("aria-expanded", "false")
    # Find, by a letter key; inside the field letters are letters.
    press("/")
    page.keyboard.type("cross_attention/weights")
    expect(page.locator(".tl-x-count")).to_have_text("2 of 87 found")
    press("ArrowDown")
    press("Enter")
    press("]")
    visitor.shown("decoder.layers.0.cross_attention/weights", head=1)
    press("[")
    visitor.shown("decoder.layers.0.cross_attention/weights", head=0)
    press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    # Train: a digit takes the tab, Space plays and pauses.
    press("3")
    expect(page.get_by_role("tab", name="Train")).to_have_attribute("aria-selected", "true")
    walk(".tl-tr-transport [data-do=play]")
    press("Space")
    visitor.beyond(0)
    press("Space")
    expect(visitor.state).to_contain_text("Paused at step")
    at = visitor.step()
    press("ArrowRight")
    visitor.beyond(at)
    press("r")
    expect(visitor.state).to_contain_text("At the start")
    press("1")
    expect(page.get_by_role("tab", name="Explore")).to_have_attribute("aria-selected", "true")
