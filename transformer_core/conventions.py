"""One mask in the words of others: what True means elsewhere, and code to copy for each function that takes a mask.

Inside this library ``allowed`` is True where a query may attend. Four ways to say the same are in use, and no shape and
no dtype tells them apart; ``CONVENTIONS`` has them with the way there and back. ``snippets`` writes the masks of one
attention as plain torch code, without this library, for each of torch's functions that take one.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from transformer_core import masks as library
from transformer_core.config import END, MaskConfig, parse_rule
from transformer_core.rules import condition


def to_keep(allowed: Bool[Tensor, "*b"]) -> Int[Tensor, "*b"]:
    """1 where a query may attend, 0 where not: the ``attention_mask`` of many tokenizers.

    >>> to_keep(torch.tensor([True, False])).tolist()
    [1, 0]
    """
    return allowed.long()


def from_keep(keep: Int[Tensor, "*b"]) -> Bool[Tensor, "*b"]:
    """Undoes ``to_keep``.

    Raises:
        ValueError: an entry is neither 0 nor 1.
    """
    strays = keep[(keep != 0) & (keep != 1)]
    if strays.numel():
        raise ValueError(f"a mask of keep holds 1 and 0 only, got {strays[0].item():g}")
    return keep == 1


@dataclass(frozen=True)
class Convention:
    """One way to write a mask: what stands for "may attend" and "hidden", who reads it so, there and back."""

    name: str
    visible: str
    hidden: str
    used_by: tuple[str, ...]
    to: Callable[[Tensor], Tensor]
    back: Callable[[Tensor], Tensor]


CONVENTIONS = (
    Convention(
        "allowed", "True", "False",
        ("this library", "scaled_dot_product_attention attn_mask", "FlexAttention mask_mod"),
        lambda allowed: allowed, lambda allowed: allowed,
    ),
    Convention(
        "ignore", "False", "True", ("nn.MultiheadAttention attn_mask", "nn.MultiheadAttention key_padding_mask",
                                    "nn.Transformer ..._mask", "nn.Transformer ..._key_padding_mask"),
        lambda allowed: ~allowed, lambda ignore: ~ignore,
    ),
    Convention("keep", "1", "0", ("attention_mask of tokenizers",), to_keep, from_keep),
    Convention(
        "additive", "0.0", "-inf", ("added to the scores", "scaled_dot_product_attention attn_mask of floats",
                                    "nn.MultiheadAttention attn_mask of floats"),
        library.to_additive, library.from_additive,
    ),
)  # fmt: skip
"""The four ways to say "may attend"."""


@dataclass(frozen=True)
class Snippet:
    """Code to copy for one function of torch. It needs nothing but torch and makes its own inputs.

    ``note`` says what to mind there; ``runs`` whether the torch that is installed has the function.
    """

    api: str
    note: str
    code: str
    runs: bool


def snippets(
    masks: MaskConfig, attention: str, src: Tensor | None, tgt: Tensor | None, *,
    pad_id: int = 0, d_model: int = 64, n_heads: int = 4,
) -> list[Snippet]:  # fmt: skip
    """The masks of ``attention`` (encoder_self, decoder_self or cross) for these tokens, as code for five functions.

    Each snippet ends with ``output`` or ``weights``; those of nn.Transformer and nn.MultiheadAttention are modules with
    weights of their own. Without both sides there is nothing to say for nn.Transformer.

    Raises:
        ValueError: the attention needs tokens that are not there, or its rules do not fit them.
    """
    queries, keys = (src if attention == "encoder_self" else tgt), (tgt if attention == "decoder_self" else src)
    if queries is None or keys is None:
        raise ValueError(f"{attention} needs the tokens of its queries and of its keys")
    one = _Mask(masks, attention, queries.shape[1], keys, pad_id, n_heads)
    found = [_sdpa(one, d_model), _multi_head(one, d_model), _additive(one, d_model), _flex(one, d_model)]
    if src is not None and tgt is not None:
        ends = {"encoder_self": ("src", src, src), "decoder_self": ("tgt", tgt, tgt), "cross": ("memory", tgt, src)}
        parts = {name: _Mask(masks, kind, of.shape[1], to, pad_id, n_heads) for kind, (name, of, to) in ends.items()}
        found.insert(2, _transformer(parts, d_model))
    return found


class _Mask:
    """The rules of one attention, as torch code. Padding is kept apart: some functions take it as an argument."""

    def __init__(self, masks: MaskConfig, attention: str, q_len: int, keys: Tensor, pad_id: int, n_heads: int) -> None:
        self.attention, self.keys, self.pad_id, self.n_heads = attention, keys, pad_id, n_heads
        self.batch, self.q_len, self.k_len = len(keys), q_len, keys.shape[1]
        rules = getattr(masks, attention)
        self.names = dict(parse_rule(rule) for rule in rules)
        self.padding = "padding" in self.names
        self.condition = next((condition(rule) for rule in rules if rule.startswith("where:")), None)
        self.all = self._grid(masks, rules)
        self.grids = {name: self._grid(masks, [rule for rule in rules if parse_rule(rule)[0] == name])
                      for name in ("random", "custom") if name in self.names}  # fmt: skip
        self.empty = not bool(self.all.any(dim=-1).all())

    def _grid(self, masks: MaskConfig, rules: Sequence[str]) -> Tensor:
        changes = {} if "custom" in rules else {f"{self.attention}_custom": None}
        chosen = masks.replace(**{self.attention: tuple(rules)}, **changes)
        allowed = library.for_attention(
            chosen, self.attention, self.q_len, self.keys, pad_id=self.pad_id, n_heads=self.n_heads
        )
        full = torch.ones(self.batch, self.n_heads, self.q_len, self.k_len, dtype=torch.bool)
        return full if allowed is None else full & allowed.cpu()

    @property
    def per_head(self) -> bool:
        return self.condition is not None and "h" in self.condition.needs

    @property
    def per_sample(self) -> bool:
        """Whether the rules other than padding differ between sentences."""
        return "documents" in self.names or (self.condition is not None and "b" in self.condition.needs)

    @property
    def rest(self) -> bool:
        """Whether there is any rule other than padding."""
        return bool(set(self.names) - {"padding"})

    def tokens(self, name: str = "keys") -> Iterator[str]:
        rows = ", ".join(str(row) for row in self.keys.tolist())
        yield f"{name} = torch.tensor([{rows}])  # {self.pad_id} is padding"

    def places(self) -> Iterator[str]:
        """Everything that the terms of ``terms`` name."""
        yield f"q = torch.arange({self.q_len})[:, None]"
        yield f"k = torch.arange({self.k_len})[None, :]"
        needs = self.condition.needs if self.condition else ()
        if "b" in needs:
            yield f"b = torch.arange({self.batch})[:, None, None, None]"
        if "h" in needs:
            yield f"h = torch.arange({self.n_heads})[:, None, None]"
        yield from self.tables()

    def tables(self, keys: str = "keys") -> Iterator[str]:
        """What is looked up: the number of the document, and masks without a formula as rows of 1 and 0."""
        if self.condition and {"n_q", "n_k"} & self.condition.needs:
            yield f"n_q, n_k = {self.q_len}, {self.k_len}"
        if "documents" in self.names:
            yield f"ends = ({keys} == {END}).long()"
            yield "document = ends.cumsum(-1) - ends"
        for name, grid in self.grids.items():
            rows = " ".join("".join(str(int(cell)) for cell in row) for row in grid[0, 0].tolist())
            yield f'{name}_rows = "{rows}".split()'
            yield f"{name}_mask = torch.tensor([[int(sign) for sign in row] for row in {name}_rows]).bool()"

    def terms(self, q: str = "q", k: str = "k") -> Iterator[str]:
        """Each rule but padding as an expression that is True where a query may attend."""
        flex = q != "q"
        ahead = self.k_len - self.q_len
        at = q if not ahead else f"({q} {'+' if ahead > 0 else '-'} {abs(ahead)})"  # the last query at the last key
        for name, size in self.names.items():
            if name == "causal" and "prefix" not in self.names:
                yield f"({k} <= {at})"
            elif name == "prefix":
                yield f"(({k} < {size}) | ({k} <= {at}))"
            elif name == "window" and self.attention == "decoder_self":
                yield f"({k} <= {at}) & ({at} - {k} < {size})"
            elif name == "window":
                yield f"(({at} - {k}).abs() <= {size})"
            elif name == "block":
                yield f"({at} // {size} == {k} // {size})"
            elif name == "strided":
                yield f"(({at} - {k}) % {size} == 0)"
            elif name == "documents" and flex:
                yield f"(document[b, {q}] == document[b, {k}])"
            elif name == "documents":
                yield "(document[:, None, :, None] == document[:, None, None, :])"
            elif name in self.grids:
                yield f"{name}_mask[{q}, {k}]" if flex else f"{name}_mask"
            elif name == "where" and self.condition is not None:
                yield f"({self.condition.to_torch({'q': q, 'k': k})})"

    def allowed(self) -> Iterator[str]:
        """All rules joined, B H q k."""
        real = [f"(keys != {self.pad_id})[:, None, None, :]"] if self.padding else []
        yield from _joined_terms("allowed = ", [*real, *self.terms()], f".expand({self.sizes})")

    def allowed_without_padding(self) -> Iterator[str]:
        """The others joined, as attn_mask wants them: q k, or B·H q k where sentences or heads differ."""
        if self.per_head or self.per_sample:
            yield from _joined_terms("allowed = ", [*self.terms()], f".expand({self.sizes}).flatten(0, 1)")
        else:
            yield from _joined_terms("allowed = ", [*self.terms()], f".expand({self.q_len}, {self.k_len})")

    @property
    def sizes(self) -> str:
        return f"{self.batch}, {self.n_heads}, {self.q_len}, {self.k_len}"

    def inputs(self, d_model: int) -> Iterator[str]:
        """Random vectors in place of those of a model."""
        d_head = d_model // self.n_heads
        yield f"query = torch.randn({self.batch}, {self.n_heads}, {self.q_len}, {d_head})"
        yield f"key, value = torch.randn(2, {self.batch}, {self.n_heads}, {self.k_len}, {d_head})"


def _joined_terms(start: str, terms: list[str], end: str = "") -> Iterator[str]:
    """One line a term, unless there is one only."""
    if len(terms) <= 1:
        yield f"{start}{terms[0] if terms else 'torch.tensor(True)'}{end}"
        return
    yield f"{start}("
    yield f"    {terms[0]}"
    yield from (f"    & {term}" for term in terms[1:])
    yield f"){end}"


_EMPTY = " Here some query sees no key: {what}."


def _sdpa(mask: _Mask, d_model: int) -> Snippet:
    note = "attn_mask is True where a query may attend: the meaning of this library, and the opposite of "
    note += "nn.MultiheadAttention. It must broadcast to B H q k."
    note += _EMPTY.format(what="its context is 0 from torch 2.5 on, before that NaN") if mask.empty else ""
    lines = ["import torch", "from torch.nn import functional as F", "", *mask.tokens(), *mask.places()]
    lines += [*mask.allowed(), "", *mask.inputs(d_model)]
    lines += ["output = F.scaled_dot_product_attention(query, key, value, attn_mask=allowed)"]
    return Snippet("scaled_dot_product_attention", note, _joined(lines), True)


def _additive(mask: _Mask, d_model: int) -> Snippet:
    note = "What is added to the scores: 0 where a query may attend, -inf where not. Adding comes before the softmax; "
    note += "multiplying with -inf instead gives NaN, since 0 · ∞ is no number."
    note += _EMPTY.format(what="all its scores are -inf and its weights NaN") if mask.empty else ""
    lines = ["import torch", "", *mask.tokens(), *mask.places()]
    lines += [*mask.allowed()]
    lines += ['bias = torch.zeros(allowed.shape).masked_fill(~allowed, float("-inf"))', "", *mask.inputs(d_model)]
    lines += ["scores = query @ key.mT / query.shape[-1] ** 0.5", "weights = (scores + bias).softmax(dim=-1)"]
    return Snippet("additive", note, _joined([*lines, "output = weights @ value"]), True)


def _flex(mask: _Mask, d_model: int) -> Snippet:
    note = "mask_mod answers for one pair: sentence b, head h, query q_idx, key kv_idx; True means may attend. It is "
    note += "meant to be compiled for a GPU; uncompiled it computes the same, slowly, and warns of it."
    note += _EMPTY.format(what="its context is 0") if mask.empty else ""
    terms = list(mask.terms("q_idx", "kv_idx"))
    if mask.padding:
        terms.insert(0, f"(keys[b, kv_idx] != {mask.pad_id})")
    lines = ["import torch", "from torch.nn.attention.flex_attention import create_block_mask, flex_attention", ""]
    lines += [*mask.tokens(), *mask.tables(), "", "def mask_mod(b, h, q_idx, kv_idx):"]
    lines += [f"    {line}" for line in _joined_terms("return ", terms or ["q_idx >= 0"])]
    lines += ["", f'block_mask = create_block_mask(mask_mod, {mask.sizes}, device="cpu")', *mask.inputs(d_model)]
    lines += ["output = flex_attention(query, key, value, block_mask=block_mask)"]
    return Snippet("flex_attention", note, _joined(lines), _has_flex())


def _has_flex() -> bool:
    try:
        import torch.nn.attention.flex_attention  # noqa: F401
    except ImportError:  # torch before 2.5
        return False
    return True


def _multi_head(mask: _Mask, d_model: int) -> Snippet:
    note = "attn_mask and key_padding_mask are True where a key is ignored: the opposite of this library, hence the ~. "
    note += _shape_note(mask)
    note += _EMPTY.format(what="its weights are NaN, and NaN spreads from there") if mask.empty else ""
    lines = ["import torch", "from torch import nn", "", *mask.tokens()]
    lines += [*mask.places(), *mask.allowed_without_padding()] if mask.rest else []
    lines += ["", f"x = torch.randn({mask.batch}, {mask.q_len}, {d_model})"]
    own = mask.attention != "cross"
    lines += ["memory = x"] if own else [f"memory = torch.randn({mask.batch}, {mask.k_len}, {d_model})"]
    lines += [f"attention = nn.MultiheadAttention({d_model}, {mask.n_heads}, batch_first=True)"]
    given = _ignored(mask, "attn_mask", "key_padding_mask")
    lines += ["output, weights = attention(", "    x, memory, memory,", *(f"    {each}," for each in given)]
    lines += ["    average_attn_weights=False,  # else only the mean over heads comes back", ")"]
    return Snippet("MultiheadAttention", note, _joined(lines), True)


def _shape_note(mask: _Mask) -> str:
    if not mask.rest:
        return "Padding alone is the key_padding_mask, B k."
    if mask.per_head or mask.per_sample:
        return "Since sentences or heads differ, attn_mask is B·H q k, sentence by sentence."
    return "attn_mask is q k, for all sentences and heads; padding is the key_padding_mask, B k."


def _ignored(mask: _Mask, attn_mask: str, key_padding_mask: str) -> Iterator[str]:
    """The arguments of a module of torch, True = ignore."""
    if mask.rest:
        yield f"{attn_mask}=~allowed"
    if mask.padding:
        yield f"{key_padding_mask}=keys == {mask.pad_id}"


def _transformer(parts: dict[str, _Mask], d_model: int) -> Snippet:
    """Three attentions, six arguments."""
    note = "Six arguments, all True where a key is ignored. memory_key_padding_mask is the padding of the source once "
    note += "more: whoever leaves it out lets the target attend to padding, and no error tells."
    empty = any(mask.empty for mask in parts.values())
    note += _EMPTY.format(what="its context is 0 from torch 2.5 on, before that NaN") if empty else ""
    src, tgt = parts["src"], parts["tgt"]
    lines = ["import torch", "from torch import nn", "", *src.tokens("src"), *tgt.tokens("tgt"), "arguments = {}"]
    for name, mask in parts.items():
        given = [each.partition("=") for each in _ignored(mask, f"{name}_mask", f"{name}_key_padding_mask")]
        if given:
            keys = "tgt" if name == "tgt" else "src"
            lines += ["", f"keys = {keys}"]
            lines += [*mask.places(), *mask.allowed_without_padding()] if mask.rest else []
            lines += [f'arguments["{argument}"] = {value}' for argument, _, value in given]
    lines += ["", f"x = torch.randn({src.batch}, {src.k_len}, {d_model})  # embedded src"]
    lines += [f"y = torch.randn({tgt.batch}, {tgt.k_len}, {d_model})  # embedded tgt"]
    lines += [f"transformer = nn.Transformer({d_model}, {src.n_heads}, batch_first=True)"]
    return Snippet("Transformer", note, _joined([*lines, "output = transformer(x, y, **arguments)"]), True)


def _joined(lines: list[str]) -> str:
    return "\n".join(lines) + "\n"
