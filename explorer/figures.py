"""What to draw for a ledger entry, chosen by its axes and its kind of numbers, and how the numbers travel to the page.

A heat cell is one byte: 0 to 250 is the value, 125 the middle of a signed scale; 253 to 255 are the signs below.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from transformer_core.ledger import Entry

STEPS, MIDDLE = 250, 125
INFINITE, NOT_A_NUMBER, HIDDEN = 253, 254, 255
"""Signs instead of a value: ±∞, NaN, and a masked cell without probability."""

MAX_SIDE = 64
"""A map larger than this is drawn as block means, and says so."""
THUMB_SIDE = 32
WHOLE = 16_384
"""Up to this many numbers travel at once, so that changing head or sentence needs no answer from the server."""
BINS = 24


class Look(NamedTuple):
    """How an entry is drawn. ``kind``: probability (0 to 1), signed (centred at 0), mask (bool) or ids (tokens).

    ``rows`` and ``columns`` are the axes of one map; ``sample`` and ``head`` say whether there is one for each.
    """

    kind: str
    sample: bool
    head: bool
    rows: str
    columns: str

    @property
    def attends(self) -> bool:
        """Whether a cell is a pair of query and key, which a mask can hide."""
        return (self.rows, self.columns) == ("q", "k")


def look(axes: Sequence[str], dtype: torch.dtype, latex: str = "") -> Look:
    """The drawing for these axes. What came out of a softmax is a probability; its formula says so.

    >>> look(("B", "H", "q", "k"), torch.float32, r"\\mathrm{softmax}(s)")
    Look(kind='probability', sample=True, head=True, rows='q', columns='k')
    >>> look(("n", "D"), torch.float32)
    Look(kind='signed', sample=False, head=False, rows='n', columns='D')
    """
    if dtype == torch.bool:
        kind = "mask"
    elif not dtype.is_floating_point:
        kind = "ids"
    else:
        kind = "probability" if "softmax" in latex else "signed"
    *outer, rows, columns = ("", "", *axes)[-max(len(axes), 2) :]
    return Look(kind, "B" in outer, "H" in outer, rows, columns)


def token_side(path: str, name: str, axis: str) -> str:
    """Which sentence an axis counts: src, tgt, or "" when it counts features.

    >>> token_side("decoder.layers.0.cross_attention", "weights", "k")
    'src'
    """
    if axis in ("S", "T"):
        return {"S": "src", "T": "tgt"}[axis]
    if axis not in ("q", "k", "n"):
        return ""
    encoder = path.startswith(("encoder", "src")) or (axis == "k" and path.endswith("cross_attention"))
    return "src" if encoder else "tgt"


def panel(value: Tensor, seen: Look, sample: int, head: int) -> Tensor:
    """The map of one sentence and one head, two-dimensional."""
    if seen.sample:
        value = value[min(sample, value.shape[0] - 1)]
    if seen.head:
        value = value[min(head, value.shape[0] - 1)]
    return value.reshape(-1, value.shape[-1]) if value.dim() else value.reshape(1, 1)


def block_means(
    values: Tensor, side: int, counted: Tensor | None = None
) -> tuple[Tensor, Tensor | None, tuple[int, int]]:
    """Means over equal blocks so that the last two axes have at most ``side`` cells; also which blocks count at all.

    ``counted`` leaves cells out of the mean (masked pairs); a block without any is not counted. The last number is the
    size of a block, (1, 1) when nothing was merged.

    >>> block_means(torch.arange(6.0).reshape(1, 6), 3)[0].tolist()
    [[0.5, 2.5, 4.5]]
    """
    rows, columns = values.shape[-2:]
    high, wide = math.ceil(rows / side), math.ceil(columns / side)
    if high == wide == 1:
        return values, counted, (1, 1)
    weight = torch.ones_like(values, dtype=torch.float32) if counted is None else counted.expand(values.shape).float()
    total = _block_sums(torch.where(weight > 0, values.float(), 0.0), high, wide)
    number = _block_sums(weight, high, wide)
    return total / number.clamp(min=1), None if counted is None else number > 0, (high, wide)


def _block_sums(values: Tensor, high: int, wide: int) -> Tensor:
    rows, columns = values.shape[-2:]
    padded = torch.nn.functional.pad(values, (0, -columns % wide, 0, -rows % high))
    return padded.unflatten(-1, (-1, wide)).sum(-1).unflatten(-2, (-1, high)).sum(-2)


def codes(values: Tensor, kind: str, limit: float = 1.0, visible: Tensor | None = None) -> Tensor:
    """One byte a cell. ``limit`` is the end of a signed scale; a masked cell that carries probability keeps its value.

    >>> codes(torch.tensor([0.0, 0.5, float("nan")]), "probability").tolist()
    [0, 125, 254]
    """
    if kind == "mask":
        coded = torch.zeros(values.shape, dtype=torch.uint8, device=values.device)
        return coded.masked_fill(~values, HIDDEN)
    numbers = values.float()
    scaled = numbers * STEPS if kind == "probability" else MIDDLE + numbers * (MIDDLE / (limit or 1.0))
    coded = scaled.nan_to_num(0.0).round().clamp(0, STEPS).to(torch.uint8)
    if not torch.isfinite(numbers.sum()):
        coded = coded.masked_fill(numbers.isinf(), INFINITE).masked_fill(numbers.isnan(), NOT_A_NUMBER)
    if visible is not None:
        hidden = ~visible & (numbers == 0) if kind == "probability" else ~visible
        coded = coded.masked_fill(hidden, HIDDEN)
    return coded


def thumbs(value: Tensor, seen: Look, limit: float, visible: Tensor | None, side: int = THUMB_SIDE) -> dict[str, Any]:
    """The small maps of all sentences and heads: ``shape`` (sentences, heads, rows, columns), bytes in base64."""
    if visible is not None:
        visible = visible.expand(value.shape)
    if seen.kind == "mask":
        means, _, _ = block_means(value.float(), side)
        value, visible = means > 0, None
    else:
        value, visible, _ = block_means(value, side, visible)
    coded = codes(value, seen.kind, limit, visible)
    shape = (coded.shape[0] if seen.sample else 1, coded.shape[1 if seen.sample else 0] if seen.head else 1)
    return {"shape": [*shape, *coded.shape[-2:]], "data": packed(coded)}


def packed(value: Tensor) -> str:
    """The numbers of a tensor in base64: bytes as they are, everything else as float32, both little-endian."""
    number = value if value.dtype == torch.uint8 else value.to(torch.float32)
    return base64.b64encode(number.contiguous().cpu().numpy().tobytes()).decode("ascii")


def limit_of(value: Tensor) -> float:
    """The largest finite magnitude: both ends of a signed scale."""
    if not value.is_floating_point() or value.numel() == 0:
        return 1.0
    low, high = value.float().aminmax()
    end = max(abs(low.item()), abs(high.item()))
    if not math.isfinite(end):
        finite = value[value.isfinite()]
        end = finite.abs().max().item() if finite.numel() else 0.0
    return end or 1.0


def histogram(value: Tensor, low: float, high: float) -> list[int]:
    """How the numbers are spread between two ends, in BINS bins, the fullest as 100; [] when nothing can be shown."""
    numbers = value.reshape(-1).float().cpu()
    if not torch.isfinite(numbers.sum()):
        numbers = numbers[numbers.isfinite()]
    if numbers.numel() == 0 or not low < high:
        return []
    counts = torch.histc(numbers, BINS, low, high)
    return (counts * (100 / counts.max())).ceil().int().tolist()


def rounded(number: float | None, digits: int = 6) -> float | None:
    """A number in as many digits as it is worth sending; NaN and infinities are None, which JSON has."""
    if number is None or not math.isfinite(number):
        return None
    return float(f"{number:.{digits}g}")


def shape_text(entry: Entry) -> str:
    """2×4×5×7"""
    return "×".join(str(size) for size in entry.shape)
