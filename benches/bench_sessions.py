"""Many sessions at once through one store of one process, against the same work by hand over a pool of the driver's."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any
from uuid import uuid4

import msgspec

import holdall
from benches.backends import Backend, backends
from benches.bench_state import text
from benches.figures import Median, late_row, percentile
from holdall import CheckpointManager, SessionState

AT_ONCE = (1, 8, 32)
# The same work whatever is at once: so many sessions, each loaded and checkpointed so many times, from so many messages on.
SESSIONS = 64
STEPS = 5
MESSAGES = 20
ROUNDS = 3

# One step of a session: its id, the number of the step, what it appends.
Step = Callable[[str, int, list[dict[str, str]]], Awaitable[object]]


def messages(rng: random.Random, n: int) -> list[dict[str, str]]:
    """Messages of a user and an assistant in turn."""
    return [{"role": "assistant" if at % 2 else "user", "content": text(rng)} for at in range(n)]


def ours(store: Any) -> Step:
    """Load, append, checkpoint."""
    manager = CheckpointManager(store)

    async def step(key: str, n: int, new: list[dict[str, str]]) -> object:
        state = await store.load(key) if n else SessionState(session_id=key, user_id="u")
        assert len(state.messages) == (MESSAGES + 2 * (n - 1) if n else 0)
        state.messages.extend(new)
        return await manager.save_checkpoint(state, n)

    return step


def by_hand(backend: Backend) -> Step:
    """Read, decode, encode what is new, write on the version that was read."""
    codec = msgspec.json if backend.name == "PostgreSQL" else msgspec.msgpack
    decode = msgspec.msgpack.Decoder().decode
    encode = msgspec.msgpack.Encoder().encode

    async def step(key: str, n: int, new: list[dict[str, str]]) -> object:
        head: dict[str, Any] = {"session_id": key, "user_id": "u", "version": 0, "status": "active", "plan": []}
        known = []
        if n:
            stored, entries = await backend.floor.read_all(key)
            head, known = codec.decode(stored), [decode(data)[1] for data in entries]
        assert len(known) == (MESSAGES + 2 * (n - 1) if n else 0)
        version = head["version"]
        head |= {"version": version + 1, "current_step": n}
        return await backend.floor.write(
            key, version, len(known), codec.encode(head), [encode([1, message]) for message in new]
        )

    return step


async def run(step: Step, n_at_once: int) -> tuple[float, list[float]]:
    """Take every session through its steps, so many at once; return steps a second and how long each took."""
    took: list[float] = []
    rng = random.Random(5)
    first, later = messages(rng, MESSAGES), messages(rng, 2)
    keys = [f"many-{uuid4().hex}" for _ in range(SESSIONS)]
    for key in keys:
        assert await step(key, 0, first)
    left = iter(keys)

    async def worker() -> None:
        for key in left:
            for n in range(1, STEPS + 1):
                before = time.perf_counter()
                assert await step(key, n, later)
                took.append(time.perf_counter() - before)

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(n_at_once)))
    return SESSIONS * STEPS / (time.perf_counter() - began), took


async def measure() -> list[dict[str, Any]]:
    """Both in turn, for each number of sessions at once."""
    rows: list[dict[str, Any]] = []
    async with backends() as found:
        for backend in found:
            if backend.name == "SQLite":  # has no pool: one writer, one reader
                continue
            async with holdall.open(backend.url, **backend.options) as store:
                sides = {"ours": ours(store), "peer": by_hand(backend)}
                rates: dict[tuple[str, int], list[float]] = {}
                slowest: dict[tuple[str, int], list[float]] = {}
                for at in range(ROUNDS + 1):
                    for n in AT_ONCE:
                        for side, step in sides.items() if at % 2 else reversed(sides.items()):
                            rate, took = await run(step, n)
                            if at:  # the first makes the connections
                                rates.setdefault((side, n), []).append(rate)
                                slowest.setdefault((side, n), []).append(percentile(took, 99) * 1000)
                rows += _rows(backend.name, rates, slowest)
    return rows


def _rows(
    name: str, rates: dict[tuple[str, int], list[float]], slowest: dict[tuple[str, int], list[float]]
) -> Iterator[dict[str, Any]]:
    for n in AT_ONCE:
        what = f"{name}: {n} session{'s' if n > 1 else ''} at once, load and checkpoint"
        mine, peer = Median(rates["ours", n]), Median(rates["peer", n])
        # as a checkpoint alone: 2 and 1.3 times the time of the floor
        yield _rate_row(f"{what}, against the same by hand", mine, peer, must=0.5, aim=0.77)
        yield late_row(what, Median(slowest["ours", n]), Median(slowest["peer", n]))
    most, few, one = (Median(rates["ours", n]) for n in reversed(AT_ONCE))
    what = f"{name}: {AT_ONCE[-1]} sessions at once, against"
    by_hand_gains = Median(rates["peer", AT_ONCE[-1]]) / Median(rates["peer", AT_ONCE[0]])
    yield _rate_row(f"{what} {AT_ONCE[0]}, the same store", most, one, must=1.0, aim=by_hand_gains)
    yield _rate_row(f"{what} {AT_ONCE[1]}, the same store", most, few, must=0.8, aim=1.0)


def _rate_row(what: str, ours: Median, peer: Median, *, must: float, aim: float) -> dict[str, Any]:
    return {"what": what, "ours": ours, "peer": peer, "unit": "/s", "ratio": ours / peer, "must": must, "aim": aim}


def rows() -> Iterator[dict[str, Any]]:
    """Every figure of many sessions at once."""
    yield from asyncio.run(measure())
