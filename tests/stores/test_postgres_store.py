"""The PostgreSQL store keeps every claim, directly and through pgbouncer."""

from __future__ import annotations

import asyncpg
import pytest

from holdall.stores.base import Store
from holdall.stores.postgres import PostgresStore
from holdall.testing import StoreConformance
from tests.servers.postgres import Pgbouncer, Postgres


@pytest.mark.postgres
class TestPostgresStore(StoreConformance):
    short_s = 60.0
    long_s = 6000.0
    schema = "conformance"

    @pytest.fixture(autouse=True)
    def _server(self, postgres_server: Postgres) -> None:
        self.url = self.admin_url = postgres_server.url

    async def make_store(self) -> Store:
        return PostgresStore(self.url, schema=self.schema)

    async def make_peer(self, store: Store) -> Store:
        return await self.make_store()

    async def advance(self, seconds: float) -> None:
        # the clock is the server's: what was to end in a while is made to end that much earlier
        connection = await asyncpg.connect(self.admin_url)
        await connection.execute(
            f"UPDATE {self.schema}.agent_sessions SET expires_at = expires_at - interval '{seconds} seconds'"  # noqa: S608 - a name of this file
        )
        await connection.close()


@pytest.mark.postgres
@pytest.mark.pgbouncer
class TestPostgresStoreThroughPgbouncer(TestPostgresStore):
    schema = "pooled"

    @pytest.fixture(autouse=True)
    def _pooler(self, _server: None, pgbouncer_server: Pgbouncer) -> None:
        self.url = pgbouncer_server.url
