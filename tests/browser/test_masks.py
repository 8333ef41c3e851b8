"""Masks: grids are composed, painted by pointer, keys and finger, sent along in a link, and read from a file."""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import Locator, expect

from tests.browser.test_access import PHONE, overflow, violations
from tests.browser.test_explore import SLOW_LINE
from transformer_core import load_preset
from transformer_core.masks import by_rule, for_attention

if TYPE_CHECKING:
    from tests.browser.conftest import Visitor

EMPTY = {"preset": "empty_row", "encoder_self": "padding,window:2", "sample": 1, "mask_row": 6}
SLOW = 60_000  # ms that a probe may take on a busy machine
AT_ONCE = 300  # ms from a click on a cell of 64 x 64 to the frame that shows it
GRID = """(grid) => [...grid.querySelectorAll("tbody tr")].map((row) => [...row.querySelectorAll("td[data-j]")]
  .map((cell) => cell.classList.contains("tl-m-shut") ? cell.textContent : ""))"""
# From the press to the second frame after it: the first is the one in which the picture is drawn.
PRESS = """(map, at) => new Promise((done) => {
  const picture = map.querySelector(".tl-m-picture"), seen = picture.getBoundingClientRect();
  const before = picture.querySelector("g").firstChild;
  const event = (name) => new PointerEvent(name, { bubbles: true, cancelable: true, button: 0, pointerId: 1,
    pointerType: "mouse", clientX: seen.left + 60 + 7 * at, clientY: seen.top + 30 + 5 * at });
  const start = performance.now();
  picture.dispatchEvent(event("pointerdown"));
  requestAnimationFrame(() => requestAnimationFrame(() => {
    const shown = picture.querySelector("g").firstChild !== before, took = performance.now() - start;
    picture.dispatchEvent(event("pointerup"));
    done([took, shown]);
  }));
})"""


class Studio:
    """The tab, and the handles by which a person takes hold of it."""

    def __init__(self, visitor: Visitor) -> None:
        self.visitor, self.page = visitor, visitor.page
        self.view = visitor.page.locator(".tl-studio")

    def open(self, **query: Any) -> Studio:
        self.visitor.open({"tab": "masks", **query})
        expect(self.view).to_have_attribute("data-ready", re.compile("."))
        return self.settled()

    def settled(self) -> Studio:
        """Until the last change is answered."""
        expect(self.view).to_have_attribute("data-state", "shown")
        return self

    def grid(self, attention: str) -> Locator:
        return self.page.locator(f'.tl-m-grid[data-attention="{attention}"]')

    def cell(self, attention: str, i: int, j: int) -> Locator:
        return self.grid(attention).locator(f'td[data-i="{i}"][data-j="{j}"]')

    def letters(self, attention: str) -> list[list[str]]:
        """What closed cells say; open ones are empty."""
        return self.grid(attention).locator(".tl-m-map").evaluate(GRID)

    def explored(self) -> Visitor:
        """Explore, once it shows the run that is shown here."""
        run = (self.view.get_attribute("data-ready") or "").partition("-")[0]
        self.visitor.tab("Explore")
        expect(self.visitor.explore).to_have_attribute("data-ready", re.compile(f"^{run}"))
        return self.visitor

    def side(self, keep: str) -> Locator:
        return self.page.locator(f'#tl-m-side [data-keep="{keep}"]')

    def look(self, **chosen: object) -> None:
        for name, value in chosen.items():
            self.side(f"{name}-{value}").click()
        self.settled()

    def painted(self, attention: str) -> set[tuple[int, int]]:
        rows = self.letters(attention)
        return {(i, j) for i, row in enumerate(rows) for j, text in enumerate(row) if "x" in text}


def core_letters(preset: str, attention: str, sample: int, **rules: Any) -> list[list[str]]:
    """The same from the library."""
    chosen = load_preset(preset)
    masks, batch = chosen.masks.replace(**rules), chosen.batch(7)
    queries, keys = (
        (batch.src if attention == "encoder_self" else batch.tgt),
        (batch.tgt if attention == "decoder_self" else batch.src),
    )
    assert queries is not None and keys is not None
    alone = by_rule(masks, attention, queries.shape[1], keys, n_heads=4)
    return [
        ["".join(rule[0] for rule, seen in alone.items() if not seen[sample, 0, i, j]) for j in range(keys.shape[1])]
        for i in range(queries.shape[1])
    ]


def test_three_grids_say_what_the_core_says(newcomer: Callable[..., Visitor]) -> None:
    studio = Studio(newcomer()).open(**EMPTY)
    page = studio.page
    rules = {"encoder_self": ("padding", "window:2")}
    for attention in ("encoder_self", "decoder_self", "cross"):
        assert studio.letters(attention) == core_letters("empty_row", attention, 1, **rules)
    empty = studio.grid("encoder_self").locator("tr.tl-m-empty")
    expect(empty).to_have_count(1)
    expect(empty.locator(".tl-m-total")).to_have_text("! 0.0000")
    expect(empty.locator(".tl-m-count")).to_have_text("0")
    assert studio.grid("decoder_self").locator(".tl-m-total").all_inner_texts() == ["1.000000"] * 5
    assert studio.grid("decoder_self").locator(".tl-m-count").all_inner_texts() == ["1", "2", "3", "4", "4"]
    expect(studio.grid("cross").locator(".tl-m-say")).to_contain_text("Largest masked probability: 0.")
    # The same sentence and head of another layer, their mean, and the scores instead.
    before = studio.cell("cross", 0, 0).inner_text()
    studio.look(layer=1)
    expect(studio.cell("cross", 0, 0)).not_to_have_text(before)
    studio.look(head="mean")
    expect(studio.grid("cross").locator("h2")).to_contain_text("mean of 4 heads")
    studio.look(show="scores")
    expect(studio.cell("decoder_self", 0, 1)).to_have_text("−∞")
    assert studio.visitor.query()["mask_show"] == "scores"
    # The row on its way: of a row without a key nothing is left, and the row before it sums to 1.
    expect(page.locator(".tl-m-row tbody tr").nth(4)).to_contain_text("0.000000")
    page.locator(".tl-m-row").get_by_role("button", name="previous row").click()
    expect(page.locator(".tl-m-row tbody tr").nth(4)).to_contain_text("1.000000")
    expect(page).to_have_url(re.compile("mask_row=5"))
    # What each fill makes of a row with no key.
    expect(page.locator(".tl-m-noKey tbody tr").first).to_contain_text("NaN")
    expect(page.locator(".tl-m-noKey tbody tr").nth(1)).to_contain_text("refused")  # -1e9 in float16


def test_rules_are_layers_that_explore_follows(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer()
    studio = Studio(visitor).open(sample=1)
    page = studio.page
    page.get_by_role("checkbox", name="window, Encoder self", exact=True).check()
    expect(page).to_have_url(re.compile("encoder_self=padding,window:2"))
    studio.settled()
    assert studio.letters("encoder_self") == core_letters(
        "first_look", "encoder_self", 1, encoder_self=("padding", "window:2")
    )
    layer = studio.grid("encoder_self").get_by_role("switch", name=re.compile("window"))
    expect(layer).to_have_attribute("aria-checked", "true")
    size = page.get_by_role("spinbutton", name="size of window, Encoder self", exact=True)
    size.fill("1")
    expect(page).to_have_url(re.compile("window:1"))
    layer.click()
    expect(page).not_to_have_url(re.compile("window"))
    expect(layer).to_have_attribute("aria-checked", "false")
    layer.click()  # it comes back as it was
    expect(page).to_have_url(re.compile("window:1"))
    studio.settled()
    # A condition of one's own: the error stands at the box, with the column and a way out.
    box = page.locator("#tl-m-condition")
    box.fill("q = k")
    box.press("Enter")
    alert = page.locator("#tl-m-error-condition")
    expect(alert).to_contain_text("column 3")
    expect(box).to_have_attribute("aria-invalid", "true")
    assert "where" not in visitor.query()["encoder_self"]
    alert.get_by_role("button", name="q == k").click()
    expect(alert).to_have_count(0)
    expect(page).to_have_url(re.compile("where"))
    studio.settled()
    assert [row.count("") for row in studio.letters("encoder_self")] == [1, 1, 1, 1, 0, 0, 0]
    studio.explored()
    expect(visitor.mask("window", "encoder self-attention")).to_be_checked()
    visitor.select("encoder.layers.0.self_attention/allowed")
    assert [row.count(False) for row in visitor.map().hatched()] == [1, 1, 1, 1, 0, 0, 0]


def test_cells_are_painted_by_pointer_and_keys_and_travel_in_the_link(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer()
    studio = Studio(visitor).open(sample=1)
    page = studio.page
    studio.cell("cross", 1, 1).click()  # without painting a click chooses a row
    expect(page).to_have_url(re.compile("mask_at=cross&mask_row=1"))
    assert studio.painted("cross") == set()
    studio.side("paint").click()
    studio.cell("cross", 3, 1).click()
    expect(studio.cell("cross", 3, 1)).to_have_class(re.compile("tl-m-shut"))
    studio.cell("cross", 0, 0).hover()
    page.mouse.down()
    studio.cell("cross", 0, 3).hover()  # what lies between is painted too
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"cross_custom=5x7\."))
    studio.settled()
    wanted = {(3, 1), (0, 0), (0, 1), (0, 2), (0, 3)}
    assert studio.painted("cross") == wanted
    expect(studio.grid("cross").locator("tr").nth(1)).to_have_class(re.compile("tl-m-empty"))  # the rest is padding
    # Keys: down to (1, 3), paint; a row inverted twice is the row.
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("i")
    page.keyboard.press("i")
    expect(studio.cell("cross", 2, 3)).to_be_focused()
    wanted |= {(1, 3)}
    page.wait_for_function(
        "(length) => (new URLSearchParams(location.search).get('cross_custom') || '').length >= length", arg=8
    )
    expect(studio.cell("cross", 1, 3)).to_have_class(re.compile("tl-m-shut"))
    studio.settled()
    assert studio.painted("cross") == wanted
    expect(studio.grid("cross").locator("tbody tr").nth(1).locator(".tl-m-count")).to_have_text("3")
    # The link gives the same cells to someone else, and Explore's map has them.
    page.wait_for_function("document.querySelector('.tl-studio').dataset.state === 'shown'")
    other = Studio(newcomer())
    other.visitor.open(page.url)
    expect(other.view).to_have_attribute("data-ready", re.compile("."))
    assert other.painted("cross") == wanted
    other.side("clear").click()
    expect(other.page).not_to_have_url(re.compile("cross_custom"))
    studio.explored()
    visitor.select("decoder.layers.0.cross_attention/allowed")
    hatched = visitor.map().hatched()
    assert {(i, j) for i in range(5) for j in range(4) if hatched[i][j]} == wanted


def test_what_is_looked_at_stays_while_other_answers_arrive(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer()
    visitor.page.add_init_script(SLOW_LINE)
    studio = Studio(visitor).open()
    page = studio.page
    page.locator(".tl-lang [data-lang=zh]").click()
    studio.side("layer-1").click()
    studio.side("head-2").click()
    studio.side("sample-1").click()
    expect(studio.view).to_have_attribute("data-ready", re.compile("-zh-"))
    expect(page).to_have_url(re.compile("lang=zh"))
    page.wait_for_function("new URLSearchParams(location.search).get('mask_layer') === '1'")
    studio.settled()
    assert {"head": "2", "sample": "1"}.items() <= visitor.query().items()
    for chosen in ("layer-1", "head-2", "sample-1"):
        expect(studio.side(chosen)).to_have_attribute("aria-checked", "true")


def test_a_trap_is_set_and_the_probe_convicts(newcomer: Callable[..., Visitor]) -> None:
    studio = Studio(newcomer()).open()
    page = studio.page
    probe = page.locator('.tl-m-side-probe[data-side="tgt"]')
    expect(probe).to_have_attribute("data-state", "shown", timeout=SLOW)
    expect(page.locator(".tl-m-probe-box .tl-m-note")).to_contain_text("exactly 0", timeout=SLOW)
    page.locator('[data-trap="causal_shifted"]').click()
    expect(page.locator('[data-trap="causal_shifted"]')).to_have_attribute("aria-pressed", "true")
    expect(studio.grid("decoder_self").locator(".tl-m-say")).to_contain_text("cells are not as the rules say")
    assert studio.grid("decoder_self").locator(".tl-m-odd").count() >= 3
    expect(page.locator(".tl-m-probe-box .tl-m-note")).to_contain_text("the masks do not allow", timeout=SLOW)
    page.locator('[data-trap="left_padding"]').click()
    expect(page.locator('[data-trap="left_padding"]')).to_have_attribute("aria-pressed", "true")
    expect(page).to_have_url(re.compile("pad_side=left"))
    expect(studio.grid("decoder_self").locator("tbody tr").first).to_have_class(re.compile("tl-m-empty"))
    page.locator(".tl-m-scale [data-keep=scale]").click()
    expect(page.locator(".tl-m-scale")).to_have_attribute("data-state", "shown", timeout=SLOW)
    expect(page.locator(".tl-m-charts svg")).to_have_count(4)


def test_files_out_and_in(newcomer: Callable[..., Visitor], tmp_path: Path) -> None:
    studio = Studio(newcomer()).open(**EMPTY)
    page = studio.page
    saved = {}
    for what in ("csv", "json", "svg", "png", "torch"):
        with page.expect_download() as download:
            studio.side(f"save-{what}").click()
        saved[what] = tmp_path / what
        download.value.save_as(saved[what])
    assert saved["csv"].read_bytes().startswith(b"\xef\xbb\xbf,")
    lines = saved["csv"].read_text().splitlines()
    shut = core_letters("empty_row", "encoder_self", 1, encoder_self=("padding", "window:2"))
    assert [line.split(",")[1:] for line in lines[1:]] == [["0" if text else "1" for text in row] for row in shut]
    told = json.loads(saved["json"].read_text())
    assert told["allowed"] == [[not text for text in row] for row in shut]
    assert told["rules"] == ["padding", "window:2"]
    assert saved["svg"].read_text().startswith("<svg xmlns=")
    assert saved["png"].read_bytes().startswith(b"\x89PNG")
    names: dict[str, Any] = {}
    exec(saved["torch"].read_text(), names)  # code to copy is code that runs
    chosen = load_preset("empty_row")
    assert chosen.batch(7).src is not None
    allowed = for_attention(
        chosen.masks.replace(encoder_self=("padding", "window:2")), "encoder_self", 7, chosen.batch(7).src, n_heads=4
    )
    assert allowed is not None and bool((names["allowed"] == allowed.expand(2, 4, 7, 7)).all())
    # A mask from a file: a wrong one is named with its place, a right one is painted.
    file = page.locator("#tl-m-file")
    file.set_input_files({"name": "mask.csv", "mimeType": "text/csv", "buffer": b"1,0\n1,1\n"})
    expect(page.locator("#tl-m-error-file")).to_contain_text("2 × 2; this attention has 7 queries × 7 keys")
    wrong = "\n".join(["1,1,1,1,1,1,1"] * 6 + ["1,1,1,1,1,maybe,1"])
    file.set_input_files({"name": "mask.csv", "mimeType": "text/csv", "buffer": wrong.encode()})
    expect(page.locator("#tl-m-error-file")).to_contain_text("Row 7, column 6")
    right = "\n".join(["1,1,1,1,1,1,1"] * 2 + ["true,false,true,true,true,true,true"] + ["1,1,1,1,1,1,1"] * 4)
    file.set_input_files({"name": "mask.csv", "mimeType": "text/csv", "buffer": right.encode()})
    expect(page).to_have_url(re.compile("encoder_self_custom"))
    expect(page.locator("#tl-m-error-file")).to_have_count(0)
    studio.settled()
    assert studio.painted("encoder_self") == {(2, 1)}
    # Conventions: each has its own code, and it can be copied.
    page.get_by_role("radio", name="nn.MultiheadAttention").click()
    expect(page.locator(".tl-m-code pre")).to_contain_text("key_padding_mask")
    expect(page.locator(".tl-m-means")).to_contain_text("True = ignore.")
    page.locator(".tl-m-code").get_by_role("button", name="Copy").click()
    expect(page.locator(".tl-m-copy")).to_contain_text("Copied.")
    assert "nn.MultiheadAttention(64, 4" in page.evaluate("navigator.clipboard.readText()")


def test_a_large_grid_shows_a_click_at_once(newcomer: Callable[..., Visitor]) -> None:
    studio = Studio(newcomer()).open(src_len=64, tgt_len=64, n_heads=8)
    studio.side("paint").click()
    grid = studio.grid("encoder_self").locator(".tl-m-map")
    presses = [grid.evaluate(PRESS, at) for at in range(7)]
    assert all(shown for _, shown in presses)
    assert statistics.median(took for took, _ in presses) <= AT_ONCE
    expect(studio.page).to_have_url(re.compile(r"encoder_self_custom=64x64\."))
    studio.settled()
    grid.locator("svg").focus()
    studio.page.keyboard.press("ArrowRight")
    expect(studio.page.locator(".tl-m-read")).to_contain_text("the row sees 6")
    # A reset forgets which row was looked at while the large grid is still on screen; the console hears of nothing.
    studio.page.locator(".tl-reset").click()
    expect(studio.grid("encoder_self").locator("tbody tr")).to_have_count(7)
    studio.settled()


def test_one_attention_at_a_time_on_a_phone(newcomer: Callable[..., Visitor]) -> None:
    studio = Studio(newcomer(**PHONE)).open(sample=1)
    page = studio.page
    expect(studio.grid("encoder_self")).to_be_visible()
    expect(studio.grid("cross")).to_be_hidden()
    page.get_by_role("radio", name="Cross", exact=True).tap()
    expect(studio.grid("cross")).to_be_visible()
    expect(studio.grid("encoder_self")).to_be_hidden()
    assert overflow(studio.visitor) == 0
    page.locator(".tl-m-top .tl-m-paint").tap()
    studio.cell("cross", 2, 2).tap()
    expect(studio.cell("cross", 2, 2)).to_have_class(re.compile("tl-m-shut"))
    expect(page).to_have_url(re.compile("cross_custom"))
    assert violations(studio.visitor, contrast=False) == []


def test_axe_finds_nothing_grave_on_masks(newcomer: Callable[..., Visitor]) -> None:
    """In both themes and languages, with a painted cell, an empty row, a fault and a refusal on the page."""
    studio = Studio(newcomer()).open(**EMPTY, fault="causal_sees_next", encoder_self_custom="7x7.__-_____gA")
    page = studio.page
    box = page.locator("#tl-m-condition")
    box.fill("q ? k")
    box.press("Enter")
    expect(page.locator("#tl-m-error-condition")).to_be_visible()
    expect(page.locator('.tl-m-side-probe[data-state="shown"]')).to_have_count(2, timeout=SLOW)
    studio.settled()
    assert violations(studio.visitor) == []
    page.locator("button.tl-theme").click()
    page.locator(".tl-lang [data-lang=zh]").click()
    expect(studio.view).to_have_attribute("data-ready", re.compile("-zh-"))
    expect(page.locator(".tl-m-row h2")).to_contain_text("从分数到概率")
    assert violations(studio.visitor) == []


def test_nothing_is_computed_for_a_tab_that_is_not_shown(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer()
    asked: list[str] = []
    visitor.page.on(
        "request", lambda request: asked.append(request.post_data or "") if "/run/" in request.url else None
    )
    visitor.open()
    with visitor.new_run():
        visitor.pick("n_heads", "8")
    assert not [each for each in asked if '"chosen"' in each]
    visitor.tab("Masks")
    studio = Studio(visitor)
    expect(studio.view).to_have_attribute("data-ready", re.compile("."))
    expect(studio.side("head-7")).to_be_visible()  # the model of Explore
    visitor.tab("Explore")
    before = len([each for each in asked if '"chosen"' in each])
    with visitor.new_run():
        visitor.pick("n_heads", "2")
    assert len([each for each in asked if '"chosen"' in each]) == before
