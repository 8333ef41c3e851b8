"""Translation: from a file of sentence pairs, or from the built-in grammar, to token ids and back.

>>> corpus = builtin()
>>> decode_ids(corpus, corpus.held_out[0][1]) == corpus.references[0]
True
"""

from transformer_core.translation.builtin import builtin
from transformer_core.translation.corpus import Corpus, pack, unpack
from transformer_core.translation.making import decode_ids, encode, make_corpus
from transformer_core.translation.pairs import REASONS, Dropped, Pairs, read_pairs

__all__ = [
    "REASONS", "Corpus", "Dropped", "Pairs", "builtin", "decode_ids", "encode", "make_corpus", "pack", "read_pairs",
    "unpack",
]  # fmt: skip
