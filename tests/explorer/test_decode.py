"""Decode: the tree a search draws, what is measured beside it, tables that are edited, and what strangers may ask."""

from __future__ import annotations

import base64
import dataclasses
import itertools
import json
import math
from typing import Any

import pytest
import torch

from explorer import changes, decode_measures, decode_search, decode_subject, decode_table, decoding_view
from explorer.changes import Asked, Change
from explorer.decode_watch import Watch
from explorer.fields import FIELDS
from explorer.limits import Limits
from explorer.live import Trained
from explorer.refusals import Refusal
from explorer.session import Session
from explorer.words import LANGUAGES
from transformer_core import build, decoding, tasks, translation
from transformer_core.config import BEGIN, END
from transformer_core.ledger import trace

LIMITS = Limits()
GREEDY = {"dec_from": "greedy_trap", "dec_length": 4}
LENGTH = {"dec_from": "length_trap", "dec_length": 5, "dec_width": 3}


def asked(session: Session | None = None, trained: Trained | None = None, **data: Any) -> Asked:
    return Asked(session or Session.of_preset(), None, trained, data={"number": 3, **data}, limits=LIMITS)


def shown(trained: Trained | None = None, session: Session | None = None, **chosen: Any) -> dict[str, Any]:
    """The payload of the tab with these choices."""
    detail = decoding_view.ask(asked(session, trained, changes=chosen)).detail
    assert detail is not None and "shown" in detail, detail
    json.dumps(detail, allow_nan=False)
    return detail["shown"]


def measured(what: str, trained: Trained | None = None, **chosen: Any) -> dict[str, Any]:
    detail = decoding_view.measure(asked(Session.of_preset().change(**chosen), trained, what=what)).detail
    assert detail is not None and "found" in detail, detail
    return detail["found"]


def refused(change: Change) -> dict[str, Any]:
    assert change.session is None and change.detail is not None
    refusal = change.detail["refused"]
    assert all(refusal["text"][lang] for lang in LANGUAGES)
    return refusal


def drawn(payload: dict[str, Any], fate: str | None = None, step: int | None = None) -> list[str]:
    """The names of the nodes with this fate, in the order in which they stand in their column."""
    return [
        node["id"] for node in payload["nodes"][1:]
        if (fate is None or node["fate"] == fate) and (step is None or node["step"] == step)
    ]  # fmt: skip


def trained_on(task: str = "copy", corpus: Any = None, **model: Any) -> Trained:
    """A model as the page keeps it after a training; its weights are those of a seed."""
    of = tasks.get(task)
    config = dataclasses.replace(of.model, **model)
    return Trained(build(config, of.masks, seed=5), config, of.masks, task, 7, 5, corpus=corpus)


# ------------------------------------------------------------------------------------------------------------ the traps


def test_h29_greedy_walks_into_the_trap_and_a_beam_of_two_does_not():
    greedy = shown(**GREEDY, dec_method="greedy")
    told = [(hyp["text"], round(hyp["log_prob"], 6), hyp["finished"]) for hyp in greedy["hyps"]]
    assert told == [("A A A A", -3.413578, False)]
    assert drawn(greedy, "open") == ["1.1.1.1"] and drawn(greedy, "finished") == []
    assert drawn(greedy, "cut", 1) == ["2"]  # B, which it never takes back
    beam = shown(**GREEDY, dec_method="beam", dec_width=2)
    best = beam["hyps"][0]
    assert (best["text"], best["finished"], best["length"]) == ("B EOS", True, 2)
    assert best["log_prob"] == pytest.approx(math.log(0.4 * 0.9), abs=1e-6) == best["score"]
    assert drawn(beam, "kept", 1) == ["1", "2"]
    assert drawn(beam, "finished", 2) == ["2.0"]
    assert beam["stopped"] == "won"
    found = measured("truth", **GREEDY, dec_method="beam")
    assert (found["best"]["text"], found["first"]) == ("B EOS", 2)
    assert [each["found"] for each in found["widths"]] == [False] + [True] * 7
    assert (found["widths"][0]["text"], found["widths"][0]["finished"]) == ("A A A A", False)


def test_h30_the_length_decides_and_the_end_counts():
    plain, normed = shown(**LENGTH, dec_norm="off"), shown(**LENGTH, dec_norm="on")
    assert (plain["hyps"][0]["text"], round(plain["hyps"][0]["score"], 6)) == ("A EOS", -0.867501)
    best = normed["hyps"][0]
    assert (best["text"], best["length"]) == ("B A B EOS", 4)
    assert (round(best["log_prob"], 6), round(best["score"], 6)) == (-0.977209, -0.244302)
    assert "A EOS" in [hyp["text"] for hyp in normed["hyps"]]  # the first that ended is kept, and search went on
    assert "mfrac" in normed["formula"] and "mfrac" not in plain["formula"]
    assert measured("truth", **LENGTH, dec_norm="on")["best"]["text"] == "B A B EOS"
    everything = shown(**LENGTH, dec_method="exhaustive", dec_norm="on")
    assert everything["hyps"][0]["text"] == "B A B EOS"
    # Greedy and sampled answers have nothing to divide by a length for.
    assert shown(**LENGTH, dec_method="greedy", dec_norm="on")["norm"] == "off"


def test_a_table_is_read_written_and_refused_at_its_row():
    own = decode_table.of_trap("greedy_trap")
    assert own.text() == "EOS,A,B/:0,0.6,0.4/A:0.3,0.38,0.32/B:0.9,0.06,0.04"
    assert decode_table.read_table(own.text()) == own
    # With B as the likelier start greedy search ends well.
    edited = shown(**GREEDY, dec_method="greedy", dec_table=own.text().replace(":0,0.6,0.4", ":0,0.4,0.6"))
    assert edited["hyps"][0]["text"] == "B EOS" and edited["table"]["edited"]
    assert not shown(**GREEDY)["table"]["edited"]
    wrong = refused(decoding_view.ask(asked(changes=GREEDY | {"dec_table": own.text().replace("0.38", "0.5")})))
    assert wrong["field"] == "dec_table" and "After A the probabilities add up to 1.12" in wrong["text"]["en"]
    scaled = decode_table.read_table(wrong["choices"][0]["changes"]["dec_table"])
    assert scaled.rows[1,] == pytest.approx((0.3 / 1.12, 0.5 / 1.12, 0.32 / 1.12), abs=1e-6)
    assert scaled.rows[2,] == own.rows[2,]


@pytest.mark.parametrize(
    "text",
    ["x", "EOS,A", "EOS,A/A:1,0", "EOS,A/:1", "EOS,A/:2,-1", "EOS,A/:nan,1", "EOS,A/:0.5,0.5/C:1,0", "EOS,EOS/:1,0",
     "EOS,A,B,C,D,E,F/:1,0,0,0,0,0,0", "EOS,A/:1e5,0", "EOS,A/:,", "EOS,<b>/" * 30, "EOS,A/:0,1/EOS:1,0"],
)  # fmt: skip
def test_what_is_no_table_is_refused_in_a_sentence(text):
    assert refused(decoding_view.ask(asked(changes=GREEDY | {"dec_table": text})))["field"] == "dec_table"


# ------------------------------------------------------------------------------------------------------------ the model


@pytest.mark.parametrize("width", [1, 2, 5])
def test_the_tree_of_a_model_is_the_cores_beam_search(width):
    trained = trained_on(d_model=20, n_heads=5, d_ff=24)
    payload = shown(trained, dec_method="beam", dec_width=width, dec_length=5)
    row = torch.tensor([decode_subject.source_of(_subject(trained), Session.of_preset()).ids])
    wanted = decoding.beam(trained.model.eval(), row, width, max_length=5, cache=False)[0]
    assert [tuple(map(int, hyp["node"].split("."))) for hyp in payload["hyps"]] == [each.tokens for each in wanted]
    assert [hyp["log_prob"] for hyp in payload["hyps"]] == pytest.approx([each.log_prob for each in wanted], abs=1e-5)
    assert payload["subject"]["kind"] == "trained" and payload["subject"]["step"] == 7
    for step in range(1, len(payload["steps"]) + 1):
        facts, kept = payload["steps"][step - 1], drawn(payload, step=step)
        live = [name for name in kept if name not in drawn(payload, "cut", step)]
        assert len(live) == facts["kept"] + facts["finished"]
        assert facts["looked"] == facts["kept"] + facts["finished"] + facts["cut"]
        assert facts["cut"] == len(drawn(payload, "cut", step)) + facts["more"]
    totals = {node["id"]: node["total"] for node in payload["nodes"]}
    for node in payload["nodes"][1:]:
        assert node["total"] == pytest.approx(totals[node["parent"]] + math.log(node["p"]), abs=1e-5)


def _subject(trained: Trained | None = None, **chosen: Any) -> decode_subject.Subject:
    return decode_subject.subject_of(Session.of_preset().change(**chosen), trained, LIMITS)


def test_greedy_and_samples_are_the_cores_own():
    trained = trained_on(d_model=20, n_heads=5, d_ff=24)
    model, row = trained.model.eval(), _source(trained).row()
    greedy = shown(trained, dec_method="greedy", dec_length=6)
    assert _tokens(greedy["hyps"][0]) == decoding.greedy(model, row, max_length=6)[0].tolist()
    how = {"temperature": 1.7, "top_k": 5, "top_p": 0.8}
    payload = shown(trained, dec_method="sample", dec_length=6, dec_seed=11,
                    **{f"dec_{name}": value for name, value in how.items()})  # fmt: skip
    assert sorted(hyp["seed"] for hyp in payload["hyps"]) == [11, 12, 13, 14, 15]
    for hyp in payload["hyps"]:
        assert _tokens(hyp) == decoding.sample(model, row, seed=hyp["seed"], max_length=6, **how)[0].tolist()
    # What top-k and top-p leave out is listed with a share of 0, and the shares of the rest add up to 1.
    state = payload["states"]["s"]
    assert sum(share for _, _, share in state["top"]) + state["others"][2] == pytest.approx(1, abs=1e-5)
    assert any(share == 0 < p for _, p, share in state["top"])
    assert sum(p for _, p, _ in state["top"]) + state["others"][1] == pytest.approx(1, abs=1e-5)
    assert not trained.model.training  # h31: dropout is off, and the trained model itself was not touched


def _source(trained: Trained, **chosen: Any) -> decode_subject.Source:
    return decode_subject.source_of(_subject(trained), Session.of_preset().change(**chosen))


def _tokens(hyp: dict[str, Any]) -> list[int]:
    return [int(token) for token in hyp["node"].split(".")]


def test_the_attention_of_a_node_is_that_of_the_pass_that_wrote_its_children():
    trained = trained_on(d_model=20, n_heads=5, d_ff=24)
    payload = shown(trained, dec_method="greedy", dec_length=4, dec_layer=1)
    source, heads = _source(trained), 5
    path = _tokens(payload["hyps"][0])
    with torch.no_grad(), trace(trained.model.eval()) as ledger:
        trained.model(source.row(), torch.tensor([[BEGIN, *path[:-1]]]))
    weights = ledger["decoder.layers.0.cross_attention/weights"].value[0]
    for n in range(len(path)):
        state = payload["states"][".".join(map(str, path[:n])) or "s"]
        raw = torch.tensor(list(base64.b64decode(state["attention"]))).reshape(heads, len(source.ids)) / 255
        assert torch.allclose(raw, weights[:, n], atol=3e-3)
    assert payload["source"]["tokens"] == [chr(ord("a") + token - 4) for token in source.ids]


def test_exhaustive_search_is_the_truth_by_enumeration():
    trained = trained_on(d_model=12, n_heads=2, d_ff=16)
    payload = shown(trained, dec_method="exhaustive", dec_length=2)
    model, row = trained.model.eval(), _source(trained).row()
    vocabulary = model.config.tgt_vocab_size
    with torch.no_grad():  # every first token, and what comes behind it, in one batch
        first = torch.tensor([[BEGIN, token] for token in range(vocabulary)])
        log_probs = model(row.expand(vocabulary, -1), first).log_softmax(-1)
    best = max(
        (float(log_probs[0, 0, one]) + (0.0 if one == END else float(log_probs[one, 1, two])),
         (one,) if one == END else (one, two))
        for one, two in itertools.product(range(vocabulary), repeat=2)
    )  # fmt: skip
    assert tuple(_tokens(payload["hyps"][0])) == best[1]
    assert payload["hyps"][0]["log_prob"] == pytest.approx(best[0], abs=1e-5)
    found = measured("truth", trained, dec_length=2)
    assert found["best"]["text"] == payload["hyps"][0]["text"]
    # Beyond what can be looked at it is refused, with the length that fits; the widths are still compared.
    wrong = refused(decoding_view.ask(asked(None, trained, changes={"dec_method": "exhaustive", "dec_length": 9})))
    assert wrong["field"] == "dec_method" and wrong["choices"][0]["changes"] == {"dec_length": 3}
    beyond = measured("truth", trained, dec_length=6)
    assert beyond["best"] is None and beyond["fits"] == 3 and len(beyond["widths"]) == 8


def test_both_ways_agree_under_a_causal_mask_and_part_without_one():
    trained = trained_on(d_model=20, n_heads=5, d_ff=24)
    parts = measured("ways", trained, dec_length=5)["parts"]
    assert [part["name"] for part in parts] == ["teacher", "own"]
    for part in parts:
        assert part["equal"] and 0 <= part["largest"] <= part["limit"]
        assert part["passes"] == len(part["rows"])
        assert [row["parallel"][0] for row in part["rows"]] == [row["single"][0] for row in part["rows"]]
    teacher, own = parts
    assert [row["wanted"] for row in teacher["rows"]] == [*_source(trained).tokens, "⟨/s⟩"]  # the task is to copy
    assert [row["read"] for row in teacher["rows"]] == ["⟨s⟩", *_source(trained).tokens]
    assert [row["wanted"] for row in own["rows"]] == [row["parallel"][0] for row in own["rows"]]
    # Of a typed sentence no right answer is known.
    assert [part["name"] for part in measured("ways", trained, dec_text="a b")["parts"]] == ["own"]
    open_masks = dataclasses.replace(trained.masks, decoder_self=("padding",))
    cheats = dataclasses.replace(trained, model=build(trained.config, open_masks, seed=5), masks=open_masks)
    assert not measured("ways", cheats, dec_length=5)["parts"][0]["equal"]


def test_with_and_without_cache_are_the_same_answer_and_times_are_measured():
    rows = measured("cache", trained_on(d_model=20, n_heads=5, d_ff=24), dec_width=3, dec_length=6)["rows"]
    assert [row["name"] for row in rows][:2] == ["greedy", "beam"] and rows[1]["width"] == 3
    for row in rows:
        assert row["same"] and row["largest"] < 1e-4
        assert row["without"] > 0 and row["cached"] > 0


# --------------------------------------------------------------------------------------------------------- the sentence


def test_typed_words_are_read_and_unknown_ones_named():
    subject = _subject()
    sessions = [Session.of_preset().change(dec_text=text) for text in ("a b c", " abc ")]
    spaced, close = (decode_subject.source_of(subject, session) for session in sessions)
    assert spaced.ids == close.ids == (4, 5, 6) and spaced.reference is None
    strange = shown(dec_text="a zebra  b 9")["source"]
    assert strange["unknown"] == ["z", "r", "9"] or strange["unknown"] == ["zebra", "9"]
    assert strange["sign"] == "⟨?⟩" and strange["tokens"].count("⟨?⟩") >= 2 and strange["typed"]
    for text, part in (("   ", None), ("a " * 40, "40 tokens")):
        change = decoding_view.ask(asked(changes={"dec_text": text}))
        if part is None:
            assert not change.detail["shown"]["source"]["typed"]  # nothing typed: the held-out sentence
        else:
            assert part in refused(change)["text"]["en"] and refused(change)["field"] == "dec_text"


def test_held_out_sentences_come_one_after_another_and_never_change():
    first, again, other = (shown(dec_item=item)["source"] for item in (0, 0, 1))
    assert first == again and first["tokens"] != other["tokens"]
    assert first["reference"] == " ".join(first["tokens"])  # to copy


def test_a_fresh_model_says_so_and_is_the_one_that_training_would_begin_with():
    payload = shown()
    assert payload["subject"]["kind"] == "fresh" and payload["subject"]["seed"] == 7
    task = tasks.get("copy")
    subject = _subject()
    assert torch.equal(subject.model.output.weight, build(task.model, task.masks, seed=7).output.weight)
    mine = _subject(recipe="mine", d_model=24, n_heads=3)
    assert mine.model.config.d_model == 24 and mine.model.config.tgt_vocab_size == len(task.symbols)


def test_a_task_without_a_target_is_refused_with_a_way_out():
    wrong = refused(decoding_view.ask(asked(Session.of_preset().with_task("first_last"))))
    assert wrong["train"] and "first_last" in wrong["text"]["en"]
    assert wrong["choices"][0]["changes"] == {"dec_from": "greedy_trap"}


def test_a_translation_is_typed_as_text_and_shown_as_text():
    corpus = translation.builtin()
    trained = trained_on("translation", corpus, d_model=16, n_heads=2, d_ff=16, n_encoder_layers=1, n_decoder_layers=1)
    held_out = shown(trained, dec_method="greedy", dec_length=4)
    assert held_out["source"]["reference"] == corpus.references[0]
    assert held_out["source"]["lang"] == "zh" and held_out["lang"] is None
    typed = shown(trained, dec_text=held_out["source"]["text"], dec_method="greedy", dec_length=4)
    for part in ("tokens", "reference"):
        assert typed["source"][part] == held_out["source"][part]
    assert typed["hyps"][0]["text"] == translation.decode_ids(corpus, _tokens(typed["hyps"][0]))
    strange = shown(trained, dec_text="我看了 zzz。", dec_method="greedy", dec_length=4)["source"]
    assert strange["unknown"] == ["zzz"]


# ------------------------------------------------------------------------------------------------- strangers and limits


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"dec_width": 9}, "dec_width"), ({"dec_width": 0}, "dec_width"), ({"dec_width": "3"}, "dec_width"),
        ({"dec_length": 10**9}, "dec_length"), ({"dec_temperature": 0}, "dec_temperature"),
        ({"dec_temperature": float("nan")}, "dec_temperature"), ({"dec_top_p": 1.5}, "dec_top_p"),
        ({"dec_method": "best"}, "dec_method"), ({"dec_method": ["beam"]}, "dec_method"),
        ({"dec_seed": -1}, "dec_seed"), ({"dec_from": "../x"}, "dec_from"), ({"dec_text": "a" * 3000}, "dec_text"),
        ({"dec_node": "<b>"}, "dec_node"),
        ({"dec_item": True}, "dec_item"),
    ],
)  # fmt: skip
def test_h34_values_that_no_control_could_send_are_refused(given, field):
    assert refused(decoding_view.ask(asked(changes=given)))["field"] == field


def test_nonsense_of_a_stranger_is_answered_in_a_sentence(monkeypatch):
    assert "cannot be measured" in refused(decoding_view.measure(asked(what={"x": 1})))["text"]["en"]
    for data in (None, "x", {"number": "1", "changes": 7}):
        change = decoding_view.ask(Asked(Session.of_preset(), data=data, limits=LIMITS))
        assert "shown" in change.detail and change.session is None  # to look changes nothing
    for what in ("ways", "cache"):
        change = decoding_view.measure(asked(Session.of_preset().change(**GREEDY), what=what))
        assert "truth can" in refused(change)["text"]["en"]
    assert decoding_view.remember(asked(None)) == Change()
    moved = decoding_view.remember(Asked(Session.of_preset(), data={"dec_step": 3, "dec_node": "4.5", "dec_width": 7}))
    assert (moved.session.dec_step, moved.session.dec_node, moved.session.dec_width) == (3, "4.5", 3)
    assert decoding_view.remember(Asked(Session.of_preset(), data={"dec_node": "<"})) == Change()
    monkeypatch.setattr(decode_search, "prepared", lambda *_: 1 / 0)
    assert "server" in refused(decoding_view.ask(asked()))["text"]["en"]


def test_what_would_take_too_long_is_refused_before_and_stopped_meanwhile(monkeypatch):
    small = dataclasses.replace(LIMITS, max_flops=1_000_000)
    with pytest.raises(Refusal, match="billion operations") as wrong:
        decode_search.prepared(Session.of_preset().change(dec_width=8), trained_on(), small)
    assert wrong.value.field == "dec_length"
    with pytest.raises(Refusal, match="too large"):
        decode_search.prepared(Session.of_preset(), None, dataclasses.replace(LIMITS, max_parameters=1000))
    watch = decode_search.prepared(Session.of_preset().change(**GREEDY), None, LIMITS).watch
    watch.started -= 60
    with pytest.raises(Refusal, match="stopped after"):
        watch([(3, 1)])
    with pytest.raises(Refusal, match="NaN"):
        Watch(lambda asked: [decode_search.Seen(torch.tensor([math.nan])) for _ in asked])([(1,)])


def test_a_search_waits_for_its_turn(monkeypatch):
    monkeypatch.setattr(changes, "PATIENCE", 0.01)
    held = [changes.FORWARDS.acquire(blocking=False) for _ in range(64)]
    try:
        assert "busy" in refused(decoding_view.ask(asked()))["text"]["en"]
    finally:
        for _ in range(sum(held)):
            changes.FORWARDS.release()
    assert shown()["id"]


def test_the_choices_are_in_the_link_and_equal_choices_give_equal_numbers():
    chosen = GREEDY | {
        "dec_method": "beam", "dec_width": 2, "dec_table": decode_table.of_trap("greedy_trap").text(), "dec_step": 1,
        "dec_node": "2.0", "dec_text": "a b", "dec_norm": "on", "dec_head": 2, "dec_temperature": 0.5,
    }  # fmt: skip
    session = decoding_view.ask(asked(changes=chosen)).session
    assert session is not None
    restored, notices = Session.from_query(session.to_query(), LIMITS)
    assert (restored, notices) == (session, [])
    assert shown(session=restored) == shown(session=session)
    here = {field.name for field in FIELDS if field.group == "decode"}
    assert set(decoding_view.FIELDS_HERE) == here == set(decode_search.COMPUTED) | set(decoding_view.LOOKED)


def test_a_fault_that_is_switched_on_is_in_the_model_that_decodes():
    trained = trained_on(d_model=20, n_heads=5, d_ff=24)
    right = shown(trained, dec_method="greedy", dec_length=4)
    session = Session.of_preset().change(fault="no_scaling")
    broken = shown(trained, session, dec_method="greedy", dec_length=4)
    assert broken["subject"]["fault"] and not right["subject"]["fault"]
    assert broken["states"]["s"]["top"] != right["states"]["s"]["top"] and broken["id"] != right["id"]
    assert shown(trained, dec_method="greedy", dec_length=4)["states"] == right["states"]


def test_a_fault_that_stops_the_model_is_told_and_one_that_leaks_parts_the_two_ways():
    stopped = decoding_view.ask(asked(Session.of_preset().change(fault="mask_times_infinity", dec_length=3)))
    assert "NaN" in refused(stopped)["text"]["en"]
    torn = asked(Session.of_preset().change(fault="split_without_transpose", dec_length=3), what="cache")
    assert "with the fault in it stopped" in refused(decoding_view.measure(torn))["text"]["en"]
    parts = measured("ways", fault="causal_missing", dec_length=3)["parts"]
    assert not any(part["equal"] for part in parts)


def test_two_people_decode_at_once_without_a_trace_of_each_other():
    one, other = trained_on(d_model=20, n_heads=5, d_ff=24), trained_on("reverse", d_model=12, n_heads=2, d_ff=16)
    before = shown(one, dec_method="greedy", dec_length=4)
    assert shown(other, dec_method="greedy", dec_length=4)["subject"]["task"] == "reverse"
    assert shown(one, dec_method="greedy", dec_length=4)["hyps"] == before["hyps"]
    assert not any(name in vars(decode_measures) for name in ("cached", "kept", "held"))
