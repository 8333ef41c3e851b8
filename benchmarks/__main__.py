"""``python -m benchmarks``: what the ledger costs, and our model against torch.nn.Transformer and TorchLens.

Every line is a ratio measured in this run, one thread, interleaved, with its target beside it where there is one.
"""

import argparse
import sys
import warnings

import torch
from torch import Tensor, nn

from benchmarks.decoding import TARGETS, measure
from benchmarks.peers import TorchTransformer, core_without_notes
from benchmarks.timing import Ratio, keep_freed_memory, ratio
from transformer_core.config import ModelConfig
from transformer_core.ledger import trace
from transformer_core.model import build

SIZES = {
    "tiny": ({"d_model": 64, "n_heads": 4, "n_encoder_layers": 2, "n_decoder_layers": 2, "d_ff": 128}, 64, 12),
    "classroom": ({"d_model": 128, "n_heads": 8, "n_encoder_layers": 3, "n_decoder_layers": 3, "d_ff": 512}, 32, 32),
}
VOCABULARY = 100
FORWARD_TARGET = {"tiny": 0.80, "classroom": 1.05}
TRAINING_TARGET = {"tiny": 0.85, "classroom": 0.75}


def config(size: str, dropout: float = 0.0) -> ModelConfig:
    return ModelConfig(
        **SIZES[size][0], dropout=dropout, final_norm=True, src_vocab_size=VOCABULARY, tgt_vocab_size=VOCABULARY
    )


def padded_batch(size: str) -> tuple[Tensor, Tensor]:
    """Random tokens; every sentence after the first has lost up to half of its end."""
    _, batch, length = SIZES[size]
    generator = torch.Generator().manual_seed(7)
    src, tgt = (torch.randint(4, VOCABULARY, (batch, length), generator=generator) for _ in range(2))
    for tokens in (src, tgt):
        for row in range(1, batch):
            lost = row % (length // 2 + 1)
            tokens[row, length - lost :] = 0
    return src, tgt


def report(name: str, measured: Ratio, target: str) -> None:
    print(f"{name:58s} {measured}   target {target}", flush=True)


def notes(size: str, rounds: int) -> None:
    """The price of looking: closed and open ledger against a forward whose source has no notes."""
    src, tgt = padded_batch(size)
    model, bare = build(config(size)).eval(), core_without_notes().build(config(size)).eval()

    @torch.no_grad()
    def closed() -> Tensor:
        return model(src, tgt)

    @torch.no_grad()
    def without() -> Tensor:
        return bare(src, tgt)

    @torch.no_grad()
    def opened() -> None:
        with trace(model):
            model(src, tgt)

    assert torch.equal(closed(), without()), "the copy without notes computes something else"
    report(f"{size}: no ledger open / source without notes", ratio(closed, without, rounds), "<= 1.03")
    report(f"{size}: ledger open / source without notes", ratio(opened, without, rounds), "<= 1.25")


def against_torchlens(size: str) -> None:
    """Both record every tensor of one forward; the cost is what is added to the bare forward."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torchlens
    except ImportError:
        print("TorchLens is not installed (make bench installs it): skipped")
        return
    src, tgt = padded_batch(size)
    model = build(config(size)).eval()

    @torch.no_grad()
    def plain() -> Tensor:
        return model(src, tgt)

    @torch.no_grad()
    def opened() -> None:
        with trace(model):
            model(src, tgt)

    @torch.no_grad()
    def lens() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torchlens.trace(model, [src, tgt])

    theirs, ours = ratio(lens, plain, rounds=5), ratio(opened, plain, rounds=21)
    report(f"{size}: TorchLens {torchlens.__version__} / forward", theirs, "none")
    report(f"{size}: ledger open / forward", ours, "none")
    print(f"{'':58s} {theirs.median / ours.median:6.1f} times lighter than TorchLens   target >= 20")


def forward(size: str, rounds: int) -> None:
    """A padded forward in evaluation."""
    src, tgt = padded_batch(size)
    ours, theirs = build(config(size)).eval(), TorchTransformer(config(size)).eval()
    calls = [torch.no_grad()(lambda model=model: model(src, tgt)) for model in (ours, theirs)]
    report(f"{size}: padded forward / torch.nn.Transformer", ratio(*calls, rounds), f"<= {FORWARD_TARGET[size]:.2f}")


def training(size: str, rounds: int) -> None:
    """Forward, backward and one fused Adam step; ours has dropout where the paper has it, theirs where torch has it."""
    src, tgt = padded_batch(size)

    def step_of(model: nn.Module):  # type: ignore[no-untyped-def]
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)

        def step() -> None:
            optimizer.zero_grad()
            logits = model(src, tgt)
            # Labels that are not shifted: nothing is learned here, only the time counts.
            nn.functional.cross_entropy(logits.flatten(0, 1), tgt.flatten(), ignore_index=0).backward()
            optimizer.step()

        return step

    ours, theirs = step_of(build(config(size, 0.1))), step_of(TorchTransformer(config(size, 0.1)))
    measured = ratio(ours, theirs, rounds)
    report(f"{size}: training step / torch.nn.Transformer", measured, f"<= {TRAINING_TARGET[size]:.2f}")


def decoding(size: str, rounds: int) -> None:
    """Greedy writing with the key-value cache, against torch's decoder, which reads all that is written every time."""
    for length, most in TARGETS.items():
        measured = measure(config(size), length, min(rounds, 41 if length < 100 else 11))
        report(f"{size}: greedy with cache, {length} tokens / re-running torch.nn", measured, f"<= {most:.2f}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=41, help="pairs per line (default 41)")
    parser.add_argument("--size", choices=[*SIZES, "all"], default="all")
    options = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\.nn")
    print(f"torch {torch.__version__}, 1 thread; median [quartiles] of ratios of CPU time, {options.rounds} pairs")
    for size in SIZES if options.size == "all" else [options.size]:
        notes(size, options.rounds)
        forward(size, options.rounds)
        training(size, options.rounds)
        decoding(size, options.rounds)
    against_torchlens("tiny")
    return 0


if __name__ == "__main__":
    sys.exit(main())
