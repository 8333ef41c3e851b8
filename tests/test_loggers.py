"""Loggers: off and not loaded by default; each gets every step of a run; one that is not installed is one sentence."""

import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from transformer_core.records import RunRecord, open_logger
from transformer_core.records.loggers import flat, name_of
from transformer_core.training import StepReport

REPORTS = [StepReport(step, 2.0 / step, 0.25, 0.01, 3.0, 100.0) for step in (1, 2)]
RECORD = RunRecord(seed=13)


def logged(kind: str, folder: Path) -> None:
    logger = open_logger(kind, folder, RECORD)
    for report in REPORTS:
        logger.step(report)
    logger.result({"exact_match": 0.5}, 2)
    logger.close()


WANTED = [
    ({"train/loss": 2.0, "train/accuracy": 0.25, "train/rate": 0.01, "train/grad_norm": 3.0}, 1),
    ({"train/loss": 1.0, "train/accuracy": 0.25, "train/rate": 0.01, "train/grad_norm": 3.0}, 2),
    ({"held_out/exact_match": 0.5}, 2),
]


def test_tensorboard_gets_every_step(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[Any] = []

    class SummaryWriter:
        def __init__(self, folder: str) -> None:
            said.append(folder)

        def add_text(self, name: str, text: str) -> None:
            assert name == "record" and RunRecord.from_json(text.strip("`").removeprefix("json\n")) == RECORD

        def add_scalar(self, name: str, number: float, step: int) -> None:
            said.append((name, number, step))

        def close(self) -> None:
            said.append("closed")

    fake = ModuleType("torch.utils.tensorboard")
    fake.SummaryWriter = SummaryWriter
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", fake)
    logged("tensorboard", tmp_path)
    assert said[0] == str(tmp_path / name_of(RECORD)) and said[-1] == "closed"
    assert said[1:-1] == [(name, number, step) for numbers, step in WANTED for name, number in numbers.items()]


def test_trackio_gets_every_step_and_stays_on_this_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said: list[Any] = []
    fake = ModuleType("trackio")
    fake.init = lambda **how: said.append(how)
    fake.log = lambda numbers, step: said.append((numbers, step))
    fake.finish = lambda: said.append("finished")
    monkeypatch.setitem(sys.modules, "trackio", fake)
    monkeypatch.setenv("TRACKIO_DIR", "elsewhere")
    logged("trackio", tmp_path)
    assert said[0] == {"project": "transformer-ledger", "name": name_of(RECORD), "config": flat(RECORD)}
    assert "space_id" not in said[0] and said[0]["config"]["model.d_model"] == RECORD.model.d_model
    assert said[1:] == [*WANTED, "finished"]
    assert os.environ["TRACKIO_DIR"] == str(tmp_path)


@pytest.mark.parametrize(("kind", "module"), [("tensorboard", "torch.utils.tensorboard"), ("trackio", "trackio")])
def test_what_is_not_installed_is_a_sentence(
    kind: str, module: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setenv("TRACKIO_DIR", "elsewhere")
    with pytest.raises(ValueError, match=f"^{kind} is not installed here; pip install {kind} brings it"):
        open_logger(kind, tmp_path, RECORD)
    assert not list(tmp_path.iterdir())


def test_an_unknown_tool_is_refused_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"'tensorbord'; tensorboard and trackio can. The nearest is tensorboard"):
        open_logger("tensorbord", tmp_path, RECORD)


def test_nothing_of_them_is_loaded_before_it_is_asked_for() -> None:
    tools = {"tensorboard", "trackio", "torch.utils.tensorboard"}
    program = f"import sys, transformer_core.records\nprint({tools} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=110)
    assert answer.stdout.strip() == "set()", answer.stderr


def test_runs_that_differ_in_a_setting_have_names_that_differ() -> None:
    assert name_of(RECORD) == name_of(RECORD.replace(steps=3, losses=[1.0, 2.0, 3.0], seconds=9.0, ended="finished"))
    assert name_of(RECORD) != name_of(RECORD.replace(training=RECORD.training.replace(lr=0.5)))
