"""A memory in an index of Pinecone."""

from __future__ import annotations

import asyncio
import hashlib
import json
import struct
from collections.abc import Awaitable
from typing import Any, Final, TypeVar

from holdall.errors import ArgumentError, EncodeError
from holdall.semantic import rules
from holdall.semantic.base import Embedder, Hit
from holdall.semantic.rules import Row, Where, to_floats
from holdall.semantic.searching import Searching
from holdall.stores import lost

try:
    from pinecone import AsyncIndex
    from pinecone.errors.exceptions import ApiError, PineconeError, PineconeTypeError, PineconeValueError
    from pinecone.errors.exceptions import NotFoundError as IsAbsent
except ImportError as exc:
    raise ImportError("PineconeMemory needs an extra: pip install 'holdall[pinecone]'") from exc

_T = TypeVar("_T")
# Limits of Pinecone's API.
_PER_UPSERT, _PER_FETCH, _PER_DELETE = 100, 100, 1000
_MOST_METADATA_BYTES: Final = 40 * 1024
_DEFAULT: Final = "__default__"
_OWN: Final = ("_id", "_text", "_user")


class PineconeMemory(Searching):
    """Documents in a dense index of Pinecone, made beforehand with its dimension and metric.

    Searched by vector only: give it an embedder, or vectors; each document must have one. Text and metadata of a document take
    at most 40 KB. Pinecone is eventually consistent: what was acknowledged is found a moment later. A call that writes many
    documents is several requests; one that fails halfway may be repeated.

    Args:
        host: Of the index, as its console shows it.
        api_key: None: from the environment, PINECONE_API_KEY.
        index: A `pinecone.AsyncIndex` to use instead; it is not closed by `aclose`.
        embedder: Turns texts into vectors.
        batch_size: Texts for each call of the embedder.
        options: More arguments for `AsyncIndex`.
    """

    backend = "pinecone"
    _matches = False

    def __init__(
        self,
        host: str | None = None,
        *,
        api_key: str | None = None,
        index: AsyncIndex | None = None,
        embedder: Embedder | None = None,
        batch_size: int = 64,
        **options: Any,
    ) -> None:
        super().__init__(embedder=embedder, batch_size=batch_size)
        if (host is None) == (index is None):
            raise ArgumentError("give either a host or an index")
        try:
            self._index = index or AsyncIndex(host=host or "", api_key=api_key, **options)
        except (TypeError, ValueError) as error:
            raise ArgumentError(f"PineconeMemory cannot connect with what it was given: {error}") from error
        self._owns_index = index is None
        self._dims: int | None = None
        self._asking = asyncio.Lock()

    async def _ask(self, operation: str, call: Awaitable[_T], *, has_written: bool = False) -> _T | None:
        """Await a request; None where the namespace does not exist. `has_written`: one before it, of the same call, has done its part."""
        try:
            return await call
        except IsAbsent:
            return None
        except (PineconeError, OSError) as error:
            may_have_happened = has_written or not _is_refused(error)
            raise lost.failed_request(self.backend, operation, error, may_have_happened=may_have_happened) from error

    async def _check_dims(self, n: int) -> None:
        async with self._asking:
            if self._dims is None:
                stats = await self._ask("connect", self._index.describe_index_stats())
                self._dims = None if stats is None else stats.dimension
        if self._dims is not None and n != self._dims:
            raise ArgumentError(f"a vector has {n} floats; those of the index have {self._dims}")

    async def _put(self, namespace: str, rows: list[Row]) -> None:
        bare = next((row.id for row in rows if row.vector is None), None)
        if bare is not None:
            raise ArgumentError(f"{bare!r} has no vector, which Pinecone needs: give it one, or the memory an embedder")
        vectors = [_record(row) for row in rows]
        await self._check_dims(rules.whole(None, rows) or 0)
        for start in range(0, len(vectors), _PER_UPSERT):
            part = vectors[start : start + _PER_UPSERT]
            await self._ask(
                "upsert", self._index.upsert(vectors=part, namespace=_ascii(namespace)), has_written=start > 0
            )

    async def _nearest(self, namespace: str, vector: bytes, k: int, where: Where) -> list[Hit]:
        await self._check_dims(len(vector) // 4)
        if any(condition.any_of == () for condition in where.conditions):
            return []
        answer = await self._ask(
            "search",
            self._index.query(
                vector=to_floats(vector),
                top_k=k,
                namespace=_ascii(namespace),
                filter=_filter(where),
                include_metadata=True,
            ),
        )
        return [] if answer is None else [_hit(match) for match in answer.matches]

    async def _matching(self, namespace: str, query: str, k: int, where: Where) -> list[Hit]:  # noqa: ARG002
        raise ArgumentError("Pinecone searches by vector only")

    async def _get(self, namespace: str, ids: list[str]) -> list[Row]:
        rows = []
        for start in range(0, len(ids), _PER_FETCH):
            part = [_ascii(one) for one in ids[start : start + _PER_FETCH]]
            answer = await self._ask("get", self._index.fetch(ids=part, namespace=_ascii(namespace)))
            rows += [] if answer is None else [_row(found) for found in answer.vectors.values()]
        return rows

    async def _drop(self, namespace: str, ids: list[str]) -> None:
        for start in range(0, len(ids), _PER_DELETE):
            part = [_ascii(one) for one in ids[start : start + _PER_DELETE]]
            await self._ask("delete", self._index.delete(ids=part, namespace=_ascii(namespace)), has_written=start > 0)

    async def _drop_user(self, user_id: str, namespace: str | None) -> None:
        names = [_ascii(namespace)] if namespace is not None else await self._namespaces()
        for n, name in enumerate(names):
            wanted = {"_user": {"$eq": user_id}}
            await self._ask("delete_user", self._index.delete(filter=wanted, namespace=name), has_written=n > 0)

    async def _namespaces(self) -> list[str]:
        async def listed() -> list[str]:
            return [one.name async for page in self._index.list_namespaces() for one in page.namespaces]

        names = await self._ask("delete_user", listed())
        return ["" if name == _DEFAULT else name for name in names or []]

    async def _count(self, namespace: str) -> int:
        stats = await self._ask("count", self._index.describe_index_stats())
        known = {} if stats is None else stats.namespaces
        summary = known.get(_ascii(namespace)) or (known.get(_DEFAULT) if not namespace else None)
        return 0 if summary is None else int(summary.vector_count)

    async def _close(self) -> None:
        if self._owns_index:
            await self._index.close()


def _is_refused(error: Exception) -> bool:
    """Whether the service answered by a refusal, or the client before it sent anything.

    Not that there was no connection: the client tries several times, of which an earlier one may have come through.
    """
    if isinstance(error, ApiError):
        return lost.is_refusal(error.status_code)
    return isinstance(error, (PineconeValueError, PineconeTypeError))


def _ascii(name: str) -> str:
    """Return the id or namespace itself where Pinecone takes it, else its hash, with a mark that no other begins with."""
    if name.isascii() and name.isprintable() and not name.startswith("~") and name.strip() == name and name != _DEFAULT:
        return name
    return "~" + hashlib.sha256(name.encode()).hexdigest()


def _record(row: Row) -> dict[str, Any]:
    metadata: dict[str, Any] = {**row.metadata, "_text": row.text, "_id": row.id}
    if row.user_id is not None:
        metadata["_user"] = row.user_id
    size = len(json.dumps(metadata, ensure_ascii=False).encode())
    if size > _MOST_METADATA_BYTES:
        reason = f"takes {size} bytes with its metadata; Pinecone keeps {_MOST_METADATA_BYTES}: split the text"
        raise EncodeError(f"the text of {row.id!r} {reason}", path="text", reason=reason)
    return {"id": _ascii(row.id), "values": to_floats(row.vector or b""), "metadata": metadata}


def _filter(where: Where) -> dict[str, Any] | None:
    clauses: list[dict[str, Any]] = [] if where.user_id is None else [{"_user": {"$eq": where.user_id}}]
    for condition in where.conditions:
        if condition.any_of is not None:
            wanted = [{condition.name: {"$eq": value}} for value in condition.any_of]
            clauses.append(wanted[0] if len(wanted) == 1 else {"$or": wanted})
        clauses.extend({condition.name: {f"${how}": bound}} for how, bound in condition.bounds.items())
    if not clauses:
        return None
    return clauses[0] if len(clauses) == 1 else {"$and": clauses}


def _hit(match: Any) -> Hit:
    row = _row(match)
    return Hit(row.id, match.score, row.text, row.metadata, row.user_id)


def _row(found: Any) -> Row:
    # what others have put into the index has none of our names
    known = found.metadata or {}
    metadata = {name: value for name, value in known.items() if name not in _OWN}
    vector = struct.pack(f"<{len(found.values)}f", *found.values) if found.values else None
    return Row(known.get("_id", found.id), known.get("_text", ""), vector, metadata, known.get("_user"))
