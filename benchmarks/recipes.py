"""``python -m benchmarks.recipes``: what the tasks' recipes reach, seed by seed, and the figures in their lessons.

Answers are to 1000 held-out questions. Seconds are of this process's CPU on one thread, evaluation not counted.
"""

import argparse
import dataclasses
import time
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from transformer_core import tasks
from transformer_core.batches import Batch
from transformer_core.config import END, PAD
from transformer_core.ledger import trace
from transformer_core.model import Transformer, build
from transformer_core.tasks import Task, addition
from transformer_core.tasks.reverse import backwards
from transformer_core.training import Evaluation, evaluate, train

QUESTIONS = 1000


def highest_first(n: int, generator: torch.Generator) -> Batch:
    """The questions of addition, the sum written from its highest digit down."""
    batch = addition.draw(n, generator)
    assert batch.tgt is not None and batch.labels is not None
    digits = batch.labels > END
    labels = backwards(batch.labels, digits.sum(dim=1, keepdim=True)).where(digits, batch.labels)
    tgt = torch.cat([batch.tgt[:, :1], labels[:, :-1]], dim=1)
    return Batch(batch.src, tgt.where(batch.tgt != PAD, PAD), labels)


VARIANTS: Mapping[str, tuple[tuple[str, dict[str, Any], dict[str, Any], dict[str, Any]], ...]] = {
    "first_last": (("without positions", {"positions": "none"}, {}, {}),),
    "copy": (
        ("without positions", {"positions": "none"}, {}, {}),
        ("without the causal mask", {}, {"decoder_self": ("padding",)}, {}),
        ("without label smoothing", {}, {}, {"label_smoothing": 0.0}),
    ),
    "reverse": (
        ("without positions", {"positions": "none"}, {}, {}),
        ("without label smoothing", {}, {}, {"label_smoothing": 0.0}),
        ("with the paper's Adam", {}, {}, {"optimizer": "adam", "weight_decay": 0.0}),
    ),
    "sort": (
        ("without positions", {"positions": "none"}, {}, {}),
        ("with the rate of the other letter tasks", {}, {}, {"schedule": "warmup", "lr": 0.2}),
    ),
    "addition": (
        ("without positions", {"positions": "none"}, {}, {}),
        ("from the highest digit", {}, {}, {}),
    ),
    "translation": (("without positions", {"positions": "none"}, {}, {}),),
}
"""What a lesson or a docstring says of a recipe with one thing changed: model, masks, training."""


def learn(
    task: Task, seed: int, model: Mapping[str, Any], masks: Mapping[str, Any], training: Mapping[str, Any]
) -> Iterator[tuple[int, float, float, Evaluation, Transformer]]:
    """Step, its loss, CPU seconds so far, and the held-out answers, every hundred steps and after 80."""
    learner = build(task.model.replace(**model), task.masks.replace(**masks), seed=seed)
    seconds, started = 0.0, time.process_time()
    for report in train(learner, task, task.training.replace(**training), seed):
        if report.step % 100 == 0 or report.step == 80:
            seconds += time.process_time() - started
            yield report.step, report.loss, seconds, evaluate(learner, task, QUESTIONS, seed), learner
            started = time.process_time()


@torch.no_grad()
def aligned(model: Transformer, layer: int) -> float:
    """For which share of the letters a reversing model's cross-attention, its heads averaged, is largest where the
    letter stands."""
    batch = tasks.get("reverse").sample(QUESTIONS, torch.Generator().manual_seed(0))
    assert batch.src is not None
    with trace(model.eval()) as ledger:
        model(batch.src, batch.tgt)
    largest = ledger[f"decoder.layers.{layer}.cross_attention/weights"].value.mean(dim=1).argmax(dim=-1)
    place = torch.arange(largest.shape[1])
    expected = (batch.src != 0).sum(dim=1, keepdim=True) - 1 - place
    return (largest == expected)[expected >= 0].float().mean().item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=list(tasks.TASKS), action="append", help="only this one; may be repeated")
    parser.add_argument("--seeds", type=int, nargs="+", default=[7, 1, 2])
    parser.add_argument("--variants", action="store_true", help="also the recipes with one thing changed")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.task or tasks.TASKS:
        for variant, *changes in (("recipe", {}, {}, {}), *(VARIANTS[name] if options.variants else ())):
            for seed in options.seeds:
                print(f"{name}, {variant}, seed {seed}")
                task = tasks.get(name)
                if variant == "from the highest digit":
                    task = dataclasses.replace(task, draw=highest_first)
                for step, loss, seconds, result, model in learn(task, seed, *changes):  # noqa: B007
                    print(f"  step {step:3d}  loss {loss:.3f}  {seconds:5.1f} s  held out: loss {result.loss:.3f}  "
                          f"tokens {result.token_accuracy:7.2%}  whole answers {result.exact_match:6.1%}")  # fmt: skip
                # With the model of the last line. Only the questions of training are written from the highest digit.
                for on in task.held_out if variant != "from the highest digit" else ():
                    if on == "new":
                        continue
                    result = evaluate(model, task, QUESTIONS, seed, on)
                    print(f"  {on}: tokens {result.token_accuracy:7.2%}  whole answers {result.exact_match:6.1%}")
                if name == "reverse":
                    shares = ", ".join(f"{aligned(model, layer):.1%}" for layer in range(model.config.n_decoder_layers))
                    print(f"  cross-attention at the letter, by layer: {shares}", flush=True)


if __name__ == "__main__":
    main()
