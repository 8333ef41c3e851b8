"""The set-up: it finds what is there, refuses what will not do, and says which."""

import subprocess
import sys
from pathlib import Path

import pytest

from tools import browser, environment, system

ROOT = Path(__file__).parents[1]


def program(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without any browser: its programs are those put into the folder `bin` of the answer."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "downloads"))
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(browser, "APPLICATIONS", ())
    return tmp_path


posix = pytest.mark.skipif(sys.platform == "win32", reason="the stand-in programs are shell scripts")


@posix
def test_a_browser_that_does_not_start_is_passed_over(bare: Path) -> None:
    program(bare, "bin/chromium", "echo 'only a note; install the real one' >&2; exit 1")
    chrome = program(bare, "bin/google-chrome", "echo Google Chrome 1")
    assert browser.find_browser() == chrome


@posix
def test_the_newest_download_serves_where_nothing_is_installed(bare: Path) -> None:
    program(bare, "downloads/chromium-1100/chrome-linux/chrome", "echo 1100")
    newest = program(bare, "downloads/chromium-1200/chrome-linux64/chrome", "echo 1200")
    assert browser.find_browser() == newest


@posix
def test_the_named_browser_wins_and_is_never_replaced_silently(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare, "bin/chromium", "echo 1")
    mine = program(bare, "mine", "echo 2")
    monkeypatch.setenv("CHROMIUM", mine)
    assert browser.find_browser() == mine
    monkeypatch.setenv("CHROMIUM", mine + "-lost")
    with pytest.raises(RuntimeError, match="mine-lost does not start"):
        browser.find_browser()


@posix
def test_without_any_browser_the_message_says_what_to_do(
    bare: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []
    monkeypatch.setattr(browser, "download", lambda: asked.append("playwright"))
    monkeypatch.setattr(browser, "install", lambda packages: asked.append("system"))
    assert browser.main() == 1
    assert asked == ["playwright", "system"]
    out, err = capsys.readouterr()
    assert out == "" and "CHROMIUM=/path/to/chromium make test" in err


@posix
def test_the_package_manager_is_the_last_resort(
    bare: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(browser, "download", lambda: None)
    program(bare, "bin/apt-get", f'echo "$@" >> {bare}/asked; [ "$1" = update ] && exit 100; exit 0')
    monkeypatch.setattr(system.os, "geteuid", lambda: 0)
    assert browser.main() == 1, "nothing was really installed"
    # An outdated list of packages is no reason to give up.
    assert (bare / "asked").read_text().splitlines() == [
        "update",
        "install -y --no-install-recommends chromium fonts-noto-cjk",
    ]


@posix
def test_who_may_not_install_is_told_so(
    bare: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program(bare, "bin/apt-get", "exit 0")
    monkeypatch.setattr(system.os, "geteuid", lambda: 1000)
    assert not system.install(browser.PACKAGES)
    assert "this user may not install packages" in capsys.readouterr().err


@posix
def test_an_old_python_looks_for_a_newer_one(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "OLDEST", (sys.version_info[0], sys.version_info[1] + 1))
    monkeypatch.setattr(environment, "NEWEST", (4, 0))
    program(bare, "bin/python3.12", "exit 127")  # a version manager's shim with nothing behind it
    assert environment.suitable() is None
    newer = program(bare, "bin/python3.13", "echo 3.13")
    assert environment.suitable() == newer


def test_without_a_newer_python_the_message_names_the_versions(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environment, "suitable", lambda: None)
    assert environment.main() == 1
    assert "Python 3.11 to 3.14 is needed" in capsys.readouterr().err


def test_the_targets_of_the_makefile_explain_themselves() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = next(line for line in text.splitlines() if line.startswith(".PHONY:")).split()[1:]
    for target in set(phony) - {"help"}:
        assert any(line.startswith(f"{target}:") and " ## " in line for line in text.splitlines()), target


def test_versions_are_exact_and_stated_once() -> None:
    for path in ROOT.glob("requirements*.txt"):
        lines = [line.partition("#")[0].strip() for line in path.read_text(encoding="utf-8").splitlines()]
        for line in filter(None, lines):
            assert "==" in line or line == "-r requirements.txt", f"{path.name}: {line}"


@posix
def test_the_command_prints_one_path_and_nothing_else(bare: Path) -> None:
    mine = program(bare, "mine", "echo Chromium 1")
    command = [sys.executable, "-m", "tools.browser"]
    answer = subprocess.run(command, cwd=ROOT, env={"CHROMIUM": mine}, capture_output=True, text=True, timeout=110)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, mine + "\n", "")
