"""The steps of a session as others keep them in PostgreSQL: the same messages, server and durability."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any
from uuid import uuid4

import asyncpg

import holdall
from holdall import CheckpointManager, SessionState

STEPS = (10, 100)
TIMED = 8

Messages = list[dict[str, str]]
# Keeps one step, given the whole conversation and what the step added.
Keep = Callable[[int, Messages, Messages], Awaitable[object]]


async def ours(stack: AsyncExitStack, url: str) -> Keep:
    """A checkpoint of ours."""
    store = await stack.enter_async_context(holdall.open(url))
    manager = CheckpointManager(store)
    state = SessionState(session_id=f"peer-{uuid4().hex}", user_id="bench")

    async def keep(step: int, _whole: Messages, new: Messages) -> object:
        state.messages.extend(new)
        return await manager.save_checkpoint(state, step)

    return keep


async def langgraph(stack: AsyncExitStack, url: str) -> Keep:
    """`AsyncPostgresSaver.aput`, called as a graph with one channel of messages calls it."""
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver

    saver = await stack.enter_async_context(AsyncPostgresSaver.from_conn_string(url))
    await saver.setup()
    config: Any = {"configurable": {"thread_id": uuid4().hex, "checkpoint_ns": ""}}

    async def keep(step: int, whole: Messages, _new: Messages) -> object:
        nonlocal config
        version = f"{step:032}.0"
        checkpoint = empty_checkpoint()
        checkpoint["channel_values"] = {"messages": list(whole)}
        checkpoint["channel_versions"] = {"messages": version}
        config = await saver.aput(config, checkpoint, {"source": "loop", "step": step}, {"messages": version})
        return config

    return keep


async def openai_agents(stack: AsyncExitStack, url: str) -> Keep:
    """`SQLAlchemySession.add_items`, which keeps messages and nothing else, through the same driver as ours."""
    from agents.extensions.memory import SQLAlchemySession
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(url.replace("postgresql://", "postgresql+asyncpg://"))
    stack.push_async_callback(engine.dispose)
    session = SQLAlchemySession(uuid4().hex, engine=engine, create_tables=True)
    await session.get_items()

    async def keep(_step: int, _whole: Messages, new: Messages) -> object:
        await session.add_items(new)
        return True

    return keep


async def compare(name: str, url: str, text: Callable[[random.Random], str]) -> list[dict[str, Any]]:
    """Return the rows of ours against one peer, each in a database of its own on the server of `url`."""
    makers = {"ours": ours, name: {"langgraph": langgraph, "openai-agents": openai_agents}[name]}
    urls = {who: await _database(url, f"peer_{uuid4().hex[:8]}") for who in makers}
    what = {"langgraph": "langgraph AsyncPostgresSaver", "openai-agents": "openai-agents SQLAlchemySession"}[name]
    rng = random.Random(1)
    whole: Messages = []
    times: dict[tuple[str, int], list[float]] = {}
    stored: dict[str, int] = {}
    async with AsyncExitStack() as stack:
        try:
            keeps = {who: await make(stack, urls[who]) for who, make in makers.items()}
        except ImportError as error:
            return [{"what": f"not run: {what}: {error}", "ratio": None}]
        empty = {who: await _size(urls[who]) for who in keeps}
        for step in range(1, max(STEPS) + TIMED):
            new = [{"role": role, "content": text(rng)} for role in ("user", "assistant")]
            whole += new
            for who, keep in keeps.items() if step % 2 else reversed(keeps.items()):
                before = time.perf_counter()
                assert await keep(step, whole, new)
                took = time.perf_counter() - before
                for at in STEPS:
                    if at <= step < at + TIMED:
                        times.setdefault((who, at), []).append(took)
            if step == max(STEPS):
                stored = {who: await _size(urls[who]) - empty[who] for who in keeps}
    rows: list[dict[str, Any]] = []
    for at in STEPS:
        mine, peers = (statistics.median(times[who, at]) for who in makers)
        rows.append(
            {"what": f"PostgreSQL: step {at}, against {what}", "ours": mine, "peer": peers, "ratio": peers / mine}
        )
    mine_stored, peer_stored = (stored[who] for who in makers)
    rows.append(
        {
            "what": f"PostgreSQL: stored after {max(STEPS)} steps, against {what}",
            "ours": mine_stored,
            "peer": peer_stored,
            "unit": "bytes",
            "ratio": peer_stored / mine_stored,
        }
    )
    return rows


async def _database(url: str, name: str) -> str:
    connection = await asyncpg.connect(url)
    try:
        await connection.execute(f"CREATE DATABASE {name}")
    finally:
        await connection.close()
    return url.rsplit("/", 1)[0] + f"/{name}"


async def _size(url: str) -> int:
    connection = await asyncpg.connect(url)
    try:
        return int(
            await connection.fetchval(
                "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0) FROM pg_class c"
                " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'r' AND n.nspname = 'public'"
            )
        )
    finally:
        await connection.close()
