"""Ratios of CPU time: two ways of doing one thing, run in turn in one process.

A single time says little on a machine that others use too; the ratio of neighbours in time does.
"""

import ctypes
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """The median of a / b over the rounds, with its quartiles, and the median CPU milliseconds of each side."""

    median: float
    low: float
    high: float
    a_ms: float
    b_ms: float

    def __str__(self) -> str:
        return f"{self.median:6.3f}  [{self.low:.3f} .. {self.high:.3f}]   {self.a_ms:9.2f} ms / {self.b_ms:9.2f} ms"


def cpu_seconds(work: Callable[[], object], repeats: int) -> float:
    """CPU time of one call, averaged over ``repeats`` calls in a row."""
    start = time.process_time()
    for _ in range(repeats):
        work()
    return (time.process_time() - start) / repeats


def keep_freed_memory() -> None:
    """Tells glibc to keep freed memory for the next round instead of giving it back to the system.

    Without it, whoever holds many tensors at once pays for fresh pages in every round, and the ratio measures the
    system's memory instead of the code. Other C libraries have no such switch and are left as they are.
    """
    trim_threshold, mmap_threshold = -1, -3  # M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of malloc.h
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    if libc is not None and hasattr(libc, "mallopt"):
        for setting in (trim_threshold, mmap_threshold):
            libc.mallopt(setting, 1 << 30)


def ratio(a: Callable[[], object], b: Callable[[], object], rounds: int = 41, least: float = 0.02) -> Ratio:
    """Runs a and b in turn, each long enough (``least`` seconds) for the clock, the order swapped every round."""
    for work in (a, b):
        work()
    repeats = {work: max(1, round(least / max(cpu_seconds(work, 1), 1e-6))) for work in (a, b)}
    times: list[tuple[float, float]] = []
    for turn in range(rounds):
        pair = (a, b) if turn % 2 else (b, a)
        spent = {work: cpu_seconds(work, repeats[work]) for work in pair}
        times.append((spent[a], spent[b]))
    ratios = sorted(x / y for x, y in times)
    low, median, high = statistics.quantiles(ratios, n=4)
    a_ms, b_ms = (1000 * statistics.median(side) for side in zip(*times, strict=True))
    return Ratio(median, low, high, a_ms, b_ms)
