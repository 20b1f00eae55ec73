"""The stores that decide in the worker, on their emulators: lost replies, races between processes, deleted users."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

import holdall
from holdall.errors import ConflictError, OutcomeUnknownError, StoreUnavailableError, UserDeletedError
from holdall.stores.base import ABSENT, Blob, Entry, Store
from tests.servers.proxy import Fault, Proxy

HEAD = Blob("msgpack", b"\x80")
BACKENDS = [pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("mongodb", "dynamodb", "s3")]


class Site:
    """One emulator, and how to reach records of the test's own in it."""

    def __init__(self, backend: str, server: Any) -> None:
        self.backend, self.server = backend, server
        self.name = f"t{secrets.token_hex(4)}"

    def url(self, port: int | None = None) -> str:
        port = self.server.port if port is None else port
        if self.backend == "mongodb":
            return f"mongodb://127.0.0.1:{port}/{self.name}?directConnection=true"
        return f"{self.backend}://{self.name}?region=us-east-1&endpoint_url=http://127.0.0.1:{port}"

    def store(self, port: int | None = None, **options: Any) -> Store:
        return holdall.open(self.url(port), **options).store


@pytest.fixture(params=BACKENDS)
async def site(request: pytest.FixtureRequest) -> Site:
    server = request.getfixturevalue("mongodb_server" if request.param == "mongodb" else "aws_server")
    made = Site(request.param, server)
    if request.param == "s3":
        await server.make_bucket(made.name)
    return made


class Pair:
    """A store behind a proxy, and one that reaches the same records directly."""

    def __init__(self, proxy: Proxy, cut: Store, direct: Store) -> None:
        self.proxy, self.cut, self.direct = proxy, cut, direct

    async def fail(self, fault: Fault, *, after: int = 0) -> None:
        """Let a request meet a fault, on a connection that stands."""
        self.proxy.fail("none")
        await self.cut.read("warm")
        self.proxy.fail(fault, after=after)


@pytest.fixture
async def pair(site: Site, proxy_to: Any) -> AsyncIterator[Pair]:
    proxy = await proxy_to(site.server.port)
    # with the time that a store gives a server: an emulator on a loaded machine can take a second for its first table
    async with contextlib.aclosing(site.store(proxy.port)) as cut, contextlib.aclosing(site.store()) as direct:
        for store in (cut, direct):
            await store.write("warm", HEAD, expected=None, ttl_s=None)
        yield Pair(proxy, cut, direct)
        proxy.fail("none")


def key() -> str:
    return secrets.token_hex(6)


@pytest.mark.parametrize("fault", ["cut reply", "cut request"])
async def test_a_write_with_an_op_id_has_one_effect_wherever_it_is_cut(pair: Pair, fault: Fault):
    """Each request that a write makes is lost in turn; its entry is there once, and the version counted once."""
    name = key()
    version = await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None)
    for n in range(4):
        await pair.fail(fault, after=n)
        version = await pair.cut.write(
            name, HEAD, expected=version, ttl_s=60, append=[Entry("m", b"%d" % n)], tags={"n": str(n)}, op_id=f"op{n}"
        )
        assert version.number == n + 2
    assert pair.proxy.n_faults >= 2
    record = await pair.direct.read(name)
    assert record is not None
    assert [entry.data for entry in record.entries] == [b"%d" % n for n in range(4)]


async def test_a_write_without_an_op_id_never_happens_twice(pair: Pair):
    """Answered, or said to be unknown: either way its entry is there at most once, and at least once if it was answered."""
    name = key()
    version = await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None)
    for n in range(4):
        await pair.fail("cut reply", after=n)
        try:
            await pair.cut.write(
                name, Blob("text", b"%d" % n), expected=version, ttl_s=None, keep=0, append=[Entry("m", b"x")]
            )
        except OutcomeUnknownError as error:
            assert error.operation == "write"
        except StoreUnavailableError:
            pair.proxy.fail("none")
            record = await pair.direct.read(name)
            assert record is not None
            assert record.version == version
            continue
        pair.proxy.fail("none")
        record = await pair.direct.read(name)
        assert record is not None
        assert record.version.number - version.number in (0, 1)
        assert record.log_len == len(record.entries) <= 1
        version = record.version


async def test_a_head_whose_reply_was_lost_is_unknown(pair: Pair, site: Site):
    """One conditional step, done, its answer lost: nothing is repeated and nothing claimed."""
    name = key()
    version = await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None)
    # on S3 the first reply says that the body may come
    await pair.fail("cut reply", after=int(site.backend == "s3"))
    # every copy of it: S3Store draws an op_id where none is given, and repeats
    pair.proxy.times = None
    with pytest.raises(OutcomeUnknownError, match="op_id"):
        await pair.cut.write(name, Blob("text", b"1"), expected=version, ttl_s=None)
    pair.proxy.fail("none")
    record = await pair.direct.read(name)
    assert record is not None
    assert (record.version.number, record.head.data) == (2, b"1")
    with pytest.raises(ConflictError):
        await pair.cut.write(name, HEAD, expected=version, ttl_s=None)


async def test_repeated_deletes_and_touches_have_one_effect(pair: Pair):
    """A delete whose reply was lost answers True, not False for the record that it deleted itself."""
    name = key()
    await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None, append=[Entry("m", b"1")])
    for n in range(2):
        await pair.fail("cut reply", after=n)
        assert await pair.cut.touch(name, 100, op_id=f"t{n}")
    await pair.fail("cut reply")
    assert await pair.cut.delete(name, op_id="d")
    pair.proxy.fail("none")
    assert await pair.direct.read(name) is None


async def test_a_lost_read_is_read_again(pair: Pair):
    """Reads have no effect to double."""
    name = key()
    await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None, append=[Entry("m", b"1")], tags={"mark": name})
    for after in (0, 1):
        await pair.fail("cut reply", after=after)
        assert await pair.cut.read(name) is not None
        await pair.fail("cut reply", after=after)
        assert len(await pair.cut.read_log(name, kind=None)) == 1
    await pair.fail("cut reply")
    assert [found async for found in pair.cut.find(mark=name)] == [name]


async def test_a_server_that_is_gone_is_unavailable_and_comes_back(pair: Pair):
    """Connections refused: nothing was written, which is an answer; when the server is back, so is the store."""
    name = key()
    pair.proxy.fail("refuse", times=None)
    pair.proxy.cut_all()
    await asyncio.sleep(0.02)
    with pytest.raises(StoreUnavailableError):
        await pair.cut.read(name)
    with pytest.raises(StoreUnavailableError):
        await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None, op_id="op")
    pair.proxy.fail("none")
    assert (await pair.cut.write(name, HEAD, expected=ABSENT, ttl_s=None)).number == 1


async def test_case_34_a_write_cancelled_at_any_moment_is_whole_or_absent(pair: Pair, full: bool):
    """Cancelled while any of its requests is on its way: head and log agree, and repeating the op_id settles it."""
    for n in range(60 if full else 12):
        name = key()
        version = await pair.cut.write(name, Blob("text", b"0"), expected=ABSENT, ttl_s=60)
        call = asyncio.ensure_future(
            pair.cut.write(name, Blob("text", b"1"), expected=version, ttl_s=60, append=[Entry("m", b"1")], op_id="op")
        )
        await asyncio.sleep(0.0005 * n)
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


COUNTER = """
import asyncio, os, sys
import holdall

async def warm(url):
    async with holdall.open(url) as store:
        await store.load("counter")

async def main(url, times):
    async with holdall.open(url) as store:
        sessions = holdall.OptimisticStateStore(store)

        def add(state):
            state.metadata["n"] += 1
            # every other one writes the head alone
            if state.metadata["n"] % 2:
                state.messages.append({"role": "user", "content": "x"})

        for _ in range(times):
            await sessions.update("counter", add, 10_000)

url, n_processes, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
asyncio.run(warm(url))
for _ in range(n_processes):
    if not os.fork():
        asyncio.run(main(url, times))
        os._exit(0)
sys.exit(any([os.waitpid(-1, 0)[1] for _ in range(n_processes)]))
"""


async def test_case_3_eight_processes_lose_no_update(site: Site, full: bool):
    """N processes x M updates of one session end at exactly N x M, every other one with its message."""
    n_processes, times = 8, 50 if full else 4
    async with holdall.open(site.url()) as store:
        await store.save(holdall.SessionState(session_id="counter", user_id="u", metadata={"n": 0}))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", COUNTER, site.url(), str(n_processes), str(times), stderr=subprocess.PIPE
        )
        _, said = await process.communicate()
        assert process.returncode == 0, said.decode()
        state = await store.load("counter")
    assert state.metadata["n"] == n_processes * times
    assert len(state.messages) == n_processes * times / 2
    assert state.version == n_processes * times + 1


async def test_what_a_worker_remembers_never_refuses(site: Site):
    """It spares a read before a write; a version, a fence or a delete that another worker brought is asked of the record."""
    async with contextlib.aclosing(site.store()) as one, contextlib.aclosing(site.store()) as two:
        name = key()
        version = await one.write(name, HEAD, expected=ABSENT, ttl_s=None)
        version = await two.write(name, HEAD, expected=version, ttl_s=None)
        version = await one.write(name, HEAD, expected=version, ttl_s=None, fence=9)
        assert version.number == 3
        assert await two.delete(name, fence=9)
        assert not await one.delete(name)
        version = await two.write(name, HEAD, expected=ABSENT, ttl_s=None, fence=9)
        assert await one.touch(name, 600)
        assert (await one.write(name, HEAD, expected=version, ttl_s=None, fence=9, op_id="op")).number == 2
        assert await two.delete(name, fence=9)
        assert not await one.touch(name, 60)
        assert (await two.write(name, HEAD, expected=version, ttl_s=None, fence=9, op_id="op")).number == 2
        with pytest.raises(ConflictError):
            await one.write(name, HEAD, expected=version, ttl_s=None, fence=9)
        assert (await one.write(name, HEAD, expected=ABSENT, ttl_s=None, fence=9)).number == 1


async def test_a_deleted_user_is_gone_and_late_writers_stay_out(site: Site):
    """delete_user removes every session of the user and no other's; who still holds one cannot save it back."""
    async with holdall.open(site.url()) as store:
        for session, user in (("a", "u:1"), ("b", "u:1"), ("c", "u:2")):
            state = holdall.SessionState(session_id=session, user_id=user)
            state.messages.append({"role": "user", "content": "hello"})
            await store.save(state)
        late = await store.load("a")
        await store.delete_user("u:1")
        assert await store.list() == ["c"]
        with pytest.raises(ConflictError):
            await store.save(late)
        with pytest.raises(UserDeletedError):
            await store.save(holdall.SessionState(session_id="d", user_id="u:1"))
        await store.delete_user("u:1")
        assert (await store.load("c")).user_id == "u:2"
