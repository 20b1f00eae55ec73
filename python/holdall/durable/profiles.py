"""What is known of users: read by every turn, changed seldom."""

from __future__ import annotations

import asyncio
import copy
import inspect
import random
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdall.durable.flights import Flights
from holdall.durable.keys import check_id
from holdall.durable.sessions import new_op_id
from holdall.durable.ttl import check_ttl
from holdall.durable.values import Values
from holdall.errors import ArgumentError, ConflictError, StoreUnavailableError
from holdall.stores.base import ABSENT

if TYPE_CHECKING:
    from holdall.durable.session_store import SessionStore
    from holdall.state import StateSerializer
    from holdall.stores.base import Absent, Store, Version

MAX_STALE_S: Final = 30.0
MAX_CACHED: Final = 10_000
_BASE_DELAY_S: Final = 0.010
_MAX_DELAY_S: Final = 0.200

Profile = dict[str, Any]
Updater = Callable[[Profile], "Profile | Awaitable[Profile | None] | None"]


class _Cached(NamedTuple):
    data: bytes | None
    read_at: float


class UserProfileStore:
    """Profiles by user id: dicts, cached in this process with bounded staleness, changed by compare-and-swap.

    `get` is at most `max_stale_s` behind what other workers have written or deleted, and never behind what was written
    through this object. A profile is its user's: `delete_user` of the session store it shares a backend with deletes it,
    and no late writer brings it back.

    Args:
        store: Any store, or a session store.
        max_stale_s: How old what `get` returns may be; 0 asks the store each time.
        away_stale_s: How old it may be while the store cannot be reached; not older than `max_stale_s` unless said.
        ttl_s: How long a profile lives after its last change; None, the default, for ever.
        max_cached: Profiles kept in this process; those used longest ago go first.
        serializer: How profiles become bytes; by default the session store's.
        clock: Monotonic seconds; for tests.
    """

    def __init__(
        self,
        store: Store | SessionStore,
        *,
        max_stale_s: float = MAX_STALE_S,
        away_stale_s: float = 0.0,
        ttl_s: float | None = None,
        max_cached: int = MAX_CACHED,
        serializer: StateSerializer | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if not max_stale_s >= 0 or not away_stale_s >= 0 or max_cached < 1:
            raise ArgumentError(
                f"max_stale_s={max_stale_s}, away_stale_s={away_stale_s}, max_cached={max_cached}: at least 0, 0 and 1"
            )
        self._values = Values(store, serializer)
        self._max_stale_s = max_stale_s
        self._away_stale_s = away_stale_s
        self._ttl_s = check_ttl(ttl_s)
        self._max_cached = max_cached
        self._clock = clock
        # Bytes, so that what a caller does to its copy is not in the next one's.
        self._cached: OrderedDict[str, _Cached] = OrderedDict()
        self._flights: Flights[_Cached] = Flights()
        # Counts writes, so that a read which was under way when one ended is not kept.
        self._n_writes = 0

    async def get(self, user_id: str) -> Profile | None:
        """Return a user's profile, at most `max_stale_s` old; None where there is none.

        Raises:
            StoreUnavailableError: The store cannot be reached, and what is cached is too old.
        """
        key = _key(user_id)
        cached = self._cached.get(key)
        if cached is None or self._clock() - cached.read_at > self._max_stale_s:
            try:
                cached = await self._flights.run(key, lambda: self._read(key))
            except StoreUnavailableError:
                if cached is None or self._clock() - cached.read_at > self._away_stale_s:
                    raise
        else:
            self._cached.move_to_end(key)
        return None if cached.data is None else self._values.decode(key, cached.data)

    async def _read(self, key: str) -> _Cached:
        began, n_writes = self._clock(), self._n_writes
        record = await self._values.store.read(key)
        cached = _Cached(None if record is None else record.head.data, began)
        if self._n_writes == n_writes:
            self._keep(key, cached)
        return cached

    async def update(self, user_id: str, fn: Updater, max_retries: int = 10) -> Profile:
        """Change a profile as it is stored now; one that is not there begins empty.

        Args:
            user_id: Whose.
            fn: Changes the dict in place, or returns the one to store; may be async, and may run several times.
            max_retries: Attempts after the first, when others change it too.

        Returns:
            The profile as it was stored.

        Raises:
            ConflictError: Of the last attempt.
            UserDeletedError: The user was deleted.
            EncodeError: It holds a value that cannot be stored so that it comes back equal.
        """
        if max_retries < 0:
            raise ArgumentError(f"max_retries is {max_retries}; it counts attempts after the first")
        key, ceiling = _key(user_id), _BASE_DELAY_S
        while True:
            found = await self._values.read(key)
            profile: Profile = {} if found is None else found.value
            changed = fn(profile)
            if inspect.isawaitable(changed):
                changed = await changed
            profile = profile if changed is None else changed
            try:
                return await self._write(key, user_id, profile, ABSENT if found is None else found.version)
            except ConflictError:
                if not max_retries:
                    raise
            max_retries -= 1
            await asyncio.sleep(random.random() * ceiling)  # noqa: S311 - only spreads the writers
            ceiling = min(_MAX_DELAY_S, ceiling * 2)

    async def put(self, user_id: str, profile: Mapping[str, Any]) -> None:
        """Store a profile whatever was there; the last one wins.

        Raises:
            UserDeletedError: The user was deleted.
        """
        await self._write(_key(user_id), user_id, dict(profile), None)

    async def delete(self, user_id: str) -> bool:
        """Delete a profile; False where there was none. Other workers may return it for `max_stale_s` more."""
        key = _key(user_id)
        self._forget(key)
        try:
            return await self._values.store.delete(key, op_id=new_op_id())
        finally:
            self._forget(key)

    async def _write(self, key: str, user_id: str, profile: Profile, expected: Version | Absent | None) -> Profile:
        head = self._values.encode(key, profile)
        try:
            await self._values.write(
                key, head, expected=expected, ttl_s=self._ttl_s, user_id=user_id, op_id=new_op_id()
            )
        finally:
            # Also when it failed: whether it happened is not known then, and the next read asks.
            self._forget(key)
        return copy.deepcopy(profile)

    def _keep(self, key: str, cached: _Cached) -> None:
        self._cached[key] = cached
        self._cached.move_to_end(key)
        if len(self._cached) > self._max_cached:
            self._cached.popitem(last=False)

    def _forget(self, key: str) -> None:
        self._cached.pop(key, None)
        self._n_writes += 1


def _key(user_id: str) -> str:
    return "~profile/" + check_id(user_id, "user_id")
