"""The ledger: every tensor of a run under its name, with its axes checked and its line of code remembered.

``note("scores", scores, "B H q k")`` is the shape comment of a readable model, made to run. It returns nothing, so
looking cannot change the mathematics, and without an open ``trace`` it costs a fraction of a microsecond.

>>> from torch import nn
>>> class Double(nn.Module):
...     def forward(self, x):
...         note("twice", 2 * x, "B D")
...         return 2 * x
>>> model = nn.Sequential(Double())
>>> with trace(model) as ledger:
...     _ = model(torch.ones(2, 3))
>>> ledger["0/twice"].shape, ledger.sizes
((2, 3), {'B': 2, 'D': 3})
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, no_type_check

import torch
from torch import Tensor, nn

from transformer_core import formulas

_open_ledger: ContextVar["Ledger | None"] = ContextVar("open_ledger", default=None)
_ROOT = Path(__file__).resolve().parent.parent


class ShapeError(ValueError):
    """A tensor that does not have the axes it was noted with. ``ledger`` holds the rows recorded before it."""

    def __init__(self, message: str, ledger: "Ledger") -> None:
        super().__init__(message)
        self.ledger = ledger


class Source(NamedTuple):
    """The line that recorded a tensor."""

    file: str
    line: int
    function: str

    def __str__(self) -> str:
        path = Path(self.file)
        shown = path.relative_to(_ROOT) if path.is_relative_to(_ROOT) else Path(path.name)
        return f"{shown.as_posix()}:{self.line}"


@dataclass(frozen=True, eq=False)
class Entry:
    """One recorded tensor. ``step`` counts the calls of the model, ``path`` is the module that was running."""

    index: int
    step: int
    path: str
    name: str
    axes: tuple[str, ...]
    value: Tensor
    source: Source

    @property
    def key(self) -> str:
        """``path/name``, or the name alone for a tensor of the model itself."""
        return f"{self.path}/{self.name}" if self.path else self.name

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.value.shape)

    @property
    def bytes(self) -> int:
        """Elements times bytes per element; a broadcast view counts as if it were written out."""
        return self.value.numel() * self.value.element_size()

    def to_row(self, settings: tuple[object, ...] = (), statistics: bool = True) -> dict[str, Any]:
        """The entry as plain data, its formula written for the ``settings`` of the run.

        ``min max mean std`` are of the finite numbers; ``nan`` and ``inf`` are counts.
        """
        formula = formulas.find(self.key, *settings)
        row = {
            "index": self.index,
            "step": self.step,
            "path": self.path,
            "name": self.name,
            "axes": " ".join(self.axes),
            "shape": list(self.shape),
            "dtype": str(self.value.dtype).removeprefix("torch."),
            "device": str(self.value.device),
            "stride": list(self.value.stride()),
            "contiguous": self.value.is_contiguous(),
            "bytes": self.bytes,
            "formula": formula.latex if formula else "",
            "paper": formula.paper if formula else "",
            "source": str(self.source),
        }
        return row | (summary(self.value) if statistics else dict.fromkeys(_STATISTICS))


@dataclass
class Ledger:
    """The rows of a trace, in the order in which the tensors were computed."""

    entries: list[Entry] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    """The size of every upper-case axis in the current step."""
    settings: tuple[object, ...] = ()
    """The configuration of the traced model, if it has one: with GELU in it, no formula shows ReLU."""

    _step: int = 0
    _seen: set[str] = field(default_factory=set)
    _calls: list[tuple[str, dict[str, int]]] = field(default_factory=list)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, key: object) -> bool:
        return any(entry.key == key for entry in self.entries)

    def __getitem__(self, key: str) -> Entry:
        """The last entry with this key; of several steps, the latest.

        Raises:
            KeyError: no tensor of that name was recorded; the text names similar ones.
        """
        for entry in reversed(self.entries):
            if entry.key == key:
                return entry
        alike = [known for known in self.keys() if known.rsplit("/", 1)[-1] == key.rsplit("/", 1)[-1]]
        raise KeyError(f"no tensor {key!r} was recorded; there is {', '.join(alike or self.keys()) or 'nothing'}")

    def keys(self) -> list[str]:
        """Every key once, in the order of computation."""
        return list(dict.fromkeys(entry.key for entry in self.entries))

    @property
    def total_bytes(self) -> int:
        return sum(entry.bytes for entry in self.entries)

    def to_rows(self, statistics: bool = True) -> list[dict[str, Any]]:
        """The entries as plain dicts, ready for JSON or a data frame."""
        return [entry.to_row(self.settings, statistics) for entry in self.entries]

    def record(self, name: str, value: Tensor, axes: str, source: Source) -> None:
        """Checks the axes of one tensor and keeps a reference to it, detached.

        Upper-case axes (B, S, T, D, H, Dh, F, V) have one size in a call of the model, lower-case ones (q, k, n) in a
        call of one module.

        Raises:
            ShapeError: the number of axes differs, or an axis has changed its size.
        """
        if not self._calls:
            self._new_step_if_seen(name)
        self._seen.add(self._calls[0][0] if self._calls else name)
        path, local_sizes = self._calls[-1] if self._calls else ("", {})
        value = value.detach() if value.requires_grad else value
        entry = Entry(len(self.entries), self._step, path, name, tuple(axes.split()), value, source)
        if len(entry.axes) != value.dim():
            raise self._shape_error(entry, f"{len(entry.axes)} axes were named, the tensor has {value.dim()}")
        for axis, size in zip(entry.axes, value.shape, strict=True):
            known = (self.sizes if axis[0].isupper() else local_sizes).setdefault(axis, size)
            if known != size:
                raise self._shape_error(entry, f"{axis} is {size} here but {known} before")
        self.entries.append(entry)

    def _shape_error(self, entry: Entry, what: str) -> ShapeError:
        return ShapeError(f"{entry.key}: noted as ({', '.join(entry.axes)}) with shape {entry.shape}; {what}", self)

    def _enter(self, path: str) -> None:
        if not path:
            self._calls.clear()  # calls that ended in an error never left
        if not self._calls:
            self._new_step_if_seen(path)
        self._calls.append((path, {}))

    def _leave(self) -> None:
        self._calls.pop()

    def _new_step_if_seen(self, event: str) -> None:
        """A step ends when a call or a note outside every other call comes for the second time, as in a decoding loop.

        Modules that note nothing do not count: the same dropout may serve source and target.
        """
        if event in self._seen:
            self._step += 1
            self._seen.clear()
            self.sizes = {}


@no_type_check  # it reads its caller's frame: a run-time type checker must not stand between the two
def note(name: str, value: Tensor | Callable[[], Tensor], axes: str) -> None:
    """Writes a tensor into the open ledger, or does nothing when no ``trace`` is open.

    A tensor that only the reader of the ledger needs is given as a function, called only while one is open.

    Raises:
        ShapeError: the tensor does not have these axes.
    """
    ledger = _open_ledger.get()
    if ledger is None:
        return
    frame = sys._getframe(1)
    source = Source(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
    ledger.record(name, value if isinstance(value, Tensor) else value(), axes, source)


def is_recording() -> bool:
    """Whether a ledger is open in this thread."""
    return _open_ledger.get() is not None


@contextmanager
def trace(model: nn.Module) -> Iterator[Ledger]:
    """Opens a ledger for this thread and keeps the path of the running module while the model is called.

    The outputs are bit-identical to those of an untraced run. Traces of several threads on one model do not mix.
    After an error that was caught inside, call the model as a whole again, or open a new trace.
    A ``yield`` must not stand inside the ``with`` block: whoever resumes the generator may run in another context.
    """
    ledger = Ledger(settings=tuple(getattr(model, name) for name in ("config", "masks") if hasattr(model, name)))

    def enter(path: str) -> Callable[..., None]:
        def before(*_: Any) -> None:
            if _open_ledger.get() is ledger:
                ledger._enter(path)

        return before

    def leave(*_: Any) -> None:
        if _open_ledger.get() is ledger:
            ledger._leave()

    handles = []
    for path, module in model.named_modules():
        if type(module).__module__.startswith("torch."):  # a Linear or a LayerNorm notes nothing
            continue
        handles.append(module.register_forward_pre_hook(enter(path)))
        handles.append(module.register_forward_hook(leave))
    token = _open_ledger.set(ledger)
    try:
        yield ledger
    finally:
        _open_ledger.reset(token)
        for handle in handles:
            handle.remove()


_STATISTICS = ("min", "max", "mean", "std", "nan", "inf")


def summary(value: Tensor) -> dict[str, Any]:
    """Minimum, maximum, mean and (population) standard deviation of the finite numbers; counts of NaN and infinity.

    >>> summary(torch.tensor([1.0, 3.0, float("nan")]))
    {'min': 1.0, 'max': 3.0, 'mean': 2.0, 'std': 1.0, 'nan': 1, 'inf': 0}
    """
    if value.is_meta or value.numel() == 0:
        return dict.fromkeys(_STATISTICS)
    numbers = value.reshape(-1).to(torch.float64 if value.dtype in (torch.float64, torch.int64) else torch.float32)
    nan = inf = 0
    total = numbers.sum()
    if not total.isfinite():  # a sum shows NaN and infinity for free; only then are they counted
        nan, inf = int(numbers.isnan().sum()), int(numbers.isinf().sum())
        numbers = numbers[numbers.isfinite()].double()  # the finite ones alone may overflow the sum of a float32
        if numbers.numel() == 0:
            return dict.fromkeys(_STATISTICS) | {"nan": nan, "inf": inf}
        total = numbers.sum()
    low, high = numbers.aminmax()
    mean = total / numbers.numel()
    centred = numbers - mean
    std = (centred.dot(centred) / numbers.numel()).sqrt()
    return {"min": low.item(), "max": high.item(), "mean": mean.item(), "std": std.item(), "nan": nan, "inf": inf}
