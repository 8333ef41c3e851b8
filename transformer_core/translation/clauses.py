"""Patterns of one clause: when and where stand before the verb; questions and wishes; relative clauses.

A pattern draws its words with ``pick`` and gives one Chinese sentence, spaces between its words, and its translation.
"""

import random
from collections.abc import Sequence
from typing import TypeVar

from transformer_core.translation import lexicon as lex
from transformer_core.translation.lexicon import Noun, Person

T = TypeVar("T")


class Choice:
    """Choices out of a sequence, the same on every machine: of Python's generator only ``random`` promises that."""

    def __init__(self, seed: int) -> None:
        self.numbers = random.Random(seed)

    def __call__(self, among: Sequence[T]) -> T:
        return among[int(self.numbers.random() * len(among))]


def is_(person: Person, past: bool = False) -> str:
    """The form of "to be" for this person."""
    if past:
        return "were" if person.form == "they" else "was"
    return {"I": "am", "he": "is", "they": "are"}[person.form]


def do(person: Person) -> str:
    return "does" if person.form == "he" else "do"


def counted(noun: Noun, number: tuple[str, str]) -> tuple[str, str]:
    """一 本 书, "a book"; 三 本 书, "three books"."""
    zh, en = number
    a = "an" if noun.one[0] in "aeiou" else "a"
    return f"{zh} {noun.measure} {noun.zh}", f"{en} {noun.many}" if en else f"{a} {noun.one}"


def deal(pick: Choice) -> tuple[str, str, str, str, str, str, Noun]:
    """Verb, counted thing and place: 看, read, 三 本 书, three books, 图书馆 里, in the library."""
    one = pick(lex.DEALS)
    noun = lex.NOUNS[pick(one.things)]
    place = lex.PLACES[pick(one.places)]
    zh, en = counted(noun, pick(lex.NUMBERS))
    return one.zh, one.past, zh, en, *place, noun


def past_event(pick: Choice) -> tuple[str, str]:
    who, when = pick(lex.PEOPLE), pick(lex.PAST)
    verb, past, zh, en, at, place, _ = deal(pick)
    return f"{who.zh} {when[0]} 在 {at} {verb} 了 {zh} 。", f"{who.en} {past} {en} {place} {when[1]}."


def time_in_front(pick: Choice) -> tuple[str, str]:
    """The time first, in both languages; the place still stands before the verb in Chinese only."""
    who, when = pick(lex.PEOPLE), pick(lex.PAST)
    verb, past, zh, en, at, place, _ = deal(pick)
    return f"{when[0]} {who.zh} 在 {at} {verb} 了 {zh} 。", f"{when[1]}, {who.en} {past} {en} {place}."


def habit(pick: Choice) -> tuple[str, str]:
    who, act = pick(lex.PEOPLE), pick(lex.ACTS)
    at, place = lex.PLACES[pick(act.places)]
    verb = act.third if who.form == "he" else act.base
    if pick((True, False)):
        adverb = pick(lex.OFTEN)
        return f"{who.zh} {adverb[0]} 在 {at} {act.zh} 。", f"{who.en} {adverb[1]} {verb} {place}."
    when = pick(lex.HABIT)
    return f"{who.zh} {when[0]} 在 {at} {act.zh} 。", f"{who.en} {verb} {place} {when[1]}."


def right_now(pick: Choice) -> tuple[str, str]:
    who, act = pick(lex.PEOPLE), pick(lex.ACTS)
    at, place = lex.PLACES[pick(act.places)]
    if pick((True, False)):
        return f"{who.zh} 正在 {at} {act.zh} 。", f"{who.en} {is_(who)} {act.ing} {place}."
    return f"{who.zh} 没有 在 {at} {act.zh} 。", f"{who.en} {is_(who)} not {act.ing} {place}."


def plans(pick: Choice) -> tuple[str, str]:
    who, act = pick(lex.PEOPLE), pick(lex.ACTS)
    at, place = lex.PLACES[pick(act.places)]
    when = pick((*lex.FUTURE, lex.FAR[0]))
    no = pick((("", ""), ("不 ", " not")))
    return (
        f"{who.zh} {when[0]} {no[0]}会 在 {at} {act.zh} 。",
        f"{who.en} will{no[1]} {act.base} {place} {when[1]}.",
    )


def wishes(pick: Choice) -> tuple[str, str]:
    who, act = pick(lex.PEOPLE), pick(lex.ACTS)
    at, place = lex.PLACES[pick(act.places)]
    s = "s" if who.form == "he" else ""
    zh, en = pick(
        (("想", f"want{s} to"), ("不 想", f"{do(who)} not want to"), ("喜欢", f"like{s} to"), ("应该", "should"),
         ("不 应该", "should not"), ("可以", "can"), ("不 能", "cannot"), ("必须", "must"))
    )  # fmt: skip
    return f"{who.zh} {zh} 在 {at} {act.zh} 。", f"{who.en} {en} {act.base} {place}."


def yes_or_no(pick: Choice) -> tuple[str, str]:
    """A question has the order of a statement, and 吗 at its end."""
    who, act = pick((lex.YOU, *lex.PEOPLE[1:])), pick(lex.ACTS)
    at, place = lex.PLACES[pick(act.places)]
    past = pick((True, False))
    when = pick(lex.PAST if past else lex.HABIT)
    did = "did" if past else do(who)
    return (
        f"{who.zh} {when[0]} 在 {at} {act.zh} {'了 ' if past else ''}吗 ？",
        f"{did} {who.en} {act.base} {place} {when[1]}?",
    )


def asked_for(pick: Choice) -> tuple[str, str]:
    """Where, what, who, why and when stay where the answer would stand."""
    who, when = pick((lex.YOU, *lex.PEOPLE[1:])), pick(lex.PAST)
    kind = pick(("where", "what", "what", "who", "why", "when"))
    if kind in ("where", "why"):
        act = pick(lex.ACTS)
        at, place = lex.PLACES[pick(act.places)]
        if kind == "where":
            return f"{who.zh} {when[0]} 在 哪里 {act.zh} ？", f"where did {who.en} {act.base} {when[1]}?"
        often = pick(lex.HABIT)
        return (
            f"{who.zh} 为什么 {often[0]} 在 {at} {act.zh} ？",
            f"why {do(who)} {who.en} {act.base} {place} {often[1]}?",
        )
    if kind == "when":
        goal = pick(lex.GOALS)
        return f"{who.zh} 什么 时候 去 {goal[0]} ？", f"when will {who.en} go {goal[1]}?"
    verb, past, zh, en, at, place, _ = deal(pick)
    if kind == "who":
        return f"{when[0]} 谁 在 {at} {verb} 了 {zh} ？", f"who {past} {en} {place} {when[1]}?"
    one = pick([each for each in lex.DEALS if each.base not in ("meet", "learn", "take")])
    at, place = lex.PLACES[pick(one.places)]
    return f"{who.zh} {when[0]} 在 {at} {one.zh} 了 什么 ？", f"what did {who.en} {one.base} {place} {when[1]}?"


def which_thing(pick: Choice) -> tuple[str, str]:
    """A relative clause stands before its noun, with 的 between: 我 昨天 买 的 书, the book that I bought yesterday."""
    who, adjective = pick(lex.PEOPLE), pick(tuple(lex.ABOUT))
    about, things = lex.ABOUT[adjective]
    when = pick(lex.PAST if about == "tasty" else (*lex.PAST, *lex.LONG_AGO))
    thing = pick(things)
    ways = [each for each in lex.DEALS if thing in each.things and each.zh in ("看", "写", "买", "画", "拍")]
    one = pick(ways or [lex.DEALS[3]])
    zh, en = lex.NOUNS[thing].zh, lex.NOUNS[thing].one
    if pick((True, False)):
        return (
            f"{who.zh} {when[0]} {one.zh} 的 {zh} 很 {adjective} 。",
            f"the {en} that {who.en} {one.past} {when[1]} is very {about}.",
        )
    fan = pick([each for each in lex.PEOPLE if each.form != who.form and each != who])
    like = "likes" if fan.form == "he" else "like"
    return (
        f"{fan.zh} 喜欢 {who.zh} {when[0]} {one.zh} 的 {zh} 。",
        f"{fan.en} {like} the {en} that {who.en} {one.past} {when[1]}.",
    )


def which_person(pick: Choice) -> tuple[str, str]:
    if pick((True, False)):
        act, whom = pick(lex.ACTS), pick(lex.STRANGERS)
        at, place = lex.PLACES[pick(act.places)]
        zh, en = f"正在 {at} {act.zh} 的 {whom[0]}", f"the {whom[1]} who is {act.ing} {place}"
        if pick((True, False)):
            who = pick([each for each in lex.PEOPLE if each.form != "they"])
            return f"{who.zh} 不 认识 {zh} 。", f"{who.en} {do(who)} not know {en}."
        relation = pick(lex.RELATIONS)
        return f"{zh} 是 {relation[0]} 。", f"{en} is {relation[1]}."
    whom, colour, job = pick(lex.ADULTS), pick(lex.COLOURS), pick(lex.JOBS)
    wear, what = pick((("穿", "shirt"), ("穿", "jumper"), ("戴", "hat")))
    return (
        f"{wear} {colour[0]} {lex.NOUNS[what].zh} 的 {whom[0]} 是 {job[0]} 。",
        f"the {whom[1]} who is wearing a {colour[1]} {what} is {job[1]}.",
    )


PATTERNS = (
    past_event, time_in_front, habit, right_now, plans, wishes, yes_or_no, asked_for, which_thing, which_person,
)  # fmt: skip
