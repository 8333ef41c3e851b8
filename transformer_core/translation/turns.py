"""Patterns in which Chinese turns a sentence round: 把, 被, 比, places as subjects, clauses in another order."""

from transformer_core.translation import lexicon as lex
from transformer_core.translation.clauses import Choice, counted, is_


def owner(pick: Choice, who: str) -> tuple[str, str]:
    """Whose thing it is, or nobody's; the one who acts is not named a second time."""
    others = [(f"{zh} ", en) for zh, en in lex.OWNERS if not zh.startswith(who)]
    return pick((("", "the"), *others))


def put(pick: Choice) -> tuple[str, str]:
    """把 brings what is handled in front of the verb."""
    spot = pick(tuple(lex.BELONGS))
    noun = lex.NOUNS[pick(lex.BELONGS[spot])]
    at, place = lex.SPOTS[spot]
    if pick((True, True, False)):
        who, when = pick(lex.PEOPLE), pick(lex.PAST)
        of = owner(pick, who.zh)
        return (
            f"{who.zh} {when[0]} 把 {of[0]}{noun.zh} 放 在 {at} 了 。",
            f"{who.en} put {of[1]} {noun.one} {place} {when[1]}.",
        )
    please = pick((("请", "please"), ("请 不要", "please do not")))
    return f"{please[0]} 把 {noun.zh} 放 在 {at} 。", f"{please[1]} put the {noun.one} {place}."


def handled(pick: Choice) -> tuple[str, str]:
    who, when = pick(lex.PEOPLE), pick(lex.PAST)
    kind = pick(("done", "done", "will", "please", "hand over", "hand over"))
    if kind != "hand over":
        what, verb, base, past, thing = pick(lex.RESULTS)
        if kind == "done":
            return f"{who.zh} {when[0]} 把 {what} {verb} 了 。", f"{who.en} {past} {thing} {when[1]}."
        if kind == "will":
            when = pick(lex.FUTURE)
            return f"{who.zh} {when[0]} 会 把 {what} {verb} 。", f"{who.en} will {base} {thing} {when[1]}."
        please = pick((("请", "please"), ("请 不要", "please do not")))
        return f"{please[0]} 把 {what} {verb} 。", f"{please[1]} {base} {thing}."
    verb, past, to = pick(lex.HANDED)
    noun, whom = lex.NOUNS[pick(lex.HANDED_THINGS)], pick([each for each in lex.OTHERS if each != who])
    return (
        f"{who.zh} {when[0]} 把 {noun.zh} {verb} 了 {whom.zh} 。",
        f"{who.en} {past} the {noun.one} {to} {whom.obj} {when[1]}.",
    )


def suffered(pick: Choice) -> tuple[str, str]:
    """The passive: 被 and who did it stand before the verb."""
    verb, participle, things, agents = pick(lex.SUFFERED)
    noun, agent, when = lex.NOUNS[pick(things)], pick(agents), pick((("", ""), *lex.PAST))
    of = owner(pick, agent[0])
    time = f"{when[0]} " if when[0] else ""
    return (
        f"{of[0]}{noun.zh} {time}被 {agent[0]} {verb} 了 。",
        f"{of[1]} {noun.one} was {participle} by {agent[1]}{' ' + when[1] if when[1] else ''}.",
    )


def compared(pick: Choice) -> tuple[str, str]:
    """比 and what is compared with stand before the adjective."""
    much = pick((("", ""), (" 得 多", "much "), (" 一点", "a little ")))
    if pick((True, False)):
        noun, adjective = lex.NOUNS[pick(lex.COMPARED)], pick(tuple(lex.BETTER))
        measured = f"{noun.measure} {noun.zh}"
        return (
            f"这 {measured} 比 那 {measured} {adjective}{much[0]} 。",
            f"this {noun.one} is {much[1]}{lex.BETTER[adjective][0]} than that one.",
        )
    one, adjective = pick(lex.PEOPLE), pick(tuple(lex.PERSONAL))
    other = pick([each for each in lex.PEOPLE if each != one and (each.form, each.obj) != (one.form, one.obj)])
    more, plain = lex.PERSONAL[adjective]
    kind = pick(("more", "more", "same", "less"))
    if kind == "same":
        return f"{one.zh} 跟 {other.zh} 一样 {adjective} 。", f"{one.en} {is_(one)} as {plain} as {other.obj}."
    if kind == "less":
        return f"{one.zh} 没有 {other.zh} 那么 {adjective} 。", f"{one.en} {is_(one)} not as {plain} as {other.obj}."
    return f"{one.zh} 比 {other.zh} {adjective}{much[0]} 。", f"{one.en} {is_(one)} {much[1]}{more} than {other.obj}."


def there_is(pick: Choice) -> tuple[str, str]:
    """The place begins the sentence: 桌子 上 有 一 本 书, there is a book on the table."""
    spot = pick((*lex.BELONGS, "park", "park", "park"))
    noun = lex.NOUNS[pick(lex.BELONGS.get(spot, ("tree", "tree", "bird", "dog", "cat")))]
    at, place = lex.SPOTS.get(spot) or lex.PLACES[spot]
    kind = pick(("some", "some", "none", "any", "how many", "many", *(("where",) if spot != "park" else ())))
    if kind == "some":
        number = pick(lex.NUMBERS)
        zh, en = counted(noun, number)
        return f"{at} 有 {zh} 。", f"there {'are' if number[1] else 'is'} {en} {place}."
    if kind == "none":
        return f"{at} 没有 {noun.zh} 。", f"there are no {noun.many} {place}."
    if kind == "any":
        return f"{at} 有 {noun.zh} 吗 ？", f"are there any {noun.many} {place}?"
    if kind == "how many":
        return f"{at} 有 几 {noun.measure} {noun.zh} ？", f"how many {noun.many} are there {place}?"
    if kind == "many":
        return f"{at} 有 很多 {noun.zh} 。", f"there are many {noun.many} {place}."
    of = pick(lex.OWNERS)
    return f"{of[0]} {noun.zh} 在 {at} 。", f"{of[1]} {noun.one} is {place}."


def given(pick: Choice) -> tuple[str, str]:
    who, when = pick(lex.PEOPLE), pick(lex.PAST)
    # "He gave him a book": which he is meant, nobody could tell. So at least one of the two is named.
    whom = pick([each for each in (lex.OTHERS if who in lex.PRONOUNS else lex.PEOPLE) if each != who])
    kind = pick(("give", "buy", "write", "teach"))
    if kind == "teach":
        what, often = pick(lex.STUDIES), pick(lex.HABIT)
        teach = "teaches" if who.form == "he" else "teach"
        return f"{who.zh} {often[0]} 教 {whom.zh} {what[0]} 。", f"{who.en} {teach} {whom.obj} {what[1]} {often[1]}."
    if kind == "write":
        zh, en = counted(lex.NOUNS["letter"], pick(lex.NUMBERS))
        return f"{who.zh} {when[0]} 给 {whom.zh} 写 了 {zh} 。", f"{who.en} wrote {en} to {whom.obj} {when[1]}."
    noun = lex.NOUNS[pick(("book", "hat", "apple", "cake", "picture", "umbrella", "cup", "magazine", "jumper"))]
    zh, en = counted(noun, pick(lex.NUMBERS))
    if kind == "give":
        return f"{who.zh} {when[0]} 给 了 {whom.zh} {zh} 。", f"{who.en} gave {whom.obj} {en} {when[1]}."
    return f"{who.zh} {when[0]} 给 {whom.zh} 买 了 {zh} 。", f"{who.en} bought {en} for {whom.obj} {when[1]}."


def together(pick: Choice) -> tuple[str, str]:
    who = pick(lex.PEOPLE)
    whom = pick([each for each in lex.OTHERS if each != who])
    if pick((True, False)):
        when, goal = pick(lex.PAST), pick(lex.GOALS)
        return (
            f"{who.zh} {when[0]} 跟 {whom.zh} 一起 去 了 {goal[0]} 。",
            f"{who.en} went {goal[1]} with {whom.obj} {when[1]}.",
        )
    act, often = pick(lex.ACTS), pick(lex.OFTEN)
    at, place = lex.PLACES[pick(act.places)]
    verb = act.third if who.form == "he" else act.base
    return (
        f"{who.zh} {often[0]} 跟 {whom.zh} 一起 在 {at} {act.zh} 。",
        f"{who.en} {often[1]} {verb} {place} with {whom.obj}.",
    )


def journeys(pick: Choice) -> tuple[str, str]:
    """How somebody goes stands before where to."""
    who = pick(lex.PEOPLE)
    kind = pick(("habit", "future", "past"))
    if kind == "habit":
        when, way, goal = pick(lex.HABIT), pick(lex.IN_TOWN), pick(lex.GOALS)
        go = "goes" if who.form == "he" else "go"
        return f"{who.zh} {when[0]} 坐 {way[0]} 去 {goal[0]} 。", f"{who.en} {go} {goal[1]} {way[1]} {when[1]}."
    way, city = pick(lex.FAR_AWAY), pick(lex.CITIES)
    if kind == "future":
        when = pick((*lex.FUTURE, *lex.FAR))
        return (
            f"{who.zh} {when[0]} 会 坐 {way[0]} 去 {city[0]} 。",
            f"{who.en} will go to {city[1]} {way[1]} {when[1]}.",
        )
    when = pick((*lex.PAST, *lex.LONG_AGO))
    return f"{who.zh} 是 {when[0]} 坐 {way[0]} 来 {city[0]} 的 。", f"{who.en} came to {city[1]} {way[1]} {when[1]}."


def how_long(pick: Choice) -> tuple[str, str]:
    who = pick(lex.PEOPLE)
    years = pick((("一 年", "one year"), ("两 年", "two years"), ("三 年", "three years"), ("五 年", "five years"),
                  ("四 个 月", "four months"), ("两 个 星期", "two weeks")))  # fmt: skip
    has = "has" if who.form == "he" else "have"
    kind = pick(("wait", "study", "live"))
    if kind == "study":
        what = pick(lex.STUDIES)
        return f"{who.zh} 已经 学 了 {years[0]} {what[0]} 了 。", f"{who.en} {has} studied {what[1]} for {years[1]}."
    if kind == "live":
        city = pick(lex.CITIES)
        return (
            f"{who.zh} 已经 在 {city[0]} 住 了 {years[0]} 了 。",
            f"{who.en} {has} lived in {city[1]} for {years[1]}.",
        )
    hours = pick((("半 个 小时", "half an hour"), ("一 个 小时", "one hour"), ("两 个 小时", "two hours"),
                  ("三 个 小时", "three hours"), ("十 分钟", "ten minutes")))  # fmt: skip
    verb, past, places = pick(
        (("等", "waited", ("station", "airport", "hospital", "cafe", "bookshop")), ("跑", "ran", ("park", "river")),
         ("睡", "slept", ("home", "room", "library")))
    )  # fmt: skip
    at, place = lex.PLACES[pick(places)]
    when = pick(lex.PAST)
    return (
        f"{who.zh} {when[0]} 在 {at} {verb} 了 {hours[0]} 。",
        f"{who.en} {past} {place} for {hours[1]} {when[1]}.",
    )


def because(pick: Choice) -> tuple[str, str]:
    """Two clauses, whose order may be the other way round in English."""
    who, goal = pick(lex.PEOPLE), pick(lex.GOALS)
    kind = pick(("because", "if", "although"))
    if kind == "if":
        act = pick([each for each in lex.ACTS if "home" in each.places or "room" in each.places])
        at, place = lex.PLACES[pick([each for each in act.places if each in ("home", "room", "library", "cafe")])]
        when, weather = pick(lex.FUTURE), pick(lex.WEATHER)
        return (
            f"如果 {when[0]} {weather[0]} ， {who.zh} 就 在 {at} {act.zh} 。",
            f"if {weather[1]} {when[1]}, {who.en} will {act.base} {place}.",
        )
    when, reason = pick(lex.PAST), pick(lex.REASONS)
    if kind == "because":
        return (
            f"因为 {when[0]} {reason[0]} ， 所以 {who.zh} 没有 去 {goal[0]} 。",
            f"{who.en} did not go {goal[1]} because {reason[1]} {when[1]}.",
        )
    return (
        f"虽然 {when[0]} {reason[0]} ， 但是 {who.zh} 还是 去 了 {goal[0]} 。",
        f"although {reason[1]} {when[1]}, {who.en} still went {goal[1]}.",
    )


def before_and_after(pick: Choice) -> tuple[str, str]:
    who = pick(lex.PEOPLE)
    if pick((True, True, False)):
        after, goal = pick(lex.AFTERWARDS), pick(lex.GOALS)
        want = "wants" if who.form == "he" else "want"
        done = pick((("去 了", "went"), ("会 去", "will go"), ("想 去", f"{want} to go")))
        return f"{who.zh} {after[0]} 以后 {done[0]} {goal[0]} 。", f"{who.en} {done[1]} {goal[1]} after {after[1]}."
    act = pick([each for each in lex.ACTS if each.zh in lex.BEDTIME])
    often = pick(lex.OFTEN)
    verb = act.third if who.form == "he" else act.base
    return f"{who.zh} 睡觉 以前 {often[0]} {act.zh} 。", f"{who.en} {often[1]} {verb} before going to bed."


PATTERNS = (
    put, handled, suffered, compared, there_is, given, together, journeys, how_long, because, before_and_after,
)  # fmt: skip
