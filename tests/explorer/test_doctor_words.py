"""What the divergence doctor says is on the page word for word, in both languages, for every cause and remedy."""

from __future__ import annotations

from explorer import words
from transformer_core.doctor import CAUSES, REMEDIES


def test_the_page_has_every_sentence_of_the_doctor_and_no_other():
    assert words.section("en", "doctor") == {**CAUSES, **REMEDIES}
    assert not set(CAUSES) & set(REMEDIES), "cause and remedy share one table of words"
