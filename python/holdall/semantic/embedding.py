"""The caller's embedder, a batch at a time."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Iterable, Mapping, Sequence

from holdall.errors import ArgumentError
from holdall.semantic.base import Embedder
from holdall.semantic.rules import to_bytes


async def embed(embedder: Embedder, texts: Sequence[str], *, batch_size: int) -> list[bytes]:
    """Return the vector of each text, equal texts embedded once; what the embedder raises comes through as it is.

    A sync embedder runs in a thread, so that the loop runs on.

    Raises:
        ArgumentError: The embedder gave another number of vectors than it was given texts, or no vectors.
    """
    wanted = list(dict.fromkeys(texts))
    known: dict[str, bytes] = {}
    for start in range(0, len(wanted), batch_size):
        batch = wanted[start : start + batch_size]
        if _is_async(embedder):
            answer = embedder(list(batch))
        else:
            answer = await asyncio.to_thread(embedder, list(batch))
        if isinstance(answer, Awaitable):
            answer = await answer
        if isinstance(answer, (str, bytes, Mapping)) or not isinstance(answer, Iterable):
            raise ArgumentError(
                f"the embedder gave {type(answer).__name__} for {len(batch)} texts, not a vector for each"
            )
        vectors = [to_bytes(vector) for vector in answer]
        if len(vectors) != len(batch):
            raise ArgumentError(f"the embedder gave {len(vectors)} vectors for {len(batch)} texts")
        known.update(zip(batch, vectors, strict=True))
    return [known[text] for text in texts]


def _is_async(embedder: Embedder) -> bool:
    return inspect.iscoroutinefunction(embedder) or inspect.iscoroutinefunction(getattr(embedder, "__call__", None))  # noqa: B004 - asked what it is, not whether
