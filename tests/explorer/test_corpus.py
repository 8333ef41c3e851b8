"""The panel Sentences: a file in pieces, its limits, what hostile ones cannot do, the desk that gets a corpus."""

from __future__ import annotations

import base64
import dataclasses
import json
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from explorer import corpora, plans, taking_up, words
from explorer.corpora import PIECE, Sheet, told
from explorer.limits import Limits
from explorer.refusals import Refusal
from explorer.runs import Desk
from explorer.session import Session
from explorer.views import corpus as view
from explorer.views.train import RECIPE
from transformer_core.records import RunRecord, record_of
from transformer_core.records.making import corpus_facts
from transformer_core.translation import builtin
from transformer_core.translation.pairs import REASONS

LIMITS = Limits()
PAIRS = "\n".join(f"The {n} {what}.\t{n}{zh}。" for n in range(30) for what, zh in (("cat", "猫"), ("dog", "狗")))
FILE = (PAIRS + "\n\nalone\n").encode()


def event(**data: Any) -> Any:
    return SimpleNamespace(_data=data)


def answer(update: Any) -> dict[str, Any]:
    return json.loads(update["value"] if isinstance(update, dict) else update.value)


def put_in(sheet: Sheet, data: bytes, name: str = "pairs.tsv", size: int = 4096) -> Sheet:
    sheet.begin(name, len(data), LIMITS)
    for start in range(0, len(data), size):
        sheet.take(base64.b64encode(data[start : start + size]).decode())
    sheet.read(LIMITS)
    return sheet


@pytest.fixture
def sheet() -> Sheet:
    return put_in(Sheet(), FILE, size=100)


def test_a_file_in_pieces_becomes_a_corpus(sheet: Sheet) -> None:
    assert sheet.pairs is not None and len(sheet.pairs) == 60 and sheet.coming == []
    sheet.make({"origin": "file", "min_count": 1})
    shown = told(sheet, LIMITS)
    assert shown["origin"] == "file" and shown["file"] == shown["name"] == "pairs.tsv" and shown["has_file"]
    assert shown["report"]["read"] == 62 and shown["report"]["train"] + shown["report"]["held_out"] == 60
    assert {each["reason"] for each in shown["report"]["dropped"]} == {"blank", "columns"}
    assert all("".join(word for word, _ in pair["src"]).endswith("。") for pair in shown["pairs"])
    json.dumps(shown)


def test_a_tab_that_chose_nothing_has_the_built_in_sentences() -> None:
    shown = told(Sheet(), LIMITS)
    assert (shown["origin"], shown["has_file"], shown["languages"]) == ("built_in", False, ["zh", "other"])
    sheet = Sheet()
    sheet.make({})
    assert sheet.corpus is None
    sheet.make({"direction": "backward"})
    assert sheet.corpus is builtin("backward") and told(sheet, LIMITS)["languages"] == ["other", "zh"]


def test_choices_of_one_origin_wait_for_the_other(sheet: Sheet) -> None:
    sheet.make({"origin": "file", "min_count": 1, "direction": "backward"})
    assert sheet.corpus is not None and sheet.corpus.options["languages"] == ("other", "zh")
    sheet.make({"origin": "built_in"})
    assert sheet.corpus is builtin("backward")
    sheet.make({"origin": "file"})
    assert sheet.corpus.name == "pairs.tsv" and sheet.corpus.options["min_count"] == 1


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "no sentence pair was found in 0 lines"),
        (PAIRS.encode("gb18030"), "the file is not UTF-8: line 1"),
        (b"\x00" * 5000, "no sentence pair"),
        (b"a\tb", "both need at least one"),
        (b"a\tb\n" * 50_001, "the file has 50,001 lines; at most 50,000 are read here"),
        (b"PK\x03\x04" + bytes(range(256)), "not UTF-8"),
    ],
)
def test_a_file_that_is_none_is_refused_and_the_old_one_stays(sheet: Sheet, data: bytes, text: str) -> None:
    sheet.make({"origin": "file", "min_count": 1})
    before = sheet.corpus
    with pytest.raises(Refusal, match=text) as refused:
        put_in(sheet, data, size=PIECE)
        sheet.make({"origin": "file"})
    assert sheet.corpus is before and refused.value.text("zh") != refused.value.text("en")


def test_size_is_limited_before_anything_is_kept() -> None:
    sheet = Sheet()
    with pytest.raises(Refusal, match="The file has 4,097 KB; at most 4,096 KB are taken here"):
        sheet.begin("large.tsv", LIMITS.max_corpus_bytes + 1, LIMITS)
    for name, size in (("x", -1), ("x", True), ("x", "12"), ("x", 2.5), (None, 12), (["x"], 12)):
        with pytest.raises(Refusal, match="did not arrive whole"):
            sheet.begin(name, size, LIMITS)
    sheet.begin("x" * 500, 10, LIMITS)
    assert len(sheet.name) == corpora.MAX_NAME


@pytest.mark.parametrize("piece", ["", "no base 64!", None, 7, base64.b64encode(b"x" * 11).decode()])
def test_a_piece_that_was_not_announced_ends_the_file(piece: Any) -> None:
    sheet = Sheet()
    sheet.begin("a.tsv", 10, LIMITS)
    sheet.take(base64.b64encode(b"abc").decode())
    with pytest.raises(Refusal, match="did not arrive whole"):
        sheet.take(piece)
    assert sheet.coming == [] and sheet.size == 0
    with pytest.raises(Refusal, match="did not arrive whole"):
        sheet.take(base64.b64encode(b"abc").decode())


def test_a_file_with_a_missing_end_is_not_read() -> None:
    sheet = Sheet()
    sheet.begin("a.tsv", len(FILE), LIMITS)
    sheet.take(base64.b64encode(FILE[:100]).decode())
    with pytest.raises(Refusal, match="did not arrive whole"):
        sheet.read(LIMITS)
    assert sheet.pairs is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"min_count": 0}, "a whole number between 1 and 100 is wanted"),
        ({"min_count": None}, "a whole number between"),
        ({"max_vocabulary": 10**9}, "a whole number between 100 and 20,000"),
        ({"max_length": "20"}, "a whole number between"),
        ({"max_length": True}, "a whole number between"),
        ({"max_length": float("nan")}, "a whole number between"),
        ({"direction": "up"}, "did not arrive whole"),
        ({"origin": "/etc/passwd"}, "did not arrive whole"),
        ({"simplified": "yes"}, "did not arrive whole"),
    ],
)
def test_options_that_skip_the_page_are_refused(sheet: Sheet, options: dict[str, Any], text: str) -> None:
    """H34: every limit is checked in the function itself."""
    sheet.make({"origin": "file", "min_count": 1})
    before = (sheet.corpus, dict(sheet.options))
    with pytest.raises(Refusal, match=text):
        sheet.make(options)
    assert (sheet.corpus, sheet.options) == before


def test_without_a_file_there_is_nothing_to_learn_from() -> None:
    with pytest.raises(Refusal, match="There is no file in this tab"):
        Sheet().make({"origin": "file"})


# ---- handlers


def test_the_handlers_put_the_corpus_on_the_desk_and_its_recipe_into_the_sidebar() -> None:
    sheet, update = view.piece(None, event(number=1, name="p.tsv", size=len(FILE)))
    assert answer(update)["come"] == 0 and "refusal" not in answer(update)
    sheet, update = view.piece(sheet, event(number=2, text=base64.b64encode(FILE).decode()))
    assert (answer(update)["come"], answer(update)["number"]) == (len(FILE), 2)
    options = {"origin": "file", "min_count": 1}
    desk, sheet, update, *recipe = view.make(None, sheet, event(number=3, options=options, whole=True))
    assert desk.corpus is sheet.corpus is not None and answer(update)["name"] == "p.tsv"
    assert len(recipe) == len(RECIPE) and all(not isinstance(value, dict) for value in recipe)
    plan = plans.plan(Session.of_preset().with_task("translation"), LIMITS, desk.corpus)
    assert plan.corpus is desk.corpus and plan.task_of().symbols == desk.corpus.tgt_symbols
    again, _, _, *recipe = view.make(desk, sheet, event(number=4, options={}))
    assert again is desk and recipe == [gr.skip()] * len(RECIPE), "what was typed into the recipe stays"


def test_two_tabs_have_a_file_each() -> None:
    """H35: nothing of one user reaches another."""
    one, _ = view.piece(None, event(name="a.tsv", size=len(FILE)))
    other, _ = view.piece(None, event(name="b.tsv", size=3))
    assert one is not other and (one.name, other.name) == ("a.tsv", "b.tsv")
    desk, _, update, *_ = view.make(Desk(), other, event(options={"origin": "file"}, whole=True))
    assert desk.corpus is None and answer(update)["refusal"]["zh"] == words.text("zh", "errors.corpus_broken")


@pytest.mark.parametrize(
    "data", [None, [], "x", {"size": "big"}, {"text": 5}, {"options": [], "whole": 1}, {"options": {"x": 1}}]
)
def test_a_stranger_s_nonsense_gets_a_sentence_and_changes_nothing(data: Any) -> None:
    sheet, update = view.piece(None, SimpleNamespace(_data=data))
    assert answer(update)["reply"] == "piece" and sheet.pairs is None
    desk, sheet, update, *_ = view.make(None, None, SimpleNamespace(_data=data))
    assert desk.corpus is None and answer(update)["origin"] == "built_in"


def test_what_is_not_expected_is_logged_and_told_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(Sheet, "make", broken)
    _, _, update, *_ = view.make(None, None, event(options={}))
    assert "secret" not in update.value if hasattr(update, "value") else "secret" not in update["value"]
    assert answer(update)["refusal"]["en"] == words.text("en", "errors.unexpected")


def test_a_tab_that_is_gone_keeps_no_file(sheet: Sheet) -> None:
    sheet.make({"origin": "file", "min_count": 1})
    view.forget(sheet)
    assert sheet.pairs is sheet.corpus is None
    view.forget(None)


def test_every_reason_of_the_core_has_words() -> None:
    assert all(words.has(f"corpus.why_{reason}") for reason in REASONS)


def test_a_record_of_the_same_file_needs_the_same_choices(sheet: Sheet) -> None:
    """Otherwise words would have other numbers, and the direction might be another."""
    task = Session.of_preset().with_task("translation")
    sheet.make({"origin": "file", "min_count": 1})
    assert sheet.corpus is not None
    plan = plans.plan(task, LIMITS, sheet.corpus)
    record = record_of(
        model=plan.model, masks=plan.masks, training=plan.training, seed=7, reports=[], ended="stopped", seconds=0.0,
        corpus=sheet.corpus,
    )  # fmt: skip
    assert taking_up.corpus_of(RunRecord.from_json(record.to_json()), sheet.corpus) is sheet.corpus
    sheet.make({"direction": "backward"})
    with pytest.raises(Refusal, match="panel Sentences with the same choices"):
        taking_up.corpus_of(record, sheet.corpus)
    turned = dataclasses.replace(record, corpus=corpus_facts(builtin("backward")))
    assert taking_up.corpus_of(turned, None) is builtin("backward")
    assert taking_up.corpus_of(dataclasses.replace(record, corpus=corpus_facts(builtin())), sheet.corpus) is None
