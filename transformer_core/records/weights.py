"""Weights as a file that holds numbers and no code (safetensors), with the record of their run beside them."""

import json
from collections.abc import Mapping
from typing import Any

from torch import Tensor

from transformer_core.errors import ConfigError, first_line
from transformer_core.model import Transformer, build
from transformer_core.records.reading import MAX_BYTES
from transformer_core.records.record import RunRecord

RECORD, TRAINING = "record", "training/"
"""The key of the metadata; what stands before the names of a training's tensors."""
MAX_HEADER = 2 * MAX_BYTES


def save_weights(model: Transformer, record: RunRecord, training_state: Mapping[str, Tensor] | None = None) -> bytes:
    """The weights of ``model`` with its ``record``; with a ``training_state`` the run can go on from here at once."""
    from safetensors.torch import save

    tensors = dict(model.state_dict())
    tensors |= {f"{TRAINING}{name}": value for name, value in (training_state or {}).items()}
    # Tied weights are one tensor under two names, which the format refuses: each gets its own copy.
    copies = {name: value.detach().to("cpu").contiguous().clone() for name, value in tensors.items()}
    return save(copies, metadata={"format": "pt", RECORD: record.to_json()})


def load_weights(data: bytes) -> tuple[RunRecord, dict[str, Tensor]]:
    """The record and the weights, ready for ``load_state_dict`` of a model that the record describes.

    Raises:
        ConfigError: it is no safetensors file, there is no record in it, or the weights are not those of its model or
            not finite.
    """
    record = read_record(data)
    weights = {name: value for name, value in _tensors(data).items() if not name.startswith(TRAINING)}
    wanted = build(record.model, record.masks, device="meta").state_dict()
    for name in [*wanted, *weights]:
        shapes = [str(tuple(each[name].shape)) if name in each else "missing" for each in (weights, wanted)]
        if shapes[0] != shapes[1] or weights[name].dtype != wanted[name].dtype:
            raise ConfigError("weights_other", field="weights", given=name, shape=shapes[0], wanted=shapes[1])
        if not weights[name].isfinite().all():
            raise ConfigError("weights_not_finite", field="weights", given=name)
    return record, weights


def load_training(data: bytes) -> dict[str, Tensor] | None:
    """The state of the training, if it was saved.

    Raises:
        ConfigError: it is no safetensors file.
    """
    state = {name.removeprefix(TRAINING): each for name, each in _tensors(data).items() if name.startswith(TRAINING)}
    return state or None


def read_record(data: bytes) -> RunRecord:
    """The record beside the weights; the weights themselves are not looked at.

    Raises:
        ConfigError: it is no safetensors file, or there is no record in it.
    """
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > min(len(data) - 8, MAX_HEADER):
        raise _broken("its header is longer than the file" if len(data) >= 8 else "it is too short")
    try:
        header: Any = json.loads(data[8 : 8 + size])
    except (ValueError, RecursionError):
        raise _broken("its header is no JSON") from None
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get(RECORD), str):
        raise ConfigError("weights_record", field="weights")
    return RunRecord.from_json(metadata[RECORD])


def _tensors(data: bytes) -> dict[str, Tensor]:
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(data)
    except (SafetensorError, ValueError, KeyError) as error:
        raise _broken(first_line(error)) from None


def _broken(reason: str) -> ConfigError:
    return ConfigError("weights_broken", field="weights", reason=reason.rstrip("."))
