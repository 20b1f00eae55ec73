"""Updates and locks for code without asyncio: `SyncSessionStore.state_store`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from holdall.durable.conflict import state_store
from holdall.durable.locked import LockedStateStore
from holdall.errors import LockLostError

if TYPE_CHECKING:
    from holdall.durable.conflict import StateStore
    from holdall.durable.locked import HeldSession
    from holdall.durable.locks import Lease
    from holdall.durable.loop_thread import LoopThread
    from holdall.durable.sessions import Sessions
    from holdall.durable.updater import Create, Updater
    from holdall.state import SessionState
    from holdall.stores.base import Version


class SyncStateStore:
    """Updates of sessions, each call blocking until it is done."""

    def __init__(self, updates: StateStore, runner: LoopThread) -> None:
        self._updates = updates
        self._runner = runner

    def update(
        self, session_id: str, fn: Updater, max_retries: int = 5, *, create: Create | None = None
    ) -> SessionState:
        """As the strategy's own `update`; `fn` runs in the loop's thread."""
        return self._runner.run(lambda: self._updates.update(session_id, fn, max_retries, create=create))


class SyncHeldSession:
    """A session that this worker alone may write, for as long as its lease lasts.

    Attributes:
        state: As it was loaded under the lock.
        fence: The fencing token that its writes carry.
        lease: The lock, and for how long it is surely held: `lease.check()` before what has effects elsewhere.
    """

    def __init__(self, held: HeldSession, runner: LoopThread) -> None:
        self._held = held
        self._runner = runner
        self.state = held.state
        self.fence: Final = held.fence
        self.lease: Final[Lease] = held.lease

    def save(self, state: SessionState | None = None) -> Version:
        """As `HeldSession.save`."""
        return self._runner.run(lambda: self._held.save(self.state if state is None else state))


class SyncLockedStateStore(SyncStateStore):
    """Updates by one worker at a time, and sessions held for work that takes long."""

    _updates: LockedStateStore

    @contextlib.contextmanager
    def hold(self, session_id: str, *, create: Create | None = None) -> Iterator[SyncHeldSession]:
        """As `LockedStateStore.hold`; but a body that blocks cannot be stopped when the lease is lost.

        Its next `save` raises `LockLostError` then, as does the end of the `with`; a write that comes late is refused by the fence.
        """
        holding = _Holding(self._updates, session_id, create)
        try:
            # within: an interrupt that comes as it is taken must not leave it held, and extended, for as long as this process lives
            yield SyncHeldSession(self._runner.run(holding.take), self._runner)
        except BaseException:
            with contextlib.suppress(LockLostError):
                self._runner.run(holding.give_back)
            raise
        self._runner.run(holding.give_back)


class _Holding:
    """Holds a session in a task of the loop, which waits while the body runs in another thread."""

    def __init__(self, locked: LockedStateStore, session_id: str, create: Create | None) -> None:
        self._hold: Callable[[], Any] = lambda: locked.hold(session_id, create=create)
        self._task: asyncio.Task[None] | None = None
        self._is_taken = False

    async def take(self) -> HeldSession:
        self._is_over = asyncio.Event()
        taken: asyncio.Future[HeldSession] = asyncio.get_running_loop().create_future()
        self._task = asyncio.ensure_future(self._keep(taken))
        either: set[asyncio.Future[Any]] = {self._task, taken}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            self._task.cancel()
            await asyncio.wait({self._task})
            raise
        if not taken.done():
            # it raises what kept it from being taken
            await self._task
        return taken.result()

    async def _keep(self, taken: asyncio.Future[HeldSession]) -> None:
        async with self._hold() as held:
            self._is_taken = True
            taken.set_result(held)
            await self._is_over.wait()

    async def give_back(self) -> None:
        if self._task is not None and not (self._task.done() and not self._is_taken):
            self._is_over.set()
            await self._task


def sync_state_store(store: Sessions, runner: LoopThread, conflict: str, options: dict[str, Any]) -> SyncStateStore:
    """Return a way to update sessions; a lock that it uses is closed before the runner stops."""
    updates = state_store(store, conflict, **options)
    if isinstance(updates, LockedStateStore):
        runner.closing.append(options["lock"].aclose)
        return SyncLockedStateStore(updates, runner)
    return SyncStateStore(updates, runner)
