"""Tasks: every answer worked out again in plain Python, every share counted, every chance level reached."""

import dataclasses
import math
import pickle
import re
from collections import Counter

import pytest
import torch

from transformer_core import tasks
from transformer_core.batches import Batch
from transformer_core.config import ConfigError, ModelConfig
from transformer_core.model import build
from transformer_core.tasks import Task
from transformer_core.training import loss_and_accuracy

EVERY = pytest.mark.parametrize("task", tasks.TASKS.values(), ids=list(tasks.TASKS))
LETTERS = pytest.mark.parametrize("name", ["copy", "reverse"])
MANY = 20_000


def draw(task: Task | str, n: int, seed: int = 7) -> Batch:
    task = tasks.get(task) if isinstance(task, str) else task
    return task.sample(n, torch.Generator().manual_seed(seed))


def within(share: float, expected: float, n: int) -> bool:
    """Four standard errors: a true share fails once in 16,000 seeds, and this seed is fixed."""
    return abs(share - expected) <= 4 * math.sqrt(expected * (1 - expected) / n)


# ---- the questions and their answers


@LETTERS
def test_every_answer_is_the_word_rewritten_and_the_end(name):
    batch = draw(name, 211)
    assert batch.src.shape == (211, 7) and batch.tgt.shape == batch.labels.shape == (211, 8)
    for src, tgt, labels in zip(batch.src.tolist(), batch.tgt.tolist(), batch.labels.tolist(), strict=True):
        word = [token for token in src if token]
        assert src == word + [0] * (7 - len(word)) and 3 <= len(word) <= 7 and set(word) <= set(range(4, 14))
        answer = word if name == "copy" else word[::-1]
        padding = [0] * (7 - len(word))
        assert labels == [*answer, 2, *padding]
        assert tgt == [1, *answer, 2, *padding][:8]


@LETTERS
def test_lengths_and_letters_are_equally_likely(name):
    words = [[token for token in row if token] for row in draw(name, MANY).src.tolist()]
    lengths, letters = Counter(map(len, words)), Counter(token for word in words for token in word)
    assert set(lengths) == {3, 4, 5, 6, 7} and set(letters) == set(range(4, 14))
    assert all(within(count / MANY, 1 / 5, MANY) for count in lengths.values())
    assert all(within(count / letters.total(), 1 / 10, letters.total()) for count in letters.values())


def test_first_last_is_labelled_by_comparing_the_two_tokens():
    batch = draw("first_last", 211)
    assert batch.src.shape == (211, 12) and batch.tgt is None and batch.labels.shape == (211,)
    assert [int(row[0] == row[-1]) for row in batch.src.tolist()] == batch.labels.tolist()
    assert batch.src.min() >= 4 and batch.src.max() <= 63


def test_first_last_is_balanced_and_no_token_gives_the_answer_away():
    batch = draw("first_last", MANY)
    first, last, differ = batch.src[:, 0], batch.src[:, -1], batch.labels == 0
    assert within(differ.float().mean().item(), 1 / 2, MANY)
    for tokens, of in ((first, MANY), (last, MANY), (last[differ], int(differ.sum()))):
        counts = Counter(tokens.tolist())
        assert set(counts) == set(range(4, 64)) and all(within(count / of, 1 / 60, of) for count in counts.values())
    distances = Counter(((last - first) % 60)[differ].tolist())
    assert set(distances) == set(range(1, 60))


@EVERY
def test_a_seed_gives_one_batch_and_nobody_else_s_random_numbers_move(task):
    state = torch.get_rng_state()
    one, same, other = draw(task, 5), draw(task, 5), draw(task, 5, seed=8)
    for field in ("src", "tgt", "labels"):
        value = getattr(one, field)
        assert value is None or (value.dtype == torch.int64 and torch.equal(value, getattr(same, field)))
    assert not torch.equal(one.src, other.src)
    assert torch.equal(torch.get_rng_state(), state)


@EVERY
@pytest.mark.parametrize(("size", "text"), [(0, "batch_size is 0"), (2.5, "whole number, got 2.5"), (True, "got true")])
@pytest.mark.usefixtures("unchecked_shapes")
def test_a_batch_of_no_size_is_refused(task, size, text):
    with pytest.raises(ConfigError, match=text):
        task.sample(size, torch.Generator())


# ---- what guessing gives


@EVERY
def test_the_odds_are_those_of_the_labels(task):
    labels = draw(task, MANY).labels.reshape(MANY, -1)
    real = labels >= 0 if task.model.n_classes else labels != 0
    assert sum(map(sum, task.odds)) == pytest.approx(1)
    for place, odds in enumerate(task.odds):
        for answer, expected in enumerate(odds):
            share = ((labels[:, place] == answer) & real[:, place]).sum().item() / int(real.sum())
            assert within(share, expected, MANY), (place, answer)


@EVERY
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_model_that_weighs_every_answer_equally_has_exactly_the_chance_loss(task, smoothing):
    model = build(task.model, task.masks, seed=7).double()
    head = model.output if task.model.has_decoder else model.classifier
    with torch.no_grad():
        head.weight.zero_(), head.bias.zero_()
        loss, _ = loss_and_accuracy(model, draw(task, 50), smoothing)
    assert loss.item() == pytest.approx(task.chance_loss, abs=1e-12)
    assert task.chance_loss == math.log(head.weight.shape[0]) and task.chance_accuracy == 1 / head.weight.shape[0]


@EVERY
def test_even_guesses_are_right_as_often_as_stated(task):
    labels = draw(task, MANY).labels
    guesses = torch.randint(task.n_answers, labels.shape, generator=torch.Generator().manual_seed(1))
    right = (guesses == labels)[labels != (-1 if task.model.n_classes else 0)]
    assert within(right.float().mean().item(), task.chance_accuracy, right.numel())


@EVERY
def test_who_never_reads_the_source_gets_no_further_than_the_blind_level(task):
    """The best such answers, taken from the counts of one sample, are tried on another."""
    seen, asked = (draw(task, MANY, seed).labels.reshape(MANY, -1) for seed in (1, 2))
    padding = -1 if task.model.n_classes else 0
    right, losses = [], []
    for place in range(seen.shape[1]):
        known, wanted = (labels[:, place][labels[:, place] != padding] for labels in (seen, asked))
        counts = known.bincount(minlength=task.n_answers).float()
        right.append(wanted == counts.argmax())
        losses.append(-(counts / counts.sum()).log()[wanted])
    assert torch.cat(right).float().mean().item() == pytest.approx(task.blind_accuracy, abs=0.01)
    assert torch.cat(losses).mean().item() == pytest.approx(task.blind_loss(), abs=0.01)
    assert task.chance_accuracy <= task.blind_accuracy < 0.6 and task.blind_loss() <= task.chance_loss


def test_the_blind_levels_by_hand():
    assert (tasks.get("first_last").blind_accuracy, tasks.get("first_last").blind_loss()) == (0.5, math.log(2))
    # A word of n letters has ln 10 of surprise in each, and its length ln 5 in all: spread over n + 1 = 6 labels.
    assert tasks.get("copy").blind_loss() == pytest.approx((5 * math.log(10) + math.log(5)) / 6)
    # Places 0 to 2: one letter in ten. 3: the end or not, 1/5. 4 to 7: the end, if there is still something to come.
    assert tasks.get("copy").blind_accuracy == pytest.approx((3 / 10 + 5 * 1 / 5) / 6)


@EVERY
def test_smoothing_lifts_the_blind_level_but_never_above_chance(task):
    levels = [task.blind_loss(smoothing) for smoothing in (0.0, 0.1, 0.5, 0.999)]
    assert levels == sorted(levels) and levels[-1] <= task.chance_loss
    assert levels[-1] == pytest.approx(task.chance_loss, abs=1e-3)


# ---- what a task asks of a model


@EVERY
def test_the_recipe_fits_and_the_tokens_fit_in(task):
    assert task.fit(task.model) == task.model and task.training.task == task.name
    task.check(task.model)
    batch = draw(task, 3)
    sides = [None if side is None else side.to("meta") for side in (batch.src, batch.tgt)]
    logits = build(task.model, task.masks, device="meta")(*sides)
    assert logits.shape == (*batch.labels.shape, task.n_answers)


@EVERY
def test_fit_decides_what_the_task_needs_and_keeps_every_other_choice(task):
    mine = ModelConfig(
        architecture="decoder", d_model=48, n_heads=6, n_encoder_layers=1, n_decoder_layers=3, d_ff=50, dropout=0.2,
        norm_order="pre", activation="gelu", positions="learned", max_seq_len=99, n_classes=5,
    )  # fmt: skip
    fitted = task.fit(mine)
    changed = {key for key, value in fitted.to_dict().items() if value != getattr(mine, key)}
    allowed = {"architecture", "src_vocab_size", "tgt_vocab_size", "n_classes"}
    assert changed <= allowed and fitted.max_seq_len == 99
    task.check(fitted)
    assert task.fit(mine.replace(max_seq_len=2)).max_seq_len == task.model.max_seq_len


@pytest.mark.parametrize(
    ("name", "changes", "text"),
    [
        ("copy", {"architecture": "encoder"}, "copy needs architecture encoder_decoder, and the model has encoder; "),
        ("reverse", {"tgt_vocab_size": 97}, r"tgt_vocab_size 14, and the model has 97; tasks.get\('reverse'\).fit"),
        ("copy", {"max_seq_len": 5}, "max_seq_len 8, and the model has 5"),
        ("first_last", {"n_classes": 3}, "n_classes 2, and the model has 3"),
    ],
)
def test_a_model_that_does_not_fit_is_refused_with_the_way_out(name, changes, text):
    task = tasks.get(name)
    with pytest.raises(ValueError, match=text):
        task.check(task.model.replace(**changes))


def test_an_unused_side_of_the_model_does_not_matter():
    task = tasks.get("first_last")
    task.check(task.model.replace(tgt_vocab_size=5))


def test_without_positions_first_last_is_the_question_whether_the_first_token_comes_again():
    """The limit that the task states, found by playing the best such answer; and a model that is bound by it."""
    batch = draw("first_last", MANY)
    again = (batch.src[:, 1:] == batch.src[:, :1]).any(dim=1)
    limit = 1 - (1 - (59 / 60) ** 10) / 2
    assert within((again == (batch.labels == 1)).float().mean().item(), limit, MANY)
    assert f"{limit:.1%}" == "92.3%" and "92.3 %" in tasks.get("first_last").needs

    task = tasks.get("first_last")
    model = build(task.model.replace(positions="none"), seed=7).double().eval()
    mixed = torch.cat([batch.src[:50, :1], batch.src[:50, 1:][:, torch.randperm(11)]], dim=1)
    torch.testing.assert_close(model(mixed), model(batch.src[:50]), atol=1e-12, rtol=0)


@LETTERS
def test_without_positions_a_word_is_only_its_letters(name):
    """Whatever order they stand in, the decoder is told the same: nobody could copy or reverse from that."""
    task = tasks.get(name)
    batch = draw(name, 20)
    mixed = batch.src.clone()
    for row, src in enumerate(batch.src.tolist()):
        word = [token for token in src if token]
        mixed[row, : len(word)] = torch.tensor(word[1:] + word[:1])
    assert not torch.equal(mixed, batch.src)
    model = build(task.model.replace(positions="none"), seed=7).double().eval()
    torch.testing.assert_close(model(mixed, batch.tgt), model(batch.src, batch.tgt), atol=1e-12, rtol=0)


# ---- how it prints and what counts as right


@EVERY
def test_every_id_has_a_sign_of_its_own(task):
    assert len(set(task.symbols)) == len(task.symbols) == task.model.src_vocab_size
    assert task.symbols[:4] == ("∅", "⟨s⟩", "⟨/s⟩", "⟨?⟩")


def test_tokens_print_as_tensor_and_as_lists_of_any_length():
    task = tasks.get("copy")
    assert task.describe_tokens(torch.tensor([[1, 4, 13], [5, 2, 0]])) == [["⟨s⟩", "a", "j"], ["b", "⟨/s⟩", "∅"]]
    assert task.describe_tokens([[4], [5, 6], []]) == [["a"], ["b", "c"], []]
    assert tasks.get("first_last").describe_tokens([[4, 63]]) == [["4", "63"]]


@pytest.mark.parametrize("token", [-1, 14])
def test_an_id_without_a_sign_is_refused(token):
    with pytest.raises(ConfigError, match=rf"row 2, position 1 holds the id {token}, but .* 14: ids go from 0 to 13"):
        tasks.get("copy").describe_tokens([[4], [token]])


@pytest.mark.parametrize(
    ("answer", "right"),
    [
        ([4, 5, 2, 0], True),
        ([4, 5, 2], True),
        ([4, 5, 2, 0, 0, 0], True),
        ([4, 5, 0, 0], False),  # not ended
        ([4, 5], False),
        ([4, 5, 2, 5], False),  # something behind the end
        ([4, 5, 2, 0, 2], False),
        ([5, 4, 2, 0], False),
    ],
)
def test_an_answer_is_right_to_its_end_or_wrong(answer, right):
    match = tasks.get("copy").exact_match(torch.tensor([answer]), torch.tensor([[4, 5, 2, 0]]))
    assert match.tolist() == [right]


def test_classes_are_right_one_by_one():
    match = tasks.get("first_last").exact_match(torch.tensor([0, 1, 1]), torch.tensor([0, 0, 1]))
    assert match.tolist() == [True, False, True]


# ---- the registry


def test_the_register_names_the_nearest():
    assert list(tasks.TASKS) == ["first_last", "copy", "reverse"]
    text = "no task 'revers'; the tasks are first_last, copy, reverse. The nearest is reverse."
    with pytest.raises(ValueError, match=re.escape(text)):
        tasks.get("revers")
    with pytest.raises(TypeError):
        tasks.TASKS["mine"] = tasks.get("copy")


@EVERY
def test_texts_stand_in_both_languages_and_the_task_can_be_sent_elsewhere(task):
    for field in ("title", "needs", "lesson"):
        english, chinese = getattr(task, field), getattr(task, f"{field}_zh")
        assert english and english.isprintable() and english != chinese
        assert any("一" <= sign <= "鿿" for sign in chinese) and not any("一" <= sign <= "鿿" for sign in english)
    twin = pickle.loads(pickle.dumps(task))
    assert torch.equal(draw(twin, 3).src, draw(task, 3).src)
    with pytest.raises(dataclasses.FrozenInstanceError):
        task.name = "other"
