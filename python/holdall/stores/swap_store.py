"""`write`, `touch` and `delete` of the stores that replace a record if it is still what was read: MongoDB, DynamoDB and S3."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Generic, TypeVar

from holdall.stores import keys, rules
from holdall.stores.base import Absent, Blob, Entry, Version
from holdall.stores.swap import Held, Sent, Swaps

Rest = TypeVar("Rest")
# Puts what is known after a call in place of what was held, or raises `Overtaken`.
Replace = Callable[[Held[Rest], rules.Meta, Sent], Awaitable[Rest]]


class SwapStore(Generic[Rest]):
    """The rules of a write, a touch and a delete; a backend says how it reads and replaces.

    Attributes:
        _swaps: Runs the calls.
        _retention_s: How long a tombstone keeps fence and op_ids.
    """

    _swaps: Swaps[Rest]
    _retention_s: float

    @abstractmethod
    async def _fetch(self, key: str) -> Held[Rest]:
        """Read what lies under a key."""

    @abstractmethod
    def _writing(self, key: str, write: rules.Write) -> Replace[Rest]:
        """Return what puts a new head and appends."""

    @abstractmethod
    def _touching(self, key: str) -> Replace[Rest]:
        """Return what puts another expiry."""

    @abstractmethod
    def _deleting(self, key: str) -> Replace[Rest]:
        """Return what puts a tombstone."""

    def _op_id(self, op_id: str | None) -> str | None:
        """Return the op_id to go by; a backend whose driver repeats calls on its own draws one."""
        return op_id

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
        """Replace the head, cut and append the log, set expiry and tags, all or nothing."""
        write = rules.check_write(
            key,
            head,
            expected=expected,
            append=append,
            keep=keep,
            ttl_s=ttl_s,
            tags=tags,
            fence=fence,
            op_id=self._op_id(op_id),
        )
        generation = secrets.token_hex(rules.GENERATION_CHARS // 2)
        return await self._swaps.change(
            "write",
            key,
            fetch=lambda: self._fetch(key),
            decide=lambda meta, now: rules.after_write(meta, write, now, generation),
            replace=self._writing(key, write),
            is_repeatable=write.op is not None,
            is_new=isinstance(expected, Absent),
        )

    async def touch(self, key: str, ttl_s: float | None, *, op_id: str | None = None) -> bool:
        """Set the expiry without a new version; False where there is no such record."""
        keys.check_key(key)
        ttl_s, op = keys.check_ttl(ttl_s), keys.op_token("touch", self._op_id(op_id))
        return await self._swaps.change(
            "touch",
            key,
            fetch=lambda: self._fetch(key),
            decide=lambda meta, now: rules.after_touch(meta, ttl_s, op, now),
            replace=self._touching(key),
            is_repeatable=op is not None,
        )

    async def delete(
        self, key: str, *, expected: Version | None = None, fence: int | None = None, op_id: str | None = None
    ) -> bool:
        """Delete, leaving a tombstone with fence and op_ids; False where there was no such record."""
        keys.check_key(key)
        expected = None if expected is None else keys.check_version(expected)
        fence, op = keys.check_fence(fence), keys.op_token("delete", self._op_id(op_id))
        return await self._swaps.change(
            "delete",
            key,
            fetch=lambda: self._fetch(key),
            decide=lambda meta, now: rules.after_delete(
                meta, key, expected=expected, fence=fence, op=op, now=now, retention_s=self._retention_s
            ),
            replace=self._deleting(key),
            is_repeatable=op is not None,
        )
