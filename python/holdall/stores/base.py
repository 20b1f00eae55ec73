"""The narrow waist: a versioned record with an append-only log, and the Protocol a backend implements.

Everything durable in holdall is such a record. What only grows lives in the log, what changes lives in the small head, so
that a write costs the size of the step and not of the conversation. A store knows nothing of sessions: it holds bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, Protocol, runtime_checkable

Durability = Literal["memory", "process", "fsync"]


class Blob(NamedTuple):
    """Bytes and the name of their format ("msgpack", "json", "protobuf", ...)."""

    format: str
    data: bytes


class Version(NamedTuple):
    """Which write a record is at. Both parts are compared, never clocks."""

    generation: str
    number: int


class _Absent:
    """The version of a record that must not exist."""

    _only: _Absent | None = None

    def __new__(cls) -> _Absent:  # noqa: PYI034 - Self needs Python 3.11
        if cls._only is None:
            cls._only = super().__new__(cls)
        return cls._only

    def __repr__(self) -> str:
        return "ABSENT"

    def __reduce__(self) -> str:
        return "ABSENT"


Absent = _Absent
ABSENT: Final = _Absent()


class Entry(NamedTuple):
    """One appended piece of a log. `seq` counts from 0 over all kinds; the store sets it, a writer leaves it at -1."""

    kind: str
    data: bytes
    seq: int = -1


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it was at one version.

    Attributes:
        key: The key it was read by.
        version: Generation and number.
        head: The part that changes.
        entries: The log from `log_from` on, in order of seq.
        log_len: Entries in the whole log.
        expires_at: Unix seconds, None for never.
        tags: What `find` selects by.
    """

    key: str
    version: Version
    head: Blob
    entries: Sequence[Entry]
    log_len: int
    expires_at: float | None = None
    tags: Mapping[str, str] = field(default_factory=dict)


@runtime_checkable
class Store(Protocol):
    """What a backend implements, and nothing else. `holdall.testing.StoreConformance` holds it to every sentence.

    Head, append, version, tags and expiry change together or not at all. Every method may raise `StoreUnavailableError`;
    a write whose reply was lost and that carries no `op_id` raises `OutcomeUnknownError`. After a lost connection a store
    tries once more, and only reads and calls with an `op_id`.

    - A record begins at number 1 of a drawn generation and each write adds 1. Used again after a delete or its expiry, a
      key begins a new generation, with an empty log and no tags; who still names the old one meets a conflict.
    - Expiry ends a record at once, swept or not, and its fence and op_ids with it. A delete leaves a tombstone that keeps
      both for a retention; a later record of the key goes on with them.
    - A call is repeated by its operation and `op_id`: it is answered as before, also past its fence and its version, and has
      no second effect. Calls that were refused, or found no record, had no effect and are not remembered.
    - What is stored is what was there when the call was made, whatever changes while it waits.
    """

    backend: str
    durability: Durability

    async def read(self, key: str, *, log_from: int = 0) -> Record | None:
        """Return the record, its log from entry `log_from` on; None where there is none or it has expired."""
        ...

    async def write(
        self,
        key: str,
        head: Blob,
        *,
        expected: Version | Absent | None,
        append: Sequence[Entry] = (),
        keep: int | None = None,
        ttl_s: float | None,
        tags: Mapping[str, str] | None = None,
        fence: int | None = None,
        op_id: str | None = None,
    ) -> Version:
        """Replace the head, cut the log to its first `keep` entries, append, and set the expiry, all or nothing.

        Args:
            key: Opaque, 1 to 4096 bytes of UTF-8, without NUL.
            head: The new head.
            expected: The version that was read; ABSENT: must not exist; None: last writer wins.
            append: Entries to add; their seq is ignored.
            keep: Entries of the log to keep before appending; None keeps all.
            ttl_s: Seconds until the record expires, None for never.
            tags: None leaves them as they are, a mapping replaces them.
            fence: A fencing token; refused when lower than the highest seen, or missing once one was seen.
            op_id: Makes the call repeatable: the last 32 op_ids of a record are answered from memory.

        Returns:
            The version written.

        Raises:
            ConflictError: The record is at another version; `actual` is that version, None where it does not exist.
            StaleFenceError: The fence is lower than one already seen.
        """
        ...

    async def read_log(self, key: str, *, kind: str | None, before: int | None = None, limit: int = 50) -> list[Entry]:
        """Return up to `limit` entries of one kind (None: any) with seq < `before`, newest first."""
        ...

    async def touch(self, key: str, ttl_s: float | None, *, op_id: str | None = None) -> bool:
        """Set the expiry without a new version; False where there is no such record."""
        ...

    async def delete(
        self, key: str, *, expected: Version | None = None, fence: int | None = None, op_id: str | None = None
    ) -> bool:
        """Delete, leaving a tombstone with fence and op_ids; False where there was no such record."""
        ...

    def find(self, /, **tags: str) -> AsyncIterator[str]:
        """Yield the keys of live records that carry all these tags; no tags: every live record."""
        ...

    async def aclose(self) -> None:
        """Give back connections. Idempotent; a later call raises `ClosedError`."""
        ...


@runtime_checkable
class ConflictReader(Protocol):
    """What a store may do beside: a write that meets another version brings the record along, in the same step.

    It saves contended writers a round trip, and lets them start over from the instant of the conflict. Where a store does not
    have it, they read again.
    """

    async def write_or_read(
        self,
        key: str,
        head: Blob,
        *,
        expected: Version,
        append: Sequence[Entry] = (),
        keep: int | None = None,
        ttl_s: float | None,
        tags: Mapping[str, str] | None = None,
        fence: int | None = None,
        op_id: str | None = None,
        log_from: int,
    ) -> Version | Record:
        """As `write`; but where another version is there, return the record as it is.

        Its entries begin at `log_from` if the log's beginning up to there is as it was at `expected`, else at 0: the `seq`
        of the first says which, or, where there are none, `log_len`.

        Raises:
            ConflictError: There is no record.
            StaleFenceError: As for `write`.
        """
        ...
