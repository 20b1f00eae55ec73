"""What every backend shares: checks, embedding, and the choice between vector, lexical and hybrid search."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final

from holdall._native import fuse_by_rank
from holdall.errors import ArgumentError, ClosedError
from holdall.semantic import rules
from holdall.semantic.base import Document, Embedder, Filter, Hit, Mode, Vector
from holdall.semantic.embedding import embed
from holdall.semantic.rules import Row, Where

if TYPE_CHECKING:
    from typing_extensions import Self

_MODES: Final = ("auto", "vector", "lexical", "hybrid")
# Each side of a hybrid search is asked for so many times k, and so many at least: what is fused must be seen by both.
_DEEPER: Final = 4
_LEAST_DEPTH: Final = 100


class Searching(ABC):
    """A semantic memory but for where it is kept: a backend stores checked rows, and finds them by vector or by words.

    Args:
        embedder: Turns texts into vectors; None: vectors come with the documents, or there are none.
        batch_size: Texts for each call of the embedder.
    """

    backend: str
    _matches = True

    def __init__(self, *, embedder: Embedder | None = None, batch_size: int = 64) -> None:
        if embedder is not None and not callable(embedder):
            raise ArgumentError(f"embedder must be a function of a list of texts, not {type(embedder).__name__}")
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ArgumentError(f"batch_size is {batch_size!r}; give an int of at least 1")
        self._embedder = embedder
        self._batch_size = batch_size
        self._is_closed = False

    @property
    def can_match(self) -> bool:
        """Whether words can be searched."""
        return self._matches

    @property
    def can_embed(self) -> bool:
        """Whether it has an embedder."""
        return self._embedder is not None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def upsert(self, documents: Iterable[Document], *, namespace: str = "") -> None:
        """Add documents, each in place of the one with its id; of two with one id, the later."""
        self._check_open()
        namespace = rules.check_namespace(namespace)
        if isinstance(documents, (Document, str, Mapping)):
            raise ArgumentError("upsert takes several documents, such as a list; put the one document into a list")
        rows = {row.id: row for row in (Row(*rules.check_document(document)) for document in documents)}
        if self._embedder is not None:
            bare = [row for row in rows.values() if row.vector is None and row.text.strip()]
            vectors = await embed(self._embedder, [row.text for row in bare], batch_size=self._batch_size)
            rows.update({row.id: row._replace(vector=vector) for row, vector in zip(bare, vectors, strict=True)})
        if rows:
            # nothing may be kept of a call that is refused
            rules.whole(None, list(rows.values()))
            await self._put(namespace, list(rows.values()))

    async def search(
        self,
        query: str | None = None,
        k: int = 10,
        *,
        vector: Vector | None = None,
        filter: Filter | None = None,  # noqa: A002 - the word for it
        user_id: str | None = None,
        namespace: str = "",
        mode: Mode = "auto",
    ) -> list[Hit]:
        """Return up to `k` documents, best first."""
        self._check_open()
        namespace, k = rules.check_namespace(namespace), rules.check_k(k)
        where = rules.check_where(user_id, filter)
        if query is not None and not isinstance(query, str):
            raise ArgumentError(f"query must be a str, not {type(query).__name__}; give a vector as vector=")
        wanted = None if vector is None else rules.to_bytes(vector)
        by_vector, by_words = self._how(query, wanted, mode)
        if by_vector and wanted is None and self._embedder is not None and query is not None and query.strip():
            (wanted,) = await embed(self._embedder, [query], batch_size=self._batch_size)
        depth = k if not (by_vector and by_words) else min(max(_DEEPER * k, _LEAST_DEPTH), rules.MAX_K)
        near = await self._nearest(namespace, wanted, depth, where) if by_vector and wanted is not None else []
        if not by_words or query is None:
            return near
        matching = await self._matching(namespace, query, depth, where)
        return fused(near, matching, k) if by_vector else matching

    def _how(self, query: str | None, vector: bytes | None, mode: str) -> tuple[bool, bool]:
        """Whether to search by vector, and whether by words."""
        if mode not in _MODES:
            raise ArgumentError(f"mode is {mode!r}; there are {', '.join(_MODES)}")
        if query is None and vector is None:
            raise ArgumentError("give a query, a vector, or both")
        has_vector = vector is not None or self._embedder is not None
        has_words = query is not None and self.can_match
        if mode == "auto":
            if not has_vector and not has_words:
                raise ArgumentError(f"{self.backend} searches by vector only: give a vector, or the memory an embedder")
            return has_vector, has_words
        if mode in ("vector", "hybrid") and not has_vector:
            raise ArgumentError(f"a {mode} search needs a vector, or an embedder for the query")
        if mode in ("lexical", "hybrid") and not has_words:
            lacks = "words cannot be searched here: search by vector" if query is not None else "give a query"
            raise ArgumentError(f"a {mode} search of {self.backend}: {lacks}")
        return mode != "lexical", mode != "vector"

    async def get(self, ids: Iterable[str], *, namespace: str = "") -> list[Document]:
        """Return the documents of these ids that there are, in this order."""
        self._check_open()
        namespace, wanted = rules.check_namespace(namespace), rules.check_ids(ids)
        found = {row.id: row for row in await self._get(namespace, wanted)} if wanted else {}
        return [
            Document(
                row.id,
                row.text,
                None if row.vector is None else rules.to_floats(row.vector),
                row.metadata,
                row.user_id,
            )
            for row in (found[one] for one in wanted if one in found)
        ]

    async def delete(self, ids: Iterable[str], *, namespace: str = "") -> None:
        """Delete documents by id; ids that are not there do no harm."""
        self._check_open()
        namespace, wanted = rules.check_namespace(namespace), rules.check_ids(ids)
        if wanted:
            await self._drop(namespace, wanted)

    async def delete_user(self, user_id: str, *, namespace: str | None = None) -> None:
        """Delete all documents of a user, in one namespace or (None) in all."""
        self._check_open()
        user_id = rules.check_text("user_id", user_id, least=1, most=rules.MAX_ID_BYTES)
        await self._drop_user(user_id, None if namespace is None else rules.check_namespace(namespace))

    async def count(self, *, namespace: str = "") -> int:
        """Return how many documents the namespace has."""
        self._check_open()
        return await self._count(rules.check_namespace(namespace))

    async def aclose(self) -> None:
        """Give back connections. Idempotent; a later call raises `ClosedError`."""
        if not self._is_closed:
            self._is_closed = True
            await self._close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError(f"this {type(self).__name__} was closed; make a new one")

    @abstractmethod
    async def _put(self, namespace: str, rows: list[Row]) -> None: ...

    @abstractmethod
    async def _nearest(self, namespace: str, vector: bytes, k: int, where: Where) -> list[Hit]: ...

    @abstractmethod
    async def _matching(self, namespace: str, query: str, k: int, where: Where) -> list[Hit]: ...

    @abstractmethod
    async def _get(self, namespace: str, ids: list[str]) -> list[Row]: ...

    @abstractmethod
    async def _drop(self, namespace: str, ids: list[str]) -> None: ...

    @abstractmethod
    async def _drop_user(self, user_id: str, namespace: str | None) -> None: ...

    @abstractmethod
    async def _count(self, namespace: str) -> int: ...

    @abstractmethod
    async def _close(self) -> None: ...


def fused(near: list[Hit], matching: list[Hit], k: int) -> list[Hit]:
    """Fuse two rankings by reciprocal rank; the largest score is 1. Ties keep the order of the nearer.

    What the vectors did not find ranks right behind what they did; what the words did not find gets nothing from them.
    """
    hits = {hit.id: hit for hit in (*near, *matching)}
    by_words = {hit.id: hit.score for hit in matching}
    by_vector = {hit.id: hit.score for hit in near}
    behind = min(by_vector.values(), default=0.0) - 1.0
    scores = fuse_by_rank([by_words.get(one, 0.0) for one in hits], [by_vector.get(one, behind) for one in hits])
    order = sorted(zip(hits.values(), scores, strict=True), key=lambda pair: -pair[1])
    return [Hit(hit.id, score, hit.text, hit.metadata, hit.user_id) for hit, score in order[:k]]
