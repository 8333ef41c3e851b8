"""A trained model at work: sentences in, translations out, and how good they are."""

from collections.abc import Sequence

import torch

from transformer_core.checked import check_whole
from transformer_core.decoding import beam, greedy
from transformer_core.model import Transformer
from transformer_core.tasks.translation import ROOM
from transformer_core.translation.corpus import Corpus, Pair, padded
from transformer_core.translation.making import decode_ids, encode
from transformer_core.translation.metrics import Score, measure

__all__ = ["Score", "score", "translate"]

AT_ONCE = 100
"""So many sentences are decoded at a time."""
MAX_WIDTH = 64
"""The widest beam."""


def translate(model: Transformer, corpus: Corpus, sentences: Sequence[str], width: int = 1) -> list[str]:
    """The translations of these sentences, greedily or by a beam of ``width`` with length normalisation.

    Raises:
        ValueError: a sentence is empty or too long, or the model is not one of this corpus.
    """
    return written(model, corpus, [(encode(corpus, sentence), (0,)) for sentence in sentences], width)


def score(model: Transformer, corpus: Corpus, n: int | None = None, seed: int = 0, width: int = 1) -> Score:
    """BLEU and chrF on the held-out sentences: all of them, or ``n`` drawn with ``seed``.

    References are the sentences as they stood in the file, words outside the vocabulary and all: what the model cannot
    know counts against it.

    Raises:
        ValueError: ``n`` is more than there are, the model is not one of this corpus, or sacreBLEU is not installed.
    """
    total = len(corpus.held_out)
    chosen = list(range(total))
    if n is not None:
        check_whole("n", n, 1, total)
        chosen = torch.randperm(total, generator=torch.Generator().manual_seed(seed))[:n].tolist()
    answers = written(model, corpus, [corpus.held_out[i] for i in chosen], width)
    return measure(answers, [corpus.references[i] for i in chosen], corpus.options["languages"][1])


def written(model: Transformer, corpus: Corpus, pairs: Sequence[Pair], width: int = 1) -> list[str]:
    """What the model writes for the sources of these pairs, in their order."""
    check_whole("width", width, 1, MAX_WIDTH)
    for side, symbols in (("src", corpus.src_symbols), ("tgt", corpus.tgt_symbols)):
        size = getattr(model.config, f"{side}_vocab_size")
        if size != len(symbols):
            raise ValueError(
                f"the model has {side}_vocab_size {size} and the corpus {len(symbols)}; it was made for another corpus"
            )
    length = min(max(corpus.longest) + ROOM, model.config.max_seq_len)
    answers = [""] * len(pairs)
    # Sentences of one length together: little is padded, and few wait for the longest to end.
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i][0]))
    for start in range(0, len(order), AT_ONCE):
        chosen = order[start : start + AT_ONCE]
        src, _ = padded([pairs[i] for i in chosen])
        if width == 1:
            rows = greedy(model, src, max_length=length).tolist()
        else:
            found = beam(model, src, width, max_length=length, length_norm=True)
            rows = [list(hypotheses[0].tokens) for hypotheses in found]
        for i, row in zip(chosen, rows, strict=True):
            answers[i] = decode_ids(corpus, row)
    return answers
