"""What a model will cost, by arithmetic alone: known before anything is built, and of models too large to build."""

import dataclasses

from transformer_core.checked import check_whole
from transformer_core.config import MAX_BATCH, MAX_LENGTH, ModelConfig

ID_BYTES = 8
"""A token id is an int64."""


@dataclasses.dataclass(frozen=True)
class Cost:
    """Of one forward pass: numbers in the model, floating-point operations, bytes in the ledger and in its maps.

    ``flops`` counts two for each multiply-add of a matrix product; ``activation_bytes`` is the total of the ledger;
    ``attention_bytes`` is the part of it in all scores and weights.
    """

    parameters: int
    flops: int
    activation_bytes: int
    attention_bytes: int


def estimate(model: ModelConfig, batch_size: int, src_len: int, tgt_len: int, bytes_per_number: int = 4) -> Cost:
    """The cost of ``model(src, tgt)`` with src B S and tgt B T; a side that the model lacks costs nothing.

    An attention holds 4 D² weights (section 3.2.2), a feed-forward network 2 D F (section 3.3).

    >>> estimate(ModelConfig(d_model=32, d_ff=64, n_heads=4), batch_size=2, src_len=7, tgt_len=5).attention_bytes
    13952

    Raises:
        ConfigError: a size that is no whole number in its range.
    """
    batch = check_whole("batch_size", batch_size, 1, MAX_BATCH)
    width = check_whole("bytes_per_number", bytes_per_number, 1, 16)
    total = _Tally(model, batch)
    if model.has_encoder:
        src = check_whole("src_len", src_len, 1, MAX_LENGTH)
        total.embed(src, model.src_vocab_size, model.positions)
        for _ in range(model.n_encoder_layers):
            total.attention(src, src)
            total.feed_forward(src)
        total.end_of_stack(src)
        total.numbers += batch * src * model.d_model  # memory
    if model.has_decoder:
        tgt = check_whole("tgt_len", tgt_len, 1, MAX_LENGTH)
        total.embed(tgt, model.tgt_vocab_size, model.positions if model.positions_on_decoder else "none")
        for _ in range(model.n_decoder_layers):
            total.attention(tgt, tgt)
            if model.has_encoder:
                total.attention(tgt, src)
            total.feed_forward(tgt)
        total.end_of_stack(tgt)
        total.head(batch * tgt, model.tgt_vocab_size, tied=model.tie_weights)
    elif model.n_classes:
        total.head(batch, model.n_classes)
    return Cost(
        parameters=total.parameters,
        flops=2 * total.products,
        activation_bytes=total.numbers * width + total.ids * ID_BYTES + total.flags,
        attention_bytes=total.maps * width,
    )


class _Tally:
    """Running sums over the parts of a model, in the order in which a forward pass meets them."""

    def __init__(self, model: ModelConfig, batch: int) -> None:
        self.model, self.batch = model, batch
        self.parameters = self.products = 0
        self.numbers = self.ids = self.flags = self.maps = 0

    def embed(self, length: int, vocabulary: int, positions: str) -> None:
        """ids, embeddings, the table of positions, and their sum, which is the input of the stack."""
        d_model = self.model.d_model
        self.ids += self.batch * length
        self.numbers += 2 * self.batch * length * d_model
        self.parameters += vocabulary * d_model
        if positions != "none":
            self.numbers += length * d_model
        if positions == "learned":
            self.parameters += self.model.max_seq_len * d_model

    def attention(self, q: int, k: int) -> None:
        """q, heads and output at the queries; k and v at the keys; scores, allowed and weights for each pair."""
        d_model = self.model.d_model
        maps = self.batch * self.model.n_heads * q * k
        for rows in (q, k, k, q):  # w_q, w_k, w_v, w_o
            self.linear(self.batch * rows, d_model, d_model, self.model.bias)
        self.products += 2 * self.batch * q * k * d_model  # q kᵀ and weights v, in all heads
        self.numbers += self.batch * d_model * (3 * q + 2 * k) + 2 * maps
        self.maps += 2 * maps
        self.flags += maps
        self.residual(q)

    def feed_forward(self, length: int) -> None:
        """hidden and output (equation 2)."""
        d_model, d_ff = self.model.d_model, self.model.d_ff
        self.linear(self.batch * length, d_model, d_ff, self.model.bias)
        self.linear(self.batch * length, d_ff, d_model, self.model.bias)
        self.numbers += self.batch * length * (d_ff + d_model)
        self.residual(length)

    def residual(self, length: int) -> None:
        """The sum and the norm around a sub-layer, in either order."""
        self.numbers += self.batch * length * self.model.d_model
        self.norm(length)

    def end_of_stack(self, length: int) -> None:
        """The final norm, where there is one."""
        if self.model.has_final_norm:
            self.norm(length)

    def norm(self, length: int) -> None:
        """One gain a feature, and a bias with it except in RMSNorm."""
        vectors = {"layer": 2, "batch": 2, "rms": 1, "none": 0}[self.model.norm]
        self.parameters += vectors * self.model.d_model
        self.numbers += self.batch * length * self.model.d_model

    def head(self, rows: int, columns: int, tied: bool = False) -> None:
        """logits and probabilities; a tied head has only its bias to itself."""
        self.linear(rows, self.model.d_model, columns, bias=True)
        self.numbers += 2 * rows * columns
        if tied:
            self.parameters -= self.model.d_model * columns

    def linear(self, rows: int, inputs: int, outputs: int, bias: bool) -> None:
        """rows x inputs times inputs x outputs."""
        self.parameters += inputs * outputs + (outputs if bias else 0)
        self.products += rows * inputs * outputs
