"""Whose turn it is to train: a run that has the machine to itself keeps its turn longer than one of several.

Every slice costs a way to the browser and back before the next one begins. What is kept here is when which run was at
work, and nothing of any run.
"""

from __future__ import annotations

import threading
import time

MEMORY = 6.0
"""Seconds for which a run counts as one that wants a turn, after it was last at work or asked for one."""


class Turns:
    """When each run was last at work, by the run's own number.

    >>> turns = Turns()
    >>> turns.want("a"), turns.alone("a"), turns.want("b"), turns.alone("a")
    (None, True, None, False)
    """

    def __init__(self) -> None:
        self._seen: dict[str, float] = {}
        self._lock = threading.Lock()

    def want(self, run: str) -> None:
        """This run is at work, or waits to be."""
        now = time.perf_counter()
        with self._lock:
            self._seen[run] = now
            for other in [each for each, seen in self._seen.items() if now - seen > MEMORY]:
                del self._seen[other]

    def leave(self, run: str) -> None:
        """This run wants no more turns for now."""
        with self._lock:
            self._seen.pop(run, None)

    def alone(self, run: str) -> bool:
        """Whether no other run has wanted a turn lately."""
        now = time.perf_counter()
        with self._lock:
            return all(each == run or now - seen > MEMORY for each, seen in self._seen.items())


TURNS = Turns()
"""Of all runs of this process: like the queue of the machine's time, it belongs to no tab."""
