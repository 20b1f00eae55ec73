"""Loading a session of a thousand messages, against reading the same bytes and decoding them with msgspec."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

import holdall
from benches.figures import Median
from holdall import SessionState

if TYPE_CHECKING:
    from benches.bench_state import Backend

N_MESSAGES = 1000
TIMED = 40


async def read_row(backend: Backend, text: Callable[[random.Random], str]) -> dict[str, Any]:
    """Read in turn; both sides have to give the same messages."""
    decode = msgspec.msgpack.Decoder().decode
    rng = random.Random(3)
    state = SessionState(session_id=f"read-{uuid4().hex}", user_id="read")
    for at in range(N_MESSAGES):
        state.messages.append({"role": "assistant" if at % 2 else "user", "content": text(rng)})
    ours: list[float] = []
    floors: list[float] = []
    async with holdall.open(backend.url, **backend.options) as store:
        payload = store.serializer.snapshot(state)
        await backend.floor.write(state.session_id, 0, 0, payload.head, [data for _, data in payload.append])
        await store.save(state)
        for _ in range(TIMED):
            before = time.perf_counter()
            found = await store.load(state.session_id)
            between = time.perf_counter()
            _, entries = await backend.floor.read_all(state.session_id)
            values = [decode(data)[1] for data in entries]
            floors.append(time.perf_counter() - between)
            ours.append(between - before)
            assert found.messages == values == state.messages
        await store.delete(state.session_id)
    mine, floor = Median(ours), Median(floors)
    return {
        "what": f"{backend.name}: load {N_MESSAGES} messages, against reading the same bytes and msgspec",
        "ours": mine,
        "peer": floor,
        "ratio": mine / floor,
        "must": None if backend.name == "SQLite" else 1.2,
        "aim": None if backend.name == "SQLite" else 1.0,
        "lower": True,
    }
