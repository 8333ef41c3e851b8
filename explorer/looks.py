"""A look at a model in training: its answers to held-out questions, and where its attention goes. Knows no gradio."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from explorer.facts import OTHERS, QUESTIONS, plain
from transformer_core import trace
from transformer_core.batches import Batch
from transformer_core.config import END, PAD
from transformer_core.model import Transformer
from transformer_core.tasks import Task
from transformer_core.training import HELD_OUT, Evaluation
from transformer_core.workshop import OWN, Workshop

SAMPLES = 6  # held-out sentences shown with their answers


@dataclass(frozen=True)
class Look:
    """What the model did with held-out sentences at one step; ``cells`` is its attention in per cent, row by row.

    ``sets`` holds every held-out set of the task under its name, "new" among them.
    """

    step: int
    sets: Mapping[str, Evaluation]
    cells: list[list[int]]
    samples: dict[str, Any] = field(default_factory=dict)

    @property
    def loss(self) -> float:
        return self.sets["new"].loss

    @property
    def token_accuracy(self) -> float:
        return self.sets["new"].token_accuracy

    @property
    def exact_match(self) -> float:
        return self.sets["new"].exact_match

    def told(self) -> dict[str, Any]:
        """As the page draws it."""
        return {"step": self.step, **numbers(self.sets["new"]), "cells": self.cells, "samples": self.samples,
                "sets": {name: numbers(measured) for name, measured in self.sets.items() if name != "new"}}  # fmt: skip

    def result(self) -> dict[str, Any]:
        """What a record keeps of it: the numbers of every held-out set, in full."""
        return {"step": self.step, "sets": {name: asdict(measured) for name, measured in self.sets.items()}}


def numbers(measured: Evaluation) -> dict[str, Any]:
    return {
        "loss": plain(measured.loss), "token": plain(measured.token_accuracy), "exact": plain(measured.exact_match),
    }  # fmt: skip


def look(
    model: Transformer, task: Task, seed: int, step: int, shop: Workshop = OWN
) -> tuple[Look, dict[str, Any]]:
    """Numbers and samples, and the frame of the attention map, in eval mode and with generators of their own.

    The questions are the same at each step, and no training run of this seed is asked them; the run does not feel it.
    With a fault in the code that code judges its own answers, as whoever wrote it would see them.
    """
    sets = {
        name: shop.training.evaluate(model, task, QUESTIONS if name == "new" else OTHERS, seed, name)
        for name in task.held_out
    }
    batch = task.sample(SAMPLES, torch.Generator().manual_seed(HELD_OUT + seed), on="new")
    with torch.no_grad(), shop.decoding.evaluating(model):
        scene, cells = attention_of(model, task, batch)
    samples = compare(task, batch, shop.training.predict(model, batch).tolist())
    return Look(step, sets, cells, samples), scene


def until_end(ids: list[int]) -> list[int]:
    """The ids before the end token and without padding.

    >>> until_end([7, 5, 2, 9, 0])
    [7, 5]
    """
    ids = ids[: ids.index(END)] if END in ids else ids
    return [token for token in ids if token != PAD]


def compare(task: Task, batch: Batch, answers: list[Any]) -> dict[str, Any]:
    """Each source with the answer that was wanted and the one that came: tokens up to the end, or a class's number."""

    def shown(answer: int | list[int]) -> list[str]:
        return [str(answer)] if isinstance(answer, int) else printed(task, until_end(answer))

    rows = []
    for source, label, answer in zip(batch.src.tolist(), batch.labels.tolist(), answers, strict=True):
        want, got = shown(label), shown(answer)
        right = answer == label if isinstance(label, int) else whole(answer) == whole(label)
        rows.append({"src": printed(task, until_end(source), "src"), "want": want, "got": got, "ok": right})
    return {"right": sum(row["ok"] for row in rows), "of": len(rows), "rows": rows}


def whole(ids: list[int]) -> list[int]:
    """The answer without padding: an answer that never ends is not the one that does."""
    return [token for token in ids if token != PAD]


def printed(task: Task, ids: list[int], side: str = "tgt") -> list[str]:
    return task.describe_tokens([ids], side)[0] if ids else []


def attention_of(model: Transformer, task: Task, batch: Batch) -> tuple[dict[str, Any], list[list[int]]]:
    """The last layer's attention to the source, mean of its heads, for the longest of these sentences; in per cent.

    An encoder-decoder shows cross-attention under the right answer so far; an encoder shows who attends to whom.
    """
    device = next(model.parameters()).device
    lengths = (batch.src != PAD).sum(dim=1)
    row = int(lengths.argmax())
    src = batch.src[row : row + 1, : lengths[row]].to(device)
    columns = printed(task, src[0].tolist(), "src")
    if model.config.has_decoder:
        wanted = whole(batch.labels[row].tolist())
        kind, layer, rows = "cross", model.config.n_decoder_layers, printed(task, wanted)
        key = f"decoder.layers.{layer - 1}.cross_attention/weights"
    else:
        kind, layer, rows = "self", model.config.n_encoder_layers, columns
        key = f"encoder.layers.{layer - 1}.self_attention/weights"
    with trace(model) as ledger:
        model(src, batch.tgt[row : row + 1, : len(rows)].to(device) if model.config.has_decoder else None)
    mean = ledger[key].value[0].float().mean(dim=0)
    scene = {"kind": kind, "rows": rows, "columns": columns, "layer": layer, "heads": model.config.n_heads}
    return scene, (mean * 100).nan_to_num(-1).round().int().tolist()
