"""One store made of several: a warm tier that decides, a hot one that is quick, a cold one that is cheap."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Final, Literal

from holdall.durable.archive import Archive
from holdall.durable.copies import Pointer
from holdall.durable.crowd import BACKEND
from holdall.durable.flights import Flights
from holdall.durable.guard import GuardedStore
from holdall.durable.hot import Held, HotCopies
from holdall.durable.keys import is_mark
from holdall.durable.sessions import NO_LOG
from holdall.durable.sweep import sweep as sweep_store
from holdall.durable.ttl import SESSION_TTL_S
from holdall.durable.warm_cold import WarmAndCold
from holdall.errors import ArgumentError, ConflictError, UnknownNameError
from holdall.stores import keys, rules
from holdall.stores.base import Absent, Blob, Durability, Entry, Record, Store, Version

Reads = Literal["latest", "bounded"]

HOT_TIMEOUT_S: Final = 0.25
COLD_TIMEOUT_S: Final = 30.0
MAX_STALE_S: Final = 5.0


class TieredStore:
    """A `Store` over hot, warm and cold ones. The warm tier decides: it is asked about every write, and compares versions.

    - Hot holds copies. `reads="latest"` asks warm for the version that is current, and takes the log from the copy where it
      is that version's: no reader ever gets an older one. `reads="bounded"` takes a copy as it is for `max_stale_s` seconds,
      but never an older one than this store has given or written before; an id that was missing counts as missing for
      `negative_s` seconds. Marks, such as that a user was deleted, are always asked of warm.
    - A copy is made by a compare-and-swap against what hot held before warm was read, so that it replaces no newer one.
    - Cold holds what was archived. In warm a pointer stays, with the tags, the expiry and the version: archiving changes
      nothing that a reader or a writer sees. The write that comes next brings the content back, in one step with itself.
    - Hot may be slow or dead: after `hot_timeout_s`, or at once while its breaker is open, warm does all the work. While
      cold is dead, what is archived cannot be reached, and nothing else is touched. Without warm nothing can be read or written.

    Args:
        warm: The tier that decides; its durability is this store's.
        hot: Holds copies; may be shared by workers (Redis) or of this process (memory).
        cold: Holds the archive.
        reads: "latest" or "bounded".
        hot_ttl_s: How long a copy lives in hot at most.
        max_stale_s: With "bounded", how old a copy may be.
        negative_s: With "bounded", how long an id counts as missing.
        hot_timeout_s: How long hot may take for a call.
        warm_timeout_s: How long warm may take; None leaves it to its store.
        cold_timeout_s: How long cold may take.
        now: The clock, Unix seconds.
    """

    backend = BACKEND

    def __init__(
        self,
        warm: Store,
        *,
        hot: Store | None = None,
        cold: Store | None = None,
        reads: Reads = "latest",
        hot_ttl_s: float = SESSION_TTL_S,
        max_stale_s: float = MAX_STALE_S,
        negative_s: float = 1.0,
        hot_timeout_s: float | None = HOT_TIMEOUT_S,
        warm_timeout_s: float | None = None,
        cold_timeout_s: float | None = COLD_TIMEOUT_S,
        now: Callable[[], float] = time.time,
    ) -> None:
        if reads not in ("latest", "bounded"):
            raise UnknownNameError(
                f"reads is {reads!r}; known are 'latest' and 'bounded'",
                what="reads",
                name=str(reads),
                known=["latest", "bounded"],
            )
        for name, value in (("hot_ttl_s", hot_ttl_s), ("max_stale_s", max_stale_s)):
            if not value > 0:
                raise ArgumentError(f"{name} is {value}; above 0")
        self.durability: Durability = warm.durability
        self.warm = GuardedStore(warm, timeout_s=warm_timeout_s)
        is_bounded = reads == "bounded"
        self.hot: HotCopies | None = None
        if hot is not None:
            self.hot = HotCopies(
                GuardedStore(hot, timeout_s=hot_timeout_s),
                ttl_s=min(hot_ttl_s, max_stale_s) if is_bounded else hot_ttl_s,
                negative_s=negative_s if is_bounded else 0.0,
                now=now,
            )
        self.archive_tier: Archive | None = None
        if cold is not None:
            self.archive_tier = Archive(GuardedStore(cold, timeout_s=cold_timeout_s), self.warm, now=now)
        self._content = WarmAndCold(self.warm, self.archive_tier)
        self._is_bounded = is_bounded
        self._flights: Flights[Record | None] = Flights()

    async def read(self, key: str, *, log_from: int = 0) -> Record | None:
        """Return the record, wherever its content is; concurrent reads of one key share the work."""
        keys.check_key(key)
        keys.check_count("log_from", log_from)
        return await self._flights.run((key, log_from), lambda: self._read(key, log_from))

    async def _read(self, key: str, log_from: int) -> Record | None:
        hot = self.hot
        if hot is None or is_mark(key) or (log_from >= NO_LOG and not self._is_bounded):
            return await self._content.read(key, log_from)
        if self._is_bounded:
            held = await hot.read(key, log_from)
            if held.record is not None:
                return held.record
            if hot.is_missing(key):
                return None
        else:
            held, head = await self._copy_and_head(hot, key, log_from)
            if held.record is not None and head is not None:
                pointer = Pointer.of(head)
                is_current = held.record.version == (head.version if pointer is None else pointer.version)
                if is_current and held.record.log_len == (head.log_len if pointer is None else pointer.log_len):
                    return hot.of_current(held, head)
            elif held.record is not None:
                return None
        record = await self._content.read(key, log_from)
        if record is None:
            hot.note_missing(key)
        elif log_from == 0:
            await hot.promote(record, held)
        return record

    async def _copy_and_head(self, hot: HotCopies, key: str, log_from: int) -> tuple[Held, Record | None]:
        """Return what hot holds, and, where that is a copy, the head in warm. Versions say whether they belong together.

        A hot tier that is elsewhere is asked at the same time as warm: a miss costs a head for nothing, a hit one way less.
        """
        if not hot.is_local:
            return await asyncio.gather(hot.read(key, log_from), self.warm.read(key, log_from=NO_LOG))
        held = await hot.read(key, log_from)
        return held, None if held.record is None else await self.warm.read(key, log_from=NO_LOG)

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
        """Write to warm, and then to the copy in hot; acknowledged is what warm has acknowledged."""
        checked = rules.check_write(
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
        try:
            version = await self._content.write(checked, op_id)
        except ConflictError as error:
            self._note_conflict(key, error)
            raise
        if self.hot is not None:
            await self.hot.follow(checked, version)
        return version

    def _note_conflict(self, key: str, error: ConflictError) -> None:
        """Show no copy any more that is older than what a conflict has named: who reads again must not meet it again."""
        if self.hot is not None:
            self.hot.note_current(key, error.actual)

    async def read_log(self, key: str, *, kind: str | None, before: int | None = None, limit: int = 50) -> list[Entry]:
        """Return a page of the log, from cold where the record is archived."""
        return await self._content.read_log(key, kind=kind, before=before, limit=limit)

    async def touch(self, key: str, ttl_s: float | None, *, op_id: str | None = None) -> bool:
        """Set the expiry; of an archived record that of its copy too."""
        was_there = await self._content.touch(key, ttl_s, op_id=op_id)
        if self.hot is not None:
            await self.hot.drop(key)
        return was_there

    async def delete(
        self, key: str, *, expected: Version | None = None, fence: int | None = None, op_id: str | None = None
    ) -> bool:
        """Delete from warm, which decides, and then what other tiers hold of it.

        A copy in a tier that cannot be reached is never shown again; `sweep` removes it from the archive.
        """
        try:
            was_there = await self._content.delete(key, expected, fence, op_id)
        except ConflictError as error:
            self._note_conflict(key, error)
            raise
        if self.hot is not None:
            await self.hot.drop(key)
        return was_there

    def find(self, /, **tags: str) -> AsyncIterator[str]:
        """Yield keys as warm does; what is archived keeps its tags there."""
        return self.warm.find(**tags)

    async def archive(self, key: str, ttl_s: float | None) -> bool:
        """Move a record's content to cold, to live there for `ttl_s` seconds from now; False where there is none, or a writer came.

        Copy, verify, compare-and-swap, and only then let go: cut off anywhere, the record is whole in warm or in cold.
        """
        done = await self._content.archive(key, ttl_s)
        if done and self.hot is not None:
            await self.hot.drop(key)
        return done

    async def restore(self, key: str, ttl_s: float | None) -> bool:
        """Move an archived record's content back to warm; False where it is not archived."""
        return await self._content.restore(key, ttl_s)

    async def is_archived(self, key: str) -> bool:
        """Whether the record's content is in cold."""
        return await self._content.is_archived(key)

    async def is_idle(self, key: str) -> bool:
        """Whether a record is in warm and has no copy in hot; a hot tier that cannot be reached says nothing."""
        if self.hot is not None and not await self.hot.lacks(key):
            return False
        return not await self.is_archived(key)

    async def drop_user(self, user_id: str) -> None:
        """Delete what hot and cold hold of a user whose records are gone from warm.

        Raises:
            StoreUnavailableError: A tier cannot be reached, so that some may be left: call it again.
        """
        if self.hot is not None:
            await self.hot.drop_user(user_id)
        if self.archive_tier is not None:
            await self.archive_tier.drop_user(user_id)

    async def sweep(self) -> int:
        """Free what has expired in every tier, and copies in the archive that nothing points to; return how many."""
        n = await sweep_store(self.warm)
        if self.hot is not None:
            n += await self.hot.sweep()
        if self.archive_tier is not None:
            n += await self.archive_tier.sweep()
        return n

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        """Apply the migrations that are due in every tier."""
        return [name for tier in self._tiers() for name in await tier.migrate(dry_run=dry_run)]

    async def aclose(self) -> None:
        """Close every tier, also where one of them fails to."""
        errors = []
        for tier in self._tiers():
            try:
                await tier.aclose()
            except Exception as error:  # noqa: BLE001 - raised below, when every tier had its turn
                errors.append(error)
        if errors:
            raise errors[0]

    def _tiers(self) -> list[GuardedStore]:
        hot = [] if self.hot is None else [self.hot.store]
        return [self.warm, *hot, *([] if self.archive_tier is None else [self.archive_tier.cold])]

    def __repr__(self) -> str:
        hot = None if self.hot is None else self.hot.store.backend
        cold = None if self.archive_tier is None else self.archive_tier.cold.backend
        return f"TieredStore(hot={hot}, warm={self.warm.backend}, cold={cold})"
