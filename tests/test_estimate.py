"""cost.estimate: by hand, and against the model that is really built, its ledger and torch's own counter."""

from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode

from transformer_core.config import ConfigError, ModelConfig
from transformer_core.cost import Cost, estimate
from transformer_core.ledger import trace
from transformer_core.model import Transformer, build
from transformer_core.presets import load_preset


def parameters(model: Transformer) -> int:
    return sum(weight.numel() for weight in model.parameters())  # shared ones come once


def run(config: ModelConfig, batch_size: int, src_len: int, tgt_len: int, dtype: torch.dtype) -> Cost:
    """What a real forward costs, measured: on the device "meta", where it has all its shapes and needs no time."""
    model = build(config, device="meta", dtype=dtype).eval()
    src = torch.ones(batch_size, src_len, dtype=torch.int64, device="meta") if config.has_encoder else None
    tgt = torch.ones(batch_size, tgt_len, dtype=torch.int64, device="meta") if config.has_decoder else None
    with FlopCounterMode(display=False) as counter, trace(model) as ledger:
        model(src, tgt)
    maps = [entry for entry in ledger if entry.name in ("scores", "weights")]
    return Cost(parameters(model), counter.get_total_flops(), ledger.total_bytes, sum(entry.bytes for entry in maps))


@st.composite
def configs(draw: st.DrawFn) -> ModelConfig:
    n_heads, d_head = draw(st.sampled_from([1, 2, 3, 5])), draw(st.sampled_from([1, 2, 7]))
    return ModelConfig(
        architecture=draw(st.sampled_from(["encoder_decoder", "encoder", "decoder"])),
        d_model=n_heads * d_head, n_heads=n_heads, d_ff=draw(st.integers(1, 13)),
        n_encoder_layers=draw(st.integers(1, 3)), n_decoder_layers=draw(st.integers(1, 3)),
        norm=draw(st.sampled_from(["layer", "rms", "batch", "none"])),
        norm_order=draw(st.sampled_from(["post", "pre"])),
        final_norm=draw(st.sampled_from([None, True, False])), activation=draw(st.sampled_from(["relu", "gelu"])),
        positions=draw(st.sampled_from(["sinusoidal", "learned", "none"])), positions_on_decoder=draw(st.booleans()),
        tie_weights=draw(st.booleans()), bias=draw(st.booleans()), scale_embedding=draw(st.booleans()),
        src_vocab_size=draw(st.integers(2, 17)), tgt_vocab_size=draw(st.integers(2, 19)), max_seq_len=23,
        n_classes=draw(st.sampled_from([0, 2, 5])),
    )  # fmt: skip


@examples(max_examples=150)
@given(configs(), st.integers(1, 3), st.integers(1, 11), st.integers(1, 7), st.sampled_from([2, 4, 8]))
def test_the_estimate_equals_the_model_the_ledger_and_the_counter(
    config: ModelConfig, batch_size: int, src_len: int, tgt_len: int, width: int
) -> None:
    dtype = {2: torch.bfloat16, 4: torch.float32, 8: torch.float64}[width]
    measured = run(config, batch_size, src_len, tgt_len, dtype)
    assert estimate(config, batch_size, src_len, tgt_len, width) == measured


@pytest.mark.parametrize("architecture", ["encoder_decoder", "encoder", "decoder"])
def test_the_estimate_equals_a_model_with_real_numbers_too(architecture: str) -> None:
    config = ModelConfig(architecture=architecture, d_model=21, n_heads=3, d_ff=23, n_classes=2, tie_weights=True)
    model = build(config, seed=7).eval()
    src = torch.full((2, 11), 5) if config.has_encoder else None
    tgt = torch.full((2, 13), 5) if config.has_decoder else None
    with FlopCounterMode(display=False) as counter, trace(model) as ledger:
        model(src, tgt)
    cost = estimate(config, 2, 11, 13)
    assert cost.parameters == parameters(model)
    assert cost.flops == counter.get_total_flops()
    assert cost.activation_bytes == ledger.total_bytes


def test_parameters_by_hand() -> None:
    """H18: d 32, ff 64, 2+2 layers, biases: 42,752 without embeddings, output layer and final norms."""
    attention, feed_forward, norm = 4 * (32 * 32 + 32), 32 * 64 + 64 + 64 * 32 + 32, 2 * 32
    layers = 2 * (attention + feed_forward + 2 * norm) + 2 * (2 * attention + feed_forward + 3 * norm)
    assert layers == 42_752
    config = ModelConfig(d_model=32, n_heads=4, d_ff=64, src_vocab_size=11, tgt_vocab_size=13)
    ends = 11 * 32 + 13 * 32 + (32 * 13 + 13)
    assert estimate(config, 1, 1, 1).parameters == layers + ends
    assert estimate(config.replace(norm_order="pre"), 1, 1, 1).parameters == layers + ends + 2 * norm


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"tie_weights": True}, -13 * 32),
        ({"positions": "learned"}, 2 * 17 * 32),
        ({"positions": "learned", "positions_on_decoder": False}, 17 * 32),
        ({"positions": "none"}, 0),
        ({"final_norm": True}, 2 * 2 * 32),
        ({"norm": "batch"}, 0),
        ({"norm": "rms"}, -10 * 32),  # ten norms lose their bias
        ({"norm": "none"}, -10 * 64),
        ({"bias": False}, -(6 * 4 * 32 + 4 * (64 + 32))),  # six attentions, four feed-forward networks
        ({"n_heads": 8}, 0),
        ({"n_encoder_layers": 3}, 4 * (32 * 32 + 32) + (2 * 32 * 64 + 64 + 32) + 2 * 64),
        ({"src_vocab_size": 12}, 32),
        ({"n_classes": 3}, 0),  # the classifier belongs to an encoder alone
        ({"architecture": "decoder"}, -11 * 32 - 2 * 8_544 - 2 * (4_224 + 64)),  # no source, no cross-attention
    ],
)  # fmt: skip
def test_parameters_of_each_setting_by_hand(changes: dict[str, Any], difference: int) -> None:
    config = ModelConfig(d_model=32, n_heads=4, d_ff=64, src_vocab_size=11, tgt_vocab_size=13, max_seq_len=17)
    change = estimate(config.replace(**changes), 2, 3, 5).parameters - estimate(config, 2, 3, 5).parameters
    assert change == difference


def test_flops_and_bytes_by_hand() -> None:
    """One encoder layer: d 6, 2 heads, ff 5, one sentence of 3 tokens."""
    config = ModelConfig(architecture="encoder", d_model=6, n_heads=2, d_ff=5, n_encoder_layers=1)
    cost = estimate(config, batch_size=1, src_len=3, tgt_len=1, bytes_per_number=4)
    projections, maps, feed_forward = 4 * 3 * 6 * 6, 2 * 3 * 3 * 6, 2 * 3 * 6 * 5
    assert cost.flops == 2 * (projections + maps + feed_forward)
    vectors = 3 + 5 + 1 + 4 + 1  # embeddings positions input, q k v heads output, ffn output, sums and norms, memory
    numbers = vectors * 3 * 6 + 2 * (2 * 3 * 3) + 3 * 5  # and scores, weights, hidden
    assert cost.attention_bytes == 4 * 2 * (2 * 3 * 3)
    assert cost.activation_bytes == 4 * numbers + 8 * 3 + 2 * 3 * 3  # and ids of 8 bytes, allowed of 1


def test_attention_grows_with_the_square_of_the_length() -> None:
    config = ModelConfig(architecture="encoder")
    short, long = (estimate(config, 1, length, 1).attention_bytes for length in (100, 1000))
    assert long == 100 * short


def test_the_side_that_is_missing_costs_nothing_and_is_not_looked_at() -> None:
    encoder, decoder = ModelConfig(architecture="encoder"), ModelConfig(architecture="decoder")
    assert estimate(encoder, 2, 7, 0) == estimate(encoder, 2, 7, 99)
    assert estimate(decoder, 2, 0, 5) == estimate(decoder, 2, 99, 5)


def test_the_largest_sizes_are_exact_whole_numbers_at_once() -> None:
    config = ModelConfig(d_model=65_536, n_heads=65_536, d_ff=1 << 20, n_encoder_layers=1024, n_decoder_layers=1024)
    cost = estimate(config, 65_536, 1 << 20, 1 << 20, 16)
    assert cost.attention_bytes == 2 * 16 * (3 * 1024) * 65_536 * 65_536 * (1 << 40)
    assert all(type(value) is int for value in vars(cost).values())


def test_the_paper_s_models() -> None:
    """Table 3 counts 65 and 213 million: with one matrix of 37,000 words for both embeddings and the output."""
    for name, millions in (("paper_base", 65), ("paper_big", 213)):
        config = load_preset(name).model
        layers = estimate(config, 1, 1, 1).parameters - sum(
            (config.src_vocab_size * config.d_model, config.tgt_vocab_size * (2 * config.d_model + 1))
        )
        assert layers + 37_000 * config.d_model == pytest.approx(millions * 1e6, rel=0.03)


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ((0, 7, 5), "batch_size is 0; it must lie between 1 and"),
        ((2, 0, 5), "src_len is 0; it must lie between 1 and"),
        ((2, 7, -1), "tgt_len is -1; it must lie between 1 and"),
        ((True, 7, 5), "batch_size must be a whole number, got true."),
        ((2, 7, 5, 0), "bytes_per_number is 0; it must lie between 1 and 16."),
    ],
)
def test_sizes_that_cannot_be_are_refused(sizes: tuple[int, ...], text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        estimate(ModelConfig(), *sizes)
    assert text in str(caught.value)
