"""Level 1: shapes, heads, layers and parameters. No computed number is read, so it works on the meta device too."""

from collections import Counter
from collections.abc import Collection, Iterator
from itertools import combinations

import torch
from torch import Tensor, nn

from transformer_core.checks.subject import Subject
from transformer_core.checks.table import STRUCTURE, Finding, check
from transformer_core.cost import estimate
from transformer_core.ledger import Entry

_PARAMETRIC = ("q", "k", "v", "hidden", "output", "logits", "src_embeddings", "tgt_embeddings")
"""The names of the ledger entries that are computed with parameters of their own."""


@check(
    STRUCTURE,
    claim="Every recorded tensor has the axes it was noted with, in the sizes of the configuration and the batch.",
    cannot_see="Numbers in the wrong place of a tensor of the right shape, above all where two sizes are equal.",
    claims=("shapes", "heads", "masks", "positions"),
    holds="{tensors} tensors, {axes} axes, all in the sizes that the configuration and the batch give them",
    fails="{measured:.0f} of {tensors} tensors disagree; in {first} the axis {axis} is {got} and should be {wanted}",
    stops="the forward stops after {tensors} tensors: {error}",
)
def shapes(subject: Subject) -> Finding:
    wrong = []
    axes = 0
    for entry in subject.entries.values():
        wanted = expected_sizes(subject, entry)
        axes += len(entry.axes)
        strays = [(entry.key, axis, size, wanted[axis]) for axis, size in zip(entry.axes, entry.shape, strict=False)
                  if size != wanted[axis]]  # fmt: skip
        if len(entry.axes) != len(entry.shape):
            strays = [(entry.key, " ".join(entry.axes), len(entry.shape), len(entry.axes))]
        wrong += strays[:1]
    keys = tuple(subject.entries)
    facts = {"tensors": len(keys), "axes": axes, "wrong": [key for key, *_ in wrong]}
    if subject.failure is not None:
        return Finding(len(wrong) + 1, keys, facts=facts | {"error": subject.failure}, sentence="stops")
    if wrong:
        facts |= dict(zip(("first", "axis", "got", "wanted"), wrong[0], strict=True))
    return Finding(len(wrong), keys, facts=facts)


def expected_sizes(subject: Subject, entry: Entry) -> dict[str, int]:
    """The size of every axis letter at this place of the model; q, k and n are lengths of the side they stand on."""
    config, batch = subject.config, subject.batch
    src_len = 0 if batch.src is None else batch.src.shape[1]
    tgt_len = 0 if batch.tgt is None else batch.tgt.shape[1]
    rows = next(len(tokens) for tokens in (batch.src, batch.tgt) if tokens is not None)
    on_source = entry.path.startswith(("encoder", "src"))
    own, keys = (src_len, src_len) if on_source else (tgt_len, tgt_len)
    if entry.path.endswith("cross_attention"):
        keys = src_len
    return {
        "B": rows, "S": src_len, "T": tgt_len, "D": config.d_model, "H": config.n_heads, "Dh": config.d_head,
        "F": config.d_ff, "V": config.tgt_vocab_size, "C": config.n_classes, "q": own, "k": keys, "n": own,
    }  # fmt: skip


@check(
    STRUCTURE,
    claim="q, k and v of every attention have n_heads heads of d_head features, and n_heads × d_head = d_model.",
    cannot_see="Which numbers a head received; slices cut in the wrong order have the same sizes.",
    claims=("shapes", "heads"),
    holds="{n_heads} heads × {d_head} = {measured:.0f} in {tensors} tensors",
    fails="{n_heads} heads × {d_head} = {measured:.0f} in {first}, but d_model is {expected:.0f}",
    swapped="{n_heads} heads × {d_head} in {first}; the product is right, but {wanted_heads} × {wanted_width} was "
    "configured",
)
def head_width(subject: Subject) -> Finding | None:
    entries = [entry for entry in subject.entries.values() if entry.name in ("q", "k", "v")]
    if not entries:
        return None
    config = subject.config
    wanted = (config.n_heads, config.d_head)
    first = next((each for each in entries if (each.shape[1], each.shape[-1]) != wanted), entries[0])
    n_heads, d_head = first.shape[1], first.shape[-1]
    facts = {"n_heads": n_heads, "d_head": d_head, "wanted_heads": wanted[0], "wanted_width": wanted[1],
             "tensors": len(entries), "first": first.key}  # fmt: skip
    keys = tuple(each.key for each in entries)
    if (n_heads, d_head) != wanted and n_heads * d_head == config.d_model:
        return Finding(n_heads, keys, expected=config.n_heads, facts=facts, sentence="swapped")
    return Finding(n_heads * d_head, keys, expected=config.d_model, facts=facts)


@check(
    STRUCTURE,
    claim="Head i is the i-th slice of the features of each token, and merging the heads undoes the split.",
    cannot_see="A forward that does not use split and merge; the check on equation 1 recomputes what it did.",
    claims=("heads",),
    holds="{numbers:,} numbered cells through split and merge of {attentions} attentions, all in their place",
    fails="{measured:,.0f} of {numbers:,} numbered cells end in the wrong place; the first in {first}",
)
def head_order(subject: Subject) -> Finding | None:
    if not subject.attentions:
        return None
    rows, length, d_model, d_head = 2, 3, subject.config.d_model, subject.config.d_head
    cells = torch.arange(rows * length * d_model, dtype=torch.float32, device="cpu").view(rows, length, d_model)
    slices = [cells[..., start : start + d_head] for start in range(0, d_model, d_head)]
    wanted = torch.stack(slices, dim=1)
    misplaced, first = 0, ""
    for attention in subject.attentions:
        module = subject.module(attention)
        stray = _strays(module.split(cells), wanted) + _strays(module.merge(wanted), cells)
        misplaced += stray
        first = first or (attention.path if stray else "")
    count = len(subject.attentions)
    facts = {"numbers": 2 * cells.numel() * count, "attentions": count, "first": first}
    entries = [key for attention in subject.attentions for key in attention.keys("q", "k", "v", "heads", "output")]
    return Finding(misplaced, tuple(entries), facts=facts)


def _strays(got: Tensor, wanted: Tensor) -> int:
    return int((got != wanted).sum()) if got.shape == wanted.shape else wanted.numel()


@check(
    STRUCTURE,
    claim="Every layer has weights of its own: no two share storage, no two hold equal matrices.",
    cannot_see="Layers that started equal and have drifted apart in training since.",
    claims=("layers",),
    holds="{layers} layers, {parameters} parameter tensors, none shared and no two layers equal",
    fails="{shared} parameter tensors are shared between layers and {equal} pairs of layers are equal; first {first}",
)
def layers_independent(subject: Subject) -> Finding | None:
    shared, equal, pairs, layers, parameters = 0, 0, [], 0, 0
    for side, stack in subject.stacks.items():
        owners = Counter(_storage(each) for layer in stack for each in layer.parameters())
        shared += sum(count - 1 for count in owners.values())
        layers, parameters = layers + len(stack), parameters + owners.total()
        alike = [(i, j) for i, j in combinations(range(len(stack)), 2) if _share(stack[i], stack[j])]
        if subject.has_numbers:
            same = _equal_pairs(list(stack))
            equal += len(same)
            alike += same
        pairs += [f"{side}.layers.{i} = {side}.layers.{j}" for i, j in alike]
    if not layers:
        return None
    entries = tuple(key for key, each in subject.entries.items() if ".layers." in each.path)
    first = pairs[0] if pairs else ""
    facts = {"layers": layers, "parameters": parameters, "shared": shared, "equal": equal, "first": first}
    return Finding(shared + equal, entries, facts=facts)


def _storage(parameter: Tensor) -> int:
    """The identity of a parameter: the address of its data, or the object itself where it has none."""
    return id(parameter) if parameter.is_meta else parameter.data_ptr()


def _share(one: nn.Module, other: nn.Module) -> bool:
    return not {_storage(each) for each in one.parameters()}.isdisjoint(_storage(each) for each in other.parameters())


def _equal_pairs(layers: list[nn.Module]) -> list[tuple[int, int]]:
    """Pairs whose matrices are all equal. Sums are compared first, since nearly all pairs differ already there."""
    matrices = [[each.detach() for each in layer.parameters() if each.dim() > 1] for layer in layers]
    sums = torch.stack([each[0].sum() for each in matrices]).tolist()
    return [(i, j) for i, j in combinations(range(len(layers)), 2)
            if sums[i] == sums[j] and all(map(torch.equal, matrices[i], matrices[j]))]  # fmt: skip


@check(
    STRUCTURE,
    claim="The model has exactly the parameters that the formula for its configuration gives.",
    cannot_see="Parameters in the right number at the wrong place.",
    claims=("shapes", "layers"),
    holds="{measured:,.0f} parameters, as the formula gives",
    fails="{measured:,.0f} parameters, but the formula gives {expected:,.0f}",
)
def parameter_count(subject: Subject) -> Finding:
    batch = subject.batch
    rows = next(len(tokens) for tokens in (batch.src, batch.tgt) if tokens is not None)
    lengths = [1 if tokens is None else tokens.shape[1] for tokens in (batch.src, batch.tgt)]
    formula = estimate(subject.config, rows, *lengths).parameters
    entries = tuple(key for key, each in subject.entries.items() if each.name in _PARAMETRIC)
    return Finding(sum(each.numel() for each in subject.model.parameters()), entries, expected=formula)


@check(
    STRUCTURE,
    claim="What training may move is a parameter and nothing else is: fixed waves and running means are buffers. All "
    "of them are on one device.",
    cannot_see="Whether the optimizer was given all parameters, and what their values are.",
    claims=("positions",),
    holds="{parameters} parameter tensors to train, {buffers} buffers that stay out of it, all on {device}",
    fails="{measured:.0f} of {tensors} tensors are kept as the wrong kind, first {first}: {kept}, {wanted} is right",
    elsewhere="{measured:.0f} of {tensors} tensors are not on {device}, first {first} on {other}",
)
def buffers(subject: Subject) -> Finding:
    trained, fixed = dict(subject.model.named_parameters()), dict(subject.model.named_buffers())
    wrong = list(_kept_wrongly(subject, trained, fixed))
    tensors = trained | fixed
    device = next(iter(trained.values())).device
    apart = [(name, each.device) for name, each in tensors.items() if each.device != device]
    facts = {"parameters": len(trained), "buffers": len(fixed), "tensors": len(tensors), "device": str(device)}
    keys = tuple(key for key, each in subject.entries.items() if each.name in (*_PARAMETRIC, "positions"))
    if apart and not wrong:
        facts |= {"first": apart[0][0], "other": str(apart[0][1])}
        return Finding(len(apart), keys, facts=facts, sentence="elsewhere")
    if wrong:
        facts |= dict(zip(("first", "kept", "wanted"), wrong[0], strict=True))
    return Finding(len(wrong), keys, facts=facts)


def _kept_wrongly(
    subject: Subject, trained: Collection[str], fixed: Collection[str]
) -> Iterator[tuple[str, str, str]]:  # fmt: skip
    """Each tensor that is kept as the wrong kind: its name, the kind, and the right kind."""
    for path, module in subject.model.named_modules():
        for name, value in vars(module).items():  # a plain attribute is neither saved nor moved to a device
            if isinstance(value, Tensor):
                yield f"{path}.{name}".lstrip("."), "attribute", "buffer"
        if isinstance(module, nn.BatchNorm1d):
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                if f"{path}.{name}" in trained:
                    yield f"{path}.{name}", "parameter", "buffer"
    for name, kind in _tables(subject).items():
        if name in trained and kind == "sinusoidal":
            yield name, "parameter", "buffer"
        if name in fixed and kind == "learned":
            yield name, "buffer", "parameter"


def _tables(subject: Subject) -> dict[str, str]:
    """The tables of positions that the configuration asks for, and of which kind they are."""
    config = subject.config
    sides = {"src": config.has_encoder, "tgt": config.has_decoder and config.positions_on_decoder}
    return {f"{side}_positions.weight": config.positions for side, there in sides.items() if there}
