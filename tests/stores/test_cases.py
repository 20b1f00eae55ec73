"""Cases from elsewhere that every store must get right, each with the number it has in cases_state.toml."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from holdall.errors import ArgumentError, ConflictError
from holdall.stores.base import ABSENT, Blob, Entry, Store
from holdall.stores.dynamodb import DynamoStore
from holdall.stores.memory import MemoryStore
from holdall.stores.mongodb import MongoStore
from holdall.stores.postgres import PostgresStore
from holdall.stores.redis import RedisStore
from holdall.stores.s3 import S3Store
from holdall.stores.sqlite import SqliteStore

HEAD = Blob("msgpack", b"\x80")


@pytest.fixture(
    params=[
        "memory",
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("pgbouncer", marks=[pytest.mark.postgres, pytest.mark.pgbouncer]),
        pytest.param("valkey", marks=pytest.mark.redis),
        pytest.param("cluster", marks=pytest.mark.redis),
        pytest.param("mongodb", marks=pytest.mark.mongodb),
        pytest.param("dynamodb", marks=pytest.mark.dynamodb),
        pytest.param("s3", marks=pytest.mark.s3),
    ]
)
async def workers(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[list[Store]]:
    """Four workers, each with a store of its own on the same records (in memory: the same store)."""
    name = f"cases_{secrets.token_hex(4)}"
    stores: list[Store] = []
    if request.param == "s3":
        await request.getfixturevalue("aws_server").make_bucket(name.replace("_", "-"))
    async with contextlib.AsyncExitStack() as stack:
        for n in range(4):
            if request.param == "memory":
                store: Store = stores[0] if n else MemoryStore()
            elif request.param == "sqlite":
                store = SqliteStore(tmp_path / "state.db", durability="process")
            elif request.param in ("postgres", "pgbouncer"):
                store = PostgresStore(request.getfixturevalue(f"{request.param}_server").url, schema=name)
            elif request.param == "mongodb":
                store = MongoStore(request.getfixturevalue("mongodb_server").url, database=name)
            elif request.param == "dynamodb":
                store = DynamoStore(name, connect=request.getfixturevalue("aws_server").connect)
            elif request.param == "s3":
                store = S3Store(name.replace("_", "-"), connect=request.getfixturevalue("aws_server").connect)
            else:
                store = RedisStore(request.getfixturevalue(f"{request.param}_server").url, namespace=name)
            stores.append(await stack.enter_async_context(contextlib.aclosing(store)))
            await store.read("warm")
        yield stores


async def test_case_1_of_two_that_loaded_the_same_version_one_wins(workers: list[Store]):
    """The other is told the version that is there; nothing acknowledged is lost."""
    for n in range(10):
        key = f"thread-{n}"
        seen = await workers[0].write(key, HEAD, expected=ABSENT, ttl_s=None)
        answers = await asyncio.gather(
            *(
                worker.write(key, HEAD, expected=seen, ttl_s=None, append=[Entry("message", b"%d" % i)])
                for i, worker in enumerate(workers[:2])
            ),
            return_exceptions=True,
        )
        lost = [answer for answer in answers if isinstance(answer, ConflictError)]
        won = [answer for answer in answers if not isinstance(answer, BaseException)]
        assert (len(won), len(lost)) == (1, 1), answers
        assert lost[0].actual == won[0]
        record = await workers[2].read(key)
        assert record is not None
        assert [entry.data for entry in record.entries] == [b"%d" % answers.index(won[0])]


async def test_case_2_a_stale_writer_is_refused(workers: list[Store]):
    """A and B load version 5; A appends twice; B, which still says 5, is refused and leaves no trace."""
    version = None
    for _ in range(5):
        version = await workers[0].write("k", HEAD, expected=version, ttl_s=None)
    stale = version
    for n in range(2):
        version = await workers[0].write("k", HEAD, expected=version, ttl_s=None, append=[Entry("m", b"A%d" % n)])
    with pytest.raises(ConflictError) as caught:
        await workers[1].write("k", HEAD, expected=stale, ttl_s=None, append=[Entry("m", b"B")])
    assert (caught.value.expected, caught.value.actual) == (stale, version)
    record = await workers[1].read("k")
    assert record is not None
    assert [entry.data for entry in record.entries] == [b"A0", b"A1"]


async def test_case_3_ten_increments_at_once_all_land(workers: list[Store]):
    """Each reads, adds one and writes what it saw, again until it is through: the end is 10."""

    async def increment(store: Store) -> None:
        while True:
            record = await store.read("k")
            n = 0 if record is None else int(record.head.data)
            with contextlib.suppress(ConflictError):
                await store.write(
                    "k",
                    Blob("text", b"%d" % (n + 1)),
                    expected=ABSENT if record is None else record.version,
                    ttl_s=None,
                )
                return
            await asyncio.sleep(random.uniform(0, 0.01))

    await asyncio.gather(*(increment(workers[n % 4]) for n in range(10)))
    record = await workers[0].read("k")
    assert record is not None
    assert (record.head.data, record.version.number) == (b"10", 10)


async def test_case_5_eight_creators_of_one_key(workers: list[Store]):
    """One creates it, seven are told that it exists: no driver's error about a duplicate key comes through."""
    for n in range(6):
        answers = await asyncio.gather(
            *(workers[i % 4].write(f"k{n}", HEAD, expected=ABSENT, ttl_s=None) for i in range(8)),
            return_exceptions=True,
        )
        assert sorted(type(answer).__name__ for answer in answers) == ["ConflictError"] * 7 + ["Version"], answers


async def test_case_6_twenty_first_appends_at_once(workers: list[Store]):
    """20 tasks that each add one item to a new session leave 20 items."""
    for n in range(3):
        await asyncio.gather(
            *(
                workers[i % 4].write(f"k{n}", HEAD, expected=None, ttl_s=None, append=[Entry("m", b"%d" % i)])
                for i in range(20)
            )
        )
        record = await workers[0].read(f"k{n}")
        assert record is not None
        assert sorted(int(entry.data) for entry in record.entries) == list(range(20))


async def test_case_7_concurrent_pops_take_distinct_items(workers: list[Store]):
    """5 items and 5 that pop: each gets another."""
    await workers[0].write("k", HEAD, expected=ABSENT, ttl_s=None, append=[Entry("m", b"%d" % n) for n in range(5)])

    async def pop(store: Store) -> bytes:
        while True:
            record = await store.read("k")
            assert record is not None
            with contextlib.suppress(ConflictError):
                await store.write("k", HEAD, expected=record.version, ttl_s=None, keep=record.log_len - 1)
                return record.entries[-1].data
            await asyncio.sleep(random.uniform(0, 0.01))

    assert sorted(await asyncio.gather(*(pop(workers[n % 4]) for n in range(5)))) == [b"0", b"1", b"2", b"3", b"4"]
    record = await workers[0].read("k")
    assert record is not None
    assert record.log_len == 0


async def test_case_48_a_filter_key_is_only_text(workers: list[Store]):
    """A name that would end a quoted string and add a condition matches nothing but itself."""
    hostile = "a') OR 1=1 --"
    await workers[0].write("one", HEAD, expected=ABSENT, ttl_s=None, tags={"user_id": "u"})
    await workers[0].write("two", HEAD, expected=ABSENT, ttl_s=None, tags={hostile: "1"})
    assert [key async for key in workers[1].find(**{hostile: "1"})] == ["two"]
    assert [key async for key in workers[1].find(**{hostile: "2"})] == []
    assert [key async for key in workers[1].find(user_id=hostile)] == []
    assert [key async for key in workers[1].find(**{"user_id": "u", hostile: "1"})] == []


async def test_case_50_ids_of_every_separator_work(workers: list[Store]):
    """Put, get, list and delete, with ids of one separator each and of all."""
    ids = [*"-.#@:*?[]{}\\ \né", "-.#@:*?[]{}\\ \n é", "a-b.c#d"]
    for key in ids:
        await workers[0].write(key, Blob("text", key.encode()), expected=ABSENT, ttl_s=60, tags={"user_id": key})
    for key in ids:
        record = await workers[1].read(key)
        assert record is not None
        assert record.head.data == key.encode()
        assert [found async for found in workers[1].find(user_id=key)] == [key]
        assert await workers[2].delete(key)
        assert await workers[3].read(key) is None
    assert [key async for key in workers[0].find()] == []


async def test_case_57_ids_that_could_never_be_resumed_are_refused(workers: list[Store]):
    """Empty, None, 10 KB, NUL: a ValueError before anything is sent."""
    for wrong in ("", None, "x" * 10_000, "a\0b"):
        with pytest.raises(ArgumentError) as caught:
            await workers[0].write(wrong, HEAD, expected=None, ttl_s=None)  # type: ignore[arg-type]
        assert isinstance(caught.value, ValueError)


async def test_records_end_by_the_clock_of_their_backend(workers: list[Store]):
    """Nobody moves this clock: a record is there for its time and then, for every worker, it is not."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await workers[0].write(
        "k", HEAD, expected=ABSENT, ttl_s=0.5, append=[Entry("m", b"1")], tags={"user_id": "u"}, fence=3
    )
    assert await workers[1].touch("k", 0.4)
    while await workers[2].read("k") is not None:
        assert loop.time() - began < 20
        await asyncio.sleep(0.02)
    assert loop.time() - began >= 0.39
    assert [key async for key in workers[3].find(user_id="u")] == []
    assert (await workers[3].write("k", HEAD, expected=ABSENT, ttl_s=None)).number == 1
