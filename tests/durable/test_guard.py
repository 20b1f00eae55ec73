"""The breaker of a tier counts that the tier is away, and nothing that the tier says."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from uuid import uuid4

import asyncpg
import pytest

from holdall.durable.crowd import crowded
from holdall.durable.guard import TRIPS_AFTER, GuardedStore
from holdall.errors import (
    OutcomeUnknownError,
    StoreBusyError,
    StoreUnavailableError,
    TornRecordError,
    UnreplicatedError,
)
from holdall.stores import lost
from holdall.stores.base import ABSENT, Blob, Version
from holdall.stores.memory import MemoryStore
from holdall.stores.postgres import PostgresStore
from holdall.stores.redis import RedisStore
from holdall.stores.rules import conflict, stale_fence
from holdall.stores.sqlite import SqliteStore
from tests.servers.postgres import Postgres
from tests.servers.redis import Node

from .faulty import FaultyStore

HEAD = Blob("msgpack", b"\x80")
AT = Version("g", 1)


def raising(error: Exception) -> GuardedStore:
    inner = FaultyStore(MemoryStore())

    def check(operation: str) -> None:
        raise error

    inner._check = check
    return GuardedStore(inner, timeout_s=None)


@pytest.mark.parametrize(
    "error",
    [
        conflict("k", AT, None),
        stale_fence("k", AT, None, 1, 2),
        lost.busy("redis", "write", "others came first"),
        crowded("k", "write"),
        lost.unreplicated("redis", "write", found=0, wanted=1),
        TornRecordError("torn", backend="redis", operation="read", cause="torn", key="k"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_what_a_store_says_opens_no_breaker(error: Exception) -> None:
    store = raising(error)
    for _ in range(2 * TRIPS_AFTER):
        with pytest.raises(type(error)):
            await store.write("k", HEAD, expected=ABSENT, ttl_s=None)
    assert not store.breaker.is_open


@pytest.mark.parametrize(
    "error",
    [
        lost.unavailable("redis", "write", ConnectionError("refused")),
        lost.unknown("redis", "write", ConnectionError("cut"), is_repeatable=True),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_store_that_is_away_opens_it(error: Exception) -> None:
    store = raising(error)
    for _ in range(TRIPS_AFTER):
        assert not store.breaker.is_open
        with pytest.raises(type(error)):
            await store.write("k", HEAD, expected=ABSENT, ttl_s=None)
    assert store.breaker.is_open


async def contended(store: GuardedStore, is_held: Callable[[], contextlib.AbstractAsyncContextManager[object]]) -> None:
    """More writes than the breaker has failures meet a lock that others hold; the next is let through all the same."""
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=None)
    async with is_held():
        for _ in range(2 * TRIPS_AFTER):
            with pytest.raises(StoreBusyError, match="try again") as caught:
                await store.write("k", HEAD, expected=version, ttl_s=None)
            assert not isinstance(caught.value, OutcomeUnknownError)
            assert caught.value.backend == store.backend
        record = await store.read("k")
        assert record is not None
        assert record.version == version
    assert (await store.write("k", HEAD, expected=version, ttl_s=None)).number == version.number + 1


async def test_a_file_that_others_hold_is_no_tier_that_is_away(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"

    @contextlib.asynccontextmanager
    async def held() -> AsyncIterator[None]:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            yield
            other.execute("ROLLBACK")

    inner = SqliteStore(path, busy_timeout_s=0.01)
    await contended(GuardedStore(inner, timeout_s=None), held)
    await inner.aclose()


@pytest.mark.postgres
async def test_a_row_that_others_hold_is_no_tier_that_is_away(postgres_server: Postgres) -> None:
    schema = f"s{uuid4().hex}"

    @contextlib.asynccontextmanager
    async def held() -> AsyncIterator[None]:
        other = await asyncpg.connect(postgres_server.url)
        async with other.transaction():
            await other.execute(f"SELECT 1 FROM {schema}.agent_sessions FOR UPDATE")  # noqa: S608 - drawn above
            yield
        await other.close()

    inner = PostgresStore(postgres_server.url, schema=schema, connect={"server_settings": {"lock_timeout": "20ms"}})
    await contended(GuardedStore(inner, timeout_s=None), held)
    await inner.aclose()


@pytest.mark.redis
async def test_too_few_replicas_close_no_tier_to_its_readers(valkey_server: Node) -> None:
    inner = RedisStore(valkey_server.url, namespace=f"n{uuid4().hex}", wait_replicas=1, timeout_s=1.0)
    store = GuardedStore(inner, timeout_s=None)
    for n in range(TRIPS_AFTER + 1):
        with pytest.raises(UnreplicatedError, match="0 of 1 replicas") as caught:
            await store.write("k", HEAD, expected=None, ttl_s=None)
        assert (caught.value.found, caught.value.wanted) == (0, 1)
        record = await store.read("k")
        assert record is not None
        assert record.version.number == n + 1
    await inner.aclose()


async def test_a_slow_store_is_away() -> None:
    inner = FaultyStore(MemoryStore())
    inner.delay_s = 1.0
    store = GuardedStore(inner, timeout_s=0.01)
    for _ in range(TRIPS_AFTER):
        with pytest.raises(OutcomeUnknownError):
            await asyncio.wait_for(store.write("k", HEAD, expected=None, ttl_s=None), 1)
    with pytest.raises(StoreUnavailableError, match="left alone"):
        await store.read("k")
