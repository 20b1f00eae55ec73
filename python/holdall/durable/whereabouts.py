"""Where a record is, behind: at which version, under which one of its own hot holds it, and what is below."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from holdall.durable.copies import Copied, Era
from holdall.durable.flusher import of_below
from holdall.durable.guard import GuardedStore
from holdall.durable.hot import remember
from holdall.durable.sessions import NO_LOG
from holdall.durable.tiered import TieredStore
from holdall.errors import ConflictError, StoreUnavailableError
from holdall.stores import rules
from holdall.stores.base import ABSENT, Absent, Record, Version

# Hot may lose a record only to its expiry. Content from below that is older than this is not put in its place.
FRESH_S: Final = 10.0


class At(NamedTuple):
    """Where a record is: at which version, and under which one hot holds it."""

    version: Version | None
    at: Version | Absent
    cut: int
    log_len: int
    tags: Mapping[str, str]
    ends: float | None = None
    eras: Sequence[Era] = ()
    below: Record | None = None


class Whereabouts:
    """Finds records in hot and below, and remembers where they were seen last.

    Args:
        hot: The tier that decides.
        below: Where it is written to later.
        negative_s: How long an id that is not below is not asked for there again.
        now: The clock, Unix seconds.
    """

    def __init__(self, hot: GuardedStore, below: TieredStore, *, negative_s: float, now: Callable[[], float]) -> None:
        self.hot = hot
        self.below = below
        self._negative_s = negative_s
        self._now = now
        self._seen: OrderedDict[str, At] = OrderedDict()
        self._not_below_until: OrderedDict[str, float] = OrderedDict()

    def keep(self, key: str, at: At) -> None:
        """Remember where a record is."""
        remember(self._seen, key, at)

    def take(self, key: str) -> At | None:
        """Return where a record was seen last, once."""
        return self._seen.pop(key, None)

    def note_written(self, key: str) -> None:
        """Note that the record was written, and will be below."""
        self._not_below_until.pop(key, None)

    async def in_below(self, key: str, log_from: int) -> Record | None:
        """Return the record as it is below, None where it is not; that it was not there a moment ago is an answer."""
        if time.monotonic() < self._not_below_until.get(key, 0.0):
            return None
        found = await self.below.read(key, log_from=log_from)
        if found is None:
            remember(self._not_below_until, key, time.monotonic() + self._negative_s)
            return None
        return of_below(found)

    async def promote(self, record: Record, began: float) -> None:
        """Put a whole record from below into hot, unless it took long to get here, or somebody was faster."""
        ttl_s = None if record.expires_at is None else record.expires_at - self._now()
        if time.monotonic() - began > FRESH_S or (ttl_s is not None and ttl_s <= 0):
            return
        eras = (Era(1, record.version.generation, 1 - record.version.number),)
        copied = Copied(record.version, record.head, tags=record.tags, eras=eras)
        try:
            at = await self.hot.write(
                record.key,
                copied.packed(),
                expected=ABSENT,
                append=record.entries,
                ttl_s=ttl_s,
                tags=record.tags,
            )
        except (ConflictError, StoreUnavailableError):
            return
        remember(
            self._seen, record.key, At(record.version, at, 0, record.log_len, record.tags, record.expires_at, eras)
        )

    def note(self, key: str, raw: Record) -> Copied:
        """Remember what hot has just shown, and return it unpacked."""
        copied = Copied.of(raw.head, key)
        version = None if copied.is_deleted else copied.version
        remember(
            self._seen,
            key,
            At(version, raw.version, copied.cut, raw.log_len, copied.tags, raw.expires_at, copied.eras),
        )
        return copied

    async def look(self, key: str, *, log_from: int) -> At:
        """Return where a record is now; its content from below comes along where hot has none."""
        raw = await self.hot.read(key, log_from=NO_LOG)
        if raw is not None:
            self.note(key, raw)
            return self._seen[key]
        found = await self.in_below(key, log_from)
        if found is None:
            return At(None, ABSENT, 0, 0, {})
        return At(found.version, ABSENT, 0, found.log_len, found.tags, found.expires_at, below=found)

    async def version_at(self, write: rules.Write, at: Version) -> Version:
        """Return which version hot's own version `at` was, by what hot says of the record's lives."""
        raw = await self.hot.read(write.key, log_from=NO_LOG)
        if raw is not None and raw.version.generation == at.generation:
            for era in reversed(self.note(write.key, raw).eras):
                if era.start <= at.number:
                    return Version(era.generation, at.number - era.ahead)
        generation, number = write.expected if isinstance(write.expected, Version) else (at.generation, 0)
        return Version(generation, number + 1)  # it has ended since
