"""A small grammar that makes Chinese sentences and their English translations, where the order of words differs.

Chinese says when and where before what is done, English behind it; it counts with measure words, puts a relative
clause before its noun, asks with the word order of a statement, moves what is handled before the verb with 把, and
compares with 比. Each pattern below is one of these differences.

>>> zh, en = sentences()[0]
>>> len(sentences()), zh
(6300, '医生 前天 在 饭馆 里 吃 了 两 碗 面条 。')
>>> en
'The doctor ate two bowls of noodles in the restaurant the day before yesterday.'
"""

from collections.abc import Callable, Mapping
from functools import lru_cache

from transformer_core.translation import clauses, turns
from transformer_core.translation.clauses import Choice
from transformer_core.translation.tokens import capital

SEED = 7
PER_PATTERN = 300

PATTERNS: Mapping[str, Callable[[Choice], tuple[str, str]]] = {
    pattern.__name__: pattern for pattern in (*clauses.PATTERNS, *turns.PATTERNS)
}


@lru_cache(maxsize=1)
def sentences() -> tuple[tuple[str, str], ...]:
    """The built-in pairs, Chinese with spaces between its words; every pattern gives equally many.

    No Chinese sentence stands there twice, and none has two translations.
    """
    made: dict[str, str] = {}
    for number, pattern in enumerate(PATTERNS.values()):
        pick, wanted = Choice(SEED + number), len(made) + PER_PATTERN
        while len(made) < wanted:
            zh, en = pattern(pick)
            made.setdefault(zh, capital(en))
    return tuple(made.items())
