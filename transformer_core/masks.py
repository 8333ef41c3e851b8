"""Masks as predicates. Everywhere in this library ``allowed`` is boolean, True = may attend, and broadcasts to B H q k.

Predicates are joined with ``&``. The other conventions (True = ignore, additive -inf) exist only at the border, in the
``to_...`` and ``from_...`` functions at the end, named after the argument that wants them.

When queries and keys differ in number, the last query stands at the last key (lower right alignment): two new queries
after three earlier positions see 4 and 5 keys.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from transformer_core.config import END, MaskConfig, parse_rule
from transformer_core.predicates import Predicate
from transformer_core.rules import condition


def padding(tokens: Int[Tensor, "B n"], pad_id: int) -> Bool[Tensor, "B 1 1 n"]:
    """allowed[b, 0, 0, j] = tokens[b, j] != pad_id: padding is hidden as a key, in every row and every head.

    >>> padding(torch.tensor([[5, 6, 0]]), pad_id=0).int().tolist()
    [[[[1, 1, 0]]]]
    """
    return (tokens != pad_id)[:, None, None, :]


def causal(q_len: int, k_len: int | None = None) -> Bool[Tensor, "q k"]:
    """allowed[i, j] = j <= i: no position sees a later one (section 3.2.3).

    >>> causal(2, 5).int().tolist()
    [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]

    Raises:
        ValueError: a length is below 1.
    """
    query, key = _places(q_len, k_len)
    return key <= query


def window(q_len: int, k_len: int, width: int, causal: bool = True) -> Bool[Tensor, "q k"]:
    """The last ``width`` keys up to and including the query itself; without ``causal``, those within ``width``.

    >>> window(4, 4, 2).int().tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    >>> window(3, 3, 1, causal=False).sum(dim=-1).tolist()
    [2, 3, 2]

    Raises:
        ValueError: ``width`` or a length is below 1.
    """
    _at_least_one("window", width)
    query, key = _places(q_len, k_len)
    distance = query - key
    return (distance >= 0) & (distance < width) if causal else distance.abs() <= width


def prefix(length: int, prefix: int) -> Bool[Tensor, "q k"]:
    """allowed[i, j] = j < prefix or j <= i: the prefix is seen whole, what follows is causal.

    >>> prefix(4, 2).int().tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 1]]

    Raises:
        ValueError: ``prefix`` is below 1 or beyond ``length``, or there is no token at all.
    """
    _at_least_one("prefix", prefix)
    if prefix > length:
        raise ValueError(f"prefix {prefix} is longer than the sequence of {length}; at most {length} fits")
    query, key = _places(length)
    return (key < prefix) | (key <= query)


def block(q_len: int, k_len: int, width: int) -> Bool[Tensor, "q k"]:
    """allowed[i, j] = i // width == j // width: each block of neighbours sees itself only.

    >>> block(3, 3, 2).int().tolist()
    [[1, 1, 0], [1, 1, 0], [0, 0, 1]]

    Raises:
        ValueError: ``width`` or a length is below 1.
    """
    _at_least_one("block", width)
    query, key = _places(q_len, k_len)
    return query.div(width, rounding_mode="floor") == key.div(width, rounding_mode="floor")


def strided(q_len: int, k_len: int, width: int) -> Bool[Tensor, "q k"]:
    """allowed[i, j] = (i - j) is a multiple of width: every ``width``-th key, counted from the query itself.

    >>> strided(4, 4, 2).int().tolist()
    [[1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 1, 0], [0, 1, 0, 1]]

    Raises:
        ValueError: ``width`` or a length is below 1.
    """
    _at_least_one("strided", width)
    query, key = _places(q_len, k_len)
    return (query - key).remainder(width) == 0


def random(q_len: int, k_len: int, percent: int, diagonal: bool = True) -> Bool[Tensor, "q k"]:
    """allowed[i, j] = number(i, j) < percent, with a number from 0 to 99 that looks drawn and is the same every time.

    It depends on i and j only, mixed as hash functions do it: a longer sequence keeps the pairs of a shorter one, and
    every device has the same. With ``diagonal`` each query sees at least itself.

    >>> random(4, 4, 30).int().tolist()
    [[1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 1]]

    Raises:
        ValueError: ``percent`` is not from 1 to 99, or a length is below 1.
    """
    if not 1 <= percent <= 99:
        raise ValueError(f"random must be from 1 to 99 per cent, got {percent}")
    query, key = _places(q_len, k_len)
    number = (query * 0x9E3779B1 + key * 0x85EBCA77) & 0xFFFFFFFF
    for _ in range(2):
        number = ((number ^ (number >> 16)) * 0x45D9F3B) & 0xFFFFFFFF
    drawn = (number ^ (number >> 16)).remainder(100) < percent
    return drawn | (query == key) if diagonal else drawn


def documents(tokens: Int[Tensor, "B n"], end_id: int) -> Bool[Tensor, "B 1 n n"]:
    """allowed[b, 0, i, j] = i and j are of one document; each ``end_id`` is the last token of its own.

    >>> documents(torch.tensor([[5, 2, 6, 7]]), end_id=2)[0, 0].int().tolist()
    [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]]
    """
    ends = (tokens == end_id).long()
    document = ends.cumsum(dim=-1) - ends
    return document[:, None, :, None] == document[:, None, None, :]


def where(predicate: Predicate, q_len: int, k_len: int, batch: int = 1, n_heads: int | None = None) -> Tensor:
    """allowed[b, h, i, j] = the predicate of q = i and k = j, both counted from 0; as few axes as it needs.

    When queries and keys differ in number, q + n_k - n_q is the place at which the other rules see a query.

    >>> from transformer_core.predicates import parse
    >>> where(parse("k <= q + n_k - n_q"), 2, 5).int().tolist()
    [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]

    Raises:
        ConfigError: it divides by 0.
        ValueError: it names h, and nobody says how many heads there are; or a length is below 1.
    """
    _places(q_len, k_len)
    if "h" in predicate.needs and n_heads is None:
        raise ValueError(f"where:{predicate.text} needs the number of heads")
    q, k = torch.arange(q_len)[:, None], torch.arange(k_len)[None, :]
    b = torch.arange(batch)[:, None, None, None] if "b" in predicate.needs else None
    h = torch.arange(n_heads or 1)[None, :, None, None] if "h" in predicate.needs else None
    return predicate(q, k, b=b, h=h, n_q=q_len, n_k=k_len)


def compose(
    rules: Sequence[str],
    q_len: int,
    keys: Int[Tensor, "B k"],
    *,
    pad_id: int = 0,
    two_sided: bool = False,
    custom: Sequence[Sequence[bool]] | None = None,
    cross: bool = False,
    n_heads: int | None = None,
) -> Bool[Tensor, "..."] | None:
    """All rules of one attention joined with ``&``; None when there is no rule, so that every key is seen.

    ``keys`` are the tokens that are attended to. A prefix and causal are one rule, "causal behind the prefix", and
    are joined before anything else: as two rules, causal would hide the prefix again. ``two_sided`` reads a window
    as a distance in both directions, for attention that is not causal. In ``cross`` attention, query i and key i are
    two tokens, and no diagonal stays open. ``n_heads`` is needed by conditions that differ between heads.

    >>> compose(["padding", "causal"], 3, torch.tensor([[7, 8, 0]])).int().tolist()
    [[[[1, 0, 0], [1, 1, 0], [1, 1, 0]]]]

    Raises:
        ValueError: a rule does not fit the lengths, ``custom`` is not a matrix of queries by keys, or a condition
            cannot be computed.
    """
    k_len = keys.shape[1]
    parsed = [(name, size or 0) for name, size in map(parse_rule, rules)]
    has_prefix = any(name == "prefix" for name, _ in parsed)
    allowed: Tensor | None = None
    with keys.device:  # where the masks are made; on "meta" they are shapes that take no memory
        for rule, (name, size) in zip(rules, parsed, strict=True):
            if name == "padding":
                mask = padding(keys, pad_id)
            elif name == "causal":
                if has_prefix:
                    continue
                mask = causal(q_len, k_len)
            elif name == "prefix":
                if q_len != k_len:
                    raise ValueError(f"prefix:{size} is for self-attention; here are {q_len} queries and {k_len} keys")
                mask = prefix(q_len, size)
            elif name == "window":
                mask = window(q_len, k_len, size, causal=not two_sided)
            elif name == "block":
                mask = block(q_len, k_len, size)
            elif name == "strided":
                mask = strided(q_len, k_len, size)
            elif name == "random":
                mask = random(q_len, k_len, size, diagonal=not cross)
            elif name == "documents":
                if q_len != k_len:
                    raise ValueError(f"documents is for self-attention; here are {q_len} queries and {k_len} keys")
                mask = documents(keys, END)
            elif name == "where":
                mask = where(condition(rule), q_len, k_len, keys.shape[0], n_heads)
            else:
                mask = _custom(custom, q_len, k_len)
            allowed = mask if allowed is None else allowed & mask
    return allowed


def for_attention(
    masks: MaskConfig, attention: str, q_len: int, keys: Int[Tensor, "B k"], *, pad_id: int = 0, n_heads: int = 1
) -> Bool[Tensor, "..."] | None:
    """The mask of ``attention`` (encoder_self, decoder_self or cross) as the settings have it; None: all is seen.

    >>> for_attention(MaskConfig(cross=["where:h == k"]), "cross", 1, torch.tensor([[5, 6]]), n_heads=2).int().tolist()
    [[[[1, 0]], [[0, 1]]]]

    Raises:
        ValueError: as ``compose``.
    """
    return compose(
        getattr(masks, attention), q_len, keys, pad_id=pad_id, two_sided=attention != "decoder_self",
        custom=getattr(masks, f"{attention}_custom"), cross=attention == "cross", n_heads=n_heads,
    )  # fmt: skip


def by_rule(
    masks: MaskConfig, attention: str, q_len: int, keys: Int[Tensor, "B k"], *, pad_id: int = 0, n_heads: int = 1
) -> dict[str, Bool[Tensor, "B H q k"]]:
    """What each rule of ``attention`` allows by itself; all of them joined with ``&`` are ``for_attention``.

    Causal behind a prefix is the prefix's, and is left out.

    >>> alone = by_rule(MaskConfig(), "decoder_self", 2, torch.tensor([[5, 0]]))
    >>> {rule: allowed[0, 0].int().tolist() for rule, allowed in alone.items()}
    {'padding': [[1, 0], [1, 0]], 'causal': [[1, 0], [1, 1]]}

    Raises:
        ValueError: as ``compose``.
    """
    rules = getattr(masks, attention)
    prefixed = any(rule.startswith("prefix:") for rule in rules)
    found = {}
    for rule in rules:
        if rule == "causal" and prefixed:
            continue
        matrix = {} if rule == "custom" else {f"{attention}_custom": None}
        allowed = for_attention(
            masks.replace(**{attention: (rule,), **matrix}), attention, q_len, keys, pad_id=pad_id, n_heads=n_heads
        )
        assert allowed is not None
        found[rule] = allowed.expand(len(keys), n_heads, q_len, keys.shape[1])
    return found


def empty_rows(allowed: Bool[Tensor, "*b q k"]) -> list[tuple[int, ...]]:
    """The indices of the queries that see no key at all.

    >>> empty_rows(torch.tensor([[[True, False], [False, False]]]))
    [(0, 1)]
    """
    return [tuple(index) for index in (~allowed.any(dim=-1)).nonzero().tolist()]


# The border: the conventions of other libraries.


def to_key_padding_mask(allowed: Bool[Tensor, "..."]) -> Bool[Tensor, "B k"]:
    """For nn.MultiheadAttention(key_padding_mask=...) and nn.Transformer's ..._key_padding_mask: True = ignore.

    >>> to_key_padding_mask(padding(torch.tensor([[5, 6, 0]]), 0)).tolist()
    [[False, False, True]]

    Raises:
        ValueError: the mask differs between heads or queries; such a mask is an ``attn_mask``.
    """
    if allowed.dim() != 4 or allowed.shape[1:3] != (1, 1):
        raise ValueError(
            f"a key_padding_mask is the same for all heads and queries (B 1 1 k), got shape {tuple(allowed.shape)}; "
            "use to_attn_mask"
        )
    return ~allowed[:, 0, 0]


def from_key_padding_mask(ignore: Bool[Tensor, "B k"]) -> Bool[Tensor, "B 1 1 k"]:
    """Undoes ``to_key_padding_mask``."""
    return ~ignore[:, None, None, :]


def to_attn_mask(allowed: Bool[Tensor, "..."], n_heads: int | None = None) -> Bool[Tensor, "..."]:
    """For nn.MultiheadAttention(attn_mask=...): True = ignore; q k, or B*H q k when samples or heads differ.

    A mask that is the same for all heads (B 1 q k) needs ``n_heads`` to be written out for each.
    F.scaled_dot_product_attention also calls its argument attn_mask, but there True = may attend: hand it ``allowed``.

    >>> to_attn_mask(causal(2)).tolist()
    [[False, True], [False, False]]

    Raises:
        ValueError: the mask has neither two nor four axes, has another number of heads, or is the same for all queries;
            such a mask is a key_padding_mask.
    """
    if allowed.dim() == 2:
        return ~allowed
    if allowed.dim() != 4:
        raise ValueError(f"allowed has shape {tuple(allowed.shape)}; q k or B H q k is wanted")
    batch, heads, q_len, k_len = allowed.shape
    if heads == q_len == 1 < k_len:
        raise ValueError(f"allowed has shape {tuple(allowed.shape)}, one row for all queries; use to_key_padding_mask")
    if batch == heads == 1:
        return ~allowed[0, 0]
    n_heads = n_heads or heads
    if heads not in (1, n_heads):
        raise ValueError(f"allowed has {heads} heads, n_heads is {n_heads}; they must be equal")
    return ~allowed.expand(batch, n_heads, q_len, k_len).reshape(batch * n_heads, q_len, k_len)


def from_attn_mask(ignore: Bool[Tensor, "..."], n_heads: int = 1) -> Bool[Tensor, "..."]:
    """Undoes ``to_attn_mask``: q k stays q k, B*H q k becomes B H q k."""
    return ~ignore if ignore.dim() == 2 else ~ignore.unflatten(0, (-1, n_heads))


def to_additive(allowed: Bool[Tensor, "*b"], dtype: torch.dtype = torch.float32) -> Float[Tensor, "*b"]:
    """What is added to the scores: 0 where a query may attend, -inf where not.

    >>> to_additive(causal(2)).tolist()
    [[0.0, -inf], [0.0, 0.0]]
    """
    return torch.zeros(allowed.shape, dtype=dtype, device=allowed.device).masked_fill(~allowed, float("-inf"))


def from_additive(bias: Float[Tensor, "*b"]) -> Bool[Tensor, "*b"]:
    """Undoes ``to_additive``.

    Raises:
        ValueError: an entry is neither 0 nor -inf; a finite bias shifts scores and is no mask.
    """
    allowed = bias == 0
    strays = bias[~allowed & (bias != float("-inf"))]
    if strays.numel():
        raise ValueError(f"an additive mask holds 0 and -inf only, got {strays[0].item():g}")
    return allowed


def _places(q_len: int, k_len: int | None = None) -> tuple[Tensor, Tensor]:
    """The places of queries (as a column) and keys (as a row), counted so that the last ones coincide."""
    k_len = q_len if k_len is None else k_len
    for what, length in (("queries", q_len), ("keys", k_len)):
        if length < 1:
            raise ValueError(f"a mask needs at least one query and one key, got {length} {what}")
    return torch.arange(k_len - q_len, k_len)[:, None], torch.arange(k_len)[None, :]


def _at_least_one(rule: str, number: int) -> None:
    if number < 1:
        raise ValueError(f"{rule} must be at least 1, got {number}")


def _custom(matrix: Sequence[Sequence[bool]] | None, q_len: int, k_len: int) -> Tensor:
    if matrix is None:
        raise ValueError("the rule custom needs its matrix beside it (queries by keys, True = may attend)")
    widths = {len(row) for row in matrix}
    if len(matrix) != q_len or widths != {k_len}:
        shape = f"{len(matrix)} x {'/'.join(str(width) for width in sorted(widths)) or 0}"
        raise ValueError(f"the custom mask is {shape}, this attention has {q_len} queries x {k_len} keys")
    return torch.tensor(matrix, dtype=torch.bool)
