"""What a semantic memory is: documents found again by meaning, by words, or by both.

A document has a text, a vector, or both. Vectors come with the document or from the caller's embedder; without either, a
memory still searches texts by BM25. `holdall.testing.SemanticConformance` holds a backend to every sentence here.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

Value: TypeAlias = "str | int | float | bool | list[str]"
"""What metadata may hold under a name: nothing that one of the backends would change or refuse."""

Vector: TypeAlias = "Sequence[float] | Any"
"""Floats: a list, an `array`, a numpy row. Kept as 32-bit floats."""

Embedder: TypeAlias = "Callable[[list[str]], Iterable[Vector] | Awaitable[Iterable[Vector]]]"
"""Texts in, one vector for each out; sync (run in a thread) or async. Called with a batch at a time."""

Mode: TypeAlias = Literal["auto", "vector", "lexical", "hybrid"]
Metric: TypeAlias = Literal["cosine", "dot"]

Range = Mapping[Literal["gt", "gte", "lt", "lte"], float]
Filter: TypeAlias = "Mapping[str, str | float | bool | Sequence[str | float | bool] | Range]"
"""Conditions on metadata, all of which must hold: a value it must equal (or, of a list, contain), several of which one must,
or a range for a number. A document without the name does not match."""


@dataclass(frozen=True, slots=True)
class Document:
    """What is remembered under one id.

    Attributes:
        id: Opaque, 1 to 512 bytes of UTF-8, unique in its namespace.
        text: What is searched by words, embedded, and shown; may be empty where there is a vector.
        vector: Its embedding, where it is known already.
        metadata: Names (ASCII letters, digits, `_` and `-`, at most 64) and values to filter by.
        user_id: Whose it is; `search(user_id=)` and `delete_user` go by it.
    """

    id: str
    text: str = ""
    vector: Vector | None = None
    metadata: Mapping[str, Value] = field(default_factory=dict)
    user_id: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found.

    Attributes:
        id: Its id.
        score: Larger is better. Cosine or dot product, BM25, or of a hybrid search the ranks fused, at most 1.
        text: Its text.
        metadata: Its metadata.
        user_id: Whose it is.
    """

    id: str
    score: float
    text: str
    metadata: dict[str, Value]
    user_id: str | None = None


@runtime_checkable
class SemanticMemory(Protocol):
    """What a backend implements.

    Namespaces are apart: an id, a search, a delete is of one namespace. An `upsert` whose arguments are refused changes
    nothing. What was acknowledged is found by the next search, on backends that are not eventually consistent (Pinecone is).
    """

    backend: str

    @property
    def can_match(self) -> bool:
        """Whether words can be searched."""
        ...

    @property
    def can_embed(self) -> bool:
        """Whether it has an embedder."""
        ...

    async def upsert(self, documents: Iterable[Document], *, namespace: str = "") -> None:
        """Add documents, each in place of the one with its id.

        Texts without a vector are embedded, in batches, where there is an embedder.

        Raises:
            ArgumentError: An id, a namespace or a vector is outside its domain; vectors of one namespace have one length.
            EncodeError: A text or metadata that not every backend can keep; `path` says where.
            StoreUnavailableError: The backend cannot be reached; nothing was written.
            OutcomeUnknownError: The reply was lost, or a later one of several requests failed. It may be called again, as `delete`
                and `delete_user` may be.
        """
        ...

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
        """Return up to `k` documents, best first.

        Args:
            query: Text to search for.
            k: At least 1, at most 10,000.
            vector: A vector to search for; with a query beside it, it is the query's embedding.
            filter: Conditions on metadata.
            user_id: Only this user's documents. None: those of all users, and nobody's; a service that answers one user names that
                user here.
            namespace: Where to search.
            mode: "vector" by the vector, or the embedded query; "lexical" by BM25 over the query's words; "hybrid" both, fused
                by rank; "auto" whichever of these the arguments, the embedder and the backend allow, hybrid first.

        Raises:
            ArgumentError: Neither query nor vector, or a mode that they do not allow, or an argument outside its domain.
            StoreUnavailableError: The backend cannot be reached.
        """
        ...

    async def get(self, ids: Iterable[str], *, namespace: str = "") -> list[Document]:
        """Return the documents of these ids that there are, in this order, with their vectors where they have one."""
        ...

    async def delete(self, ids: Iterable[str], *, namespace: str = "") -> None:
        """Delete documents by id; ids that are not there do no harm."""
        ...

    async def delete_user(self, user_id: str, *, namespace: str | None = None) -> None:
        """Delete all documents of a user, in one namespace or (None) in all."""
        ...

    async def count(self, *, namespace: str = "") -> int:
        """Return how many documents the namespace has."""
        ...

    async def aclose(self) -> None:
        """Give back connections. Idempotent; a later call raises `ClosedError`."""
        ...
