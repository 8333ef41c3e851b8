"""The settings of one run as plain classes: the values that it had, for the code that reads them and nothing else."""

import ast
import json
from collections.abc import Collection, Iterator
from typing import Any

from transformer_core.checked import Checked
from transformer_core.config import MaskConfig, ModelConfig
from transformer_core.records.sources import Library
from transformer_core.rules import condition, parse_rule

WIDTH = 120


def plain_settings(library: Library, section: Checked, used: Collection[str]) -> str:
    """A section with this run's values; settings and properties that no code reads (``used``) are left out.

    Masks are read by names that are put together while the program runs, so all of theirs stay.
    """
    kind = type(section)
    source = library[kind.__module__]
    node = source.definitions[kind.__name__]
    assert isinstance(node, ast.ClassDef)
    lines = ["@dataclass(frozen=True)", f"class {kind.__name__}:", f'    """The {kind.section} of this run."""', ""]
    properties: list[str] = []
    for each in node.body:
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.target.id in kind.keys():
            if each.target.id in used or kind is MaskConfig:
                value = getattr(section, each.target.id)
                lines += _field(f"{each.target.id}: {ast.unparse(each.annotation)} = ", value)
        elif isinstance(each, ast.FunctionDef) and each.name in used and _is_property(each):
            start, end = source.span(each)
            properties += ["", *("    " + source.text[start:end].decode()).split("\n")]
    if "replace" in used and kind is not MaskConfig and kind is not ModelConfig:
        properties += ["", f"    def replace(self, **changes) -> {kind.__name__}:",
                       '        """A copy with some settings changed."""',
                       "        return dataclasses.replace(self, **changes)"]  # fmt: skip
    return "\n".join(lines + properties)


def literal(value: Any) -> str:
    """Plain data as Python reads it, text in double quotes.

    >>> literal(("padding", 0.5, None)), literal([(3, 1e-05)])
    ('("padding", 0.5, None)', '[(3, 1e-05)]')
    """
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple | list):
        inside = ", ".join(map(literal, value)) + "," * (isinstance(value, tuple) and len(value) == 1)
        return f"({inside})" if isinstance(value, tuple) else f"[{inside}]"
    return repr(value)


def _is_property(node: ast.FunctionDef) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)


def _field(start: str, value: object) -> Iterator[str]:
    """A setting; a long list, such as the matrix of a custom mask, a row a line."""
    line = f"    {start}{literal(value)}"
    if len(line) <= WIDTH or not isinstance(value, tuple):
        yield line
        return
    yield f"    {start}("
    yield from (f"        {literal(row)}," for row in value)
    yield "    )"


def plain_conditions(masks: MaskConfig) -> str:
    """``condition`` for the rules "where:..." of these masks, each as the torch code that it means; or nothing."""
    every = (*masks.encoder_self, *masks.decoder_self, *masks.cross)
    rules = [rule for rule in every if parse_rule(rule)[0] == "where"]
    if not rules:
        return ""
    lines = [
        "class Condition:",
        '    """A mask rule "where:..." over the places q and k, the sentence b and the head h, written with torch."""',
        "",
        "    def __init__(self, needs, holds) -> None:",
        "        self.needs, self.holds = needs, holds",
        "",
        "    def __call__(self, q, k, *, b=None, h=None, n_q=None, n_k=None):",
        "        holds = self.holds(q, k, b, h, n_q, n_k)",
        "        return holds.expand(torch.broadcast_shapes(holds.shape, q.shape, k.shape))",
        "",
        "",
        "CONDITIONS = {",
    ]
    for rule in dict.fromkeys(rules):
        read = condition(rule)
        lines += [f"    {literal(rule)}: Condition(", f"        {literal(sorted(read.needs))},",
                  f"        lambda q, k, b, h, n_q, n_k: {read.to_torch()},", "    ),"]  # fmt: skip
    return "\n".join([*lines, "}", "", "", "def condition(rule: str) -> Condition:", "    return CONDITIONS[rule]"])
