"""The probing kit of level 3: a copy of the model that can be experimented with, tokens for it, and what it should do.

A look at one run cannot tell which inputs an output depends on. A probe changes one place and looks what moves. Four
things make it sharp:

- float64 and weights of a calibrated size. At a small initialisation a leak may be 2e-5 and drown in rounding; where
  all is as it should be, what is hidden moves by exactly 0.
- Random vectors. A constant added to all features is taken out again by the next LayerNorm.
- At least three sentences, padded differently, and sizes that differ: equal sizes hide swapped axes, and one head or
  one sentence hides nearly everything. Then once more with sizes that do coincide, since some faults need that to run.
- What may move is computed here, from the rules of the configuration. The masks that the model made are not asked.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from transformer_core.checks.doubles import calibrate, double
from transformer_core.checks.reach import ENDS, unchanged, views
from transformer_core.checks.rounding import relative
from transformer_core.checks.subject import Subject, untouched
from transformer_core.checks.table import Finding
from transformer_core.errors import first_line

SAME = 1e-9
"""Two results of one formula may differ by this part of the largest number. Rounding in float64 gives about 1e-15."""
SIZES = (3, 5, 7, 4, 6)
"""Sentences, target and source tokens are the first three of these that are neither n_heads, d_head nor d_model."""
STOPS = "the probe stops: {error}"
"""The sentence of a check whose probe met an error in the model."""
MANY = 64
"""A mask that needs longer sentences than this is not probed."""


class Probe:
    """A float64 copy of the subject's model in evaluation mode, and what is needed to try it out."""

    def __init__(self, subject: Subject, model: Any, rows: int, lengths: dict[str, int]) -> None:
        self.model, self.rows, self.random = model, rows, torch.Generator()
        self.config, self.masks, self.shop = subject.config, subject.masks, subject.shop
        self.entries, self.attentions, self.output_keys = subject.entries, subject.attentions, subject.output_keys
        there = {"src": self.config.has_encoder, "tgt": self.config.has_decoder}
        self.sides = tuple(side for side, has in there.items() if has)
        self.lengths = {side: lengths[side] for side in self.sides}

    def words(self, side: str, rows: int, length: int) -> Tensor:
        """Random token ids of one side, rows by length, none of them padding."""
        drawn = torch.randint(getattr(self.config, f"{side}_vocab_size") - 1, (rows, length), generator=self.random)
        return drawn + (drawn >= self.config.pad_id)

    def whole(self) -> dict[str, Tensor] | None:
        """Tokens without padding; None where a query sees no key all the same and the fill is not made for that."""
        tokens = {side: self.words(side, self.rows, length) for side, length in self.lengths.items()}
        return None if self.masks.fill != "exclude" and self.blind(tokens).any() else tokens

    def batch(self, rows: int | None = None) -> dict[str, Tensor] | None:
        """Tokens of each side: of three sentences one is whole, one padded on the right and one on the left.

        A query that sees no key has weights 0 with the fill ``exclude`` only. With another fill, sentences in which
        there is such a query stay without padding; None where that does not help.
        """
        rows = rows or self.rows
        whole = {side: self.words(side, rows, self.lengths[side]) for side in self.sides}
        padded = {side: ids.clone() for side, ids in whole.items()}
        for turn, (side, ids) in enumerate(padded.items()):
            for row in range(rows):
                count = min(1 + row % 3, self.lengths[side] - 1)
                place = (slice(0), slice(self.lengths[side] - count, None), slice(count))[(row + turn) % 3]
                ids[row, place] = self.config.pad_id
        if self.masks.fill == "exclude":
            return padded
        blind = self.blind(padded)
        mixed = {side: whole[side].where(blind[:, None], ids) for side, ids in padded.items()}
        return None if self.blind(mixed).any() else mixed

    def views(self, tokens: dict[str, Tensor]) -> dict[str, Tensor]:
        """What each attention may see of these tokens, by the rules."""
        return views(self.config, self.masks, tokens)

    def blind(self, tokens: dict[str, Tensor]) -> Tensor:
        """Which sentences have a query that sees no key."""
        blind = [~view.any(dim=-1) for view in self.views(tokens).values()]  # B H q
        return torch.stack([each.flatten(1).any(dim=-1) for each in blind]).any(dim=0)

    def same_view(self, side: str, tokens: dict[str, Tensor], longer: dict[str, Tensor], shown: slice) -> bool:
        """Whether by the rules the tokens see the same of each other in a longer batch, and nothing else there.

        ``shown`` is where the tokens of this side stand in the longer one.
        """
        try:
            short, long = self.views(tokens), self.views(longer)
        except ValueError:  # a custom matrix fits one size, a prefix needs its length
            return False
        if self.masks.fill != "exclude" and (self.blind(tokens) | self.blind(longer)).any():
            return False
        return all(unchanged(before, long[kind], *(shown if end == side else slice(None) for end in ENDS[kind]))
                   for kind, before in short.items())  # fmt: skip

    def output(self, tokens: dict[str, Tensor], model: Any = None) -> Tensor:
        """The logits at every place of the target; of an encoder alone, its memory."""
        model = model or self.model
        return model(tokens.get("src"), tokens["tgt"]) if "tgt" in tokens else model.encode(tokens["src"])

    def copy(self, dtype: torch.dtype) -> Any:
        """The copy once more, in another dtype."""
        return double(self.model).to(dtype)

    @contextmanager
    def training(self, dropout: float | None = None) -> Iterator[None]:
        """The copy as in training, with gradients, and with this much dropout everywhere; afterwards as it was."""
        modules: list[Any] = list(self.model.modules())
        drops = [(each, each.p) for each in modules if hasattr(each, "noise") and hasattr(each, "p")]
        bare = [each for each in modules if hasattr(each, "w_q") and each.dropout is None]
        if dropout is not None:
            for each, _ in drops:
                each.p = dropout
            for each in bare:
                each.dropout = self.model.dropout
        try:
            with untouched(self.model):
                self.model.train().requires_grad_(True)
                yield
        finally:
            self.model.eval().requires_grad_(False).zero_grad()
            for each, p in drops:
                each.p = p
            for each in bare:
                each.dropout = None

    def keys(self, *names: str, kind: str = "") -> tuple[str, ...]:
        """The ledger entries of these names; with ``kind`` those of encoder_self, decoder_self or cross only."""
        if kind:
            found = [key for each in self.attentions if each.kind == kind for key in each.keys(*names)]
        else:
            found = [key for key, entry in self.entries.items() if entry.name in names]
        return (*found, *self.output_keys)


def apart(got: Tensor, wanted: Tensor) -> float:
    """max |got - wanted| / max |wanted|; infinite where the shapes differ, NaN where a number is none."""
    return float(relative(got, wanted))


def finite(result: Tensor) -> Tensor:
    """The result itself.

    Raises:
        ArithmeticError: a number in it is none, so that nothing can be compared.
    """
    if not result.isfinite().all():
        raise ArithmeticError("the output holds NaN or infinity")
    return result


def worst(change: float) -> tuple[bool, float]:
    """An order of numbers in which NaN is the largest."""
    return math.isnan(change), change


# The copy.


def probe_of(subject: Subject) -> Probe | None:
    """The probe of a subject, made once; None where its masks fit no short sentence or its norm leaves no number."""
    if subject not in _made:
        _made[subject] = _prepare(subject)
    return _made[subject]


_made: WeakKeyDictionary[Subject, Probe | None] = WeakKeyDictionary()


def _prepare(subject: Subject) -> Probe | None:
    config, lengths = subject.config, _lengths(subject)
    one_feature = config.d_model == 1 and config.norm == "layer"  # less its mean, one number is 0 whatever it was
    if lengths is None or one_feature:
        return None
    probe = Probe(subject, double(subject.model), sizes(config)[0], lengths)
    tokens = probe.batch()
    if tokens is not None:
        calibrate(probe.model, config, lambda: probe.output(tokens))
    return probe


def sizes(config: Any) -> list[int]:
    """B, T and S of a probe, in rising order: cross-attention then has more keys than queries.

    >>> from transformer_core.config import ModelConfig
    >>> sizes(ModelConfig(d_model=15, n_heads=3))
    [4, 6, 7]
    """
    return sorted([n for n in SIZES if n not in (config.n_heads, config.d_head, config.d_model)][:3])


def _lengths(subject: Subject) -> dict[str, int] | None:
    """S and T: different, and what the masks need; a custom matrix fits its own size only."""
    config, masks = subject.config, subject.masks
    _, tgt, src = sizes(config)
    limit = config.max_seq_len
    src, tgt = min(src, limit), min(tgt, max(1, limit - 1))
    for rule in masks.encoder_self:
        src = max(src, int(rule.partition(":")[2])) if rule.startswith("prefix") else src
    for rule in masks.decoder_self:
        tgt = max(tgt, int(rule.partition(":")[2])) if rule.startswith("prefix") else tgt
    if masks.cross_custom and config.architecture == "encoder_decoder":
        tgt, src = len(masks.cross_custom), len(masks.cross_custom[0])
    src = len(masks.encoder_self_custom) if masks.encoder_self_custom and config.has_encoder else src
    tgt = len(masks.decoder_self_custom) if masks.decoder_self_custom and config.has_decoder else tgt
    if max(src, tgt) > min(MANY, limit):
        return None
    lengths = {"src": src} if config.has_encoder else {}
    lengths |= {"tgt": tgt} if config.has_decoder else {}
    try:
        views(config, masks, {side: torch.zeros(1, length, dtype=torch.int64) for side, length in lengths.items()})
    except ValueError:
        return None
    return lengths


# What a probe of a broken model may meet.


def probing(measure: Callable[[Probe], Finding | None]) -> Callable[[Subject], Finding | None]:
    """Hands the check its probe. A broken model may raise anything at all; that is a finding too, ``stops``."""

    @wraps(measure)
    def run(subject: Subject) -> Finding | None:
        try:
            probe = probe_of(subject)
            if probe is None:
                return None
            probe.random.manual_seed(subject.seed)  # each check the same numbers, whichever ran before it
            return measure(probe)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            return Finding(math.nan, subject.output_keys, sentence="stops", facts={"error": first_line(error)})

    return run


@contextmanager
def hooked(module: Any, hook: Callable[..., Tensor | None]) -> Iterator[None]:
    """Calls ``hook(module, inputs, output)`` after each call of the module; what it returns replaces the output."""
    handle = module.register_forward_hook(hook)
    try:
        yield
    finally:
        handle.remove()
