"""Sessions whose writes all carry one fence: what is built on `save` alone works under a lock through it."""

from __future__ import annotations

from builtins import list as List  # noqa: N812 - `list` is a method of what this is a view of
from typing import TYPE_CHECKING, Any, Final

from holdall.errors import ArgumentError, ConflictError, StaleFenceError
from holdall.stores.base import Version
from holdall.stores.keys import check_fence

if TYPE_CHECKING:
    from holdall.durable.sessions import HistoryItem, Sessions
    from holdall.state import SessionState
    from holdall.state.log import Items


# No record is ever at it. A fence is looked at before a version is.
_NO_VERSION: Final = Version("-", 1)


class FencedSessions:
    """A view of a store through which each write carries a fencing token.

    A session that has seen a fence takes no write without one, or with a lower one: both are a `StaleFenceError`.

    Args:
        store: The sessions, or a scoped view of them.
        fence: The token, an int of at least 0.
    """

    def __init__(self, store: Sessions, fence: int) -> None:
        checked = check_fence(fence)
        if checked is None:
            raise ArgumentError("fence is None; a view without a fence is the store itself")
        self.fence: Final = checked
        self._store = store

    async def save(self, state: SessionState, *, fence: int | None = None) -> Version:
        """As `SessionStore.save`, under this view's fence if none is given."""
        return await self._store.save(state, fence=self.fence if fence is None else fence)

    async def save_or_load(self, state: SessionState, known: Items, *, fence: int | None = None) -> SessionState | None:
        """As `SessionStore.save_or_load`, where the store has it, else as `save`."""
        fence = self.fence if fence is None else fence
        save_or_load: Any = getattr(self._store, "save_or_load", None)
        if save_or_load is None:
            await self._store.save(state, fence=fence)
            return None
        stored: SessionState | None = await save_or_load(state, known, fence=fence)
        return stored

    async def load(self, session_id: str) -> SessionState:
        """As `SessionStore.load`."""
        return await self._store.load(session_id)

    async def extend_ttl(self, session_id: str, ttl_s: float | None) -> bool:
        """As `SessionStore.extend_ttl`, which makes no version and asks for no fence."""
        return await self._store.extend_ttl(session_id, ttl_s)

    async def delete(self, session_id: str, *, expected: Version | None = None, fence: int | None = None) -> bool:
        """As `SessionStore.delete`, under this view's fence if none is given."""
        fence = self.fence if fence is None else fence
        return await self._store.delete(session_id, expected=expected, fence=fence)

    async def is_current(self, session_id: str) -> bool:
        """Whether the session is there and has seen no higher fence: asked by a call that can have no effect."""
        try:
            await self.delete(session_id, expected=_NO_VERSION)
        except StaleFenceError:
            return False
        except ConflictError:
            return True
        return False

    async def history(self, session_id: str, before: int | None = None, limit: int = 50) -> List[HistoryItem]:
        """As `SessionStore.history`."""
        return await self._store.history(session_id, before, limit)

    def __repr__(self) -> str:
        return f"{self._store!r} under fence {self.fence}"
