"""Sentence pairs, words and corpora: what a file may be, what becomes of it, and what a hostile one cannot do."""

import base64
import copy
import importlib.util
import json
import pickle
import zlib
from collections import Counter

import pytest

from transformer_core.translation import Corpus, Pairs, decode_ids, encode, make_corpus, pack, read_pairs, unpack
from transformer_core.translation.corpus import FORMAT
from transformer_core.translation.making import key_of, vocabulary
from transformer_core.translation.pairs import MAX_BYTES, MAX_LINE
from transformer_core.translation.tokens import clean, join, language_of, simplified, split

needs_opencc = pytest.mark.skipif(importlib.util.find_spec("opencc") is None, reason="OpenCC is not installed")
WORDS = ("猫", "狗", "鸟", "看见", "喜欢", "红", "大", "我", "你", "的")


ENGLISH = {"猫": "cat", "狗": "dog", "鸟": "bird"}


def dropped(pairs: Pairs) -> dict[str, tuple[int, tuple[int, ...]]]:
    return {each.reason: (each.count, each.lines) for each in pairs.dropped}


def animals() -> str:
    """55 distinct pairs; every source but one in seven has two translations, and is written in two ways."""
    lines = []
    kinds = [
        (who, what, how) for who in "我你" for what in ("猫", "狗", "鸟") for how in ("看见", "喜欢", "红", "大", "的")
    ]
    for n, (who, what, how) in enumerate(kinds):
        lines.append(f"Number {n} {ENGLISH[what]} one.\t{who}{how}{what}。")
        if n % 7:
            lines.append(f"Number {n} {ENGLISH[what]} two.\t{who}{how}{what}！")
    return "\n".join(lines)


# ---- reading


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-be-mark"])
def test_lines_end_as_they_like_and_a_mark_in_front_is_no_letter(end: str, encoding: str) -> None:
    text = end.join(["Hi.\t嗨。", "Run!\t跑！\tCC-BY 2.0 #12 (x) & #34 (y)", ""])
    raw = b"\xfe\xff" + text.encode("utf-16-be") if encoding == "utf-16-be-mark" else text.encode(encoding)
    for data in (raw, text) if encoding == "utf-8" else (raw,):
        pairs = read_pairs(data)
        assert (pairs.sources, pairs.targets, pairs.lines) == (("嗨。", "跑！"), ("Hi.", "Run!"), (1, 2))
        assert (pairs.read, pairs.dropped, pairs.languages) == (2, (), ("zh", "other"))


def test_either_column_may_be_the_source() -> None:
    there, back = "Hi.\t嗨。\nBye.\t再见。", "嗨。\tHi.\n再见。\tBye."
    for text in (there, back):
        assert read_pairs(text).sources == ("嗨。", "再见。")
        assert read_pairs(text).backward().sources == ("Hi.", "Bye.")
    assert read_pairs(there, source=0).sources == read_pairs(back, source=1).sources == ("Hi.", "Bye.")
    assert read_pairs(there, source=1).languages == ("zh", "other")
    german = read_pairs("Hi.\tHallo.\nBye.\tTschüss.")
    assert german.sources == ("Hi.", "Bye.") and german.languages == ("other", "other")


def test_what_is_left_out_is_named_with_its_line() -> None:
    lines = [
        "Hi.\t嗨。", "", "Hi.\t嗨。", "alone", "\t只有中文。", "Only English.\t  ", "a\tb\tc\td", "Hi.\t你好。",
        "  \t ",
        "A\x00b.\t不。", "x" * (MAX_LINE + 1) + "\t长。", "Hi.\t嗨。\tCC", "lost �\t丢。",
    ]  # fmt: skip
    pairs = read_pairs("\n".join(lines))
    assert pairs.targets == ("Hi.", "Hi.") and pairs.sources == ("嗨。", "你好。") and pairs.lines == (1, 8)
    assert dropped(pairs) == {
        "blank": (2, (2, 9)), "long_line": (1, (11,)), "sign": (2, (10, 13)), "columns": (2, (4, 7)),
        "one_side": (2, (5, 6)), "twice": (2, (3, 12)),
    }  # fmt: skip
    assert pairs.read == 13 == len(pairs) + sum(each.count for each in pairs.dropped)
    assert str(pairs.dropped[-1]) == "pairs that stood there before: 2 (lines 3, 12)"


def test_signs_that_nobody_sees_make_no_second_pair() -> None:
    pairs = read_pairs("Hi there.\t嗨。\nHi\u200b  there.\t\ufeff嗨。\nHi\u00a0there.\t嗨。 ")
    assert len(pairs) == 1 and pairs.targets == ("Hi there.",)
    assert clean("冷了\u200b\u200b。\u3000好") == "冷了。 好"


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ("", "no sentence pair was found in 0 lines"),
        ("one column\nonly", "no sentence pair was found in 2 lines; each line needs a sentence, a tab and its transl"),
        ("Hi.\t嗨。\nBye.\t再见。".encode("gb18030"), "not UTF-8: line 1 holds the byte .0x"),
        ("Hi.\tYo.\nA.\tB.\nC.\t再见。".encode("gb18030"), "not UTF-8: line 3 holds the byte .0x"),
        (b"\xff\xfeH", "not UTF-8"),
        (bytes(range(256)), "not UTF-8"),
    ],
)
def test_a_file_that_is_none_is_refused_with_one_sentence(data: str | bytes, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        read_pairs(data)


def test_size_and_lines_are_limited_and_the_column_is_one_of_two() -> None:
    with pytest.raises(ValueError, match="at most 67,108,864 are read"):
        read_pairs(b"x" * (MAX_BYTES + 1))
    with pytest.raises(ValueError, match="the file has 4 lines; at most 3 are read here"):
        read_pairs("a\tb\n" * 4, max_lines=3)
    for column in (2, -1, True, "first"):
        with pytest.raises(ValueError, match="it can be 'auto', 0"):
            read_pairs("a\tb", source=column)


# ---- words


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        ("I don't know.", ["I", "don't", "know", "."]),
        ("It's 10:30, isn't it?", ["It's", "10:30", ",", "isn't", "it", "?"]),
        ("The well-known Mr. Hill (he, 3.5 m) left...",
         ["The", "well-known", "Mr", ".", "Hill", "(", "he", ",", "3.5", "m", ")", "left", ".", ".", "."]),
        ('"No," he said, "never!"', ['"', "No", ",", '"', "he", "said", ",", '"', "never", "!", '"']),
        ("“Yes,” she said.", ["“", "Yes", ",", "”", "she", "said", "."]),
        ("C'est à toi, Zoë?", ["C'est", "à", "toi", ",", "Zoë", "?"]),
        ("100% of 1,000 cost $5 and/or more", ["100", "%", "of", "1,000", "cost", "$", "5", "and", "/", "or", "more"]),
    ],
)  # fmt: skip
def test_a_sentence_is_cut_into_words_and_put_together_again(sentence: str, words: list[str]) -> None:
    assert split(sentence) == words and join(words) == sentence


def test_chinese_is_cut_by_rjieba_and_nothing_is_lost() -> None:
    for sentence in ("我昨天在图书馆看了三本书。", "Tom在波士頓住了３年，對嗎？", "我們 去吧！"):
        words = split(sentence, "zh")
        assert "".join(words) == sentence.replace(" ", "") and max(map(len, words)) > 1
        assert join(words, "zh") == sentence.replace(" ", "")


def test_chinese_is_cut_at_the_longest_known_word() -> None:
    known = {"北京", "北京大学", "大学", "学生", "我", "是"}
    assert split("我是北京大学学生Tom2。", "zh", known) == ["我", "是", "北京大学", "学生", "Tom2", "。"]
    assert split("北京大学生", "zh", known) == ["北京大学", "生"]
    assert split(" 我 是 ", "zh", known) == ["我", "是"]


def test_a_language_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="it can be zh or other"):
        split("Hi", "en")


def test_one_chinese_word_makes_no_chinese_side() -> None:
    assert language_of(["Hi", "She said 你好.", "Bye"]) == "other" and language_of([]) == "other"


@needs_opencc
def test_traditional_and_simplified_become_one() -> None:
    assert simplified("我找不到我的傘。頭髮") == "我找不到我的伞。头发"
    text = "My umbrella.\t我的傘。\nMy hat.\t我的帽子。\nMy book.\t我的書。\nMy book!\t我的书！\nA.\t伞的书。"
    corpus = make_corpus(read_pairs(text), min_count=1, simplified=True, held_out_share=0.2, words=["的", "我"])
    assert not {"傘", "書"} & set(corpus.src_symbols) and corpus.options["simplified"]
    assert encode(corpus, "我的書") == encode(corpus, "我的书")


# ---- the corpus


@pytest.mark.parametrize("seed", range(11))
def test_no_source_is_on_both_sides(seed: int) -> None:
    pairs = read_pairs(animals())
    corpus = make_corpus(pairs, min_count=1, held_out_share=0.2, seed=seed, words=WORDS)
    sides = [
        {key_of("".join(corpus.src_symbols[i] for i in src)) for src, _ in part}
        for part in (corpus.train, corpus.held_out)
    ]
    assert not sides[0] & sides[1] and len(corpus.train) + len(corpus.held_out) == len(pairs)
    assert len(sides[0]) < len(corpus.train), "some sources have two translations"
    assert 0.2 * len(pairs) <= len(corpus.held_out) <= 0.2 * len(pairs) + 1
    twin = make_corpus(pairs, min_count=1, held_out_share=0.2, seed=seed, words=WORDS)
    assert twin == corpus and hash(twin) == hash(corpus)
    assert corpus != make_corpus(pairs, min_count=1, held_out_share=0.2, seed=seed + 1, words=WORDS)


def test_sources_that_read_alike_once_rare_words_are_unknown_are_not_on_both_sides() -> None:
    text = "\n".join(f"He is {name}.\tEr ist {name}." for name in "ABCDEFGHIJKLMNOPQRSTUVWXYZ") + "\nIs he?\tEr ist ."
    corpus = make_corpus(read_pairs(text), min_count=2, held_out_share=0.5, seed=2)
    assert not {src for src, _ in corpus.train} & {src for src, _ in corpus.held_out}
    reasons = {each["reason"]: each["count"] for each in corpus.report["dropped"]}
    assert reasons["seen"] > 3 and corpus.report["held_out"] == len(corpus.held_out) < 4


def test_vocabularies_come_from_training_alone() -> None:
    pairs = read_pairs(animals())
    corpus = make_corpus(pairs, min_count=1, held_out_share=0.3, words=WORDS)
    learned = {i for _, tgt in corpus.train for i in tgt}
    assert learned == set(range(4, len(corpus.tgt_symbols)))
    elsewhere = {word for each in corpus.references for word in split(each)} - set(corpus.tgt_symbols)
    assert elsewhere and all(word.isdigit() for word in elsewhere), "numbers that are only there, so unknown"
    assert any(3 in tgt for _, tgt in corpus.held_out)
    assert corpus.report["unknown"]["tgt_train"] == 0 < corpus.report["unknown"]["tgt_held_out"]


def test_rare_words_are_unknown_and_ties_go_by_the_alphabet() -> None:
    sentences = [["c", "a", "b"], ["b", "c", "⟨s⟩", "∅"], ["d", "b"], ["é", "B", "⟨s⟩"]]
    signs = ("∅", "⟨s⟩", "⟨/s⟩", "⟨?⟩")
    assert vocabulary(sentences, 1, 99) == (*signs, "b", "c", "B", "a", "d", "é")
    assert vocabulary(sentences, 2, 99) == (*signs, "b", "c")
    assert vocabulary(sentences, 3, 99) == (*signs, "b") and vocabulary(sentences, 4, 99) == signs
    assert vocabulary(sentences, 1, 3) == (*signs, "b", "c", "B")


def test_long_sentences_and_those_without_a_known_word_are_left_out() -> None:
    lines = [f"{a} {b} {c}.\tx {a} ." for a in "abcd" for b in "abcd" for c in "abcd"]
    lines[7], lines[11], lines[13] = "a b c d a b c\tx", "q r\tx a .", "a b\tx y z x y z x"
    held_out = make_corpus(read_pairs("\n".join(lines)), max_length=6, min_count=3, held_out_share=0.1, seed=1)
    found = {each["reason"]: each["lines"] for each in held_out.report["dropped"]}
    assert found == {"long": [8, 14], "unknown": [12]}
    assert max(held_out.longest) <= 6 and held_out.report["train"] + held_out.report["held_out"] == 61


def test_a_capital_letter_at_the_beginning_is_taken_back_and_given_again() -> None:
    text = "Le chat.\tThe cat.\nTom voit le chat.\tTom sees the cat.\nLe chien.\tThe dog.\nIci.\tI see."
    corpus = make_corpus(read_pairs(text, source=0), min_count=1, held_out_share=0.25, seed=0)
    assert "the" in corpus.tgt_symbols and "The" not in corpus.tgt_symbols and "tom" not in corpus.tgt_symbols
    for (_, tgt), reference in zip(corpus.held_out, corpus.references, strict=True):
        assert decode_ids(corpus, tgt) == reference or 3 in tgt
    assert encode(corpus, "Le chat.") == encode(corpus, "le chat.")


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ({"direction": "sideways"}, 'direction is "sideways"; it can be forward or backward'),
        ({"min_count": 0}, "min_count is 0; it must lie between 1 and 1000"),
        ({"max_vocabulary": 2.5}, "max_vocabulary must be a whole number"),
        ({"max_length": 10_000}, "max_length is 10000"),
        ({"seed": -1}, "seed is -1"),
        ({"held_out_share": 0.9}, "held_out_share is 0.9; it must be greater than 0 and at most 0.5"),
        ({"held_out_share": float("nan")}, "held_out_share must be a finite number"),
        ({"held_out_share": True}, "held_out_share must be a number, got true"),
        ({"simplified": 1}, "simplified must be true or false, got 1"),
        ({"max_length": 1}, "of 4 pairs 0 are left for training and 0 held out"),
    ],
)
def test_what_a_corpus_cannot_be_is_refused(setting: dict[str, object], text: str) -> None:
    pairs = read_pairs("a b\tx y\nb c\ty z\nc d\tz x\nd e\tx z")
    with pytest.raises(ValueError, match=text):
        make_corpus(pairs, **{"min_count": 1, **setting})


def test_a_sentence_in_other_words_is_encoded_as_far_as_it_is_known() -> None:
    corpus = make_corpus(read_pairs(animals()), min_count=1, words=WORDS, held_out_share=0.1, max_length=6)
    ids = encode(corpus, "我看见Zoë！")
    assert ids[-2] == 3 and [corpus.src_symbols[i] for i in ids[:2]] == ["我", "看见"]
    for empty in ("", "  ", "\u200b"):
        with pytest.raises(ValueError, match="the sentence has 0 words and signs; 1 to 6 can be translated"):
            encode(corpus, empty)
    with pytest.raises(ValueError, match="has 9 words and signs"):
        encode(corpus, "猫狗鸟" * 3)


def test_an_answer_is_read_up_to_its_end() -> None:
    corpus = make_corpus(read_pairs("a b\tx , y !\nb c\ty z\nc d\tz x\nd a\tx z ."), min_count=1, held_out_share=0.25)
    x, comma, end = (corpus.tgt_symbols.index(word) for word in ("x", "z", "."))
    assert decode_ids(corpus, [1, x, comma, end, 2, x, 0, 0]) == "X z."
    assert decode_ids(corpus, [3, 2]) == "⟨?⟩" and decode_ids(corpus, []) == ""


# ---- packing


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return make_corpus(read_pairs(animals()), min_count=1, words=WORDS, held_out_share=0.1)


def test_a_packed_corpus_comes_back_as_it_was(corpus: Corpus) -> None:
    line = pack(corpus)
    assert line.isascii() and "\n" not in line and line == pack(unpack(line))
    twin = unpack(line)
    assert twin == corpus and twin.report == corpus.report and twin.options == corpus.options
    assert pickle.loads(pickle.dumps(corpus)) == copy.deepcopy(corpus) == corpus
    assert encode(twin, "我看见猫。") == encode(corpus, "我看见猫。")


def packed(corpus: Corpus, **changes: object) -> str:
    parts = json.loads(zlib.decompress(base64.b64decode(pack(corpus)))) | changes
    return base64.b64encode(zlib.compress(json.dumps(parts).encode())).decode()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"format": "other"}, f"its format is not '{FORMAT}'"),
        ({"train": []}, "needs pairs to train on"),
        ({"references": ["one"]}, "a reference for each"),
        ({"references": [1]}, "references of a packed corpus must be a list of texts"),
        ({"train": [[[4], [99]]]}, "train of a packed corpus holds a sentence that is empty or has an id outside"),
        ({"train": [[[4], []]]}, "a sentence that is empty"),
        ({"train": [[[4], [True]]]}, "an id outside"),
        ({"train": [[[4], [2]]]}, "an id outside"),
        ({"train": [[[4], [-1]]]}, "an id outside"),
        ({"held_out": {"a": 1}}, "held_out of a packed corpus must be a list of pairs"),
        ({"held_out": [[[4]]]}, "must be a list of pairs"),
        ({"src_symbols": ["猫", "猫"]}, "src_symbols of a packed corpus holds a word twice"),
        ({"src_symbols": ["⟨s⟩"]}, "or a special sign"),
        ({"src_symbols": [""]}, "an empty one"),
        ({"tgt_symbols": "abc"}, "must be a list of texts"),
        ({"name": 1}, "name of a packed corpus must be text"),
        ({"options": []}, "options of a packed corpus must be a table"),
        ({"options": {"languages": ["zh"]}}, "languages of a packed corpus must be two"),
        ({"options": {"languages": [["zh"], 1]}}, "languages of a packed corpus must be two"),
    ],
)
def test_a_packed_corpus_that_was_changed_is_refused(corpus: Corpus, changes: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        unpack(packed(corpus, **changes))


def test_a_packed_corpus_cannot_fill_the_memory_or_break_the_reader() -> None:
    def wrap(content: bytes) -> str:
        return base64.b64encode(zlib.compress(content)).decode()

    for line, text in (
        (wrap(b" " * (70 << 20)), "holds more than 67,108,864 bytes"),
        (wrap(b"[" * 100_000), "no packed corpus, or it was damaged"),
        (wrap(b"\xff"), "no packed corpus, or it was damaged"),
        (wrap(b"[1]"), "its format is not"),
        ("no base 64!", "no packed corpus, or it was damaged"),
        (base64.b64encode(b"no zlib").decode(), "no packed corpus, or it was damaged"),
        (wrap(b"{}" * 1000)[:20], "a packed corpus ends too early"),
        ("A" * ((16 << 20) + 4), "is too long; at most 16,777,216 are read"),
    ):
        with pytest.raises(ValueError, match=text):
            unpack(line)


def test_the_report_counts_every_line_once(corpus: Corpus) -> None:
    pairs = read_pairs(animals() + "\n\nbad line\n" + animals())
    report = make_corpus(pairs, min_count=1, words=WORDS, held_out_share=0.1).report
    lost = Counter({each["reason"]: each["count"] for each in report["dropped"]})
    assert report["read"] == report["train"] + report["held_out"] + lost.total()
    assert lost["twice"] == len(pairs) and lost["columns"] == lost["blank"] == 1
    assert json.loads(json.dumps(dict(report))) == report
