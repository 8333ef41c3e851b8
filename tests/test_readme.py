"""The README is run as it stands: its Python, its command lines, its links and the numbers it states."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
FRONT, BODY = README.removeprefix("---\n").split("\n---\n", 1)


class Block(NamedTuple):
    """A fenced block: its language, its text, and the line of the README it starts at (for the test's name)."""

    language: str
    text: str
    line: int


BLOCKS = [
    Block(found[1], found[2], README[: README.index(found[0])].count("\n") + 1)
    for found in re.finditer(r"^```(\w+)\n(.*?)^```$", BODY, re.MULTILINE | re.DOTALL)
]


def blocks(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


def commands() -> list[tuple[str, int]]:
    """Each line of the shell blocks that runs the core, with the exit status that its comment states."""
    found = []
    for block in blocks("sh"):
        for line in block.text.splitlines():
            command, _, comment = line.partition("#")
            stated = re.match(r" exits (\d)", comment)
            if command.startswith("python -m transformer_core"):
                found.append((command.strip(), int(stated[1]) if stated else 0))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands are given, one after another: some leave files to those that follow."""
    return tmp_path_factory.mktemp("readme")


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, encoding="utf-8",
        stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip


def test_there_is_something_to_run() -> None:
    assert len(blocks("python")) >= 2
    assert {command.split()[3] for command, _ in commands()} == {
        "check",
        "compare",
        "decode",
        "faults",
        "ledger",
        "lessons",
        "masks",
        "presets",
        "replay",
        "train",
        "translate",
    }
    assert {status for _, status in commands()} == {0, 2}


@pytest.mark.parametrize("block", blocks("python"), ids=lambda block: f"line {block.line}")
def test_the_python_prints_what_it_says(block: Block, folder: Path) -> None:
    answer = run(folder, "-W", "error", "-c", block.text)
    assert answer.returncode == 0, answer.stderr
    assert answer.stdout.splitlines() == re.findall(r"# -> (.*)", block.text)


@pytest.mark.parametrize(("command", "status"), commands())
def test_the_command_line_exits_as_it_says(command: str, status: int, folder: Path) -> None:
    answer = run(folder, *shlex.split(command)[1:])
    assert answer.returncode == status, answer.stderr
    assert "Traceback" not in answer.stderr
    # What was asked for is on stdout; a refusal is one readable text on stderr.
    assert bool(answer.stdout.strip()) == (status == 0)
    assert bool(answer.stderr.strip()) or status == 0


def test_its_make_commands_exist() -> None:
    named = set(re.findall(r"\bmake ([a-z]+)\b", "\n".join(re.findall(r"`[^`\n]+`|^make .*", BODY, re.MULTILINE))))
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {"app", "test"} <= named <= targets


def test_its_links_lead_somewhere() -> None:
    anchors = {"#" + title.lower().replace(" ", "-") for title in re.findall(r"^#+ (.*)$", BODY, re.MULTILINE)}
    links = re.findall(r"\]\(([^)]+)\)", BODY)
    assert links
    for link in links:
        assert link in anchors if link.startswith("#") else (ROOT / link).exists(), link


def test_the_files_in_its_commands_exist() -> None:
    for name in re.findall(r"[\w/-]+\.(?:txt|toml|py)\b", "\n".join(block.text for block in BLOCKS)):
        assert (ROOT / name).exists(), name


def test_the_space_gets_the_versions_of_the_requirements() -> None:
    settings = dict(re.findall(r"^(\w+): \"?(.*?)\"?$", FRONT, re.MULTILINE))
    requirements = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    assert f"gradio=={settings['sdk_version']}\n" in requirements
    assert settings["sdk"] == "gradio" and settings["license"] == "mit"
    assert (ROOT / settings["app_file"]).exists()
    # A Space refuses a longer one.
    assert len(settings["short_description"]) <= 60
    torch = re.search(rf'^torch==(\S+); python_version == "{settings["python_version"]}"$', requirements, re.MULTILINE)
    assert torch and f"torch {torch[1]} there" in BODY


def test_its_table_of_limits_is_the_one_in_force() -> None:
    from explorer.limits import PREFIX, Limits

    stated = dict(re.findall(rf"^\| `{PREFIX}(\w+)` \| ([\d,]+) \|", BODY, re.MULTILINE))
    limits = {name.upper(): f"{value:,}" for name, value in vars(Limits()).items()}
    assert stated == limits
