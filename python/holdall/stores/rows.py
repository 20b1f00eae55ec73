"""A log as a driver gave it, none of whose entries is made before somebody asks for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any, overload

from holdall.errors import DecodeError
from holdall.stores.base import Entry


class Rows(Sequence[Entry]):
    """Entries of a log, read-only.

    A thousand `Entry` take as long to make as the messages in them to decode; whoever decodes all takes `raw` instead.

    Args:
        raw: Of each entry, what has its kind at 0 and its bytes at 1, or one run of bytes: the kind, NUL and the bytes.
        start: The seq of the first.
    """

    __slots__ = ("_start", "raw")

    def __init__(self, raw: Sequence[Any], start: int) -> None:
        self.raw = raw
        self._start = start

    def __len__(self) -> int:
        return len(self.raw)

    def __iter__(self) -> Iterator[Entry]:
        return map(entry_of, self.raw, count(self._start))

    @overload
    def __getitem__(self, at: int) -> Entry: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Entry]: ...
    def __getitem__(self, at: int | slice) -> Entry | Sequence[Entry]:
        if isinstance(at, slice):
            return [self[n] for n in range(len(self.raw))[at]]
        return entry_of(self.raw[at], self._start + range(len(self.raw))[at])

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, (Rows, list, tuple)) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[Any, ...]:
        # rows of a driver may not be made to be pickled
        return list, (list(self),)

    def __repr__(self) -> str:
        return f"Rows({list(self)!r})"


def raw(entries: Sequence[Entry]) -> Sequence[Any]:
    """Return entries as `holdall.state` decodes them fastest."""
    return entries.raw if isinstance(entries, Rows) else entries


def entry_of(row: Any, seq: int) -> Entry:
    """Return the entry that a row holds.

    Raises:
        DecodeError: It is one run of bytes whose kind is no text.
    """
    if type(row) is not bytes:
        return Entry(row[0], row[1], seq)
    kind, _, data = row.partition(b"\0")
    try:
        return Entry(kind.decode(), data, seq)
    except UnicodeDecodeError as error:
        raise DecodeError(f"the kind of entry {seq} is not UTF-8", offset=0, reason=str(error)) from error
