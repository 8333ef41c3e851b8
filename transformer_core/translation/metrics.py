"""BLEU and chrF by sacreBLEU, so that a figure can be compared with others; the signature says how it counts."""

from collections.abc import Sequence
from dataclasses import dataclass

from transformer_core.errors import ConfigError


@dataclass(frozen=True)
class Score:
    """How close translations come to those that people wrote, 0 to 100."""

    bleu: float
    """How many runs of one to four words are the same, over all sentences (Papineni et al. 2002)."""
    chrf: float
    """The same for runs of one to six characters, so that a nearly right word counts for something (Popović 2015)."""
    n: int
    """How many sentences."""
    signature: str
    """How BLEU was counted, as papers state it. A BLEU without it says little: it depends on how words are cut."""


def measure(translations: Sequence[str], references: Sequence[str], language: str = "other") -> Score:
    """BLEU and chrF of translations against one reference each; ``language`` "zh" cuts Chinese into characters.

    >>> score = measure(["The cat sat on the mat."], ["The cat sat on a mat."])
    >>> f"{score.bleu:.2f} {score.chrf:.2f}", score.signature
    ('48.89 71.42', 'nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0')

    Raises:
        ValueError: sacreBLEU is not installed, there is nothing to measure, or the numbers of sentences differ.
    """
    if not references or len(translations) != len(references):
        raise ValueError(
            f"there are {len(translations)} translations and {len(references)} references; each translation needs one"
        )
    try:
        from sacrebleu.metrics.bleu import BLEU
        from sacrebleu.metrics.chrf import CHRF
    except ImportError:
        raise ConfigError("library_missing", field="score", package="sacrebleu") from None
    bleu, chrf = BLEU(tokenize="zh" if language == "zh" else "13a"), CHRF()
    words = bleu.corpus_score(list(translations), [list(references)]).score
    signs = chrf.corpus_score(list(translations), [list(references)]).score
    # Of a perfect translation sacreBLEU makes 100.00000000000004.
    return Score(min(100.0, words), min(100.0, signs), len(references), str(bleu.get_signature()))
