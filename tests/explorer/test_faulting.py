"""The matrix a piece at a time, one fault in full, the duel, and the broken model of the game: all without a page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from explorer import duel, fault_view, faulting, game, mystery
from explorer.duel import Duel, Side
from explorer.faulting import MARKS, NOT_RUN, RIGHT, Matrix, catalogue, setting, summary
from explorer.lab import Lab
from explorer.limits import Limits
from explorer.mystery import Mystery
from explorer.refusals import Refusal
from explorer.session import Session
from explorer.words import LANGUAGES
from transformer_core.checks import CHECKS
from transformer_core.faults import FAULTS
from transformer_core.workshop import OWN

FIRST = setting(Session.of_preset(), Limits())
INDEX = {check.name: i for i, check in enumerate(CHECKS)}


def marks(**signs: str) -> str:
    """A row in which these checks have these marks and all others have seen nothing."""
    return "".join(signs.get(check.name, "n") for check in CHECKS)


def work_off(matrix: Matrix) -> list[str]:
    rows = []
    while matrix.running:
        rows.append(matrix.advance())
    return rows


# ----------------------------------------------------------------------------------------------------------- the matrix


def test_the_right_model_comes_first_and_every_piece_is_one_row_at_one_level():
    matrix = Matrix(FIRST)
    matrix.ask(["no_scaling", "causal_missing"], [2, 1])
    assert work_off(matrix) == [RIGHT, RIGHT, "no_scaling", "no_scaling", "causal_missing", "causal_missing"]
    count = sum(check.level <= 2 for check in CHECKS)
    assert matrix.right() == {"held": count, "of": count, "alarms": []} and matrix.told()["state"] == "done"


def test_marks_are_the_verdicts_of_the_row_and_a_dot_where_nothing_was_run():
    matrix = Matrix(FIRST)
    matrix.ask(["causal_missing"], [2])
    work_off(matrix)
    row = matrix.marks("causal_missing")
    assert row[INDEX["future_keys"]] == "c"  # probability on a later position
    assert row[INDEX["row_sums"]] == "n"  # it does not claim to look at the future
    assert row[INDEX["masked_keys"]] == "w"  # it claims to, and takes the wrong mask at its word
    assert {row[i] for i, check in enumerate(CHECKS) if check.level != 2} == {NOT_RUN}
    cells = matrix.cells["causal_missing"]
    assert all(row[INDEX[name]] == MARKS[cell.verdict] for name, cell in cells.items())


def test_more_levels_are_added_to_what_is_there_and_nothing_is_run_twice():
    matrix = Matrix(FIRST)
    matrix.ask(["no_scaling"], [1])
    work_off(matrix)
    matrix.ask(["no_scaling", "mask_inverted"], [1, 2])
    assert list(matrix.todo) == [(RIGHT, 2), ("no_scaling", 2), ("mask_inverted", 1), ("mask_inverted", 2)]
    work_off(matrix)
    assert set(matrix.told()["rows"]) == {"no_scaling", "mask_inverted"} and matrix.told()["levels"] == [1, 2]
    matrix.ask(["no_scaling"], [2], anew=True)
    assert list(matrix.todo) == [("no_scaling", 2)]


def test_what_is_complete_is_run_anew_when_it_is_asked_for_again():
    matrix = Matrix(FIRST)
    matrix.ask(["no_scaling"], [1])
    work_off(matrix)
    matrix.ask(["no_scaling"], [1])
    assert list(matrix.todo) == [(RIGHT, 1), ("no_scaling", 1)]


def test_a_stop_leaves_what_is_there_and_says_so():
    matrix = Matrix(FIRST)
    matrix.ask(list(FAULTS), [1])
    for _ in range(3):
        matrix.advance()
    matrix.stop()
    told = matrix.told()
    assert (told["state"], told["doing"], told["left"]) == ("stopped", None, 0)
    assert list(told["rows"]) == list(FAULTS)[:2] and matrix.advance() is None


def test_a_stop_in_the_middle_of_a_piece_takes_nothing_of_the_next_run(monkeypatch):
    matrix = Matrix(FIRST)
    matrix.ask(["no_scaling"], [1])

    def interrupted(*given):
        matrix.stop()
        matrix.ask(["mask_inverted"], [1])
        raise RuntimeError("and it fails, too")

    monkeypatch.setattr(faulting, "run_row", interrupted)
    matrix.advance()
    assert list(matrix.todo) == [(RIGHT, 1), ("mask_inverted", 1)]


def test_what_cannot_be_run_is_refused():
    matrix = Matrix(FIRST)
    with pytest.raises(Refusal, match="no fault named no_such"):
        matrix.ask(["no_such"], [1])
    with pytest.raises(Refusal, match="at least one level"):
        matrix.ask(["no_scaling"], [9])
    assert not matrix.running
    with pytest.raises(Refusal, match="parameters"):
        setting(Session.of_preset("paper_base"), Limits())


def test_a_matrix_is_of_the_model_on_explore_and_says_which():
    session = Session.of_preset().change(
        d_model=96, seed=5, lang="zh", steps=30, picked="no_scaling", fault="no_scaling"
    )
    of = setting(session, Limits())
    assert of.preset.model.d_model == 96 and of.told()["changed"] == ["d_model"]
    assert of.told()["query"] == {"d_model": "96", "seed": "5"}
    assert setting(session.change(steps=40, picked="mask_inverted"), Limits()) == of != FIRST


def test_the_matrix_is_plain_data():
    matrix = Matrix(FIRST)
    matrix.ask(["no_scaling"], [1])
    work_off(matrix)
    assert json.loads(json.dumps(matrix.told(), allow_nan=False)) == matrix.told()


# ---------------------------------------------------------------------------------------------------------- the summary


def test_the_summary_counts_by_hand():
    """Three faults: shapes catches the first two, row_sums the last two, norms all that is left to chance."""
    rows = {
        "no_scaling": marks(shapes="c", norms="w"),
        "mask_inverted": marks(shapes="c", row_sums="c", norms="w"),
        "causal_missing": marks(row_sums="c", loss_falls="w"),
    }
    said = summary(rows)
    assert said["smallest"] == ["shapes", "row_sums"] and said["uncaught"] == []
    assert (said["fooled"], said["times"], said["rows"], said["all"]) == ("norms", 2, 3, False)


def test_a_row_that_is_not_complete_does_not_count_as_unseen():
    half = marks(shapes="c")[:3] + NOT_RUN * (len(CHECKS) - 3)
    said = summary({"no_scaling": marks(row_sums="c"), "mask_inverted": half, "causal_missing": marks()})
    assert said["rows"] == 2 and said["uncaught"] == ["causal_missing"] and said["smallest"] == ["row_sums"]


def test_a_model_of_one_half_says_so_and_one_that_fails_by_itself_names_the_checks():
    assert FIRST.told()["half"] == ""
    assert setting(Session.of_preset("minimal_encoder"), Limits()).told()["half"] == "encoder"
    matrix = Matrix(setting(Session.of_preset().change(fill="-inf", pad_side="left"), Limits()))
    matrix.ask([], [2])
    work_off(matrix)
    right = matrix.right()
    assert "finite_tensors" in right["alarms"] and right["held"] == right["of"] - len(right["alarms"])


def test_a_fault_whose_line_is_never_reached_is_neither_caught_nor_passed():
    """An encoder alone has no cross-attention. Only when every level has run can that be said."""
    matrix = Matrix(setting(Session.of_preset("minimal_encoder"), Limits()))
    matrix.ask(["cross_padding_ignored", "no_scaling"], [1, 2, 3])
    work_off(matrix)
    assert matrix.told()["idle"] == [] and "w" in matrix.marks("cross_padding_ignored")
    matrix.ask(["cross_padding_ignored", "no_scaling"], [4, 5])
    work_off(matrix)
    told = matrix.told()
    assert told["idle"] == ["cross_padding_ignored"] and set(told["rows"]["cross_padding_ignored"]) == {"s"}
    assert told["summary"]["rows"] == 1 and told["summary"]["uncaught"] == []
    verdicts = fault_view.verdicts(matrix.cells["cross_padding_ignored"], without_effect=True)
    assert {each["mark"] for each in verdicts} == {"s"}


def test_an_empty_matrix_has_nothing_to_say():
    assert summary({}) == {"rows": 0, "all": False, "uncaught": [], "smallest": [], "fooled": "", "times": 0}


# ---------------------------------------------------------------------------------------------------------- one fault


@pytest.mark.parametrize("name", FAULTS)
def test_the_code_on_the_page_is_the_code_that_ran(name):
    shown = fault_view.code(name)
    ((path, text),) = FAULTS[name].shop.texts.items()
    own = Path(path).read_text(encoding="utf-8")
    for side, source in (("right", own), ("wrong", text)):
        lines = source.splitlines()
        printed = {number: "".join(part for part, _, _ in pieces) for number, pieces, _ in shown[side]}
        assert all(lines[number - 1].strip() == line.strip() for number, line in printed.items())
    differing = [number for number, pieces, differs in shown["right"] if differs]
    assert differing == [number for number, _, differs in shown["wrong"] if differs]
    assert differing == [
        i for i, (one, two) in enumerate(zip(own.splitlines(), text.splitlines(), strict=True), 1) if one != two
    ]
    assert any(marked for side in ("right", "wrong") for _, pieces, _ in shown[side] for _, _, marked in pieces)


def test_only_the_difference_is_underlined():
    shown = fault_view.code("causal_hides_itself")  # return key <= query, and with the fault: key < query
    marked = {side: "".join(part for _, pieces, _ in shown[side] for part, _, here in pieces if here) for side in
              ("right", "wrong")}  # fmt: skip
    assert marked == {"right": "<=", "wrong": "<"}


@pytest.mark.parametrize(
    ("mine", "theirs", "marked"),
    [
        ("x = norm(total)", "x = total", "norm(total)"),
        ("a.softmax(dim=-1)", "a.softmax(dim=-12)", "1"),
        ("scores", "score", "scores"),
        ("return key <= query", "return key < query", "<="),
        ("return key < query", "return key <= query", "<"),
    ],
)
def test_a_difference_is_whole_words_and_operators(mine, theirs, marked):
    start, end = fault_view.difference(mine, theirs)
    assert mine[start:end] == marked


def test_the_rows_that_changed_come_in_order_with_their_shapes():
    told = fault_view.tensors("no_scaling", FIRST)
    key, right, wrong, off = told["rows"][0]
    assert key == "encoder.layers.0.self_attention/scores" and right == wrong == [2, 4, 7, 7]
    assert off > 1 and told["reshaped"] == 0
    assert fault_view.tensors("loss_over_padding", FIRST) == {"rows": [], "reshaped": 0}


def test_every_verdict_is_told_in_both_languages():
    matrix = Matrix(FIRST)
    matrix.ask(["causal_missing"], [2])
    work_off(matrix)
    told = fault_view.verdicts(matrix.cells["causal_missing"])
    assert [each["check"] for each in told] == [check.name for check in CHECKS if check.level == 2]
    future = next(each for each in told if each["check"] == "future_keys")
    assert future["mark"] == "c" and future["state"] == "bad"
    assert "later position" in future["say"]["en"] and "后续位置" in future["say"]["zh"]


def test_the_catalogue_names_everything_in_both_languages():
    told = catalogue()
    assert [fault["name"] for fault in told["faults"]] == list(FAULTS)
    assert [check["name"] for check in told["checks"]] == list(INDEX)
    assert all(each["title"][lang] for part in ("faults", "checks") for each in told[part] for lang in LANGUAGES)
    assert json.loads(json.dumps(told)) == told


# ------------------------------------------------------------------------------------------------------------- the duel


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(duel, "STEPS", 4)
    monkeypatch.setattr(duel, "EVERY", 2)
    monkeypatch.setattr(duel, "QUESTIONS", 3)
    monkeypatch.setattr(duel, "RECIPE", {"steps": 4, "batch_size": 3, "label_smoothing": 0.0})


def test_both_sides_begin_with_the_same_weights_and_questions(short):
    race = Duel("no_scaling")
    while race.running:
        race.advance()
        assert abs(len(race.right.loss) - len(race.wrong.loss)) <= 1
    told = race.told()
    assert told["state"] == "done" and [look[0] for look in told["right"]["looks"]] == [0, 2, 4]
    assert len(told["right"]["loss"]) == len(told["wrong"]["loss"]) == 4
    assert told["right"]["loss"][0] != told["wrong"]["loss"][0]
    same = Side(OWN)
    for _ in range(4):
        same.advance()
    assert same.loss == told["right"]["loss"]  # what the other side does is not felt
    assert json.loads(json.dumps(told, allow_nan=False)) == told


def test_a_side_that_breaks_ends_with_a_sentence_and_the_other_goes_on(short):
    race = Duel("no_scaling")
    race.advance()
    race.wrong._training = iter(())  # the next step finds no more
    race.wrong.loss.append(1.0)
    while race.running:
        race.advance()
    assert race.wrong.failed and len(race.right.loss) == 4 and race.told()["state"] == "done"


def test_a_duel_can_be_stopped(short):
    race = Duel("no_scaling")
    race.advance()
    race.stop()
    assert not race.running and race.told()["state"] == "stopped"


# ---------------------------------------------------------------------------------------------------------- the mystery


def test_a_check_finds_in_the_broken_model_what_the_matrix_finds():
    broken = Mystery("causal_missing")
    for name in ("future_keys", "row_sums"):
        broken.check(name)
    future, sums = broken.findings(("future_keys", "row_sums"))
    assert (future["state"], sums["state"]) == ("bad", "ok") and "later position" in future["say"]["en"]
    assert broken.findings(("shapes",)) == [{"check": "shapes", "level": 1, "state": ""}]


def test_a_forward_that_breaks_off_leaves_the_checks_of_structure():
    broken = Mystery("mask_without_head_axis")
    for name in ("shapes", "row_sums"):
        broken.check(name)
    assert [each["state"] for each in broken.findings(("shapes", "row_sums"))] == ["bad", "silent"]


@pytest.mark.parametrize("name", ["no_scaling", "mask_without_head_axis", "empty_row_nan"])
def test_the_ledger_of_the_broken_model_does_not_say_where_it_differs(name):
    broken = Mystery(name)
    broken.record()
    assert broken.ledger and all(len(row) == 5 for row in broken.ledger)
    assert name not in json.dumps(broken.ledger, allow_nan=False)


def test_hints_go_from_the_group_to_the_method():
    play = game.Round("merge_without_transpose")
    assert mystery.hints(play) == []
    told = mystery.hints(game.Round("merge_without_transpose", hints=3))
    assert [each["hint"] for each in told] == list(game.HINTS)
    assert told[0]["group"] == "attention" and "heads" in told[1]["aspects"]
    assert told[2]["method"] == "MultiHeadAttention.merge"
    assert len(mystery.hints(game.Round("merge_without_transpose", hints=1))) == 1


# -------------------------------------------------------------------------------------------------------------- the lab


def slices(lab: Lab, most: int = 200) -> set[str]:
    news: set[str] = set()
    for _ in range(most):
        if not lab.busy:
            return news
        for parts in lab.work(0.2, 0.05):
            news |= parts
    raise AssertionError("the lab does not come to an end")


def test_a_lab_works_in_slices_and_tells_what_is_new():
    lab = Lab()
    assert not lab.busy and [lab.told(part) for part in ("board", "detail", "duel", "game")] == [None] * 4
    lab.look("causal_missing", FIRST)
    assert lab.told("detail")["verdicts"] == []
    lab.run(FIRST, ["causal_missing"], [1, 2])
    assert slices(lab) == {"board", "detail"}
    assert {each["mark"] for each in lab.told("detail")["verdicts"]} >= {"c", "n", "w"}


def test_two_slices_of_one_tab_do_not_work_at_once():
    lab = Lab()
    lab.run(FIRST, ["no_scaling"], [1])
    first = lab.work(5, 0)
    next(first)
    assert list(lab.work(5, 0)) == []
    first.close()
    assert slices(lab) == {"board"}


def test_another_setting_begins_with_an_empty_table():
    lab = Lab()
    lab.run(FIRST, ["no_scaling"], [1])
    slices(lab)
    other = setting(Session.of_preset().change(seed=3), Limits())
    lab.run(other, ["mask_inverted"], [1])
    slices(lab)
    assert set(lab.told("board")["rows"]) == {"mask_inverted"} and lab.told("board")["of"]["seed"] == 3


def test_the_work_of_a_closed_tab_ends():
    lab = Lab()
    lab.run(FIRST, list(FAULTS), [1])
    lab.race("no_scaling")
    lab.play(5)
    lab.clear()
    assert not lab.busy and list(lab.work(1, 0)) == [] and lab.told("game") is None


def test_the_name_of_the_fault_is_not_told_before_it_is_named():
    lab = Lab()
    lab.play(5)
    hidden = [each.fault for each in lab.game.rounds]
    lab.move("check", "row_sums")
    lab.move("check", "no_such_check")
    lab.move("hint")
    lab.move("guess", next(name for name in FAULTS if name not in hidden))
    assert slices(lab) == {"game"}
    told = lab.told("game")
    assert told["findings"][0]["state"] and told["ledger"] and len(told["hinted"]) == 1 and "explained" not in told
    assert not [name for name in hidden if f'"{name}"' in json.dumps(told)]
    lab.move("guess", hidden[0])
    told = lab.told("game")
    assert told["answer"] == hidden[0] == told["explained"]["name"]
    lab.move("next")
    slices(lab)
    assert lab.told("game")["answer"] == "" and lab.told("game")["findings"] == []


def test_a_lab_refuses_what_is_not_there():
    lab = Lab()
    for refused in (lambda: lab.look("no_such", FIRST), lambda: lab.race("no_such"), lambda: lab.play(0)):
        with pytest.raises(Refusal):
            refused()
    lab.move("hint")  # no game: nothing happens
    assert lab.told("game") is None
