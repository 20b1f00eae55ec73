"""Loops that each turn of another worker's write sends round again, and their end."""

from __future__ import annotations

from typing import Final

from holdall.errors import StoreBusyError
from holdall.stores import lost

BACKEND: Final = "tiered"
# Each turn means that another worker got its write through.
TURNS: Final = 32


def crowded(key: str, operation: str) -> StoreBusyError:
    """Return the error for a record that others changed at every turn."""
    return lost.busy(BACKEND, operation, f"{key[:80]!r} was changed by others {TURNS} times over")
