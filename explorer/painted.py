"""Cells painted by hand as one short word, for the address and the session: ``3x4.`` and a bit a cell, 1 = may attend.

The bits stand row by row, six to a letter, as in base64 for addresses. An empty word is a layer in which nothing is
closed. A layer belongs to one size; when the lengths change, what both sizes share stays and new cells are open.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence

from explorer.refusals import Refusal

MAX_LINKED = 64 * 64
"""A layer of more cells is not written into the address; it travels as a file."""
WORD = re.compile(r"([1-9][0-9]{0,3})x([1-9][0-9]{0,3})\.([A-Za-z0-9_-]*)")

Matrix = tuple[tuple[bool, ...], ...]


def word(matrix: Sequence[Sequence[bool]] | None) -> str:
    """The word of a matrix of queries by keys.

    >>> word(((True, False, True), (False, True, True))), word(((True, True),)), word(None)
    ('2x3.rA', '', '')
    """
    if not matrix or all(all(row) for row in matrix):
        return ""
    bits = "".join("1" if cell else "0" for row in matrix for cell in row)
    packed = int(bits.ljust(-(-len(bits) // 8) * 8, "0"), 2).to_bytes(-(-len(bits) // 8), "big")
    letters = base64.urlsafe_b64encode(packed).decode("ascii").rstrip("=")
    return f"{len(matrix)}x{len(matrix[0])}.{letters}"


def matrix(told: str, field: str = "", longest: int = 9999) -> Matrix | None:
    """The matrix of a word; None when nothing is painted.

    >>> matrix("2x3.rA")
    ((True, False, True), (False, True, True))

    Raises:
        Refusal: not such a word, more rows or columns than ``longest``, or another number of cells than it says.
    """
    if told in ("", "none"):
        return None
    parts = WORD.fullmatch(told)
    if parts is None:
        raise Refusal("painted_broken", field)
    rows, columns = int(parts[1]), int(parts[2])
    if max(rows, columns) > longest:
        raise Refusal("painted_large", field, rows=rows, columns=columns, high=longest)
    size = rows * columns
    letters = parts[3]
    if len(letters) != -(-(-(-size // 8) * 8) // 6):
        raise Refusal("painted_cells", field, rows=rows, columns=columns)
    packed = base64.urlsafe_b64decode(letters + "=" * (-len(letters) % 4))
    bits = f"{int.from_bytes(packed, 'big'):0{8 * len(packed)}b}"
    return tuple(tuple(bit == "1" for bit in bits[at : at + columns]) for at in range(0, size, columns))


def fitted(told: str, rows: int, columns: int) -> str:
    """The same layer for another size: what both share stays, what is new is open.

    >>> fitted(word(((True, False),)), 2, 3) == word(((True, False, True), (True, True, True)))
    True
    """
    held = matrix(told)
    if held is None:
        return ""
    open_row = (True,) * columns
    kept = [(*row, *open_row[len(row) :])[:columns] for row in held[:rows]]
    return word([*kept, *[open_row] * (rows - len(kept))])


def linked(told: str) -> bool:
    """Whether a layer is small enough for an address."""
    parts = WORD.fullmatch(told)
    return parts is None or int(parts[1]) * int(parts[2]) <= MAX_LINKED
