"""Explore: a control is moved, the ledger answers; a row is selected, the four panes follow.

What the page says is compared with the core, which is run here on the same settings.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import torch
from playwright.sync_api import expect

from transformer_core import build, estimate, load_preset, masks, trace
from transformer_core.ledger import Ledger
from transformer_core.presets import Preset, apply_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import Visitor

SEED = 7
# The number in the box is the one that was run, or the one that the refusal speaks of.
AGREES = """() => {
  const shown = document.querySelector("#tl-f-d_model input[type=number]").value;
  const said = document.querySelector(".tl-refusal")?.textContent;
  const run = new URLSearchParams(location.search).get("d_model");
  return said ? said.includes(`d_model is ${shown};`) : run === shown;
}"""
NOTE_RUNS = """() => {
  const page = document.querySelector(".tl-explore");
  window.runs = new Set();
  new MutationObserver(() => window.runs.add(page.dataset.ready.split("-")[0]))
    .observe(page, { attributes: true, attributeFilter: ["data-ready"] });
}"""
LINES = """(code) => [...code.querySelectorAll("[data-n]")].map((line) => [line.dataset.n, line.textContent])"""
CROSS = "decoder.layers.1.cross_attention/weights"


# Whatever the server answers comes a moment later.
SLOW_LINE = """(() => { const own = window.fetch; window.fetch = async (...asked) => {
  const answer = await own(...asked);
  if (String(asked[0]?.url ?? asked[0]).includes("/run/")) await new Promise((done) => setTimeout(done, 400));
  return answer;
}; })()"""


def recorded(preset: Preset, device: str = "cpu") -> Ledger:
    """The ledger of this preset as the library records it."""
    batch = preset.batch(SEED)
    sides = [None if ids is None else ids.to(device) for ids in (batch.src, batch.tgt)]
    model = build(preset.model, preset.masks, SEED, device).eval()
    with torch.no_grad(), trace(model) as ledger:
        model(*sides)
    return ledger


def shapes(ledger: Ledger) -> dict[str, list[int]]:
    return {entry.key: list(entry.shape) for entry in ledger}


def printed(value: float) -> str:
    """A probability as it stands in a cell: .30, a dot for almost nothing."""
    return "·" if value < 0.005 else "1.0" if value >= 0.995 else f"{value:.2f}"[1:]


def cells(numbers: torch.Tensor, hidden: list[bool]) -> list[list[str]]:
    """Probabilities as their map prints them, nothing in the columns of hidden keys."""
    pairs = [zip(line, hidden, strict=True) for line in numbers.tolist()]
    return [["" if hide else printed(number) for number, hide in line] for line in pairs]


def test_the_ledger_follows_the_heads(visitor: Visitor) -> None:
    first_look = load_preset("first_look")
    assert visitor.shapes() == shapes(recorded(first_look))
    assert visitor.cell(CROSS, "shape").inner_text() == "2×4×5×7"
    with visitor.new_run():
        visitor.pick("n_heads", "8")
    expect(visitor.page.locator(".tl-x-rows tr[aria-expanded=false]")).to_have_count(0)  # what was opened stays open
    expect(visitor.cell(CROSS, "shape")).to_have_text("2×8×5×7")
    assert visitor.shapes() == shapes(recorded(apply_settings(first_look, ["n_heads=8"])))
    expect(visitor.control("n_heads").locator(".tl-aside")).to_have_text("d_head 8")


def test_one_choice_is_one_run(visitor: Visitor) -> None:
    """Of two at once, the page may show one and the server hold the other; then no pane is ever answered again."""
    visitor.page.evaluate(NOTE_RUNS)
    visitor.choose("fill", "−1e9")
    expect(visitor.page).to_have_url(re.compile("fill=-1e9"))
    visitor.select("logits")
    visitor.mask("window", "cross-attention").check()
    expect(visitor.page).to_have_url(re.compile("cross=padding,window:2"))
    visitor.select("memory")
    assert len(visitor.page.evaluate("[...window.runs]")) == 2


def test_a_width_that_the_heads_do_not_divide_is_refused_with_a_way_out(visitor: Visitor) -> None:
    page, before, shown = visitor.page, visitor.run(), visitor.shapes()
    visitor.type("d_model", 66)
    refusal = page.get_by_role("alert").filter(has_text="66")
    expect(refusal).to_contain_text("d_model 66 is not divisible by 4 heads")
    expect(refusal.locator("xpath=preceding-sibling::*[1][@id='tl-f-d_model' or @id='tl-f-n_heads']")).to_have_count(1)
    expect(page.locator(".tl-invalid input").first).to_have_attribute("aria-describedby", "tl-refusal")
    expect(page.get_by_text("numbers are of the last valid run")).to_be_visible()
    assert visitor.run() == before
    assert visitor.shapes() == shown
    # What was typed is left as it is; one press makes it a width that can be.
    with visitor.new_run():
        refusal.get_by_role("button", name="d_model 68", exact=True).click()
    expect(refusal).to_have_count(0)
    expect(page.locator("[aria-invalid=true]")).to_have_count(0)
    expect(page.get_by_text("numbers are of the last valid run")).to_be_hidden()
    expect(visitor.number("d_model")).to_have_value("68")
    assert visitor.shapes()["encoder.layers.0.self_attention/q"] == [2, 4, 7, 17]


def test_a_number_beyond_the_slider_never_stands_beside_another_run(visitor: Visitor) -> None:
    page, before = visitor.page, visitor.run()
    visitor.type("d_model", 100_000)
    refusal = page.get_by_role("alert").filter(has_text="d_model")
    expect(refusal).to_contain_text("d_model is 100000; it must lie between 1 and 1024.")
    assert visitor.run() == before
    # Leaving the box, gradio moves the number to the slider's end. Either that is run, or the refusal speaks of it.
    page.keyboard.press("Tab")
    page.wait_for_function(AGREES)
    visitor.type("d_model", "")
    expect(refusal).to_contain_text("d_model")
    expect(refusal).not_to_contain_text("None")
    visitor.type("d_model", 64)
    expect(refusal).to_have_count(0)


def test_a_selected_row_fills_the_four_panes(visitor: Visitor) -> None:
    key = "decoder.layers.0.cross_attention/weights"
    visitor.select(key)
    # formula
    formula = visitor.pane("formula")
    expect(formula).to_contain_text("§3.2.1, eq. 1")
    assert "".join(formula.locator(".tl-x-math math").all_text_contents()) == "weights=softmax(scores+M)"
    scores = key.replace("weights", "scores")
    formula.get_by_role("button", name=f"go to row {scores}").click()
    visitor.shown(scores)
    expect(visitor.row(scores)).to_have_attribute("aria-selected", "true")
    expect(visitor.row(key)).to_have_attribute("aria-selected", "false")
    visitor.select(key)
    # tensor: the numbers of the last sentence's first head, under the tokens that they belong to
    preset = load_preset("first_look")
    ledger, batch = recorded(preset), preset.batch(SEED)
    assert batch.src_tokens is not None and batch.tgt_tokens is not None
    shown, value = visitor.map(), ledger[key].value
    sample, head = (int(each) for each in (visitor.explore.get_attribute("data-shown") or "").split("|")[1:])
    assert shown.columns() == batch.src_tokens[sample]
    assert shown.rows() == batch.tgt_tokens[sample]
    assert shown.sums() == ["1.000000"] * 5
    hidden = (batch.src[sample] == preset.model.pad_id).tolist()
    assert any(hidden)
    assert shown.hatched() == [hidden] * 5
    assert shown.texts() == cells(value[sample, head], hidden)
    expect(visitor.pane("tensor")).to_contain_text("Probability on the masked keys: exactly 0.")
    # check
    expect(visitor.pane("check").get_by_role("listitem").filter(has_text="rows sum to 1")).to_contain_text("holds")
    assert visitor.pane("check").get_by_role("listitem").count() >= 4


def test_the_last_of_many_selections_is_what_the_server_knows(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer()
    visitor.page.add_init_script(SLOW_LINE)
    visitor.open()
    visitor.select("encoder.layers.0.self_attention/q")
    keys = [row.get_attribute("data-key") for row in visitor.page.locator(".tl-x-rows tr[data-key]").all()]
    last = keys[keys.index("encoder.layers.0.self_attention/q") + 6]
    assert last is not None
    for _ in range(6):
        visitor.page.keyboard.press("ArrowDown")
        visitor.page.keyboard.press("Enter", delay=60)  # each is told, and all but the first wait for the answer
    expect(visitor.row(last)).to_have_attribute("aria-selected", "true")
    visitor.shown(last)
    assert visitor.query()["selected"] == last
    with visitor.new_run():
        visitor.type("seed", 11)
    expect(visitor.row(last)).to_have_attribute("aria-selected", "true")
    assert visitor.query()["selected"] == last


def test_the_marked_lines_are_those_of_the_file(visitor: Visitor) -> None:
    for key, made, noted in (
        (CROSS, "masked_softmax(", 'note("weights", '),
        ("encoder.layers.0.feed_forward/hidden", "w_1", 'note("hidden", '),
        ("logits", "self.output(", 'note("logits", '),
    ):
        visitor.select(key)
        code = visitor.pane("code").get_by_role("region")
        name = (code.get_attribute("aria-label") or "").partition(",")[0]
        lines = ["", *(visitor.server.root / name).read_text(encoding="utf-8").splitlines()]
        on_page = [(int(number), text) for number, text in code.evaluate(LINES) if number.isdigit()]
        assert len(on_page) > 5
        for number, text in on_page:
            assert text.strip() == lines[number].strip(), f"{name}:{number}"
        marked = code.locator(".tl-x-made")
        assert marked.count() >= 1
        assert made in "".join(marked.all_inner_texts())
        assert noted in code.locator(".tl-x-noted").inner_text()
        expect(code.locator("[aria-current=true]").first).to_be_in_viewport()


def test_any_head_and_any_sentence_can_be_looked_at(visitor: Visitor) -> None:
    preset = load_preset("first_look")
    value, batch = recorded(preset)[CROSS].value, preset.batch(SEED)
    visitor.select(CROSS)
    seen = set()
    for sample, head in ((0, 3), (1, 2)):
        visitor.pane("tensor").get_by_role("radio", name=f"sentence {sample + 1}, head {head + 1}").click()
        visitor.shown(CROSS, sample, head)
        shown = visitor.map()
        assert shown.columns() == batch.src_tokens[sample]
        assert shown.texts() == cells(value[sample, head], (batch.src[sample] == 0).tolist())
        seen.add(str(shown.texts()))
        expect(visitor.page).to_have_url(re.compile(f"head={head}(&|$)"))
    assert len(seen) == 2
    # The chosen head stays when another tensor with heads is selected.
    visitor.select(CROSS.replace("weights", "scores"))
    visitor.shown(CROSS.replace("weights", "scores"), 1, 2)


def test_a_block_of_the_figure_is_selected_by_keys(visitor: Visitor) -> None:
    page = visitor.page
    chosen = page.locator(".tl-x-fig1 [data-block][aria-pressed=true]")
    expect(chosen).to_have_attribute("data-block", "decoder.layers.1.cross_attention")
    chosen.focus()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    block = page.evaluate("document.activeElement.dataset.block")
    assert block == "decoder.layers.1.feed_forward"
    page.keyboard.press("Enter")
    expect(chosen).to_have_attribute("data-block", block)
    selected = page.locator(".tl-x-rows tr[aria-selected=true]")
    expect(selected).to_have_attribute("data-key", re.compile(r"^decoder\.layers\.1\.feed_forward/"))
    visitor.shown(selected.get_attribute("data-key") or "")
    expect(page.locator(".tl-x-rows tr[aria-expanded=true]")).to_have_attribute("data-group", block)
    # The ledger is filtered by the block: its rows are open, all others folded into one line each.
    keys = page.locator(".tl-x-rows tr[data-key]").evaluate_all("(rows) => rows.map((row) => row.dataset.key)")
    assert {"decoder.layers.1.feed_forward/hidden", "decoder.layers.1/feed_forward_norm"} <= set(keys)
    assert len(keys) < 6
    # Another layer of the same stack takes the selection along.
    page.get_by_role("radiogroup", name="decoder layer shown").get_by_role("radio", checked=True).focus()
    page.keyboard.press("ArrowLeft")
    expect(selected).to_have_attribute("data-key", re.compile(r"^decoder\.layers\.0\.feed_forward/"))


def test_typed_sentences_stand_on_the_axes(visitor: Visitor) -> None:
    with visitor.new_run():
        visitor.pick("tokens", "typed")
    visitor.select(CROSS)
    visitor.type("src_text", "the cat sat down\nshe left")
    visitor.type("tgt_text", "那 只 猫 坐下 了\n她 走 了")
    expect(visitor.cell(CROSS, "shape")).to_have_text("2×4×6×4")
    visitor.pane("tensor").get_by_role("radio", name="sentence 1, head 1").click()
    visitor.shown(CROSS, 0, 0)
    columns = visitor.pane("tensor").locator("th.tl-x-col")
    expect(columns).to_have_text(["the", "cat", "sat", "down"])
    expect(visitor.pane("tensor").locator("tbody th.tl-x-q")).to_have_text(["⟨s⟩", "那", "只", "猫", "坐下", "了"])
    visitor.pane("tensor").get_by_role("radio", name="sentence 2, head 1").click()
    expect(columns).to_have_text(["she", "left", "∅", "∅"])
    # Characters as tokens, white space left out; the same character has the same id.
    with visitor.new_run():
        visitor.control("split").get_by_role("radio", name="a character").check(force=True)
    visitor.type("src_text", "看见了 see\n好")
    expect(columns).to_have_text(["好", *["∅"] * 5])
    visitor.select("src")
    words = visitor.pane("tensor").locator("tbody tr").first
    expect(words.locator(".tl-x-word")).to_have_text(["看", "见", "了", "s", "e", "e"])
    ids = words.locator("code").all_inner_texts()
    assert ids[4] == ids[5]
    assert len(set(ids)) == 5


def test_a_text_may_be_pasted_composed_or_deleted(newcomer: Callable[..., Visitor]) -> None:
    """None of these presses a character key, which is all that gradio's own text box listens for."""
    visitor = newcomer()
    columns, page = visitor.pane("tensor").locator("th.tl-x-col"), visitor.page
    visitor.open({"tokens": "text", "selected": CROSS, "sample": 0, "src_text": "one two\nthree"})
    expect(columns).to_have_text(["one", "two"])
    page.get_by_label("source, one sentence a line").click()
    page.keyboard.press("ControlOrMeta+End")
    page.keyboard.press("ControlOrMeta+Home")
    page.keyboard.insert_text("看 ")  # as an input method does, and as a paste does
    expect(columns).to_have_text(["看", "one", "two"])
    page.keyboard.press("Backspace")
    expect(columns).to_have_text(["看one", "two"])


def test_a_mask_rule_hatches_the_cells_it_hides(visitor: Visitor) -> None:
    key = "encoder.layers.0.self_attention/weights"
    batch = load_preset("first_look").batch(SEED)
    visitor.select(key)
    assert visitor.map().hatched() == [(batch.src[1] == 0).tolist()] * 7
    visitor.mask("window", "encoder self-attention").check()
    page = visitor.page
    for width in (2, 1):
        page.get_by_label("width of window, encoder self-attention").fill(str(width))
        rules = ("padding", f"window:{width}")
        allowed = masks.compose(rules, q_len=7, keys=batch.src, pad_id=0, two_sided=True)
        assert allowed is not None
        hidden = (~allowed[1, 0]).tolist()
        hatched = visitor.pane("tensor").locator("td.tl-x-hatch")
        expect(hatched).to_have_count(sum(map(sum, hidden)))
        assert visitor.map().hatched() == hidden
    expect(hatched.first).to_have_attribute("title", re.compile("masked: .*"))
    reasons = {cell.get_attribute("title") for cell in hatched.all()}
    assert {"masked: padding", "masked: window", "masked: padding, window"} == reasons


def test_minus_infinity_on_an_empty_row_is_shown_as_nan(visitor: Visitor) -> None:
    key = "decoder.layers.0.self_attention/weights"
    with visitor.new_run():
        visitor.pick("pad_side", "left")
    visitor.select(key)
    # The default fill: no weights, no NaN, and the row is named.
    empty = visitor.pane("tensor").locator("tr.tl-x-blind")
    expect(empty).to_have_count(1)
    expect(empty.locator("td.tl-x-s")).to_have_text("! 0.000000")
    expect(visitor.pane("tensor")).to_contain_text(re.compile("(One query sees|1 query sees) no key"))
    expect(visitor.verdict).to_have_attribute("data-verdict", "warning")
    # What naive code does.
    visitor.choose("fill", "−inf")
    expect(visitor.verdict).to_have_attribute("data-verdict", "fails")
    words = visitor.pane("tensor").locator("td.tl-x-nan")
    expect(words).to_have_text(["NaN"] * 5)
    expect(empty.locator("td.tl-x-s")).to_have_text("✗ NaN")
    failed = visitor.pane("check").locator(".tl-x-check-bad")
    expect(failed.filter(has_text="rows sum to 1")).to_contain_text("fails")
    expect(failed.filter(has_text="NaN").first).to_be_visible()
    held, total = (int(number) for number in re.findall(r"\d+", visitor.verdict.inner_text())[:2])
    assert held < total
    visitor.unfold()
    expect(visitor.cell("logits", "checks")).to_contain_text("✗")
    # Select one more tensor: NaN has gone through the whole model, and every pane still says so in words.
    visitor.select("logits")
    expect(visitor.pane("tensor")).to_contain_text("NaN")
    assert "undefined" not in visitor.page.locator("body").inner_text()


def test_a_model_too_large_for_this_host_is_laid_out(visitor: Visitor) -> None:
    preset = load_preset("paper_big")
    with visitor.new_run():
        visitor.choose("preset", preset.title)
    expect(visitor.verdict).to_have_attribute("data-verdict", "shapes")
    expect(visitor.explore).to_have_attribute("data-state", "shapes")
    batch = preset.batch(SEED)
    cost = estimate(preset.model, *batch.src.shape, batch.tgt.shape[1])
    says = visitor.page.locator(".tl-x-fault")
    expect(says).to_contain_text(f"Too large to run here: {cost.parameters:,} parameters")
    expect(says).to_contain_text("operations a forward")
    assert visitor.shapes() == shapes(recorded(preset, "meta"))
    visitor.select("decoder.layers.5.cross_attention/weights")
    expect(visitor.pane("formula")).to_contain_text("§3.2.1, eq. 1")
    expect(visitor.pane("tensor")).to_contain_text("not computed")
    expect(visitor.pane("code").locator(".tl-x-made")).to_contain_text("masked_softmax(")
    with visitor.new_run():
        visitor.choose("preset", "First look")
    expect(visitor.verdict).to_have_attribute("data-verdict", "holds")
