"""The event loop behind the blocking stores, in a thread of its own."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

from holdall.errors import ClosedError, RunningLoopError

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
        self.closing: list[Callable[[], Coroutine[Any, Any, None]]] = []

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


def _abandon(loop: asyncio.AbstractEventLoop, closing: list[Callable[[], Coroutine[Any, Any, None]]], pid: int) -> None:
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
