"""Decode: the trap for greedy search step by step, a table that is edited, a sentence that is typed, all ways in."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from playwright.sync_api import expect

from tests.browser.test_access import PHONE, overflow, violations
from transformer_core import build, decoding, tasks
from transformer_core.config import FIRST_FREE

if TYPE_CHECKING:
    from playwright.sync_api import Locator

    from tests.browser.conftest import Visitor

PATIENCE = 40_000
TRAP = {"tab": "decode", "dec_from": "greedy_trap", "dec_width": 2, "dec_length": 4}


def decoded(visitor: Visitor, state: str = "shown") -> Locator:
    """The view, once a search, or the reason why there is none, is on screen."""
    view = visitor.page.locator(".tl-decode")
    expect(view).to_have_attribute("data-state", state, timeout=PATIENCE)
    return view


def best(view: Locator) -> Locator:
    """The first hypothesis."""
    return view.locator(".tl-d-hyps tbody tr").first


def box(view: Locator, name: str) -> Locator:
    return view.locator(f'.tl-d-node[data-id="{name}"]')


def test_h29_the_trap_is_walked_step_by_step_and_a_wider_beam_gets_out(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer().open(TRAP | {"dec_method": "greedy"})
    view, page = decoded(visitor), visitor.page
    expect(best(view)).to_contain_text("A A A A")
    expect(best(view)).to_contain_text("−3.413578")
    expect(best(view)).to_contain_text("unfinished")
    expect(box(view, "2")).to_have_accessible_name(re.compile("^B, cut: probability .40"))
    expect(view.locator(".tl-d-truth")).to_contain_text("A beam of 2 finds the best of all sequences")
    # A wider beam in the sidebar; the link says so.
    page.locator('#tl-d-side [data-keep="method-beam"]').click()
    expect(best(view)).to_contain_text("B EOS")
    expect(best(view)).to_contain_text("−1.021651")
    page.wait_for_function("!location.search.includes('dec_method')")
    # One step back and on, by keys; what comes later is not drawn yet.
    view.locator(".tl-d-where").click()  # inside a group of choices the arrows are the group's
    page.locator("body").press("ArrowLeft")
    expect(view.locator(".tl-d-where")).to_contain_text("step 1 of 2 · 2 candidates: 2 kept")
    expect(box(view, "2.0")).to_have_count(0)
    page.wait_for_function("location.search.includes('dec_step=1')")
    page.locator("body").press("ArrowRight")
    expect(box(view, "2.0")).to_be_visible()
    # The tree is one Tab stop; arrows follow a branch, and the distribution beside it follows them.
    box(view, "s").focus()
    for key, at in (("ArrowRight", "1"), ("ArrowDown", "2"), ("ArrowRight", "2.0"), ("ArrowLeft", "2")):
        page.keyboard.press(key)
        expect(box(view, at)).to_be_focused()
    expect(view.locator(".tl-d-look")).to_contain_text("after B")
    expect(view.locator(".tl-d-dist")).to_contain_text("0.9000")
    page.wait_for_function("location.search.includes('dec_node=2')")
    page.reload()
    visitor.ready()
    expect(box(decoded(visitor), "2")).to_have_attribute("aria-selected", "true")


def test_h30_dividing_by_the_length_changes_the_answer_and_tables_can_be_edited(
    newcomer: Callable[..., Visitor],
) -> None:
    visitor = newcomer().open({"tab": "decode"})
    view, page = decoded(visitor), visitor.page
    page.locator('#tl-d-side [data-keep="length_trap"]').click()
    expect(best(view)).to_contain_text("A EOS")
    page.locator('#tl-d-side [data-keep="dec_norm-on"]').click()
    expect(best(view)).to_contain_text("B A B EOS")
    expect(best(view)).to_contain_text("−0.977209 / 4 = −0.244302")
    expect(view.locator(".tl-d-formula")).to_contain_text("the end token counted")
    # A row that does not add up is refused at the table, which stays as it is; one button scales it.
    cell = view.get_by_role("spinbutton", name="probability of EOS after B A B")
    cell.fill("0.5")
    expect(view.get_by_role("alert")).to_contain_text("After B A B the probabilities add up to 0.53")
    expect(best(view)).to_contain_text("B A B EOS")
    view.get_by_role("button", name="Scale every row to 1").click()
    expect(view.get_by_role("alert")).to_have_count(0)
    expect(cell).to_have_value(re.compile("^0.943"))
    page.wait_for_function("location.search.includes('dec_table=')")
    view.get_by_role("button", name="Back to the trap’s own").click()
    expect(cell).to_have_value("0.97")
    expect(best(view)).to_contain_text("B A B EOS")
    # A link whose table is none, or whose search is too long, says so in the middle of the page, with a way out.
    view = newcomer().open({"tab": "decode", "dec_from": "length_trap", "dec_table": "none"}).page.locator(".tl-decode")
    expect(view.get_by_role("alert")).to_be_visible()
    view.get_by_role("button", name="Back to the trap’s own").click()
    expect(best(view)).to_contain_text("A EOS")
    long = {"tab": "decode", "dec_from": "length_trap", "dec_method": "exhaustive", "dec_length": 16}
    view = newcomer().open(long).page.locator(".tl-decode")
    view.get_by_role("button", name="longest 12").click()
    expect(best(view)).to_contain_text("A EOS")


def test_a_sentence_is_typed_and_the_page_shows_what_the_library_decodes(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer().open({"tab": "decode", "dec_method": "greedy", "dec_length": 5})
    view, page = decoded(visitor), visitor.page
    expect(page.locator("#tl-d-side")).to_contain_text("nothing is trained here yet")
    view.get_by_label("Source").fill("b a zz")
    page.keyboard.press("Enter")
    expect(view.locator(".tl-d-source")).to_contain_text("Not in the vocabulary and read as ⟨?⟩: z")
    view.get_by_label("Source").fill("b a c")
    view.get_by_role("button", name="Decode", exact=True).click()
    expect(view.locator(".tl-d-source")).not_to_contain_text("Not in the vocabulary")
    task = tasks.get("copy")
    model = build(task.model, task.masks, seed=7)
    row = torch.tensor([[FIRST_FREE + 1, FIRST_FREE, FIRST_FREE + 2]])
    wanted = decoding.greedy(model, row, max_length=5)[0].tolist()
    expect(best(view).locator(".tl-d-link")).to_have_attribute("data-node", ".".join(map(str, wanted)))
    expect(view.locator(".tl-d-att tbody tr")).to_have_count(len(wanted))
    # Afterwards three things are measured: this takes no click.
    expect(view.locator(".tl-d-cache")).to_contain_text("✓ same", timeout=PATIENCE)
    expect(view.locator(".tl-d-ways")).to_contain_text("Equal: largest difference of the logits")
    # Too large a search is refused at its control, with what fits as a button.
    page.locator('#tl-d-side [data-keep="method-exhaustive"]').click()
    decoded(visitor, "refused")
    expect(page.locator("#tl-d-side").get_by_role("alert")).to_contain_text("All sequences of up to 5 tokens out of 17")
    expect(best(view)).to_be_visible()
    page.locator("#tl-d-side").get_by_role("button", name="longest 3").click()
    expect(view.locator(".tl-d-search h2")).to_contain_text("Exhaustive search")
    expect(page.locator("#tl-d-dec_length")).to_have_value("3")


def test_decode_can_be_read_by_everyone(newcomer: Callable[..., Visitor]) -> None:
    """axe in both themes and languages, by keys from the tab, and no sideways scroll on a phone."""
    visitor = newcomer().open({"tab": "decode", "dec_method": "sample", "dec_top_k": 4, "dec_length": 4})
    view, page = decoded(visitor), visitor.page
    expect(view.locator(".tl-d-cache tbody tr").first).to_be_visible(timeout=PATIENCE)
    assert violations(visitor) == []
    page.locator("button.tl-theme").click()
    page.locator(".tl-lang [data-lang=zh]").click()
    expect(view.get_by_role("heading", name="采样")).to_be_visible()
    assert violations(visitor) == []
    page.locator("body").press("4")
    expect(page.get_by_role("tab", name="解码")).to_be_focused()
    phone = newcomer(**PHONE).open(TRAP)
    view = decoded(phone)
    expect(best(view)).to_contain_text("B EOS")
    assert overflow(phone) <= 0
    assert violations(phone, contrast=False) == []
    # The method is chosen in the settings; on a phone its refusal stands over the tree too.
    phone.page.get_by_role("button", name="Open the settings").tap()
    phone.page.locator('#tl-d-side [data-keep="method-greedy"]').tap()
    phone.page.get_by_role("button", name="Close the settings").tap()
    expect(best(view)).to_contain_text("A A A A")
    assert overflow(phone) <= 0
