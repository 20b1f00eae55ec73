"""Tiers against the warm store alone, caches against what they save, and limits against a bare counter."""

from __future__ import annotations

import asyncio
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from benches.bench_state import text
from holdall import RateLimiter, SessionState, TieredStateManager, ToolResultCache, UserProfileStore
from holdall.durable.session_store import SessionStore
from holdall.state import StateSerializer
from holdall.stores.memory import MemoryStore
from holdall.stores.postgres import PostgresStore
from holdall.stores.redis import RedisStore
from holdall.stores.sqlite import SqliteStore

MESSAGES = (20, 100, 500)
ROUNDS = 60

Call = Callable[[], Awaitable[Any]]


async def medians(*calls: Call, rounds: int = ROUNDS) -> list[float]:
    """Return the median seconds of each call, timed in turn, each coming first as often as the others."""
    times: list[list[float]] = [[] for _ in calls]
    order = list(range(len(calls)))
    for turn in range(rounds + 3):
        for n in order[turn % len(order) :] + order[: turn % len(order)]:
            before = time.perf_counter()
            await calls[n]()
            if turn >= 3:
                times[n].append(time.perf_counter() - before)
    return [statistics.median(one) for one in times]


def row(what: str, ours: float, peer: float | None, *, lower: bool = False) -> dict[str, Any]:
    ratio = ours if peer is None else ours / peer if lower else peer / ours
    return {"what": what, "ours": ours, "peer": peer, "ratio": ratio, "must": None, "aim": None, "lower": lower}


@asynccontextmanager
async def servers() -> AsyncIterator[tuple[str, str, Path]]:
    """PostgreSQL that fsyncs, Valkey with an append-only file, and a folder for SQLite."""
    from tests.servers.postgres import Postgres
    from tests.servers.redis import Node, valkey_program

    postgres = Postgres(is_durable=True)
    valkey = Node(valkey_program(), config="appendonly yes\nappendfsync everysec\n")
    try:
        with tempfile.TemporaryDirectory(prefix="holdall-bench-") as folder:
            yield postgres.url, valkey.url, Path(folder)
    finally:
        valkey.stop()
        postgres.stop()


async def conversation(store: SessionStore, n: int) -> SessionState:
    rng = random.Random(n)
    state = SessionState(session_id=f"bench-{uuid4().hex}", user_id="u-bench", ttl_seconds=3600)
    for at in range(n):
        state.messages.append({"role": "assistant" if at % 2 else "user", "content": text(rng)})
    await store.save(state)
    return state


async def reads(postgres: str, valkey: str, folder: Path) -> list[dict[str, Any]]:
    """A hit in each kind of hot tier, a miss that promotes, and the archive, against reading warm as it is."""
    rows: list[dict[str, Any]] = []
    async with AsyncExitStack() as stack:
        warm = PostgresStore(postgres, schema="reads")
        hot = RedisStore(valkey, namespace="reads")
        cold = SqliteStore(folder / "cold.db")
        stack.push_async_callback(cold.aclose)
        stack.push_async_callback(hot.aclose)
        stack.push_async_callback(warm.aclose)
        serializer = StateSerializer("json")
        plain = SessionStore(warm, serializer)
        managers = {
            "hot in memory, latest": TieredStateManager(warm, hot=MemoryStore(), serializer=serializer),
            "hot in Redis, latest": TieredStateManager(warm, hot=hot, serializer=serializer),
            "hot in memory, bounded": TieredStateManager(
                warm, hot=MemoryStore(), serializer=serializer, reads="bounded", max_stale_s=3600
            ),
            "hot in Redis, bounded": TieredStateManager(
                warm,
                hot=RedisStore(valkey, namespace="bounded"),
                serializer=serializer,
                reads="bounded",
                max_stale_s=3600,
            ),
        }
        stack.push_async_callback(managers["hot in Redis, bounded"].store.hot.store.aclose)
        for n in MESSAGES:
            state = await conversation(plain, n)
            one = state.session_id
            for manager in managers.values():
                assert await manager.load(one) == await manager.load(one) == await plain.load(one)
            calls: list[Call] = [lambda one=one: plain.store.read(one)]
            calls += [lambda one=one, m=manager: m.store.read(one) for manager in managers.values()]
            peer, *ours = await medians(*calls)
            for (name, _), mine in zip(managers.items(), ours, strict=True):
                rows.append(
                    row(
                        f"read of {n} messages, {name}, against PostgreSQL",
                        mine,
                        peer,
                    )
                )
            through = managers["hot in memory, latest"]

            async def missed(one: str = one, through: TieredStateManager = through) -> None:
                await through.store.hot.store.delete(one)
                await through.store.read(one)

            mine, peer = await medians(missed, lambda one=one: plain.store.read(one))
            rows.append(row(f"read of {n} messages, promoted to memory, against PostgreSQL", mine, peer, lower=True))
        state = await conversation(plain, 500)
        manager = TieredStateManager(warm, cold=cold, serializer=serializer)
        times: dict[str, list[float]] = {"archive": [], "read archived": [], "restore": []}
        for _ in range(10):
            for name, call in (
                ("archive", manager.archive),
                ("read archived", manager.read),
                ("restore", manager.restore_archived),
            ):
                before = time.perf_counter()
                assert await call(state.session_id)
                times[name].append(time.perf_counter() - before)
        assert (await manager.load(state.session_id)).messages == state.messages
        for name, each in times.items():
            rows.append(row(f"{name}: 500 messages, PostgreSQL and SQLite with fsync", statistics.median(each), None))
    return rows


async def writes(postgres: str, valkey: str) -> list[dict[str, Any]]:
    """A checkpoint of two messages, through and behind, against PostgreSQL alone."""
    async with AsyncExitStack() as stack:
        warm = PostgresStore(postgres, schema="writes")
        hots = [RedisStore(valkey, namespace=f"writes-{n}") for n in range(2)]
        for store in (*hots, warm):
            stack.push_async_callback(store.aclose)
        serializer = StateSerializer("json")
        stores = [
            SessionStore(warm, serializer),
            TieredStateManager(warm, hot=hots[0], serializer=serializer),
            TieredStateManager(warm, hot=hots[1], serializer=serializer, write="behind", flush_s=0.2),
        ]
        states = [await conversation(store, 20) for store in stores]
        rng = random.Random(7)

        def saver(store: SessionStore, state: SessionState) -> Call:
            async def save() -> None:
                for _ in range(2):
                    state.messages.append({"role": "user", "content": text(rng)})
                await store.save(state)

            return save

        peer, through, behind = await medians(*map(saver, stores, states), rounds=2 * ROUNDS)
        await stores[2].flush()
        below = await stores[0].load(states[2].session_id)
        assert len(below.messages) == len(states[2].messages)
        await stores[2].store.flusher.aclose()
        return [
            row("checkpoint through Redis to PostgreSQL, against PostgreSQL alone", through, peer, lower=True),
            row("checkpoint in Redis, PostgreSQL behind, against PostgreSQL alone", behind, peer),
        ]


async def caches(postgres: str, valkey: str) -> list[dict[str, Any]]:
    """A cached answer and a cached profile; a limit by script and by compare-and-swap against a bare counter."""
    async with AsyncExitStack() as stack:
        warm, hot = PostgresStore(postgres, schema="caches"), RedisStore(valkey, namespace="caches")
        for store in (hot, warm):
            stack.push_async_callback(store.aclose)
        cache, profiles = ToolResultCache(hot), UserProfileStore(warm)
        answer = {"rows": [text(random.Random(n), 200) for n in range(20)]}
        await cache.put("search", {"q": "parcels", "page": 1}, answer)
        await profiles.put("u", {"name": "Ada", "likes": ["tea"] * 20})

        async def never() -> None:
            raise AssertionError("it is cached")

        async def hit() -> None:
            assert await cache.get_or_call("search", {"page": 1, "q": "parcels"}, never) == answer

        client = hot._link.client
        # what counts in one round trip, and knows no window: INCR, with an end
        bare = client.register_script(
            "local n = redis.call('INCR', KEYS[1]) redis.call('EXPIRE', KEYS[1], 60) return n"
        )
        window = RateLimiter(hot, 10_000, 60)
        bucket = RateLimiter(hot, 10_000, 60, algorithm="token_bucket")
        by_cas = RateLimiter(warm, 10_000, 60, algorithm="token_bucket")
        took, profile, by_window, by_bucket, counted, cas = await medians(
            hit,
            lambda: profiles.get("u"),
            lambda: window.take("x"),
            lambda: bucket.take("y"),
            lambda: bare(keys=[b"bare"]),
            lambda: by_cas.take("z"),
            rounds=3 * ROUNDS,
        )
        return [
            row("cached answer of a tool, 4 KB in Redis", took, None),
            row("profile, cached in the process", profile, None),
            row(
                "rate limit on Redis, sliding window, against INCR in a script",
                by_window,
                counted,
                lower=True,
            ),
            row("rate limit on Redis, token bucket, against INCR in a script", by_bucket, counted, lower=True),
            row("rate limit on PostgreSQL by compare-and-swap, fsync", cas, None),
        ]


async def measure() -> list[dict[str, Any]]:
    """Run everything on the same servers."""
    async with servers() as (postgres, valkey, folder):
        rows = await reads(postgres, valkey, folder)
        rows += await writes(postgres, valkey)
        return rows + await caches(postgres, valkey)


def rows() -> Iterator[dict[str, Any]]:
    """Every figure of tiers, caches and limits."""
    yield from asyncio.run(measure())
