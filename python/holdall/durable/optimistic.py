"""Read, change, compare-and-swap, and again when somebody else was faster."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from holdall.durable.snapshot import version_of
from holdall.durable.updater import Create, Updater, applied, check_retries, loaded
from holdall.errors import ConflictError, NotFoundError, StaleFenceError

if TYPE_CHECKING:
    from holdall.durable.sessions import Sessions
    from holdall.state import SessionState

BASE_DELAY_S: Final = 0.010
MAX_DELAY_S: Final = 0.020
# A state saved this lately is taken as the current one; the compare-and-swap says whether it was.
RECENT_S: Final = 0.050
# Who has just written and meets another writer lets that one go first, for up to this long.
YIELD_S: Final = 0.050


class OptimisticStateStore:
    """Updates of a session that several workers make at once, none of them lost.

    Tasks of one process that update the same session through the same object take turns, since they can; processes meet in
    the store's compare-and-swap.

    Args:
        store: The sessions to update, or a scoped view of them.
        sleep: Waits between attempts; for tests.
        random: Draws from 0 up to 1; for tests.
        clock: Monotonic seconds; for tests.
        base_delay_s: Upper end of the first wait; it doubles with every conflict.
        max_delay_s: Upper end of any wait.
    """

    def __init__(
        self,
        store: Sessions,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.monotonic,
        base_delay_s: float = BASE_DELAY_S,
        max_delay_s: float = MAX_DELAY_S,
    ) -> None:
        self._store = store
        self._sleep = sleep
        self._random = random
        self._clock = clock
        self._base_delay_s = base_delay_s
        self._max_delay_s = max_delay_s
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # The last state that was saved, a copy nobody else has, and when that was.
        self._last: tuple[SessionState, float] | None = None

    async def update(
        self,
        session_id: str,
        fn: Updater,
        max_retries: int = 5,
        *,
        create: Create | None = None,
    ) -> SessionState:
        """Load the session, apply `fn`, save; on a conflict wait a random time and start over from what is stored now.

        Args:
            session_id: Which session.
            fn: Changes the state in place, or returns the state to save; may be async. It may run several times, each
                time on a state of its own, so it should have no other effect. The state may be out of date, of which
                then nothing is kept: not what `fn` did to it, and no error that `fn` raised over it.
            max_retries: Attempts after the first. Waits grow from 10 to 20 ms with full jitter; the first is up to 50 ms for
                an update that began less than 50 ms after the last of this object, so that others get their turn.
            create: Makes the state to start from where there is none; without it a missing session is an error.

        Returns:
            The state as it was saved, at its new version.

        Raises:
            ConflictError: Of the last attempt. Nothing of this update was written.
            StaleFenceError: The session is written under a lock; at once, see `LockedStateStore`.
            NotFoundError: There is no such session and no `create`.
            OutcomeUnknownError: The reply was lost; the update is not repeated, since it may have happened.
        """
        check_retries(max_retries)
        turn = self._turns.get(session_id)
        if turn is None:
            turn = self._turns[session_id] = asyncio.Lock()
        async with turn:
            left, ceiling = max_retries, self._base_delay_s
            recent = self._recent(session_id)
            if recent is not None and left:
                saved = await self._try_recent(recent, fn)
                if saved is not None:
                    return saved
                left -= 1
                await self._sleep(self._random() * YIELD_S)
            while True:
                try:
                    return await self._save(await applied(await loaded(self._store, session_id, create), fn))
                except StaleFenceError:
                    raise
                except ConflictError:
                    if not left:
                        raise
                left -= 1
                await self._sleep(self._random() * ceiling)
                ceiling = min(self._max_delay_s, ceiling * 2)

    def _recent(self, session_id: str) -> SessionState | None:
        """Return the state that was saved here a moment ago, for once."""
        if self._last is None or self._last[0].session_id != session_id:
            return None
        (state, at), self._last = self._last, None
        return state if self._clock() - at <= RECENT_S else None

    async def _try_recent(self, recent: SessionState, fn: Updater) -> SessionState | None:
        """Change and save a state that may be out of date by now; None if it was."""
        seen = version_of(recent)
        try:
            changed = await applied(recent, fn)
        except Exception:
            # Of a state that was out of date it says nothing.
            try:
                now = version_of(await self._store.load(recent.session_id))
            except NotFoundError:
                now = None
            if now == seen:
                raise
            return None
        try:
            return await self._save(changed)
        except StaleFenceError:
            raise
        except ConflictError:
            return None

    async def _save(self, state: SessionState) -> SessionState:
        # Taken before the call, as the store's snapshot is: what others do to the state meanwhile is in neither.
        try:
            twin = state.copy()
        except RecursionError:
            await self._store.save(state)  # says which value it is that cannot be stored
            raise
        version = await self._store.save(state)
        twin.mark_saved(version.number, twin.pending(), generation=version.generation)
        self._last = twin, self._clock()
        return state
