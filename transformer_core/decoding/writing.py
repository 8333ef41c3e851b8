"""Writing one token at a time, the likeliest each time; and why training need not do so."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_core.checked import check_whole
from transformer_core.config import BEGIN, END
from transformer_core.key_value_cache import KeyValueCache
from transformer_core.model import Transformer


@torch.no_grad()
def greedy(
    model: Transformer,
    src: Int[Tensor, "B S"],
    *,
    begin_id: int = BEGIN,
    end_id: int = END,
    max_length: int,
    cache: bool = True,
) -> Int[Tensor, "B n"]:
    """token[t] = argmax_v p(v | token[<t], src): the likeliest next token each time; a tie goes to the lower id.

    The begin id is not part of the answer, the end id is, and behind it stands padding. The answer is as wide as the
    longest sentence in it, at most ``max_length``; one without the end id was cut there. What is likeliest at each
    step need not be likeliest as a whole: greedy search never takes a choice back.

    The source is encoded once. With ``cache`` each written token is read once, too; without, the target so far is
    decoded anew for every token, to the same end.

    Raises:
        ValueError: the model lacks encoder or decoder, ``max_length`` is no whole number from 1 to
            ``max_seq_len``, or an id is not in the vocabulary.
    """
    check_can_write("greedy", model, max_length, begin_id, end_id)
    with evaluating(model):
        src = src.to(model.output.weight.device)
        memory = model.encode(src)
        written = torch.full((len(src), 1), begin_id, device=src.device)
        ended = torch.zeros(len(src), dtype=torch.bool, device=src.device)
        with KeyValueCache().open() if cache else nullcontext():
            while written.shape[1] <= max_length and not ended.all():
                last = model.decode(written, memory, src)[:, -1]
                token = model.output(last).argmax(dim=-1).masked_fill(ended, model.config.pad_id)
                written = torch.cat([written, token[:, None]], dim=1)
                ended |= token == end_id
    return written[:, 1:]


@torch.no_grad()
def token_log_probs(
    model: Transformer, src: Int[Tensor, "B S"], tokens: Int[Tensor, "B n"], *, begin_id: int = BEGIN, end_id: int = END
) -> Float[Tensor, "B n"]:
    """ln p(token[t] | token[<t], src) of answers that are there already, in one pass; 0 for the padding behind them.

    Summed over an answer it is its log-probability, whoever wrote it.

    Raises:
        ValueError: the model lacks encoder or decoder, the tokens are none of the model's, or an id is not in the
            vocabulary.
    """
    check_can_write("token_log_probs", model, 1, begin_id, end_id)
    tokens = tokens.to(model.output.weight.device)
    read = torch.cat([torch.full_like(tokens[:, :1], begin_id), tokens[:, :-1]], dim=1)
    with evaluating(model):
        log_probs = model(src.to(tokens.device), read).log_softmax(dim=-1).gather(-1, tokens[..., None])[..., 0]
    behind = ((tokens == end_id).cumsum(dim=1) - (tokens == end_id).long()) > 0
    return log_probs.masked_fill(behind, 0.0)


@torch.no_grad()
def both_ways(
    model: Transformer, src: Int[Tensor, "B S"], tgt: Int[Tensor, "B T"]
) -> tuple[Float[Tensor, "B T V"], Float[Tensor, "B T V"]]:
    """The logits of one target read at once, as in training, and read one token at a time, as in writing.

    ``tgt`` is what the decoder reads: the target shifted, the begin id first. In training all of it is there, and one
    pass answers every place: the causal mask hides from each what a writer would not have yet. In writing the next
    token is there only when it has been chosen. Under a causal mask both are the same logits, up to rounding; without
    one they are not, and the model is trained for a question that nobody will ask it.

    Raises:
        ValueError: the model lacks encoder or decoder, or these are no tokens of it.
    """
    check_can_write("both_ways", model, 1, 0, 0)
    device = model.output.weight.device
    src, tgt = src.to(device), tgt.to(device)
    with evaluating(model):
        parallel = model(src, tgt)
        memory = model.encode(src)
        with KeyValueCache().open():
            steps = [model.decode(tgt[:, : t + 1], memory, src)[:, -1] for t in range(tgt.shape[1])]
        return parallel, model.output(torch.stack(steps, dim=1))


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


def check_can_write(what: str, model: Transformer, max_length: int, begin_id: int, end_id: int) -> None:
    """Passes where ``what`` can be asked of the model.

    Raises:
        ValueError: the model lacks encoder or decoder, ``max_length`` is no whole number from 1 to
            ``max_seq_len``, or an id is not in the vocabulary.
    """
    config = model.config
    if not (config.has_encoder and config.has_decoder):
        raise ValueError(
            f"{what} writes a target for a source, so it needs encoder and decoder; this model has "
            f"architecture {config.architecture!r}"
        )
    if not 1 <= max_length <= config.max_seq_len:
        raise ValueError(
            f"max_length is {max_length}; it must be between 1 and the model's max_seq_len {config.max_seq_len}"
        )
    check_whole("max_length", max_length, 1, config.max_seq_len)
    for name, token in (("begin_id", begin_id), ("end_id", end_id)):
        if not 0 <= token < config.tgt_vocab_size:
            raise ValueError(
                f"{name} is {token}; a target vocabulary of {config.tgt_vocab_size} has ids 0 to "
                f"{config.tgt_vocab_size - 1}"
            )
