"""The bridge from a model to beam search: what is the next token's probability behind each of many beginnings?"""

from collections.abc import Sequence
from contextlib import nullcontext

import torch
from jaxtyping import Float, Int
from torch import Tensor

from transformer_core.config import BEGIN, END
from transformer_core.decoding.search import Beam, Beginning, Hypothesis, NextLogProbs
from transformer_core.decoding.writing import check_can_write, evaluating
from transformer_core.key_value_cache import KeyValueCache
from transformer_core.model import Transformer
from transformer_core.rules import condition


def beam(
    model: Transformer,
    src: Int[Tensor, "B S"],
    width: int,
    *,
    max_length: int,
    length_norm: bool = False,
    begin_id: int = BEGIN,
    end_id: int = END,
    cache: bool = True,
) -> list[list[Hypothesis]]:
    """For each sentence the answers that a beam of ``width`` finds, the best first (``search.Beam`` says how).

    The searches of all sentences go in step, since at every step all open beginnings are equally long: the model reads
    those of all sentences in one batch. A sentence whose search has ended is no longer in it.

    Raises:
        ValueError: as ``greedy``, or a mask rule asks for the place in the batch.
        ConfigError: ``width`` is no whole number, or out of range.
    """
    check_can_write("beam", model, max_length, begin_id, end_id)
    searches = [Beam(begin_id, end_id, width, max_length, length_norm) for _ in range(len(src))]
    reader = Reader(model, src, cache)
    while going := [number for number, search in enumerate(searches) if not search.stopped]:
        asked = [(number, beginning) for number in going for beginning in searches[number].beginnings]
        log_probs = reader.log_probs(asked)
        for number, rows in zip(going, log_probs.split([len(searches[number].open) for number in going]), strict=True):
            searches[number].advance(rows)
    return [search.hypotheses for search in searches]


def next_log_probs_of(model: Transformer, src_row: Int[Tensor, "..."], cache: bool = True) -> NextLogProbs:
    """A model and one source sentence (S or 1 S) as the function that ``search`` asks: beginnings -> log-probabilities.

    It encodes the source once. With ``cache`` it remembers the beginnings of the last call, so that those that go on
    from them cost one token each; any others are read anew.

    Raises:
        ValueError: as ``greedy``, or the source is not one sentence, or a mask rule asks for the place in the batch.
    """
    check_can_write("next_log_probs_of", model, 1, 0, 0)
    src = src_row[None] if src_row.dim() == 1 else src_row
    if src.dim() != 2 or len(src) != 1:
        raise ValueError(f"src_row must be one sentence, (S,) or (1, S); got shape {tuple(src_row.shape)}")
    reader = Reader(model, src, cache)
    return lambda beginnings: reader.log_probs([(0, beginning) for beginning in beginnings])


class Reader:
    """ln p(next token | beginning, source) for many beginnings of many sentences at a time.

    Raises:
        ValueError: a mask rule asks for the place in the batch; here that says nothing about the sentence.
    """

    @torch.no_grad()
    def __init__(self, model: Transformer, src: Int[Tensor, "B S"], cache: bool = True) -> None:
        for rule in (*model.masks.decoder_self, *model.masks.cross):
            if rule.startswith("where:") and "b" in condition(rule).needs:
                raise ValueError(
                    f"{rule} asks for b, the place in the batch; a beam puts several beginnings of one sentence there, "
                    "so the rule has no meaning. greedy and sample keep one row for each sentence"
                )
        self.model, self.src = model, src.to(model.output.weight.device)
        with evaluating(model):
            self.memory = model.encode(self.src)
        self.cache = KeyValueCache() if cache else None
        self._places: dict[tuple[int, Beginning], int] = {}

    @torch.no_grad()
    def log_probs(self, asked: Sequence[tuple[int, Beginning]]) -> Float[Tensor, "n V"]:
        """A row for each (number of the sentence, beginning).

        Raises:
            ValueError: nothing is asked, the beginnings differ in length, or are no tokens of the model.
        """
        lengths = {len(beginning) for _, beginning in asked}
        if len(lengths) != 1:
            raise ValueError(f"beginnings must be equally long to be read together; got lengths {sorted(lengths)}")
        device = self.src.device
        sentences = torch.tensor([number for number, _ in asked], device=device)
        written = torch.tensor([beginning for _, beginning in asked], device=device)
        if self.cache is not None:
            self._go_on(self.cache, asked)
        with evaluating(self.model), self.cache.open() if self.cache is not None else nullcontext():
            hidden = self.model.decode(written, self.memory[sentences], self.src[sentences])[:, -1]
        return self.model.output(hidden).log_softmax(dim=-1)

    def _go_on(self, cache: KeyValueCache, asked: Sequence[tuple[int, Beginning]]) -> None:
        """Brings the kept rows into the order of what is asked, if all of it goes on from what was asked before."""
        before = [self._places.get((number, beginning[:-1])) for number, beginning in asked]
        known = [place for place in before if place is not None]
        if len(known) == len(before):
            cache.select(known)
        else:
            cache.forget()
        self._places = {each: place for place, each in enumerate(asked)}
