"""Faults: what goes wrong when a Transformer is written by hand, each as one changed line."""

from collections.abc import Mapping
from typing import Any

FAULTS: Mapping[str, Any] = {}
