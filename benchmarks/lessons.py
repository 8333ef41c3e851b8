"""``python -m benchmarks.lessons [LESSON ...]``: runs the lessons with three seeds, and keeps what came out.

The files go to transformer_core/experiments/measured; the answers quote them. Without a lesson, all are run.
"""

import argparse
import dataclasses
import json
from typing import Any

import torch

from transformer_core.experiments import LESSONS, run_lesson
from transformer_core.experiments.lesson import MEASURED

SEEDS = (7, 1, 2)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lessons", description=__doc__)
    parser.add_argument("lesson", nargs="*", help="only these")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.lesson or LESSONS:
        rows: list[dict[str, Any]] = []
        for seed in SEEDS:
            for progress in run_lesson(name, seed):
                if progress.measured is not None:
                    rows.append({key: round(value, 5) if isinstance(value, float) else value
                                 for key, value in dataclasses.asdict(progress.measured).items()})  # fmt: skip
                    print(name, rows[-1], flush=True)
        MEASURED.mkdir(exist_ok=True)
        text = ",\n".join(json.dumps(row) for row in rows)
        (MEASURED / f"{name}.json").write_text(f'{{"torch": "{torch.__version__}", "runs": [\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
