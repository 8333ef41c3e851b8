"""The mystery game: its order, its prices, and that it never tells the answer before its time."""

from __future__ import annotations

import dataclasses
import json

import pytest

from explorer import game
from explorer.game import FREE, HINTS, MOST, ROUNDS, START, Game, Round, new

NAMES = ("apple", "birch", "cedar", "date", "elder", "fig", "grape", "hazel", "iris", "juniper", "kiwi")
SEEDS = (1, 7, 2026, 2**31 - 1)


def other(play: Game) -> str:
    """A fault that it is not, and that was not named yet."""
    return next(name for name in NAMES if name != play.now.fault and name not in play.now.wrong)


# -------------------------------------------------------------------------------------------------------------- drawing


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seed_gives_one_game_of_different_faults_whatever_the_order_of_the_list(seed):
    play = new(seed, NAMES)
    assert play == new(seed, NAMES[::-1]) == new(seed, set(NAMES))
    faults = [each.fault for each in play.rounds]
    assert len(faults) == len(set(faults)) == ROUNDS and set(faults) <= set(NAMES)


def test_the_order_is_the_same_on_every_machine():
    """The faults in the order of sha256("7 grape") = 0885..., sha256("7 apple") = 0cd7..., and so on."""
    order = ["grape", "apple", "birch", "iris", "kiwi", "elder", "date", "fig"]
    assert [each.fault for each in new(7, NAMES).rounds] == order
    assert len({tuple(each.fault for each in new(seed, NAMES).rounds) for seed in range(1, 40)}) > 30


def test_another_fault_in_the_list_leaves_the_order_of_the_others():
    before = [each.fault for each in new(5, NAMES, rounds=11).rounds]
    after = [each.fault for each in new(5, (*NAMES, "lemon"), rounds=12).rounds]
    assert [name for name in after if name != "lemon"] == before


@pytest.mark.parametrize(
    ("seed", "names", "said"), [(0, NAMES, "from 1"), (2**31, NAMES, "from 1"), (3, (), "at least")]
)
def test_what_is_no_game_is_refused(seed, names, said):
    with pytest.raises(ValueError, match=said):
        new(seed, names)


def test_fewer_faults_than_rounds_make_a_shorter_game():
    assert len(new(3, NAMES[:2]).rounds) == 2


# --------------------------------------------------------------------------------------------------------------- prices


@pytest.mark.parametrize(
    ("checks", "hints", "wrong", "points"),
    [
        (0, 0, 0, 10),
        (3, 0, 0, 10),  # the free ones
        (4, 0, 0, 9),
        (8, 0, 0, 5),
        (3, 1, 0, 8),
        (5, 2, 0, 4),  # 10 - 2 - 4
        (0, 0, 1, 7),
        (4, 1, 1, 4),  # 10 - 1 - 2 - 3
        (8, 3, 2, 0),  # 10 - 5 - 6 - 6 would be -7
    ],
)
def test_the_points_are_those_of_the_rule(checks, hints, wrong, points):
    play = new(7, NAMES)
    for number in range(checks):
        play = play.check(f"check_{number}")
    for _ in range(hints):
        play = play.hint()
    for _ in range(wrong):
        play = play.guess(other(play))
    assert play.now.points == points and play.total == 0
    named = play.guess(play.now.fault)
    assert named.now.end == "named" and named.total == named.now.points == points


def test_giving_up_gives_nothing():
    play = new(7, NAMES).give_up()
    assert (play.now.end, play.now.points, play.total) == ("given_up", 0, 0)


# ---------------------------------------------------------------------------------------------------------------- moves


def test_a_check_is_paid_once_and_there_are_only_so_many():
    play = new(7, NAMES)
    assert play.check("row_sums").check("row_sums") == play.check("row_sums")
    for number in range(MOST + 3):
        play = play.check(f"check_{number}")
    assert len(play.now.checks) == MOST and play.now.left == 0


def test_there_are_three_hints_and_a_wrong_name_is_paid_once():
    play = new(7, NAMES)
    for _ in range(5):
        play = play.hint()
    assert play.now.hints == len(HINTS) == 3
    name = other(play)
    assert play.guess(name).guess(name) == play.guess(name)
    assert play.guess("no such fault") == play


def test_an_ended_round_takes_no_more_moves():
    ended = new(7, NAMES).give_up()
    assert ended.check("row_sums") == ended.hint() == ended.guess(ended.now.fault) == ended.give_up() == ended


def test_the_next_round_comes_after_the_end_of_this_one_and_none_after_the_last():
    play = new(7, NAMES)
    assert play.next() == play
    for number in range(ROUNDS):
        assert not play.over and play.at == number
        play = play.guess(play.now.fault).next()
    assert play.over and play.at == ROUNDS - 1 and play.next() == play
    assert play.total == START * ROUNDS == 80


def test_a_game_never_changes():
    play = new(7, NAMES)
    with pytest.raises(dataclasses.FrozenInstanceError):
        play.at = 3
    with pytest.raises(dataclasses.FrozenInstanceError):
        play.now.hints = 3
    play.check("row_sums")
    assert play.now == Round(play.now.fault)


# ----------------------------------------------------------------------------------------------------------------- told


def test_the_fault_is_told_only_when_its_round_has_ended():
    play = new(7, NAMES)
    for move in (lambda p: p.check("row_sums"), Game.hint, Game.hint, Game.hint, lambda p: p.guess(other(p))):
        play = move(play)
        told = play.told()
        hidden = [each.fault for each in play.rounds]
        assert told["answer"] == "" and told["ended"] == []
        assert not [name for name in hidden if name in json.dumps({**told, "wrong": []})]
    named = play.guess(play.now.fault)
    assert named.told()["answer"] == play.now.fault
    later = named.next().told()
    assert later["answer"] == "" and [each["fault"] for each in later["ended"]] == [play.now.fault]
    assert named.next().now.fault not in json.dumps(later)


def test_told_is_plain_data_with_the_numbers_of_the_round():
    told = new(2026, NAMES).check("a").check("b").hint().told()
    assert json.loads(json.dumps(told)) == told
    assert (told["round"], told["rounds"], told["left"], told["hints"], told["points"]) == (1, 8, MOST - 2, 1, 8)
    assert (told["best"], told["total"], told["over"]) == (80, 0, False)


def test_the_page_states_the_rules_that_hold():
    assert game.rules() == {"rounds": 8, "start": 10, "free": 3, "most": 8, "check": 1, "hint": 2, "wrong": 3}
    assert FREE < MOST
