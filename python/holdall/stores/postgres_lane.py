"""The connections of a pool of ours, kept from one call to the next.

To take a connection from asyncpg's pool and to give it back costs 40 to 60 us of the processor, as much as half a statement, for
tasks that guard both against what cannot happen here; and who waits for one waits at the end of the queue each time that another
was faster. So a connection goes from call to call, to who has waited longest, and back to the pool when a while passes without
any.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from typing import Any, Final

import asyncpg

# What is not used for so long goes back to the pool, which closes it by its own rules.
_KEPT_S: Final = 1.0
# Whether the server has closed a connection is known for as long as the loop has looked; after a pause it looks first.
_FRESH_S: Final = 0.05
_LOOKED_AT: Final = 1000


class Lanes:
    """The connections of a pool that nobody else takes any of.

    Args:
        pool: The pool.
        size: How many it has at most.
        timeout_s: For waiting for one, and for connecting.
    """

    def __init__(self, pool: Any, *, size: int, timeout_s: float) -> None:
        self._pool = pool
        self._size = size
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        # with a call, or promised to one
        self._n_taken = 0
        self._out: set[Any] = set()
        self._expired: set[Any] = set()
        self._n_given = 0
        self._idle: list[tuple[Any, float]] = []
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._leaving: set[asyncio.Task[None]] = set()
        self._is_closing = False

    async def take(self) -> Any:
        """Return a connection that nobody uses; the one who has waited longest is first."""
        connection = await self._taken()
        self._out.add(connection)
        return connection

    async def _taken(self) -> Any:
        connection = None
        if self._n_taken < self._size:
            self._n_taken += 1
        else:
            connection = await self._turn()
        try:
            if connection is None and self._idle:
                if self._loop.time() - self._idle[-1][1] > _FRESH_S:
                    # once for the loop to look, and once to be told
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                if self._idle:
                    connection, _ = self._idle.pop()
            if connection is None:
                return await self._pool.acquire(timeout=self._timeout_s)
            if not _is_closed(connection):
                return connection
            await self._left(connection)
            return await self._pool.acquire(timeout=self._timeout_s)
        except BaseException:
            self._pass_on(None)
            raise

    async def give(self, connection: Any, *, is_whole: bool) -> None:
        """Take a connection back; where its call did not end in order, the pool sees to it."""
        self._out.discard(connection)
        self._n_given += 1
        # now and then the pool gets to see how old a connection is
        is_kept = is_whole and not self._is_closing and self._n_given % _LOOKED_AT
        if connection in self._expired:
            self._expired.discard(connection)
        elif is_kept and not _is_closed(connection):
            self._pass_on(connection)
            return
        try:
            await self._left(connection)
        finally:
            self._pass_on(None)

    async def expire(self) -> None:
        """Use no connection again that was made before: those under way end with their calls."""
        self._expired |= self._out
        await self._pool.expire_connections()
        while self._idle:
            await self._left(self._idle.pop()[0])

    async def close(self) -> None:
        """Close the pool once the calls under way have ended."""
        self._is_closing = True
        if self._timer is not None:
            self._timer.cancel()
        while self._idle:
            await self._left(self._idle.pop()[0])
        await self._pool.close()

    def terminate(self) -> None:
        """Cut what cannot be closed in order."""
        self._pool.terminate()

    async def _turn(self) -> Any:
        waiter = self._loop.create_future()
        self._waiting.append(waiter)
        timer = self._loop.call_later(self._timeout_s, _late, waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                # it came at the same instant
                self._pass_on(waiter.result())
            raise
        finally:
            timer.cancel()

    def _pass_on(self, connection: Any | None) -> None:
        """Let the next one have a connection, or take one of its own."""
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        self._n_taken -= 1
        if connection is not None:
            self._idle.append((connection, self._loop.time()))
            if self._timer is None:
                self._timer = self._loop.call_later(_KEPT_S, self._look)

    def _look(self) -> None:
        """Give back what was not used for a while."""
        self._timer = None
        since = self._loop.time() - _KEPT_S
        kept = [one for one in self._idle if one[1] > since]
        for connection, _ in self._idle[: len(self._idle) - len(kept)]:
            task = self._loop.create_task(self._left(connection))
            self._leaving.add(task)
            task.add_done_callback(self._leaving.discard)
        self._idle = kept
        if kept:
            self._timer = self._loop.call_later(_KEPT_S, self._look)

    async def _left(self, connection: Any) -> None:
        # the pool may have let go of it already
        with contextlib.suppress(asyncpg.InterfaceError):
            await self._pool.release(connection)


class Shared:
    """The connections of a pool that others use too: each goes back after its call.

    Args:
        pool: The pool.
        timeout_s: For waiting for one, and for connecting.
    """

    def __init__(self, pool: Any, *, timeout_s: float) -> None:
        self._pool = pool
        self._timeout_s = timeout_s

    async def take(self) -> Any:
        """Take a connection from the pool."""
        return await self._pool.acquire(timeout=self._timeout_s)

    async def expire(self) -> None:
        """Use no connection again that was made before."""
        await self._pool.expire_connections()

    async def give(self, connection: Any, *, is_whole: bool) -> None:  # noqa: ARG002 - as `Lanes`
        """Give it back."""
        await self._pool.release(connection)


def _is_closed(connection: Any) -> bool:
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:
        # the pool lets go of a connection that the server has closed
        return True


def _late(waiter: asyncio.Future[Any]) -> None:
    if not waiter.done():
        waiter.set_exception(asyncio.TimeoutError("all connections are in use"))
