"""Never run, only type-checked: what a user of `holdall.semantic` writes."""

from __future__ import annotations

from collections.abc import Sequence

from holdall import ContextWindowPacker, PackResult
from holdall.semantic import (
    Document,
    EmbeddedMemory,
    Hit,
    MessageMemory,
    PgVectorMemory,
    PineconeMemory,
    QdrantMemory,
    SemanticMemory,
    as_documents,
)


def sync_embedder(texts: list[str]) -> list[list[float]]:
    return [[float(len(text))] for text in texts]


async def async_embedder(texts: list[str]) -> Sequence[Sequence[float]]:
    return sync_embedder(texts)


async def use(memory: SemanticMemory, packer: ContextWindowPacker) -> PackResult[object]:
    await memory.upsert([Document("a", "text", [1.0], {"n": 1, "tags": ["x"], "ok": True}, "u")], namespace="n")
    hits: list[Hit] = await memory.search(
        "text", 5, filter={"n": {"gte": 1}, "tags": ["x", "y"], "ok": True}, user_id="u", namespace="n", mode="hybrid"
    )
    await memory.search(vector=(1.0, 2.0))
    recalled = await MessageMemory(memory, "s").recall("text")
    return recalled.pack(packer, [{"role": "user", "content": "text"}], documents=as_documents(hits))


memories: list[SemanticMemory] = [
    EmbeddedMemory(embedder=sync_embedder),
    EmbeddedMemory("memory.db", embedder=async_embedder),
    PgVectorMemory("postgresql://localhost/db", index="hnsw"),
    QdrantMemory("http://localhost:6333"),
    PineconeMemory("https://index.example"),
]
