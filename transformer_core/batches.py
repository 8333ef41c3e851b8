"""One batch of tokens to look at: random ids, explicit ids or typed sentences."""

import dataclasses
from collections.abc import Sequence

import torch
from jaxtyping import Int
from torch import Tensor

from transformer_core.checked import check_whole
from transformer_core.config import BEGIN, END, FIRST_FREE, UNKNOWN, DataConfig, ModelConfig
from transformer_core.errors import ConfigError

MAX_TOKENS = 1 << 20
"""The most ids that one side of a batch may hold."""
PAD_SIGN = "∅"
SIGNS = {BEGIN: "⟨s⟩", END: "⟨/s⟩", UNKNOWN: "⟨?⟩"}
"""How the special ids print; every other id prints as its word, or as itself."""


@dataclasses.dataclass(frozen=True, eq=False)
class Batch:
    """Token ids (int64) of both sides, and how to print them. A side that the model lacks is None."""

    src: Int[Tensor, "B S"] | None
    tgt: Int[Tensor, "B T"] | None
    labels: Tensor | None = None
    src_tokens: list[list[str]] | None = None
    tgt_tokens: list[list[str]] | None = None


def make_batch(model: ModelConfig, data: DataConfig, seed: int = 0) -> Batch:
    """The batch that ``data`` describes. The same seed gives the same ids; torch's global generator does not move.

    Targets are decoder input: random and typed ones start with the begin id.

    >>> make_batch(ModelConfig(), DataConfig(src=[[5, 6, 0]], tgt_text=["good night"])).tgt_tokens
    [['⟨s⟩', 'good', 'night']]

    Raises:
        ConfigError: tokens that do not fit the model, see ``batch_sizes``, or a seed that is no whole number.
    """
    number = check_whole("seed", seed, 0, (1 << 31) - 1)
    rows, src_len, tgt_len = batch_sizes(model, data)
    src = _make_side("src", model, data, rows, src_len, 2 * number) if model.has_encoder else None
    tgt = _make_side("tgt", model, data, rows, tgt_len, 2 * number + 1) if model.has_decoder else None
    return Batch(src and src[0], tgt and tgt[0], None, src and src[1], tgt and tgt[1])


def batch_sizes(model: ModelConfig, data: DataConfig) -> tuple[int, int, int]:
    """B, S and T of ``make_batch``, without making it; a length is 0 on a side that the model lacks.

    Random ids of one side come in as many sentences as the other side gives.

    >>> batch_sizes(ModelConfig(architecture="encoder"), DataConfig(src=[[1, 2, 3], [4, 5, 0]]))
    (2, 3, 0)

    Raises:
        ConfigError: unequal numbers of sentences, an id outside the vocabulary, a sentence longer than max_seq_len,
            a vocabulary too small for the tokens, or too many tokens at once.
    """
    sides = [side for side, there in (("src", model.has_encoder), ("tgt", model.has_decoder)) if there]
    given = {side: len(rows) for side in sides if (rows := getattr(data, side) or getattr(data, f"{side}_text"))}
    if len(set(given.values())) > 1:
        raise ConfigError("rows_differ", field="tgt", given=given["tgt"], src=given["src"], tgt=given["tgt"])
    rows = next(iter(given.values()), data.batch_size)
    lengths = {side: _side_length(side, model, data, rows) for side in sides}
    return rows, lengths.get("src", 0), lengths.get("tgt", 0)


def _side_length(side: str, model: ModelConfig, data: DataConfig, rows: int) -> int:
    """The length of one side, after everything that can be wrong with it has been ruled out."""
    ids, sentences = getattr(data, side), getattr(data, f"{side}_text")
    begins = side == "tgt"
    if ids is not None:
        length, needed = len(ids[0]), 0
        _check_ids_known(side, model, ids)
    elif sentences is not None:
        pieces = _pieces(sentences, data.split)
        length, needed = max(map(len, pieces)) + begins, len({piece for line in pieces for piece in line})
    else:
        length, needed = getattr(data, f"{side}_len"), 1
    if length > model.max_seq_len:
        shorter = [] if ids or sentences else [{f"{side}_len": model.max_seq_len}]
        raise ConfigError("too_long", field=side, given=length, limit=model.max_seq_len,
                          choices=[*shorter, {"max_seq_len": length}])  # fmt: skip
    if rows * length > MAX_TOKENS:
        raise ConfigError("too_many_tokens", field=side, given=rows * length, rows=rows, length=length,
                          limit=MAX_TOKENS, choices=[{"batch_size": max(1, MAX_TOKENS // length)}])  # fmt: skip
    if needed:
        _check_vocabulary(side, model, needed)
    return length


def _check_ids_known(side: str, model: ModelConfig, rows: Sequence[Sequence[int]]) -> None:
    limit = f"{side}_vocab_size"
    size = getattr(model, limit)
    for i, row in enumerate(rows, start=1):
        for j, token in enumerate(row, start=1):
            if not 0 <= token < size:
                raise ConfigError("id_outside", field=side, given=token, row=i, column=j, limit=limit, size=size,
                                  high=size - 1, choices=[{limit: token + 1}] if token > 0 else [])  # fmt: skip


def _check_vocabulary(side: str, model: ModelConfig, distinct: int) -> None:
    """Random and typed tokens need the special ids as they are, and ``distinct`` others."""
    if model.pad_id in SIGNS:
        raise ConfigError("pad_reserved", field="pad_id", given=model.pad_id, nearest=0, choices=[{"pad_id": 0}])
    limit = f"{side}_vocab_size"
    size, needed = getattr(model, limit), FIRST_FREE + distinct + (model.pad_id >= FIRST_FREE)
    if size < needed:
        raise ConfigError("vocabulary_small", field=limit, given=size, needed=needed, choices=[{limit: needed}])


Side = tuple[Int[Tensor, "B n"], list[list[str]]]


def _make_side(side: str, model: ModelConfig, data: DataConfig, rows: int, length: int, seed: int) -> Side:
    """Ids and printed tokens of one side that has passed every check."""
    ids, sentences = getattr(data, side), getattr(data, f"{side}_text")
    begin, words = [BEGIN] if side == "tgt" else [], {}
    if sentences is not None:
        pieces = _pieces(sentences, data.split)
        in_order = dict.fromkeys(piece for line in pieces for piece in line)
        known = {piece: _free_id(n, model) for n, piece in enumerate(in_order)}
        words = {token: piece for piece, token in known.items()}
        tokens = [begin + [known[piece] for piece in line] for line in pieces]
        ids = [_padded(row, length, model.pad_id, data.pad_side) for row in tokens]
    elif ids is None:
        ids = _random(side, model, rows, length, seed)
        if data.padding == "last":
            ids[-1] = _padded(ids[-1][: length - _lost(side, length)], length, model.pad_id, data.pad_side)
    printed = {**SIGNS, **words, model.pad_id: PAD_SIGN}
    return torch.tensor(ids), [[printed.get(token, str(token)) for token in row] for row in ids]


def _pieces(sentences: Sequence[str], split: str) -> list[list[str]]:
    """Words between white space, or all characters except white space."""
    return [line.split() if split == "word" else list("".join(line.split())) for line in sentences]


def _free_id(n: int, model: ModelConfig) -> int:
    """The n-th id that is neither special nor padding, counted from 0."""
    return FIRST_FREE + n + (FIRST_FREE <= model.pad_id <= FIRST_FREE + n)


def _random(side: str, model: ModelConfig, rows: int, length: int, seed: int) -> list[list[int]]:
    size = getattr(model, f"{side}_vocab_size")
    free = size - FIRST_FREE - (FIRST_FREE <= model.pad_id < size)
    generator = torch.Generator().manual_seed(seed)
    draws: list[list[int]] = torch.randint(free, (rows, length), generator=generator).tolist()
    ids = [[_free_id(n, model) for n in row] for row in draws]
    return [[BEGIN, *row[1:]] for row in ids] if side == "tgt" else ids


def _lost(side: str, length: int) -> int:
    """How many tokens the last sentence lacks: a third, rounded up in src and down in tgt, if one token stays."""
    third = -(-length // 3) if side == "src" else length // 3
    return min(max(third, 1), length - 1)


def _padded(row: list[int], length: int, pad_id: int, pad_side: str) -> list[int]:
    pads = [pad_id] * (length - len(row))
    return pads + row if pad_side == "left" else row + pads
