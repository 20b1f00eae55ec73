"""A memory in Qdrant: a server, or the client's own embedded mode."""

from __future__ import annotations

import asyncio
import struct
import uuid
import warnings
from collections.abc import Awaitable, Mapping
from typing import Any, Final, TypeVar

from holdall._native import text_terms
from holdall.errors import ArgumentError, StoreUnavailableError
from holdall.semantic import rules
from holdall.semantic.base import Embedder, Hit, Metric
from holdall.semantic.rules import Row, Where, to_floats
from holdall.semantic.searching import Searching
from holdall.stores import lost

try:
    import httpx
    from grpc import RpcError, StatusCode
    from qdrant_client import AsyncQdrantClient, models
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ApiException, ResponseHandlingException, UnexpectedResponse
except ImportError as exc:
    raise ImportError("QdrantMemory needs an extra: pip install 'holdall[qdrant]'") from exc

_T = TypeVar("_T")
_DENSE, _WORDS = "dense", "words"
# Point ids are UUIDs: of namespace and id, under a name of our own.
_IDS: Final = uuid.UUID("6d656d6f-7269-5573-8000-686f6c64616c")
_PER_REQUEST: Final = 256
# Fields of the payload by which is searched, and whether they part the collection.
_INDEXED: Final = {"_namespace": True, "_user": None}
_K1, _B = 1.2, 0.5
_REFUSALS: Final = (
    StatusCode.INVALID_ARGUMENT,
    StatusCode.NOT_FOUND,
    StatusCode.ALREADY_EXISTS,
    StatusCode.PERMISSION_DENIED,
    StatusCode.UNAUTHENTICATED,
    StatusCode.RESOURCE_EXHAUSTED,
    StatusCode.FAILED_PRECONDITION,
    StatusCode.OUT_OF_RANGE,
    StatusCode.UNIMPLEMENTED,
)
_FAILED = (ApiException, QdrantException, RpcError, OSError, ValueError)


class QdrantMemory(Searching):
    """Documents in one collection of Qdrant, namespaces and users in their payload.

    Words are sparse vectors that the server weighs by how rare they are in the whole collection: BM25 but for the mean length
    of a text, which is taken to be `mean_terms`. A call that writes many documents is several requests; a call that fails
    halfway may be repeated.

    Args:
        url: Of a server, such as "http://localhost:6333".
        client: An `AsyncQdrantClient` to use instead; it is not closed by `aclose`.
        path: A folder for the client's embedded mode, for one process at a time; it searches in plain Python and numpy.
        collection: Its name; made at the first `upsert`.
        dims: Floats of its vectors; None: as the first that is put. Needed where the first documents have none.
        embedder: Turns texts into vectors.
        batch_size: Texts for each call of the embedder.
        metric: "cosine" or "dot", for a collection that is made.
        mean_terms: How many words a text is taken to have, stop words left out.
        options: More arguments for `AsyncQdrantClient`, such as api_key.
    """

    backend = "qdrant"

    def __init__(
        self,
        url: str | None = None,
        *,
        client: AsyncQdrantClient | None = None,
        path: str | None = None,
        collection: str = "memory",
        dims: int | None = None,
        embedder: Embedder | None = None,
        batch_size: int = 64,
        metric: Metric = "cosine",
        mean_terms: float = 32.0,
        **options: Any,
    ) -> None:
        super().__init__(embedder=embedder, batch_size=batch_size)
        if [url, client, path].count(None) != 2:  # noqa: PLR2004 - one of three
            raise ArgumentError("give one of url, client and path")
        if metric not in ("cosine", "dot"):
            raise ArgumentError(f"metric is {metric!r}; there are cosine and dot")
        try:
            self._client = client or AsyncQdrantClient(url=url, path=path, **options)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"QdrantMemory cannot connect with what it was given: {error}") from error
        self._owns_client = client is None
        self._collection = collection
        self._dims = dims
        self._is_cosine = metric == "cosine"
        self._mean_terms = mean_terms
        self._is_there = False
        self._indexed: frozenset[str] = frozenset()
        self._making = asyncio.Lock()

    async def _ask(self, operation: str, call: Awaitable[_T], *, has_written: bool = False) -> _T:
        """Await a request; `has_written`: one before it, of the same call, has done its part."""
        try:
            return await call
        except _FAILED as error:
            may_have_happened = has_written or not _is_refused(error)
            raise lost.failed_request(self.backend, operation, error, may_have_happened=may_have_happened) from error

    async def _exists(self) -> bool:
        if not self._is_there and await self._ask("connect", self._client.collection_exists(self._collection)):
            found = await self._ask("connect", self._client.get_collection(self._collection))
            vectors = found.config.params.vectors
            dense = vectors.get(_DENSE) if isinstance(vectors, Mapping) else None
            self._dims = None if dense is None else dense.size
            self._indexed = frozenset(found.payload_schema or ())
            self._is_there = True
        return self._is_there

    async def _make(self, dims: int | None) -> None:
        """Make the collection if it is not there, and what it lacks; then see that its vectors have so many floats."""
        async with self._making:
            if not await self._exists():
                size = self._dims or dims
                distance = models.Distance.COSINE if self._is_cosine else models.Distance.DOT
                dense = {} if size is None else {_DENSE: models.VectorParams(size=size, distance=distance)}
                words = {_WORDS: models.SparseVectorParams(modifier=models.Modifier.IDF)}
                try:
                    await self._client.create_collection(
                        self._collection, vectors_config=dense, sparse_vectors_config=words
                    )
                except _FAILED as error:
                    # another process may have come first
                    if not await self._exists():
                        raise lost.unavailable(self.backend, "create", error) from error
                await self._exists()
            # who made the collection may have been stopped before it had made these
            for name, is_tenant in _INDEXED.items():
                if name not in self._indexed:
                    schema = models.KeywordIndexParams(type=models.KeywordIndexType.KEYWORD, is_tenant=is_tenant)
                    try:
                        await self._index(name, schema)
                    except StoreUnavailableError as error:
                        # a key that may write and not index: without one the server looks at every point
                        if not isinstance(error.__cause__, Exception) or not _is_refused(error.__cause__):
                            raise
                    self._indexed |= {name}
        if dims is not None and dims != self._dims:
            known = "none: give dims= before the first upsert" if self._dims is None else f"{self._dims} floats"
            raise ArgumentError(
                f"a vector has {dims} floats; the vectors of collection {self._collection!r} have {known}"
            )

    async def _index(self, name: str, schema: Any) -> None:
        with warnings.catch_warnings():
            # the embedded mode has no indexes, and says so each time
            warnings.simplefilter("ignore", UserWarning)
            await self._ask("create", self._client.create_payload_index(self._collection, name, schema))

    async def _put(self, namespace: str, rows: list[Row]) -> None:
        await self._make(rules.whole(None, rows))
        points = [self._point(namespace, row) for row in rows]
        for start in range(0, len(points), _PER_REQUEST):
            part = points[start : start + _PER_REQUEST]
            await self._ask("upsert", self._client.upsert(self._collection, part, wait=True), has_written=start > 0)

    def _point(self, namespace: str, row: Row) -> models.PointStruct:
        vectors: dict[str, Any] = {}
        payload: dict[str, Any] = {"_id": row.id, "_namespace": namespace, "_text": row.text, "meta": row.metadata}
        if row.user_id is not None:
            payload["_user"] = row.user_id
        if row.vector is not None:
            vectors[_DENSE] = floats = to_floats(row.vector)
            if self._is_cosine:
                # Qdrant keeps such vectors at norm 1
                payload["_norm"] = sum(x * x for x in floats) ** 0.5
        terms, counts, length = text_terms(row.text)
        if terms:
            norm = _K1 * (1 - _B + _B * length / self._mean_terms)
            vectors[_WORDS] = _sparse(terms, [count / (count + norm) for count in counts])
        return models.PointStruct(id=_point_id(namespace, row.id), vector=vectors, payload=payload)

    async def _nearest(self, namespace: str, vector: bytes, k: int, where: Where) -> list[Hit]:
        if not await self._exists() or self._dims is None:
            return []
        if len(vector) // 4 != self._dims:
            raise ArgumentError(f"the vector has {len(vector) // 4} floats; those of the collection have {self._dims}")
        return await self._query(to_floats(vector), _DENSE, namespace, k, where)

    async def _matching(self, namespace: str, query: str, k: int, where: Where) -> list[Hit]:
        terms, counts, _ = text_terms(query)
        if not terms or not await self._exists():
            return []
        return await self._query(_sparse(terms, [float(n) for n in counts]), _WORDS, namespace, k, where)

    async def _query(self, query: Any, using: str, namespace: str, k: int, where: Where) -> list[Hit]:
        answer = await self._ask(
            "search",
            self._client.query_points(
                self._collection,
                query=query,
                using=using,
                query_filter=_filter(namespace, where),
                limit=k,
                with_payload=True,
            ),
        )
        hits = []
        for point in answer.points:
            payload = point.payload or {}
            hits.append(Hit(payload["_id"], point.score, payload["_text"], dict(payload["meta"]), payload.get("_user")))
        return hits

    async def _get(self, namespace: str, ids: list[str]) -> list[Row]:
        if not await self._exists():
            return []
        points = await self._ask(
            "get",
            self._client.retrieve(
                self._collection, [_point_id(namespace, one) for one in ids], with_payload=True, with_vectors=True
            ),
        )
        return [_row(point) for point in points]

    async def _drop(self, namespace: str, ids: list[str]) -> None:
        if await self._exists():
            selector = models.PointIdsList(points=[_point_id(namespace, one) for one in ids])
            await self._ask("delete", self._client.delete(self._collection, selector, wait=True))

    async def _drop_user(self, user_id: str, namespace: str | None) -> None:
        if await self._exists():
            selector = models.FilterSelector(filter=_filter(namespace, Where(user_id)))
            await self._ask("delete_user", self._client.delete(self._collection, selector, wait=True))

    async def _count(self, namespace: str) -> int:
        if not await self._exists():
            return 0
        wanted = _filter(namespace, Where())
        return (await self._ask("count", self._client.count(self._collection, wanted, exact=True))).count

    async def _close(self) -> None:
        if self._owns_client:
            await self._client.close()


def _is_refused(error: Exception) -> bool:
    """Whether the request was answered by a refusal, or never sent."""
    if isinstance(error, UnexpectedResponse):
        return error.status_code is not None and lost.is_refusal(error.status_code)
    if isinstance(error, ResponseHandlingException):
        return isinstance(error.source, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout))
    if isinstance(error, RpcError):
        return getattr(error, "code", lambda: None)() in _REFUSALS
    return isinstance(error, (QdrantException, ValueError))


def _point_id(namespace: str, name: str) -> str:
    # the length keeps ("a", "bc") from ("ab", "c")
    return str(uuid.uuid5(_IDS, f"{len(namespace)}:{namespace}{name}"))


def _sparse(terms: list[int], weights: list[float]) -> models.SparseVector:
    # 32 of the 48 bits of a term's hash; two that share them count as one
    summed: dict[int, float] = {}
    for term, weight in zip(terms, weights, strict=True):
        summed[term >> 16] = summed.get(term >> 16, 0.0) + weight
    return models.SparseVector(indices=list(summed), values=list(summed.values()))


def _filter(namespace: str | None, where: Where) -> models.Filter:
    must: list[Any] = []
    if namespace is not None:
        must.append(models.FieldCondition(key="_namespace", match=models.MatchValue(value=namespace)))
    if where.user_id is not None:
        must.append(models.FieldCondition(key="_user", match=models.MatchValue(value=where.user_id)))
    for condition in where.conditions:
        key = f"meta.{condition.name}"
        if condition.any_of is None:
            must.append(models.FieldCondition(key=key, range=models.Range(**condition.bounds)))
        elif condition.any_of:
            must.append(models.Filter(should=[_equal(key, value) for value in condition.any_of]))
        else:
            # one of no values: nothing
            must.append(models.HasIdCondition(has_id=[]))
    return models.Filter(must=must)


def _equal(key: str, value: str | float | bool) -> models.FieldCondition:  # noqa: FBT001 - a value
    if isinstance(value, (bool, str)):
        return models.FieldCondition(key=key, match=models.MatchValue(value=value))
    # a match takes whole numbers only, and does not take 1 for 1.0
    return models.FieldCondition(key=key, range=models.Range(gte=value, lte=value))


def _row(point: Any) -> Row:
    payload, vectors = point.payload, point.vector if isinstance(point.vector, Mapping) else {}
    floats = vectors.get(_DENSE)
    scale = payload.get("_norm", 1.0)
    data = None if floats is None else struct.pack(f"<{len(floats)}f", *(x * scale for x in floats))
    return Row(payload["_id"], payload["_text"], data, dict(payload["meta"]), payload.get("_user"))
