"""The same sessions for code without asyncio: an event loop of their own, in a thread."""

from __future__ import annotations

import atexit
import contextlib
import weakref
from builtins import list as List  # noqa: N812 - `list` is a method here
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, overload

from holdall.durable.loop_thread import LoopThread, refuse_in_loop
from holdall.durable.optimistic import OptimisticStateStore
from holdall.durable.sync_state import SyncLockedStateStore, SyncStateStore, sync_state_store
from holdall.durable.updater import Updater

if TYPE_CHECKING:
    from typing_extensions import Self

    from holdall.durable.scoped import ScopedSessions
    from holdall.durable.session_store import SessionStore
    from holdall.durable.sessions import HistoryItem, Sessions
    from holdall.state import SessionState
    from holdall.stores.base import Version


class SyncSessions:
    """Sessions, each call blocking until it is done. Safe to use from several threads.

    A context manager; one that is not closed is closed when nothing refers to it any more, or at exit.
    """

    def __init__(self, store: Sessions, runner: LoopThread) -> None:
        self._store = store
        self._runner = runner
        self._optimistic = OptimisticStateStore(store)

    def save(self, state: SessionState, *, fence: int | None = None) -> Version:
        """As `SessionStore.save`."""
        return self._runner.run(lambda: self._store.save(state, fence=fence))

    def load(self, session_id: str) -> SessionState:
        """As `SessionStore.load`."""
        return self._runner.run(lambda: self._store.load(session_id))

    def update(
        self,
        session_id: str,
        fn: Updater,
        max_retries: int = 5,
        *,
        create: Callable[[], SessionState] | None = None,
    ) -> SessionState:
        """As `OptimisticStateStore.update`; `fn` runs in the loop's thread."""
        return self._runner.run(lambda: self._optimistic.update(session_id, fn, max_retries, create=create))

    def extend_ttl(self, session_id: str, ttl_s: float | None) -> bool:
        """As `SessionStore.extend_ttl`."""
        return self._runner.run(lambda: self._store.extend_ttl(session_id, ttl_s))

    @overload
    def state_store(self, conflict: Literal["lock"], **options: Any) -> SyncLockedStateStore: ...
    @overload
    def state_store(self, conflict: str = "optimistic", **options: Any) -> SyncStateStore: ...
    def state_store(self, conflict: str = "optimistic", **options: Any) -> SyncStateStore:
        """As `holdall.state_store`, with calls that block.

        The lock of "lock" connects in this store's loop: it is closed with the store, and is of no use to another.
        """
        return sync_state_store(self._store, self._runner, conflict, options)

    def delete(self, session_id: str, *, expected: Version | None = None, fence: int | None = None) -> bool:
        """As `SessionStore.delete`."""
        return self._runner.run(lambda: self._store.delete(session_id, expected=expected, fence=fence))

    def history(self, session_id: str, before: int | None = None, limit: int = 50) -> List[HistoryItem]:
        """As `SessionStore.history`."""
        return self._runner.run(lambda: self._store.history(session_id, before, limit))


class SyncScopedSessions(SyncSessions):
    """One user's sessions, blocking."""

    _store: ScopedSessions

    def list(self, *, status: str | None = None) -> List[str]:
        """As `ScopedSessions.list`."""
        return self._runner.run(lambda: self._store.list(status=status))


class SyncSessionStore(SyncSessions):
    """What `holdall.open_sync(url)` returns."""

    _store: SessionStore

    def __init__(self, store: SessionStore) -> None:
        refuse_in_loop()
        super().__init__(store, LoopThread())
        self._runner.closing.append(store.aclose)
        _unclosed.add(self)

    def list(self, *, user_id: str | None = None, status: str | None = None) -> List[str]:
        """As `SessionStore.list`."""
        return self._runner.run(lambda: self._store.list(user_id=user_id, status=status))

    def delete_user(self, user_id: str) -> int:
        """As `SessionStore.delete_user`."""
        return self._runner.run(lambda: self._store.delete_user(user_id))

    def scoped(self, user_id: str) -> SyncScopedSessions:
        """As `SessionStore.scoped`."""
        return SyncScopedSessions(self._store.scoped(user_id), self._runner)

    def close(self) -> None:
        """Close the store and stop its thread. Idempotent; refused inside a running loop, as every call is."""
        refuse_in_loop()
        if self in _unclosed:
            _unclosed.discard(self)
            try:
                for close in reversed(self._runner.closing):
                    self._runner.run(close)
            finally:
                self._runner.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Sync{self._store!r}"


_unclosed: Final[weakref.WeakSet[SyncSessionStore]] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    for store in list(_unclosed):
        # By now the interpreter may have ended its thread pools, and SQLite closes its file in one. What was saved is saved.
        with contextlib.suppress(RuntimeError):
            store.close()
