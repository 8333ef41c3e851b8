"""Figure 1 of one run as plain data: its towers, the tokens at both ends, the maps of all heads, what blocks print."""

from __future__ import annotations

import re
from typing import Any

import torch

from explorer import figures
from explorer.live import Live
from explorer.places import towers
from transformer_core.ledger import Entry

MAX_MAP_BYTES = 256 * 1024
"""Above this the small maps of one layer only travel; those of another one come when it is chosen."""


def figure(live: Live, entries: dict[str, Entry]) -> dict[str, Any]:
    """Figure 1 of this model: its towers, the tokens at both ends, and the few numbers printed in its blocks."""
    config, batch = live.model.config, live.batch
    hides_future = any(rule.startswith(("causal", "prefix")) for rule in live.model.masks.decoder_self)
    active = {
        path: figures.rounded((entry.value > 0).float().mean().item(), 3)
        for path, entry in ((e.path, e) for e in entries.values() if e.name == "hidden" and not e.value.is_meta)
    }
    loss = next((r for r in live.results if r.name == "finite_loss" and r.facts.get("kind") == "cross_entropy"), None)
    return {
        "towers": [tower.to_dict() for tower in towers(config, hides_future)],
        "pre": config.norm_order == "pre",
        "active": active,
        "loss": figures.rounded(loss.facts["loss"], 5) if loss else None,
        "src": tokens(batch.src, batch.src_tokens),
        "tgt": tokens(batch.tgt, batch.tgt_tokens),
        "out": predicted(live, entries),
        "pad": {
            side: [[token == config.pad_id for token in row] for row in ids.tolist()]
            for side, ids in (("src", batch.src), ("tgt", batch.tgt))
            if ids is not None
        },
    }


def tokens(ids: torch.Tensor | None, printed: list[list[str]] | None) -> list[list[str]]:
    """The sentences as they are printed."""
    return [] if ids is None else printed or [[str(token) for token in row] for row in ids.tolist()]


def predicted(live: Live, entries: dict[str, Entry]) -> list[list[str]]:
    """What the model finds most likely: the next token at every place of the target, or the class of a sentence."""
    entry = entries.get("logits")
    if entry is None or entry.value.is_meta:
        return []
    best = entry.value.argmax(dim=-1)
    best = best.masked_fill(entry.value.isnan().any(dim=-1), -1)
    known = {-1: "NaN"} | vocabulary(live)
    rows = best[:, None] if best.dim() == 1 else best
    return [[known.get(token, str(token)) for token in row] for row in rows.tolist()]


def vocabulary(live: Live) -> dict[int, str]:
    """The printed form of every id that occurs in the target, the only words we know."""
    ids, printed = live.batch.tgt, live.batch.tgt_tokens
    if ids is None or not printed:
        return {}
    return {
        token: text
        for row, texts in zip(ids.tolist(), printed, strict=True)
        for token, text in zip(row, texts, strict=True)
    }


def maps(live: Live, entries: dict[str, Entry], selected: str) -> dict[str, Any]:
    """The attention weights of every head as bytes; of the layers shown first only, when all would be too many."""
    config, weights = live.model.config, _weights(entries)
    if _too_many(weights):
        shown = {
            _layer(selected),
            f"encoder.layers.{config.n_encoder_layers - 1}",
            f"decoder.layers.{config.n_decoder_layers - 1}",
        }
        weights = {key: entry for key, entry in weights.items() if _layer(key) in shown}
    return {key: small_map(entry, entries) for key, entry in weights.items()}


def layer_maps(entries: dict[str, Entry], selected: str) -> dict[str, Any]:
    """The maps of the selected layer, where they did not come with the run."""
    weights = _weights(entries)
    if not _too_many(weights):
        return {}
    layer = _layer(selected)
    return {key: small_map(entry, entries) for key, entry in weights.items() if _layer(key) == layer}


def small_map(entry: Entry, entries: dict[str, Entry]) -> dict[str, Any]:
    """One attention's weights as bytes, at most MAX_SIDE cells a side; half of that when there are many."""
    allowed = entries.get(f"{entry.path}/allowed")
    seen = figures.Look("probability", True, True, "q", "k")
    side = figures.MAX_SIDE if entry.value.numel() <= MAX_MAP_BYTES else figures.THUMB_SIDE
    return figures.thumbs(entry.value, seen, 1.0, allowed.value if allowed else None, side)


def _weights(entries: dict[str, Entry]) -> dict[str, Entry]:
    return {key: entry for key, entry in entries.items() if entry.name == "weights" and not entry.value.is_meta}


def _too_many(weights: dict[str, Entry]) -> bool:
    """Whether the maps, each drawn with at most MAX_SIDE cells a side, would be more than MAX_MAP_BYTES."""
    sides = ([min(size, figures.MAX_SIDE) for size in entry.shape[-2:]] for entry in weights.values())
    maps = (entry.shape[0] * entry.shape[1] for entry in weights.values())
    return sum(count * rows * columns for count, (rows, columns) in zip(maps, sides, strict=True)) > MAX_MAP_BYTES


def _layer(key: str) -> str:
    """decoder.layers.1 of decoder.layers.1.cross_attention/weights"""
    found = re.match(r"(?:encoder|decoder)\.layers\.\d+", key)
    return found[0] if found else ""
