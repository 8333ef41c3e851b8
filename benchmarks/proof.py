"""``python -m benchmarks.proof``: what proof costs - each level of checks, the matrix of faults, parity and its sweep.

Seconds of CPU on one thread, and by the clock; the second is what someone waits for, on this machine at this moment.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import torch

from transformer_core import load_preset, parity
from transformer_core.checks import ALL_LEVELS, CHECKS
from transformer_core.checks.table import BEHAVIOUR
from transformer_core.faults.matrix import run_matrix, subject_of
from transformer_core.workshop import OWN

SEED = 7
TARGETS = {"levels 1 to 3": 3.0, "matrix": 60.0}
"""Seconds by the clock on two cores, at the preset first_look."""


def spent(work: Callable[[], object]) -> tuple[float, float]:
    """CPU seconds and seconds by the clock of one call."""
    clock, cpu = time.perf_counter(), time.process_time()
    work()
    return time.process_time() - cpu, time.perf_counter() - clock


def levels(preset: str) -> Iterator[tuple[str, float, float]]:
    """Each level on a fresh subject, the forward that records its tensors counted with the first."""
    subject = subject_of(OWN, load_preset(preset), SEED)
    total = [0.0, 0.0]
    for level in ALL_LEVELS:
        checks = [check for check in CHECKS if check.level == level]
        cpu, clock = spent(lambda checks=checks: [check.run(subject) for check in checks])
        yield f"level {level}: {len(checks)} checks", cpu, clock
        total = [total[0] + cpu, total[1] + clock]
        if level == BEHAVIOUR:
            yield "levels 1 to 3", total[0], total[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--preset", default="first_look", help="the preset whose checks and matrix are timed")
    parser.add_argument("--only-levels", action="store_true", help="leave out the matrix and the sweep")
    options = parser.parse_args()
    torch.set_num_threads(1)
    preset = load_preset(options.preset)
    subject_of(OWN, preset, SEED)  # the first forward of a process pays for its start
    rows = list(levels(options.preset))
    if not options.only_levels:
        rows.append(("matrix", *spent(lambda: list(run_matrix(preset, SEED)))))
        model, batch = OWN.model.build(preset.model, preset.masks, seed=SEED).eval(), preset.batch(SEED)
        rows.append(("comparison with torch.nn", *spent(lambda: parity.compare(model, batch))))
        rows.append(("sweep", *spent(lambda: list(parity.sweep()))))
    print(f"{options.preset}, seed {SEED}, torch {torch.__version__}, one thread")
    for name, cpu, clock in rows:
        target = f"   target {TARGETS[name]:g} s" if name in TARGETS and options.preset == "first_look" else ""
        print(f"{name:<26} {cpu:8.2f} s CPU {clock:8.2f} s{target}")


if __name__ == "__main__":
    main()
