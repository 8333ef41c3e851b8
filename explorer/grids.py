"""The masks of one run as plain data: each attention as a grid, one row on its way through the softmax, and the rest.

A cell of a grid is a whole number of 16 bits: bit i says that the i-th rule hides it, bit 14 that it is painted shut,
bit 15 that the model hid it. With a right model bit 15 stands wherever another one does, and nowhere else.
"""

from __future__ import annotations

import base64
import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from explorer import figures
from explorer.live import Live, attention_sizes
from explorer.session import Session
from transformer_core import broadcasting, conventions, softmax_lab
from transformer_core.masks import by_rule

ENDS = {"encoder_self": ("src", "src"), "decoder_self": ("tgt", "tgt"), "cross": ("tgt", "src")}
"""The sides that queries and keys come from."""
PATHS = {"encoder_self": "encoder.layers.{}.self_attention", "decoder_self": "decoder.layers.{}.self_attention",
         "cross": "decoder.layers.{}.cross_attention"}  # fmt: skip
PAINTED_BIT, HIDDEN_BIT = 1 << 14, 1 << 15
MOST_TOKENS = 512
"""Snippets write out the ids of so many tokens at most; further sentences are left out."""
MOST_CELLS = 1024
"""The wrong views of a larger grid come as counts, without a picture."""
NUMBERS = ("dots", "scaled", "masked", "exps", "weights", "dropped")


def payload(session: Session, live: Live) -> dict[str, Any]:
    """What masks.js draws, but for what is measured on demand."""
    config = live.model.config
    sizes = _sizes(live)
    batch = len(live.batch.src if live.batch.src is not None else live.batch.tgt)  # type: ignore[arg-type]
    at = session.mask_at if session.mask_at in sizes else next(iter(sizes))
    layers = {name: config.n_encoder_layers if name == "encoder_self" else config.n_decoder_layers for name in sizes}
    chosen = {
        "mask_at": at,
        "mask_show": "mask" if live.shapes_only else session.mask_show,
        "mask_heads": session.mask_heads,
        "mask_layer": min(session.mask_layer, max(layers.values()) - 1),
        "mask_row": min(session.mask_row, sizes[at][0] - 1),
        "sample": min(session.sample, batch - 1),
        "head": min(session.head, config.n_heads - 1),
    }
    grids = [_grid(live, name, chosen, layers[name]) for name in sizes]
    return {
        "run": live.id,
        "chosen": chosen,
        "samples": batch,
        "heads": config.n_heads,
        "layers": layers,
        "d_head": config.d_head,
        "scaled": config.scale_scores,
        "fill": session.fill,
        "fault": session.fault,
        "shapes_only": live.shapes_only,
        "stopped": live.error,
        "attentions": grids,
        "row": _row(live, at, chosen, layers[at]),
        "empty": _empty_row(live, grids, chosen, layers),
        "snippets": _snippets(live, at),
        "views": _views(live, at, chosen, sizes[at]),
    }


def _sizes(live: Live) -> dict[str, tuple[int, int]]:
    """Queries and keys of the attentions that the model has."""
    config = live.model.config
    needs = {"encoder_self": config.has_encoder, "decoder_self": config.has_decoder,
             "cross": config.has_encoder and config.has_decoder}  # fmt: skip
    return {name: size for name, size in attention_sizes(live.batch).items() if needs[name]}


def _recorded(live: Live, attention: str, layer: int, name: str) -> Tensor | None:
    """A tensor of the ledger; None where it was not reached, or has a shape and no numbers."""
    entry = live.entries().get(f"{PATHS[attention].format(layer)}/{name}")
    return None if entry is None or entry.value.is_meta else entry.value.detach().cpu()


def _one(value: Tensor, chosen: dict[str, Any], join: Callable[[Tensor], Tensor]) -> Tensor:
    """The map of the chosen sentence and head, or what ``join`` makes of all heads."""
    heads = value[chosen["sample"]]
    return join(heads) if chosen["mask_heads"] == "mean" else heads[chosen["head"]]


def _grid(live: Live, attention: str, chosen: dict[str, Any], layers: int) -> dict[str, Any]:
    """One attention: reasons, counts and tokens always, numbers where the run has some."""
    of, to = ENDS[attention]
    keys, layer = getattr(live.batch, to).cpu(), min(chosen["mask_layer"], layers - 1)
    rows, columns = attention_sizes(live.batch)[attention]
    masks, config = live.session.mask_config(), live.model.config
    alone = by_rule(masks, attention, rows, keys, pad_id=config.pad_id, n_heads=config.n_heads)
    bits, rules = torch.zeros(rows, columns, dtype=torch.int32), []
    for rule, seen in alone.items():
        hidden = ~_one(seen, chosen, lambda heads: heads.any(dim=0))
        bits |= hidden.int() * (PAINTED_BIT if rule == "custom" else 1 << len(rules))
        rules += [rule] if rule != "custom" else []
    wanted = bits == 0
    allowed = _recorded(live, attention, layer, "allowed")
    seen = wanted if allowed is None else _one(allowed, chosen, lambda heads: heads.any(dim=0))
    if seen.shape != wanted.shape:  # a broken model may have laid it out otherwise
        seen = wanted
    bits |= (~seen).int() * HIDDEN_BIT
    found = {
        "name": attention, "rows": rows, "columns": columns, "rules": rules, "layer": layer,
        "all_rules": list(getattr(live.session, attention)),
        "custom": getattr(live.session, f"{attention}_custom"),
        "queries": _tokens(live, of, chosen["sample"]), "keys": _tokens(live, to, chosen["sample"]),
        "bits": _words(bits), "visible": seen.sum(dim=-1).tolist(), "odd": int((seen != wanted).sum()),
        "open": int(seen.sum()), "empty_rows": (~seen.any(dim=-1)).nonzero().flatten().tolist(),
        "heads_differ": any(each.dim() == 4 and bool((each != each[:, :1]).any()) for each in alone.values()),
    }  # fmt: skip
    here = slice(chosen["sample"], chosen["sample"] + 1)
    joined = functools.reduce(torch.Tensor.logical_and, (each[here] for each in alone.values())) if alone else None
    return found | _numbers(live, attention, layer, chosen, joined)


def _numbers(
    live: Live, attention: str, layer: int, chosen: dict[str, Any], wanted: Tensor | None
) -> dict[str, Any]:  # fmt: skip
    """Sums of the weights, and the numbers shown. ``wanted`` is what the rules allow, whatever the model did."""
    weights = _recorded(live, attention, layer, "weights")
    if weights is None or weights.dim() != 4:
        return {"values": None, "sums": None}
    head = None if chosen["mask_heads"] == "mean" else chosen["head"]
    here = weights[chosen["sample"], None]
    usable = wanted if wanted is not None and wanted.shape == here.shape else None
    summary = softmax_lab.map_summary(here, usable, head=head)
    found: dict[str, Any] = {
        "sums": _all(summary.row_sums), "column_sums": _all(summary.column_sums), "entropy": _all(summary.entropy),
        "max_hidden": _number(summary.max_hidden), "averaged": summary.averaged, "values": None, "limit": 1.0,
    }  # fmt: skip
    if chosen["mask_show"] == "weights":
        found["values"] = figures.packed(_one(weights, chosen, lambda heads: heads.float().mean(dim=0)))
    elif chosen["mask_show"] == "scores":
        scores = _recorded(live, attention, layer, "scores")
        if scores is not None and scores.dim() == 4:
            shown = _one(scores, chosen, lambda heads: heads.float().mean(dim=0))
            found |= {"values": figures.packed(shown), "limit": figures.limit_of(shown)}
    return found


def _row(live: Live, attention: str, chosen: dict[str, Any], layers: int) -> dict[str, Any] | None:
    """The chosen query of the chosen head on its way through the softmax, computed by the library from q and k."""
    layer = min(chosen["mask_layer"], layers - 1)
    q, k, allowed, weights = (_recorded(live, attention, layer, name) for name in ("q", "k", "allowed", "weights"))
    if q is None or k is None or q.dim() != 4 or k.dim() != 4:
        return None
    config = live.model.config
    rate = config.attention_dropout if live.session.mode == "train" else 0.0
    draw = torch.Generator().manual_seed(live.session.seed)

    def dropout(row: Tensor) -> Tensor:
        return row * (torch.rand(row.shape, generator=draw) >= rate).to(row.dtype) / (1 - rate)

    try:
        made = softmax_lab.row_pipeline(
            q, k, allowed, sample=chosen["sample"], head=chosen["head"], row=chosen["mask_row"],
            fill=live.session.fill, scale=config.scale_scores, dropout=dropout if rate else None,
        )  # fmt: skip
    except (ValueError, RuntimeError, IndexError):  # a broken model's shapes, or a fill that float16 cannot hold
        return None
    off = None
    if weights is not None and weights.dim() == 4:
        here = weights[chosen["sample"], chosen["head"], chosen["mask_row"]].double()
        off = float((here - torch.tensor(made.weights, dtype=torch.float64)).abs().max())
    sums = {name: _number(getattr(made, name)) for name in ("exps_sum", "weights_sum", "dropped_sum", "max_hidden")}
    lists = {name: _all(getattr(made, name)) for name in NUMBERS}
    return {**lists, **sums, "visible": made.visible, "dropout": rate, "off": _number(off), "layer": layer}


def _empty_row(
    live: Live, grids: list[dict[str, Any]], chosen: dict[str, Any], layers: dict[str, int]
) -> dict[str, Any]:
    """What each fill does with a query that sees nothing: the chosen row, the first one here, or one made up."""
    first = sorted(grids, key=lambda grid: grid["name"] != chosen["mask_at"])
    spot = next(((grid, grid["empty_rows"]) for grid in first if grid["empty_rows"]), None)
    grid, row = first[0], chosen["mask_row"]
    if spot is not None:
        grid, rows = spot
        row = row if grid is first[0] and row in rows else rows[0]
    name = grid["name"]
    scores = _recorded(live, name, min(chosen["mask_layer"], layers[name] - 1), "scores")
    numbers = [1.0, 2.0, 3.0]
    if scores is not None and scores.dim() == 4:
        numbers = scores[chosen["sample"], chosen["head"], row].float().nan_to_num(0.0).clamp(-1e4, 1e4).tolist()
    return {
        "attention": name, "row": row, "found": spot is not None,
        "rows": [
            {"fill": each.fill, "dtype": each.dtype, "what": each.what, "gradient": each.gradient,
             "weights": None if each.weights is None else _all(each.weights),
             "sum": _number(each.sum)}
            for each in softmax_lab.empty_row_lab(numbers)
        ],
    }  # fmt: skip


def _snippets(live: Live, attention: str) -> list[dict[str, Any]]:
    """Code for five functions. Of a large batch the first sentences only."""
    sides = [None if ids is None else ids.cpu() for ids in (live.batch.src, live.batch.tgt)]
    longest = max(ids.shape[1] for ids in sides if ids is not None)
    kept = max(1, MOST_TOKENS // longest)
    src, tgt = (None if ids is None else ids[:kept] for ids in sides)
    config = live.model.config
    found = conventions.snippets(
        live.session.mask_config(), attention, src if config.has_encoder else None, tgt if config.has_decoder else None,
        pad_id=config.pad_id, d_model=config.d_model, n_heads=config.n_heads,
    )  # fmt: skip
    return [{"api": each.api, "code": each.code, "runs": each.runs, "note": each.note} for each in found]


def _views(live: Live, attention: str, chosen: dict[str, Any], size: tuple[int, int]) -> list[dict[str, Any]]:
    """The right steps and the wrong views of the padding of the keys, with the mask each lays on the chosen map."""
    config, keys = live.model.config, getattr(live.batch, ENDS[attention][1]).cpu()
    rows, columns = size
    found = []
    for view in broadcasting.views(keys, config.pad_id, config.n_heads, q_len=rows):
        told = view.to_row()
        if view.result is not None and rows * columns <= MOST_CELLS:
            here = view.result[chosen["sample"], chosen["head"]]
            told["grid"] = ["".join("1" if cell else "0" for cell in row) for row in here.tolist()]
        found.append(told)
    return found


def _tokens(live: Live, side: str, sample: int) -> list[str]:
    printed = getattr(live.batch, f"{side}_tokens")
    return list(printed[sample]) if printed else [str(token) for token in getattr(live.batch, side)[sample].tolist()]


def _words(bits: Tensor) -> str:
    """Two bytes a cell, the lower one first."""
    return base64.b64encode(bits.numpy().astype("<u2").tobytes()).decode("ascii")


def _number(value: float | None) -> float | str | None:
    """A number that JSON has; the others by their names."""
    return value if value is None or math.isfinite(value) else str(value)


def _all(values: list[float]) -> list[float | str | None]:
    return [_number(value) for value in values]
