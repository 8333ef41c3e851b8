"""H33: the lessons. Each answer quotes what was measured, and whoever runs a lesson again gets the same numbers."""

import dataclasses
import json
import re

import pytest
import torch

from transformer_core import tasks
from transformer_core.__main__ import main
from transformer_core.batches import Batch
from transformer_core.config import ModelConfig
from transformer_core.experiments import LESSONS, get, measuring, run_lesson
from transformer_core.experiments.lesson import DECODE, copy_of
from transformer_core.experiments.measuring import exact, sharpness
from transformer_core.model import build

NAMES = ["no_decoder_positions", "large_vocabulary", "no_scaling", "no_warmup_deep_post", "label_smoothing",
         "teacher_forcing_at_inference"]  # fmt: skip
EVERY = pytest.mark.parametrize("lesson", LESSONS.values(), ids=list(LESSONS))
TEXTS = ("title", "question", "answer")


def test_there_are_six_lessons():
    assert list(LESSONS) == NAMES
    with pytest.raises(ValueError, match=r"no lesson 'no_scalling'.* The nearest is no_scaling"):
        get("no_scalling")


@EVERY
def test_texts_stand_in_both_languages(lesson):
    for name in TEXTS:
        english, chinese = getattr(lesson, name), getattr(lesson, f"{name}_zh")
        assert english and not any("一" <= sign <= "鿿" for sign in english)
        assert any("一" <= sign <= "鿿" for sign in chinese)
    assert lesson.question.endswith("?") and lesson.question_zh.endswith("？")


def figures(text: str) -> list[str]:
    """Every number of a text that a measurement could have given: those with a point or a per cent sign.

    >>> figures("99.5 % of 300, a loss of 0.71")
    ['99.5%', '0.71']
    """
    without_sections = re.sub(r"section [\d.]+|[\d.]+ 节", "", text)
    return [f"{number}{'%' if sign else ''}" for number, sign in re.findall(r"(\d+(?:\.\d+)?)( ?%)?", without_sections)
            if sign or "." in number]  # fmt: skip


@EVERY
def test_every_figure_of_an_answer_was_measured(lesson):
    """H33: a figure is that of a run of this lesson, or one of its settings, to as many digits as it shows."""
    shares = {f"{100 * value:.{digits}f}%" for run in lesson.measured for digits in (0, 1)
              for value in (run.token, run.token_alone, run.exact, run.confidence)}  # fmt: skip
    numbers = {f"{value:.{digits}f}" for run in lesson.measured for digits in (1, 2, 3)
               for value in (run.loss, run.held_out_loss, run.sharp_before, run.sharp)}  # fmt: skip
    settings = {str(value) for variant in lesson.variants for config in (variant.model, variant.training)
                for value in config.to_dict().values()}  # fmt: skip
    settings |= {"0.01"} | {f"{variant.model.d_head**0.5:.1f}" for variant in lesson.variants}  # the peak; √d_k
    said = figures(lesson.answer)
    assert len(said) >= 2 and set(said) <= shares | numbers | settings
    assert sorted(said) == sorted(figures(lesson.answer_zh)), "both languages say the same"
    assert "seed" in lesson.answer and "种子" in lesson.answer_zh


@EVERY
def test_what_was_measured_is_of_these_variants(lesson):
    """A variant that is changed has to be measured anew: python -m benchmarks.lessons NAME."""
    runs = lesson.measured
    seeds = sorted({run.seed for run in runs})
    assert len(seeds) == 3
    assert [(run.seed, run.variant) for run in runs] == [
        (seed, variant.name) for seed in dict.fromkeys(run.seed for run in runs) for variant in lesson.variants
    ]
    for run in runs:
        variant = next(each for each in lesson.variants if each.name == run.variant)
        assert run.steps == variant.training.total_steps
        weights = build(variant.model, variant.masks, device="meta").parameters()
        assert run.parameters == sum(weight.numel() for weight in weights)
        assert run.seconds < 120
    assert lesson.command == f"python -m transformer_core lessons {lesson.name} --seed {runs[0].seed}"


@EVERY
def test_the_variants_of_a_lesson_are_of_one_task_and_fit_it(lesson):
    names = [variant.name for variant in lesson.variants]
    assert len(set(names)) == len(names) >= 2
    for variant in lesson.variants:
        assert variant.task.name == variant.training.task == lesson.task in tasks.TASKS
        assert variant.decode in DECODE and variant.title != variant.title_zh
        variant.task.check(variant.model)
    settings = [dataclasses.replace(variant, name="", title="", title_zh="") for variant in lesson.variants]
    assert all(one != other for i, one in enumerate(settings) for other in settings[:i])


@EVERY
def test_a_lesson_runs_a_step_at_a_time_and_repeats_itself(lesson, monkeypatch):
    """H38."""
    monkeypatch.setattr(measuring, "QUESTIONS", 31)
    runs = [list(run_lesson(lesson.name, 5, steps=2)) for _ in range(2 if lesson.name == "label_smoothing" else 1)]
    measured = [progress.measured for progress in runs[0] if progress.measured]
    assert [each.variant for each in measured] == [variant.name for variant in lesson.variants]
    assert {each.steps for each in measured} == {2} and {each.seed for each in measured} == {5}
    for run in runs[1:]:
        assert [progress.loss for progress in run] == [progress.loss for progress in runs[0]]


def test_only_decoding_otherwise_takes_no_training(monkeypatch):
    monkeypatch.setattr(measuring, "QUESTIONS", 31)
    steps = [progress.variant for progress in run_lesson("teacher_forcing_at_inference", 5, steps=3)]
    assert steps == ["greedy"] * 3 + ["forced"] + ["open_greedy"] * 3 + ["open_forced"]


def test_whole_answers_are_the_same_both_ways_where_the_mask_is_right():
    """A model that is right at every place with the right beginning gives itself the right beginning."""
    runs = {(run.variant, run.seed): run.exact for run in get("teacher_forcing_at_inference").measured}
    for seed in {seed for _, seed in runs}:
        assert runs["greedy", seed] == runs["forced", seed]
        assert runs["open_greedy", seed] < 0.01 and runs["open_forced", seed] > 0.99


def test_right_answers_are_counted_whole(monkeypatch):
    monkeypatch.setattr(measuring, "QUESTIONS", 31)
    lesson = get("teacher_forcing_at_inference")
    forced, variant = lesson.variants[1], lesson.variants[0]
    model = build(variant.model, variant.masks, seed=3)
    with torch.no_grad():
        model.output.weight.zero_(), model.output.bias.zero_()
        model.output.bias[2] = 1.0  # ends at once: never a whole word
    assert exact(model, variant, 3) == exact(model, forced, 3) == 0


def test_how_sharp_attention_is_by_hand():
    """With every score 0 a query looks evenly at the keys it may see: 1/5 and 1/2 in two sentences of 5 and 2."""
    model = build(ModelConfig(architecture="encoder", n_classes=2, src_vocab_size=13), seed=1)
    with torch.no_grad():
        for layer in model.encoder.layers:
            layer.self_attention.w_q.weight.zero_(), layer.self_attention.w_q.bias.zero_()
    batch = Batch(torch.tensor([[4, 5, 6, 7, 8], [4, 5, 0, 0, 0]]), None, torch.tensor([0, 1]))
    assert sharpness(model, batch) == pytest.approx((1 / 5 + 1 / 2) / 2)


def test_a_copy_of_more_letters_is_a_task_of_its_own():
    task = copy_of(300)
    batch = task.sample(2000, torch.Generator().manual_seed(7))
    assert (batch.src.min(), batch.src.max()) == (0, 303) and task.n_answers == 304
    assert sum(map(sum, task.odds)) == pytest.approx(1) and list(task.held_out) == ["new"]
    assert task.describe_tokens([[4, 303]]) == [["4", "303"]]


def test_the_command_tells_every_lesson_and_runs_one(capsys, monkeypatch):
    monkeypatch.setattr(measuring, "QUESTIONS", 31)
    assert main(["lessons"]) == 0
    text = capsys.readouterr().out
    assert all(f"{name}: {LESSONS[name].title}" in text for name in NAMES)
    assert max(map(len, text.splitlines())) <= 120
    assert main(["lessons", "label_smoothing", "--steps", "1", "--seed", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [run["variant"] for run in told["runs"]] == ["smoothed", "plain"] and told["seed"] == 3
    assert len(told["measured"]) == 6
    assert main(["lessons", "label_smoothing", "--steps", "1"]) == 0
    assert "Again, seed 3" not in (text := capsys.readouterr().out) and "Again, seed 7" in text
    assert main(["lessons", "no_scale"]) == 2
    assert "The nearest is no_scaling" in capsys.readouterr().err
