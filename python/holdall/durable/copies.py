"""Copies of records in other tiers: at which version they were taken, and whether they are whole.

A copy is a record of its tier like any other: its log is the log, and its head says, in front of the head that was copied,
what the copy is of. An archived record leaves a pointer behind, which says where the copy is and what it must be.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdall.errors import DecodeError
from holdall.stores import keys
from holdall.stores.base import Blob, Entry, Version

if TYPE_CHECKING:
    from holdall.stores.base import Record

COPY: Final = "holdall.copy"
POINTER: Final = "holdall.archived"
_DIGEST_BYTES: Final = 16


class Era(NamedTuple):
    """One life of a record, in the numbers of the tier that decides."""

    start: int
    generation: str
    ahead: int


class Copied(NamedTuple):
    """What a copy's head says, taken apart.

    Attributes:
        version: Of the record, when it was copied.
        head: The record's own head.
        expires_at: When the record ends, Unix seconds; None for never.
        cut: The number of the last version that shortened the log; 0 for none.
        is_deleted: The record was deleted at this version; there is no head.
        tags: Of the record.
        eras: Where the tier that holds the copy decides: from which of its own numbers on which generation counts, and how far
            its number is ahead of the generation's.
    """

    version: Version
    head: Blob
    expires_at: float | None = None
    cut: int = 0
    is_deleted: bool = False
    tags: Mapping[str, str] = MappingProxyType({})
    eras: Sequence[Era] = ()

    def packed(self) -> Blob:
        """Return the head to store."""
        said: dict[str, Any] = {"g": self.version.generation, "n": self.version.number, "f": self.head.format}
        if self.expires_at is not None:
            said["e"] = self.expires_at
        if self.cut:
            said["c"] = self.cut
        if self.is_deleted:
            said["d"] = 1
        if self.tags:
            said["t"] = dict(self.tags)
        if self.eras:
            said["r"] = self.eras
        return Blob(COPY, json.dumps(said, separators=(",", ":")).encode() + b"\n" + self.head.data)

    @classmethod
    def of(cls, blob: Blob, key: str) -> Copied:
        """Read a stored head.

        Raises:
            DecodeError: It is no copy's.
        """
        if blob.format != COPY:
            raise _damaged(key, f"its format is {blob.format!r}")
        line, newline, data = blob.data.partition(b"\n")
        try:
            said = json.loads(line)
            version = Version(said["g"], said["n"])
            copied = cls(
                version,
                Blob(said["f"], data),
                said.get("e"),
                said.get("c", 0),
                bool(said.get("d")),
                said.get("t", {}),
                tuple(Era(*era) for era in said.get("r", ())),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(key, f"{type(error).__name__} in its first line") from error
        if not newline:
            raise _damaged(key, "its first line does not end")
        return copied


class Pointer(NamedTuple):
    """What stands in a record's place while its content is in the archive.

    Attributes:
        key: Of the copy, in the cold tier.
        version: Of the record, when it was archived; readers and writers go on naming it.
        head_sum: Checksum of the head.
        log_sum: Checksum of the log.
        log_len: Entries in it.
    """

    key: str
    version: Version
    head_sum: str
    log_sum: str
    log_len: int

    def packed(self) -> Blob:
        """Return the head to store."""
        said = [self.key, *self.version, self.head_sum, self.log_sum, self.log_len]
        return Blob(POINTER, json.dumps(said, separators=(",", ":")).encode())

    @classmethod
    def of(cls, record: Record) -> Pointer | None:
        """Return the pointer that a record is, None if it is a record of its own.

        Raises:
            DecodeError: It claims to be a pointer and is none.
        """
        if record.head.format != POINTER:
            return None
        try:
            key, generation, number, head_sum, log_sum, log_len = json.loads(record.head.data)
        except (ValueError, TypeError) as error:
            raise _damaged(record.key, "its pointer cannot be read") from error
        return cls(key, Version(generation, number), head_sum, log_sum, log_len)

    @classmethod
    def to(cls, record: Record) -> Pointer:
        """Return the pointer for a whole record that is about to be archived."""
        return cls(
            archive_key(record.key, record.version),
            record.version,
            head_sum(record.key, record.head),
            log_sum(record.entries),
            record.log_len,
        )

    def check(self, key: str, head: Blob, entries: Sequence[Entry] | None) -> None:
        """Compare a copy with what was archived.

        Raises:
            DecodeError: It is not the same, byte for byte.
        """
        if head_sum(key, head) != self.head_sum:
            raise _damaged(key, "the checksum of its head is another than when it was archived")
        if entries is not None and (len(entries) != self.log_len or log_sum(entries) != self.log_sum):
            raise _damaged(key, "the checksum of its log is another than when it was archived")


_ARCHIVED: Final = "~archive/"


def archive_key(key: str, version: Version) -> str:
    """Return the key of the copy of this version: no other version, nor another life of the id, ever has the same."""
    return f"{_ARCHIVED}{version.generation}.{version.number}/{key}"


def archived_of(key: str) -> tuple[str, Version] | None:
    """Return of which record and version a cold key is the copy; None if it is no copy's."""
    if not key.startswith(_ARCHIVED):
        return None
    at, slash, original = key[len(_ARCHIVED) :].partition("/")
    generation, _, number = at.rpartition(".")
    if not slash or not number.isdigit():
        return None
    return original, Version(generation, int(number))


def head_sum(key: str, head: Blob) -> str:
    """Return the checksum of a head under its key."""
    return _sum((key.encode(), head.format.encode(), head.data))


def log_sum(entries: Sequence[Entry]) -> str:
    """Return the checksum of a log."""
    return _sum(part for entry in entries for part in (entry.kind.encode(), entry.data))


def _sum(parts: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for part in parts:
        # with its length, so that no two lists of parts read alike
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()


def _damaged(key: str, reason: str) -> DecodeError:
    return DecodeError(f"the copy of {keys.shown(key)!r} in another tier is damaged: {reason}", offset=0, reason=reason)


def gone(key: str) -> DecodeError:
    """The archive does not hold what the pointer names."""
    return _damaged(key, "the archive does not hold it")
