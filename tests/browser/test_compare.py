"""Compare: every tensor beside torch.nn, why they part, the sweep that fills in and stops, and the way to Explore."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from playwright.sync_api import expect

from tests.browser.test_access import PHONE, overflow, violations
from transformer_core import build, load_preset, parity

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.conftest import Visitor

PATIENCE = 30_000
STOP_WITHIN = 1000  # ms
FIRST = "encoder.layers.0.self_attention/output"
STOP = """() => new Promise((done) => {
  const box = document.querySelector(".tl-compare"), start = performance.now();
  new MutationObserver(() => { if (box.dataset.sweep === "stopped") done(performance.now() - start); })
    .observe(box, { attributes: true });
  box.querySelector("[data-job=stop]").click();
})"""


def compared(visitor: Visitor, state: str = "compared") -> Locator:
    """The view, once its numbers, or the reason why there are none, are on screen."""
    view = visitor.page.locator(".tl-compare")
    expect(view).to_have_attribute("data-state", state, timeout=PATIENCE)
    return view


def rows(view: Locator) -> Locator:
    return view.locator(".tl-c-list [role=row]")


def picked(view: Locator) -> Locator:
    return view.locator('[role=row][aria-selected="true"]')


def test_the_page_shows_what_the_library_finds_and_a_row_leads_to_explore(visitor: Visitor) -> None:
    visitor.tab("Compare")
    view, page = compared(visitor), visitor.page
    preset = load_preset("first_look")
    found = parity.compare(build(preset.model, preset.masks, 7).eval(), preset.batch(7), dtype=torch.float32)
    expect(view.locator(".tl-c-verdict")).to_contain_text(f"{len(found.forward)} of {len(found.forward)} tensors agree")
    shown = [row.get_attribute("data-key") for row in rows(view).all()]
    assert shown == [each.key for each in found.forward]
    expect(view.get_by_role("heading", name="No divergence")).to_be_visible()
    # The list is one Tab stop; the arrows move in it, Enter opens the tensor where its numbers are.
    rows(view).first.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    key = picked(view).get_attribute("data-key") or ""
    assert key == shown[2]
    page.keyboard.press("Enter")
    expect(page.get_by_role("tab", name="Explore")).to_have_attribute("aria-selected", "true")
    visitor.shown(key)
    # Every row of both directions as a file that a spreadsheet opens.
    visitor.tab("Compare")
    with page.expect_download() as download:
        view.get_by_role("button", name="Download all rows as CSV").click()
    text = Path(str(download.value.path())).read_text(encoding="utf-8")
    assert text.startswith("\ufeff")
    lines = list(csv.DictReader(io.StringIO(text[1:])))
    assert [line["key"] for line in lines] == [each.key for each in (*found.forward, *found.backward)]
    assert all(line["passed"] == "true" for line in lines)


def test_torchs_own_norms_part_the_gradients_and_one_button_removes_them(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer().open({"tab": "compare", "cmp_norm": "torch", "cmp_way": "backward"})
    view, page = compared(visitor), visitor.page
    expect(view.locator(".tl-c-verdict")).to_contain_text(
        "first divergence at encoder.layers.1.feed_forward_norm.weight"
    )
    expect(view.get_by_role("heading", name="First divergence: feed_forward_norm.weight")).to_be_visible()
    expect(view.locator(".tl-c-evidence")).to_contain_text("passes, for the wrong reason")
    expect(picked(view)).to_have_attribute("data-first", "yes")
    # F leads back to it from wherever one is.
    rows(view).first.click()
    expect(picked(view)).to_have_attribute("data-first", "no")
    page.keyboard.press("f")
    expect(picked(view)).to_have_attribute("data-first", "yes")
    # Forward the same function hides: all values pass, and the page says that this proves nothing.
    view.get_by_role("radio", name="forward").click()
    expect(view.locator(".tl-c-verdict")).to_have_attribute("data-verdict", "wrong_reason")
    page.wait_for_function("!location.search.includes('cmp_way')")
    view.get_by_role("button", name="Remove it from torch").click()
    expect(view.locator(".tl-c-verdict")).to_have_attribute("data-verdict", "agrees")
    expect(visitor.control("cmp_norm").get_by_role("combobox")).to_have_value("as in ours")
    page.wait_for_function("!location.search.includes('cmp_norm')")
    # The controls of the sidebar do the same, and the link says so.
    visitor.pick("cmp_dtype", "float64")
    expect(view.locator(".tl-c-facts")).to_contain_text("float64")
    expect(view.locator(".tl-c-legend .tl-c-limit")).to_contain_text("10⁻¹²")
    page.wait_for_function("location.search.includes('cmp_dtype=float64')")


def test_a_fault_is_found_where_it_is_and_refusals_lead_out(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer().open({"tab": "compare", "fault": "merge_without_transpose"})
    view = compared(visitor)
    expect(picked(view)).to_have_attribute("data-key", FIRST)
    expect(view.locator(".tl-c-reason")).to_contain_text("A fault is switched on")
    visitor.page.locator(".tl-notice").get_by_role("button", name="Turn it off").click()
    expect(view.locator(".tl-c-verdict")).to_have_attribute("data-verdict", "agrees", timeout=PATIENCE)
    # Without trained weights the numbers of before stay, and a button leads out.
    visitor.pick("cmp_weights", "trained")
    compared(visitor, "refused")
    expect(view.get_by_role("alert")).to_contain_text("There are no trained weights here")
    expect(rows(view).first).to_be_visible()
    expect(view.locator(".tl-c-stale")).to_contain_text("from the comparison before")
    view.get_by_role("button", name="weights: fresh").click()
    compared(visitor)
    expect(view.get_by_role("alert")).to_have_count(0)
    expect(visitor.control("cmp_weights").get_by_role("radio", name="fresh")).to_be_checked()
    # What is too large for the page is named, with the command that takes it.
    visitor.tab("Explore")
    with visitor.new_run():
        visitor.type("d_model", 512)
    visitor.tab("Compare")
    compared(visitor, "refused")
    expect(view.get_by_role("alert")).to_contain_text(
        "python -m transformer_core compare --preset first_look --set d_model=512"
    )


def test_the_sweep_fills_in_stops_within_a_second_and_names_what_torch_does(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer().open({"tab": "compare"})
    view, page = compared(visitor), visitor.page
    view.locator(".tl-c-sweep [data-job=sweep]").click()
    expect(view).to_have_attribute("data-sweep", "running")
    expect(view.locator(".tl-c-panels .tl-c-s-equal").first).to_be_visible(timeout=PATIENCE)
    took = page.evaluate(STOP)
    assert took < STOP_WITHIN, f"it took {took:.0f} ms"
    expect(view.locator(".tl-c-say")).to_contain_text("Stopped after")
    # Only eight lengths of one dtype and path are shown: the rest of the run does not have to be waited for.
    view.locator(".tl-c-sweep [data-job=sweep]").click()
    expect(view.locator(".tl-c-why")).to_have_count(2, timeout=4 * PATIENCE)
    expect(view.locator(".tl-c-say")).to_contain_text("torch’s fast path leaves padded positions out")
    panel = view.get_by_role("img", name=re.compile("^Post-LN, eval, no_grad"))
    panel.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    expect(view.locator(".tl-c-told")).to_contain_text("Post-LN, eval, no_grad, length 2, padding right · max |Δ|")
    page.evaluate(STOP)
    # A page that is left asks for nothing more: its rows are on the server, for whoever comes back to the tab.
    visitor.tab("Explore")
    visitor.tab("Compare")
    expect(view.locator(".tl-c-say")).to_contain_text("Stopped after")


def test_compare_can_be_read_by_everyone(newcomer: Callable[..., Visitor]) -> None:
    """axe in both themes and languages with everything on the page, and no sideways scroll on a phone."""
    visitor = newcomer().open({"tab": "compare", "cmp_norm": "torch", "cmp_way": "backward"})
    view, page = compared(visitor), visitor.page
    view.locator(".tl-c-reading tbody tr").nth(4).click()
    view.locator(".tl-c-speed summary").click()
    view.locator(".tl-c-speed [data-job=speed]").click()
    expect(view.locator(".tl-c-speed tbody tr")).to_have_count(16, timeout=2 * PATIENCE)
    expect(view).to_have_attribute("data-speed", "finished")
    assert page.evaluate("document.scrollingElement.scrollHeight - innerHeight") <= 0
    assert violations(visitor) == []
    page.locator("button.tl-theme").click()
    page.locator(".tl-lang [data-lang=zh]").click()
    expect(view.get_by_role("heading", name="首个分歧：feed_forward_norm.weight")).to_be_visible()
    assert violations(visitor) == []
    phone = newcomer(**PHONE).open({"tab": "compare", "cmp_norm": "torch"})
    view = compared(phone)
    assert overflow(phone) <= 0
    assert violations(phone, contrast=False) == []
    # The sweep is started in the settings, which then make room for it.
    phone.page.get_by_role("button", name="Open the settings").click()
    phone.page.locator(".tl-c-run [data-do=sweep]").click()
    expect(view).to_have_attribute("data-sweep", re.compile("running|finished"))
    expect(phone.page.locator("#tl-side")).to_be_hidden()
    phone.page.evaluate(STOP)
    assert overflow(phone) <= 0
