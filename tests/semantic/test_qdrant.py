"""The memory in Qdrant keeps every claim in the client's embedded mode; no wheel carries the server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import AsyncQdrantClient

from holdall.errors import ArgumentError, StoreUnavailableError
from holdall.semantic import Document, QdrantMemory
from holdall.testing import SemanticConformance
from tests.servers.process import free_port


class TestQdrantMemory(SemanticConformance):
    @pytest.fixture(autouse=True)
    async def _client(self) -> AsyncIterator[None]:
        self.client = AsyncQdrantClient(location=":memory:")
        yield
        await self.client.close()

    async def make_memory(self, **options: Any) -> QdrantMemory:
        return QdrantMemory(client=self.client, dims=self.dims, **options)

    def same_vectors(self, got: Sequence[float] | None, put: Sequence[float] | None) -> None:
        # Qdrant keeps the vectors of a cosine collection at norm 1
        assert got == pytest.approx(put, abs=1e-6)


# the client opens one connection that it never closes, which Python says from 3.13 on
@pytest.mark.filterwarnings("ignore:.*sqlite3.Connection:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning")
async def test_a_folder_keeps_what_was_written(tmp_path: Path) -> None:
    async with QdrantMemory(path=str(tmp_path / "q"), metric="dot") as memory:
        await memory.upsert([Document("a", "rent", [1.0, 2.0]), Document("b", "sea", [2.0, 2.0], {"n": 1})])
    async with QdrantMemory(path=str(tmp_path / "q"), metric="dot") as memory:
        hits = await memory.search(vector=[1.0, 1.0])
        assert [(hit.id, hit.score) for hit in hits] == [("b", 4.0), ("a", 3.0)]
        assert (await memory.search("rents"))[0].id == "a"


async def test_a_collection_of_words_alone_takes_no_vectors(tmp_path: Path) -> None:
    async with QdrantMemory(path=str(tmp_path / "q")) as memory:
        await memory.upsert([Document("a", "some words")])
        assert [hit.id for hit in await memory.search("word")] == ["a"]
        assert await memory.search(vector=[1.0]) == []
        with pytest.raises(ArgumentError, match="dims="):
            await memory.upsert([Document("b", "", [1.0])])


async def test_an_unreachable_server_is_said() -> None:
    async with QdrantMemory(f"http://127.0.0.1:{free_port()}", check_compatibility=False) as memory:
        with pytest.raises(StoreUnavailableError, match="qdrant"):
            await memory.search("words")
