"""The code that makes, trains and decodes a model, as one thing: the library's own, or a copy with one line changed.

A mistake in a line of attention.py reaches the layers, the model and the training built on it. So ``altered`` reads the
modules from that one upwards anew, with the changed line in, and each of them finds the changed ones when it imports.
The library itself stays as it is: models of both kinds live side by side in one process.

>>> shop = altered("attention.MultiHeadAttention.merge", "heads.transpose(1, 2).flatten(2)", "heads.flatten(2)")
>>> shop.attention.MultiHeadAttention is OWN.attention.MultiHeadAttention, shop.masks is OWN.masks
(False, True)
"""

import ast
import builtins
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

PACKAGE = __name__.rpartition(".")[0]
MODULES = (
    "masks", "positions", "attention", "layers", "model", "tasks.base", "tasks.letters", "tasks.first_last",
    "tasks.copying", "tasks.reverse", "tasks.sort", "tasks.addition", "tasks.translation", "tasks",
    "decoding.writing", "decoding.sampling", "decoding.reading", "decoding",
    "training.loss", "training.step", "training.evaluation", "training.run", "training",
)  # fmt: skip
"""What may be changed, bottom to top: each is read anew when one before it has changed."""


@dataclass(frozen=True)
class Workshop:
    """The modules to build, train and decode with, and the texts of those files that read otherwise than on disk."""

    masks: Any
    positions: Any
    attention: Any
    layers: Any
    model: Any
    tasks: Any
    decoding: Any
    training: Any
    texts: Mapping[str, str] = field(default_factory=dict)
    """Path of a file -> its text, where it was changed."""


def altered(place: str, right: str, wrong: str) -> Workshop:
    """The workshop in which ``right`` reads ``wrong``, at its one occurrence in ``place`` (module.function or method).

    Both have the same number of lines, so that every other line keeps its number.

    Raises:
        ValueError: there is no such place, ``right`` does not stand there exactly once, or the lines differ in number.
    """
    name = next((each for each in sorted(MODULES, key=len, reverse=True) if place.startswith(f"{each}.")), None)
    if name is None:
        raise ValueError(f"{place!r} is in none of {', '.join(MODULES)}")
    text, (first, last) = source(name), extent(name, place.removeprefix(f"{name}."))
    lines = text.splitlines(keepends=True)
    before, within, after = ("".join(part) for part in (lines[: first - 1], lines[first - 1 : last], lines[last:]))
    if within.count(right) != 1:
        raise ValueError(f"{right!r} stands {within.count(right)} times in {place}; exactly once is wanted")
    if right.count("\n") != wrong.count("\n"):
        raise ValueError(f"{place}: {right!r} and {wrong!r} differ in their number of lines")
    return _read_anew(name, before + within.replace(right, wrong) + after)


def source(name: str) -> str:
    """The text of a module's file."""
    return path_of(name).read_text(encoding="utf-8")


def path_of(name: str) -> Path:
    """The file of a module."""
    return Path(str(import_module(f"{PACKAGE}.{name}").__file__))


def extent(name: str, qualified: str) -> tuple[int, int]:
    """First and last line of a function or method in a module, counted from 1.

    Raises:
        ValueError: the module has no such function.
    """
    node: ast.AST = ast.parse(source(name))
    for part in qualified.split("."):
        inside = [each for each in ast.iter_child_nodes(node) if getattr(each, "name", None) == part]
        if not inside:
            raise ValueError(f"{name} has no {qualified}")
        node = inside[0]
    assert isinstance(node, ast.FunctionDef | ast.ClassDef) and node.end_lineno is not None
    return node.lineno, node.end_lineno


def _read_anew(name: str, text: str) -> Workshop:
    made: dict[str, ModuleType] = {}
    for each in MODULES[MODULES.index(name) :]:
        path = str(path_of(each))
        module = ModuleType(f"{PACKAGE}.{each}")
        module.__file__ = path
        module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _importer(made)}
        exec(_compiled(text if each == name else source(each), path), module.__dict__)
        made[module.__name__] = module
    parts: dict[str, Any] = {each: made.get(f"{PACKAGE}.{each}", getattr(OWN, each)) for each in _PARTS}
    return Workshop(**parts, texts={str(path_of(name)): text})


def _importer(made: Mapping[str, ModuleType]) -> Any:
    """``import`` as the changed modules do it: of two modules with one name they get the changed one."""

    def find(wanted: str, globals: Any = None, locals: Any = None, names: Any = (), level: int = 0) -> Any:
        module = made.get(wanted) or builtins.__import__(wanted, globals, locals, names, level)
        changed = {each: made[f"{wanted}.{each}"] for each in names or () if f"{wanted}.{each}" in made}
        if changed:  # from package import module
            stand_in = ModuleType(wanted)
            stand_in.__dict__.update(vars(module) | changed)
            return stand_in
        return module

    return find


@lru_cache(maxsize=128)
def _compiled(text: str, path: str) -> CodeType:
    return compile(text, path, "exec")


_PARTS = ("masks", "positions", "attention", "layers", "model", "tasks", "decoding", "training")
_OWN: dict[str, Any] = {each: import_module(f"{PACKAGE}.{each}") for each in _PARTS}
OWN = Workshop(**_OWN)
"""The library's own modules."""
