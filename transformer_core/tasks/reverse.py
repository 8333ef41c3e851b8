"""Reverse: write down the letters that were read from the last to the first."""

import torch
from jaxtyping import Int
from torch import Tensor

from transformer_core.batches import Batch
from transformer_core.config import MaskConfig
from transformer_core.tasks import letters
from transformer_core.tasks.base import Task


def backwards(word: Int[Tensor, "B n"], lengths: Int[Tensor, "B 1"]) -> Int[Tensor, "B n"]:
    """answer[t] = word[length - 1 - t] in front of the padding; what stands behind it means nothing.

    >>> backwards(torch.tensor([[4, 5, 6, 0]]), torch.tensor([[3]]))[:, :3].tolist()
    [[6, 5, 4]]
    """
    mirrored = lengths - 1 - torch.arange(word.shape[1])
    return word.gather(1, mirrored.clamp(min=0))


def draw(n: int, generator: torch.Generator) -> Batch:
    """a b c → c b a."""
    return letters.draw(n, generator, backwards)


REVERSE = Task(
    name="reverse",
    title="Reverse: a b c → c b a",
    title_zh="反转：a b c → c b a",
    needs="",
    needs_zh="",
    lesson="",
    lesson_zh="",
    symbols=letters.SYMBOLS,
    odds=letters.odds(),
    model=letters.MODEL,
    masks=MaskConfig(),
    training=letters.recipe("reverse"),
    draw=draw,
)
