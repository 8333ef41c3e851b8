"""The library's own files as text and tree: what a module defines, what its names mean, where a piece of it stands."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path

from transformer_core.workshop import PACKAGE

Place = tuple[str, str]
"""(module, name of a definition at its top), as in ("transformer_core.masks", "causal")."""
Definition = ast.FunctionDef | ast.ClassDef | ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Source:
    """One module, read as text. Columns of the tree count bytes, so the text is kept as bytes."""

    name: str
    text: bytes
    tree: ast.Module = field(repr=False)

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """Every function, class and constant at the top, under each of its names."""
        found: dict[str, Definition] = {}
        for node in self.tree.body:
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found[node.name] = node
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names = (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
                found.update(dict.fromkeys(names, node))
        return found

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """Local name -> (module, name in it); for a module itself, the name is empty."""
        found: dict[str, tuple[str, str]] = {}
        for node in self.tree.body:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.asname or alias.name.partition(".")[0]] = (alias.name, "")
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    found[alias.asname or alias.name] = (node.module, alias.name)
        return found

    @cached_property
    def starts(self) -> list[int]:
        """Where each line begins."""
        starts = [0]
        for line in self.text.splitlines(keepends=True):
            starts.append(starts[-1] + len(line))
        return starts

    def offset(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt | ast.arg) -> tuple[int, int]:
        """First byte of a node, and the first behind it. Decorators belong to what they decorate."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        decorators = getattr(node, "decorator_list", [])
        first = (decorators[0].lineno, decorators[0].col_offset - 1) if decorators else (node.lineno, node.col_offset)
        return self.offset(*first), self.offset(node.end_lineno, node.end_col_offset)

    @property
    def heading(self) -> str:
        """The first paragraph of the module's docstring in one line."""
        return " ".join((ast.get_docstring(self.tree) or self.name).partition("\n\n")[0].split())


class Library:
    """All modules of the library, with ``changed`` texts in place of what is on disk (path of the file -> text)."""

    def __init__(self, changed: Mapping[str, str] | None = None) -> None:
        self.changed = dict(changed or {})
        self._read: dict[str, Source] = {}

    def __getitem__(self, name: str) -> Source:
        if name not in self._read:
            path = str(import_module(name).__file__)
            text = self.changed[path] if path in self.changed else Path(path).read_text(encoding="utf-8")
            self._read[name] = Source(name, text.encode(), ast.parse(text.encode()))
        return self._read[name]

    def find(self, module: str, name: str) -> Place | tuple[str, str, str] | None:
        """What a name in a module means: a definition of ours, an import of others, or None for a built-in.

        An import comes as (module, name, local name).
        """
        source = self[module]
        if name in source.definitions:
            return module, name
        if name not in source.imports:
            return None
        origin, inside = source.imports[name]
        if not origin.startswith(PACKAGE):
            return origin, inside, name
        if inside and not self.is_module(origin, inside):
            return self.find(origin, inside)
        return None  # a module of ours; what is taken from it stands behind a dot

    def is_module(self, module: str, name: str) -> bool:
        """Whether ``from module import name`` gives a module."""
        source = self[module]
        if name in source.definitions or name in source.imports:
            return False
        return (Path(str(import_module(module).__file__)).parent / f"{name}.py").is_file() or (
            Path(str(import_module(module).__file__)).parent / name / "__init__.py"
        ).is_file()

    def behind_dot(self, module: str, node: ast.expr) -> Place | None:
        """The definition that ``letters.draw`` means, where ``letters`` is a module of ours."""
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            return None
        origin, inside = self[module].imports.get(node.value.id, ("", ""))
        if not origin.startswith(PACKAGE) or not inside or not self.is_module(origin, inside):
            return None
        found = self.find(f"{origin}.{inside}", node.attr)
        return found if found is not None and len(found) == 2 else None


def global_names(node: ast.AST) -> Iterator[ast.Name]:
    """Every name that is read in a piece of code and is not one of its own; annotations are not read."""
    yield from _names(node, frozenset())


def _names(node: ast.AST, own: frozenset[str]) -> Iterator[ast.Name]:
    if isinstance(node, ast.Name):
        if isinstance(node.ctx, ast.Load) and node.id not in own:
            yield node
        return
    inside = own
    if isinstance(node, ast.FunctionDef | ast.Lambda):
        inside = own | _bound(node)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        inside = own | _stored(node)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        outside = name == "decorator_list" or (isinstance(node, ast.arguments) and name in ("defaults", "kw_defaults"))
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, ast.AST):
                yield from _names(each, own if outside else inside)


def _bound(node: ast.FunctionDef | ast.Lambda) -> frozenset[str]:
    """The names that a function calls its own."""
    arguments = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    return frozenset(arguments) | (_stored(node) if isinstance(node, ast.FunctionDef) else frozenset())


def _stored(node: ast.AST) -> frozenset[str]:
    found = set()
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store):
            found.add(each.id)
        elif isinstance(each, ast.FunctionDef | ast.ClassDef) and each is not node:
            found.add(each.name)
        elif isinstance(each, ast.alias):
            found.add(each.asname or each.name.partition(".")[0])
        elif isinstance(each, ast.ExceptHandler) and each.name:
            found.add(each.name)
    return frozenset(found)
