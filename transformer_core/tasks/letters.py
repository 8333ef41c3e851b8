"""Letters in, letters out: the frame of the tasks in which a decoder rewrites what the encoder has read."""

from collections.abc import Callable

import torch
from jaxtyping import Int
from torch import Tensor

from transformer_core.batches import Batch
from transformer_core.config import BEGIN, END, FIRST_FREE, PAD, ModelConfig, TrainConfig
from transformer_core.tasks.base import SPECIAL, shift

ALPHABET = "abcdefghij"
SHORTEST, LONGEST = 3, 7
SYMBOLS = (*SPECIAL, *ALPHABET)

MODEL = ModelConfig(
    d_model=64, n_heads=4, n_encoder_layers=2, n_decoder_layers=2, d_ff=128,
    src_vocab_size=len(SYMBOLS), tgt_vocab_size=len(SYMBOLS), max_seq_len=LONGEST + 1,
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


def draw(n: int, generator: torch.Generator, rewrite: Rewrite) -> Batch:
    """``n`` words of 3 to 7 letters, every length and every letter equally likely; the answer ends with the end id.

    Words shorter than the longest are padded, so that the masks have something to hide.
    """
    lengths = torch.randint(SHORTEST, LONGEST + 1, (n, 1), generator=generator)
    letters = torch.randint(FIRST_FREE, FIRST_FREE + len(ALPHABET), (n, LONGEST), generator=generator)
    inside = torch.arange(LONGEST) < lengths
    target = torch.full((n, LONGEST + 2), PAD)
    target[:, 0] = BEGIN
    target[:, 1:-1] = rewrite(letters, lengths).where(inside, PAD)
    target.scatter_(1, lengths + 1, END)
    decoder_input, labels = shift(target)
    return Batch(letters.where(inside, PAD), decoder_input, labels)


def odds() -> tuple[tuple[float, ...], ...]:
    """odds[t][v]: the share of all labels that are id v at place t, for letters drawn at random.

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
        letter = sum(length > place for length in lengths) / labels / len(ALPHABET)
        places.append(tuple(ends if v == END else letter if v >= FIRST_FREE else 0.0 for v in range(len(SYMBOLS))))
    return tuple(places)
