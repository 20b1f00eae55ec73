"""What a thread answers to an event loop, through one descriptor that wakes it.

`call_soon_threadsafe` sends a byte through a socket, which the loop reads twice: a third of what a hop to a thread and back takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any, Final

_HAS_EVENTFD: Final = hasattr(os, "eventfd")

# Called in the loop with the future and what it is to become.
Settle = Callable[["asyncio.Future[Any]", Any], None]


class Answers:
    """The way back from threads to one event loop.

    Args:
        loop: The running one.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._waiting: deque[tuple[Settle, asyncio.Future[Any], Any]] = deque()
        self._descriptor: int | None = None
        if not _HAS_EVENTFD:
            return
        descriptor = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        # With the last reference, which may be the loop's own: it lets go of its readers when it is closed.
        weakref.finalize(self, os.close, descriptor).atexit = False
        try:
            loop.add_reader(descriptor, self._deliver)
        except NotImplementedError:  # as the loop of Windows, which waits for no descriptors
            return
        self._descriptor = descriptor

    def put(self, settle: Settle, future: asyncio.Future[Any], answer: Any) -> None:
        """Have `settle(future, answer)` called in the loop, from any thread. A loop that was closed waits for nothing."""
        if self._descriptor is not None:
            self._waiting.append((settle, future, answer))
            os.eventfd_write(self._descriptor, 1)
            return
        self._soon(settle, future, answer)

    def end(self) -> None:
        """Let go of the loop, from any thread. What was put before is delivered, and nothing may be put after it."""
        if self._descriptor is not None:
            self._soon(self._end)

    def _soon(self, call: Callable[..., None], *args: Any) -> None:
        loop = self._loop()
        if loop is not None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(call, *args)

    def _end(self) -> None:
        loop = self._loop()
        if loop is not None and self._descriptor is not None:
            self._deliver()
            loop.remove_reader(self._descriptor)
            self._descriptor = None

    def _deliver(self) -> None:
        assert self._descriptor is not None  # noqa: S101 - there is no reader without it
        # First, so that what is put from here on wakes the loop again.
        try:  # noqa: SIM105 - contextlib.suppress takes longer than the read
            os.eventfd_read(self._descriptor)
        except BlockingIOError:
            pass
        while self._waiting:
            settle, future, answer = self._waiting.popleft()
            settle(future, answer)
