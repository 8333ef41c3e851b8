"""The probing kit: what may reach what, the copy and its tokens, and that the right model is acquitted everywhere."""

import copy
import gc
import weakref
from itertools import product
from typing import Any

import pytest
import torch

from tests.probe_cases import BY_NAME, DECODER, ENCODER, SMALL, failing, probe, said, subject
from transformer_core import load_preset
from transformer_core.batches import make_batch
from transformer_core.checks import run_checks
from transformer_core.checks.doubles import double
from transformer_core.checks.probes import MANY, apart, finite, probe_of, sizes
from transformer_core.checks.reach import reach, spread, through, unchanged, views
from transformer_core.checks.subject import Subject
from transformer_core.checks.table import ASPECTS, BEHAVIOUR
from transformer_core.config import DataConfig, MaskConfig, ModelConfig
from transformer_core.ledger import trace
from transformer_core.model import build
from transformer_core.workshop import OWN, altered

T, F = True, False


def matrix(*rows: str) -> torch.Tensor:
    """["110", ...] as B q k with one sentence."""
    return torch.tensor([[[sign == "1" for sign in row] for row in rows]])


# What may reach what.


def test_two_layers_of_a_chain_by_hand() -> None:
    """Each place sees the one before it and not itself; the residual connection keeps it all the same."""
    chain = matrix("000", "100", "010")
    assert torch.equal(spread(chain, 1), matrix("100", "110", "011"))
    assert torch.equal(spread(chain, 2), matrix("100", "110", "111"))
    assert torch.equal(through(chain, chain), matrix("000", "000", "100"))


def test_the_source_takes_three_ways_to_the_logits() -> None:
    """Seen by the place itself; by a source token that saw it; by an earlier place, one decoder layer before."""
    config = SMALL.replace(n_encoder_layers=1, n_decoder_layers=1)
    seen = {
        "encoder_self": matrix("100", "110", "001")[:, None],
        "decoder_self": matrix("10", "11")[:, None],
        "cross": matrix("010", "000")[:, None],
    }
    assert torch.equal(reach(config, seen)["logits_src"], matrix("110", "000"))
    two = reach(config.replace(n_decoder_layers=2), seen)
    assert torch.equal(two["logits_src"], matrix("110", "110"))
    assert torch.equal(two["memory"], matrix("100", "110", "001"))
    assert torch.equal(two["logits_tgt"], matrix("10", "11"))


def test_a_key_that_one_head_sees_is_seen() -> None:
    masks = MaskConfig(cross=("where:h == k",))
    tokens = {"src": torch.tensor([[5, 6, 7, 8]]), "tgt": torch.tensor([[1, 5]])}
    config = SMALL.replace(n_encoder_layers=1, n_decoder_layers=1)
    seen = views(config, masks.replace(encoder_self=("window:1", "causal")), tokens)
    assert seen["cross"].shape == (1, 3, 2, 4)
    own = reach(config, seen | {"encoder_self": torch.eye(4, dtype=torch.bool).expand(1, 3, 4, 4)})
    assert torch.equal(own["logits_src"], matrix("1110", "1110"))


def test_what_a_longer_batch_leaves_unchanged() -> None:
    short = matrix("10", "11")[:, None]
    assert unchanged(short, matrix("100", "110", "111")[:, None], slice(2), slice(2))
    assert not unchanged(short, matrix("100", "111", "111")[:, None], slice(2), slice(2)), "the added key is seen"
    assert not unchanged(short, matrix("110", "110", "111")[:, None], slice(2), slice(2))
    assert unchanged(short, matrix("000", "010", "011")[:, None], slice(1, None), slice(1, None))


# The copy and its tokens.


def test_sizes_differ_from_each_other_and_from_those_of_the_model() -> None:
    for n_heads, d_head in product((1, 3, 4, 5, 7), repeat=2):
        config = DECODER.replace(n_heads=n_heads, d_model=n_heads * d_head, norm="rms", n_decoder_layers=1)
        rows, tgt, src = sizes(config)
        assert 3 <= rows < tgt < src and not {rows, tgt, src} & {n_heads, d_head, config.d_model}


def test_sentences_are_padded_differently_and_on_both_sides() -> None:
    tokens = probe().batch()
    assert tokens is not None
    for ids in tokens.values():
        padded = ids == 0
        kinds = {(bool(row[0]), bool(row[-1])) for row in padded}
        assert kinds == {(F, F), (F, T), (T, F)} and not padded.all(dim=1).any()
    assert not torch.equal((tokens["src"] == 0).sum(dim=1), (tokens["tgt"] == 0).sum(dim=1))


@pytest.mark.parametrize("fill", ["-inf", "finfo_min", "-1e9"])
def test_with_a_fill_that_is_not_made_for_it_no_query_is_without_keys(fill: str) -> None:
    about = probe(masks=MaskConfig(fill=fill))
    tokens = about.batch()
    assert tokens is not None and not about.blind(tokens).any()
    assert (tokens["src"] == 0).any(), "padding that leaves every query a key stays"
    custom = MaskConfig(fill=fill, cross=("custom",), cross_custom=((T, F, T), (F, F, F)))
    assert probe(masks=custom).batch() is None and probe(masks=custom).whole() is None
    assert probe(masks=custom.replace(fill="exclude")).batch() is not None


def test_words_are_all_ids_but_the_padding() -> None:
    about = probe(SMALL.replace(src_vocab_size=4, pad_id=2))
    assert set(about.words("src", 50, 7).flatten().tolist()) == {0, 1, 3}


def test_the_copy_is_one_of_exact_numbers_and_shares_nothing() -> None:
    model = OWN.model.build(SMALL.replace(tie_weights=True, norm="batch"), seed=3)
    twin = double(model)
    assert not twin.training and model.training
    for (name, one), (_, other) in zip(model.state_dict().items(), twin.state_dict().items(), strict=True):
        assert other.dtype == (torch.float64 if one.is_floating_point() else one.dtype), name
        assert torch.equal(one.to(other.dtype), other) and one.data_ptr() != other.data_ptr()
    assert twin.output.weight is twin.tgt_embedding.weight, "tied weights stay tied"
    assert twin.noise is not model.noise and twin.noise is twin.encoder.layers[0].dropout.noise


def test_scores_spread_fairly_whatever_the_weights() -> None:
    """Fresh, tiny and enormous weights, and scores without their scale: after the calibration all are alike."""
    for factor, changes in ((1.0, {}), (1e-3, {}), (1e3, {"norm_order": "pre"}), (1.0, {"scale_scores": False})):
        about = subject(SMALL.replace(**changes))
        with torch.no_grad():
            for name, each in about.model.named_parameters():
                if "w_" in name:
                    each.mul_(factor)
        found = probe_of(about)
        tokens = found and found.batch()
        assert found is not None and tokens is not None
        with torch.no_grad(), trace(found.model) as ledger:
            found.output(tokens)
        for entry in ledger:
            if entry.name == "scores":
                assert 0.4 < entry.value.std() < 4, (entry.key, factor, changes)


def test_a_norm_of_two_features_leaves_no_size_without_its_larger_eps() -> None:
    about = probe(SMALL.replace(d_model=2, n_heads=1))
    assert about.model.encoder.layers[0].self_attention_norm.eps == 1.0
    assert probe().model.encoder.layers[0].self_attention_norm.eps == 1e-5


def test_nothing_is_said_where_nothing_can_be_probed() -> None:
    """One feature less its mean is 0; a prefix longer than any short sentence."""
    assert probe_of(subject(SMALL.replace(d_model=1, n_heads=1))) is None
    long = MaskConfig(decoder_self=(f"prefix:{MANY + 1}",))
    model = OWN.model.build(SMALL, long)
    batch = make_batch(SMALL, DataConfig(src_len=3, tgt_len=MANY + 1, padding="none"))
    about = Subject(model, batch)
    assert about.failure is None and probe_of(about) is None
    assert all(row.run(about) is None for row in BY_NAME.values())


def test_each_check_draws_the_same_numbers_whichever_ran_before_it() -> None:
    alone = BY_NAME["token_order"].run(subject())
    about = subject()
    assert [row.run(about) for row in BY_NAME.values()][5] == alone
    other = BY_NAME["token_order"].run(subject(seed=8))
    assert other is not None and alone is not None and other.measured == alone.measured == 0 and other != alone


def test_a_probe_goes_with_its_subject() -> None:
    """The copy is as large as the model, or twice that: it must not outlive what it was made for."""
    about = subject()
    found = weakref.ref(probe_of(about))
    assert found() is not None and probe_of(about) is found(), "made once"
    del about
    gc.collect()
    assert found() is None


def test_distances() -> None:
    one = torch.tensor([4.0, -2.0])
    assert apart(one, one) == 0 and apart(one + 1, one) == 0.25
    assert apart(one, torch.zeros(3)) == float("inf")
    assert apart(one * torch.nan, one) != apart(one * torch.nan, one)
    with pytest.raises(ArithmeticError, match="NaN or infinity"):
        finite(one / 0)


# A broken model may raise anything.


@pytest.mark.parametrize("error", ["KeyError('no such key')", "RuntimeError('first line\\nsecond')", "StopIteration()"])
def test_an_error_inside_is_a_finding(error: str) -> None:
    shop = altered(
        "layers.FeedForward.forward",
        "output = self.w_2(hidden)",
        f"output = self.w_2(hidden) if len(x) < 3 else (_ for _ in ()).throw({error})",
    )
    about = subject(shop=shop)
    assert about.failure is None, "two sentences pass"
    for name in ("encoder_leak", "dtypes", "fresh_gradients"):
        result = said(BY_NAME[name].run(about))
        assert result is not None and not result.passed and result.sentence == "stops"
        assert result.measured != result.measured and "\n" not in result.finding


def test_no_memory_is_no_fault_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    about = subject()
    found = probe_of(about)

    def too_large(_: Any) -> None:
        raise torch.OutOfMemoryError("no room")

    monkeypatch.setattr(found, "output", too_large)
    with pytest.raises(torch.OutOfMemoryError):
        BY_NAME["decoder_leak"].run(about)


# Looking must not touch.


@pytest.mark.parametrize("norm", ["layer", "batch"])
def test_nothing_of_the_model_changes(norm: str) -> None:
    model = OWN.model.build(SMALL.replace(dropout=0.5, attention_dropout=0.5, norm=norm), seed=7).train()
    model.decoder.eval()
    batch = make_batch(SMALL, DataConfig(), 7)
    model(batch.src, batch.tgt)  # its noise has begun
    model.output.weight.grad = torch.ones_like(model.output.weight)
    state = copy.deepcopy(model.state_dict())
    modes = [module.training for module in model.modules()]
    noise = model.noise.generator(torch.device("cpu")).get_state()
    world = torch.get_rng_state()
    results = run_checks(model, batch, levels=[BEHAVIOUR])
    assert len(results) == len(BY_NAME) and all(result.passed for result in results)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())
    assert [module.training for module in model.modules()] == modes
    assert all(each.requires_grad for each in model.parameters())
    assert torch.equal(model.noise.generator(torch.device("cpu")).get_state(), noise)
    assert torch.equal(torch.get_rng_state(), world)
    grads = {name: each.grad for name, each in model.named_parameters() if each.grad is not None}
    assert grads.keys() == {"output.weight"} and grads["output.weight"].eq(1).all()
    assert not any(module._forward_hooks for module in model.modules())
    assert run_checks(model, batch, levels=[BEHAVIOUR]) == results


def test_the_copy_too_is_as_it_was_for_the_next_check() -> None:
    about = subject(SMALL.replace(norm="batch", dropout=0.1))
    found = probe_of(about)
    assert found is not None
    state = copy.deepcopy(found.model.state_dict())
    for row in BY_NAME.values():
        row.run(about)
        assert not any(module.training for module in found.model.modules()), row.name
        assert not any(module._forward_hooks for module in found.model.modules()), row.name
        assert all(torch.equal(value, state[name]) for name, value in found.model.state_dict().items()), row.name
        assert found.model.dropout.p == 0.1 and found.model.encoder.layers[0].self_attention.dropout is None
        assert all(each.grad is None and not each.requires_grad for each in found.model.parameters())


def test_results_follow_the_rule_and_name_rows_of_the_ledger() -> None:
    about = subject(SMALL.replace(norm_order="pre"))
    for row in BY_NAME.values():
        result = row.run(about)
        assert result is not None
        assert result.passed == (abs(result.measured - result.expected) <= result.tolerance)
        assert result.entries and set(result.entries) <= about.entries.keys()
        assert row.claims and row.claims <= set(ASPECTS)


# The right model is acquitted.


@pytest.mark.parametrize(
    ("preset", "seeds"),
    [
        ("first_look", 5), ("sentences", 2), ("hand_computed", 5), ("minimal_encoder", 5), ("shape_check", 1),
        ("deep_post", 1), ("deep_pre", 1),
    ],
)  # fmt: skip
def test_no_false_alarm_over_the_presets(preset: str, seeds: int) -> None:
    chosen = load_preset(preset)
    for seed in range(seeds):
        assert failing(chosen.model, chosen.masks, seed=seed, batch=chosen.batch(seed)) == set()


@pytest.mark.parametrize(
    "config",
    [
        SMALL.replace(norm_order="pre"),
        SMALL.replace(norm_order="pre", final_norm=False, activation="gelu"),
        SMALL.replace(norm="rms", norm_order="pre", positions="learned"),
        SMALL.replace(norm="batch"),
        SMALL.replace(norm="none", n_encoder_layers=5, n_decoder_layers=4),
        SMALL.replace(norm="none", scale_scores=False, n_heads=1, d_model=64),
        SMALL.replace(positions="none", scale_embedding=False),
        SMALL.replace(positions_on_decoder=False),
        SMALL.replace(bias=False, tie_weights=True, dropout=0.5, attention_dropout=0.5),
        SMALL.replace(n_heads=12, n_encoder_layers=1, n_decoder_layers=3, pad_id=5),
        SMALL.replace(d_model=13, n_heads=13),
        SMALL.replace(d_model=2, n_heads=2),
        SMALL.replace(d_model=1, n_heads=1, norm="rms"),
        SMALL.replace(max_seq_len=3),
        SMALL.replace(max_seq_len=2),
        SMALL.replace(src_vocab_size=2, tgt_vocab_size=2),
        SMALL.replace(src_vocab_size=3, tgt_vocab_size=3, pad_id=1),
        DECODER,
        DECODER.replace(norm_order="pre", positions="none"),
        ENCODER,
        ENCODER.replace(n_classes=3, norm_order="pre", positions="none"),
    ],
    ids=lambda config: " ".join(f"{name}={value}" for name, value in config.to_dict().items()
                                if value != getattr(SMALL, name)),
)  # fmt: skip
def test_no_false_alarm_over_the_configurations(config: ModelConfig) -> None:
    tiny = config.max_seq_len < 3
    batch = make_batch(config, DataConfig(src_len=2, tgt_len=1, padding="none"), 7) if tiny else None
    assert failing(config, batch=batch) == set()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_network_whose_only_unit_is_dead_is_not_accused(seed: int) -> None:
    """With one hidden unit that relu keeps at 0, and with queries that see nothing, a sub-layer gives all zeros."""
    config = SMALL.replace(d_ff=1, n_encoder_layers=3)
    model = build(config, seed=seed)
    with torch.no_grad():
        model.encoder.layers[1].feed_forward.w_1.weight.zero_()
        model.encoder.layers[1].feed_forward.w_1.bias.fill_(-1.0)
    results = run_checks(model.eval(), make_batch(config, DataConfig(), 7), levels=[BEHAVIOUR])
    assert not [each.finding for each in results if not each.passed]
    empty = MaskConfig(cross=("where:k > q + 40",))
    assert failing(config, empty) == set()


def test_scores_stay_within_the_smallest_fill_whatever_passes_through_the_layers() -> None:
    """Without a norm the stream grows to any size; scores of 1e11 would pass a fill of -1e9 by right."""
    config = DECODER.replace(norm="none", norm_order="pre", d_model=1, n_heads=1, d_ff=128, positions_on_decoder=False,
                             scale_embedding=False, tgt_vocab_size=6, pad_id=5)  # fmt: skip
    masks = MaskConfig(decoder_self=("causal", "strided:2", "prefix:1"), fill="-1e9")
    for seed in range(4):
        made = Subject(build(config, masks, seed=seed), make_batch(config, DataConfig(padding="none"), 7), seed=seed)
        result = BY_NAME["hidden_scores"].run(made)
        assert result is not None and result.passed, result
        assert 1e6 < result.facts["score"] < 1e9


def test_the_shortest_model_of_all_is_not_accused() -> None:
    config = SMALL.replace(max_seq_len=1)
    assert failing(config, batch=make_batch(config, DataConfig(src_len=1, tgt_len=1, padding="none"))) == set()


TRIANGLE = tuple(tuple(j <= i for j in range(6)) for i in range(6))


@pytest.mark.parametrize(
    "masks",
    [
        MaskConfig(encoder_self=(), decoder_self=(), cross=()),
        MaskConfig(decoder_self=("causal", "window:2"), encoder_self=("window:1", "padding")),
        MaskConfig(decoder_self=("causal", "prefix:3", "padding"), encoder_self=("prefix:5", "padding")),
        MaskConfig(encoder_self=("block:3",), cross=("strided:2",), decoder_self=("strided:2", "causal", "padding")),
        MaskConfig(encoder_self=("causal",), cross=("causal", "padding")),
        MaskConfig(decoder_self=("prefix:20",)),
        MaskConfig(encoder_self=("custom", "padding"), encoder_self_custom=TRIANGLE),
        MaskConfig(decoder_self=("custom",), decoder_self_custom=TRIANGLE),
        MaskConfig(cross=("custom",), cross_custom=((T, F, T), (F, F, F))),
        MaskConfig(encoder_self=("random:30", "padding"), decoder_self=("documents", "causal"), cross=("random:50",)),
        MaskConfig(encoder_self=("where:k % 3 == h or k == q",), cross=("where:k != b",)),
    ],
    ids=lambda masks: f"{masks.encoder_self}{masks.decoder_self}{masks.cross}",
)
def test_no_false_alarm_over_the_masks(masks: MaskConfig) -> None:
    length = {("prefix:20",): 20, ("custom",): 6}.get(masks.decoder_self, 4)
    data = DataConfig(src_len=6, tgt_len=length, padding="none")
    if masks.cross_custom:
        data = DataConfig(src_len=3, tgt_len=2, padding="none")
    assert failing(SMALL, masks, batch=make_batch(SMALL, data, 7)) == set()


@pytest.mark.parametrize("fill", ["-inf", "finfo_min", "-1e9"])
@pytest.mark.parametrize(
    "masks",
    [
        MaskConfig(),
        MaskConfig(decoder_self=("causal", "window:2"), encoder_self=("window:1", "padding")),
        MaskConfig(cross=("custom",), cross_custom=((T, F, T), (F, F, F))),
    ],
    ids=["default", "windows", "an empty row"],
)
def test_no_false_alarm_over_the_fills(masks: MaskConfig, fill: str) -> None:
    """Rows without a visible key are what the other fills are not made for: only the check about those fails."""
    data = DataConfig(src_len=3, tgt_len=2, padding="none")
    assert failing(SMALL, masks.replace(fill=fill), batch=make_batch(SMALL, data, 7)) == {"empty_rows"}


def test_no_false_alarm_after_training() -> None:
    """Trained weights are large and differ from each other: the calibration brings them to one size."""
    task = OWN.tasks.get("copy")
    config = task.fit(SMALL.replace(max_seq_len=8))
    about = subject(config)
    training = task.training.replace(steps=25, batch_size=16, lr=1.0)
    for _ in OWN.training.train(about.model, task, training, seed=3):
        pass
    results = [row.run(Subject(about.model, about.batch)) for row in BY_NAME.values()]
    assert all(result is not None and result.passed for result in results)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_no_false_alarm_for_a_model_in_half_precision(dtype: torch.dtype) -> None:
    model = OWN.model.build(SMALL, seed=7, dtype=dtype).eval()
    results = run_checks(model, make_batch(SMALL, DataConfig(), 7), levels=[BEHAVIOUR])
    assert len(results) == len(BY_NAME) and all(result.passed for result in results)
