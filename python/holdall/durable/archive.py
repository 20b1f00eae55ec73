"""The cold tier: records whose content was moved out of warm, whole and checked, with a pointer left in its place.

Archive: copy to cold, read the copy back and compare checksums, then replace the content in warm by a pointer in one
compare-and-swap, then let other copies go. Bring back: read and check the copy, then replace the pointer by the content in one
compare-and-swap, then delete the copy. At every moment warm says where the content is, and it is there. What a crash leaves
behind is a copy that nothing points to; its key names the version it was made of, so that no later archive meets it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from holdall.durable.copies import Copied, Pointer, archived_of, gone
from holdall.durable.sessions import NO_LOG
from holdall.durable.ttl import DAY_S
from holdall.errors import ConflictError, DecodeError, StaleFenceError, StoreUnavailableError
from holdall.stores.base import ABSENT, Entry, Record, Version

if TYPE_CHECKING:
    from holdall.durable.guard import GuardedStore
    from holdall.stores.rules import Write

# A copy outlives its pointer, whatever the clocks of two servers say.
_MARGIN_S: Final = DAY_S


class Archive:
    """The cold tier of a `TieredStore`.

    Args:
        cold: Where the copies are.
        warm: Where the pointers are.
        now: The clock, Unix seconds.
    """

    def __init__(self, cold: GuardedStore, warm: GuardedStore, *, now: Callable[[], float]) -> None:
        self.cold = cold
        self._warm = warm
        self._now = now

    async def archive(self, key: str, ttl_s: float | None) -> bool:
        """Move a record's content to cold; True also if it is there already, False if there is no record or a writer came."""
        record = await self._warm.read(key)
        if record is None:
            return False
        if Pointer.of(record) is not None:
            return True
        pointer = Pointer.to(record)
        lives_s = None if ttl_s is None else ttl_s + _MARGIN_S
        copied = Copied(record.version, record.head, record.expires_at, tags=record.tags)
        try:
            await self.cold.write(
                pointer.key,
                copied.packed(),
                expected=ABSENT,
                append=record.entries,
                ttl_s=lives_s,
                tags=record.tags,
                op_id=_op_id(),
            )
        except ConflictError:
            # Of an archiver that was cut off here, or is at it now: the same content, checked below.
            await self.cold.touch(pointer.key, lives_s, op_id=_op_id())
        try:
            if await self._copy(record, pointer, log_from=0) is None:
                raise gone(key)
        except DecodeError:
            with contextlib.suppress(StoreUnavailableError):
                await self.cold.delete(pointer.key, op_id=_op_id())
            raise
        try:
            await self._point(record, pointer, ttl_s)
        except ConflictError:
            await self.release(key, pointer)
            return False
        return True

    async def _point(self, record: Record, pointer: Pointer, ttl_s: float | None) -> None:
        fence: int | None = None
        while True:
            try:
                await self._warm.write(
                    record.key,
                    pointer.packed(),
                    expected=record.version,
                    keep=0,
                    ttl_s=ttl_s,
                    fence=fence,
                    op_id=_op_id(),
                )
            except StaleFenceError as error:
                if fence == error.highest:
                    raise
                fence = error.highest  # a fence guards against stale writers; the version does that here
            else:
                return

    async def release(self, key: str, pointer: Pointer) -> None:
        """Delete a copy, if nothing points to it any more and nothing can: what a call was told is no proof of that.

        A repeated call is answered from memory, and has done nothing.
        """
        with contextlib.suppress(StoreUnavailableError):
            if await self._is_garbage(pointer.key, key, pointer.version):
                await self.cold.delete(pointer.key, op_id=_op_id())

    async def fetch(
        self, head: Record, pointer: Pointer, *, log_from: int, was_missing: Version | None
    ) -> Record | None:
        """Return what a pointer stands for; None if the copy is gone, as when it was just brought back.

        Raises:
            DecodeError: The copy is damaged, or it is gone and was so when the same pointer was looked up before.
        """
        record = await self._copy(head, pointer, log_from=log_from)
        if record is None and was_missing == head.version:
            raise gone(head.key)
        return record

    async def _copy(self, head: Record, pointer: Pointer, *, log_from: int) -> Record | None:
        raw = await self.cold.read(pointer.key, log_from=log_from)
        if raw is None:
            return None
        copied = Copied.of(raw.head, head.key)
        pointer.check(head.key, copied.head, raw.entries if log_from == 0 else None)
        return Record(head.key, pointer.version, copied.head, raw.entries, pointer.log_len, head.expires_at, head.tags)

    async def page(self, pointer: Pointer, *, kind: str | None, before: int | None, limit: int) -> list[Entry]:
        """Return a page of an archived log."""
        return await self.cold.read_log(pointer.key, kind=kind, before=before, limit=limit)

    async def keep(self, pointer: Pointer, ttl_s: float | None) -> None:
        """Let a copy live longer than its pointer will."""
        await self.cold.touch(pointer.key, None if ttl_s is None else ttl_s + _MARGIN_S, op_id=_op_id())

    async def bring_back(
        self, head: Record, pointer: Pointer, write: Write, *, op_id: str | None, was_missing: Version | None
    ) -> Version | None:
        """Write over a pointer: content and write together in one compare-and-swap; None if the copy is gone.

        Raises:
            ConflictError: Warm has moved on.
        """
        record = await self.fetch(head, pointer, log_from=0, was_missing=was_missing)
        if record is None:
            return None
        kept = record.entries if write.keep is None else record.entries[: write.keep]
        version = await self._warm.write(
            write.key,
            write.head,
            expected=head.version,
            append=[*kept, *(Entry(kind, data) for kind, data in write.append)],
            keep=0,
            ttl_s=write.ttl_s,
            tags=write.tags,
            fence=write.fence,
            op_id=op_id,
        )
        await self.release(write.key, pointer)
        return version

    async def restore(
        self, head: Record, pointer: Pointer, ttl_s: float | None, *, was_missing: Version | None
    ) -> bool:
        """Put the content in the pointer's place; False if the copy is gone.

        Raises:
            ConflictError: Warm has moved on.
        """
        record = await self.fetch(head, pointer, log_from=0, was_missing=was_missing)
        if record is None:
            return False
        fence: int | None = None
        while True:
            try:
                await self._warm.write(
                    head.key,
                    record.head,
                    expected=head.version,
                    append=record.entries,
                    keep=0,
                    ttl_s=ttl_s,
                    fence=fence,
                    op_id=_op_id(),
                )
            except StaleFenceError as error:
                if fence == error.highest:
                    raise
                fence = error.highest
            else:
                break
        await self.release(head.key, pointer)
        return True

    async def drop_user(self, user_id: str) -> None:
        """Delete every copy of a user's records, whose pointers are gone.

        Raises:
            StoreUnavailableError: Cold cannot be reached, so that some may be left.
        """
        for key in [key async for key in self.cold.find(user_id=user_id)]:
            await self.cold.delete(key, op_id=_op_id())

    async def sweep(self) -> int:
        """Free what has expired, and delete copies that nothing points to; return how many that were."""
        n = await self.cold.sweep()
        async for key in self.cold.find():
            of = archived_of(key)
            if of is not None and await self._is_garbage(key, *of):
                n += await self.cold.delete(key, op_id=_op_id())
        return n

    async def _is_garbage(self, copy_key: str, key: str, version: Version) -> bool:
        head = await self._warm.read(key, log_from=NO_LOG)
        if head is None:
            return True
        pointer = Pointer.of(head)
        # While warm is at the version that was copied, a pointer to the copy may be about to be set.
        return copy_key != pointer.key if pointer is not None else head.version != version


def _op_id() -> str:
    return os.urandom(12).hex()
