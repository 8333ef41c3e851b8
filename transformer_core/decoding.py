"""Decoding: the model writes one token at a time and reads what it has written so far (section 3)."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Int
from torch import Tensor, nn

from transformer_core.config import BEGIN, END
from transformer_core.model import Transformer


@torch.no_grad()
def greedy(
    model: Transformer, src: Int[Tensor, "B S"], *, begin_id: int = BEGIN, end_id: int = END, max_length: int
) -> Int[Tensor, "B n"]:
    """token[t] = argmax_v p(v | token[<t], src): the likeliest next token each time; a tie goes to the lower id.

    The begin id is not part of the answer, the end id is, and behind it stands padding. The answer is as wide as the
    longest sentence in it, at most ``max_length``; one without the end id was cut there. What is likeliest at each
    step need not be likeliest as a whole: greedy search never takes a choice back.

    The source is encoded once; the target so far is decoded anew for every token.

    Raises:
        ValueError: the model lacks encoder or decoder, ``max_length`` is below 1 or above ``max_seq_len``, or an id
            is not in the vocabulary.
    """
    config = model.config
    if not (config.has_encoder and config.has_decoder):
        raise ValueError(
            f"greedy writes a target for a source, so it needs encoder and decoder; this model has "
            f"architecture {config.architecture!r}"
        )
    if not 1 <= max_length <= config.max_seq_len:
        raise ValueError(
            f"max_length is {max_length}; it must be between 1 and the model's max_seq_len {config.max_seq_len}"
        )
    for name, token in (("begin_id", begin_id), ("end_id", end_id)):
        if not 0 <= token < config.tgt_vocab_size:
            raise ValueError(
                f"{name} is {token}; a target vocabulary of {config.tgt_vocab_size} has ids 0 to "
                f"{config.tgt_vocab_size - 1}"
            )
    with evaluating(model):
        src = src.to(model.output.weight.device)
        memory = model.encode(src)
        written = torch.full((len(src), 1), begin_id, device=src.device)
        ended = torch.zeros(len(src), dtype=torch.bool, device=src.device)
        while written.shape[1] <= max_length and not ended.all():
            last = model.decode(written, memory, src)[:, -1]
            token = model.output(last).argmax(dim=-1).masked_fill(ended, config.pad_id)
            written = torch.cat([written, token[:, None]], dim=1)
            ended |= token == end_id
    return written[:, 1:]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside: no dropout. Afterwards every module is in the mode in which it was."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True
