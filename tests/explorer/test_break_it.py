"""What the view makes of an event: commands in their types, nonsense that asks for nothing, refusals as sentences."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from explorer import changes
from explorer.changes import Asked
from explorer.lab import PARTS, Lab
from explorer.refusals import Refusal
from explorer.session import Session
from explorer.views import break_it
from explorer.views.break_it import asked, command, tick, told


def event(**data: Any) -> Any:
    return SimpleNamespace(_data=data)


def props(update: Any) -> dict[str, Any]:
    """What an answer writes into the view, part by part."""
    return {name: json.loads(text) for name, text in update.constructor_args.items() if isinstance(text, str)}


@pytest.mark.parametrize(
    "data", [None, "play", {}, {"do": 3}, {"do": "delete"}, {"do": ["play"]}, {"do": "resync", "levels": "12"}]
)
def test_nonsense_asks_how_things_stand(data):
    do, given = asked(SimpleNamespace(_data=data))
    assert do == "resync"
    assert given == {"fault": "", "check": "", "seed": 0, "levels": [], "faults": [], "anew": False}


def test_arguments_come_in_their_types_or_not_at_all():
    do, given = asked(event(do="run_all", levels=[1, True, "2", 2.0, 3], faults=["a", 7, "b"], seed=True, anew="yes"))
    assert do == "run_all"
    assert (given["levels"], given["faults"], given["seed"], given["anew"]) == ([1, 3], ["a", "b"], 0, False)
    assert len(asked(event(do="look", fault="x" * 500))[1]["fault"]) == 60


def test_a_row_is_asked_for_worked_off_and_told():
    lab, view, timer = command(None, None, event(do="run_row", fault="no_scaling", levels=[1]))
    assert isinstance(lab, Lab) and lab.busy
    assert timer.constructor_args["active"] is True and props(view)["value"] == {"reply": "run_row"}
    said = []
    while lab.busy:  # a slice is over after so many seconds, whatever was done in them
        said += [props(view) for _, view, _ in tick(lab) if hasattr(view, "constructor_args")]
    assert said[-1]["board"]["state"] == "done" and list(said[-1]["board"]["rows"]) == ["no_scaling"]
    *_, (_, _, timer) = tick(lab)
    assert timer.constructor_args["active"] is False


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"do": "look", "fault": "no_such"}, "no fault named no_such"),
        ({"do": "race", "fault": "no_such"}, "no fault named no_such"),
        ({"do": "run_row", "fault": "no_such", "levels": [1]}, "no fault named no_such"),
        ({"do": "run_all", "levels": []}, "at least one level"),
        ({"do": "play", "seed": 0}, "seed from 1"),
    ],
)
def test_what_cannot_be_is_a_sentence_in_two_languages(data, said):
    refusal = props(command(Lab(), Session.of_preset(), event(**data))[1])["value"]["refusal"]
    assert said in refusal["en"] and refusal["zh"] and refusal["zh"] != refusal["en"]


def test_a_tab_without_work_lets_its_timer_sleep():
    for held in (None, Lab(), "not a lab"):
        ((_, _, timer),) = tick(held)
        assert timer.constructor_args["active"] is False


def test_every_part_is_told_whole_and_nothing_is_an_empty_object():
    assert told(Lab(), set(PARTS)) == dict.fromkeys(PARTS, "{}")


def test_the_address_follows_what_is_looked_at_and_played():
    session = Session.of_preset()
    change = changes.pick(Asked(session=session, data={"picked": "no_scaling", "game": 7}))
    assert changes.address(change.session) == {"picked": "no_scaling", "game": "7"}
    assert changes.pick(Asked(session=session, data={"picked": "no_such"})).session is None
    assert changes.pick(Asked(session=session, data={"seed": 9})).session == session


def test_a_link_to_a_game_or_a_fault_is_read_and_a_wrong_one_is_named():
    session, notices = Session.from_query({"tab": "break", "picked": "mask_inverted", "game": "12"})
    assert (session.tab, session.picked, session.game, notices) == ("break", "mask_inverted", 12, [])
    session, notices = Session.from_query({"picked": "mask_invert", "game": "-1"})
    assert (session.picked, session.game, len(notices)) == ("none", 0, 2)


def test_what_a_closed_tab_held_is_let_go():
    lab = command(None, None, event(do="run_row", fault="no_scaling", levels=[1]))[0]
    break_it.forget(lab)
    break_it.forget(None)
    assert not lab.busy


def test_too_large_a_model_is_refused_before_anything_is_built():
    lab, large = Lab(), Session.of_preset("paper_base")
    with pytest.raises(Refusal, match="parameters"):
        break_it._obey(lab, "run_all", {"fault": "", "faults": [], "levels": [1], "anew": False}, large)
    assert break_it._obey(lab, "look", {"fault": "no_scaling"}, large) == {"detail"}  # its code can still be read
    assert lab.told("detail")["tensors"] is None and lab.told("detail")["code"]["right"]
