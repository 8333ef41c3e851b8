"""What a lesson is: a question, a few trainings that differ in one thing each, and what came out of them."""

import dataclasses
import json
from functools import cache, partial
from pathlib import Path
from typing import Any

from transformer_core import tasks
from transformer_core.config import FIRST_FREE, MaskConfig, ModelConfig, TrainConfig
from transformer_core.tasks import Task, letters
from transformer_core.tasks.base import SPECIAL
from transformer_core.tasks.copying import unchanged

MEASURED = Path(__file__).parent / "measured"
"""What ``python -m benchmarks.lessons`` measured, a file for each lesson."""
DECODE = ("greedy", "teacher_forcing")
"""How the answers come about: token by token, or all at once with the right answer given to the decoder."""


@dataclasses.dataclass(frozen=True)
class Variant:
    """One of the trainings. ``letters`` is how many letters words are made of, where it is not the task's own ten."""

    name: str
    title: str
    title_zh: str
    model: ModelConfig
    masks: MaskConfig
    training: TrainConfig
    decode: str = "greedy"
    letters: int | None = None

    @property
    def task(self) -> Task:
        """The task that it trains on."""
        task = tasks.get(self.training.task)
        return task if self.letters is None else copy_of(self.letters)


@dataclasses.dataclass(frozen=True)
class Measured:
    """What one variant came to with one seed. All but ``loss`` is of held-out questions, in evaluation mode."""

    variant: str
    seed: int
    steps: int
    loss: float
    """The mean of the last 20 losses of the training, label smoothing included."""
    held_out_loss: float
    """Without label smoothing."""
    token: float
    """The share of tokens that are right, the right ones before each being given."""
    token_alone: float
    """The same share where a model has only its own words to go by, whatever the variant's ``decode``."""
    exact: float
    """The share of answers that are right as a whole, decoded as the variant says."""
    confidence: float
    """The mean probability of the likeliest token."""
    sharp_before: float
    """The mean of the largest weight of each query, over all attentions, before the first step."""
    sharp: float
    """The same after the last step."""
    parameters: int
    seconds: float
    """Of this process's CPU, for the training alone."""


@dataclasses.dataclass(frozen=True)
class Lesson:
    """A question with its answer, which quotes what was ``measured``."""

    name: str
    title: str
    title_zh: str
    question: str
    question_zh: str
    answer: str
    answer_zh: str
    task: str
    variants: tuple[Variant, ...]

    @property
    def measured(self) -> tuple[Measured, ...]:
        """What came out of each variant with each seed, when the answer was written."""
        return tuple(Measured(**run) for run in _read(self.name)["runs"])

    @property
    def torch(self) -> str:
        """The version of torch that was measured with."""
        return str(_read(self.name)["torch"])

    @property
    def command(self) -> str:
        """What runs the lesson again, with its first seed."""
        return f"python -m transformer_core lessons {self.name} --seed {self.measured[0].seed}"


@cache
def _read(name: str) -> Any:
    return json.loads((MEASURED / f"{name}.json").read_text(encoding="utf-8"))


def copy_of(kinds: int) -> Task:
    """The task copy with words of ``kinds`` letters, which print as their numbers."""
    task = tasks.get("copy")
    drawn = range(FIRST_FREE, FIRST_FREE + kinds)
    return dataclasses.replace(
        task,
        symbols=(*SPECIAL, *(str(token) for token in drawn)),
        count=partial(letters.odds, kinds, drawn.stop),
        model=task.model.replace(src_vocab_size=drawn.stop, tgt_vocab_size=drawn.stop),
        draw=partial(letters.draw, rewrite=unchanged, letters=drawn),
        sets=(),
    )
