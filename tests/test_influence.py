"""What a nudged token moves, beside what the masks allow: equal in the library, and not so in its broken copies."""

import pytest
import torch

from transformer_core import faults
from transformer_core.batches import Batch
from transformer_core.checks.influence import influence
from transformer_core.config import MaskConfig, ModelConfig
from transformer_core.model import build
from transformer_core.presets import load_preset
from transformer_core.tasks import get

PRESET = load_preset("first_look")
BATCH = PRESET.batch(7)


def agree(moves: torch.Tensor, may: torch.Tensor) -> bool:
    return torch.equal(moves != 0, may)


@pytest.mark.parametrize(
    ("side", "output", "shape"), [("src", None, (2, 5, 7)), ("src", "memory", (2, 7, 7)), ("tgt", None, (2, 5, 5))]
)
def test_exactly_what_the_masks_allow_moves(side: str, output: str | None, shape: tuple[int, ...]) -> None:
    model = build(PRESET.model, PRESET.masks, seed=7)
    moves, may = influence(model, BATCH, side, output=output)
    assert moves.shape == may.shape == shape
    assert agree(moves, may) and moves[may].min() > 1e-6


def test_what_may_move_by_hand() -> None:
    """Two sentences, the second padded: no place hears of padding, except the padded place of itself."""
    _, may = influence(build(PRESET.model, PRESET.masks), BATCH, "tgt")
    assert may[0].int().tolist() == torch.ones(5, 5).tril().int().tolist()
    assert may[1, :4].int().tolist() == torch.ones(4, 5).tril().int().tolist()
    assert may[1, 4].tolist() == [True] * 5  # the last place is padding, and keeps itself through the residual
    _, source = influence(build(PRESET.model, PRESET.masks), BATCH, "src")
    assert source[0].all() and source[1, :, :4].all() and not source[1, :, 4:].any()


def test_a_window_reaches_further_with_each_layer() -> None:
    config = ModelConfig(architecture="encoder", d_model=12, n_heads=3, d_ff=5, n_encoder_layers=2)
    model = build(config, MaskConfig(encoder_self=["window:1"]), seed=3)
    moves, may = influence(model, Batch(torch.randint(4, 80, (1, 7)), None), "src")
    far = (torch.arange(7)[:, None] - torch.arange(7)).abs()
    assert torch.equal(may[0], far <= 2) and agree(moves, may)


def test_what_one_head_sees_the_output_sees() -> None:
    config = ModelConfig(architecture="decoder", d_model=12, n_heads=3, d_ff=5, n_decoder_layers=1)
    model = build(config, MaskConfig(decoder_self=["causal", "where:q == k or h == 2 and k % 2 == 0"]), seed=3)
    moves, may = influence(model, Batch(None, torch.randint(4, 80, (2, 5))), "tgt")
    assert may[0].int().tolist() == [
        [1, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [1, 0, 1, 0, 0],
        [1, 0, 1, 1, 0],
        [1, 0, 1, 0, 1],
    ]
    assert agree(moves, may)


@pytest.mark.parametrize(
    ("name", "side", "leaks", "dead"),
    [
        ("causal_missing", "tgt", True, False),
        ("causal_sees_next", "tgt", True, False),
        ("causal_on_encoder", "src", False, False),  # through cross-attention the source arrives all the same
        ("padding_ignored", "src", True, False),
        ("mask_on_query_axis", "tgt", False, True),
    ],
)
def test_a_broken_model_disagrees_where_its_fault_is(name: str, side: str, leaks: bool, dead: bool) -> None:
    model = faults.get(name).shop.model.build(PRESET.model, PRESET.masks, seed=7)
    moves, may = influence(model, BATCH, side)
    assert (bool(((moves != 0) & ~may).any()), bool(((moves == 0) & may).any())) == (leaks, dead)


def test_the_encoder_by_itself_shows_a_causal_mask_too_many() -> None:
    model = faults.get("causal_on_encoder").shop.model.build(PRESET.model, PRESET.masks, seed=7)
    moves, may = influence(model, BATCH, "src", output="memory")
    assert ((moves == 0) & may).any() and not ((moves != 0) & ~may).any()


def test_chosen_places_are_the_columns_in_their_order() -> None:
    model = build(PRESET.model, PRESET.masks, seed=7)
    moves, may = influence(model, BATCH, "src", places=[6, 0])
    assert moves.shape == may.shape == (2, 5, 2) and agree(moves, may)
    assert not may[1, :, 0].any() and may[1, :, 1].all()


def test_model_and_torch_are_left_as_they_were() -> None:
    model = build(PRESET.model, PRESET.masks, seed=7).train()
    before = {name: each.clone() for name, each in model.state_dict().items()}
    state = torch.get_rng_state()
    one = influence(model, BATCH, "tgt")[0]
    assert model.training and all(torch.equal(each, before[name]) for name, each in model.state_dict().items())
    assert all(each.grad is None for each in model.parameters()) and torch.equal(torch.get_rng_state(), state)
    assert torch.equal(one, influence(model, BATCH, "tgt")[0]) and not torch.equal(
        one, influence(model, BATCH, "tgt", seed=1)[0]
    )


def test_empty_rows_move_nothing_but_themselves() -> None:
    preset = load_preset("left_padding")
    moves, may = influence(build(preset.model, preset.masks, seed=7), preset.batch(7), "tgt")
    assert agree(moves, may) and may[1, :, 0].tolist() == [True, False, False, False, False]


def test_a_model_in_half_precision_is_looked_at_in_double() -> None:
    model = build(PRESET.model, PRESET.masks, seed=7, dtype=torch.float16)
    moves, may = influence(model, BATCH, "tgt")
    assert moves.dtype == torch.float64 and agree(moves, may)


def test_what_is_not_there_is_refused() -> None:
    model, decoder = build(PRESET.model), build(PRESET.model.replace(architecture="decoder"))
    with pytest.raises(ValueError, match="side is 'memory'; this model and batch have src and tgt"):
        influence(model, BATCH, "memory")
    with pytest.raises(ValueError, match="side is 'src'; this model and batch have tgt"):
        influence(decoder, BATCH, "src")
    with pytest.raises(ValueError, match="tgt cannot move 'memory'; it moves logits here"):
        influence(model, BATCH, "tgt", output="memory")
    with pytest.raises(ValueError, match=r"places are \[7\]; src has the tokens 0 to 6"):
        influence(model, BATCH, "src", places=[7])
    with pytest.raises(ValueError, match="the logits need src and tgt; the batch has src"):
        influence(model, Batch(BATCH.src, None), "src")
    assert influence(model, Batch(BATCH.src, None), "src", output="memory")[0].shape == (2, 7, 7)


def test_a_classifier_is_asked_for_its_memory() -> None:
    task = get("first_last")
    model = build(task.model.replace(n_encoder_layers=1), task.masks, seed=7)
    moves, may = influence(model, task.sample(2, torch.Generator().manual_seed(0)), "src", places=[0])
    assert moves.shape[2] == 1 and agree(moves, may)
