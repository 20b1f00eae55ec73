"""In which event loop a store is connected: a connection serves the loop that made it, and no other."""

from __future__ import annotations

import asyncio
from typing import Final

from holdall.errors import OtherLoopError


class HomeLoop:
    """The loop of a link's connections."""

    def __init__(self, backend: str) -> None:
        self._backend: Final = backend
        self._loop: asyncio.AbstractEventLoop | None = None

    def has_moved(self) -> bool:
        """Whether the loop of before has ended, so that what was connected in it is gone: once for each new loop.

        Raises:
            OtherLoopError: It has not.
        """
        loop = asyncio.get_running_loop()
        before = self._loop
        if before is loop:
            return False
        if before is not None and not before.is_closed():
            raise OtherLoopError(
                f"this {self._backend} store is connected in another event loop, which still runs: open one in each loop",
                backend=self._backend,
            )
        self._loop = loop
        return before is not None
