"""Let a write come to its end even when its caller is cancelled, so that its outcome is known."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

# How long a cancelled caller waits for its write. Two round trips of a slow network; a write that hangs is cut off then.
GRACE_S: Final = 2.0


# Calls that go on without their caller: a loop alone holds its tasks weakly.
_left: Final[set[asyncio.Future[Any]]] = set()


async def finish(call: Coroutine[Any, Any, T], *, grace_s: float = GRACE_S) -> T:
    """Await a call in a task of its own, which a cancellation of the caller does not reach at once.

    A cancelled caller waits for the call to end, at most `grace_s` seconds, and is cancelled then: the connection is not cut
    in the middle of a write, and what the call notes down about its outcome is noted. A caller that is cancelled again, as
    anyio does at every await, waits no longer, and the call goes on without it for as long.
    """
    task = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _end(task, grace_s, goes_on=True)
        raise


async def settle(call: Coroutine[Any, Any, Any], *, grace_s: float = GRACE_S, goes_on: bool = False) -> None:
    """Await a call on behalf of a caller that was cancelled already, at most `grace_s` seconds; its error is dropped.

    Args:
        call: What to await.
        grace_s: For how long.
        goes_on: Whether it goes on where the caller is cancelled again, or is cut off: what it notes down then would be noted
            behind the back of a caller that has gone on.
    """
    await _end(asyncio.ensure_future(call), grace_s, goes_on=goes_on)


async def _end(task: asyncio.Future[Any], grace_s: float, *, goes_on: bool) -> None:
    try:
        if not task.done():
            await asyncio.wait({task}, timeout=grace_s)
    except asyncio.CancelledError:
        if goes_on:
            _leave(task, grace_s)
        raise
    finally:
        if not task.done() and task not in _left:
            task.cancel()
            await asyncio.wait({task}, timeout=grace_s)
        if task.done() and not task.cancelled():
            task.exception()  # seen here: the caller gets its cancellation, not a second error


def _leave(task: asyncio.Future[Any], grace_s: float) -> None:
    timer = asyncio.get_running_loop().call_later(grace_s, task.cancel)

    def ended(_: asyncio.Future[Any]) -> None:
        timer.cancel()
        _left.discard(task)
        if not task.cancelled():
            task.exception()

    _left.add(task)
    task.add_done_callback(ended)
