"""The memory in PostgreSQL keeps every claim, searched exactly and by its index, and scores words as the embedded one."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import pytest

from holdall.errors import ArgumentError, OutcomeUnknownError, StoreUnavailableError
from holdall.semantic import Document, EmbeddedMemory, PgVectorMemory
from holdall.testing import SemanticConformance
from tests.servers.postgres import Pgbouncer, Postgres
from tests.servers.process import free_port
from tests.servers.proxy import Proxy

pytestmark = pytest.mark.postgres


class TestPgVectorMemory(SemanticConformance):
    options: dict[str, Any] = {}  # noqa: RUF012 - never changed

    @pytest.fixture(autouse=True)
    def _server(self, postgres_server: Postgres) -> None:
        self.url = postgres_server.url

    async def make_memory(self, **options: Any) -> PgVectorMemory:
        return PgVectorMemory(self.url, schema="memory", max_size=4, **self.options, **options)


class TestPgVectorMemoryByIndex(TestPgVectorMemory):
    options = {"index": "hnsw"}  # noqa: RUF012 - never changed


@pytest.mark.pgbouncer
async def test_it_works_behind_pgbouncer(pgbouncer_server: Pgbouncer) -> None:
    space = secrets.token_hex(6)
    connect = {"statement_cache_size": 0}
    async with PgVectorMemory(pgbouncer_server.url, schema="memory", connect=connect) as memory:
        for n in range(4):
            await memory.upsert([Document(f"d{n}", "some words", [1.0, n])], namespace=space)
        assert len(await memory.search("words", vector=[1.0, 0.0], namespace=space)) == 4


async def test_words_score_as_in_the_embedded_memory(postgres_server: Postgres) -> None:
    texts = [
        "the rent is 900 euros",
        "rent, rent, rent and nothing else",
        "Lisbon in May",
        "",
        "euros for Lisbon rents " * 9,
    ]
    documents = [Document(str(n), text) for n, text in enumerate(texts)]
    space = secrets.token_hex(6)
    async with EmbeddedMemory() as embedded, PgVectorMemory(postgres_server.url, schema="memory") as memory:
        for one in (embedded, memory):
            await one.upsert(documents, namespace=space)
            await one.upsert([Document("gone", "rent in Lisbon")], namespace=space)
            await one.delete(["gone"], namespace=space)
        for query in ("rent", "how many euros is the rent in lisbon, lisbon?", "the"):
            here = await embedded.search(query, namespace=space)
            there = await memory.search(query, namespace=space)
            assert [hit.id for hit in here] == [hit.id for hit in there]
            assert [hit.score for hit in there] == pytest.approx([hit.score for hit in here], rel=1e-12)


async def test_the_index_is_used(postgres_server: Postgres) -> None:
    space = secrets.token_hex(6)
    async with PgVectorMemory(postgres_server.url, schema="indexed", index="hnsw", max_size=1) as memory:
        rows = [Document(str(n), "", [float(n), 1.0, float(n % 7)]) for n in range(3000)]
        await memory.upsert(rows, namespace=space)
        (hit, *_) = await memory.search(vector=[2000.0, 1.0, 5.0], namespace=space)
        assert hit.id == "2000"
        async with memory._pool.acquire() as connection:
            plan = await connection.fetch(
                "EXPLAIN SELECT id FROM indexed.memory_documents d WHERE d.dims = 3"
                " ORDER BY d.embedding::vector(3) <=> '[1,2,3]'::vector(3) LIMIT 5"
            )
        assert any("memory_documents_hnsw_cosine_3" in line[0] for line in plan)


async def test_an_unreachable_server_is_said_without_its_password() -> None:
    async with PgVectorMemory(f"postgresql://u:hunter2@127.0.0.1:{free_port()}/d", timeout_s=2) as memory:
        with pytest.raises(StoreUnavailableError) as caught:
            await memory.search("words")
    assert "hunter2" not in str(caught.value)


async def test_upserts_of_the_same_documents_in_other_orders_do_not_lock_each_other_out(
    postgres_server: Postgres,
) -> None:
    """Two transactions that take the same rows in opposite orders would wait for each other until the server ends one."""
    space = secrets.token_hex(6)
    documents = [Document(f"d{n:03}", f"the text of {n}", [1.0, n]) for n in range(150)]
    async with PgVectorMemory(postgres_server.url, schema="memory", max_size=4) as memory:
        await memory.upsert(documents, namespace=space)
        for _ in range(3):
            await asyncio.gather(
                *(memory.upsert(documents[:: 1 - 2 * (n % 2)], namespace=space) for n in range(4)),
                memory.delete([one.id for one in documents[40:60]], namespace=space),
            )
        assert await memory.count(namespace=space) >= 130


@pytest.mark.parametrize(
    "dsn", ["postgresql://u:s3cret@h/d?sslmode=sometimes", "postgresql://u:s3cret@127.0.0.1:70000/d", "h"]
)
async def test_a_url_that_the_driver_cannot_read(dsn: str) -> None:
    async with PgVectorMemory(dsn, timeout_s=2) as memory:
        with pytest.raises(ArgumentError, match="cannot read") as caught:
            await memory.search("words")
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("is_away", [False, True])
async def test_nothing_was_written_is_said_only_where_that_is_known(
    postgres_server: Postgres, proxy_to: Callable[[int], Awaitable[Proxy]], is_away: bool
) -> None:
    """A reply that is lost twice, or once and then the server is away: the delete happened. A search has nothing to happen."""
    port = urlsplit(postgres_server.url).port
    assert port is not None
    proxy, space = await proxy_to(port), secrets.token_hex(6)
    url = postgres_server.url.replace(str(port), str(proxy.port))
    async with PgVectorMemory(url, schema="memory", max_size=1, timeout_s=5) as memory:
        await memory.upsert([Document("a", "rent", [1.0])], namespace=space)
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "search": lambda: memory.search("rent", namespace=space),
            "delete": lambda: memory.delete(["a"], namespace=space),
            "delete_user": lambda: memory.delete_user("u", namespace=space),
            "upsert": lambda: memory.upsert([Document("b", "sea", [1.0])], namespace=space),
        }
        for name, call in calls.items():
            await memory.count(namespace=space)  # over a connection that is whole
            proxy.fail("cut reply", times=None)
            if is_away:
                asyncio.get_running_loop().call_soon(refuse_once_cut, proxy, proxy.n_faults)
            with pytest.raises(StoreUnavailableError) as caught:
                await call()
            assert isinstance(caught.value, OutcomeUnknownError) is (name != "search")
            proxy.fail("none")


def refuse_once_cut(proxy: Proxy, n_before: int) -> None:
    """Once another reply has been lost, close what connects anew."""
    if proxy.n_faults > n_before:
        proxy.fail("refuse", times=None)
    else:
        asyncio.get_running_loop().call_later(0.001, refuse_once_cut, proxy, n_before)


async def test_vectors_too_long_for_an_index_are_refused_before_they_are_written(postgres_server: Postgres) -> None:
    space = secrets.token_hex(6)
    async with PgVectorMemory(postgres_server.url, schema="indexed", index="hnsw") as memory:
        with pytest.raises(ArgumentError, match="2000"):
            await memory.upsert([Document("a", "rent", [1.0] * 2001)], namespace=space)
        assert await memory.count(namespace=space) == 0
