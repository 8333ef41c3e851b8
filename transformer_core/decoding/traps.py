"""Tables on which one way of searching loses to another: small enough to follow every number by hand."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer_core.decoding.search import Beginning

BEGIN, END = 3, 0
"""The ids of every table: 0 is the end, 1 is A, 2 is B, and 3 begins and is never written."""


@dataclass(frozen=True)
class Trap:
    """A table of next-token probabilities, and the search to try on it."""

    name: str
    title: str
    lesson: str
    symbols: tuple[str, ...]
    """How the ids print."""
    rows: Mapping[tuple[int, ...], tuple[float, ...]]
    """The probabilities of every next token behind the longest ending that is named; () is the beginning itself."""
    width: int
    max_length: int
    length_norm: bool = False
    """Whether scores that are normalised by the length change the answer here."""
    begin_id: int = BEGIN
    end_id: int = END

    @property
    def vocabulary(self) -> int:
        """How many tokens can be written."""
        return len(self.rows[()])

    def shares(self, tokens: Sequence[int]) -> tuple[float, ...]:
        """The probabilities of the next token behind these, which are without the begin id."""
        endings = (tuple(tokens[start:]) for start in range(len(tokens) + 1))
        return next(self.rows[ending] for ending in endings if ending in self.rows)

    def next_log_probs(self, beginnings: Sequence[Beginning]) -> Tensor:
        """What ``beam_search`` asks."""
        rows = [self.shares(beginning[1:]) for beginning in beginnings]
        return torch.tensor(rows, dtype=torch.float64).log()


GREEDY_TRAP = Trap(
    name="greedy_trap",
    title="A trap for greedy search",
    lesson="A is the likeliest first token, and behind it nothing is likely: greedy search writes A A A A, has no end "
    "after four tokens, and ln p is -3.4136. B is passed over, although B and the end have ln p -1.0217. A beam of two "
    "keeps B in the running for one step, which is enough.",
    symbols=("EOS", "A", "B", "BOS"),
    rows={(): (0.0, 0.6, 0.4), (1,): (0.30, 0.38, 0.32), (2,): (0.90, 0.06, 0.04)},
    width=2,
    max_length=4,
)
LENGTH_TRAP = Trap(
    name="length_trap",
    title="Short answers win unless the length is taken out",
    lesson="Every token makes a log-probability smaller, so by the sum A EOS is the best, -0.8675. By the mean over "
    "the tokens, the end counted, B A B EOS is: -0.9772 / 4 = -0.2443. It ends two steps later than the first, so a "
    "search that stops when the first hypothesis ends gives the same answer either way.",
    symbols=("EOS", "A", "B", "BOS"),
    rows={
        (): (0.0, 0.6, 0.4), (1,): (0.7, 0.0, 0.3), (1, 2): (1.0, 0.0, 0.0), (2,): (0.0, 1.0, 0.0),
        (2, 1): (0.03, 0.0, 0.97), (2, 1, 2): (0.97, 0.03, 0.0),
    },
    width=3,
    max_length=5,
    length_norm=True,
)  # fmt: skip
TRAPS: Mapping[str, Trap] = {trap.name: trap for trap in (GREEDY_TRAP, LENGTH_TRAP)}
