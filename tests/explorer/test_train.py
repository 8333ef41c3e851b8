"""The handlers of Train: what buttons and strangers may ask, one person's run apart from another's, and fair slices."""

import dataclasses
import doctest
import gc
import json
import math
import re
import tomllib
from collections import Counter, deque
from types import SimpleNamespace

import gradio as gr
import pytest

from explorer import facts, looks, news, offers, plans, recipes, runs, theme, turns, words
from explorer import session as session_module
from explorer.live import Trained
from explorer.runs import Desk, Run
from explorer.session import Session
from explorer.views import train as view
from explorer.views import train_sidebar
from transformer_core import doctor, tasks

SMALL = Session.of_preset().change(d_model=12, n_heads=3, d_ff=17, n_encoder_layers=1, n_decoder_layers=1)
SLICE = view.SLICE


def values(task="copy", recipe="mine", steps=4, train_batch=5, lr=0.3, train_seed=7, **others) -> tuple:
    """What the controls hold, in their order; the rest as a small run has it."""
    chosen = {"task": task, "recipe": recipe, "steps": steps, "train_batch": train_batch, "optimizer": "adamw",
              "schedule": "warmup", "lr": lr, "warmup": 60, "train_dropout": 0.0, "smoothing": 0.1, "clip": 1.0,
              "train_seed": train_seed, "train_device": "cpu", "lesson": "none"} | others  # fmt: skip
    return tuple(chosen[name] for name in view.FIELDS)


VALUES = values()


def event(do=None, **data) -> SimpleNamespace:
    return SimpleNamespace(_data={"do": do, **data})


def ask(run, do, values=VALUES, session=SMALL):
    """The run after a command, what the view was told, and the timer."""
    desk = Desk(run)
    after, html, timer = view.command(event(do), desk, session, *values)
    assert skipped(after) or after is desk
    return desk.run, (None if skipped(html) else update_of(html)), timer


def update_of(component) -> dict:
    told = component["value"] if isinstance(component, dict) else component.value
    return json.loads(told)


def skipped(output) -> bool:
    return isinstance(output, dict) and set(output) == {"__type__"}


def active(timer) -> bool | None:
    if skipped(timer):
        return None
    return timer["active"] if isinstance(timer, dict) else timer.active


def slices(run) -> list[tuple]:
    """All that one tick says."""
    return list(view.tick(Desk(run)))


@pytest.fixture(autouse=True)
def few_looks(monkeypatch):
    monkeypatch.setattr(plans, "LOOKS", 2)


@pytest.fixture(autouse=True)
def unhurried(monkeypatch):
    """A slice goes on to its goal, however busy the machine that runs the tests."""
    monkeypatch.setattr(view, "SLICE", 60.0)


@pytest.fixture
def swept():
    """Blocks leave event loops unclosed; they are collected here, where gradio's warnings are only shown."""
    yield
    gc.collect()


# ------------------------------------------------------------------------------------------------------------ transport


def test_the_examples_in_the_docstrings():
    for module in (view, train_sidebar, offers, turns):
        assert doctest.testmod(module).failed == 0, module.__name__


def test_play_starts_the_run_of_the_sidebar_and_tick_takes_it_to_the_end():
    run, told, timer = ask(None, "play")
    assert (run.plan.task, run.plan.steps, run.plan.training.batch_size, run.plan.model.d_model) == ("copy", 4, 5, 12)
    assert told["reply"] == "play" and told["plan"]["steps"] == 4 and active(timer) is True
    kept, html, timer, trained, ended = slices(run)[-1]
    assert kept.run is run, "so that the state of a long run does not expire"
    assert update_of(html)["state"] == "finished" and len(update_of(html)["loss"]) == 4
    assert active(timer) is False and ended == len(kept.runs) == 1 and kept.runs[0].ended == "finished"
    assert isinstance(trained, Trained) and trained.step == 4 and not trained.model.training


def test_a_tick_without_work_puts_the_timer_to_sleep():
    run, _, _ = ask(None, "rewind")
    for idle in (run, None):
        ((_, html, timer, trained, _),) = slices(idle)
        assert active(timer) is False and skipped(trained)
        assert skipped(html) is (idle is not None)
    assert update_of(slices(None)[0][1]) == {"gone": True}


def test_step_pause_and_twenty():
    run, _, _ = ask(None, "step", values(steps=60))
    slices(run)
    assert run.step == 1 and run.state == "paused"
    ask(run, "more")
    ask(run, "pause")
    slices(run)
    assert run.step == 1, "paused before it began"
    ask(run, "more")
    for _ in range(50):
        if run.running:
            slices(run)
    assert run.step == 21 and run.state == "paused"


def test_rewind_repeats_the_run_and_frees_the_old_one():
    old, _, _ = ask(None, "play")
    slices(old)
    run, told, timer = ask(old, "rewind")
    assert run is not old and run.id != old.id and run.plan == old.plan
    assert told["state"] == "ready" and told["loss"] == [] and active(timer) is False
    ask(run, "play")
    slices(run)
    assert [report.loss for report in run.reports] == [report.loss for report in old.reports]


def test_rewind_takes_what_the_sidebar_says_now():
    run, _, _ = ask(None, "step")
    run, told, _ = ask(run, "rewind", values("reverse", steps=9))
    assert (run.plan.task, told["plan"]["steps"]) == ("reverse", 9)


def test_a_slice_that_ends_after_a_rewind_does_not_touch_the_new_run(monkeypatch):
    monkeypatch.setattr(view, "EVERY", 0.0)
    desk, long = Desk(), values(steps=60)
    view.command(event("play"), desk, SMALL, *long)
    old, late = desk.run, view.tick(desk)
    next(late)
    view.command(event("rewind"), desk, SMALL, *long)
    view.command(event("play"), desk, SMALL, *long)
    last = list(late)[-1]
    assert last[0] is desk and desk.run is not old and old.ended == "closed"
    assert all(skipped(output) for output in last[1:]), "neither its curve nor the timer of the new run"
    assert desk.run.running and desk.run.step == 0


def test_play_after_the_end_begins_anew():
    run, _, _ = ask(None, "play")
    slices(run)
    again, _, timer = ask(run, "play")
    assert again is not run and again.step == 0 and active(timer) is True


def test_play_after_a_pause_goes_on_with_the_same_run_whatever_the_sidebar_says():
    run, _, _ = ask(None, "step")
    slices(run)
    same, _, _ = ask(run, "play", values("reverse", steps=9))
    assert same is run and run.step == 1 and run.running


def test_stop_ends_the_run_at_once_and_hands_its_model_over():
    run, _, _ = ask(None, "step")
    slices(run)
    _, told, timer = ask(run, "stop")
    assert told["state"] == "stopped" and active(timer) is False
    html, trained, ended = view.hand_over(Desk(run))
    assert isinstance(trained, Trained) and (trained.step, trained.task) == (1, "copy")
    assert update_of(html)["state"] == "stopped" and ended == 1
    for nothing in (Desk(run), None, Desk()):
        assert all(skipped(output) for output in view.hand_over(nothing)), "once"


LONG = values(steps=60)  # a look every 50 steps


def test_what_is_said_of_a_stopped_run_is_of_the_step_at_which_it_stopped():
    run, _, _ = ask(None, "play", LONG)
    for _ in range(3):
        list(run.work(0, 9))
    _, told, _ = ask(run, "stop")
    assert (told["state"], told["step"]) == ("stopped", 3), "at once"
    assert [look.step for look in run.looks] == [0], "before the look, which takes its time in the queue"
    html, trained, _ = view.hand_over(Desk(run))
    told = update_of(html)
    assert (told["state"], told["step"], told["from"], told["loss"]) == ("stopped", 3, 3, [])
    assert [look["step"] for look in told["looks"]] == [0, 3] and told["looks_from"] == 0 and told["looked"] == 2
    assert told["looks"][-1]["step"] == trained.step == 3


def test_what_is_said_of_a_paused_run_is_of_the_step_at_which_it_paused():
    run, _, _ = ask(None, "play", LONG)
    for _ in range(3):
        list(run.work(0, 9))
    _, told, timer = ask(run, "pause")
    assert told["state"] == "paused" and active(timer) is True, "one more slice, for the look"
    first, last = (update_of(html) for _, html, *_ in slices(run))
    assert [look["step"] for look in first["looks"]] == [], "the steps are shown before the look is taken"
    assert [look["step"] for look in last["looks"]] == [3] and last["looks"][-1]["samples"]["of"] == looks.SAMPLES
    ((_, _, timer, *_),) = slices(run)
    assert active(timer) is False and run.step == 3, "and then it sleeps"
    assert active(ask(run, "pause")[2]) is False


def test_steps_taken_one_by_one_are_each_looked_at():
    run, _, _ = ask(None, "step", LONG)
    for step in (1, 2):
        told = update_of(slices(run)[-1][1])
        assert told["looks"][-1]["step"] == step == run.step
        ask(run, "step")
    assert [look.step for look in run.looks] == [0, 1, 2]


def test_hand_over_takes_no_model_from_a_run_that_goes_on():
    run, _, _ = ask(None, "play", values(steps=60))
    list(run.work(0, 9))
    assert all(skipped(output) for output in view.hand_over(Desk(run))) and run.running


def test_a_failed_run_hands_over_the_weights_of_its_last_good_step():
    run, _, _ = ask(None, "play", values(steps=60))
    list(run.work(0, 9))
    run._model.decoder.layers[0].feed_forward.w_1.weight.data.fill_(math.nan)
    _, html, timer, trained, _ = slices(run)[-1]
    assert update_of(html)["state"] == "failed" and active(timer) is False
    assert update_of(html)["fault"]["tensor"] == "decoder.layers.0.feed_forward/hidden"
    assert trained.step == update_of(html)["fault"]["step"] - 1


def test_a_tab_whose_run_is_gone_is_told_so():
    _, told, timer = ask(None, "wake")
    assert told == {"reply": "wake", "gone": True} and active(timer) is False


def test_resync_tells_the_whole_curve_and_the_plan():
    run, _, _ = ask(None, "play")
    slices(run)
    _, told, _ = ask(run, "resync")
    assert told["from"] == 0 and len(told["loss"]) == 4 and told["looks_from"] == 0 and told["plan"]["task"] == "copy"
    _, told, _ = ask(run, "wake")
    assert told["loss"] == [] and told["from"] == 4


# --------------------------------------------------------------------------------------------------- what strangers ask


@pytest.mark.parametrize(("given", "field"), [
    ({"steps": 10**9}, "steps"),
    ({"steps": math.nan}, "steps"),
    ({"steps": None}, "steps"),
    ({"train_batch": "5"}, "train_batch"),
    ({"lr": [0.3]}, "lr"),
    ({"lr": math.inf}, "lr"),
    ({"train_seed": -3}, "train_seed"),
    ({"task": "<script>"}, "task"),
    ({"recipe": {"a": 1}}, "recipe"),
    ({"optimizer": "sgd"}, "optimizer"),
    ({"schedule": None}, "schedule"),
    ({"schedule": "warmup", "warmup": 0}, "warmup"),
    ({"warmup": -1}, "warmup"),
    ({"warmup": 1e300}, "warmup"),
    ({"train_dropout": 1.0}, "train_dropout"),
    ({"smoothing": math.nan}, "smoothing"),
    ({"smoothing": True}, "smoothing"),
    ({"clip": -1e-9}, "clip"),
    ({"train_device": "/dev/null"}, "train_device"),
    ({"steps": 5000, "train_batch": 256}, None),
])  # fmt: skip
def test_a_value_that_cannot_be_is_refused_at_its_control_and_nothing_is_made(given, field, monkeypatch):
    """H34: whatever is sent past the controls, each field refuses what it cannot be."""
    chosen = values(**given)
    session = SMALL if field else SMALL.change(d_model=96, n_heads=3, d_ff=384, n_encoder_layers=2, n_decoder_layers=2)
    running, _, _ = ask(None, "step")
    monkeypatch.setattr(view, "Run", lambda *_: pytest.fail("no run may be made"))
    for run in (None, running):
        after, told, timer = ask(run, "rewind" if run else "play", chosen, session)
        assert after is run and told["refusal"]["field"] == (field or "steps") and skipped(timer)
        assert all(told["refusal"]["text"][lang] for lang in words.LANGUAGES)
    assert running.ended == "", "a refused rewind leaves the run as it was"
    shown = view.preview_payload(session, chosen)
    assert shown["refusal"] == told["refusal"]


@pytest.mark.parametrize(
    "data", [None, "play", 7, [], {}, {"do": None}, {"do": ["play"]}, {"do": "__class__"}, {"do": "x" * 9999}]
)
def test_a_nonsense_command_starts_nothing(data):
    after, html, _ = view.command(SimpleNamespace(_data=data), None, None, *VALUES)
    assert skipped(after) and update_of(html) == {"reply": "resync", "gone": True}


@pytest.mark.parametrize(
    "data", [None, 3, {}, {"changes": 5}, {"changes": {"steps": math.nan, "task": "x", "d_model": 3}}]
)
def test_a_nonsense_remedy_changes_nothing(data):
    assert all(skipped(update) for update in view.apply(SimpleNamespace(_data=data)))


def test_a_remedy_moves_its_control_alone():
    updates = dict(zip(view.FIELDS, view.apply(event(changes={"steps": 300})), strict=True))
    assert updates["steps"] == 300 and all(skipped(update) for name, update in updates.items() if name != "steps")


def test_each_way_out_of_a_refusal_is_itself_accepted():
    session = SMALL.change(d_model=96, n_heads=3, d_ff=384, n_encoder_layers=2, n_decoder_layers=2)
    chosen = dict(zip(view.FIELDS, values(steps=5000, train_batch=256), strict=True))
    choices = view.preview_payload(session, tuple(chosen.values()))["refusal"]["choices"]
    assert choices
    for choice in choices:
        assert "facts" in view.preview_payload(session, tuple((chosen | choice["changes"]).values()))
        assert set(choice["label"]) == set(words.LANGUAGES)


@pytest.mark.parametrize(("lr", "text", "button"), [
    (1e5, "between 0.000001 and 10", {"en": "lr 10", "zh": "学习率 10"}),
    (1e-9, "The nearest is 0.000001.", {"en": "lr 0.000001", "zh": "学习率 0.000001"}),
])  # fmt: skip
def test_a_limit_and_its_button_can_be_read(lr, text, button):
    refusal = view.preview_payload(SMALL, values(lr=lr))["refusal"]
    assert text in refusal["text"]["en"] and [choice["label"] for choice in refusal["choices"]] == [button]


def table_of(script: str, arguments: str, ending: str) -> dict:
    return json.loads(re.fullmatch(rf"\({arguments}\) => \((.*)\){re.escape(ending)}", script)[1])


def test_a_task_brings_its_recipe():
    table = table_of(train_sidebar.recipes_script(), "task", "[task]")
    assert set(table) == set(tasks.TASKS)
    for name, task in tasks.TASKS.items():
        recipe = dict(zip(train_sidebar.RECIPE, table[name], strict=True))
        assert recipe["lr"] == task.training.lr and recipe["clip"] == (task.training.clip_norm or 0)
        shown = view.preview_payload(None, values(name, "task", **recipe))["facts"]
        assert shown["steps"] == shown["learns_in"] and shown["named"] == "own"
        assert shown["chance_loss"] == pytest.approx(task.chance_loss, rel=1e-4)


def test_a_schedule_brings_the_rate_that_goes_with_it():
    """A factor of equation 3 is no rate: 0.2 as a constant rate would learn nothing."""
    script = train_sidebar.schedules_script()
    table = table_of(script, "schedule, task, lr, warmup", "[task]?.[schedule] ?? [lr, warmup]")
    for name in tasks.TASKS:
        assert set(table[name]) == set(train_sidebar.BY_NAME["schedule"].choices)
        for schedule, (lr, warmup) in table[name].items():
            shown = view.preview_payload(None, values(name, "task", schedule=schedule, lr=lr, warmup=warmup))["facts"]
            assert max(rate for _, rate in shown["curve"]) < 0.02, (name, schedule)


# ------------------------------------------------------------------------------------------------------------ the rate


def change_rate(run, lr):
    _, html, timer = view.command(event("rate", lr=lr), Desk(run), SMALL, *VALUES)
    return update_of(html), timer


def test_the_rate_is_changed_from_the_next_step_on_and_the_record_repeats_it():
    run, _, _ = ask(None, "play", LONG)
    for _ in range(3):
        list(run.work(0, 9))
    told, timer = change_rate(run, 0.6)
    assert told["lr"] == 0.6 and told["state"] == "running" and active(timer) is True
    for _ in range(3):
        list(run.work(0, 9))
    assert run.rate_changes == [(4, 0.6)] == [tuple(change) for change in run.record().rate_changes]
    plain, _, _ = ask(None, "play", LONG)
    for _ in range(6):
        list(plain.work(0, 9))
    rates = [[report.rate for report in each.reports] for each in (run, plain)]
    assert rates[0] == pytest.approx([*rates[1][:3], *(2 * rate for rate in rates[1][3:])])
    repeated = Run(run.plan, run.record(), run.step)
    list(repeated.work(60, 60))
    assert [report.loss for report in repeated.reports] == [report.loss for report in run.reports]
    assert repeated.state == "paused" and repeated.differs == 0


@pytest.mark.parametrize("lr", [None, math.nan, math.inf, -1.0, 0, 1e9, "0.1", [0.1], {}, True])
def test_a_rate_that_cannot_be_is_refused_and_the_run_goes_on_with_its_own(lr):
    run, _, _ = ask(None, "play", LONG)
    list(run.work(0, 9))
    told, timer = change_rate(run, lr)
    assert told["refusal"]["field"] == "lr" and told["refusal"]["at"] == "rate" and skipped(timer)
    list(run.work(0, 9))
    assert run.rate_changes == [] and run.lr == 0.3 and run.running


# ----------------------------------------------------------------------------------------------------------- the doctor


def test_the_doctor_s_sentences_are_those_of_the_core_word_for_word():
    said = words.section("en", "doctor")
    assert said == {**doctor.CAUSES, **doctor.REMEDIES}


def test_what_the_doctor_found_comes_with_one_change_that_the_page_can_make():
    found = doctor.Diagnosis("rate_too_high", "", "weights_grown", "lower_rate", {"lr": 0.0012},
                             {"grown": 816.0, "rate": 10.0, "share": 8560.0, "size": 0.117, "lr": 0.0012,
                              "new_rate": 0.00117, "new_share": 1.0})  # fmt: skip
    told = news.told(found)
    assert told["change"] == {"lr": 0.0012} and not told["of_explore"]
    assert "816 times" in told["cause"]["en"] and "816 倍" in told["cause"]["zh"]
    assert told["label"] == {"en": "lr 0.0012", "zh": "学习率 0.0012"}
    of_explore = news.told(dataclasses.replace(found, change={"positions": "sinusoidal"}))
    assert of_explore["of_explore"] and of_explore["label"]["en"] == "positions sinusoidal"
    nothing = news.told(dataclasses.replace(found, change={"scale_scores": True}))
    assert nothing["change"] is None, "the page has no control for it"


# ------------------------------------------------------------------------------------------------------- several people


def test_stop_of_one_person_does_not_touch_another_s_run():
    mine, _, _ = ask(None, "play", values(steps=60))
    yours, _, _ = ask(None, "play", values(steps=60))
    list(mine.work(0, 9))
    list(yours.work(0, 9))
    ask(mine, "stop")
    view.hand_over(Desk(mine))
    ask(mine, "rewind")
    assert yours.running and yours._model is not None
    list(yours.work(0, 9))
    assert yours.step == 2 and [report.loss for report in yours.reports[:1]] == [report.loss for report in mine.reports]


def test_everyone_gets_the_same_share_of_a_queue(monkeypatch):
    """Five tabs, one place at work, first come first served, as gradio's queue does it with concurrency_id "train"."""
    monkeypatch.setattr(view, "SLICE", SLICE)
    clock = [0.0]
    monkeypatch.setattr(runs.time, "monotonic", lambda: clock[0])

    def one_step(run: Run) -> None:
        run.reports.append(None)
        clock[0] += cost[run.id]

    monkeypatch.setattr(Run, "_advance", one_step)
    monkeypatch.setattr(view, "news", lambda *_: {})
    everyone = [ask(None, "rewind", values(steps=4000, train_seed=seed))[0] for seed in range(5)]
    cost = {run.id: seconds for run, seconds in zip(everyone, (0.01, 0.02, 0.05, 0.1, 0.3), strict=True)}
    for run in everyone:
        run.play()
    queue, used, turns, longest = deque(everyone), Counter(), Counter(), 0.0
    while clock[0] < 150:
        run = queue.popleft()
        begun = clock[0]
        slices(run)
        longest = max(longest, clock[0] - begun)
        used[run.id] += clock[0] - begun
        turns[run.id] += 1
        queue.append(run)
    assert max(turns.values()) - min(turns.values()) <= 1
    assert longest <= 1.0 + 1e-9, "the longest that anyone waits for one other"
    assert max(used.values()) / min(used.values()) < 1.4, (
        "time is shared, not steps: slow models do not slow the others"
    )


def test_the_wiring_is_bounded_and_its_state_is_the_tab_s(swept):
    with gr.Blocks() as blocks:
        session_state, trained_state = gr.State(None), gr.State(None)
        sidebar = view.build_sidebar()
        tab = view.build_tab(sidebar, session_state, trained_state)
    by_name = {}
    for function in blocks.fns.values():
        by_name.setdefault(function.name, function)
    tick = by_name["tick"]
    assert tick.concurrency_id == "train" and tick.concurrency_limit == view.slots() and tick.queue
    assert not by_name["command"].queue and by_name["command"].trigger_mode == "multiple"
    for name in ("command", "preview"):
        assert not by_name[name].preprocess, "a number out of a slider's range must reach the sentence that refuses it"
    assert by_name["hand_over"].queue, "gradio tells of a changed state only through its queue"
    assert tab.desk_state.time_to_live == 1800 and tab.desk_state.value is None
    handed = [tab.html, trained_state, tab.runs_state]
    assert [output._id for output in by_name["hand_over"].outputs] == [output._id for output in handed]
    assert tuple(sidebar.fields) == view.FIELDS and len(tab.trained_events) == 1
    assert all(
        function.api_visibility == "private" for function in blocks.fns.values() if function.name not in ("TabClosed",)
    )


def test_a_closed_tab_ends_its_own_run_alone(swept):
    with gr.Blocks() as blocks:
        state = gr.State(None)
    mine, yours = (
        Run(plans.plan(SMALL.change(steps=50), view.Limits())),
        Run(plans.plan(SMALL.change(steps=50), view.Limits())),
    )
    for run in (mine, yours):
        run.play()
        list(run.work(0, 9))
    holder = SimpleNamespace(
        session_data={
            "a": SimpleNamespace(state_data={state._id: Desk(mine)}),
            "b": SimpleNamespace(state_data={state._id: Desk(yours)}),
        }
    )
    blocks.state_holder = holder
    closed = view.TabClosed(blocks, state._id)
    closed(SimpleNamespace(session_hash="a"))
    closed(SimpleNamespace(session_hash="nobody"))
    closed(None)
    assert mine.ended == "closed" and mine._model is None
    assert yours.running and yours._model is not None


def test_nothing_is_remembered_in_the_modules():
    for module in (view, train_sidebar, facts, news, offers, plans, recipes, looks, runs):
        kept = [
            name
            for name, value in vars(module).items()
            if isinstance(value, (list, dict, set, bytearray, deque))
            and not name.startswith("__")
            and getattr(session_module, name, None) is not value
        ]
        assert kept == [], module.__name__


# ---------------------------------------------------------------------------------------------------------------- words


def test_labels_in_both_languages_in_the_order_of_the_controls(swept):
    with gr.Blocks():
        sidebar = view.build_sidebar()
    english, chinese = sidebar.relabel("en"), sidebar.relabel("zh")
    assert len(english) == len(chinese) == len(sidebar.relabel_targets)
    for field, one, other in zip(sidebar.relabel_targets, english, chinese, strict=True):
        assert one["label"] == field.label and one["label"] != other["label"]
        if "choices" in one:
            assert (
                [value for _, value in one["choices"]]
                == [value for _, value in other["choices"]]
                == [value for _, value in field.choices]
            )


SCRIPT = "\n".join(theme.script(name) for name in view.SCRIPTS)


def test_every_sentence_the_script_says_is_there():
    there = set(words.section("en", "train"))
    said = set(re.findall(r'\bt\(\s*"(\w+)"', SCRIPT))
    said |= {one for pair in re.findall(r't\([^"`()]*\? "(\w+)" : "(\w+)"', SCRIPT) for one in pair}
    assert len(said) > 80 and said <= there
    for beginning in re.findall(r"\bt\(`(\w+_)\$", SCRIPT):
        assert any(key.startswith(beginning) for key in there), beginning
    singular = {f"{key}_one" for key in re.findall(r'\bsome\("(\w+)"', SCRIPT)}
    assert singular and singular <= there
    held = {held for task in tasks.TASKS.values() for held in task.held_out}
    assert {f"set_{name}" for name in held} <= there


def test_both_languages_have_the_same_placeholders():
    texts = tomllib.loads((words.FOLDER / "train.toml").read_text(encoding="utf-8"))
    for table in texts.values():
        for key, said in table.items():
            assert said["en"].strip() and said["zh"].strip(), key
            assert words.placeholders(said["en"]) == words.placeholders(said["zh"]), key


def test_the_template_is_constant_and_the_script_writes_no_markup():
    assert "${" not in view.TEMPLATE and "{{" not in view.TEMPLATE
    assert not re.search(r"innerHTML\s*=|outerHTML|insertAdjacentHTML|document\.write|TL\.markup", SCRIPT)
