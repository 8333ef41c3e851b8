"""The real page in a real browser: one server and one browser for all tests, and a new visitor for each.

The server is ``python app.py``, the program that a person starts, so nothing of gradio is imported here. Every visitor
is watched from the first request to the last: whatever a test is about, it fails when the browser's console or the
server's log reports an error, or when anything is asked of another host.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page, expect, sync_playwright

from tools.browser import find_browser, launch_arguments
from transformer_core import tasks

ROOT = Path(__file__).parents[2]
DESK = {"width": 1360, "height": 900}
PATIENCE = 15_000  # ms that a value may take on a busy machine; nothing ever waits for a fixed time
START = 90  # seconds until the server answers
FAULTS = re.compile(r"Traceback|^ERROR|^CRITICAL", re.MULTILINE)

expect.set_options(timeout=PATIENCE)


class Server:
    """``python app.py`` on a free port, what it says, and how much it works."""

    def __init__(self, log: Path, port: int = 0) -> None:
        self.log, self.root = log, ROOT
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = port or free.getsockname()[1]
        self.address = f"http://127.0.0.1:{self.port}"
        own = ("GRADIO_", "TRANSFORMER_LEDGER_")
        environment = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        environment |= {"GRADIO_SERVER_PORT": str(self.port), "OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"}
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, "app.py"], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
            )

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")

    def wait(self) -> None:
        """Until it answers.

        Raises:
            RuntimeError: it ended, or took too long, with what it said.
        """
        end = time.monotonic() + START
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urllib.request.urlopen(self.address, timeout=5):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise RuntimeError(f"app.py does not serve {self.address}; it said:\n{self.said()}")

    def cpu_seconds(self) -> float:
        """Processor time it has used so far. Skips the test where the system does not tell."""
        stat = Path(f"/proc/{self.process.pid}/stat")
        if not stat.exists():
            pytest.skip("the processor time of another process is read from /proc")
        fields = stat.read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(10)


class Visitor:
    """One person with one browser tab, and the handles by which a person would take hold of the page."""

    def __init__(self, context: BrowserContext, server: Server) -> None:
        self.context, self.server = context, server
        self.faults: list[str] = []
        self.requests: list[str] = []
        context.on("request", lambda request: self.requests.append(request.url))
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.address)
        context.set_default_timeout(PATIENCE)
        self.page: Page = context.new_page()
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.faults.append(f"page: {error}"))
        self.page.on("websocket", lambda socket: self.requests.append(socket.url))

    def _heard(self, said: ConsoleMessage) -> None:
        if said.type == "error":
            self.faults.append(f"console: {said.text} ({said.location.get('url')})")

    # ---- the address

    def open(self, query: str | dict[str, Any] = "") -> Visitor:
        """The page, once its first run is on screen. A query as a dict, or a whole address."""
        if isinstance(query, dict):
            query = f"/?{urlencode(query)}"
        self.page.goto(query if "://" in query else self.server.address + query, wait_until="commit")
        return self.ready()

    def ready(self) -> Visitor:
        expect(self.page.locator("body")).to_have_attribute("data-ready", "yes", timeout=3 * PATIENCE)
        expect(self.explore).to_have_attribute("data-ready", re.compile("."))
        return self

    def query(self) -> dict[str, str]:
        """The query of the address bar."""
        return self.page.evaluate("Object.fromEntries(new URLSearchParams(location.search))")

    def strangers(self) -> list[str]:
        """Requests to any host but this server."""
        own = urlsplit(self.server.address).netloc
        hosts = {url: urlsplit(url) for url in self.requests}
        return [url for url, parts in hosts.items() if parts.scheme not in ("data", "blob") and parts.netloc != own]

    # ---- the sidebar

    def control(self, name: str) -> Locator:
        """The box of one setting, by the name of its field."""
        return self.page.locator(f"#tl-f-{name}")

    def number(self, name: str) -> Locator:
        """The box of a setting in which its number is typed."""
        return self.control(name).get_by_role("spinbutton")

    def type(self, name: str, value: object) -> None:
        """A number or a text typed into a setting."""
        box = self.control(name)
        box.locator("textarea, input[type=number], input[type=text]").first.fill(str(value))

    def pick(self, name: str, choice: str) -> None:
        """One of the segments of a setting."""
        self.control(name).get_by_role("radio", name=choice, exact=True).check(force=True)

    def choose(self, name: str, choice: str) -> None:
        """One entry of a dropdown."""
        self.control(name).get_by_role("combobox").click()
        self.page.get_by_role("option", name=choice, exact=True).click()

    def mask(self, rule: str, attention: str) -> Locator:
        """The box of one mask rule of one attention."""
        return self.page.get_by_role("checkbox", name=f"{rule}, {attention}", exact=True)

    # ---- the run and its ledger

    @property
    def explore(self) -> Locator:
        return self.page.locator(".tl-explore")

    @property
    def verdict(self) -> Locator:
        """The sentence on how many checks hold."""
        return self.page.locator(".tl-verdict")

    def run(self) -> str:
        """The number of the run on screen, without the language it is told in."""
        return (self.explore.get_attribute("data-ready") or "").partition("-")[0]

    @contextmanager
    def new_run(self) -> Iterator[None]:
        """What is done inside leads to another run; afterwards it is on screen."""
        before = self.run()
        yield
        expect(self.explore).not_to_have_attribute("data-ready", re.compile(f"^{before}"))

    def unfold(self) -> None:
        """All rows of the ledger."""
        if self.page.locator(".tl-x-rows tr[aria-expanded=false]").count():
            self.page.locator(".tl-x-act-open_all").click()
        expect(self.page.locator(".tl-x-rows tr[aria-expanded=false]")).to_have_count(0)

    def row(self, key: str) -> Locator:
        return self.page.locator(f'.tl-x-rows tr[data-key="{key}"]')

    def cell(self, key: str, column: str) -> Locator:
        return self.row(key).locator(f".tl-x-c-{column}")

    def shapes(self) -> dict[str, list[int]]:
        """The shape of every row of the ledger, as it stands there."""
        self.unfold()
        cells = self.page.evaluate(
            """[...document.querySelectorAll(".tl-x-rows tr[data-key]")]
               .map((row) => [row.dataset.key, row.querySelector(".tl-x-c-shape").textContent])"""
        )
        return {key: [int(size) for size in shape.split("×")] for key, shape in cells}

    def select(self, key: str) -> None:
        """A row of the ledger, by a click; its group is opened first."""
        self.unfold()
        self.row(key).click()
        expect(self.row(key)).to_have_attribute("aria-selected", "true")
        self.shown(key)

    def shown(self, key: str, sample: int | None = None, head: int | None = None) -> None:
        """Until the panes show this tensor, and this sentence and head of it."""
        ends = [r"\d+" if number is None else str(number) for number in (sample, head)]
        expect(self.explore).to_have_attribute(
            "data-shown", re.compile(r"\|".join([f"^{re.escape(key)}", *ends]) + "$")
        )

    def pane(self, name: str) -> Locator:
        """formula, tensor, code or check"""
        return self.page.locator(f"#tl-x-{name}")

    def map(self) -> Map:
        """The numbers of the tensor pane, read from its cells."""
        return Map(self.page.locator("#tl-x-tensor .tl-x-big table"))

    # ---- the train tab

    def tab(self, name: str) -> None:
        self.page.get_by_role("tab", name=name, exact=True).click()
        expect(self.page.get_by_role("tab", name=name, exact=True)).to_have_attribute("aria-selected", "true")

    def press(self, name: str) -> None:
        """A button of the transport, by what it does: rewind, play, step, more, stop."""
        self.page.locator(f".tl-tr-transport [data-do={name}]").click()

    @property
    def progress(self) -> Locator:
        return self.page.locator(".tl-tr-progress")

    @property
    def state(self) -> Locator:
        """The sentence on where the training stands."""
        return self.page.locator(".tl-tr-state")

    def step(self) -> int:
        return int(self.progress.get_attribute("aria-valuenow") or 0)

    def beyond(self, step: int) -> None:
        """Until the training has taken more than so many steps."""
        now = "Number(document.querySelector('.tl-tr-progress').getAttribute('aria-valuenow'))"
        self.page.wait_for_function(f"(step) => {now} > step", arg=step, timeout=2 * PATIENCE)

    def curve(self) -> str:
        """The loss of every step as it is drawn."""
        return self.page.locator(".tl-tr-chart path.tl-tr-raw").first.get_attribute("d") or ""

    def train(self, task: str, steps: int) -> None:
        """The train tab with this task and so many steps, nothing started yet."""
        self.tab("Train")
        radio = self.control("task").get_by_role("radio", name=task)
        radio.check(force=True)
        recipe = tasks.get(radio.get_attribute("value") or "").training
        expect(self.number("steps")).to_have_value(str(recipe.total_steps))  # else it would overwrite what is typed
        self.type("steps", steps)
        expect(self.progress).to_have_attribute("aria-valuemax", str(steps))


class Map:
    """A table of numbers with tokens on its axes."""

    def __init__(self, table: Locator) -> None:
        self.table = table

    def columns(self) -> list[str]:
        return [name for name in self.table.locator("thead th.tl-x-col").all_inner_texts()]

    def rows(self) -> list[str]:
        return self.table.locator("tbody th").all_inner_texts()

    def sums(self) -> list[str]:
        return self.table.locator("td.tl-x-s").all_inner_texts()

    def hatched(self) -> list[list[bool]]:
        """Which cells are drawn as masked."""
        return self._of_cells("cell.classList.contains('tl-x-hatch')")

    def texts(self) -> list[list[str]]:
        """What the cells print; words for screen readers are left out."""
        return self._of_cells("[...cell.childNodes].filter((n) => !n.classList).map((n) => n.textContent).join('')")

    def _of_cells(self, what: str) -> list[list[Any]]:
        return self.table.evaluate(
            f"""(table) => [...table.querySelectorAll("tbody tr")]
                .map((row) => [...row.querySelectorAll("td:not(.tl-x-s)")].map((cell) => {what}))"""
        )


# ------------------------------------------------------------------------------------------------------------- fixtures


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The app, from its start to its end. It is ended even when it never answered."""
    started = Server(tmp_path_factory.mktemp("server") / "log")
    try:
        started.wait()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=find_browser(), args=launch_arguments())
        yield opened
        opened.close()


@pytest.fixture
def newcomer(server: Server, browser: Browser) -> Iterator[Callable[..., Visitor]]:
    """``newcomer(locale="zh-CN")`` is one more person, with a browser profile of their own."""
    visitors: list[Visitor] = []
    before = len(server.said())

    def come(**options: Any) -> Visitor:
        defaults: dict[str, Any] = {"viewport": DESK, "locale": "en-US", "reduced_motion": "reduce"}
        visitors.append(Visitor(browser.new_context(**defaults | options), server))
        return visitors[-1]

    yield come
    for visitor in visitors:
        visitor.context.close()
    assert not [fault for visitor in visitors for fault in visitor.faults], "the browser reported errors"
    assert not [url for visitor in visitors for url in visitor.strangers()], "something was asked of another host"
    said = server.said()[before:]
    assert not FAULTS.search(said), f"the server reported an error:\n{said}"


@pytest.fixture
def visitor(newcomer: Callable[..., Visitor]) -> Visitor:
    """A person at a desk, with an English browser in its light theme, who has just opened the page."""
    return newcomer().open()
