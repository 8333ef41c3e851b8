"""The task of translation, a model that has learned a few sentences by heart, and the command that does all of it."""

import dataclasses
import io
import json
import os
import re
from collections import Counter
from pathlib import Path

import pytest
import torch

from transformer_core import tasks
from transformer_core.__main__ import main
from transformer_core.model import Transformer, build
from transformer_core.tasks import Task, task_of
from transformer_core.tasks.translation import GROUPS, draw
from transformer_core.training import train
from transformer_core.translating import score, translate
from transformer_core.translation import Corpus, builtin, decode_ids, make_corpus, read_pairs
from transformer_core.translation.corpus import padded
from transformer_core.translation.metrics import measure
from transformer_core.translation.tokens import join, split

REAL = Path(os.environ.get("TRANSLATION_PAIRS", Path(__file__).parents[2] / "shared" / "data" / "cmn-eng.tsv"))
ANIMALS = {"猫": "cat", "狗": "dog", "鸟": "bird", "马": "horse"}
SEEN = {"看见": "sees", "喜欢": "likes", "怕": "fears"}
TEXT = "\n".join(
    f"The {who_en} {verb_en} the {whom_en}.\t{who}{verb}{whom}。"
    for who, who_en in ANIMALS.items()
    for verb, verb_en in SEEN.items()
    for whom, whom_en in ANIMALS.items()
    if who != whom
)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return make_corpus(read_pairs(TEXT), min_count=1, held_out_share=0.12, seed=3, words=[*ANIMALS, *SEEN])


@pytest.fixture(scope="module")
def learned(corpus: Corpus) -> Transformer:
    task = task_of(corpus)
    config = task.model.replace(d_model=32, d_ff=64, n_heads=2, n_encoder_layers=1, n_decoder_layers=1, dropout=0.0)
    model = build(config, seed=7)
    for _ in train(model, task, task.training.replace(steps=200, batch_size=8, warmup=40, lr=0.5), seed=7):
        pass
    return model


# ---- the task


def batches(task: Task, n: int, times: int, on: str = "train") -> list:
    generator = torch.Generator().manual_seed(5)
    return [task.sample(n, generator, on) for _ in range(times)]


def pairs_of(batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [
        (tuple(i for i in src if i), tuple(i for i in labels if i > 2))
        for src, labels in zip(batch.src.tolist(), batch.labels.tolist(), strict=True)
    ]


def test_questions_come_from_their_own_part() -> None:
    corpus, task = builtin(), tasks.get("translation")
    for on, part in (("train", corpus.train), ("new", corpus.held_out)):
        known = set(part)
        assert all(pair in known for batch in batches(task, 59, 3, on) for pair in pairs_of(batch))


def test_a_target_begins_ends_and_is_shifted() -> None:
    batch = batches(tasks.get("translation"), 37, 1)[0]
    assert (batch.tgt[:, 0] == 1).all() and not (batch.labels == 1).any()
    assert ((batch.labels == 2).sum(dim=1) == 1).all()
    inside = batch.tgt[:, 1:] * (batch.labels[:, :-1] != 2)
    assert torch.equal(inside, batch.labels[:, :-1] * (batch.labels[:, :-1] != 2))
    assert (batch.src[:, -1] != 0).any() and (batch.labels[:, -1] != 0).any(), "no wider than the longest"


def test_sentences_of_one_length_stand_together_and_each_pair_is_as_likely_as_any_other() -> None:
    pairs = [((4,) * (n % 7 + 1), (5,) * (n % 5 + 1)) for n in range(70)]
    src, target = padded(pairs)
    marked = src.clone()
    marked[:, 0] = torch.arange(70) + 10  # so that each pair is known by its first word
    counts, generator = Counter(), torch.Generator().manual_seed(3)
    grouped = full = 0
    for _ in range(300):
        batch = draw(8, generator, marked, target, groups=8)
        counts.update(batch.src[:, 0].tolist())
        grouped += int((batch.labels != 0).sum())
        full += batch.labels.numel()
    n = 300 * 8
    assert set(counts) == set(range(10, 80))
    assert all(abs(count - n / 70) < 5 * (n / 70) ** 0.5 * 1.5 for count in counts.values())
    alone = sum(draw(8, generator, marked, target).labels.numel() for _ in range(300))
    assert grouped / full > 0.9 and full < 0.85 * alone


def test_a_batch_as_large_as_the_corpus_is_not_grouped() -> None:
    src, target = padded([((4,) * n, (5,)) for n in range(1, 12)])
    for n in (6, 11, 500):
        one, other = (draw(n, torch.Generator().manual_seed(1), src, target, groups) for groups in (1, GROUPS))
        assert torch.equal(one.src, other.src)


def test_the_task_fits_its_corpus(corpus: Corpus) -> None:
    task = task_of(corpus)
    assert task.symbols == corpus.tgt_symbols and task.src_symbols == corpus.src_symbols
    assert (task.model.src_vocab_size, task.model.tgt_vocab_size) == (len(task.src_symbols), len(task.symbols))
    assert task.model.max_seq_len >= max(corpus.longest) + 1 and task.training.task == "translation"
    assert set(task.needs_parts) == {"cross_position", "order", "cross_attention"} and list(task.held_out) == ["new"]
    assert sum(map(sum, task.odds)) == pytest.approx(1)
    assert task.describe_tokens([[4, 2]], side="src")[0][0] == corpus.src_symbols[4]
    with pytest.raises(ValueError, match="translation needs src_vocab_size"):
        task.check(tasks.get("translation").model)


# ---- a model at work


def test_what_was_learned_by_heart_is_translated_to_the_last_sign(learned: Transformer, corpus: Corpus) -> None:
    sentences = ["".join(corpus.src_symbols[i] for i in src) for src, _ in corpus.train]
    wanted = [decode_ids(corpus, tgt) for _, tgt in corpus.train]
    learned.train()
    assert translate(learned, corpus, sentences) == wanted and all(module.training for module in learned.modules())
    assert translate(learned, corpus, sentences[:5], width=3) == wanted[:5]
    assert translate(learned, corpus, []) == []


def test_answers_come_in_the_order_of_the_questions(learned: Transformer, corpus: Corpus) -> None:
    mixed = ["猫看见狗。", "猫", "狗看见猫。", "马怕", "鸟喜欢马。"]
    together = translate(learned, corpus, mixed)
    assert together == [translate(learned, corpus, [each])[0] for each in mixed]


def test_held_out_sentences_are_scored_against_what_stood_in_the_file(learned: Transformer, corpus: Corpus) -> None:
    whole = score(learned, corpus)
    assert whole.n == len(corpus.held_out) == 4 and 0 < whole.bleu <= 100 and 0 < whole.chrf <= 100
    assert whole == score(learned, corpus) and re.match(r"nrefs:1\|case:mixed\|.*\|tok:13a\|", whole.signature)
    assert score(learned, corpus, n=3, seed=1).n == 3
    other = dataclasses.replace(corpus, references=("Nothing of the kind",) * 4)
    assert score(learned, other).bleu < 5
    with pytest.raises(ValueError, match="n is 5; it must lie between 1 and 4"):
        score(learned, corpus, n=5)
    with pytest.raises(ValueError, match="it was made for another corpus"):
        score(learned, builtin())
    with pytest.raises(ValueError, match="width is 0"):
        translate(learned, corpus, ["猫"], width=0)


def test_bleu_and_chrf_by_hand() -> None:
    same = measure(["A b c d e."], ["A b c d e."])
    assert (same.bleu, same.chrf) == (pytest.approx(100), pytest.approx(100))
    # 7 tokens; 6, 4, 2 and 1 of the 7, 6, 5 and 4 runs of one to four stand in the reference; as long, so no penalty.
    one = measure(["The cat sat on the mat."], ["The cat sat on a mat."])
    assert one.bleu == pytest.approx(100 * (6 / 7 * 4 / 6 * 2 / 5 * 1 / 4) ** (1 / 4))
    chinese = measure(["我看书。"], ["我看书。"], "zh")
    assert chinese.bleu == pytest.approx(100) and "tok:zh" in chinese.signature, "four characters, so runs of four"
    for answers, references in (([], []), (["a"], [])):
        with pytest.raises(ValueError, match="each translation needs one"):
            measure(answers, references)


# ---- the command


def told(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> tuple[str, str]:
    assert main(["translate", *arguments]) == status
    return capsys.readouterr()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "animals.tsv"
    path.write_text(TEXT + "\n\nonly one side\n", encoding="utf-8")
    return path


SMALL = ("--set", "d_model=16", "--set", "n_heads=2", "--set", "d_ff=16", "--steps", "3", "--min-count", "1")


def test_the_command_learns_saves_and_translates_again(file: Path, tmp_path: Path, capsys, monkeypatch) -> None:
    weights = tmp_path / "w.safetensors"
    text, _ = told(capsys, "--pairs", str(file), *SMALL, "--save", str(weights), "猫看见狗。", "火星")
    assert "animals.tsv: 38 lines, 34 pairs to learn, 2 held out (no source is in both)" in text
    assert "left out, blank lines: 1 (line 37)" in text and "left out, lines without exactly two" in text
    assert "step 3/3" in text and "On 2 held-out sentences: BLEU" in text and "words are not in the vocabulary)" in text
    monkeypatch.setattr("sys.stdin", io.StringIO("猫看见狗。\n\n"))
    again, _ = told(capsys, "--pairs", str(file), "--weights", str(weights), "--json")
    lines = [json.loads(line) for line in again.splitlines()]
    assert lines[0]["score"]["n"] == 2 and lines[1]["source"] == "猫看见狗。" and len(lines) == 2
    assert f"  {lines[1]['translation']}\n" in text

    file.write_text(file.read_text(encoding="utf-8") + "Hi.\t嗨。\n", encoding="utf-8")
    for arguments, sentence in (
        (("--pairs", str(file)), "animals.tsv is not the file from which this run learned"),
        ((), "this run learned from animals.tsv; give that file with --pairs"),
    ):
        _, error = told(capsys, "--weights", str(weights), *arguments, status=2)
        assert sentence in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("猫看见狗。", "猫" * 99), "words and signs; 1 to 20 can be translated"),
        (("--width", "65"), "width is 65; it must lie between 1 and 64"),
        (("--set", "training.task=copy"), "training.task cannot be set here"),
        (("--set", "d_model=65536"), "too large to train here"),
        (("--set", "max_seq_len=1048576", "--set", "d_model=1024"), "too large to train here"),
        (("--save", "nowhere/w"), "--save nowhere/w cannot be written"),
        (("--weights", "w", "--save", "v"), "--save goes with a training, not with --weights"),
        (("--weights", "w", "--direction", "backward"), "--direction goes with a training"),
    ],
)
def test_what_cannot_be_is_refused_before_the_training(file: Path, capsys, monkeypatch, arguments, sentence) -> None:
    monkeypatch.setattr("transformer_core.commands.translate.train", lambda *_: pytest.fail("a step was taken"))
    _, error = told(capsys, *arguments, "--pairs", str(file), status=2)
    assert sentence in error and error.count("\n") == 1


def test_the_built_in_sentences_are_not_cut(capsys: pytest.CaptureFixture[str]) -> None:
    _, error = told(capsys, "--min-count", "5", status=2)
    assert error == "--min-count goes with a training from --pairs; here it would change nothing\n"


def test_what_a_file_taught_is_repeated_and_decoded_with_that_file(file: Path, tmp_path: Path, capsys) -> None:
    weights, pairs = str(tmp_path / "w.safetensors"), ("--pairs", str(file))
    assert main(["translate", *pairs, *SMALL, "--save", weights, "猫看见狗。"]) == 0
    assert main(["replay", weights, *pairs]) == 0
    assert "All 3 losses are the same to the last digit." in capsys.readouterr().out
    assert main(["decode", "--weights", weights, *pairs, "--sentences", "1", "--max-length", "2"]) == 0
    for command, arguments, sentence in (
        ("replay", [weights], "this run learned from animals.tsv; give that file with --pairs"),
        ("decode", ["--weights", weights], "this run learned from animals.tsv; give that file with --pairs"),
        ("train", ["--resume", weights, *pairs], "this run has taken all its 3 steps; replay repeats it"),
        ("train", ["copy", *pairs], "--pairs goes with --resume"),
    ):
        capsys.readouterr()
        assert main([command, *arguments]) == 2
        error = capsys.readouterr().err
        assert sentence in error and error.count("\n") == 1


def test_the_command_as_json_tells_what_became_of_the_file(file: Path, capsys) -> None:
    text, _ = told(capsys, "--pairs", str(file), *SMALL, "--json", "--direction", "backward", "The cat sees it.")
    lines = [json.loads(line) for line in text.splitlines()]
    assert lines[0]["corpus"]["report"]["dropped"][0] == {"reason": "blank", "count": 1, "lines": [37]}
    assert [line["step"] for line in lines[1:4]] == [1, 2, 3] and lines[4]["score"]["signature"].count("tok:zh") == 1
    assert lines[5]["source"] == "The cat sees it." and lines[5]["unknown"] == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--pairs", "nowhere.tsv"), '"nowhere.tsv" cannot be read: No such file or directory'),
        (("--weights", "nowhere"), '"nowhere" cannot be read'),
        (("--direction", "up"), 'direction is "up"'),
        (("--steps", "0"), "steps is 0"),
        (("--set", "d_modl=3"), "no setting"),
    ],
)
def test_the_command_refuses_in_one_sentence(arguments: tuple[str, ...], text: str, capsys) -> None:
    _, error = told(capsys, *arguments, "猫", status=2)
    assert text in error and error.count("\n") == 1 and "Traceback" not in error


# ---- real sentences


@pytest.mark.skipif(not REAL.exists(), reason="the real sentence pairs (../shared/data/cmn-eng.tsv) are not here")
def test_real_pairs_are_read_cut_and_split() -> None:
    pairs = read_pairs(REAL.read_bytes())
    assert len(pairs) == 20_133 == pairs.read and pairs.languages == ("zh", "other") and pairs.dropped == ()
    broken = [each for each in pairs.targets if join(split(each)) != each]
    assert len(broken) < 0.001 * len(pairs), "only plural possessives, such as friends' houses"
    corpus = make_corpus(pairs, name=REAL.name)
    lost = sum(each["count"] for each in corpus.report["dropped"])
    assert len(corpus.train) + len(corpus.held_out) + lost == 20_133 and len(corpus.held_out) > 900
    assert not {src for src, _ in corpus.train} & {src for src, _ in corpus.held_out}
    assert 3000 < len(corpus.tgt_symbols) < 4500 and max(corpus.longest) <= 20
    assert 0 < corpus.report["unknown"]["tgt_train"] < 0.05
    text = "\n".join(f"{b}\t{a}" for a, b in zip(pairs.sources, pairs.targets, strict=True))
    assert read_pairs(text.replace("\n", "\r\n").encode("utf-16")).targets == pairs.targets
