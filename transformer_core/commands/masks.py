"""``masks``: prints who may see whom, and which rule hides the others."""

import argparse
import json
from collections.abc import Iterator
from typing import Any

from torch import Tensor

from transformer_core.batches import Batch
from transformer_core.commands.common import WIDTH, Parser, asked_preset, asks_for_a_model, checked_seed, print_lines
from transformer_core.masks import by_rule, empty_rows, for_attention
from transformer_core.presets import Preset

HELP = "print who may see whom in each attention, and which rule hides the others"
LETTERS = {"padding": "p", "causal": "c", "window": "w", "prefix": "f", "block": "b", "strided": "s", "random": "r",
           "documents": "d", "where": "q", "custom": "x"}  # fmt: skip
"""What stands in a cell that a rule hides; of several rules, the one that is named first."""
VISIBLE = "#"
ENDS = {"encoder_self": ("src", "src"), "decoder_self": ("tgt", "tgt"), "cross": ("tgt", "src")}
"""The sides that queries and keys come from."""
LABEL = 10
"""The width of the tokens beside the rows."""
MAX_KEYS = WIDTH - LABEL - 8
"""A wider grid is not drawn; its counts are."""
MAX_CELLS = 1 << 24


def arguments(one: Parser) -> None:
    asks_for_a_model(one)
    one.add_argument("--attention", choices=[*ENDS, "all"], default="all", help="the attention to show (all)")


def run(options: argparse.Namespace) -> int:
    preset = asked_preset(options)
    batch = preset.batch(checked_seed(options.seed))
    names = [name for name in ENDS if _ends(preset, batch, name) is not None]
    if options.attention != "all":
        if options.attention not in names:
            raise ValueError(f"{preset.name} is {preset.model.architecture}; it has {' and '.join(names)} attention")
        names = [options.attention]
    found = [_rows(preset, batch, name) for name in names]
    if options.json:
        print(json.dumps(found, ensure_ascii=False))
        return 0
    print(f"{preset.name}: {VISIBLE} may be seen; what hides the others:")
    print(", ".join(f"{letter} {rule}" for rule, letter in LETTERS.items()))
    for each in found:
        print_lines(_lines(each))
    return 0


def _ends(preset: Preset, batch: Batch, attention: str) -> tuple[Tensor, Tensor] | None:
    """The tokens that ask and those that are attended to; None where the model has no such attention."""
    of, to = (getattr(batch, side) for side in ENDS[attention])
    return None if of is None or to is None else (of, to)


def _rows(preset: Preset, batch: Batch, attention: str) -> dict[str, Any]:
    """One attention as plain data: rules, shape, and for each sentence (and head, where heads differ) its grid."""
    ends = _ends(preset, batch, attention)
    assert ends is not None
    (queries, keys), model = ends, preset.model
    how = {"pad_id": model.pad_id, "n_heads": model.n_heads}
    cells = len(keys) * model.n_heads * queries.shape[1] * keys.shape[1]
    if cells > MAX_CELLS:
        raise ValueError(f"{attention} has {cells:,} cells, more than this program lays out; at most {MAX_CELLS:,} fit")
    alone = by_rule(preset.masks, attention, queries.shape[1], keys, **how)
    allowed = for_attention(preset.masks, attention, queries.shape[1], keys, **how)
    shape = (len(keys), model.n_heads, queries.shape[1], keys.shape[1])
    printed = [getattr(batch, f"{side}_tokens") for side in ENDS[attention]]
    grids = []
    for sample in range(shape[0]):
        for head in range(shape[1] if allowed is not None and allowed.dim() == 4 and allowed.shape[1] > 1 else 1):
            rows = [[VISIBLE] * shape[3] for _ in range(shape[2])]
            for rule, seen in reversed(alone.items()):
                for i, j in (~seen[sample, head]).nonzero().tolist():
                    rows[i][j] = LETTERS[rule.partition(":")[0]]
            lines = ["".join(row) for row in rows]
            labels = [[str(token) for token in side[sample]] if side else [] for side in printed]
            grids.append({"sentence": sample, "head": head, "queries": labels[0], "keys": labels[1], "rows": lines,
                          "visible": [line.count(VISIBLE) for line in lines]})  # fmt: skip
    empty = [] if allowed is None else empty_rows(allowed.expand(shape))
    return {"attention": attention, "rules": list(getattr(preset.masks, attention)), "shape": list(shape),
            "heads_differ": len(grids) > shape[0], "grids": grids,
            "empty_rows": sorted({(sample, row) for sample, _, row in empty})}  # fmt: skip


def _lines(found: dict[str, Any]) -> Iterator[str]:
    batch, _, q_len, k_len = found["shape"]
    yield ""
    yield f"{found['attention']}: {', '.join(found['rules']) or 'no rules'}; {q_len} queries x {k_len} keys"
    if q_len != k_len:
        yield "Queries and keys differ in number; for rules of distance the last query stands at the last key."
    for grid in found["grids"]:
        yield f"sentence {grid['sentence'] + 1} of {batch}" + f", head {grid['head'] + 1}" * found["heads_differ"]
        gap = " " if 2 * k_len <= MAX_KEYS else ""
        if k_len > MAX_KEYS:
            yield f"  too wide to draw; keys seen: {min(grid['visible'])} to {max(grid['visible'])}"
            continue
        yield f"{'':{LABEL}}  {gap.join(str(key % 10) for key in range(k_len))}  sees"
        for number, (row, count) in enumerate(zip(grid["rows"], grid["visible"], strict=True)):
            label = grid["queries"][number] if grid["queries"] else str(number)
            yield f"{label[:LABEL]:>{LABEL}}  {gap.join(row)}  {count:>4}"
    empty = found["empty_rows"]
    if not empty:
        yield "every query sees a key"
        return
    places = ", ".join(f"q = {row} of sentence {sample + 1}" for sample, row in empty[:6])
    more = f" and {len(empty) - 6} more" if len(empty) > 6 else ""
    yield f"{len(empty)} empty row{'s' * (len(empty) > 1)}, without any key to see: {places}{more}"
