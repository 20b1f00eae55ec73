"""Connections to Redis that are kept beside the driver's pool, and those that are no driver's: each reply belongs to its call, and what is broken is left."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from pathlib import Path
from typing import Any

import pytest
from redis import exceptions
from redis.asyncio import Connection, Redis
from redis.credentials import UsernamePasswordCredentialProvider

from holdall.errors import OutcomeUnknownError, StoreUnavailableError
from holdall.stores import redis_wire
from holdall.stores.base import ABSENT, Blob, Entry
from holdall.stores.redis import RedisStore
from holdall.stores.redis_wire import Wire
from tests.servers.proxy import Fault, Proxy
from tests.servers.redis import Node, valkey_program

pytestmark = pytest.mark.redis


def opened(url: str, **options: Any) -> contextlib.aclosing[RedisStore]:
    return contextlib.aclosing(RedisStore(url, namespace=f"n{secrets.token_hex(4)}", **options))


def head(n: int) -> Blob:
    return Blob("msgpack", b"%d" % n)


async def test_a_cancelled_call_leaves_its_reply_to_nobody(valkey_server: Node):
    """Whoever is next gets its own answer, at whichever await the one before was cut off."""
    async with opened(valkey_server.url) as store:
        for n in range(60):
            await store.write(f"k{n}", head(n), expected=ABSENT, ttl_s=60)
        for n in range(60):
            task = asyncio.create_task(store.read("k0"))
            for _ in range(n % 6):
                await asyncio.sleep(0)
            task.cancel()
            record = await store.read(f"k{n}")
            assert record is not None
            assert record.head == head(n)
            await asyncio.wait({task})


async def test_calls_at_once_get_their_own_replies(valkey_server: Node):
    """Each on a connection of its own, of which no more are kept than were needed at once."""
    async with opened(valkey_server.url, max_connections=4) as store:
        for n in range(20):
            await store.write(f"k{n}", head(n), expected=ABSENT, ttl_s=60, append=[Entry("m", b"x" * 200_000)])
        records = await asyncio.gather(*(store.read(f"k{n}") for n in range(20)))
        assert [record and record.head for record in records] == [head(n) for n in range(20)]
        lanes = store._link._lanes
        assert lanes is not None
        assert 1 <= len(lanes._idle) <= 4


async def test_connections_that_the_server_closed_are_not_written_to(valkey_server: Node):
    """A write without an op_id may not be repeated, so it must not be lost to a connection that was closed while idle."""
    async with Redis.from_url(valkey_server.url) as admin, opened(valkey_server.url) as store:
        await asyncio.gather(*(store.read("k") for _ in range(5)))
        await admin.client_kill_filter(_type="normal", skipme=True)
        # the loop sees in its next turns that they were closed
        await asyncio.sleep(0.05)
        assert (await store.write("k", head(1), expected=ABSENT, ttl_s=60)).number == 1


async def test_a_repeat_after_a_lost_connection_meets_no_other_of_the_lost(valkey_server: Node):
    """Five connections are cut at once and none is known to be: the one repeat of a read goes over a new one."""
    async with Proxy(valkey_server.port) as proxy, opened(f"redis://127.0.0.1:{proxy.port}") as store:
        await asyncio.gather(*(store.read("k") for _ in range(5)))
        proxy.cut_all()
        assert await store.read("k") is None


async def test_no_reply_in_time_is_an_error_and_the_connection_is_left(valkey_server: Node):
    """A server that says nothing costs the time that was set, and a late reply is taken for no other."""
    async with Proxy(valkey_server.port) as proxy, opened(f"redis://127.0.0.1:{proxy.port}", timeout_s=0.2) as store:
        await store.write("k", head(1), expected=ABSENT, ttl_s=60)
        proxy.fail("black hole", times=2)
        with pytest.raises(StoreUnavailableError):
            await store.read("k")
        proxy.fail("black hole", times=1)
        with pytest.raises(OutcomeUnknownError):
            await store.write("k", head(2), expected=None, ttl_s=60)
        record = await store.read("k")
        assert record is not None
        assert record.head == head(1)


async def test_a_call_that_is_under_way_at_the_close_leaves_nothing_open(valkey_server: Node):
    """Its connection is closed with its end, and so is one whose call is cancelled while it is looked at."""
    async with opened(valkey_server.url) as store:
        await store.write("k", head(1), expected=ABSENT, ttl_s=60)
        lanes = store._link._lanes
        assert lanes is not None
        connection = lanes._idle[0].connection
        lanes._idle[0].since -= 10  # type: ignore[misc]
        reading = asyncio.ensure_future(store.read("k"))
        await asyncio.sleep(0)
        reading.cancel()
        await asyncio.wait({reading})
        assert not connection.is_connected
        waiting = asyncio.ensure_future(lanes.execute("BLPOP", f"nothing-{secrets.token_hex(4)}", "0.1"))
        await asyncio.sleep(0.02)
    assert await waiting is None
    assert lanes._idle == []


async def test_a_server_that_became_a_replica_is_left(valkey_server: Node):
    """As behind a name that a failover has moved: the connections to the old one are given up, and the new one is written to."""
    old = Node(valkey_program())
    try:
        async with Proxy(old.port) as proxy, opened(f"redis://127.0.0.1:{proxy.port}") as store:
            await store.write("k", head(1), expected=ABSENT, ttl_s=60)
            proxy.target = valkey_server.port
            with old.client() as admin:
                admin.replicaof("127.0.0.1", valkey_server.port)
            assert (await store.write("k2", head(1), expected=ABSENT, ttl_s=60)).number == 1
            with valkey_server.client() as admin:
                assert admin.exists(store._index.slot_keys("k2")[0])
    finally:
        old.stop()


def test_a_connection_of_another_loop_is_not_used(valkey_server: Node):
    """A store that outlives its loop connects anew in the next."""
    store = RedisStore(valkey_server.url, namespace=f"n{secrets.token_hex(4)}")

    async def write(n: int) -> int:
        try:
            return (await store.write("k", head(n), expected=None, ttl_s=60)).number
        finally:
            # what the loop leaves behind would be reported as not closed
            lanes = store._link._lanes
            assert lanes is not None
            if n:
                await lanes.aclose()
            else:
                first.extend(lanes._idle)
            await asyncio.sleep(0.01)

    first: list[Any] = []

    async def both() -> list[int]:
        one = await write(0)
        two = await asyncio.to_thread(lambda: asyncio.run(write(1)))
        return [one, two]

    assert asyncio.run(both()) == [1, 2]
    assert first
    assert not first[0].connection.is_connected


async def test_passwords_that_change_are_the_pools_to_tell(valkey_server: Node):
    """Where the driver is told of new passwords, its pool keeps the connections."""
    connect = {"credential_provider": UsernamePasswordCredentialProvider("default", "")}
    async with opened(valkey_server.url, connect=connect) as store:
        store._link.client  # noqa: B018 - made on first use
        assert store._link._lanes is None


async def test_health_is_checked_as_the_driver_does(valkey_server: Node):
    """A ping before the call, where one was asked for, and its reply is not taken for the call's."""
    async with opened(valkey_server.url, connect={"health_check_interval": 60}) as store:
        for n in range(3):
            await store.write("k", head(n), expected=None, ttl_s=60)
            lanes = store._link._lanes
            assert lanes is not None
            (idle,) = lanes._idle
            idle.connection.next_health_check = -1
            record = await store.read("k")
            assert record is not None
            assert record.head == head(n)
            assert idle.connection.next_health_check > 0


async def test_a_login_that_fails_in_the_driver_has_sent_no_call(valkey_server: Node, monkeypatch: pytest.MonkeyPatch):
    """So the call is made again over another connection, or was surely not made; repeatable or not."""
    left = [1]
    connect = Connection.connect

    async def failing(self: Connection) -> None:
        await connect(self)
        if left[0]:
            left[0] -= 1
            await self.disconnect(nowait=True)
            raise exceptions.ConnectionError("Bad response from PING health check")

    monkeypatch.setattr(Connection, "connect", failing)
    async with opened(valkey_server.url, connect={"health_check_interval": 60}) as store:
        assert (await store.write("k", head(1), expected=ABSENT, ttl_s=60)).number == 1
        lanes = store._link._lanes
        assert lanes is not None
        await lanes.aclose()
        left[0] = 2
        with pytest.raises(StoreUnavailableError, match="nothing was written") as caught:
            await store.write("k", head(2), expected=None, ttl_s=60)
        assert not isinstance(caught.value, OutcomeUnknownError)


async def test_passwords_and_databases_are_the_drivers_to_send(valkey_server: Node):
    """A connection is logged in and at its database before it is spoken to."""
    async with Redis.from_url(valkey_server.url) as admin:
        user = f"u{secrets.token_hex(4)}"
        await admin.acl_setuser(user, enabled=True, passwords=["+secret"], categories=["+@all"], keys=["*"])
        try:
            async with opened(f"redis://{user}:secret@127.0.0.1:{valkey_server.port}/3") as store:
                await store.write("k", head(1), expected=ABSENT, ttl_s=60)
                assert store._link._lanes is not None
                async with Redis.from_url(f"{valkey_server.url}/3") as third:
                    assert [name async for name in third.scan_iter(match=f"{store._namespace.decode()}:*")]
            async with opened(f"redis://{user}:wrong@127.0.0.1:{valkey_server.port}/3") as store:
                with pytest.raises(StoreUnavailableError):
                    await store.read("k")
        finally:
            await admin.acl_deluser(user)


async def test_a_socket_in_the_file_system_needs_no_driver(tmp_path: Path):
    """As does a host and a port."""
    path = tmp_path / "s"
    node = Node(valkey_program(), "--unixsocket", str(path))
    try:
        async with opened(f"unix://{path}?db=2") as store:
            assert (await store.write("k", head(1), expected=ABSENT, ttl_s=60)).number == 1
            assert kinds(store) == {Wire}
    finally:
        node.stop()


def kinds(store: RedisStore) -> set[type]:
    """What the connections are that are free."""
    lanes = store._link._lanes
    assert lanes is not None
    return {type(idle.connection) for idle in lanes._idle}


@pytest.mark.parametrize("lacks", ["hiredis", "an option it knows", "an option of the URL it knows"])
async def test_the_driver_does_what_only_it_can(valkey_server: Node, monkeypatch: pytest.MonkeyPatch, lacks: str):
    """Where hiredis is not there, or more is asked of a connection than a login."""
    url, options = valkey_server.url, {}
    if lacks == "hiredis":
        monkeypatch.setattr(redis_wire, "hiredis", None)
    elif lacks == "an option it knows":
        options["connect"] = {"socket_keepalive": True}
    else:
        url += "?health_check_interval=9"
    async with opened(url, **options) as store:
        assert (await store.write("k", head(1), expected=ABSENT, ttl_s=60)).number == 1
        found = kinds(store)
        assert len(found) == 1
        assert Wire not in found
    async with opened(valkey_server.url) as store:
        assert await store.read("k") is None
        assert (Wire in kinds(store)) is (lacks != "hiredis")


@pytest.mark.parametrize(("fault", "times"), [("refuse", 2), ("black hole", 2), ("cut request", 2)])
async def test_a_login_that_fails_has_sent_no_write(valkey_server: Node, fault: Fault, times: int):
    """So a write without an op_id is known not to have happened."""
    async with Proxy(valkey_server.port) as proxy:
        proxy.fail(fault, times=times)
        url = f"redis://127.0.0.1:{proxy.port}/1"
        async with opened(url, timeout_s=0.2) as store:
            with pytest.raises(StoreUnavailableError) as caught:
                await store.write("k", head(1), expected=ABSENT, ttl_s=60)
            assert not isinstance(caught.value, OutcomeUnknownError)
            proxy.fail("none")
            assert (await store.write("k", head(1), expected=ABSENT, ttl_s=60)).number == 1
