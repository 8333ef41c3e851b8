"""A run as a script and as a notebook: torch alone is enough, and every loss is the one recorded, bit for bit."""

import ast
import functools
import itertools
import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from transformer_core import tasks
from transformer_core.faults import FAULTS
from transformer_core.records import RunRecord, notebook, record_of, standalone
from transformer_core.records.replaying import start

SMALL = {"d_model": 20, "n_heads": 5, "d_ff": 23, "n_encoder_layers": 1, "n_decoder_layers": 1}
EVERY_OTHER = [[(i + j) % 3 != 1 for j in range(7)] for i in range(7)]
CASES: Mapping[str, Mapping[str, Any]] = {
    "copy, post-norm, warm-up": {"task": "copy"},
    "pre-norm, dropout, GELU, tied": {
        "model": {"norm_order": "pre", "dropout": 0.1, "attention_dropout": 0.2, "activation": "gelu",
                  "tie_weights": True},
    },
    "learned positions, RMS, no bias": {"model": {"positions": "learned", "norm": "rms", "bias": False}},
    "batch norm, nothing scaled": {
        "model": {"norm": "batch", "positions_on_decoder": False, "scale_scores": False, "scale_embedding": False},
    },
    "no norm, no positions": {"model": {"norm": "none", "positions": "none"}, "masks": {"fill": "finfo_min"}},
    "many mask rules": {
        "masks": {"encoder_self": ("window:2", "random:30"), "decoder_self": ("padding", "causal", "prefix:2"),
                  "cross": ("strided:2",)},
    },
    "conditions and a matrix": {
        "masks": {"encoder_self": ("where:q - k < 3 and k % 2 == 0 or h == 1", "custom"), "cross": (),
                  "encoder_self_custom": EVERY_OTHER, "decoder_self": ("causal", "where:k > 0 and q % k < 3 or q < 9")},
    },
    "cosine, Adam, not smoothed, not clipped": {
        "training": {"schedule": "cosine", "warmup": 2, "lr": 0.01, "optimizer": "adam", "label_smoothing": 0.0,
                     "clip_norm": None},
    },
    "one cycle": {"training": {"schedule": "one_cycle", "warmup": 0, "lr": 0.01}},
    "rate changed on the way": {
        "training": {"schedule": "constant", "warmup": 0, "lr": 0.01}, "rate_changes": ((2, 0.1), (3, 0.001)),
    },
    "a classifier": {"task": "first_last"},
    "sort": {"task": "sort"},
    "addition": {"task": "addition"},
    "a translation": {"task": "translation"},
}  # fmt: skip
"""Runs that differ in every choice for which the script has code of its own, or leaves some out."""


@functools.cache
def recorded(case: str = "copy, post-norm, warm-up", fault: str = "", steps: int = 3) -> RunRecord:
    """A few steps of a small model."""
    how = CASES[case]
    task = tasks.get(how.get("task", "reverse"))
    settings = {
        "model": task.model.replace(**SMALL, **how.get("model", {})),
        "masks": task.masks.replace(**how.get("masks", {})),
        "training": task.training.replace(batch_size=5, **how.get("training", {})),
        "seed": 11, "fault": fault, "rate_changes": how.get("rate_changes", ()),
    }  # fmt: skip
    _, training = start(RunRecord(task=task.name, **settings))
    reports = []
    try:
        reports += itertools.islice(training, steps)
    except ArithmeticError:  # some faults end a run at once
        return record_of(**settings, reports=reports, ended="failed", seconds=0.5)
    return record_of(**settings, reports=reports, ended="paused", seconds=0.5)


@pytest.fixture
def imported(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Loads a script as a module of this process."""

    def load(text: str) -> Any:
        module = ModuleType("a_run_as_a_script")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(compile(text, "script.py", "exec"), module.__dict__)
        return module

    return load


def alone(text: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own that knows nothing but torch, in an empty folder."""
    (folder / "run.py").write_text(text, encoding="utf-8")
    return subprocess.run([sys.executable, "-I", "run.py", *arguments], cwd=folder, capture_output=True, text=True,
                          encoding="utf-8", timeout=110)  # fmt: skip


def test_in_a_process_that_has_only_torch_every_loss_is_the_same(tmp_path: Path) -> None:
    """H38, in another process and from another text."""
    record = recorded()
    spy = "import atexit, sys\natexit.register(lambda: print(*sorted({n.partition('.')[0] for n in sys.modules})))\n"
    text = standalone(record).replace("import dataclasses\n", f"import dataclasses\n{spy}", 1)
    answer = alone(text, tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    *steps, end, modules = answer.stdout.splitlines()
    assert steps == [f"step {step}  loss {loss!r}" for step, loss in enumerate(record.losses, start=1)]
    assert end == "3 of 3 losses compared, all equal to the last digit."
    assert not {"transformer_core", "jaxtyping", "gradio", "safetensors"} & set(modules.split())
    assert [path.name for path in tmp_path.iterdir()] == ["run.py"], "it writes nothing"


def test_a_difference_ends_the_script_with_1_and_says_where(tmp_path: Path) -> None:
    record = recorded()
    off = record.replace(losses=(record.losses[0], record.losses[1] + 2**-20, record.losses[2]), torch="1.0")
    answer = alone(standalone(off), tmp_path)
    assert answer.returncode == 1 and answer.stderr == ""
    assert answer.stdout.splitlines()[-1].startswith(f"Recorded was {off.losses[1]!r}: here the two runs part.")
    assert "torch 1.0" in answer.stdout and "step 3" not in answer.stdout


@pytest.mark.parametrize("case", CASES)
def test_every_choice_has_the_losses_of_its_record(
    case: str, imported: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    record = recorded(case)
    text = standalone(record)
    assert imported(text).main(3) == 0
    assert "3 of 3 losses compared" in capsys.readouterr().out
    assert max(map(len, text.splitlines())) <= 120
    for stranger in ("transformer_core", "jaxtyping", "ConfigError", "MESSAGES", "note(", ">>>"):
        assert stranger not in text, stranger


def test_a_longer_run_than_the_record_goes_on(imported: Any, capsys: pytest.CaptureFixture[str]) -> None:
    record = recorded(steps=2)
    assert imported(standalone(record)).main(3) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[2] == f"step 3  loss {recorded(steps=3).losses[2]!r}" and lines[3].startswith("2 of 3 losses compared")


def test_a_record_without_its_curve_gives_a_script_that_compares_nothing(
    imported: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert imported(standalone(recorded().without_curves())).main(1) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("0 of 1 losses compared")


@pytest.mark.parametrize("fault", [*{fault.group: name for name, fault in FAULTS.items()}.values(), "no_scaling"])
def test_a_run_with_a_fault_becomes_a_script_with_that_fault(fault: str, imported: Any) -> None:
    case = "pre-norm, dropout, GELU, tied"
    record = recorded(case, fault, steps=2)
    text = standalone(record)
    assert imported(text).main(record.steps) == 0
    assert FAULTS[fault].title in text[:2000]


def test_a_fault_that_shows_is_in_the_text() -> None:
    text = standalone(recorded(fault="target_not_shifted"))
    assert FAULTS["target_not_shifted"].wrong in text and FAULTS["target_not_shifted"].right not in text


def test_the_script_holds_what_the_run_needs_and_nothing_else() -> None:
    text = standalone(recorded())
    tree = ast.parse(text)
    defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    assert len(defined) == len(set(defined))
    read = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert not [name for name in defined if name not in read], "each is used"
    assert {"attend", "MultiHeadAttention", "EncoderLayer", "Transformer", "take_step"} <= set(defined)
    assert not {"window", "greedy", "evaluate", "LearnedPositions", "cosine_share", "first_bad"} & set(defined)
    order = [defined.index(name) for name in ("attend", "EncoderLayer", "Transformer", "take_step", "Training", "main")]
    assert order == sorted(order), "bottom to top"
    assert '"""softmax(q kᵀ / √d_head) v' in text and "    # scores: B H q k\n" in text
    assert '"learned"' not in text and 'norm_order == "pre"' not in text
    assert ast.get_docstring(tree).startswith("copy, seed 11: a run of 3 steps, repeated to the last digit.")
    assert f"SEED, THREADS, DEVICE, STEPS = 11, {torch.get_num_threads()}, " in text


def test_the_lines_are_those_of_the_library() -> None:
    """Written anew is only the frame around them: no line of a function can drift from the library's."""
    from transformer_core import attention, layers

    text = standalone(recorded())
    for module, function in ((attention, "masked_softmax"), (attention, "attend"), (layers, "EncoderLayer")):
        source = Path(str(module.__file__)).read_text(encoding="utf-8").splitlines()
        node = next(n for n in ast.parse(text).body if getattr(n, "name", "") == function)
        for line in text.splitlines()[node.lineno - 1 : node.end_lineno]:
            same = line in source or line.strip().startswith("#") or line.strip() == '"""'
            assert same or line.strip() in "\n".join(source) or line == "    context = weights @ v", line


def test_the_notebook_is_the_script_in_cells(imported: Any, capsys: pytest.CaptureFixture[str]) -> None:
    book = json.loads(notebook(recorded()))
    assert (book["nbformat"], book["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in book["cells"]}) == len(book["cells"])
    code = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]
    words = ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "markdown"]
    assert words[0].startswith("# copy, seed 11") and len(code) == len(words) and code[-1] == "main(STEPS)"
    assert all(cell["outputs"] == [] for cell in book["cells"] if cell["cell_type"] == "code")
    imported("\n".join(code))
    assert "3 of 3 losses compared, all equal" in capsys.readouterr().out
