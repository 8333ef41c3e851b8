"""The frame of the page: language, theme, link, files, and that nothing comes from anywhere else."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from playwright.sync_api import expect

from explorer import words
from transformer_core import build, load_preset, trace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import Visitor

WEIGHTS = "encoder.layers.0.self_attention/weights"
# Names, code and formulas are the same in every language; so are the texts of words/*.toml that are.
DATA = (
    "code, kbd, math, .tl-x-code, .tl-x-module, .tl-x-names, .tl-x-c-path, td.tl-x-c-tensor, td.tl-x-c-symbolic, "
    "td.tl-x-c-dtype, .tl-x-map, .tl-x-fig1 .tl-x-shape, .tl-x-pane-code .tl-x-aside, .tl-lang"
)
SAME = {"Transformer Ledger", "cpu", "PE", "d_head"}
LETTERS = re.compile("[A-Za-z]{2}")
KEY = re.compile(r"[a-z_.0-9]+(/[a-z_]+)?$")
# gradio names the two parts of a slider itself, in English: "number input for 头数". It offers no words for it.
GRADIO = re.compile("^(number input|range slider) for ")
VISIBLE = """(data) => {
  const seen = (node) => node.checkVisibility({ visibilityProperty: true }) && !node.closest(data), found = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const { parentElement: node, textContent } = texts.currentNode;
    if (textContent.trim() && !["SCRIPT", "STYLE"].includes(node.tagName) && seen(node)) found.add(textContent.trim());
  }
  for (const name of ["aria-label", "title", "placeholder", "aria-valuetext"])
    for (const node of document.querySelectorAll(`[${name}]`))
      if (seen(node)) found.add(node.getAttribute(name).trim());
  return [...found];
}"""


def texts(visitor: Visitor) -> set[str]:
    """Everything that can be read or heard on the page now, but for names, code and formulas."""
    found = set(visitor.page.evaluate(VISIBLE, DATA))
    return {text for text in found if LETTERS.search(text) and not KEY.match(text) and not GRADIO.match(text)}


def speak(visitor: Visitor, name: str, lang: str) -> None:
    visitor.page.get_by_role("button", name=name, exact=True).click()
    expect(visitor.page.locator("html")).to_have_attribute("lang", lang)
    expect(visitor.explore).to_have_attribute("data-ready", re.compile(f"-{lang[:2]}$"))


def test_the_language_changes_in_place_and_nothing_is_lost(visitor: Visitor) -> None:
    page = visitor.page
    with visitor.new_run():
        visitor.pick("n_heads", "8")
    visitor.select(WEIGHTS)
    visitor.pane("tensor").get_by_role("radio", name="sentence 1, head 6").click()
    visitor.shown(WEIGHTS, 0, 5)
    visitor.train("copy", 300)
    visitor.press("more")
    expect(visitor.progress).to_have_attribute("aria-valuenow", "20", timeout=30_000)
    curve, english = visitor.curve(), texts(visitor)
    visitor.tab("Explore")
    run, english = visitor.run(), english | texts(visitor)
    numbers = visitor.map().texts()
    visitor.page.evaluate("window.sameDocument = true")

    speak(visitor, "中文", "zh-Hans")
    expect(page.get_by_role("tab", name="探索")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_role("heading", name="张量账本")).to_be_visible()
    expect(visitor.verdict).to_contain_text("项检查成立")
    expect(visitor.control("n_heads").get_by_role("radio", name="8", exact=True)).to_be_checked()
    expect(visitor.control("preset").get_by_role("combobox")).to_have_value("初识")
    expect(page.get_by_role("checkbox", name="编码器自注意力：填充")).to_be_checked()
    expect(visitor.row(WEIGHTS)).to_have_attribute("aria-selected", "true")
    visitor.shown(WEIGHTS, 0, 5)
    assert (visitor.run(), visitor.map().texts()) == (run, numbers)
    chinese = texts(visitor)
    page.get_by_role("tab", name="训练").click()
    expect(page.get_by_role("button", name="播放")).to_be_visible()
    expect(visitor.state).to_contain_text("已暂停在第 20 步")
    assert visitor.curve() == curve
    chinese |= texts(visitor)

    table = words.table()
    same = SAME | {text["en"] for text in table.values() if text["en"] == text["zh"]}
    assert len(english) > 80
    assert english & chinese <= same
    # And back, without the page having been loaded anew.
    speak(visitor, "EN", "en")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    assert texts(visitor) <= english
    assert page.evaluate("window.sameDocument") is True


def test_the_language_is_first_the_browsers_and_then_the_persons(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer(locale="zh-CN").open()
    html = visitor.page.locator("html")
    expect(html).to_have_attribute("lang", "zh-Hans")
    expect(visitor.page.get_by_role("heading", name="张量账本")).to_be_visible()
    expect(visitor.control("preset").get_by_role("combobox")).to_have_value("初识")
    speak(visitor, "EN", "en")
    visitor.page.reload()
    visitor.ready()
    expect(html).to_have_attribute("lang", "en")
    visitor.open("/")
    expect(html).to_have_attribute("lang", "en")
    visitor.open({"lang": "zh"})  # a link is clearer than a habit
    expect(html).to_have_attribute("lang", "zh-Hans")


def test_the_theme_is_the_systems_until_it_is_chosen(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer(color_scheme="dark").open()
    page = visitor.page

    def luminance() -> float:
        """Of the page's ground, 0 black to 255 white."""
        colour = page.evaluate("getComputedStyle(document.querySelector('.gradio-container')).backgroundColor")
        return sum(float(part) for part in re.findall(r"[\d.]+", colour)[:3]) / 3

    assert luminance() < 60
    page.get_by_role("button", name="Light theme").click()
    expect(page.get_by_role("button", name="Dark theme")).to_be_visible()
    expect(page.locator("body")).not_to_have_class(re.compile("dark"))
    assert luminance() > 200
    page.reload()
    visitor.ready()
    expect(page.get_by_role("button", name="Dark theme")).to_be_visible()
    assert luminance() > 200
    page.get_by_role("button", name="Dark theme").click()
    expect(page.locator("body")).to_have_class(re.compile("dark"))
    assert luminance() < 60


def test_a_link_restores_settings_selection_tab_and_language(newcomer: Callable[..., Visitor]) -> None:
    sender = newcomer().open()
    with sender.new_run():
        sender.type("d_model", 96)
    with sender.new_run():
        sender.pick("n_heads", "8")
    with sender.new_run():
        sender.choose("norm_order", "Pre-LN")
    with sender.new_run():
        sender.mask("window", "cross-attention").check()
    with sender.new_run():
        sender.type("seed", 11)
    sender.select(WEIGHTS)
    sender.pane("tensor").get_by_role("radio", name="sentence 1, head 3").click()
    sender.shown(WEIGHTS, 0, 2)
    numbers = sender.map().texts()
    sender.train("reverse", 80)
    speak(sender, "中文", "zh-Hans")
    sender.page.get_by_role("button", name="复制链接").click()
    expect(sender.page.get_by_text("链接已复制")).to_be_visible()
    link = sender.page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(sender.server.address)
    assert "d_model=96" in link

    receiver = newcomer().open(link)
    page = receiver.page
    expect(page.locator("html")).to_have_attribute("lang", "zh-Hans")
    expect(page.get_by_role("tab", name="训练")).to_have_attribute("aria-selected", "true")
    expect(receiver.control("task").get_by_role("radio", name=re.compile("^反转"))).to_be_checked()
    expect(receiver.number("steps")).to_have_value("80")
    page.get_by_role("tab", name="探索").click()
    expect(receiver.number("d_model")).to_have_value("96")
    expect(receiver.control("n_heads").get_by_role("radio", name="8", exact=True)).to_be_checked()
    expect(receiver.control("norm_order").get_by_role("combobox")).to_have_value("Pre-LN")
    expect(page.get_by_role("checkbox", name="交叉注意力：窗口")).to_be_checked()
    expect(receiver.number("seed")).to_have_value("11")
    receiver.shown(WEIGHTS, 0, 2)
    assert receiver.map().texts() == numbers
    expect(page.locator(".tl-notice")).to_have_count(0)
    # The address bar is the same link, but for what the visitor has changed since: the tab.
    expected = {"d_model": "96", "n_heads": "8", "selected": WEIGHTS, "lang": "zh", "seed": "11"}
    assert receiver.query().items() >= expected.items()


def test_what_a_link_says_wrongly_is_named_and_left_out(newcomer: Callable[..., Visitor]) -> None:
    wrong = "d_modle=64&d_model=99999999&dropout=NaN&preset=nowhere&src_len=9&seed=-1&tab=%3Cb%3Ehi"
    visitor = newcomer().open(f"/?{wrong}")
    page = visitor.page
    notices = page.locator(".tl-notice")
    expect(notices.filter(has_text="d_modle")).to_contain_text("names “d_modle”, which this page does not know.")
    expect(notices.filter(has_text="99999999")).to_contain_text("1024")
    expect(notices.filter(has_text="nowhere")).to_be_visible()
    expect(notices.filter(has_text="seed is -1")).to_be_visible()
    expect(notices.filter(has_text="<b>hi")).to_be_visible()
    expect(visitor.number("d_model")).to_have_value("64")
    expect(visitor.number("src_len")).to_have_value("9")  # what was right in it stays
    expect(visitor.verdict).to_have_attribute("data-verdict", "holds")
    before = notices.count()
    notices.first.get_by_role("button", name="Dismiss").click()
    expect(notices).to_have_count(before - 1)
    # Choices that are each possible but not together; and a query that is no query at all.
    visitor.open("/?d_model=64&n_heads=7&norm_order=pre")
    expect(notices).to_contain_text("d_model 64 is not divisible by 7 heads")
    expect(visitor.number("d_model")).to_have_value("64")
    visitor.open("/?%ff=%00&=&&selected=../../etc/passwd%22&sample=99&head=-3")
    expect(visitor.verdict).to_have_attribute("data-verdict", "holds")


def test_nothing_comes_from_another_host(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer()
    fonts: list[str] = []
    visitor.page.on("response", lambda got: fonts.append(got.url) if got.request.resource_type == "font" else None)
    visitor.open()
    visitor.tab("Train")
    expect(visitor.state).to_contain_text("No step taken")
    visitor.page.get_by_role("button", name="? keys").click()
    expect(visitor.page.get_by_role("dialog")).to_be_visible()
    visitor.page.evaluate("document.fonts.ready")
    assert len(visitor.requests) > 30  # the record works: scripts, styles and calls are in it
    assert visitor.strangers() == []
    assert all(url.startswith(visitor.server.address) for url in fonts)
    # And the policy that the server sends would have kept a stranger out.
    policy = visitor.context.request.get(visitor.server.address).headers["content-security-policy"]
    assert "default-src 'self'" in policy


def test_the_csv_and_the_json_hold_the_whole_ledger(visitor: Visitor, tmp_path: Path) -> None:
    """H37: spreadsheets read it as UTF-8; commas, quotes and line breaks survive; a number stays a number."""
    speak(visitor, "中文", "zh-Hans")

    def download(name: str) -> bytes:
        with visitor.page.expect_download() as waiting:
            visitor.page.get_by_role("button", name=name, exact=True).click()
        path = tmp_path / waiting.value.suggested_filename
        waiting.value.save_as(path)
        assert path.suffix == f".{name.lower()}"
        return path.read_bytes()

    preset = load_preset("first_look")
    model, batch = build(preset.model, preset.masks, 7).eval(), preset.batch(7)
    with torch.no_grad(), trace(model) as ledger:
        model(batch.src, batch.tgt)
    expected = ledger.to_rows()

    raw = download("CSV")
    assert raw.startswith(b"\xef\xbb\xbf")
    lines = list(csv.DictReader(io.StringIO(raw.decode("utf-8-sig"), newline="")))
    assert [(f"{line['path']}/{line['tensor']}".lstrip("/")) for line in lines] == ledger.keys()
    assert any("," in line["formula"] for line in lines)
    for line, row in zip(lines, expected, strict=True):
        assert line["formula"] == row["formula"]
        assert line["shape"].split("×") == [str(size) for size in row["shape"]]
        assert int(line["bytes"]) == row["bytes"]
        assert line["source"] == row["source"]
        for name in ("min", "max", "mean"):
            if row[name] is None:
                assert line[name] == ""
            else:
                assert abs(float(line[name]) - row[name]) <= 1e-3 * max(1, abs(row[name]))
    assert any(line["min"].startswith("-") for line in lines)

    rows = json.loads(download("JSON"))["rows"]
    assert [row["key"] for row in rows] == ledger.keys()
    assert [row["shape"] for row in rows] == [row["shape"] for row in expected]
