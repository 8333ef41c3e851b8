"""Runs: side by side, more seeds, files out and in, a lost run taken up, lessons; by keys, on a phone, in Chinese."""

from __future__ import annotations

import json
import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import PATIENCE, Server, Visitor
from tests.browser.test_access import PHONE, overflow, violations
from transformer_core import build, tasks
from transformer_core.records import RunRecord, load_weights
from transformer_core.training import train

if TYPE_CHECKING:
    from collections.abc import Callable

    from playwright.sync_api import Browser, Locator, Page

STOP_WITHIN = 1000  # ms
STOP = """() => new Promise((done) => {
  const box = document.querySelector(".tl-ru-series"), start = performance.now();
  const look = () => { if (box.hidden && box.dataset.state === "stopped") done(performance.now() - start); };
  new MutationObserver(look).observe(box, { attributes: true });
  box.querySelector("button").click();
})"""
SAME = "equal to the last digit"


def rows(visitor: Visitor) -> Locator:
    return visitor.page.locator(".tl-ru-table tbody tr")


def cell(visitor: Visitor, run: str, column: str) -> Locator:
    return visitor.page.locator(f'.tl-ru-table tr[data-run="{run}"] .tl-ru-c-{column}')


def do(visitor: Visitor, key: str) -> None:
    visitor.page.locator(f'.tl-runs [data-key="{key}"]').click()


def saved(visitor: Visitor, folder: Path) -> RunRecord:
    """The record of the chosen run, as it is taken home."""
    with visitor.page.expect_download() as download:
        do(visitor, "file-record")
    download.value.save_as(folder / "record.json")
    return RunRecord.from_json((folder / "record.json").read_text(encoding="utf-8"))


def trained(visitor: Visitor, steps: int) -> None:
    """A whole run of the chart, and its row."""
    before = rows(visitor).count()
    visitor.press("play")
    expect(visitor.state).to_contain_text(f"All {steps} steps done", timeout=3 * PATIENCE)
    expect(rows(visitor)).to_have_count(before + 1)


def paused(visitor: Visitor) -> tuple[int, str]:
    """The run halted after 20 steps: where, and its curve."""
    visitor.press("more")
    expect(visitor.state).to_contain_text("Paused at step 20", timeout=3 * PATIENCE)
    expect(visitor.page.locator(".tl-tr-look h2")).to_contain_text("Where it looks now")  # so it is kept
    return visitor.step(), visitor.curve()


def taken_up(visitor: Visitor, step: int, curve: str) -> None:
    """The offer is accepted, and the run is at its step with the same losses."""
    button = visitor.page.get_by_role("button", name=f"Take up the run of {step} steps")
    button.click()
    expect(visitor.state).to_contain_text(f"Paused at step {step}", timeout=3 * PATIENCE)
    expect(visitor.page.locator(".tl-tr-chart path.tl-tr-raw").first).to_have_attribute("d", curve)
    expect(visitor.page.locator(".tl-ru-again")).to_contain_text(SAME)
    expect(visitor.page.locator(".tl-ru-offer")).to_be_hidden()


def test_runs_side_by_side_more_seeds_and_files(visitor: Visitor, tmp_path: Path) -> None:
    page = visitor.page
    visitor.train("first = last?", 5)
    trained(visitor, 5)
    visitor.type("lr", 0.05)
    trained(visitor, 5)
    expect(cell(visitor, "7a", "differs")).to_have_text("–")
    expect(cell(visitor, "7b", "differs")).to_contain_text("→ 0.05")
    do(visitor, "pick-7b")
    expect(cell(visitor, "7b", "differs")).to_have_text("–")
    expect(cell(visitor, "7a", "differs")).to_contain_text("lr 0.05 →")
    # Two curves over each other, as soon as the second one is marked.
    expect(page.locator(".tl-ru-overlay")).to_be_hidden()
    page.get_by_role("checkbox", name=re.compile("^Lay run 7a")).check()
    expect(page.locator(".tl-ru-chart .tl-ru-end")).to_have_count(2)
    # More seeds are made one after another beside the chart, and end when told.
    do(visitor, "do-seeds")
    expect(page.locator(".tl-ru-series")).to_contain_text("Making run 1 of 4")
    expect(rows(visitor)).to_have_count(3, timeout=3 * PATIENCE)
    expect(page.locator(".tl-ru-spread")).to_contain_text("2 seeds of this configuration")
    took = page.evaluate(STOP)
    assert took < STOP_WITHIN, f"it took {took:.0f} ms"
    expect(page.locator(".tl-ru-chart .tl-ru-band")).to_have_count(1)
    expect(visitor.state).to_contain_text("All 5 steps done")  # the chart has not felt any of it
    # Renamed, removed, taken home.
    do(visitor, "pick-7a")
    page.get_by_label("name", exact=True).fill("first try")
    page.get_by_label("name", exact=True).press("Enter")
    expect(cell(visitor, "7a", "name")).to_have_text("first try")
    files = {}
    for kind in ("record", "curve", "script", "notebook"):
        with page.expect_download() as download:
            do(visitor, f"file-{kind}")
        files[kind] = tmp_path / download.value.suggested_filename
        download.value.save_as(files[kind])
    record = RunRecord.from_json(files["record"].read_text(encoding="utf-8"))
    assert (record.task, record.steps, record.seed, len(record.losses)) == ("first_last", 5, 7, 5)
    assert files["curve"].read_bytes().startswith(b"\xef\xbb\xbf")
    do(visitor, "pick-7b")
    with page.expect_download() as download:
        do(visitor, "file-weights")
    download.value.save_as(tmp_path / "w")
    assert load_weights((tmp_path / "w").read_bytes())[0].training.lr == 0.05
    count = rows(visitor).count()
    do(visitor, "do-remove")
    expect(rows(visitor)).to_have_count(count - 1)


def come_back(visitor: Visitor) -> Page:
    """The tab is closed, and its address opened in another one."""
    address = visitor.page.url
    visitor.page.close()
    visitor.page = visitor.context.new_page()
    visitor.page.on("pageerror", lambda error: visitor.faults.append(f"page: {error}"))
    visitor.open(address)
    return visitor.page


def test_a_closed_tab_is_taken_up_with_the_same_next_loss(visitor: Visitor, tmp_path: Path) -> None:
    """H36, H38: paused, closed, taken up, one step further: the losses of a run that nobody touched."""
    visitor.train("first = last?", 600)
    step, curve = paused(visitor)
    expect(visitor.page.locator(".tl-ru-keeps")).to_contain_text("a reload, a closed tab")
    page = come_back(visitor)
    expect(page.locator(".tl-ru-offer")).to_contain_text(f"first = last?, seed 7, {step} of 600 steps")
    taken_up(visitor, step, curve)
    visitor.press("step")
    visitor.beyond(step)
    expect(cell(visitor, "live", "steps")).to_have_text(f"{step + 1} / 600")
    expect(cell(visitor, "live", "shows")).to_contain_text("repeat of a record")
    record = saved(visitor, tmp_path)
    task = tasks.get("first_last")
    undisturbed = train(build(task.model, task.masks, 7), task, record.training, 7)
    assert list(record.losses) == [next(undisturbed).loss for _ in range(step + 1)]
    # Stopped, the run is whole: what this browser remembers of it can be repeated, or forgotten.
    visitor.press("stop")
    expect(cell(visitor, "7a", "steps")).to_have_text(f"{step + 1} / 600")
    page = come_back(visitor)
    expect(page.get_by_role("button", name=f"Take up the run of {step + 1} steps")).to_be_visible()
    page.get_by_role("button", name="Forget it").click()
    expect(page.locator(".tl-ru-offer")).to_be_hidden()


@pytest.mark.timeout(240)  # two servers are started
def test_a_killed_server_is_no_lost_run(browser: Browser, tmp_path: Path) -> None:
    """The process is killed with a run that is not done; what the browser remembers is enough for the next process."""
    first = Server(tmp_path / "first")
    second = None
    context = browser.new_context(viewport={"width": 1360, "height": 900}, locale="en-US", reduced_motion="reduce")
    try:
        first.wait()
        visitor = Visitor(context, first).open("/?tab=train&task=first_last&steps=600&train_batch=32")
        step, curve = paused(visitor)
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait(10)
        second = Server(tmp_path / "second", first.port)
        second.wait()
        visitor.page.goto("about:blank")
        visitor.open("/?tab=train")
        taken_up(visitor, step, curve)
        expect(visitor.number("steps")).to_have_value("600")
        expect(visitor.number("train_batch")).to_have_value("32")
    finally:
        context.close()
        for server in (first, second):
            if server is not None:
                server.stop()


def test_a_record_restores_the_page_of_another_person(newcomer: Callable[..., Visitor], tmp_path: Path) -> None:
    one = newcomer().open({"d_model": 24, "n_heads": 3, "norm_order": "pre", "recipe": "mine", "task": "reverse",
                           "steps": 5, "train_batch": 8, "train_seed": 11, "tab": "train"})  # fmt: skip
    one.press("play")
    expect(rows(one)).to_have_count(1, timeout=3 * PATIENCE)
    saved(one, tmp_path)
    other = newcomer().open("/?tab=train")
    put_in = other.page.locator(".tl-runs input[type=file]")
    put_in.set_input_files(tmp_path / "record.json")
    expect(other.page.locator(".tl-ru-again")).to_contain_text(f"all 5 losses are {SAME}", timeout=3 * PATIENCE)
    expect(other.number("train_seed")).to_have_value("11")
    expect(other.control("recipe").get_by_role("radio", name="from Explore")).to_be_checked()
    expect(other.control("task").get_by_role("radio", name="reverse")).to_be_checked()
    other.tab("Explore")
    expect(other.page.locator(".tl-facts")).to_contain_text("trained on reverse, step 5")
    expect(other.control("norm_order").get_by_role("combobox")).to_have_value("Pre-LN")
    assert other.query()["d_model"] == "24"
    # One loss of the file is changed: the first difference is named, with both numbers.
    record = json.loads((tmp_path / "record.json").read_text(encoding="utf-8"))
    record["losses"][2] = 9.75
    (tmp_path / "changed.json").write_text(json.dumps(record), encoding="utf-8")
    other.tab("Train")
    put_in.set_input_files(tmp_path / "changed.json")
    expect(other.page.locator(".tl-ru-again")).to_contain_text(re.compile("From step 3 on .* 9.75 in the record"))
    # No record at all: a sentence, and the run that is there stays.
    (tmp_path / "none.json").write_text("{", encoding="utf-8")
    put_in.set_input_files(tmp_path / "none.json")
    expect(other.page.locator(".tl-ru-refusal")).to_contain_text("not valid JSON")
    expect(other.state).to_contain_text("All 5 steps done")


def test_a_lesson_is_in_the_page_in_the_link_and_left_again(visitor: Visitor) -> None:
    page = visitor.page
    visitor.tab("Train")
    question = page.locator('[data-key="lesson-no_decoder_positions"]')
    question.focus()
    page.keyboard.press("Enter")
    expect(question).to_have_attribute("aria-expanded", "true")
    expect(page.locator(".tl-ru-answer")).to_contain_text("Measured:")
    variant = page.locator('.tl-ru-answer [data-key^="variant-"]').nth(1)
    name = (variant.get_attribute("data-key") or "").removeprefix("variant-")
    variant.click()
    expect(page.locator(".tl-ru-here")).to_have_count(1)
    page.wait_for_function("(name) => new URLSearchParams(location.search).get('lesson') === name", arg=name)
    expect(page.locator(".tl-tr-mode")).to_contain_text("seed 7")
    visitor.press("step")
    visitor.beyond(0)
    page.reload()
    visitor.ready()
    expect(variant).to_have_attribute("aria-pressed", "true")
    # All variants beside the chart; each is a row, marked for the overlay.
    do(visitor, "both-no_decoder_positions")
    expect(page.locator(".tl-ru-series")).to_contain_text("Making run 1 of")
    page.wait_for_function("Number(document.querySelector('.tl-ru-bar')?.getAttribute('aria-valuenow')) > 1")
    do(visitor, "stop-series")
    expect(page.locator(".tl-ru-table tbody input:checked")).to_have_count(1)
    do(visitor, "lesson-leave")
    page.wait_for_function("!new URLSearchParams(location.search).has('lesson')")


def test_everyone_can_use_it(newcomer: Callable[..., Visitor]) -> None:
    """By keys, as axe sees it in both languages and themes, and within the width of a phone."""
    visitor = newcomer(**PHONE).open("/?tab=train&task=first_last&steps=3")
    page = visitor.page
    for _ in range(2):
        visitor.press("rewind" if rows(visitor).count() else "play")
        if rows(visitor).count():
            visitor.press("play")
        expect(visitor.state).to_contain_text("All 3 steps done", timeout=3 * PATIENCE)
        expect(rows(visitor).first).to_be_visible()
    expect(rows(visitor)).to_have_count(2)
    page.locator('[data-key="pick-7b"]').focus()
    page.keyboard.press("Enter")
    expect(page.locator('tr[data-run="7b"]')).to_have_class("tl-ru-chosen")
    expect(page.locator('[data-key="pick-7b"]')).to_be_focused()
    page.locator('[data-key="mark-7a"]').focus()
    page.keyboard.press("Space")
    expect(page.locator(".tl-ru-chart .tl-ru-end")).to_have_count(2)
    page.locator("#tl-ru-name").fill("")
    page.keyboard.type("r p 1")  # letters of a name are no keys of the page
    page.keyboard.press("Enter")
    expect(cell(visitor, "7b", "name")).to_have_text("r p 1")
    page.locator(".tl-ru-question").first.click()
    assert overflow(visitor) <= 0
    for lang, theme in (("en", "light"), ("zh", "dark")):
        page.locator(f".tl-lang [data-lang={lang}]").click()
        expect(page.locator(".tl-ru-head h2")).to_contain_text({"en": "Runs", "zh": "各次训练"}[lang])
        if theme == "dark":
            page.locator("button.tl-theme").click()
        assert violations(visitor) == []
        assert overflow(visitor) <= 0
