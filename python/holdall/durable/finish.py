"""Let a write come to its end even when its caller is cancelled, so that its outcome is known."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

# How long a cancelled caller waits for its write. Two round trips of a slow network; a write that hangs is cut off then.
GRACE_S: Final = 2.0


async def finish(call: Coroutine[Any, Any, T], *, grace_s: float = GRACE_S) -> T:
    """Await a call in a task of its own, which a cancellation of the caller does not reach at once.

    A cancelled caller waits for the call to end, at most `grace_s` seconds, and is cancelled then: the connection is not cut
    in the middle of a write, and what the call notes down about its outcome is noted. A second cancellation cuts it off.
    """
    task = asyncio.ensure_future(call)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await _end(task, grace_s)
        raise


async def settle(call: Coroutine[Any, Any, Any], *, grace_s: float = GRACE_S) -> None:
    """Await a call on behalf of a caller that was cancelled already, at most `grace_s` seconds; its error is dropped."""
    await _end(asyncio.ensure_future(call), grace_s)


async def _end(task: asyncio.Future[Any], grace_s: float) -> None:
    try:
        if not task.done():
            await asyncio.wait({task}, timeout=grace_s)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=grace_s)
        if task.done() and not task.cancelled():
            task.exception()  # seen here: the caller gets its cancellation, not a second error
