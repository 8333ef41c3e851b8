"""The ledger: paths, axes, steps, threads; looking changes nothing."""

import json
import threading
from pathlib import Path

import pytest
import torch
from torch import nn

from transformer_core.config import ModelConfig
from transformer_core.ledger import Ledger, ShapeError, Source, note, summary, trace
from transformer_core.model import build

SRC = torch.tensor([[5, 6, 7, 8, 9, 10, 11], [12, 13, 14, 0, 0, 0, 0], [4, 5, 6, 7, 8, 0, 0]])
TGT = torch.tensor([[1, 4, 5, 6, 7], [1, 8, 9, 0, 0], [1, 4, 0, 0, 0]])


@pytest.fixture
def model():
    return build(ModelConfig(d_model=15, n_heads=3, d_ff=11, src_vocab_size=19, tgt_vocab_size=23), seed=7).eval()


class Noting(nn.Module):
    """A module whose forward is a list of notes, so that a test can write any mistake."""

    def __init__(self, *notes):
        super().__init__()
        self.notes = notes

    def forward(self, x):
        for name, value, axes in self.notes:
            note(name, value, axes)
        return x


def run(*notes):
    model = Noting(*notes)
    with trace(model) as ledger:
        model(torch.zeros(1))
    return ledger


def test_note_without_a_trace_does_nothing_and_does_not_call_its_function():
    assert note("x", lambda: pytest.fail("called without a trace"), "B") is None


def test_traced_and_untraced_outputs_are_bit_identical(model):
    plain = model(SRC, TGT)
    with trace(model):
        traced = model(SRC, TGT)
    assert torch.equal(plain, traced)


def test_gradients_are_bit_identical_under_a_trace(model):
    gradients = []
    for traced in (False, True):
        model.zero_grad()
        if traced:
            with trace(model):
                loss = model(SRC, TGT).square().mean()
        else:
            loss = model(SRC, TGT).square().mean()
        loss.backward()
        gradients.append([p.grad.clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))


def test_entries_are_detached_references_to_what_was_computed(model):
    with trace(model) as ledger:
        logits = model(SRC, TGT)
    entry = ledger["logits"]
    assert not entry.value.requires_grad
    assert entry.value.data_ptr() == logits.data_ptr()


def test_a_key_is_path_and_name_and_the_source_is_the_line_of_the_note(model):
    with trace(model) as ledger:
        model(SRC, TGT)
    entry = ledger["decoder.layers.1.cross_attention/weights"]
    assert entry.axes == ("B", "H", "q", "k")
    assert entry.shape == (3, 3, 5, 7)
    line = Path(entry.source.file).read_text(encoding="utf-8").splitlines()[entry.source.line - 1]
    assert line.strip() == 'note("weights", weights, "B H q k")'
    assert entry.source.function == "attend"
    assert str(entry.source).startswith("transformer_core/attention.py:")


def test_sizes_name_every_upper_case_axis(model):
    with trace(model) as ledger:
        model(SRC, TGT)
    assert ledger.sizes == {"B": 3, "S": 7, "T": 5, "D": 15, "H": 3, "Dh": 5, "F": 11, "V": 23}


def test_an_unknown_key_names_similar_ones(model):
    with trace(model) as ledger:
        model(SRC, TGT)
    with pytest.raises(KeyError, match=r"no tensor 'encoder/weights'.*encoder\.layers\.0\.self_attention/weights"):
        ledger["encoder/weights"]


def test_an_upper_case_axis_has_one_size_in_a_call_of_the_model():
    with pytest.raises(ShapeError, match=r"b: noted as \(B, D\) with shape \(2, 5\); D is 5 here but 3 before"):
        run(("a", torch.zeros(2, 3), "B D"), ("b", torch.zeros(2, 5), "B D"))


def test_a_lower_case_axis_has_one_size_in_a_call_of_a_module():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Noting(("a", torch.zeros(3), "n"))
            self.second = Noting(("a", torch.zeros(5), "n"))

        def forward(self, x):
            return self.second(self.first(x))

    model = Twice()
    with trace(model) as ledger:
        model(torch.zeros(1))
    assert [entry.shape for entry in ledger] == [(3,), (5,)]
    with pytest.raises(ShapeError, match="n is 5 here but 3 before"):
        run(("a", torch.zeros(3), "n"), ("b", torch.zeros(5), "n"))


def test_a_wrong_number_of_axes_says_both_numbers():
    with pytest.raises(ShapeError, match=r"noted as \(B, S, D\) with shape \(2, 3\); 3 axes were named, .* has 2"):
        run(("x", torch.zeros(2, 3), "B S D"))


def test_the_ledger_keeps_the_rows_before_a_shape_error():
    model = Noting(("good", torch.zeros(2), "B"), ("bad", torch.zeros(3), "B"))
    with pytest.raises(ShapeError) as error, trace(model) as ledger:
        model(torch.zeros(1))
    assert ledger.keys() == ["good"]
    assert error.value.ledger is ledger


def test_hooks_are_gone_after_a_trace_even_after_an_error(model):
    with pytest.raises(ValueError), trace(model):
        model(SRC + 100, TGT)
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in model.modules())


def test_a_call_that_failed_does_not_spoil_the_paths_of_the_next(model):
    with trace(model) as ledger:
        with pytest.raises(ValueError, match="does not broadcast"):
            model.decoder(torch.zeros(3, 5, 15), torch.ones(2, 2, dtype=torch.bool))
        model(SRC, TGT)
    assert [entry.path for entry in ledger if entry.name == "src"] == [""]
    assert ledger["decoder.layers.1.cross_attention/weights"].shape == (3, 3, 5, 7)


def test_each_call_of_the_model_is_a_step_with_sizes_of_its_own(model):
    with trace(model) as ledger:
        model(SRC, TGT)
        model(SRC[:, :3], TGT[:, :2])
    assert {entry.step for entry in ledger} == {0, 1}
    assert ledger["memory"].shape == (3, 3, 15)
    assert ledger.sizes["T"] == 2


def test_a_decoding_loop_counts_its_steps_by_itself(model):
    with trace(model) as ledger:
        memory = model.encode(SRC)
        for length in (1, 2, 3):
            model.decode(TGT[:, :length], memory, SRC)
    inputs = [entry for entry in ledger if entry.key == "decoder/input"]
    assert [(entry.step, entry.shape[1]) for entry in inputs] == [(0, 1), (1, 2), (2, 3)]


def test_traces_of_two_threads_on_one_model_do_not_mix(model):
    ledgers, barrier = {}, threading.Barrier(2)

    def work(name, batch):
        barrier.wait()
        for _ in range(20):
            with trace(model) as ledger:
                model(SRC[:batch], TGT[:batch])
            ledgers.setdefault(name, []).append(ledger)

    threads = [threading.Thread(target=work, args=(name, batch)) for name, batch in (("a", 3), ("b", 2))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with trace(model) as alone:
        model(SRC, TGT)
    for name, batch in (("a", 3), ("b", 2)):
        assert len(ledgers[name]) == 20
        for ledger in ledgers[name]:
            assert ledger.keys() == alone.keys()
            assert len(ledger) == len(alone)
            assert ledger.sizes["B"] == batch


def test_a_module_traced_alone_has_paths_from_itself(model):
    attention = model.encoder.layers[0].self_attention
    with trace(attention) as ledger:
        attention(torch.zeros(2, 3, 15), torch.zeros(2, 3, 15))
    assert ledger.keys() == ["q", "k", "v", "scores", "allowed", "weights", "heads", "output"]


def test_rows_are_plain_data_with_every_column(model):
    with trace(model) as ledger:
        model(SRC, TGT)
    rows = ledger.to_rows()
    assert set(rows[0]) == set(
        "index step path name axes shape dtype device stride contiguous bytes formula paper source "
        "min max mean std nan inf".split()
    )
    assert json.loads(json.dumps(rows, allow_nan=False)) == rows
    row = next(row for row in rows if row["name"] == "weights")
    assert row["bytes"] == 3 * 3 * 7 * 7 * 4
    assert row["min"] == 0.0 and row["nan"] == 0
    assert "softmax" in row["formula"] and row["paper"].startswith("3.2.1")


def test_formulas_are_written_for_the_settings_of_the_run():
    for activation, sign in (("relu", "max"), ("gelu", "GELU")):
        model = build(ModelConfig(activation=activation)).eval()
        with trace(model) as ledger:
            model(SRC, TGT)
        row = next(row for row in ledger.to_rows(statistics=False) if row["name"] == "hidden")
        assert sign in row["formula"] and row["min"] is None


def test_statistics_by_hand():
    assert summary(torch.tensor([2.0, 4.0, 4.0, 6.0])) == {
        "min": 2.0, "max": 6.0, "mean": 4.0, "std": pytest.approx(2**0.5), "nan": 0, "inf": 0,
    }  # fmt: skip


def test_statistics_count_nan_and_infinity_and_describe_the_rest():
    got = summary(torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 3.0]))
    assert got == {"min": 1.0, "max": 3.0, "mean": 2.0, "std": 1.0, "nan": 1, "inf": 2}
    assert summary(torch.tensor([float("nan")]))["min"] is None
    assert summary(torch.full((4,), 3e38))["mean"] == pytest.approx(3e38)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16", "int64", "bool"])
def test_statistics_agree_with_torch_in_every_dtype(dtype):
    generator = torch.Generator().manual_seed(7)
    value = (torch.rand(11, 13, generator=generator) * 5).to(getattr(torch, dtype))
    wide = value.to(torch.float64)
    got = summary(value)
    assert got["min"] == pytest.approx(wide.min().item()) and got["max"] == pytest.approx(wide.max().item())
    assert got["mean"] == pytest.approx(wide.mean().item(), rel=1e-5)
    assert got["std"] == pytest.approx(wide.std(correction=0).item(), rel=1e-4)


def test_meta_tensors_are_rows_without_statistics():
    model = build(ModelConfig(), device="meta")
    with trace(model) as ledger:
        model(SRC.to("meta"), TGT.to("meta"))
    rows = ledger.to_rows()
    assert len(rows) == len(ledger) and all(row["min"] is None for row in rows)
    assert ledger["logits"].shape == (3, 5, 97)


def test_an_entry_recorded_by_hand_needs_no_model():
    ledger = Ledger()
    ledger.record("x", torch.zeros(2, 3), "B D", Source("somewhere.py", 5, "f"))
    assert ledger["x"].shape == (2, 3) and str(ledger["x"].source) == "somewhere.py:5" and "x" in ledger
