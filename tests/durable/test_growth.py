"""A step costs the size of the step, and what is stored is at most twice the text."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import holdall
from holdall import CheckpointManager, SessionState
from holdall.durable.session_store import SessionStore

STEPS = 500
WORDS = ["".join(random.Random(n).choice("aeioubcdfghklmnprstvw") for _ in range(2 + n % 9)) for n in range(3000)]


def text(rng: random.Random, size: int = 1200) -> str:
    """Prose-like text that neither compresses to nothing nor is noise."""
    words: list[str] = []
    while sum(map(len, words)) + len(words) < size:
        words.append(rng.choice(WORDS))
    return " ".join(words)[:size]


class Weighing:
    """Notes how many bytes each write carries."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.sizes: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def write(self, key: str, head: Any, **options: Any) -> Any:
        self.sizes.append(len(head.data) + sum(len(entry.data) for entry in options.get("append", ())))
        return await self._inner.write(key, head, **options)


async def run_steps(store: SessionStore, steps: int = STEPS) -> int:
    """Checkpoint so many steps of two messages of 1.2 KB; return the bytes of their text."""
    rng = random.Random(7)
    state = SessionState(session_id=f"s-{uuid4().hex}", user_id="u")
    manager = CheckpointManager(store)
    total = 0
    for step in range(1, steps + 1):
        for role in ("user", "assistant"):
            content = text(rng)
            total += len(content)
            state.messages.append({"role": role, "content": content})
        state.step_results[step] = "ok"
        await manager.save_checkpoint(state, step)
    return total


async def test_case_13_a_checkpoint_sends_only_its_step(any_url: str) -> None:
    """Step 500 sends what step 10 sent, whatever the backend."""
    async with holdall.open(any_url) as store:
        weighing = Weighing(store.store)
        raw = await run_steps(SessionStore(weighing, store.serializer))
    assert max(weighing.sizes[9:]) <= 1.2 * weighing.sizes[9]
    assert sum(weighing.sizes) <= 1.3 * raw


def folder_size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


async def test_case_13_a_sqlite_file_stays_under_twice_the_text(tmp_path: Path) -> None:
    """500 steps, everything that lies in the folder after a clean end."""
    async with holdall.open(f"sqlite:///{tmp_path}/s.db", durability="process") as store:
        raw = await run_steps(store)
    stored = folder_size(tmp_path)
    assert stored <= 2 * raw


async def test_ended_sessions_do_not_stay_in_the_lists(tmp_path: Path) -> None:
    """Sessions that have expired are in no list, and their space is used again."""
    now = 1_000_000.0
    async with holdall.open(f"sqlite:///{tmp_path}/s.db", durability="process", now=lambda: now) as store:
        for n in range(50):
            await store.save(SessionState(session_id=f"s{n}", user_id="u", ttl_seconds=10))
        assert len(await store.list(user_id="u")) == 50
        now += 11
        assert await store.list(user_id="u") == []
        assert await store.list() == []


@pytest.mark.parametrize("jump_s", [-86_400.0, -1.0, 0.0, 1.0])
async def test_clock_jumps_neither_lose_nor_excuse_an_update(tmp_path: Path, jump_s: float) -> None:
    """Versions are counted, never taken from a clock: set back or forward between writes, the stale one conflicts."""
    now = 1_000_000.0
    async with holdall.open(f"sqlite:///{tmp_path}/s.db", durability="process", now=lambda: now) as store:
        state = SessionState(session_id="s", user_id="u", ttl_seconds=None)
        await store.save(state)
        stale = await store.load("s")
        now += jump_s
        state.summary = "newer"
        assert (await store.save(state)).number == 2
        with pytest.raises(holdall.ConflictError):
            await store.save(stale)
        now -= jump_s
        loaded = await store.load("s")
        assert (loaded.version, loaded.summary) == (2, "newer")
        await store.save(loaded)


@pytest.mark.postgres
async def test_case_14_postgres_stays_under_twice_the_text(postgres_server: Any) -> None:
    """500 steps, every table and index of the store, as they are without a VACUUM."""
    import asyncpg

    schema = f"growth_{uuid4().hex[:12]}"
    async with holdall.open(postgres_server.url, schema=schema) as store:
        raw = await run_steps(store)
    connection = await asyncpg.connect(postgres_server.url)
    stored = await connection.fetchval(
        "SELECT sum(pg_total_relation_size(c.oid)) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = $1 AND c.relkind = 'r'",
        schema,
    )
    await connection.close()
    assert 0.5 * raw < stored <= 2 * raw


@pytest.mark.redis
async def test_case_15_redis_keeps_as_many_keys_as_before(valkey_server: Any) -> None:
    """50 saves of one session: the number of keys is that of the first."""
    with valkey_server.client() as client:
        async with holdall.open(valkey_server.url) as store:
            state = SessionState(session_id=f"s-{uuid4().hex}", user_id=f"u-{uuid4().hex}")
            state.messages.append({"role": "user", "content": "first"})
            await store.save(state)
            before = client.dbsize()
            for n in range(50):
                state.messages.append({"role": "user", "content": str(n)})
                await store.save(state)
            assert client.dbsize() == before
