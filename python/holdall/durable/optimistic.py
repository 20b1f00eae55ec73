"""Read, change, compare-and-swap, and again when somebody else was faster."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final
from weakref import WeakValueDictionary

from holdall.errors import ArgumentError, ConflictError, NotFoundError

if TYPE_CHECKING:
    from holdall.durable.sessions import Sessions
    from holdall.state import SessionState

BASE_DELAY_S: Final = 0.010
MAX_DELAY_S: Final = 0.050

Updater = Callable[["SessionState"], "SessionState | Awaitable[SessionState | None] | None"]


class OptimisticStateStore:
    """Updates of a session that several workers make at once, none of them lost.

    Tasks of one process that update the same session through the same object take turns, since they can; processes meet in
    the store's compare-and-swap.

    Args:
        store: The sessions to update, or a scoped view of them.
        sleep: Waits between attempts; for tests.
        random: Draws from 0 up to 1; for tests.
        base_delay_s: Upper end of the first wait; it doubles with every conflict.
        max_delay_s: Upper end of any wait.
    """

    def __init__(
        self,
        store: Sessions,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
        base_delay_s: float = BASE_DELAY_S,
        max_delay_s: float = MAX_DELAY_S,
    ) -> None:
        self._store = store
        self._sleep = sleep
        self._random = random
        self._base_delay_s = base_delay_s
        self._max_delay_s = max_delay_s
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def update(
        self,
        session_id: str,
        fn: Updater,
        max_retries: int = 5,
        *,
        create: Callable[[], SessionState] | None = None,
    ) -> SessionState:
        """Load the session, apply `fn`, save; on a conflict wait a random time and start over from what is stored now.

        Args:
            session_id: Which session.
            fn: Changes the state in place, or returns the state to save; may be async. It may run several times, each
                time on a freshly loaded state, so it should have no other effect.
            max_retries: Attempts after the first. Waits grow from 10 ms with full jitter.
            create: Makes the state to start from where there is none; without it a missing session is an error.

        Returns:
            The state as it was saved, at its new version.

        Raises:
            ConflictError: Of the last attempt. Nothing of this update was written.
            NotFoundError: There is no such session and no `create`.
            OutcomeUnknownError: The reply was lost; the update is not repeated, since it may have happened.
        """
        if max_retries < 0:
            raise ArgumentError(f"max_retries is {max_retries}; it counts attempts after the first")
        turn = self._turns.get(session_id)
        if turn is None:
            turn = self._turns[session_id] = asyncio.Lock()
        async with turn:
            for attempt in range(max_retries):
                try:
                    return await self._attempt(session_id, fn, create)
                except ConflictError:
                    ceiling = min(self._max_delay_s, self._base_delay_s * 2.0**attempt)
                await self._sleep(self._random() * ceiling)
            return await self._attempt(session_id, fn, create)

    async def _attempt(self, session_id: str, fn: Updater, create: Callable[[], SessionState] | None) -> SessionState:
        try:
            state = await self._store.load(session_id)
        except NotFoundError:
            if create is None:
                raise
            state = create()
        changed = fn(state)
        if inspect.isawaitable(changed):
            changed = await changed
        if changed is not None:
            state = changed
        if state.session_id != session_id:
            raise ArgumentError(f"the updater of {session_id!r} returned the state of {state.session_id!r}")
        await self._store.save(state)
        return state
