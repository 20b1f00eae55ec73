"""Tiers over the servers that they are made for: Valkey over PostgreSQL over S3."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from uuid import uuid4

import pytest

from holdall import (
    ConflictError,
    DecodeError,
    NotFoundError,
    OptimisticStateStore,
    RateLimiter,
    SessionState,
    TieredStateManager,
    ToolResultCache,
    UserProfileStore,
)
from holdall.durable.backends import PostgresSessionStore
from holdall.stores.redis import RedisStore
from holdall.stores.s3 import S3Store
from tests.servers.aws import Aws
from tests.servers.postgres import Postgres
from tests.servers.redis import Node

pytestmark = [pytest.mark.postgres, pytest.mark.redis, pytest.mark.s3]


class Servers:
    """One namespace, schema and bucket for each test; each worker has handles of its own."""

    def __init__(self, valkey: Node, postgres: Postgres, aws: Aws) -> None:
        self.valkey, self.postgres, self.aws = valkey, postgres, aws
        self.name = f"t{uuid4().hex[:12]}"
        self.workers: list[TieredStateManager] = []

    def hot(self) -> RedisStore:
        return RedisStore(self.valkey.url, namespace=self.name)

    def cold(self) -> S3Store:
        return S3Store(self.name, connect=self.aws.connect)

    def worker(self, **options: Any) -> TieredStateManager:
        warm = PostgresSessionStore(self.postgres.url, schema=self.name, max_size=2)
        made = TieredStateManager(warm, hot=self.hot(), cold=self.cold(), hot_timeout_s=5.0, **options)
        self.workers.append(made)
        return made


@pytest.fixture
async def servers(valkey_server: Node, postgres_server: Postgres, aws_server: Aws) -> AsyncIterator[Servers]:
    made = Servers(valkey_server, postgres_server, aws_server)
    await aws_server.make_bucket(made.name)
    yield made
    for worker in made.workers:
        await worker.aclose()


def new(**fields: Any) -> SessionState:
    return SessionState(session_id=f"s-{uuid4().hex}", **({"user_id": f"u-{uuid4().hex}"} | fields))


def said(state: SessionState) -> list[str]:
    return [message["content"] for message in state.messages]


async def saved(worker: TieredStateManager, n: int = 3, **fields: Any) -> SessionState:
    state = new(**fields)
    for i in range(n):
        state.messages.append({"role": "user", "content": f"{i}"})
        await worker.save(state)
    return state


async def test_a_session_goes_through_all_tiers_and_back(servers: Servers) -> None:
    """Saved, read from hot, archived in S3, read from there by a worker that knows nothing, written on, deleted."""
    worker, other = servers.worker(), servers.worker()
    state = await saved(worker, status="done", ttl_seconds=600)
    assert await other.load(state.session_id) == state
    assert await worker.archive(state.session_id)
    hot, cold = servers.hot(), servers.cold()
    assert await hot.read(state.session_id) is None
    assert len([key async for key in cold.find()]) == 1
    assert await other.load(state.session_id) == state
    assert await other.list(user_id=state.user_id) == [state.session_id]
    assert [item.message["content"] for item in await other.history(state.session_id, limit=2)] == ["1", "2"]
    await OptimisticStateStore(other).update(
        state.session_id, lambda s: s.messages.append({"role": "user", "content": "on"})
    )
    assert [key async for key in cold.find()] == []
    assert said(await worker.load(state.session_id)) == ["0", "1", "2", "on"]
    with pytest.raises(ConflictError):
        await worker.save(state)
    assert await worker.archive(state.session_id)
    assert await other.delete(state.session_id)
    with pytest.raises(NotFoundError):
        await worker.load(state.session_id)
    assert [key async for key in cold.find()] == []
    await hot.aclose()
    await cold.aclose()


async def test_what_s3_gives_back_damaged_is_refused(servers: Servers) -> None:
    """The archive is compared with the pointer's checksums, and not only with its own."""
    worker = servers.worker()
    state = await saved(worker)
    await worker.archive(state.session_id)
    cold = servers.cold()
    [key] = [key async for key in cold.find()]
    record = await cold.read(key)
    assert record is not None
    await cold.write(key, record.head, expected=record.version, keep=2, ttl_s=None)
    with pytest.raises(DecodeError, match="checksum of its log"):
        await worker.load(state.session_id)
    await cold.aclose()


async def test_a_user_is_gone_from_every_server(servers: Servers) -> None:
    """Sessions in all tiers, profile and cached answers: none is left under the user's tag anywhere."""
    worker, user = servers.worker(), f"u-{uuid4().hex}"
    one, two = await saved(worker, user_id=user), await saved(worker, user_id=user)
    await worker.archive(two.session_id)
    await UserProfileStore(worker).put(user, {"name": "Ada"})
    await ToolResultCache(worker).put("mail", {"n": 1}, "private", user_id=user)
    assert await servers.worker().delete_user(user) == 2
    hot, cold = servers.hot(), servers.cold()
    warm = worker.store.warm  # type: ignore[union-attr]
    for store in (hot, warm, cold):
        assert [key async for key in store.find(user_id=user)] == []
    for state in (one, two):
        with pytest.raises(ConflictError):
            await worker.save(state)
    await hot.aclose()
    await cold.aclose()


async def test_many_workers_update_one_session_through_their_tiers(servers: Servers) -> None:
    """While it is archived again and again, no update is lost, and the limiter in front of them counts them all."""
    workers = [servers.worker() for _ in range(3)]
    state = await saved(workers[0], n=1)
    limiter = RateLimiter(workers[0], limit=100, per_s=60)

    async def update(worker: TieredStateManager) -> None:
        for _ in range(5):
            await limiter.check(state.session_id)
            await OptimisticStateStore(worker).update(
                state.session_id, lambda s: s.messages.append({"role": "user", "content": "x"}), 100
            )

    async def archive() -> None:
        for _ in range(4):
            await workers[0].archive(state.session_id)

    await asyncio.gather(*(update(worker) for worker in workers), archive())
    assert len((await workers[1].load(state.session_id)).messages) == 16
    assert (await limiter.take(state.session_id)).remaining == 100 - 16
    await workers[0].sweep()
    cold = servers.cold()
    is_archived = await workers[0].is_archived(state.session_id)
    assert len([key async for key in cold.find()]) == is_archived
    await cold.aclose()


async def test_case_18_tiers_leave_no_key_without_an_end(servers: Servers) -> None:
    """Every key that sessions, their copies, answers and limits leave in Valkey has a time to live."""
    worker, hot = servers.worker(), servers.hot()
    state = await saved(worker, ttl_seconds=60)
    await worker.load(state.session_id)
    await ToolResultCache(hot).get_or_call("t", {}, lambda: 1, user_id=state.user_id)
    await RateLimiter(hot, 5, 60).take("x")
    await RateLimiter(hot, 5, 60, algorithm="token_bucket").take("x")
    await worker.delete(state.session_id)
    other = await saved(worker, ttl_seconds=60)
    client = hot._link.client
    ends = {key: await client.ttl(key) async for key in client.scan_iter(match=f"{servers.name}:*")}
    assert any(other.session_id.encode() in key for key in ends)
    assert len(ends) >= 5
    assert min(ends.values()) > 0, ends
    await hot.aclose()


async def test_case_15_copies_answers_and_limits_do_not_leave_keys(servers: Servers) -> None:
    """Fifty of each leave as many keys as two of each."""
    worker, hot = servers.worker(), servers.hot()
    cache = ToolResultCache(hot)
    limiters = [RateLimiter(hot, 100, 60), RateLimiter(hot, 100, 60, algorithm="token_bucket")]
    state = await saved(worker, n=1, ttl_seconds=60)
    client = hot._link.client
    counts = []
    for n in range(50):
        state.messages.append({"role": "user", "content": f"{n}"})
        await worker.save(state)
        await worker.load(state.session_id)
        await cache.put("t", {}, n)
        await cache.get_or_call("t", {}, lambda: 0)
        for limiter in limiters:
            await limiter.take("x")
        counts.append(len([key async for key in client.scan_iter(match=f"{servers.name}:*")]))
    assert counts[-1] == counts[1]
    await hot.aclose()


async def test_case_21_and_34_a_cancelled_save_is_known_and_leaves_no_key_without_an_end(servers: Servers) -> None:
    """Cancelled at many moments of its way through the tiers: `state.version` says whether it happened, and every key ends."""
    worker, hot = servers.worker(), servers.hot()
    state = await saved(worker, ttl_seconds=60)
    happened = 0
    for n in range(24):
        state.messages.append({"role": "user", "content": f"c{n}"})
        saving = asyncio.ensure_future(worker.save(state))
        await asyncio.sleep(n * 0.0002)
        saving.cancel()
        await asyncio.wait({saving})
        stored = await servers.workers[0].load(state.session_id)
        assert (stored.version, said(stored)) == (state.version, said(state)[: len(stored.messages)])
        happened += len(stored.messages) == len(state.messages)
    await worker.save(state)
    assert said(await servers.worker().load(state.session_id)) == said(state)
    assert happened
    client = hot._link.client
    ends = {key: await client.ttl(key) async for key in client.scan_iter(match=f"{servers.name}:*")}
    assert min(ends.values()) > 0, ends
    await hot.aclose()


async def test_behind_over_the_same_servers(servers: Servers) -> None:
    """Acknowledged by Valkey, in PostgreSQL after the flush as a session that any session store reads, archived in S3."""
    worker, other = (servers.worker(write="behind", flush_s=0.05) for _ in range(2))
    state = await saved(worker, n=5)
    assert await other.load(state.session_id) == state
    await worker.flush()
    plain = PostgresSessionStore(servers.postgres.url, schema=servers.name)
    assert said(await plain.load(state.session_id)) == said(state)
    assert await worker.archive(state.session_id)
    held = await other.load(state.session_id)
    held.messages.append({"role": "user", "content": "on"})
    await other.save(held)
    await other.flush()
    assert said(await plain.load(state.session_id)) == said(held)
    assert await worker.delete_user(state.user_id) == 1
    with pytest.raises(NotFoundError):
        await other.load(state.session_id)
    assert await plain.list() == []
    await plain.aclose()
