"""Level 4: a small model of the same kind learns one batch by heart. A falling loss is less proof than it looks.

Masks, norms, positions and every other choice are those of the model in question; sizes, tokens and seed are not. With
the right beginning given (teacher forcing) a model may read the answer off its own input. So it is also asked to write
by itself, with nothing to go by but its own words.
"""

import math
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from transformer_core.batches import Batch
from transformer_core.checks.subject import Subject
from transformer_core.checks.table import ASPECTS, LEARNING, Finding, check
from transformer_core.config import BEGIN, END, PAD, MaskConfig, TrainConfig, parse_rule
from transformer_core.errors import first_line

WIDTH, HIDDEN, LENGTH = 32, 64, 16
"""d_model, d_ff and max_seq_len of the small model."""
SENTENCES, SHORTEST = 9, 6
"""So many sentences, of at least so many letters: too much to be written by chance, little enough to be learned."""
STEPS, RATE = 150, 4e-3
"""The most steps of the training, and its rate."""
ENOUGH, CALM = 0.01, 5
"""Training ends early when the loss has been below ``ENOUGH`` for ``CALM`` steps."""
SETTLED = 60
"""``CALM`` for norms over the batch. Their running means, by which the model is judged, follow the training slowly."""
FALLEN, RIGHT_TOKENS, RIGHT_SENTENCES = 0.5, 0.95, 0.6
"""The least that right models do: loss at the end / at the start, share of next tokens, share of whole sentences.
Where training is right these are below 0.01, 1 and 1; without the causal mask the last is 0 to 0.3."""
FUNCTION = tuple(aspect for aspect in ASPECTS if aspect != "display")
"""A falling loss is taken as proof that the whole works."""


@dataclass(frozen=True)
class Trial:
    """What became of the small model. ``error`` tells why its training stopped, ``writing_error`` why its writing did.

    ``start`` and ``end`` are the loss per token before and after, ``accuracy`` the share of next tokens that are right
    when the right beginning is given. Of ``sentences`` that it wrote by itself ``right`` are right; ``wanted`` and
    ``written`` are one of them to look at.
    """

    steps: int
    start: float
    end: float
    accuracy: float
    sentences: int = 0
    right: int = 0
    wanted: str = ""
    written: str = ""
    error: str = ""
    writing_error: str = ""


_TRIALS: "WeakKeyDictionary[Subject, Trial | None]" = WeakKeyDictionary()


def trial(subject: Subject) -> Trial | None:
    """The one training that all checks of this level share. None where its batch could not be learned by right.

    A mask with a matrix of its own or a prefix fits other lengths; one that hides part of the source leaves the answer
    unknown. A decoder without places sees a heap of tokens, which only the causal mask and a source put in order.
    """
    if subject not in _TRIALS:
        _TRIALS[subject] = _try(subject) if _learnable(subject.config, subject.masks) else None
    return _TRIALS[subject]


def _learnable(config: Any, masks: MaskConfig) -> bool:
    names = {side: {parse_rule(rule)[0] for rule in getattr(masks, side)}
             for side in ("encoder_self", "decoder_self", "cross")}  # fmt: skip
    placed = config.positions != "none" and config.positions_on_decoder
    ordered = not config.has_decoder or placed or (config.has_encoder and "causal" in names["decoder_self"])
    return set.union(*names.values()) <= {"padding", "causal"} and "causal" not in names["cross"] and ordered


def _try(subject: Subject) -> Trial:
    """Trains the small model, and lets it write. A broken one may stop in any way, which is then what became of it."""
    shop, seed = subject.shop, subject.seed
    steps, losses = 0, [math.nan]
    try:
        task = shop.tasks.get("first_last" if subject.config.architecture == "encoder" else "copy")
        model: Any = shop.model.build(_small(subject.config, task), subject.masks, seed=seed)
        words, batch = _batch(model.config, task, seed)
        settings = TrainConfig(lr=RATE, clip_norm=1.0)
        optimizer = shop.training.make_optimizer(model.parameters(), settings)
        calm = SETTLED if subject.config.norm == "batch" else CALM
        losses = []
        while steps < STEPS and not (steps >= calm and max(losses[-calm:]) < ENOUGH):
            steps += 1
            loss, *_ = shop.training.take_step(model, batch, optimizer, settings, steps, RATE, steps)
            losses.append(loss)
        with torch.no_grad(), shop.decoding.evaluating(model):
            end, accuracy = (float(each) for each in shop.training.loss_and_accuracy(model, batch))
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        return Trial(steps, losses[0] if losses else math.nan, math.nan, math.nan, error=first_line(error))
    trained = Trial(steps, losses[0], end, accuracy, len(words))
    if not model.config.has_decoder:
        return trained
    try:
        written = _write(model, shop, words, batch)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:
        return replace(trained, writing_error=first_line(error))
    return _compared(trained, task, words, written)


def _compared(trained: Trial, task: Any, words: Tensor, written: Tensor) -> Trial:
    """How many sentences are right up to their end, and one of them to look at: the first that is wrong, if any is."""
    wanted = _answers(words)
    counts = wanted != PAD
    right = ((written == wanted) | ~counts).all(dim=1)
    shown = int(right.int().argmin())
    read = [" ".join(task.symbols[token] for token in row[shown][counts[shown]].tolist()) for row in (wanted, written)]
    return replace(trained, right=int(right.sum()), wanted=read[0], written=read[1])


def _small(config: Any, task: Any) -> Any:
    """The configuration made small, with the vocabulary of the task. Without dropout it is soon learned by heart."""
    heads = next(heads for heads in (4, 2, 1) if heads <= config.n_heads)
    small = config.replace(
        d_model=WIDTH, n_heads=heads, d_ff=HIDDEN, n_encoder_layers=1, n_decoder_layers=1, max_seq_len=LENGTH,
        dropout=0.0, attention_dropout=0.0,
    )  # fmt: skip
    return task.fit(small).replace(architecture=config.architecture)


def _batch(config: Any, task: Any, seed: int) -> tuple[Tensor, Batch]:
    """A few questions of the task, no two with the same first token: it tells a decoder alone which one is meant.

    No letter follows itself, so that each place of a word can be told even without positions. A decoder alone is given
    the first letter and asked for the others.
    """
    many = task.sample(512, torch.Generator().manual_seed(seed))
    words = many.src
    long = (words != config.pad_id).sum(dim=1) >= SHORTEST
    doubled = (words[:, 1:] == words[:, :-1]) & (words[:, 1:] != config.pad_id)
    fit = (long & ~doubled.any(dim=1)).nonzero()[:, 0].tolist()
    rows = list({int(words[row, 0]): row for row in reversed(fit)}.values())[:SENTENCES]
    words, labels = words[rows], many.labels[rows]
    if not config.has_decoder:
        return words, Batch(words, None, labels)
    if not config.has_encoder:
        labels = labels.clone()
        labels[:, 0] = config.pad_id
    return words, Batch(words if config.has_encoder else None, many.tgt[rows], labels)


def _answers(words: Tensor) -> Tensor:
    """Each word with the end id behind it, whatever the labels of the training were.

    >>> _answers(torch.tensor([[7, 8, 0]])).tolist()
    [[7, 8, 2, 0]]
    """
    ends = (words != PAD).sum(dim=1, keepdim=True)
    return torch.nn.functional.pad(words, (0, 1), value=PAD).scatter(1, ends, END)


@torch.no_grad()
def _write(model: Any, shop: Any, words: Tensor, batch: Batch) -> Tensor:
    """What the model writes, one token behind the other, as wide as the answers."""
    width = words.shape[1] + 1
    if model.config.has_encoder:
        written = shop.decoding.greedy(model, batch.src, max_length=width)
        return torch.nn.functional.pad(written, (0, width - written.shape[1]))
    begun = torch.full((len(words), 1), BEGIN)
    written = torch.cat([begun, words[:, :1]], dim=1)
    with shop.decoding.evaluating(model):
        while written.shape[1] <= width:
            written = torch.cat([written, model(None, written)[:, -1:].argmax(dim=-1)], dim=1)
    return written[:, 1:]


def _stopped(subject: Subject, run: Trial, error: str) -> Finding:
    return Finding(math.nan, subject.output_keys, facts={"error": error, "steps": run.steps}, sentence="stops")


@check(
    LEARNING,
    claim="A small model of the same kind learns: its loss on one batch falls to less than half.",
    cannot_see="Nearly every fault: with the answer in its input, or without the source, a model lowers its loss too.",
    claims=FUNCTION,
    holds="the loss falls from {start:.2f} to {end:.4f} in {steps} steps",
    fails="the loss is {start:.2f} at first and {end:.2f} after {steps} steps",
    stops="training stops at step {steps}: {error}",
)
def loss_falls(subject: Subject) -> Finding | None:
    run = trial(subject)
    if run is None:
        return None
    if run.error:
        return _stopped(subject, run, run.error)
    facts = {"start": run.start, "end": run.end, "steps": run.steps}
    return Finding(run.end / run.start, subject.output_keys, 0.0, FALLEN, facts)


@check(
    LEARNING,
    claim="A small model of the same kind learns one batch by heart: given the right beginning, it knows what is next.",
    cannot_see="Where it knows that from; without the causal mask it reads the next token off its own input.",
    claims=FUNCTION,
    holds="{measured:.0%} of the next tokens are right after {steps} steps, the right beginning being given",
    fails="only {measured:.0%} of the next tokens are right after {steps} steps, the right beginning being given",
    stops="training stops at step {steps}: {error}",
)
def one_batch(subject: Subject) -> Finding | None:
    run = trial(subject)
    if run is None:
        return None
    if run.error:
        return _stopped(subject, run, run.error)
    facts = {"start": run.start, "end": run.end, "steps": run.steps}
    return Finding(run.accuracy, subject.output_keys, 1.0, 1 - RIGHT_TOKENS, facts)


@check(
    LEARNING,
    claim="The sentences that it learned by heart it can also write by itself, with only its own words to go by.",
    cannot_see="Faults that a small model learns its way around, such as heads in another order.",
    claims=("source", "future", "loss", "training", "decoding"),
    holds="{right} of {sentences} sentences right from the first token to the last; given the right beginning, "
    "{accuracy:.0%} of the tokens were",
    fails="{right} of {sentences} sentences right, though given the right beginning {accuracy:.0%} of the tokens were: "
    "instead of {wanted} it writes {written}",
    stops="nothing is written: {error}",
)
def own_words(subject: Subject) -> Finding | None:
    run = trial(subject)
    if run is None or not subject.config.has_decoder:
        return None
    if run.error or run.writing_error:
        return _stopped(subject, run, run.error or run.writing_error)
    facts = {
        "right": run.right, "sentences": run.sentences, "accuracy": run.accuracy, "loss": run.end, "steps": run.steps,
        "wanted": run.wanted, "written": run.written,
    }  # fmt: skip
    return Finding(run.right / run.sentences, subject.output_keys, 1.0, 1 - RIGHT_SENTENCES, facts)
