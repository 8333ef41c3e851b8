"""``python -m benchmarks.translation --pairs FILE``: one recipe for translation, our model and torch.nn.Transformer.

Both learn the same batches by the same loss, optimizer and schedule, each for the same time of its own CPU; then both
translate the same held-out sentences. Without ``--pairs``, the built-in corpus. Texts and time lines go to stdout.
"""

import argparse
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.peers import TorchTransformer
from transformer_core.decoding import evaluating, greedy
from transformer_core.ledger import trace
from transformer_core.model import Transformer, build
from transformer_core.tasks import Task
from transformer_core.tasks.translation import batch_of, task_of
from transformer_core.training import clip_gradients, make_optimizer, rate, smoothed_cross_entropy
from transformer_core.translation import Corpus, builtin, decode_ids, make_corpus, read_pairs
from transformer_core.translation.corpus import padded
from transformer_core.translation.metrics import Score, measure

Learner = nn.Module
AT_ONCE = 100


def peer(task: Task, seed: int) -> TorchTransformer:
    """torch.nn.Transformer between embeddings and an output layer that start with the same weights as ours."""
    torch.manual_seed(seed)
    model, ours = TorchTransformer(task.model), build(task.model, task.masks, seed=seed)
    for name in ("src_embedding", "tgt_embedding", "output"):
        getattr(model, name).load_state_dict(getattr(ours, name).state_dict())
    return model


def learn(model: Learner, task: Task, seed: int, minutes: float) -> Iterator[tuple[int, float, float]]:
    """Trains for so many minutes of its CPU, or for the steps of the recipe where ``minutes`` is 0.

    Gives step, CPU seconds spent in steps so far, and loss; what is done between two steps does not count.
    """
    how, questions = task.training, torch.Generator().manual_seed(seed)
    optimizer = make_optimizer(model.parameters(), how)
    step, spent = 0, 0.0
    while spent < minutes * 60 if minutes else step < how.total_steps:
        started = time.process_time()
        step += 1
        batch = task.sample(how.batch_size, questions)
        noise = int(torch.randint((1 << 31) - 1, (), generator=questions))
        model.train()
        if isinstance(model, Transformer):
            model.noise.reseed(noise)
        optimizer.zero_grad()
        loss = smoothed_cross_entropy(model(batch.src, batch.tgt), batch.labels, how.label_smoothing)
        loss.backward()
        clip_gradients((weight.grad for weight in model.parameters() if weight.grad is not None), how.clip_norm)
        for group in optimizer.param_groups:
            group["lr"] = rate(how, task.model.d_model, step)
        optimizer.step()
        spent += time.process_time() - started
        yield step, spent, loss.item()


@torch.no_grad()
def written(model: Learner, src: Tensor, length: int) -> Tensor:
    """The greedy answers; torch's model reads all it has written anew for every token."""
    if isinstance(model, Transformer):
        return greedy(model, src, max_length=length)
    with evaluating(model):
        answer = torch.ones(len(src), 1, dtype=torch.int64)
        ended = torch.zeros(len(src), dtype=torch.bool)
        while answer.shape[1] <= length and not ended.all():
            token = model(src, answer)[:, -1].argmax(dim=-1).masked_fill(ended, 0)
            answer, ended = torch.cat([answer, token[:, None]], dim=1), ended | (token == 2)
    return answer[:, 1:]


def judge(model: Learner, corpus: Corpus, n: int | None = None) -> tuple[Score, list[str]]:
    """BLEU and chrF on the held-out sentences, or on the first ``n`` of them, and the translations."""
    pairs, references = corpus.held_out[:n], corpus.references[:n]
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]))
    answers = [""] * len(pairs)
    for start in range(0, len(order), AT_ONCE):
        chosen = order[start : start + AT_ONCE]
        src, _ = padded([pairs[i] for i in chosen])
        for i, row in zip(chosen, written(model, src, max(corpus.longest) + 8).tolist(), strict=True):
            answers[i] = decode_ids(corpus, row)
    return measure(answers, references, corpus.options["languages"][1]), answers


@torch.no_grad()
def looks_back(model: Transformer, corpus: Corpus) -> list[float]:
    """For which share of the words the cross-attention, its heads averaged, is largest further left than before."""
    batch = batch_of(*padded(corpus.held_out[:300]))
    with trace(model.eval()) as ledger:
        model(batch.src, batch.tgt)
    inside, shares = (batch.labels[:, 1:] != 0), []
    for layer in range(model.config.n_decoder_layers):
        place = ledger[f"decoder.layers.{layer}.cross_attention/weights"].value.mean(dim=1).argmax(dim=-1)
        shares.append((place[:, 1:] < place[:, :-1])[inside].float().mean().item())
    return shares


@torch.no_grad()
def held_out_loss(model: Learner, corpus: Corpus) -> float:
    """Per real token, without label smoothing."""
    losses, total = 0.0, 0
    with evaluating(model):
        for start in range(0, len(corpus.held_out), AT_ONCE):
            batch = batch_of(*padded(corpus.held_out[start : start + AT_ONCE]))
            n = int((batch.labels != 0).sum())
            losses += smoothed_cross_entropy(model(batch.src, batch.tgt), batch.labels).item() * n
            total += n
    return losses / total


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, help="tab-separated sentence pairs (the built-in corpus)")
    parser.add_argument("--direction", choices=["forward", "backward"], default="forward",
                        help="forward: Chinese is the source (forward)")  # fmt: skip
    parser.add_argument("--simplified", action="store_true", help="turn traditional characters into simplified ones")
    parser.add_argument("--minutes", type=float, default=0, help="CPU time of each model (the steps of the recipe)")
    parser.add_argument("--model", choices=["ours", "torch"], action="append", help="only this one; may be repeated")
    parser.add_argument("--seed", type=int, nargs="+", default=[7])
    parser.add_argument("--every", type=float, default=2, help="minutes between two lines (2)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="change the recipe: d_model=256"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    corpus = builtin(options.direction)
    if options.pairs is not None:
        pairs = read_pairs(options.pairs.read_bytes())
        corpus = make_corpus(pairs, direction=options.direction, simplified=options.simplified, name=options.pairs.name)
    task = changed(task_of(corpus), dict(each.split("=", 1) for each in options.set))
    print(f"{corpus.name}: {len(corpus.train):,} pairs to learn, {len(corpus.held_out):,} held out, "
          f"{len(corpus.src_symbols):,} and {len(corpus.tgt_symbols):,} words; {task.title}")  # fmt: skip
    print(f"{task.model.to_dict()}\n{task.training.to_dict()}", flush=True)
    for kind in options.model or ["ours", "torch"]:
        for seed in options.seed:
            run(kind, corpus, task, seed, options.minutes, options.every)


def run(kind: str, corpus: Corpus, task: Task, seed: int, minutes: float, every: float) -> None:
    model = build(task.model, task.masks, seed=seed) if kind == "ours" else peer(task, seed)
    size = sum(weight.numel() for weight in model.parameters())
    print(f"{kind}, seed {seed}: {size:,} parameters", flush=True)
    losses, shown, started = [], 0.0, time.perf_counter()
    for step, spent, loss in learn(model, task, seed, minutes):
        losses.append(loss)
        if spent - shown >= every * 60:
            shown = spent
            some, _ = judge(model, corpus, 300)
            mean = sum(losses[-100:]) / len(losses[-100:])
            print(f"  {kind} {spent / 60:5.1f} min  step {step:6d}  loss {mean:.3f}  held out "
                  f"{held_out_loss(model, corpus):.3f}  BLEU of 300 {some.bleu:.2f}", flush=True)  # fmt: skip
    score, answers = judge(model, corpus)
    clock = (time.perf_counter() - started) / 60
    print(f"{kind}, seed {seed}: {step:,} steps in {spent / 60:.1f} minutes of CPU ({clock:.0f} by the clock, with "
          f"looks), {score.n} held-out sentences: BLEU {score.bleu:.2f}, chrF {score.chrf:.2f}, loss "
          f"{held_out_loss(model, corpus):.3f}; {score.signature}")  # fmt: skip
    if isinstance(model, Transformer):
        shares = ", ".join(f"{share:.1%}" for share in looks_back(model, corpus))
        print(f"  cross-attention further left than for the word before, by layer: {shares}")
    for i in range(0, len(answers), max(1, len(answers) // 8)):
        print(f"    {''.join(corpus.src_symbols[token] for token in corpus.held_out[i][0])} | {answers[i]} | "
              f"{corpus.references[i]}", flush=True)  # fmt: skip


def changed(task: Task, settings: dict[str, Any]) -> Task:
    import dataclasses
    import json

    values = {name: json.loads(value) if value[:1] in "0123456789.-tf" else value for name, value in settings.items()}
    model = task.model.replace(**{name: value for name, value in values.items() if name in task.model.names()})
    training = task.training.replace(**{name: value for name, value in values.items() if name in task.training.names()})
    return dataclasses.replace(task, model=model, training=training)


if __name__ == "__main__":
    main()
