"""Error and speed of hand-written attention: the numbers are live, the order of the rows is that of the question."""

import pytest
import torch

from transformer_core import attention
from transformer_core.parity import attention_speed, present_devices

BOUND = {"float64": 1e-12, "float32": 2e-6, "bfloat16": 0.05, "float16": 0.01}


def test_every_dtype_and_length_is_measured_on_every_device() -> None:
    rows = list(attention_speed(lengths=(3, 17), rounds=3))
    assert {row.device for row in rows} == set(present_devices()) and "cpu" in present_devices()
    here = [row for row in rows if row.device == "cpu"]
    assert [(row.dtype, row.length) for row in here] == [(dtype, length) for dtype in BOUND for length in (3, 17)]
    for row in here:
        assert row.error <= BOUND[row.dtype]
        assert 0 < row.low <= row.ratio <= row.high and row.ours_ms > 0 and row.theirs_ms > 0
    errors = {row.dtype: row.error for row in here if row.length == 17}
    assert errors["float64"] < errors["float32"] < errors["float16"] < errors["bfloat16"], (
        "coarser numbers, larger error"
    )


def test_a_slower_attention_has_a_larger_ratio(monkeypatch: pytest.MonkeyPatch) -> None:
    (usual,) = attention_speed(("float32",), (64,), ("cpu",))
    once = attention.attend

    def twenty_times(*given: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        for _ in range(19):
            once(*given)
        return once(*given)

    monkeypatch.setattr(attention, "attend", twenty_times)
    (slow,) = attention_speed(("float32",), (64,), ("cpu",))
    assert slow.ratio > 5 * usual.ratio


def test_a_wrong_attention_has_a_larger_error(monkeypatch: pytest.MonkeyPatch) -> None:
    once = attention.attend
    monkeypatch.setattr(attention, "attend", lambda q, k, v, allowed: once(q, k, v, allowed, scale=False))
    (row,) = attention_speed(("float64",), (16,), ("cpu",), rounds=2)
    assert row.error > 0.1


def test_it_can_be_stopped_and_a_row_is_plain_data() -> None:
    row = next(attention_speed(("float32",), (5,), rounds=1)).to_row()
    assert row["device"] == "cpu" and row["length"] == 5 and isinstance(row["ratio"], float)


def test_a_device_that_is_not_here_is_refused() -> None:
    with pytest.raises(ValueError, match="the device abacus is not here; cpu"):
        next(attention_speed(devices=("abacus",)))
