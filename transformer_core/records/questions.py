"""What a run asks, as a line of code: the function that draws questions, and the sentences that it draws from."""

import base64
import functools
import json
import textwrap
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from torch import Tensor

from transformer_core.records.settings import WIDTH, literal
from transformer_core.records.sources import Place
from transformer_core.tasks import Task
from transformer_core.workshop import PACKAGE


@dataclass(frozen=True)
class Questions:
    """``places`` are the functions that are needed; ``written`` makes a line of code out of what they are called.

    ``data`` are the lines before it, ``imports`` what they need, as (module, name).
    """

    places: tuple[Place, ...]
    written: Callable[[Sequence[str]], str]
    data: tuple[str, ...]
    imports: tuple[tuple[str, str], ...]


def drawn(task: Task, corpus: Any) -> Questions:
    """How a script draws the questions of ``task``: by a function, perhaps with some of its arguments given.

    A function among those is called by its name; tensors are the training pairs of ``corpus``, whose ids come along.
    """
    function: Any = task.draw
    given: dict[str, Any] = {}
    while isinstance(function, functools.partial):
        given = {**function.keywords, **given}
        function = function.func
    functions = {key: value for key, value in given.items() if isinstance(value, FunctionType)}
    sentences = any(isinstance(value, Tensor) for value in given.values())
    places = tuple(_place(each) for each in (function, *functions.values()))

    def written(names: Sequence[str]) -> str:
        called = dict(zip(functions, names[1:], strict=False))
        arguments = [
            f"{key}={called[key] if key in called else key.upper() if isinstance(value, Tensor) else literal(value)}"
            for key, value in given.items()
        ]
        return f"partial({', '.join([names[0], *arguments])})" if arguments else names[0]

    imports: list[tuple[str, str]] = [("functools", "partial")] if given else []
    data: list[str] = []
    if sentences:
        places += ((f"{PACKAGE}.translation.corpus", "padded"),)
        imports += [("base64", ""), ("json", ""), ("zlib", "")]
        data = packed(corpus)
    return Questions(places, written, tuple(data), tuple(imports))


def packed(corpus: Any) -> list[str]:
    """The training pairs of a corpus as ids: JSON, compressed, in base 64, in lines."""
    ids = json.dumps(corpus.train, separators=(",", ":"))
    text = base64.b64encode(zlib.compress(ids.encode(), 9)).decode()
    return [
        "PACKED = (",
        *(f'    "{line}"' for line in textwrap.wrap(text, WIDTH - 6)),
        ")",
        f'"""The {len(corpus.train):,} pairs that it learns from, as ids: JSON, compressed, in base 64."""',
        "SRC, TARGET = padded(json.loads(zlib.decompress(base64.b64decode(PACKED))))",
    ]


def _place(function: Any) -> Place:
    return function.__module__, function.__qualname__
