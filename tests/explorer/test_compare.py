"""Compare: its numbers are the library's, each refusal is a sentence, and jobs stop when told and know no others."""

import doctest
import gc
import importlib
import json
import logging
import math
import threading
from dataclasses import replace
from types import SimpleNamespace

import gradio as gr
import pytest
import torch

from explorer import comparing, live, words
from explorer.changes import Asked
from explorer.comparing import Desk, Job
from explorer.fields import BY_NAME, FIELDS
from explorer.limits import Limits
from explorer.live import Live, Trained
from explorer.session import Session
from explorer.views import compare as view
from explorer.views import compare_sidebar
from transformer_core import parity

LIMITS = Limits()
SMALL = Session.of_preset().change(d_model=12, n_heads=3, d_ff=17, n_encoder_layers=1, n_decoder_layers=2)
# Two stacks of which the second has a layer more: with the right weights the last norm shows in the gradients alone.


@pytest.fixture(scope="module")
def fresh() -> Live:
    return live.run(SMALL)


@pytest.fixture(scope="module")
def trained(fresh: Live) -> Trained:
    """The same model with weights that are not those of the start."""
    model = live.shell(fresh.model, fresh.model.masks, False, 7)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    parity.stir(model, 0.3, 5)
    stirred = live.run(SMALL).model
    stirred.load_state_dict(model.state_dict())
    model.load_state_dict(state)
    return Trained(stirred, stirred.config, stirred.masks, "copy", 41, 7)


def compared(session: Session, run: Live, trained: Trained | None = None) -> dict:
    told = comparing.comparison(session, run, trained, LIMITS)
    assert told["state"] == "compared", told
    return told


def refused(session: Session, run: Live | None, trained: Trained | None = None, limits: Limits = LIMITS) -> dict:
    told = comparing.comparison(session, run, trained, limits)
    assert told["state"] == "refused"
    assert all(told["text"][lang] for lang in words.LANGUAGES)
    return told


# ----------------------------------------------------------------------------------------------------- the comparison


def test_the_rows_are_those_of_the_library_in_its_order(fresh):
    told = compared(SMALL, fresh)
    found = parity.compare(fresh.model, fresh.batch, dtype=torch.float32)
    entries = fresh.entries()
    for way in ("forward", "backward"):
        rows, differences = told["ways"][way], getattr(found, way)
        assert [row["key"] for row in rows] == [each.key for each in differences]
        assert [row["error"] for row in rows] == pytest.approx([each.max_abs for each in differences], rel=1e-4)
        assert all(row["passed"] and row["matched"] == row["error"] for row in rows)
    assert [row["index"] for row in told["ways"]["forward"] if row["key"] in entries] == [
        entries[row["key"]].index for row in told["ways"]["forward"] if row["key"] in entries
    ]
    assert told["ways"]["forward"][-1]["key"] == "loss" and told["ways"]["forward"][-1]["index"] is None
    assert told["first"] == {"forward": None, "backward": None}
    assert told["cause"] == {"forward": "none", "backward": "none"}
    assert told["limit"] == 2e-5


def test_what_is_compared_is_left_as_it_was(fresh):
    before = {name: value.clone() for name, value in fresh.model.state_dict().items()}
    mode = fresh.model.training
    compared(SMALL.change(cmp_mode="train", cmp_norm="torch", cmp_dtype="float64"), fresh)
    assert fresh.model.training is mode and next(fresh.model.parameters()).dtype == torch.float32
    assert all(torch.equal(value, before[name]) for name, value in fresh.model.state_dict().items())
    assert all(parameter.grad is None for parameter in fresh.model.parameters())


def test_dtype_limit_and_mode_are_those_that_were_chosen(fresh):
    told = compared(SMALL.change(cmp_dtype="float64", cmp_limit="1e-10", cmp_mode="train"), fresh)
    assert (told["facts"]["dtype"], told["facts"]["training"], told["limit"]) == ("float64", True, 1e-10)
    assert max(row["error"] for row in told["ways"]["forward"]) < 1e-12
    assert "no_dropout" in told["notes"]


def test_norms_that_torch_adds_hide_in_the_values_of_fresh_weights_and_show_in_the_gradients(fresh):
    told = compared(SMALL.change(cmp_norm="torch"), fresh)
    assert told["cause"] == {"forward": "hidden_norm", "backward": "final_norm"}
    row = told["ways"]["backward"][told["first"]["backward"]]
    assert row["error"] > told["limit"] > row["matched"]


def test_trained_weights_show_them_at_the_end_of_the_first_stack(fresh, trained):
    told = compared(SMALL.change(cmp_norm="torch", cmp_weights="trained"), fresh, trained)
    first = told["ways"]["forward"][told["first"]["forward"]]
    assert first["key"] == "memory" and told["cause"]["forward"] == "final_norm"
    assert first["matched"] < told["limit"] < first["error"]
    assert told["facts"]["step"] == 41


def test_the_evidence_is_of_all_weights_there_are(fresh, trained):
    assert [(each["weights"], each["verdict"]) for each in compared(SMALL, fresh)["evidence"]] == [
        ("fresh", "wrong_reason")
    ]
    evidence = compared(SMALL, fresh, trained)["evidence"]
    assert [(each["weights"], each["step"], each["verdict"]) for each in evidence] == [
        ("fresh", None, "wrong_reason"), ("trained", 41, "differs"),
    ]  # fmt: skip
    assert evidence[1]["matched"] < 2e-5 < evidence[1]["error"]
    exact = compared(SMALL.change(cmp_dtype="float64"), fresh)["evidence"]
    assert exact[0]["matched"] < 1e-12 < exact[0]["error"] and exact[0]["verdict"] == "differs"


def test_stacks_that_end_with_norms_of_their_own_have_none_added():
    session = SMALL.change(norm_order="pre", cmp_norm="torch")
    told = compared(session, live.run(session))
    assert told["evidence"] == [] and told["cause"] == {"forward": "none", "backward": "none"}


def test_a_limit_below_the_dtype_is_called_rounding(fresh):
    told = compared(SMALL.change(cmp_limit="1e-8"), fresh)
    assert told["cause"]["forward"] == "rounding" and told["first"]["forward"] is not None


def test_what_has_no_known_reason_is_not_given_one():
    rows = [{"error": "nan", "matched": "nan"}]
    assert comparing.cause(SMALL.change(cmp_limit="1e-8"), rows, 0, added=False) == "unknown"
    assert comparing.cause(SMALL.change(cmp_norm="torch"), rows, 0, added=True) == "unknown"


def test_a_fault_that_is_on_is_compared_and_named():
    session = SMALL.change(fault="merge_without_transpose")
    told = compared(session, live.run(session))
    first = told["ways"]["forward"][told["first"]["forward"]]
    assert first["key"] == "encoder.layers.0.self_attention/output" and told["cause"]["forward"] == "fault"


def test_a_forward_that_stops_leaves_the_tensors_before_it(fresh, monkeypatch):
    broken = live.shell(fresh.model, fresh.model.masks, False, 7)
    stopped = Live(**{**vars(fresh), "model": broken})
    monkeypatch.setattr(broken, "decode", lambda *_: 1 / 0)
    told = compared(SMALL, stopped)
    assert "division" in told["failure"] and told["ways"]["forward"][-1]["key"] == "memory"


def test_numbers_that_are_not_finite_travel_by_name(fresh, monkeypatch):
    compare = parity.compare

    def torn(*given, **asked):
        found = compare(*given, **asked)
        first, *rest = found.forward
        return replace(found, forward=(replace(first, max_abs=math.nan, max_rel=math.inf, passed=False), *rest))

    monkeypatch.setattr(parity, "compare", torn)
    told = compared(SMALL, fresh)
    row = told["ways"]["forward"][0]
    assert told["first"]["forward"] == 0 and (row["error"], row["rel"]) == ("nan", "inf")
    assert view.packed(told)
    assert (comparing.size("nan"), comparing.size(None), comparing.size(0.5)) == (math.inf, 0.0, 0.5)


def test_every_reading_has_its_numbers_and_its_words_in_both_languages(fresh):
    rows = compared(SMALL, fresh)["reading"]
    readings = parity.reading_table(fresh.model, fresh.batch)
    assert [(row["name"], row["verdict"]) for row in rows] == [(each.name, each.verdict) for each in readings]
    for row, reading in zip(rows, readings, strict=True):
        assert all(row["en"][part] == getattr(reading, part) for part in ("ours", "theirs", "look_at"))
        assert all(row["zh"].values()) and row["zh"]["title"] != ""


# ----------------------------------------------------------------------------------------------------------- refusals


def test_what_is_too_large_is_told_where_it_can_be_compared(fresh):
    tiny = Limits(max_parameters=10)
    said = refused(SMALL, live.run(SMALL, limits=tiny), limits=tiny)["text"]
    assert "python -m transformer_core compare --preset first_look" in said["en"] and "first_look" in said["zh"]


def test_without_trained_weights_fresh_ones_are_offered(fresh):
    told = refused(SMALL.change(cmp_weights="trained"), fresh)
    assert told["choices"] == [
        {"changes": {"cmp_weights": "fresh"}, "label": {"en": "weights: fresh", "zh": "权重: 初始"}}
    ]


@pytest.mark.parametrize(("setting", "said"), [("norm", "rms"), ("scale", "√d_head"), ("other", "没有这样的模块")])
def test_what_torch_cannot_compute_is_said_in_both_languages(fresh, monkeypatch, setting, said):
    changed = {"norm": {"norm": "rms"}, "scale": {"scale_scores": False}, "other": {}}[setting]
    config = SMALL.model_config().replace(**changed)
    monkeypatch.setattr(Session, "model_config", lambda _: config)

    def none(*_, **__):
        raise parity.NoCounterpart("torch's layers have no place for it")

    monkeypatch.setattr(parity, "compare", none)
    text = refused(SMALL, fresh)["text"]
    assert "torch's layers have no place for it" in text["en"] and said in text["zh"]


def test_a_value_error_of_the_core_is_its_own_sentence(fresh, monkeypatch):
    def wrong(*_, **__):
        raise ValueError("the batch does not fit")

    monkeypatch.setattr(parity, "compare", wrong)
    assert refused(SMALL, fresh)["text"]["en"] == "the batch does not fit"


def test_what_nobody_expected_is_one_sentence_and_logged(fresh, monkeypatch, caplog):
    monkeypatch.setattr(parity, "compare", lambda *_, **__: 1 / 0)
    with caplog.at_level(logging.ERROR):
        assert refused(SMALL, fresh)["text"]["en"].startswith("Something went wrong")
    assert "ZeroDivisionError" in caplog.text


def test_a_busy_host_says_so_and_a_failure_gives_its_turn_back(fresh, monkeypatch):
    turns = threading.BoundedSemaphore(1)
    monkeypatch.setattr(comparing, "FORWARDS", turns)
    monkeypatch.setattr(comparing, "PATIENCE", 0.01)
    with turns:
        assert "busy" in refused(SMALL, fresh)["text"]["en"]
    refused(SMALL.change(cmp_weights="trained"), fresh)
    assert turns.acquire(blocking=False)


# ----------------------------------------------------------------------------------------------------- what is asked


def test_a_comparison_is_made_once_for_the_same_question(fresh, monkeypatch):
    asked = Asked(SMALL, fresh)
    desk, readings = Desk(), []
    table = parity.reading_table
    monkeypatch.setattr(parity, "reading_table", lambda *model: readings.append(model) or table(*model))
    first = comparing.shown(desk, asked)
    assert comparing.shown(desk, asked) is first
    assert comparing.shown(desk, Asked(SMALL.change(cmp_way="backward", cmp_fast="off"), fresh)) is first
    other = comparing.shown(desk, Asked(SMALL.change(cmp_dtype="float64"), fresh))
    assert other is not first and other["reading"] == first["reading"] and len(readings) == 1
    assert comparing.shown(Desk(), asked) is not first  # of another tab


def test_a_tab_whose_run_was_freed_gets_it_again():
    told = comparing.shown(Desk(), Asked(query={"d_model": "12", "n_heads": "3", "d_ff": "17"}))
    assert told["state"] == "compared" and told["ways"]["forward"][0]["shape"][-1] == 12


def test_the_choices_of_compare_are_remembered_and_nothing_else():
    values = tuple(getattr(SMALL.change(cmp_norm="torch"), name) for name in comparing.CONTROLS)
    assert comparing.remember(Asked(SMALL, values=values)).session == SMALL.change(cmp_norm="torch")
    looked = comparing.remember(Asked(SMALL, data={"cmp_way": "backward", "d_model": 64, "seed": 1}))
    assert looked.session == SMALL.change(cmp_way="backward")
    for data in ({"cmp_way": "sideways"}, {"cmp_way": ["forward"]}, {"d_model": 64}, {}):
        assert comparing.remember(Asked(SMALL, data=data)).session is None


def test_the_choices_of_compare_are_in_the_link():
    chosen = {field.name: field.choices[-1] for field in FIELDS if field.group == "compare"}
    session = Session.of_preset().change(**chosen)
    assert session.to_query() == chosen
    assert Session.from_query(chosen) == (session, [])


# --------------------------------------------------------------------------------------------------- sweep and speed


def finished(job: Job) -> Job:
    while job.running:
        for _ in job.work(60, 60):
            pass
    return job


def test_the_sweep_asks_for_what_the_library_has():
    sweep = importlib.import_module("transformer_core.parity.sweep")  # parity.sweep is the function of that name
    assert (comparing.PADDINGS, comparing.MODES) == (sweep.PADDINGS, sweep.MODES)
    assert (comparing.NORM_ORDERS, comparing.DTYPES) == (sweep.NORM_ORDERS, sweep.DTYPES)
    assert comparing.LENGTHS["all"] == tuple(sweep.LENGTHS)


def test_what_is_shown_is_swept_first_and_every_point_once(monkeypatch):
    monkeypatch.setitem(comparing.LENGTHS, "some", (3,))
    job = finished(comparing.sweep(SMALL.change(cmp_numbers="float64", cmp_fast="off")))
    assert job.ended == "finished" and len(job.rows) == job.total == 1 * 4 * 3 * 2 * 2 * 2
    assert {tuple(row[:2]) for row in job.rows[:24]} == {(1, 0)}  # float64, fast path off
    assert len({tuple(row[:6]) for row in job.rows}) == job.total
    assert {row[8] for row in job.rows} <= {"equal", "other"}
    found = {row[9] for row in job.rows}
    assert found <= set(parity.WHAT) and "zeroes_padding" in found
    assert all(row[9] == "equal" for row in job.rows if row[1] == 0)
    told = comparing.news(job)
    assert json.loads(view.packed(told))["rows"] == told["rows"] and told["plan"]["lengths"] == (3,)
    assert comparing.news(job, 90)["rows"] == job.rows[90:] and comparing.news(job, 90)["from"] == 90


@pytest.mark.parametrize(
    ("what", "verdict"), [("equal", "equal"), ("differs", "wrong"), ("stops", "other"), ("nan_spreads", "other")]
)
def test_only_a_difference_at_real_positions_is_wrong(what, verdict):
    point = parity.SweepPoint(
        5, "left", "no_grad", True, "pre", "float64", math.nan, None, 1e-12, what != "differs", what
    )
    assert comparing.point_row(point) == [1, 1, 1, 2, 2, 5, "nan", None, verdict, what, 1e-12]


def test_everything_that_torch_can_do_has_words():
    for name in parity.WHAT:
        assert words.has(f"compare.what_{name}")
    for name in parity.NOTES:
        assert name == "added_norm" or words.has(f"compare.note_{name}")


def test_the_speed_is_measured_for_every_dtype_and_length(monkeypatch):
    monkeypatch.setattr(comparing, "SPEED_LENGTHS", (3, 5))
    monkeypatch.setattr(comparing, "SPEED_DTYPES", ("float32", "float64"))
    job = finished(comparing.speed())
    assert job.ended == "finished"
    on_cpu = [row for row in job.rows if row["device"] == "cpu"]
    assert [(row["dtype"], row["length"]) for row in on_cpu] == [
        ("float32", 3), ("float32", 5), ("float64", 3), ("float64", 5),
    ]  # fmt: skip
    assert all(row["ratio"] > 0 and row["ours_ms"] > 0 for row in on_cpu)
    assert max(row["error"] for row in on_cpu if row["dtype"] == "float64") < 1e-12


def test_a_slice_is_bounded_tells_in_between_and_goes_on_where_it_ended():
    clock = iter(range(1000))
    job = Job("sweep", ([n] for n in clock), 1000, {})
    said = list(job.work(0.0, 60.0))
    assert said == [] and job.rows == [[0]]
    said = [len(job.rows) for _ in zip(job.work(60.0, 0.0), range(3), strict=False)]
    assert len(said) == 3 and job.running
    assert job.rows == [[n] for n in range(len(job.rows))]


def test_a_job_that_is_stopped_takes_no_more_rows_and_keeps_those_it_has():
    job = Job("sweep", ([n] for n in range(9)), 9, {})
    for _ in job.work(60.0, 0.0):
        if len(job.rows) == 4:
            job.stop()
    assert (job.ended, len(job.rows), job.running) == ("stopped", 4, False)
    assert list(job.work(60.0, 0.0)) == [] and len(job.rows) == 4


def test_a_job_that_fails_ends_with_a_sentence(caplog):
    def rows():
        yield [1]
        raise RuntimeError("out of luck")

    job = finished(Job("sweep", rows(), 5, {}))
    assert (job.ended, job.rows, comparing.news(job)["fault"]) == ("failed", [[1]], "out of luck")
    assert "out of luck" in caplog.text


def test_no_torch_switch_is_left_behind_between_two_rows(monkeypatch):
    monkeypatch.setitem(comparing.LENGTHS, "some", (1,))
    before = torch.backends.mha.get_fastpath_enabled(), torch.is_grad_enabled()
    job = comparing.sweep(SMALL.change(cmp_fast="off"))
    for _ in job.work(60.0, 0.0):
        assert (torch.backends.mha.get_fastpath_enabled(), torch.is_grad_enabled()) == before
        if len(job.rows) == 20:
            job.stop()
    assert len(job.rows) == 20


# ----------------------------------------------------------------------------------------------------------- the view


def event(do=None, number=3, **data) -> SimpleNamespace:
    return SimpleNamespace(_data={"do": do, "number": number, **data})


def ask(desk, do, session=SMALL, run=None, **data):
    """The desk after a command, what the view was told, whether the timer runs, and the controls."""
    desk, html, timer, *fields = view.ask(desk, session, run, None, None, event(do, **data))
    return desk, json.loads(html.value), timer.active, fields


def skipped(output) -> bool:
    return isinstance(output, dict) and set(output) == {"__type__"}


def test_the_view_is_answered_with_the_comparison_and_its_number(fresh):
    desk, told, active, fields = ask(None, "compare", run=fresh, number=7)
    assert (told["reply"], told["number"], active) == ("compare", 7, False)
    assert told["comparison"]["state"] == "compared" and told["chosen"]["cmp_norm"] == "same"
    assert told["jobs"] == [] and all(skipped(field) for field in fields)
    assert ask(desk, "compare", run=fresh)[1]["comparison"]["id"] == told["comparison"]["id"]


def test_a_reset_moves_the_controls_too(fresh):
    _, _, _, fields = ask(None, "reset", SMALL.change(cmp_norm="torch"), fresh)
    assert dict(zip(comparing.CONTROLS, fields, strict=True))["cmp_norm"] == "torch"


@pytest.mark.parametrize("data", [None, [], {"do": 5}, {"do": "rm"}, {"do": ["sweep"], "number": "x"}])
def test_a_strangers_nonsense_starts_nothing(fresh, data):
    desk, html, timer, *_ = view.ask(None, SMALL, fresh, None, None, SimpleNamespace(_data=data))
    assert not desk.jobs and not timer.active and json.loads(html.value)["reply"] == "resync"


def test_a_sweep_is_begun_advanced_and_stopped(monkeypatch):
    monkeypatch.setattr(comparing, "sweep", lambda _: Job("sweep", ([n] for n in range(10**6)), 10**6, {}))
    monkeypatch.setattr(view, "SLICE", 0.0)
    desk, told, active, _ = ask(None, "sweep")
    assert active and told["jobs"][0]["state"] == "running" and told["jobs"][0]["rows"] == []
    *_, (_, html, timer) = view.advance(desk)
    assert json.loads(html.props["job"])["jobs"][0]["rows"] == [[0]] and skipped(timer)
    _, told, active, _ = ask(desk, "stop")
    assert not active and (told["jobs"][0]["state"], told["jobs"][0]["rows"]) == ("stopped", [])
    *_, (_, html, timer) = view.advance(desk)
    assert skipped(html) and timer.active is False


def test_a_new_sweep_takes_the_place_of_the_old_one():
    desk = Desk()
    old = desk.begin(Job("sweep", iter([[1]]), 1, {}))
    new = desk.begin(Job("sweep", iter([[2]]), 1, {}))
    speed = desk.begin(Job("speed", iter([[3]]), 1, {}))
    assert old.ended == "stopped" and desk.at_work() == [new, speed]
    list(view.advance(desk))
    assert (old.rows, new.rows, speed.rows) == ([], [[2]], [[3]])


def test_two_tabs_do_not_see_each_others_rows():
    one, other = Desk(), Desk()
    one.begin(Job("sweep", iter([[1]]), 1, {}))
    assert not other.jobs and skipped(list(view.advance(other))[-1][1])
    *_, (_, html, _) = view.advance(one)
    assert json.loads(html.props["job"])["jobs"][0]["rows"] == [[1]]


def test_a_tab_without_a_desk_asks_no_more():
    assert list(view.advance(None))[-1][2].active is False


def test_a_closed_tab_ends_its_own_jobs():
    desks = {name: Desk() for name in ("gone", "here")}
    for desk in desks.values():
        desk.begin(Job("sweep", iter([[1]]), 1, {}))
    data = {name: SimpleNamespace(state_data={4: desk}) for name, desk in desks.items()}
    closed = view.TabClosed(SimpleNamespace(state_holder=SimpleNamespace(session_data=data)), 4)
    for name in ("gone", "nobody"):
        closed(SimpleNamespace(session_hash=name))
    assert desks["gone"].jobs["sweep"].ended == "stopped" and desks["here"].jobs["sweep"].running


def test_what_the_view_proposes_moves_the_controls_that_it_names():
    moved = dict(zip(comparing.CONTROLS, view.moved(SimpleNamespace(_data={"cmp_norm": "torch"})), strict=True))
    assert moved.pop("cmp_norm") == "torch" and all(skipped(each) for each in moved.values())
    assert all(skipped(each) for each in view.moved(SimpleNamespace(_data={"cmp_norm": "both", "seed": 3})))


@pytest.mark.parametrize("lang", words.LANGUAGES)
def test_every_control_offers_every_choice_in_both_languages(lang):
    with gr.Blocks():
        side = compare_sidebar.build_sidebar(SMALL)
    assert tuple(side.fields) == comparing.CONTROLS
    for name, update in zip(side.fields, side.relabel(lang), strict=True):
        assert [value for _, value in update["choices"]] == list(BY_NAME[name].choices)
        assert update["label"] and all(label for label, _ in update["choices"])


@pytest.mark.parametrize("module", [comparing, compare_sidebar])
def test_the_examples_are_right(module):
    assert doctest.testmod(module).failed == 0
    gc.collect()
