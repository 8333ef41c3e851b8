"""The key-value cache: what a model has written it reads once, and keeps the keys and values that came of it.

A model that writes asks the same decoder again and again, each time with one token more. Under a causal mask no place
sees a later one. So what was computed for the earlier places comes out as before, and a new token needs only this of
them: their keys and values, in every attention. With those kept, a step reads one token: one query, all the keys, the
last row of the mask. Writing n tokens then reads n of them, instead of 1 + 2 + ... + n = n (n + 1) / 2. The price is
memory: two vectors for each place, in each layer and attention.

The model knows two lines of this. ``unread`` in ``Transformer.decode`` cuts off what was read before, and
``remembered`` in ``MultiHeadAttention`` puts the kept keys and values before the new ones. Without an open cache both
give back what they are given.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from transformer_core.ledger import is_recording

Reading = tuple[Tensor, Tensor | None, Tensor | None, Tensor | None]
"""What a decoder reads: the embedded target, who may see whom in it, the memory, and who may see what of that."""

_open_cache: ContextVar["KeyValueCache | None"] = ContextVar("open_cache", default=None)


class KeyValueCache:
    """Keys and values of the places read so far, for each attention of one decoder.

    They hold only as long as the earlier places see what they saw. That is not taken for granted but looked up at
    every step, in what the decoder is given: the same beginning, the same memory, the same rows of the masks, and none
    of the earlier places sees a new one. Where it is not so, as without a causal mask or under a rule that changes
    with the length, all is read anew: the same answer as without a cache, only without its gain.
    """

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Starts anew, with nothing kept."""
        self.length = 0
        """How many places of the target are kept."""
        self._kept: dict[nn.Module, tuple[Tensor, Tensor]] = {}
        self._read: Reading | None = None

    @contextmanager
    def open(self) -> Iterator["KeyValueCache"]:
        """Inside, in this thread, the decoder reads what is new only. The encoder has to be asked before.

        While a ledger is open nothing is cut off: it shows whole tensors. No ``yield`` may stand inside the block.
        """
        token = _open_cache.set(None if is_recording() else self)
        try:
            yield self
        finally:
            _open_cache.reset(token)

    def select(self, rows: Sequence[int]) -> None:
        """Row i of the batch becomes what row ``rows[i]`` was: beam search drops a beginning, and goes on from another
        in several ways.
        """
        if self._read is None or list(rows) == list(range(len(self._read[0]))):
            return
        batch, index = len(self._read[0]), torch.tensor(rows, device=self._read[0].device)

        def chosen(mask: Tensor | None) -> Tensor | None:
            own = mask is not None and mask.dim() == 4 and len(mask) == batch  # else it is the same for all sentences
            return mask[index] if own and mask is not None else mask

        x, allowed, memory, memory_allowed = self._read
        self._read = x[index], chosen(allowed), None if memory is None else memory[index], chosen(memory_allowed)
        self._kept = {attention: (k[index], v[index]) for attention, (k, v) in self._kept.items()}

    def cut(self, reading: Reading) -> Reading:
        """The part of a reading that is new; all of it, with nothing kept, where the kept part does not hold."""
        if self._read is None or not _continues(reading, self._read):
            self.forget()
        n, self._read = self.length, reading
        x, allowed, memory, memory_allowed = reading
        self.length = x.shape[1]
        if not n:
            return reading
        if memory is not None:
            memory = memory[:, :0]  # nothing of it is new: its keys and values are kept whole
        return x[:, n:], _needed(allowed, n), memory, _needed(memory_allowed, n)

    def extend(self, attention: nn.Module, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values of one attention: the kept ones, and behind them the new ones."""
        if attention in self._kept:
            kept_k, kept_v = self._kept[attention]
            if not k.shape[2]:
                return kept_k, kept_v
            k, v = torch.cat([kept_k, k], dim=2), torch.cat([kept_v, v], dim=2)
        self._kept[attention] = k, v
        return k, v


def remembered(
    attention: nn.Module, k: Float[Tensor, "B H n Dh"], v: Float[Tensor, "B H n Dh"]
) -> tuple[Float[Tensor, "B H k Dh"], Float[Tensor, "B H k Dh"]]:
    """The keys and values of all places read so far; without an open cache, k and v themselves."""
    cache = _open_cache.get()
    return (k, v) if cache is None else cache.extend(attention, k, v)


def unread(x: Tensor, allowed: Tensor | None, memory: Tensor | None, memory_allowed: Tensor | None) -> Reading:
    """The new part of what the decoder is about to read; without an open cache, all of it."""
    cache = _open_cache.get()
    reading = x, allowed, memory, memory_allowed
    return reading if cache is None else cache.cut(reading)


def _continues(reading: Reading, before: Reading) -> bool:
    """Whether a reading goes on from an earlier one, so that its earlier places come out as they did."""
    x, allowed, memory, memory_allowed = reading
    x_before, allowed_before, memory_before, memory_allowed_before = before
    batch, n, _ = x_before.shape
    if len(x) != batch or x.shape[1] <= n or allowed is None or allowed.shape[-2] == 1:
        return False  # with no mask, or one row for all places, the earlier ones see the new one
    return (
        torch.equal(x[:, :n], x_before)
        and not bool(allowed[..., :n, n:].any())
        and _same_mask(allowed[..., :n, :n], allowed_before)
        and _same_memory(memory, memory_before)
        and _same_mask(_first_rows(memory_allowed, n), memory_allowed_before)
    )


def _same_memory(one: Tensor | None, other: Tensor | None) -> bool:
    return one is other or (one is not None and other is not None and torch.equal(one, other))


def _same_mask(one: Tensor | None, other: Tensor | None) -> bool:
    """Whether two masks say the same, written out for every sentence or once for all."""
    if one is None or other is None:
        return one is other
    if one.shape == other.shape:
        return torch.equal(one, other)
    return one.shape[-2:] == other.shape[-2:] and bool((one == other).all())


def _first_rows(allowed: Tensor | None, n: int) -> Tensor | None:
    return allowed if allowed is None or allowed.shape[-2] == 1 else allowed[..., :n, :]


def _needed(allowed: Tensor | None, n: int) -> Tensor | None:
    """The rows of the new places; None where they see everything, which makes the softmax a plain one."""
    if allowed is None:
        return None
    rows = allowed if allowed.shape[-2] == 1 else allowed[..., n:, :]
    return None if bool(rows.all()) else rows
