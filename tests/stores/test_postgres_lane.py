"""Connections to PostgreSQL that go from call to call: who waits longest is first, and none is lost or used twice."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from typing import Any

import asyncpg
import pytest

from holdall.errors import StoreUnavailableError
from holdall.stores import postgres_lane
from holdall.stores.base import ABSENT, Blob
from holdall.stores.postgres import PostgresStore
from holdall.stores.postgres_lane import Lanes
from tests.servers.postgres import Postgres


class Connection:
    def __init__(self) -> None:
        self.closed = False
        self.let_go = False

    def is_closed(self) -> bool:
        if self.let_go:
            raise asyncpg.InterfaceError("released back to the pool")
        return self.closed


class Pool:
    """A pool that counts, and gives a new connection each time."""

    def __init__(self, *, fails: int = 0) -> None:
        self.out: set[Connection] = set()
        self.made = 0
        self.n_expired = 0
        self.fails = fails
        self.closed = False

    async def acquire(self, *, timeout: float) -> Connection:
        assert timeout > 0
        await asyncio.sleep(0)
        if self.fails:
            self.fails -= 1
            raise OSError("no server")
        made = Connection()
        self.made += 1
        self.out.add(made)
        return made

    async def release(self, connection: Connection) -> None:
        await asyncio.sleep(0)
        self.out.remove(connection)

    async def expire_connections(self) -> None:
        self.n_expired += 1

    async def close(self) -> None:
        assert not self.out
        self.closed = True


def lanes(pool: Any, size: int = 2, timeout_s: float = 5.0) -> Lanes:
    return Lanes(pool, size=size, timeout_s=timeout_s)


async def test_who_has_waited_longest_is_first():
    """However often another asks meanwhile; and what one gives back the next has, without the pool."""
    pool = Pool()
    kept = lanes(pool)
    order: list[int] = []

    async def call(n: int) -> None:
        for _ in range(3):
            connection = await kept.take()
            order.append(n)
            await asyncio.sleep(0)
            await kept.give(connection, is_whole=True)

    await asyncio.gather(*(call(n) for n in range(6)))
    assert order == [*range(6)] * 3
    assert pool.made == 2
    await kept.close()
    assert pool.closed


async def test_a_call_that_is_cut_off_keeps_nobody_else_waiting():
    """At whichever await, waiting or connecting: the connections there are stay as many, and in use by one."""
    for n_steps in range(8):
        pool = Pool()
        kept = lanes(pool, size=1)
        first = await kept.take()
        waiting = [asyncio.create_task(kept.take()) for _ in range(2)]
        await asyncio.sleep(0)
        if n_steps % 2:
            await kept.give(first, is_whole=n_steps % 4 == 1)
        for _ in range(n_steps // 2):
            await asyncio.sleep(0)
        waiting[0].cancel()
        if not n_steps % 2:
            await kept.give(first, is_whole=True)
        done = await asyncio.gather(waiting[0], return_exceptions=True)
        if isinstance(done[0], Connection):
            await kept.give(done[0], is_whole=True)
        last = await asyncio.wait_for(waiting[1], 1)
        assert pool.out == {last}
        await kept.give(last, is_whole=True)
        await kept.close()


async def test_a_connection_that_failed_or_ended_is_not_used_again():
    """The pool gets it, and the next call one of its own."""
    pool = Pool()
    kept = lanes(pool)
    failed = await kept.take()
    await kept.give(failed, is_whole=False)
    assert not pool.out
    for how in ("closed", "let_go"):
        ended = await kept.take()
        await kept.give(ended, is_whole=True)
        setattr(ended, how, True)
        fresh = await kept.take()
        assert fresh not in (failed, ended)
        assert pool.out == {fresh}
        await kept.give(fresh, is_whole=True)
    fresh = await kept.take()
    assert pool.out == {fresh}
    await kept.give(fresh, is_whole=True)
    assert await kept.take() is fresh


async def test_who_waits_too_long_is_told():
    """And whoever comes later has its turn."""
    kept = lanes(Pool(), size=1, timeout_s=0.02)
    one = await kept.take()
    with pytest.raises(asyncio.TimeoutError):
        await kept.take()
    later = asyncio.create_task(kept.take())
    await asyncio.sleep(0)
    await kept.give(one, is_whole=True)
    assert await later is one


async def test_a_connection_that_cannot_be_had_is_another_ones_turn():
    """A server that was away for one call is there for those that waited."""
    kept = lanes(Pool(fails=1), size=1)
    calls = [asyncio.create_task(kept.take()) for _ in range(2)]
    with pytest.raises(OSError, match="no server"):
        await calls[0]
    assert isinstance(await asyncio.wait_for(calls[1], 1), Connection)


async def test_after_a_failover_no_connection_is_used_again():
    """Neither those that lie idle nor those under way, once their calls have ended."""
    pool = Pool()
    kept = lanes(pool, size=3)
    before = [await kept.take() for _ in range(3)]
    await kept.give(before[0], is_whole=True)
    await kept.expire()
    assert (pool.out, pool.n_expired) == (set(before[1:]), 1)
    for connection in before[1:]:
        await kept.give(connection, is_whole=True)
    assert not pool.out
    after = await kept.take()
    assert after not in before
    await kept.give(after, is_whole=True)
    assert await kept.take() is after


async def test_what_nobody_uses_goes_back_to_the_pool(monkeypatch: pytest.MonkeyPatch):
    """After a while, so that its own rules for what is idle hold; and all of it now and then."""
    monkeypatch.setattr(postgres_lane, "_KEPT_S", 0.02)
    monkeypatch.setattr(postgres_lane, "_LOOKED_AT", 3)
    pool = Pool()
    kept = lanes(pool)
    for _ in range(2):
        connection = await kept.take()
        await kept.give(connection, is_whole=True)
    assert len(pool.out) == 1
    connection = await kept.take()
    await kept.give(connection, is_whole=True)
    assert not pool.out
    connection = await kept.take()
    await kept.give(connection, is_whole=True)
    for _ in range(1000):
        await asyncio.sleep(0.005)
        if not pool.out:
            break
    assert not pool.out


@pytest.mark.postgres
async def test_many_calls_at_once_over_few_connections(postgres_server: Postgres):
    """Each gets its own answer, also where some are cancelled and the server ends connections under way."""
    schema = f"s{secrets.token_hex(4)}"
    async with contextlib.aclosing(PostgresStore(postgres_server.url, schema=schema, max_size=3)) as store:
        for n in range(20):
            await store.write(f"k{n}", Blob("msgpack", b"%d" % n), expected=ABSENT, ttl_s=60)
        admin = await asyncpg.connect(postgres_server.url)
        own = await admin.fetchval("SELECT pg_backend_pid()")
        for at in range(10):
            tasks = [asyncio.create_task(store.read(f"k{n}")) for n in range(20)]
            for _ in range(at):
                await asyncio.sleep(0)
            for task in tasks[::5]:
                task.cancel()
            if at % 3 == 0:
                await admin.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> $1 AND query LIKE $2",
                    own,
                    f"%{schema}%",
                )
            for n, found in enumerate(await asyncio.gather(*tasks, return_exceptions=True)):
                if isinstance(found, BaseException):
                    # cut off here, or by the server twice in a row
                    assert isinstance(found, (asyncio.CancelledError, StoreUnavailableError)), found
                else:
                    assert found is not None
                    assert found.head.data == b"%d" % n
        n_open = await admin.fetchval("SELECT count(*) FROM pg_stat_activity WHERE query LIKE $1", f"%{schema}%")
        await admin.close()
        assert n_open <= 3
        for n in range(20):
            record = await store.read(f"k{n}")
            assert record is not None
            assert record.head.data == b"%d" % n
