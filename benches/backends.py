"""The stores that are measured, each with the hand-written floor beside it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benches.floor_sqlite import SqliteFloor


class Backend(NamedTuple):
    """A store and its floor: the same server, durability, driver and payload."""

    name: str
    url: str
    floor: Any
    stored_bytes: Any
    options: dict[str, Any]


@asynccontextmanager
async def backends() -> AsyncIterator[list[Backend]]:
    """SQLite always; PostgreSQL and Redis where the test extra brings their servers."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdall-bench-")))
        found = [
            Backend(
                "SQLite",
                f"sqlite:///{folder}/ours.db",
                SqliteFloor(folder / "floor.db"),
                lambda: sum(path.stat().st_size for path in folder.glob("ours.db*")),
                {},
            )
        ]
        found += await _servers(stack)
        try:
            yield found
        finally:
            for backend in found:
                await backend.floor.aclose()


async def _servers(stack: ExitStack) -> list[Backend]:
    import asyncpg
    import redis

    from benches.floor_postgres import PostgresFloor
    from benches.floor_redis import RedisFloor
    from tests.servers.postgres import Postgres
    from tests.servers.redis import Node, valkey_program

    postgres = Postgres(is_durable=True)
    stack.callback(postgres.stop)
    floor = PostgresFloor(postgres.url)
    await floor.open()

    async def relations() -> int:
        connection = await asyncpg.connect(postgres.url)
        try:
            return int(
                await connection.fetchval(
                    "SELECT sum(pg_total_relation_size(oid)) FROM pg_class WHERE relkind = 'r' AND relname LIKE 'agent%'"
                )
            )
        finally:
            await connection.close()

    valkey = Node(valkey_program(), config="appendonly yes\nappendfsync everysec\n")
    stack.callback(valkey.stop)

    def memory() -> int:
        with redis.Redis(port=valkey.port) as client:
            return sum(
                client.memory_usage(key, samples=0) for key in client.scan_iter(count=1000) if b"floor" not in key
            )

    return [
        Backend("PostgreSQL", postgres.url, floor, relations, {}),
        Backend("Redis", valkey.url, RedisFloor(valkey.url), memory, {}),
    ]
