"""Records whose content is in warm, or in cold with a pointer in warm: read and written as if they were in one place."""

from __future__ import annotations

from holdall.durable.archive import Archive
from holdall.durable.copies import Pointer
from holdall.durable.crowd import BACKEND, TURNS, crowded
from holdall.durable.guard import GuardedStore
from holdall.durable.sessions import NO_LOG
from holdall.errors import ConflictError, StaleFenceError, StoreUnavailableError
from holdall.stores import rules
from holdall.stores.base import ABSENT, Absent, Entry, Record, Version


class WarmAndCold:
    """The warm tier of a `TieredStore`, which decides, and the archive that its pointers lead to.

    Args:
        warm: The tier that decides.
        archive: The cold tier; None: what is archived cannot be reached.
    """

    def __init__(self, warm: GuardedStore, archive: Archive | None) -> None:
        self._warm = warm
        self._cold = archive

    async def _look(self, key: str) -> tuple[Record | None, Pointer | None]:
        """Return what warm holds, without its log, and the pointer that it is, if it is one."""
        head = await self._warm.read(key, log_from=NO_LOG)
        return head, None if head is None else Pointer.of(head)

    async def read(self, key: str, log_from: int) -> Record | None:
        """Return the record from warm, or from cold where warm holds a pointer."""
        missing_at: Version | None = None
        for _ in range(TURNS):
            record = await self._warm.read(key, log_from=log_from)
            pointer = None if record is None else Pointer.of(record)
            if record is None or pointer is None:
                return record
            archived = await self._archive().fetch(record, pointer, log_from=log_from, was_missing=missing_at)
            if archived is not None:
                return archived
            missing_at = record.version  # brought back meanwhile: then warm has moved on
        raise crowded(key, "read")

    async def write(self, write: rules.Write, op_id: str | None) -> Version:
        """Write to warm; over a pointer the content is brought back in the same step."""
        if self._cold is None:
            return await self._to_warm(write, write.expected, op_id)
        missing_at: Version | None = None
        for _ in range(TURNS):
            try:
                if write.expected is not None:
                    return await self._to_warm(write, write.expected, op_id)
                head = await self._warm.read(write.key, log_from=NO_LOG)
                if head is None or Pointer.of(head) is None:
                    # Over a pointer the last writer must not win blindly: the log would be lost.
                    return await self._to_warm(write, ABSENT if head is None else head.version, op_id)
            except StaleFenceError:
                raise
            except ConflictError as error:
                if write.expected is None:
                    continue
                head = None if error.actual is None else await self._warm.read(write.key, log_from=NO_LOG)
                if head is None or (Pointer.of(head) is None and head.version != write.expected):
                    raise
            pointer = Pointer.of(head)
            if pointer is None:
                continue  # archived and brought back at this moment
            if write.expected is not None and write.expected != pointer.version:
                raise rules.conflict(write.key, write.expected, pointer.version)
            try:
                version = await self._archive().bring_back(head, pointer, write, op_id=op_id, was_missing=missing_at)
            except StaleFenceError:
                raise
            except ConflictError:
                continue
            if version is not None:
                return version
            missing_at = head.version
        raise crowded(write.key, "write")

    async def _to_warm(self, write: rules.Write, expected: Version | Absent | None, op_id: str | None) -> Version:
        return await self._warm.write(
            write.key,
            write.head,
            expected=expected,
            append=[Entry(kind, data) for kind, data in write.append],
            keep=write.keep,
            ttl_s=write.ttl_s,
            tags=write.tags,
            fence=write.fence,
            op_id=op_id,
        )

    async def read_log(self, key: str, *, kind: str | None, before: int | None = None, limit: int = 50) -> list[Entry]:
        """Return a page of the log, from cold where the record is archived."""
        entries = await self._warm.read_log(key, kind=kind, before=before, limit=limit)
        if entries or self._cold is None or not limit:
            return entries
        for _ in range(TURNS):
            head, pointer = await self._look(key)
            if head is None or pointer is None:
                return [] if head is None else await self._warm.read_log(key, kind=kind, before=before, limit=limit)
            entries = await self._archive().page(pointer, kind=kind, before=before, limit=limit)
            again = await self._warm.read(key, log_from=NO_LOG)
            # An empty page may be that of a copy which was brought back, and deleted, meanwhile.
            if entries or (again is not None and again.version == head.version):
                return entries
        raise crowded(key, "read_log")

    async def touch(self, key: str, ttl_s: float | None, *, op_id: str | None = None) -> bool:
        """Set the expiry; of an archived record that of its copy first, which must not end before its pointer."""
        before = await self._prolong_copy(key, ttl_s, None)
        was_there = await self._warm.touch(key, ttl_s, op_id=op_id)
        # archived at this moment, its copy is to live as long as the archiver said, and its pointer as long as was said here
        await self._prolong_copy(key, ttl_s, before)
        return was_there

    async def _prolong_copy(self, key: str, ttl_s: float | None, done: Pointer | None) -> Pointer | None:
        """Let the copy of an archived record live on, unless that was done for it; return its pointer."""
        if self._cold is None:
            return None
        _, pointer = await self._look(key)
        if pointer is not None and pointer != done:
            await self._cold.keep(pointer, ttl_s)
        return pointer

    async def delete(self, key: str, expected: Version | None, fence: int | None, op_id: str | None) -> bool:
        """Delete from warm, and then the copy that its pointer led to."""
        archive = self._cold
        if archive is None:
            return await self._warm.delete(key, expected=expected, fence=fence, op_id=op_id)
        for _ in range(TURNS):
            head, pointer = await self._look(key)
            if head is None or pointer is None:
                seen = head.version if expected is None and head is not None else expected
                try:
                    return await self._warm.delete(key, expected=seen, fence=fence, op_id=op_id)
                except StaleFenceError:
                    raise
                except ConflictError as error:
                    if expected is None or (error.actual is not None and await self._is_archived_at(key, expected)):
                        continue
                    raise
            is_refused = expected is not None and expected != pointer.version
            try:
                # also where it must be refused: a stale fence weighs more, and a repeat is answered from memory
                seen = expected if is_refused else head.version
                was_there = await self._warm.delete(key, expected=seen, fence=fence, op_id=op_id)
            except StaleFenceError:
                raise
            except ConflictError:
                if is_refused:
                    raise rules.conflict(key, expected, pointer.version) from None
                continue
            await archive.release(key, pointer)
            return was_there
        raise crowded(key, "delete")

    async def _is_archived_at(self, key: str, version: Version) -> bool:
        _, pointer = await self._look(key)
        return pointer is not None and pointer.version == version

    async def archive(self, key: str, ttl_s: float | None) -> bool:
        """Move a record's content to cold, to live there for `ttl_s` seconds from now; False where there is none, or a writer came."""
        return await self._archive().archive(key, ttl_s)

    async def restore(self, key: str, ttl_s: float | None) -> bool:
        """Move an archived record's content back to warm; False where it is not archived."""
        missing_at: Version | None = None
        for _ in range(TURNS):
            head, pointer = await self._look(key)
            if head is None or pointer is None:
                return False
            try:
                if await self._archive().restore(head, pointer, ttl_s, was_missing=missing_at):
                    return True
            except ConflictError:
                continue
            missing_at = head.version
        raise crowded(key, "restore")

    async def is_archived(self, key: str) -> bool:
        """Whether the record's content is in cold."""
        _, pointer = await self._look(key)
        return pointer is not None

    def _archive(self) -> Archive:
        if self._cold is None:
            raise StoreUnavailableError(
                "tiered: this record is archived, and no cold tier was given: open the store with the one it was archived to",
                backend=BACKEND,
                operation="read",
                cause="no cold tier",
            )
        return self._cold
