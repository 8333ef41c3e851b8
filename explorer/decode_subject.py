"""What is decoded: the model at hand, and a sentence typed with the words of its task or held out from training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from explorer import live as running
from explorer.fields import NO_FAULT, clip, refusal_of
from explorer.limits import Limits
from explorer.live import Trained
from explorer.refusals import Refusal
from explorer.session import Session
from transformer_core import tasks
from transformer_core.batches import PAD_SIGN, SIGNS
from transformer_core.config import END, FIRST_FREE, PAD, UNKNOWN
from transformer_core.cost import estimate
from transformer_core.model import Transformer
from transformer_core.tasks import Task

if TYPE_CHECKING:
    from transformer_core.translation import Corpus

TRANSLATION = "translation"
ENDLESS = 1000
"""So many held-out questions are offered of a task that has no end of them."""
HELD_OUT_SEED = 20_000
"""Question n of the page is drawn by this seed plus n, far from the small numbers that people train with."""
SHOWN_WORDS = 14


@dataclass(frozen=True, eq=False)
class Subject:
    """A model with its own mode and noise over shared weights, the task it belongs to, and how far it was trained."""

    model: Transformer
    task: Task
    trained: Trained | None
    seed: int
    fault: bool

    @property
    def corpus(self) -> Corpus | None:
        """The sentences of a translation; the built-in ones where no others were trained on."""
        if self.task.name != TRANSLATION:
            return None
        if self.trained is not None and self.trained.corpus is not None:
            return self.trained.corpus
        from transformer_core import translation  # read late: few models translate

        return translation.builtin()

    def facts(self) -> dict[str, Any]:
        """What the page prints of it."""
        config = self.model.config
        return {
            "kind": "fresh" if self.trained is None else "trained",
            "task": self.task.name, "title": {"en": self.task.title, "zh": self.task.title_zh},
            "step": None if self.trained is None else self.trained.step, "seed": self.seed,
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "vocabulary": config.tgt_vocab_size, "heads": config.n_heads, "layers": config.n_decoder_layers,
            "fault": self.fault,
        }  # fmt: skip


@dataclass(frozen=True)
class Source:
    """A sentence as the encoder reads it. ``reference`` are the ids of its right answer, end included, if known."""

    ids: tuple[int, ...]
    tokens: tuple[str, ...]
    text: str
    typed: bool
    item: int
    items: int
    unknown: tuple[str, ...] = ()
    reference: tuple[int, ...] | None = None

    def row(self) -> Tensor:
        return torch.tensor([self.ids])


def subject_of(session: Session, trained: Trained | None, limits: Limits) -> Subject:
    """The trained model of this tab when there is one, else a fresh one for the task that is chosen on Train.

    Raises:
        Refusal: the model writes no target, or is too large for this host.
    """
    if trained is not None:
        task = trained.asked()
        _writes(trained.config.architecture, task)
        return Subject(_with_code(trained, session), task, trained, trained.seed, session.fault != NO_FAULT)
    task = tasks.get(session.task)
    mine = session.recipe == "mine"
    config = task.fit(session.model_config()) if mine else task.model
    masks = session.mask_config(painted_too=False) if mine else task.masks
    _writes(config.architecture, task)
    cost = estimate(config, 1, config.max_seq_len, config.max_seq_len)
    if cost.parameters > limits.max_parameters or cost.flops > limits.max_flops:
        raise Refusal("dec_large", parameters=f"{cost.parameters:,}")
    build = running.shop_of(session.fault).model.build
    model = build(config, masks, session.train_seed).eval()
    return Subject(model, task, None, session.train_seed, session.fault != NO_FAULT)


def _with_code(trained: Trained, session: Session) -> Transformer:
    """The trained weights in the code that is chosen now: the library's own, or with the fault that is switched on."""
    own = running.shop_of(session.fault).model
    if type(trained.model) is own.Transformer:
        return running.shell(trained.model, trained.masks, False, trained.seed)
    model = own.build(trained.config, trained.masks, trained.seed)
    model.load_state_dict(trained.model.state_dict())
    model.tie()
    return model.eval()


def _writes(architecture: str, task: Task) -> None:
    if architecture != "encoder_decoder":
        raise Refusal("dec_no_target", "", ({"dec_from": "greedy_trap"},), task=task.name, architecture=architecture)


def source_of(subject: Subject, session: Session) -> Source:
    """The typed sentence, or without one the held-out sentence of this number.

    Raises:
        Refusal: it has no word, or more tokens than the model can read.
    """
    items = len(subject.corpus.held_out) if subject.corpus is not None else ENDLESS
    item = session.dec_item % items
    if not session.dec_text.strip():
        return _held_out(subject, item, items)
    words, ids = _read(subject, session.dec_text)
    most = subject.model.config.max_seq_len
    if not ids:
        raise Refusal("dec_no_word", "dec_text")
    if len(ids) > most:
        raise Refusal("dec_text_long", "dec_text", given=len(ids), high=most)
    unknown = tuple(dict.fromkeys(clip(word, 24) for word, token in zip(words, ids, strict=False) if token == UNKNOWN))
    return Source(
        ids, tuple(source_words(subject, ids)), session.dec_text.strip(), True, item, items, unknown[:8],
        _answer(subject, ids),
    )  # fmt: skip


def _read(subject: Subject, text: str) -> tuple[list[str], tuple[int, ...]]:
    """The words of a sentence and their ids; the unknown id for each that the vocabulary lacks.

    Letters may be written without spaces between them.
    """
    if subject.corpus is not None:
        return _read_sentence(subject.corpus, text)
    symbols = subject.task.src_symbols or subject.task.symbols
    known = {word: token for token, word in enumerate(symbols) if token >= FIRST_FREE}
    words = [part for word in text.split() for part in ([word] if word in known else _letters(word, known))]
    return words, tuple(known.get(word, UNKNOWN) for word in words)


def _read_sentence(corpus: Corpus, text: str) -> tuple[list[str], tuple[int, ...]]:
    """The words of a sentence in the language of the corpus, and its ids as the core reads them."""
    from transformer_core import translation  # read late: few models translate
    from transformer_core.translation import tokens

    try:
        ids = translation.encode(corpus, text)
    except ValueError as error:
        raise refusal_of(error, "dec_text") from error
    cut_by_words = corpus.options.get("cut_by") == "words"
    words = tokens.split(tokens.clean(text), corpus.options["languages"][0], corpus.src_ids if cut_by_words else None)
    return words if len(words) == len(ids) else list(text.split())[: len(ids)], ids


def _letters(word: str, known: dict[str, int]) -> list[str]:
    """``abc`` as a, b, c where these are the words of the task; a word that holds none of them stays whole."""
    return list(word) if any(sign in known for sign in word) and max(map(len, known)) == 1 else [word]


def _held_out(subject: Subject, item: int, items: int) -> Source:
    if subject.corpus is not None:
        ids, target = subject.corpus.held_out[item]
        reference = (*target, END)
    else:
        batch = subject.task.sample(1, torch.Generator().manual_seed(HELD_OUT_SEED + item), "new")
        ids = tuple(token for token in batch.src[0].tolist() if token != PAD)
        reference = tuple(token for token in batch.labels[0].tolist() if token != PAD)
    most = subject.model.config.max_seq_len
    ids = tuple(ids)[:most]
    tokens = source_words(subject, ids)
    return Source(ids, tuple(tokens), sentence(subject, ids, "src"), False, item, items, (), reference)


def _answer(subject: Subject, ids: tuple[int, ...]) -> tuple[int, ...] | None:
    """The right answer to a sentence that was typed, where a held-out pair of the corpus has this source."""
    if subject.corpus is None or UNKNOWN in ids:
        return None
    target = next((target for source, target in subject.corpus.held_out if tuple(source) == ids), None)
    return None if target is None else (*target, END)


def source_words(subject: Subject, ids: tuple[int, ...]) -> list[str]:
    return subject.task.describe_tokens([list(ids)], "src")[0]


def target_word(subject: Subject, token: int) -> str:
    """How a token of the target prints; ids that only the output layer has print as their number."""
    if token in (PAD, *SIGNS):
        return PAD_SIGN if token == PAD else SIGNS[token]
    return subject.task.symbols[token] if token < len(subject.task.symbols) else str(token)


def sentence(subject: Subject, ids: tuple[int, ...], side: str = "tgt") -> str:
    """Ids as a person would write them, up to their end."""
    words = ids[: ids.index(END)] if side == "tgt" and END in ids else ids
    if subject.corpus is not None:
        from transformer_core import translation
        from transformer_core.translation import tokens

        if side == "tgt":
            return translation.decode_ids(subject.corpus, words)
        return tokens.join(source_words(subject, words), subject.corpus.options["languages"][0])
    if side == "src":
        return " ".join(source_words(subject, words))
    return " ".join(target_word(subject, token) for token in words)


def known_words(subject: Subject) -> str:
    """The first words of the source vocabulary, so that a person knows what can be typed."""
    symbols = (subject.task.src_symbols or subject.task.symbols)[FIRST_FREE:]
    more = " …" if len(symbols) > SHOWN_WORDS else ""
    return " ".join(symbols[:SHOWN_WORDS]) + more


def language(subject: Subject, side: int) -> str | None:
    """The language of a side of a translation for a screen reader: zh, or none that is known."""
    if subject.corpus is None:
        return None
    languages = subject.corpus.options.get("languages") or ("", "")
    return "zh" if languages[side] == "zh" else None
