"""Hand-written attention beside F.scaled_dot_product_attention: how far apart, and how long each takes.

Ours keeps scores and weights, so that they can be looked at; torch's kernel may never write them down. The price of
seeing them is measured here, on this machine, now.
"""

import statistics
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_core import attention, masks
from transformer_core.parity.plain import plain

DTYPES = ("float64", "float32", "bfloat16", "float16")
LENGTHS = (8, 32, 128, 512)
ROUNDS, LEAST = 9, 0.003
"""How many pairs of turns make a row, and the fewest seconds of one turn."""
SIZE = (2, 4, 16)
"""Sentences, heads and d_head of the row's attention."""


@dataclass(frozen=True)
class SpeedRow:
    """One attention under a causal mask. ``error`` is the largest difference of the contexts; ``ratio`` our time by
    torch's, a median over turns taken in alternation, and ``low`` and ``high`` its quartiles."""

    device: str
    dtype: str
    length: int
    error: float
    ratio: float
    low: float
    high: float
    ours_ms: float
    theirs_ms: float

    def to_row(self) -> dict[str, Any]:
        """Plain data that JSON can hold."""
        return plain(self)


def present_devices() -> list[str]:
    """Every kind of device that torch finds here."""
    found = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    return [name for name, there in found.items() if there]


def attention_speed(
    dtypes: Collection[str] = DTYPES,
    lengths: Collection[int] = LENGTHS,
    devices: Collection[str] | None = None,
    *,
    rounds: int = ROUNDS,
    seed: int = 7,
) -> Iterator[SpeedRow]:
    """A row for every device, dtype and length; devices that lack a dtype are left out (mps has no float64).

    Raises:
        ValueError: a device that is not here.
    """
    present = present_devices()
    for device in present if devices is None else devices:
        if device not in present:
            raise ValueError(f"the device {device} is not here; {', '.join(present)} are")
        for dtype in dtypes:
            if (device, dtype) != ("mps", "float64"):
                for length in lengths:
                    yield _row(device, dtype, length, rounds, seed)


@torch.no_grad()
def _row(device: str, dtype: str, length: int, rounds: int, seed: int) -> SpeedRow:
    sentences, heads, d_head = SIZE
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randn(3, sentences, heads, length, d_head, generator=generator)
    q, k, v = drawn.to(device, getattr(torch, dtype))
    allowed = masks.causal(length).to(device)

    def ours() -> Tensor:
        return attention.attend(q, k, v, allowed)[0]

    def theirs() -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)

    error = float((ours().double().cpu() - theirs().double().cpu()).abs().max())
    repeats = [max(1, round(LEAST / max(_seconds(work, 1, device), 1e-6))) for work in (ours, theirs)]
    turns = []
    for turn in range(rounds):
        spent = [0.0, 0.0]
        for side in (0, 1) if turn % 2 else (1, 0):
            spent[side] = _seconds((ours, theirs)[side], repeats[side], device)
        turns.append((spent[0], spent[1]))
    ratios = [mine / its for mine, its in turns]
    low, middle, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
    mine, its = (1000 * statistics.median(side) for side in zip(*turns, strict=True))
    return SpeedRow(device, dtype, length, error, middle, low, high, mine, its)


def _seconds(work: Callable[[], object], repeats: int, device: str) -> float:
    """The mean time of one call; on the CPU its own time, so that other programs do not count."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    _wait(device)
    start = clock()
    for _ in range(repeats):
        work()
    _wait(device)
    return max((clock() - start) / repeats, 1e-9)


def _wait(device: str) -> None:
    """Until the device has done what it was given: it works on while Python goes ahead."""
    if device == "cuda":
        torch.cuda.synchronize()
    elif device == "mps":
        torch.mps.synchronize()
