"""``python -m transformer_core compare``: the table, the verdicts, the exit status, the plain data."""

import json

import pytest

from transformer_core.__main__ import main
from transformer_core.commands import compare as command
from transformer_core.parity import Difference, SweepPoint

Output = pytest.CaptureFixture[str]


def test_the_table_shows_every_tensor_in_both_dtypes(capsys: Output) -> None:
    assert main(["compare"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 120
    assert lines[0].startswith("first_look: encoder_decoder 2 + 2") and "eval" in lines[1]
    assert any("beside nn.Transformer with the same 167,424 weights, limits 2e-05 (float32)" in line for line in lines)
    (memory,) = (line for line in lines if line.startswith("memory "))
    assert "2 x 7 x 64" in memory and memory.count("●") == 1 and memory.count("|") == 1
    assert "float32: 76 of 76 tensors agree" in "\n".join(lines) and "float64: 88 of 88 gradients agree" in "\n".join(
        lines
    )
    assert "→ final_norm: " in "\n".join(lines) and "<-" not in "\n".join(lines)


def test_torchs_own_final_norms_part_at_the_memory_and_that_is_no_broken_limit(capsys: Output) -> None:
    assert main(["compare", "--final-norm", "torch", "--training"]) == 0
    out = capsys.readouterr().out
    assert "float64: 38 of 76 tensors agree" in out and "they part at memory" in out
    (first,) = (line for line in out.splitlines() if line.endswith("<-"))
    assert first.startswith("memory ") and "train" in out.splitlines()[1]


def test_a_broken_limit_is_status_1(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    own = command.compare
    monkeypatch.setattr(command, "compare", lambda *given, **how: own(*given, **how, limit=1e-20))
    assert main(["compare", "--set", "n_layers=1"]) == 1
    assert "they part at encoder.layers.0.self_attention/" in capsys.readouterr().out


def test_as_plain_data(capsys: Output) -> None:
    assert main(["compare", "--json", "--set", "n_layers=1", "--set", "norm_order=pre", "--seed", "3"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["seed"] == 3 and found["dtype"] == ["float32", "float64"] and found["mode"] == "eval"
    single, double = (found["comparisons"][name] for name in found["dtype"])
    assert single["passed"] and double["settings"]["limit"] == 1e-12
    assert [each["key"] for each in single["forward"]] == [each["key"] for each in double["forward"]]
    assert {each["name"] for each in found["readings"]} >= {"norm_order", "final_norm"} and found["sweep"] == []


def test_the_sweep_is_told_by_what_torch_did_and_where(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    own = command.sweep
    monkeypatch.setattr(command, "sweep", lambda seed: own(seed=seed, lengths=(5,), dtypes=("float32",)))
    assert main(["compare", "--sweep", "--set", "n_layers=1"]) == 0
    out = capsys.readouterr().out
    assert "Sweep of 48 points:" in out and "1 zeroes_padding: torch's fast path leaves padded positions out" in out
    assert "    1 of post-norm, no_grad, fast path on, padding right" in out and "4 nan_spreads" in out


def test_a_point_of_the_sweep_that_differs_is_status_1(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    point = SweepPoint(5, "none", "eval", True, "post", "float32", 0.5, None, 2e-5, False, "differs")
    monkeypatch.setattr(command, "sweep", lambda seed: iter([point]))
    assert main(["compare", "--sweep", "--set", "n_layers=1"]) == 1
    assert "1 differs: Real positions differ by more than the limit." in capsys.readouterr().out


def test_the_speed_is_a_table(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    own = command.attention_speed
    monkeypatch.setattr(command, "attention_speed", lambda seed: own(("float32",), (5,), ("cpu",), rounds=2, seed=seed))
    assert main(["compare", "--speed", "--set", "n_layers=1"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.split()[:3] == ["cpu", "float32", "5"] and " .. " in last


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        (["--set", "norm=rms"], "RMSNorm has no place"),
        (["--preset", "paper_big"], "paper_big is too large to be computed here, and shapes alone cannot be compared"),
        (["--final-norm", "none"], "invalid choice: 'none'"),
        (["--seed", "-1"], "seed"),
    ],
)
def test_what_cannot_be_compared_is_refused_in_a_sentence(capsys: Output, asked: list[str], text: str) -> None:
    try:
        status = main(["compare", *asked])
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    err = capsys.readouterr().err
    assert text in err and len(err.splitlines()) == 1


@pytest.mark.parametrize(
    ("error", "where"),
    [
        (0.0, 0),
        (1e-30, 0),
        (1e-17, 0),
        (1e-8, 14),
        (1.0, 26),
        (10.0, 27),
        (1e9, 27),
        (float("inf"), 27),
        (float("nan"), 27),
    ],
)
def test_the_bar_is_a_log_scale_from_1e_17_to_10(error: float, where: int) -> None:
    assert command.place(error) == where
    passed = error <= 2e-5
    drawn = command.bar(Difference("x", (2,), error, error, 2e-5, passed))
    assert len(drawn) == command.BAR == 28 and drawn[where] == ("●" if passed else "✗")
