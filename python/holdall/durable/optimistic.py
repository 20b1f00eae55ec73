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
from holdall.errors import ArgumentError, ConflictError, NotFoundError, StaleFenceError

if TYPE_CHECKING:
    from holdall.durable.sessions import Sessions
    from holdall.state import SessionState
    from holdall.state.log import Items

    SaveOrLoad = Callable[[SessionState, Items], Awaitable[SessionState | None]]

BASE_DELAY_S: Final = 0.010
MAX_DELAY_S: Final = 0.050
_GROWTH: Final = 4
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
        base_delay_s: Upper end of the first wait; four times that with every conflict.
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
        # Not every store can do it, nor has every collection of sessions it.
        self._save_or_load: SaveOrLoad | None = getattr(store, "save_or_load", None)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # Whose turn it is: an updater that updates the same session would wait for its own.
        self._at_work: dict[str, asyncio.Task[object] | None] = {}
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
            max_retries: Attempts after the first. Waits before them are up to 10, 40, 50, 50 ... ms, with full jitter; the first
                is none where the store says with the conflict what is stored now. An update that begins less than 50 ms
                after the last of this object, and meets another writer, waits up to 50 ms first: it had its turn.
            create: Makes the state to start from where there is none; without it a missing session is an error.

        Returns:
            The state as it was saved, at its new version.

        Raises:
            ConflictError: Of the last attempt. Nothing of this update was written.
            ArgumentError: It is called within an update of the same session.
            StaleFenceError: The session is written under a lock; at once, see `LockedStateStore`.
            NotFoundError: There is no such session and no `create`.
            OutcomeUnknownError: The reply was lost; the update is not repeated, since it may have happened.
        """
        check_retries(max_retries)
        turn = self._turns.get(session_id)
        if turn is None:
            turn = self._turns[session_id] = asyncio.Lock()
        task = asyncio.current_task()
        if task is not None and self._at_work.get(session_id) is task:
            raise ArgumentError(
                f"an update of {session_id!r} within an update of it would wait for itself: change the state that the updater got"
            )
        async with turn:
            self._at_work[session_id] = task
            try:
                return await self._update(session_id, fn, max_retries, create)
            finally:
                del self._at_work[session_id]

    async def _update(self, session_id: str, fn: Updater, left: int, create: Create | None) -> SessionState:
        ceiling = self._base_delay_s
        state = self._recent(session_id) if left else None
        had_turn, is_quick = state is not None, True
        while True:
            if state is None:
                state = await loaded(self._store, session_id, create)
            saved, state = await self._attempt(state, fn, is_guess=had_turn, is_last=not left)
            if saved is not None:
                return saved
            left -= 1
            if had_turn:
                had_turn = False
                await self._sleep(self._random() * YIELD_S)
            else:
                pause_s = 0.0 if is_quick and state is not None else self._random() * ceiling
                is_quick = False
                ceiling = min(self._max_delay_s, ceiling * _GROWTH)
                if not pause_s:
                    continue
                await self._sleep(pause_s)
            # what came with the conflict is out of date by now
            state = None

    def _recent(self, session_id: str) -> SessionState | None:
        """Return the state that was saved here a moment ago, for once."""
        if self._last is None or self._last[0].session_id != session_id:
            return None
        (state, at), self._last = self._last, None
        return state if self._clock() - at <= RECENT_S else None

    async def _attempt(
        self, state: SessionState, fn: Updater, *, is_guess: bool, is_last: bool
    ) -> tuple[SessionState | None, SessionState | None]:
        """Change and save; return the state as saved, or None and, where it is known, what is stored instead."""
        seen = version_of(state)
        known = None if self._save_or_load is None else state.log.items
        try:
            changed = await applied(state, fn)
        except Exception:
            if not is_guess:
                raise
            # Of a state that was out of date it says nothing.
            try:
                now = await self._store.load(state.session_id)
            except NotFoundError:
                return None, None
            if version_of(now) == seen:
                raise
            return None, now
        # Taken before the call, as the store's snapshot is: what others do to the state meanwhile is in neither.
        try:
            twin = changed.copy()
        except RecursionError:
            await self._store.save(changed)  # says which value it is that cannot be stored
            raise
        try:
            if self._save_or_load is None or known is None or is_last or version_of(changed) != seen:
                await self._store.save(changed)
            else:
                stored = await self._save_or_load(changed, known)
                if stored is not None:
                    return None, stored
        except StaleFenceError:
            raise
        except ConflictError:
            if is_last:
                raise
            return None, None
        twin.mark_saved(changed.version, twin.pending(), generation=changed.generation, user_id=twin.user_id)
        self._last = twin, self._clock()
        return changed, None
