"""Train: a run goes to its end, pauses, takes one step, starts again, stops; Explore shows the model that it made."""

from __future__ import annotations

import dataclasses
import re
import time
from typing import TYPE_CHECKING

import pytest
import torch
from playwright.sync_api import expect

from transformer_core import build, tasks, trace
from transformer_core.training import train

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.browser.conftest import Server, Visitor

SEED = 7
STEPS = 30
STOP_WITHIN = 1000  # ms
PATIENCE = 15_000
STOP = """() => new Promise((done) => {
  const button = document.querySelector(".tl-tr-transport [data-do=stop]");
  const state = document.querySelector(".tl-tr-state");
  const start = performance.now();
  const look = () => { if (state.textContent.startsWith("Stopped at step")) done(performance.now() - start); };
  new MutationObserver(look).observe(state, { childList: true, subtree: true, characterData: true });
  button.click();
})"""
REPLAY = """() => new Promise((done) => {
  const panel = document.querySelector(".tl-tr-look"), steps = [];
  const look = () => {
    const step = Number(/step (\\d+)/.exec(panel.textContent)[1]);
    if (steps.at(-1) !== step) steps.push(step);
    if (steps.length > 1 && step === 40) done(steps);
  };
  new MutationObserver(look).observe(panel, { childList: true, subtree: true });
  document.querySelector(".tl-tr-filmbar button").click();
})"""
WEIGHTS = "encoder.layers.0.self_attention/weights"


def test_a_run_goes_to_its_end_and_explore_shows_its_model(visitor: Visitor) -> None:
    page = visitor.page
    visitor.train("first = last?", STEPS)
    expect(page.locator(".tl-tr-chart")).to_contain_text("chance 50 %")
    visitor.press("play")
    expect(visitor.state).to_contain_text(f"All {STEPS} steps done", timeout=45_000)
    expect(visitor.progress).to_have_attribute("aria-valuenow", str(STEPS))
    # The curve is that of the library: the same seed and settings give the same losses.
    task = tasks.get("first_last")
    recipe = dataclasses.replace(task.training, task="first_last", steps=STEPS, epochs=None)
    model = build(task.model, task.masks, SEED)
    reports = list(train(model, task, recipe, SEED))
    page.get_by_text("The values as a table").click()
    lines = page.locator(".tl-tr-table tbody tr")
    expect(lines.last.locator("th")).to_have_text(str(STEPS))
    for line in lines.all():
        step, loss = int(line.locator("th").inner_text()), float(line.locator("td").first.inner_text())
        assert loss == pytest.approx(reports[step - 1].loss, abs=6e-4), f"step {step}"
    # Explore: the same weights on sentences of the task, not those of the seed.
    visitor.tab("Explore")
    expect(page.locator(".tl-facts")).to_contain_text(f"trained on first_last, step {STEPS}")
    expect(visitor.control("weights").get_by_role("radio", name="trained")).to_be_checked()
    expect(visitor.control("architecture").get_by_role("radio", name="encoder", exact=True)).to_be_checked()
    assert visitor.query()["weights"] == "trained"
    batch = task.sample(2, torch.Generator().manual_seed(SEED))
    untrained = build(task.model, task.masks, SEED).eval()
    with torch.no_grad(), trace(model.eval()) as trained:
        model(batch.src)
    with torch.no_grad(), trace(untrained) as fresh:
        untrained(batch.src)
    visitor.select("probabilities")
    shown = [float(text) for line in visitor.map().texts() for text in line]
    assert shown == pytest.approx(trained["probabilities"].value.flatten().tolist(), abs=0.0051)
    assert shown != pytest.approx(fresh["probabilities"].value.flatten().tolist(), abs=0.0051)
    # The same of the attention, whose map is too wide for numbers: a cursor reads it, cell by cell.
    visitor.select(WEIGHTS)
    _, sample, head = (visitor.explore.get_attribute("data-shown") or "").split("|")
    picture = visitor.pane("tensor").get_by_role("img", name=re.compile("^weights"))
    tokens = task.describe_tokens(batch.src)[int(sample)]
    picture.focus()
    for key, row, column in (("ArrowRight", 0, 0), ("ArrowRight", 0, 1), ("ArrowDown", 1, 1)):
        picture.press(key)
        probability = trained[WEIGHTS].value[int(sample), int(head), row, column].item()
        expect(visitor.pane("tensor").locator("output")).to_have_text(
            f"query {tokens[row]} · key {tokens[column]} · {probability:.6f}"
        )


def test_pause_step_and_rewind_give_the_same_curve(visitor: Visitor) -> None:
    visitor.train("copy", 300)
    assert visitor.curve() == ""
    visitor.press("play")
    visitor.beyond(3)
    visitor.press("play")  # the same button pauses
    expect(visitor.state).to_contain_text("Paused at step")
    expect(visitor.page.get_by_role("button", name="Play", exact=True)).to_be_visible()
    # The step under way is taken to its end; then each press is one more.
    shown = visitor.step()
    visitor.press("step")
    visitor.beyond(shown)
    visitor.press("step")
    visitor.beyond(shown + 1)
    expect(visitor.state).to_contain_text("Paused at step")
    paused = visitor.step()
    assert shown + 2 <= paused <= shown + 3
    longer = visitor.curve()
    visitor.press("rewind")
    expect(visitor.progress).to_have_attribute("aria-valuenow", "0")
    expect(visitor.state).to_contain_text("At the start: the weights are those of seed 7.")
    assert visitor.curve() == ""
    # From the start again, in leaps and in single steps: the same losses, step by step.
    for _ in range(paused // 20):
        visitor.press("more")
    for _ in range(paused % 20):
        visitor.press("step")
    expect(visitor.progress).to_have_attribute("aria-valuenow", str(paused), timeout=2 * PATIENCE)
    expect(visitor.page.locator(".tl-tr-chart path.tl-tr-raw").first).to_have_attribute("d", longer)


def test_stop_is_at_once_and_hands_over_the_model(visitor: Visitor) -> None:
    page = visitor.page
    visitor.train("reverse", 2000)
    visitor.press("play")
    visitor.beyond(5)
    took = page.evaluate(STOP)
    assert took < STOP_WITHIN, f"it took {took:.0f} ms"
    expect(page.locator(".tl-tr-transport [data-do=stop]")).to_have_attribute("aria-disabled", "true")
    page.get_by_role("button", name="Weights → Explore").click()
    expect(page.get_by_role("tab", name="Explore")).to_have_attribute("aria-selected", "true")
    facts = page.locator(".tl-facts")
    expect(facts).to_contain_text("trained on reverse, step")
    first = int(re.findall(r"step (\d+)", facts.inner_text())[0])
    assert 5 < first < 2000
    # What no longer fits gives way to fresh weights, with the way back.
    with visitor.new_run():
        visitor.pick("n_heads", "8")
    with visitor.new_run():
        visitor.type("d_model", 32)
    notice = page.locator(".tl-notice").filter(has_text="the trained weights no longer fit")
    expect(notice).to_contain_text("d_model 64 → 32")
    with visitor.new_run():
        notice.get_by_role("button", name="Back to the trained model").click()
    expect(notice).to_have_count(0)
    expect(visitor.number("d_model")).to_have_value("64")
    expect(facts).to_contain_text(f"trained on reverse, step {first}")
    # Train says the same, and the next run takes the place of this one.
    visitor.tab("Train")
    expect(visitor.state).to_contain_text(f"Stopped at step {first}.")
    visitor.press("rewind")
    expect(visitor.progress).to_have_attribute("aria-valuenow", "0")
    visitor.press("play")
    visitor.beyond(first + 1)
    visitor.press("stop")
    expect(visitor.state).to_contain_text("Stopped at step")
    visitor.tab("Explore")
    expect(facts).not_to_contain_text(f"step {first}")
    second = int(re.findall(r"step (\d+)", facts.inner_text())[0])
    visitor.tab("Train")
    expect(visitor.state).to_contain_text(f"Stopped at step {second}.")


def test_what_is_said_of_a_halted_run_is_of_its_own_step(visitor: Visitor) -> None:
    page, verdict = visitor.page, visitor.page.locator(".tl-tr-verdict")
    visitor.train("copy", 600)  # a look every 50 steps
    visitor.press("play")
    visitor.beyond(3)
    expect(verdict).to_contain_text(re.compile(r"tokens are right, chance 5.9 %. Whole sentences: [0-9.]+ %"))
    for halt, said in (("play", "Paused at step"), ("stop", "Stopped at step")):
        visitor.press(halt)
        expect(visitor.state).to_contain_text(said)
        expect(page.locator(".tl-tr-look h2")).to_contain_text("Where it looks now")
        step = visitor.step()
        assert step % 50, "between two looks"
        for part in (".tl-tr-verdict", ".tl-tr-look h2", ".tl-tr-samples h2"):
            expect(page.locator(part)).to_contain_text(re.compile(rf"step {step}\b"))
        expect(page.locator(".tl-tr-chart")).to_contain_text(re.compile(r"held-out sentences [0-9.]+ %"))
        if halt == "play":
            visitor.press("play")
            visitor.beyond(step)
    expect(page.locator(".tl-tr-lesson h2")).to_have_text("About this task (its recipe, measured beforehand)")


def test_the_labels_of_a_narrow_chart_stay_in_their_panel(newcomer: Callable[..., Visitor]) -> None:
    visitor = newcomer(viewport={"width": 390, "height": 844}).open("/?tab=train")
    for step in (1, 2):
        visitor.press("step")
        expect(visitor.page.locator(".tl-tr-look h2")).to_contain_text(f"step {step}")
    boxes = visitor.page.evaluate(
        """[...document.querySelectorAll(".tl-tr-chart text")].filter((one) => one.textContent)
           .map((one) => [one.textContent, one.getBoundingClientRect().toJSON()])"""
    )
    assert any(text.startswith("held-out sentences") for text, _ in boxes)
    right = visitor.page.locator(".tl-tr-chart").bounding_box()
    for i, (text, one) in enumerate(boxes):
        assert one["right"] <= right["x"] + right["width"] + 1, text
        for other, two in boxes[i + 1 :]:
            across = min(one["right"], two["right"]) - max(one["left"], two["left"])
            down = min(one["bottom"], two["bottom"]) - max(one["top"], two["top"])
            assert across <= 1 or down <= 4, f"{text!r} is printed over {other!r}"


def test_a_spike_does_not_flatten_the_curve(visitor: Visitor) -> None:
    visitor.train("first = last?", 40)
    visitor.type("lr", 10)
    visitor.press("more")
    expect(visitor.state).to_contain_text("Paused at step 20", timeout=2 * PATIENCE)
    chart = visitor.page.locator(".tl-tr-chart")
    expect(chart).to_contain_text(re.compile(r"above the axis: up to [0-9.,]+ at step \d+"), timeout=2 * PATIENCE)
    assert chart.locator(".tl-tr-above").count() >= 1


def test_the_next_run_is_refused_and_not_the_one_on_screen(visitor: Visitor) -> None:
    page = visitor.page
    visitor.train("copy", 100)
    visitor.type("lr", 100_000)
    expect(page.locator(".tl-tr-refusal")).to_contain_text("This run cannot start. lr is 100000")
    page.locator("#tl-tr-refused").get_by_role("button", name="lr 10", exact=True).click()
    expect(page.locator("#tl-tr-refused")).to_have_count(0)
    visitor.press("step")
    visitor.beyond(0)
    visitor.type("lr", 100_000)
    expect(page.locator(".tl-tr-refusal")).to_contain_text("The next run cannot start. lr is 100000")


def test_a_task_that_takes_another_model_than_explore_s_says_so(visitor: Visitor) -> None:
    visitor.train("first = last?", 15)
    facts = visitor.page.locator(".tl-tr-mode")
    expect(facts).not_to_contain_text("Explore")
    visitor.pick("recipe", "from Explore")
    expect(facts).to_contain_text("trained with an encoder alone; the model on Explore has an encoder and a decoder")
    visitor.press("step")
    expect(visitor.page.locator(".tl-tr-chart")).to_contain_text("sentences every step")


def test_a_run_that_is_too_long_for_this_host_is_refused_at_its_control(visitor: Visitor) -> None:
    visitor.train("copy", 100)
    visitor.type("train_batch", 100_000)
    refusal = visitor.page.locator("#tl-tr-refused")
    expect(refusal).to_contain_text("256")
    refusal.get_by_role("button").first.click()
    expect(refusal).to_have_count(0)
    expect(visitor.number("train_batch")).to_have_value("256")


QUICK = {"tab": "train", "recipe": "mine", "d_model": 16, "d_ff": 32, "n_encoder_layers": 1, "n_decoder_layers": 1,
         "train_batch": 8, "steps": 60}  # fmt: skip


def test_a_recipe_with_a_name_sets_its_controls_and_is_in_the_link(visitor: Visitor) -> None:
    page = visitor.open({"tab": "train"}).page
    recipes = page.locator("#tl-tr-recipes")
    ahead = page.locator(".tl-tr-chart path.tl-tr-expected").last
    expect(recipes.get_by_role("button", name="task's own")).to_have_attribute("aria-pressed", "true")
    before = ahead.get_attribute("d")
    recipes.get_by_role("button", name="cosine", exact=True).click()
    expect(recipes.get_by_role("button", name="cosine", exact=True)).to_have_attribute("aria-pressed", "true")
    expect(visitor.number("lr")).to_have_value("0.003")
    expect(page.locator(".tl-tr-chart")).to_contain_text("cosine from 0.003")
    assert ahead.get_attribute("d") != before, "the schedule is drawn before anything is trained"
    # A schedule chosen by hand brings a rate that goes with it; a mixture has no name.
    visitor.choose("schedule", "eq. 3")
    expect(visitor.number("lr")).to_have_value("0.2")
    visitor.type("smoothing", 0.3)
    visitor.type("clip", 0)
    expect(recipes.locator("[aria-pressed=true]")).to_have_count(0)
    page.wait_for_function("new URLSearchParams(location.search).get('clip') === '0.0'")
    linked = visitor.query()
    assert linked["smoothing"] == "0.3"
    visitor.open(linked)
    expect(visitor.number("smoothing")).to_have_value("0.3")
    expect(page.locator(".tl-tr-chart")).to_contain_text("no clipping in this run")


def test_the_rate_changes_while_it_runs_and_the_film_is_replayed(visitor: Visitor) -> None:
    page = visitor.open(QUICK).page
    visitor.press("more")
    expect(visitor.state).to_contain_text("Paused at step 20", timeout=2 * PATIENCE)
    page.get_by_role("button", name="Double the rate from the next step on").click()
    expect(page.locator("#tl-tr-lr")).to_have_value("0.4")
    page.locator("#tl-tr-lr").fill("-1")
    page.locator("#tl-tr-lr").press("Enter")
    expect(page.locator(".tl-tr-refusal")).to_contain_text("The rate stays as it was. lr is -1")
    visitor.press("more")
    expect(visitor.state).to_contain_text("Paused at step 40", timeout=2 * PATIENCE)
    expect(page.locator(".tl-tr-chart")).to_contain_text("0.4 from step 21")
    # Each part of the model has its norm, and the table holds it.
    page.get_by_text("The values as a table").click()
    expect(page.locator(".tl-tr-table thead")).to_contain_text("norm decoder.layers.0")
    # The film: a frame is chosen by an arrow key, which is no training step there; a click chooses, too.
    reel, heading = page.locator(".tl-tr-reel"), page.locator(".tl-tr-look h2")
    expect(heading).to_contain_text("step 40")
    samples = page.locator(".tl-tr-samples")
    reel.focus()
    reel.press("ArrowLeft")
    expect(heading).to_contain_text("step 35")
    expect(samples.locator("h2")).to_contain_text("step 35")
    reel.press("Home")
    expect(heading).to_contain_text("step 0")
    reel.locator("g[data-look='2']").click()
    expect(heading).to_contain_text("step 10")
    page.get_by_role("button", name="Now", exact=True).click()
    expect(heading).to_contain_text("step 40")
    played = page.evaluate(REPLAY)
    assert played[0] == 0 and played[-1] == 40 and played == sorted(played) and len(played) > 4
    assert visitor.step() == 40
    # Mistakes are struck out or marked by a caret, and the other held-out sets stand beside the new questions.
    wrong = samples.locator("tbody tr").filter(has_text="✗").first
    assert wrong.locator("del, ins").count() > 0
    expect(samples.locator("ins .tl-tr-caret").first).to_have_text("‸")
    sets = page.locator(".tl-tr-sets tbody th")
    assert [text.split("\n")[0].strip("□△◇ ") for text in sets.all_inner_texts()] == ["new", "longer", "fresh symbols"]


def test_the_doctor_names_a_cause_and_one_change_to_try(visitor: Visitor) -> None:
    page = visitor.open({**QUICK, "schedule": "constant", "lr": "10.0", "clip": "0.0"}).page
    visitor.press("play")
    doctor = page.locator(".tl-tr-doctor")
    expect(doctor).to_contain_text("The weights are", timeout=3 * PATIENCE)
    expect(visitor.progress).to_have_attribute("aria-valuenow", "60", timeout=3 * PATIENCE)
    doctor.get_by_role("button").click()
    expect(visitor.number("lr")).not_to_have_value("10")
    visitor.press("rewind")
    expect(doctor).to_be_hidden()


def test_two_people_train_side_by_side(newcomer: Callable[..., Visitor]) -> None:
    """H35: neither settings nor runs nor buttons of one reach the other."""
    one, other, shape = newcomer().open(), newcomer(), "decoder.layers.1.cross_attention/weights"
    with one.new_run():
        one.pick("n_heads", "8")
    one.train("copy", 5000)
    one.press("more")
    expect(one.progress).to_have_attribute("aria-valuenow", "20", timeout=2 * PATIENCE)
    other.open()
    assert other.query() == {}
    expect(other.control("n_heads").get_by_role("radio", name="4", exact=True)).to_be_checked()
    expect(other.cell(shape, "shape")).to_have_text("2×4×5×7")
    expect(other.control("weights").get_by_role("radio", name="trained")).not_to_be_checked()
    other.tab("Train")
    expect(other.state).to_contain_text("No step taken")
    # Both at once; the other one's Stop ends the other one's run alone.
    one.press("play")
    one.beyond(20)
    other.train("first = last?", 400)
    other.press("play")
    other.beyond(2)
    other.press("stop")
    expect(other.state).to_contain_text("Stopped at step")
    one.beyond(one.step() + 2)
    expect(one.state).to_contain_text("Training.")
    one.press("play")
    other.tab("Explore")
    expect(other.page.locator(".tl-facts")).to_contain_text("trained on first_last")
    one.tab("Explore")
    expect(one.page.locator(".tl-facts")).not_to_contain_text("trained")
    expect(one.cell(shape, "shape")).to_have_text("2×8×5×7")


def test_closing_the_tab_ends_its_run(newcomer: Callable[..., Visitor]) -> None:
    """H36: within five seconds the server has nothing left to do."""
    visitor = newcomer().open()
    visitor.train("copy", 5000)
    visitor.press("play")
    visitor.beyond(3)
    seen = any(share(visitor.server) > 0.2 for _ in range(9))  # other tests want the processor too
    assert seen, "the run does not show in the processor time, so its end would not either"
    visitor.page.close()
    closed, shares = time.monotonic(), []
    while time.monotonic() - closed < 5 and (not shares or shares[-1] >= 0.1):
        shares.append(share(visitor.server))
    assert shares[-1] < 0.1, f"shares of a core, second by second: {shares}"


def share(server: Server) -> float:
    """How much of a core the server used in the last second. Only a rate has to wait for a time."""
    before, start = server.cpu_seconds(), time.monotonic()
    time.sleep(1)
    return (server.cpu_seconds() - before) / (time.monotonic() - start)
