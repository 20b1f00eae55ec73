"""Moves between tiers, cut off at every boundary, beside a reader and a writer: nothing is lost, and nobody sees less."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdall import ConflictError, NotFoundError, SessionState
from holdall.durable.copies import archived_of
from holdall.durable.tiers import TieredStateManager
from holdall.stores.base import Store
from holdall.stores.memory import MemoryStore
from holdall.stores.postgres import PostgresStore
from holdall.stores.redis import RedisStore
from holdall.stores.sqlite import SqliteStore

from .tier_worker import Boundaries, Crash, Worker


class Tiers(NamedTuple):
    hot: Store
    warm: Store
    cold: Store

    def worker(self, at: int | None = None, rng: random.Random | None = None) -> tuple[TieredStateManager, Boundaries]:
        """A worker of its own: nothing but the stores is shared."""
        boundaries = Boundaries(at)
        hot, warm, cold = (
            Worker(store, boundaries, name, rng) for store, name in zip(self, ("hot", "warm", "cold"), strict=True)
        )
        return TieredStateManager(warm, hot=hot, cold=cold, hot_timeout_s=None, cold_timeout_s=None), boundaries


@pytest.fixture(
    params=["memory", pytest.param("servers", marks=[pytest.mark.postgres, pytest.mark.redis])],
)
async def tiers(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Tiers]:
    """In memory; and Valkey over PostgreSQL over a SQLite file."""
    if request.param == "memory":
        yield Tiers(MemoryStore(), MemoryStore(), MemoryStore())
        return
    made = Tiers(
        RedisStore(request.getfixturevalue("valkey_server").url, namespace="tiers"),
        PostgresStore(request.getfixturevalue("postgres_server").url, schema="tiers"),
        SqliteStore(tmp_path / "cold.db", durability="process"),
    )
    yield made
    for store in made:
        await store.aclose()


def said(state: SessionState) -> list[str]:
    return [message["content"] for message in state.messages]


async def archive(worker: TieredStateManager, session_id: str) -> None:
    await worker.archive(session_id)


async def restore(worker: TieredStateManager, session_id: str) -> None:
    await worker.restore_archived(session_id)


async def read(worker: TieredStateManager, session_id: str) -> None:
    await worker.load(session_id)


async def write(worker: TieredStateManager, session_id: str) -> None:
    state = await worker.load(session_id)
    state.messages.append({"role": "user", "content": "moved"})
    with contextlib.suppress(ConflictError):
        await worker.save(state)


# what is done to a session, and whether it is archived before
MOVES: dict[str, tuple[Callable[[TieredStateManager, str], Awaitable[None]], bool]] = {
    "archive": (archive, False),
    "restore": (restore, True),
    "read what is warm": (read, False),
    "read what is cold": (read, True),
    "write what is warm": (write, False),
    "write what is cold": (write, True),
}


async def begun(tiers: Tiers, session_id: str, *, is_archived: bool) -> None:
    worker, _ = tiers.worker()
    state = SessionState(session_id=session_id, user_id="u-tiers", ttl_seconds=600)
    for n in range(3):
        state.messages.append({"role": "user", "content": f"{n}"})
        await worker.save(state)
    if is_archived:
        assert await worker.archive(session_id)


async def test_a_move_cut_off_at_any_boundary_loses_nothing(
    tiers: Tiers, session_id: str, full: bool, report: Any, request: pytest.FixtureRequest
) -> None:
    """After each crash the session is whole, at no older version; a new worker goes on; sweeps leave no copy behind."""
    rounds = 100 if full else 6 if isinstance(tiers.warm, MemoryStore) else 1
    n_crashes = 0
    for move, (do, is_archived) in MOVES.items():
        for turn in range(rounds):
            at = 0
            while True:
                one = f"{session_id}-{move}-{turn}-{at}"
                await begun(tiers, one, is_archived=is_archived)
                before = await tiers.worker()[0].load(one)
                worker, boundaries = tiers.worker(at)
                try:
                    await do(worker, one)
                except Crash:
                    n_crashes += 1
                await check_after(tiers, one, before, f"{move}, cut off {boundaries.names[-1]}")
                if boundaries.n <= at:
                    break
                at += 1
    await assert_no_orphans(tiers)
    report(f"tier moves, {type(tiers.warm).__name__}: {n_crashes} crashes at every boundary, nothing lost")
    assert n_crashes > 40 * rounds


async def check_after(tiers: Tiers, session_id: str, before: SessionState, what: str) -> None:
    other, _ = tiers.worker()
    after = await other.load(session_id)
    assert after.version >= before.version, what
    assert said(after) in (said(before), [*said(before), "moved"]), what
    assert (await other.info(session_id)).entries == len(after.messages), what
    after.messages.append({"role": "user", "content": "on"})
    await other.save(after)
    assert said(await tiers.worker()[0].load(session_id)) == said(after), what
    assert await other.delete(session_id)
    with pytest.raises(NotFoundError):
        await tiers.worker()[0].load(session_id)
    reborn = SessionState(session_id=session_id, user_id="u-tiers", ttl_seconds=600)
    version = await other.save(reborn)
    assert (version.number, version.generation == after.generation) == (1, False), what
    assert said(await tiers.worker()[0].load(session_id)) == [], what
    await other.delete(session_id)


async def assert_no_orphans(tiers: Tiers) -> None:
    worker, _ = tiers.worker()
    await worker.sweep()
    assert [key async for key in tiers.cold.find() if archived_of(key) is not None] == []


async def test_readers_and_writers_beside_moves_see_no_less(
    tiers: Tiers, session_id: str, full: bool, report: Any
) -> None:
    """One worker archives and restores all the time, some writers write, some readers read.

    A read that begins after a write was acknowledged returns that write or a later one, whole; no read misses the session.
    """
    rng = random.Random(session_id)
    await begun(tiers, session_id, is_archived=False)
    acknowledged = 3
    is_done = False
    figures = {"moves": 0, "reads": 0, "writes": 0}

    async def moves() -> None:
        while not is_done:
            worker, _ = tiers.worker(rng=rng)
            if rng.random() < 0.5:
                with contextlib.suppress(Crash):
                    await tiers.worker(rng.randrange(20), rng)[0].archive(session_id)
            figures["moves"] += await worker.archive(session_id)
            if rng.random() < 0.3:
                figures["moves"] += await worker.restore_archived(session_id)
            await asyncio.sleep(0)

    async def writes(n: int) -> None:
        nonlocal acknowledged
        worker, _ = tiers.worker(rng=rng)
        done = 0
        while done < n:
            state = await worker.load(session_id)
            state.messages.append({"role": "user", "content": f"{len(state.messages)}"})
            try:
                await worker.save(state)
            except ConflictError:
                continue
            acknowledged = max(acknowledged, len(state.messages))
            done += 1
            figures["writes"] += 1

    async def reads() -> None:
        worker, _ = tiers.worker(rng=rng)
        while not is_done:
            floor = acknowledged
            state = await worker.load(session_id)
            assert len(state.messages) >= floor, "an older version than was acknowledged before the read"
            assert said(state) == [f"{n}" for n in range(len(state.messages))]
            figures["reads"] += 1

    others = [asyncio.ensure_future(task) for task in (moves(), reads(), reads())]
    n_writes = 400 if full else 60 if isinstance(tiers.warm, MemoryStore) else 25
    await asyncio.gather(*(writes(n_writes) for _ in range(3)))
    is_done = True
    await asyncio.gather(*others)
    assert said(await tiers.worker()[0].load(session_id)) == [f"{n}" for n in range(3 + 3 * n_writes)]
    report(f"tier moves beside readers and writers, {type(tiers.warm).__name__}: {figures}")
    assert figures["moves"] > 5
    assert figures["reads"] > 5
    await tiers.worker()[0].delete(session_id)
    await assert_no_orphans(tiers)
