"""``python -m benchmarks.expected [TASK ...]``: measures the expected curves of the tasks' recipes, and publishes them.

Five seeds each, on one thread. The files go to transformer_core/tasks/expected; without a task, all are measured.
"""

import argparse
import json
import multiprocessing
import time
from functools import partial
from typing import Any

import torch

from explorer.plans import round_interval
from transformer_core import tasks
from transformer_core.model import build
from transformer_core.tasks import Task
from transformer_core.tasks.expected import CURVES, FOLDER
from transformer_core.training import evaluate, train

SEEDS = (1, 2, 3, 4, 5)
QUESTIONS = 300


def curves(task: Task, seed: int) -> dict[str, list[float]]:
    """One run of the recipe: each curve at each look."""
    model = build(task.model, task.masks, seed=seed)
    every, total = round_interval(task.training.total_steps), task.training.total_steps
    losses, found = [], {name: [] for name in CURVES}
    for report in train(model, task, task.training, seed):
        losses.append(report.loss)
        if report.step % every == 0 or report.step == total:
            seen = evaluate(model, task, QUESTIONS, seed)
            found["held_out_loss"].append(seen.loss)
            found["token"].append(seen.token_accuracy)
            found["exact"].append(seen.exact_match)
    for step in looks(task):
        around = losses[max(0, step - every // 2) : step + every // 2]
        found["loss"].append(sum(around) / len(around))
    return found


def timed(name: str, seed: int) -> tuple[dict[str, list[float]], float]:
    """The curves of one run, on one thread, and how long it took."""
    torch.set_num_threads(1)
    started = time.process_time()
    return curves(tasks.get(name), seed), time.process_time() - started


def looks(task: Task) -> list[int]:
    """The steps at which the page looks at a run of the recipe."""
    every, total = round_interval(task.training.total_steps), task.training.total_steps
    return [step for step in range(1, total + 1) if step % every == 0 or step == total]


def band(runs: list[list[float]]) -> dict[str, list[float]]:
    """Lowest, mean and highest at each look, to four figures behind the point."""
    places = list(zip(*runs, strict=True))
    of = {"low": min, "mean": lambda values: sum(values) / len(values), "high": max}
    return {name: [round(function(values), 4) for values in places] for name, function in of.items()}


def recipe(task: Task) -> dict[str, Any]:
    return {name: getattr(task, name).to_dict() for name in ("model", "masks", "training")}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.expected", description=__doc__)
    parser.add_argument("task", nargs="*", choices=[[], *tasks.TASKS], help="only these")
    parser.add_argument("--jobs", type=int, default=1, help="so many seeds at once, each on one thread (1)")
    options = parser.parse_args()
    for name in options.task or tasks.TASKS:
        task, runs = tasks.get(name), []
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            for seed, (run, seconds) in zip(SEEDS, pool.imap(partial(timed, name), SEEDS), strict=True):
                runs.append(run)
                print(f"{name}, seed {seed}: {run['exact'][-1]:.1%} of whole answers right at the end, "
                      f"{seconds:.0f} s of CPU", flush=True)  # fmt: skip
        told = {
            "task": name, "torch": torch.__version__, "seeds": SEEDS, "questions": QUESTIONS, "steps": looks(task),
            "recipe": recipe(task),
            **{curve: band([run[curve] for run in runs]) for curve in CURVES},
        }  # fmt: skip
        FOLDER.mkdir(exist_ok=True)
        (FOLDER / f"{name}.json").write_text(json.dumps(told, indent=None) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
