"""What happens when two workers change one session: the strategies beside `OptimisticStateStore`, and all of them by name.

Each has the same `update(session_id, fn)`, and none loses an acknowledged write silently but the one whose name says so:

    optimistic          the loser starts over: `fn` runs again on what the winner stored
    merge               the loser's changes are put together with the winner's; `fn` runs once
    last_writer_wins    the loser overwrites the winner; `fn` runs once
    lock                there is no loser: one worker at a time, the others wait
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdall.durable.locked import LockedStateStore
from holdall.durable.optimistic import BASE_DELAY_S, MAX_DELAY_S, OptimisticStateStore
from holdall.durable.updater import Create, Updater, applied, check_retries, loaded
from holdall.errors import ConflictError, StaleFenceError, UnknownNameError
from holdall.state.merge import merge

if TYPE_CHECKING:
    from holdall.durable.sessions import Sessions
    from holdall.state import SessionState


class StateStore(Protocol):
    """Updates of sessions that several workers change at once."""

    async def update(
        self, session_id: str, fn: Updater, max_retries: int = 5, *, create: Create | None = None
    ) -> SessionState:
        """Load the session, apply `fn`, save; return the state as it was saved."""
        ...


class MergingStateStore:
    """Updates that are put together with what others stored meanwhile, as `holdall.state.merge` describes.

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

    async def update(
        self, session_id: str, fn: Updater, max_retries: int = 5, *, create: Create | None = None
    ) -> SessionState:
        """Load the session, apply `fn`, save; on a conflict merge with what is stored now, and save that.

        Args:
            session_id: Which session.
            fn: Changes the state in place, or returns the state to save; may be async. It runs once.
            max_retries: Merges at most. Waits between them grow from 10 to 20 ms with full jitter.
            create: Makes the state to start from where there is none; without it a missing session is an error.

        Returns:
            The state as it was saved: with the others' changes, if there were any.

        Raises:
            MergeConflictError: Others changed the same thing differently. Nothing was written.
            ConflictError: Of the last attempt, or the session was deleted and made anew. Nothing was written.
            NotFoundError: There is no such session and no `create`, or it was deleted meanwhile.
            OutcomeUnknownError: The reply was lost; the update is not repeated, since it may have happened.
        """
        left, ceiling = check_retries(max_retries), self._base_delay_s
        base = await loaded(self._store, session_id, create)
        ours = await applied(base.copy(), fn)
        merged = ours
        while True:
            try:
                await self._store.save(merged)
            except StaleFenceError:
                raise
            except ConflictError:
                if not left:
                    raise
                left -= 1
                await self._sleep(self._random() * ceiling)
                ceiling = min(self._max_delay_s, ceiling * 2)
                theirs = await self._store.load(session_id)
                if base.version and theirs.generation != base.generation:
                    raise  # another session under the same id: nothing of ours belongs to it
                merged = merge(base, ours, theirs)
            else:
                return merged


class LastWriterWinsStateStore:
    """Updates that replace whatever others stored meanwhile. Their changes since the load are lost: that is its meaning.

    A session that was deleted meanwhile stays deleted.

    Args:
        store: The sessions to update, or a scoped view of them.
    """

    def __init__(self, store: Sessions) -> None:
        self._store = store

    async def update(
        self, session_id: str, fn: Updater, max_retries: int = 5, *, create: Create | None = None
    ) -> SessionState:
        """Load the session, apply `fn`, save over whatever is stored.

        Where nobody else wrote, this sends what is new; else the whole session, so that nothing of two writers is mixed.

        Args:
            session_id: Which session.
            fn: Changes the state in place, or returns the state to save; may be async. It runs once.
            max_retries: Attempts after the first, each over the version that the one before met.
            create: Makes the state to start from where there is none; without it a missing session is an error.

        Returns:
            The state as it was saved.

        Raises:
            ConflictError: The session was deleted meanwhile, or others were faster every time. Nothing was written.
            NotFoundError: There is no such session and no `create`.
            OutcomeUnknownError: The reply was lost; the update is not repeated, since it may have happened.
        """
        left = check_retries(max_retries)
        state = await applied(await loaded(self._store, session_id, create), fn)
        while True:
            try:
                await self._store.save(state)
            except StaleFenceError:
                raise
            except ConflictError as error:
                if not left or error.actual is None:
                    raise
                left -= 1
                state.stand_on(error.actual.number, error.actual.generation)
            else:
                return state


STRATEGIES: Final[Mapping[str, type[Any]]] = MappingProxyType(
    {
        "optimistic": OptimisticStateStore,
        "merge": MergingStateStore,
        "last_writer_wins": LastWriterWinsStateStore,
        "lock": LockedStateStore,
    }
)


def state_store(store: Sessions, conflict: str = "optimistic", **options: Any) -> StateStore:
    """Return a way to update sessions by the name of what happens on a conflict.

    Args:
        store: The sessions to update, or a scoped view of them.
        conflict: "optimistic", "merge", "last_writer_wins" or "lock".
        options: As of the class that the name stands for; "lock" needs `lock=`.

    Raises:
        UnknownNameError: Another name; the message names the known ones.
    """
    strategy = STRATEGIES.get(conflict)
    if strategy is None:
        raise UnknownNameError(
            f"unknown conflict strategy {conflict!r}; known: {', '.join(STRATEGIES)}",
            what="conflict",
            name=conflict,
            known=list(STRATEGIES),
        )
    if conflict == "lock":
        options.setdefault("lock", None)  # refused there, by its name
    made: StateStore = strategy(store, **options)
    return made
