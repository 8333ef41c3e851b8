"""``python -m benchmarks.latency``: from a moved control to the new shapes in the ledger, in the browser.

Starts the app, opens it in a browser, and moves the controls of ``first_look``. The clock is the page's own: it starts
with the input event and stops when the ledger holds the new shapes, so it counts the way to the server, the run of the
model with all its checks, the way back, and the drawing of the ledger; what the browser then still paints is not in it.
"""

import argparse
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

from tools.browser import find_browser, launch_arguments

ROOT = Path(__file__).parents[1]
TARGET = 300  # ms, the median
START = 120  # seconds until the app answers
# Moves a control and waits for the row that shows it. Everything happens in one task of the page but for the answer.
MEASURE = """({ control, value, key, shape }) => new Promise((done, failed) => {
  const shown = () => document.querySelector(`.tl-x-rows tr[data-key="${key}"] .tl-x-c-shape`)?.textContent;
  const fail = (when) => failed(new Error(`${key} is ${shown()} ${when}; wanted ${shape}`));
  if (shown() === shape) fail("before anything was moved");
  const box = document.querySelector(`#tl-f-${control}`);
  const radio = box.querySelector(`input[type=radio][value="${value}"]`);
  const start = performance.now(), late = setTimeout(fail, 20000, "after 20 s");
  const watch = new MutationObserver(() => {
    if (shown() !== shape) return;
    watch.disconnect();
    clearTimeout(late);
    done(performance.now() - start);
  });
  watch.observe(document.querySelector(".tl-x-rows"), { childList: true, subtree: true, characterData: true });
  if (radio) { radio.click(); return; }
  const slider = box.querySelector("input[type=range]");
  slider.value = value;
  slider.dispatchEvent(new Event("input", { bubbles: true }));
})"""
SELECTED = "decoder.layers.1.cross_attention"  # the group that is open at first
# Control, value, row, and the shape that it then has: heads by segments, widths and lengths by sliders.
MOVES = (
    ("n_heads", 8, "weights", "2×8×5×7"),
    ("src_len", 11, "weights", "2×8×5×11"),
    ("d_model", 96, "output", "2×5×96"),
    ("tgt_len", 6, "weights", "2×8×6×11"),
    ("batch_size", 3, "weights", "3×8×6×11"),
    ("n_heads", 4, "weights", "3×4×6×11"),
    ("batch_size", 2, "weights", "2×4×6×11"),
    ("tgt_len", 5, "weights", "2×4×5×11"),
    ("d_model", 64, "output", "2×5×64"),
    ("src_len", 7, "weights", "2×4×5×7"),
)


@contextmanager
def app() -> Iterator[str]:
    """The address of the app, served by a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = os.environ | {"GRADIO_SERVER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    address = f"http://127.0.0.1:{port}"
    with subprocess.Popen([sys.executable, "app.py"], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL) as server:
        try:
            answers(server, address)
            yield address
        finally:
            server.terminate()


def answers(server: "subprocess.Popen[bytes]", address: str) -> None:
    """Until the app answers.

    Raises:
        RuntimeError: it ended, or took too long.
    """
    end = time.monotonic() + START
    while server.poll() is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(address, timeout=5).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise RuntimeError("app.py did not start; run it alone to see why")


def changes(page: Page, rounds: int) -> list[float]:
    """Milliseconds of every change, after one round that warms everything up."""
    times: list[float] = []
    for turn in range(rounds + 1):
        for control, value, row, shape in MOVES:
            move = {"control": control, "value": value, "key": f"{SELECTED}/{row}", "shape": shape}
            took = page.evaluate(MEASURE, move)
            if turn:
                times.append(took)
    return times


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help=f"rounds of {len(MOVES)} changes (default 3)")
    rounds = max(2, parser.parse_args().rounds)
    with app() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_browser(), args=launch_arguments())
        page = browser.new_page(viewport={"width": 1360, "height": 900}, locale="en-US")
        page.goto(address)
        page.locator(f'.tl-x-rows tr[data-key="{SELECTED}/weights"]').wait_for(timeout=60_000)
        times = changes(page, rounds)
        browser.close()
    low, median, high = statistics.quantiles(times, n=4)
    verdict = "within" if median <= TARGET else "above"
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    print(f"{len(times)} changes on first_look, {os.cpu_count()} cores{load}")
    print(f"moved control to new shapes: median {median:.0f} ms [{low:.0f} .. {high:.0f}], {verdict} {TARGET} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
