"""Entries as one run of bytes, for backends that hold few large things better than many small ones."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from holdall.stores.base import Entry

# length of the kind, length of the data; both lengths are checked against what is there before anything is taken
_FRAME = struct.Struct(">HQ")


def pack(entries: Iterable[tuple[str, bytes]]) -> bytes:
    """Return the entries one behind the other, each with its lengths before it."""
    parts = []
    for kind, data in entries:
        name = kind.encode()
        parts += [_FRAME.pack(len(name), len(data)), name, data]
    return b"".join(parts)


def unpack(data: bytes, n: int, *, seq: int) -> Sequence[Entry]:
    """Return the first `n` entries, numbered from `seq`.

    Raises:
        ValueError: The bytes end before the entries do.
    """
    entries = []
    at = 0
    for i in range(n):
        if at + _FRAME.size > len(data):
            raise ValueError(f"{n} entries were packed, and {i} are there")
        n_name, n_data = _FRAME.unpack_from(data, at)
        start = at + _FRAME.size + n_name
        at = start + n_data
        if at > len(data):
            raise ValueError(f"entry {i} of {n} is cut short")
        entries.append(Entry(data[start - n_name : start].decode(), data[start:at], seq + i))
    return entries


def size_of(data: bytes, n: int) -> int:
    """Return how many bytes the first `n` entries take.

    Raises:
        ValueError: The bytes end before the entries do.
    """
    at = 0
    for i in range(n):
        if at + _FRAME.size > len(data):
            raise ValueError(f"{n} entries were packed, and {i} are there")
        n_name, n_data = _FRAME.unpack_from(data, at)
        at += _FRAME.size + n_name + n_data
    if at > len(data):
        raise ValueError(f"entry {n - 1} is cut short")
    return at
