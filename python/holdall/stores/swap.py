"""Writes on a backend that knows one conditional step: replace what lies under a key if it is still what was read.

MongoDB, DynamoDB and S3 run the rules here, in the worker, and not in a script of their own. A call reads what lies under its
key, asks `rules` what the call means, and replaces it if nobody came before; else it begins again with what is there then. So a
call whose first copy is late never has a second effect: it names a revision that is gone.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from holdall.errors import ConflictError
from holdall.stores import lost, rules

_T = TypeVar("_T")
_Rest = TypeVar("_Rest")

# How the driver's error is to be read: the reply was lost; the request was never sent; the server refused it.
Failure = Literal["lost", "unsent", "refused"]

# Each is lost only to a call that got through, so that this many in a row want that many writers of one key at once.
_ATTEMPTS = 200
_LEAST_BACKOFF_S = 0.002
_MOST_BACKOFF_S = 0.1
# Records whose decisive part is remembered: what was read last or written last is what is written next.
_SEEN = 512


@dataclass(frozen=True)
class Held(Generic[_Rest]):
    """What lies under a key: what decides, and what the backend needs to replace it.

    Attributes:
        meta: None where there is nothing, or only what cannot be told from nothing.
        rest: The revision to name, and what is carried over to the next one; None where there is nothing.
    """

    meta: rules.Meta | None
    rest: _Rest | None


class Overtaken(Exception):  # noqa: N818 - no error: another call came first, and this one begins again
    """What was to be replaced has changed since it was read; nothing was written."""

    def __init__(self, now: Held[Any] | None = None) -> None:
        """Bring what lies there now, where the backend said so."""
        super().__init__("overtaken")
        self.now = now


class Sent:
    """Whether a request is out that changes a record, so that a lost reply leaves its outcome open."""

    __slots__ = ("is_out",)

    def __init__(self) -> None:
        self.is_out = False

    def __enter__(self) -> None:
        self.is_out = True

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        # after an error it is for `call` to say what the error means
        if error is None or isinstance(error, Overtaken):
            self.is_out = False


class Swaps(Generic[_Rest]):
    """Runs calls against one backend: retries, outcomes, and what was seen last of each key.

    Args:
        backend: Its name, for errors.
        failure_of: How an error of the driver is to be read, None for one that is not a driver's.
        now: The clock, Unix seconds.
        is_shielded: Whether a call that is cancelled runs on to its end, unheard: for a driver that leaks the socket, or leaves
            the transaction, of a call that is cancelled.
        n_seen: Of how many records the decisive part is remembered.
    """

    def __init__(
        self,
        backend: str,
        failure_of: Callable[[Exception], Failure | None],
        now: Callable[[], float],
        *,
        is_shielded: bool = False,
        n_seen: int = _SEEN,
    ) -> None:
        self._backend = backend
        self._failure_of = failure_of
        self._now = now
        self._is_shielded = is_shielded
        self._n_seen = n_seen
        self._running: set[asyncio.Future[Any]] = set()
        self._seen: OrderedDict[str, Held[_Rest]] = OrderedDict()
        # calls of this process that change one record take turns: each knows then what the one before it left
        self._turns: dict[str, tuple[asyncio.Lock, int]] = {}

    async def call(self, operation: str, work: Callable[[Sent], Awaitable[_T]], *, is_repeatable: bool) -> _T:
        """Run `work`, once more after a lost connection if it is repeatable or had sent nothing that changes a record.

        Raises:
            StoreUnavailableError: The server cannot be reached, or refused; nothing was written.
            OutcomeUnknownError: The reply to a write was lost.
        """
        if not self._is_shielded:
            return await self._attempts(operation, work, is_repeatable=is_repeatable)
        running = asyncio.ensure_future(self._attempts(operation, work, is_repeatable=is_repeatable))
        self._running.add(running)
        running.add_done_callback(self._ended)
        return await asyncio.shield(running)

    def _ended(self, running: asyncio.Future[Any]) -> None:
        self._running.discard(running)
        if not running.cancelled():
            # heard here, since a caller that was cancelled hears nothing
            running.exception()

    async def _attempts(self, operation: str, work: Callable[[Sent], Awaitable[_T]], *, is_repeatable: bool) -> _T:
        was_sent = False
        for is_last in (False, True):
            sent = Sent()
            try:
                return await work(sent)
            except Exception as error:
                failure = self._failure_of(error)
                if failure is None:
                    raise
                was_sent = was_sent or (sent.is_out and failure == "lost")
                if failure == "lost" and not is_last and (is_repeatable or not was_sent):
                    continue
                if was_sent:
                    raise lost.unknown(self._backend, operation, error, is_repeatable=is_repeatable) from error
                raise lost.unavailable(self._backend, operation, error) from error
        raise AssertionError("the second attempt returns or raises")

    async def change(
        self,
        operation: str,
        key: str,
        *,
        fetch: Callable[[], Awaitable[Held[_Rest]]],
        decide: Callable[[rules.Meta | None, float], tuple[_T, rules.Meta | None]],
        replace: Callable[[Held[_Rest], rules.Meta, Sent], Awaitable[_Rest]],
        is_repeatable: bool,
        is_new: bool = False,
    ) -> _T:
        """Decide and replace, again and again while others come first.

        Args:
            operation: For errors.
            key: Of the record.
            fetch: Reads what lies under the key.
            decide: The rules: the answer of the call, and what is known of the key after it, None where nothing changes.
            replace: Writes what is known after the call in place of what was held, or raises `Overtaken`.
            is_repeatable: Whether the call has one effect however often it is made.
            is_new: Whether the caller takes the key for a new one, so that nothing needs to be read first.
        """

        async def work(sent: Sent) -> _T:
            held = self._seen.pop(key, None)
            is_fresh = False
            if held is None and is_new:
                held = Held(None, None)
            for attempt in range(_ATTEMPTS):
                if held is None:
                    held, is_fresh = await fetch(), True
                try:
                    answer, meta = decide(held.meta, self._now())
                except ConflictError:
                    if is_fresh:
                        self.see(key, held)
                        raise
                    # what was remembered is a guess good enough to try, never to refuse by
                    held = None
                    continue
                if meta is None:
                    if is_fresh:
                        self.see(key, held)
                        return answer
                    held = None
                    continue
                try:
                    rest = await replace(held, meta, sent)
                except Overtaken as overtaken:
                    held, is_fresh = overtaken.now, overtaken.now is not None
                    if attempt:
                        await asyncio.sleep(_backoff_s(attempt))
                        # what the refusal brought is old by now
                        held = None
                    continue
                self.see(key, Held(meta, rest))
                return answer
            raise lost.busy(self._backend, operation, f"others came first {_ATTEMPTS} times over")

        async with self._turn(key):
            return await self.call(operation, work, is_repeatable=is_repeatable)

    @contextlib.asynccontextmanager
    async def _turn(self, key: str) -> AsyncIterator[None]:
        lock, n = self._turns.get(key, (asyncio.Lock(), 0))
        self._turns[key] = lock, n + 1
        try:
            async with lock:
                yield
        finally:
            lock, n = self._turns[key]
            if n > 1:
                self._turns[key] = lock, n - 1
            else:
                del self._turns[key]

    def see(self, key: str, held: Held[_Rest]) -> None:
        """Remember what lies under a key, so that the next write of it need not read it."""
        self._seen[key] = held
        self._seen.move_to_end(key)
        while len(self._seen) > self._n_seen:
            self._seen.popitem(last=False)

    async def end(self) -> None:
        """Wait for calls that run on unheard, and let go of everything that was seen."""
        if self._running:
            await asyncio.wait(self._running)
        self._seen.clear()


def _backoff_s(attempt: int) -> float:
    most = min(_MOST_BACKOFF_S, _LEAST_BACKOFF_S * 2 ** min(attempt, 8))
    return random.uniform(0, most)  # noqa: S311 - jitter, not a secret
