"""What every file of claims stands on."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

from holdall.stores.base import ABSENT, Blob, Record, Store, Version

_E = TypeVar("_E", bound=BaseException)

HEAD = Blob("msgpack", b"\x80")


class Claims:
    """How a store is made, how time passes, and a few words shared by all claims."""

    # a time to live that outlasts any claim, and one that `advance` passes; longer where the clock is injected
    long_s: float = 600.0
    short_s: float = 0.25
    writers: int = 6
    writes: int = 15
    # records of one tag: more than two pages of the backend
    many: int = 1100

    async def make_store(self) -> Store:
        """Open the store under test; called once per claim, and again where a claim needs a second handle."""
        raise NotImplementedError("a subclass of StoreConformance says how its store is opened")

    async def make_peer(self, store: Store) -> Store:
        """Return a second handle on the same records; the same one where a backend has no second (it lives in one process)."""
        return store

    async def advance(self, seconds: float) -> None:
        """Let time pass for the store.

        Sleeps unless overridden: to move an injected clock, or, where the clock is the server's, to make all that is
        stored end that much earlier. Then `short_s` may be as long as is convenient.
        """
        await asyncio.sleep(seconds)

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        """Yield a store that is closed in the end."""
        store = await self.make_store()
        try:
            yield store
        finally:
            await store.aclose()

    @contextlib.asynccontextmanager
    async def peers(self, n: int) -> AsyncIterator[list[Store]]:
        """Yield `n` handles on the same records."""
        async with self.opened() as store:
            handles = [store]
            try:
                for _ in range(n - 1):
                    handles.append(await self.make_peer(store))  # noqa: PERF401 - those made must be closed if one fails
                yield handles
            finally:
                for handle in handles[1:]:
                    if handle is not store:
                        await handle.aclose()

    def key(self, name: str = "k") -> str:
        """Return a key that no other claim uses."""
        return f"{name}-{secrets.token_hex(6)}"

    async def made(self, store: Store, key: str, data: bytes = b"\x80") -> Version:
        """Create a record that does not expire."""
        return await store.write(key, Blob("msgpack", data), expected=ABSENT, ttl_s=None)

    async def there(self, store: Store, key: str, *, log_from: int = 0) -> Record:
        """Return a record that must exist."""
        record = await store.read(key, log_from=log_from)
        assert record is not None, f"{key!r} is absent"
        return record


async def raised(kind: type[_E], call: Awaitable[object]) -> _E:
    """Return the error that `call` raises; fail if it is of another kind or there is none."""
    try:
        answer = await call
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was not raised; the answer was {answer!r}")


async def found(store: Store, **tags: str) -> list[str]:
    """Return all keys that `find` yields."""
    return [key async for key in store.find(**tags)]
