"""Memory feeds the window: documents with their relevance, and old messages beside recent ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from holdall import ContextWindowPacker, Tokenizer
from holdall.errors import ArgumentError, RequiredOverflowError
from holdall.semantic import Document, EmbeddedMemory, Hit, MessageMemory, as_documents

TOPICS = {"rent": 0, "euros": 0, "flat": 0, "sea": 1, "beach": 1, "waves": 1, "tax": 2}


def embed(texts: list[str]) -> list[list[float]]:
    """A topic for each word that has one: near means of the same topic."""
    vectors = []
    for text in texts:
        vector = [0.01, 0.01, 0.01, 0.01]
        for word in text.lower().replace("?", "").replace(".", "").split():
            vector[TOPICS.get(word, 3)] += 1.0
        vectors.append(vector)
    return vectors


def said(*texts: str) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[n % 2], "content": text} for n, text in enumerate(texts)]


LONG_AGO = said(
    "The rent of the flat is 900 euros.",
    "Noted.",
    *(f"Small talk number {n}, about nothing at all." for n in range(200)),
)


def test_hits_become_documents_by_their_share_of_the_best() -> None:
    hits = [
        Hit("a", 8.0, "first", {}),
        Hit("b", 2.0, "second", {}),
        Hit("c", -1.0, "third", {}),
        Hit("d", 9.0, " ", {}),
    ]
    assert as_documents(hits) == [
        {"text": "first", "relevance_score": 1.0},
        {"text": "second", "relevance_score": 0.25},
        {"text": "third", "relevance_score": 0.0},
    ]
    assert as_documents([]) == []
    assert as_documents([Hit("a", -2.0, "x", {})]) == [{"text": "x", "relevance_score": 0.0}]


async def test_documents_that_are_found_are_packed_best_first_into_what_is_left() -> None:
    async with EmbeddedMemory() as memory:
        await memory.upsert(Document(str(n), f"Page {n} on tax. " + "filler " * 60) for n in range(30))
        await memory.upsert([Document("right", "Tax on parcels is 19 percent. Parcels below 20 euros are free.")])
        documents = as_documents(await memory.search("how high is the tax on parcels?", k=20))
    packer = ContextWindowPacker(400, Tokenizer("o200k_base"), output_reserve=0)
    result = packer.pack_messages(said("how high is the tax on parcels?"), documents=documents)
    assert result.tokens <= 400
    assert "19 percent" in str(result.messages)
    assert any(one.source == "document" for one in result.dropped)


@pytest.mark.parametrize("embedder", [None, embed])
async def test_an_old_message_is_recalled_into_the_window(embedder: object) -> None:
    window = [{"role": "system", "content": "You are a helper."}, *said("Hello", "Hi", "How much was the rent?")]
    packer = ContextWindowPacker(200, Tokenizer("o200k_base"), output_reserve=0)
    async with EmbeddedMemory(embedder=embedder) as memory:  # type: ignore[arg-type]
        messages = MessageMemory(memory, "s-1", user_id="u-1")
        assert await messages.add(LONG_AGO, start=0) == len(LONG_AGO)
        recalled = await messages.recall("How much was the rent?", 20)
        result = recalled.pack(packer, window)
        await memory.delete_user("u-1")
        assert await memory.count(namespace="s-1") == 0
    contents = [message["content"] for message in result.messages]
    assert contents[0] == "You are a helper."
    assert contents[1] == "The rent of the flat is 900 euros."
    assert contents[-1] == "How much was the rent?"
    assert result.tokens <= 200


async def test_vectors_recall_what_no_word_names() -> None:
    async with EmbeddedMemory(embedder=embed) as memory:
        messages = MessageMemory(memory, "s")
        await messages.add([*LONG_AGO, *said("We went to the beach.", "Fine.")], start=0)
        recalled = await messages.recall("waves?", 3, around=0)
    assert "We went to the beach." in [message["content"] for message in recalled.messages]
    assert recalled.nearness is not None
    assert max(recalled.nearness, key=lambda place: recalled.nearness[place]) == len(LONG_AGO)


async def test_messages_come_back_in_order_with_those_around_them() -> None:
    async with EmbeddedMemory() as memory:
        messages = MessageMemory(memory, "s")
        turns: Sequence[dict[str, object]] = [
            {"role": "system", "content": "not kept"},
            {"role": "user", "name": "Ann", "content": "Where is the parcel?"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]},
            {"role": "tool", "tool_call_id": "1", "content": "parcel: in transit"},
            {"role": "assistant", "content": [{"type": "text", "text": "On its\0 way\ud83d."}, {"type": "image"}]},
            {"role": "user", "content": "Thanks."},
            {"role": "user", "content": "Another thing."},
        ]
        assert await messages.add(turns, start=10) == 17
        recalled = await messages.recall("parcels", 1, around=4)
        assert recalled.places == [11, 14, 15]
        assert recalled.messages == [
            {"role": "user", "name": "Ann", "content": "Where is the parcel?"},
            {"role": "assistant", "content": "On its\ufffd way\ufffd."},
            {"role": "user", "content": "Thanks."},
        ]
        assert (await messages.recall("parcels", 1, around=0)).places == [11]
        assert (await MessageMemory(memory, "another").recall("parcels")).messages == []


async def test_what_the_window_holds_is_not_recalled_twice() -> None:
    async with EmbeddedMemory(embedder=embed) as memory:
        messages = MessageMemory(memory, "s")
        everything = [*LONG_AGO, *said("The sea was calm.", "Good.", "And the rent?")]
        await messages.add(everything, start=0)
        recalled = await messages.recall("And the rent?", 400)
        start = len(LONG_AGO)
        packer = ContextWindowPacker(100_000, Tokenizer("o200k_base"))
        result = recalled.pack(packer, everything[start:], start=start)
    assert [message["content"] for message in result.messages] == [message["content"] for message in everything]


async def test_a_window_that_cannot_fit_says_so() -> None:
    async with EmbeddedMemory() as memory:
        messages = MessageMemory(memory, "s")
        await messages.add(LONG_AGO, start=0)
        recalled = await messages.recall("rent")
    with pytest.raises(RequiredOverflowError):
        recalled.pack(ContextWindowPacker(20, Tokenizer("o200k_base"), output_reserve=0), said("rent " * 50))


async def test_places_and_distances_outside_their_range_are_refused() -> None:
    async with EmbeddedMemory() as memory:
        with pytest.raises(ArgumentError, match="session_id"):
            MessageMemory(memory, "")
        messages = MessageMemory(memory, "s")
        with pytest.raises(ArgumentError, match="start"):
            await messages.add([], start=-1)
        with pytest.raises(ArgumentError, match="around"):
            await messages.recall("x", around=-1)


@pytest.mark.parametrize("embedder", [None, embed])
async def test_nothing_of_another_user_is_recalled(embedder: Any) -> None:
    """Not even where two users' sessions were given one id."""
    async with EmbeddedMemory(embedder=embedder) as memory:
        await MessageMemory(memory, "default", user_id="ann").add(said("My code is copper.", "Noted."), start=0)
        theirs = MessageMemory(memory, "default", user_id="bob")
        await theirs.add(said("Which code do I have?"), start=2)
        assert [m["content"] for m in (await theirs.recall("copper code")).messages] == ["Which code do I have?"]
