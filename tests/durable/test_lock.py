"""Leases: waiting for them, keeping them, losing them, and what a lock service has to do."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from holdall import (
    ArgumentError,
    DynamoLock,
    LockedStateStore,
    LockHeldError,
    LockLostError,
    RedisLock,
    SessionState,
    StaleFenceError,
    state_store,
)
from holdall.durable.locks import TTL_S, Lease, Lock, hold, usable_s
from holdall.durable.session_store import SessionStore
from holdall.errors import ClosedError, StoreUnavailableError
from holdall.stores.memory import MemoryStore
from holdall.stores.memory_lock import MemoryLock
from tests.servers.process import free_port
from tests.servers.redis import Node


def add(state: SessionState) -> None:
    state.token_count += 1


@pytest.fixture(
    params=[
        "memory",
        pytest.param("redis", marks=pytest.mark.redis),
        pytest.param("dynamodb", marks=pytest.mark.dynamodb),
    ]
)
async def lock(request: pytest.FixtureRequest) -> AsyncIterator[Lock]:
    if request.param == "memory":
        made: Any = MemoryLock()
    elif request.param == "dynamodb":
        made = DynamoLock("locks", connect=request.getfixturevalue("aws_server").connect)
    else:
        node: Node = request.getfixturevalue("valkey_server")
        made = RedisLock(node.url)
    yield made
    await made.aclose()


@pytest.fixture
def name() -> str:
    return f"lock {uuid4().hex} {{}}*:é"


async def test_a_name_is_held_by_one_token(lock: Lock, name: str) -> None:
    """Another token can neither take nor extend nor release it; the same may ask again, as after a lost reply."""
    assert isinstance(lock, Lock)
    assert await lock.acquire(name, "a", 10.0)
    assert await lock.acquire(name, "a", 10.0)
    assert not await lock.acquire(name, "b", 10.0)
    assert not await lock.extend(name, "b", 10.0)
    assert not await lock.release(name, "b")
    assert await lock.extend(name, "a", 10.0)
    assert await lock.acquire(f"{name} other", "b", 10.0)
    assert await lock.release(name, "a")
    assert not await lock.release(name, "a")
    assert not await lock.extend(name, "a", 10.0)
    assert await lock.acquire(name, "b", 10.0)


async def test_a_lease_ends_by_itself(lock: Lock, name: str) -> None:
    """And what ended cannot be extended, also where nobody else has taken it."""
    assert await lock.acquire(name, "a", 0.06)
    assert await lock.acquire(f"{name} 2", "a", 1.0)
    assert await lock.extend(f"{name} 2", "a", 10.0)
    await _until(lambda: lock.acquire(name, "b", 0.06))
    await _until(lambda: _not(lock.extend(name, "b", 0.001)))
    assert not await lock.acquire(f"{name} 2", "b", 10.0)


async def _not(call: Any) -> bool:
    return not await call


async def _until(call: Any) -> None:
    for _ in range(200):
        if await call():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it never came")


async def test_a_closed_lock_says_so(lock: Lock, name: str) -> None:
    """Twice is once."""
    await lock.aclose()
    await lock.aclose()
    with pytest.raises(ClosedError):
        await lock.acquire(name, "a", 1.0)


async def test_holders_take_turns(lock: Lock, name: str) -> None:
    """Never two at a time; the lock is free at the end, also after an error."""
    inside = 0
    most = 0

    async def work() -> None:
        nonlocal inside, most
        async with hold(lock, name, ttl_s=5.0) as lease:
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0.001)
            assert lease.is_held
            inside -= 1

    await asyncio.gather(*(work() for _ in range(8)))
    assert most == 1
    with pytest.raises(ZeroDivisionError):
        async with hold(lock, name, wait_s=0):
            raise ZeroDivisionError
    assert await lock.acquire(name, "free", 1.0)


async def test_waiting_ends(lock: Lock, name: str) -> None:
    """With an error that says for how long; `wait_s=0` asks once."""
    await lock.acquire(name, "other", 30.0)
    with pytest.raises(LockHeldError) as caught:
        async with hold(lock, name, wait_s=0):
            pass
    assert caught.value.name == name
    with pytest.raises(LockHeldError) as caught:
        async with hold(lock, name, wait_s=0.05):
            pass
    assert caught.value.waited_s >= 0.05
    waiting = asyncio.ensure_future(_enter(lock, name))
    await asyncio.sleep(0.03)
    assert await lock.release(name, "other")
    await asyncio.wait_for(waiting, 5)
    with pytest.raises(ArgumentError):
        async with hold(lock, name, ttl_s=0.01):
            pass


async def test_who_waits_outlives_the_lease_of_a_holder_that_died(name: str) -> None:
    """By the defaults, also where the lease was given after the waiting began."""
    clock = [0.0]
    lock = MemoryLock(now=lambda: clock[0])
    await lock.acquire(name, "first", TTL_S)

    async def sleep(seconds: float) -> None:
        clock[0] += seconds
        if await lock.release(name, "first"):
            await lock.acquire(name, "died", TTL_S)

    async with hold(lock, name, clock=lambda: clock[0], sleep=sleep):
        assert TTL_S < clock[0] < TTL_S + 2


async def _enter(lock: Lock, name: str) -> None:
    async with hold(lock, name, wait_s=None):
        pass


async def test_a_lease_is_extended_while_it_is_used(lock: Lock, name: str) -> None:
    """Work may take longer than the lease; `remaining_s` never exceeds it."""
    async with hold(lock, name, ttl_s=1.0) as lease:
        for _ in range(20):
            await asyncio.sleep(0.07)
            assert 0 < lease.remaining_s <= usable_s(1.0)
            lease.check()
    assert await lock.acquire(name, "free", 1.0)


async def test_a_lease_that_is_taken_away_stops_the_work(lock: Lock, name: str) -> None:
    """The body is cancelled, and the error is ours and no cancellation: the task goes on."""
    seen: list[str] = []

    async def work() -> None:
        async with hold(lock, name, ttl_s=0.15) as lease:
            await lock.release(name, lease.token)
            await lock.acquire(name, "thief", 10.0)
            try:
                await asyncio.sleep(5)
            except asyncio.CancelledError:
                seen.append("cancelled")
                assert not lease.is_held
                await lease.lost()
                with pytest.raises(LockLostError):
                    lease.check()
                raise

    with pytest.raises(LockLostError) as caught:
        await work()
    assert seen == ["cancelled"]
    assert caught.value.name == name
    await asyncio.sleep(0)
    assert not await lock.acquire(name, "other", 1.0), "the thief's lease was given back"


class Silent(MemoryLock):
    """A service that takes no extensions: it hangs, or cannot be reached."""

    error: Exception = StoreUnavailableError("away", backend="test", operation="extend", cause="test")

    def __init__(self, *, hangs: bool) -> None:
        super().__init__()
        self.hangs = hangs
        self.n_asked = 0

    async def extend(self, name: str, token: str, ttl_s: float) -> bool:
        self.n_asked += 1
        if self.hangs:
            await asyncio.sleep(60)
        raise self.error


async def test_whatever_a_lock_raises_its_lease_ends(name: str) -> None:
    """A lock of one's own need not raise our errors: the body is cancelled all the same, and the error is the cause."""
    lock = Silent(hangs=False)
    lock.error = LookupError("mine")
    with pytest.raises(LockLostError) as caught:
        async with hold(lock, name, ttl_s=0.1):
            await asyncio.sleep(5)
    assert caught.value.__cause__ is lock.error


@pytest.mark.parametrize("hangs", [False, True], ids=["refuses", "hangs"])
async def test_a_lock_is_never_held_past_its_end(name: str, hangs: bool) -> None:
    """Where the service is away, it is tried again until the lease ends, and no longer."""
    lock = Silent(hangs=hangs)
    started = time.monotonic()
    with pytest.raises(LockLostError):
        async with hold(lock, name, ttl_s=0.2):
            await asyncio.sleep(60)
    assert time.monotonic() - started < 20
    assert lock.n_asked == 1 if hangs else lock.n_asked >= 2


async def test_a_process_that_stood_still_knows_when_it_asks(name: str) -> None:
    """Its loop did not run, so nobody could cancel it: the clock tells, before anything is sent."""

    async def work() -> None:
        async with hold(MemoryLock(), name, ttl_s=0.05) as lease:
            time.sleep(0.08)  # noqa: ASYNC251 - this is what is tested
            assert not lease.is_held
            lease.check()

    with pytest.raises(LockLostError):
        await work()
    with pytest.raises(LockLostError):
        async with hold(MemoryLock(), name, ttl_s=0.05):
            time.sleep(0.08)  # noqa: ASYNC251 - and nothing else: not even an await to be cancelled at


async def test_a_watch_that_outlives_its_lock_cancels_nobody(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`wait_for` before Python 3.12 swallows a cancellation that comes as the call ends: what runs then is not the body."""

    async def keep(_lease: Lease) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)

    monkeypatch.setattr(Lease, "keep", keep)
    async with hold(MemoryLock(), name):
        await asyncio.sleep(0)
    for _ in range(5):
        await asyncio.sleep(0)


async def test_the_wall_clock_does_not_matter(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour forward or back: the lease is counted on the monotonic clock."""
    wall = time.time()
    async with hold(MemoryLock(), name, ttl_s=5.0) as lease:
        for jump in (3600, -3600):
            monkeypatch.setattr(time, "time", lambda jump=jump: wall + jump)
            assert 4 < lease.remaining_s <= 5


async def test_work_that_ended_under_a_lost_lease_is_an_error(name: str) -> None:
    """Also where the cancellation had no await to be delivered at: it does not reach what follows."""
    lock = MemoryLock()

    async def work(error: Exception | None) -> None:
        async with hold(lock, name, ttl_s=0.05) as lease:
            await lock.release(name, lease.token)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(5)
            if error is not None:
                raise error

    with pytest.raises(LockLostError):
        await work(None)
    with pytest.raises(ValueError, match="mine"):
        await work(ValueError("mine"))
    await asyncio.sleep(0.01)


async def test_a_cancelled_holder_is_cancelled_and_gives_the_lock_back(lock: Lock, name: str) -> None:
    """While it waits, and while it works."""
    for is_held in (False, True):
        if is_held:
            await lock.acquire(name, "other", 30.0)
        task = asyncio.ensure_future(_work(lock, name))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await lock.acquire(name, "other", 30.0)
        await lock.release(name, "other")


class Slow(MemoryLock):
    """A service to which a release takes more than one turn of the loop."""

    async def release(self, name: str, token: str) -> bool:
        await asyncio.sleep(0.01)
        return await super().release(name, token)


async def test_a_holder_that_is_cancelled_at_every_await_gives_the_lock_back(name: str) -> None:
    """As anyio does it, until the task has ended: what gives the lock back goes on without it."""
    lock = Slow()
    task = asyncio.ensure_future(_work(lock, name))
    await asyncio.sleep(0.01)
    assert not await lock.acquire(name, "other", 30.0)
    while not task.done():
        task.cancel()
        await asyncio.sleep(0)
    assert task.cancelled()
    await asyncio.sleep(0.05)
    assert await lock.acquire(name, "other", 30.0)


async def _work(lock: Lock, name: str) -> None:
    async with hold(lock, name):
        await asyncio.sleep(60)


@pytest.mark.redis
async def test_a_service_that_is_away_is_a_typed_error(name: str) -> None:
    """Nothing is held."""
    lock = RedisLock(f"redis://127.0.0.1:{free_port()}", timeout_s=0.5)
    with pytest.raises(StoreUnavailableError):
        async with hold(lock, name):
            pass
    await lock.aclose()


# --- sessions under a lock


async def test_a_locked_session_is_written_by_one_worker_at_a_time(store: SessionStore, lock: Lock) -> None:
    """No update is repeated, none is lost, and each fence is higher than the one before."""
    state = SessionState(session_id=f"s-{uuid4().hex}", user_id="u")
    await store.save(state)
    fences: list[int] = []
    n_calls = 0

    def count(state: SessionState) -> None:
        nonlocal n_calls
        n_calls += 1
        add(state)

    async def work(locked: LockedStateStore) -> None:
        await locked.update(state.session_id, count)
        async with locked.hold(state.session_id) as held:
            fences.append(held.fence)
            add(held.state)
            await held.save()
            held.state.messages.append({"role": "user", "content": "hello"})
            await held.save()

    await asyncio.gather(*(work(LockedStateStore(store, lock)) for _ in range(3)))
    stored = await store.load(state.session_id)
    assert (stored.token_count, len(stored.messages), n_calls) == (6, 3, 3)
    assert fences == sorted(set(fences))


async def test_an_earlier_holder_is_kept_out_from_the_claim_on(store: SessionStore) -> None:
    """Not only once the next holder has written something: its first write is the claim."""
    state = SessionState(session_id=f"s-{uuid4().hex}", user_id="u")
    await store.save(state)
    lock = MemoryLock()
    locked = LockedStateStore(store, lock)
    async with locked.hold(state.session_id) as first:
        await lock.release(state.session_id, first.lease.token)
        async with locked.hold(state.session_id) as second:
            assert second.fence > first.fence
            add(first.state)
            with pytest.raises(StaleFenceError) as caught:
                await first.save()
            assert (caught.value.fence, caught.value.highest) == (first.fence, second.fence)
            await second.save()
    assert (await store.load(state.session_id)).token_count == 0


async def test_fences_go_on_over_a_delete(store: SessionStore) -> None:
    """The record counts from 1 again, its fences do not."""
    session_id = f"s-{uuid4().hex}"
    locked = LockedStateStore(store, MemoryLock())

    def make() -> SessionState:
        return SessionState(session_id=session_id, user_id="u")

    fences = []
    for _ in range(3):
        for _ in range(2):
            async with locked.hold(session_id, create=make) as held:
                await held.save()
                fences.append(held.fence)
        assert await store.delete(session_id, fence=fences[-1])
    assert fences == sorted(set(fences))
    async with locked.hold(session_id, create=make) as held:
        assert (held.state.version, held.fence) == (1, fences[-1] + 1)


async def test_nothing_is_sent_once_the_lease_is_over(store: SessionStore) -> None:
    """`held.save` and `update` look at the clock first."""
    state = SessionState(session_id=f"s-{uuid4().hex}", user_id="u")
    await store.save(state)
    locked = LockedStateStore(store, MemoryLock(), ttl_s=0.2)

    def slowly(state: SessionState) -> None:
        add(state)
        time.sleep(0.25)

    with pytest.raises(LockLostError):
        await locked.update(state.session_id, slowly)

    async def work() -> None:
        async with locked.hold(state.session_id) as held:
            slowly(held.state)
            await held.save()

    with pytest.raises(LockLostError):
        await work()
    assert (await store.load(state.session_id)).token_count == 0


async def test_an_update_whose_write_was_under_way_is_a_success(store: SessionStore) -> None:
    """The lease ended while the store wrote: the fence let it in, so it is not reported as lost."""

    class Slow:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def save(self, state: SessionState, **options: Any) -> Any:
            version = await store.save(state, **options)
            await asyncio.sleep(5)
            return version

    state = SessionState(session_id=f"s-{uuid4().hex}", user_id="u")
    await store.save(state)
    lock = MemoryLock()

    async def steal() -> None:
        await asyncio.sleep(0.05)
        lock._held.clear()

    thief = asyncio.ensure_future(steal())
    given = await LockedStateStore(Slow(), lock, ttl_s=0.3).update(state.session_id, add)  # type: ignore[arg-type]
    await thief
    assert (given.token_count, given.version) == (1, 2)
    assert (await store.load(state.session_id)).token_count == 1


async def test_writers_without_the_lock_are_met_by_trying_again(store: SessionStore) -> None:
    """Until the first fence is written; the function runs again on what they wrote."""

    class Busy:
        left = 2

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        async def save(self, state: SessionState, **options: Any) -> Any:
            if self.left:
                self.left -= 1
                other = await store.load(state.session_id)
                add(other)
                await store.save(other)
            return await store.save(state, **options)

    state = SessionState(session_id=f"s-{uuid4().hex}", user_id="u")
    await store.save(state)
    given = await LockedStateStore(Busy(), MemoryLock()).update(state.session_id, add)  # type: ignore[arg-type]
    assert (given.token_count, given.version) == (3, 4)


def test_a_lock_is_asked_for_at_once() -> None:
    sessions = SessionStore(MemoryStore())
    for made in (lambda: state_store(sessions, "lock"), lambda: LockedStateStore(sessions, "redis://h")):  # type: ignore[arg-type]
        with pytest.raises(ArgumentError, match="lock must be a lock service, such as RedisLock"):
            made()
