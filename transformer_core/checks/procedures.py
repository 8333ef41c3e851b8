"""Level 3, procedures: not the model but what is done with it - its targets, its loss, its steps and its pictures.

These judge the code in ``subject.shop``, with the subject's model as the one that is trained.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_core.batches import Batch
from transformer_core.checks.probes import SAME, STOPS, Probe, apart, hooked, probing
from transformer_core.checks.table import BEHAVIOUR, Finding, check
from transformer_core.config import BEGIN, TrainConfig
from transformer_core.ledger import trace


def _lesson(probe: Probe) -> Batch | None:
    """A batch with labels, all of them real: random ids, or classes; None for a model that answers nothing."""
    ids = probe.whole()
    if ids is None:
        return None
    if "tgt" in ids:
        labels = probe.words("tgt", *ids["tgt"].shape)
    elif probe.config.n_classes:
        labels = torch.randint(probe.config.n_classes, (probe.rows,), generator=probe.random)
    else:
        return None
    return Batch(ids.get("src"), ids.get("tgt"), labels)


@check(
    BEHAVIOUR,
    claim="In the tasks and in training the decoder reads target[t] and is asked for target[t + 1]: the target is "
    "shifted exactly once.",
    cannot_see="A model that sees the token after that by itself; the probe of the decoder's leaks does.",
    claims=("training",),
    holds="{places} places of {tasks} and of a target of its own: each asked for the token after the one it read",
    fails="{measured:.0f} of {places} places are not asked for the next token; first in {first}",
    stops=STOPS,
)
@probing
def target_shift(probe: Probe) -> Finding | None:
    """Three hands could shift: the task that draws a question, ``shift`` itself, and the loss."""
    lesson = _lesson(probe)
    if lesson is None or lesson.tgt is None or lesson.labels is None:
        return None
    shop, strays, places = probe.shop, {}, 0
    for name, task in shop.tasks.TASKS.items():
        batch = task.sample(4, probe.random)
        if batch.tgt is not None:  # begin a b c, and a b c end
            begins = torch.full((len(batch.tgt), 1), BEGIN)
            strays[name] = _differ(torch.cat([begins, batch.labels], dim=1)[:, :-1], batch.tgt)
            places += batch.tgt.numel()
    target = probe.words("tgt", probe.rows, max(2, probe.lengths["tgt"]))
    read, asked = shop.training.shift(target)
    strays["shift"] = _differ(read, target[:, :-1]) + _differ(asked, target[:, 1:])
    strays["loss_and_accuracy"] = _unasked(probe, lesson, lesson.labels)
    places += target[:, 1:].numel() + probe.rows * probe.lengths["tgt"]
    first = next((name for name, count in strays.items() if count), "")
    facts = {"places": places, "tasks": ", ".join(list(strays)[:-2]), "first": first}
    return Finding(sum(strays.values()), probe.keys("tgt", "tgt_embeddings"), facts=facts)


def _differ(got: Tensor, wanted: Tensor) -> int:
    return int((got != wanted).sum()) if got.shape == wanted.shape else wanted.numel()


def _unasked(probe: Probe, lesson: Batch, labels: Tensor) -> int:
    """Places at which the loss reads or asks another token than the batch has there.

    The output layer is made to know the label of its place: whoever compares with another label finds it wrong.
    """
    knows = F.one_hot(labels, probe.config.tgt_vocab_size).double()
    read: list[Tensor] = []

    def note_what_is_read(_module: object, inputs: tuple[Tensor, ...], _output: Tensor) -> None:
        read.append(inputs[0])

    embedding, output = probe.model.tgt_embedding, probe.model.output
    with hooked(embedding, note_what_is_read), hooked(output, lambda _module, _inputs, _output: knows):
        accuracy = float(probe.shop.training.loss_and_accuracy(probe.model, lesson)[1])
    return (0 if lesson.tgt is None else _differ(read[0], lesson.tgt)) + round((1 - accuracy) * labels.numel())


@check(
    BEHAVIOUR,
    claim="Padded targets count neither in the loss nor in its gradient, with label smoothing and without.",
    cannot_see="Padding that gets into the logits through attention.",
    claims=("loss",),
    holds="{padded} of {targets} targets padded: loss and gradient as of the others alone, up to {measured:.2g}",
    fails="with {padded} of {targets} targets padded the {first} is off by {measured:.3g}",
    stops=STOPS,
)
@probing
def loss_padding(probe: Probe) -> Finding | None:
    """The mean of -ln p over the real targets is computed here once more, in one line and without a mask."""
    lesson = _lesson(probe)
    if lesson is None or lesson.tgt is None or lesson.labels is None or lesson.labels.numel() < 2:
        return None
    labels = lesson.labels.clone()
    for row in range(len(labels)):  # 1, 2, 3, ... padded at the end; one target is always left
        labels[row, max(labels.shape[1] - 1 - row, int(row == 0)) :] = probe.config.pad_id
    real = labels != probe.config.pad_id
    off = {"loss": 0.0, "gradient": 0.0}
    for smoothing in (0.0, 0.1):
        logits: list[Tensor] = []

        def keep(_module: object, _inputs: object, output: Tensor, logits: list[Tensor] = logits) -> Tensor:
            logits.append(output.detach().requires_grad_())
            return logits[0]

        batch = Batch(lesson.src, lesson.tgt, labels)
        with torch.enable_grad(), hooked(probe.model.output, keep):
            loss, _ = probe.shop.training.loss_and_accuracy(probe.model, batch, smoothing)
            wanted = F.cross_entropy(logits[0][real], labels[real], label_smoothing=smoothing)
        gradients = [torch.autograd.grad(each, logits[0])[0] for each in (loss, wanted)]
        off["loss"] = max(off["loss"], apart(loss.detach(), wanted.detach()))
        off["gradient"] = max(off["gradient"], apart(*gradients))
    first = "loss" if off["loss"] > SAME else "gradient"
    facts = {"padded": int((~real).sum()), "targets": labels.numel(), "first": first}
    return Finding(max(off.values()), probe.keys("logits"), 0.0, SAME, facts)


@check(
    BEHAVIOUR,
    claim="Every step has the gradient of its own batch: two steps at rate 0 on one batch have the same norm.",
    cannot_see="A gradient that is wrong in the same way both times.",
    claims=("training",),
    holds="norm {one:.4g} in both steps, the same up to {measured:.2g}",
    fails="norm {one:.4g} in the first step and {two:.4g} in the second, {measured:.3g} apart",
    stops=STOPS,
)
@probing
def fresh_gradients(probe: Probe) -> Finding | None:
    lesson = _lesson(probe)
    if lesson is None:
        return None
    with probe.training():
        still = torch.optim.SGD(probe.model.parameters(), lr=0.0)
        take_step, config = probe.shop.training.take_step, TrainConfig()
        one, two = (take_step(probe.model, lesson, still, config, step, 0.0, 7)[2] for step in (1, 2))
    facts = {"one": one, "two": two}
    measured = abs(two - one) / max(one, 1e-30)
    return Finding(measured, probe.keys("logits"), 0.0, SAME, facts)


@check(
    BEHAVIOUR,
    claim="The weights that are recorded and shown are those of the softmax: their rows sum to 1 in training too, with "
    "dropout on them.",
    cannot_see="Whether the dropout acts at all.",
    claims=("display",),
    holds="{rows} rows in training mode with dropout 0.5 on the weights, largest |Σ - 1| = {measured:.2g}",
    fails="in training mode with dropout 0.5 on the weights |Σ - 1| is up to {measured:.3g}, in {first}",
    stops=STOPS,
)
@probing
def weights_before_dropout(probe: Probe) -> Finding | None:
    tokens = probe.whole()
    if tokens is None:
        return None
    views = probe.views(tokens)
    with probe.training(dropout=0.5), torch.no_grad(), trace(probe.model) as ledger:
        probe.output(tokens)
    worst, rows, first = 0.0, 0, ""
    for entry in (entry for entry in ledger if entry.name == "weights"):
        kind = "cross" if "cross" in entry.path else f"{entry.path.partition('.')[0]}_self"
        off = (entry.value.sum(dim=-1) - 1).abs()[views[kind].any(dim=-1)]
        rows += off.numel()
        if off.numel() and not float(off.max()) <= worst:
            worst, first = float(off.max()), entry.key
    return Finding(worst, probe.keys("weights"), 0.0, 1e-12, {"rows": rows, "first": first}) if rows else None
