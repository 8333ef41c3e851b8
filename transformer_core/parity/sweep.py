"""Parity over many settings: lengths, paddings, modes, torch's fast path, norm orders and dtypes.

nn.Transformer is not one function. In evaluation without gradients it takes a fast path, which may skip padding or
meet rows without keys in another way. Nothing of this is written down here as known: each point is run on both
sides, and what torch did is read from its numbers.
"""

import math
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from transformer_core import masks, model
from transformer_core.batches import Batch
from transformer_core.config import FIRST_FREE, ModelConfig
from transformer_core.parity.plain import plain
from transformer_core.parity.tensors import LIMITS, stir
from transformer_core.parity.torch_run import run_stack, torch_stacks, visible
from transformer_core.parity.weights import to_torch

PADDINGS = ("none", "right", "left", "holes")
MODES = ("train", "eval", "no_grad")
FAST_PATHS = (True, False)
NORM_ORDERS = ("post", "pre")
DTYPES = ("float32", "float64")
LENGTHS = range(1, 33)

WHAT = {
    "equal": "Both compute the same, padded positions included.",
    "zeroes_padding": "torch's fast path leaves padded positions out and puts 0 there; real positions are the same. "
    "Ours computes padded positions like all others, and the masks keep them from being seen.",
    "shortens": "torch leaves padded positions out and gives back a shorter tensor; the positions that it gives back "
    "are the same.",
    "padding_differs": "Padded positions differ, in another way than by zeros; real positions are the same.",
    "nan_padding": "torch gives NaN at queries that see no key; real positions are the same. Ours gives such queries "
    "weights 0.",
    "nan_spreads": "torch gives NaN at queries that see no key, and in the next layer 0 × NaN carries it to positions "
    "that do see keys. Ours gives such queries weights 0, and nothing spreads.",
    "stops": "torch refuses this input.",
    "differs": "Real positions differ by more than the limit.",
}
"""What torch does at a point, read from its numbers, and why it is not an error of ours (but for the last)."""
_SIZES = ModelConfig(d_model=14, n_heads=2, n_encoder_layers=1, n_decoder_layers=2, d_ff=19, src_vocab_size=23,
                     tgt_vocab_size=29, max_seq_len=512)  # fmt: skip


@dataclass(frozen=True)
class SweepPoint:
    """One setting and what was seen at it: the largest difference of memory and decoder output at real positions, and
    at padded ones (None where there are none). ``passed`` is False only where torch computes the same function and
    the difference is above the limit."""

    length: int
    padding: str
    mode: str
    fast_path: bool
    norm_order: str
    dtype: str
    error: float
    padded_error: float | None
    limit: float
    passed: bool
    what: str

    @property
    def why(self) -> str:
        """What torch does here, in a sentence."""
        return WHAT[self.what]

    def to_row(self) -> dict[str, Any]:
        """Plain data that JSON can hold."""
        return plain(self) | {"why": self.why}


def sweep(
    *,
    lengths: Collection[int] = LENGTHS,
    paddings: Collection[str] = PADDINGS,
    modes: Collection[str] = MODES,
    fast_paths: Collection[bool] = FAST_PATHS,
    norm_orders: Collection[str] = NORM_ORDERS,
    dtypes: Collection[str] = DTYPES,
    seed: int = 7,
) -> Iterator[SweepPoint]:
    """Every combination of these settings, one at a time; whoever has seen enough stops asking.

    The model is small (d_model 14, two heads, 1 + 2 layers), its gains and biases are not those of the start. Of three
    sentences one is whole, one has lost half and one all but one token; targets are one token longer than sources.
    """
    batches = {(length, padding): _batch(length, padding, seed) for length in lengths for padding in paddings}
    for norm_order in norm_orders:
        for dtype in dtypes:
            ours = model.build(_SIZES.replace(norm_order=norm_order), seed=seed, dtype=getattr(torch, dtype))
            stir(ours, 0.3, seed)
            theirs = to_torch(ours, nested=True)
            for mode in modes:
                for fast_path in fast_paths:
                    for (length, padding), batch in batches.items():
                        for each in (ours, theirs):
                            each.train(mode == "train")
                        with torch.set_grad_enabled(mode != "no_grad"), fast_path_switch(fast_path):
                            seen = _look(ours, theirs, batch)
                        yield SweepPoint(length, padding, mode, fast_path, norm_order, dtype, *seen)


def _look(ours: Any, theirs: Any, batch: Batch) -> tuple[float, float | None, float, bool, str]:
    """Error at real positions, error at padded ones, the limit, whether it holds, and what torch did."""
    limit = LIMITS[next(ours.parameters()).dtype]
    memory = ours.encode(batch.src)
    wanted = memory, ours.decode(batch.tgt, memory, batch.src)
    stacks = torch_stacks(theirs, ours)
    try:
        encoded = run_stack(stacks["encoder"], ours, batch, "encoder")
        given = encoded, run_stack(stacks["decoder"], ours, batch, "decoder", encoded)
    except RuntimeError:
        return math.nan, None, limit, True, "stops"
    error, padded, shorter, zeros = 0.0, None, False, True
    for mine, its, tokens in zip(wanted, given, (batch.src, batch.tgt), strict=True):
        assert tokens is not None
        shorter |= its.shape != mine.shape
        kept = its.shape[1]
        off, real = (mine[:, :kept] - its).detach().abs().amax(dim=-1), (tokens != ours.config.pad_id)[:, :kept]
        error = _larger(error, float(off[real].max()))
        if not real.all():
            worst = float(off[~real].max())
            padded = worst if padded is None else _larger(padded, worst)
            zeros &= worst <= limit or bool(its[~real].eq(0).all())
    what = _what(error, padded, limit, shorter, zeros, _blind(ours, batch))
    return error, padded, limit, what != "differs", what


def _what(error: float, padded: float | None, limit: float, shorter: bool, zeros: bool, blind: bool) -> str:
    """The key of ``WHAT`` that fits; NaN at a real position is torch's only where a query sees no key."""
    if not error <= limit:
        return "nan_spreads" if math.isnan(error) and blind else "differs"
    if shorter:
        return "shortens"
    if padded is None or padded <= limit:
        return "equal"
    return "nan_padding" if math.isnan(padded) else "zeroes_padding" if zeros else "padding_differs"


def _larger(one: float, other: float) -> float:
    """NaN is larger than everything."""
    return math.nan if math.isnan(one) or math.isnan(other) else max(one, other)


def _blind(ours: Any, batch: Batch) -> bool:
    """Whether some query of the decoder sees no key."""
    allowed = visible(ours, batch, "decoder_self", ours.masks.decoder_self)
    return allowed is not None and bool(masks.empty_rows(allowed))


def _batch(length: int, padding: str, seed: int) -> Batch:
    generator = torch.Generator().manual_seed(1000 * seed + length)
    src = torch.randint(FIRST_FREE, _SIZES.src_vocab_size, (3, length), generator=generator)
    tgt = torch.randint(FIRST_FREE, _SIZES.tgt_vocab_size, (3, length + 1), generator=generator)
    return Batch(_padded(src, padding, generator), _padded(tgt, padding, generator))


def _padded(tokens: Tensor, padding: str, generator: torch.Generator) -> Tensor:
    length = tokens.shape[1]
    for row, lost in ((1, length // 2), (2, length - 1)):
        places = {
            "none": torch.arange(0), "right": torch.arange(length - lost, length), "left": torch.arange(lost),
            "holes": torch.randperm(length, generator=generator)[:lost],
        }  # fmt: skip
        tokens[row, places[padding]] = _SIZES.pad_id
    return tokens


@contextmanager
def fast_path_switch(enabled: bool) -> Iterator[None]:
    """torch's switch is one for the whole process: it is set for one point and set back."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(enabled)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The PyTorch API of nested tensors")
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
