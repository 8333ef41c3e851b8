"""A run repeats itself to the bit, feels nobody else, stops when told, and is refused before anything is built."""

import gc
import json
import math
import threading
import weakref
from dataclasses import replace

import pytest
import torch

from explorer import news, plans, runs
from explorer.limits import Limits
from explorer.runs import Desk, Plan, Run
from explorer.session import Session
from explorer.turns import Turns
from transformer_core import build, tasks, training
from transformer_core.records import RunRecord
from transformer_core.training import train

LIMITS = Limits()
SMALL = {"recipe": "mine", "d_model": 12, "n_heads": 3, "d_ff": 17, "n_encoder_layers": 1, "n_decoder_layers": 1,
         "task": "copy", "steps": 7, "train_batch": 5, "lr": 0.3, "train_dropout": 0.3}  # fmt: skip


ALL_LOOKS = plans.LOOKS


@pytest.fixture(autouse=True)
def few_looks(monkeypatch):
    """A look costs more than many steps of so small a model; two or three of them are enough in most tests."""
    monkeypatch.setattr(plans, "LOOKS", 2)


def session(**changes) -> Session:
    return Session.of_preset().change(**{**SMALL, **changes})


def plan(**changes) -> Plan:
    return plans.plan(session(**changes), LIMITS)


def curve(run: Run) -> list[tuple[float, ...]]:
    return [(report.step, report.loss, report.accuracy, report.rate, report.grad_norm) for report in run.reports]


def finished(run: Run) -> Run:
    run.play()
    while run.running:
        for _ in run.work(60, 60):
            pass
    return run


def weights(run: Run) -> list[torch.Tensor]:
    return [value.clone() for value in run._model.state_dict().values()]


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


# ------------------------------------------------------------------------------------------------------------- the same


def test_one_plan_twice_gives_the_same_numbers_and_answers():
    """H38: twice in one process, whatever torch's global generator did meanwhile."""
    first = finished(Run(plan()))
    torch.manual_seed(1)
    torch.rand(3)
    second = finished(Run(plan()))
    assert len(curve(first)) == 7 and curve(first) == curve(second)
    assert first.looks == second.looks


def test_another_seed_gives_other_numbers():
    assert curve(finished(Run(plan()))) != curve(finished(Run(plan(train_seed=8))))


def test_a_paused_run_goes_on_as_if_it_had_not_been_paused():
    whole, halting = finished(Run(plan())), Run(plan())
    for steps in (1, 3):
        halting.forward(steps)
        list(halting.work(60, 60))
        halting.pause()
        assert list(halting.work(60, 60)) == [] and not halting.running
    assert halting.step == 4 and halting.state == "paused"
    torch.rand(5)
    assert curve(finished(halting)) == curve(whole)
    assert same(weights(halting), weights(whole))


def test_looks_do_not_disturb_the_run(monkeypatch):
    """H38: the losses with a look after every step are those without any, bit for bit."""
    monkeypatch.setattr(plans, "LOOKS", ALL_LOOKS)
    asked = plan(steps=6)
    assert asked.every == 1, "so that every step is followed by a look"
    model = build(asked.model, asked.masks, seed=asked.seed)
    alone = [report.loss for report in train(model, tasks.get("copy"), asked.training, asked.seed)]
    watched = finished(Run(asked))
    assert [report.loss for report in watched.reports] == alone
    assert [look.step for look in watched.looks] == [0, 1, 2, 3, 4, 5, 6]
    assert watched._model.training, "a look leaves the run in train mode"


def test_two_runs_in_two_threads_equal_the_same_runs_alone():
    """H38: neither another thread nor another run beside it is felt."""
    plans = [
        plan(steps=12, train_seed=seed, task=task) for seed, task in ((7, "copy"), (8, "reverse"), (9, "first_last"))
    ]
    alone = [finished(Run(each)) for each in plans]
    together = [Run(each) for each in plans]
    turn = threading.Barrier(len(together))

    def one_step_each(run: Run) -> None:
        for _ in range(12):
            turn.wait(timeout=30)
            run.forward(1)
            list(run.work(60, 60))

    threads = [threading.Thread(target=one_step_each, args=(run,)) for run in together]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    for one, other in zip(alone, together, strict=True):
        assert other.ended == "finished" and curve(one) == curve(other)
        assert same(weights(one), weights(other))


def test_two_slices_of_one_run_at_once_take_each_step_once():
    run, alone = Run(plan(steps=20)), finished(Run(plan(steps=20)))
    run.play()
    threads = [threading.Thread(target=lambda: list(run.work(60, 60))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert curve(run) == curve(alone)


# ------------------------------------------------------------------------------------------------- play, pause and stop


def test_the_states_of_a_run():
    run = Run(plan())
    assert (run.state, run.step, run.running) == ("ready", 0, False)
    run.forward(1)
    run.forward(2)
    assert run.state == "running"
    list(run.work(60, 60))
    assert (run.state, run.step) == ("paused", 3), "two presses are three steps"
    finished(run)
    assert (run.state, run.step) == ("finished", 7)
    run.forward(1)
    assert not run.running, "there is no step after the last"


def test_a_step_while_playing_pauses_after_it():
    run = Run(plan())
    run.play()
    run.forward(1)
    list(run.work(60, 60))
    assert (run.state, run.step) == ("paused", 1)


def test_a_slice_ends_with_its_time_and_reports_in_between(monkeypatch):
    clock = iter(range(1000))
    monkeypatch.setattr(runs.time, "monotonic", lambda: next(clock) / 10)  # each look at the clock takes 0.1 s
    run = Run(plan(steps=50))
    run.play()
    pauses = list(run.work(0.7, 0.25))
    assert run.step == 7 and run.running
    assert len(pauses) == 2, "at 0.3 and 0.6 seconds"


def test_pause_from_another_thread_ends_the_slice_after_the_step_under_way():
    run = Run(plan(steps=5000))
    run.play()
    work = run.work(60, 0)
    next(work)
    run.pause()
    taken = run.step
    assert list(work) == [] and run.step == taken


def test_stop_hands_out_a_private_copy_in_eval_mode_and_lets_go_of_the_rest():
    run = Run(plan())
    run.forward(3)
    list(run.work(60, 60))
    model, before = weakref.ref(run._model), weights(run)
    trained = run.finish()
    assert (trained.step, trained.task, trained.seed, run.state) == (3, "copy", 7, "stopped")
    assert not trained.model.training and trained.config == run.plan.model
    assert same(list(trained.model.state_dict().values()), before)
    gc.collect()
    assert model() is None, "the run's own model is free"
    assert run.finish() is None and not run.running, "once"
    run.play()
    assert list(run.work(60, 60)) == [] and run.step == 3


def test_a_halted_run_is_looked_at_where_it_stands_and_does_not_feel_it():
    watched, alone = Run(plan(steps=20)), finished(Run(plan(steps=20)))
    watched.play()
    for _ in range(3):
        list(watched.work(0, 9))
    assert not watched.behind, "the next look is to come"
    watched.catch_up()
    assert [look.step for look in watched.looks] == [0]
    watched.pause()
    assert watched.behind
    watched.catch_up()
    watched.catch_up()
    assert [look.step for look in watched.looks] == [0, 3] and not watched.behind
    assert curve(finished(watched)) == curve(alone)
    assert watched.looks[-1] == alone.looks[-1] and not watched.behind


def test_the_look_at_a_stopped_run_is_that_of_a_run_that_ends_there():
    stopped, ended = Run(plan(steps=20)), Run(plan(steps=20))
    for run in (stopped, ended):
        run.forward(4)
        list(run.work(60, 60))
    ended.catch_up()
    trained = stopped.finish()
    assert trained.step == 4 and stopped.looks == ended.looks
    assert stopped.looks[-1].step == 4 and stopped.state == "stopped"


def test_a_closed_or_failed_run_is_not_looked_at_again(monkeypatch):
    closed, failed = Run(plan(steps=20)), Run(plan(steps=20))
    for run in (closed, failed):
        run.forward(1)
        list(run.work(60, 60))
    closed.close()
    failed._model.encoder.layers[0].feed_forward.w_1.bias.data[0] = math.nan
    finished(failed)
    monkeypatch.setattr(runs, "look", lambda *_: pytest.fail("nobody sees it, or it would show no number"))
    for run in (closed, failed):
        run.catch_up()
        assert not run.behind
    assert failed.finish().step == 1


def test_a_look_that_cannot_be_taken_leaves_the_model_and_says_so(monkeypatch, caplog):
    def broken(*_):
        raise RuntimeError("out of luck")

    run = Run(plan(steps=20))
    run.forward(1)
    list(run.work(60, 60))
    monkeypatch.setattr(runs, "look", broken)
    assert run.finish().step == 1
    assert run.state == "failed" and run.fault["text"] == "out of luck" and "look at step 1" in caplog.text
    assert not run.behind, "it is not tried again and again"


def test_a_run_stopped_before_its_first_step_has_no_model_to_show():
    run = Run(plan())
    assert run.finish() is None and run.state == "stopped"


def test_a_closed_run_keeps_its_curve_and_frees_its_model():
    """H36: what a closed tab leaves behind holds no model."""
    run = Run(plan())
    run.forward(2)
    list(run.work(60, 60))
    model = weakref.ref(run._model)
    run.close()
    gc.collect()
    assert model() is None and run.state == "closed" and len(news.news(run)["loss"]) == 2


# ------------------------------------------------------------------------------------------------- what is not a number


def test_the_first_number_that_is_not_finite_stops_the_run_and_is_named():
    """H28: the run stops at the first NaN, names the step and the tensor, and keeps the curve before it."""
    run = Run(plan())
    run.forward(3)
    list(run.work(60, 60))
    with torch.no_grad():
        run._model.encoder.layers[0].feed_forward.w_1.bias[0] = math.nan
    kept = weights(run)
    finished(run)
    assert run.state == "failed" and run.step == 3, "the earlier curve stays"
    assert run.fault["why"] == "not_finite" and run.fault["step"] == 4
    assert run.fault["tensor"] == "encoder.layers.0.feed_forward/hidden"
    after = weights(run)
    assert all(torch.equal(a, b) or a.isnan().any() for a, b in zip(kept, after, strict=True)), "no weight was touched"
    assert run.finish().step == 3 and run.state == "failed"


def test_naive_masking_of_a_row_without_keys_is_such_a_stop():
    run = finished(Run(plan(fill="-inf", cross=("padding", "window:1"), train_batch=16)))
    assert run.state == "failed" and run.fault["tensor"] == "decoder.layers.0.cross_attention/weights"
    json.dumps(news.news(run), allow_nan=False)


def test_an_unexpected_fault_ends_the_run_with_a_sentence(monkeypatch, caplog):
    def broken(*_, **__):
        raise RuntimeError("out of luck")
        yield

    monkeypatch.setattr(training, "train", broken)
    run = finished(Run(plan()))
    assert run.state == "failed" and run.fault == {"why": "broken", "step": 1, "tensor": "", "text": "out of luck"}
    assert "failed at step 1" in caplog.text


# -------------------------------------------------------------------------------------------------------------- to page


def test_deltas_put_together_are_the_whole_curve():
    run, loss, looks = Run(plan(steps=9)), [], []
    run.play()
    while run.running:
        step, seen = run.step, len(run.looks)
        next(run.work(60, 0), None)
        told = json.loads(json.dumps(news.news(run, step, seen), allow_nan=False))
        assert told["from"] == len(loss) and told["looks_from"] == len(looks)
        loss += told["loss"]
        looks += told["looks"]
    whole = news.news(run)
    assert loss == whole["loss"] and looks == whole["looks"] and whole["plan"]["steps"] == 9
    assert len(loss) == whole["step"] == 9


def test_speed_counts_the_waiting_for_others(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(runs.time, "monotonic", lambda: now[0])
    run = Run(plan(steps=40))
    assert run.speed is None
    advance = run._advance

    def slow() -> None:
        advance()
        now[0] += 0.25

    monkeypatch.setattr(run, "_advance", slow)
    run.play()
    for _ in range(4):
        list(run.work(0.5, 9))  # two steps, then half a second of someone else's turn
        now[0] += 0.5
    assert run.step == 8
    assert run.speed == pytest.approx(7 / (7 * 0.25 + 3 * 0.5))
    run.pause()
    assert run.speed is None


# ------------------------------------------------------------------------------------------------ records and repeating


def test_a_record_can_be_had_at_any_time_and_says_how_the_run_stands():
    run = Run(plan(steps=20))
    assert (run.record().steps, run.record().ended) == (0, "paused")
    run.forward(3)
    list(run.work(60, 60))
    record = run.record()
    assert (record.steps, record.ended, record.seed, record.fault) == (3, "paused", 7, "")
    assert list(record.losses) == [report.loss for report in run.reports]
    assert record.model == run.plan.model and record.training == run.plan.training
    run.finish()
    assert run.record().ended == "stopped" and run.record().result["step"] == 3
    assert RunRecord.from_json(run.record().to_json()) == run.record()


def test_a_run_that_is_taken_up_goes_to_its_step_with_the_same_losses_and_on_from_there():
    lost, whole = Run(plan(steps=20)), finished(Run(plan(steps=20)))
    lost.forward(9)
    list(lost.work(60, 60))
    record = RunRecord.from_json(lost.record().to_json())
    lost.close()
    again = Run(plan(steps=20), record, record.steps)
    assert again.running, "by itself"
    list(again.work(60, 60))
    assert (again.state, again.step, again.differs) == ("paused", 9, 0)
    assert curve(finished(again)) == curve(whole)


def test_the_first_step_at_which_a_repeat_differs_is_named():
    run = Run(plan(steps=20))
    run.forward(5)
    list(run.work(60, 60))
    losses = list(run.record().losses)
    losses[2] += 1e-12
    again = Run(plan(steps=20), replace(run.record(), losses=losses), 5)
    list(again.work(60, 60))
    assert again.differs == 3 and again.step == 5, "it is said, and goes on"


def test_a_rate_asked_for_before_the_first_step_holds_from_it():
    run = Run(plan())
    run.change_rate(0.6)
    assert run.lr == 0.6
    run.forward(2)
    list(run.work(60, 60))
    assert run.rate_changes == [(1, 0.6)] and run.lr == 0.6
    run.change_rate(0.6)
    run.forward(1)
    list(run.work(60, 60))
    assert run.rate_changes == [(1, 0.6)], "the same again is no change"


def test_a_run_alone_keeps_its_turn_and_gives_it_up_when_another_wants_one(monkeypatch):
    monkeypatch.setattr(runs, "TURNS", Turns())
    mine, yours = Run(plan(steps=50)), Run(plan(steps=50))
    mine.play()
    list(mine.work(0, 9, 60))
    assert mine.step == 50, "nobody else wants one"
    mine = Run(plan(steps=50))
    mine.play()
    yours.play()
    list(mine.work(0, 9, 60))
    assert mine.step == 1 and yours.step == 0
    yours.pause()
    list(mine.work(0, 9, 60))
    assert mine.step == 50, "a paused run wants none"


def test_a_desk_remembers_each_run_that_ended_once_and_the_latest_of_them(monkeypatch):
    monkeypatch.setattr(runs, "KEPT_RUNS", 2)
    desk, ended = Desk(), [finished(Run(plan(steps=steps))) for steps in (1, 2, 3)]
    assert desk.keep(Run(plan())) == 0, "of a run without a step there is nothing to remember"
    assert [desk.keep(run) for run in (*ended, ended[2])] == [1, 2, 3, 3]
    assert [record.steps for record in desk.runs] == [2, 3]
    desk.leave()
    assert desk.runs == []


def test_a_translation_is_scored_as_it_is_handed_out_and_its_record_says_so():
    run = Run(plan(task="translation", steps=2))
    finished(run)
    assert run.to_be_scored and run.score is None and news.status(run)["scored"] is False
    trained = run.finish()
    told = json.loads(json.dumps(news.status(run), allow_nan=False))
    assert told["scored"] and set(told["score"]) >= {"bleu", "chrf", "n", "signature"}
    assert 0 <= told["score"]["bleu"] < 20, "two steps are not enough"
    assert trained.record.result["bleu"] == run.score.bleu and trained.corpus is None
    assert trained.asked() is tasks.get("translation")
