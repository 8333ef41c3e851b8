"""Letters in, letters out: the frame of the tasks in which a decoder rewrites what the encoder has read."""

from collections.abc import Callable
from functools import cache, partial

import torch
from jaxtyping import Int
from torch import Tensor

from transformer_core.batches import Batch
from transformer_core.config import BEGIN, END, FIRST_FREE, PAD, ModelConfig, TrainConfig
from transformer_core.tasks.base import SPECIAL, HeldOut, Odds, shift

ALPHABET, FRESH = "abcdefghij", "klm"
"""The letters of the training, and those of which no training question holds a single one."""
SHORTEST, LONGEST = 3, 7
LONGER, LONGEST_OF_ALL = 8, 10
"""The lengths of words in training, and those beyond them."""
SYMBOLS = (*SPECIAL, *ALPHABET, *FRESH)
DRAWN = range(FIRST_FREE, FIRST_FREE + len(ALPHABET))
"""The ids of ``ALPHABET``."""
NEVER_DRAWN = range(DRAWN.stop, len(SYMBOLS))
"""The ids of ``FRESH``."""

MODEL = ModelConfig(
    d_model=64, n_heads=4, n_encoder_layers=2, n_decoder_layers=2, d_ff=128,
    src_vocab_size=len(SYMBOLS), tgt_vocab_size=len(SYMBOLS), max_seq_len=LONGEST_OF_ALL + 1,
)  # fmt: skip


def recipe(task: str) -> TrainConfig:
    """Warm-up and label smoothing as in the paper (sections 5.3 and 5.4), with a fifth of equation 3.

    Differs from the paper: AdamW with β₂ 0.999 instead of Adam with 0.98, and clipping. Once the letters are learned
    gradients are small, and an average that forgets them in 50 steps lets a single rare batch throw the model back.
    """
    return TrainConfig(
        task=task, steps=600, batch_size=128, lr=0.2, schedule="warmup", warmup=60, optimizer="adamw",
        weight_decay=0.01, label_smoothing=0.1, clip_norm=1.0,
    )  # fmt: skip


Rewrite = Callable[[Int[Tensor, "B n"], Int[Tensor, "B 1"]], Int[Tensor, "B n"]]
"""(letters, how many of each row count) -> the answer's letters, as many in each row."""


def draw(
    n: int, generator: torch.Generator, rewrite: Rewrite, shortest: int = SHORTEST, longest: int = LONGEST,
    letters: range = DRAWN,
) -> Batch:  # fmt: skip
    """``n`` words and their answers, every length and every letter equally likely; an answer ends with the end id.

    Words shorter than the longest are padded, so that the masks have something to hide.
    """
    lengths = torch.randint(shortest, longest + 1, (n, 1), generator=generator)
    words = torch.randint(letters.start, letters.stop, (n, longest), generator=generator)
    inside = torch.arange(longest) < lengths
    target = torch.full((n, longest + 2), PAD)
    target[:, 0] = BEGIN
    target[:, 1:-1] = rewrite(words, lengths).where(inside, PAD)
    target.scatter_(1, lengths + 1, END)
    decoder_input, labels = shift(target)
    return Batch(words.where(inside, PAD), decoder_input, labels)


def held_out(rewrite: Rewrite) -> tuple[HeldOut, HeldOut]:
    """Words longer than any in training, and words of letters that training never draws."""
    return (
        HeldOut(
            "longer",
            f"Words of {LONGER} to {LONGEST_OF_ALL} letters; in training they have at most {LONGEST}",
            f"{LONGER} 到 {LONGEST_OF_ALL} 个字母的词；训练中最多 {LONGEST} 个",
            partial(draw, rewrite=rewrite, shortest=LONGER, longest=LONGEST_OF_ALL),
        ),
        HeldOut(
            "fresh",
            f"Words of the letters {', '.join(FRESH)}, which training never shows",
            f"由字母 {'、'.join(FRESH)} 组成的词，训练中从未出现",
            partial(draw, rewrite=rewrite, letters=NEVER_DRAWN),
        ),
    )


@cache
def odds(kinds: int = len(ALPHABET), size: int = len(SYMBOLS)) -> Odds:
    """The odds of the labels for words of ``kinds`` letters out of ``size`` ids. A context is a place: the letters
    before tell nothing.

    Places 0 to 2 always hold a letter, place 7 only the end.

    >>> places = odds()
    >>> [round(sum(place), 3) for place in places]  # a word of n letters has n + 1 labels, six on average
    [0.167, 0.167, 0.167, 0.167, 0.133, 0.1, 0.067, 0.033]
    >>> places[0][END], round(places[7][END], 3)
    (0.0, 0.033)
    """
    lengths = range(SHORTEST, LONGEST + 1)
    labels = sum(length + 1 for length in lengths)
    places = []
    for place in range(LONGEST + 1):
        ends = sum(length == place for length in lengths) / labels
        letter = sum(length > place for length in lengths) / labels / kinds
        drawn = range(FIRST_FREE, FIRST_FREE + kinds)
        places.append(tuple(ends if v == END else letter if v in drawn else 0.0 for v in range(size)))
    return tuple(places)
