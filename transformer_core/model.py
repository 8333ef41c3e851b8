"""The Transformer (figure 1): encoder-decoder, encoder-only or decoder-only, all from the same parts."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from transformer_core.checked import check_whole
from transformer_core.config import MaskConfig, ModelConfig
from transformer_core.key_value_cache import unread
from transformer_core.layers import DecoderLayer, Dropout, EncoderLayer, Noise, make_norm
from transformer_core.ledger import note
from transformer_core.masks import for_attention
from transformer_core.positions import LearnedPositions, SinusoidalPositions, make_positions


class Encoder(nn.Module):
    """N layers in a row, each with weights of its own (section 3.1); pre-norm ends with one more norm."""

    def __init__(self, config: ModelConfig, noise: Noise, fill: str) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(config, noise, fill) for _ in range(config.n_encoder_layers))
        self.norm = make_norm(config) if config.has_final_norm else None

    def forward(self, x: Float[Tensor, "B S D"], allowed: Tensor | None) -> Float[Tensor, "B S D"]:
        note("input", x, "B S D")
        for layer in self.layers:
            x = layer(x, allowed)
        if self.norm is not None:
            x = self.norm(x)
            note("final_norm", x, "B S D")
        return x


class Decoder(nn.Module):
    """N layers in a row over the target, each of which also attends to the memory (section 3.1)."""

    def __init__(self, config: ModelConfig, noise: Noise, fill: str) -> None:
        super().__init__()
        cross = config.has_encoder
        self.layers = nn.ModuleList(DecoderLayer(config, noise, fill, cross) for _ in range(config.n_decoder_layers))
        self.norm = make_norm(config) if config.has_final_norm else None

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        allowed: Tensor | None,
        memory: Float[Tensor, "B S D"] | None = None,
        memory_allowed: Tensor | None = None,
    ) -> Float[Tensor, "B T D"]:
        note("input", x, "B T D")
        for layer in self.layers:
            x = layer(x, allowed, memory, memory_allowed)
        if self.norm is not None:
            x = self.norm(x)
            note("final_norm", x, "B T D")
        return x


class Transformer(nn.Module):
    """Figure 1. ``model(src, tgt)`` gives logits B T V; an encoder-only model gives ``memory`` or class logits B C.

    Differs from the paper: source and target have embeddings of their own, and ``tie_weights`` shares the target's
    with the output layer only (section 3.4 shares all three); a classifier may stand on position 0 of the encoder.
    """

    def __init__(self, config: ModelConfig, masks: MaskConfig | None = None) -> None:
        super().__init__()
        self.config = config
        self.masks = masks if masks is not None else MaskConfig()
        self.noise = Noise()
        self.dropout = Dropout(config.dropout, self.noise)
        if config.has_encoder:
            self.src_embedding = nn.Embedding(config.src_vocab_size, config.d_model, padding_idx=config.pad_id)
            self.src_positions = make_positions(config.positions, config.max_seq_len, config.d_model)
            self.encoder = Encoder(config, self.noise, self.masks.fill)
        if config.has_decoder:
            self.tgt_embedding = nn.Embedding(config.tgt_vocab_size, config.d_model, padding_idx=config.pad_id)
            kind = config.positions if config.positions_on_decoder else "none"
            self.tgt_positions = make_positions(kind, config.max_seq_len, config.d_model)
            self.decoder = Decoder(config, self.noise, self.masks.fill)
            self.output = nn.Linear(config.d_model, config.tgt_vocab_size)
            self.tie()
        elif config.n_classes:
            self.classifier = nn.Linear(config.d_model, config.n_classes)

    def forward(self, src: Tensor | None = None, tgt: Tensor | None = None) -> Tensor:
        """Source and target in, a score for every possible next token out; the side a model lacks is not read.

        Raises:
            ValueError: ids outside the vocabulary, an empty or too long sequence, or unequal batches.
        """
        if self.config.has_decoder:
            memory = self.encode(src) if self.config.has_encoder else None
            logits, axes = self.output(self.decode(tgt, memory, src if self.config.has_encoder else None)), "B T V"
        else:
            memory = self.encode(src)
            if not self.config.n_classes:
                return memory
            logits, axes = self.classifier(memory[:, 0]), "B C"
        note("logits", logits, axes)
        note("probabilities", lambda: logits.softmax(dim=-1), axes)
        return logits

    def encode(self, src: Tensor | None) -> Float[Tensor, "B S D"]:
        """The source as ``memory``: one vector per token, each informed by the others.

        Raises:
            ValueError: the tokens are no ids of the vocabulary, or too many or none.
        """
        src = self.check_tokens("src", src, self.config.src_vocab_size)
        note("src", src, "B S")
        x = self.embed("src", src)
        memory = self.encoder(x, self.allowed("encoder_self", src.shape[1], src))
        note("memory", memory, "B S D")
        return memory

    def decode(
        self, tgt: Tensor | None, memory: Tensor | None = None, src: Tensor | None = None
    ) -> Float[Tensor, "B T D"]:
        """The target so far as vectors from which ``output`` predicts each next token.

        ``src`` tells which keys of ``memory`` are padding.

        Raises:
            ValueError: the tokens are no ids of the vocabulary, or ``memory`` and ``src`` do not go with them.
        """
        tgt = self.check_tokens("tgt", tgt, self.config.tgt_vocab_size)
        if {memory is None, src is None} != {not self.config.has_encoder}:
            raise ValueError("decode takes memory and the src it was made of; a decoder-only model takes neither")
        if memory is not None and src is not None and memory.shape[:2] != src.shape:
            raise ValueError(f"memory is of {tuple(memory.shape[:2])} tokens, src of {tuple(src.shape)}; not its own")
        if memory is not None and memory.shape[0] != tgt.shape[0]:
            raise ValueError(f"src has {memory.shape[0]} sentences and tgt {tgt.shape[0]}; they must be pairs")
        note("tgt", tgt, "B T")
        x = self.embed("tgt", tgt)
        memory_allowed = None if src is None else self.allowed("cross", tgt.shape[1], src)
        return self.decoder(*unread(x, self.allowed("decoder_self", tgt.shape[1], tgt), memory, memory_allowed))

    def embed(self, side: str, tokens: Int[Tensor, "B n"]) -> Float[Tensor, "B n D"]:
        """dropout(√d_model · embedding + positions) (sections 3.4, 3.5, 5.4)."""
        if side == "src":
            embedding, positions, axes = self.src_embedding, self.src_positions, "B S D"
        else:
            embedding, positions, axes = self.tgt_embedding, self.tgt_positions, "B T D"
        x = embedding(tokens)
        if self.config.scale_embedding:
            x = x * math.sqrt(self.config.d_model)
        note(f"{side}_embeddings", x, axes)
        return self.dropout(positions(x))

    def allowed(self, attention: str, q_len: int, keys: Int[Tensor, "B k"]) -> Tensor | None:
        """Which keys the queries of ``attention`` (encoder_self, decoder_self or cross) may see; None: all."""
        return for_attention(self.masks, attention, q_len, keys, pad_id=self.config.pad_id, n_heads=self.config.n_heads)

    def check_tokens(self, side: str, tokens: Tensor | None, vocab_size: int) -> Tensor:
        """The tokens themselves.

        Raises:
            ValueError: they are no ids of the vocabulary, too many, or none; the text names the stray one.
        """
        if tokens is None or tokens.dim() != 2 or tokens.dtype not in (torch.int64, torch.int32):
            got = "nothing" if tokens is None else f"{tokens.dtype} of shape {tuple(tokens.shape)}"
            raise ValueError(f"{side} must be token ids, int64 or int32 of shape (sentences, tokens); got {got}")
        if tokens.numel() == 0:
            raise ValueError(f"{side} is empty, shape {tuple(tokens.shape)}; it needs at least one token")
        if tokens.shape[1] > self.config.max_seq_len:
            raise ValueError(
                f"{side} has {tokens.shape[1]} tokens, more than max_seq_len {self.config.max_seq_len}; "
                "shorten it or raise max_seq_len"
            )
        if not tokens.is_meta:
            low, high = (int(bound) for bound in tokens.aminmax())
            if low < 0 or high >= vocab_size:
                stray = low if low < 0 else high
                raise ValueError(f"{side} holds the id {stray}; a vocabulary of {vocab_size} has 0 to {vocab_size - 1}")
        return tokens

    def tie(self) -> None:
        """With ``tie_weights``, the output layer reads the target embedding (section 3.4)."""
        if self.config.tie_weights and self.config.has_decoder:
            self.output.weight = self.tgt_embedding.weight


def build(
    config: ModelConfig,
    masks: MaskConfig | None = None,
    seed: int = 0,
    device: str | torch.device = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Transformer:
    """A model with the weights of ``seed``, the same every time on every device; torch's global state stays as it was.

    On the device "meta" there are shapes but no numbers, so that a model of any size can be looked at.

    Raises:
        ConfigError: ``seed`` is no whole number from 0 to 2^31 - 1; torch's generator reads no more of it.
    """
    check_whole("seed", seed, 0, (1 << 31) - 1)
    with torch.device("meta"):
        model = Transformer(config, masks).to(torch.float32)  # whatever torch's default: the same draws everywhere
    model.noise.reseed(seed)
    if torch.device(device).type == "meta":
        return model.to(dtype)
    initialise(model.to_empty(device="cpu"), torch.Generator().manual_seed(seed))
    model.to(device, dtype)
    for module in model.modules():
        if isinstance(module, SinusoidalPositions):
            module.reset()  # in the dtype of the model: rounded once, not twice
    return model


def initialise(model: Transformer, generator: torch.Generator) -> None:
    """Xavier uniform matrices, zero biases, unit norms; embeddings normal with std d_model^-0.5, padding at zero.

    Differs from the paper, which does not say how it starts.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight, generator=generator)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=module.embedding_dim**-0.5, generator=generator)
            with torch.no_grad():
                module.weight[module.padding_idx] = 0.0
        elif isinstance(module, LearnedPositions):
            module.reset(generator)
        elif isinstance(module, nn.LayerNorm | nn.RMSNorm | nn.BatchNorm1d):
            module.reset_parameters()  # ones and zeros: nothing is drawn
    model.tie()
