"""What is special about Redis: keys and their ends, scripts, topologies, and an index in other slots than the records."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ipaddress
import itertools
import os
import secrets
import signal
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from redis.asyncio import Redis, RedisCluster
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from holdall.errors import (
    ArgumentError,
    DecodeError,
    OutcomeUnknownError,
    StoreBusyError,
    StoreUnavailableError,
    TornRecordError,
)
from holdall.stores.base import ABSENT, Blob, Entry, Version
from holdall.stores.chain import Link, link_tags
from holdall.stores.redis import RedisStore
from tests.servers.process import HOST, free_port, wait_until
from tests.servers.redis import Cluster, Node, Sentinels, redis_program, valkey_program

HEAD = Blob("msgpack", b"\x80")
pytestmark = pytest.mark.redis


@pytest.fixture
async def admin(valkey_server: Node) -> AsyncIterator[Redis]:
    async with Redis.from_url(valkey_server.url) as client:
        yield client


@pytest.fixture
async def store(valkey_server: Node, namespace: str) -> AsyncIterator[RedisStore]:
    async with contextlib.aclosing(RedisStore(valkey_server.url, namespace=namespace)) as opened:
        yield opened


async def keys_of(admin: Any, namespace: str) -> dict[bytes, int]:
    """Every key of a namespace, with its time to live in ms (-1: none)."""
    return {key: await admin.pttl(key) async for key in admin.scan_iter(match=f"{namespace}:*", count=1000)}


async def pass_time(admin: Any, namespace: str, seconds: float) -> None:
    for key, left_ms in (await keys_of(admin, namespace)).items():
        if left_ms >= 0:
            await admin.pexpire(key, int(left_ms - 1000 * seconds))


async def found(store: RedisStore, **tags: str) -> list[str]:
    return sorted([key async for key in store.find(**tags)])


async def until(is_so: Callable[[], Awaitable[bool]]) -> None:
    for _ in range(600):
        if await is_so():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("not within 30 s")


# ---- keys and their ends


async def test_case_18_every_key_of_a_session_with_a_ttl_has_one(store: RedisStore, admin: Redis, namespace: str):
    """Head, log, index, epoch and tombstone: none outlives what it is for."""
    tags = {"user_id": "u", "status": "active"}
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=60, append=[Entry("m", b"1")], tags=tags, fence=1)
    version = await store.write(
        "k", HEAD, expected=version, ttl_s=60, append=[Entry("m", b"2")], tags={"status": "done"}, fence=1
    )
    await store.write("k", HEAD, expected=version, ttl_s=90, keep=0, fence=1)
    await store.touch("k", 120)
    assert await found(store, status="done") == ["k"]
    assert await found(store, status="active") == []
    held = await keys_of(admin, namespace)
    assert len(held) >= 3
    assert all(left_ms > 0 for left_ms in held.values()), held
    await store.delete("k", fence=1)
    held = await keys_of(admin, namespace)
    assert held
    assert all(left_ms > 0 for left_ms in held.values()), held


async def test_case_15_saves_do_not_leave_keys(store: RedisStore, admin: Redis, namespace: str):
    """50 saves of one session take as many keys as one; deleted without fence or op_id it leaves none that stays."""
    version: Version | None = None
    counts = []
    for n in range(50):
        version = await store.write(
            "k", HEAD, expected=version, ttl_s=60, append=[Entry("m", b"%d" % n)], tags={"user_id": "u"}
        )
        counts.append(len(await keys_of(admin, namespace)))
    assert set(counts) == {3}
    await store.delete("k")
    assert {key.split(b":")[-2] for key in await keys_of(admin, namespace)} <= {b"e"}


async def test_case_17_the_index_empties_itself(store: RedisStore, admin: Redis, namespace: str):
    """1000 sessions of one user expire: listing them yields none and leaves an empty index."""
    for start in range(0, 1000, 50):
        await asyncio.gather(
            *(store.write(f"k{start + n}", HEAD, expected=ABSENT, ttl_s=60, tags={"user_id": "u"}) for n in range(50))
        )
    index = store._index.index_key("user_id", "u")
    assert await admin.zcard(index) == 1000
    await pass_time(admin, namespace, 100)
    sizes = []
    for _ in range(6):
        assert await found(store, user_id="u") == []
        sizes.append(await admin.zcard(index))
    assert sizes[0] < 1000
    assert sizes[-1] == 0


async def test_case_17_entries_of_long_ended_records_are_pruned_by_the_next(store: RedisStore, admin: Redis):
    """Nobody has to list them: an entry whose guarantee is over goes when another is made."""
    await store.write("k", HEAD, expected=ABSENT, ttl_s=60, tags={"user_id": "u"})
    index = store._index.index_key("user_id", "u")
    await admin.zadd(index, {b"long gone": 1000 * 2**18})
    await store.write("k2", HEAD, expected=ABSENT, ttl_s=60, tags={"user_id": "u"})
    assert sorted(await admin.zrange(index, 0, -1)) == [b"k", b"k2"]


async def test_a_step_with_the_same_tags_is_one_call(store: RedisStore, admin: Redis):
    """The index is written when tags are new, and then not with every step."""
    tags = {"user_id": "u", "status": "active"}
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=60, tags=tags)
    before = (await admin.info("commandstats"))["cmdstat_evalsha"]["calls"]
    for _ in range(10):
        version = await store.write(
            "k", HEAD, expected=version, ttl_s=60, tags=tags, append=[Entry("m", b"1")], op_id=secrets.token_hex(4)
        )
    assert (await admin.info("commandstats"))["cmdstat_evalsha"]["calls"] - before == 10


async def test_a_much_longer_life_renews_the_index(store: RedisStore, admin: Redis, namespace: str):
    """A record made for a minute and then kept for a month, or for ever, is still found then."""
    for key, ttl_s in (("month", 30 * 86400.0), ("ever", None)):
        await store.write(key, HEAD, expected=ABSENT, ttl_s=60, tags={"user_id": key})
        await store.touch(key, ttl_s)
        await pass_time(admin, namespace, 20 * 86400)
        assert await found(store, user_id=key) == [key]


async def test_case_20_a_write_that_may_not_set_its_end_is_not_made(valkey_server: Node, admin: Redis, namespace: str):
    """Where the server refuses a command of the script, the write fails whole, and what was there stays."""
    await admin.acl_setuser("limited", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-pexpireat"])
    store = RedisStore(valkey_server.url, namespace=namespace)
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=60, append=[Entry("m", b"1")])
    limited = RedisStore(f"redis://limited:@{HOST}:{valkey_server.port}", namespace=namespace)
    before = await store.read("k")
    for call in (
        limited.write("k", Blob("t", b"new"), expected=version, ttl_s=60, append=[Entry("m", b"2")]),
        limited.write("other", HEAD, expected=ABSENT, ttl_s=60),
        limited.touch("k", 500),
        limited.delete("k"),
    ):
        with pytest.raises(StoreUnavailableError) as caught:
            await call
        assert not isinstance(caught.value, OutcomeUnknownError)
    assert await store.read("k") == before
    assert await store.read("other") is None
    await store.aclose()
    await limited.aclose()


async def test_case_21_a_cancelled_save_leaves_no_key_without_an_end(store: RedisStore, admin: Redis, namespace: str):
    """Cancelled at any turn of the loop, while the index or the record is written."""
    for turns in range(25):
        call = asyncio.ensure_future(
            store.write(f"k{turns}", HEAD, expected=ABSENT, ttl_s=60, append=[Entry("m", b"1")], tags={"user_id": "u"})
        )
        for _ in range(turns):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    await asyncio.sleep(0.02)
    held = await keys_of(admin, namespace)
    assert held
    assert all(left_ms > 0 for left_ms in held.values()), held


async def test_a_foreign_value_under_a_key_is_a_typed_error(store: RedisStore, admin: Redis):
    """A string where the hash or the list should be: the write fails whole."""
    head, log, _ = store._index.slot_keys("k")
    await admin.set(head, b"foreign")
    with pytest.raises(StoreUnavailableError, match="WRONGTYPE"):
        await store.write("k", HEAD, expected=None, ttl_s=None, append=[Entry("m", b"1")])
    assert await admin.get(head) == b"foreign"
    assert not await admin.exists(log)
    await admin.delete(head)
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=None)
    await admin.set(log, b"foreign")
    with pytest.raises(StoreUnavailableError, match="WRONGTYPE"):
        await store.write("k", Blob("t", b"new"), expected=version, ttl_s=None, append=[Entry("m", b"1")])
    assert await admin.hget(head, "n") == b"1"
    assert await admin.hget(head, "d") == HEAD.data


async def test_an_evicted_log_is_an_error_and_not_an_empty_one(store: RedisStore, admin: Redis):
    """A server that drops keys under memory pressure may drop the log alone: a reader is told."""
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=60, append=[Entry("m", b"1")] * 3)
    await admin.delete(store._index.slot_keys("k")[1])
    with pytest.raises(TornRecordError, match="noeviction") as caught:
        await store.read("k")
    assert caught.value.key == "k"
    await store.write("k", HEAD, expected=version, ttl_s=60, keep=0)
    assert (await store.read("k")) is not None


async def test_an_evicted_log_is_an_error_wherever_it_is_in_a_chain(store: RedisStore, admin: Redis, namespace: str):
    """The log of a thread, and of what it takes over: a context is whole or an error."""
    entries = [Entry("message", b"%d" % n) for n in range(3)]
    root = await store.write("root", HEAD, expected=ABSENT, ttl_s=60, append=entries)
    tags = link_tags("thread", Link("root", 2, root.generation))
    await store.write("thread", HEAD, expected=ABSENT, ttl_s=60, append=entries[:1], tags=tags)
    assert [len(record.entries) for record in await store.read_chain("thread", limit=9)] == [1, 2]
    for key in ("root", "thread"):
        log = next(iter([name async for name in admin.scan_iter(match=f"{namespace}:*:l:{key}")]))
        await admin.delete(log)
        with pytest.raises(StoreUnavailableError, match="noeviction"):
            await store.read_chain("thread", limit=9)
        await admin.rpush(log, *(b"message\0%d" % n for n in range(3 if key == "root" else 1)))
    assert [len(record.entries) for record in await store.read_chain("thread", limit=9)] == [1, 2]


# ---- scripts and connections


async def test_scripts_come_back_after_a_flush(store: RedisStore, admin: Redis):
    """A restarted server knows no scripts; the first call brings them."""
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=None, tags={"user_id": "u"})
    await admin.script_flush()
    assert (await store.write("k", HEAD, expected=version, ttl_s=None)).number == 2
    await admin.script_flush()
    assert await found(store, user_id="u") == ["k"]
    assert await store.delete("k")


async def test_case_28_a_killed_connection_is_replaced(store: RedisStore, admin: Redis):
    """All connections are killed between two calls: each write lands, and lands once."""
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=None)
    for n in range(8):
        await admin.client_kill_filter(_type="normal", skipme=True)
        if n % 2:
            await asyncio.sleep(0.02)
        version = await store.write(
            "k", HEAD, expected=version, ttl_s=None, append=[Entry("m", b"%d" % n)], op_id=f"op{n}"
        )
    record = await store.read("k")
    assert record is not None
    assert [entry.data for entry in record.entries] == [b"%d" % n for n in range(8)]


async def test_a_client_with_retries_of_its_own_does_not_apply_twice(
    valkey_server: Node, namespace: str, proxy_to: Any
):
    """A client that was passed in keeps the driver's retries; a cut reply then has one effect, op_id or not."""
    proxy = await proxy_to(valkey_server.port)
    client = Redis(port=proxy.port, retry=Retry(NoBackoff(), 5), socket_timeout=2)
    store = RedisStore(client=client, namespace=namespace)
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=None)
    proxy.fail("cut reply")
    version = await store.write("k", HEAD, expected=version, ttl_s=None, append=[Entry("m", b"1")])
    proxy.fail("cut reply")
    await store.write("k", HEAD, expected=None, ttl_s=None, append=[Entry("m", b"2")])
    record = await store.read("k")
    assert record is not None
    assert (record.version.number, record.log_len) == (3, 2)
    await store.aclose()
    assert await client.ping()
    await client.aclose()


async def test_a_client_that_decodes_is_refused(valkey_server: Node):
    client = Redis.from_url(valkey_server.url, decode_responses=True)
    with pytest.raises(ArgumentError, match="decode_responses"):
        RedisStore(client=client)
    await client.aclose()
    for wrong in (
        {"client": object()},
        {},
        {"url": "redis://x", "client": client},
        {"url": "redis://x", "namespace": "{a}"},
        {"url": "redis://x", "namespace": ""},
    ):
        with pytest.raises(ArgumentError):
            RedisStore(**wrong)


async def test_resp3_clients_work(valkey_server: Node, namespace: str):
    """A client that speaks the newer protocol gets the same answers."""
    client = Redis.from_url(valkey_server.url, protocol=3)
    store = RedisStore(client=client, namespace=namespace)
    await store.write("k", HEAD, expected=ABSENT, ttl_s=60, append=[Entry("m", b"1")], tags={"user_id": "u", "s": "1"})
    assert await found(store, user_id="u", s="1") == ["k"]
    assert await found(store) == ["k"]
    assert await store.delete("k")
    assert await found(store, user_id="u") == []
    await client.aclose()


def test_passwords_are_not_shown():
    for url in ("redis://user:s3cret@host:1/0", "rediss://:s3cret@host", "redis+sentinel://:s3cret@a:1,b:2/main"):
        store = RedisStore(url)
        assert "s3cret" not in repr(store)
        assert "host" in repr(store) or "a:1,b:2" in repr(store)


async def test_a_sentinel_url_says_everything():
    """Several hosts, a service, a database, a password for the servers and one for the Sentinels, and TLS."""
    client = RedisStore("rediss+sentinel://u:p%40@a:1,[::1]:2,c/main/3?sentinel_password=q")._link.client
    pool = client.connection_pool
    assert (pool.service_name, pool.connection_kwargs["db"]) == ("main", 3)
    assert (pool.connection_kwargs["username"], pool.connection_kwargs["password"]) == ("u", "p@")
    sentinels = [sentinel.connection_pool.connection_kwargs for sentinel in pool.sentinel_manager.sentinels]
    assert [(options["host"], options["port"]) for options in sentinels] == [("a", 1), ("::1", 2), ("c", 26379)]
    assert {options["password"] for options in sentinels} == {"q"}
    with pytest.raises(ArgumentError, match="SERVICE"):
        _ = RedisStore("redis+sentinel://a:1")._link.client


async def test_what_is_no_record_is_a_typed_error(store: RedisStore, admin: Redis):
    """Fields that another program wrote are not read as a record."""
    head = store._index.slot_keys("k")[0]
    for damage in ({"n": "x"}, {"t": "{"}, {"f": b"\xff"}, {"l": "-"}, {"g": b"\xff"}):
        await admin.delete(head)
        await store.write("k", HEAD, expected=None, ttl_s=None)
        await admin.hset(head, mapping=damage)
        with pytest.raises((DecodeError, StoreUnavailableError)):
            await store.read("k")
    await admin.delete(head)
    await store.write("k", HEAD, expected=None, ttl_s=None, append=[Entry("m", b"1")])
    await admin.lset(store._index.slot_keys("k")[1], 0, b"\xff\0")
    record = await store.read("k")
    assert record is not None
    with pytest.raises(DecodeError):
        # each entry is looked at where it is asked for
        list(record.entries)
    with pytest.raises(DecodeError):
        await store.read_log("k", kind=None)


async def test_a_server_that_is_not_there_is_named():
    store = RedisStore("redis://user:s3cret@127.0.0.1:1/0", timeout_s=2)
    with pytest.raises(StoreUnavailableError) as caught:
        await store.write("k", HEAD, expected=None, ttl_s=None)
    assert not isinstance(caught.value, OutcomeUnknownError)
    assert "s3cret" not in str(caught.value)
    assert (caught.value.backend, caught.value.operation) == ("redis", "write")
    await store.aclose()


# ---- topologies


@pytest.fixture(scope="module", params=["valkey", "redis7"])
def single_node_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    """One node that holds all slots, as behind an enterprise proxy."""
    server = Cluster(valkey_program() if request.param == "valkey" else redis_program(), n_masters=1)
    yield server
    server.stop()


async def everything(store: RedisStore) -> None:
    """One of each call, with records in many slots."""
    for n in range(12):
        key = f"k{n}{{x}}"
        version = await store.write(
            key,
            HEAD,
            expected=ABSENT,
            ttl_s=60,
            append=[Entry("m", b"1")],
            tags={"user_id": "u", "n": str(n % 2)},
            op_id="op",
        )
        await store.write(key, HEAD, expected=version, ttl_s=60, append=[Entry("m", b"2")], keep=1)
        assert await store.touch(key, 90)
        record = await store.read(key)
        assert record is not None
        assert [entry.data for entry in record.entries] == [b"1", b"2"]
        assert len(await store.read_log(key, kind="m")) == 2
    assert len(await found(store, user_id="u")) == len(await found(store)) == 12
    assert len(await found(store, user_id="u", n="1")) == 6
    for n in range(12):
        assert await store.delete(f"k{n}{{x}}")
    assert await found(store) == []


async def test_case_25_a_standalone_client_works_on_a_cluster_node(single_node_cluster: Cluster, namespace: str):
    """A script never reaches over slots, so that a client that knows of no cluster meets no CROSSSLOT."""
    store = RedisStore(single_node_cluster.nodes[0].url, namespace=namespace)
    await everything(store)
    await store.aclose()


async def test_case_24_and_26_a_cluster_client_works_on_one_node(single_node_cluster: Cluster, namespace: str):
    store = RedisStore(single_node_cluster.url, namespace=namespace)
    await everything(store)
    await store.aclose()


async def test_a_cluster_client_may_be_passed_in(cluster_server: Cluster, namespace: str):
    client = RedisCluster(host=HOST, port=cluster_server.nodes[1].port)
    store = RedisStore(client=client, namespace=namespace)
    await everything(store)
    await store.aclose()
    assert await client.ping()
    await client.aclose()


async def test_more_calls_than_connections_wait_for_their_turn(
    cluster_server: Cluster, sentinel_server: Sentinels, namespace: str
):
    """300 calls at once on 5 connections: none is refused for want of one."""
    for url in (cluster_server.url, sentinel_server.url):
        store = RedisStore(url, namespace=namespace, max_connections=5)
        versions = await asyncio.gather(
            *(store.write(f"k{n}", HEAD, expected=ABSENT, ttl_s=60, tags={"user_id": f"u{n % 3}"}) for n in range(300))
        )
        assert {version.number for version in versions} == {1}
        await store.aclose()


async def test_replicas_are_waited_for(sentinel_server: Sentinels, namespace: str):
    """With two replicas, two are had and five are not: then the outcome is said to be unknown, though the master has it."""
    store = RedisStore(sentinel_server.url, namespace=namespace, wait_replicas=2)
    await everything(store)
    await store.aclose()
    store = RedisStore(sentinel_server.url, namespace=namespace, wait_replicas=5, timeout_s=0.4)
    with pytest.raises(OutcomeUnknownError, match="2 of 5 replicas"):
        await store.write("k", HEAD, expected=ABSENT, ttl_s=60)
    assert (await store.read("k")) is not None
    await store.aclose()


@contextlib.contextmanager
def linked() -> Iterator[tuple[Node, subprocess.Popen[bytes]]]:
    """A master that has a replica, and the replica's process, to be stopped."""
    master = Node(valkey_program(), config="repl-diskless-sync-delay 0\n")
    replica = Node(valkey_program(), config=f"replicaof 127.0.0.1 {master.port}\n")
    try:
        with replica.client() as client:
            wait_until("the replica is linked", lambda: client.info("replication")["master_link_status"] == "up")
        process = replica.server.process
        assert process is not None
        yield master, process
    finally:
        replica.stop()
        master.stop()


async def test_a_repeat_waits_for_the_replicas_too(namespace: str):
    """Over whatever connection it comes: answered from memory, it is acknowledged once the replicas have what it repeats."""
    with linked() as (master, process):
        options: dict[str, Any] = {"namespace": namespace, "wait_replicas": 1, "timeout_s": 1.0}
        async with contextlib.aclosing(RedisStore(master.url, **options)) as store:
            await store.write("k", HEAD, expected=ABSENT, ttl_s=60)
            os.kill(process.pid, signal.SIGSTOP)
            with pytest.raises(OutcomeUnknownError, match="0 of 1 replicas"):
                await store.write("k", HEAD, expected=None, ttl_s=60, op_id="once")
        async with contextlib.aclosing(RedisStore(master.url, **options)) as store:
            with pytest.raises(OutcomeUnknownError, match="0 of 1 replicas"):
                await store.write("k", HEAD, expected=None, ttl_s=60, op_id="once")
            os.kill(process.pid, signal.SIGCONT)
            assert (await store.write("k", HEAD, expected=None, ttl_s=60, op_id="once")).number == 2


async def test_cluster_writes_wait_for_replicas(namespace: str):
    server = Cluster(valkey_program(), has_replicas=True)
    try:
        store = RedisStore(server.url, namespace=namespace, wait_replicas=1)
        await everything(store)
        await store.aclose()
    finally:
        server.stop()


@pytest.mark.faults
async def test_a_sentinel_failover_loses_nothing_that_replicas_had(namespace: str):
    """The master is killed under load: the store finds the new one by itself, and every acknowledged append is there."""
    servers = Sentinels(valkey_program())
    try:
        store = RedisStore(servers.url, namespace=namespace, wait_replicas=1, timeout_s=1.0)
        version = await store.write("k", HEAD, expected=ABSENT, ttl_s=None)
        acknowledged: list[bytes] = []
        failed = 0
        port = servers.master_port()
        for n in range(4000):
            if n == 20:
                next(node for node in servers.nodes if node.port == port).kill()
            data = b"%d" % n
            try:
                version = await store.write(
                    "k", HEAD, expected=None, ttl_s=None, append=[Entry("m", data)], op_id=f"op{n}"
                )
            except StoreUnavailableError:
                failed += 1
                await asyncio.sleep(0.02)
            else:
                acknowledged.append(data)
                if n > 20 and len(acknowledged) > 60:
                    break
        assert failed > 0
        assert len(acknowledged) > 60
        assert servers.master_port() != port
        record = await store.read("k")
        assert record is not None
        held = [entry.data for entry in record.entries]
        assert set(acknowledged) <= set(held)
        assert len(held) == len(set(held))
        assert record.version == version
        await store.aclose()
    finally:
        servers.stop()


@pytest.mark.faults
@pytest.mark.parametrize("how", ["stands still", "is told to"])
async def test_writers_at_once_lose_nothing_in_a_sentinel_failover(namespace: str, how: str):
    """A master that stands still in the middle of eight writes, or is told to step down: each write has one effect.

    The one that stood still comes back, and whatever lay in its sockets is written there and thrown away. All replicas are
    waited for: with one of two, the master that steps down goes on with the one that is not promoted, for a second or more.
    """
    servers = Sentinels(valkey_program())
    try:
        store = RedisStore(servers.url, namespace=namespace, wait_replicas=2, timeout_s=1.0)
        keys = [f"k{n}" for n in range(8)]
        acknowledged: dict[str, list[bytes]] = {key: [] for key in keys}
        is_over = asyncio.Event()
        port = servers.master_port()
        master = next(node for node in servers.nodes if node.port == port)

        async def write_on(key: str) -> None:
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, tags={"user_id": "u"})
            for n in itertools.count():
                while not is_over.is_set():
                    try:
                        await store.write(
                            key, HEAD, expected=None, ttl_s=None, append=[Entry("m", b"%d" % n)], op_id=f"op{n}"
                        )
                    except StoreUnavailableError:
                        await asyncio.sleep(0.02)
                    else:
                        acknowledged[key].append(b"%d" % n)
                        break
                if is_over.is_set():
                    return

        async def n_written(least: int) -> None:
            await until(lambda: asyncio.sleep(0, min(map(len, acknowledged.values())) >= least))

        async def has_moved() -> bool:
            now = servers.master_port()
            others = [node for node in servers.nodes if node.port not in (port, now)]
            for node in others:
                with node.client() as client:
                    info = client.info("replication")
                    if (info.get("master_port"), info.get("master_link_status")) != (now, "up"):
                        return False
            return now != port

        writers = [asyncio.create_task(write_on(key)) for key in keys]
        await n_written(5)
        if how == "stands still":
            master.server.send(signal.SIGSTOP)
        else:
            with servers.sentinels[0].client() as client:
                client.execute_command("SENTINEL", "FAILOVER", servers.name)
        await until(has_moved)
        if how == "stands still":
            master.server.send(signal.SIGCONT)
        await n_written(max(map(len, acknowledged.values())) + 5)
        is_over.set()
        await asyncio.gather(*writers)
        for key in keys:
            record = await store.read(key)
            assert record is not None
            held = [entry.data for entry in record.entries]
            assert held == sorted(set(held), key=int)
            assert set(acknowledged[key]) <= set(held)
            assert record.version.number == len(held) + 1
        assert await found(store, user_id="u") == keys
        await store.aclose()
    finally:
        servers.stop()


@pytest.mark.faults
async def test_a_cluster_failover_loses_nothing_that_replicas_had(namespace: str):
    """The master of a record is killed under load: its replica takes over, and every acknowledged append is there."""
    servers = Cluster(valkey_program(), has_replicas=True)
    try:
        store = RedisStore(servers.url, namespace=namespace, wait_replicas=1, timeout_s=1.0)
        keys = [f"k{n}" for n in range(6)]
        for key in keys:
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, tags={"user_id": "u"})
        port = store._link.client.get_node_from_key(store._index.slot_keys("k0")[0]).port
        acknowledged: set[tuple[str, bytes]] = set()
        n_failed = n_since = 0
        for n in range(4000):
            if n == 20:
                next(node for node in servers.nodes if node.port == port).kill()
            key, data = keys[n % 6], b"%d" % n
            try:
                await store.write(key, HEAD, expected=None, ttl_s=None, append=[Entry("m", data)], op_id=f"op{n}")
            except StoreUnavailableError:
                # the promoted replica has none of its own yet: with wait_replicas that is an unknown outcome
                n_failed += 1
                store._wait_replicas = 0
                await asyncio.sleep(0.02)
            else:
                acknowledged.add((key, data))
                n_since += n > 20 and key == "k0"
                if n_since >= 10:
                    break
        assert n_failed > 0
        assert n_since >= 10
        held = []
        for key in keys:
            record = await store.read(key)
            assert record is not None
            held += [(key, entry.data) for entry in record.entries]
        assert acknowledged <= set(held)
        assert len(held) == len(set(held))
        await store.aclose()
    finally:
        servers.stop()


@pytest.mark.faults
async def test_a_record_is_found_after_a_failover_of_its_index(namespace: str):
    """Its entry lies on another node: where that node's replica lacks it the write is refused, and where not, it is found."""
    servers = Cluster(valkey_program(), has_replicas=True)
    try:
        store = RedisStore(servers.url, namespace=namespace, wait_replicas=1, timeout_s=1.0)
        await store.write("other", HEAD, expected=ABSENT, ttl_s=None)
        client = store._link.client
        master = client.get_node_from_key(store._index.index_key("user_id", "u")).port
        at = next(n for n, node in enumerate(servers.nodes) if node.port == master)
        key = next(
            key
            for key in (f"k{n}" for n in range(100))
            if client.get_node_from_key(store._index.slot_keys(key)[0]).port != master
        )
        process = servers.nodes[at + 3].server.process
        assert process is not None
        os.kill(process.pid, signal.SIGSTOP)
        try:
            with pytest.raises(StoreBusyError, match="0 of 1 replicas have the entry by which it is found"):
                await store.write(key, HEAD, expected=ABSENT, ttl_s=None, tags={"user_id": "u"}, op_id="once")
            assert await store.read(key) is None
        finally:
            os.kill(process.pid, signal.SIGCONT)

        async def written() -> bool:
            with contextlib.suppress(StoreUnavailableError):
                await store.write(key, HEAD, expected=ABSENT, ttl_s=None, tags={"user_id": "u"}, op_id="once")
                return True
            return False

        await until(written)
        servers.nodes[at].kill()

        async def is_found() -> bool:
            with contextlib.suppress(StoreUnavailableError):
                return await found(store, user_id="u") == [key]
            return False

        await until(is_found)
        await store.aclose()
    finally:
        servers.stop()


async def test_an_entry_is_removed_once_replicas_know_that_it_must_be_entered_again(namespace: str):
    """The epoch says so. Lost in a failover, the entry of a record that is written then would be removed all the same."""
    with linked() as (master, process):
        store = RedisStore(master.url, namespace=namespace, wait_replicas=1, timeout_s=1.0)
        await store._index.add("k", {"user_id": "u"}, None, None)
        index = store._index.index_key("user_id", "u")
        os.kill(process.pid, signal.SIGSTOP)
        assert await found(store, user_id="u") == []
        assert await store._link.client.zcard(index) == 1
        os.kill(process.pid, signal.SIGCONT)
        assert await found(store, user_id="u") == []
        assert await store._link.client.zcard(index) == 0
        await store.aclose()


async def test_rediss_is_redis_through_tls(tmp_path: Path, namespace: str):
    """With the server's certificate given it works; without it the connection is refused, and no call is made in clear."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
    now = dt.datetime.now(dt.timezone.utc)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(HOST))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem, secret = tmp_path / "server.pem", tmp_path / "server.key"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    port = free_port()
    server = Node(
        redis_program(),
        config=f"tls-port {port}\ntls-cert-file {pem}\ntls-key-file {secret}\ntls-ca-cert-file {pem}\ntls-auth-clients no\n",
    )
    try:
        store = RedisStore(f"rediss://{HOST}:{port}", namespace=namespace, connect={"ssl_ca_certs": str(pem)})
        await everything(store)
        await store.aclose()
        for url in (f"rediss://{HOST}:{port}", f"redis://{HOST}:{port}"):
            other = RedisStore(url, namespace=namespace, timeout_s=2)
            with pytest.raises(StoreUnavailableError):
                await other.read("k")
            await other.aclose()
    finally:
        server.stop()


# ---- the index and the record are on different nodes


async def test_a_cleaner_between_index_and_record_loses_no_entry(
    store: RedisStore, valkey_server: Node, namespace: str
):
    """An entry is seen before its record is written, and removed: the writer is told by the epoch and enters it again."""
    other = RedisStore(valkey_server.url, namespace=namespace)
    add, n_adds = store._index.add, 0

    async def add_and_be_cleaned(*args: Any) -> str:
        nonlocal n_adds
        n_adds += 1
        guarantee = await add(*args)
        if n_adds == 1:
            assert await found(other, user_id="u") == []
        return guarantee

    store._index.add = add_and_be_cleaned  # type: ignore[method-assign]
    await store.write("k", HEAD, expected=ABSENT, ttl_s=60, tags={"user_id": "u"})
    assert n_adds == 2
    assert await found(other, user_id="u") == ["k"]
    await other.aclose()


async def test_a_cleaner_that_is_late_removes_nothing_new(store: RedisStore, valkey_server: Node, namespace: str):
    """Between the confirmation and the removal the record comes, with its entry made anew: it stays."""
    other = RedisStore(valkey_server.url, namespace=namespace)
    await store.write("k", HEAD, expected=ABSENT, ttl_s=60, tags={"user_id": "u"}, op_id="x")
    drop, other._index.drop = other._index.drop, lambda *_: asyncio.sleep(0)  # type: ignore[assignment, method-assign]
    await other.delete("k")  # leaves its entry behind
    other._index.drop = drop  # type: ignore[method-assign]
    run = other._link.run

    async def run_late(name: str, *args: Any) -> Any:
        if name == "index_drop":
            await store.write("k", HEAD, expected=ABSENT, ttl_s=60, tags={"user_id": "u"})
        return await run(name, *args)

    other._link.run = run_late  # type: ignore[method-assign]
    assert await found(other, user_id="u") == []
    assert await found(store, user_id="u") == ["k"]
    await other.aclose()


async def test_a_shorter_life_does_not_shorten_anothers_entry(store: RedisStore, admin: Redis):
    """Of two writers that enter one key, the entry stands as long as the longer one was promised."""
    index = store._index
    ends = 2_000_000_000_000
    long = await index.add("k", {"t": "v"}, ends, 100_000)
    await index.add("k", {"t": "v"}, ends - 10_000_000, 100)
    score = await admin.zscore(index.index_key("t", "v"), b"k")
    assert score // 2**18 * 1000 >= int(long)
    assert await index.add("k", {"t": "v"}, None, None) == "inf"
    assert await admin.pttl(index.index_key("t", "v")) == -1


async def test_every_entry_made_has_another_score(store: RedisStore, admin: Redis):
    """Also with the same end and the same nonce, so that a cleaner can tell that it was made anew."""
    key = store._index.index_key("t", "v")
    scores = []
    for _ in range(5):
        await store._link.run("index_add", [key], [b"k", 10**10, 7, 2**34 - 1, 3600, 2**18])
        scores.append(await admin.zscore(key, b"k"))
    assert all(one != two for one, two in itertools.pairwise(scores))
