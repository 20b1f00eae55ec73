"""The memory in Qdrant keeps every claim in the client's embedded mode; no wheel carries the server."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from qdrant_client import AsyncQdrantClient

from holdall.errors import ArgumentError, OutcomeUnknownError, StoreUnavailableError
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


class Answering:
    """Qdrant's requests, answered by a table; what is not in it is an empty success, and b"" closes without a word."""

    def __init__(self, **answers: tuple[int, str]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    async def __aenter__(self) -> Answering:  # noqa: PYI034 - `Self` is of 3.11
        self.server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self.server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer):
            while line := (await reader.readline()).decode():
                method, path, _ = line.split(" ")
                length = 0
                while (header := (await reader.readline()).strip().lower()) != b"":
                    if header.startswith(b"content-length:"):
                        length = int(header.split(b":")[1])
                await reader.readexactly(length)
                status, body = self._answer(f"{method} {path.partition('?')[0].rpartition('/')[2]}")
                if not status:
                    return
                head = f"HTTP/1.1 {status} .\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write((head + body).encode())

    def _answer(self, request: str) -> tuple[int, str]:
        self.asked.append(request)
        name = request.lower().replace(" ", "_")
        n = self.asked.count(request)
        found = self.answers.get(f"{name}_{n}", self.answers.get(name))
        if found is not None:
            return found
        result: Any = {"operation_id": 0, "status": "completed"}
        if name == "get_exists":
            result = {"exists": True}
        elif name == "get_memory":
            result = json.loads(INFO)
        return 200, json.dumps({"result": result, "status": "ok", "time": 0})


INFO = """{"status": "green", "optimizer_status": "ok", "segments_count": 1, "payload_schema": {}, "config": {
    "params": {"vectors": {"dense": {"size": 1, "distance": "Cosine"}}},
    "hnsw_config": {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000},
    "optimizer_config": {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1000, "default_segment_number": 0,
                         "flush_interval_sec": 5}}}"""
LOST = (0, "")


def refusing(status: int) -> tuple[int, str]:
    return status, json.dumps({"status": {"error": "no"}, "time": 0})


@pytest.mark.parametrize(
    ("answers", "documents", "is_known"),
    [
        ({"put_points": refusing(400)}, 1, True),
        ({"put_points": refusing(403)}, 1, True),
        ({"put_points": refusing(500)}, 1, False),
        ({"put_points": LOST}, 1, False),
        ({"put_points_2": refusing(400)}, 300, False),
        ({"get_exists": LOST}, 1, True),
        ({"get_exists": refusing(500)}, 1, True),
    ],
)
async def test_nothing_was_written_is_said_only_where_that_is_known(
    answers: dict[str, tuple[int, str]], documents: int, is_known: bool
) -> None:
    async with Answering(**answers) as server, QdrantMemory(server.url, check_compatibility=False) as memory:
        with pytest.raises(StoreUnavailableError) as caught:
            await memory.upsert([Document(str(n), "", [1.0]) for n in range(documents)])
    assert isinstance(caught.value, OutcomeUnknownError) is not is_known
    assert ("nothing was written" in str(caught.value)) is is_known


async def test_a_delete_and_a_search_whose_replies_are_lost() -> None:
    """The one may have happened; the other has nothing to happen."""
    async with (
        Answering(post_delete=LOST, post_query=LOST) as server,
        QdrantMemory(server.url, check_compatibility=False) as memory,
    ):
        for call in (memory.delete(["a"]), memory.delete_user("u")):
            with pytest.raises(OutcomeUnknownError, match="call it again"):
                await call
        with pytest.raises(StoreUnavailableError) as caught:
            await memory.search(vector=[1.0])
    assert not isinstance(caught.value, OutcomeUnknownError)


async def test_indexes_are_made_for_a_collection_that_lacks_them() -> None:
    """Who made it was stopped before; a key that may not make them writes all the same."""
    async with (
        Answering(put_index_2=refusing(403)) as server,
        QdrantMemory(server.url, check_compatibility=False) as memory,
    ):
        for _ in range(2):
            await memory.upsert([Document("a", "", [1.0])])
        assert server.asked.count("PUT index") == 2
        assert server.asked.count("PUT points") == 2


@pytest.mark.parametrize("wrong", [{"url": "http://127.0.0.1:99999"}, {"url": "http://h", "no_such_option": 1}])
def test_what_the_client_cannot_connect_with(wrong: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="cannot connect"):
        QdrantMemory(**wrong)
