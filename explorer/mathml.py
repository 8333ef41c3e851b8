r"""LaTeX of our own formula table as MathML, which every browser draws and every screen reader reads.

Only strings of ``transformer_core.formulas`` come here, never what a person typed: the result is inserted as markup.
"""

from __future__ import annotations

import re
from functools import lru_cache

from latex2mathml.converter import convert

_LETTERS = re.compile(r'<mrow>((?:<mi mathvariant="normal">[^<]+</mi>)+)</mrow>')
_LETTER = re.compile(r"<mi[^>]*>([^<]+)</mi>")
_FUNCTION = re.compile(r"<mi>(log|sin|cos)</mi>")
_ROLES = {"Q": "tl-mq", "K": "tl-mk", "V": "tl-mv"}


@lru_cache(maxsize=512)
def block(latex: str, coloured: bool = False) -> tuple[str, ...]:
    r"""A displayed formula in the parts between which a narrow pane may break it: left side, right side, what follows.

    >>> len(block(r"a = b, \; c = d"))
    3
    """
    left, relation, right = sides(latex)
    if not left:
        return (_tag(_body(latex, coloured), "inline"),)
    first, *others = right.split(r", \;")
    parts = [first + (r",\;" if others else ""), *others]
    marked = f'<mrow class="tl-x-mlhs">{_body(left, coloured)}</mrow><mo>{relation}</mo>'
    return (
        _tag(marked, "inline"),
        *(_tag(f'<mstyle displaystyle="true">{_body(part, coloured)}</mstyle>', "inline") for part in parts),
    )


@lru_cache(maxsize=512)
def inline(latex: str, coloured: bool = False) -> str:
    r"""The right side on one line of text height, for the formula column: fractions are written with a slash."""
    right = sides(latex)[2]
    return _tag(_body(one_line(right), coloured), "inline")


def sides(latex: str) -> tuple[str, str, str]:
    r"""What the tensor is called, the sign after it, and what it is: ``=``, or ``:`` before an instruction.

    >>> sides(r"a = b"), sides(r"M : m := 0, k = 0")
    (('a', '=', 'b'), ('M', ':', 'm := 0, k = 0'))
    """
    left, equals, right = latex.partition(" = ")
    if ":=" in left:
        left, equals, right = latex.partition(" : ")
    return (left, equals.strip(), right) if equals else ("", "", latex)


def one_line(latex: str) -> str:
    r"""The same formula without anything taller than a line.

    >>> one_line(r"\frac{Q K^{\top}}{\sqrt{d_k}}")
    'Q K^{\\top} / \\sqrt{d_k}'
    """
    flat = latex.replace(r"\left", "").replace(r"\right", "")
    while (start := flat.find(r"\frac{")) >= 0:
        above, rest = _group(flat, start + len(r"\frac"))
        below, end = _group(flat, rest)
        above, below = (f"({part})" if re.search(r" [+-] ", part) else part for part in (above, below))
        flat = f"{flat[:start]}{above} / {below}{flat[end:]}"
    return flat


def _group(latex: str, at: int) -> tuple[str, int]:
    """The text between the brace at ``at`` and its partner, and the place behind it."""
    depth = 0
    for i in range(at, len(latex)):
        depth += {"{": 1, "}": -1}.get(latex[i], 0)
        if depth == 0:
            return latex[at + 1 : i], i + 1
    raise ValueError(f"unbalanced braces in {latex!r}")


def _body(latex: str, coloured: bool) -> str:
    """The converted formula without its math tag: names as one word each, queries, keys and values in their colours."""
    body = convert(latex).partition(">")[2].removesuffix("</math>")
    body = _LETTERS.sub(lambda match: f"<mi>{''.join(_LETTER.findall(match[1]))}</mi>", body)
    body = _FUNCTION.sub(r"<mi>\1</mi><mspace width='0.17em'></mspace>", body)
    if coloured:
        body = re.sub(r"<mi>([QKV])</mi>", lambda match: f'<mi class="{_ROLES[match[1]]}">{match[1]}</mi>', body)
    return body


def _tag(body: str, display: str) -> str:
    return f'<math display="{display}">{body}</math>'
