r"""The correspondence table: what the paper says, what the run holds, which code computes it, which test shows it.

Pure data. There is one ``Formula`` for every kind of ledger entry; a key such as
``decoder.layers.1.cross_attention/weights`` leads to exactly one of them. Letters, sections and equation numbers are
those of "Attention Is All You Need" (Vaswani et al. 2017). Where a run differs from the paper, ``changes`` rewrite the
LaTeX for its settings, so that nobody reads ReLU over a tensor that GELU made.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import NamedTuple


class Change(NamedTuple):
    """Where the run's ``setting`` has ``value``, the part ``old`` of the LaTeX reads ``new``."""

    setting: str
    value: object
    old: str
    new: str


@dataclass(frozen=True)
class Formula:
    """One row of the table: a named tensor and the things it is tied to.

    ``where`` is a pattern on ledger keys; ``*`` stands for any text. ``reads`` lists the inputs, seen from the module
    that holds the entry: ``scores`` lies in the same module, ``../self_attention_norm`` in the one around it,
    ``/memory`` at the root. ``a|b`` means whichever of the two was computed last; ``inputs`` looks it up in a run.
    """

    name: str
    where: str
    latex: str
    section: str
    equation: str
    code: str
    test: str
    reads: tuple[str, ...] = ()
    changes: tuple[Change, ...] = ()

    @property
    def paper(self) -> str:
        """The place in the paper as it is printed: ``3.2.1, eq. 1``, or the section alone."""
        return f"{self.section}, {self.equation}" if self.equation else self.section

    @property
    def right_side(self) -> str:
        """The LaTeX after the first equals sign, for columns that name the tensor already."""
        return self.latex.partition(" = ")[2] or self.latex


def find(key: str, *settings: object) -> Formula | None:
    r"""The formula of a ledger key, written for the settings of the run (a ModelConfig, a MaskConfig, a mapping).

    >>> find("decoder.layers.0.cross_attention/scores").latex
    '\\mathrm{scores} = \\frac{Q K^{\\top}}{\\sqrt{d_k}}'
    >>> find("decoder.layers.0.cross_attention/scores", {"scale_scores": False}).latex
    '\\mathrm{scores} = Q K^{\\top}'
    """
    for formula in _BY_TENSOR.get(_tensor(key), ()):
        if fnmatchcase(key, formula.where):
            return _written_for(formula, settings) if settings else formula
    return None


def inputs(key: str, keys: Iterable[str]) -> list[str]:
    """The ledger keys that the tensor was computed from, in the order of its formula.

    >>> inputs("encoder.layers.0.self_attention/heads", ["encoder.layers.0.self_attention/weights",
    ...     "encoder.layers.0.self_attention/v", "encoder.layers.0.self_attention/heads"])
    ['encoder.layers.0.self_attention/weights', 'encoder.layers.0.self_attention/v']
    """
    formula, earlier = find(key), list(keys)
    if formula is None:
        return []
    if key in earlier:
        earlier = earlier[: len(earlier) - 1 - earlier[::-1].index(key)]
    found = (_latest(key, read, earlier) for read in formula.reads)
    return [name for name in found if name is not None]


def _tensor(key: str) -> str:
    return key.rpartition("/")[2]


def _latest(key: str, read: str, earlier: list[str]) -> str | None:
    patterns = [_absolute(key, alternative) for alternative in read.split("|")]
    return next((name for name in reversed(earlier) if any(fnmatchcase(name, each) for each in patterns)), None)


def _absolute(key: str, read: str) -> str:
    """``../*/x`` seen from ``encoder.layers.0/y`` is ``encoder.layers.*/x``."""
    if read.startswith("/"):
        return read[1:]
    modules = key.rpartition("/")[0].split(".")
    while read.startswith("../"):
        modules, read = modules[:-1], read[3:]
    child, _, name = read.rpartition("/")
    path = ".".join([*modules, child] if child else modules)
    return f"{path}/{name}" if path else name


def _written_for(formula: Formula, settings: tuple[object, ...]) -> Formula:
    latex = formula.latex
    for change in formula.changes:
        if any(_value(each, change.setting) == change.value for each in settings):
            latex = latex.replace(change.old, change.new)
    return replace(formula, latex=latex)


def _value(settings: object, name: str) -> object:
    return settings.get(name) if isinstance(settings, Mapping) else getattr(settings, name, None)


NOT_IN_PAPER = "–"
"""Stands for the section of what was added since: pre-norm stacks end with a norm, the paper's do not."""

# Short names for what many rows share.
_ATTENTION = "transformer_core.attention.MultiHeadAttention.forward"
_ATTEND = "transformer_core.attention.attend"
_RESIDUAL = "transformer_core.layers.Layer.residual"
_FEED_FORWARD = "transformer_core.layers.FeedForward.forward"
_MODEL = "transformer_core.model.Transformer"
_TESTS = "tests/test_formulas.py::"
_BEFORE_LAYER = "../*/feed_forward_sum|../*/feed_forward_norm|../../input"
_BEFORE_ATTENTION = (
    "../cross_attention_norm|../self_attention_norm|../self_attention_sum"
    "|../../*/feed_forward_sum|../../*/feed_forward_norm|../../../input"
)
_BEFORE_CROSS = "self_attention_sum|self_attention_norm"
_BEFORE_FEED_FORWARD = f"cross_attention_sum|cross_attention_norm|{_BEFORE_CROSS}"
_END_OF_ENCODER = "/encoder.layers.*/feed_forward_sum|/encoder.layers.*/feed_forward_norm|/encoder/input"
_END_OF_DECODER = "/decoder.layers.*/feed_forward_sum|/decoder.layers.*/feed_forward_norm|/decoder/input"
_SINUSOIDAL = (
    r"PE_{pos, 2i} = \sin \frac{pos}{10000^{2i / d_{\mathrm{model}}}}, \;"
    r" PE_{pos, 2i + 1} = \cos \frac{pos}{10000^{2i / d_{\mathrm{model}}}}"
)
_UNSCALED = Change("scale_embedding", False, r" \sqrt{d_{\mathrm{model}}}", "")
_LEARNED = Change("positions", "learned", _SINUSOIDAL, r"PE_{pos} = W^{PE}_{pos}")
_NO_POSITIONS = Change("positions", "none", " + PE", "")
_PRE = Change("norm_order", "pre", r"\left( x + \mathrm{output} \right)", r"\left( x \right)")
_NORMS = (
    Change("norm", "rms", "LayerNorm", "RMSNorm"),
    Change("norm", "batch", "LayerNorm", "BatchNorm"),
    Change("norm", "none", r"\mathrm{LayerNorm}", ""),
)
_LAYER_NORM = r"\mathrm{norm} = \mathrm{LayerNorm} \left( x + \mathrm{output} \right)"
_MASK = r"M = \log \mathrm{allowed} \in \{ 0, -\infty \}"
_FILLS = {"-inf": r"-\infty", "finfo_min": r"\min_{\mathrm{float}}", "-1e9": "-10^{9}"}
_FILLED_MASK = tuple(
    Change("fill", fill, _MASK, rf"M : \; \mathrm{{scores}}_{{jk}} := {value}, \; \mathrm{{allowed}}_{{jk}} = 0")
    for fill, value in _FILLS.items()
)
_FILLED_SCORES = tuple(Change("fill", fill, r"\mathrm{scores} + M", r"\mathrm{scores}_{M}") for fill in _FILLS)


def _without_bias(term: str) -> Change:
    return Change("bias", False, term, "")


# fmt: off
FORMULAS: tuple[Formula, ...] = (
    # Tokens and embeddings (3.4) and positions (3.5)
    Formula(
        "src", "src", r"\mathrm{src} = (x_1, \ldots, x_S)", "3", "",
        f"{_MODEL}.encode", f"{_TESTS}test_src",
    ),
    Formula(
        "tgt", "tgt", r"\mathrm{tgt} = (y_1, \ldots, y_T)", "3", "",
        f"{_MODEL}.decode", f"{_TESTS}test_tgt",
    ),
    Formula(
        "src_embeddings", "src_embeddings", r"x = E_{\mathrm{src}} \sqrt{d_{\mathrm{model}}}", "3.4", "",
        f"{_MODEL}.embed", f"{_TESTS}test_src_embeddings", ("/src",), (_UNSCALED,),
    ),
    Formula(
        "tgt_embeddings", "tgt_embeddings", r"x = E_{\mathrm{tgt}} \sqrt{d_{\mathrm{model}}}", "3.4", "",
        f"{_MODEL}.embed", f"{_TESTS}test_tgt_embeddings", ("/tgt",), (_UNSCALED,),
    ),
    Formula(
        "src_positions", "src_positions/positions", _SINUSOIDAL, "3.5", "",
        "transformer_core.positions.sinusoidal", f"{_TESTS}test_src_positions", (), (_LEARNED,),
    ),
    Formula(
        "tgt_positions", "tgt_positions/positions", _SINUSOIDAL, "3.5", "",
        "transformer_core.positions.sinusoidal", f"{_TESTS}test_tgt_positions", (), (_LEARNED,),
    ),
    Formula(
        "encoder_input", "encoder/input", r"x = \mathrm{src\_embeddings} + PE", "3.5", "",
        "transformer_core.model.Encoder.forward", f"{_TESTS}test_encoder_input",
        ("/src_embeddings", "/src_positions/positions"), (_NO_POSITIONS,),
    ),
    Formula(
        "decoder_input", "decoder/input", r"x = \mathrm{tgt\_embeddings} + PE", "3.5", "",
        "transformer_core.model.Decoder.forward", f"{_TESTS}test_decoder_input",
        ("/tgt_embeddings", "/tgt_positions/positions"),
        (_NO_POSITIONS, Change("positions_on_decoder", False, " + PE", "")),
    ),
    # Attention (3.2)
    Formula(
        "q", "*_attention/q", r"Q_i = x W_i^Q + b_i^Q", "3.2.2", "",
        _ATTENTION, f"{_TESTS}test_q", (_BEFORE_ATTENTION,), (_without_bias(" + b_i^Q"),),
    ),
    Formula(
        "self_k", "*.self_attention/k", r"K_i = x W_i^K + b_i^K", "3.2.2", "",
        _ATTENTION, f"{_TESTS}test_self_k", (_BEFORE_ATTENTION,), (_without_bias(" + b_i^K"),),
    ),
    Formula(
        "self_v", "*.self_attention/v", r"V_i = x W_i^V + b_i^V", "3.2.2", "",
        _ATTENTION, f"{_TESTS}test_self_v", (_BEFORE_ATTENTION,), (_without_bias(" + b_i^V"),),
    ),
    Formula(
        "cross_k", "*.cross_attention/k", r"K_i = \mathrm{memory} \, W_i^K + b_i^K", "3.2.3", "",
        _ATTENTION, f"{_TESTS}test_cross_k", ("/memory",), (_without_bias(" + b_i^K"),),
    ),
    Formula(
        "cross_v", "*.cross_attention/v", r"V_i = \mathrm{memory} \, W_i^V + b_i^V", "3.2.3", "",
        _ATTENTION, f"{_TESTS}test_cross_v", ("/memory",), (_without_bias(" + b_i^V"),),
    ),
    Formula(
        "scores", "*_attention/scores", r"\mathrm{scores} = \frac{Q K^{\top}}{\sqrt{d_k}}", "3.2.1", "eq. 1",
        _ATTEND, f"{_TESTS}test_scores", ("q", "k"),
        (Change("scale_scores", False, r"\frac{Q K^{\top}}{\sqrt{d_k}}", r"Q K^{\top}"),),
    ),
    Formula(
        "encoder_allowed", "encoder.*.self_attention/allowed", _MASK, "3.2.3", "",
        "transformer_core.masks.compose", f"{_TESTS}test_encoder_allowed", ("/src",), _FILLED_MASK,
    ),
    Formula(
        "decoder_allowed", "decoder.*.self_attention/allowed", _MASK, "3.2.3", "",
        "transformer_core.masks.compose", f"{_TESTS}test_decoder_allowed", ("/tgt",), _FILLED_MASK,
    ),
    Formula(
        "cross_allowed", "*.cross_attention/allowed", _MASK, "3.2.3", "",
        "transformer_core.masks.compose", f"{_TESTS}test_cross_allowed", ("/src",), _FILLED_MASK,
    ),
    Formula(
        "weights", "*_attention/weights",
        r"\mathrm{weights} = \mathrm{softmax} \left( \mathrm{scores} + M \right)", "3.2.1", "eq. 1",
        _ATTEND, f"{_TESTS}test_weights", ("scores", "allowed"), _FILLED_SCORES,
    ),
    Formula(
        "heads", "*_attention/heads", r"\mathrm{head}_i = \mathrm{weights}_i V_i", "3.2.1", "eq. 1",
        _ATTEND, f"{_TESTS}test_heads", ("weights", "v"),
    ),
    Formula(
        "attention_output", "*_attention/output",
        r"\mathrm{output} = \mathrm{Concat}(\mathrm{head}_1, \ldots, \mathrm{head}_h) W^O + b^O", "3.2.2", "",
        _ATTENTION, f"{_TESTS}test_attention_output", ("heads",), (_without_bias(" + b^O"),),
    ),
    # Residual connections and norms (3.1, 5.4)
    Formula(
        "self_attention_sum", "*/self_attention_sum", r"\mathrm{sum} = x + \mathrm{output}", "3.1", "",
        _RESIDUAL, f"{_TESTS}test_self_attention_sum",
        (_BEFORE_LAYER, "self_attention/output"),
    ),
    Formula(
        "self_attention_norm", "*/self_attention_norm", _LAYER_NORM, "3.1", "",
        _RESIDUAL, f"{_TESTS}test_self_attention_norm",
        (f"self_attention_sum|{_BEFORE_LAYER}",), (_PRE, *_NORMS),
    ),
    Formula(
        "cross_attention_sum", "*/cross_attention_sum", r"\mathrm{sum} = x + \mathrm{output}", "3.1", "",
        _RESIDUAL, f"{_TESTS}test_cross_attention_sum",
        (_BEFORE_CROSS, "cross_attention/output"),
    ),
    Formula(
        "cross_attention_norm", "*/cross_attention_norm", _LAYER_NORM, "3.1", "",
        _RESIDUAL, f"{_TESTS}test_cross_attention_norm",
        (f"cross_attention_sum|{_BEFORE_CROSS}",), (_PRE, *_NORMS),
    ),
    # Position-wise feed-forward (3.3)
    Formula(
        "feed_forward_hidden", "*.feed_forward/hidden", r"\mathrm{hidden} = \max(0, x W_1 + b_1)", "3.3", "eq. 2",
        _FEED_FORWARD, f"{_TESTS}test_feed_forward_hidden",
        ("../feed_forward_norm|../cross_attention_norm|../cross_attention_sum|../self_attention_norm"
         "|../self_attention_sum",),
        (_without_bias(" + b_1"), Change("activation", "gelu", r"\max(0, ", r"\mathrm{GELU}(")),
    ),
    Formula(
        "feed_forward_output", "*.feed_forward/output", r"\mathrm{output} = \mathrm{hidden} \, W_2 + b_2",
        "3.3", "eq. 2", _FEED_FORWARD, f"{_TESTS}test_feed_forward_output", ("hidden",),
        (_without_bias(" + b_2"),),
    ),
    Formula(
        "feed_forward_sum", "*/feed_forward_sum", r"\mathrm{sum} = x + \mathrm{output}", "3.1", "",
        _RESIDUAL, f"{_TESTS}test_feed_forward_sum",
        (_BEFORE_FEED_FORWARD, "feed_forward/output"),
    ),
    Formula(
        "feed_forward_norm", "*/feed_forward_norm", _LAYER_NORM, "3.1", "",
        _RESIDUAL, f"{_TESTS}test_feed_forward_norm",
        (f"feed_forward_sum|{_BEFORE_FEED_FORWARD}",), (_PRE, *_NORMS),
    ),
    # Ends of the stacks and the output (3.1, 3.4)
    Formula(
        "encoder_final_norm", "encoder/final_norm", r"\mathrm{norm} = \mathrm{LayerNorm}(x)", NOT_IN_PAPER, "",
        "transformer_core.model.Encoder.forward", f"{_TESTS}test_encoder_final_norm", (_END_OF_ENCODER,), _NORMS,
    ),
    Formula(
        "memory", "memory", r"\mathrm{memory} = \mathrm{Encoder}(\mathrm{src})", "3.1", "",
        f"{_MODEL}.encode", f"{_TESTS}test_memory", (f"/encoder/final_norm|{_END_OF_ENCODER}",),
    ),
    Formula(
        "decoder_final_norm", "decoder/final_norm", r"\mathrm{norm} = \mathrm{LayerNorm}(x)", NOT_IN_PAPER, "",
        "transformer_core.model.Decoder.forward", f"{_TESTS}test_decoder_final_norm", (_END_OF_DECODER,), _NORMS,
    ),
    Formula(
        "logits", "logits", r"\mathrm{logits} = x W + b", "3.4", "",
        f"{_MODEL}.forward", f"{_TESTS}test_logits", (f"/decoder/final_norm|{_END_OF_DECODER}|/memory",),
        (
            Change("architecture", "encoder", "x W", r"\mathrm{memory}_0 W"),
            Change("tie_weights", True, "x W", r"x E_{\mathrm{tgt}}^{\top}"),
        ),
    ),
    Formula(
        "probabilities", "probabilities", r"\mathrm{probabilities} = \mathrm{softmax}(\mathrm{logits})", "3.4", "",
        f"{_MODEL}.forward", f"{_TESTS}test_probabilities", ("/logits",),
    ),
)
# fmt: on
"""In the order of one forward. Every key of a ledger fits the pattern of exactly one row."""

_BY_TENSOR: dict[str, list[Formula]] = {}
for _row in FORMULAS:
    _BY_TENSOR.setdefault(_tensor(_row.where), []).append(_row)
"""The rows by the last part of their pattern, which is never a wildcard: a look-up then tries at most three."""
