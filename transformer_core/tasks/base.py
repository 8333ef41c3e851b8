"""What a toy task is: an endless supply of questions with known answers, and the numbers by which to judge a model."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transformer_core.batches import PAD_SIGN, SIGNS, Batch
from transformer_core.checked import check_whole
from transformer_core.config import MAX_BATCH, PAD, MaskConfig, ModelConfig, TrainConfig
from transformer_core.errors import ConfigError

SPECIAL = (PAD_SIGN, *(SIGNS[token] for token in sorted(SIGNS)))
"""How the ids 0 to 3 print, in every task."""


@dataclasses.dataclass(frozen=True, eq=False)
class Task:
    """A task as data, and one function ``draw`` that asks ``n`` questions out of a generator.

    ``model``, ``masks`` and ``training`` are a recipe that learns the task; ``needs`` names the part of the
    model without which none learns it. Texts come in English and, under the name with ``_zh``, in Chinese.
    """

    name: str
    title: str
    title_zh: str
    needs: str
    needs_zh: str
    lesson: str
    lesson_zh: str
    symbols: tuple[str, ...]
    """How each id of the vocabulary prints."""
    odds: tuple[tuple[float, ...], ...]
    """odds[t][v]: which share of all labels stands at place t and is v, over endlessly many questions."""
    model: ModelConfig
    masks: MaskConfig
    training: TrainConfig
    draw: Callable[[int, torch.Generator], Batch]

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
        """Σ_t max_v odds[t][v]: the best accuracy without reading the source, by always giving the likeliest answer."""
        return sum(max(place) for place in self.odds)

    def blind_loss(self, smoothing: float = 0.0) -> float:
        """-Σ_t Σ_v p(t, v) ln p(v | t): the best loss without reading the source. Only below it something was read."""
        loss = 0.0
        for place in self.odds:
            share = sum(place)
            for odd in place:
                wanted = (1 - smoothing) * odd / share + smoothing / self.n_answers
                loss -= share * wanted * math.log(wanted) if wanted else 0.0
        return loss

    def sample(self, batch_size: int, generator: torch.Generator) -> Batch:
        """The next ``batch_size`` questions and answers; the same generator state gives the same ones.

        Raises:
            ConfigError: ``batch_size`` is no whole number, or out of range.
        """
        return self.draw(check_whole("batch_size", batch_size, 1, MAX_BATCH), generator)

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

    def describe_tokens(self, ids: Int[Tensor, "B n"] | Sequence[Sequence[int]]) -> list[list[str]]:
        """Every id as it prints. Rows of a list may differ in length.

        Raises:
            ConfigError: an id outside the vocabulary.
        """
        rows: Sequence[Sequence[int]] = ids.tolist() if isinstance(ids, Tensor) else ids
        for i, row in enumerate(rows, start=1):
            for j, token in enumerate(row, start=1):
                if not 0 <= token < len(self.symbols):
                    raise ConfigError("id_outside", field="ids", given=token, row=i, column=j,
                                      limit="the vocabulary", size=len(self.symbols),
                                      high=len(self.symbols) - 1)  # fmt: skip
        return [[self.symbols[token] for token in row] for row in rows]

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
