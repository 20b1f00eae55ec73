"""The memory in Pinecone keeps every claim against a stand-in of its REST surface: its client is real, the service is not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from holdall.errors import ArgumentError, EncodeError, OutcomeUnknownError, StoreUnavailableError
from holdall.semantic import Document, PineconeMemory
from holdall.testing import SemanticConformance
from tests.servers.pinecone import KEY, Pinecone, Refusal


@pytest.fixture(scope="module")
def service() -> Iterator[Pinecone]:
    index = Pinecone(dimension=SemanticConformance.dims)
    yield index
    index.stop()


class TestPineconeMemory(SemanticConformance):
    can_match = False

    @pytest.fixture(autouse=True)
    def _service(self, service: Pinecone) -> None:
        self.host = service.host

    async def make_memory(self, **options: Any) -> PineconeMemory:
        return PineconeMemory(self.host, api_key=KEY, **options)


async def test_many_documents_are_several_requests(service: Pinecone) -> None:
    service.requests.clear()
    async with PineconeMemory(service.host, api_key=KEY) as memory:
        documents = [Document(str(n), "", [1.0, *[float(n)] * 7]) for n in range(250)]
        await memory.upsert(documents, namespace="many")
        assert service.requests.count("POST /vectors/upsert") == 3
        assert len(await memory.get([str(n) for n in range(250)], namespace="many")) == 250
        await memory.delete([str(n) for n in range(240)], namespace="many")
        assert await memory.count(namespace="many") == 10


async def test_the_default_namespace_is_one_like_any_other(service: Pinecone) -> None:
    async with PineconeMemory(service.host, api_key=KEY) as memory:
        await memory.upsert([Document("d", "in the default", [1.0] * 8, user_id="u")])
        await memory.upsert([Document("d", "by its name", [1.0] * 8)], namespace="__default__")
        assert await memory.count() == 1
        assert [hit.text for hit in await memory.search(vector=[1.0] * 8)] == ["in the default"]
        await memory.delete_user("u")
        assert await memory.count() == 0
        assert await memory.count(namespace="__default__") == 1


async def test_what_pinecone_cannot_hold_is_refused_before_it_is_sent(service: Pinecone) -> None:
    async with PineconeMemory(service.host, api_key=KEY) as memory:
        with pytest.raises(ArgumentError, match="no vector"):
            await memory.upsert([Document("a", "text alone")])
        with pytest.raises(EncodeError, match="split"):
            await memory.upsert([Document("a", "é" * 20_500, [1.0] * 8)])
        with pytest.raises(ArgumentError, match="vector only"):
            await memory.search("words")


async def test_a_refusal_of_the_service_is_said(service: Pinecone) -> None:
    async with PineconeMemory(service.host, api_key="other") as memory:
        with pytest.raises(StoreUnavailableError, match="pinecone connect: UnauthorizedError"):
            await memory.search(vector=[1.0] * 8)


async def test_nothing_was_written_is_said_only_where_that_is_known(
    service: Pinecone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A refusal by the first request, but not by a later one, nor an error of the service's own, nor a lost reply."""

    async with PineconeMemory(service.host, api_key=KEY) as memory:
        documents, upsert = [Document(str(n), "", [1.0] * 8) for n in range(150)], Pinecone.upsert
        await memory.upsert(documents[:1], namespace="said")
        for status, after, is_known in ((400, 0, True), (400, 1, False), (500, 0, False), (0, 0, False)):
            left = [after]

            def answer(
                self: Pinecone, body: dict[str, Any], left: list[int] = left, status: int = status
            ) -> dict[str, Any]:
                left[0] -= 1
                if left[0] >= 0:
                    return upsert(self, body)
                if not status:
                    raise ConnectionAbortedError
                raise Refusal(status, "no")

            with monkeypatch.context() as patch:
                patch.setattr(Pinecone, "upsert", answer)
                with pytest.raises(StoreUnavailableError) as caught:
                    await memory.upsert(documents, namespace="said")
            assert isinstance(caught.value, OutcomeUnknownError) is not is_known


def test_what_the_client_cannot_connect_with() -> None:
    with pytest.raises(ArgumentError, match="cannot connect"):
        PineconeMemory("nonsense", api_key=KEY)
