"""Redlock over independent nodes: some die, some are slow, some have clocks that jump."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import pytest

from holdall import ArgumentError, LockedStateStore, LockLostError, RedisLock, Redlock, SessionState, StaleFenceError
from holdall.durable.locks import Lock, hold, usable_s
from holdall.durable.session_store import SessionStore
from holdall.errors import ClosedError, StoreUnavailableError
from holdall.stores.memory_lock import MemoryLock
from tests.servers.redis import Node, valkey_program

TTL_S = 10.0


@pytest.fixture
def name() -> str:
    return f"lock {uuid4().hex}"


class Away(MemoryLock):
    """A node that can be away, or slow, and remembers what it was asked."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.is_away = False
        self.delay_s = 0.0
        self.asked: list[str] = []

    async def _meet(self, what: str) -> None:
        self.asked.append(what)
        await asyncio.sleep(self.delay_s)
        if self.is_away:
            raise StoreUnavailableError("away", backend="test", operation=what, cause="test")

    async def acquire(self, name: str, token: str, ttl_s: float) -> bool:
        await self._meet("acquire")
        return await super().acquire(name, token, ttl_s)

    async def extend(self, name: str, token: str, ttl_s: float) -> bool:
        await self._meet("extend")
        return await super().extend(name, token, ttl_s)

    async def release(self, name: str, token: str) -> bool:
        await self._meet("release")
        return await super().release(name, token)


def five(**options: Any) -> list[Away]:
    return [Away(**options) for _ in range(5)]


def redlock(nodes: list[Away], **options: Any) -> Redlock:
    return Redlock(nodes, **{"node_timeout_s": 0.1, **options})


async def test_a_majority_gives_the_lock(name: str) -> None:
    """One token at a time; a release reaches every node."""
    nodes = five()
    lock = redlock(nodes)
    assert isinstance(lock, Lock)
    assert await lock.acquire(name, "a", TTL_S)
    assert not await lock.acquire(name, "b", TTL_S)
    assert await lock.extend(name, "a", TTL_S)
    assert not await lock.extend(name, "b", TTL_S)
    assert not await lock.release(name, "b")
    assert await lock.release(name, "a")
    assert not await lock.release(name, "a")
    assert all(node._held == {} for node in nodes)
    await lock.aclose()
    with pytest.raises(ClosedError):
        await lock.acquire(name, "a", TTL_S)
    with pytest.raises(ClosedError):
        await lock.release(name, "a")


@pytest.mark.parametrize("n_away", [1, 2])
async def test_without_a_minority_it_goes_on(name: str, n_away: int) -> None:
    """Two of five are away."""
    nodes = five()
    for node in nodes[:n_away]:
        node.is_away = True
    lock = redlock(nodes)
    assert await lock.acquire(name, "a", TTL_S)
    assert not await lock.acquire(name, "b", TTL_S)
    assert await lock.extend(name, "a", TTL_S)
    assert await lock.release(name, "a")
    assert await lock.acquire(name, "b", TTL_S)


async def test_without_a_majority_there_is_a_typed_error_and_no_lock(name: str) -> None:
    """What the others gave is given back, and the error says how many answered."""
    nodes = five()
    for node in nodes[:3]:
        node.is_away = True
    lock = redlock(nodes)
    with pytest.raises(StoreUnavailableError, match="2 of 5 nodes answered and 3 are needed") as caught:
        await lock.acquire(name, "a", TTL_S)
    assert (caught.value.backend, caught.value.operation) == ("redlock", "acquire")
    assert all(node._held == {} for node in nodes)
    with pytest.raises(StoreUnavailableError):
        await lock.extend(name, "a", TTL_S)
    assert not await lock.release(name, "a")


async def test_a_slow_node_is_not_waited_for(name: str) -> None:
    """Longer than its time; all are asked at once."""
    nodes = five()
    for node in nodes[:2]:
        node.delay_s = 30.0
    started = time.monotonic()
    assert await redlock(nodes).acquire(name, "a", TTL_S)
    assert time.monotonic() - started < 5
    assert all(node.asked == ["acquire"] for node in nodes)


async def test_two_that_share_the_nodes_both_get_none(name: str) -> None:
    """Split two and two with one away: neither has a majority, and both give back what they had."""
    nodes = five()
    nodes[4].is_away = True
    for node in nodes[:2]:
        await MemoryLock.acquire(node, name, "other", TTL_S)
    lock = redlock(nodes)
    assert not await lock.acquire(name, "a", TTL_S)
    assert [sorted(token for token, _ in node._held.values()) for node in nodes] == [["other"], ["other"], [], [], []]


async def test_a_lease_that_took_too_long_to_get_is_none(name: str) -> None:
    """What asking took, and the allowance for drift, are taken off."""
    now = 0.0
    nodes = five()
    lock = redlock(nodes, clock=lambda: now)

    class Late(MemoryLock):
        async def acquire(self, name: str, token: str, ttl_s: float) -> bool:
            nonlocal now
            now += usable_s(TTL_S) / 2
            return await super().acquire(name, token, ttl_s)

    assert await lock.acquire(name, "a", TTL_S)
    late = Redlock([*nodes[:3], Late(), Late()], clock=lambda: now)
    assert not await late.acquire(f"{name} 2", "a", TTL_S)
    assert all(f"{name} 2" not in node._held for node in nodes)


async def test_a_cancelled_attempt_is_given_back(name: str) -> None:
    """Wherever it got to."""
    nodes = five()
    nodes[0].delay_s = 0.05
    task = asyncio.ensure_future(redlock(nodes).acquire(name, "a", TTL_S))
    await asyncio.sleep(0.01)
    assert len(nodes[1]._held) == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert all(node._held == {} for node in nodes)


async def test_a_minority_whose_clocks_jump_changes_nothing(name: str) -> None:
    """Two of five think that the lease is over: the other three still refuse."""
    clocks = [0.0] * 5
    nodes = [Away(now=lambda at=at: clocks[at]) for at in range(5)]
    lock = redlock(nodes)
    assert await lock.acquire(name, "a", TTL_S)
    clocks[0] = clocks[1] = 3600.0
    assert not await lock.acquire(name, "b", TTL_S)
    assert await lock.extend(name, "a", TTL_S)


async def test_a_majority_whose_clocks_jump_is_survived_by_the_fence(store: SessionStore) -> None:
    """Two hold the lock at once, which no lock can prevent; the first one's write is refused, and it hears of its loss."""
    clocks = [0.0] * 5
    lock = redlock([Away(now=lambda at=at: clocks[at]) for at in range(5)])
    locked = LockedStateStore(store, lock, ttl_s=1.0)
    state = SessionState(session_id=f"s-{uuid4().hex}", user_id="u")
    await store.save(state)

    async def first() -> None:
        async with locked.hold(state.session_id) as held:
            clocks[:3] = [3600.0] * 3
            async with locked.hold(state.session_id) as other:
                assert held.lease.is_held
                other.state.summary = "second"
                await other.save()
                held.state.summary = "first"
                with pytest.raises(StaleFenceError):
                    await held.save()
                # at its next extension, at the latest
                await asyncio.sleep(5)

    with pytest.raises(LockLostError):
        await first()
    assert (await store.load(state.session_id)).summary == "second"


def test_arguments_are_checked() -> None:
    """Two nodes have no majority that survives anything."""
    with pytest.raises(ArgumentError):
        Redlock([MemoryLock(), MemoryLock()])
    with pytest.raises(ArgumentError):
        Redlock(five(), node_timeout_s=0)


# --- real servers


@pytest.fixture(scope="module")
def servers() -> Iterator[list[Node]]:
    nodes: list[Node] = []
    try:
        nodes += [Node(valkey_program()) for _ in range(5)]
        yield nodes
    finally:
        for node in nodes:
            node.stop()


@pytest.fixture
async def real(servers: list[Node]) -> AsyncIterator[Redlock]:
    lock = Redlock([RedisLock(node.url, timeout_s=1.0) for node in servers], node_timeout_s=1.0)
    yield lock
    await lock.aclose()


@pytest.mark.redis
async def test_killed_nodes(servers: list[Node], real: Redlock, name: str) -> None:
    """Two of five are killed while the lock is held: it is held on. A third: a typed error, and no lock. Back: all as ever."""
    async with hold(real, name, ttl_s=0.9) as lease:
        for node in servers[:2]:
            node.kill()
        # past the first lease: it was extended by the three
        await asyncio.sleep(1.2)
        lease.check()
        assert not await real.acquire(name, "other", TTL_S)
    assert await real.acquire(name, "a", TTL_S)
    assert await real.release(name, "a")

    async def work() -> None:
        async with hold(real, name, ttl_s=0.9):
            servers[2].kill()
            await asyncio.sleep(10)

    with pytest.raises(LockLostError):
        await work()
    with pytest.raises(StoreUnavailableError):
        await real.acquire(name, "a", TTL_S)
    with pytest.raises(StoreUnavailableError):
        async with hold(real, name):
            pass
    for node in servers[:3]:
        node.start()
    assert await real.acquire(name, "b", TTL_S)
    assert await real.release(name, "b")
    for node in servers:
        with node.client() as client:
            assert client.dbsize() == 0


@pytest.mark.redis
async def test_holders_take_turns_on_real_nodes(real: Redlock, name: str) -> None:
    """Never two at a time, also where they split the nodes between them."""
    inside = most = 0

    async def work() -> None:
        nonlocal inside, most
        async with hold(real, name, ttl_s=20.0):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.002)
            inside -= 1

    await asyncio.gather(*(work() for _ in range(6)))
    assert most == 1
