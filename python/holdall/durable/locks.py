"""Locks by lease: what a lock service implements, and what holds one for as long as it is needed.

A lock keeps workers from doing the same work twice; it does not make their writes safe. A holder that was stopped past the
end of its lease does not know that it lost it. What keeps its write out is the fence, which the record itself compares.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable


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
