"""Free what has expired, on stores that do not do so by themselves, and what was kept for threads that are gone.

No reader sees an expired record, swept or not: a sweep gives back room, and nothing depends on when it runs. Each store frees
in batches that end within one short transaction, and skips what a writer holds, so that it is safe beside writers and beside
other sweeps.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol, runtime_checkable

from holdall.durable.kept import drop_orphans
from holdall.errors import ArgumentError, StoreUnavailableError

if TYPE_CHECKING:
    from typing_extensions import Self

    from holdall.durable.session_store import SessionStore
    from holdall.stores.base import Store

SWEEP_EVERY_S: Final = 300.0


@runtime_checkable
class Sweeping(Protocol):
    """A store that can free what has expired."""

    async def sweep(self) -> int:
        """Free it in bounded batches; return how many records and tombstones that were."""
        ...


async def sweep(store: SessionStore | Store) -> int:
    """Free what has expired in a store, or in the store of a session store, and what was kept for threads that are gone.

    The latter is what a thread took over of a conversation that was edited since; no backend frees it by itself.

    Returns:
        How many records and tombstones were freed.

    Raises:
        StoreUnavailableError: It could not be reached; what was freed stays freed.
    """
    target: Any = getattr(store, "store", store)
    n_freed: int = await target.sweep() if isinstance(target, Sweeping) else 0
    # what others lead on to goes once they are gone
    while n_dropped := await drop_orphans(target):
        n_freed += n_dropped
    return n_freed


class Sweeper:
    """Sweeps stores now and then, in a task of its own: `async with Sweeper(store): ...`.

    A store that cannot be reached is tried again next time, and holds up no other.

    Args:
        stores: What to sweep.
        every_s: Seconds between two sweeps.
        sleep: Waits between sweeps; for tests.
    """

    def __init__(
        self,
        *stores: SessionStore | Store,
        every_s: float = SWEEP_EVERY_S,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if not stores:
            raise ArgumentError("Sweeper needs at least one store")
        if not every_s > 0:
            raise ArgumentError(f"every_s is {every_s}; above 0")
        self._stores = stores
        self._every_s = every_s
        self._sleep = sleep
        self._task: asyncio.Task[None] | None = None
        self.freed = 0

    async def once(self) -> int:
        """Sweep every store that can be reached; return what was freed."""
        n = 0
        for store in self._stores:
            with contextlib.suppress(StoreUnavailableError):
                n += await sweep(store)
        self.freed += n
        return n

    async def _run(self) -> None:
        while True:
            await self._sleep(self._every_s)
            await self.once()

    async def __aenter__(self) -> Self:
        self._task = asyncio.ensure_future(self._run())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})
            if not self._task.cancelled():
                self._task.result()  # what ended it is no lost connection, and must not pass unseen
