"""What a task is: a supply of questions with known answers, and the numbers by which to judge a model."""

import dataclasses
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transformer_core.batches import PAD_SIGN, SIGNS, Batch
from transformer_core.checked import check_whole
from transformer_core.config import MAX_BATCH, PAD, MaskConfig, ModelConfig, TrainConfig
from transformer_core.errors import ConfigError, nearest

SPECIAL = (PAD_SIGN, *(SIGNS[token] for token in sorted(SIGNS)))
"""How the ids 0 to 3 print, in every task."""
PARTS = ("cross_position", "order", "cross_attention")
"""What a task can need of a model: to join what stands at several places of the source; to know at which place a token
stands; to read the source from the decoder."""

Draw = Callable[[int, torch.Generator], Batch]
"""(how many, generator) -> so many questions with their answers."""
Odds = tuple[tuple[float, ...], ...]
"""A row for each context of a label, a column for each answer; all together are 1."""


@dataclasses.dataclass(frozen=True, eq=False)
class HeldOut:
    """Questions that are only ever asked, never trained on. Which questions, ``title`` says."""

    name: str
    title: str
    title_zh: str
    draw: Draw


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A task as data, and one function ``draw`` that asks ``n`` questions out of a generator.

    ``model``, ``masks`` and ``training`` are a recipe that learns the task; ``needs`` names the part of the
    model without which none learns it, ``not_proved`` what a model that learned it may still be unable to do. Texts
    come in English and, under the name with ``_zh``, in Chinese.
    """

    name: str
    title: str
    title_zh: str
    needs: str
    needs_zh: str
    lesson: str
    lesson_zh: str
    not_proved: str
    not_proved_zh: str
    symbols: tuple[str, ...]
    """How each id of the vocabulary prints; where the source has one of its own, ``src_symbols`` is that."""
    count: Callable[[], Odds]
    """Gives ``odds``, when somebody asks for them."""
    model: ModelConfig
    masks: MaskConfig
    training: TrainConfig
    draw: Draw
    needs_parts: frozenset[str]
    """Those of ``PARTS`` without which no model learns it."""
    sets: tuple[HeldOut, ...] = ()
    """Held-out sets beside "new", or one called "new" instead of the usual one."""
    src_symbols: tuple[str, ...] | None = None

    @property
    def held_out(self) -> Mapping[str, HeldOut]:
        """Every held-out set under its name. "new" is always there: as in training, if the task says nothing else."""
        usual = HeldOut("new", "New questions, drawn as in training", "新题目，与训练时同样抽取", self.draw)
        return MappingProxyType({each.name: each for each in (usual, *self.sets)})

    @property
    def odds(self) -> Odds:
        """odds[c][v]: which share of all labels stands in context c and is v, over endlessly many questions.

        The context of a label is what a model knows of it without the source: the place, and the right tokens before
        it as far as they tell something.
        """
        return self.count()

    @property
    def n_answers(self) -> int:
        """What the output layer chooses from: classes, or every id of the vocabulary."""
        return self.model.n_classes or len(self.symbols)

    @property
    def chance_accuracy(self) -> float:
        """1 / V: the accuracy of guessing evenly, whatever the labels are."""
        return 1 / self.n_answers

    @property
    def chance_loss(self) -> float:
        """ln V: the loss of guessing evenly, whatever the labels are, with label smoothing and without."""
        return math.log(self.n_answers)

    @property
    def blind_accuracy(self) -> float:
        """Σ_c max_v odds[c][v]: the best accuracy without reading the source, by always giving the likeliest answer."""
        return sum(max(context) for context in self.odds)

    def floor(self, smoothing: float = 0.0) -> float:
        """-Σ_v wanted(v) ln wanted(v): the loss of a model that is right. None has less; with smoothing 0 it is 0."""
        other = smoothing / self.n_answers
        wanted = [1 - smoothing + other, *[other] * (self.n_answers - 1)]
        return math.fsum(p * -math.log(p) for p in wanted if 0 < p < 1)

    def blind_loss(self, smoothing: float = 0.0) -> float:
        """-Σ_c Σ_v p(c, v) ln p(v | c): the best loss without reading the source. Only below it something was read."""
        loss = 0.0
        for context in self.odds:
            share = sum(context)
            for odd in context:
                wanted = (1 - smoothing) * odd / share + smoothing / self.n_answers
                loss -= share * wanted * math.log(wanted) if wanted else 0.0
        return loss

    def sample(self, batch_size: int, generator: torch.Generator, on: str = "train") -> Batch:
        """The next ``batch_size`` questions and answers, for training or ``on`` a held-out set.

        The same generator state gives the same ones.

        Raises:
            ConfigError: ``batch_size`` is no whole number, or out of range.
            ValueError: there is no such held-out set; the text names those there are.
        """
        return self.questions(on)(check_whole("batch_size", batch_size, 1, MAX_BATCH), generator)

    def questions(self, on: str) -> Draw:
        """What draws the questions of training, or those of a held-out set.

        Raises:
            ValueError: there is no such set; the text names those there are and the nearest of them.
        """
        if on == "train":
            return self.draw
        if on not in self.held_out:
            allowed = ("train", *self.held_out)
            raise ValueError(
                f"the task {self.name} has no questions {on!r}; it has {', '.join(allowed)}. The nearest is "
                f"{nearest(on, allowed)}."
            )
        return self.held_out[on].draw

    def fit(self, config: ModelConfig) -> ModelConfig:
        """``config`` with what the task decides, such as vocabulary and architecture; every other choice is kept."""
        return config.replace(
            **{name: getattr(self.model, name) for name in self._decided()},
            max_seq_len=max(config.max_seq_len, self.model.max_seq_len),
        )

    def check(self, config: ModelConfig) -> None:
        """Passes when a model of this configuration can be asked the task's questions.

        Raises:
            ValueError: it cannot; the text names the first setting that is in the way.
        """
        fitting = self.fit(config)
        for name in (*self._decided(), "max_seq_len"):
            got, wanted = getattr(config, name), getattr(fitting, name)
            if got != wanted:
                raise ValueError(
                    f"the task {self.name} needs {name} {wanted}, and the model has {got}; "
                    f"tasks.get({self.name!r}).fit(config) gives a configuration that fits"
                )

    def _decided(self) -> tuple[str, ...]:
        other_side = ("tgt_vocab_size",) if self.model.has_decoder else ()
        return ("architecture", "src_vocab_size", *other_side, "n_classes", "pad_id")

    def describe_tokens(self, ids: Int[Tensor, "B n"] | Sequence[Sequence[int]], side: str = "tgt") -> list[list[str]]:
        """Every id as it prints on that side. Rows of a list may differ in length.

        Raises:
            ConfigError: an id outside the vocabulary.
        """
        symbols = self.src_symbols if side == "src" and self.src_symbols is not None else self.symbols
        rows: Sequence[Sequence[int]] = ids.tolist() if isinstance(ids, Tensor) else ids
        for i, row in enumerate(rows, start=1):
            for j, token in enumerate(row, start=1):
                if not 0 <= token < len(symbols):
                    raise ConfigError("id_outside", field="ids", given=token, row=i, column=j,
                                      limit="the vocabulary", size=len(symbols), high=len(symbols) - 1)  # fmt: skip
        return [[symbols[token] for token in row] for row in rows]

    def exact_match(self, answers: Tensor, labels: Tensor) -> Bool[Tensor, " B"]:
        """Which answers are right from the first token to the end, with nothing behind it; or which classes are.

        Answers may be narrower or wider than the labels; what is missing counts as padding.
        """
        if labels.dim() == 1:
            return answers == labels
        width = max(answers.shape[1], labels.shape[1])
        answers, labels = (
            torch.nn.functional.pad(ids, (0, width - ids.shape[1]), value=PAD) for ids in (answers, labels)
        )
        return (answers == labels).all(dim=1)


def odds_of(
    answers: Iterable[tuple[Sequence[int], int]], size: int, known: Callable[[Sequence[int]], Hashable] = tuple
) -> Odds:
    """The odds of all ``answers``, each with how often it comes; ``known`` is the context that its beginning makes.

    >>> odds_of([((4, 2), 1), ((5, 2), 3)], size=6)  # one half of the labels is the first: 4 in one of four, or 5
    ((0.0, 0.0, 0.0, 0.0, 0.125, 0.375), (0.0, 0.0, 0.125, 0.0, 0.0, 0.0), (0.0, 0.0, 0.375, 0.0, 0.0, 0.0))
    """
    counts: dict[Hashable, Counter[int]] = {}
    for labels, times in answers:
        for place, label in enumerate(labels):
            counts.setdefault(known(labels[:place]), Counter())[label] += times
    total = sum(row.total() for row in counts.values())
    return tuple(tuple(row[v] / total if row[v] else 0.0 for v in range(size)) for row in counts.values())


def shift(target: Int[Tensor, "B n"]) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B T"]]:
    """decoder_input[t] = target[t], labels[t] = target[t + 1] (figure 1: outputs "shifted right").

    At every place the decoder has read the target up to there and is asked for the next token.

    >>> decoder_input, labels = shift(torch.tensor([[1, 7, 8, 2]]))  # begin, a, b, end
    >>> decoder_input.tolist(), labels.tolist()
    ([[1, 7, 8]], [[7, 8, 2]])

    Raises:
        ValueError: the target has less than two tokens, so nothing comes next.
    """
    if target.dim() != 2 or target.shape[1] < 2:
        raise ValueError(
            f"a target must have at least two tokens, begin and one to predict; got shape {tuple(target.shape)}"
        )
    return target[:, :-1], target[:, 1:]
