"""The function that made a tensor, as lines with syntax classes: which line made it, which noted it, what fed it.

Only files of transformer_core are ever read, whatever a source claims.
"""

from __future__ import annotations

import ast
import io
import keyword
import linecache
import tokenize
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import transformer_core
from transformer_core.ledger import Source

ROOT = Path(transformer_core.__file__).resolve().parent

Piece = tuple[str, str]
"""A stretch of code and its class: kw, str, com, num, fn or "" for plain."""


@dataclass(frozen=True)
class CodeView:
    """One function as the pane shows it; ``lines`` are (number, pieces), number 0 stands for lines left out.

    ``changed`` are the lines that a fault has replaced.
    """

    file: str
    function: str
    noted: int
    made: tuple[int, ...]
    feeds: tuple[int, ...]
    lines: tuple[tuple[int, tuple[Piece, ...]], ...]
    changed: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Plain data for the page."""
        return {
            "file": self.file,
            "function": self.function,
            "noted": self.noted,
            "made": list(self.made),
            "feeds": list(self.feeds),
            "changed": list(self.changed),
            "lines": [[number, [list(piece) for piece in pieces]] for number, pieces in self.lines],
        }


def view(source: Source, texts: Mapping[str, str] | None = None) -> CodeView | None:
    """The function around ``source``; None where it is not a file of the core or no longer has that line.

    ``texts`` holds files that read otherwise than on disk, by their path: code with a fault switched on.
    """
    path = Path(source.file).resolve()
    if not path.is_relative_to(ROOT) or path.suffix != ".py":
        return None
    linecache.checkcache(str(path))
    own = "".join(linecache.getlines(str(path)))
    text = (texts or {}).get(source.file, own)
    seen = _view(text, f"{ROOT.name}/{path.relative_to(ROOT).as_posix()}", source.line)
    if seen is None or text == own:
        return seen
    pairs = enumerate(zip(own.splitlines(), text.splitlines(), strict=False), start=1)
    shown = {number for number, _ in seen.lines}
    return replace(seen, changed=tuple(number for number, (one, other) in pairs if one != other and number in shown))


def stretch(text: str, first: int, last: int) -> list[tuple[int, tuple[Piece, ...]]]:
    """These lines of a file, numbered from 1, moved left by what all of them are indented."""
    lines = text.splitlines()[first - 1 : last]
    indent = min((len(line) - len(line.lstrip(" ")) for line in lines if line.strip()), default=0)
    coloured = _coloured(text)
    return [(number, _dedent(coloured[number], indent)) for number in range(first, first + len(lines))]


def around(text: str, first: int, last: int, more: int) -> tuple[int, int]:
    """These lines and so many before and after, as far as they belong to the same function and not to its docstring."""
    function = _function_at(ast.parse(text), first)
    if function is None or function.end_lineno is None:
        return first, last
    described = function.body[0].end_lineno or 0 if ast.get_docstring(function) is not None else 0
    low = first - more if first - more > described else max(described + 1, function.lineno)
    return min(first, max(low, function.lineno)), max(last, min(last + more, function.end_lineno))


@lru_cache(maxsize=64)
def _coloured(text: str) -> dict[int, tuple[Piece, ...]]:
    return _pieces(text)


@lru_cache(maxsize=256)
def _view(text: str, file: str, noted: int) -> CodeView | None:
    try:
        function = _function_at(ast.parse(text), noted)
    except SyntaxError:
        return None
    if function is None or function.end_lineno is None:
        return None
    made, feeds = _origins(function, noted)
    coloured = _pieces(text)
    hidden = _rest_of_docstring(function)
    lines: list[tuple[int, tuple[Piece, ...]]] = []
    indent = function.col_offset
    for number in range(function.lineno, function.end_lineno + 1):
        if number not in hidden:
            lines.append((number, _dedent(coloured.get(number, ()), indent)))
        elif lines[-1][0]:
            lines.append((0, ()))
    return CodeView(file, function.name, noted, made, feeds, tuple(lines))


def _function_at(tree: ast.AST, line: int) -> ast.FunctionDef | None:
    """The innermost function that holds this line."""
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    return max(around, key=lambda node: node.lineno, default=None)


def _origins(function: ast.FunctionDef, noted: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The lines of the statements that may have made the noted value, and the lines that made what those read."""
    call = next(
        (
            node
            for node in ast.walk(function)
            if isinstance(node, ast.Call)
            and node.lineno == noted
            and isinstance(node.func, ast.Name)
            and node.func.id == "note"
            and len(node.args) > 1
        ),
        None,
    )
    if call is None:
        return (), ()
    value = call.args[1]
    made = _reaching(function, value.id, noted) if isinstance(value, ast.Name) else []
    sources = [(each.value, each.lineno) for each in made] or [(value, noted)]
    fed = [each for node, before in sources for name in _names(node) for each in _reaching(function, name, before)]
    lines = {line for each in made for line in _span(each)}
    feeds = {line for each in fed for line in _span(each)}
    return tuple(sorted(lines)), tuple(sorted(feeds - lines))


def _reaching(function: ast.FunctionDef, name: str, before: int) -> list[ast.Assign]:
    """The assignments to a name that can be the last before a line: one for each way through the branches."""
    return _through(function.body, name, before, [])[0]


def _through(body: list[ast.stmt], name: str, before: int, found: list[ast.Assign]) -> tuple[list[ast.Assign], bool]:
    """What may hold the name after these statements, and whether one gets to their end at all."""
    for statement in body:
        if statement.lineno >= before:
            break
        if isinstance(statement, ast.Return | ast.Raise):
            return [], False
        if isinstance(statement, ast.Assign) and any(name in _names(target) for target in statement.targets):
            found = [statement]
        elif isinstance(statement, ast.If):
            inside = [
                part
                for part in (statement.body, statement.orelse)
                if part and part[0].lineno < before <= (part[-1].end_lineno or 0)
            ]
            ways = [_through(part, name, before, found) for part in inside or (statement.body, statement.orelse)]
            found = [each for way, passes in ways if passes for each in way]
            found = list(dict.fromkeys(found))
        elif isinstance(statement, ast.With | ast.For | ast.While):
            found = list(dict.fromkeys([*found, *_through(statement.body, name, before, found)[0]]))
    return found, True


def _names(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def _span(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _rest_of_docstring(function: ast.FunctionDef) -> set[int]:
    """The lines of the docstring after its first sentence: worth reading in the file, too long for a pane."""
    first = function.body[0]
    if ast.get_docstring(function) is None or first.end_lineno is None:
        return set()
    return set(range(first.lineno + 1, first.end_lineno + 1))


def _pieces(text: str) -> dict[int, tuple[Piece, ...]]:
    """Every line of a file as (text, class) pieces that join to the line."""
    source = text.splitlines()
    found: dict[int, list[Piece]] = {number: [] for number in range(1, len(source) + 1)}
    column = dict.fromkeys(found, 0)
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for i, token in enumerate(tokens):
        kind = _class(token, tokens[i + 1] if i + 1 < len(tokens) else None)
        (first, start), (last, end) = token.start, token.end
        for number in range(first, min(last, len(source)) + 1):
            line = source[number - 1]
            here, there = (start if number == first else 0), (end if number == last else len(line))
            if here > column[number]:
                found[number].append((line[column[number] : here], ""))
            if there > here:
                found[number].append((line[here:there], kind))
            column[number] = max(column[number], there)
    return {number: _merged(pieces) for number, pieces in found.items()}


def _merged(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Neighbours of one class as one piece; a space belongs to what stands before it."""
    merged: list[Piece] = []
    for text, kind in pieces:
        if merged and (kind == merged[-1][1] or (text.isspace() and not kind)):
            merged[-1] = (merged[-1][0] + text, merged[-1][1])
        elif text:
            merged.append((text, kind))
    return tuple(merged)


def _class(token: tokenize.TokenInfo, following: tokenize.TokenInfo | None) -> str:
    name = tokenize.tok_name[token.type]
    if name in ("STRING", "FSTRING_START", "FSTRING_MIDDLE", "FSTRING_END"):
        return "str"
    if name in ("COMMENT", "NUMBER"):
        return {"COMMENT": "com", "NUMBER": "num"}[name]
    if name != "NAME":
        return ""
    if keyword.iskeyword(token.string):
        return "kw"
    return "fn" if following is not None and following.string == "(" else ""


def _dedent(pieces: tuple[Piece, ...], indent: int) -> tuple[Piece, ...]:
    if not pieces or not indent:
        return pieces
    (text, kind), *rest = pieces
    cut = min(indent, len(text) - len(text.lstrip(" ")))
    return ((text[cut:], kind), *rest) if text[cut:] else tuple(rest)
