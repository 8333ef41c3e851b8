"""The browser of the tests: `python -m tools.browser` prints the path of a Chromium that starts, fetched if need be.

In this order: the CHROMIUM variable, what is installed, Playwright's own download, the system's package manager.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.system import install, say

COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "microsoft-edge")
APPLICATIONS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "C:/Program Files/Google/Chrome/Application/chrome.exe",
    "C:/Program Files (x86)/Microsoft/Edge/Application/msedge.exe",
)
DOWNLOADS = (".cache/ms-playwright", "Library/Caches/ms-playwright", "AppData/Local/ms-playwright")
DOWNLOADED = ("chrome", "chrome.exe", "Chromium", "Google Chrome for Testing")
# The Chinese half of the page needs a font that has its signs; a bare server has none.
PACKAGES = {
    "apt-get": ["chromium", "fonts-noto-cjk"],
    "dnf": ["chromium", "google-noto-sans-cjk-fonts"],
    "pacman": ["chromium", "noto-fonts-cjk"],
}
MESSAGE = """No browser for the tests, and none could be fetched. Install Chromium or Google Chrome,
or name the program: CHROMIUM=/path/to/chromium make test"""


def starts(program: str) -> bool:
    """Whether it really runs: Ubuntu's chromium-browser may be only a note, a download may lack system libraries."""
    if sys.platform == "win32":
        return True  # there --version opens a window
    try:
        answer = subprocess.run([program, "--version"], capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0


def candidates() -> Iterator[str]:
    """Programs that may be a Chromium, best first."""
    yield from filter(None, map(shutil.which, COMMANDS))
    yield from filter(os.path.isfile, APPLICATIONS)
    chosen = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    for folder in [Path(chosen)] if chosen else [Path.home() / name for name in DOWNLOADS]:
        for version in sorted(folder.glob("chromium-*"), reverse=True):
            yield from (str(path) for path in version.rglob("*") if path.name in DOWNLOADED and path.is_file())


def find_browser() -> str:
    """The path of an installed Chromium.

    Raises:
        RuntimeError: there is none, or the one that CHROMIUM names does not start.
    """
    named = os.environ.get("CHROMIUM")
    if named:
        if starts(named):
            return named
        raise RuntimeError(f"CHROMIUM={named} does not start; correct it or leave it out")
    for program in candidates():
        if starts(program):
            return program
    raise RuntimeError(MESSAGE)


def launch_arguments() -> list[str]:
    """Chromium's switches for a test: no traffic of its own, and root may start it."""
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
    # Chromium's sandbox refuses to run as root, which is who runs tests in a container; /dev/shm is small there too.
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    return [*quiet, "--disable-gpu", "--disable-quic", *(["--no-sandbox", "--disable-dev-shm-usage"] if root else [])]


def download() -> None:
    """Playwright's own build. Without a way to its host it fails within seconds; the limit is for a line that hangs."""
    say("No browser here: asking Playwright for its own ...")
    command = [sys.executable, "-m", "playwright", "install", "chromium"]
    try:
        answer = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    except subprocess.TimeoutExpired:
        say("Playwright's download took longer than ten minutes.")
        return
    if answer.returncode:
        say("Playwright could not fetch it: " + (answer.stdout.strip().splitlines() or ["no reason given"])[-1])


def main() -> int:
    for fetch in (None, download, lambda: install(PACKAGES)):
        if fetch is not None:
            fetch()
        try:
            print(find_browser())
            return 0
        except RuntimeError as error:
            reason = error
            if os.environ.get("CHROMIUM"):
                break
    say(str(reason))
    return 1


if __name__ == "__main__":
    sys.exit(main())
