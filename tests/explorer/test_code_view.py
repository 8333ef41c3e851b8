"""The code pane shows the lines of the file, marks the ones that made the tensor, and reads nothing but the core."""

from __future__ import annotations

from pathlib import Path

import pytest

from explorer import code_view
from explorer.code_view import ROOT, view
from explorer.limits import Limits
from explorer.live import run
from explorer.session import Session
from transformer_core import faults
from transformer_core.ledger import Source


@pytest.fixture(scope="module")
def ledger():
    return run(Session.of_preset(), None, None, Limits()).ledger


def text(found, number):
    return "".join(piece for piece, _ in dict(found.lines)[number])


def test_every_recorded_line_has_a_view_whose_lines_are_those_of_the_file(ledger):
    for source in {entry.source for entry in ledger}:
        found = view(source)
        lines = Path(source.file).read_text(encoding="utf-8").splitlines()
        assert found is not None
        assert found.noted == source.line
        shown = {number: text(found, number) for number, pieces in found.lines if number}
        assert "note(" in shown[source.line]
        indent = len(lines[min(shown) - 1]) - len(lines[min(shown) - 1].lstrip())
        for number, line in shown.items():
            assert line.rstrip() == lines[number - 1][indent:].rstrip(), (source.file, number)


def test_the_statement_that_made_a_tensor_is_marked_and_so_is_what_fed_it(ledger):
    found = view(ledger["decoder.layers.0.cross_attention/weights"].source)
    assert found.function == "attend"
    assert [text(found, line).strip() for line in found.made] == ["weights = masked_softmax(scores, allowed, fill)"]
    assert all(text(found, line).strip().startswith("scores = ") for line in found.feeds)
    assert len(found.feeds) == 2


def test_both_ways_through_a_branch_may_have_made_it(ledger):
    found = view(ledger["encoder.layers.0.self_attention/scores"].source)
    made = [text(found, line).strip() for line in found.made]
    assert made == ["scores = q @ k.transpose(-2, -1)", "scores = scores / math.sqrt(q.shape[-1])"]
    logits = view(ledger["logits"].source)
    assert ["output" in text(logits, line) for line in logits.made] == [True, False]


def test_an_argument_was_made_elsewhere(ledger):
    found = view(ledger["encoder.layers.0.self_attention/q"].source)
    assert found.made == () and found.feeds == ()


def reaching(body, name, before):
    source = "def f(a):\n" + "\n".join(f"    {line}" for line in body)
    function = code_view.ast.parse(source).body[0]
    return [node.lineno for node in code_view._reaching(function, name, before)]


def test_the_last_assignment_before_a_line_is_the_one_that_reaches_it():
    assert reaching(["x = 1", "x = 2", "note(x)", "x = 3"], "x", 4) == [3]


def test_a_branch_that_returns_does_not_reach_further():
    body = ["x = 1", "if a:", "    x = 2", "    return x", "note(x)"]
    assert reaching(body, "x", 6) == [2]
    inside = ["x = 1", "if a:", "    x = 2", "    note(x)", "else:", "    x = 3"]
    assert reaching(inside, "x", 5) == [4]


def test_pieces_are_coloured_by_what_they_are(ledger):
    found = view(ledger["encoder.layers.0.feed_forward/hidden"].source)
    kinds = {(piece.strip(), kind) for _, pieces in found.lines for piece, kind in pieces}
    assert ("def", "kw") in kinds
    assert ("forward", "fn") in kinds
    assert any(kind == "str" and piece.startswith('"hidden"') for piece, kind in kinds)


def test_the_rest_of_a_docstring_is_left_out_and_said_to_be(ledger):
    found = view(ledger["encoder.layers.0.self_attention/weights"].source)
    assert sum(number == 0 for number, _ in found.lines) == 1
    assert not any(">>>" in piece for _, pieces in found.lines for piece, _ in pieces)


@pytest.mark.parametrize(
    "file", ["/etc/passwd", str(ROOT.parent / "app.py"), str(ROOT / ".." / "app.py"), str(ROOT / "no.py")]
)
def test_no_file_outside_the_core_is_read(file):
    assert view(Source(file, 1, "f")) is None


def test_a_line_outside_every_function_has_no_view():
    assert view(Source(str(ROOT / "attention.py"), 1, "f")) is None


def test_code_with_a_fault_in_it_is_shown_with_the_line_that_was_changed():
    fault = faults.get("merge_without_transpose")
    (path,) = fault.shop.texts
    _, function, line, _, wrong = fault.lines()
    shown = view(Source(path, line, function.rpartition(".")[2]), fault.shop.texts)
    assert shown is not None and shown.changed == (line,)
    (changed,) = ["".join(piece for piece, _ in pieces) for number, pieces in shown.lines if number == line]
    assert changed.strip() == wrong[0].strip()
    own = view(Source(path, line, function))
    assert own is not None and own.changed == () and own.lines != shown.lines
    assert [number for number, _ in own.lines] == [number for number, _ in shown.lines]
