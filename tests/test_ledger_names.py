"""The names of the ledger are public vocabulary: renaming a tensor, or recording it elsewhere, shows up here first."""

from dataclasses import replace

import torch

from transformer_core.batches import Batch, make_batch
from transformer_core.config import DataConfig, ModelConfig
from transformer_core.ledger import trace
from transformer_core.model import build


def names(config: ModelConfig) -> list[str]:
    """``key  axes`` of every entry of one forward, in the order in which they were recorded."""
    model, batch = build(config), make_batch(config, DataConfig(), seed=0)
    with torch.no_grad(), trace(model) as ledger:
        model(batch.src, batch.tgt)
    return [f"{entry.key}  {' '.join(entry.axes)}" for entry in ledger]


def lines(text: str) -> list[str]:
    return [line.strip() for line in text.strip().splitlines()]


TINY = ModelConfig(d_model=12, n_heads=3, d_ff=17, n_encoder_layers=1, n_decoder_layers=1)


def test_encoder_decoder_in_post_norm() -> None:
    assert names(TINY) == lines("""
        src  B S
        src_embeddings  B S D
        src_positions/positions  n D
        encoder/input  B S D
        encoder.layers.0.self_attention/q  B H q Dh
        encoder.layers.0.self_attention/k  B H k Dh
        encoder.layers.0.self_attention/v  B H k Dh
        encoder.layers.0.self_attention/scores  B H q k
        encoder.layers.0.self_attention/allowed  B H q k
        encoder.layers.0.self_attention/weights  B H q k
        encoder.layers.0.self_attention/heads  B H q Dh
        encoder.layers.0.self_attention/output  B q D
        encoder.layers.0/self_attention_sum  B n D
        encoder.layers.0/self_attention_norm  B n D
        encoder.layers.0.feed_forward/hidden  B n F
        encoder.layers.0.feed_forward/output  B n D
        encoder.layers.0/feed_forward_sum  B n D
        encoder.layers.0/feed_forward_norm  B n D
        memory  B S D
        tgt  B T
        tgt_embeddings  B T D
        tgt_positions/positions  n D
        decoder/input  B T D
        decoder.layers.0.self_attention/q  B H q Dh
        decoder.layers.0.self_attention/k  B H k Dh
        decoder.layers.0.self_attention/v  B H k Dh
        decoder.layers.0.self_attention/scores  B H q k
        decoder.layers.0.self_attention/allowed  B H q k
        decoder.layers.0.self_attention/weights  B H q k
        decoder.layers.0.self_attention/heads  B H q Dh
        decoder.layers.0.self_attention/output  B q D
        decoder.layers.0/self_attention_sum  B n D
        decoder.layers.0/self_attention_norm  B n D
        decoder.layers.0.cross_attention/q  B H q Dh
        decoder.layers.0.cross_attention/k  B H k Dh
        decoder.layers.0.cross_attention/v  B H k Dh
        decoder.layers.0.cross_attention/scores  B H q k
        decoder.layers.0.cross_attention/allowed  B H q k
        decoder.layers.0.cross_attention/weights  B H q k
        decoder.layers.0.cross_attention/heads  B H q Dh
        decoder.layers.0.cross_attention/output  B q D
        decoder.layers.0/cross_attention_sum  B n D
        decoder.layers.0/cross_attention_norm  B n D
        decoder.layers.0.feed_forward/hidden  B n F
        decoder.layers.0.feed_forward/output  B n D
        decoder.layers.0/feed_forward_sum  B n D
        decoder.layers.0/feed_forward_norm  B n D
        logits  B T V
        probabilities  B T V
    """)


def test_encoder_with_classes_in_pre_norm() -> None:
    config = replace(TINY, architecture="encoder", n_classes=5, norm_order="pre")
    assert names(config) == lines("""
        src  B S
        src_embeddings  B S D
        src_positions/positions  n D
        encoder/input  B S D
        encoder.layers.0/self_attention_norm  B n D
        encoder.layers.0.self_attention/q  B H q Dh
        encoder.layers.0.self_attention/k  B H k Dh
        encoder.layers.0.self_attention/v  B H k Dh
        encoder.layers.0.self_attention/scores  B H q k
        encoder.layers.0.self_attention/allowed  B H q k
        encoder.layers.0.self_attention/weights  B H q k
        encoder.layers.0.self_attention/heads  B H q Dh
        encoder.layers.0.self_attention/output  B q D
        encoder.layers.0/self_attention_sum  B n D
        encoder.layers.0/feed_forward_norm  B n D
        encoder.layers.0.feed_forward/hidden  B n F
        encoder.layers.0.feed_forward/output  B n D
        encoder.layers.0/feed_forward_sum  B n D
        encoder/final_norm  B S D
        memory  B S D
        logits  B C
        probabilities  B C
    """)


def test_decoder_alone_has_no_source_and_no_cross_attention() -> None:
    assert names(replace(TINY, architecture="decoder")) == lines("""
        tgt  B T
        tgt_embeddings  B T D
        tgt_positions/positions  n D
        decoder/input  B T D
        decoder.layers.0.self_attention/q  B H q Dh
        decoder.layers.0.self_attention/k  B H k Dh
        decoder.layers.0.self_attention/v  B H k Dh
        decoder.layers.0.self_attention/scores  B H q k
        decoder.layers.0.self_attention/allowed  B H q k
        decoder.layers.0.self_attention/weights  B H q k
        decoder.layers.0.self_attention/heads  B H q Dh
        decoder.layers.0.self_attention/output  B q D
        decoder.layers.0/self_attention_sum  B n D
        decoder.layers.0/self_attention_norm  B n D
        decoder.layers.0.feed_forward/hidden  B n F
        decoder.layers.0.feed_forward/output  B n D
        decoder.layers.0/feed_forward_sum  B n D
        decoder.layers.0/feed_forward_norm  B n D
        logits  B T V
        probabilities  B T V
    """)


def test_an_encoder_without_classes_ends_with_memory() -> None:
    assert names(replace(TINY, architecture="encoder"))[-1] == "memory  B S D"


def test_layers_are_counted_and_settings_add_or_remove_only_their_own_rows() -> None:
    plain = names(TINY)
    assert names(replace(TINY, n_decoder_layers=3)) == [
        *(name for name in plain[:-2]),
        *(name.replace(".0", f".{i}") for i in (1, 2) for name in plain if name.startswith("decoder.layers.0")),
        *plain[-2:],
    ]
    assert [name for name in plain if name not in names(replace(TINY, positions="none"))] == [
        "src_positions/positions  n D",
        "tgt_positions/positions  n D",
    ]
    without = names(replace(TINY, positions_on_decoder=False))
    assert [name for name in plain if name not in without] == ["tgt_positions/positions  n D"]
    added = [name for name in names(replace(TINY, final_norm=True)) if name not in plain]
    assert added == ["encoder/final_norm  B S D", "decoder/final_norm  B T D"]


def test_a_decode_step_records_only_the_decoder() -> None:
    model = build(TINY).eval()
    batch = Batch(torch.tensor([[5, 6, 7]]), torch.tensor([[1, 8]]))
    with torch.no_grad():
        memory = model.encode(batch.src)
        with trace(model) as ledger:
            model.decode(batch.tgt, memory, batch.src)
    assert ledger.keys()[0] == "tgt"
    assert not any(key.startswith(("src", "encoder")) for key in ledger.keys())
