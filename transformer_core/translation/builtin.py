"""The built-in corpus: the sentences of the grammar, cut at the words from which the grammar made them."""

from functools import lru_cache

from transformer_core.translation.corpus import Corpus
from transformer_core.translation.grammar import sentences
from transformer_core.translation.making import make_corpus
from transformer_core.translation.pairs import read_pairs

NAME = "built-in"


@lru_cache(maxsize=2)
def builtin(direction: str = "forward") -> Corpus:
    """The six thousand pairs of the grammar, Chinese to English; "backward" is English to Chinese.

    It needs no file and no library: the grammar's own words are the dictionary by which Chinese is cut.

    Raises:
        ValueError: there is no such direction.
    """
    pairs = read_pairs("\n".join(f"{zh.replace(' ', '')}\t{en}" for zh, en in sentences()))
    words = frozenset(word for zh, _ in sentences() for word in zh.split())
    return make_corpus(pairs, direction=direction, min_count=1, name=NAME, words=words)
