"""Many callers of one key, few calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar, cast

from holdall.errors import ArgumentError

T = TypeVar("T")


class _Flight:
    """A read under way: its end, and what came of it. Neither answer nor error: its caller was cancelled."""

    __slots__ = ("answer", "end", "error", "has_answer")

    def __init__(self) -> None:
        self.end = asyncio.Event()
        self.has_answer = False
        self.answer: object = None
        self.error: Exception | None = None


class Flights(Generic[T]):
    """Lets callers of one key share a read, none of which began before the caller came.

    Whoever comes while a read is under way waits for the next one, together with all others who come meanwhile: what the
    running read brings may be older than a write that was acknowledged before they came. So a burst of any size costs two
    reads. Reads run in the task of one of their callers; when that one is cancelled, another of them reads.
    """

    def __init__(self) -> None:
        self._running: dict[Hashable, _Flight] = {}
        self._next: dict[Hashable, _Flight] = {}

    async def run(self, key: Hashable, read: Callable[[], Awaitable[T]]) -> T:
        """Return what `read` gives, called here or by somebody who came at the same time."""
        while True:
            running = self._running.get(key)
            if running is None:
                return await self._lead(key, read, None)
            following = self._next.get(key)
            if following is None:
                return await self._lead(key, read, running)
            await following.end.wait()
            if following.error is not None:
                raise following.error
            if following.has_answer:
                return cast("T", following.answer)

    async def _lead(self, key: Hashable, read: Callable[[], Awaitable[T]], after: _Flight | None) -> T:
        flight = _Flight()
        if after is None:
            self._running[key] = flight
        else:
            self._next[key] = flight
        try:
            if after is not None:
                await after.end.wait()
            answer = await read()
        except Exception as error:
            flight.error = error
            raise
        else:
            flight.answer, flight.has_answer = answer, True
            return answer
        finally:
            if self._running.get(key) is flight:
                # at once, so that nobody finds the place empty and begins a third read
                following = self._next.pop(key, None)
                if following is None:
                    del self._running[key]
                else:
                    self._running[key] = following
            elif self._next.get(key) is flight:
                del self._next[key]
            flight.end.set()


class SharedCalls(Generic[T]):
    """Lets callers of one key share a call, also one that is under way. It ends when nobody waits for it any more."""

    def __init__(self) -> None:
        self._calls: dict[Hashable, tuple[asyncio.Task[T], list[None]]] = {}

    async def run(self, key: Hashable, call: Callable[[], Awaitable[T]]) -> T:
        """Return what `call` gives, made here or by somebody who asked before."""
        if key not in self._calls:
            self._calls[key] = asyncio.ensure_future(self._made(key, call)), []
        task, waiting = self._calls[key]
        if task is asyncio.current_task():
            raise ArgumentError("a call asks for its own answer, for which it would wait for ever")
        waiting.append(None)
        try:
            return await asyncio.shield(task)
        finally:
            waiting.pop()
            if not waiting and not task.done():
                # At once: who comes next must not join a call that is being given up.
                self._forget(key, task)
                task.cancel()

    async def _made(self, key: Hashable, call: Callable[[], Awaitable[T]]) -> T:
        try:
            return await call()
        finally:
            self._forget(key, asyncio.current_task())

    def _forget(self, key: Hashable, task: object) -> None:
        if key in self._calls and self._calls[key][0] is task:
            del self._calls[key]
