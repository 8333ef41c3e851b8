"""The built-in sentences: what a teacher of either language would look for, held over all of them."""

import re
from collections import Counter

import pytest

from transformer_core import tasks
from transformer_core.translation import builtin, decode_ids, encode
from transformer_core.translation import lexicon as lex
from transformer_core.translation.clauses import Choice
from transformer_core.translation.grammar import PATTERNS, PER_PATTERN, SEED, sentences
from transformer_core.translation.tokens import join, split

PAIRS = sentences()
ENGLISH = {zh: en for zh, en in PAIRS}
KNOWN = frozenset(word for zh, _ in PAIRS for word in zh.split())


def test_there_are_thousands_and_none_twice() -> None:
    assert len(PAIRS) == PER_PATTERN * len(PATTERNS) > 6000
    assert len({zh.replace(" ", "") for zh, _ in PAIRS}) == len(PAIRS)
    for number, pattern in enumerate(PATTERNS.values()):
        pick = Choice(SEED + number)
        assert ENGLISH[pattern(pick)[0]], "each gives its share"


def test_the_words_are_found_again_where_nothing_separates_them() -> None:
    assert [zh for zh, _ in PAIRS if split(zh.replace(" ", ""), "zh", KNOWN) != zh.split()] == []
    assert [en for _, en in PAIRS if join(split(en)) != en] == []


def test_every_word_is_met_often_enough_to_be_learned() -> None:
    for side in (0, 1):
        counts = Counter(word for pair in PAIRS for word in (pair[0].split() if side == 0 else split(pair[1])))
        assert {word: n for word, n in counts.items() if n < 4} == {}
        assert 300 < len(counts) < 450
    corpus = builtin()
    assert all(3 not in src and 3 not in tgt for src, tgt in corpus.train)


def test_sentences_begin_and_end_as_sentences_do() -> None:
    for zh, en in PAIRS:
        assert en[0].isupper() and en[-1] in ".?" and "  " not in en and not re.search(r" [.,?]", en)
        assert zh[-1] in "。？" and (zh[-1] == "？") == (en[-1] == "?")
        assert all(word.isascii() is False for word in zh.split())


@pytest.mark.parametrize(
    "wrong",
    [
        r"\ba [aeiou]",
        r"(?<!')\ban (?!hour)[^aeiou]",
        r"\b(two|three|four|five|few) \w*[^s\W]( at| in| by| to| for| on|\.)",
        r"\b(he|she|Xiaoming|teacher|doctor|mother|father|neighbour) (are|do|have|run|go|sing|eat|want|like)\b",
        r"\b(I|we|they|children|students) (is|does|has|runs|goes|sings|eats|wants|likes)\b",
        r"\bI (are|is|were)\b",
        r"\b(will|can|cannot|should|must|did not|do not|does not) (ate|ran|sang|drank|bought|wrote|took|saw|met)\b",
        r"\b(to to|the the|in in|at at)\b",
        r"\bmore \w+er\b",
        r"\b(than|with|for|to) (I|he|she|we|they)\b",
    ],
)
def test_no_english_sentence_has_this_mistake(wrong: str) -> None:
    statements = [en for en in ENGLISH.values() if not re.search(r"\b(did|does|do|when will) (?!not)", en.lower())]
    assert len(statements) > 5000
    assert [en for en in statements if re.search(wrong, en)] == []


def test_number_and_noun_have_the_right_measure_word_between_them() -> None:
    measures = {noun.zh: noun.measure for noun in lex.NOUNS.values()}
    seen = Counter()
    for zh, _ in PAIRS:
        words = zh.split()
        for number, measure, noun in zip(words, words[1:], words[2:], strict=False):
            if number in {zh for zh, _ in lex.NUMBERS} | {"这", "那"} and noun in measures:
                assert measures[noun] == measure, zh
                seen[measure] += 1
    assert len(seen) > 12 and seen.total() > 1000


def test_the_orders_differ_as_they_do_between_the_languages() -> None:
    """Where a time or place comes behind the verb in English, it stands before it in Chinese."""
    times = {zh: en for zh, en in (*lex.PAST, *lex.FUTURE, *lex.HABIT, *lex.LONG_AGO, *lex.FAR)}
    moved = 0
    for zh, en in PAIRS:
        here = [
            time for time, words in times.items() if en.rstrip(".?").endswith(f" {words}") and f" {time} " in f" {zh} "
        ]
        # Behind the time come the verb, what is done to it, and the full stop, at least.
        moved += bool(here) and len(zh.split(max(here, key=len), maxsplit=1)[1].split()) >= 3
    assert f"in {moved:,} of the {len(PAIRS):,} built-in pairs" in tasks.get("translation").lesson
    for sign, n in (("把", 400), ("被", 280), ("比", 100), ("吗", 280), ("的", 1000), ("跟", 280)):
        assert sum(sign in zh.split() for zh, _ in PAIRS) > n, sign


@pytest.mark.parametrize(
    ("zh", "en"),
    [
        (r"^(\S+ )?\S+ 把 .* 放 在 桌子 上 了 。$", r" put .* on the table "),
        (r"被 小偷 偷走 了 。$", r" stolen by a thief"),
        (r" 有 几 \S+ \S+ ？$", r"^How many \w+ are there (on|in) the "),
        (r"在 哪里 ", r"^Where "), (r"什么 时候", r"^When will "), (r"为什么", r"^Why "), (r"谁 在", r"^Who "),
        (r"了 什么 ？$", r"^What did "), (r"^因为 .* 所以", r" because "),
        (r"^虽然 .* 但是", r"^Although .* still went "),
        (r"^如果", r"^If "), (r"正在 .* 的 女孩 是", r"^The girl who is "), (r"从来 不", r" never "),
        (r" 得 多 。$", r" much "),
    ],
)  # fmt: skip
def test_what_is_turned_round_is_said_the_english_way(zh: str, en: str) -> None:
    found = [pair for pair in PAIRS if re.search(zh, pair[0])]
    assert len(found) >= 3 and [pair for pair in found if not re.search(en, pair[1])] == []


def test_the_same_sentences_come_out_every_time() -> None:
    name, pattern = next(iter(PATTERNS.items()))
    assert name == "past_event" and pattern(Choice(SEED))[0] == PAIRS[0][0]
    assert [Choice(3)("abcdefg") for _ in range(3)] == ["b"] * 3
    pick = Choice(3)
    assert "".join(pick("abcdefg") for _ in range(7)) == "bdceeaa"


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_the_corpus_can_be_learned_in_both_directions(direction: str) -> None:
    corpus = builtin(direction)
    assert corpus is builtin(direction) and corpus.name == "built-in" and corpus.options["direction"] == direction
    assert len(corpus.train) + len(corpus.held_out) == len(PAIRS) and len(corpus.held_out) >= 315
    assert not {src for src, _ in corpus.train} & {src for src, _ in corpus.held_out}
    assert corpus.options["languages"] == (("zh", "other") if direction == "forward" else ("other", "zh"))
    written = [decode_ids(corpus, tgt) for _, tgt in corpus.held_out]
    assert sum(a != b for a, b in zip(written, corpus.references, strict=True)) <= 2, "words that training never shows"
    one = "我爸爸昨天在公园里看见了一只狗。" if direction == "forward" else "My father saw a dog in the park yesterday."
    assert 3 not in encode(corpus, one)
