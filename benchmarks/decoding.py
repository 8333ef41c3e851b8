"""``python -m benchmarks.decoding``: greedy writing with the key-value cache against torch.nn.Transformer without one.

Both have the same weights and write the same tokens for one sentence. torch's decoder has no cache, so it reads all
that is written anew for every token; its source, too, is encoded only once. Each side makes the masks that it needs.
"""

import argparse
import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.peers import TorchTransformer
from benchmarks.timing import Ratio, keep_freed_memory, ratio
from transformer_core.config import BEGIN, END, FIRST_FREE, ModelConfig
from transformer_core.decoding import beam, greedy
from transformer_core.model import Transformer, build
from transformer_core.parity.weights import to_torch

SOURCE = 12
"""Tokens of the source."""
TARGETS = {64: 0.75, 256: 0.50}
"""Tokens written -> the most that the ratio may be."""


def pair(config: ModelConfig) -> tuple[Transformer, TorchTransformer]:
    """Our model, which never writes the end, and torch's with its weights."""
    ours, theirs = build(config, seed=7).eval(), TorchTransformer(config).eval()
    with torch.no_grad():
        ours.output.bias[END] = -1e4
    theirs.core.load_state_dict(to_torch(ours).state_dict())
    for name in ("src_embedding", "tgt_embedding", "output"):
        getattr(theirs, name).load_state_dict(getattr(ours, name).state_dict())
    return ours, theirs


@torch.no_grad()
def rerun(model: TorchTransformer, src: Tensor, length: int) -> Tensor:
    """Greedy writing as one does it with nn.Transformer: its decoder reads the whole target so far for every token."""
    ignored = src == 0
    memory = model.core.encoder(model.embed(model.src_embedding, src), src_key_padding_mask=ignored)
    written = torch.full((len(src), 1), BEGIN)
    for n in range(1, length + 1):
        future = torch.ones(n, n, dtype=torch.bool).triu(1)
        out = model.core.decoder(
            model.embed(model.tgt_embedding, written), memory, tgt_mask=future, tgt_key_padding_mask=written == 0,
            memory_key_padding_mask=ignored,
        )  # fmt: skip
        token = model.output(out[:, -1]).argmax(dim=-1)
        written = torch.cat([written, token[:, None]], dim=1)
    return written[:, 1:]


def sides(config: ModelConfig, length: int, batch: int = 1) -> dict[str, Callable[[], object]]:
    """What is timed, under its name.

    Raises:
        RuntimeError: the answers differ, so that they could not be compared.
    """
    ours, theirs = pair(config)
    src = torch.randint(FIRST_FREE, config.src_vocab_size, (batch, SOURCE), generator=torch.Generator().manual_seed(7))
    found = {
        "cached": lambda: greedy(ours, src, max_length=length),
        "anew": lambda: greedy(ours, src, max_length=length, cache=False),
        "torch": lambda: rerun(theirs, src, length),
    }
    first, *others = (write() for write in found.values())
    if first.shape != (batch, length) or not all(torch.equal(first, other) for other in others):
        raise RuntimeError("the three ways of writing give different tokens")
    return found | {"beam": lambda: beam(ours, src, 4, max_length=length)}


def measure(config: ModelConfig, length: int, rounds: int) -> Ratio:
    """CPU time of greedy writing with cache / of re-running nn.Transformer."""
    both = sides(config, length)
    return ratio(both["cached"], both["torch"], rounds)


def main() -> None:
    from benchmarks.__main__ import SIZES, config  # the sizes of all benchmarks

    parser = argparse.ArgumentParser(prog="python -m benchmarks.decoding", description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11, help="pairs per line (default 11)")
    rounds = max(2, parser.parse_args().rounds)
    torch.set_num_threads(1)
    keep_freed_memory()
    warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\.nn")
    print(f"torch {torch.__version__}, 1 thread; median [quartiles] of ratios of CPU time, {rounds} pairs")
    for size in SIZES:
        for length in (16, *TARGETS):
            found = sides(config(size), length)
            wanted = f"<= {TARGETS[length]:.2f}" if length in TARGETS else "none"
            for name, a, b, target in (
                ("greedy with cache / re-running torch.nn", "cached", "torch", wanted),
                ("greedy with cache / without", "cached", "anew", "none"),
                ("beam 4 with cache / greedy with cache", "beam", "cached", "none"),
            ):
                print(f"{f'{size}, {length} tokens: {name}':62s} {ratio(found[a], found[b], rounds)}   target {target}",
                      flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
