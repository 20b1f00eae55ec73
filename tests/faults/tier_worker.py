"""Stores whose calls yield, and end the worker at a chosen boundary: before a call reaches its store, or after it did."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any


class Crash(BaseException):
    """The worker is gone: nothing of it runs any more, no `except Exception` either."""


class Boundaries:
    """Counts the boundaries of calls over all tiers, and crashes at one of them; at none if `at` is None."""

    def __init__(self, at: int | None = None) -> None:
        self.at = at
        self.n = 0
        self.names: list[str] = []

    def cross(self, name: str) -> None:
        self.names.append(name)
        self.n += 1
        if self.at is not None and self.n > self.at:
            raise Crash(name)


class Worker:
    """One worker's handle on a store that others use too."""

    def __init__(self, inner: Any, boundaries: Boundaries, name: str, rng: Any = None) -> None:
        self._inner = inner
        self._boundaries = boundaries
        self._name = name
        self._rng = rng
        self.backend, self.durability = inner.backend, inner.durability

    async def _through(self, operation: str, call: Awaitable[Any]) -> Any:
        name = f"{self._name} {operation}"
        try:
            self._boundaries.cross(f"before {name}")
        except Crash:
            call.close()  # type: ignore[attr-defined]
            raise
        if self._rng is not None:
            for _ in range(self._rng.randrange(3)):
                await asyncio.sleep(0)
        answer = await call
        self._boundaries.cross(f"after {name}")
        return answer

    async def read(self, key: str, **args: Any) -> Any:
        return await self._through("read", self._inner.read(key, **args))

    async def write(self, key: str, head: Any, **args: Any) -> Any:
        return await self._through("write", self._inner.write(key, head, **args))

    async def read_log(self, key: str, **args: Any) -> Any:
        return await self._through("read_log", self._inner.read_log(key, **args))

    async def touch(self, key: str, ttl_s: float | None, **args: Any) -> Any:
        return await self._through("touch", self._inner.touch(key, ttl_s, **args))

    async def delete(self, key: str, **args: Any) -> Any:
        return await self._through("delete", self._inner.delete(key, **args))

    def find(self, /, **tags: str) -> Any:
        return self._inner.find(**tags)

    async def sweep(self) -> int:
        return int(await self._inner.sweep())

    async def aclose(self) -> None:
        """The store belongs to all workers."""
