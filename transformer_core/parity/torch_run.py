"""One run of torch's module, its tensors caught under the names of our ledger.

torch's modules return little, so every one of them is listened to with a hook, which also keeps torch from its fast
path. What happens inside nn.MultiheadAttention is computed again from its own inputs and its own packed weights:
q, k, v, scores and heads here, the weights by torch itself when it is asked for them.
"""

import math
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from transformer_core import masks
from transformer_core.batches import Batch
from transformer_core.parity.weights import SUBLAYERS, sides


class Call(NamedTuple):
    """What went into a module and what came out."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any


def ends_of(batch: Batch, kind: str) -> tuple[Tensor, Tensor]:
    """The tokens that ask and those that are attended to, for ``kind``: encoder_self, decoder_self or cross."""
    queries = batch.src if kind == "encoder_self" else batch.tgt
    keys = batch.tgt if kind == "decoder_self" else batch.src
    assert queries is not None and keys is not None
    return queries, keys


def visible(model: Any, batch: Batch, kind: str, rules: Collection[str]) -> Tensor | None:
    """The pairs that these rules leave visible, by the library's own masks, whatever the model makes of them."""
    queries, keys = ends_of(batch, kind)
    return masks.compose(
        [*rules], queries.shape[1], keys, pad_id=model.config.pad_id, two_sided=kind != "decoder_self",
        custom=getattr(model.masks, f"{kind}_custom"), cross=kind == "cross", n_heads=model.config.n_heads,
    )  # fmt: skip


def torch_masks(model: Any, batch: Batch, kind: str) -> tuple[Tensor | None, Tensor | None]:
    """attn_mask and key_padding_mask of one kind of attention, True = ignore.

    The rule "padding" becomes the key_padding_mask, all others together the attn_mask.
    """
    rules = getattr(model.masks, kind)
    seen = visible(model, batch, kind, [rule for rule in rules if rule != "padding"])
    queries, keys = ends_of(batch, kind)
    real = masks.padding(keys, model.config.pad_id) if "padding" in rules else None
    if seen is not None and seen.dim() == 4:  # sentences or heads differ: written out for each of them
        seen = seen.expand(len(keys), model.config.n_heads, queries.shape[1], keys.shape[1]).flatten(0, 1)
    return (
        None if seen is None else ~seen,
        None if real is None else masks.to_key_padding_mask(real),
    )


def run_torch(theirs: nn.Module, model: Any, batch: Batch) -> dict[str, Tensor]:
    """Every tensor of torch's module that our ledger names too, and the logits and the loss that follow from them.

    nn.Transformer begins behind the embeddings and ends before the output layer; both are taken from ``model``.
    The stacks are called one after the other, as nn.Transformer.forward calls them.
    """
    found: dict[str, Tensor] = {}
    for side, stack in torch_stacks(theirs, model).items():
        with listening(stack) as calls:
            end = run_stack(stack, model, batch, side, found.get("memory"))
        found |= dict(_stack_tensors(side, stack, calls))
        if side == "encoder":
            found["memory"] = end
    head = getattr(model, "output", None) or getattr(model, "classifier", None)
    if head is not None:
        found["logits"] = head(end if model.config.has_decoder else end[:, 0])
        found["probabilities"] = found["logits"].softmax(dim=-1)
    found["loss"] = loss_of(model.config, batch, found.get("logits", end))
    return found


def torch_stacks(theirs: nn.Module, model: nn.Module) -> dict[str, nn.Module]:
    """torch's stack for each side of our model; with one side only, the module is the stack itself."""
    own = sides(model)
    return {side: getattr(theirs, side) for side in own} if len(own) == 2 else {own[0]: theirs}


def run_stack(stack: nn.Module, model: Any, batch: Batch, side: str, memory: Tensor | None = None) -> Tensor:
    """The output of torch's encoder or decoder for the embedded tokens of its side."""
    tokens = batch.src if side == "encoder" else batch.tgt
    x = model.embed("src" if side == "encoder" else "tgt", tokens)
    attn_mask, ignored = torch_masks(model, batch, f"{side}_self")
    if memory is None:  # also a decoder without cross-attention: layer by layer it is torch's encoder
        return stack(x, mask=attn_mask, src_key_padding_mask=ignored)
    memory_mask, memory_ignored = torch_masks(model, batch, "cross")
    return stack(
        x, memory, tgt_mask=attn_mask, tgt_key_padding_mask=ignored, memory_mask=memory_mask,
        memory_key_padding_mask=memory_ignored,
    )  # fmt: skip


def loss_of(config: Any, batch: Batch, output: Tensor) -> Tensor:
    """Cross-entropy per target token: the labels of the batch, else each next token; nothing is asked of padding.

    Without targets the mean square of the output stands in for a loss.
    """
    labels, asked = batch.labels, output
    if labels is None and config.has_decoder and batch.tgt is not None:
        labels, asked = batch.tgt[:, 1:].masked_fill(batch.tgt[:, :-1] == config.pad_id, config.pad_id), output[:, :-1]
    if labels is not None and labels.dim() == output.dim() - 1:
        ignored = config.pad_id if labels.dim() == 2 else -100
        if (labels != ignored).any():
            return F.cross_entropy(asked.flatten(0, -2), labels.flatten(), ignore_index=ignored)
    return output.square().mean()


@contextmanager
def listening(module: nn.Module) -> Iterator[dict[str, Call]]:
    """The last call of every module inside, by its path."""
    calls: dict[str, Call] = {}

    def keep(path: str) -> Any:
        def hook(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            calls[path] = Call(args, kwargs, output)

        return hook

    handles = [each.register_forward_hook(keep(path), with_kwargs=True) for path, each in module.named_modules()]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _stack_tensors(side: str, stack: Any, calls: dict[str, Call]) -> Iterator[tuple[str, Tensor]]:
    yield f"{side}/input", calls["layers.0"].args[0]
    for number, layer in enumerate(stack.layers):
        yield from _layer_tensors(f"{side}.layers.{number}", layer, f"layers.{number}", calls)
    if stack.norm is not None:
        yield f"{side}/final_norm", calls["norm"].output


def _layer_tensors(ours: str, layer: Any, at: str, calls: dict[str, Call]) -> Iterator[tuple[str, Tensor]]:
    """The sums are caught where they go: post-norm, into their own norm; pre-norm, into the next sub-layer's, and the
    last is what the layer returns."""
    present = [(name, theirs) for name, theirs in SUBLAYERS.items() if not theirs or hasattr(layer, theirs)]
    norms = [calls[f"{at}.norm{number}"] for number in range(1, len(present) + 1)]
    into = [norm.args[0] for norm in norms]
    sums = [*into[1:], calls[at].output] if layer.norm_first else into
    for (name, theirs), norm, total in zip(present, norms, sums, strict=True):
        if theirs:
            yield from _attention_tensors(f"{ours}.{name}", getattr(layer, theirs), calls[f"{at}.{theirs}"])
        else:
            yield f"{ours}.{name}/hidden", calls[f"{at}.linear2"].args[0]
            yield f"{ours}.{name}/output", calls[f"{at}.linear2"].output
        yield f"{ours}/{name}_sum", total
        yield f"{ours}/{name}_norm", norm.output


def _attention_tensors(ours: str, module: Any, call: Call) -> Iterator[tuple[str, Tensor]]:
    weights_of = module.in_proj_weight.chunk(3)
    biases = [None] * 3 if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    q, k, v = (F.linear(x, weight, bias).unflatten(-1, (module.num_heads, -1)).transpose(1, 2)
               for x, weight, bias in zip(call.args, weights_of, biases, strict=True))  # fmt: skip
    masked = {name: call.kwargs[name] for name in ("attn_mask", "key_padding_mask")}
    _, weights = module.forward(*call.args, **masked, need_weights=True, average_attn_weights=False)
    tensors = {"q": q, "k": k, "v": v, "scores": q @ k.mT / math.sqrt(module.head_dim), "weights": weights,
               "heads": weights @ v, "output": call.output[0]}  # fmt: skip
    yield from ((f"{ours}/{name}", value) for name, value in tensors.items())
