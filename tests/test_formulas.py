"""The correspondence table, enforced: each formula is recomputed here from the recorded inputs of a real run.

The functions named after a row of the table (``test_scores``, ...) are the evidence that the row points to. They
compute in float64 from the words of the paper, by other operations than the model's.
"""

import ast
import importlib
import inspect
import math
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, reduce
from pathlib import Path

import pytest
import torch
from latex2mathml.converter import convert
from torch import Tensor

from explorer import words
from transformer_core.batches import Batch, make_batch
from transformer_core.config import DataConfig, MaskConfig, ModelConfig
from transformer_core.formulas import FORMULAS, NOT_IN_PAPER, Formula, find, inputs
from transformer_core.ledger import Entry, Ledger, trace
from transformer_core.model import Transformer, build

ROOT = Path(__file__).parent.parent
VARIANTS = [
    ("encoder_decoder", "post"),
    ("encoder_decoder", "pre"),
    ("encoder", "post"),
    ("encoder", "pre"),
    ("decoder", "post"),
    ("decoder", "pre"),
]


@dataclass(frozen=True)
class Run:
    model: Transformer
    batch: Batch
    ledger: Ledger


@cache
def run(architecture: str, norm_order: str) -> Run:
    """A traced forward in float64 with sizes that no two axes share; norms and biases are not at their start."""
    config = ModelConfig(
        architecture=architecture, norm_order=norm_order, d_model=12, n_heads=3, n_encoder_layers=2, n_decoder_layers=2,
        d_ff=17, src_vocab_size=29, tgt_vocab_size=31, n_classes=13 if architecture == "encoder" else 0,
    )  # fmt: skip
    model = build(config, seed=3, dtype=torch.float64).eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
    batch = make_batch(config, DataConfig(src_len=7, tgt_len=5, batch_size=2), seed=3)
    with torch.no_grad(), trace(model) as ledger:
        model(batch.src, batch.tgt)
    return Run(model, batch, ledger)


def occurrences(name: str) -> Iterator[tuple[Run, Entry, list[Tensor]]]:
    """Every entry of every run that this row describes, with the tensors that the row says it reads."""
    found = False
    for variant in VARIANTS:
        here = run(*variant)
        keys = here.ledger.keys()
        for entry in here.ledger:
            formula = find(entry.key)
            if formula is not None and formula.name == name:
                read = inputs(entry.key, keys)
                assert len(read) == len(formula.reads), f"{entry.key} reads {formula.reads}, found only {read}"
                found = True
                yield here, entry, [here.ledger[key].value for key in read]
    assert found, f"no run records {name}"


def close(entry: Entry, wanted: Tensor) -> None:
    torch.testing.assert_close(entry.value, wanted, rtol=1e-10, atol=1e-12, msg=lambda text: f"{entry.key}: {text}")


def head_slice(run: Run, entry: Entry, projection: str, x: Tensor) -> Tensor:
    """x W_i + b_i for each head i, with W_i the i-th block of columns of the projection."""
    linear = getattr(run.model.get_submodule(entry.path), projection)
    n_heads, d_head = run.model.config.n_heads, run.model.config.d_head
    heads = []
    for i in range(n_heads):
        block = slice(i * d_head, (i + 1) * d_head)
        heads.append(torch.einsum("bnd,ed->bne", x, linear.weight[block]) + linear.bias[block])
    return torch.stack(heads, dim=1)


def layer_norm(module: torch.nn.LayerNorm, x: Tensor) -> Tensor:
    """g (x - mean) / sqrt(variance + eps) + b, with the variance divided by n (section 3.1, Ba et al. 2016)."""
    mean = x.sum(-1, keepdim=True) / x.shape[-1]
    variance = ((x - mean) ** 2).sum(-1, keepdim=True) / x.shape[-1]
    return module.weight * (x - mean) / (variance + module.eps) ** 0.5 + module.bias


def sinusoid(length: int, d_model: int) -> Tensor:
    table = torch.zeros(length, d_model, dtype=torch.float64)
    for position in range(length):
        for feature in range(d_model):
            angle = position / 10000 ** (2 * (feature // 2) / d_model)
            table[position, feature] = math.cos(angle) if feature % 2 else math.sin(angle)
    return table


# One function a row: the evidence.


def test_src() -> None:
    for here, entry, _ in occurrences("src"):
        assert torch.equal(entry.value, here.batch.src)


def test_tgt() -> None:
    for here, entry, _ in occurrences("tgt"):
        assert torch.equal(entry.value, here.batch.tgt)


def test_src_embeddings() -> None:
    for here, entry, (ids,) in occurrences("src_embeddings"):
        close(entry, here.model.src_embedding.weight[ids] * 12**0.5)


def test_tgt_embeddings() -> None:
    for here, entry, (ids,) in occurrences("tgt_embeddings"):
        close(entry, here.model.tgt_embedding.weight[ids] * 12**0.5)


def test_src_positions() -> None:
    for _, entry, _ in occurrences("src_positions"):
        torch.testing.assert_close(entry.value, sinusoid(7, 12), rtol=0, atol=1e-7)


def test_tgt_positions() -> None:
    for _, entry, _ in occurrences("tgt_positions"):
        torch.testing.assert_close(entry.value, sinusoid(5, 12), rtol=0, atol=1e-7)


def test_encoder_input() -> None:
    for _, entry, (embeddings, positions) in occurrences("encoder_input"):
        close(entry, embeddings + positions)


def test_decoder_input() -> None:
    for _, entry, (embeddings, positions) in occurrences("decoder_input"):
        close(entry, embeddings + positions)


def test_q() -> None:
    for here, entry, (x,) in occurrences("q"):
        close(entry, head_slice(here, entry, "w_q", x))


def test_self_k() -> None:
    for here, entry, (x,) in occurrences("self_k"):
        close(entry, head_slice(here, entry, "w_k", x))


def test_self_v() -> None:
    for here, entry, (x,) in occurrences("self_v"):
        close(entry, head_slice(here, entry, "w_v", x))


def test_cross_k() -> None:
    for here, entry, (memory,) in occurrences("cross_k"):
        close(entry, head_slice(here, entry, "w_k", memory))


def test_cross_v() -> None:
    for here, entry, (memory,) in occurrences("cross_v"):
        close(entry, head_slice(here, entry, "w_v", memory))


def test_scores() -> None:
    for _, entry, (q, k) in occurrences("scores"):
        close(entry, torch.einsum("bhqd,bhkd->bhqk", q, k) / 4**0.5)


def test_encoder_allowed() -> None:
    for _, entry, (src,) in occurrences("encoder_allowed"):
        assert_visible(entry, src, causal=False)


def test_decoder_allowed() -> None:
    for _, entry, (tgt,) in occurrences("decoder_allowed"):
        assert_visible(entry, tgt, causal=True)


def test_cross_allowed() -> None:
    for _, entry, (src,) in occurrences("cross_allowed"):
        assert_visible(entry, src, causal=False)


def assert_visible(entry: Entry, keys: Tensor, causal: bool) -> None:
    tokens = keys.tolist()
    for sample, heads in enumerate(entry.value.tolist()):
        for rows in heads:
            for i, row in enumerate(rows):
                wanted = [token != 0 and not (causal and j > i) for j, token in enumerate(tokens[sample])]
                assert row == wanted, f"{entry.key}: sentence {sample}, query {i}"


def test_weights() -> None:
    for _, entry, (scores, allowed) in occurrences("weights"):
        mask = allowed.to(torch.float64).log()
        assert set(mask.unique().tolist()) <= {0.0, -math.inf}
        shares = (scores + mask).exp()
        close(entry, shares / shares.sum(-1, keepdim=True))


def test_heads() -> None:
    for _, entry, (weights, v) in occurrences("heads"):
        close(entry, (weights[..., None] * v[:, :, None]).sum(-2))


def test_attention_output() -> None:
    for here, entry, (heads,) in occurrences("attention_output"):
        w_o = here.model.get_submodule(entry.path).w_o
        side_by_side = torch.cat([heads[:, i] for i in range(heads.shape[1])], dim=-1)
        close(entry, torch.einsum("bnd,ed->bne", side_by_side, w_o.weight) + w_o.bias)


def assert_sums(name: str) -> None:
    for _, entry, (x, output) in occurrences(name):
        close(entry, x + output)


def test_self_attention_sum() -> None:
    assert_sums("self_attention_sum")


def test_cross_attention_sum() -> None:
    assert_sums("cross_attention_sum")


def test_feed_forward_sum() -> None:
    assert_sums("feed_forward_sum")


def assert_norms(name: str) -> None:
    for here, entry, (x,) in occurrences(name):
        module = "norm" if entry.name == "final_norm" else entry.name
        close(entry, layer_norm(here.model.get_submodule(f"{entry.path}.{module}"), x))


def test_self_attention_norm() -> None:
    assert_norms("self_attention_norm")


def test_cross_attention_norm() -> None:
    assert_norms("cross_attention_norm")


def test_feed_forward_norm() -> None:
    assert_norms("feed_forward_norm")


def test_encoder_final_norm() -> None:
    assert_norms("encoder_final_norm")


def test_decoder_final_norm() -> None:
    assert_norms("decoder_final_norm")


def test_feed_forward_hidden() -> None:
    for here, entry, (x,) in occurrences("feed_forward_hidden"):
        w_1 = here.model.get_submodule(entry.path).w_1
        close(entry, (torch.einsum("bnd,fd->bnf", x, w_1.weight) + w_1.bias).clamp_min(0))


def test_feed_forward_output() -> None:
    for here, entry, (hidden,) in occurrences("feed_forward_output"):
        w_2 = here.model.get_submodule(entry.path).w_2
        close(entry, torch.einsum("bnf,df->bnd", hidden, w_2.weight) + w_2.bias)


def test_memory() -> None:
    for _, entry, (end_of_stack,) in occurrences("memory"):
        assert torch.equal(entry.value, end_of_stack)


def test_logits() -> None:
    for here, entry, (x,) in occurrences("logits"):
        if here.model.config.architecture == "encoder":
            head, x = here.model.classifier, x[:, :1]
            close(entry, (torch.einsum("bnd,vd->bnv", x, head.weight) + head.bias)[:, 0])
        else:
            head = here.model.output
            close(entry, torch.einsum("bnd,vd->bnv", x, head.weight) + head.bias)


def test_probabilities() -> None:
    for _, entry, (logits,) in occurrences("probabilities"):
        close(entry, logits.exp() / logits.exp().sum(-1, keepdim=True))


# The table itself.


@pytest.mark.parametrize(("architecture", "norm_order"), VARIANTS)
def test_every_entry_of_a_run_has_exactly_one_formula(architecture: str, norm_order: str) -> None:
    for key in run(architecture, norm_order).ledger.keys():
        rows = [row for row in FORMULAS if fnmatchcase(key, row.where)]
        assert len(rows) == 1, f"{key} fits {[row.name for row in rows]}"
        assert find(key) is rows[0]


def test_every_row_occurs_in_a_run() -> None:
    keys = [key for variant in VARIANTS for key in run(*variant).ledger.keys()]
    assert {find(key).name for key in keys} == {row.name for row in FORMULAS}


def test_an_unknown_key_has_no_formula_and_no_inputs() -> None:
    assert find("encoder.layers.0.self_attention/attention_entropy") is None
    assert find("") is None
    assert inputs("somewhere/else", ["somewhere/else"]) == []


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda row: row.name)
def test_code_of_a_row_is_where_its_entries_were_recorded(formula: Formula) -> None:
    module, _, name = formula.code.partition(".")[2].partition(".")
    code = reduce(getattr, name.split("."), importlib.import_module(f"transformer_core.{module}"))
    assert callable(code)
    entries = [entry for variant in VARIANTS for entry in run(*variant).ledger]
    recorded = {entry.source.file for entry in entries if find(entry.key) is formula}
    if "allowed" not in formula.name:  # a mask is composed in one file and used in another
        assert recorded == {inspect.getsourcefile(inspect.unwrap(code))}


def test_the_named_tests_exist_and_no_two_rows_share_one() -> None:
    for row in FORMULAS:
        path, _, name = row.test.partition("::")
        functions = [node.name for node in ast.parse((ROOT / path).read_text(encoding="utf-8")).body
                     if isinstance(node, ast.FunctionDef)]  # fmt: skip
        assert name in functions, f"{row.name} names {row.test}"
    assert len({row.test for row in FORMULAS}) == len({row.name for row in FORMULAS}) == len(FORMULAS)


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda row: row.name)
def test_latex_of_a_row_converts_with_and_without_its_changes(formula: Formula) -> None:
    texts = [formula.latex, formula.right_side]
    for change in formula.changes:
        assert change.old in formula.latex, f"{formula.name}: {change} changes nothing"
        texts.append(formula.latex.replace(change.old, change.new))
    for text in texts:
        mathml = convert(text)
        assert mathml.startswith("<math") and "\\" not in mathml, text


@pytest.mark.parametrize("formula", FORMULAS, ids=lambda row: row.name)
def test_section_and_equation_are_places_of_the_paper(formula: Formula) -> None:
    sections = {NOT_IN_PAPER, "3", "3.1", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.4", "3.5", "5.4"}
    assert formula.section in sections
    assert formula.equation in ("", "eq. 1", "eq. 2")
    assert formula.paper == formula.section + (f", {formula.equation}" if formula.equation else "")


def test_equation_1_is_attention_and_equation_2_the_feed_forward_network() -> None:
    layer = "decoder.layers.1"
    assert find(f"{layer}.cross_attention/scores").paper == "3.2.1, eq. 1"
    assert find(f"{layer}.cross_attention/weights").paper == "3.2.1, eq. 1"
    assert find(f"{layer}.feed_forward/hidden").paper == "3.3, eq. 2"
    assert find(f"{layer}/feed_forward_norm").paper == "3.1"


@pytest.mark.parametrize(
    ("key", "settings", "latex"),
    [
        ("encoder.layers.0.feed_forward/hidden", ModelConfig(activation="gelu"), r"\mathrm{GELU}(x W_1 + b_1)"),
        ("encoder.layers.0.feed_forward/hidden", ModelConfig(bias=False), r"\max(0, x W_1)"),
        ("encoder.layers.0.self_attention/scores", ModelConfig(scale_scores=False), r"Q K^{\top}"),
        ("encoder.layers.0/feed_forward_norm", ModelConfig(norm_order="pre"), r"\mathrm{LayerNorm} \left( x \right)"),
        ("encoder.layers.0/feed_forward_norm", ModelConfig(), r"\mathrm{LayerNorm} \left( x + \mathrm{output} \right)"),
        ("encoder/final_norm", ModelConfig(norm="rms"), r"\mathrm{RMSNorm}(x)"),
        ("encoder/final_norm", ModelConfig(norm="batch"), r"\mathrm{BatchNorm}(x)"),
        ("src_embeddings", ModelConfig(scale_embedding=False), r"E_{\mathrm{src}}"),
        ("src_positions/positions", ModelConfig(positions="learned"), r"W^{PE}_{pos}"),
        ("decoder/input", ModelConfig(positions_on_decoder=False), r"\mathrm{tgt\_embeddings}"),
        ("encoder/input", ModelConfig(positions_on_decoder=False), r"\mathrm{src\_embeddings} + PE"),
        ("logits", ModelConfig(tie_weights=True), r"x E_{\mathrm{tgt}}^{\top} + b"),
        ("logits", ModelConfig(architecture="encoder", n_classes=2), r"\mathrm{memory}_0 W + b"),
        ("encoder.layers.0.self_attention/weights", MaskConfig(fill="-1e9"), None),
    ],
)
def test_formulas_follow_the_settings_of_the_run(key: str, settings: object, latex: str | None) -> None:
    formula = find(key, settings)
    if latex is None:
        assert formula.latex != find(key).latex
    else:
        assert formula.right_side == latex


def test_inputs_cross_the_border_between_layers() -> None:
    post, pre = run("encoder_decoder", "post").ledger.keys(), run("encoder_decoder", "pre").ledger.keys()
    query = "decoder.layers.1.self_attention/q"
    assert inputs(query, post) == ["decoder.layers.0/feed_forward_norm"]
    assert inputs(query, pre) == ["decoder.layers.1/self_attention_norm"]
    total = "decoder.layers.1/self_attention_sum"
    assert inputs(total, post) == ["decoder.layers.0/feed_forward_norm", "decoder.layers.1.self_attention/output"]
    assert inputs(total, pre) == ["decoder.layers.0/feed_forward_sum", "decoder.layers.1.self_attention/output"]
    assert inputs("decoder.layers.0.cross_attention/k", post) == ["memory"]
    assert inputs("memory", pre) == ["encoder/final_norm"]


@pytest.mark.parametrize("language", words.LANGUAGES)
def test_every_row_is_explained_in_both_languages(language: str) -> None:
    explained = {key.removeprefix("formulas.") for key in words.table() if key.startswith("formulas.")}
    assert explained == {row.name for row in FORMULAS}
    for row in FORMULAS:
        sentence = words.table()[f"formulas.{row.name}"][language]
        assert sentence.rstrip().endswith("." if language == "en" else "。")


def test_the_table_imports_nothing_heavier_than_the_standard_library() -> None:
    tree = ast.parse((ROOT / "transformer_core/formulas.py").read_text(encoding="utf-8"))
    modules = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    modules |= {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    assert modules == {"collections.abc", "dataclasses", "fnmatch", "typing"}
