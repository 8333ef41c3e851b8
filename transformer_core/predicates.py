"""Conditions over the places of a query and a key, as in ``where:q - k < 3 and k % 2 == 0``: a language of its own.

It is written and read as in Python, with Python's precedence, but it is never run as Python. The text may hold certain
signs only, its syntax tree certain nodes only, and the tree is walked here, with tensors in place of the names. So
nothing can be called, imported or looked up; there is no condition that does more than compare numbers.

The names: ``q`` and ``k`` are the row of the query and the column of the key, ``b`` is the sentence and ``h`` the head,
all counted from 0; ``n_q`` and ``n_k`` are the numbers of queries and keys. Numbers are whole, and so is division.
"""

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NoReturn

import torch
from torch import Tensor

from transformer_core.checked import check_text
from transformer_core.errors import ConfigError, nearest

NAMES = ("q", "k", "b", "h", "n_q", "n_k")
FUNCTIONS = ("abs", "min", "max")
WORDS = ("and", "or", "not")
SIGNS = ("<", "<=", ">", ">=", "==", "!=", "+", "-", "*", "//", "%", "(", ")", ",")
MAX_TEXT, MAX_DEPTH, MAX_NUMBER = 200, 16, 10**6
"""Limits on the text, on how deeply it is nested and on the numbers in it."""
EXAMPLE = "q - k < 3"

LARGEST_PLACE, LARGEST_VALUE = 1 << 20, 1 << 62
"""No sequence is longer than the one, and no number in between may grow beyond the other: int64 would wrap around."""
INSTEAD = {"=": "==", "/": "//", "&": "and", "&&": "and", "|": "or", "||": "or", "!": "not", "~": "not", "^": "!=",
           "≤": "<=", "≥": ">=", "≠": "!=", "<>": "!=", "·": "*", "×": "*", "−": "-", "，": ",",
           "＜": "<", "＞": ">", "＝": "==", "（": "(", "）": ")",
           "＋": "+", "－": "-", "＊": "*", "／": "//", "％": "%"}  # fmt: skip
"""Signs of other languages -> ours."""

_TOKEN = re.compile(r" +|[A-Za-z_][A-Za-z_0-9]*|[0-9]+(?![\w.])|//|<=|>=|==|!=|<(?!>)|>|[-+*%(),]", re.ASCII)
_STRANGE = re.compile(r"[\w.]+|&&|\|\||<>|.")
_COMPARE: Mapping[type[ast.cmpop], tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    ast.Lt: ("<", torch.lt), ast.LtE: ("<=", torch.le), ast.Gt: (">", torch.gt),
    ast.GtE: (">=", torch.ge), ast.Eq: ("==", torch.eq), ast.NotEq: ("!=", torch.ne),
}  # fmt: skip
_ARITHMETIC: Mapping[type[ast.operator], tuple[str, Callable[[Tensor, Tensor], Tensor]]] = {
    ast.Add: ("+", torch.add), ast.Sub: ("-", torch.sub), ast.Mult: ("*", torch.mul),
    ast.FloorDiv: ("//", torch.floor_divide), ast.Mod: ("%", torch.remainder),
}  # fmt: skip
_PARTS = [*WORDS, *SIGNS[:-3], *FUNCTIONS, "brackets", "whole numbers", *NAMES]


@dataclass(frozen=True)
class Predicate:
    """A condition that has been read; ``needs`` are the names in it. Two of the same text are equal.

    >>> near = parse("0 <= q - k < 2")
    >>> near(torch.arange(3)[:, None], torch.arange(3)[None, :]).int().tolist()
    [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    """

    text: str
    needs: frozenset[str] = field(compare=False)
    tree: ast.expr = field(compare=False, repr=False)

    def __call__(
        self, q: Tensor, k: Tensor, *, b: Tensor | None = None, h: Tensor | None = None,
        n_q: int | None = None, n_k: int | None = None,
    ) -> Tensor:  # fmt: skip
        """Where it holds: True or False in the shape that the places have together.

        Raises:
            ConfigError: a division by 0 that matters; behind ``and`` and ``or`` it need not, as in Python.
            ValueError: a name that the condition needs is not given.
        """
        given = {"q": q, "k": k, "b": b, "h": h, "n_q": n_q, "n_k": n_k}
        missing = [name for name in NAMES if name in self.needs and given[name] is None]
        if missing:
            raise ValueError(f"the condition {self.text} needs {', '.join(missing)}")
        places = {name: torch.as_tensor(each, device=q.device) for name, each in given.items() if name in self.needs}
        run = _Run(self.text, places)
        holds = run.value(self.tree, torch.tensor(True, device=q.device))
        return holds.expand(torch.broadcast_shapes(holds.shape, q.shape, k.shape))

    def to_torch(self, names: Mapping[str, str] | None = None) -> str:
        """The same as one line of torch code; ``names`` are put in place of q, k, b, h, n_q and n_k.

        >>> parse("q - k < 3 and k % 2 == 0").to_torch()
        '(q - k < 3) & (k % 2 == 0)'
        """
        text = _written(self.tree, names or {})
        return text if _moves(self.tree) else f"torch.tensor({text})"


def parse(text: Any, field: str = "masks") -> Predicate:
    """The condition that ``text`` says; ``field`` is what an error calls the setting.

    Raises:
        ConfigError: something that the language does not have, with its column; too long, too deep or too large.
    """
    return _parse(" ".join(check_text(field, text).split()), field)


@lru_cache(maxsize=256)
def _parse(text: str, field: str, repairs: bool = True) -> Predicate:
    if not text:
        raise ConfigError("condition_empty", field=field, given=text, example=EXAMPLE)
    if len(text) > MAX_TEXT:
        raise ConfigError("condition_long", field=field, given=len(text), high=MAX_TEXT)
    reader = _Reader(text, field, repairs)
    reader.signs()
    try:
        tree = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        column = min(error.offset or len(text), len(text))  # where the text ends too soon, Python says 0
        raise ConfigError("condition_broken", field=field, given=text, column=column, reason=error.msg) from None
    reader.condition(tree, 1)
    return Predicate(text, frozenset(reader.names), tree)


class _Reader:
    """Walks a syntax tree once and refuses what does not belong in it: what comes out is safe to compute."""

    def __init__(self, text: str, field: str, repairs: bool) -> None:
        self.text, self.field, self.repairs = text, field, repairs
        self.names: set[str] = set()

    def signs(self) -> None:
        """Every sign is one of ours. What is left for the tree are names, whole numbers, operators and brackets."""
        place = 0
        while place < len(self.text):
            token = _TOKEN.match(self.text, place)
            if token is None:
                strange = _STRANGE.match(self.text, place)
                sign = strange[0] if strange else self.text[place]
                if sign in INSTEAD:
                    self.refuse("condition_sign", sign, place, INSTEAD[sign])
                raise ConfigError("condition_stranger", field=self.field, given=sign, column=place + 1, parts=_PARTS)
            place = token.end()

    def condition(self, node: ast.expr, depth: int) -> None:
        """``node`` is something that holds or not."""
        self.check_depth(node, depth)
        if isinstance(node, ast.BoolOp):
            for each in node.values:
                self.condition(each, depth + 1)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.condition(node.operand, depth + 1)
        elif isinstance(node, ast.Compare):
            for sign in node.ops:
                if type(sign) not in _COMPARE:
                    self.refuse_node(node)
            for each in (node.left, *node.comparators):
                self.number(each, depth + 1)
        else:
            self.number(node, depth)  # a better reason to refuse it may lie inside
            said = self.said(node)
            self.refuse("condition_number", said, node.col_offset, f"{said} != 0")

    def number(self, node: ast.expr, depth: int) -> int:
        """``node`` is a whole number; its size at most."""
        self.check_depth(node, depth)
        size = self._size(node, depth)
        if size > LARGEST_VALUE:
            raise ConfigError("condition_large", field=self.field, given=self.said(node), column=node.col_offset + 1)
        return size

    def _size(self, node: ast.expr, depth: int) -> int:
        if isinstance(node, ast.Constant) and type(node.value) is int:
            if node.value > MAX_NUMBER:
                self.refuse("condition_high", self.said(node), node.col_offset, str(MAX_NUMBER), high=MAX_NUMBER)
            return node.value
        if isinstance(node, ast.Name):
            if node.id not in NAMES:
                close = nearest(node.id, NAMES)
                self.refuse("condition_name", node.id, node.col_offset, close, allowed=[*NAMES, *FUNCTIONS])
            self.names.add(node.id)
            return LARGEST_PLACE
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return self.number(node.operand, depth + 1)
        if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            left, right = self.number(node.left, depth + 1), self.number(node.right, depth + 1)
            if isinstance(node.op, ast.Mult):
                return left * right
            return left + right if isinstance(node.op, ast.Add | ast.Sub) else max(left, right)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self._call(node, node.func, depth)
        if isinstance(node, ast.BoolOp | ast.Compare) or (isinstance(node, ast.UnaryOp) and _is_not(node)):
            self.condition(node, depth)
            raise ConfigError("condition_no_number", field=self.field, given=self.said(node),
                              column=node.col_offset + 1)  # fmt: skip
        self.refuse_node(node)

    def _call(self, node: ast.Call, function: ast.Name, depth: int) -> int:
        if function.id not in FUNCTIONS:
            close = nearest(function.id, FUNCTIONS)
            self.refuse("condition_function", function.id, node.col_offset, close, allowed=list(FUNCTIONS))
        if node.keywords:
            self.refuse_node(node)
        wanted = "1" if function.id == "abs" else "2"
        if len(node.args) != int(wanted):
            raise ConfigError("condition_arguments", field=self.field, given=self.said(node), function=function.id,
                              column=node.col_offset + 1, wanted=wanted, count=len(node.args))  # fmt: skip
        return max(self.number(each, depth + 1) for each in node.args)

    def check_depth(self, node: ast.expr, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise ConfigError("condition_deep", field=self.field, given=self.text, column=node.col_offset + 1,
                              high=MAX_DEPTH)  # fmt: skip

    def said(self, node: ast.expr) -> str:
        """The text of a node; all of it is ASCII by now, so that bytes and characters are counted alike."""
        return self.text[node.col_offset : node.end_col_offset]

    def refuse_node(self, node: ast.expr) -> NoReturn:
        raise ConfigError("condition_node", field=self.field, given=self.said(node), column=node.col_offset + 1,
                          parts=_PARTS)  # fmt: skip

    def refuse(self, code: str, given: str, place: int, instead: str, **values: Any) -> NoReturn:
        """A refusal that knows what may stand there; where the rest is right, the whole rule comes along as nearest."""
        if self.repairs:
            pieces = self.text[:place], instead, self.text[place + len(given) :]
            for glue in ("", " "):
                repaired = " ".join(glue.join(pieces).split())
                try:
                    values["nearest"] = f"where:{_parse(repaired, self.field, repairs=False).text}"
                    break
                except ConfigError:
                    continue
        raise ConfigError(code, field=self.field, given=given, column=place + 1, instead=instead, **values)


@dataclass(frozen=True)
class _Run:
    """One evaluation. ``live`` says where a value is asked for at all: what ``and`` and ``or`` skip is never wrong."""

    text: str
    places: Mapping[str, Tensor]

    def value(self, node: ast.expr, live: Tensor) -> Tensor:
        if isinstance(node, ast.Constant):
            return torch.tensor(node.value, device=live.device)
        if isinstance(node, ast.Name):
            return self.places[node.id]
        if isinstance(node, ast.UnaryOp):
            inner = self.value(node.operand, live)
            return ~inner if _is_not(node) else -inner
        if isinstance(node, ast.BoolOp):
            holds = self.value(node.values[0], live)
            for each in node.values[1:]:
                if isinstance(node.op, ast.And):
                    holds = holds & self.value(each, live & holds)
                else:
                    holds = holds | self.value(each, live & ~holds)
            return holds
        if isinstance(node, ast.Compare):
            left, holds = self.value(node.left, live), torch.tensor(True, device=live.device)
            for sign, each in zip(node.ops, node.comparators, strict=True):
                right = self.value(each, live & holds)
                holds = holds & _COMPARE[type(sign)][1](left, right)
                left = right
            return holds
        if isinstance(node, ast.BinOp):
            left, right = self.value(node.left, live), self.value(node.right, live)
            if isinstance(node.op, ast.FloorDiv | ast.Mod):
                right = self.divisor(right, live)
            return _ARITHMETIC[type(node.op)][1](left, right)
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        values = [self.value(each, live) for each in node.args]
        if node.func.id == "abs":
            return values[0].abs()
        return (torch.minimum if node.func.id == "min" else torch.maximum)(*values)

    def divisor(self, divisor: Tensor, live: Tensor) -> Tensor:
        """The divisor with 1 for the zeros that nobody asks for.

        Raises:
            ConfigError: one of the zeros is asked for.
        """
        wrong = (divisor == 0) & live
        if not wrong.is_meta and bool(wrong.any()):
            spots = torch.broadcast_tensors(wrong, *self.places.values())
            first = tuple(spots[0].nonzero()[0].tolist())
            at = ", ".join(f"{name} = {int(each[first])}" for name, each in zip(self.places, spots[1:], strict=True))
            raise ConfigError("condition_zero", field="masks", given=self.text, place=at)
        return divisor.masked_fill(divisor == 0, 1)


def _is_not(node: ast.UnaryOp) -> bool:
    return isinstance(node.op, ast.Not)


def _moves(node: ast.expr) -> bool:
    """Whether it depends on the place, so that torch has a tensor there; else there is a plain number of Python."""
    return any(isinstance(each, ast.Name) and each.id in ("q", "k", "b", "h") for each in ast.walk(node))


def _written(node: ast.expr, names: Mapping[str, str]) -> str:
    """As torch code. ``&`` binds closer than a comparison there, so both its sides stand in brackets."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.Name):
        return names.get(node.id, node.id)
    if isinstance(node, ast.UnaryOp):
        inner = _bracketed(node.operand, names)
        return f"-{inner}" if not _is_not(node) else f"~{inner}" if _moves(node) else f"(not {inner})"
    if isinstance(node, ast.BoolOp):
        sign = " & " if isinstance(node.op, ast.And) else " | "
        return sign.join(_bracketed(each, names) for each in node.values)
    if isinstance(node, ast.Compare):
        ends = [node.left, *node.comparators]
        links = [f"{_written(ends[i], names)} {_COMPARE[type(sign)][0]} {_written(ends[i + 1], names)}"
                 for i, sign in enumerate(node.ops)]  # fmt: skip
        return links[0] if len(links) == 1 else " & ".join(f"({link})" for link in links)
    if isinstance(node, ast.BinOp):
        left, right = _bracketed(node.left, names), _bracketed(node.right, names)
        if isinstance(node.op, ast.FloorDiv | ast.Mod):  # torch computes also where nobody asks for the quotient
            if _moves(node.right):
                right = f"torch.where({right} == 0, 1, {right})"
            elif not isinstance(node.right, ast.Constant) or not node.right.value:
                right = f"({right} or 1)"
        return f"{left} {_ARITHMETIC[type(node.op)][0]} {right}"
    assert isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    values = [_written(each, names) for each in node.args]
    if node.func.id == "abs" or not _moves(node):
        return f"{node.func.id}({', '.join(values)})"
    sign = "<" if node.func.id == "min" else ">"
    first, second = (_bracketed(each, names) for each in node.args)
    return f"torch.where({first} {sign} {second}, {first}, {second})"


def _bracketed(node: ast.expr, names: Mapping[str, str]) -> str:
    text = _written(node, names)
    return text if isinstance(node, ast.Constant | ast.Name | ast.Call) else f"({text})"
