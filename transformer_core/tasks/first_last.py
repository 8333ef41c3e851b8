"""First = last: do the first and the last of twelve tokens agree? For an encoder with a classifier on position 0."""

from functools import partial

import torch

from transformer_core.batches import Batch
from transformer_core.config import FIRST_FREE, MaskConfig, ModelConfig, TrainConfig
from transformer_core.tasks.base import SPECIAL, HeldOut, Odds, Task

LENGTH, LONGER, VOCABULARY = 12, 17, 64
DRAWN = range(FIRST_FREE, 54)
"""The tokens of the training."""
FRESH = range(DRAWN.stop, VOCABULARY)
"""The ten of which no training question holds a single one."""


def draw(n: int, generator: torch.Generator, length: int = LENGTH, tokens: range = DRAWN) -> Batch:
    """Class 1 when the last token equals the first, class 0 when not; each with probability one half."""
    kinds = len(tokens)
    src = torch.randint(tokens.start, tokens.stop, (n, length), generator=generator)
    equal = torch.randint(2, (n,), generator=generator)
    first = src[:, 0]
    # Going round the circle of all kinds by 1 to kinds - 1 meets each other kind equally often, and never the same.
    another = tokens.start + (first - tokens.start + torch.randint(1, kinds, (n,), generator=generator)) % kinds
    src[:, -1] = first.where(equal == 1, another)
    return Batch(src, None, equal)


def odds() -> Odds:
    """Either class, one time in two."""
    return ((0.5, 0.5),)


FIRST_LAST = Task(
    name="first_last",
    title="First = last?",
    title_zh="首尾相同？",
    needs="Positions. Without them the last token is any of the eleven behind the first, and no model gets above "
    "90.9 %.",
    needs_zh="位置编码。没有它，最后一个词元与第一个之后的另外十个没有区别，任何模型都不会超过 90.9%。",
    lesson="80 steps are not enough, and nothing is broken: with seed 7 about 51 % are right then and the loss is "
    "0.70, as good as guessing, which has 50 % and 0.69. The curve stays near that for a hundred steps and then "
    "falls: 63 % are right after 200, 88 % after 300, 99 % after 400 and 99.9 % after 700.",
    lesson_zh="80 步还不够，但这不说明哪里有错：种子 7 此时约 51% 正确，损失 0.70，与随机猜测（50%，0.69）相当。曲线"
    "在前一百步几乎不变，随后下降：200 步后 63% 正确，300 步后 88%，400 步后 99%，700 步后 99.9%。",
    not_proved="That it can compare. Of 17 tokens instead of twelve 49 % come out right, and of ten tokens that it "
    "never met 56 %, hardly better than guessing (seed 7, 700 steps). It has learned 50 tokens, at the first and the "
    "twelfth place.",
    not_proved_zh="它并没有因此学会比较。把十二个词元换成 17 个，只有 49% 正确；换成十种从未见过的词元，只有 56%，比"
    "猜测好不了多少（种子 7，700 步）。它学会的只是 50 种词元在第一和第十二个位置上的情形。",
    symbols=(*SPECIAL, *(str(token) for token in range(FIRST_FREE, VOCABULARY))),
    count=odds,
    model=ModelConfig(
        architecture="encoder", d_model=64, n_heads=4, n_encoder_layers=2, d_ff=128,
        src_vocab_size=VOCABULARY, max_seq_len=LONGER, n_classes=2,
    ),
    masks=MaskConfig(),
    training=TrainConfig(
        task="first_last", steps=700, batch_size=128, lr=3e-4, optimizer="adamw", weight_decay=0.01
    ),
    draw=draw,
    needs_parts=frozenset(("cross_position", "order")),
    sets=(
        HeldOut("longer", f"{LONGER} tokens; in training there are {LENGTH}", f"{LONGER} 个词元；训练中是 {LENGTH} 个",
                partial(draw, length=LONGER)),
        HeldOut("fresh", f"Tokens {FRESH.start} to {FRESH[-1]}, which training never shows",
                f"词元 {FRESH.start} 到 {FRESH[-1]}，训练中从未出现", partial(draw, tokens=FRESH)),
    ),
)  # fmt: skip
