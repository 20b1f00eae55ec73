"""`LockedStateStore`: one worker at a time, and a fence that keeps out a worker whose time is over."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final

from holdall.durable.fenced import FencedSessions
from holdall.durable.locks import TTL_S, WAIT_S, Lease, Lock, hold
from holdall.durable.updater import Create, Updater, applied, check_retries, loaded
from holdall.errors import ArgumentError, ConflictError, LockLostError, StaleFenceError

if TYPE_CHECKING:
    from holdall.durable.sessions import Sessions
    from holdall.state import SessionState
    from holdall.state.log import Items
    from holdall.stores.base import Version

# Writers without the lock can be in the way until the first fence is written; after it they are refused.
_CLAIMS: Final = 32


class HeldSession(FencedSessions):
    """A session that this worker alone may write, for as long as its lease lasts.

    It is also a store of that one session: `CheckpointManager(held)` and `OptimisticStateStore(held)` write it under the fence.

    Attributes:
        state: As it was loaded under the lock.
        fence: The fencing token that its writes carry.
        lease: The lock, and for how long it is surely held.
    """

    def __init__(self, store: Sessions, state: SessionState, fence: int, lease: Lease) -> None:
        super().__init__(store, fence)
        self.state = state
        self.lease: Final = lease

    async def save(self, state: SessionState | None = None, *, fence: int | None = None) -> Version:
        """Write the state, by default `self.state`, under the fence.

        Raises:
            LockLostError: The lease is over; nothing was sent.
            StaleFenceError: Another worker has taken the lock since, and the store knows; nothing was written.
            ArgumentError: It is the state of another session.
        """
        state = self.state if state is None else state
        self._check(state.session_id)
        return await super().save(state, fence=fence)

    async def save_or_load(self, state: SessionState, known: Items, *, fence: int | None = None) -> SessionState | None:
        """As `SessionStore.save_or_load`; errors as for `save`."""
        self._check(state.session_id)
        return await super().save_or_load(state, known, fence=fence)

    async def extend_ttl(self, session_id: str, ttl_s: float | None) -> bool:
        """As `SessionStore.extend_ttl`; errors as for `save`."""
        self._check(session_id)
        return await super().extend_ttl(session_id, ttl_s)

    async def delete(self, session_id: str, *, expected: Version | None = None, fence: int | None = None) -> bool:
        """As `SessionStore.delete`; errors as for `save`."""
        self._check(session_id)
        return await super().delete(session_id, expected=expected, fence=fence)

    def _check(self, session_id: str) -> None:
        if session_id != self.state.session_id:
            raise ArgumentError(
                f"the lock is held for session {self.state.session_id!r}, not for {session_id!r}",
                held=self.state.session_id,
                session_id=session_id,
            )
        self.lease.check()


class LockedStateStore:
    """Updates of a session by one worker at a time.

    The lock keeps workers from doing the same work twice. What makes it safe is the fence: a token that is minted by a
    compare-and-swap in the session's own record, and with which a write of a holder whose lease ended unnoticed, because its
    process or its machine stood still, is refused. From the first such write on the session takes no write without a fence: all
    its writers use the lock.

    Args:
        store: The sessions to update, or a scoped view of them.
        lock: The lock service: `RedisLock`, `Redlock`, or another `Lock`.
        ttl_s: How long others wait at most for a holder that died. The lease is extended while it is used.
        wait_s: How long to wait for another holder; None for as long as it takes. Less than `ttl_s`, it may end before the
            lease of a holder that died.
        options: As of `holdall.durable.locks.hold`; for tests.

    Raises:
        ArgumentError: `lock` is no lock service.
    """

    def __init__(
        self, store: Sessions, lock: Lock, *, ttl_s: float = TTL_S, wait_s: float | None = WAIT_S, **options: Any
    ) -> None:
        if not isinstance(lock, Lock):
            raise ArgumentError(f"lock must be a lock service, such as RedisLock(url), not {type(lock).__name__}")
        self._store = store
        self._lock = lock
        self._options = {"ttl_s": ttl_s, "wait_s": wait_s, **options}

    @contextlib.asynccontextmanager
    async def hold(self, session_id: str, *, create: Create | None = None) -> AsyncIterator[HeldSession]:
        """Hold a session for work that takes long: `async with locked.hold("s-1") as held: ...; await held.save()`.

        The session is written once at the start, unchanged, to mint the fence: from then on no earlier holder can write.

        Args:
            session_id: Which session.
            create: Makes the state to start from where there is none; without it a missing session is an error.

        Raises:
            LockHeldError: Somebody else held it for all of `wait_s`.
            LockLostError: It was lost while the body ran, which was cancelled then.
            ConflictError: Writers without the lock were faster every time.
            NotFoundError: There is no such session and no `create`.
            StoreUnavailableError: The lock service or the store cannot be reached.
        """
        async with hold(self._lock, session_id, **self._options) as lease:
            left = _CLAIMS
            while True:
                state = await loaded(self._store, session_id, create)
                lease.check()
                try:
                    fence = await self._mint(state)
                    break
                except ConflictError:
                    left -= 1
                    if not left:
                        raise
            yield HeldSession(self._store, state, fence, lease)

    async def update(
        self, session_id: str, fn: Updater, max_retries: int = 5, *, create: Create | None = None
    ) -> SessionState:
        """Take the lock, load the session, apply `fn`, save, give the lock back.

        Args:
            session_id: Which session.
            fn: Changes the state in place, or returns the state to save; may be async. It runs again only if somebody wrote
                without the lock.
            max_retries: Attempts after the first, for that case.
            create: Makes the state to start from where there is none; without it a missing session is an error.

        Returns:
            The state as it was saved, at its new version.

        Raises:
            LockHeldError: Somebody else held the lock for all of `wait_s`.
            LockLostError: It was lost before the write. Nothing was written.
            ConflictError: Of the last attempt. Nothing was written.
            NotFoundError: There is no such session and no `create`.
            OutcomeUnknownError: The reply was lost; the update is not repeated, since it may have happened.
        """
        left = check_retries(max_retries)
        state: SessionState | None = None
        before = 0
        try:
            async with hold(self._lock, session_id, **self._options) as lease:
                while True:
                    fresh = await loaded(self._store, session_id, create)
                    changed = await applied(fresh, fn)
                    lease.check()
                    state, before = changed, changed.version
                    try:
                        # The fence is minted by the write itself: what it replaces is the version that was loaded.
                        await self._mint(state)
                    except ConflictError:
                        if not left:
                            raise
                        left -= 1
                    else:
                        return state
        except LockLostError:
            # Cancelled while the write was under way, which is brought to its end all the same: a fence let it in.
            if state is not None and state.version > before:
                return state
            raise

    async def _mint(self, state: SessionState) -> int:
        """Save the state under a fence that no write had before, and return it.

        Version numbers grow with every write, and a fence is the number of the write that minted it; above it only where the
        record was made anew and counts from 1, while what was there before is remembered.
        """
        fence = state.version + 1
        try:
            await self._store.save(state, fence=fence)
        except StaleFenceError as error:
            fence = error.highest + 1
            await self._store.save(state, fence=fence)
        return fence
