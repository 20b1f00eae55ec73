"""A store behind a time limit and a circuit breaker, so that a slow or dead tier costs its callers nothing for long."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Final, TypeVar

from holdall.durable.sweep import Sweeping
from holdall.errors import (
    ArgumentError,
    ClosedError,
    StoreBusyError,
    StoreUnavailableError,
    TornRecordError,
    UnreplicatedError,
)
from holdall.stores import lost
from holdall.stores.base import Absent, Blob, Durability, Entry, Record, Store, Version
from holdall.stores.memory import MemoryStore

T = TypeVar("T")

# Failures in a row after which a store is left alone, and for how long. One call then tries whether it is back.
TRIPS_AFTER: Final = 3
COOL_S: Final = 5.0


if sys.version_info >= (3, 11):

    async def _within(timeout_s: float, call: Callable[[], Awaitable[T]]) -> T:
        async with asyncio.timeout(timeout_s):
            return await call()

else:

    async def _within(timeout_s: float, call: Callable[[], Awaitable[T]]) -> T:
        return await asyncio.wait_for(call(), timeout_s)


class Breaker:
    """Counts failures in a row, and says whether a call is worth trying.

    Args:
        trips_after: Failures in a row that open it.
        cool_s: Seconds for which it stays open; then one call goes through, and its outcome decides.
        clock: Monotonic seconds.
    """

    def __init__(
        self, *, trips_after: int = TRIPS_AFTER, cool_s: float = COOL_S, clock: Callable[[], float] = time.monotonic
    ) -> None:
        if trips_after < 1 or not cool_s > 0:
            raise ArgumentError(f"trips_after={trips_after}, cool_s={cool_s}: at least 1, and above 0")
        self._trips_after = trips_after
        self._cool_s = cool_s
        self._clock = clock
        self._failures = 0
        self._opened_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether calls are refused now."""
        return self._opened_at is not None and self._clock() - self._opened_at < self._cool_s

    def allows(self) -> bool:
        """Whether to try a call; the first after the cooling lets no second one through before it has ended."""
        if self._opened_at is None:
            return True
        if self.is_open:
            return False
        self._opened_at = self._clock()
        return True

    def succeeded(self) -> None:
        """Note a call that was answered."""
        self._failures, self._opened_at = 0, None

    def failed(self) -> None:
        """Note a call that was not."""
        self._failures += 1
        if self._failures >= self._trips_after:
            self._opened_at = self._clock()


class GuardedStore:
    """A `Store` whose calls end within a time limit, or at once while its breaker is open.

    A read that takes too long raises `StoreUnavailableError`. A write that does raises `OutcomeUnknownError`: it may have
    happened. Refused by the breaker, a write raises `StoreUnavailableError`, since nothing was sent. What the store itself
    answers, a conflict, a stale fence or that others were in the way, is an answer and no failure.

    Args:
        store: The store.
        timeout_s: The limit of each call; None leaves it to the store.
        breaker: Shared, where several handles reach one server.
    """

    def __init__(self, store: Store, *, timeout_s: float | None, breaker: Breaker | None = None) -> None:
        self.inner = store
        self.backend: str = store.backend
        self.durability: Durability = store.durability
        # A store in this process never waits, and a time limit would cost more than its calls.
        self._timeout_s = None if isinstance(store, MemoryStore) else timeout_s
        self.breaker = Breaker() if breaker is None else breaker

    async def _call(self, operation: str, call: Callable[[], Awaitable[T]], *, op_id: str | None, writes: bool) -> T:
        if not self.breaker.allows():
            raise lost.unavailable(self.backend, operation, ConnectionError("left alone after failures in a row"))
        try:
            answer = await (call() if self._timeout_s is None else _within(self._timeout_s, call))
        except (TimeoutError, asyncio.TimeoutError) as error:
            self.breaker.failed()
            cause = TimeoutError(f"no answer within {self._timeout_s} s")
            if writes:
                raise lost.unknown(self.backend, operation, cause, is_repeatable=op_id is not None) from error
            raise lost.unavailable(self.backend, operation, cause) from error
        except (StoreBusyError, TornRecordError, UnreplicatedError):
            # the store answers: others were in the way, this one record is broken, or its replicas are behind
            self.breaker.succeeded()
            raise
        except StoreUnavailableError:
            self.breaker.failed()
            raise
        except ClosedError:
            raise
        except Exception:
            self.breaker.succeeded()
            raise
        self.breaker.succeeded()
        return answer

    async def read(self, key: str, *, log_from: int = 0) -> Record | None:
        """As the store."""
        return await self._call("read", lambda: self.inner.read(key, log_from=log_from), op_id=None, writes=False)

    async def write(
        self,
        key: str,
        head: Blob,
        *,
        expected: Version | Absent | None,
        append: Sequence[Entry] = (),
        keep: int | None = None,
        ttl_s: float | None,
        tags: Mapping[str, str] | None = None,
        fence: int | None = None,
        op_id: str | None = None,
    ) -> Version:
        """As the store."""
        return await self._call(
            "write",
            lambda: self.inner.write(
                key,
                head,
                expected=expected,
                append=append,
                keep=keep,
                ttl_s=ttl_s,
                tags=tags,
                fence=fence,
                op_id=op_id,
            ),
            op_id=op_id,
            writes=True,
        )

    async def read_log(self, key: str, *, kind: str | None, before: int | None = None, limit: int = 50) -> list[Entry]:
        """As the store."""
        return await self._call(
            "read_log",
            lambda: self.inner.read_log(key, kind=kind, before=before, limit=limit),
            op_id=None,
            writes=False,
        )

    async def touch(self, key: str, ttl_s: float | None, *, op_id: str | None = None) -> bool:
        """As the store."""
        return await self._call("touch", lambda: self.inner.touch(key, ttl_s, op_id=op_id), op_id=op_id, writes=True)

    async def delete(
        self, key: str, *, expected: Version | None = None, fence: int | None = None, op_id: str | None = None
    ) -> bool:
        """As the store."""
        return await self._call(
            "delete",
            lambda: self.inner.delete(key, expected=expected, fence=fence, op_id=op_id),
            op_id=op_id,
            writes=True,
        )

    async def find(self, /, **tags: str) -> AsyncIterator[str]:
        """As the store; the limit holds for each key it yields."""
        keys = self.inner.find(**tags).__aiter__()
        while True:
            try:
                key = await self._call("find", keys.__anext__, op_id=None, writes=False)
            except StopAsyncIteration:
                return
            yield key

    async def sweep(self) -> int:
        """As the store, without the time limit: it takes as many batches as it takes."""
        return await self.inner.sweep() if isinstance(self.inner, Sweeping) else 0

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        """As the store, without the time limit; nothing where it has no schema."""
        migrate = getattr(self.inner, "migrate", None)
        return [] if migrate is None else await migrate(dry_run=dry_run)

    async def aclose(self) -> None:
        """As the store."""
        await self.inner.aclose()

    def __repr__(self) -> str:
        return f"GuardedStore({self.inner!r})"
