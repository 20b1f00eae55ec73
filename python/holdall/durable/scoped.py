"""One user's sessions: what a service uses that takes session ids from outside."""

from __future__ import annotations

from builtins import list as List  # noqa: N812 - `list` is a method here
from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from holdall.durable.keys import check_id
from holdall.durable.sessions import NO_LOG, gone, missing
from holdall.durable.snapshot import version_of
from holdall.durable.ttl import check_ttl
from holdall.errors import ArgumentError, ConflictError, NotFoundError, StaleFenceError

if TYPE_CHECKING:
    from holdall.durable.sessions import AllSessions, HistoryItem, SessionInfo
    from holdall.state import SessionState
    from holdall.state.log import Items
    from holdall.stores.base import Record, Version

_REMEMBERED: Final = 1024


class ScopedSessions:
    """A view of a store through which another user's session does not exist.

    Every call for another user's session ends as it would for an id that was never saved. One thing cannot be hidden, since
    ids are shared by all users: an id that somebody has cannot be created a second time, nor, for 24 hours, one that was deleted
    after it was written under a lock.
    """

    def __init__(self, store: AllSessions, user_id: str) -> None:
        self._store = store
        self.user_id: Final = check_id(user_id, "user_id")
        # Versions seen through this view: a state at one of them needs no look at its owner before it is saved.
        self._seen: OrderedDict[str, Version] = OrderedDict()

    async def save(self, state: SessionState, *, fence: int | None = None) -> Version:
        """As `SessionStore.save`, for a state of this user.

        Raises:
            ArgumentError: The state names another user.
            ConflictError: Somebody else wrote it, or the id is not this user's; `actual` is None then.
        """
        expected = await self._expected(state)
        try:
            version = await self._store.save(state, fence=fence)
        except ConflictError as error:
            if error.actual is not None and not await self._is_mine(state.session_id):
                raise self._conflict(state, expected) from None
            raise
        self._remember(state.session_id, version)
        return version

    async def save_or_load(self, state: SessionState, known: Items, *, fence: int | None = None) -> SessionState | None:
        """As `SessionStore.save_or_load`, for a state of this user; errors as for `save`."""
        expected = await self._expected(state)
        try:
            stored = await self._store.save_or_load(state, known, fence=fence)
        except ConflictError as error:
            if error.actual is not None and not await self._is_mine(state.session_id):
                raise self._conflict(state, expected) from None
            raise
        now = state if stored is None else stored
        if now.user_id != self.user_id:
            raise self._conflict(state, expected)
        version = version_of(now)
        if version is not None:
            self._remember(state.session_id, version)
        return stored

    async def _expected(self, state: SessionState) -> Version | None:
        """Return the version that a save of the state names, once it is sure to be this user's."""
        if state.user_id != self.user_id:
            raise ArgumentError(
                f"this view saves sessions of user {self.user_id!r} only; the state names another user",
                user_id=self.user_id,
            )
        expected = version_of(state)
        if expected is not None and self._seen.get(state.session_id) != expected:
            await self._check_owner(state, expected)
        return expected

    async def load(self, session_id: str) -> SessionState:
        """As `SessionStore.load`."""
        record = await self._read(session_id, log_from=0)
        state = self._store.restore(record)
        self._remember(session_id, record.version)
        return state

    async def info(self, session_id: str) -> SessionInfo:
        """As `SessionStore.info`."""
        info = await self._store.info(session_id)
        if info.user_id != self.user_id:
            raise missing(session_id)
        return info

    async def extend_ttl(self, session_id: str, ttl_s: float | None) -> bool:
        """As `SessionStore.extend_ttl`."""
        check_ttl(ttl_s)
        return await self._is_mine(session_id) and await self._store.extend_ttl(session_id, ttl_s)

    async def delete(self, session_id: str, *, expected: Version | None = None, fence: int | None = None) -> bool:
        """As `SessionStore.delete`."""
        while True:
            try:
                record = await self._read(session_id)
            except NotFoundError:
                return False
            try:
                # At the version whose owner was seen, so that no other user's later session of this id is deleted.
                return await self._store.delete(session_id, expected=expected or record.version, fence=fence)
            except StaleFenceError:
                raise
            except ConflictError:
                if expected is not None:
                    raise

    async def history(self, session_id: str, before: int | None = None, limit: int = 50) -> List[HistoryItem]:
        """As `SessionStore.history`."""
        first = await self._read(session_id)
        page = await self._store.history(session_id, before, limit)
        # The page is this user's only if the session is still the one whose owner was seen.
        if (await self._read(session_id)).version.generation != first.version.generation:
            raise missing(session_id)
        return page

    async def list(self, *, status: str | None = None) -> List[str]:
        """Return the ids of this user's live sessions."""
        return await self._store.list(user_id=self.user_id, status=status)

    async def _read(self, session_id: str, *, log_from: int | None = None) -> Record:
        record = await self._store.read(session_id, log_from=NO_LOG if log_from is None else log_from)
        if record.tags.get("user_id") != self.user_id:
            raise missing(session_id)
        return record

    async def _is_mine(self, session_id: str) -> bool:
        try:
            await self._read(session_id)
        except NotFoundError:
            return False
        return True

    async def _check_owner(self, state: SessionState, expected: Version) -> None:
        if not await self._is_mine(state.session_id):
            raise self._conflict(state, expected)

    def _conflict(self, state: SessionState, expected: Version | None) -> ConflictError:
        session_id = state.session_id
        if expected is not None:
            return gone(session_id, expected, state.ttl_seconds)
        return ConflictError(
            f"session {session_id!r} cannot be saved: it is not at the version that was loaded",
            key=session_id,
            expected=expected,
            actual=None,
        )

    def _remember(self, session_id: str, version: Version) -> None:
        self._seen[session_id] = version
        self._seen.move_to_end(session_id)
        if len(self._seen) > _REMEMBERED:
            self._seen.popitem(last=False)

    def __repr__(self) -> str:
        return f"{self._store!r}.scoped({self.user_id!r})"
