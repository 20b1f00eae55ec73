"""A store that counts its calls, and is slow, dead or wrong when told so."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable
from typing import Any

from holdall.errors import StoreUnavailableError


class FaultyStore:
    """Around any store."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.backend, self.durability = inner.backend, inner.durability
        self.calls: Counter[str] = Counter()
        self.is_dead = False
        self.delay_s = 0.0
        # a call of this name waits for the event before it reaches the store
        self.held: dict[str, asyncio.Event] = {}

    async def _do(self, name: str, call: Awaitable[Any]) -> Any:
        self.calls[name] += 1
        try:
            self._check(name)
            if name in self.held:
                await self.held[name].wait()
            if self.delay_s:
                await asyncio.sleep(self.delay_s)
        except BaseException:
            call.close()  # type: ignore[attr-defined]
            raise
        return await call

    def _check(self, operation: str) -> None:
        if self.is_dead:
            raise StoreUnavailableError("dead", backend=self.backend, operation=operation, cause="dead")

    async def read(self, key: str, **args: Any) -> Any:
        return await self._do("read", self.inner.read(key, **args))

    async def write(self, key: str, head: Any, **args: Any) -> Any:
        return await self._do("write", self.inner.write(key, head, **args))

    async def read_log(self, key: str, **args: Any) -> Any:
        return await self._do("read_log", self.inner.read_log(key, **args))

    async def touch(self, key: str, ttl_s: float | None, **args: Any) -> Any:
        return await self._do("touch", self.inner.touch(key, ttl_s, **args))

    async def delete(self, key: str, **args: Any) -> Any:
        return await self._do("delete", self.inner.delete(key, **args))

    async def find(self, /, **tags: str) -> Any:
        self.calls["find"] += 1
        self._check("find")
        async for key in self.inner.find(**tags):
            yield key

    async def sweep(self) -> int:
        return int(await self._do("sweep", self.inner.sweep()))

    async def aclose(self) -> None:
        await self.inner.aclose()
