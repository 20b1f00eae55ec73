"""A memory in PostgreSQL with the extension pgvector: exact search, or its HNSW index."""

from __future__ import annotations

import asyncio
import contextlib
import json
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeVar

from holdall._native import text_terms
from holdall.errors import ArgumentError, EncodeError, StoreUnavailableError
from holdall.semantic import pgvector_sql as sql
from holdall.semantic.base import Embedder, Hit, Metric
from holdall.semantic.rules import Row, Where, check_text, to_floats, whole
from holdall.semantic.searching import Searching
from holdall.stores import lost
from holdall.stores.postgres_link import is_unreadable
from holdall.stores.urls import unreadable

try:
    import asyncpg
except ImportError as exc:
    raise ImportError("PgVectorMemory needs an extra: pip install 'holdall[pgvector]'") from exc

_T = TypeVar("_T")
# "memories" in ASCII: any constant does, as long as every holdall takes the same
_SETUP_LOCK: Final = 0x6D656D6F72696573
MOST_HNSW_DIMS: Final = 2000
_LOST = (
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.OperatorInterventionError,
    OSError,
    asyncio.TimeoutError,
)


class PgVectorMemory(Searching):
    """Documents in the table `memory_documents`, their words in an inverted index beside their vectors.

    Words are scored by BM25 exactly as the embedded memory scores them. Every call may be repeated, and is, once, after a lost
    connection.

    Args:
        dsn: `postgresql://user:password@host/database`.
        pool: An asyncpg pool to use instead; it is not closed by `aclose`.
        embedder: Turns texts into vectors.
        batch_size: Texts for each call of the embedder.
        metric: "cosine" or "dot".
        index: "exact" compares with every vector of the namespace; "hnsw" makes an index for the vectors of each length
            (2,000 floats at most), which finds most of the nearest, and searches it in order, further and further, until `k`
            are found that meet the filter.
        ef_search: How many candidates a search of the index keeps, 1 to 1000: more find more, and take longer.
        schema: Where the table is; None for the connection's search path. Made if missing.
        max_size: Connections at most.
        timeout_s: For connecting and for each call.
        connect: More arguments for `asyncpg.connect`; behind pgbouncer in transaction mode `{"statement_cache_size": 0}`.
    """

    backend = "pgvector"

    def __init__(
        self,
        dsn: str | None = None,
        *,
        pool: Any | None = None,
        embedder: Embedder | None = None,
        batch_size: int = 64,
        metric: Metric = "cosine",
        index: Literal["exact", "hnsw"] = "exact",
        ef_search: int = 100,
        schema: str | None = None,
        max_size: int = 10,
        timeout_s: float = 30.0,
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(embedder=embedder, batch_size=batch_size)
        if (dsn is None) == (pool is None):
            raise ArgumentError("give either a URL or a pool")
        if metric not in sql.OPERATORS:
            raise ArgumentError(f"metric is {metric!r}; there are cosine and dot")
        if index not in ("exact", "hnsw"):
            raise ArgumentError(f"index is {index!r}; there are exact and hnsw")
        if not 1 <= ef_search <= 1000:  # noqa: PLR2004 - pgvector's own limits
            raise ArgumentError(f"ef_search is {ef_search}; allowed are 1 to 1000")
        if schema is not None:
            check_text("schema", schema, least=1, most=63)
        self._dsn, self._pool, self._owns_pool = dsn, pool, pool is None
        self._metric, self._by_index, self._ef_search = metric, index == "hnsw", ef_search
        self._schema = schema
        self._prefix = "" if schema is None else _quoted(schema) + "."
        self._max_size, self._timeout_s, self._connect = max_size, timeout_s, dict(connect or {})
        self._indexed: set[int] = set()
        self._is_ready = False
        self._starting = asyncio.Lock()

    def _sql(self, text: str, where: str = "") -> str:
        return text.replace("{p}", self._prefix).replace("{where}", where)

    async def _call(self, operation: str, work: Callable[[Any], Awaitable[_T]]) -> _T:
        """Run `work` on a connection; after a lost one, once more on another.

        Raises:
            ArgumentError: The driver cannot read the URL or an option.
            StoreUnavailableError: There is none to be had, or the server refused.
            OutcomeUnknownError: The connection was lost in a write, and the second attempt failed.
            EncodeError: The server cannot store a value; nothing was written.
        """
        was_lost = False

        def failure(error: BaseException) -> StoreUnavailableError:
            return lost.failed_request(self.backend, operation, error, may_have_happened=was_lost)

        for is_last in (False, True):
            try:
                pool = await self._ready()
                connection = await pool.acquire(timeout=self._timeout_s)
            except (ValueError, OverflowError, *_LOST, asyncpg.PostgresError) as error:
                if self._dsn is not None and is_unreadable(error):
                    raise unreadable(self._dsn, error) from None
                raise failure(error) from error
            try:
                return await asyncio.wait_for(work(connection), self._timeout_s)
            except (asyncpg.DataError, asyncpg.ProgramLimitExceededError) as error:
                raise EncodeError(
                    f"pgvector {operation}: the server cannot take this value: {error}", path="$", reason=str(error)
                ) from error
            except _LOST as error:
                with contextlib.suppress(asyncpg.InterfaceError):  # the pool may have let go of it already
                    connection.terminate()
                was_lost = True
                if is_last:
                    raise failure(error) from error
            except asyncpg.PostgresError as error:
                raise failure(error) from error
            finally:
                await pool.release(connection)
        raise AssertionError("the second attempt returns or raises")

    async def _ready(self) -> Any:
        async with self._starting:
            if not self._is_ready:
                if self._owns_pool:
                    self._pool = self._pool or await asyncpg.create_pool(
                        self._dsn, min_size=0, max_size=self._max_size, timeout=self._timeout_s, **self._connect
                    )
                async with self._pool.acquire() as connection:  # type: ignore[union-attr]
                    await self._set_up(connection)
                self._is_ready = True
        return self._pool

    async def _set_up(self, connection: Any) -> None:
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({_SETUP_LOCK})")
            if self._schema is not None:
                await connection.execute(f"CREATE SCHEMA IF NOT EXISTS {_quoted(self._schema)}")
            if await connection.fetchval("SELECT to_regtype('vector') IS NULL"):
                try:
                    await connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
                except asyncpg.PostgresError as error:
                    raise StoreUnavailableError(
                        f"pgvector connect: the extension is not there and cannot be made ({error}): have an administrator"
                        " run CREATE EXTENSION vector in this database",
                        backend=self.backend,
                        operation="connect",
                        cause=str(error),
                    ) from error
            await connection.execute(self._sql(sql.SCHEMA))

    async def _put(self, namespace: str, rows: list[Row]) -> None:
        records = [_record(namespace, row) for row in sorted(rows, key=lambda row: row.id)]

        async def work(connection: Any) -> None:
            dims = whole(None, rows)
            if dims is not None and self._by_index and dims not in self._indexed:
                # first, so that nothing is written where there can be no such index
                await self._make_index(connection, dims)
            async with connection.transaction():
                known = await connection.fetchval(self._sql(sql.DIMS), namespace)
                if known is None and any(row.vector is not None for row in rows):
                    # the first vector says how long all are: only one call at a time may be the first
                    await connection.execute(
                        "SELECT pg_advisory_xact_lock($1, hashtext($2))", _SETUP_LOCK >> 32, namespace
                    )
                    known = await connection.fetchval(self._sql(sql.DIMS), namespace)
                whole(known, rows)
                await connection.executemany(self._sql(sql.PUT), records)

        await self._call("upsert", work)

    async def _make_index(self, connection: Any, dims: int) -> None:
        if dims > MOST_HNSW_DIMS:
            raise ArgumentError(
                f"an HNSW index takes vectors of {MOST_HNSW_DIMS} floats, not {dims}; use index='exact'"
            )
        async with connection.transaction():
            await connection.execute(f"SELECT pg_advisory_xact_lock({_SETUP_LOCK})")
            await connection.execute(self._sql(sql.hnsw(self._metric, dims)))
        self._indexed.add(dims)

    async def _nearest(self, namespace: str, vector: bytes, k: int, where: Where) -> list[Hit]:
        dims = len(vector) // 4
        args: list[Any] = [namespace, _shown(vector), k]
        query = self._sql(sql.nearest(self._metric, dims, sql.conditions(where, args), by_index=self._by_index), "")

        async def work(connection: Any) -> list[Any]:
            if not self._by_index:
                rows: list[Any] = await connection.fetch(query, *args)
            else:
                async with connection.transaction():
                    await connection.execute(f"SET LOCAL hnsw.ef_search = {self._ef_search}")
                    await connection.execute("SET LOCAL hnsw.iterative_scan = strict_order")
                    rows = await connection.fetch(query, *args)
            if not rows and await connection.fetchval(self._sql(sql.DIMS), namespace) not in (None, dims):
                raise ArgumentError(f"the vector has {dims} floats; those of the namespace have another length")
            return rows

        return [_hit(row) for row in await self._call("search", work)]

    async def _matching(self, namespace: str, query: str, k: int, where: Where) -> list[Hit]:
        terms, counts, _ = text_terms(query)
        if not terms:
            return []
        args: list[Any] = [namespace, terms, counts, k]
        statement = self._sql(sql.MATCHING, sql.conditions(where, args))
        return [_hit(row) for row in await self._call("search", lambda one: one.fetch(statement, *args))]

    async def _get(self, namespace: str, ids: list[str]) -> list[Row]:
        rows = await self._call("get", lambda one: one.fetch(self._sql(sql.GET), namespace, ids))
        return [
            Row(
                row["id"],
                row["text"],
                None if row["embedding"] is None else _packed(json.loads(row["embedding"])),
                json.loads(row["metadata"]),
                row["user_id"],
            )
            for row in rows
        ]

    async def _drop(self, namespace: str, ids: list[str]) -> None:
        await self._call("delete", lambda one: one.execute(self._sql(sql.DROP), namespace, ids))

    async def _drop_user(self, user_id: str, namespace: str | None) -> None:
        await self._call("delete_user", lambda one: one.execute(self._sql(sql.DROP_USER), user_id, namespace))

    async def _count(self, namespace: str) -> int:
        return int(await self._call("count", lambda one: one.fetchval(self._sql(sql.COUNT), namespace)))

    async def _close(self) -> None:
        if self._owns_pool and self._pool is not None:
            try:
                await asyncio.wait_for(self._pool.close(), self._timeout_s)
            except (*_LOST, asyncpg.PostgresError):
                self._pool.terminate()


def _record(namespace: str, row: Row) -> tuple[Any, ...]:
    terms, counts, length = text_terms(row.text)
    vector = None if row.vector is None else _shown(row.vector)
    dims = None if row.vector is None else len(row.vector) // 4
    metadata = json.dumps(row.metadata, ensure_ascii=False)
    return (namespace, row.id, row.user_id, row.text, metadata, dims, vector, terms, counts, length)


def _shown(vector: bytes) -> str:
    return "[" + ",".join(map(repr, to_floats(vector))) + "]"


def _packed(floats: list[float]) -> bytes:
    return struct.pack(f"<{len(floats)}f", *floats)


def _hit(row: Any) -> Hit:
    return Hit(row["id"], float(row["score"]), row["text"], json.loads(row["metadata"]), row["user_id"])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
