"""The floor of a checkpoint in PostgreSQL: one hand-written CTE, through the same driver and pool."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

_TABLES = """
CREATE TABLE IF NOT EXISTS floor_head (id text PRIMARY KEY, version bigint NOT NULL, ends timestamptz, data jsonb NOT NULL);
CREATE TABLE IF NOT EXISTS floor_log (id text NOT NULL, seq bigint NOT NULL, data bytea NOT NULL, PRIMARY KEY (id, seq));
"""
_CREATE = """
WITH head AS (
    INSERT INTO floor_head VALUES ($1, 1, now() + interval '1 hour', $2) ON CONFLICT DO NOTHING RETURNING 1
), log AS (
    INSERT INTO floor_log SELECT $1, $3 + n - 1, data FROM head, unnest($4::bytea[]) WITH ORDINALITY AS u (data, n)
)
SELECT 1 FROM head
"""
_UPDATE = """
WITH head AS (
    UPDATE floor_head SET version = version + 1, ends = now() + interval '1 hour', data = $2
    WHERE id = $1 AND version = $5 RETURNING 1
), log AS (
    INSERT INTO floor_log SELECT $1, $3 + n - 1, data FROM head, unnest($4::bytea[]) WITH ORDINALITY AS u (data, n)
)
SELECT 1 FROM head
"""


class PostgresFloor:
    """A head row and log rows, one statement a checkpoint."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._pool: Any = None

    async def open(self) -> None:
        """Connect and make the tables."""
        self._pool = await asyncpg.create_pool(self._url, min_size=0, max_size=10)
        await self._pool.execute(_TABLES)

    async def write(self, key: str, version: int, start: int, head: bytes, append: Sequence[bytes]) -> bool:
        """Write version + 1 if the record is at `version`, and the entries from `start` on."""
        if version:
            return bool(await self._pool.fetchval(_UPDATE, key, head.decode(), start, append, version))
        return bool(await self._pool.fetchval(_CREATE, key, head.decode(), start, append))

    async def read(self, key: str) -> tuple[int, bytes]:
        """Return version and head."""
        row = await self._pool.fetchrow("SELECT version, data FROM floor_head WHERE id = $1", key)
        return row[0], row[1].encode()

    async def read_all(self, key: str) -> tuple[bytes, list[bytes]]:
        """Return the head and the log, two statements on one connection."""
        async with self._pool.acquire() as connection:
            head = await connection.fetchval("SELECT data FROM floor_head WHERE id = $1", key)
            rows = await connection.fetch("SELECT data FROM floor_log WHERE id = $1 ORDER BY seq", key)
        return head.encode(), [row[0] for row in rows]

    async def aclose(self) -> None:
        """Close the pool."""
        await self._pool.close()
