"""What a run must remember to go on, read from flat tensors, as a file of weights holds them, and distrusted."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from transformer_core.checked import check_whole
from transformer_core.config import TrainConfig

PROGRESS = ("step", "generator", "rate_changes")
REMEMBERED = ("step", "exp_avg", "exp_avg_sq")
"""Of each weight, by both optimizers: its updates, and the averages of its gradient and of the gradient's square."""


def check_changes(changes: Iterable[tuple[int, float]]) -> list[tuple[int, float]]:
    """The changes of a run's ``lr`` as a list of (first step it holds for, lr), each of which can be, in rising order.

    Raises:
        ConfigError: a step below 1, or an ``lr`` that is none.
        ValueError: a step that is not above the one before.
    """
    checked: list[tuple[int, float]] = []
    for step, lr in changes:
        step = check_whole("rate_changes step", step, 1, TrainConfig.facts("steps")["high"])
        if checked and step <= checked[-1][0]:
            raise ValueError(f"rate_changes must have rising steps, got {checked[-1][0]} and then {step}")
        checked.append((step, TrainConfig.facts("lr")["check"]("lr", lr)))
    return checked


def read_progress(
    state: Mapping[str, Tensor], total_steps: int
) -> tuple[int, list[tuple[int, float]], torch.Generator]:
    """Steps taken, changes of the rate, and the generator of the questions to come.

    Raises:
        ValueError: one of them is missing or cannot be.
    """
    for name in PROGRESS:
        if name not in state:
            raise ValueError(f"the state of a run holds step, generator and rate_changes; this one has no {name}")
    step, changes = state["step"], state["rate_changes"]
    if step.shape != () or step.is_floating_point() or not 0 <= int(step) <= total_steps:
        raise ValueError(f"the state's step must be a whole number from 0 to {total_steps}, the steps of this run")
    if changes.dim() != 2 or changes.shape[1] != 2:
        raise ValueError(f"the state's rate_changes must be pairs of step and lr, got shape {tuple(changes.shape)}")
    if not changes[:, 0].equal(changes[:, 0].round()):  # NaN equals nothing
        raise ValueError("the state's rate_changes must begin with whole steps")
    generator = torch.Generator()
    try:
        generator.set_state(state["generator"].cpu())
    except (RuntimeError, TypeError) as error:
        raise ValueError("the state's generator is none that torch can go on with") from error
    return int(step), check_changes((int(first), lr) for first, lr in changes.tolist()), generator


def read_memory(state: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]) -> dict[str, dict[str, Tensor]]:
    """What the optimizer remembers of each weight, as copies; nothing of a weight that never had a gradient.

    Raises:
        ValueError: something is left over, has another shape, or is there only in part.
    """
    memory: dict[str, dict[str, Tensor]] = {}
    for name, value in state.items():
        if name in PROGRESS:
            continue
        owner, _, what = name.removeprefix("optimizer.").rpartition(".")
        if not name.startswith("optimizer.") or owner not in shapes or what not in REMEMBERED:
            raise ValueError(f"the state holds {name!r}, which is nothing that a run of this model remembers")
        wanted = () if what == "step" else tuple(shapes[owner])
        if tuple(value.shape) != wanted or not value.is_floating_point():
            got = f"{tuple(value.shape)} of {str(value.dtype).removeprefix('torch.')}"
            raise ValueError(f"{name} must be of shape {wanted} and hold floats, got {got}")
        memory.setdefault(owner, {})[what] = value.detach().clone()
    for owner, parts in memory.items():
        if len(parts) < len(REMEMBERED):
            raise ValueError(f"of {owner} the state holds only {', '.join(parts)}; wanted are {', '.join(REMEMBERED)}")
    return memory
