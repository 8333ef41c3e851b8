"""Every sentence exists in both languages, with the same values in it, and none is missing or left over."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from explorer import words
from explorer.fields import BY_NAME
from transformer_core import errors

EXPLORER = Path(words.__file__).parent
CODE = {
    path: path.read_text(encoding="utf-8")
    for folder in ("*.py", "views/*.py", "assets/*.js")
    for path in sorted(EXPLORER.glob(folder))
}
ALL = "\n".join(CODE.values())
SECTIONS = sorted({key.partition(".")[0] for key in words.table()})
# Sections whose keys come from data. Tests of that data hold them complete.
FROM_DATA = ("checks", "formulas", "faults", "reading", "doctor")


@pytest.mark.parametrize("key", list(words.table()))
def test_both_languages_say_something_with_the_same_values(key):
    entry = words.table()[key]
    assert set(entry) == set(words.LANGUAGES)
    glue = not re.search(r"\w", entry["en"])  # ", " between the parts of a sentence may be nothing in Chinese
    assert glue or all(text.strip() == text and text for text in entry.values()), entry
    assert words.placeholders(entry["en"]) == words.placeholders(entry["zh"]), entry


@pytest.mark.parametrize("key", list(words.table()))
def test_chinese_is_set_as_chinese(key):
    """Full-width marks after Han, a space between Han and Latin letters or digits."""
    text = words.table()[key]["zh"]
    assert not re.search(r"[\u4e00-\u9fff][,;:!?]", text), text
    assert not re.search(r"[\u4e00-\u9fff][A-Za-z0-9]|[A-Za-z0-9][\u4e00-\u9fff]", text), text


def test_every_key_that_the_code_names_has_words():
    named = set(re.findall(rf"[\"'`]((?:{'|'.join(SECTIONS)})\.[a-z0-9_]+(?:\.[a-z0-9_]+)*)[\"'`]", ALL))
    assert named, "the pattern finds nothing"
    endings = {"py", "js", "css", "toml"}  # "explore.js" is a file
    assert not {key for key in named - set(words.table()) if key.split(".")[-1] not in endings}


def used(key: str) -> bool:
    """By its whole name, by its last part in quotes or after a dot, as a choice of a field, or made of data."""
    section, _, rest = key.partition(".")
    if section in FROM_DATA or section == "errors" or rest in BY_NAME or {key, rest} & QUOTED:
        return True
    if rest in {f"{field.name}_{choice}" for field in BY_NAME.values() for choice in field.choices}:
        return True
    return rest.startswith(BEGINNINGS) or rest.endswith(ENDINGS)


QUOTED = set(re.findall(r"[\"'`]([a-zA-Z0-9_.]+)[\"'`]", ALL)) | set(re.findall(r"\.([a-z0-9_]+)\b", ALL))
BEGINNINGS = tuple({start.rpartition(".")[2] for start in re.findall(r"[\"'`]([a-z0-9_.]+_)\$?\{", ALL)} - {""})
ENDINGS = tuple(set(re.findall(r"\}(_[a-z0-9_]+)[\"'`]", ALL)))


def test_no_words_are_left_over():
    assert not [key for key in words.table() if not used(key)]


def test_the_reasons_of_the_core_are_told_word_for_word_and_in_chinese():
    told = words.section("en", "errors")
    assert {code: told.get(code) for code in errors.MESSAGES} == dict(errors.MESSAGES)


def test_every_other_reason_is_used():
    own = set(words.section("en", "errors")) - set(errors.MESSAGES)
    used = set(re.findall(r"Refusal\(\s*\"([a-z0-9_]+)\"", ALL)) | set(re.findall(r"\"errors\.([a-z0-9_]+)\"", ALL))
    assert own == used - set(errors.MESSAGES)


def test_words_of_an_unknown_language_are_english_and_unknown_keys_are_an_error():
    assert words.Words("fr")("frame.copy_link") == "Copy link"
    with pytest.raises(KeyError, match=r"frame\.nothing"):
        words.text("en", "frame.nothing")
    with pytest.raises(KeyError, match="held"):
        words.text("en", "frame.checks_hold", total=3)


def test_a_section_is_handed_to_the_scripts_as_it_stands():
    assert words.section("zh", "frame")["checks_hold"] == "{held} / {total} 项检查成立"
