"""What a fault is: a mistake that people make, as one changed stretch of the library's own code."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from transformer_core.checks.table import ASPECTS
from transformer_core.workshop import MODULES, PACKAGE, Workshop, altered

GROUPS = ("attention", "masks", "layers", "positions", "training")
"""Where in the model a fault sits; one file each."""


@dataclass(frozen=True)
class Fault:
    """In ``place`` (module.function or method) the code reads ``wrong`` where ``right`` should stand.

    ``story`` tells how the mistake comes about, what looks right in spite of it and what gives it away; ``section`` is
    that of the paper. ``breaks`` names what is wrong with such a model (``ASPECTS``): a check that claims one of
    those and stays green passes wrongly.

    Raises:
        ValueError: an unknown group, or an aspect that is none.
    """

    name: str
    group: str
    title: str
    story: str
    section: str
    place: str
    right: str
    wrong: str
    breaks: frozenset[str]

    def __post_init__(self) -> None:
        if self.group not in GROUPS:
            raise ValueError(f"{self.name}: group {self.group!r} is not known; {', '.join(GROUPS)} are")
        strays = sorted(self.breaks.difference(ASPECTS))
        if strays or not self.breaks:
            got = ", ".join(strays) or "nothing"
            raise ValueError(f"{self.name} breaks {got}; at least one of {', '.join(ASPECTS)} is wanted")

    @cached_property
    def shop(self) -> Workshop:
        """The modules to build, train and decode with that have this fault; read once."""
        return altered(self.place, self.right, self.wrong)

    def lines(self) -> tuple[str, str, int, list[str], list[str]]:
        """File, function, number of the first line that differs, and from there the right lines and the wrong ones."""
        ((path, text),) = self.shop.texts.items()
        own, changed = (each.splitlines() for each in (Path(path).read_text(encoding="utf-8"), text))
        differing = [i for i, (one, other) in enumerate(zip(own, changed, strict=True)) if one != other]
        first, last = differing[0], differing[-1] + 1
        module = next(each for each in sorted(MODULES, key=len, reverse=True) if self.place.startswith(f"{each}."))
        file = f"{PACKAGE}/{module.replace('.', '/')}.py"
        return file, self.place.removeprefix(f"{module}."), first + 1, own[first:last], changed[first:last]
