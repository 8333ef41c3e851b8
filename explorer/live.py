"""One run of the model as it is chosen: built or reused, forwarded once under a trace, checked. Knows no gradio.

A ``Live`` is never changed after it was made. Its model is a shell of its own over shared weights, so that neither the
mode, the masks nor the dropout noise of one run can reach another one, or a training run that goes on elsewhere.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from explorer import painted
from explorer.fields import ATTENTIONS, FROM_PRESET, NO_FAULT, refusal_of
from explorer.limits import Limits
from explorer.refusals import Notice, Refusal, notice
from explorer.session import Session
from transformer_core.batches import Batch, make_batch
from transformer_core.checks import NUMERICS, STRUCTURE, due, run_checks
from transformer_core.checks.subject import Subject
from transformer_core.config import MaskConfig, ModelConfig
from transformer_core.cost import Cost, estimate
from transformer_core.layers import Noise
from transformer_core.ledger import Entry, Ledger, ShapeError, trace
from transformer_core.model import Transformer, build
from transformer_core.workshop import OWN, Workshop

if TYPE_CHECKING:
    from transformer_core.checks import CheckResult
    from transformer_core.records import RunRecord
    from transformer_core.tasks import Task
    from transformer_core.translation import Corpus

BYTES = {"float32": 4, "float64": 8, "bfloat16": 2, "float16": 2}
KEPT_BYTES = 8 * 1024**2
"""Weights of up to this size stay with the run, for the next one; larger ones are built anew, and only shapes stay."""
RUN_FIELDS = (*FROM_PRESET, "mode", "dtype", "device", "seed", "weights", "fault")


@dataclass(frozen=True, eq=False)
class Trained:
    """A model at the end of training. Its weights are read here, never written."""

    model: Transformer
    config: ModelConfig
    masks: MaskConfig
    task: str
    step: int
    seed: int
    corpus: Corpus | None = None
    record: RunRecord | None = None

    def asked(self) -> Task:
        """The task that it was trained on, with the sentences that it was trained on."""
        from transformer_core import tasks  # read late: most runs need no task

        return tasks.get(self.task) if self.corpus is None else tasks.translation.task_of(self.corpus)


@dataclass(frozen=True, eq=False)
class Live:
    """One run: what was chosen, what it computed, what the checks found.

    ``shapes_only`` says that the model was too large for this host and was laid out on the meta device, where every
    tensor has a shape and no number. ``error`` is why the forward stopped; the ledger then holds the rows before it.
    """

    id: str
    session: Session
    model: Transformer
    batch: Batch
    ledger: Ledger
    results: tuple[CheckResult, ...]
    milliseconds: float
    shapes_only: bool
    cost: Cost
    trained: Trained | None
    device: str
    error: str = ""
    notices: tuple[Notice, ...] = ()

    @property
    def shop(self) -> Workshop:
        """The code of the model: the library's own, or with the fault that is switched on."""
        return shop_of(self.session.fault)

    def entries(self) -> dict[str, Entry]:
        """Every recorded tensor under its key, in the order of computation."""
        return {entry.key: entry for entry in self.ledger}


def shop_of(fault: str) -> Workshop:
    """The code with this fault in it; the library's own for NO_FAULT."""
    if fault == NO_FAULT:
        return OWN
    from transformer_core import faults  # read late: most runs have none

    return faults.get(fault).shop


def run(
    session: Session, held: Live | None = None, trained: Trained | None = None, limits: Limits | None = None
) -> Live:
    """The model of this session, run once on its tokens. Every limit is checked before anything is built.

    The weights of ``held`` are used again when nothing that shapes them has changed. ``trained`` weights are used when
    they are chosen and fit; otherwise fresh ones are shown and a notice says so.

    Raises:
        Refusal: the choices cannot be run, with the reason and the nearest choices that can.
    """
    limits = limits or Limits.from_environment()
    session = session.cleaned({name: getattr(session, name) for name in RUN_FIELDS}, limits)
    try:
        return _run(session, held, trained, limits)
    except Refusal:
        raise
    except ValueError as error:
        raise refusal_of(error) from error


def _run(session: Session, held: Live | None, trained: Trained | None, limits: Limits) -> Live:
    notices: list[Notice] = []
    device = _device(session, notices)
    config, source = _weights(session, trained, notices)
    batch = _batch(session, config, source)
    session = _painted_to_fit(session, batch, notices)
    masks = session.mask_config()
    cost = _cost(config, batch, BYTES[session.dtype])
    shapes_only = not limits.fit(cost, BYTES[session.dtype])
    device = "meta" if shapes_only else device
    if source is not None and shapes_only:
        source = None
    weights, training = _reusable(held, config, session, source, device), session.mode == "train"
    if weights is not None:
        model = shell(weights, masks, training, session.seed)
    else:
        model = _built(config, masks, session, source, device).train(training)
        model.noise.reseed(session.seed)
    ledger, milliseconds, error = _forward(model, batch, device)
    results = _checks(model, batch, ledger, device, bool(error), shop_of(session.fault))
    if cost.parameters * BYTES[session.dtype] > KEPT_BYTES:
        model = build(config, masks, device="meta").train(training)
    return Live(
        _identity(session, source, device),
        session,
        model,
        batch,
        ledger,
        results,
        milliseconds,
        shapes_only,
        cost,
        source,
        device,
        error,
        tuple(notices),
    )


def checked_further(live: Live, level: int, turn: Callable[[], AbstractContextManager[None]]) -> Live:
    """The same run with the verdicts of one more level: its model is run, trained or compared anew, check by check.

    Each check waits for its ``turn``, so that a slow level leaves room for others in between.

    Raises:
        Refusal: the run has shapes only, or stopped before its end.
    """
    if live.shapes_only or live.error:
        raise Refusal("no_numbers")
    subject = Subject(with_numbers(live), live.batch, live.ledger, live.shop, live.session.seed)
    found = [result for result in live.results if result.level != level]
    for check in due(subject, [level]):
        with turn():
            result = check.run(subject)
        found += [result] if result is not None else []
    return dataclasses.replace(live, results=tuple(sorted(found, key=lambda result: result.level)))


def with_numbers(live: Live) -> Transformer:
    """The model of a run with its weights, built anew where they were too large to be kept."""
    if not next(live.model.parameters()).is_meta:
        return live.model
    session = live.session
    model = _built(live.model.config, session.mask_config(), session, live.trained, live.device)
    return model.train(session.mode == "train")


def shell(model: Transformer, masks: MaskConfig, training: bool, seed: int) -> Transformer:
    """A model with the same parameters (shared, not copied) and its own mode, masks, buffers and dropout noise."""
    shared: dict[int, Any] = {id(parameter): parameter for parameter in model.parameters()}
    shared[id(model.noise)] = Noise(seed)
    other = copy.deepcopy(model, shared)
    other.masks = masks
    for module in other.modules():
        if hasattr(module, "fill"):
            module.fill = masks.fill
    return other.train(training)


def _identity(session: Session, source: Trained | None, device: str) -> str:
    """The name of a run: equal for equal choices, which give equal numbers. A control may tell of one choice twice."""
    chosen = [getattr(session, name) for name in RUN_FIELDS]
    return hashlib.sha1(repr((chosen, session.task, device, id(source))).encode()).hexdigest()[:8]


def attention_sizes(batch: Batch) -> dict[str, tuple[int, int]]:
    """Queries and keys of each attention that these tokens allow."""
    src, tgt = (0 if ids is None else ids.shape[1] for ids in (batch.src, batch.tgt))
    sizes = dict(zip(ATTENTIONS, ((src, src), (tgt, tgt), (tgt, src)), strict=True))
    return {name: size for name, size in sizes.items() if all(size)}


def _painted_to_fit(session: Session, batch: Batch, notices: list[Notice]) -> Session:
    """The session with painted layers of the size of its attentions; a notice tells of each that had another one."""
    sizes, changes = attention_sizes(batch), {}
    for name in ATTENTIONS:
        told = getattr(session, f"{name}_custom")
        if not told or name not in sizes:
            continue
        rows, columns = sizes[name]
        if told.startswith(f"{rows}x{columns}."):
            continue
        changes[f"{name}_custom"] = painted.fitted(told, rows, columns)
        notices.append(notice("notices.painted_fitted", before=told.partition(".")[0].replace("x", " × "),
                              after=f"{rows} × {columns}"))  # fmt: skip
    return session.change(**changes)


def _device(session: Session, notices: list[Notice]) -> str:
    """The chosen device, or the CPU with a notice where the host has no such device."""
    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if available[session.device]:
        if session.device == "mps" and session.dtype == "float64":
            raise Refusal(
                "mps_float64",
                "dtype",
                ({"dtype": "float32"}, {"device": "cpu"}),
                "mps has no float64; float32 on mps and float64 on cpu are possible.",
            )
        return session.device
    notices.append(notice("notices.no_device", device=session.device))
    return "cpu"


def _weights(session: Session, trained: Trained | None, notices: list[Notice]) -> tuple[ModelConfig, Trained | None]:
    """The configuration to build, and the trained weights to put into it if they are chosen and fit."""
    if session.weights == "trained":
        if trained is None:
            notices.append(notice("notices.nothing_trained", seed=session.seed))
        else:
            config = _with_choices(trained.config, session)
            if _shapes(config) == {name: tuple(value.shape) for name, value in trained.model.state_dict().items()}:
                return config, trained
            notices.append(
                notice("notices.weights_do_not_fit", changes=_changes(trained.config, config), seed=session.seed)
            )
    config = session.model_config()
    if session.tokens == "task":
        config = _task(session, trained).fit(config)
    return config, None


def _with_choices(config: ModelConfig, session: Session) -> ModelConfig:
    """A configuration with what the person can choose taken from the session; vocabularies and lengths stay its own."""
    chosen = session.model_config()
    names = (
        "architecture",
        "d_model",
        "n_heads",
        "n_encoder_layers",
        "n_decoder_layers",
        "d_ff",
        "norm_order",
        "activation",
        "positions",
        "dropout",
    )
    return config.replace(**{name: getattr(chosen, name) for name in names})


def _shapes(config: ModelConfig) -> dict[str, tuple[int, ...]]:
    with torch.device("meta"):
        return {name: tuple(value.shape) for name, value in Transformer(config).state_dict().items()}


def _changes(before: ModelConfig, after: ModelConfig) -> str:
    """d_model 64 → 96, n_heads 4 → 6"""
    old, new = dataclasses.asdict(before), dataclasses.asdict(after)
    return ", ".join(f"{name} {old[name]} → {new[name]}" for name in new if old[name] != new[name])


def _task(session: Session, trained: Trained | None) -> Task:
    from transformer_core import tasks  # read late, as above

    return trained.asked() if session.weights == "trained" and trained is not None else tasks.get(session.task)


def _batch(session: Session, config: ModelConfig, source: Trained | None) -> Batch:
    if session.tokens != "task":
        return make_batch(config, session.data_config(), session.seed)
    task = _task(session, source)
    batch = task.sample(session.batch_size, torch.Generator().manual_seed(session.seed))
    printed = {
        f"{side}_tokens": None if (ids := getattr(batch, side)) is None else task.describe_tokens(ids, side)
        for side in ("src", "tgt")
    }
    return dataclasses.replace(batch, **printed)


def _cost(config: ModelConfig, batch: Batch, width: int) -> Cost:
    sentences = len(batch.src if batch.src is not None else batch.tgt)
    lengths = (1 if ids is None else ids.shape[1] for ids in (batch.src, batch.tgt))
    return estimate(config, sentences, *lengths, bytes_per_number=width)


def _reusable(
    held: Live | None, config: ModelConfig, session: Session, source: Trained | None, device: str
) -> Transformer | None:
    """The weights of the last run, when the same would be built again."""
    if held is None or held.trained is not source or held.device != device or held.model.config != config:
        return None
    same = all(getattr(held.session, name) == getattr(session, name) for name in ("dtype", "fault"))
    same = same and (source is not None or held.session.seed == session.seed)
    has_numbers = device == "meta" or not next(held.model.parameters()).is_meta
    return held.model if same and has_numbers else None


def _built(
    config: ModelConfig, masks: MaskConfig, session: Session, source: Trained | None, device: str
) -> Transformer:
    dtype = getattr(torch, session.dtype)
    make = shop_of(session.fault).model.build
    if source is None:
        return make(config, masks, session.seed, device, dtype)
    model = make(config, masks, session.seed)
    model.load_state_dict(source.model.state_dict())
    model.tie()
    return model.to(device, dtype)


def _forward(model: Transformer, batch: Batch, device: str) -> tuple[Ledger, float, str]:
    """One traced forward: the ledger, its milliseconds, and why it stopped if it did. Rows before the fault stay."""
    src, tgt = (None if ids is None else ids.to(device) for ids in (batch.src, batch.tgt))
    ledger, error = Ledger(), ""
    start = time.perf_counter()
    try:
        with torch.no_grad(), trace(model) as ledger:
            model(src, tgt)
        if device == "cuda":
            torch.cuda.synchronize()
    except ShapeError as fault:
        ledger, error = fault.ledger, str(fault)
    except (ValueError, RuntimeError) as fault:
        if not len(ledger):
            raise ValueError(str(fault)) from fault
        error = str(fault).splitlines()[0]
    return ledger, 1000 * (time.perf_counter() - start), error


def _checks(
    model: Transformer, batch: Batch, ledger: Ledger, device: str, stopped: bool, shop: Workshop
) -> tuple[CheckResult, ...]:
    """All verdicts; of a forward that stopped, those on its structure."""
    there = {
        name: value.to(device) for name in ("src", "tgt", "labels") if isinstance(value := getattr(batch, name), Tensor)
    }
    levels = (STRUCTURE,) if stopped else (STRUCTURE, NUMERICS)
    return tuple(run_checks(model, dataclasses.replace(batch, **there), ledger, levels=levels, shop=shop))
