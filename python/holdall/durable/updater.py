"""What every way to update a session shares: the caller's function, and the state it starts from."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from holdall.errors import ArgumentError, NotFoundError
from holdall.state import SessionState

if TYPE_CHECKING:
    from holdall.durable.sessions import Sessions

Updater = Callable[[SessionState], "SessionState | Awaitable[SessionState | None] | None"]
Create = Callable[[], SessionState]


async def applied(state: SessionState, fn: Updater) -> SessionState:
    """Return what the function made of the state: what it returned, or the state that it changed in place."""
    session_id = state.session_id
    changed = fn(state)
    if changed is not None and inspect.isawaitable(changed):
        changed = await changed
    if changed is None:
        return state
    check_same(session_id, changed)
    return changed


async def loaded(store: Sessions, session_id: str, create: Create | None) -> SessionState:
    """Return the session as it is now, or a new one where there is none and `create` is given."""
    try:
        return await store.load(session_id)
    except NotFoundError:
        if create is None:
            raise
    state = create()
    check_same(session_id, state)
    return state


def check_same(session_id: str, state: SessionState) -> None:
    """Refuse a state of another session, and what is no state."""
    if not isinstance(state, SessionState):
        raise ArgumentError(
            f"the updater of {session_id!r} returned a value of type {type(state).__name__}; it changes the state in place, or returns a SessionState"
        )
    if state.session_id != session_id:
        raise ArgumentError(f"the updater of {session_id!r} returned the state of {state.session_id!r}")


def check_retries(max_retries: int) -> int:
    """Return the number of attempts after the first, checked."""
    if isinstance(max_retries, bool) or not isinstance(max_retries, int) or max_retries < 0:
        raise ArgumentError(f"max_retries is {max_retries!r}; give an int, at least 0, of attempts after the first")
    return max_retries
