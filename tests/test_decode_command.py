"""The command ``decode``: a table searched in every way, a model that writes, and what it refuses in one sentence."""

import json
from pathlib import Path

import pytest
import torch

from transformer_core import tasks
from transformer_core.__main__ import main
from transformer_core.commands.common import WIDTH
from transformer_core.decoding import greedy
from transformer_core.model import build
from transformer_core.records import record_of, save_weights
from transformer_core.training import train

Output = pytest.CaptureFixture[str]
COPY = tasks.get("copy")


def plain(capsys: Output, *asked: str) -> dict:
    assert main(["decode", "--json", *asked]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture
def run(tmp_path: Path):
    """A run of four steps: its record and its weights as files, and the model."""
    config, training = COPY.model.replace(d_model=16, d_ff=16), COPY.training.replace(steps=4)
    model = build(config, COPY.masks, seed=3)
    reports = list(train(model, COPY, training, 3))
    record = record_of(model=config, masks=COPY.masks, training=training, seed=3, reports=reports, ended="finished",
                       seconds=1.0)  # fmt: skip
    (tmp_path / "run.json").write_text(record.to_json(), encoding="utf-8")
    (tmp_path / "run.safetensors").write_bytes(save_weights(model, record))
    return tmp_path, model


def test_h29_the_trap_as_text(capsys: Output) -> None:
    assert main(["decode", "--trap", "greedy_trap"]) == 0
    text = capsys.readouterr().out
    blocks = {block.splitlines()[0].partition(",")[0]: block for block in text.split("\n\n")}
    assert "A A A A" in blocks["greedy"] and "-3.413578" in blocks["greedy"] and "not finished" in blocks["greedy"]
    assert blocks["beam of 2"].splitlines()[1].split()[:5] == ["B", "EOS", "ln", "p", "-1.021651"]
    assert blocks["exhaustive"].splitlines()[1].split()[:2] == ["B", "EOS"]
    assert max(map(len, text.splitlines())) <= WIDTH


def test_h30_the_trap_as_data(capsys: Output) -> None:
    found = plain(capsys, "--trap", "length_trap")["searches"]
    best = {(each["method"], each["length_norm"]): each["answers"][0] for each in found}
    assert best["beam", False]["words"] == ["A", "EOS"]
    assert best["beam", False]["score"] == pytest.approx(-0.867501, abs=5e-7)
    assert best["beam", True]["words"] == ["B", "A", "B", "EOS"]
    assert best["beam", True]["score"] == pytest.approx(-0.244302, abs=5e-7)
    assert best["exhaustive", True] == best["beam", True] and best["exhaustive", False] == best["beam", False]
    only = plain(capsys, "--trap", "length_trap", "--method", "beam", "--width", "1", "--length-norm")["searches"]
    assert [(each["width"], each["length_norm"]) for each in only] == [(1, True)]


def test_the_weights_of_a_run_write_what_its_model_writes(capsys: Output, run) -> None:
    folder, model = run
    found = plain(capsys, "--weights", str(folder / "run.safetensors"), "--source", "a b c", "--source", "hid")
    assert [each["source"] for each in found["sentences"]] == [["a", "b", "c"], ["h", "i", "d"]]
    ids = torch.tensor([[COPY.symbols.index(sign) for sign in word] for word in ("abc", "hid")])
    written = greedy(model, ids, max_length=model.config.max_seq_len)
    for row, each in zip(written.tolist(), found["sentences"], strict=True):
        tokens = each["answers"][0]["tokens"]
        assert tokens == row[: len(tokens)] and each["right"] is None


@pytest.mark.parametrize("method", [["greedy"], ["sample", "--top-k", "3"], ["beam", "--width", "3"],
                                    ["exhaustive", "--max-length", "2"]], ids=lambda each: each[0])  # fmt: skip
def test_every_method_says_the_same_with_the_cache_and_without(capsys: Output, run, method: list[str]) -> None:
    asked = ["--weights", str(run[0] / "run.safetensors"), "--sentences", "2", "--method", *method]
    with_cache, without = plain(capsys, *asked), plain(capsys, *asked, "--no-cache")
    for one, other in zip(with_cache["sentences"], without["sentences"], strict=True):
        assert one["right"] == other["right"] and one["source"] == other["source"]
        assert one["answers"][0]["tokens"] == other["answers"][0]["tokens"]
        assert one["answers"][0]["score"] == pytest.approx(other["answers"][0]["score"], abs=1e-5)


def test_a_record_is_run_once_more_and_then_writes_as_its_weights_do(capsys: Output, run) -> None:
    asked = ["--source", "abc"]
    again = plain(capsys, "--record", str(run[0] / "run.json"), *asked)
    assert again == plain(capsys, "--weights", str(run[0] / "run.safetensors"), *asked)


def test_a_task_is_trained_first(capsys: Output) -> None:
    assert main(["decode", "--task", "reverse", "--steps", "2", "--sentences", "2", "--method", "beam"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("reverse, beam, evaluation mode; score = log-probability\n")
    assert text.count("\nsource ") == text.count("\nright ") == 2 and "ln p" in text


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ([], "One of the arguments --record --weights --task --trap is required"),
        (["--trap", "gredy_trap"], "there is no trap 'gredy_trap'; greedy_trap and length_trap are"),
        (["--trap", "greedy_trap", "--method", "sample"], "a trap is a table to search"),
        (["--task", "first_last"], "the task first_last is answered with a class; nothing is written"),
        (["--task", "copi"], "The nearest is copy"),
        (["--weights", "no/such/file"], "no/such/file"),
        (["--task", "copy", "--steps", "1", "--source", "a ? c"], "'?' is no sign of the task copy"),
        (["--task", "copy", "--steps", "1", "--source", " "], "a source is blank"),
        (["--task", "copy", "--steps", "1", "--method", "sample", "--temperature", "0"], "temperature is 0.0"),
        (["--task", "copy", "--steps", "1", "--method", "beam", "--width", "0"], "width is 0"),
        (["--task", "copy", "--steps", "1", "--method", "exhaustive"], "too many to look at each"),
        (["--task", "copy", "--temperature", "nan"], "--temperature goes with --method sample; here it would change"),
        (["--task", "copy", "--width", "-1", "--method", "greedy"], "--width goes with --method beam"),
        (["--trap", "greedy_trap", "--source", "x"], "--source goes with a model"),
        (["--trap", "greedy_trap", "--steps", "-3"], "--steps goes with --task"),
        (["--task", "copy", "--pairs", "x"], "--pairs goes with --record or --weights"),
        (["--task", "copy", "--source", "a", "--sentences", "2"], "--sentences goes with a model and without --source"),
        (["--task", "copy", "--steps", "1", "--sentences", "65"], "sentences is 65; it must lie between 1 and 64"),
    ],
    ids=lambda each: " ".join(each) if isinstance(each, list) else "",
)
def test_what_cannot_be_is_refused_in_one_sentence(capsys: Output, asked: list[str], words: str) -> None:
    try:
        status = main(["decode", *asked])
    except SystemExit as ended:
        status = ended.code
    said = capsys.readouterr()
    assert status == 2 and words in said.err and not said.out and said.err.count("\n") == 1
