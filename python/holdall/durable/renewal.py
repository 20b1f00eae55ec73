"""Long work does not outlive its record: its time to live starts over again and again while the work goes on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from holdall.durable.ttl import check_ttl
from holdall.errors import HoldallError, StoreUnavailableError

if TYPE_CHECKING:
    from holdall.durable.sessions import Sessions

# It is renewed after this part of it, so that two renewals may fail.
_PART: Final = 1 / 3
# What was loaded may be near its end: the first renewal comes soon, but costs quick work nothing.
_SOON_S: Final = 1.0


class Renewal:
    """Renews the time to live of one record in the background, from `follow` to `aclose`."""

    def __init__(self) -> None:
        self._task: asyncio.Task[None] | None = None
        self._ttl_s: float | None = None

    async def follow(self, store: Sessions, session_id: str, ttl_s: float | None) -> None:
        """Renew this record from now on; nothing to do where it lives for ever, or is renewed for as long already."""
        ttl_s = check_ttl(ttl_s)
        if ttl_s == self._ttl_s:
            return
        await self.aclose()
        self._ttl_s = ttl_s
        if ttl_s is not None:
            self._task = asyncio.ensure_future(_renew(store, session_id, ttl_s))

    async def aclose(self) -> None:
        """Stop; a renewal that is under way is brought to its end first."""
        task, self._task, self._ttl_s = self._task, None, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})


async def _renew(store: Sessions, session_id: str, ttl_s: float) -> None:
    pause_s = min(_SOON_S, ttl_s * _PART)
    while True:
        await asyncio.sleep(pause_s)
        pause_s = ttl_s * _PART
        try:
            if not await store.extend_ttl(session_id, ttl_s):
                return
        except StoreUnavailableError:
            continue
        except HoldallError:
            # closed, or the lease is over: whoever saves next is told
            return
