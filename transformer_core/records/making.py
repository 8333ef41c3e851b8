"""A record out of what is at hand when a run pauses or ends, with what only this machine can say."""

import hashlib
import math
import platform
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from transformer_core.config import MaskConfig, ModelConfig, TrainConfig
from transformer_core.cost import estimate
from transformer_core.records.fields import check_corpus
from transformer_core.records.record import CURVES, RunRecord
from transformer_core.training import StepReport

PACKAGE = Path(__file__).resolve().parent.parent


def record_of(
    *, model: ModelConfig, masks: MaskConfig, training: TrainConfig, seed: int, reports: Sequence[StepReport],
    ended: str, seconds: float, device: str = "cpu", threads: int | None = None, fault: str = "", corpus: Any = None,
    rate_changes: Iterable[tuple[int, float]] = (), looks: Iterable[Mapping[str, Any]] = (),
    result: Mapping[str, Any] | None = None, parameters: int | None = None,
) -> RunRecord:  # fmt: skip
    """The record of a run of ``training.task``: its settings, its curves out of ``reports``, and this machine.

    ``threads`` is what torch computes with now, unless it is given; ``corpus`` is a Corpus, or the plain facts of one.
    A number of ``looks`` or ``result`` that is not finite is kept as null.

    Raises:
        ConfigError: a part that cannot be, such as an unknown ending.
    """
    if parameters is None:
        parameters = estimate(model, 1, 1, 1).parameters
    return RunRecord(
        task=training.task, corpus=corpus_facts(corpus), model=model, masks=masks, training=training, seed=seed,
        fault=fault, rate_changes=tuple(rate_changes), device=device,
        threads=torch.get_num_threads() if threads is None else threads, torch=torch.__version__,
        python=platform.python_version(), platform=machine(), commit=commit(), source=fingerprint(),
        parameters=parameters, steps=len(reports), seconds=seconds, ended=ended,
        losses=tuple(report.loss for report in reports), accuracies=tuple(report.accuracy for report in reports),
        rates=tuple(report.rate for report in reports), grad_norms=tuple(report.grad_norm for report in reports),
        looks=tuple(finite(each) for each in looks), result=None if result is None else finite(result),
    )  # fmt: skip


def continued(earlier: RunRecord, later: RunRecord) -> RunRecord:
    """The record of a run of which ``earlier`` is the beginning and ``later`` what was taken behind it.

    Where the beginning has no curves, the whole has none: a curve without its beginning would be read wrongly.
    """
    whole = not earlier.steps or bool(earlier.losses)
    curves = {name: getattr(earlier, name) + getattr(later, name) if whole else () for name in CURVES}
    return later.replace(steps=earlier.steps + later.steps, seconds=earlier.seconds + later.seconds,
                         looks=earlier.looks + later.looks, **curves)  # fmt: skip


def corpus_facts(corpus: Any) -> dict[str, Any] | None:
    """Name, sha256, options and counts of a corpus, as plain data; of plain facts, the facts."""
    if corpus is None or isinstance(corpus, Mapping):
        return None if corpus is None else dict(corpus)
    counts = {"train": len(corpus.train), "held_out": len(corpus.held_out),
              "src_symbols": len(corpus.src_symbols), "tgt_symbols": len(corpus.tgt_symbols)}  # fmt: skip
    facts = {"name": corpus.name, "sha256": corpus.sha256, "options": dict(corpus.options), "counts": counts}
    return check_corpus("corpus", facts)


def finite(value: Any) -> Any:
    """Plain data with null where JSON has no number."""
    if isinstance(value, Mapping):
        return {str(key): finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@lru_cache(maxsize=1)
def machine() -> str:
    """System, processor and the widest instructions that torch uses on it: what the last digit may depend on."""
    processor = ""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        processor = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    except OSError:  # no Linux
        processor = platform.processor()
    parts = (f"{platform.system()} {platform.machine()}", processor, torch.backends.cpu.get_cpu_capability())
    return ", ".join(part for part in parts if part)


@lru_cache(maxsize=1)
def commit() -> str:
    """The commit of the checkout that this library stands in, or nothing."""
    folder = PACKAGE.parent / ".git"
    try:
        head = (folder / "HEAD").read_text(encoding="utf-8").strip()
        if not head.startswith("ref: "):
            return head
        name = head.removeprefix("ref: ")
        if (folder / name).is_file():
            return (folder / name).read_text(encoding="utf-8").strip()
        packed = (folder / "packed-refs").read_text(encoding="utf-8").splitlines()
        return next((line.split()[0] for line in packed if line.endswith(f" {name}")), "")
    except OSError:
        return ""


@lru_cache(maxsize=1)
def fingerprint() -> str:
    """sha256 over the library's own files, names and texts, in the order of their names."""
    total = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        for part in (path.relative_to(PACKAGE).as_posix().encode(), path.read_bytes()):
            total.update(len(part).to_bytes(8, "little") + part)
    return total.hexdigest()
