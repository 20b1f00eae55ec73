"""Connections of redis-py's, in a cluster and behind Sentinels: none is left open, whoever closes what another call uses."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdall.errors import StoreUnavailableError, UnreplicatedError
from holdall.stores.base import ABSENT, Blob, Entry
from holdall.stores.redis import RedisStore
from tests.servers.process import HOST, free_port, wait_until
from tests.servers.redis import Cluster, Node, Sentinels, valkey_program

HEAD = Blob("msgpack", b"\x80")
pytestmark = pytest.mark.redis


@pytest.fixture
def failing_cluster() -> Iterator[Cluster]:
    """Three masters with a replica each, for one test to kill."""
    servers = Cluster(valkey_program(), has_replicas=True)
    yield servers
    servers.stop()


def sockets() -> set[str]:
    """The sockets that this process has open."""
    held = set()
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(OSError):
            held.add(str(link.readlink()))
    return {name for name in held if name.startswith("socket:")}


def connections_of(store: RedisStore) -> list[Any]:
    """Those that have a stream."""
    return [connection for connection in store._link._connections._made if connection.is_connected]


def master_of(store: RedisStore, servers: Cluster, key: str) -> Node:
    port = store._link.client.get_node_from_key(store._index.slot_keys(key)[0]).port
    return next(node for node in servers.nodes if node.port == port)


@pytest.mark.parametrize("kind", ["cluster", "sentinel"])
async def test_a_stream_made_while_another_call_closes_the_last_is_kept(
    cluster_server: Cluster, sentinel_server: Sentinels, namespace: str, kind: str, monkeypatch: pytest.MonkeyPatch
):
    """The one that closes forgets what it has closed, and not what it finds once that has ended."""
    may_end, wait_closed = asyncio.Event(), asyncio.StreamWriter.wait_closed

    async def ends_late(writer: asyncio.StreamWriter) -> None:
        await may_end.wait()
        await wait_closed(writer)

    url = cluster_server.url if kind == "cluster" else sentinel_server.url
    async with contextlib.aclosing(RedisStore(url, namespace=namespace)) as store:
        await store.write("k", HEAD, expected=ABSENT, ttl_s=60)
        connection = connections_of(store)[0]
        with monkeypatch.context() as patch:
            patch.setattr(asyncio.StreamWriter, "wait_closed", ends_late)
            closing = asyncio.create_task(connection.disconnect())
            await asyncio.sleep(0)
            await connection.connect()
            stream = connection._writer
            may_end.set()
            await closing
            assert stream is not None
            assert connection._writer is stream
            assert not stream.is_closing()


async def test_a_connection_closed_before_its_command_is_written_is_lost(cluster_server: Cluster, namespace: str):
    """The driver finds no stream there, which is no error of the caller's; the call is made over another."""
    async with contextlib.aclosing(RedisStore(cluster_server.url, namespace=namespace)) as store:
        for _ in range(20):
            await store.write("k", HEAD, expected=None, ttl_s=60)
            writing = asyncio.create_task(store.write("k", HEAD, expected=None, ttl_s=60))
            for _ in range(secrets.randbelow(6)):
                await asyncio.sleep(0)
            for connection in connections_of(store):
                await connection.disconnect(nowait=True)
            with contextlib.suppress(StoreUnavailableError):
                await writing


async def test_calls_at_once_lose_no_sentinel(sentinel_server: Sentinels, namespace: str):
    """Where the first does not answer, each call puts the one that does before it, and that of another call stays."""
    before = sockets()
    addresses = [(HOST, free_port()), *sentinel_server.addresses]
    hosts = ",".join(f"{host}:{port}" for host, port in addresses)
    store = RedisStore(f"redis+sentinel://{hosts}/{sentinel_server.name}", namespace=namespace)
    await asyncio.gather(*(store.write(f"k{n}", HEAD, expected=ABSENT, ttl_s=60) for n in range(8)))
    options = [
        s.connection_pool.connection_kwargs for s in store._link.client.connection_pool.sentinel_manager.sentinels
    ]
    assert sorted((one["host"], one["port"]) for one in options) == sorted(addresses)
    await store.aclose()
    assert sockets() <= before


@pytest.mark.faults
async def test_failovers_leave_no_socket_open(failing_cluster: Cluster, namespace: str):
    """Under load, with masters killed in turn: what is open is what the store has, and a store that is closed has nothing.

    It is closed right after a call that failed, when the driver has still to learn who has the slots.
    """
    before = sockets()
    store = RedisStore(failing_cluster.url, namespace=namespace, timeout_s=1.0)
    keys = [f"k{n}" for n in range(12)]
    n_written = dict.fromkeys(keys, 0)
    is_over = False

    async def write_on(key: str) -> None:
        for n in itertools.count():
            if is_over:
                return
            try:
                await store.write(key, HEAD, expected=None, ttl_s=None, append=[Entry("m", b"x")], op_id=f"op{n}")
                n_written[key] += 1
            except StoreUnavailableError:
                await asyncio.sleep(0.02)

    async def all_written() -> None:
        wanted = {key: n + 5 for key, n in n_written.items()}
        for _ in range(600):
            if all(n_written[key] >= n for key, n in wanted.items()):
                return
            await asyncio.sleep(0.05)
        raise AssertionError("not within 30 s")

    writers = [asyncio.create_task(write_on(key)) for key in keys]
    await all_written()
    for _ in range(2):
        master = master_of(store, failing_cluster, "k0")
        master.kill()
        # longer than the others take to miss it
        await asyncio.sleep(2.5)
        await all_written()
        await asyncio.to_thread(master.start)
        with master.client() as client:
            await asyncio.to_thread(
                wait_until, "it is a replica", lambda c=client: c.info("replication").get("master_link_status") == "up"
            )
        await all_written()
        assert len(sockets() - before) == len(connections_of(store))
    is_over = True
    await asyncio.gather(*writers)
    master_of(store, failing_cluster, "k0").kill()
    with pytest.raises(StoreUnavailableError):
        await store.write("k0", HEAD, expected=None, ttl_s=None)
    await store.aclose()
    assert sockets() <= before


@pytest.mark.faults
async def test_a_store_that_only_writes_finds_the_replica_that_was_promoted(failing_cluster: Cluster, namespace: str):
    """With replicas waited for, too: it has no replica of its own, which it says by itself."""
    async with contextlib.aclosing(
        RedisStore(failing_cluster.url, namespace=namespace, wait_replicas=1, timeout_s=1.0)
    ) as store:
        await store.write("k0", HEAD, expected=ABSENT, ttl_s=None)
        master_of(store, failing_cluster, "k0").kill()
        for _ in range(400):
            try:
                await store.write("k0", HEAD, expected=None, ttl_s=None)
            except UnreplicatedError as error:
                assert error.found == 0
                return
            except StoreUnavailableError:
                await asyncio.sleep(0.05)
        raise AssertionError("not within 20 s")
