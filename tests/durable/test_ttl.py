"""How long things live, and sweeps beside writers."""

from __future__ import annotations

import asyncio
from pathlib import Path
from uuid import uuid4

import pytest

from holdall import (
    ArgumentError,
    NotFoundError,
    RateLimiter,
    SessionState,
    Sweeper,
    TieredStateManager,
    ToolResultCache,
    TtlPolicies,
    UnknownNameError,
    UserProfileStore,
)
from holdall.durable.session_store import SessionStore
from holdall.durable.sweep import sweep
from holdall.durable.ttl import CHECKPOINT_TTL_S, DAY_S, HOUR_S, SENSIBLE_S
from holdall.stores.base import ABSENT, Blob
from holdall.stores.memory import MemoryStore
from holdall.stores.sqlite import SqliteStore

from .faulty import FaultyStore

HEAD = Blob("text", b"")


def test_every_kind_of_record_has_a_named_default() -> None:
    policies = TtlPolicies()
    assert {kind: policies.of(kind) for kind in SENSIBLE_S} == {
        "session": HOUR_S,
        "checkpoint": 7 * DAY_S,
        "history": 90 * DAY_S,
        "tool_cache": HOUR_S,
        "rate_counter": 60,
        "semantic": None,
    }
    assert policies.checkpoint == CHECKPOINT_TTL_S
    assert policies.unusual() == []


def test_a_policy_is_overridden_by_name_and_checked() -> None:
    policies = TtlPolicies(session=5 * HOUR_S, rate_counter=1)
    assert policies.of("session") == 5 * HOUR_S
    assert policies.unusual() == ["session", "rate_counter"]
    with pytest.raises(UnknownNameError, match="tool_cache"):
        policies.of("tools")
    for bad in (0, -1, float("nan"), True, "1h"):
        with pytest.raises(ArgumentError):
            TtlPolicies(history=bad)  # type: ignore[arg-type]


async def test_a_save_renews_the_life_in_the_same_write(store: SessionStore) -> None:
    """On every backend: the expiry that a save leaves is its own, and no second call set it."""
    state = SessionState(session_id=f"s-{uuid4().hex}", user_id="u", ttl_seconds=600)
    await store.save(state)
    first = (await store.info(state.session_id)).expires_at
    state.ttl_seconds = 1200
    await store.save(state)
    second = (await store.info(state.session_id)).expires_at
    assert first is not None
    assert second is not None
    assert 590 < second - first < 660


async def test_a_sweep_beside_writers_frees_only_what_has_ended(store: SessionStore) -> None:
    """Sessions end and are swept while others are written, revived by new saves, and read: none of these is lost."""
    user = f"u-{uuid4().hex}"

    async def ended(n: int) -> None:
        state = SessionState(session_id=f"ended-{user}-{n}", user_id=user, ttl_seconds=0.05)
        state.messages.append({"role": "user", "content": "x"})
        await store.save(state)

    async def kept(n: int) -> None:
        state = SessionState(session_id=f"kept-{user}-{n}", user_id=user, ttl_seconds=600)
        for _ in range(8):
            state.messages.append({"role": "user", "content": "x"})
            await store.save(state)
            await asyncio.sleep(0.01)

    async def swept() -> None:
        for _ in range(8):
            await sweep(store)
            await asyncio.sleep(0.01)

    await asyncio.gather(*(ended(n) for n in range(12)), *(kept(n) for n in range(6)), swept(), swept())
    await asyncio.sleep(0.06)
    # a key whose record has ended, and is being swept, begins anew
    reborn = [SessionState(session_id=f"ended-{user}-{n}", user_id=user, ttl_seconds=600) for n in range(4)]
    await asyncio.gather(*(store.save(state) for state in reborn), swept())
    assert sorted(await store.list(user_id=user)) == sorted(
        [f"kept-{user}-{n}" for n in range(6)] + [state.session_id for state in reborn]
    )
    for n in range(6):
        assert len((await store.load(f"kept-{user}-{n}")).messages) == 8
    for state in reborn:
        assert await store.load(state.session_id) == state


@pytest.mark.parametrize("kind", ["memory", "sqlite", "tiers", "behind"])
async def test_case_23_what_has_expired_is_absent_before_it_is_swept(kind: str, tmp_path: Path) -> None:
    """From load, info, history, list, profiles, cached answers and limits; and a new session of the id begins anew."""
    time = [1_700_000_000.0]

    def memory() -> MemoryStore:
        return MemoryStore(now=lambda: time[0])

    store = {
        "memory": lambda: SessionStore(memory()),
        "sqlite": lambda: SessionStore(SqliteStore(tmp_path / "x.db", durability="process", now=lambda: time[0])),
        "tiers": lambda: TieredStateManager(memory(), hot=memory(), cold=memory(), now=lambda: time[0]),
        "behind": lambda: TieredStateManager(
            memory(), hot=memory(), write="behind", negative_s=0.0, flush_s=1e9, now=lambda: time[0]
        ),
    }[kind]()
    async with store:
        state = SessionState(session_id="s", user_id="u", ttl_seconds=100)
        state.messages.append({"role": "user", "content": "x"})
        await store.save(state)
        profiles = UserProfileStore(store, ttl_s=100, max_stale_s=0)
        cache = ToolResultCache(store, ttl_s=100)
        limiter = RateLimiter(store, 1, 100, now=lambda: time[0])
        await profiles.put("u", {"n": 1})
        await cache.put("t", {}, 1)
        await limiter.take("l")
        assert not (await limiter.take("l")).is_allowed
        time[0] += 100.5
        for call in (store.load, store.info, store.history):
            with pytest.raises(NotFoundError):
                await call("s")
        assert await store.list() == await store.list(user_id="u") == []
        assert await profiles.get("u") is None
        assert await cache.get("t", {}) is None
        assert (await limiter.take("l")).is_allowed
        assert not await store.extend_ttl("s", 100)
        reborn = SessionState(session_id="s", user_id="u", ttl_seconds=100)
        await store.save(reborn)
        assert reborn.generation != state.generation
        assert list((await store.load("s")).messages) == []


async def test_a_sweep_of_many_goes_in_batches(tmp_path: Path) -> None:
    """A writer gets its turn between two batches, however much there is to free."""
    time = [0.0]
    store = SqliteStore(tmp_path / "many.db", durability="process", now=lambda: time[0])
    for n in range(2500):
        await store.write(f"k{n}", HEAD, expected=ABSENT, ttl_s=5)
    time[0] = 10.0
    freeing = asyncio.ensure_future(sweep(store))
    await asyncio.sleep(0)
    await store.write("new", HEAD, expected=ABSENT, ttl_s=None)
    written_while_freeing = not freeing.done()
    assert await freeing >= 2490
    assert written_while_freeing
    assert await store.read("new") is not None
    await store.aclose()


async def test_the_sweeper_goes_on_past_a_store_that_is_away() -> None:
    """It sweeps the others, and tries that one again next time."""
    time = [0.0]
    stores = [FaultyStore(MemoryStore(now=lambda: time[0])) for _ in range(2)]
    for store in stores:
        await store.write("k", HEAD, expected=ABSENT, ttl_s=5)
    time[0] = 10.0
    stores[0].is_dead = True
    turns: list[float] = []
    swept = asyncio.Event()

    async def sleep(seconds: float) -> None:
        turns.append(seconds)
        if len(turns) == 3:
            swept.set()
            await asyncio.Event().wait()
        stores[0].is_dead = len(turns) == 1

    async with Sweeper(*stores, every_s=7, sleep=sleep) as sweeper:
        await swept.wait()
    assert turns == [7, 7, 7]
    assert sweeper.freed == 2
    with pytest.raises(ArgumentError):
        Sweeper()
    with pytest.raises(ArgumentError):
        Sweeper(stores[0], every_s=0)
