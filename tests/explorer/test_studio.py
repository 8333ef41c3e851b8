"""Masks: what the tab is told of a run, what its events change, and what a stranger's events do not."""

from __future__ import annotations

import base64
import json
import random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from explorer import changes, grids, painted, studio
from explorer import live as running
from explorer.changes import Asked
from explorer.fields import ATTENTIONS
from explorer.limits import Limits
from explorer.live import Live
from explorer.refusals import Refusal
from explorer.session import Session
from explorer.words import LANGUAGES
from transformer_core.masks import by_rule, for_attention

LIMITS = Limits()
EMPTY_ROW = {"encoder_self": ("padding", "window:2")}
"""With these rules the last source token of the second sentence sees nothing."""


def asked(session: Session | None = None, live: Live | None = None, **data: Any) -> Asked:
    return Asked(session=session or Session.of_preset(), live=live, data={"number": 3, **data}, limits=LIMITS)


def shown(session: Session | None = None, live: Live | None = None, **chosen: Any) -> dict[str, Any]:
    """The payload of the tab."""
    detail = studio.look(asked(session, live, chosen=chosen)).detail
    assert detail is not None and "shown" in detail, detail
    return detail["shown"]


def grid(payload: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in payload["attentions"] if each["name"] == name)


def cells(told: dict[str, Any]) -> torch.Tensor:
    """The bits of a grid."""
    raw = base64.b64decode(told["bits"])
    numbers = [raw[at] + 256 * raw[at + 1] for at in range(0, len(raw), 2)]
    return torch.tensor(numbers).reshape(told["rows"], told["columns"])


def matrix(rows: int, columns: int, *closed: tuple[int, int]) -> list[list[bool]]:
    return [[(i, j) not in closed for j in range(columns)] for i in range(rows)]


def refusal(change: changes.Change) -> dict[str, Any]:
    assert change.session is None and change.live is None
    assert change.detail is not None
    return change.detail["refused"]


# -------------------------------------------------------------------------------------------------------- painted words


@given(st.integers(1, 13), st.integers(1, 17), st.randoms(use_true_random=False))
def test_a_painted_layer_comes_back_from_its_word(rows: int, columns: int, draw: random.Random) -> None:
    made = tuple(tuple(draw.random() < 0.7 for _ in range(columns)) for _ in range(rows))
    told = painted.word(made)
    assert painted.matrix(told) == (None if all(map(all, made)) else made)
    assert len(told) <= 9 + 4 * -(-rows * columns // 24)


def test_a_word_by_hand() -> None:
    # 1 0 1 / 0 1 1 is 101011, with two zeros behind it 0b10101100 = 0xAC: "rA" in base64.
    assert painted.word([[True, False, True], [False, True, True]]) == "2x3.rA"
    assert painted.word([[True, True]]) == ""


@pytest.mark.parametrize("wrong", ["2x3", "0x3.A", "2x3.rAA", "2x3.r", "2x3.r+", "2x-3.rA", "99999x1.A", "2x3.rA "])
def test_what_is_no_painted_layer_is_refused(wrong: str) -> None:
    with pytest.raises(Refusal):
        painted.matrix(wrong)


def test_a_layer_of_too_many_cells_is_refused_before_it_is_laid_out() -> None:
    with pytest.raises(Refusal, match="at most 128"):
        painted.matrix("4000x4000.A", "cross_custom", 128)


def test_another_size_keeps_what_both_share() -> None:
    told = painted.word(matrix(3, 2, (0, 1), (2, 0)))
    assert painted.matrix(painted.fitted(told, 2, 5)) == tuple(map(tuple, matrix(2, 5, (0, 1))))
    assert painted.fitted(told, 1, 1) == ""  # what was closed is gone
    assert painted.fitted("", 4, 4) == ""


# ------------------------------------------------------------------------------------------------------------- the link


def test_painted_cells_travel_in_the_link() -> None:
    session = Session.of_preset().change(cross_custom=painted.word(matrix(5, 7, (3, 1), (0, 6))), mask_show="scores")
    query = session.to_query()
    assert set(query) == {"cross_custom", "mask_show"}
    assert Session.from_query(query, LIMITS) == (session, [])


def test_a_large_painted_layer_travels_as_a_file() -> None:
    session = Session.of_preset().change(encoder_self_custom=painted.word(matrix(65, 64, (0, 1))))
    assert "encoder_self_custom" not in session.to_query()
    assert "encoder_self_custom" in session.change(encoder_self_custom=painted.word(matrix(64, 64, (0, 1)))).to_query()


@pytest.mark.parametrize("value", ["7x7.zz", "200x200." + "_" * 6667, "<script>", "7x7"])
def test_a_broken_layer_in_a_link_is_left_out_and_named(value: str) -> None:
    session, notices = Session.from_query({"encoder_self_custom": value}, LIMITS)
    assert session == Session.of_preset()
    assert "encoder_self_custom" in notices[0].text("en")


def test_the_masks_of_a_session_are_its_rules_and_its_paint() -> None:
    session = Session.of_preset().change(decoder_self_custom=painted.word(matrix(5, 5, (4, 0))))
    masks = session.mask_config()
    assert masks.decoder_self == ("padding", "causal", "custom")
    assert masks.decoder_self_custom == tuple(map(tuple, matrix(5, 5, (4, 0))))
    assert session.mask_config(painted_too=False) == Session.of_preset().mask_config()


def test_paint_of_another_length_is_fitted_and_a_notice_says_so() -> None:
    session = Session.of_preset().change(src_len=9, encoder_self_custom=painted.word(matrix(7, 7, (1, 2))))
    live = running.run(session, limits=LIMITS)
    assert live.session.encoder_self_custom == painted.word(matrix(9, 9, (1, 2)))
    assert "7 × 7 and is now 9 × 9" in live.notices[0].text("en")
    assert changes.settled(session, live).encoder_self_custom == live.session.encoder_self_custom


# ------------------------------------------------------------------------------------------------------------ the grids


@pytest.mark.parametrize("preset", ["first_look", "empty_row", "left_padding", "minimal_encoder", "sentences"])
def test_a_grid_says_of_each_cell_what_the_core_says(preset: str) -> None:
    session = Session.of_preset(preset)
    live = running.run(session, limits=LIMITS)
    for sample in range(2):
        payload = shown(session, live, sample=sample)
        for told in payload["attentions"]:
            name, (rows, columns) = told["name"], (told["rows"], told["columns"])
            keys = live.batch.tgt if name == "decoder_self" else live.batch.src
            heads = live.model.config.n_heads
            alone = by_rule(live.model.masks, name, rows, keys, n_heads=heads)
            found = cells(told)
            for number, rule in enumerate(told["rules"]):
                assert torch.equal((found >> number) & 1 == 0, alone[rule][sample, 0]), (name, rule)
            allowed = for_attention(live.model.masks, name, rows, keys, n_heads=heads)
            assert allowed is not None
            seen = allowed.expand(len(keys), heads, rows, columns)[sample, 0]
            assert torch.equal((found & grids.HIDDEN_BIT) == 0, seen)
            assert told["visible"] == seen.sum(dim=-1).tolist()
            assert told["odd"] == 0
            assert told["empty_rows"] == [i for i, count in enumerate(told["visible"]) if count == 0]
            assert told["max_hidden"] == 0
            assert [round(each, 5) for each in told["sums"]] == [float(count > 0) for count in told["visible"]]


def test_the_shapes_are_those_of_the_architecture() -> None:
    sizes = {each["name"]: (each["rows"], each["columns"]) for each in shown()["attentions"]}
    assert sizes == {"encoder_self": (7, 7), "decoder_self": (5, 5), "cross": (5, 7)}
    assert [each["name"] for each in shown(Session.of_preset("minimal_encoder"))["attentions"]] == ["encoder_self"]
    decoder = shown(Session.of_preset().change(architecture="decoder"))
    assert [each["name"] for each in decoder["attentions"]] == ["decoder_self"]
    assert decoder["chosen"]["mask_at"] == "decoder_self"  # encoder_self is chosen, and is not there


def test_a_painted_cell_is_hidden_in_the_run_itself() -> None:
    session = Session.of_preset().change(cross_custom=painted.word(matrix(5, 7, (3, 1))))
    told = grid(shown(session), "cross")
    assert int(cells(told)[3, 1]) == grids.PAINTED_BIT | grids.HIDDEN_BIT
    live = running.run(session, limits=LIMITS)
    weights = live.entries()["decoder.layers.1.cross_attention/weights"].value
    assert weights[:, :, 3, 1].abs().max() == 0
    assert weights[:, :, 2, 1].min() > 0


def test_the_mean_over_heads_is_labelled_and_is_the_mean() -> None:
    session = Session.of_preset()
    live = running.run(session, limits=LIMITS)
    told = grid(shown(session, live, mask_heads="mean", sample=1), "cross")
    assert told["averaged"] == 4
    weights = live.entries()["decoder.layers.0.cross_attention/weights"].value[1].mean(dim=0)
    assert told["column_sums"] == pytest.approx(weights.sum(dim=0).tolist(), abs=1e-5)
    assert grid(shown(session, live, mask_heads="one"), "cross")["averaged"] == 1


def test_heads_that_see_different_keys_have_grids_of_their_own() -> None:
    session = Session.of_preset().change(encoder_self=("where:k % 4 == h",))
    live = running.run(session, limits=LIMITS)
    for head in range(4):
        told = grid(shown(session, live, head=head), "encoder_self")
        assert told["heads_differ"]
        assert [int(cell) == 0 for cell in cells(told)[0]] == [j % 4 == head for j in range(7)]
    mean = grid(shown(session, live, mask_heads="mean"), "encoder_self")
    assert int(cells(mean).sum()) == 0  # some head sees each key


def test_one_row_is_that_of_the_run() -> None:
    session = Session.of_preset()
    live = running.run(session, limits=LIMITS)
    payload = shown(session, live, mask_at="decoder_self", mask_row=2, sample=1, head=1, mask_layer=1)
    row, entries = payload["row"], live.entries()
    path = "decoder.layers.1.self_attention"
    recorded = {name: entries[f"{path}/{name}"].value[1, 1, 2] for name in ("scores", "weights")}
    assert row["scaled"] == pytest.approx(recorded["scores"].tolist(), abs=1e-5)
    assert row["weights"] == pytest.approx(recorded["weights"].tolist(), abs=1e-6)
    assert row["dots"] == pytest.approx([4 * value for value in row["scaled"]], rel=1e-5)  # √16
    assert row["visible"] == [True, True, True, False, False]
    assert row["masked"][3:] == ["-inf", "-inf"]
    assert row["weights_sum"] == pytest.approx(1, abs=1e-6)
    assert row["max_hidden"] == 0
    assert row["off"] < 1e-6


def test_a_row_without_a_key_is_found_and_every_fill_computed() -> None:
    told = shown(Session.of_preset().change(**EMPTY_ROW), sample=1, mask_row=2)["empty"]
    assert (told["attention"], told["row"], told["found"]) == ("encoder_self", 6, True)
    what = {(row["fill"], row["dtype"]): row["what"] for row in told["rows"]}
    assert what[("exclude", "float32")] == "zeros"
    assert what[("-inf", "float32")] == what[("-inf", "float16")] == "nan"
    assert what[("-1e9", "float32")] == "even"
    assert what[("-1e9", "float16")] == "refused"
    assert not shown()["empty"]["found"]  # then the chosen row serves as an example


def test_snippets_and_views_belong_to_the_chosen_attention() -> None:
    payload = shown(mask_at="cross")
    assert {each["api"] for each in payload["snippets"]} == {
        "scaled_dot_product_attention", "MultiheadAttention", "Transformer", "additive", "flex_attention",
    }  # fmt: skip
    assert all("torch" in each["code"] for each in payload["snippets"])
    named = {each["name"]: each for each in payload["views"]}
    assert named["full"]["shape"] == [2, 4, 5, 7]
    assert named["queries"]["error"]  # 7 tokens do not fit 5 queries
    assert shown(mask_at="encoder_self")["views"][3]["wrong_cells"] > 0  # here they fit, and hide the wrong cells


def test_a_model_without_numbers_still_has_masks() -> None:
    payload = shown(Session.of_preset("paper_big"))
    assert payload["shapes_only"]
    assert payload["chosen"]["mask_show"] == "mask"
    assert payload["row"] is None
    assert payload["probe"] == "no"
    decoder = grid(payload, "decoder_self")
    assert decoder["values"] is None
    assert decoder["visible"][0] == 1


@pytest.mark.parametrize("chosen", [{"sample": 9000, "head": 9000, "mask_row": 9999, "mask_layer": 9999}])
def test_what_is_beyond_the_run_is_moved_into_it(chosen: dict[str, int]) -> None:
    told = shown(**chosen)["chosen"]
    assert (told["sample"], told["head"], told["mask_row"], told["mask_layer"]) == (1, 3, 6, 1)


def test_the_payload_is_json_even_where_the_run_is_nan() -> None:
    session = Session.of_preset().change(**EMPTY_ROW, fill="-inf", sample=1, mask_row=6)
    payload = shown(session)
    json.dumps({**payload, "attentions": [{**each, "values": None} for each in payload["attentions"]]}, allow_nan=False)
    assert grid(payload, "encoder_self")["sums"][6] == "nan"


# ----------------------------------------------------------------------------------------------------------- the events


def test_an_edit_is_the_session_s_and_the_run_s() -> None:
    first = studio.look(asked())
    word = painted.word(matrix(7, 7, (2, 3)))
    wanted = {"encoder_self": ["padding", "where:q - k < 3"], "encoder_self_custom": word, "fill": "finfo_min"}
    change = studio.edit(asked(first.session, first.live, changes=wanted, chosen={"mask_at": "cross"}))
    assert change.session is not None and change.live is not None and change.frame is not None
    assert change.session.encoder_self == ("padding", "where:q - k < 3")
    assert change.session.mask_at == "cross"
    assert change.live.model.masks.encoder_self == ("padding", "where:q - k < 3", "custom")
    assert change.live.model.masks.fill == "finfo_min"
    assert change.frame["query"]["encoder_self_custom"] == word
    assert change.detail is not None and change.detail["number"] == 3
    assert grid(change.detail["shown"], "encoder_self")["custom"] == word


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"encoder_self": ["where:q - j < 3"]}, "column 5"),
        ({"encoder_self": ["where:__import__('os')"]}, "column"),
        ({"encoder_self": ["window:0"]}, "window:1"),
        ({"encoder_self": ["window:9999"]}, "wider than 128"),
        ({"cross": ["prefix:2"]}, "self-attention"),
        ({"encoder_self": ["custom"]}, "matrix"),
        ({"encoder_self": "padding"}, "list"),
        ({"encoder_self_custom": 5}, "text"),
        ({"encoder_self_custom": "7x7.AAA"}, "7 × 7"),
        ({"fill": "zero"}, "exclude"),
        ({"encoder_self": ["where:k // q == 0"]}, "divides by 0"),
        ({}, "changes"),
    ],
)
def test_what_cannot_be_is_refused_in_both_languages_and_changes_nothing(wanted: dict[str, Any], said: str) -> None:
    told = refusal(studio.edit(asked(changes=wanted)))
    assert said in told["text"]["en"]
    assert set(told["text"]) == set(LANGUAGES)


def test_a_slip_in_a_condition_comes_with_the_nearest_that_can_be_read() -> None:
    told = refusal(studio.edit(asked(changes={"encoder_self": ["where:q = k"]})))
    assert told["nearest"] == "where:q == k"


@pytest.mark.parametrize("name", studio.TRAPS)
def test_a_trap_leads_where_it_says(name: str) -> None:
    change = studio.trap(asked(trap=name))
    assert change.detail is not None
    payload = change.detail["shown"]
    assert payload["traps"] == [name]
    assert change.controls  # the controls of Explore follow
    at = grid(payload, payload["chosen"]["mask_at"])
    if name in ("window_padding", "left_padding"):
        assert payload["chosen"]["mask_row"] in at["empty_rows"]
        assert at["odd"] == 0
    else:
        assert payload["fault"] != "none"
        assert at["odd"] > 0 or at["max_hidden"] > 0.1


def test_a_fault_in_the_mask_is_seen_cell_by_cell() -> None:
    payload = studio.trap(asked(trap="causal_shifted")).detail["shown"]  # type: ignore[index]
    told = grid(payload, "decoder_self")
    found = cells(told)
    hidden, meant = (found & grids.HIDDEN_BIT) != 0, (found & 0x7FFF) != 0
    wrong = (hidden != meant).nonzero().tolist()
    assert len(wrong) == told["odd"] > 0
    assert all(j == i + 1 for i, j in wrong)
    assert told["max_hidden"] > 0


def test_the_probe_clears_the_right_model_and_convicts_the_broken_one() -> None:
    right = studio.look(asked())
    told = studio.measure(asked(right.session, right.live, what="tgt")).detail["probe"]  # type: ignore[index]
    assert (told["leaks"], told["still"], told["hidden"]) == (0, 0, 10)
    assert [[cell > 0 for cell in row] for row in told["moves"]] == [[j <= i for j in range(5)] for i in range(5)]
    broken = studio.trap(asked(trap="causal_shifted"))
    told = studio.measure(asked(broken.session, broken.live, what="tgt")).detail["probe"]  # type: ignore[index]
    assert told["leaks"] >= 4
    assert told["moves"][0][1] > 0


def test_the_probe_of_an_encoder_reads_memory_and_has_no_target() -> None:
    first = studio.look(asked(Session.of_preset("minimal_encoder")))
    told = studio.measure(asked(first.session, first.live, what="src")).detail["probe"]  # type: ignore[index]
    assert told["output"] == "memory"
    assert refusal(studio.measure(asked(first.session, None, what="tgt")))["text"]["en"].startswith("This model has no")


def test_a_costly_model_is_probed_one_token_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studio, "MOST_NUDGES", 1)
    monkeypatch.setattr(studio, "how_to_probe", lambda live: "one")
    told = studio.measure(asked(what="src", chosen={"mask_row": 4})).detail["probe"]  # type: ignore[index]
    assert told["places"] == [4]
    assert {len(row) for row in told["moves"]} == {1}


def test_the_scale_laboratory_answers_with_numbers() -> None:
    rows = studio.measure(asked(what="scale")).detail["scale"]  # type: ignore[index]
    assert [row["d_head"] for row in rows][::2] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512]
    plain, divided = rows[-2:]
    assert plain["std"] > 15 > divided["std"] * 10
    assert plain["gradient"] < divided["gradient"]


# ---------------------------------------------------------------------------------------------------------------- files


@pytest.mark.parametrize(
    "text",
    [
        "1,0\n1,1\n",
        "true,false\r\nTRUE,True",
        "1,0\r1,1\r",
        "\ufeff1;0\n1;1",
        "1\t0\n1\t1",
        ",a,b\nx,1,0\ny,1,1",
        ',"a,b",c\nx,1,0\ny,1,1',
    ],
)
def test_a_mask_is_read_as_people_write_it(text: str) -> None:
    assert studio.read_csv(text, 2, 2) == ((True, False), (True, True))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("1,0\n", "The mask in the file is 1 × 2; this attention has 2 queries × 2 keys"),
        ("1,0\n1", "2 × 1/2"),
        ("1,0\n1,2\n", "Row 2, column 2 of the file is"),
        ("1,0\n1,-inf\n", "-inf"),
        ("1," * 70_000, "at most 131072"),
        (None, "empty"),
        (["1,0"], "empty"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(text: Any, said: str) -> None:
    with pytest.raises(Refusal, match=said.replace("(", r"\(")):
        studio.read_csv(text, 2, 2)


def test_an_uploaded_mask_becomes_the_painted_layer() -> None:
    text = "\n".join(",".join("0" if (i, j) == (4, 6) else "1" for j in range(7)) for i in range(5))
    change = studio.edit(asked(file={"attention": "cross", "text": text}))
    assert change.session is not None
    assert change.session.cross_custom == painted.word(matrix(5, 7, (4, 6)))
    assert "5 queries × 7 keys" in refusal(studio.edit(asked(file={"attention": "cross", "text": "1,1"})))["text"]["en"]
    assert refusal(studio.edit(asked(file={"attention": "both", "text": "1"})))["text"]["zh"]


# ------------------------------------------------------------------------------------------------------------ strangers

NONSENSE = [None, 5, "x", [], {}, {"number": "many"}, {"changes": 5, "chosen": [], "file": 7}, {"trap": ["a"]},
            {"what": {"a": 1}}, {"chosen": {"sample": -1}}, {"chosen": {"mask_at": "all"}}, {"chosen": {"head": 1e99}},
            {"changes": {"d_model": 7}}, {"changes": {"encoder_self": [["padding"]]}},
            {"file": {"attention": None}}, {"file": {"attention": ["encoder_self"], "text": "1"}}]  # fmt: skip


@pytest.mark.parametrize("data", NONSENSE)
@pytest.mark.parametrize("handler", [studio.look, studio.edit, studio.trap, studio.measure])
def test_no_event_breaks_the_page(handler: Any, data: Any, caplog: pytest.LogCaptureFixture) -> None:
    change = handler(Asked(session=Session.of_preset(), data=data, limits=LIMITS))
    assert caplog.text == ""  # what a stranger sends is refused, and is no surprise
    assert isinstance(change.detail["number"], int)
    assert ("refused" in change.detail) != ("shown" in change.detail)
    if "refused" in change.detail:
        assert change.live is None


def test_a_surprise_is_logged_and_said_in_one_sentence(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(studio, "payload", lambda *_: 1 / 0)
    told = refusal(studio.look(asked()))
    assert "ZeroDivisionError" in caplog.text
    assert "ZeroDivisionError" not in told["text"]["en"]


def test_the_names_of_the_view_are_those_of_the_session() -> None:
    assert set(studio.LOOKED) <= set(vars(Session.of_preset()))
    assert set(ATTENTIONS) < set(studio.EDITED)
