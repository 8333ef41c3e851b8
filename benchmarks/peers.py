"""What is compared: the same encoder-decoder from torch.nn, and our own core with every note() taken out."""

import ast
import sys
import types
from pathlib import Path

import torch
from torch import Tensor, nn

import transformer_core
from transformer_core.config import ModelConfig
from transformer_core.positions import sinusoidal


class TorchTransformer(nn.Module):
    """torch.nn.Transformer between the same embeddings, positions and output layer as ours, with the same masks."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.src_embedding = nn.Embedding(config.src_vocab_size, config.d_model, padding_idx=0)
        self.tgt_embedding = nn.Embedding(config.tgt_vocab_size, config.d_model, padding_idx=0)
        self.register_buffer("positions", sinusoidal(config.max_seq_len, config.d_model))
        self.dropout = nn.Dropout(config.dropout)
        self.core = nn.Transformer(
            config.d_model, config.n_heads, config.n_encoder_layers, config.n_decoder_layers, config.d_ff,
            config.dropout, batch_first=True, norm_first=config.norm_order == "pre",
        )  # fmt: skip
        self.output = nn.Linear(config.d_model, config.tgt_vocab_size)
        self.scale = config.d_model**0.5

    def embed(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        return self.dropout(embedding(tokens) * self.scale + self.positions[: tokens.shape[1]])

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        length = tgt.shape[1]
        future = torch.ones(length, length, dtype=torch.bool).triu(1)
        out = self.core(
            self.embed(self.src_embedding, src), self.embed(self.tgt_embedding, tgt), tgt_mask=future,
            src_key_padding_mask=src == 0, tgt_key_padding_mask=tgt == 0, memory_key_padding_mask=src == 0,
        )  # fmt: skip
        return self.output(out)


class _WithoutNotes(ast.NodeTransformer):
    """Removes every statement that is a call of note()."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        call = node.value
        is_note = isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "note"
        return None if is_note else node


def core_without_notes() -> types.ModuleType:
    """A second copy of the model whose source has no note() in it; returns its ``model`` module."""
    package = "core_without_notes"
    root = Path(transformer_core.__file__).parent
    sys.modules[package] = types.ModuleType(package)
    for name in ("positions", "attention", "layers", "model"):
        source = (root / f"{name}.py").read_text(encoding="utf-8")
        for own in ("positions", "attention", "layers"):
            source = source.replace(f"from transformer_core.{own} import", f"from {package}.{own} import")
        tree = ast.fix_missing_locations(_WithoutNotes().visit(ast.parse(source)))
        module = types.ModuleType(f"{package}.{name}")
        sys.modules[module.__name__] = module
        exec(compile(tree, f"<{name} without notes>", "exec"), module.__dict__)
    return sys.modules[f"{package}.model"]
