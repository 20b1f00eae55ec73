"""Connections that fail, by a proxy between store and server: what was acknowledged is there, what was lost is said to be."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdall.errors import ConflictError, OutcomeUnknownError, StoreUnavailableError
from holdall.stores.base import ABSENT, Blob, Entry, Store
from holdall.stores.postgres import PostgresStore
from holdall.stores.redis import RedisStore
from tests.servers.proxy import Fault, Proxy

HEAD = Blob("msgpack", b"\x80")


class Pair:
    """A store behind a proxy, and one that reaches the same records directly."""

    def __init__(self, proxy: Proxy, cut: Store, direct: Store) -> None:
        self.proxy, self.cut, self.direct = proxy, cut, direct

    async def fail(self, fault: Fault, *, times: int = 1) -> None:
        """Let the next request meet a fault, on a connection that stands."""
        self.proxy.fail("none")
        await self.cut.read("warm")
        self.proxy.fail(fault, times=times)

    async def log_len(self, key: str) -> int:
        record = await self.direct.read(key)
        return 0 if record is None else record.log_len


@pytest.fixture(
    params=[pytest.param("postgres", marks=pytest.mark.postgres), pytest.param("redis", marks=pytest.mark.redis)]
)
async def pair(request: pytest.FixtureRequest, proxy_to: Any) -> AsyncIterator[Pair]:
    server = request.getfixturevalue("postgres_server" if request.param == "postgres" else "valkey_server")
    proxy = await proxy_to(server.port)
    stores: list[Store] = []
    for port in (proxy.port, server.port):
        if request.param == "postgres":
            url = f"postgresql://postgres@127.0.0.1:{port}/postgres"
            stores.append(PostgresStore(url, schema="cut", timeout_s=1.0, max_size=4))
        else:
            stores.append(RedisStore(f"redis://127.0.0.1:{port}", namespace="cut", timeout_s=1.0))
    for store in stores:
        await store.read("warm")
        await store.write("warm", HEAD, expected=None, ttl_s=None)
    yield Pair(proxy, *stores)
    proxy.fail("none")
    for store in stores:
        await store.aclose()


def key() -> str:
    return secrets.token_hex(6)


async def test_a_lost_reply_with_an_op_id_has_one_effect(pair: Pair):
    """The store repeats the call and answers with the version that the first attempt gave."""
    name = key()
    version = await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None)
    for n in range(10):
        await pair.fail("cut reply")
        version = await pair.cut.write(
            name, HEAD, expected=version, ttl_s=None, append=[Entry("m", b"%d" % n)], op_id=f"op{n}"
        )
        assert version.number == n + 2
    assert pair.proxy.n_faults == 10
    record = await pair.direct.read(name)
    assert record is not None
    assert [entry.data for entry in record.entries] == [b"%d" % n for n in range(10)]


async def test_a_lost_reply_without_an_op_id_is_said_to_be_unknown(pair: Pair):
    """It happened here, once; the store neither repeats it nor claims that it failed."""
    name = key()
    version = await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None)
    await pair.fail("cut reply")
    with pytest.raises(OutcomeUnknownError) as caught:
        await pair.cut.write(name, HEAD, expected=version, ttl_s=None, append=[Entry("m", b"1")])
    assert caught.value.operation == "write"
    assert await pair.log_len(name) == 1
    with pytest.raises(ConflictError):
        await pair.cut.write(name, HEAD, expected=version, ttl_s=None)


async def test_a_request_that_never_arrived_is_sent_again_with_an_op_id(pair: Pair):
    """Cut before the server saw it: one effect all the same."""
    name = key()
    version = await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None)
    await pair.fail("cut request")
    assert (
        await pair.cut.write(name, HEAD, expected=version, ttl_s=None, append=[Entry("m", b"1")], op_id="op")
    ).number == 2
    assert await pair.log_len(name) == 1


async def test_a_request_that_never_arrived_is_unknown_without_an_op_id(pair: Pair):
    """The store cannot know that it did not arrive."""
    name = key()
    version = await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None)
    await pair.fail("cut request")
    with pytest.raises(OutcomeUnknownError):
        await pair.cut.write(name, HEAD, expected=version, ttl_s=None, append=[Entry("m", b"1")])
    assert await pair.log_len(name) == 0


async def test_a_lost_read_is_read_again(pair: Pair):
    """Reads have no effect to double."""
    name = key()
    await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None, append=[Entry("m", b"1")], tags={"mark": name})
    for fault in ("cut reply", "cut request"):
        await pair.fail(fault)
        assert await pair.cut.read(name) is not None
        await pair.fail(fault)
        assert len(await pair.cut.read_log(name, kind=None)) == 1
        await pair.fail(fault)
        assert [found async for found in pair.cut.find(mark=name)] == [name]


async def test_repeated_deletes_and_touches_have_one_effect(pair: Pair):
    """A delete whose reply was lost answers True, not False for the record that it deleted itself."""
    name = key()
    await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None)
    await pair.fail("cut reply")
    assert await pair.cut.touch(name, 100, op_id="t")
    await pair.fail("cut reply")
    with pytest.raises(OutcomeUnknownError):
        await pair.cut.touch(name, None)
    await pair.fail("cut reply")
    assert await pair.cut.delete(name, op_id="d")
    await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None)
    await pair.fail("cut reply")
    with pytest.raises(OutcomeUnknownError):
        await pair.cut.delete(name)
    assert await pair.direct.read(name) is None


async def test_two_lost_replies_are_too_many(pair: Pair):
    """A store repeats once; after that the caller is told, and may repeat the op_id himself."""
    name = key()
    version = await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None)
    await pair.fail("cut reply", times=2)
    with pytest.raises(OutcomeUnknownError, match=r"read before you write again, or .* same op_id, if it was yours"):
        await pair.cut.write(name, HEAD, expected=version, ttl_s=None, append=[Entry("m", b"1")], op_id="op")
    pair.proxy.fail("none")
    assert (
        await pair.cut.write(name, HEAD, expected=version, ttl_s=None, append=[Entry("m", b"1")], op_id="op")
    ).number == 2
    assert await pair.log_len(name) == 1


async def test_a_server_that_is_gone_is_unavailable_and_comes_back(pair: Pair):
    """Connections refused: nothing was written, which is an answer; when the server is back, so is the store."""
    name = key()
    pair.proxy.fail("refuse", times=None)
    pair.proxy.cut_all()
    await asyncio.sleep(0.02)
    for _ in range(3):
        with pytest.raises(StoreUnavailableError):
            await pair.cut.read(name)
        with pytest.raises(StoreUnavailableError):
            await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None, op_id="op")
    pair.proxy.fail("none")
    assert (await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None)).number == 1


async def test_a_server_that_swallows_everything_is_given_up_in_time(pair: Pair):
    """No reply at all: after timeout_s the outcome is unknown, the connection is thrown away, and the next call works."""
    name = key()
    version = await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None)
    await pair.fail("black hole")
    began = asyncio.get_running_loop().time()
    with pytest.raises(OutcomeUnknownError):
        await pair.cut.write(name, HEAD, expected=version, ttl_s=None)
    assert asyncio.get_running_loop().time() - began < 6
    assert (await pair.cut.write(name, HEAD, expected=version, ttl_s=None)).number == 2


async def test_case_34_a_write_cancelled_at_any_moment_is_whole_or_absent(pair: Pair, full: bool):
    """Cancelled while the request, the server or the reply is on its way: head and log agree, repeating the op_id settles it."""
    for n in range(60 if full else 20):
        name = key()
        version = await pair.cut.write(name, Blob("text", b"0"), expected=ABSENT, ttl_s=60)
        call = asyncio.ensure_future(
            pair.cut.write(name, Blob("text", b"1"), expected=version, ttl_s=60, append=[Entry("m", b"1")], op_id="op")
        )
        await asyncio.sleep(0.0001 * n)
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        again = await pair.cut.write(
            name, Blob("text", b"1"), expected=version, ttl_s=60, append=[Entry("m", b"1")], op_id="op"
        )
        assert again.number == 2
        record = await pair.direct.read(name)
        assert record is not None
        assert (record.version, record.head.data, record.log_len) == (again, b"1", 1)


@pytest.mark.faults
async def test_many_appends_through_a_bad_network_are_each_there_once(pair: Pair, full: bool):
    """One in ten requests meets a fault; with op_ids, repeated until answered, every append has one effect."""
    n_appends = 10_000 if full else 150
    name = key()
    await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None)

    async def append(n: int) -> None:
        for _ in range(50):
            if n % 10 == 0:
                pair.proxy.fail("cut reply" if n % 20 else "cut request")
            try:
                await pair.cut.write(
                    name, HEAD, expected=None, ttl_s=None, append=[Entry("m", b"%d" % n)], op_id=f"op{n}"
                )
            except StoreUnavailableError:
                continue
            return
        raise AssertionError(f"append {n} was never answered")

    for start in range(0, n_appends, 4):
        await asyncio.gather(*(append(n) for n in range(start, start + 4)))
    record = await pair.direct.read(name)
    assert record is not None
    assert sorted(int(entry.data) for entry in record.entries) == list(range(len(record.entries)))
    assert record.version.number == record.log_len + 1
    assert record.log_len >= n_appends
    assert pair.proxy.n_faults >= n_appends / 20
