"""Masks in the words of others: there and back, and every snippet run as it stands and compared with ``attend``."""

import warnings
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from transformer_core import conventions, masks
from transformer_core.attention import attend, masked_softmax
from transformer_core.batches import Batch
from transformer_core.config import MaskConfig, ModelConfig
from transformer_core.conventions import CONVENTIONS, Snippet, from_keep, snippets, to_keep
from transformer_core.model import build
from transformer_core.parity import compare, to_torch

SRC = torch.tensor([[5, 6, 2, 7, 8, 0, 0], [9, 2, 4, 5, 6, 7, 8]])
TGT = torch.tensor([[1, 5, 6, 2, 0], [1, 7, 8, 9, 10]])
D_MODEL, HEADS = 6, 3

RULES: dict[str, dict[str, Any]] = {
    "usual": {},
    "nothing hidden": {"encoder_self": [], "decoder_self": [], "cross": []},
    "without padding": {"encoder_self": ["window:2"], "decoder_self": ["causal"], "cross": ["block:3"]},
    "shapes": {"encoder_self": ["padding", "window:2"], "decoder_self": ["padding", "causal", "window:3"],
               "cross": ["padding", "window:3"]},
    "prefix": {"decoder_self": ["padding", "causal", "prefix:2"], "cross": ["causal"]},
    "blocks": {"encoder_self": ["block:3"], "decoder_self": ["strided:2", "padding"], "cross": ["strided:2"]},
    "random": {"encoder_self": ["padding", "random:40"], "decoder_self": ["random:60", "causal"],
               "cross": ["random:50"]},
    "documents": {"encoder_self": ["documents", "padding"], "decoder_self": ["documents", "causal"]},
    "conditions": {"encoder_self": ["where:q - k < 3 and k % 2 == 0 or q == k"], "cross": ["where:k <= n_k - n_q + q"],
                   "decoder_self": ["padding", "where:not k > q"]},
    "constant": {"encoder_self": ["where:n_k > 3"], "cross": ["where:min(n_q, 2) // (n_k - 4) == 0"]},
    "heads": {"encoder_self": ["padding", "where:h == 0 or abs(q - k) <= h"], "cross": ["padding", "where:k >= h"],
              "decoder_self": ["causal", "where:h > 0 or q == k"]},
    "sentences": {"encoder_self": ["where:b == 0 or q - k < 2"],
                  "cross": ["padding", "where:k == 0 or (b + h) % 2 == 0"],
                  "decoder_self": ["where:k <= q + b"]},
    "painted": {"cross": ["custom", "padding"], "cross_custom": [[1, 0, 1, 0, 0, 0, 1], [1] * 7, [1, 1, 0, 0, 0, 0, 0],
                                                                 [0, 1, 1, 1, 1, 1, 0], [1, 0, 0, 0, 0, 0, 1]]},
    "an empty row": {"encoder_self": ["padding", "window:1"], "decoder_self": ["causal", "where:q != 2"],
                     "cross": ["where:q > 0"]},
}  # fmt: skip
ATTENTIONS = ("encoder_self", "decoder_self", "cross")


def run(snippet: Snippet) -> dict[str, Any]:
    """What the names of a snippet hold after it ran, alone, as somebody would paste it."""
    namespace: dict[str, Any] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # uncompiled flex_attention warns that it is slow
        exec(compile(snippet.code, snippet.api, "exec"), namespace)
    return namespace


def wanted(config: MaskConfig, attention: str) -> torch.Tensor:
    queries, keys = (SRC if attention == "encoder_self" else TGT), (TGT if attention == "decoder_self" else SRC)
    allowed = masks.for_attention(config, attention, queries.shape[1], keys, n_heads=HEADS)
    every = torch.ones(2, HEADS, queries.shape[1], keys.shape[1], dtype=torch.bool)
    return every if allowed is None else every & allowed


def made(config: MaskConfig, attention: str) -> dict[str, Snippet]:
    found = snippets(config, attention, SRC, TGT, d_model=D_MODEL, n_heads=HEADS)
    assert all(each.runs and each.note.endswith(".") for each in found)
    return {each.api: each for each in found}


cases = pytest.mark.parametrize("attention", ATTENTIONS)
rules = pytest.mark.parametrize("name", RULES)


@cases
@rules
def test_the_functional_snippets_give_the_context_of_attend(name: str, attention: str) -> None:
    config = MaskConfig(**RULES[name])
    allowed, found = wanted(config, attention), made(config, attention)
    seen = allowed.any(dim=-1)
    apis = ["scaled_dot_product_attention", "additive"]
    if attention == ATTENTIONS[list(RULES).index(name) % 3]:  # making a block mask takes a while
        apis.append("flex_attention")
    for api in apis:
        names = run(found[api])
        context, weights = attend(names["query"], names["key"], names["value"], allowed)
        torch.testing.assert_close(names["output"][seen], context[seen], atol=2e-6, rtol=0)
        if api != "flex_attention":
            assert torch.equal(names["allowed"], allowed)
        if api == "additive":
            torch.testing.assert_close(names["weights"][seen], weights[seen], atol=1e-6, rtol=0)
            assert names["weights"][seen][~allowed[seen]].eq(0).all()
            assert names["weights"][~seen].isnan().all()
        else:
            assert names["output"][~seen].eq(0).all()


@cases
@rules
def test_the_mask_mod_says_the_same_of_every_pair(name: str, attention: str) -> None:
    config = MaskConfig(**RULES[name])
    allowed, snippet = wanted(config, attention), made(config, attention)["flex_attention"]
    mask_mod = run(replace(snippet, code=snippet.code.partition("\nblock_mask")[0]))["mask_mod"]
    places = torch.meshgrid(*(torch.arange(size) for size in allowed.shape), indexing="ij")
    said = torch.as_tensor(mask_mod(*places)).expand(allowed.shape)
    assert torch.equal(said, allowed)


@cases
@rules
def test_the_module_snippet_gives_the_weights_of_attend(name: str, attention: str) -> None:
    config = MaskConfig(**RULES[name])
    allowed, names = wanted(config, attention), run(made(config, attention)["MultiheadAttention"])
    theirs, x, memory = names["attention"], names["x"], names["memory"]
    parts = zip(theirs.in_proj_weight.chunk(3), theirs.in_proj_bias.chunk(3), (x, memory, memory), strict=True)
    q, k, v = ((each @ weight.T + bias).unflatten(-1, (HEADS, -1)).transpose(1, 2) for weight, bias, each in parts)
    seen = allowed.any(dim=-1)
    _, weights = attend(q, k, v, allowed)
    torch.testing.assert_close(names["weights"][seen], weights[seen], atol=1e-6, rtol=0)
    assert names["weights"][~seen].isnan().all()


@rules
def test_the_arguments_for_nn_transformer_give_the_output_of_our_model(name: str) -> None:
    config = MaskConfig(**RULES[name])
    sizes = ModelConfig(d_model=D_MODEL, n_heads=HEADS, d_ff=7, n_encoder_layers=1, n_decoder_layers=2)
    model = build(sizes, config, seed=7)
    arguments = run(made(config, "cross")["Transformer"])["arguments"]
    with torch.no_grad():
        x, y = model.embed("src", SRC), model.embed("tgt", TGT)
        output = to_torch(model)(x, y, **arguments)
        ours = model.decode(TGT, model.encode(SRC), SRC)
    torch.testing.assert_close(output, ours, atol=5e-6, rtol=0)


def test_snippets_need_nothing_of_this_library_and_name_no_stranger() -> None:
    for name, given_rules in RULES.items():
        for attention in ATTENTIONS:
            for api, each in made(MaskConfig(**given_rules), attention).items():
                assert "transformer_core" not in each.code, (name, api)
                assert max(map(len, each.code.splitlines())) <= 120, (name, api)


def test_notes_say_what_an_empty_row_becomes_only_where_there_is_one() -> None:
    usual, empty = made(MaskConfig(), "decoder_self"), made(MaskConfig(**RULES["an empty row"]), "decoder_self")
    for api in usual:
        assert "sees no key" not in usual[api].note
        assert "sees no key" in empty[api].note
    assert "sentence by sentence" in made(MaskConfig(**RULES["heads"]), "cross")["MultiheadAttention"].note
    assert "B k." in made(MaskConfig(), "cross")["MultiheadAttention"].note


def test_one_side_alone_has_no_transformer() -> None:
    found = snippets(MaskConfig(), "encoder_self", SRC, None)
    assert [each.api for each in found] == [
        "scaled_dot_product_attention", "MultiheadAttention", "additive", "flex_attention",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="cross needs the tokens of its queries and of its keys"):
        snippets(MaskConfig(), "cross", SRC, None)


def test_another_padding_id_and_more_queries_than_keys() -> None:
    src, tgt = torch.tensor([[5, 9, 9]]), torch.tensor([[1, 4, 5, 6, 7]])
    config = MaskConfig(cross=["padding", "causal"])
    found = {each.api: each for each in snippets(config, "cross", src, tgt, pad_id=9, d_model=6, n_heads=2)}
    allowed = masks.for_attention(config, "cross", 5, src, pad_id=9, n_heads=2)
    assert allowed is not None and allowed.sum() == 3
    assert torch.equal(run(found["scaled_dot_product_attention"])["allowed"], allowed.expand(1, 2, 5, 3))


# Four ways to say the same


def test_what_true_means_is_not_told_by_the_dtype() -> None:
    """H03: one mask read in two ways."""
    keep = torch.tensor([True, True, False])
    scores = torch.zeros(1, 3)
    forms = {each.name: each.to(keep) for each in CONVENTIONS}
    assert forms["allowed"].tolist() == [True, True, False] and forms["ignore"].tolist() == [False, False, True]
    assert forms["keep"].tolist() == [1, 1, 0] and forms["additive"].tolist() == [0, 0, -float("inf")]
    assert attend_row(scores, keep) == [0.5, 0.5, 0] and attend_row(scores, forms["ignore"]) == [0, 0, 1]


def attend_row(scores: torch.Tensor, allowed: torch.Tensor) -> list[float]:
    return masked_softmax(scores, allowed)[0].tolist()


@settings(max_examples=40)
@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=5))
def test_every_convention_goes_there_and_back(rows: list[list[bool]]) -> None:
    allowed = torch.tensor(rows)
    for each in CONVENTIONS:
        assert torch.equal(each.back(each.to(allowed)), allowed)
        cells = each.to(allowed)
        shown = {True: each.visible, False: each.hidden}
        assert {str(cell) for cell in cells.flatten().tolist()} <= set(shown.values())
        assert [[str(cell) for cell in row] for row in cells.tolist()] == [
            [shown[cell] for cell in row] for row in rows
        ]


def test_keep_holds_ones_and_zeros_only() -> None:
    assert to_keep(torch.tensor([True])).dtype == torch.int64
    with pytest.raises(ValueError, match="a mask of keep holds 1 and 0 only, got 2"):
        from_keep(torch.tensor([0, 1, 2]))


def test_without_flex_attention_the_snippet_says_that_it_does_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conventions, "_has_flex", lambda: False)
    assert {each.api: each.runs for each in snippets(MaskConfig(), "cross", SRC, TGT)}["flex_attention"] is False


@pytest.mark.parametrize("name", ["random", "documents", "heads", "sentences"])
def test_parity_hands_torch_the_masks_of_heads_and_sentences(name: str) -> None:
    sizes = ModelConfig(d_model=D_MODEL, n_heads=HEADS, d_ff=7, n_encoder_layers=1, n_decoder_layers=1)
    model = build(sizes, MaskConfig(**RULES[name]), seed=7)
    compared = compare(model, Batch(SRC, TGT), dtype=torch.float64, backward=False)
    judged = {each.key: each.passed for each in compared.forward}
    assert judged["encoder.layers.0.self_attention/weights"] and all(judged.values())
