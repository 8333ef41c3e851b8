"""Curves for the tools in which runs are watched, TensorBoard and Trackio: off, and not loaded, unless asked for.

Both write to a folder on this machine. What is logged of a step is what the record keeps of it.
"""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import redirect_stdout
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from typing import Any

from transformer_core.errors import nearest
from transformer_core.records.record import RunRecord
from transformer_core.training import StepReport


class Logger(ABC):
    """One run in a tool. ``close`` writes what is left, and nothing can be logged behind it."""

    def step(self, report: StepReport) -> None:
        """Loss, accuracy, rate and gradient norm of one step."""
        numbers = {"loss": report.loss, "accuracy": report.accuracy, "rate": report.rate,
                   "grad_norm": report.grad_norm}  # fmt: skip
        self.log({f"train/{name}": number for name, number in numbers.items()}, report.step)

    def result(self, numbers: Mapping[str, float], step: int) -> None:
        """What held-out questions said after a step."""
        self.log({f"held_out/{name}": number for name, number in numbers.items()}, step)

    @abstractmethod
    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Numbers of one step, under their names."""

    @abstractmethod
    def close(self) -> None:
        """The end of the run."""


class TensorBoard(Logger):
    """Event files that ``tensorboard --logdir FOLDER`` shows."""

    def __init__(self, folder: Path, record: RunRecord) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(folder / name_of(record)))
        self._writer.add_text("record", f"```json\n{record.without_curves().to_json()}```")

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        for name, number in numbers.items():
            self._writer.add_scalar(name, number, step)

    def close(self) -> None:
        self._writer.close()


class Trackio(Logger):
    """A local project that ``trackio show`` opens; nothing is sent anywhere."""

    def __init__(self, folder: Path, record: RunRecord) -> None:
        os.environ["TRACKIO_DIR"] = str(folder.resolve())  # read when trackio is loaded
        self._trackio: Any = import_module("trackio")
        with redirect_stdout(sys.stderr):  # it greets; on stdout stand the lines of --json
            self._trackio.init(project="transformer-ledger", name=name_of(record), config=flat(record))

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        self._trackio.log(dict(numbers), step=step)

    def close(self) -> None:
        with redirect_stdout(sys.stderr):
            self._trackio.finish()


KINDS: Mapping[str, type[TensorBoard] | type[Trackio]] = {"tensorboard": TensorBoard, "trackio": Trackio}


def open_logger(kind: str, folder: str | Path, record: RunRecord) -> Logger:
    """A logger for one run; ``record`` says what is run.

    Raises:
        ValueError: there is no such tool, or it is not installed; the text says what to install.
    """
    if kind not in KINDS:
        raise ValueError(f"runs cannot be logged to {kind!r}; {' and '.join(KINDS)} can. The nearest is "
                         f"{nearest(kind, KINDS)}.")  # fmt: skip
    try:
        return KINDS[kind](Path(folder), record)
    except ImportError:
        raise ValueError(f"{kind} is not installed here; pip install {kind} brings it. The run needs none.") from None


def name_of(record: RunRecord) -> str:
    """A name that two runs share only if they are of one seed and setting."""
    settings = record.replace(steps=0, **dict.fromkeys(("losses", "accuracies", "rates", "grad_norms", "looks"), ()),
                              seconds=0.0, result=None, ended="paused", rate_changes=())  # fmt: skip
    return f"{record.task}-seed{record.seed}-{sha256(settings.to_json().encode()).hexdigest()[:8]}"


def flat(record: RunRecord) -> dict[str, Any]:
    """The settings of a run as one table: ``model.d_model`` and the like."""
    sections = {"model": record.model, "masks": record.masks, "training": record.training}
    table = {f"{section}.{key}": value for section, each in sections.items() for key, value in each.to_dict().items()}
    about = ("task", "seed", "fault", "device", "threads", "torch", "python", "commit", "parameters")
    return {key: getattr(record, key) for key in about} | {
        key: list(value) if isinstance(value, tuple) else value for key, value in table.items()
    }
