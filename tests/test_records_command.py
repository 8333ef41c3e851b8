"""``train`` with files to keep, ``train --resume`` and ``replay``: what is left of a run, and how it goes on."""

import csv
import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from transformer_core.__main__ import main
from transformer_core.commands import keeping
from transformer_core.commands import train as cli
from transformer_core.records import RunRecord, read_record, to_csv
from transformer_core.training import Evaluation
from transformer_core.training import run as run_module

Output = pytest.CaptureFixture[str]
SMALL = ["--set", "d_model=20", "--set", "n_heads=5", "--set", "d_ff=23", "--set", "training.batch_size=5"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Questions at the end are of other tests."""
    monkeypatch.setattr(cli, "evaluate", lambda *_: Evaluation(0.5, 0.25, 2.0))


def train(folder: Path, *more: str, steps: int = 4) -> RunRecord:
    assert main(["train", "copy", *SMALL, "--steps", str(steps), "--record", str(folder / "run.json"), *more]) == 0
    return RunRecord.from_json((folder / "run.json").read_bytes())


def refused(capsys: Output, *arguments: str) -> str:
    capsys.readouterr()
    assert main(arguments) == 2
    output = capsys.readouterr()
    assert output.err.count("\n") == 1 and "Traceback" not in output.err
    return output.err


def test_train_leaves_every_file_that_was_asked_for(capsys: Output, tmp_path: Path) -> None:
    names = {"weights": "run.safetensors", "curve": "run.csv", "script": "run.py", "notebook": "run.ipynb"}
    more = [part for name, file in names.items() for part in (f"--{name}", str(tmp_path / file))]
    record = train(tmp_path, *more)
    lines = capsys.readouterr().out.splitlines()
    assert lines[-4:] == [f"{name}: {tmp_path / file}" for name, file in names.items()]
    assert (record.steps, record.ended) == (4, "finished")
    assert record.result == {"token_accuracy": 0.5, "exact_match": 0.25, "loss": 2.0}
    assert read_record((tmp_path / "run.safetensors").read_bytes()) == record
    rows = list(csv.DictReader((tmp_path / "run.csv").read_text(encoding="utf-8-sig").splitlines()))
    assert [float(row["loss"]) for row in rows] == list(record.losses)
    assert "a run of 4 steps" in (tmp_path / "run.py").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "run.ipynb").read_text(encoding="utf-8"))["nbformat"] == 4
    assert not list(tmp_path.glob("*.part"))


def test_replay_repeats_a_record_and_ends_with_1_at_a_difference(capsys: Output, tmp_path: Path) -> None:
    record = train(tmp_path)
    capsys.readouterr()
    assert main(["replay", str(tmp_path / "run.json")]) == 0
    text = capsys.readouterr().out
    assert text.startswith("copy, seed 7: 4 steps") and "All 4 losses are the same to the last digit." in text
    assert main(["replay", str(tmp_path / "run.json"), "--steps", "2", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [tuple(row.values()) for row in rows] == [
        (step, loss, loss, True) for step, loss in enumerate(record.losses[:2], start=1)
    ]
    off = record.replace(losses=(*record.losses[:2], 1.0, record.losses[3]), source="")
    (tmp_path / "off.json").write_text(off.to_json(), encoding="utf-8")
    assert main(["replay", str(tmp_path / "off.json")]) == 1
    text = capsys.readouterr().out
    assert "The library has changed since then" in text and "was 1.0" in text
    assert text.splitlines()[-1] == "Here the two runs part."


@pytest.mark.parametrize("kept", ["record", "weights"])
def test_a_run_that_ctrl_c_stopped_goes_on_as_if_it_had_not(
    capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    whole = train(tmp_path)
    say = cli.progress_line

    def stop(report: object, total: int) -> None:
        say(report, total)
        if report.step == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(cli, "progress_line", stop)
    file = tmp_path / f"half.{kept}"
    assert main(["train", "copy", *SMALL, "--steps", "4", f"--{kept}", str(file)]) == 130
    assert f"Stopped by Ctrl-C after step 2; kept: {kept}: {file}." in capsys.readouterr().err
    monkeypatch.setattr(cli, "progress_line", say)
    assert main(["train", "--resume", str(file), "--record", str(tmp_path / "rest.json")]) == 0
    assert "The 2 steps of the record were taken; from here on it is the same run." in capsys.readouterr().out
    rest = RunRecord.from_json((tmp_path / "rest.json").read_bytes())
    assert (rest.losses, rest.rates, rest.ended) == (whole.losses, whole.rates, "finished")


@pytest.mark.parametrize("more", [1, 2], ids=["once", "twice"])
def test_ctrl_c_in_the_middle_of_a_step_waits_for_its_end(
    capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """Weights that were half moved, behind a batch that was drawn, once went on as another run."""
    whole = train(tmp_path)
    step = run_module.take_step

    def interrupted(model: object, batch: object, optimizer: object, config: object, number: int, *rest: object) -> Any:
        if number == 2:
            for _ in range(more):
                signal.raise_signal(signal.SIGINT)
        return step(model, batch, optimizer, config, number, *rest)

    file, weights = tmp_path / "run.json", tmp_path / "run.st"
    with monkeypatch.context() as patch:
        patch.setattr(run_module, "take_step", interrupted)
        command = ["train", "copy", *SMALL, "--steps", "4", "--record", str(file), "--weights", str(weights)]
        assert main(command) == 130
    said = capsys.readouterr().err
    assert f"after step {3 - more}; kept: record: {file}" in said and weights.exists() == (more == 1)
    assert main(["train", "--resume", str(weights if more == 1 else file), "--record", str(file)]) == 0
    assert RunRecord.from_json(file.read_bytes()).losses == whole.losses


def test_ctrl_c_among_the_questions_at_the_end_loses_no_training(
    capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "evaluate", interrupted)
    file = tmp_path / "run.json"
    assert main(["train", "copy", *SMALL, "--steps", "2", "--record", str(file)]) == 130
    assert "after step 2; kept: record" in capsys.readouterr().err
    record = RunRecord.from_json(file.read_bytes())
    assert (record.steps, record.ended, record.result) == (2, "finished", None)


def test_a_killed_process_leaves_a_record_to_go_on_from(tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    command = [sys.executable, "-m", "transformer_core", "train", "copy", *SMALL, "--steps", "300", "--json",
               "--record", str(file)]  # fmt: skip
    with subprocess.Popen(command, cwd=Path(__file__).parent.parent, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["step"] == 35:
                break
        process.send_signal(signal.SIGKILL)
    record = RunRecord.from_json(file.read_bytes())
    assert record.ended == "paused" and record.steps >= 30 and record.steps % 30 == 0


def test_a_run_that_breaks_off_is_kept_as_failed(capsys: Output, tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    settings = ["--set", "lr=100", "--set", "schedule=constant", "--set", "clip_norm=none", "--set", "norm=none"]
    assert main(["train", "copy", *SMALL, *settings, "--steps", "60", "--record", str(file)]) == 1
    assert "not finite" in capsys.readouterr().err
    record = RunRecord.from_json(file.read_bytes())
    assert record.ended == "failed" and 0 < record.steps < 60 and len(record.losses) == record.steps


def test_what_cannot_be_kept_or_resumed_is_refused_at_once(capsys: Output, tmp_path: Path) -> None:
    train(tmp_path)
    run = str(tmp_path / "run.json")
    assert "has taken all its 4 steps" in refused(capsys, "train", "--resume", run)
    assert "--set does not go with --resume" in refused(capsys, "train", "--resume", run, "--set", "lr=1")
    assert "--seed does not go with --resume" in refused(capsys, "train", "--resume", run, "--seed", "7")
    assert "the record is of the task" in refused(capsys, "train", "sort", "--resume", run)
    assert "name a task to train" in refused(capsys, "train")
    assert "cannot be read" in refused(capsys, "replay", str(tmp_path / "none.json"))
    assert "--steps is 9" in refused(capsys, "replay", run, "--steps", "9")
    (tmp_path / "bad.json").write_text("import os", encoding="utf-8")
    assert "not valid JSON" in refused(capsys, "replay", str(tmp_path / "bad.json"))
    lost = str(tmp_path / "nowhere" / "x.json")
    assert "there is no such folder" in refused(capsys, "train", "copy", "--steps", "1", "--record", lost)
    assert "it is a folder" in refused(capsys, "train", "copy", "--steps", "1", "--curve", str(tmp_path))


def test_a_pipe_is_written_to_and_a_link_is_followed(tmp_path: Path) -> None:
    """A record for /dev/null once took the place of /dev/null."""
    (tmp_path / "run.json").symlink_to(tmp_path / "real.json")
    os.mkfifo(tmp_path / "pipe")
    reading = os.open(tmp_path / "pipe", os.O_RDWR)  # whoever writes need not wait for a reader
    record = train(tmp_path, "--curve", str(tmp_path / "pipe"))
    assert (tmp_path / "run.json").is_symlink() and (tmp_path / "pipe").is_fifo()
    assert RunRecord.from_json((tmp_path / "real.json").read_bytes()) == record
    assert os.read(reading, 1 << 16).decode() == to_csv(record)
    os.close(reading)


def test_what_could_not_be_written_at_the_end_is_refused_at_the_start(capsys: Output, tmp_path: Path) -> None:
    one, long = str(tmp_path / "one"), str(tmp_path / ("a" * 254))
    copy = ("train", "copy", "--steps", "1")
    assert "--record and --weights are both" in refused(capsys, *copy, "--record", one, "--weights", one)
    assert "cannot be written: File name too long" in refused(capsys, *copy, "--record", long)
    assert not list(tmp_path.iterdir())


def test_a_full_disk_is_told_with_the_file(capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    file = tmp_path / "run.csv"
    assert main(["train", "copy", *SMALL, "--steps", "1", "--curve", str(file)]) == 1
    assert capsys.readouterr().err == f"{file} cannot be written: No space left on device.\n"


def test_a_file_without_an_end_is_read_no_further_than_any_record_goes(
    capsys: Output, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "MAX_WEIGHTS", 1000)
    (tmp_path / "run.json").write_bytes(bytes(1001))
    assert "more than the 1,000 bytes" in refused(capsys, "replay", str(tmp_path / "run.json"))


def test_a_run_is_logged_where_it_was_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = []

    class Logger:
        def step(self, report: object) -> None:
            said.append(report.step)

        def result(self, numbers: dict[str, float], step: int) -> None:
            said.append((sorted(numbers), step))

        def close(self) -> None:
            said.append("closed")

    monkeypatch.setattr("transformer_core.records.open_logger", lambda kind, *_: said.append(kind) or Logger())
    train(tmp_path, "--log", "trackio", steps=2)
    assert said == ["trackio", 1, 2, (["exact_match", "loss", "token_accuracy"], 2), "closed"]
