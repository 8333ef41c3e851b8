"""The commands of ``python -m transformer_core``, one file each.

A command is a module with ``HELP``, one sentence; ``arguments``, which adds what it can be asked; and ``run``, which
prints to stdout and gives the exit status. Whatever it refuses, it raises as a ValueError in one sentence.
"""

from types import ModuleType

from transformer_core.commands import (
    check,
    compare,
    decode,
    faults,
    ledger,
    lessons,
    masks,
    presets,
    replay,
    train,
    translate,
)

__all__ = ["COMMANDS"]

COMMANDS: dict[str, ModuleType] = {
    "check": check,
    "compare": compare,
    "decode": decode,
    "faults": faults,
    "ledger": ledger,
    "lessons": lessons,
    "masks": masks,
    "train": train,
    "translate": translate,
    "presets": presets,
    "replay": replay,
}
"""Every command under its name, in the order in which they are listed."""
