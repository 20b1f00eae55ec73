"""What carries a hot tier's writes to the tiers below it."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdall.durable.copies import Copied
from holdall.durable.sessions import NO_LOG
from holdall.errors import ConflictError
from holdall.stores.base import ABSENT, Record, Version

if TYPE_CHECKING:
    from holdall.durable.guard import GuardedStore
    from holdall.durable.tiered import TieredStore

# Below, a record carries under this tag the version it has in hot. Nobody looks for it; it is how a head stays as it is.
AT: Final = "~at"
_AT_ONCE: Final = 8
_TURNS: Final = 16
_SKEW_S: Final = 1.0


def of_below(record: Record) -> Record:
    """Return a record from below at the version that hot has given it; its own where hot never had it."""
    tags = dict(record.tags)
    at = tags.pop(AT, None)
    version = record.version
    if at is not None:
        generation, _, number = at.rpartition(".")
        version = Version(generation, int(number))
    return Record(record.key, version, record.head, record.entries, record.log_len, record.expires_at, tags)


class Flusher:
    """Writes records from hot below, in the background. Safe beside other workers' flushers of the same records.

    What goes below is always what hot holds at that moment, at its version, by a compare-and-swap against what was below: the
    order of flushes does not matter, and an older version replaces no newer one.

    Args:
        hot: The tier that decides.
        below: Where to.
        every_s: Seconds between two flushes.
        now: The clock, Unix seconds.
    """

    def __init__(self, hot: GuardedStore, below: TieredStore, *, every_s: float, now: Callable[[], float]) -> None:
        self._hot = hot
        self._below = below
        self._every_s = every_s
        self._now = now
        self._due: dict[str, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._is_closed = False

    @property
    def n_due(self) -> int:
        """How many records wait."""
        return len(self._due)

    def add(self, key: str) -> None:
        """Let a record go below with the next flush."""
        self._due[key] = None
        if (self._task is None or self._task.done()) and not self._is_closed:
            self._task = asyncio.ensure_future(self._run())

    async def _run(self) -> None:
        while self._due:
            await asyncio.sleep(self._every_s)
            # whatever the error: what could not be flushed is due still, and one record that cannot be holds up no other
            with contextlib.suppress(Exception):
                await self.flush()

    async def soon(self, key: str) -> None:
        """Flush a record now if that can be done, else with the next flush."""
        self.add(key)
        with contextlib.suppress(Exception):
            await self.one(key)

    async def flush(self) -> int:
        """Flush all records that wait; return how many.

        Raises:
            StoreUnavailableError: Some could not be; they wait on.
            HoldallError: Below refuses one, or it is damaged; it waits on, and the others were flushed.
        """
        due, slots = list(self._due), asyncio.Semaphore(_AT_ONCE)

        async def one(key: str) -> None:
            async with slots:
                await self.one(key)

        answers = await asyncio.gather(*(one(key) for key in due), return_exceptions=True)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        return len(due)

    async def one(self, key: str) -> None:
        """Bring one record below to what hot holds."""
        for _ in range(_TURNS):
            self._due.pop(key, None)
            try:
                is_done = await self._once(key)
            except BaseException:
                self._due[key] = None
                raise
            if is_done:
                return
        self._due[key] = None

    async def _once(self, key: str) -> bool:
        raw = await self._hot.read(key, log_from=NO_LOG)
        if raw is None:
            return True
        copied = Copied.of(raw.head, key)
        if copied.is_deleted:
            await self._below.delete(key, op_id=_op_id())
            return True
        there = await self._below.read(key, log_from=NO_LOG)
        at = None if there is None else of_below(there).version
        if there is not None and at == copied.version:
            await self._renew(raw, there)
            return True
        grown = (
            there is not None
            and at is not None
            and at.generation == copied.version.generation
            and copied.cut <= at.number < copied.version.number
            and there.log_len <= raw.log_len
        )
        start = there.log_len if grown and there is not None else 0
        raw = await self._hot.read(key, log_from=start)
        if raw is None:
            return True
        now = Copied.of(raw.head, key)
        ttl_s = None if raw.expires_at is None else raw.expires_at - self._now()
        if now.version != copied.version or now.is_deleted or (ttl_s is not None and ttl_s <= 0):
            return False  # written or deleted since: what was decided is about another version
        with contextlib.suppress(ConflictError):
            await self._below.write(
                key,
                now.head,
                expected=ABSENT if there is None else there.version,
                append=raw.entries,
                keep=start,
                ttl_s=ttl_s,
                tags=below_tags(now),
                op_id=_op_id(),
            )
        # Deleted in the meantime, it must not stay; written on, it goes again; lost to another flusher, likewise.
        return False

    async def _renew(self, raw: Record, there: Record) -> None:
        ends, now = raw.expires_at, self._now()
        differs = (ends is None) != (there.expires_at is None) or abs(
            (ends or 0.0) - (there.expires_at or 0.0)
        ) > _SKEW_S
        if not differs or (ends is not None and ends <= now):
            return
        if not await self._below.is_archived(raw.key):  # the archive has a life of its own
            await self._below.touch(raw.key, None if ends is None else ends - now, op_id=_op_id())

    async def aclose(self) -> None:
        """Stop, and flush what waits.

        Raises:
            StoreUnavailableError: Below cannot be reached; hot has what was not flushed.
        """
        self._is_closed = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
        await self.flush()


def below_tags(copied: Copied) -> dict[str, str]:
    """Return the tags of a record below: its own, and its version."""
    return {**copied.tags, AT: f"{copied.version.generation}.{copied.version.number}"}


def _op_id() -> str:
    return os.urandom(12).hex()
