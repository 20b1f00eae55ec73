"""Checkpoints against the raw floor of each store, what is stored, and updates of one key by several processes."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import holdall
from benches.backends import Backend, backends
from benches.contention import InThread, race
from benches.figures import Median, is_full, late
from benches.peers_state import compare
from benches.reading import read_rows
from holdall import CheckpointManager, SessionState

STEPS = (10, 100, 1000)
TIMED = 30
ROUNDS = 2
STORED_STEPS = 500
UPDATES = 300
CONTENTION_ROUNDS = 3
WORDS = ["".join(random.Random(n).choice("aeioubcdfghklmnprstvw") for _ in range(2 + n % 9)) for n in range(3000)]


def text(rng: random.Random, size: int = 1200) -> str:
    """Text of prose's lengths, not one word of which a compressor knows."""
    words: list[str] = []
    length = 0
    while length < size:
        words.append(rng.choice(WORDS))
        length += len(words[-1]) + 1
    return " ".join(words)[:size]


def add_step(state: SessionState, step: int, rng: random.Random) -> int:
    """Append what a step of an agent adds; return the bytes of its text."""
    state.messages.append({"role": "user", "content": text(rng)})
    state.messages.append({"role": "assistant", "content": text(rng)})
    state.step_results[step] = "ok"
    state.accumulated_cost += 0.001
    return 2400


async def checkpoint_times(backend: Backend, at: int) -> tuple[Median, Median]:
    """Return the medians of a checkpoint of ours and of the floor, timed in turn from step `at` on."""
    ours: list[float] = []
    floors: list[float] = []
    async with holdall.open(backend.url, **backend.options) as store:
        for _ in range(ROUNDS):
            rng = random.Random(at)
            state = SessionState(session_id=f"bench-{uuid4().hex}", user_id=f"u-{uuid4().hex}")
            key = state.session_id
            for step in range(1, at):
                add_step(state, step, rng)
            manager = CheckpointManager(store)
            start, version = 0, 0
            for step in range(at - 1, at + TIMED):
                if step >= at:
                    add_step(state, step, rng)
                # The floor gets the bytes of this very step, encoded beforehand.
                payload = store.serializer.snapshot(state)
                entries = [data for _, data in payload.append]
                calls = [
                    (ours, lambda manager=manager, state=state, step=step: manager.save_checkpoint(state, step)),
                    (floors, lambda args=(key, version, start, payload.head, entries): backend.floor.write(*args)),
                ]
                # Whoever comes second meets a server that is awake: they take turns.
                for times, call in calls if step % 2 else reversed(calls):
                    before = time.perf_counter()
                    assert await call()
                    if step >= at + 4:
                        times.append(time.perf_counter() - before)
                start, version = start + len(entries), version + 1
            loaded = await store.load(key)
            assert loaded == state
            assert (await backend.floor.read(key))[0] == version
            await store.delete(key)
    return Median(ours), Median(floors)


async def stored_ratio(backend: Backend) -> tuple[int, int]:
    """Return the bytes stored after 500 steps, and the bytes of their text."""
    async with holdall.open(backend.url, **backend.options) as store:
        await store.list()
        before = await _sized(backend)
        state = SessionState(session_id=f"bench-{uuid4().hex}", user_id="stored")
        manager = CheckpointManager(store)
        rng = random.Random(1)
        raw = 0
        for step in range(1, STORED_STEPS + 1):
            raw += add_step(state, step, rng)
            await manager.save_checkpoint(state, step)
        if backend.name == "SQLite":
            await store.aclose()
        return await _sized(backend) - before, raw


async def _sized(backend: Backend) -> int:
    size = backend.stored_bytes()
    return await size if asyncio.iscoroutine(size) else size


def _checkpoint(backend: Backend, at: int, peer: str, ours: Median, floor: Median) -> dict[str, Any]:
    return {
        "what": f"{backend.name}: checkpoint at step {at}, against {peer}",
        "ours": ours,
        "peer": floor,
        "ratio": ours / floor,
        "must": 2.0,
        "aim": 1.3,
        "lower": True,
    }


@asynccontextmanager
async def _in_thread(backend: Backend) -> AsyncIterator[Backend]:
    floor = InThread(backend.url.removeprefix("sqlite:///").replace("ours.db", "thread.db"))
    try:
        yield backend._replace(floor=floor)
    finally:
        await floor.aclose()


async def measure() -> list[dict[str, Any]]:
    """Run everything on every backend."""
    rows: list[dict[str, Any]] = []
    async with backends() as found:
        for backend in found:
            stored, raw = await stored_ratio(backend)
            medians = {at: await checkpoint_times(backend, at) for at in STEPS}
            rows += [_checkpoint(backend, at, "the raw floor", *pair) for at, pair in medians.items()]
            if backend.name == "SQLite":
                # the raw floor stops the event loop for as long as the disk takes; this one does not, as code on a loop may not
                async with _in_thread(backend) as threaded:
                    pair = await checkpoint_times(threaded, STEPS[-1])
                rows.append(_checkpoint(backend, STEPS[-1], "the raw floor in a thread", *pair))
            every = [[took for pair in medians.values() for took in pair[side].samples] for side in (0, 1)]
            rows.append(late(f"{backend.name}: checkpoint at step {', '.join(map(str, STEPS))}", *every))
            rows.append(
                {
                    "what": f"{backend.name}: checkpoint at step 1000, against step 10",
                    "ours": medians[1000][0],
                    "peer": medians[10][0],
                    "ratio": medians[1000][0] / medians[10][0],
                    "must": 1.2,
                    "aim": 1.0,
                    "lower": True,
                }
            )
            rows.append(
                {
                    "what": f"{backend.name}: stored after {STORED_STEPS} steps, against the text",
                    "ours": stored,
                    "peer": raw,
                    "unit": "bytes",
                    "ratio": stored / raw,
                    "must": 2.0,
                    "aim": 1.2,
                    "lower": True,
                }
            )
        for backend in found:
            rows += await read_rows(backend, text)
        for backend in found:
            if is_full() and backend.name == "PostgreSQL":
                for peer in ("langgraph", "openai-agents"):
                    rows += [{"must": None, "aim": None, **row} for row in await compare(peer, backend.url, text)]
        for backend in found:
            for n_processes in (2, 8) if is_full() else (8,):
                rows += await asyncio.to_thread(contention, backend, n_processes)
    return rows


def contention(backend: Backend, n_processes: int) -> list[dict[str, Any]]:
    """Updates of one key by several processes, ours and by hand in turn."""
    what = f"{backend.name}: {n_processes} processes update one key"
    by_hand, ours, blocking = [], [], []
    for _ in range(CONTENTION_ROUNDS):
        # a file of SQLite has its own luck with fsync, a tenfold of it: each race gets a fresh one
        urls = [backend.url.replace("ours.db", f"race-{uuid4().hex}.db") for _ in range(3)]
        by_hand.append(race("by hand", urls[0], n_processes, UPDATES))
        ours.append(race("ours", urls[1], n_processes, UPDATES))
        if backend.name == "SQLite":
            blocking.append(race("by hand, blocking", urls[2], n_processes, UPDATES)["rate"])
    rate, peer = (Median(run["rate"] for run in runs) for runs in (ours, by_hand))
    p99, peer_p99 = (Median(run["p99"] * 1000 for run in runs) for runs in (ours, by_hand))
    rows = [
        {
            "what": f"{what}, against the loop by hand{', in a thread' if backend.name == 'SQLite' else ''}",
            "ours": rate,
            "peer": peer,
            "unit": "/s",
            "ratio": rate / peer,
            "must": 1.0,
            "aim": 1.5,
        },
        {
            "what": f"{what}: 99th percentile, ours in ms",
            "ours": p99,
            "peer": peer_p99,
            "unit": "ms",
            "ratio": p99,
            "must": 250.0,
            "aim": 100.0,
            "lower": True,
        },
    ]
    if blocking:
        rows.append(
            {
                "what": f"{what}, against a loop that stops its event loop for every write",
                "ours": rate,
                "peer": Median(blocking),
                "unit": "/s",
                "ratio": rate / Median(blocking),
                "must": None,
                "aim": None,
            }
        )
    return rows


def rows() -> Iterator[dict[str, Any]]:
    """Every figure of the session's half."""
    yield from asyncio.run(measure())
