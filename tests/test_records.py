"""Records of runs: nothing is lost on the way out and in, strangers' files are refused in a sentence, runs repeat."""

import csv
import io
import itertools
import json
import struct
from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from transformer_core import build, tasks
from transformer_core.config import ConfigError
from transformer_core.records import (
    RunRecord,
    continued,
    load_training,
    load_weights,
    read_record,
    record_of,
    replay,
    resume,
    save_weights,
    to_csv,
)
from transformer_core.records import reading as reader
from transformer_core.records.making import commit, fingerprint, machine
from transformer_core.training import StepReport, Training, train
from transformer_core.translation import builtin

MODEL = tasks.get("reverse").model.replace(d_model=20, n_heads=5, d_ff=23, n_encoder_layers=1, n_decoder_layers=1)
TRAINING = tasks.get("reverse").training.replace(batch_size=3, steps=7)


def recorded(steps: int = 4, seed: int = 5, **how: Any) -> tuple[RunRecord, Training, Sequence[StepReport]]:
    """A short run of reverse, its record, and the training where it stands."""
    settings = {"model": MODEL, "masks": tasks.get("reverse").masks, "training": TRAINING, "seed": seed, **how}
    model = build(settings["model"], settings["masks"], seed=seed)
    changes = how.get("rate_changes", ())
    training = train(model, tasks.get("reverse"), settings["training"], seed, rate_changes=changes)
    reports = list(itertools.islice(training, steps))
    return record_of(**settings, reports=reports, ended="paused", seconds=0.25), training, reports


def refusal(text: str | bytes) -> str:
    """The sentence, without the quotes around what was given."""
    with pytest.raises(ConfigError) as caught:
        RunRecord.from_json(text)
    return str(caught.value).replace('"', "")


def changed(record: RunRecord, **keys: Any) -> str:
    return json.dumps(json.loads(record.to_json()) | keys)


# ---- what is in it


def test_a_record_says_what_was_run_and_where() -> None:
    record, _, reports = recorded(rate_changes=((3, 0.01),))
    assert (record.task, record.seed, record.steps, record.ended) == ("reverse", 5, 4, "paused")
    assert (record.torch, record.threads) == (torch.__version__, torch.get_num_threads())
    assert record.platform == machine() and torch.backends.cpu.get_cpu_capability() in machine()
    assert record.parameters == sum(weight.numel() for weight in build(MODEL).parameters())
    assert len(record.source) == 64 and record.source == fingerprint()
    assert record.commit == commit() and len(record.commit) in (0, 40)
    assert record.rate_changes == ((3, 0.01),)
    for name, of in (("losses", "loss"), ("accuracies", "accuracy"), ("rates", "rate"), ("grad_norms", "grad_norm")):
        assert getattr(record, name) == tuple(getattr(report, of) for report in reports)


def test_a_record_comes_back_from_its_text_as_it_was() -> None:
    record, *_ = recorded()
    looks = [{"step": 2, "said": "对 ✓", "deep": [[0.1, None, True]]}]
    full = record.replace(looks=looks, result={"exact_match": 1 / 3})
    text = full.to_json()
    assert RunRecord.from_json(text) == full
    assert RunRecord.from_json(("\ufeff" + text).encode()) == full
    assert "\\u" not in text, "Chinese stays readable"
    assert len(full.without_curves().to_json()) < 3000


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_every_number_reads_back_as_the_very_same(numbers: list[float]) -> None:
    record = RunRecord(steps=len(numbers), losses=numbers)
    again = RunRecord.from_json(record.to_json()).losses
    assert [struct.pack("d", each) for each in again] == [struct.pack("d", each) for each in numbers]


def test_numbers_that_json_lacks_are_null_in_looks_and_refused_in_curves() -> None:
    """H28: a perplexity may be infinite; a loss that is not finite was never a step."""
    record, *_ = recorded(1, looks=[{"perplexity": float("inf")}], result={"loss": float("nan")})
    assert record.looks == ({"perplexity": None},) and record.result == {"loss": None}
    with pytest.raises(ConfigError, match="losses step 2 must be a finite number, got nan"):
        RunRecord(steps=2, losses=(1.0, float("nan")))


def test_a_table_for_a_spreadsheet_is_utf8_with_its_mark_and_exact() -> None:
    """H37."""
    record, *_ = recorded()
    text = to_csv(record)
    assert text.encode().startswith(b"\xef\xbb\xbf")
    head, *rows = csv.reader(io.StringIO(text.removeprefix("\ufeff")))
    assert head == ["step", "loss", "accuracy", "rate", "grad_norm"]
    assert [int(row[0]) for row in rows] == [1, 2, 3, 4]
    curves = (record.losses, record.accuracies, record.rates, record.grad_norms)
    assert [tuple(float(cell) for cell in column) for column in list(zip(*rows, strict=True))[1:]] == list(curves)
    assert to_csv(record.without_curves()).splitlines()[1:] == []


# ---- what is refused


def test_what_is_no_record_is_refused_in_a_sentence() -> None:
    record, *_ = recorded(1)
    version = "the record is of version 2, and this program reads version 1"
    assert version in refusal(changed(record, version=2))
    assert "[record] has no losse; the nearest is losses" in refusal(changed(record, losse=[]))
    assert "The nearest is reverse" in refusal(changed(record, task="revers"))
    assert "the record is of the task copy, and here reverse is wanted" in refusal(changed(record, task="copy"))
    assert "losses holds 2 numbers, but 1 steps were taken" in refusal(changed(record, losses=[1.0, 2.0]))
    assert "9 steps were taken, but the training has 7" in refusal(
        changed(record, steps=9, losses=[], accuracies=[], rates=[], grad_norms=[])
    )
    assert "d_model 20 is not divisible by 7 heads" in refusal(
        changed(record, model=MODEL.replace().to_dict() | {"n_heads": 7})
    )
    assert "rate_changes 1, rate is -1" in refusal(changed(record, rate_changes=[[2, -1]]))
    assert "as in [200, 0.001]" in refusal(changed(record, rate_changes=[[2]]))
    assert "rate_changes 2, step is 2" in refusal(changed(record, rate_changes=[[3, 0.1], [2, 0.1]]))
    assert "64 digits" in refusal(changed(record, corpus={"name": "x", "sha256": "12"}))
    assert "the nearest is sha256" in refusal(changed(record, corpus={"sha": "12"}))
    assert "The nearest is no_scaling" in refusal(changed(record, fault="no_scalin"))
    lacking = json.loads(record.to_json())
    del lacking["masks"], lacking["seed"]
    assert "the record lacks masks, seed, so" in refusal(json.dumps(lacking))


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "not valid JSON"),
        ("{", "not valid JSON"),
        ("[]", "this is no record of a run: it begins with"),
        ('{"format": "other"}', "a record is JSON whose format is transformer-ledger run"),
        ('{"a": NaN}', "NaN is no number of JSON"),
        ('{"a": 1, "b": 2, "a": 3}', 'a stands twice'),
        ("[" * 100_000, "nested too deeply"),
        ("[" * 500_000, "larger than can be read"),
        ('{"a": ' + "9" * 5000 + "}", "not valid JSON"),
        (b"\x80\x04\x95\x1d\x00\x00\x00c__builtin__\neval\n", "this is no record"),
        ("__import__('os').system('true')", "not valid JSON"),
    ],
)  # fmt: skip
def test_a_strangers_file_is_read_and_refused(text: str | bytes, said: str) -> None:
    assert said in refusal(text)


def test_a_file_too_large_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MAX_BYTES", 1000)
    monkeypatch.setattr(reader.json, "loads", lambda *_, **__: pytest.fail("it was read"))
    assert "at most 1000 bytes" in refusal("x" * 1001)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda each: st.lists(each) | st.dictionaries(
    st.text(), each), max_leaves=8), st.sampled_from(RunRecord.keys()))  # fmt: skip
def test_anything_in_any_place_is_taken_or_refused_in_a_sentence(value: Any, key: str) -> None:
    text = changed(RunRecord(), **{key: value}) if value == value else "{}"
    try:
        assert RunRecord.from_json(text)
    except ConfigError as error:
        assert 0 < len(str(error)) < 2000 and "\n" not in str(error)


def test_a_record_of_another_task_says_so() -> None:
    record, *_ = recorded(1)
    record.check_task("reverse")
    with pytest.raises(ConfigError, match=r"the record is of the task .*reverse.*, and here copy is wanted"):
        record.check_task("copy")


# ---- once more


def test_a_run_repeats_bit_for_bit_and_a_difference_is_seen() -> None:
    """H38."""
    record, *_ = recorded(rate_changes=((2, 0.5),))
    again = list(replay(RunRecord.from_json(record.to_json())))
    assert [each.loss for each in again] == list(record.losses) and all(each.equal for each in again)
    assert [each.step for each in replay(record, steps=2)] == [1, 2]
    off = record.replace(losses=(*record.losses[:2], record.losses[2] * (1 + 2**-50), record.losses[3]))
    assert [each.equal for each in replay(off)] == [True, True, False, True]
    other = record.replace(rate_changes=())
    assert [each.equal for each in replay(other)] == [True, True, False, False], "a rate is felt one loss later"
    assert all(each.recorded is None and each.equal for each in replay(record.without_curves(), steps=1))


def test_a_run_with_a_fault_repeats_with_it() -> None:
    from transformer_core.faults import FAULTS

    shop = FAULTS["target_not_shifted"].shop
    task = shop.tasks.get("reverse")
    training = shop.training.train(shop.model.build(MODEL, task.masks, seed=5), task, TRAINING, 5)
    reports = list(itertools.islice(training, 3))
    record = record_of(model=MODEL, masks=task.masks, training=TRAINING, seed=5, reports=reports, ended="stopped",
                       seconds=1, fault="target_not_shifted")  # fmt: skip
    assert all(each.equal for each in replay(record))
    assert not all(each.equal for each in replay(record.replace(fault="")))


@pytest.mark.parametrize("with_state", [True, False])
def test_a_paused_run_goes_on_with_the_loss_it_would_have_had(with_state: bool) -> None:
    whole, *_ = recorded(7)
    record, training, _ = recorded(4)
    checkpoint = save_weights(training.model, record, training.state()) if with_state else None
    _, resumed = resume(RunRecord.from_json(record.to_json()), checkpoint)
    assert resumed.step == 4
    reports = list(resumed)
    assert [report.loss for report in reports] == list(whole.losses[4:])
    later = record_of(model=MODEL, masks=record.masks, training=TRAINING, seed=5, reports=reports, ended="finished",
                      seconds=0.5)  # fmt: skip
    joined = continued(record, later)
    assert (joined.steps, joined.losses, joined.ended, joined.seconds) == (7, whole.losses, "finished", 0.75)
    assert continued(record.without_curves(), later).losses == ()


def test_weights_of_another_step_than_their_record_are_not_gone_on_with() -> None:
    record, training, _ = recorded(steps=3)
    shorter = recorded(steps=2)[0]
    with pytest.raises(ValueError, match=r"after step 3 .* the record beside them is of 2 steps"):
        resume(shorter, save_weights(training.model, shorter, training.state()))
    changed_rate = record.replace(rate_changes=((2, 0.5),))
    with pytest.raises(ValueError, match="one was edited"):
        resume(changed_rate, save_weights(training.model, changed_rate, training.state()))


def test_weights_that_are_not_finite_are_refused() -> None:
    record, training, _ = recorded()
    with torch.no_grad():
        training.model.output.bias[3] = float("nan")
    with pytest.raises(ConfigError, match=r'"output\.bias" holds a number in these weights that is not finite'):
        load_weights(save_weights(training.model, record))


@pytest.mark.parametrize("device", ["cuda:99", "hpu", "vulkan", "quantum", ""])
def test_a_run_on_a_device_that_is_not_here_is_refused_in_a_sentence(device: str) -> None:
    record = recorded()[0].replace(device=device)
    with pytest.raises(ConfigError, match="torch cannot compute on it here"):
        next(replay(record))


@pytest.mark.parametrize("size", [2, 4, 1 << 24])
def test_no_letters_and_millions_of_them_are_refused_at_once(size: int) -> None:
    """The lesson with many letters has a task of its own, which is made from the record's vocabulary."""
    model = MODEL.replace(src_vocab_size=size, tgt_vocab_size=size)
    record = RunRecord(task="copy", model=model, steps=1)
    with pytest.raises(ValueError, match="the task copy needs src_vocab_size 17"):
        next(replay(record))


def test_a_record_does_not_make_the_system_run_out_of_threads() -> None:
    """With 65,536 of them OpenMP ends the process."""
    assert "threads is 65536" in refusal(changed(recorded()[0], threads=65536))


def test_a_run_that_cannot_be_repeated_is_not_gone_on_with() -> None:
    record, *_ = recorded(3)
    with pytest.raises(ValueError, match=r"the loss of step 2 is .* so this would be another run"):
        resume(record.replace(losses=(record.losses[0], 9.0, record.losses[2])))


def test_a_lesson_with_many_letters_repeats() -> None:
    from transformer_core.experiments.lesson import copy_of

    task = copy_of(31)
    recipe = TRAINING.replace(task="copy")
    small = task.model.replace(d_model=12, n_heads=3, d_ff=7, n_encoder_layers=1, n_decoder_layers=1)
    reports = list(itertools.islice(train(build(small, seed=2), task, recipe, 2), 3))
    record = record_of(model=small, masks=task.masks, training=recipe, seed=2, reports=reports, ended="paused",
                       seconds=1)  # fmt: skip
    assert all(each.equal for each in replay(record))


def test_a_translation_needs_the_sentences_it_learned_from() -> None:
    corpus = builtin()
    other = record_of(
        model=tasks.get("translation").model, masks=tasks.get("translation").masks, reports=[], seed=1,
        training=tasks.get("translation").training, ended="paused", seconds=0, corpus=corpus,
    ).replace(corpus={"name": "mine.tsv", "sha256": "0" * 64, "options": {}, "counts": {}})  # fmt: skip
    with pytest.raises(ConfigError, match=r"learned from the corpus mine.tsv \(sha256 0{64}\), and .* was given"):
        next(replay(other.replace(steps=1)))


# ---- weights


def test_weights_come_back_with_their_record() -> None:
    record, training, _ = recorded(2, model=MODEL.replace(tie_weights=True))
    data = save_weights(training.model, record)
    again, weights = load_weights(data)
    assert again == record == read_record(data) and load_training(data) is None
    model = build(again.model, again.masks, seed=99)
    model.load_state_dict(weights)
    for name, weight in training.model.state_dict().items():
        assert torch.equal(model.state_dict()[name], weight), name
    state = load_training(save_weights(training.model, record, training.state()))
    assert state is not None and int(state["step"]) == 2


def test_weights_that_are_none_are_refused() -> None:
    record, training, _ = recorded(1)
    data = save_weights(training.model, record)
    wider = record.replace(model=MODEL.replace(d_ff=29))
    from safetensors.torch import save

    for bad, said in (
        (b"", "it is too short"),
        (b"\xff" * 9, "its header is longer than the file"),
        ((5).to_bytes(8, "little") + b"{oops", "its header is no JSON"),
        (data[:-40], "these are no weights in the safetensors format"),
        (save({"x": torch.zeros(2)}), "there is no record of a run beside these weights"),
        (save_weights(training.model, wider), r"\(23, 20\), and the model of the record has it \(29, 20\)"),
        (save(dict(training.model.state_dict()) | {"extra": torch.zeros(1)}, {"record": record.to_json()}), "extra"),
    ):
        with pytest.raises(ConfigError, match=said):
            load_weights(bad)
