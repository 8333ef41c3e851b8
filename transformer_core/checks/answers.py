"""Level 3, answers: reading at once or token by token, and asking once or twice, come to the same."""

from collections.abc import Callable

import torch
from torch import Tensor

from transformer_core.checks.probes import SAME, STOPS, Probe, apart, hooked, probing, worst
from transformer_core.checks.table import BEHAVIOUR, Finding, check
from transformer_core.config import BEGIN, END


@check(
    BEHAVIOUR,
    claim="Reading a whole target at once gives the same logits as reading it token by token, and what the model "
    "writes by itself is what it finds likeliest when it reads its own answer.",
    cannot_see="A target that was not shifted in training.",
    claims=("decoding", "future"),
    holds="{steps} beginnings of the target: largest relative difference {measured:.2g}; {written} tokens written and "
    "read again",
    fails="the logits of a beginning and of the whole target differ by {measured:.3g}",
    fails_own="{strays} of {written} tokens that the model wrote are not what it finds likeliest there",
    stops=STOPS,
)
@probing
def step_by_step(probe: Probe) -> Finding | None:
    """Only the beginnings that, by the rules of the masks, are read alone as they are read in the whole target."""
    tokens = probe.whole()
    if tokens is None or not probe.config.has_decoder:
        return None
    whole, differences = probe.output(tokens), []
    for length in range(1, probe.lengths["tgt"]):
        beginning = tokens | {"tgt": tokens["tgt"][:, :length]}
        if probe.same_view("tgt", beginning, tokens, slice(length)):
            differences.append(apart(whole[:, :length], probe.output(beginning)))
    if not differences:
        return None
    strays, written = _own_answer(probe, tokens) if len(differences) == probe.lengths["tgt"] - 1 else (0, 0)
    measured = max(differences, key=worst)
    facts = {"steps": len(differences), "written": written, "strays": strays}
    sentence = "fails_own" if strays and measured <= SAME else None
    return Finding(strays if sentence else measured, probe.keys("allowed", "weights"), 0.0, SAME, facts, sentence)


def _own_answer(probe: Probe, tokens: dict[str, Tensor]) -> tuple[int, int]:
    """How many tokens of a greedy answer another reading would not have chosen, and how many there are."""
    if len(probe.sides) < 2 or probe.config.tgt_vocab_size <= max(BEGIN, END):
        return 0, 0
    written = probe.shop.decoding.greedy(probe.model, tokens["src"], max_length=probe.lengths["tgt"], cache=False)
    read = torch.cat([torch.full((len(written), 1), BEGIN), written[:, :-1]], dim=1)
    likeliest = probe.model(tokens["src"], read).argmax(dim=-1)
    asked = ((read == END).cumsum(dim=1) == 0)[:, : written.shape[1]]  # behind the end there is nothing to say
    return int((likeliest != written)[asked].sum()), int(asked.sum())


@check(
    BEHAVIOUR,
    claim="In evaluation and decoding the same question has the same answer twice, also from a model in training with "
    "dropout, and each module is in its former mode afterwards.",
    cannot_see="An answer that is wrong twice.",
    claims=("decoding",),
    holds="{ways} asked twice with dropout 0.5 set: no number differs, and {modules} modules are in their former mode",
    fails="the second answer differs from the first by {measured:.3g} in {first}",
    fails_mode="{measured:.0f} of {modules} modules are left in another mode",
    stops=STOPS,
)
@probing
def repeatable(probe: Probe) -> Finding | None:
    model, decoding = probe.model, probe.shop.decoding
    tokens = probe.whole()
    if tokens is None:
        return None
    outputs: list[Tensor] = []

    def evaluate() -> None:
        with decoding.evaluating(model):
            outputs.append(probe.output(tokens))

    def decode() -> None:
        keep: Callable[..., None] = lambda _module, _inputs, output: outputs.append(output)  # noqa: E731
        with hooked(model.decoder, keep):
            decoding.greedy(model, tokens["src"], max_length=min(2, probe.lengths["tgt"]))

    ways = {"evaluation": evaluate}
    if len(probe.sides) == 2 and probe.config.tgt_vocab_size > max(BEGIN, END) and _short_target(probe, tokens):
        ways["decoding"] = decode
    differences, modes = {}, 0
    with probe.training(dropout=0.5), torch.no_grad():
        model.get_submodule(probe.sides[0] + "_embedding").eval()  # not all in one mode
        before = [module.training for module in model.modules()]
        for name, ask in ways.items():
            answers = []
            for _ in range(2):
                outputs.clear()
                ask()
                answers.append(torch.cat([each.flatten() for each in outputs]))
                modes += sum(a != b.training for a, b in zip(before, model.modules(), strict=True))
            differences[name] = apart(answers[1], answers[0])
    first = max(differences, key=lambda name: worst(differences[name]))
    facts = {"ways": ", ".join(ways), "first": first, "modules": len(before)}
    if differences[first] == 0 and modes:
        return Finding(modes, probe.keys("probabilities"), facts=facts, sentence="fails_mode")
    return Finding(differences[first], probe.keys("probabilities"), facts=facts)


def _short_target(probe: Probe, tokens: dict[str, Tensor]) -> bool:
    """Whether the masks let a target of one token be read, as writing needs."""
    try:
        probe.views(tokens | {"tgt": tokens["tgt"][:, :1]})
    except ValueError:
        return False
    return True
