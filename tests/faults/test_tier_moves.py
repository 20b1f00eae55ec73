"""Moves between tiers, cut off at every boundary, beside a reader and a writer: nothing is lost, and nobody sees less."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from holdall import ConflictError, NotFoundError, SessionState, StoreUnavailableError
from holdall.durable.copies import archived_of
from holdall.durable.tiers import TieredStateManager
from holdall.stores.base import Store
from holdall.stores.memory import MemoryStore
from holdall.stores.postgres import PostgresStore
from holdall.stores.redis import RedisStore
from holdall.stores.sqlite import SqliteStore
from tests.servers.redis import Node, valkey_program

from .tier_worker import Boundaries, Crash, Worker


class Tiers(NamedTuple):
    hot: Store
    warm: Store
    cold: Store

    def worker(
        self, at: int | None = None, rng: random.Random | None = None, **options: Any
    ) -> tuple[TieredStateManager, Boundaries]:
        """A worker of its own: nothing but the stores is shared."""
        boundaries = Boundaries(at)
        hot, warm, cold = (
            Worker(store, boundaries, name, rng) for store, name in zip(self, ("hot", "warm", "cold"), strict=True)
        )
        manager = TieredStateManager(warm, hot=hot, cold=cold, hot_timeout_s=None, cold_timeout_s=None, **options)
        return manager, boundaries

    def behind(self, at: int | None = None, rng: random.Random | None = None) -> tuple[TieredStateManager, Boundaries]:
        """One that writes behind, and flushes when told to."""
        return self.worker(at, rng, write="behind", flush_s=1e9, negative_s=0.0)


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
    is_whole = full or isinstance(tiers.warm, MemoryStore)
    rounds, stride = 100 if full else 4 if is_whole else 1, 1 if is_whole else 2
    n_crashes = 0
    for move, (do, is_archived) in MOVES.items():
        for turn in range(rounds):
            at = random.randrange(stride)
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
                at += stride
    await assert_no_orphans(tiers)
    report(f"tier moves, {type(tiers.warm).__name__}: {n_crashes} crashes at every boundary, nothing lost")
    assert n_crashes > 40 * rounds // stride


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


async def flush(worker: TieredStateManager, session_id: str) -> None:
    await write(worker, session_id)
    await worker.flush()


async def remove(worker: TieredStateManager, session_id: str) -> None:
    await worker.delete(session_id)


async def behind_is_whole(tiers: Tiers, one: str, before: SessionState, what: str, *, may_be_gone: bool) -> None:
    """Every worker sees the session, whole; recovered, warm has the same; deleted and made again, it is another one."""
    other, _ = tiers.behind()
    try:
        after = await other.load(one)
    except NotFoundError:
        assert may_be_gone, what
        await other.recover()
        assert await tiers.warm.read(one) is None, what
        after = None
    if after is not None:
        assert after.version >= before.version, what
        assert said(after) in (said(before), [*said(before), "moved"]), what
        after.messages.append({"role": "user", "content": "on"})
        await other.save(after)
        await tiers.behind()[0].recover()
        assert said(await tiers.worker()[0].load(one)) == said(after), what
        assert await other.delete(one)
    with pytest.raises(NotFoundError):
        await tiers.behind()[0].load(one)
    reborn = SessionState(session_id=one, user_id="u-tiers", ttl_seconds=600)
    version = await other.save(reborn)
    assert (version.number, version.generation == before.generation) == (1, False), what
    await other.delete(one)


async def test_writes_behind_cut_off_at_any_boundary_lose_nothing(
    tiers: Tiers, session_id: str, full: bool, report: Any
) -> None:
    """A worker dies before, in or after a write, a flush, a move or a delete; hot and warm end up with the same."""
    is_whole = full or isinstance(tiers.warm, MemoryStore)
    rounds, stride = 100 if full else 2, 1 if is_whole else 6
    moves = {"write": write, "flush": flush, "archive": archive, "read": read, "remove": remove}
    n_crashes = 0
    for move, do in moves.items():
        for turn, is_flushed in enumerate([True, False] * (rounds // 2)):
            at = random.randrange(stride)
            while True:
                one = f"{session_id}-behind-{move}-{turn}-{at}"
                worker, _ = tiers.behind()
                state = SessionState(session_id=one, user_id="u-tiers", ttl_seconds=600)
                for n in range(3):
                    state.messages.append({"role": "user", "content": f"{n}"})
                    await worker.save(state)
                if is_flushed:
                    await worker.flush()
                dying, boundaries = tiers.behind(at)
                try:
                    await do(dying, one)
                except Crash:
                    n_crashes += 1
                what = f"{move}, cut off {boundaries.names[-1]}"
                await behind_is_whole(tiers, one, state, what, may_be_gone=move == "remove")
                if boundaries.n <= at:
                    break
                at += stride
    report(f"writes behind, {type(tiers.warm).__name__}: {n_crashes} crashes at every boundary, nothing lost")
    assert n_crashes > 40 * rounds // stride // 2


@pytest.mark.postgres
@pytest.mark.redis
async def test_a_kill_of_hot_costs_no_more_than_what_was_not_flushed(
    postgres_server: Any, session_id: str, report: Any
) -> None:
    """Valkey without an append-only file is killed and comes back empty: each session is at its last flush, or later."""
    node = Node(valkey_program())
    try:
        warm = PostgresStore(postgres_server.url, schema="tiers")
        hot = RedisStore(node.url)
        worker = TieredStateManager(warm, hot=hot, write="behind", flush_s=1e9, hot_timeout_s=2.0)
        flushed, last = {}, {}
        for n in range(10):
            one = f"{session_id}-{n}"
            state = SessionState(session_id=one, user_id="u-tiers", ttl_seconds=600)
            for i in range(4 + n):
                state.messages.append({"role": "user", "content": f"{i}"})
                await worker.save(state)
            last[one] = len(state.messages)
            if n % 4 == 0:
                await worker.flush()
                flushed[one] = len(state.messages)
        node.kill()
        with pytest.raises(StoreUnavailableError):
            await worker.load(f"{session_id}-0")
        node.start()
        fresh = TieredStateManager(warm, hot=RedisStore(node.url), write="behind", flush_s=1e9)
        lost = 0
        for one, most in last.items():
            try:
                found = len((await fresh.load(one)).messages)
            except NotFoundError:
                found = 0
            assert flushed.get(one, 0) <= found <= most
            lost += most - found
        report(f"hot killed and emptied: {lost} of {sum(last.values())} writes lost, all of them after the last flush")
        assert lost == last[f"{session_id}-9"], "what came after the last flush"
        await worker.store.hot.aclose()
        await fresh.aclose()
    finally:
        node.stop()
