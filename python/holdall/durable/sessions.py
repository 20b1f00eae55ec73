"""What a collection of sessions can do, whoever it belongs to."""

from __future__ import annotations

import os
from builtins import list as List  # noqa: N812 - `list` is a method of what implements this
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from holdall.errors import NotFoundError, SessionGoneError

if TYPE_CHECKING:
    from holdall.state import SessionState
    from holdall.state.log import Items
    from holdall.stores.base import Record, Version

# Past the end of any log: a read from here returns the head alone.
NO_LOG: Final = 2**31 - 1


class SessionInfo(NamedTuple):
    """What is known of a session without reading its content.

    Attributes:
        session_id: Its id.
        user_id: Whose it is.
        status: Its status.
        version: The number of its last write, from 1.
        entries: Messages and step results in its log.
        expires_at: Unix seconds, None for never.
    """

    session_id: str
    user_id: str
    status: str
    version: int
    entries: int
    expires_at: float | None


class HistoryItem(NamedTuple):
    """A message and its place in the session's log; `before=seq` continues from it."""

    seq: int
    message: Any


class Sessions(Protocol):
    """The calls that a whole store and one user's view of it share."""

    async def save(self, state: SessionState, *, fence: int | None = None) -> Version:
        """Write the state if nobody else wrote since it was loaded."""
        ...

    async def load(self, session_id: str) -> SessionState:
        """Return the session as it is now."""
        ...

    async def extend_ttl(self, session_id: str, ttl_s: float | None) -> bool:
        """Let the session live so many seconds from now."""
        ...

    async def delete(self, session_id: str, *, expected: Version | None = None, fence: int | None = None) -> bool:
        """Delete the session, if it is at the version that is expected."""
        ...

    async def history(self, session_id: str, before: int | None = None, limit: int = 50) -> List[HistoryItem]:
        """Return a page of its messages."""
        ...


class AllSessions(Sessions, Protocol):
    """The calls of a whole store that one user's view of it is made of."""

    async def save_or_load(self, state: SessionState, known: Items, *, fence: int | None = None) -> SessionState | None:
        """Save, or return what is stored instead."""
        ...

    async def read(self, session_id: str, *, log_from: int = 0) -> Record:
        """Return the session's record undecoded."""
        ...

    def restore(self, record: Record) -> SessionState:
        """Return the state that a record holds."""
        ...

    async def info(self, session_id: str) -> SessionInfo:
        """Return what is known of a session without reading its content."""
        ...

    async def list(self, *, user_id: str | None = None, status: str | None = None) -> List[str]:
        """Return the ids of live sessions."""
        ...


def missing(session_id: str) -> NotFoundError:
    """Return the one error for a session that is not there, or not there for this caller."""
    return NotFoundError(f"no session {session_id!r}: it was never saved, was deleted, or has expired", key=session_id)


def gone(session_id: str, expected: Version, ttl_s: float | None) -> SessionGoneError:
    """Return the one error for a session that is no longer there, or no longer there for this caller, as it is saved."""
    lived = (
        ""
        if ttl_s is None
        else (
            f", or has expired: it lives {ttl_s:g} s after each save; for work that takes longer raise ttl_seconds, or call"
            " extend_ttl meanwhile"
        )
    )
    return SessionGoneError(
        f"session {session_id!r} is no longer stored, and nothing was written: it was deleted{lived}",
        key=session_id,
        expected=expected,
        actual=None,
        ttl_s=ttl_s,
    )


def new_op_id() -> str:
    """Return an id that makes one write repeatable."""
    return os.urandom(12).hex()
