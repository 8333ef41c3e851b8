"""Lessons: questions about the Transformer, each with trainings that differ in one thing and a measured answer.

>>> sorted(LESSONS)[:3]
['label_smoothing', 'large_vocabulary', 'no_decoder_positions']
>>> next(run_lesson("label_smoothing", seed=7)).variant
'smoothed'
"""

from collections.abc import Iterator

from transformer_core.errors import nearest
from transformer_core.experiments.lesson import Lesson, Measured, Variant
from transformer_core.experiments.lessons import LESSONS
from transformer_core.experiments.measuring import Progress, run

__all__ = ["LESSONS", "Lesson", "Measured", "Progress", "Variant", "get", "run_lesson"]


def get(name: str) -> Lesson:
    """The lesson of this name.

    Raises:
        ValueError: there is none; the text names the lessons and the nearest of them.
    """
    if name not in LESSONS:
        raise ValueError(
            f"there is no lesson {name!r}; the lessons are {', '.join(LESSONS)}. The nearest is "
            f"{nearest(name, LESSONS)}."
        )
    return LESSONS[name]


def run_lesson(name: str, seed: int, steps: int | None = None) -> Iterator[Progress]:
    """Trains and measures every variant of a lesson, a step each time it is asked for the next.

    Raises:
        ValueError: there is no such lesson.
    """
    return run(get(name), seed, steps)
