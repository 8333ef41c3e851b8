"""Tasks: small enough to learn in a minute, each with its chance level and a recipe that learns it.

>>> sorted(TASKS)
['addition', 'copy', 'first_last', 'reverse', 'sort', 'translation']
>>> get("first_last").chance_accuracy
0.5
"""

from collections.abc import Mapping
from types import MappingProxyType

from transformer_core.errors import nearest
from transformer_core.tasks.addition import ADDITION
from transformer_core.tasks.base import PARTS, HeldOut, Task
from transformer_core.tasks.copying import COPY
from transformer_core.tasks.first_last import FIRST_LAST
from transformer_core.tasks.reverse import REVERSE
from transformer_core.tasks.sort import SORT
from transformer_core.tasks.translation import TRANSLATION, task_of

__all__ = ["PARTS", "TASKS", "HeldOut", "Task", "get", "task_of"]

_EVERY = (FIRST_LAST, COPY, REVERSE, SORT, ADDITION, TRANSLATION)
TASKS: Mapping[str, Task] = MappingProxyType({task.name: task for task in _EVERY})
"""Every task under its name, the easiest first."""


def get(name: str) -> Task:
    """The task of this name.

    Raises:
        ValueError: there is none; the text names the tasks and the nearest of them.
    """
    if name not in TASKS:
        raise ValueError(
            f"there is no task {name!r}; the tasks are {', '.join(TASKS)}. The nearest is {nearest(name, TASKS)}."
        )
    return TASKS[name]
