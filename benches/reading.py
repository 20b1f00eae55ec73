"""Loading a session of a thousand messages, against reading the same bytes and decoding them with msgspec."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

import holdall
from benches.figures import Median, late
from holdall import SessionState

if TYPE_CHECKING:
    from benches.backends import Backend

N_MESSAGES = 1000
TIMED = 120
STOPPED = ", the event loop stopped"

# Returns the log as stored: one query with the same driver.
Floor = Callable[[], Awaitable[list[bytes]]]


def floors(backend: Backend, key: str) -> dict[str, Floor]:
    """The raw reads. SQLite blocks whoever calls it: on an event loop it has to be called in a thread."""

    async def plain() -> list[bytes]:
        return (await backend.floor.read_all(key))[1]

    async def in_thread() -> list[bytes]:
        found: tuple[bytes, list[bytes]] = await asyncio.to_thread(backend.floor.fetch_all, key)
        return found[1]

    return {" in a thread": in_thread, STOPPED: plain} if backend.name == "SQLite" else {"": plain}


async def read_rows(backend: Backend, text: Callable[[random.Random], str]) -> list[dict[str, Any]]:
    """Read in turn, to the last message; all have to give the same messages."""
    decode = msgspec.msgpack.Decoder().decode
    rng = random.Random(3)
    state = SessionState(session_id=f"read-{uuid4().hex}", user_id="read")
    for at in range(N_MESSAGES):
        state.messages.append({"role": "assistant" if at % 2 else "user", "content": text(rng)})
    took: dict[str, list[float]] = {}
    reads = floors(backend, state.session_id)
    async with holdall.open(backend.url, **backend.options) as store:
        payload = store.serializer.snapshot(state)
        await backend.floor.write(state.session_id, 0, 0, payload.head, [data for _, data in payload.append])
        await store.save(state)

        async def ours() -> list[Any]:
            return (await store.load(state.session_id)).messages

        async def by_hand(read: Floor) -> list[Any]:
            return [decode(data)[1] for data in await read()]

        calls = {"ours": ours} | {name: lambda read=read: by_hand(read) for name, read in reads.items()}
        for at in range(TIMED):
            for name, call in calls.items() if at % 2 else reversed(calls.items()):
                before = time.perf_counter()
                found = await call()
                took.setdefault(name, []).append(time.perf_counter() - before)
                assert found == state.messages
                del found
        await store.delete(state.session_id)
    mine = Median(took["ours"])
    rows: list[dict[str, Any]] = []
    for name in reads:
        floor = Median(took[name])
        is_fair = name != STOPPED
        rows.append(
            {
                "what": f"{backend.name}: load {N_MESSAGES:,} messages, against reading the same bytes and msgspec{name}",
                "ours": mine,
                "peer": floor,
                "ratio": mine / floor,
                "must": 1.2 if is_fair else None,
                "aim": 1.0 if is_fair else None,
                "lower": True,
            }
        )
    rows.append(late(f"{backend.name}: load {N_MESSAGES:,} messages", took["ours"], took[next(iter(reads))]))
    return rows
