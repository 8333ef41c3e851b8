"""What the four panes show of one ledger entry: formula and symbols, numbers with their labels, code, statistics."""

from __future__ import annotations

import math
import re
from typing import Any

import torch
from torch import Tensor

from explorer import code_view, figures, mathml, words
from explorer.live import Live
from explorer.picture import layer_maps, vocabulary
from transformer_core import formulas, masks
from transformer_core.ledger import Entry, summary
from transformer_core.rules import condition

REASONS = ("padding", "causal", "window", "prefix", "block", "strided", "custom")
"""Why a pair is masked: bit i of a cell's byte stands for the i-th rule, and custom for every other."""
MASKED = 128
"""The bit that says that the recorded mask hides the pair, whatever the reason."""
TOP = 5

_PARAMETERS = {
    "W_i^Q": "w_q.weight",
    "W_i^K": "w_k.weight",
    "W_i^V": "w_v.weight",
    "W^O": "w_o.weight",
    "W_1": "w_1.weight",
    "W_2": "w_2.weight",
    r"E_{\mathrm{src}}": "/src_embedding.weight",
    r"E_{\mathrm{tgt}}": "/tgt_embedding.weight",
    "W^{PE}": "weight",
}
_SYMBOLS = {"q": "Q", "k": "K", "v": "V", "allowed": "M", "positions": "PE"}


def detail_payload(live: Live, key: str, sample: int, head: int, lang: str) -> dict[str, Any] | None:
    """The panes of one entry; None when the run has no such tensor. Sentence and head are moved into the run."""
    entries = live.entries()
    entry = entries.get(key)
    if entry is None:
        return None
    formula = formulas.find(key, live.model.config, live.model.masks)
    seen = figures.look(entry.axes, entry.value.dtype, formula.latex if formula else "")
    sizes = dict(zip(entry.axes, entry.shape, strict=True))
    sample, head = min(max(sample, 0), sizes.get("B", 1) - 1), min(max(head, 0), sizes.get("H", 1) - 1)
    source = code_view.view(entry.source, live.shop.texts)
    return {
        "run": f"{live.id}-{lang}",
        "key": key,
        "sample": sample,
        "head": head,
        "formula": formula_payload(live, entry, entries, formula, lang),
        "tensor": tensor_payload(live, entry, entries, seen, sample, head),
        "code": source.to_dict() if source else None,
        "maps": layer_maps(entries, key),
    }


# ---------------------------------------------------------------------------------------------------------- the formula


def formula_payload(
    live: Live, entry: Entry, entries: dict[str, Entry], formula: formulas.Formula | None, lang: str
) -> dict[str, Any] | None:
    """The sentence, and one line for each symbol: its shape, and the row or the parameter it comes from."""
    if formula is None:
        return None
    say = f"formulas.{formula.name}"
    return {
        "name": formula.name,
        "terms": _terms(live, entry, entries, formula),
        "result": _result(entry, entries, formula),
        "sentence": words.text(lang, say) if words.has(say) else "",
    }


def _terms(live: Live, entry: Entry, entries: dict[str, Entry], formula: formulas.Formula) -> list[dict[str, Any]]:
    keys = list(entries)
    right = formula.right_side
    terms = []
    for key in formulas.inputs(entry.key, keys):
        read = entries[key]
        latex = _symbol(read.name, right)
        terms.append(
            {
                "math": _math(latex),
                "role": read.name if read.name in ("q", "k", "v") else "",
                "shape": figures.shape_text(read),
                "key": key,
                "index": read.index,
                "name": read.name,
            }
        )
    config = live.model.config
    if r"\sqrt{d_k}" in right:
        terms.append(
            {
                "math": _math(r"\sqrt{d_k}"),
                "role": "",
                "shape": f"√{config.d_head} = {math.sqrt(config.d_head):.4g}",
                "note": f"d_k = {config.d_model} / {config.n_heads}",
            }
        )
    if r"\sqrt{d_{\mathrm{model}}}" in right:
        root = math.sqrt(config.d_model)
        terms.append(
            {
                "math": _math(r"\sqrt{d_{\mathrm{model}}}"),
                "role": "",
                "shape": f"√{config.d_model} = {root:.4g}",
                "note": "",
            }
        )
    return terms + _parameters(live, entry, right)


def _parameters(live: Live, entry: Entry, right: str) -> list[dict[str, Any]]:
    """The learned matrices of the formula with their shapes and names in the state dict."""
    known = dict(live.model.named_parameters())
    found = []
    for latex, name in _PARAMETERS.items():
        full = name[1:] if name.startswith("/") else f"{entry.path}.{name}"
        if latex in right and full in known:
            shape = "×".join(str(size) for size in known[full].shape)
            found.append({"math": _math(latex), "role": "", "shape": shape, "note": name.lstrip("/")})
    if entry.name == "logits":
        name = next((each for each in ("output.weight", "classifier.weight") if each in known), "")
        if name:
            shape = "×".join(str(size) for size in known[name].shape)
            found.append({"math": _math("W"), "role": "", "shape": shape, "note": name})
    return found


def _symbol(name: str, right: str) -> str:
    """The letter under which a tensor appears on the right side.

    >>> _symbol("allowed", r"\\mathrm{softmax} (\\mathrm{scores} + M)"), _symbol("feed_forward_norm", "x W_i^Q")
    ('M', 'x')
    """
    letter = _SYMBOLS.get(name, "")
    plain = name.replace("_", r"\_")
    if rf"\mathrm{{{plain}}}" in right:
        return rf"\mathrm{{{plain}}}"
    if letter and letter in right:
        return letter
    if name == "heads":
        return r"\mathrm{head}_i"
    return "x" if re.search(r"(?<![A-Za-z])x(?![A-Za-z])", right) else rf"\mathrm{{{plain}}}"


def _result(entry: Entry, entries: dict[str, Entry], formula: formulas.Formula) -> dict[str, Any]:
    """The left side: its shape, and the first later row that reads it."""
    keys = list(entries)
    at = keys.index(entry.key)
    readers = (key for key in keys[at + 1 : at + 60] if entry.key in formulas.inputs(key, keys))
    reader = next(readers, None)
    return {
        "math": mathml.inline(mathml.sides(formula.latex)[0] or formula.latex, True),
        "shape": figures.shape_text(entry),
        "key": reader,
        "index": entries[reader].index if reader else None,
        "name": entries[reader].name if reader else "",
    }


def _math(latex: str) -> str:
    """One symbol, on a line of text."""
    return mathml.inline(latex, True)


# ----------------------------------------------------------------------------------------------------------- the tensor


def tensor_payload(
    live: Live, entry: Entry, entries: dict[str, Entry], seen: figures.Look, sample: int, head: int
) -> dict[str, Any]:
    """The numbers of an entry, whole when they are few, else the map of one sentence and head; and how to read them."""
    value = entry.value
    facts = {
        "look": seen._asdict() | {"attends": seen.attends},
        "shape": list(entry.shape),
        "axes": list(entry.axes),
        "count": value.numel(),
        "bytes": entry.bytes,
        "rows": labels(live, entry, seen.rows),
        "columns": labels(live, entry, seen.columns),
        "sides": [figures.token_side(entry.path, entry.name, axis) for axis in (seen.rows, seen.columns)],
    }
    if value.is_meta:
        return facts
    allowed = entries.get(f"{entry.path}/allowed") if seen.attends else None
    visible = allowed.value if allowed is not None and seen.kind != "mask" else None
    facts["statistics"] = {name: figures.rounded(number) for name, number in summary(value).items()}
    facts["limit"] = figures.rounded(figures.limit_of(value), 8)
    if seen.kind != "ids":
        facts["thumbs"] = _thumbs(value, seen, facts["limit"], visible, sample)
    facts |= _numbers(value, seen, visible, sample, head)
    if seen.attends:
        allowed_here = value if seen.kind == "mask" else visible
        sentences = range(value.shape[0]) if facts["whole"] else [sample]
        facts["why"] = figures.packed(
            torch.stack(
                [
                    _why(live, entry, allowed_here, each, one)
                    for each in sentences
                    for one in _heads(live, entry, facts["whole"], head)
                ]
            )
        )
    if seen.columns == "V":
        facts["top"] = _top(live, value, sample)
    return facts


def _thumbs(value: Tensor, seen: figures.Look, limit: float, visible: Tensor | None, sample: int) -> dict[str, Any]:
    """Small maps of all sentences and heads, or of the heads of one sentence when there are many."""
    maps = (value.shape[0] if seen.sample else 1) * (value.shape[1] if seen.head else 1)
    if maps > 64 and seen.sample:
        value, visible = (
            value[sample : sample + 1],
            None if visible is None else visible.expand(value.shape)[sample : sample + 1],
        )
    return figures.thumbs(value, seen, limit, visible) | {"only": sample if maps > 64 and seen.sample else None}


def _numbers(value: Tensor, seen: figures.Look, visible: Tensor | None, sample: int, head: int) -> dict[str, Any]:
    small = max(value.shape[-2:]) <= figures.MAX_SIDE if value.dim() > 1 else value.numel() <= figures.MAX_SIDE
    if value.numel() <= figures.WHOLE and small:
        return {"whole": True, "values": figures.packed(value), "block": [1, 1]}
    chosen = figures.panel(value, seen, sample, head)
    counted = None if visible is None else figures.panel(visible.expand(value.shape), seen, sample, head)
    numbers, _, block = figures.block_means(
        chosen.float() if seen.kind == "mask" else chosen, figures.MAX_SIDE, counted
    )
    facts = {"whole": False, "values": figures.packed(numbers), "block": list(block), "shown": list(numbers.shape)}
    if seen.kind == "probability" and counted is not None:
        sums = chosen.double().sum(dim=-1)
        facts["sums"] = [figures.rounded(low, 9) for low in (sums.min().item(), sums.max().item())]
        facts["leak"] = figures.rounded(chosen.double().masked_fill(counted, 0.0).sum().item(), 9)
    return facts


def _heads(live: Live, entry: Entry, whole: bool, head: int) -> list[int]:
    """The heads whose reasons are told: one stands for all, unless a condition of the rules tells heads apart."""
    rules = getattr(live.model.masks, _attention(entry))
    if not any(rule.startswith("where:") and "h" in condition(rule).needs for rule in rules):
        return [0]
    return list(range(entry.shape[1])) if whole else [head]


def _attention(entry: Entry) -> str:
    """The name that the settings have for the attention of this entry."""
    return "cross" if entry.path.endswith("cross_attention") else f"{entry.path.partition('.')[0]}_self"


def _why(live: Live, entry: Entry, visible: Tensor | None, sample: int, head: int) -> Tensor:
    """For each pair of query and key of one head: the rules that hide it as bits, MASKED as the ledger has it."""
    sentence = None if visible is None else visible.expand(entry.shape)[sample, head].cpu()
    rows, columns = entry.shape[-2:]
    bits = torch.zeros(rows, columns, dtype=torch.uint8)
    if max(rows, columns) > figures.MAX_SIDE:
        if sentence is not None:
            bits = torch.zeros_like(bits).masked_fill(~sentence, MASKED)
        counted = figures.block_means(bits.float(), figures.MAX_SIDE)[0]
        return (counted >= MASKED).to(torch.uint8) * MASKED
    for number, hidden in _hidden_by(live, entry, sample, head).items():
        bits |= hidden.to(torch.uint8) << number
    return bits if sentence is None else bits | (~sentence).to(torch.uint8) * MASKED


def _hidden_by(live: Live, entry: Entry, sample: int, head: int) -> dict[int, Tensor]:
    """The pairs that each rule of this attention hides in this head. Causal behind a prefix is the prefix."""
    attention = _attention(entry)
    keys = live.batch.tgt if attention == "decoder_self" else live.batch.src
    assert keys is not None
    rules = getattr(live.model.masks, attention)
    named = {rule: rule.partition(":")[0] for rule in rules}
    found = {}
    for rule, name in named.items():
        if name == "causal" and "prefix" in named.values():
            continue
        alone = masks.compose(
            (rule,),
            entry.shape[-2],
            keys,
            pad_id=live.model.config.pad_id,
            two_sided=attention != "decoder_self",
            custom=getattr(live.model.masks, f"{attention}_custom"),
            cross=attention == "cross",
            n_heads=live.model.config.n_heads,
        )
        assert alone is not None
        hidden = ~alone.expand(len(keys), live.model.config.n_heads, *entry.shape[-2:])[sample, head]
        bit = REASONS.index(name if name in REASONS else "custom")
        found[bit] = found[bit] | hidden if bit in found else hidden
    return found


def labels(live: Live, entry: Entry, axis: str) -> list[list[str]] | None:
    """What stands beside the cells of an axis: for each sentence its tokens, or None where places are only counted."""
    side = figures.token_side(entry.path, entry.name, axis)
    ids = getattr(live.batch, side) if side else None
    size = dict(zip(entry.axes, entry.shape, strict=True)).get(axis)
    if ids is None or ids.shape[1] != size or "B" not in entry.axes:
        return None
    return getattr(live.batch, f"{side}_tokens") or [[str(token) for token in row] for row in ids.tolist()]


def _top(live: Live, value: Tensor, sample: int) -> list[list[list[Any]]]:
    """The TOP words of every place of one sentence, with their numbers."""
    printed = vocabulary(live)
    numbers, ids = value[sample].float().topk(min(TOP, value.shape[-1]), dim=-1)
    return [
        [[printed.get(token, str(token)), figures.rounded(number)] for token, number in zip(row, line, strict=True)]
        for row, line in zip(ids.tolist(), numbers.tolist(), strict=True)
    ]
