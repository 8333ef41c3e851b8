"""What a training leaves behind where it was asked to: record, weights, curve, script, notebook and log."""

import argparse
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from transformer_core import records
from transformer_core.commands.common import MAX_WEIGHTS, Parser, read_file
from transformer_core.model import Transformer
from transformer_core.records import RunRecord
from transformer_core.records.loggers import KINDS
from transformer_core.training import StepReport, Training

FILES = ("record", "weights", "curve", "script", "notebook")
"""The options that name a file, in the order in which the files are written."""
PARTS = 10
"""The record on disk is at most this share of the run behind: what a killed process leaves can be resumed."""


def asks_for_files(one: Parser) -> None:
    """The options that say what to keep."""
    what = {
        "record": "the record of the run (JSON), written on the way, too; --resume takes it up again",
        "weights": "the weights with the record in them (safetensors); --resume takes them, too, and needs no repeat",
        "curve": "every step as a table (CSV)",
        "script": "a Python script that needs only torch and repeats the run to the last digit",
        "notebook": "the same script as a notebook",
    }
    for name in FILES:
        one.add_argument(f"--{name}", type=Path, metavar="FILE", help=what[name])
    one.add_argument("--log", choices=tuple(KINDS), help="log every step to this tool, too (off)")
    one.add_argument("--log-folder", type=Path, default=Path("runs"), metavar="FOLDER", help="where it logs to (runs)")


class Keeper:
    """Collects the steps of one run and writes the files that were asked for.

    Raises:
        ValueError: a file could not be written, or two are one; or the tool to log to is missing.
    """

    def __init__(
        self, options: argparse.Namespace, start: RunRecord, model: Transformer, training: Training, corpus: Any
    ) -> None:
        self.paths: Mapping[str, Path] = {name: path for name in FILES if (path := getattr(options, name)) is not None}
        taken: dict[Path, str] = {}
        for name, path in self.paths.items():
            check_can_be_written(name, path)
            other = taken.setdefault(path.resolve(), name)
            if other != name and not is_no_file(path):
                raise ValueError(f"--{other} and --{name} are both {path}; each needs a file of its own")
        self.start, self.model, self.training, self.corpus = start, model, training, corpus
        self.reports: list[StepReport] = []
        self.began = time.perf_counter()
        self.logger = records.open_logger(options.log, options.log_folder, start) if options.log else None

    def step(self, report: StepReport) -> None:
        """One more step."""
        self.reports.append(report)
        if self.logger is not None:
            self.logger.step(report)
        total = self.start.training.total_steps
        if "record" in self.paths and report.step < total and report.step % max(1, total // PARTS) == 0:
            write(self.paths["record"], self.record("paused").to_json().encode())

    def record(self, ended: str, result: Mapping[str, Any] | None = None) -> RunRecord:
        """The run up to here."""
        start = self.start
        later = records.record_of(
            model=start.model, masks=start.masks, training=start.training, seed=start.seed, reports=self.reports,
            ended=ended, seconds=time.perf_counter() - self.began, device=start.device, fault=start.fault,
            corpus=start.corpus, rate_changes=start.rate_changes, result=result,
        )  # fmt: skip
        return records.continued(start, later)

    def save(self, ended: str, result: Mapping[str, Any] | None = None) -> Iterator[str]:
        """Writes every file and says which; no weights when a step was broken off, which left them half moved."""
        record = self.record(ended, result)
        if self.logger is not None:
            if result is not None:
                self.logger.result({key: each for key, each in result.items() if isinstance(each, float)}, record.steps)
            self.logger.close()
        make: Mapping[str, Callable[[], str | bytes]] = {
            "record": record.to_json,
            "weights": lambda: records.save_weights(self.model, record, self.training.state()),
            "curve": lambda: records.to_csv(record),
            "script": lambda: records.standalone(record, self.corpus),
            "notebook": lambda: records.notebook(record, self.corpus),
        }
        for name, path in self.paths.items():
            if name == "weights" and ended == "paused" and self.training.ended:
                continue
            content = make[name]()
            write(path, content if isinstance(content, bytes) else content.encode())
            yield f"{name}: {path}"


def check_can_be_written(option: str, path: Path) -> None:
    """Passes when a file can be written there: it is tried, and what stands there stays as it is.

    Raises:
        ValueError: it cannot; a training of hours would end with nothing.
    """
    if path.is_dir() or not path.resolve().parent.is_dir():
        why = "it is a folder" if path.is_dir() else "there is no such folder to put it in"
        raise ValueError(f"--{option} {path} cannot be written: {why}")
    if not is_no_file(path):
        try:
            part_of(path).touch()
            part_of(path).unlink()
        except OSError as error:
            raise ValueError(f"--{option} {path} cannot be written: {error.strerror}") from None


def write(path: Path, content: bytes) -> None:
    """The whole file or none of it: what stood there before is replaced only when the new one is complete.

    A device, such as /dev/null, or a pipe is written to and never replaced; of a link, the file that it leads to is.

    Raises:
        OSError: the disk is full, for example; it names the file.
    """
    part = path if is_no_file(path) else part_of(path)
    try:
        part.write_bytes(content)
        if part != path:
            part.replace(path.resolve())
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from None


def is_no_file(path: Path) -> bool:
    """Whether something stands there that is neither a file nor a folder."""
    return path.exists() and not path.is_file() and not path.is_dir()


def part_of(path: Path) -> Path:
    """Beside the file: where the new one grows."""
    return path.resolve().with_name(f"{path.resolve().name}.part")


def read_run(path: Path) -> tuple[RunRecord, bytes | None]:
    """A record, from its own file or from the weights that it stands beside; those come along.

    Raises:
        ConfigError: the file cannot be read, or holds no record.
    """
    data = read_file(path, "record", MAX_WEIGHTS)
    if data[8:9] == b"{" != data[:1]:  # safetensors: 8 bytes of a length, then a header
        return records.read_record(data), data
    return RunRecord.from_json(data), None
