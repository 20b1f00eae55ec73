"""Many readers of one key, few reads."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Flights(Generic[T]):
    """Lets callers of one key share a read, none of which began before the caller came.

    Whoever comes while a read is under way waits for the next one, together with all others who come meanwhile: what the
    running read brings may be older than a write that was acknowledged before they came. So a burst of any size costs two
    reads. A caller that is cancelled leaves the read to the others, and a read that nobody waits for any more is given up.

    Args:
        joins_running: Let who comes later join the read under way after all: for what does not go stale in that time.
    """

    def __init__(self, *, joins_running: bool = False) -> None:
        self._joins_running = joins_running
        self._running: dict[Hashable, _Flight[T]] = {}
        self._next: dict[Hashable, _Flight[T]] = {}

    async def run(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """Return what `read` gives, called here or by somebody who came at the same time."""
        flight = self._running.get(key) if self._joins_running else self._next.get(key)
        if flight is None:
            before = self._running.get(key)
            flight = _Flight(asyncio.ensure_future(self._fly(key, read, before)))
            if before is None:
                self._running[key] = flight
            else:
                self._next[key] = flight
        flight.waiting += 1
        try:
            return await asyncio.shield(flight.task)
        finally:
            flight.waiting -= 1
            if not flight.waiting and not flight.task.done():
                # At once: who comes next must not join a read that is being given up.
                self._forget(key, flight.task)
                flight.task.cancel()

    async def _fly(self, key: Hashable, read: Callable[[], Awaitable[T]], before: _Flight[T] | None) -> T:
        try:
            if before is not None:
                await asyncio.wait({before.task})
                self._running[key] = self._next.pop(key)
            return await read()
        finally:
            self._forget(key, asyncio.current_task())

    def _forget(self, key: Hashable, task: asyncio.Task[Any] | None) -> None:
        for flights in (self._running, self._next):
            if key in flights and flights[key].task is task:
                del flights[key]


class _Flight(Generic[T]):
    """A read, and how many wait for it."""

    __slots__ = ("task", "waiting")

    def __init__(self, task: asyncio.Task[T]) -> None:
        self.task = task
        self.waiting = 0
