"""Semantic memory: documents and old messages found again by meaning, by words, or by both, to feed the window."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdall.semantic.base import Document, Embedder, Hit, SemanticMemory
from holdall.semantic.embedded import EmbeddedMemory
from holdall.semantic.window import MessageMemory, Recalled, as_documents

if TYPE_CHECKING:
    from holdall.semantic.pgvector import PgVectorMemory
    from holdall.semantic.pinecone import PineconeMemory
    from holdall.semantic.qdrant import QdrantMemory

# Imported on first use: each brings its driver.
_LAZY = {
    "PgVectorMemory": "holdall.semantic.pgvector",
    "PineconeMemory": "holdall.semantic.pinecone",
    "QdrantMemory": "holdall.semantic.qdrant",
}

__all__ = [
    "Document",
    "EmbeddedMemory",
    "Embedder",
    "Hit",
    "MessageMemory",
    "PgVectorMemory",
    "PineconeMemory",
    "QdrantMemory",
    "Recalled",
    "SemanticMemory",
    "as_documents",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module 'holdall.semantic' has no attribute {name!r}")
    return getattr(import_module(module), name)
