"""A changed line reaches everything built on it, and nothing else."""

import pytest
import torch

from transformer_core import load_preset, trace, workshop
from transformer_core.workshop import MODULES, OWN, Workshop, altered

PRESET = load_preset("first_look")
MERGE = (
    "attention.MultiHeadAttention.merge",
    "heads.transpose(1, 2).flatten(2)",
    "heads.flip(1).transpose(1, 2).flatten(2)",
)


def outcome(shop: Workshop) -> torch.Tensor:
    batch = PRESET.batch(7)
    with torch.no_grad():
        return shop.model.build(PRESET.model, PRESET.masks, seed=7)(batch.src, batch.tgt)


def test_a_changed_method_changes_the_model_and_leaves_the_library_as_it_was() -> None:
    before = outcome(OWN)
    changed = outcome(altered(*MERGE))
    assert changed.shape == before.shape and not torch.equal(changed, before)
    assert torch.equal(outcome(OWN), before)


def test_a_line_that_means_the_same_gives_the_same_numbers() -> None:
    same = altered(MERGE[0], MERGE[1], "heads.movedim(1, 2).flatten(2)")
    assert torch.equal(outcome(same), outcome(OWN))


@pytest.mark.parametrize(
    "place, right, wrong",
    [
        ("masks.causal", "key <= query", "key <= query + 1"),
        ("positions.Positions.forward", "x + positions", "x - positions"),
        (
            "layers.Layer.residual",
            "total = x + self.dropout(sublayer(x))\n            note",
            "total = x\n            note",
        ),
        ("model.Transformer.embed", "x * math.sqrt", "x / math.sqrt"),
    ],
)
def test_a_change_at_any_height_reaches_the_model(place: str, right: str, wrong: str) -> None:
    assert not torch.equal(outcome(altered(place, right, wrong)), outcome(OWN))


def test_what_stands_below_the_change_is_the_librarys_own() -> None:
    shop = altered(
        "layers.Layer.residual",
        'note(f"{name}_norm", normed, "B n D")\n            return normed',
        "\n            return normed",
    )
    assert shop.attention is OWN.attention and shop.masks is OWN.masks
    assert shop.layers is not OWN.layers and shop.training is not OWN.training


def test_a_change_in_a_task_reaches_the_table_of_tasks_and_the_training() -> None:
    shop = altered("tasks.base.shift", "return target[:, :-1], target[:, 1:]", "return target[:, 1:], target[:, 1:]")
    batch = shop.tasks.get("copy").sample(3, torch.Generator().manual_seed(5))
    assert torch.equal(batch.tgt, batch.labels)
    own = OWN.tasks.get("copy").sample(3, torch.Generator().manual_seed(5))
    assert torch.equal(own.labels, batch.labels) and not torch.equal(own.tgt, own.labels)
    task = shop.tasks.get("copy")
    report = next(shop.training.train(shop.model.build(task.model, task.masks), task, task.training, seed=3))
    assert report.step == 1


def test_the_ledger_still_names_the_line_in_the_file() -> None:
    shop, batch = altered(*MERGE), PRESET.batch(7)
    lines = []
    for each in (shop, OWN):
        model = each.model.build(PRESET.model, PRESET.masks, seed=7)
        with torch.no_grad(), trace(model) as ledger:
            model(batch.src, batch.tgt)
        lines.append([(entry.key, entry.source) for entry in ledger])
    assert lines[0] == lines[1]


def test_the_changed_text_is_kept_and_differs_in_one_line() -> None:
    ((path, text),) = altered(*MERGE).texts.items()
    own = workshop.source("attention").splitlines()
    changed = [i for i, (one, other) in enumerate(zip(own, text.splitlines(), strict=True)) if one != other]
    assert path.endswith("attention.py") and len(changed) == 1 and MERGE[2] in text.splitlines()[changed[0]]


@pytest.mark.parametrize(
    "place, right, wrong, text",
    [
        ("config.ModelConfig", "64", "65", "is in none of masks"),
        ("attention.absent", "64", "65", "attention has no absent"),
        ("attention.attend", "no such line", "", "stands 0 times in attention.attend"),
        ("attention.attend", "note(", "print(", "stands 7 times in attention.attend"),
        ("masks.causal", "key <= query", "key\n<= query", "differ in their number of lines"),
    ],
)
def test_what_cannot_be_changed_is_refused(place: str, right: str, wrong: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        altered(place, right, wrong)


def test_every_module_between_changeable_ones_is_changeable() -> None:
    """Else a change would not reach what stands on it: all that they import must be read anew or be below them."""
    from tests.test_rooms import MODULES as ALL
    from tests.test_rooms import imports

    names = {f"transformer_core.{each}" for each in MODULES}
    needed = set(names)
    while further := {each for name in needed for each in imports(name) & ALL.keys()} - needed:
        needed |= further
    for name in sorted(needed - names):
        assert not imports(name) & names, f"{name} stands between the modules of workshop.MODULES"
