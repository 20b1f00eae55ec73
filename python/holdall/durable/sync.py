"""The same sessions for code without asyncio: an event loop of their own, in a thread."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import threading
import weakref
from builtins import list as List  # noqa: N812 - `list` is a method here
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload

from holdall.durable.optimistic import OptimisticStateStore
from holdall.durable.sync_state import SyncLockedStateStore, SyncStateStore, sync_state_store
from holdall.durable.updater import Updater
from holdall.errors import ClosedError, RunningLoopError

if TYPE_CHECKING:
    from typing_extensions import Self

    from holdall.durable.scoped import ScopedSessions
    from holdall.durable.session_store import SessionStore
    from holdall.durable.sessions import HistoryItem, Sessions
    from holdall.state import SessionState
    from holdall.stores.base import Version

T = TypeVar("T")

# A loop alone holds its tasks weakly.
_ending: Final[set[asyncio.Task[None]]] = set()


class LoopThread:
    """An event loop in a daemon thread, started on first use, and ended with the last reference to this."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._finalizer: weakref.finalize[..., LoopThread] | None = None
        self._pid = os.getpid()
        self._closed = False
        # What is closed before the loop ends, the last first.
        self.closing: List[Callable[[], Coroutine[Any, Any, None]]] = []

    def run(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run one coroutine to its end and return what it returned.

        The coroutine is made only once it is sure to run, so that a refusal leaves none un-awaited.
        """
        refuse_in_loop()
        if os.getpid() != self._pid:
            raise ClosedError("this store was opened before a fork; open it again in the child process")
        loop = self._started()
        future = asyncio.run_coroutine_threadsafe(call(), loop)
        try:
            return future.result()
        except BaseException:
            # KeyboardInterrupt in the caller must not leave the call running behind its back.
            future.cancel()
            raise

    def stop(self) -> None:
        """Stop the loop and wait for its thread. Idempotent."""
        with self._lock:
            self._closed = True
            if self._finalizer is not None:
                self._finalizer.detach()
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is None or thread is None or os.getpid() != self._pid:
            return
        loop.call_soon_threadsafe(loop.stop)
        thread.join()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise ClosedError("the store is closed; open it again")
            if self._loop is None:
                loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(loop,), name="holdall", daemon=True)
                self._thread.start()
                self._loop = loop
                self._finalizer = weakref.finalize(self, _abandon, loop, self.closing, self._pid)
                # at exit, stores that are referred to are closed in order, see below
                self._finalizer.atexit = False
            return self._loop


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def _abandon(loop: asyncio.AbstractEventLoop, closing: List[Callable[[], Coroutine[Any, Any, None]]], pid: int) -> None:
    """Close what nobody refers to any more. Called in whatever thread finds that out, so that it waits for nothing."""
    if os.getpid() != pid:
        return

    async def end() -> None:
        for close in reversed(closing):
            with contextlib.suppress(Exception):
                await close()
        loop.stop()

    def begin() -> None:
        task = loop.create_task(end())
        _ending.add(task)
        task.add_done_callback(_ending.discard)

    # A loop that was closed has nothing open any more.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(begin)


def refuse_in_loop() -> None:
    """Raise at once inside a running event loop, where blocking would stop everything else, ourselves included.

    Raises:
        RunningLoopError: This thread runs an event loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RunningLoopError(
        "holdall.open_sync() would block the running event loop; here use `async with holdall.open(url) as store`"
    )


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
