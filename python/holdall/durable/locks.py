"""Locks by lease: what a lock service implements, and what holds one for as long as it is needed.

A lock keeps workers from doing the same work twice; it does not make their writes safe. A holder that was stopped past the
end of its lease does not know that it lost it. What keeps its write out is the fence, which the record itself compares.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, Protocol, runtime_checkable

from holdall.durable.finish import finish, settle
from holdall.errors import ArgumentError, LockHeldError, LockLostError, StoreUnavailableError

TTL_S: Final = 30.0
# Longer than a lease: who waits outlives that of a holder that took it meanwhile and died.
WAIT_S: Final = 2 * TTL_S
_LEAST_TTL_S: Final = 0.02
# Clocks of holder and service may run at speeds that differ by a hundredth, and the service rounds to milliseconds.
_DRIFT: Final = 0.01
_DRIFT_S: Final = 0.002
# Two more attempts fit into what is left of the lease after the first that fails.
_EXTENDED_AFTER: Final = 1 / 3
_TRIED_AGAIN_AFTER: Final = 1 / 10
_BACKOFF_S: Final = 0.02
_MOST_BACKOFF_S: Final = 0.25
# A release that takes longer is left to the end of the lease.
_RELEASE_S: Final = 2.0


@runtime_checkable
class Lock(Protocol):
    """A lock service: names, each held by at most one token for at most `ttl_s` seconds. It keeps no state of its own.

    A token is drawn at random for every attempt to take a name, so that nobody gives back or extends what another holds.
    Every call may raise `StoreUnavailableError`, and may have had its effect then: whoever gets one from `acquire` calls
    `release`. The service's own clock ends a lease; a caller counts from before its call, so that it ends first.
    """

    backend: str

    async def acquire(self, name: str, token: str, ttl_s: float) -> bool:
        """Take the name for `ttl_s` seconds from now; False where another token holds it. Repeatable with the same token."""
        ...

    async def extend(self, name: str, token: str, ttl_s: float) -> bool:
        """Let the lease end `ttl_s` seconds from now; False, and nothing done, where this token does not hold the name."""
        ...

    async def release(self, name: str, token: str) -> bool:
        """Give the name back; False, and nothing done, where this token does not hold it."""
        ...

    async def aclose(self) -> None:
        """Give back connections. Idempotent; a later call raises `ClosedError`."""
        ...


def usable_s(ttl_s: float) -> float:
    """Return for how long after asking a lease of `ttl_s` seconds may be relied on."""
    return ttl_s * (1 - _DRIFT) - _DRIFT_S


class Lease:
    """A lock that is held, and what is known of for how long.

    Attributes:
        name: What is held.
        token: What it is held under.
    """

    def __init__(
        self, lock: Lock, name: str, token: str, *, ttl_s: float, ends: float, clock: Callable[[], float]
    ) -> None:
        self.name: Final = name
        self.token: Final = token
        self._lock = lock
        self._ttl_s = ttl_s
        self._ends = ends
        self._clock = clock
        self._lost = asyncio.Event()
        self._failed: Exception | None = None

    @property
    def remaining_s(self) -> float:
        """Seconds for which it is surely held, if nothing extends it; 0 where it is lost."""
        return 0.0 if self._lost.is_set() else max(0.0, self._ends - self._clock())

    @property
    def is_held(self) -> bool:
        """Whether it is surely held."""
        return self.remaining_s > 0

    def check(self) -> None:
        """Return if it is surely held.

        Raises:
            LockLostError: It is not, or no longer.
        """
        if not self.is_held:
            raise self.error()

    def error(self) -> LockLostError:
        """Return the error that says that it was lost."""
        error = LockLostError(
            f"the lease of {self.name!r} ended while it was in use: load again under a new lock before you write",
            name=self.name,
        )
        error.__cause__ = self._failed
        return error

    async def lost(self) -> None:
        """Wait until it is lost."""
        await self._lost.wait()

    async def keep(self) -> None:
        """Extend it again and again; return when it is lost, at its end at the latest."""
        pause_s = self._ttl_s * _EXTENDED_AFTER
        while self.is_held:
            await asyncio.sleep(min(pause_s, self.remaining_s))
            if not self.is_held:
                break
            started = self._clock()
            try:
                is_ours = await asyncio.wait_for(
                    self._lock.extend(self.name, self.token, self._ttl_s), self.remaining_s
                )
            except Exception as error:  # noqa: BLE001 - whatever it is that a lock of the caller's own raises
                # perhaps it is back before the lease ends
                self._failed = error
                pause_s = self._ttl_s * _TRIED_AGAIN_AFTER
                continue
            if not is_ours:
                break
            pause_s = self._ttl_s * _EXTENDED_AFTER
            self._ends = started + usable_s(self._ttl_s)
        self._lost.set()


@contextlib.asynccontextmanager
async def hold(
    lock: Lock,
    name: str,
    *,
    ttl_s: float = TTL_S,
    wait_s: float | None = WAIT_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    random: Callable[[], float] = random.random,
) -> AsyncIterator[Lease]:
    """Hold a lock for as long as the body runs: wait for it, extend it in the background, give it back.

    If it is lost meanwhile, because the service forgot it, cannot be reached, or this process was stopped for too long, the
    body is cancelled at its next await, and `LockLostError` comes out of the `async with`.

    Args:
        lock: The lock service.
        name: What to hold.
        ttl_s: How long others wait at most for a holder that died. It is extended after a third of it.
        wait_s: How long to wait for another holder; None for as long as it takes, 0 for not at all. Less than `ttl_s`, it may
            end before the lease of a holder that died.
        clock: Monotonic seconds; for tests.
        sleep: Waits between attempts; for tests.
        random: Draws from 0 up to 1; for tests.

    Raises:
        LockHeldError: Somebody else held it for all of `wait_s`.
        LockLostError: It was lost while the body ran.
        StoreUnavailableError: The lock service cannot be reached.
    """
    if not ttl_s > _LEAST_TTL_S:
        raise ArgumentError(f"ttl_s is {ttl_s}; a lease must be longer than {_LEAST_TTL_S} s")
    lease = await _acquired(lock, name, ttl_s=ttl_s, wait_s=wait_s, clock=clock, sleep=sleep, draw=random)
    guard = _Guard(lease)
    try:
        yield lease
    except asyncio.CancelledError:
        if await guard.ended():
            error = lease.error()
            raise error from error.__cause__
        raise
    except BaseException:
        await guard.ended()
        raise
    else:
        # a body that never awaited may have outlasted its lease before anybody could cancel it
        if await guard.ended() or not lease.is_held:
            raise lease.error()
    finally:
        with contextlib.suppress(StoreUnavailableError, asyncio.TimeoutError):
            await finish(asyncio.wait_for(lock.release(name, lease.token), _RELEASE_S))


class _Guard:
    """Keeps a lease, and cancels the task that relies on it when it is lost."""

    def __init__(self, lease: Lease) -> None:
        self._body: Any = asyncio.current_task()
        self._n_before = self._n_cancelled()
        self._has_cancelled = False
        self._is_over = False
        self._watch = asyncio.ensure_future(self._run(lease))

    async def _run(self, lease: Lease) -> None:
        await lease.keep()
        if self._is_over:
            # `wait_for` before Python 3.12 may swallow the cancellation by `ended`: the body is another's by now
            return
        self._has_cancelled = True
        self._body.cancel()

    async def ended(self) -> bool:
        """Stop, and take back the cancellation; whether there was one, and nobody else cancelled the task."""
        self._is_over = True
        self._watch.cancel()
        if not self._has_cancelled:
            return False
        # one that was not delivered yet would meet the next await of whoever is outside
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0)
        if sys.version_info >= (3, 11):
            self._body.uncancel()
        return self._n_cancelled() <= self._n_before

    def _n_cancelled(self) -> int:
        return int(self._body.cancelling()) if sys.version_info >= (3, 11) else 0


async def _acquired(
    lock: Lock,
    name: str,
    *,
    ttl_s: float,
    wait_s: float | None,
    clock: Callable[[], float],
    sleep: Callable[[float], Awaitable[None]],
    draw: Callable[[], float],
) -> Lease:
    token = secrets.token_hex(16)
    first, ceiling = clock(), _BACKOFF_S
    while True:
        asked = clock()
        try:
            is_ours = await lock.acquire(name, token, ttl_s)
        except BaseException:
            # it may have been given all the same
            await settle(lock.release(name, token), grace_s=_RELEASE_S, goes_on=True)
            raise
        if is_ours:
            lease = Lease(lock, name, token, ttl_s=ttl_s, ends=asked + usable_s(ttl_s), clock=clock)
            if lease.is_held:
                return lease
            await settle(lock.release(name, token), grace_s=_RELEASE_S, goes_on=True)
        waited_s = clock() - first
        if wait_s is not None and waited_s >= wait_s:
            raise LockHeldError(
                f"{name!r} is held by somebody else, and was for {waited_s:.3g} s: try again later, or raise wait_s",
                name=name,
                waited_s=waited_s,
            )
        pause_s = draw() * ceiling
        await sleep(pause_s if wait_s is None else min(pause_s, wait_s - waited_s))
        ceiling = min(2 * ceiling, _MOST_BACKOFF_S)
