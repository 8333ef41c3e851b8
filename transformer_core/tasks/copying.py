"""Copy: write down the letters that were read, in their order, and stop at the right place."""

import torch

from transformer_core.batches import Batch
from transformer_core.config import MaskConfig
from transformer_core.tasks import letters
from transformer_core.tasks.base import Task


def draw(n: int, generator: torch.Generator) -> Batch:
    """a b c → a b c.

    >>> batch = draw(1, torch.Generator().manual_seed(0))
    >>> COPY.describe_tokens(batch.src), COPY.describe_tokens(batch.labels)
    """
    return letters.draw(n, generator, lambda word, lengths: word)


COPY = Task(
    name="copy",
    title="Copy: a b c → a b c",
    title_zh="抄写：a b c → a b c",
    needs="Cross-attention, and positions on both sides: answer place t has to find source place t. "
    "The causal mask makes it honest, the padding mask shows where the word ends.",
    needs_zh="需要交叉注意力，以及两侧的位置编码：答案的第 t 位要找到源序列的第 t 位。因果掩码使它诚实，填充掩码告诉它词在哪里结束。",
    lesson="",
    lesson_zh="",
    symbols=letters.SYMBOLS,
    odds=letters.odds(),
    model=letters.MODEL,
    masks=MaskConfig(),
    training=letters.recipe("copy"),
    draw=draw,
)
