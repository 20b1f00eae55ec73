"""Single values in records of any store: what caches and profiles are made of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from holdall.durable.finish import finish
from holdall.durable.keys import user_key
from holdall.durable.sessions import NO_LOG
from holdall.errors import UserDeletedError
from holdall.state import StateSerializer
from holdall.state.values import thaw
from holdall.stores.base import Absent, Blob, Version

if TYPE_CHECKING:
    from holdall.durable.session_store import SessionStore
    from holdall.stores.base import Store

_KIND: Final = "step_result"  # the serializer's kind for a name and any value
_FORMAT: Final = "holdall.value"


class Value(NamedTuple):
    """A value as it is stored.

    Attributes:
        value: The caller's own copy; None where the record holds a mark instead.
        version: Of the record.
        mark: The name of the mark that the record holds in place of a value, "" for none.
        expires_at: Unix seconds, None for never.
    """

    value: Any
    version: Version
    mark: str
    expires_at: float | None


class Values:
    """Values by key, encoded, compressed and encrypted as the serializer does with step results.

    Args:
        store: A store, or a session store, whose serializer is used then.
        serializer: How values become bytes.
    """

    def __init__(self, store: Store | SessionStore, serializer: StateSerializer | None = None) -> None:
        inner: Store | None = getattr(store, "store", None)
        self.store = cast("Store", store if inner is None else inner)
        own: StateSerializer | None = getattr(store, "serializer", None)
        self._serializer = serializer or own or StateSerializer()

    def encode(self, key: str, value: Any) -> Blob:
        """Return the value as it is stored under a key.

        Raises:
            EncodeError: It cannot be stored so that it comes back equal; the path says which part.
        """
        return Blob(_FORMAT, self._serializer.entry(_KIND, ["value", value], record=key))

    def decode(self, key: str, data: bytes) -> Any:
        """Return a value of the caller's own."""
        return thaw(self._serializer.read_entry(_KIND, data, record=key)[1])

    async def read(self, key: str) -> Value | None:
        """Return what is stored under a key."""
        record = await self.store.read(key, log_from=NO_LOG)
        if record is None:
            return None
        if record.head.format != _FORMAT:
            return Value(None, record.version, record.head.format, record.expires_at)
        return Value(self.decode(key, record.head.data), record.version, "", record.expires_at)

    async def write(
        self,
        key: str,
        head: Blob,
        *,
        expected: Version | Absent | None,
        ttl_s: float | None,
        user_id: str | None,
        op_id: str,
        tags: Mapping[str, str] | None = None,
    ) -> Version:
        """Write a value or a mark, of a user if one is named; a deleted user gets none.

        Raises:
            ConflictError: The record is at another version than `expected`.
            UserDeletedError: The user was deleted; nothing is left of the write.
        """
        owner = {} if user_id is None else {"user_id": user_id}

        def write() -> Awaitable[Version]:
            return self.store.write(
                key, head, expected=expected, ttl_s=ttl_s, tags={**(tags or {}), **owner}, op_id=op_id
            )

        if user_id is None:
            return await write()
        await self.refuse_deleted(user_id)
        # not cut off between the two, also where the caller is cancelled: else what it wrote would stay
        return await finish(self._written(key, write, user_id))

    async def _written(self, key: str, write: Callable[[], Awaitable[Version]], user_id: str) -> Version:
        """Write, and look for the mark again.

        As when a session is created: who deletes the user leaves the mark first and looks for records after that.
        """
        version = await write()
        try:
            await self.refuse_deleted(user_id)
        except UserDeletedError:
            await self.store.delete(key)
            raise
        return version

    async def refuse_deleted(self, user_id: str) -> None:
        """Raise UserDeletedError if the user was deleted."""
        if await self.store.read(user_key(user_id), log_from=NO_LOG) is not None:
            raise UserDeletedError(
                f"user {user_id!r} was deleted; readmit_user lets the user in again", user_id=user_id
            )
