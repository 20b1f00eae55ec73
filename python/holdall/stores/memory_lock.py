"""A lock service in this process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from holdall.errors import ClosedError
from holdall.stores import keys


class MemoryLock:
    """Leases in a dict, for tests and for tasks of one process. Safe from several tasks and threads.

    Args:
        now: The clock that ends leases, in seconds.
    """

    backend = "memory"

    def __init__(self, *, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        # name to (token, end)
        self._held: dict[str, tuple[str, float]] = {}
        self._is_closed = False

    async def acquire(self, name: str, token: str, ttl_s: float) -> bool:
        """Take the name for `ttl_s` seconds from now; False where another token holds it."""
        with self._lock:
            if self._holder(name) not in (None, token):
                return False
            self._held[name] = token, self._now() + ttl_s
            return True

    async def extend(self, name: str, token: str, ttl_s: float) -> bool:
        """Let the lease end `ttl_s` seconds from now; False where this token does not hold the name."""
        with self._lock:
            if self._holder(name) != token:
                return False
            self._held[name] = token, self._now() + ttl_s
            return True

    async def release(self, name: str, token: str) -> bool:
        """Give the name back; False where this token does not hold it."""
        with self._lock:
            if self._holder(name) != token:
                return False
            del self._held[name]
            return True

    async def aclose(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._is_closed = True
            self._held.clear()

    def _holder(self, name: str) -> str | None:
        if self._is_closed:
            raise ClosedError("this MemoryLock was closed; make a new one")
        token, ends = self._held.get(keys.check_key(name), (None, 0.0))
        if token is not None and ends <= self._now():
            del self._held[name]
            return None
        return token
