"""One program out of many modules: what the roots need and what that needs in turn, in an order for reading."""

import ast
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from transformer_core.records.pruning import Facts, Pruner
from transformer_core.records.sources import Library, Place, Source, global_names
from transformer_core.workshop import PACKAGE

StandIn = Callable[[Collection[str]], str]
"""The attributes that the program reads -> what stands in place of a definition."""


@dataclass(frozen=True)
class Part:
    """The definitions of one module, in their order, under the first words of its docstring."""

    heading: str
    code: str


@dataclass(frozen=True)
class Program:
    """``imports`` are lines; ``parts`` each stand on those before them; ``names`` is how the roots are called here."""

    imports: tuple[str, ...]
    parts: tuple[Part, ...]
    names: Mapping[Place, str]


def flatten(
    library: Library, facts: Facts, roots: Sequence[Place], stand_ins: Mapping[Place, StandIn], extra: str,
    own: Collection[tuple[str, str]] = (),
) -> Program:  # fmt: skip
    """All that ``roots`` and the code ``extra`` need; ``own`` are imports of that code, as (module, name)."""
    flat = _Flattening(library, facts, roots, stand_ins, extra)
    names = flat.names(flat.closure({}))
    texts = flat.closure(names)
    spoken = {root: names.get(root, root[1]) for root in roots}
    return Program(flat.import_lines(texts, own), tuple(flat.parts(texts)), spoken)


class _Flattening:
    def __init__(
        self, library: Library, facts: Facts, roots: Sequence[Place], stand_ins: Mapping[Place, StandIn], extra: str
    ) -> None:
        self.library, self.facts, self.roots, self.stand_ins = library, facts, roots, stand_ins
        self.extra = ast.parse(extra)
        self.behind_dots: set[Place] = set()
        self._trees: dict[str, ast.Module] = {}
        self._names: dict[str, list[ast.Name]] = {}

    def tree(self, text: str) -> ast.Module:
        if text not in self._trees:
            self._trees[text] = ast.parse(text)
        return self._trees[text]

    def read(self, text: str) -> list[ast.Name]:
        """The names that a piece of code reads and does not define."""
        if text not in self._names:
            self._names[text] = list(global_names(self.tree(text)))
        return self._names[text]

    def closure(self, names: Mapping[Place, str]) -> dict[Place, str]:
        """Every definition that is needed, as text. What is read may need more, so it goes round until all is there."""
        texts: dict[Place, str] = {}
        pruner = Pruner(self.library, self.facts, names)
        pruner.used, pruner.stored = _attributes([self.extra])
        while True:
            written = self._round(pruner)
            used, stored = _attributes([self.extra, *map(self.tree, written.values())])
            if (written, used, stored) == (texts, pruner.used, pruner.stored):
                return texts
            texts, pruner.used, pruner.stored = written, used, stored

    def _round(self, pruner: Pruner) -> dict[Place, str]:
        texts: dict[Place, str] = {}
        open_places = list(self.roots)
        renamed = {name: place for place, name in pruner.names.items()}
        while open_places:
            place = self._owner(open_places.pop())
            if place in texts:
                continue
            stand_in = self.stand_ins.get(place)
            texts[place] = stand_in(pruner.used) if stand_in else pruner.write(place)
            for name in self.read(texts[place]):
                meant = (
                    pruner.behind_dots.get(name.id) or renamed.get(name.id) or self.library.find(place[0], name.id)
                )  # fmt: skip
                if meant is not None and len(meant) == 2:
                    open_places.append(meant)
        self.behind_dots = set(pruner.behind_dots.values())
        return texts

    def _owner(self, place: Place) -> Place:
        """One place for a definition that has several names, such as ``PAD, BEGIN = 0, 1``."""
        source = self.library[place[0]]
        node = source.definitions[place[1]]
        return place[0], next(name for name, each in source.definitions.items() if each is node)

    def names(self, texts: Mapping[Place, str]) -> dict[Place, str]:
        """What definitions that share a name are called: a root as ever, another with its module's name before it."""
        count = Counter(name for _, name in texts)
        clashing = {place for place in texts if count[place[1]] > 1 and place not in self.roots}
        named = {place: place[1] for place in self.behind_dots}
        return named | {place: f"{place[0].rpartition('.')[2]}_{place[1]}" for place in clashing}

    def parts(self, texts: Mapping[Place, str]) -> Iterator[Part]:
        """The modules bottom to top; before them the settings, and constants that stand alone in their module."""
        settings, constants = "", ""
        found: list[Part] = []
        for module in self._modules():
            definitions = self.library[module].definitions
            mine = sorted((definitions[name].lineno, text) for (owner, name), text in texts.items() if owner == module)
            code = _joined([text for _, text in mine])
            if module == f"{PACKAGE}.config":
                settings = code
            elif any(isinstance(node, ast.FunctionDef | ast.ClassDef) for node in ast.parse(code).body):
                found.append(Part(self.library[module].heading, code))
            else:
                constants += code
        yield Part("The settings of this run, as far as the code below reads them.", settings)
        if constants:
            yield Part("Numbers that several parts share.", constants)
        yield from found

    def _modules(self) -> list[str]:
        """Every module that is read, each behind those that it imports."""
        order: dict[str, None] = {}

        def visit(name: str) -> None:
            if name in order or name in seen:
                return
            seen.add(name)
            for imported in _imported(self.library, self.library[name]):
                visit(imported)
            order[name] = None

        seen: set[str] = set()
        for module, _ in self.roots:
            visit(module)
        return list(order)

    def import_lines(self, texts: Mapping[Place, str], own: Collection[tuple[str, str]]) -> tuple[str, ...]:
        """What the program takes from the standard library and from torch, a line each; ``own`` as (module, name)."""
        wanted: dict[str, set[str]] = {}
        for module, name in own:
            wanted.setdefault(module, set()).add(name)
        for place, text in texts.items():
            for node in self.read(text):
                meant = self.library.find(place[0], node.id)
                if meant is not None and len(meant) == 3:
                    origin, inside, local = meant
                    plain = inside or ("" if origin == local else origin)
                    wanted.setdefault(origin, set()).add(plain if plain in ("", local) else f"{plain} as {local}")
        if any("dataclasses." in text for text in texts.values()):
            wanted.setdefault("dataclasses", set()).add("")
        lines = []
        for origin in sorted(wanted, key=lambda name: (name.partition(".")[0] == "torch", name)):
            lines += [f"import {origin}"] * ("" in wanted[origin])
            names = sorted(wanted[origin] - {""})
            lines += [f"from {origin} import {', '.join(names)}"] if names else []
        plain_first = sorted(lines, key=lambda line: (line.split()[1].startswith("torch"), line.startswith("from")))
        first_of_torch = next(i for i, line in enumerate(plain_first) if line.split()[1].startswith("torch"))
        return (*plain_first[:first_of_torch], "", *plain_first[first_of_torch:])


def _imported(library: Library, source: Source) -> Iterator[str]:
    for origin, inside in source.imports.values():
        if origin.startswith(PACKAGE):
            yield f"{origin}.{inside}" if inside and library.is_module(origin, inside) else origin


def _attributes(trees: Sequence[ast.AST]) -> tuple[set[str], set[str]]:
    """The names behind dots that are read, and those that are set."""
    used: set[str] = set()
    stored: set[str] = set()
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute):
                (used if isinstance(node.ctx, ast.Load) else stored).add(node.attr)
    return used, stored


def _joined(texts: Sequence[str]) -> str:
    """Two blank lines around functions and classes, none between constants."""
    code = ""
    large = False
    for text in texts:
        was_large, large = large, text.startswith(("def ", "class ", "@"))
        gap = "\n\n" if code and (large or was_large) else ""
        code += gap + text + "\n"
    return code
