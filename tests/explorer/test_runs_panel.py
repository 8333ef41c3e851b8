"""The panel Runs: more seeds beside the chart, files out, records in, a lost run taken up with the same next loss."""

from __future__ import annotations

import base64
import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest
import torch

from explorer import lessons, looks, plans, run_rows, shelf, taking_up, words
from explorer.fields import TRAINING, open_choices
from explorer.limits import Limits
from explorer.live import Trained
from explorer.refusals import Refusal
from explorer.runs import Desk, Run
from explorer.session import Session
from explorer.shelf import MAX_ROWS, Series, Shelf, Wish, letters
from explorer.views import runs as view
from transformer_core import records
from transformer_core.records import RunRecord

LIMITS = Limits()
SMALL = Session.of_preset().change(
    d_model=12, n_heads=3, d_ff=17, n_encoder_layers=1, n_decoder_layers=1, recipe="mine", task="copy", steps=7,
    train_batch=5, lr=0.3, warmup=3, train_dropout=0.3,
)  # fmt: skip
LABEL = {"en": "copy", "zh": "复制"}


FEW = ((plans, "LOOKS", 2), (looks, "QUESTIONS", 6), (looks, "OTHERS", 5))
"""A look costs more than many steps of so small a model."""


@pytest.fixture(autouse=True)
def few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in FEW:
        monkeypatch.setattr(*each)


def plan(**changes: Any) -> plans.Plan:
    return plans.plan(SMALL.change(**changes), LIMITS)


def lesson_names() -> tuple[str, ...]:
    return open_choices("lesson")


def compared(run: Run) -> dict[str, Any]:
    assert run.again is not None
    return taking_up.compared(run.again, run.reports, run.differs)


def worked(run: Run, steps: int | None = None) -> Run:
    run.play() if steps is None else run.forward(steps)
    return at_rest(run)


def at_rest(run: Run) -> Run:
    while run.running:
        for _ in run.work(60, 60):
            pass
    run.catch_up()
    return run


def losses(run: Run) -> list[float]:
    return [report.loss for report in run.reports]


@pytest.fixture(scope="module")
def whole() -> Run:
    """All seven steps, and no hand in between."""
    with pytest.MonkeyPatch.context() as patch:
        for each in FEW:
            patch.setattr(*each)
        return worked(Run(plan()))


@pytest.fixture(scope="module")
def record(whole: Run) -> RunRecord:
    return whole.record()


# ------------------------------------------------------------------------------------------------- a lost run taken up


def test_a_record_of_another_host_s_device_sets_one_that_is_here(
    record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    session = taking_up.session_of(dataclasses.replace(record, device="cuda:0"))
    assert dict(zip(TRAINING, taking_up.train_values(session), strict=True))["train_device"] == "cpu"


def test_a_lost_run_is_taken_up_with_the_same_next_loss(whole: Run) -> None:
    """H36, H38: what a browser keeps of a run is enough: a tab closed, a page loaded anew, a server killed."""
    lost = worked(Run(plan()), 4)
    kept = taking_up.light(lost.record()).to_json()
    lost.close()
    assert len(kept) < 4000 and "losses\": []" in kept
    record = taking_up.read(kept, LIMITS)
    again = Run(taking_up.plan_of(record, LIMITS), record, record.steps)
    assert again.plan == plan() and again.state == "running"
    assert at_rest(again).state == "paused"
    assert losses(again) == losses(lost) == losses(whole)[:4]
    told = compared(again)
    assert (told["step"], told["to"], told["differs"], told["compared"], told["curve"]) == (4, 4, 0, 1, False)
    assert losses(worked(again, 1))[4] == losses(whole)[4]
    assert losses(worked(again)) == losses(whole) and again.ended == "finished"


def test_a_rate_that_was_changed_by_hand_is_changed_again() -> None:
    run = worked(Run(plan()), 2)
    run.change_rate(0.05)
    worked(run)
    record = taking_up.read(run.record().to_json(), LIMITS)
    assert record.rate_changes == ((3, 0.05),)
    again = at_rest(Run(taking_up.plan_of(record, LIMITS), record, record.steps))
    assert losses(again) == losses(run) != losses(worked(Run(plan())))
    assert compared(again)["compared"] == 7
    assert "rate_changes" in taking_up.without_control(record, plan())


def test_losses_that_differ_are_named_with_what_else_differs(record: RunRecord) -> None:
    other = [*record.losses]
    other[4] += 0.25
    changed = dataclasses.replace(record, losses=tuple(other), torch="0.1", threads=record.threads + 1)
    told = compared(at_rest(Run(taking_up.plan_of(changed, LIMITS), changed, 7)))
    assert (told["differs"], told["here"], told["there"]) == (5, record.losses[4], other[4])
    named = {each["name"]: each["from"] for each in told["elsewhere"]}
    assert named == {"torch": "0.1", "threads": str(changed.threads)}
    light = taking_up.light(dataclasses.replace(record, losses=(*other[:-1], 9.5)))
    told = compared(at_rest(Run(taking_up.plan_of(light, LIMITS), light, 7)))
    assert (told["differs"], told["there"]) == (7, 9.5)


# ----------------------------------------------------------------------------------------------------------- put in


@pytest.mark.parametrize("changes", [
    {}, {"recipe": "task", "train_batch": 128}, {"task": "reverse", "positions": "learned", "clip": 0.5},
    {"optimizer": "adam", "schedule": "constant", "lr": 0.01, "smoothing": 0.0, "norm_order": "pre"},
    {"decoder_self": ("padding",), "fill": "-1e9", "train_seed": 11},
])  # fmt: skip
def test_a_record_sets_every_control_that_made_it(changes: dict[str, Any]) -> None:
    asked = SMALL.change(**changes)
    planned = plans.plan(asked, LIMITS)
    made = records.record_of(model=planned.model, masks=planned.masks, training=planned.training, seed=planned.seed,
                             reports=(), ended="paused", seconds=0.0)  # fmt: skip
    session = taking_up.session_of(taking_up.read(made.to_json(), LIMITS))
    names = [*TRAINING, *(taking_up.MODEL if asked.recipe == "mine" else ()), "decoder_self", "fill"]
    assert {name: getattr(session, name) for name in names} == {name: getattr(asked, name) for name in names}
    assert plans.plan(session, LIMITS) == planned == taking_up.plan_of(made, LIMITS)
    assert taking_up.without_control(made, plans.plan(session, LIMITS)) == []


def test_what_the_page_has_no_control_for_is_named_and_kept(record: RunRecord) -> None:
    tied = dataclasses.replace(record, model=record.model.replace(tie_weights=True), losses=(), accuracies=(),
                               rates=(), grad_norms=(), looks=(), steps=0)  # fmt: skip
    planned = taking_up.plan_of(tied, LIMITS)
    assert planned.model.tie_weights
    assert taking_up.without_control(tied, plans.plan(taking_up.session_of(tied), LIMITS)) == ["tie_weights"]


def large(record: RunRecord, **changes: Any) -> RunRecord:
    """A record without curves, since its numbers are those of another model."""
    empty = dict.fromkeys(("losses", "accuracies", "rates", "grad_norms", "looks"), ())
    model, training = changes.pop("model", {}), changes.pop("training", {})
    return dataclasses.replace(record, **empty, steps=0, model=record.model.replace(**model),
                               training=record.training.replace(**training), **changes)  # fmt: skip


@pytest.mark.parametrize(("changes", "said"), [
    ({"model": {"d_model": 2048, "n_heads": 1}}, "d_model is 2048; it must lie between 1 and 1024"),
    ({"model": {"n_encoder_layers": 25}}, "n_encoder_layers is 25"),
    ({"model": {"max_seq_len": 1 << 20}}, "sequences of 1,048,576"),
    ({"model": {"tgt_vocab_size": 1 << 20}}, "needs tgt_vocab_size"),
    ({"training": {"steps": 5001}}, "steps is 5001"),
    ({"training": {"batch_size": 4096}}, "train_batch is 4096"),
    ({"model": {"d_model": 1024, "n_heads": 8, "n_encoder_layers": 24, "n_decoder_layers": 24, "d_ff": 4096}}, "MB"),
    ({"task": "translation", "training": {"task": "translation"}, "corpus": {"name": "p.tsv", "sha256": "a" * 64}},
     "the sentences p.tsv, which are not here"),
])  # fmt: skip
def test_a_record_meets_the_limits_of_the_controls_before_anything_is_built(
    record: RunRecord, changes: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H34: what a file says has never passed a control."""
    monkeypatch.setattr(plans, "build", lambda *_, **__: pytest.fail("a model was built"))
    with pytest.raises(Refusal, match=said):
        taking_up.plan_of(large(record, **changes), LIMITS)


@pytest.mark.parametrize(("text", "said"), [
    (None, "A record is a text"), (["{}"], "A record is a text"), ("{", "not valid JSON"), ("x" * 300_000, "292 KB"),
    ('{"format": "x"}', "no record of a run"), ("[" * 5000, ""),
])  # fmt: skip
def test_what_is_no_record_is_refused_with_a_sentence_and_changes_nothing(text: Any, said: str) -> None:
    desk = Desk(Run(plan()))
    before = desk.run
    after = load(desk, Shelf(), "put_in", text=text)
    assert said in after.told["refusal"]["en"] and after.told["refusal"]["zh"]
    assert desk.run is before and not before.ended
    assert all(skipped(field) for field in after.fields) and skipped(after.chart)


# ------------------------------------------------------------------------------------------------------------ the shelf


def test_a_run_is_taken_once_and_a_removed_one_stays_away(record: RunRecord) -> None:
    desk, rows = Desk(runs=[record]), Shelf()
    for _ in range(2):
        rows.take(desk)
    assert [row.id for row in rows.rows] == ["7a"] and rows.chosen == "7a"
    rows.remove(rows.rows[0], desk)
    rows.take(desk)
    assert rows.rows == [] and desk.runs == []


def test_names_are_one_short_line(record: RunRecord) -> None:
    rows = Shelf()
    row = rows.add(record, LABEL, "page")
    wrong = [(None, ""), (["a"], "")]
    for given, kept in (("  two\nlines\x00 ", "two lines"), ("x" * 90, "x" * 40), ("名", "名"), *wrong):
        rows.rename(row, given)
        assert row.name == kept


def test_old_rows_and_heavy_weights_make_room(record: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Shelf()
    model = torch.nn.Linear(8, 8, bias=False)  # 256 bytes
    monkeypatch.setattr(shelf, "KEPT_BYTES", 600)
    for _ in range(MAX_ROWS + 3):
        rows.add(record, LABEL, "page", model)
    assert len(rows.rows) == MAX_ROWS and rows.rows[-1].id == f"7{letters(MAX_ROWS + 2)}"
    assert [row.model is not None for row in rows.rows] == [False] * (MAX_ROWS - 2) + [True, True]


def test_the_model_of_the_tab_goes_to_its_row(whole: Run, record: RunRecord) -> None:
    other = dataclasses.replace(record, seed=8)
    model = torch.nn.Linear(2, 2)
    trained = Trained(model, whole.plan.model, whole.plan.masks, "copy", 7, 7, None, whole.record())
    rows = Shelf()
    rows.take(Desk(runs=[other, record]), trained)
    assert [row.model for row in rows.rows] == [None, model]


# ------------------------------------------------------------------------------------------- runs made beside the chart


def made(wishes: list[Wish]) -> tuple[Shelf, Series]:
    rows = Shelf(series=Series(wishes))
    return rows, rows.series


def test_a_run_beside_the_chart_is_the_run_of_the_chart(whole: Run) -> None:
    """H38: neither the place where it is made nor what is made before it has a part in a run."""
    rows, series = made([Wish(LABEL, plan(train_seed=8)), Wish(LABEL, plan())])
    for _ in range(20):
        for _ in series.work(rows, 60, 60):
            pass
    assert not series.running and [row.id for row in rows.rows] == ["8a", "7b"]
    assert list(rows.rows[1].record.losses) == losses(whole) != list(rows.rows[0].record.losses)
    assert rows.rows[1].record.looks == whole.record().looks and rows.rows[1].model is not None


def test_stop_keeps_what_was_reached_and_makes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, series = made([Wish(LABEL, plan(steps=500)), Wish(LABEL, plan())])
    slice_ = series.work(rows, 60, 0.0)
    next(slice_)
    reached = series.run.step
    assert reached >= 1 and series.told()["running"]
    series.stop()
    for _ in slice_:
        pass
    assert [row.record.steps for row in rows.rows] == [reached], "no step after the one under way"
    assert rows.rows[0].record.ended == "stopped" and not series.running and series.run is None
    assert list(series.work(rows, 60, 60)) == [] and len(rows.rows) == 1


def test_a_closed_tab_ends_and_frees_them() -> None:
    """H36."""
    rows, series = made([Wish(LABEL, plan(steps=500)), Wish(LABEL, plan())])
    slice_ = series.work(rows, 60, 0.0)
    next(slice_)
    run = series.run
    view.forget(rows)
    for _ in slice_:
        pass
    assert run._model is None and run.ended == "closed" and rows.rows == [] and rows.series is None
    view.forget(None)


# ------------------------------------------------------------------------------------------------------------- handlers


def skipped(output: Any) -> bool:
    return isinstance(output, dict) and set(output) == {"__type__"}


def value(component: Any, name: str = "value") -> Any:
    if isinstance(component, dict):
        return json.loads(component[name])
    return json.loads(component.value if name == "value" else component.props[name])


def active(timer: Any) -> bool:
    return timer["active"] if isinstance(timer, dict) else timer.active


def event(do: Any, **data: Any) -> SimpleNamespace:
    return SimpleNamespace(_data={"do": do, "number": 3, **data})


def ask(desk: Desk | None, rows: Shelf | None, do: Any, **data: Any) -> SimpleNamespace:
    """A command, and what came back."""
    after, html, timer = view.command(desk, rows, SMALL, None, event(do, **data))
    return SimpleNamespace(shelf=after, told=value(html), html=html, timer=timer)


def load(desk: Desk | None, rows: Shelf | None, do: Any, session: Session = SMALL, **data: Any) -> SimpleNamespace:
    after, html, desk, chart, timer, *fields = view.load(desk, rows, session, None, event(do, **data))
    return SimpleNamespace(shelf=after, told=value(html), desk=desk, chart=chart, timer=timer, fields=fields)


@pytest.fixture
def desk(record: RunRecord) -> Desk:
    return Desk(runs=[record])


def test_four_more_seeds_are_those_that_are_not_there_yet(desk: Desk, record: RunRecord) -> None:
    desk.runs = [record, dataclasses.replace(record, seed=9)]
    after = ask(desk, None, "seeds", id="7a")
    series = after.shelf.series
    assert [wish.plan.seed for wish in series.wishes] == [8, 10, 11, 12]
    assert all(dataclasses.replace(wish.plan, seed=7) == plan() for wish in series.wishes)
    assert series.wishes[0].label["en"] == "copy · seed 8" and after.told["chosen"] == "7a"
    assert after.told["series"]["running"] and active(after.timer)
    again = ask(desk, after.shelf, "seeds", id="7a")
    assert "already" in again.told["refusal"]["en"] and again.shelf.series is series
    assert not ask(desk, after.shelf, "stop").told["series"]["running"]


def test_seeds_of_a_run_that_was_steered_by_hand_are_refused(record: RunRecord) -> None:
    steered = Desk(runs=[dataclasses.replace(record, rate_changes=((3, 0.1),))])
    after = ask(steered, None, "seeds", id="7a")
    assert "changed by hand" in after.told["refusal"]["en"] and after.shelf.series is None


def test_advance_makes_them_and_then_sleeps(desk: Desk) -> None:
    rows = ask(desk, None, "seeds", id="7a").shelf
    rows.series.wishes = rows.series.wishes[:1]
    said = []
    while True:
        said += list(view.advance(desk, rows))
        timer = said[-1][2]
        if not skipped(timer):
            break
    assert [row.id for row in rows.rows] == ["7a", "8b"]
    last = value(said[-1][1])
    assert last["spread"]["seeds"] == [7, 8] and not last["series"]["running"]
    for empty in (None, Shelf()):
        assert [active(each[2]) for each in view.advance(desk, empty)] == [False]


def test_the_live_run_is_a_row_and_keeps_its_place_when_it_ends() -> None:
    run = worked(Run(plan()), 4)
    desk, rows = Desk(run), Shelf()
    told = ask(desk, rows, "choose", id="live").told
    assert [(row["id"], row["live"], row["steps"], row["of"]) for row in told["rows"]] == [("live", True, 4, 7)]
    assert told["chosen"] == "live" and told["rows"][0]["differs"] == []
    run.stop()
    run.finish()
    desk.keep(run)
    told = ask(desk, rows, "look").told
    assert [(row["id"], row["live"]) for row in told["rows"]] == [("7a", False)] and told["chosen"] == "7a"


@pytest.mark.parametrize("kind", ["record", "curve", "script", "notebook"])
def test_a_run_is_taken_home_as_text(desk: Desk, record: RunRecord, kind: str) -> None:
    """H37: the curve begins with the mark that tells a spreadsheet how its words are written."""
    after = ask(desk, None, "file", id="7a", kind=kind)
    file = value(after.html, "file")
    assert file["name"] == f"run-copy-7a.{run_rows.FILES[kind][0]}" and file["number"] == 3
    if kind == "record":
        assert RunRecord.from_json(file["text"]) == record
    if kind == "curve":
        assert file["text"].startswith("\ufeff") and len(file["text"].strip().splitlines()) >= 8
    if kind == "script":
        compile(file["text"], "run.py", "exec")
    if kind == "notebook":
        assert json.loads(file["text"])["nbformat"] == 4


def test_weights_are_taken_home_while_they_are_here(desk: Desk, whole: Run) -> None:
    gone = ask(desk, None, "file", id="7a", kind="weights")
    assert "no longer here" in gone.told["refusal"]["en"]
    model = Run(plan())
    trained = worked(model).finish()
    rows = gone.shelf
    rows.rows[0].model = trained.model
    file = value(ask(desk, rows, "file", id="7a", kind="weights").html, "file")
    record, weights = records.load_weights(base64.b64decode(file["base64"]))
    assert record == rows.rows[0].record
    assert all(torch.equal(each, weights[name]) for name, each in trained.model.state_dict().items())


def test_a_record_that_is_put_in_becomes_the_run_of_the_chart(record: RunRecord) -> None:
    """A page at its defaults: every control moves, and the run repeats itself on the chart."""
    old = Run(plan(train_seed=99))
    after = load(Desk(old), None, "put_in", Session.of_preset(), text=record.to_json())
    assert old.ended == "closed"
    run = after.desk.run
    assert run.again == record and run.running and active(after.timer)
    moved = dict(zip(TRAINING, after.fields, strict=True))
    assert (moved["recipe"], moved["steps"], moved["lr"], moved["train_seed"]) == ("mine", 7, 0.3, 7)
    assert after.told["changes"]["d_model"] == 12 and after.told["lacking"] == []
    chart = value(after.chart)
    assert chart["reply"] == "rewind" and chart["run"] == run.id
    assert losses(at_rest(run)) == list(record.losses)
    told = ask(after.desk, after.shelf, "look").told
    assert told["again"]["compared"] == 7 and not told["again"]["differs"]


def test_a_row_can_be_set_and_repeated(desk: Desk, record: RunRecord) -> None:
    after = load(desk, None, "restore", id="7a")
    assert after.desk.run.again is record
    assert "no longer in the table" in load(desk, None, "restore", id="9z").told["refusal"]["en"]


def test_a_lesson_is_loaded_run_and_left() -> None:
    name = next(iter(lessons.experiments.LESSONS))
    full = lessons.variants(name)[0][0]
    after = load(None, None, "lesson", name=full)
    moved = dict(zip(TRAINING, after.fields, strict=True))
    assert moved["lesson"] == full and moved["train_seed"] == SMALL.train_seed
    session = SMALL.cleaned(moved, LIMITS)
    assert Session.from_query(session.to_query(), LIMITS) == (session, []), "the link has the lesson"
    left = dict(zip(TRAINING, load(None, None, "lesson_leave", session).fields, strict=True))
    assert left["lesson"] == "none" and left["task"] == moved["task"]
    for wrong in (None, "none", "no_lesson.at_all", 7):
        assert load(None, None, "lesson", name=wrong).told["refusal"]["en"]
    assert "no lesson" in ask(None, None, "lesson_run", name="nothing").told["refusal"]["en"]


@pytest.mark.parametrize("name", list(lessons.experiments.LESSONS))
def test_every_variant_is_trained_as_the_lesson_has_it(name: str) -> None:
    """The page's plan of a variant is the variant; those that differ in decoding alone are made once."""
    for full, variant in lessons.variants(name):
        session = SMALL.change(**lessons.settings(full, 3))
        planned = plans.plan(session.cleaned({key: getattr(session, key) for key in TRAINING}, LIMITS), LIMITS)
        assert (planned.model, planned.masks, planned.lesson) == (variant.model, variant.masks, full)
        assert planned.training == variant.training.replace(steps=variant.training.total_steps, epochs=None)
        assert planned.task_of().symbols == variant.task.symbols
    wishes = ask(None, None, "lesson_run", name=name).shelf.series.wishes
    trainings = [(variant.model, variant.masks, variant.training) for _, variant in lessons.variants(name)]
    assert len(wishes) == sum(each not in trainings[:i] for i, each in enumerate(trainings)) >= 2


def test_every_lesson_speaks_both_languages_and_gives_way_to_a_model_from_explore() -> None:
    full = lesson_names()[1]
    assert lesson_names()[0] == "none"
    session = SMALL.change(**lessons.settings(full, 3))
    assert lessons.chosen(session) and lessons.chosen(session.change(recipe="mine")) is None
    assert lessons.chosen(session.change(task="sort")) is None and lessons.find("x.y") is None
    with pytest.raises(KeyError):
        lessons.settings("x.y", 3)
    for lesson in lessons.told():
        titles = [each["title"] for each in lesson["variants"]]
        for text in (lesson["title"], lesson["question"], lesson["answer"], *titles):
            assert text["en"] and text["zh"]


@pytest.mark.parametrize("data", [None, [], "x", {}, {"do": 7}, {"do": ["seeds"]}, {"do": "rename", "id": {}},
                                  {"do": "file", "id": "7a", "kind": "../x"}, {"do": "remove"}])  # fmt: skip
def test_nonsense_of_a_stranger_is_answered_with_the_state_of_things(data: Any, record: RunRecord) -> None:
    """H34."""
    for handler in (view.command, view.load):
        told = value(handler(Desk(runs=[record]), None, None, None, SimpleNamespace(_data=data))[1])
        assert isinstance(told["rows"], list)
        if "refusal" in told:
            assert all(told["refusal"][lang] for lang in words.LANGUAGES)


def test_what_nobody_expected_is_logged_and_said_in_one_sentence(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(view, "file_of", lambda *_: 1 / 0)
    told = ask(desk, None, "file", id="7a", kind="record").told
    assert told["refusal"]["en"] == words.text("en", "errors.unexpected") and "ZeroDivisionError" in caplog.text


def test_two_tabs_share_nothing(desk: Desk) -> None:
    """H35."""
    one, other = ask(desk, None, "seeds", id="7a"), ask(None, None, "look")
    assert other.told["rows"] == [] and other.told["series"] is None and other.shelf is not one.shelf


def test_the_state_of_a_closed_tab_is_let_go(desk: Desk) -> None:
    rows = ask(desk, None, "seeds", id="7a").shelf
    blocks = SimpleNamespace(state_holder=SimpleNamespace(session_data={"s": SimpleNamespace(state_data={5: rows})}))
    closed = view.TabClosed(blocks, 5)
    closed(SimpleNamespace(session_hash="nobody"))
    assert rows.rows
    closed(SimpleNamespace(session_hash="s"))
    assert rows.rows == [] and rows.series is None


def test_a_payload_is_json_without_surprises(desk: Desk) -> None:
    told = ask(desk, None, "look", lessons=True).told
    json.dumps(told, allow_nan=False)
    assert told["lessons"] == lessons.told()
    assert isinstance(ask(desk, None, "look").html, (dict, gr.HTML))


def test_a_variant_is_known_by_its_model_and_a_common_model_by_its_recipe() -> None:
    """The words of a lesson are not the task's, so its record is repeated with them, whatever its rate."""
    full = next(name for name in lesson_names() if lessons.task_of(name) is not None)
    lesson, variant = lessons.find(full)
    changed = variant.training.replace(lr=variant.training.lr / 2, steps=7)
    assert lessons.of(lesson.task, variant.model.replace(dropout=0.25), variant.masks, changed) == full
    own = plans.tasks.get("copy")
    assert lessons.of("copy", own.model, own.masks, own.training.replace(lr=0.123)) == ""
    made = records.record_of(model=variant.model, masks=variant.masks, training=changed, seed=7, reports=(),
                             ended="paused", seconds=0.0)  # fmt: skip
    planned = taking_up.plan_of(made, LIMITS)
    assert planned.lesson == full and planned.task_of().symbols == variant.task.symbols
    assert plans.plan(taking_up.session_of(made), LIMITS) == planned


def test_a_record_of_other_sentences_needs_them(record: RunRecord) -> None:
    """Of a translation: the built-in sentences are always here, a person's own only while the tab holds them."""
    from transformer_core import translation

    facts = {"name": "pairs.tsv", "sha256": "a" * 64}
    made = large(record, task="translation", training={"task": "translation"}, corpus=facts)
    held = SimpleNamespace(sha256="a" * 64)
    assert taking_up.corpus_of(made, held) is held
    with pytest.raises(Refusal, match=r"pairs\.tsv"):
        taking_up.corpus_of(made, SimpleNamespace(sha256="b" * 64))
    built_in = dataclasses.replace(made, corpus=facts | {"sha256": translation.builtin().sha256})
    assert taking_up.corpus_of(built_in, held) is None
