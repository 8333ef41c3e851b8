"""A search as decode.js draws it: plain numbers, ids with the words they stand for, attention as bytes."""

from __future__ import annotations

import base64
import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import torch

from explorer import decode_subject
from explorer.decode_search import Search
from explorer.decode_subject import ENDLESS
from explorer.decode_table import of_trap
from explorer.decode_tree import Answer, Node, Tree, shares_of, tree_of
from explorer.decode_watch import Seen, begun
from explorer.mathml import block
from transformer_core.decoding import TRAPS

TOP = 8
"""So many next tokens are listed of a distribution."""
CONDITION = {True: r"p(y_t \mid y_{<t}, x)", False: r"p(y_t \mid y_{<t})"}
"""What a model reads, and what a table does: the source x is the model's."""
START = "s"
"""The name of the node at which nothing is written; ids of tokens joined by dots are the others."""


def payload(search: Search) -> dict[str, Any]:
    """Everything the tab shows of a search but what is measured afterwards."""
    tree, session = tree_of(search), search.session
    nodes = [_start(), *(_node(node) for node in _ordered(tree.nodes))]
    states = _states(search, tree)
    tokens = {token for node in tree.nodes for token in node.tokens}
    tokens |= {token for state in states.values() for token, *_ in state["top"]}
    return {
        "id": search.id, "method": session.dec_method, "width": session.dec_width,
        "norm": "on" if search.norm else "off", "longest": search.longest, "stopped": tree.stopped,
        "subject": search.subject.facts() if search.subject is not None else _trap_facts(search),
        "source": _source(search), "table": _table(search), "traps": traps(),
        "begin": search.begin, "tokens": {token: word(search, token) for token in (*sorted(tokens), search.begin)},
        "lang": decode_subject.language(search.subject, 1) if search.subject is not None else None,
        "nodes": nodes, "states": states,
        "steps": [dataclasses.asdict(step) for step in tree.steps],
        "hyps": [_hypothesis(search, answer) for answer in tree.answers],
        "looked": len(search.watch.seen), "formula": formula(search),
    }  # fmt: skip


def formula(search: Search) -> str:
    """How a hypothesis is scored, as MathML."""
    each = rf"\log {CONDITION[search.subject is not None]}"
    total = rf"\sum_{{t=1}}^{{T}} {each}"
    return "".join(block(rf"score = \frac{{1}}{{T}} {total}" if search.norm else rf"score = {total}"))


def traps() -> dict[str, dict[str, Any]]:
    """The choices with which each trap is sprung."""
    return {
        name: {"dec_method": "beam", "dec_width": trap.width, "dec_length": trap.max_length, "dec_norm": "off"}
        for name, trap in TRAPS.items()
    }


def word(search: Search, token: int) -> str:
    """How a token of the target prints."""
    if search.table is not None:
        return "⟨s⟩" if token == search.begin else search.table.symbols[token]
    return decode_subject.target_word(search.subject, token)


def text(search: Search, tokens: Sequence[int]) -> str:
    """An answer as one reads it; of a table, and where there is nothing else, with its end."""
    if search.table is not None:
        return " ".join(word(search, token) for token in tokens)
    return decode_subject.sentence(search.subject, tuple(tokens)) or " ".join(word(search, token) for token in tokens)


def name_of(tokens: Sequence[int]) -> str:
    return ".".join(map(str, tokens)) or START


# -------------------------------------------------------------------------------------------------------------- pieces


def _start() -> dict[str, Any]:
    return {"id": START, "parent": None, "step": 0, "token": None, "p": 1.0, "total": 0.0, "fate": "kept"}


def _node(node: Node) -> dict[str, Any]:
    return {
        "id": name_of(node.tokens), "parent": name_of(node.tokens[:-1]), "step": len(node.tokens),
        "token": node.tokens[-1], "p": _plain(math.exp(node.log_prob)), "total": _plain(node.total), "fate": node.fate,
    }  # fmt: skip


def _ordered(nodes: Sequence[Node]) -> list[Node]:
    """Step by step: what was kept or has ended, the likeliest first, and below it what was cut."""
    return sorted(nodes, key=lambda node: (len(node.tokens), node.fate == "cut", -node.total, node.tokens))


def _states(search: Search, tree: Tree) -> dict[str, dict[str, Any]]:
    """What was said after each node that is drawn and was gone on from."""
    shown = [(), *(node.tokens for node in tree.nodes)]
    seen = {tokens: search.watch.seen.get(begun(search.begin, tokens)) for tokens in shown}
    return {name_of(tokens): _state(search, tree, said, tokens) for tokens, said in seen.items() if said is not None}


def _state(search: Search, tree: Tree, said: Seen, tokens: Sequence[int]) -> dict[str, Any]:
    shares = said.log_probs.exp()
    drawn = shares_of(search, said.log_probs) if search.session.dec_method == "sample" else shares
    taken = {node.tokens[-1] for node in tree.nodes if node.tokens[:-1] == tuple(tokens) and node.fate != "cut"}
    order = shares.argsort(descending=True, stable=True).tolist()
    top = order[:TOP]
    top += [token for token in order[TOP:] if token in taken]
    rest = torch.ones(len(shares), dtype=torch.bool)
    rest[top] = False
    entropy = float(torch.special.entr(shares).sum())
    return {
        "top": [[token, _plain(float(shares[token])), _plain(float(drawn[token]))] for token in top],
        "others": [int(rest.sum()), _plain(float(shares[rest].sum())), _plain(float(drawn[rest].sum()))],
        "entropy": _plain(entropy), "even": f"{math.log(len(shares)):.2f}",
        "attention": None if said.attention is None else _bytes(said.attention),
    }  # fmt: skip


def _bytes(attention: torch.Tensor) -> str:
    """Probabilities in steps of 1/255, head by head."""
    coded = (attention.float().nan_to_num(0.0).clamp(0, 1) * 255).round().to(torch.uint8)
    return base64.b64encode(coded.contiguous().numpy().tobytes()).decode()


def _hypothesis(search: Search, answer: Answer) -> dict[str, Any]:
    found, reference = answer.hypothesis, None if search.source is None else search.source.reference
    told = {
        "node": name_of(found.tokens), "text": text(search, found.tokens), "log_prob": _plain(found.log_prob, 9),
        "score": _plain(found.score, 9), "length": len(found.tokens), "finished": found.finished,
        "right": None if reference is None else found.tokens == tuple(reference),
    }  # fmt: skip
    return told if answer.seed is None else told | {"seed": answer.seed}


def _source(search: Search) -> dict[str, Any] | None:
    source, subject = search.source, search.subject
    if source is None:
        return None
    reference = None if source.reference is None else decode_subject.sentence(subject, source.reference)
    return {
        "text": source.text, "tokens": list(source.tokens), "typed": source.typed, "item": source.item,
        "items": source.items if source.items > 1 else 0, "endless": source.items == ENDLESS,
        "unknown": list(source.unknown), "sign": decode_subject.target_word(subject, decode_subject.UNKNOWN),
        "reference": reference, "known": decode_subject.known_words(subject),
        "lang": decode_subject.language(subject, 0),
    }  # fmt: skip


def _table(search: Search) -> dict[str, Any] | None:
    table = search.table
    if table is None:
        return None
    names = table.symbols
    rows = [{"after": [names[token] for token in written], "p": list(row)} for written, row in table.rows.items()]
    return {"symbols": list(names), "edited": table != of_trap(search.session.dec_from), "rows": rows}


def _trap_facts(search: Search) -> dict[str, Any]:
    return {"kind": "trap", "name": search.session.dec_from, "vocabulary": search.vocabulary, "heads": 0, "layers": 0}


def _plain(value: float, figures: int = 7) -> float | None:
    """A number for JSON; None where it is none."""
    return float(f"{value:.{figures}g}") if math.isfinite(value) else None
