"""Redlock: one lock out of several independent ones, which is held as long as a majority of them says so."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from holdall.durable.locks import Lock, usable_s
from holdall.errors import ArgumentError, ClosedError, StoreUnavailableError

NODE_TIMEOUT_S: Final = 0.2
_LEAST_NODES: Final = 3


class Redlock:
    """A lock over N independent lock services, which survives the loss of a minority of them.

    All are asked at once. The lock is held if a majority gave it and the lease, less what asking took and less an allowance
    for clocks that run at different speeds, has not ended yet; else it is given back everywhere. Independent means: no
    replicas of each other. A majority whose clocks jump ahead lets a second holder in while the first still works; what
    keeps the first one's writes out then is the fence.

    Args:
        nodes: Three or more, an odd number for the best of them: of five, two may be down.
        node_timeout_s: How long one node may take to answer; small against the leases.
        clock: Monotonic seconds; for tests.

    Source: https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/
    """

    backend = "redlock"

    def __init__(
        self,
        nodes: Sequence[Lock],
        *,
        node_timeout_s: float = NODE_TIMEOUT_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if len(nodes) < _LEAST_NODES:
            raise ArgumentError(f"Redlock needs {_LEAST_NODES} or more independent nodes, not {len(nodes)}")
        if not node_timeout_s > 0:
            raise ArgumentError(f"node_timeout_s is {node_timeout_s}; it must be above 0")
        self._nodes = tuple(nodes)
        self._quorum = len(nodes) // 2 + 1
        self._node_timeout_s = node_timeout_s
        self._clock = clock
        self._is_closed = False

    async def acquire(self, name: str, token: str, ttl_s: float) -> bool:
        """Take the name on a majority; False where others hold it on so many that there is none.

        Raises:
            StoreUnavailableError: So many nodes cannot be reached that there is no majority; nothing is held.
        """
        started = self._clock()
        try:
            n_yes, errors = await self._ask(lambda node: node.acquire(name, token, ttl_s))
        except asyncio.CancelledError:
            await asyncio.shield(self._give_back(name, token))
            raise
        if n_yes >= self._quorum and self._clock() - started < usable_s(ttl_s):
            return True
        await self._give_back(name, token)
        self._check_majority("acquire", errors)
        return False

    async def extend(self, name: str, token: str, ttl_s: float) -> bool:
        """Let the lease end later on a majority; False where this token no longer holds one.

        Raises:
            StoreUnavailableError: So many nodes cannot be reached that there is no majority.
        """
        started = self._clock()
        n_yes, errors = await self._ask(lambda node: node.extend(name, token, ttl_s))
        if n_yes >= self._quorum:
            return self._clock() - started < usable_s(ttl_s)
        self._check_majority("extend", errors)
        return False

    async def release(self, name: str, token: str) -> bool:
        """Give the name back on every node that answers; False where this token held it on none or a few."""
        self._check_open()
        return await self._give_back(name, token) >= self._quorum

    async def aclose(self) -> None:
        """Close every node."""
        self._is_closed = True
        await asyncio.gather(*(node.aclose() for node in self._nodes))

    async def _give_back(self, name: str, token: str) -> int:
        # also where the answer was no or none: a lease that nobody knows of would keep others out until it ends
        return (await self._ask(lambda node: node.release(name, token)))[0]

    async def _ask(self, call: Callable[[Lock], Awaitable[bool]]) -> tuple[int, list[Exception]]:
        self._check_open()
        answers = await asyncio.gather(*(self._ask_one(call, node) for node in self._nodes))
        return sum(answer is True for answer in answers), [
            answer for answer in answers if isinstance(answer, Exception)
        ]

    async def _ask_one(self, call: Callable[[Lock], Awaitable[bool]], node: Lock) -> bool | Exception:
        try:
            return await asyncio.wait_for(call(node), self._node_timeout_s)
        except (StoreUnavailableError, asyncio.TimeoutError) as error:
            return error

    def _check_majority(self, operation: str, errors: Sequence[Exception]) -> None:
        n_reached = len(self._nodes) - len(errors)
        if n_reached < self._quorum:
            raise StoreUnavailableError(
                f"redlock {operation}: {n_reached} of {len(self._nodes)} nodes answered and {self._quorum} are needed: "
                "nothing is held; see that they run, or try again",
                backend=self.backend,
                operation=operation,
                cause=f"{errors[0]}" or type(errors[0]).__name__,
            ) from errors[0]

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("this Redlock was closed; make a new one")
