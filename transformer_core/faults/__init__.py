"""Faults: mistakes that people make with Transformers, each as one changed stretch of the library's own code.

Most keep every shape right. ``matrix`` runs every check on every one of them and tells which checks see it, which do
not look there, and which vouch for what is broken.

>>> FAULTS["causal_hides_itself"].lines()[3:]
(['    return key <= query'], ['    return key < query'])
"""

from collections.abc import Mapping
from types import MappingProxyType

from transformer_core.errors import nearest
from transformer_core.faults import attention, layers, masks, positions, training
from transformer_core.faults.table import GROUPS, Fault

__all__ = ["FAULTS", "GROUPS", "Fault", "get"]

FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        fault.name: fault
        for table in (attention.FAULTS, masks.FAULTS, layers.FAULTS, positions.FAULTS, training.FAULTS)
        for fault in table
    }
)
"""Every fault under its name, by group."""


def get(name: str) -> Fault:
    """The fault of this name.

    Raises:
        ValueError: there is none; the text names the nearest.
    """
    if name not in FAULTS:
        raise ValueError(
            f"there is no fault {name!r}; there are {len(FAULTS)} of them. The nearest is {nearest(name, FAULTS)}."
        )
    return FAULTS[name]
