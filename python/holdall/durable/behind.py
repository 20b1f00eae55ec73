"""Write-behind: the hot tier decides and acknowledges, and what is below it follows."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final

from holdall.durable.copies import Copied, Era
from holdall.durable.crowd import BACKEND, TURNS, crowded
from holdall.durable.flights import Flights
from holdall.durable.flusher import Flusher
from holdall.durable.guard import GuardedStore
from holdall.durable.sessions import NO_LOG
from holdall.durable.sweep import sweep as sweep_store
from holdall.durable.tiered import TieredStore
from holdall.durable.ttl import TOMBSTONE_TTL_S
from holdall.durable.whereabouts import FRESH_S, At, Whereabouts
from holdall.errors import ConflictError, StaleFenceError
from holdall.stores import keys, rules
from holdall.stores.base import ABSENT, Absent, Blob, Durability, Entry, Record, Store, Version

FLUSH_S: Final = 1.0
# Lives of one id within a day of which hot knows the versions; a repeated call from before them is told a later one.
_ERAS: Final = 16
# No record is ever at it: a write that names it is answered from memory, or conflicts.
_NOWHERE: Final = Version("-", 1)


class BehindStore:
    """A `Store` whose hot tier decides. Every write is one round trip to hot; `flush_s` seconds later, or at `flush()`, it is below.

    What can be lost: a write that hot has acknowledged and then lost, before it was flushed. So it is durable as hot is; and when
    hot crashes without its memory, sessions go back to the version that was flushed last, at most `flush_s` seconds and the time
    of a flush before. A worker that dies before its flush loses nothing: hot still has the write, and the next writer, or
    `recover`, brings it below. While the tiers below cannot be reached, writes are acknowledged and pile up in hot. Hot must
    not evict (`maxmemory-policy noeviction`): what it drops before a flush is gone.

    Args:
        hot: The tier that decides, shared by all workers.
        below: Where it is written to later.
        flush_s: How long a write may wait.
        negative_s: How long an id that is not below is not asked for there again; hot is asked each time.
        hot_timeout_s: How long hot may take for a call; None leaves it to the store.
        retention_s: How long hot keeps the mark of a delete, which hides what is still below.
        now: The clock, Unix seconds.
    """

    backend = BACKEND

    def __init__(
        self,
        hot: Store,
        below: TieredStore,
        *,
        flush_s: float = FLUSH_S,
        negative_s: float = 1.0,
        hot_timeout_s: float | None = None,
        retention_s: float = TOMBSTONE_TTL_S,
        now: Callable[[], float] = time.time,
    ) -> None:
        self.durability: Durability = hot.durability
        self.hot = GuardedStore(hot, timeout_s=hot_timeout_s)
        self.below = below
        self.flusher = Flusher(self.hot, below, every_s=flush_s, now=now)
        self._retention_s = rules.check_retention(retention_s)
        self._now = now
        self._where = Whereabouts(self.hot, below, negative_s=negative_s, now=now)
        self._flights: Flights[Record | None] = Flights()
        self._is_closed = False

    async def read(self, key: str, *, log_from: int = 0) -> Record | None:
        """Return the record from hot, or, where hot has none, from below; a whole one is put into hot then."""
        keys.check_key(key)
        keys.check_count("log_from", log_from)
        return await self._flights.run((key, log_from), lambda: self._read(key, log_from))

    async def _read(self, key: str, log_from: int) -> Record | None:
        began = time.monotonic()
        raw = await self.hot.read(key, log_from=log_from)
        if raw is not None:
            copied = self._where.note(key, raw)
            if copied.is_deleted:
                return None
            return Record(key, copied.version, copied.head, raw.entries, raw.log_len, raw.expires_at, copied.tags)
        found = await self._where.in_below(key, log_from)
        if found is not None and log_from == 0:
            await self._where.promote(found, began)
        return found

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
        """Write to hot; what hot has acknowledged is acknowledged, and flushed later."""
        write = rules.check_write(
            key,
            head,
            expected=expected,
            append=append,
            keep=keep,
            ttl_s=ttl_s,
            tags=tags,
            fence=fence,
            op_id=op_id,
        )
        where = self._where.take(key)
        if where is None or where.version is None or where.version != write.expected:
            where = None
        for _ in range(TURNS):
            began = time.monotonic()
            if where is None:
                where = await self._where.look(key, log_from=0)
            refusal = _refusal(write, where.version)
            if refusal is not None:
                again = await self._answered(write, where, op_id)
                if again is None:
                    raise refusal
                return again
            version = await self._write(write, where, op_id, began)
            if version is not None:
                self._where.note_written(key)
                self.flusher.add(key)
                return version
            where = None
        raise crowded(key, "write")

    async def _write(self, write: rules.Write, where: At, op_id: str | None, began: float) -> Version | None:
        """Write over what was found; None if hot has moved on."""
        key, is_new = write.key, where.version is None
        if where.version is None:
            version = Version(secrets.token_hex(rules.GENERATION_CHARS // 2), 1)
        else:
            version = Version(where.version.generation, where.version.number + 1)
        log_len = 0 if is_new else where.log_len
        kept = log_len if write.keep is None else min(write.keep, log_len)
        cut = version.number if kept < log_len else where.cut
        tags = write.tags if write.tags is not None else {} if is_new else where.tags
        appended = [Entry(kind, data) for kind, data in write.append]
        next_at = 1 if isinstance(where.at, Absent) else where.at.number + 1
        eras = where.eras
        if is_new or not eras:
            eras = (*eras, Era(next_at, version.generation, next_at - version.number))[-_ERAS:]
        if not is_new:
            await self._shorten(key, where, write.ttl_s)
        if where.below is not None:
            if time.monotonic() - began > FRESH_S:
                return None
            appended = [*where.below.entries[:kept], *appended]
        try:
            at = await self.hot.write(
                key,
                Copied(version, write.head, cut=0 if is_new else cut, tags=tags, eras=eras).packed(),
                expected=where.at,
                append=appended,
                keep=0 if where.below is not None or is_new else kept,
                ttl_s=write.ttl_s,
                tags=tags,
                fence=write.fence,
                op_id=op_id,
            )
        except StaleFenceError as error:
            raise rules.stale_fence(key, write.expected, where.version, error.fence, error.highest) from None
        except ConflictError:
            return None
        if (is_new and op_id is not None) or at.number != next_at:
            # Perhaps the repeat of a call that hot has answered from memory: its version then is what hot says it was.
            return await self._where.version_at(write, at)
        self._where.keep(
            key,
            At(version, at, 0 if is_new else cut, kept + len(write.append), tags, self._end(write.ttl_s), eras),
        )
        return version

    async def _shorten(self, key: str, where: At, ttl_s: float | None) -> None:
        """Let what is below end no later than what hot is about to have; else it would be seen again when that has ended."""
        ends = self._end(ttl_s)
        if ends is not None and (where.ends is None or ends < where.ends):
            await self.below.touch(key, ttl_s)

    def _end(self, ttl_s: float | None) -> float | None:
        return None if ttl_s is None else self._now() + ttl_s

    async def _answered(self, write: rules.Write, where: At, op_id: str | None) -> Version | None:
        """Ask hot about a call that must be refused: return what an earlier one with its op_id was told, None if there was none.

        Raises:
            StaleFenceError: Its fence is the weightier reason to refuse it.
        """
        if isinstance(where.at, Absent):
            return None
        try:
            at = await self.hot.write(
                write.key, write.head, expected=_NOWHERE, ttl_s=None, fence=write.fence, op_id=op_id
            )
        except StaleFenceError as error:
            raise rules.stale_fence(write.key, write.expected, where.version, error.fence, error.highest) from None
        except ConflictError:
            return None
        return await self._where.version_at(write, at)

    async def read_log(self, key: str, *, kind: str | None, before: int | None = None, limit: int = 50) -> list[Entry]:
        """Return a page of the log."""
        entries = await self.hot.read_log(key, kind=kind, before=before, limit=limit)
        if entries or not limit or await self.hot.read(key, log_from=NO_LOG) is not None:
            return entries
        return await self.below.read_log(key, kind=kind, before=before, limit=limit)

    async def touch(self, key: str, ttl_s: float | None, *, op_id: str | None = None) -> bool:
        """Set the expiry in hot; below follows with the next flush. A repeat after a delete finds nothing to touch."""
        where = await self._where.look(key, log_from=NO_LOG)
        if where.version is None:
            return False
        if isinstance(where.at, Absent):
            return await self.below.touch(key, ttl_s, op_id=op_id)
        await self._shorten(key, where, ttl_s)
        self.flusher.add(key)
        return await self.hot.touch(key, ttl_s, op_id=op_id)

    async def delete(
        self, key: str, *, expected: Version | None = None, fence: int | None = None, op_id: str | None = None
    ) -> bool:
        """Delete: hot keeps a mark for the retention, 24 hours, which hides what is below until that is deleted too."""
        keys.check_key(key)
        expected = None if expected is None else keys.check_version(expected)
        write = rules.check_write(
            key,
            Blob("text", b""),
            expected=expected,
            append=(),
            keep=0,
            ttl_s=self._retention_s,
            tags={},
            fence=fence,
            op_id=None,
        )
        op_id = None if op_id is None else f"delete {op_id}"
        for _ in range(TURNS):
            where = await self._where.look(key, log_from=NO_LOG)
            if where.version is None:
                # nothing is there to be guarded: only a repeat of the delete finds something
                with contextlib.suppress(StaleFenceError):
                    return await self._answered(write, where, op_id) is not None
                return False
            if expected is not None and expected != where.version:
                if await self._answered(write, where, op_id) is not None:
                    return True
                raise rules.conflict(key, expected, where.version)
            try:
                await self.hot.write(
                    key,
                    Copied(where.version, write.head, is_deleted=True, eras=where.eras).packed(),
                    expected=where.at,
                    keep=0,
                    ttl_s=self._retention_s,
                    tags={},
                    fence=fence,
                    op_id=op_id,
                )
            except StaleFenceError as error:
                raise rules.stale_fence(key, expected, where.version, error.fence, error.highest) from None
            except ConflictError:
                continue
            self._where.take(key)
            await self.flusher.soon(key)
            return True
        raise crowded(key, "delete")

    async def find(self, /, **tags: str) -> AsyncIterator[str]:
        """Yield the keys of live records: of hot, and of those below that hot does not know better about."""
        wanted = keys.check_tags(tags) or {}
        seen: set[str] = set()
        async for key in self.hot.find(**wanted):
            seen.add(key)
            if wanted or await self._is_live(key, wanted):
                yield key
        async for key in self.below.find(**wanted):
            if key not in seen and await self._is_live(key, wanted) is not False:
                yield key

    async def _is_live(self, key: str, wanted: Mapping[str, str]) -> bool | None:
        """Whether hot has the record with these tags; None where it has none, deleted or not."""
        raw = await self.hot.read(key, log_from=NO_LOG)
        if raw is None:
            return None
        copied = Copied.of(raw.head, key)
        return not copied.is_deleted and wanted.items() <= copied.tags.items()

    async def flush(self) -> int:
        """Write all that this worker has written to hot below, now; return how many records that were.

        Raises:
            StoreUnavailableError: Below cannot be reached; what was not flushed is tried again later.
        """
        return await self.flusher.flush()

    async def recover(self) -> int:
        """Write below what any worker has left in hot, such as one that died before its flush; return how many records."""
        async for key in self.hot.find():
            self.flusher.add(key)
        return await self.flusher.flush()

    async def archive(self, key: str, ttl_s: float | None) -> bool:
        """Flush a record, and move its content below to cold; hot keeps it until it ends there."""
        await self.flusher.one(key)
        return await self.below.archive(key, ttl_s)

    async def restore(self, key: str, ttl_s: float | None) -> bool:
        """Move an archived record's content back to warm."""
        return await self.below.restore(key, ttl_s)

    async def is_archived(self, key: str) -> bool:
        """Whether the record's content below is in cold."""
        return await self.below.is_archived(key)

    async def is_idle(self, key: str) -> bool:
        """Whether a record is below and no longer in hot."""
        return await self.hot.read(key, log_from=NO_LOG) is None and not await self.is_archived(key)

    async def drop_user(self, user_id: str) -> None:
        """Delete what is below of a user whose records are gone from hot."""
        await self.flusher.flush()
        for key in [key async for key in self.below.find(user_id=user_id)]:
            await self.below.delete(key)
        await self.below.drop_user(user_id)

    async def sweep(self) -> int:
        """Free what has expired in every tier."""
        return await sweep_store(self.hot) + await self.below.sweep()

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        """Apply the migrations that are due in every tier."""
        return [*await self.hot.migrate(dry_run=dry_run), *await self.below.migrate(dry_run=dry_run)]

    async def aclose(self) -> None:
        """Flush, and close every tier; what cannot be flushed stays in hot for `recover`."""
        if self._is_closed:
            return
        self._is_closed = True
        try:
            await self.flusher.aclose()
        finally:
            try:
                await self.hot.aclose()
            finally:
                await self.below.aclose()

    def __repr__(self) -> str:
        return f"BehindStore(hot={self.hot.backend}, below={self.below!r})"


def _refusal(write: rules.Write, actual: Version | None) -> ConflictError | None:
    if write.expected is None or write.expected == actual or (write.expected is ABSENT and actual is None):
        return None
    return rules.conflict(write.key, write.expected, actual)
