"""Copies of records in a hot tier: never the truth, never in the way, and never older than what is known here."""

from __future__ import annotations

import contextlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from holdall.durable.copies import Copied
from holdall.durable.sessions import NO_LOG
from holdall.errors import ConflictError, DecodeError, StoreUnavailableError, TornRecordError
from holdall.stores.base import ABSENT, Absent, Entry, Record, Version
from holdall.stores.memory import MemoryStore

if TYPE_CHECKING:
    from holdall.durable.guard import GuardedStore
    from holdall.stores.rules import Write

_V = TypeVar("_V")

# Keys of which is remembered what hot holds, and which version must not be gone behind.
_REMEMBERED: Final = 4096


class Held(NamedTuple):
    """What hot holds under a key.

    Attributes:
        at: The version of hot's own record; ABSENT: it has none; None: nobody knows, so nothing may be put there.
        record: What it is a copy of, at that record's version; None where there is no copy that may be shown.
    """

    at: Version | Absent | None
    record: Record | None


class _Seen(NamedTuple):
    """Of which version hot holds a copy, and under which version of its own."""

    version: Version
    at: Version
    tags: Mapping[str, str]


class HotCopies:
    """The hot tier of a `TieredStore`. A hot tier that fails is left alone, and no call fails for it.

    Args:
        store: Where the copies are.
        ttl_s: How long a copy lives at most.
        negative_s: How long an id that was missing counts as missing.
        now: The clock, Unix seconds.
    """

    def __init__(self, store: GuardedStore, *, ttl_s: float, negative_s: float, now: Callable[[], float]) -> None:
        self.store = store
        self.is_local = isinstance(store.inner, MemoryStore)
        self._ttl_s = ttl_s
        self._negative_s = negative_s
        self._now = now
        self._seen: OrderedDict[str, _Seen] = OrderedDict()
        # The version below which a copy is known to be old; None: any copy is, the record was deleted.
        self._floor: OrderedDict[str, Version | None] = OrderedDict()
        self._missing_until: OrderedDict[str, float] = OrderedDict()

    async def read(self, key: str, log_from: int) -> Held:
        """Return what hot holds."""
        try:
            raw = await self.store.read(key, log_from=log_from)
        except TornRecordError:
            # a hot tier may evict, and not all of a record at once; what is left of the copy is in the way of the next
            await self.drop(key)
            return Held(None, None)
        except StoreUnavailableError:
            return Held(None, None)
        if raw is None:
            return Held(ABSENT, None)
        try:
            copied = Copied.of(raw.head, key)
        except DecodeError:
            return Held(raw.version, None)
        if copied.expires_at is not None and copied.expires_at <= self._now():
            return Held(raw.version, None)
        if self._is_known_old(key, copied.version):
            return Held(raw.version, None)
        remember(self._seen, key, _Seen(copied.version, raw.version, copied.tags))
        record = Record(
            key, copied.version, copied.head, raw.entries, raw.log_len, copied.expires_at, dict(copied.tags)
        )
        return Held(raw.version, record)

    def of_current(self, held: Held, head: Record) -> Record:
        """Return the record whose log is the copy's, and whose expiry and tags are what warm has just said."""
        copy = held.record
        assert copy is not None  # noqa: S101 - the caller compared its version
        return Record(copy.key, copy.version, copy.head, copy.entries, copy.log_len, head.expires_at, head.tags)

    async def promote(self, record: Record, held: Held) -> None:
        """Put a copy of a whole record where hot was seen to hold something older, or nothing."""
        if held.at is None:
            return
        self._note(record.key, record.version)
        ttl_s = self._ttl(record.expires_at)
        if ttl_s is None:
            return
        copied = Copied(record.version, record.head, record.expires_at, tags=record.tags)
        with contextlib.suppress(ConflictError, StoreUnavailableError):
            at = await self.store.write(
                record.key,
                copied.packed(),
                expected=held.at,
                append=record.entries,
                keep=0,
                ttl_s=ttl_s,
                tags=_owner(record.tags),
            )
            remember(self._seen, record.key, _Seen(record.version, at, record.tags))

    async def follow(self, write: Write, version: Version) -> None:
        """Bring the copy to a version that was just written to warm, or remove it where that takes more than the write."""
        key, seen = write.key, self._seen.pop(write.key, None)
        self._missing_until.pop(key, None)
        floor = self._floor.get(key)
        is_after = floor is not None and floor.generation == version.generation and floor.number < version.number
        if key in self._floor and not is_after:
            # Perhaps the repeat of a call, which warm answers from memory: with a version that may be long over, and for
            # which it may bring other content than the first call did.
            await self.drop(key, floor=floor)
            return
        self._note(key, version)
        at: Version | Absent | None
        tags: Mapping[str, str]
        if write.expected is ABSENT:
            at, tags = ABSENT, write.tags or {}
        elif seen is not None and seen.version == write.expected and version.number == seen.version.number + 1:
            at, tags = seen.at, seen.tags if write.tags is None else write.tags
        else:
            at, tags = None, {}
        expires_at = None if write.ttl_s is None else self._now() + write.ttl_s
        ttl_s = self._ttl(expires_at)
        if at is None or ttl_s is None:
            await self.drop(key, floor=version)
            return
        try:
            after = await self.store.write(
                key,
                Copied(version, write.head, expires_at, tags=tags).packed(),
                expected=at,
                append=[Entry(kind, data) for kind, data in write.append],
                keep=write.keep,
                ttl_s=ttl_s,
                tags=_owner(tags),
            )
        except ConflictError:
            await self.drop(key, floor=version)
        except StoreUnavailableError:
            return
        else:
            remember(self._seen, key, _Seen(version, after, tags))

    async def drop(self, key: str, *, floor: Version | None = None) -> None:
        """Remove the copy. Where that fails, it is not shown here any more, and ends by itself elsewhere."""
        self._seen.pop(key, None)
        self._note(key, floor)
        with contextlib.suppress(StoreUnavailableError):
            await self.store.delete(key)

    async def drop_user(self, user_id: str) -> None:
        """Remove every copy of a user's records.

        Raises:
            StoreUnavailableError: Hot cannot be reached, so that some may be left.
        """
        for key in [key async for key in self.store.find(user_id=user_id)]:
            await self.store.delete(key)

    async def lacks(self, key: str) -> bool:
        """Whether hot has no copy; False also where it cannot be reached."""
        try:
            return await self.store.read(key, log_from=NO_LOG) is None
        except StoreUnavailableError:
            return False

    async def sweep(self) -> int:
        """Free what has expired, if hot can be reached."""
        with contextlib.suppress(StoreUnavailableError):
            return await self.store.sweep()
        return 0

    def note_missing(self, key: str) -> None:
        """Note that there is no such record, as of now."""
        if self._negative_s > 0:
            remember(self._missing_until, key, time.monotonic() + self._negative_s)

    def note_current(self, key: str, version: Version | None) -> None:
        """Note which version warm has named, None for none: no older copy is shown, and it counts as missing no more."""
        self._missing_until.pop(key, None)
        self._note(key, version)

    def is_missing(self, key: str) -> bool:
        """Whether the record was missing a moment ago."""
        until = self._missing_until.get(key)
        return until is not None and time.monotonic() < until

    def _note(self, key: str, version: Version | None) -> None:
        known = self._floor.get(key)
        if known is not None and version is not None and known.generation == version.generation:
            version = max(known, version)
        remember(self._floor, key, version)

    def _is_known_old(self, key: str, version: Version) -> bool:
        if key not in self._floor:
            return False
        floor = self._floor[key]
        return floor is None or version.generation != floor.generation or version.number < floor.number

    def _ttl(self, expires_at: float | None) -> float | None:
        """Return how long a copy may live, None if not at all."""
        if expires_at is None:
            return self._ttl_s
        left = expires_at - self._now()
        return min(self._ttl_s, left) if left > 0 else None


def _owner(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the one tag that copies are looked for by: an index entry for each tag would cost more than the copy."""
    return {"user_id": tags["user_id"]} if "user_id" in tags else {}


def remember(table: OrderedDict[str, _V], key: str, value: _V) -> None:
    """Note a value in a table of a bounded size, from which the oldest goes."""
    table[key] = value
    table.move_to_end(key)
    if len(table) > _REMEMBERED:
        table.popitem(last=False)
