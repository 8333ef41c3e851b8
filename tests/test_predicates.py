"""Conditions of masks: read with Python's precedence and never run as Python; every refusal says what and where."""

import ast
import itertools
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_core import predicates
from transformer_core.config import ConfigError, MaskConfig
from transformer_core.errors import MESSAGES
from transformer_core.predicates import MAX_DEPTH, MAX_TEXT, NAMES, Predicate, parse

Q_LEN, K_LEN, BATCH, HEADS = 3, 5, 2, 2


def refused(text: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse(text, "cross")
    assert caught.value.field == "cross" and "cross" in str(caught.value)
    return caught.value


def places() -> dict[str, Any]:
    return {
        "q": torch.arange(Q_LEN)[:, None], "k": torch.arange(K_LEN)[None, :],
        "b": torch.arange(BATCH)[:, None, None, None], "h": torch.arange(HEADS)[None, :, None, None],
        "n_q": Q_LEN, "n_k": K_LEN,
    }  # fmt: skip


def by_python(text: str) -> list[bool] | None:
    """The condition at every place, by Python itself; None where it divides by 0. Only for texts made in this file."""
    code = compile(text, "condition", "eval")
    answers = []
    for b, h, q, k in itertools.product(range(BATCH), range(HEADS), range(Q_LEN), range(K_LEN)):
        names = {"q": q, "k": k, "b": b, "h": h, "n_q": Q_LEN, "n_k": K_LEN, "abs": abs, "min": min, "max": max}
        try:
            answers.append(eval(code, {"__builtins__": {}}, names))
        except ZeroDivisionError:
            return None
    return answers


def by_predicate(predicate: Predicate) -> list[bool] | None:
    try:
        holds = predicate(**places())
    except ConfigError as error:
        assert error.code == "condition_zero"
        return None
    return holds.expand(BATCH, HEADS, Q_LEN, K_LEN).flatten().tolist()


# What it means


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("q - k < 2 and k % 2 == 0", ["10101", "10101", "00101"]),
        ("q == k", ["10000", "01000", "00100"]),
        ("0 <= q - k < 2", ["10000", "11000", "01100"]),
        ("not q < k", ["10000", "11000", "11100"]),
        ("k <= q + n_k - n_q", ["11100", "11110", "11111"]),
        ("(q - 4) // 3 == -(k // 4) - 1", ["00001", "11110", "11110"]),
        ("(q - k) % 3 == 1", ["00100", "10010", "01001"]),
        ("abs(q - k) <= min(q, 1) or k == max(q, 3)", ["10010", "11110", "01110"]),
        ("n_k > 4", ["11111", "11111", "11111"]),
    ],
)
def test_conditions_counted_by_hand(text: str, rows: list[str]) -> None:
    q, k = torch.arange(3)[:, None], torch.arange(5)[None, :]
    holds = parse(text)(q, k, n_q=3, n_k=5)
    assert holds.dtype == torch.bool
    assert ["".join(str(int(cell)) for cell in row) for row in holds.tolist()] == rows


def test_a_condition_takes_the_shape_of_what_it_names() -> None:
    q, k = torch.arange(3)[:, None], torch.arange(5)[None, :]
    heads, rows = torch.arange(7)[None, :, None, None], torch.arange(2)[:, None, None, None]
    assert parse("k < 2")(q, k).shape == (3, 5)
    assert parse("h == q")(q, k, h=heads).shape == (1, 7, 3, 5)
    assert parse("h == b")(q, k, h=heads, b=rows).shape == (2, 7, 3, 5)
    with pytest.raises(ValueError, match="the condition h == b needs b, h"):
        parse("h == b")(q, k)


def test_it_is_known_what_a_condition_needs() -> None:
    assert parse("q - k < 3").needs == {"q", "k"}
    assert parse("b == 0 or n_k - n_q < abs(h)").needs == {"b", "h", "n_q", "n_k"}
    assert parse("  q  <\tk ") == parse("q < k") and parse("q < k").text == "q < k"


numbers = st.deferred(
    lambda: st.one_of(
        st.sampled_from(NAMES),
        st.integers(0, 4).map(str),
        st.builds("{} {} {}".format, numbers, st.sampled_from(("+", "-", "*", "//", "%")), numbers),
        st.builds("({})".format, numbers),
        st.builds("-{}".format, numbers),
        st.builds("abs({})".format, numbers),
        st.builds("{}({}, {})".format, st.sampled_from(("min", "max")), numbers, numbers),
    )
)
signs = st.sampled_from(("<", "<=", ">", ">=", "==", "!="))
conditions = st.deferred(
    lambda: st.one_of(
        st.builds("{} {} {}".format, numbers, signs, numbers),
        st.builds("{} {} {} {} {}".format, numbers, signs, numbers, signs, numbers),
        st.builds("{} {} {}".format, conditions, st.sampled_from(("and", "or")), conditions),
        st.builds("not {}".format, conditions),
        st.builds("({})".format, conditions),
    )
)


def small(text: str) -> bool:
    """Within the limits, also with respect to the largest number that may come up."""
    try:
        parse(text)
    except ConfigError as error:
        assert error.code in ("condition_long", "condition_deep", "condition_large")
        return False
    return True


@settings(max_examples=150)
@given(conditions.filter(small))
def test_precedence_chains_division_and_skipping_are_those_of_python(text: str) -> None:
    assert by_predicate(parse(text)) == by_python(text)


@settings(max_examples=60)
@given(conditions.filter(small))
def test_the_line_of_torch_says_the_same(text: str) -> None:
    predicate = parse(text)
    wanted = by_predicate(predicate)
    if wanted is None:
        return
    code = predicate.to_torch()
    got = eval(code, {"torch": torch, **places()}).expand(BATCH, HEADS, Q_LEN, K_LEN)
    assert got.dtype == torch.bool and got.flatten().tolist() == wanted
    renamed = predicate.to_torch({"q": "q_idx", "k": "kv_idx"})
    names = {node.id for node in ast.walk(ast.parse(renamed)) if isinstance(node, ast.Name)}
    assert not names & {"q", "k"}


def test_a_line_of_torch_is_what_one_would_write() -> None:
    assert parse("q - k < 3 and k % 2 == 0").to_torch() == "(q - k < 3) & (k % 2 == 0)"
    assert parse("not 0 < q < min(k, 3)").to_torch() == "~((0 < q) & (q < torch.where(k < 3, k, 3)))"
    assert parse("q // k == 1").to_torch() == "q // torch.where(k == 0, 1, k) == 1"
    assert parse("n_q < 3").to_torch({"n_q": "7"}) == "torch.tensor(7 < 3)"


def test_division_by_zero_matters_only_where_it_is_asked_for() -> None:
    q = k = torch.arange(3)
    with pytest.raises(ConfigError) as caught:
        parse("k // (q - 1) == 0")(q[:, None], k[None, :])
    assert str(caught.value) == (
        'the condition "k // (q - 1) == 0" in masks divides by 0, first at q = 1, k = 0; ask before, as in k > 0 and '
        "q % k == 0."
    )
    asked = parse("q != 1 and k // (q - 1) == 0 or q == 1 and k == 2")
    assert asked(q[:, None], k[None, :]).int().tolist() == [[1, 0, 0], [0, 0, 1], [1, 0, 0]]
    with pytest.raises(ConfigError, match="divides by 0, first at k = 0; ask"):
        parse("k % 0 == 1")(q[:, None], k[None, :], n_q=3, n_k=3)
    assert not parse("q < 0 and q % 0 == 1")(q[:, None], k[None, :]).any()


def test_a_condition_is_computed_on_meta_too_where_there_is_nothing_to_divide() -> None:
    with torch.device("meta"):
        assert parse("q // k == 1")(torch.arange(3)[:, None], torch.arange(5)[None, :]).shape == (3, 5)


# What is refused


@pytest.mark.parametrize(
    ("text", "code", "column", "said"),
    [
        ("", "condition_empty", None, "is empty; write one, as in q - k < 3."),
        ("   ", "condition_empty", None, "is empty"),
        ("q = k", "condition_sign", 3, 'has "=" at column 3, which means nothing here; write ==.'),
        ("q ≤ k", "condition_sign", 3, 'has "≤" at column 3, which means nothing here; write <=.'),
        ("q < 3 && k < 2", "condition_sign", 7, 'has "&&" at column 7, which means nothing here; write and.'),
        ("q < 3 | k < 2", "condition_sign", 7, "write or."),
        ("~(q < 3)", "condition_sign", 1, "write not."),
        ("q / 2 < 3", "condition_sign", 3, "write //."),
        ("q <> k", "condition_sign", 3, "write !=."),
        ("q ＜ k", "condition_sign", 3, "write <."),
        ("q < 3.5", "condition_stranger", 5, 'has "3.5" at column 5; it is made of and, or, not, <,'),
        ("0x1F < q", "condition_stranger", 1, 'has "0x1F" at column 1'),
        ("1_0 < q", "condition_stranger", 1, 'has "1_0" at column 1'),
        ("1if < q", "condition_stranger", 1, 'has "1if" at column 1'),
        ("q.real < 3", "condition_stranger", 2, 'has ".real" at column 2'),
        ("q[0] < 3", "condition_stranger", 2, 'has "[" at column 2'),
        ("q < 3; k", "condition_stranger", 6, 'has ";" at column 6'),
        ("(q := 3) < k", "condition_stranger", 4, 'has ":" at column 4'),
        ("lambda: q < 3", "condition_stranger", 7, 'has ":" at column 7'),
        ("q < 'k'", "condition_stranger", 5, "has \"'\" at column 5"),
        ("q < 3 # why", "condition_stranger", 7, 'has "#" at column 7'),
        ("q @ k < 3", "condition_stranger", 3, 'has "@" at column 3'),
        ("ｑ < 3", "condition_stranger", 1, 'has "ｑ" at column 1'),
        ("q < ٣", "condition_stranger", 5, 'has "٣" at column 5'),
        ("q <", "condition_broken", 3, "cannot be read at column 3: invalid syntax"),
        ("(q < 3", "condition_broken", 1, "cannot be read at column 1"),
        ("q < 007", "condition_broken", 5, "cannot be read at column 5"),
        ("key < 3", "condition_name", 1, 'names "key" at column 1; it can be q, k, b, h, n_q, n_k, abs, min or max.'),
        ("q < nk", "condition_name", 5, "The nearest is n_k."),
        ("q < and_ + k", "condition_name", 5, 'names "and_" at column 5'),
        ("len(q) < 3", "condition_function", 1, 'calls "len" at column 1; it can be abs, min or max.'),
        ("maximum(q, k) < 3", "condition_function", 1, "The nearest is max."),
        ("eval(q) < 3", "condition_function", 1, 'calls "eval" at column 1'),
        ("abs(q, k) < 3", "condition_arguments", 1, 'has "abs(q, k)" at column 1; abs takes 1 between its brackets'),
        ("q < min(k)", "condition_arguments", 5, "min takes 2 between its brackets, got 1."),
        ("q < min()", "condition_arguments", 5, "min takes 2 between its brackets, got 0."),
        ("q ** 2 < 3", "condition_node", 1, 'has "q ** 2" at column 1; it is made of'),
        ("+q < 3", "condition_node", 1, 'has "+q" at column 1'),
        ("q in k", "condition_node", 1, 'has "q in k" at column 1'),
        ("q is k", "condition_node", 1, 'has "q is k" at column 1'),
        ("q < 3 if k else b", "condition_node", 1, "at column 1"),
        ("(q, k) < 3", "condition_node", 1, 'has "(q, k)" at column 1'),
        ("abs(*q) < 3", "condition_node", 5, 'has "*q" at column 5'),
        ("abs(q)(k) < 3", "condition_node", 1, 'has "abs(q)(k)" at column 1'),
        ("True", "condition_node", 1, 'has "True" at column 1'),
        ("q == None", "condition_node", 6, 'has "None" at column 6'),
        ("q", "condition_number", 1, 'has the number "q" at column 1, where something that holds or not is wanted; '
         "compare it, as in q != 0."),
        ("q < 3 and k % 2", "condition_number", 11, "as in k % 2 != 0."),
        ("not abs(q)", "condition_number", 5, "as in abs(q) != 0."),
        ("(q < 3) + 1 < k", "condition_no_number", 2, 'has "q < 3" at column 2, where a number is wanted.'),
        ("(q < 3) == (k < 3)", "condition_no_number", 2, "where a number is wanted"),
        ("-(not q < k) < 3", "condition_no_number", 3, 'has "not q < k" at column 3'),
        ("q < 1000001", "condition_high", 5, 'has the number "1000001" at column 5; at most 1000000 fits.'),
        ("q < 9999999999999999999999999", "condition_high", 5, "at most 1000000 fits"),
        ("q * k * b * h < 3", "condition_large", 1, 'has "q * k * b * h" at column 1, which can grow beyond what 64'),
    ],
)  # fmt: skip
def test_what_does_not_belong_is_refused_with_its_place(text: str, code: str, column: int | None, said: str) -> None:
    error = refused(text)
    assert (error.code, error.values.get("column")) == (code, column)
    assert said in str(error)


def test_every_kind_of_expression_of_python_is_either_understood_or_refused() -> None:
    """No node is let through because nobody thought of it."""
    samples = {
        ast.BoolOp: "q < 3 and k < 3", ast.NamedExpr: "(q := 3) < 3", ast.BinOp: "q + k < 3", ast.UnaryOp: "not q < 3",
        ast.Lambda: "lambda: 3", ast.IfExp: "q if k else b", ast.Dict: "{q: k}", ast.Set: "{q}",
        ast.ListComp: "[q for q in k]", ast.SetComp: "{q for q in k}", ast.DictComp: "{q: k for q in k}",
        ast.GeneratorExp: "(q for q in k)", ast.Await: "await q", ast.Yield: "(yield)", ast.YieldFrom: "(yield from q)",
        ast.Compare: "q < 3", ast.Call: "abs(q) < 3", ast.FormattedValue: "f'{q}'", ast.JoinedStr: "f'q'",
        ast.Constant: "3 < q", ast.Attribute: "q.k", ast.Subscript: "q[k]", ast.Starred: "abs(*q) < 3",
        ast.Name: "q < 3", ast.List: "[q]", ast.Tuple: "(q, k)", ast.Slice: "q[k:b]",
    }  # fmt: skip
    understood = {ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.Constant, ast.Name}
    here = {kind for kind in ast.expr.__subclasses__() if kind.__module__ == "ast"}
    later = {"TemplateStr", "Interpolation"}  # Python 3.14
    assert {kind for kind in here if kind.__name__ not in later} == set(samples)
    for kind, text in samples.items():
        if kind in understood:
            parse(text)
        else:
            refused(text)


def test_operators_that_are_not_ours_are_refused() -> None:
    ours = {sign for sign, _ in predicates._ARITHMETIC.values()}
    for sign in ("+", "-", "*", "//", "%", "**", "/", "@", "<<", ">>", "|", "^", "&"):
        text = f"q {sign} k < 3"
        if sign in ours:
            parse(text)
        else:
            refused(text)
    for sign in ("in", "not in", "is", "is not"):
        assert refused(f"q {sign} k").code == "condition_node"


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('true')", "__import__(q)", "().__class__", "q.__class__.__mro__", "open(q)",
        "exec(q) < 1", "globals() == q", "[].append(q)", "abs.__self__", "q < 3\nimport os", "q < 3 or (print(1))",
        "f'{q}' < 3", "`q`", "\x00q < 3", "q < 3\x00", "min(q, key=k) < 3", "abs(**q) < 3", "breakpoint() < 3",
        "\u202eq < 3", "q\u2028< 3 if 1 else 2", "not_a_name__ < 3",
    ],
)  # fmt: skip
def test_nothing_can_be_called_imported_or_looked_up(text: str) -> None:
    assert refused(text).code.startswith("condition_")


@given(st.one_of(st.text(max_size=60), st.text("qkbhn_<>=!+-*/%() ,0123456789andortm", max_size=60)))
def test_any_text_is_a_condition_or_is_refused_in_a_sentence(text: str) -> None:
    try:
        predicate = parse(text)
    except ConfigError as error:
        assert len(str(error)) < 600
        str(error).encode()
        return
    assert parse(predicate.text) == predicate and predicate.needs <= set(NAMES)


def test_the_reader_itself_runs_no_text() -> None:
    tree = ast.parse(Path(str(predicates.__file__)).read_text(encoding="utf-8"))
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    assert not called & {"eval", "exec", "compile", "getattr", "__import__"}


def test_long_deep_and_endless_texts_are_refused_at_once() -> None:
    assert refused("q < 1" + " and q < 1" * 25).values["high"] == MAX_TEXT
    deep = refused("not " * MAX_DEPTH + "q < 1")
    assert deep.code == "condition_deep" and f"nested more than {MAX_DEPTH} deep at column" in str(deep)
    assert parse("not " * (MAX_DEPTH - 2) + "q < 1").text.endswith("q < 1")
    assert refused("-" * 150 + "q < 1").code == "condition_deep"
    assert parse("(" * 90 + "q < 1" + ")" * 90).needs == {"q"}  # brackets alone are no depth
    assert refused("(" * 195 + "q").code == "condition_broken"
    assert refused("q" * 10_000).code == "condition_long"


@pytest.mark.parametrize("value", [None, 3, True, math.nan, ["q < 3"], b"q < 3", "q < \ud800"])
def test_what_is_no_text_is_refused(value: Any) -> None:
    assert refused(value).code in ("not_text", "not_unicode")


@pytest.mark.parametrize(
    ("text", "repaired"),
    [
        ("q = k", "q == k"),
        ("q ≤ k and k>2", "q <= k and k>2"),
        ("q<3 &k<2", "q<3 and k<2"),
        ("q％2 == 0", "q%2 == 0"),
        ("qq < 3", "q < 3"),
        ("q - k", "q - k != 0"),
        ("q < 3 and k % 2", "q < 3 and k % 2 != 0"),
        ("q < 1000001", "q < 1000000"),
        ("maximum(q, k) < 3", "max(q, k) < 3"),
    ],
)
def test_a_refusal_offers_the_repaired_rule_where_one_repair_is_enough(text: str, repaired: str) -> None:
    assert refused(text).values["nearest"] == f"where:{repaired}"
    with pytest.raises(ConfigError) as caught:
        MaskConfig(cross=["padding", f"where:{text}"])
    assert caught.value.choices == [{"cross": ("padding", f"where:{repaired}")}]
    assert MaskConfig(**caught.value.choices[0]).cross[1] == f"where:{repaired}"


def test_two_mistakes_offer_no_repair() -> None:
    assert "nearest" not in refused("q = k & h").values


def test_every_sentence_about_conditions_is_met_by_a_test() -> None:
    here = Path(__file__).read_text(encoding="utf-8")
    assert [code for code in MESSAGES if code.startswith("condition_") and f'"{code}"' not in here] == []
