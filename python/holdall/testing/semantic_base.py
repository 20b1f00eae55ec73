"""What the claims of `SemanticConformance` stand on."""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import secrets
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from holdall.semantic.base import Document, Filter, Hit, SemanticMemory


class SemanticClaims:
    """How a memory is made, and a few words shared by all claims."""

    dims = 8
    # whether words can be searched without an embedder, and whether documents may lack a vector
    can_match = True

    async def make_memory(self, **options: Any) -> SemanticMemory:
        """Open the memory under test, or a second handle on the same documents."""
        raise NotImplementedError("a subclass of SemanticConformance says how its memory is opened")

    async def settle(self) -> None:
        """Wait until what was acknowledged is found; nothing to do unless the backend is eventually consistent."""

    @contextlib.asynccontextmanager
    async def opened(self, **options: Any) -> AsyncIterator[SemanticMemory]:
        """Yield a memory that is closed in the end."""
        memory = await self.make_memory(**options)
        try:
            yield memory
        finally:
            await memory.aclose()

    def space(self) -> str:
        """Return a namespace that no other claim uses."""
        return f"ns-{secrets.token_hex(6)}"

    def drawn(self, seed: int) -> list[float]:
        """Return a vector of floats that 32 bits hold exactly."""
        draw = random.Random(seed)  # noqa: S311 - data
        return [draw.randint(-64, 64) / 64 + 1 / 128 for _ in range(self.dims)]

    def document(self, name: str, seed: int = 0, **parts: Any) -> Document:
        """Return a document with a vector."""
        return Document(name, **{"text": f"the text of {name}", "vector": self.drawn(seed), **parts})

    def same_vectors(self, got: Sequence[float] | None, put: Sequence[float] | None) -> None:
        """Compare vectors; a backend that keeps them at norm 1 overrides this."""
        assert got is not None
        assert put is not None
        assert list(got) == list(put)

    def embedder(self, asked: list[list[str]]) -> Callable[[list[str]], list[list[float]]]:
        """Return an embedder that gives each text a vector of its own, and notes what it was asked."""

        def embed(texts: list[str]) -> list[list[float]]:
            asked.append(texts)
            return [self.drawn(int.from_bytes(text.encode()[:6].rjust(6), "big")) for text in texts]

        return embed

    async def found(
        self,
        memory: SemanticMemory,
        space: str,
        *,
        filter: Filter | None = None,  # noqa: A002 - the word for it
        user_id: str | None = None,
    ) -> list[str]:
        """Return the ids of all that a search by vector finds, sorted."""
        hits: Iterable[Hit] = await memory.search(
            vector=self.drawn(0), k=100, filter=filter, user_id=user_id, namespace=space
        )
        return sorted(hit.id for hit in hits)


def cosine(a: Sequence[float], b: Sequence[float]) -> float:
    """Work the cosine out as its definition says, of the floats as 32 bits hold them."""
    a, b = (struct.unpack(f"{len(x)}f", struct.pack(f"{len(x)}f", *x)) for x in (a, b))
    return math.fsum(x * y for x, y in zip(a, b, strict=True)) / (math.hypot(*a) * math.hypot(*b))


def asynchronous(
    embedder: Callable[[list[str]], list[list[float]]],
) -> Callable[[list[str]], Awaitable[list[list[float]]]]:
    """Return the embedder as an async function."""

    async def embed(texts: list[str]) -> list[list[float]]:
        await asyncio.sleep(0)
        return embedder(texts)

    return embed


@contextlib.contextmanager
def raises(kind: type[BaseException]) -> Any:
    """Expect an error, without pytest: this suite is part of the library."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"{kind.__name__} was not raised")
