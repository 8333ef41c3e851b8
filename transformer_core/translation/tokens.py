"""Sentences as words and back: Chinese by a word list, every other language by one regular expression.

>>> split("Don't go, it's 10:30!")
["Don't", 'go', ',', "it's", '10:30', '!']
>>> join(split("Don't go, it's 10:30!"))
"Don't go, it's 10:30!"
>>> split("我看了三本书。", "zh", known={"看", "书", "三", "本"})
['我', '看', '了', '三', '本', '书', '。']
"""

import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

from transformer_core.errors import ConfigError

LANGUAGES = ("zh", "other")
HAN = re.compile("[㐀-䶿一-鿿豈-﫿\U00020000-\U0003fffd]")
WORD = re.compile(r"\w+(?:[.,:'’‐-]\w+)*|[^\w\s]")
"""A word with whatever holds its parts together (don't, 10:30, 3.5, well-known), or a single other sign."""
LEFT, RIGHT = frozenset(".,!?;:%)]}…’”»°"), frozenset("([{$£€#“‘«¿¡")
"""Signs that stand close to the word before them, and to the word behind them."""
GLUED = frozenset("/-–—")
"""Signs that stand close to both."""


def clean(text: str) -> str:
    """The sentence without signs that nobody sees (zero-width spaces, byte-order marks), each gap being one space."""
    if not text.isprintable():
        text = "".join(sign for sign in text if sign.isspace() or unicodedata.category(sign) not in ("Cf", "Cc"))
    return " ".join(text.split())


def language_of(sentences: Iterable[str]) -> str:
    """ "zh" when more than half of the sentences hold a Chinese character, else "other".

    >>> language_of(["Tom 来了。", "好。", "OK"])
    'zh'
    """
    han = [bool(HAN.search(sentence)) for sentence in sentences]
    return "zh" if sum(han) * 2 > len(han) else "other"


def split(sentence: str, language: str = "other", known: Collection[str] | None = None) -> list[str]:
    """The words and signs of a sentence, in their order.

    Chinese has no spaces between words. With ``known``, the longest known word is taken each time; without, rjieba
    finds the likeliest words.

    Raises:
        ValueError: there is no such language, or rjieba is needed and not installed.
    """
    if language not in LANGUAGES:
        raise ValueError(f"language is {language!r}; it can be {' or '.join(LANGUAGES)}")
    if language == "other":
        return WORD.findall(sentence)
    if known is None:
        return [word for word in segmenter().cut(sentence) if not word.isspace()]
    return longest_match(frozenset(known)).findall(sentence)


def segmenter() -> Any:
    """The module rjieba, which cuts Chinese into words by a dictionary and their frequencies.

    Raises:
        ConfigError: it is not installed.
    """
    try:
        import rjieba
    except ImportError:
        raise ConfigError("library_missing", field="segmenter", package="rjieba") from None
    return rjieba


@lru_cache(maxsize=8)
def longest_match(known: frozenset[str]) -> re.Pattern[str]:
    """Finds, from left to right, the longest known word each time; Latin words and numbers stay whole, any other sign
    is alone.

    >>> longest_match(frozenset(["北京", "北京大学", "大学生", "生"])).findall("北京大学生Tom")
    ['北京大学', '生', 'Tom']
    """
    latin = rf"(?:(?!{HAN.pattern})\w)+"
    words = sorted(known, key=lambda word: (-len(word), word))
    return re.compile("|".join([rf"{latin}(?:[.,:'’‐-]{latin})*", *map(re.escape, words), r"\S"]))


def join(words: Sequence[str], language: str = "other") -> str:
    """The sentence of these words: what ``split`` took apart, its signs back in their places.

    Straight quotation marks open and close by turns.

    >>> join(["「", "Tom", "Hill", "」", "来", "了", "。"], "zh"), join(['He', 'said', '"', 'no', '"', '.'])
    ('「Tom Hill」来了。', 'He said "no".')
    """
    text, close, quoted = "", True, False
    for word in words:
        if language == "zh":
            close = not (text[-1:].isascii() and text[-1:].isalnum() and word[:1].isascii() and word[:1].isalnum())
        elif word == '"':
            close, quoted = close or quoted, not quoted
        text += word if close or (language != "zh" and (word in LEFT or word in GLUED)) else f" {word}"
        close = word in RIGHT or word in GLUED or (word == '"' and quoted)
    return text


def simplified(text: str) -> str:
    """The text in simplified characters, by OpenCC.

    Raises:
        ConfigError: OpenCC is not installed.
    """
    try:
        import opencc
    except ImportError:
        raise ConfigError("library_missing", field="simplified", package="opencc") from None
    return str(opencc.OpenCC("t2s").convert(text))


def capital(sentence: str) -> str:
    """The sentence with its first letter as a capital one.

    >>> capital('"it rains."')
    '"It rains."'
    """
    at = next((i for i, sign in enumerate(sentence) if sign.isalnum()), 0)
    return sentence[:at] + sentence[at : at + 1].upper() + sentence[at + 1 :]
