"""Every check on every fault: no fault without a check, no check without a fault, no false alarm."""

import json
import time
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
import torch

from transformer_core import load_preset
from transformer_core.checks import CHECKS, NUMERICS, STRUCTURE, Check, Finding
from transformer_core.checks.subject import Subject
from transformer_core.faults import FAULTS, Fault, matrix
from transformer_core.faults.changed import changed_tensors
from transformer_core.faults.matrix import VERDICTS, Cell, Row, run_matrix, run_row, verdict
from transformer_core.faults.summary import Summary, smallest_cover

PRESET = load_preset("first_look")
FAULT = FAULTS["no_scaling"]  # breaks the scale


SPENT: list[float] = []


@pytest.fixture(scope="module")
def summary() -> Summary:
    """The whole matrix, computed once."""
    started = time.process_time()
    found = Summary(tuple(run_matrix(PRESET)))
    SPENT.append(time.process_time() - started)
    return found


# What shows that it is done.


@pytest.mark.timeout(400)
def test_every_fault_is_caught_and_every_check_catches_and_the_right_model_passes(summary: Summary) -> None:
    assert [row.name for row in summary.rows] == [None, *FAULTS]
    assert summary.checks == [each.name for each in CHECKS]
    assert summary.false_alarms == []
    assert summary.uncaught == [] and summary.without_effect == []
    assert summary.idle == []


@pytest.mark.timeout(400)
def test_the_matrix_takes_about_a_minute_of_one_core_at_most(summary: Summary) -> None:
    """Not by the clock, since other work may run beside it; and here every signature is checked as well."""
    assert SPENT[0] < 100


@pytest.mark.timeout(400)
def test_no_check_ends_in_an_error_of_its_own_and_no_model_fails_to_be_built(summary: Summary) -> None:
    errors = [(cell.fault, cell.check, cell.error) for row in summary.rows for cell in row.cells if cell.error]
    assert errors == [] and not [row.failure for row in summary.rows if row.failure]


@pytest.mark.timeout(400)
def test_a_falling_loss_proves_little_and_row_sums_see_few(summary: Summary) -> None:
    """Lessons of the page, recomputed: what keeps the shapes and lets the loss fall is most of what can go wrong."""
    wrongly = summary.by_check("passes_wrongly")
    assert len(wrongly["loss_falls"]) > len(FAULTS) * 0.7
    caught = summary.by_check("caught")
    assert len(caught["shapes"]) < len(FAULTS) / 4 and len(caught["row_sums"]) < len(FAULTS) / 4
    for name in ("causal_missing", "causal_sees_next", "target_not_shifted", "merge_without_transpose"):
        assert name in wrongly["loss_falls"] and name in caught["own_words"], "learned, and unable to write"
    assert "target_not_shifted" in wrongly["future_keys"]


@pytest.mark.timeout(400)
def test_the_smallest_set_covers_and_nothing_can_be_left_out_of_it(summary: Summary) -> None:
    caught = {name: set(found) for name, found in summary.by_check("caught").items()}
    few = summary.smallest_set
    assert set().union(*(caught[name] for name in few)) == set(FAULTS)
    for left_out in few:
        assert set().union(*(caught[name] for name in few if name != left_out)) != set(FAULTS)


@pytest.mark.timeout(400)
def test_the_rows_are_plain_data(summary: Summary) -> None:
    text = json.dumps({"rows": [row.to_row() for row in summary.rows], "summary": summary.to_row()}, allow_nan=False)
    found = json.loads(text)
    assert found["rows"][0]["name"] is None and found["rows"][1]["name"] == next(iter(FAULTS))
    assert {cell["verdict"] for row in found["rows"] for cell in row["cells"]} == set(VERDICTS)
    assert found["summary"]["faults"]["weights_after_dropout"] == ["weights_before_dropout"]
    assert list(found["summary"]["checks"]) == summary.checks


def test_a_row_can_be_repeated() -> None:
    name = "eval_forgotten"
    rows = [run_row(FAULTS[name], PRESET, seed=3) for _ in range(2)]
    first, second = ([(cell.verdict, cell.result) for cell in row.cells] for row in rows)
    assert [verdict for verdict, _ in first] == [verdict for verdict, _ in second]
    assert all(
        repr(one) == repr(other) for (_, one), (_, other) in zip(first, second, strict=True)
    )  # as text: NaN is not equal to itself
    other = run_row(FAULTS[name], PRESET, seed=4)
    assert [cell.result for cell in other.cells] != [cell.result for cell in rows[0].cells]


@pytest.mark.parametrize("name", ["minimal_encoder", "hand_computed"])
@pytest.mark.parametrize("fault", FAULTS)
def test_at_other_presets_nothing_is_raised(name: str, fault: str) -> None:
    row = run_row(FAULTS[fault], load_preset(name), 7, levels=(STRUCTURE, NUMERICS))
    assert not row.failure and all(cell.verdict in VERDICTS and not cell.error for cell in row.cells)


# How a verdict is come to.


def made(measured: float, claims: tuple[str, ...] = ("scale",), only_warns: bool = False) -> Check:
    """A check that always measures this and wants 0."""
    wording = {"holds": "good", "fails": "bad"}
    return Check(
        NUMERICS, "made", "a claim", "the rest", wording, lambda _: Finding(measured, ()), only_warns, frozenset(claims)
    )


@pytest.mark.parametrize(
    ("check", "warned", "wanted"),
    [
        (made(1.0), (), "caught"),
        (made(0.0), (), "passes_wrongly"),
        (made(0.0, claims=("heads",)), (), "not_seen"),
        (made(0.0, claims=()), (), "not_seen"),
        (made(1.0, claims=()), (), "caught"),
        (made(1.0, only_warns=True), (), "caught"),
        (made(1.0, only_warns=True), ("made",), "passes_wrongly"),
        (made(1.0, claims=(), only_warns=True), ("made",), "not_seen"),
        (made(float("nan")), (), "caught"),
    ],
)
def test_verdict_of_a_check_on_a_fault_of_the_scale(check: Check, warned: tuple[str, ...], wanted: str) -> None:
    assert verdict(check, check.judge(check.measure(None)), FAULT, warned) == wanted  # type: ignore[arg-type]


def test_verdict_on_the_right_model_counts_no_warning_and_no_claim() -> None:
    for check, wanted in ((made(1.0), "caught"), (made(1.0, only_warns=True), "not_seen"), (made(0.0), "not_seen")):
        assert verdict(check, check.judge(check.measure(None)), None) == wanted  # type: ignore[arg-type]
    assert verdict(made(0.0), None, FAULT) == "silent"


def test_a_warning_that_the_right_model_has_as_well_catches_nothing() -> None:
    """On the left, padding leaves rows of a causal mask without a key, and visible_keys warns of them."""
    left = PRESET.replace(data=PRESET.data.replace(pad_side="left"))
    for preset, wanted in ((PRESET, "caught"), (left, "passes_wrongly")):
        rows = list(run_matrix(preset, names=["causal_hides_itself"], levels=[NUMERICS]))
        alone = run_row(FAULTS["causal_hides_itself"], preset, levels=[NUMERICS])  # must ask the right model itself
        for row in (rows[1], alone):
            assert {cell.check: cell.verdict for cell in row.cells}["visible_keys"] == wanted


@pytest.fixture
def few_checks(monkeypatch: pytest.MonkeyPatch) -> list[Check]:
    """A table of checks that a test fills."""
    table: list[Check] = []
    monkeypatch.setattr(matrix, "CHECKS", table)
    return table


def test_a_check_that_breaks_off_has_caught_the_fault(few_checks: list[Check]) -> None:
    def breaks(subject: Subject) -> Finding:
        raise IndexError("out of range\nand more")

    few_checks += [Check(NUMERICS, "breaks", "", "", {}, breaks), made(0.0)]
    row = run_row(FAULT, PRESET)
    assert [(cell.verdict, cell.error) for cell in row.cells] == [
        ("caught", "IndexError: out of range"),
        ("passes_wrongly", ""),
    ]
    assert Summary((run_row(None, PRESET), row)).false_alarms == ["breaks"]


def test_memory_that_runs_out_is_no_verdict(few_checks: list[Check]) -> None:
    def breaks(subject: Subject) -> Finding:
        raise torch.OutOfMemoryError("all gone")

    few_checks.append(Check(NUMERICS, "breaks", "", "", {}, breaks))
    with pytest.raises(torch.OutOfMemoryError):
        run_row(FAULT, PRESET)


def test_a_model_that_cannot_be_built_is_a_row_like_any_other() -> None:
    parts = {name: getattr(FAULT, name) for name in Fault.__dataclass_fields__}
    wrong = "for module in model.modules_():"
    broken = Fault(**parts | {"place": "model.initialise", "right": "for module in model.modules():", "wrong": wrong})
    row = run_row(broken, PRESET)
    assert row.failure.startswith("AttributeError: 'Transformer' object has no attribute 'modules_'")
    assert {cell.verdict for cell in row.cells} == {"silent"} and len(row.cells) == len(CHECKS)
    assert Summary((row,)).uncaught == []


def test_a_forward_that_stops_is_seen_by_the_shapes_and_the_rest_is_silent() -> None:
    row = run_row(FAULTS["mask_without_head_axis"], PRESET)
    assert row.caught_by == ["shapes"]
    assert {cell.verdict for cell in row.cells if cell.check not in {each.name for each in CHECKS if each.level == 1}} \
        == {"silent"}  # fmt: skip


# Row by row.


def test_rows_are_computed_when_they_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def row(fault: Fault | None, *_: Any) -> Row:
        asked.append(fault and fault.name)
        return Row(fault, ())

    monkeypatch.setattr(matrix, "run_row", row)
    rows: Iterator[Row] = run_matrix(PRESET)
    assert asked == []
    next(rows), next(rows)
    rows.close()  # type: ignore[attr-defined]
    assert asked == [None, next(iter(FAULTS))]


def test_only_the_named_faults_and_levels_are_run() -> None:
    rows = list(run_matrix(PRESET, names=["no_scaling", "causal_missing"], levels=[STRUCTURE]))
    assert [row.name for row in rows] == [None, "no_scaling", "causal_missing"]
    assert [cell.check for cell in rows[1].cells] == [each.name for each in CHECKS if each.level == STRUCTURE]
    with pytest.raises(ValueError, match="The nearest is no_scaling"):
        next(run_matrix(PRESET, names=["no_scalin"]))


def test_the_number_of_threads_is_put_back() -> None:
    torch.set_num_threads(3)
    try:
        run_row(FAULT, PRESET, levels=[STRUCTURE])
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(1)


# What the rows come to.


def row_of(name: str | None, **verdicts: str) -> Row:
    cells = tuple(Cell(name, check, verdict, None) for check, verdict in verdicts.items())
    return Row(None if name is None else FAULTS[name], cells)


def test_sums_by_hand() -> None:
    found = Summary(
        (
            row_of(None, a="not_seen", b="caught", c="silent"),
            row_of("no_scaling", a="caught", b="passes_wrongly", c="silent"),
            row_of("equal_start", a="caught", b="passes_wrongly", c="silent"),
            row_of("causal_missing", a="not_seen", b="silent", c="silent"),
        )
    )
    assert found.false_alarms == ["b"] and found.uncaught == ["causal_missing"] and found.idle == ["b", "c"]
    assert found.by_check("passes_wrongly") == {"a": [], "b": ["no_scaling", "equal_start"], "c": []}
    assert found.smallest_set == ["a"]
    assert found.to_row()["checks"]["b"] == {"caught": [], "passes_wrongly": ["no_scaling", "equal_start"]}
    assert Summary(()).smallest_set == [] and Summary(()).checks == []


def test_a_fault_of_the_decoder_is_none_in_an_encoder_alone() -> None:
    names = ["cross_padding_ignored", "no_scaling", "gradients_not_cleared"]
    found = Summary(tuple(run_matrix(load_preset("minimal_encoder"), names=names)))
    assert found.without_effect == ["cross_padding_ignored"]
    assert found.uncaught == ["gradients_not_cleared"], "it changes what the small model learns, and no verdict"
    assert found.broken[1].caught_by
    one_level = Summary(tuple(run_matrix(load_preset("minimal_encoder"), names=names[:1], levels=(STRUCTURE,))))
    assert one_level.without_effect == [] and one_level.uncaught == names[:1]


def test_the_smallest_cover_is_as_small_as_trying_everything_finds() -> None:
    """Also where always taking the largest set is not the best: there the two halves are enough."""
    assert smallest_cover({"large": set("bcfg"), "left": set("abcd"), "right": set("efgh")}) == ["left", "right"]
    assert smallest_cover({}) == [] and smallest_cover({"nothing": set()}) == []
    generator = torch.Generator().manual_seed(5)
    for _ in range(30):
        drawn = torch.rand(7, 11, generator=generator) < 0.3
        sets = {f"s{i}": {f"m{j}" for j in row.nonzero().flatten().tolist()} for i, row in enumerate(drawn)}
        wanted = set().union(*sets.values())
        smallest = next(
            size
            for size in range(8)
            if any(set().union(*(sets[name] for name in some)) == wanted for some in combinations(sets, size))
        )
        few = smallest_cover(sets)
        assert len(few) == smallest and set().union(*(sets[name] for name in few)) == wanted


# The rows of the ledger that a fault changes.


def test_changed_tensors_have_shapes_and_the_largest_difference() -> None:
    first, *_ = changed_tensors(FAULTS["causal_sees_next"], PRESET)
    assert first == ("decoder.layers.0.self_attention/allowed", (2, 4, 5, 5), (2, 4, 5, 5), 1.0)
    swapped = changed_tensors(FAULTS["heads_and_width_swapped"], PRESET)[0]
    assert swapped[1:] == ((2, 4, 7, 16), (2, 16, 7, 4), float("inf"))
    assert changed_tensors(FAULTS["mask_times_infinity"], PRESET)[0].max_abs != 0  # NaN is a difference
    (shown,) = changed_tensors(FAULTS["output_softmax_over_positions"], PRESET)
    assert shown.key == "probabilities" and 0 < shown.max_abs < 1


def test_what_a_broken_forward_no_longer_computes_is_missing() -> None:
    changed = changed_tensors(FAULTS["mask_without_head_axis"], PRESET)
    assert changed[0].key.endswith("0.self_attention/allowed") and changed[-1].key == "probabilities"
    assert {each.shape_wrong for each in changed} == {()}


def test_the_ledger_order_is_kept() -> None:
    changed = [each.key for each in changed_tensors(FAULTS["no_scaling"], PRESET)]
    assert changed.index("encoder.layers.0.self_attention/scores") < changed.index("memory") < changed.index("logits")
