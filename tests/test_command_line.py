"""The command line: what it prints, how it refuses, and with which status it ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from transformer_core import tasks
from transformer_core.__main__ import main
from transformer_core.checks import CHECKS, NUMERICS
from transformer_core.commands.common import WIDTH
from transformer_core.commands.train import BAR, recipe
from transformer_core.faults import FAULTS
from transformer_core.model import build
from transformer_core.presets import apply_settings, load_preset, preset_names

ROOT = Path(__file__).parent.parent
Output = pytest.CaptureFixture[str]


def start(*arguments: str, **how: object) -> subprocess.Popen[str]:
    """A process of its own, for what only a process can show."""
    return subprocess.Popen(
        [sys.executable, "-m", "transformer_core", *arguments], cwd=ROOT, text=True, encoding="utf-8",
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, **how,
    )  # fmt: skip


def refused(capsys: Output, *arguments: str) -> str:
    """The one sentence on stderr of a command that ends with status 2 and prints nothing else."""
    try:
        status = main(arguments)
    except SystemExit as end:  # argparse ends the program itself
        status = end.code
    output = capsys.readouterr()
    assert status == 2
    assert output.out == ""
    assert output.err.count("\n") == 1 and "Traceback" not in output.err and "usage" not in output.err
    return output.err


# check


def test_check_prints_version_shapes_and_every_check(capsys: Output) -> None:
    assert main(["check", "--preset", "minimal_encoder"]) == 0
    text = capsys.readouterr().out
    assert f"torch {torch.__version__}" in text
    assert "src (2, 5)    memory (2, 5, 64)" in text
    assert "encoder self_attention weights (2, 4, 5, 5) in each of 2 layers" in text
    names = [line.removeprefix("✓ ") for line in text.splitlines() if line.startswith("✓ ")]
    assert {"row_sums", "masked_keys", "padded_keys", "finite_gradients"} <= {*names} <= {row.name for row in CHECKS}
    claims = {row.name: row.claim for row in CHECKS}
    for name in names:
        block = text.partition(f"✓ {name}\n")[2].split("\n✓")[0]
        assert claims[name] in " ".join(block.split())
        assert "measured" in block and "expected" in block
    assert text.rstrip().endswith(f"{len(names)} of {len(names)} checks hold.")
    assert max(map(len, text.splitlines())) <= WIDTH


def test_check_as_json_holds_its_setting_and_the_numbers(capsys: Output) -> None:
    assert main(["check", "--json", "--seed", "3", "--set", "d_model=48", "--set", "n_heads=6"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["torch"] == torch.__version__ and found["seed"] == 3
    assert found["model"]["d_model"] == 48 and found["masks"]["fill"] == "exclude"
    assert found["shapes"]["encoder.layers.0.self_attention/q"] == [2, 6, 7, 8]
    assert [each["name"] for each in found["checks"]] == [row.name for row in CHECKS if row.level <= NUMERICS]
    width = next(each for each in found["checks"] if each["name"] == "head_width")
    assert (width["measured"], width["expected"], width["passed"]) == (48, 48, True)


def test_check_that_fails_ends_with_1_and_names_it(capsys: Output) -> None:
    assert main(["check", "--set", "pad_side=left", "--set", "fill=-inf"]) == 1
    text = capsys.readouterr().out
    assert "✗ row_sums" in text and "measured nan, expected 0, tolerance 1e-06" in text
    assert "! visible_keys" in text and "look at visible_keys." in text.splitlines()[-1]
    assert "row_sums" in text.splitlines()[-1]
    assert main(["check", "--set", "pad_side=left", "--set", "fill=-inf", "--json"]) == 1
    failed = [each for each in json.loads(capsys.readouterr().out)["checks"] if not each["passed"]]
    assert "nan" in [each["measured"] for each in failed]


def test_check_of_a_model_that_was_edited_wrongly_fails_instead_of_breaking_off(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformer_core.attention import MultiHeadAttention

    monkeypatch.setattr(MultiHeadAttention, "merge", lambda self, heads: heads.flatten(2))
    assert main(["check"]) == 1
    text = capsys.readouterr().out
    assert "✗ shapes" in text and "the forward stops after" in text


def test_check_of_a_model_too_large_looks_at_its_structure(capsys: Output) -> None:
    assert main(["check", "--preset", "paper_big"]) == 0
    text = capsys.readouterr().out
    assert "Shapes only: 290,058,376 parameters" in text and "device meta" in text
    assert "only structure (level 1) can be checked without numbers" in text
    assert "row_sums" not in text


@pytest.mark.parametrize("preset", [name for name in preset_names() if not name.startswith("paper")])
def test_every_preset_passes_every_check(capsys: Output, preset: str) -> None:
    assert main(["check", "--preset", preset]) == 0
    assert "✗" not in capsys.readouterr().out


# check --level


def names_of(capsys: Output, *arguments: str) -> list[str]:
    assert main(["check", "--json", *arguments]) == 0
    return [each["name"] for each in json.loads(capsys.readouterr().out)["checks"]]


@pytest.mark.parametrize(
    ("arguments", "levels"),
    [
        ([], {1, 2}),
        (["--level", "1"], {1}),
        (["--level", "3,1"], {1, 3}),
        (["--level", "2", "--level", "5"], {2, 5}),
        (["--level", "all"], {1, 2, 3, 4, 5}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_check_runs_the_levels_that_are_asked_for(capsys: Output, arguments: list[str], levels: set[int]) -> None:
    assert names_of(capsys, *arguments) == [row.name for row in CHECKS if row.level in levels]


# faults


def test_faults_prints_a_row_for_each_fault_and_what_they_come_to(capsys: Output) -> None:
    assert main(["faults", "--level", "1,2"]) == 1  # two levels do not see everything
    text = capsys.readouterr().out
    lines = text.splitlines()
    assert max(map(len, lines)) <= WIDTH and f"torch {torch.__version__}" in text
    checks = [row for row in CHECKS if row.level <= 2]
    for letter, row in zip("abcdefghijklmnopqrstuvwxyz", checks, strict=False):
        assert f"{letter} {row.name}" in text
    right = next(line for line in lines if line.startswith("(the right model)"))
    assert right.endswith("  ok") and "●" not in right
    rows = {line.split()[0]: line for line in lines if line.split() and line.split()[0] in FAULTS}
    assert list(rows) == list(FAULTS)
    level_1 = sum(row.level == 1 for row in checks)
    marks = rows["merge_without_transpose"][len("positions_missing_on_decoder") + 3 :]
    assert marks[[row.name for row in checks].index("head_order")] == "●"
    assert marks[level_1] == " " and "△" in marks[level_1:]
    assert rows["mask_without_head_axis"].endswith("  1") and rows["eval_forgotten"].endswith("  0")
    assert "On the right model no check fails." in text
    unseen = " ".join(lines[lines.index("") :]).partition("No check sees ")[2].partition(".")[0].split(", ")
    assert "eval_forgotten" in unseen and "no_scaling" not in unseen
    totals = {line.split()[1]: line.split() for line in lines if line.startswith("    ") and len(line.split()) == 4}
    assert set(totals) == {row.name for row in checks} and totals["head_width"][2] == "1"


def test_faults_as_json_is_the_matrix_with_its_setting(capsys: Output) -> None:
    assert main(["faults", "--json", "--level", "1", "--seed", "3", "--set", "n_heads=2"]) == 1
    found = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert (found["seed"], found["levels"], found["model"]["n_heads"]) == (3, [1], 2)
    assert [row["name"] for row in found["rows"]] == [None, *FAULTS]
    shared = next(row for row in found["rows"] if row["name"] == "shared_layer")
    caught = {cell["check"]: cell["finding"] for cell in shared["cells"] if cell["verdict"] == "caught"}
    assert set(caught) == {"layers_independent", "parameter_count"} and "shared between layers" in str(caught)
    assert found["summary"]["faults"]["shared_layer"] == ["layers_independent", "parameter_count"]
    assert found["summary"]["false_alarms"] == [] and "no_scaling" in found["summary"]["uncaught"]


def test_one_fault_shows_both_codes_its_story_and_its_row(capsys: Output) -> None:
    assert main(["faults", "no_scaling", "--level", "2,5"]) == 0
    text = capsys.readouterr().out
    fault = FAULTS["no_scaling"]
    flat = " ".join(text.split())
    assert f"no_scaling: {fault.title}" in text and fault.story in flat
    right, wrong = text.partition("right:")[2].split("wrong:")
    assert "scale=self.scale," in right and "scale=False," in wrong
    file, function, first, *_ = fault.lines()
    assert f"{file}:{first}, {function} (section 3.2.1)" in text and f"  {first}  " in right
    assert "67 tensors of a forward differ, the first is encoder.layers.0.self_attention/scores." in text
    assert "● attention_formula: relative difference" in flat and "Do not see it: row_sums" in flat
    assert max(map(len, text.splitlines())) <= WIDTH


def test_one_fault_as_json_holds_its_code(capsys: Output) -> None:
    assert main(["faults", "gradients_not_cleared", "--json", "--level", "1"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["right"] == ["    optimizer.zero_grad()"] and found["wrong"] == [""]
    assert [row["name"] for row in found["rows"]] == [None, "gradients_not_cleared"]


def test_faults_ends_with_1_when_the_right_model_fails(capsys: Output) -> None:
    assert main(["faults", "no_scaling", "--level", "2", "--set", "pad_side=left", "--set", "fill=-inf"]) == 1
    assert "On the right model row_sums" in capsys.readouterr().out


# ledger


def test_ledger_as_json_lists_every_tensor_with_its_row(capsys: Output) -> None:
    assert main(["ledger", "--preset", "first_look", "--json"]) == 0
    output = capsys.readouterr()
    rows = json.loads(output.out)
    assert output.err == "" and len(rows) == 87
    row = next(row for row in rows if f"{row['path']}/{row['name']}" == "decoder.layers.1.cross_attention/weights")
    assert (row["axes"], row["shape"], row["stride"], row["bytes"]) == ("B H q k", [2, 4, 5, 7], [140, 35, 7, 1], 1120)
    assert row["paper"] == "3.2.1, eq. 1" and "softmax" in row["formula"]
    path, line = row["source"].split(":")
    assert 'note("weights"' in (ROOT / path).read_text(encoding="utf-8").splitlines()[int(line) - 1]
    assert 0 <= row["min"] <= row["mean"] <= row["max"] <= 1 and row["nan"] == 0


def test_ledger_is_a_table_that_fits_120_signs(capsys: Output) -> None:
    for arguments in (["ledger"], ["ledger", "--preset", "deep_pre"], ["ledger", "--preset", "paper_big"]):
        assert main(arguments) == 0
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= WIDTH
        head = next(line for line in lines if line.lstrip().startswith("#"))
        assert head.split() == ["#", "tensor", "axes", "shape", "dtype", "bytes", "paper", "source"]
        start = head.index("source")
        rows = lines[lines.index(head) + 1 : -1]
        assert all(row[start - 2 : start] == "  " and row[start:].count(":") == 1 for row in rows)
    assert lines[-1] == "239 tensors, 28,355,008 bytes"


def test_ledger_without_numbers(capsys: Output) -> None:
    assert main(["ledger", "--shapes-only"]) == 0
    text = capsys.readouterr().out
    assert "Shapes only" in text and "device meta" in text and "87 tensors" in text
    assert main(["ledger", "--shapes-only", "--json"]) == 0
    output = capsys.readouterr()
    rows = json.loads(output.out)
    assert "Shapes only" in output.err
    assert {row["device"] for row in rows} == {"meta"} and {row["mean"] for row in rows} == {None}


def test_ledger_takes_a_plain_configuration_file(capsys: Output, tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(
        "[model]\nd_model = 48\nn_heads = 4\nn_layers = 3\nd_ff = 96\ndropout = 0.1\nmax_seq_len = 32\n"
        "[training]\nbatch_size = 16\nlr = 0.001\nepochs = 2\n"
        "[data]\nsrc_vocab_size = 51\ntgt_vocab_size = 53\n",
        encoding="utf-8",
    )
    assert main(["ledger", "--preset", str(file), "--json"]) == 0
    rows = {f"{row['path']}/{row['name']}": row for row in json.loads(capsys.readouterr().out)}
    assert rows["decoder.layers.2.self_attention/q"]["shape"][1:] == [4, 5, 12]
    assert rows["/logits"]["shape"][-1] == 53


def test_numbers_that_json_lacks_become_null(capsys: Output) -> None:
    assert main(["ledger", "--set", "fill=-inf", "--set", "pad_side=left", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)
    assert any(row["nan"] for row in rows)


# masks


def test_masks_prints_a_grid_for_every_sentence_with_letters_and_counts(capsys: Output) -> None:
    assert main(["masks"]) == 0
    text = capsys.readouterr().out
    assert "p padding, c causal, w window, f prefix, b block, s strided, " in text
    assert "r random, d documents, q where, x custom\n" in text
    assert "decoder_self: padding, causal; 5 queries x 5 keys" in text
    second = text.partition("decoder_self:")[2].partition("sentence 2 of 2\n")[2].splitlines()
    assert [line.split() for line in second[:6]] == [
        [*"01234", "sees"],
        ["⟨s⟩", "#", "c", "c", "c", "p", "1"],
        ["11", "#", "#", "c", "c", "p", "2"],
        ["59", "#", "#", "#", "c", "p", "3"],
        ["72", "#", "#", "#", "#", "p", "4"],
        ["∅", "#", "#", "#", "#", "p", "4"],
    ]
    assert second[6] == "every query sees a key"
    assert "the last query stands at the last key" in text.partition("cross:")[2]
    assert max(map(len, text.splitlines())) <= WIDTH


def test_masks_names_empty_rows_and_tells_heads_apart(capsys: Output) -> None:
    assert main(["masks", "--preset", "empty_row", "--attention", "encoder_self"]) == 0
    text = capsys.readouterr().out
    assert "2 empty rows, without any key to see: q = 5 of sentence 2, q = 6 of sentence 2" in text
    assert "decoder_self" not in text and "head" not in text
    rules = "masks.cross=where:h == 0 or k < min(q, 3),padding"
    assert main(["masks", "--attention", "cross", "--set", rules, "--set", "n_heads=2"]) == 0
    text = capsys.readouterr().out
    assert "cross: where:h == 0 or k < min(q, 3), padding;" in text
    assert text.count("head 1") == text.count("head 2") == 2
    assert "2 empty rows" in text and "q = 0 of sentence 1, q = 0 of sentence 2" in text


def test_masks_as_json_are_the_masks_of_the_model(capsys: Output) -> None:
    settings = ["--set", "masks.decoder_self=causal,random:40,documents", "--set", "pad_side=left"]
    assert main(["masks", "--json", *settings]) == 0
    found = {each["attention"]: each for each in json.loads(capsys.readouterr().out)}
    preset = apply_settings(load_preset("first_look"), settings[1::2])
    model, batch = build(preset.model, preset.masks), preset.batch(7)
    for name, each in found.items():
        side = batch.tgt if name == "decoder_self" else batch.src
        queries = batch.src if name == "encoder_self" else batch.tgt
        allowed = model.allowed(name, queries.shape[1], side).expand(each["shape"])
        for grid in each["grids"]:
            drawn = [[sign == "#" for sign in row] for row in grid["rows"]]
            assert drawn == allowed[grid["sentence"], grid["head"]].tolist()
            assert grid["visible"] == allowed[grid["sentence"], grid["head"]].sum(-1).tolist()
        empty = (~allowed.any(-1).any(1)).nonzero().tolist()
        assert each["empty_rows"] == empty


def test_masks_of_long_sentences_are_counted_and_those_of_huge_ones_refused(capsys: Output) -> None:
    longer = ["--set", "src_len=300", "--attention", "encoder_self"]
    assert main(["masks", *longer]) == 0
    text = capsys.readouterr().out
    assert "too wide to draw; keys seen: 300 to 300" in text and "keys seen: 200 to 200" in text
    huge = ["--set", "src_len=9000", "--set", "max_seq_len=9000"]
    assert "encoder_self has 648,000,000 cells" in refused(capsys, "masks", *huge)
    lonely = ["--preset", "minimal_encoder", "--attention", "cross"]
    assert "minimal_encoder is encoder; it has encoder_self attention" in refused(capsys, "masks", *lonely)
    assert 'has "=" at column 3' in refused(capsys, "masks", "--set", "masks.cross=where:q = k")


# train


def test_train_prints_its_setting_its_steps_and_an_honest_end(capsys: Output) -> None:
    assert main(["train", "first_last", "--steps", "20", "--seed", "7"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("first_last: encoder 2, d 64") and "seed 7" in lines[1]
    steps = [line for line in lines if line.startswith("step ")]
    assert steps[0].startswith("step  1/20  loss ") and steps[-1].startswith("step 20/20")
    assert any("whole answers right" in line and "1,000 new questions" in line for line in lines)
    assert any("Guessing evenly has accuracy 50.0%" in line for line in lines)
    assert lines[-2].startswith("It has not learned first_last")
    assert lines[-1] == "The task's own recipe takes 700 steps."


def test_train_as_json_lines_repeats_with_the_seed(capsys: Output) -> None:
    runs = []
    for _ in range(2):
        assert main(["train", "reverse", "--steps", "3", "--json"]) == 0
        runs.append([json.loads(line) for line in capsys.readouterr().out.splitlines()])
    first, second = runs
    assert [line["loss"] for line in first[:-1]] == [line["loss"] for line in second[:-1]]
    assert [line["step"] for line in first[:-1]] == [1, 2, 3]
    assert first[-1]["evaluation"] == second[-1]["evaluation"] and first[-1]["learned"] is False
    assert first[-1]["chance_accuracy"] == pytest.approx(1 / 17)


def test_train_says_learned_only_when_it_is(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformer_core.commands import train as cli
    from transformer_core.training import Evaluation

    endings = {
        0.995: "It has learned copy, as far as these questions tell.",
        0.6: "It has learned part of copy: better than guessing, but not 99% of whole answers.",
        0.2: "It has not learned copy: on 1,000 questions, guessing alone comes as close as this.",
    }
    for share, ending in endings.items():
        monkeypatch.setattr(cli, "evaluate", lambda *_, share=share: Evaluation(share, share, 0.1))
        assert main(["train", "copy", "--steps", "1"]) == 0
        assert ending in capsys.readouterr().out.splitlines()


def test_train_draws_a_bar_on_a_terminal(capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert main(["train", "first_last", "--steps", "4"]) == 0
    text = capsys.readouterr().out
    bars = [part for part in text.split("\r") if part.startswith("[")]
    assert [bar.partition("]")[0].count("#") for bar in bars] == [6, 12, 18, 24]
    assert all(len(bar.partition("\n")[0]) == BAR for bar in bars), "each bar covers the one before"
    assert bars[-1].partition("\n")[1] == "\n" and "step 1/" not in text


def test_train_that_explodes_ends_with_1_and_names_step_and_tensor(
    capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformer_core.training import run as training_run

    monkeypatch.setattr(training_run, "rate", lambda config, d_model, step: 1e30)
    assert main(["train", "first_last", "--steps", "9"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("step 2: the loss is not finite") and error.count("\n") == 1


def test_train_fits_a_preset_to_the_task_and_refuses_what_the_task_forbids(capsys: Output) -> None:
    assert main(["train", "first_last", "--preset", "sentences", "--set", "n_heads=2", "--steps", "1"]) == 0
    assert "first_last: encoder 2, d 64, h 2, ff 128" in capsys.readouterr().out
    assert "needs src_vocab_size" in refused(capsys, "train", "copy", "--set", "src_vocab_size=99")


def test_recipe_is_the_tasks_own_and_steps_count_before_epochs() -> None:
    from argparse import Namespace

    task = tasks.get("copy")
    given = {"preset": None, "settings": [], "steps": None}
    own = recipe(task, Namespace(**given))
    assert (own.model, own.training, own.masks) == (task.model, task.training, task.masks)
    assert recipe(task, Namespace(**given | {"settings": ["epochs=3", "steps=none"]})).training.total_steps == 300
    both = recipe(task, Namespace(**given | {"settings": ["epochs=3"], "steps": 5}))
    assert both.training.total_steps == 5


# presets


def test_presets_lists_names_sizes_and_costs(capsys: Output) -> None:
    assert main(["presets"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1 : len(preset_names()) + 1]] == preset_names()
    assert "185,633" in next(line for line in lines if line.startswith("first_look"))
    assert lines[-1] == "Too large to compute here, so shapes only: paper_big."
    assert max(map(len, lines)) <= WIDTH
    assert main(["presets", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == preset_names()
    assert rows[0]["cost"]["parameters"] == 185_633


# Refusals


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["check", "--set", "n_heads=7"], "d_model 64 is not divisible by 7 heads; 4 and 8"),
        (["check", "--preset", "first_lok"], "first_look"),
        (["ledger", "--set", "d_modle=8"], "d_model"),
        (["ledger", "--set", "d_model"], "key=value"),
        (["check", "--seed", "seven"], "invalid int value: 'seven'"),
        (["check", "--seed", "-1"], "seed"),
        (["check", "--level", "6"], "there is no level '6' of checks; 1, 2, 3, 4, 5 and all are"),
        (["check", "--level", "1,two"], "there is no level 'two'"),
        (["faults", "no_scalin"], "there is no fault 'no_scalin'; there are"),
        (["faults", "no_scalin"], "The nearest is no_scaling."),
        (["faults", "--preset", "paper_big"], "paper_big is too large to be run with every fault"),
        (["faults", "--seed", "-1"], "seed"),
        (["chek"], "invalid choice"),
        ([], "required"),
        (["ledger", "--nonsense"], "Unrecognized arguments: --nonsense"),
        (["train", "frist_last"], "The nearest is first_last"),
        (["train", "copy", "--steps", "0"], "steps is 0"),
        (["train", "copy", "--set", "lr=nan"], "lr"),
        (["check", "--preset", "."], "folder"),
        (["check", "--set", "dropout=2"], "dropout"),
        (["check", "--set", "masks.decoder_self=causal,prefix:9"], "prefix"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_bad_request_ends_with_2_and_one_sentence(capsys: Output, arguments: list[str], text: str) -> None:
    assert text in refused(capsys, *arguments)


# What only a process shows.


def test_a_closed_pipe_ends_quietly() -> None:
    process = start("ledger", "--json")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    assert process.wait(timeout=60) == 141
    assert process.stderr.read() == ""
    process.stderr.close()


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no SIGINT to a single process")
def test_ctrl_c_ends_with_130_and_one_sentence() -> None:
    process = start("train", "copy", "--json")
    assert process.stdout is not None
    process.stdout.readline()  # the first step has been taken
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error == "Stopped by Ctrl-C; nothing was saved.\n"


def test_lessons_that_are_only_told_take_no_steps(capsys: Output) -> None:
    assert main(["lessons", "--steps", "5"]) == 2
    assert capsys.readouterr().err == "--steps goes with the name of a lesson; here it would change nothing\n"


def test_a_terminal_without_unicode_gets_other_signs_for_the_matrix() -> None:
    process = start("faults", "--level", "1", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    text, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (1, "")
    assert text.isascii() and "?" not in text and "X caught   . not seen   ! passes wrongly" in text


def test_a_terminal_without_unicode_gets_words_for_signs() -> None:
    process = start("check", "--set", "n_layers=1", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    text, error = process.communicate(timeout=60)
    assert (process.returncode, error) == (0, "")
    assert "holds row_sums" in text and "|? - 1|" in text and text.isascii()
