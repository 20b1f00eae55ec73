"""Threads: what a fork stores and costs, and reading a context through 1, 10 and 100 ancestors.

`build_context` is timed against one read of a session that holds the same messages itself: what a copy at each fork would
have bought.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from statistics import median
from typing import Any

import holdall
from holdall.durable.session_store import SessionStore
from holdall.durable.thread import ConversationThread

MESSAGES = 1000
DEPTHS = (1, 10, 100)
ROUNDS = 15


def message(n: int) -> dict[str, Any]:
    """A message of some 200 characters."""
    return {"role": "user" if n % 2 else "assistant", "content": f"message {n}: " + "lorem ipsum dolor sit " * 9}


async def seconds(act: Callable[[], Awaitable[object]]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    await act()
    return time.perf_counter() - start


async def chain(store: SessionStore, depth: int) -> ConversationThread:
    """A thread with `depth` ancestors and 1,000 messages in its context, spread over all of them."""
    share, rest = divmod(MESSAGES, depth + 1)
    root = holdall.SessionState(session_id=f"bench-{depth}", user_id="bench", ttl_seconds=None)
    root.messages.extend(message(n) for n in range(share + rest))
    await store.save(root)
    thread = ConversationThread(store, root.session_id)
    n = share + rest
    for _ in range(depth):
        thread = await thread.fork()
        await thread.append(*(message(n + i) for i in range(share)))
        n += share
    return thread


async def measure(url: str) -> list[dict[str, Any]]:
    """Rows for one backend."""
    rows = []
    async with holdall.open(url) as store:
        whole = holdall.SessionState(session_id="whole", user_id="bench", ttl_seconds=None)
        whole.messages.extend(message(n) for n in range(MESSAGES))
        await store.save(whole)
        root = ConversationThread(store, "whole")
        forks, saves = [], []
        for n in range(ROUNDS):
            forks.append(await seconds(lambda n=n: root.fork(session_id=f"fork-{n}")))
            plain = holdall.SessionState(session_id=f"plain-{n}", user_id="bench")
            saves.append(await seconds(lambda plain=plain: store.save(plain)))
        record = await store.store.read("fork-0")
        assert record is not None
        size = len(record.head.data) + sum(len(name) + len(value) for name, value in record.tags.items())
        rows.append(row(url, f"bytes of a fork of {MESSAGES} messages", size, 1000.0, 1000, "B"))
        rows.append(
            row(url, f"fork of {MESSAGES} messages, against a save of a new session", median(forks), median(saves))
        )
        for depth in DEPTHS:
            thread = await chain(store, depth)
            expected = list((await store.load("whole")).messages)
            assert await thread.build_context() == expected

            async def read() -> object:
                return list((await store.load("whole")).messages)

            ours, peer = [], []
            for _ in range(ROUNDS):
                ours.append(await seconds(thread.build_context))
                peer.append(await seconds(read))
            what = f"context of {MESSAGES} messages through {depth} ancestors, against one session"
            rows.append(row(url, what, median(ours), median(peer)))
    return rows


def row(url: str, what: str, ours: float, peer: float, must: float | None = None, unit: str = "s") -> dict[str, Any]:
    """One row of the table."""
    return {
        "what": f"{url.partition(':')[0]}: {what}",
        "ours": ours,
        "peer": peer,
        "unit": unit,
        "ratio": ours if unit == "B" else ours / peer,
        "must": must,
        "aim": None,
        "lower": True,
    }


def rows() -> Iterator[dict[str, Any]]:
    """Measure in memory, on SQLite, and on servers of our own."""
    from tests.servers.postgres import Postgres
    from tests.servers.redis import Node, valkey_program

    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        postgres = Postgres(is_durable=True)
        stack.callback(postgres.stop)
        valkey = Node(valkey_program(), config="appendonly yes\nappendfsync everysec\n")
        stack.callback(valkey.stop)
        for url in ("memory:", f"sqlite:///{folder}/bench.db", postgres.url, valkey.url):
            yield from asyncio.run(measure(url))
