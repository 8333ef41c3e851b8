"""``python -m benchmarks.streaming``: how fast a training runs on the page, beside the same training without a page.

The app trains in its own process and streams every step to a browser, with the looks at held-out questions that belong
to a run there; this process takes the same steps of the same run and does nothing else. Both work in turn: while one is
measured the other stands still. The clock of the page is the browser's own.
"""

import argparse
import os
import statistics
import sys
import time
from dataclasses import dataclass

import torch
from playwright.sync_api import Page, sync_playwright

from benchmarks.latency import app
from tools.browser import find_browser, launch_arguments
from transformer_core import build, tasks
from transformer_core.training import Training, train

TASK, SEED = "copy", 7
TARGET = 0.85
SETTLE = 3  # seconds that the server has to go quiet before the other side is measured
# Every change of the step count, with its time: the first and the last of them give the rate between.
WATCH = """() => {
  const bar = document.querySelector(".tl-tr-progress");
  window.tlSeen = [];
  window.tlWatch?.disconnect();
  window.tlWatch = new MutationObserver(() => {
    const step = Number(bar.getAttribute("aria-valuenow"));
    if (step !== window.tlSeen.at(-1)?.[1]) window.tlSeen.push([performance.now(), step]);
  });
  window.tlWatch.observe(bar, { attributes: true, attributeFilter: ["aria-valuenow"] });
}"""


@dataclass
class Shares:
    """Steps a second of each turn, on the page and without one."""

    page: list[float]
    alone: list[float]

    def ratios(self) -> list[float]:
        """Of neighbours in time: each turn of the page with the turns without a page before and after it."""
        return [2 * mine / (before + after)
                for mine, before, after in zip(self.page, self.alone, self.alone[1:], strict=False)]  # fmt: skip


def on_page(page: Page, seconds: float) -> float:
    """Steps a second that the page shows, from a Play to a Pause; the looks between them are counted in."""
    page.evaluate(WATCH)
    press(page)
    page.wait_for_function(f"window.tlSeen.length > 1 && performance.now() - window.tlSeen[0][0] > {1000 * seconds}")
    (start, first), (end, last) = page.evaluate("[window.tlSeen[0], window.tlSeen.at(-1)]")
    press(page)
    return 1000 * (last - first) / (end - start)


def alone(training: Training, seconds: float) -> float:
    """Steps a second of the same run in this process."""
    start, first = time.perf_counter(), training.step
    while time.perf_counter() - start < seconds:
        next(training)
    return (training.step - first) / (time.perf_counter() - start)


def press(page: Page) -> None:
    page.locator(".tl-tr-transport [data-do=play]").click()


def measure(page: Page, rounds: int, seconds: float) -> Shares:
    task = tasks.get(TASK)
    training = train(build(task.model, task.masks, SEED), task, task.training.replace(steps=100_000), SEED)
    shares = Shares([], [])
    alone(training, 1)
    on_page(page, 2)
    for _ in range(rounds):
        time.sleep(SETTLE)
        shares.alone.append(alone(training, seconds))
        shares.page.append(on_page(page, seconds))
    time.sleep(SETTLE)
    shares.alone.append(alone(training, seconds))
    return shares


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.streaming", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side (default 5)")
    parser.add_argument("--seconds", type=float, default=12, help="length of a turn (default 12)")
    options = parser.parse_args()
    rounds = max(2, options.rounds)
    torch.set_num_threads(1)
    with app() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=launch_arguments())
        page = browser.new_page(viewport={"width": 1360, "height": 900}, locale="en-US")
        page.set_default_timeout(120_000)
        page.goto(f"{address}/?tab=train&steps=5000")
        page.locator("body[data-ready=yes]").wait_for()
        page.locator(".tl-tr-transport [data-do=play]").wait_for()
        shares = measure(page, rounds, options.seconds)
        browser.close()
    low, median, high = statistics.quantiles(shares.ratios(), n=4)
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"task {TASK}, its own recipe, one thread each, {os.cpu_count()} cores{load}")
    print(f"steps a second: {statistics.median(shares.page):.1f} on the page, "
          f"{statistics.median(shares.alone):.1f} without one")  # fmt: skip
    verdict = "reached" if median >= TARGET else "missed"
    print(f"page / without a page: median {median:.2f} [{low:.2f} .. {high:.2f}], target >= {TARGET} {verdict}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
