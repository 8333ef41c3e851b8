"""First = last: do the first and the last of twelve tokens agree? For an encoder with a classifier on position 0."""

import torch

from transformer_core.batches import Batch
from transformer_core.config import FIRST_FREE, MaskConfig, ModelConfig, TrainConfig
from transformer_core.tasks.base import SPECIAL, Task

LENGTH, VOCABULARY = 12, 64
KINDS = VOCABULARY - FIRST_FREE
"""How many different tokens a question may hold."""


def draw(n: int, generator: torch.Generator) -> Batch:
    """Class 1 when the last token equals the first, class 0 when not; each with probability one half."""
    src = torch.randint(FIRST_FREE, VOCABULARY, (n, LENGTH), generator=generator)
    equal = torch.randint(2, (n,), generator=generator)
    first = src[:, 0]
    # Going round the circle of all kinds by 1 to KINDS - 1 meets each other kind equally often, and never the same.
    another = FIRST_FREE + (first - FIRST_FREE + torch.randint(1, KINDS, (n,), generator=generator)) % KINDS
    src[:, -1] = first.where(equal == 1, another)
    return Batch(src, None, equal)


FIRST_LAST = Task(
    name="first_last",
    title="First = last?",
    title_zh="首尾相同？",
    needs="",
    needs_zh="",
    lesson="",
    lesson_zh="",
    symbols=(*SPECIAL, *(str(token) for token in range(FIRST_FREE, VOCABULARY))),
    odds=((0.5, 0.5),),
    model=ModelConfig(
        architecture="encoder", d_model=64, n_heads=4, n_encoder_layers=2, d_ff=128,
        src_vocab_size=VOCABULARY, max_seq_len=LENGTH, n_classes=2,
    ),  # fmt: skip
    masks=MaskConfig(),
    training=TrainConfig(
        task="first_last", steps=700, batch_size=128, lr=3e-4, optimizer="adamw", weight_decay=0.01
    ),  # fmt: skip
    draw=draw,
)
