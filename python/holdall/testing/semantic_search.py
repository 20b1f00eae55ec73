"""What a search finds, in which order, and what is no search: the claims of `SemanticConformance` on it."""

from __future__ import annotations

import math
from typing import Any

from holdall.errors import ArgumentError
from holdall.semantic.base import Document
from holdall.testing.semantic_base import SemanticClaims, asynchronous, cosine, raises
from holdall.testing.semantic_filters import FILTERS, PEOPLE, meets


class SearchClaims(SemanticClaims):
    """Claims on searches by vector, by words and by both."""

    async def test_the_nearest_are_found_in_order(self) -> None:
        """As comparing with every vector finds them, with their cosines, for any k."""
        async with self.opened() as memory:
            space = self.space()
            vectors = {f"d{n}": self.drawn(100 + n) for n in range(40)}
            await memory.upsert([Document(name, name, vector) for name, vector in vectors.items()], namespace=space)
            await self.settle()
            query = self.drawn(99)
            right = sorted(((cosine(query, vector), name) for name, vector in vectors.items()), reverse=True)
            for k in (1, 7, 100):
                hits = await memory.search(vector=query, k=k, namespace=space)
                assert [hit.id for hit in hits] == [name for _, name in right[:k]]
                assert all(
                    math.isclose(hit.score, score, abs_tol=1e-4) for hit, (score, _) in zip(hits, right, strict=False)
                )

    async def test_filters_select_by_metadata(self) -> None:
        """Equal, one of several, in a list, within a range; booleans are no numbers, and what is absent does not match."""
        async with self.opened() as memory:
            space = self.space()
            await memory.upsert(
                [self.document(name, n, metadata=facts) for n, (name, facts) in enumerate(PEOPLE.items())],
                namespace=space,
            )
            await self.settle()
            for condition in FILTERS:
                right = sorted(name for name, facts in PEOPLE.items() if meets(facts, condition))
                assert await self.found(memory, space, filter=condition) == right, condition

    async def test_words_are_searched_without_an_embedder(self) -> None:
        """BM25 over stemmed words: rarer words weigh more, and what has none of them is not found."""
        if not self.can_match:
            return
        async with self.opened() as memory:
            space = self.space()
            texts = {
                "rent": "The rent is 900 euros a month.",
                "rents": "Rents rise, and this text on rising rents is a little longer than the other one about rent.",
                "move": "I moved to Lisbon in May.",
                "blank": "   ",
            }
            await memory.upsert([Document(name, text) for name, text in texts.items()], namespace=space)
            await memory.upsert([Document("theirs", "Lisbon", user_id="u")], namespace=space)
            await self.settle()
            found = await memory.search("when did she move to lisbon?", namespace=space)
            assert [hit.id for hit in found][:1] == ["move"]
            assert {hit.id for hit in found} == {"move", "theirs"}
            assert {hit.id for hit in await memory.search("renting", namespace=space)} == {"rent", "rents"}
            assert [hit.id for hit in await memory.search("lisbon", namespace=space, user_id="u")] == ["theirs"]
            assert len(await memory.search("rent lisbon", k=2, namespace=space)) == 2
            assert await memory.search("zebra", namespace=space) == []
            assert await memory.search("  ", namespace=space) == []

    async def test_texts_are_embedded_in_batches(self) -> None:
        """By a sync or an async embedder; texts with a vector, and blank ones, are not embedded."""
        for wrap in (lambda embedder: embedder, asynchronous):
            asked: list[list[str]] = []
            async with self.opened(embedder=wrap(self.embedder(asked)), batch_size=3) as memory:
                space = self.space()
                texts = ["red apple", "green pear", "blue sky", "grey sea", "black coal"]
                await memory.upsert(
                    [*(Document(text, text) for text in texts), self.document("given", 5, text="given")],
                    namespace=space,
                )
                await self.settle()
                assert [len(batch) for batch in asked] == [3, 2]
                assert sorted(text for batch in asked for text in batch) == sorted(texts)
                (hit,) = await memory.search("blue sky", 1, namespace=space, mode="vector")
                assert hit.id == "blue sky"
                assert math.isclose(hit.score, 1.0, abs_tol=1e-4)

    async def test_a_failing_embedder_leaves_nothing(self) -> None:
        """What it raises comes through; too few vectors are refused."""

        class Broken(Exception):  # noqa: N818 - a name for a test
            pass

        def broken(_: list[str]) -> list[list[float]]:
            raise Broken

        for embedder, error in ((broken, Broken), (lambda _: [], ArgumentError)):
            async with self.opened(embedder=embedder) as memory:
                space = self.space()
                with raises(error):
                    await memory.upsert([Document("a", "some text")], namespace=space)
                await self.settle()
                assert await memory.count(namespace=space) == 0

    async def test_a_hybrid_search_fuses_both(self) -> None:
        """What words and vector both find comes before what one of them finds."""
        if not self.can_match:
            return
        async with self.opened() as memory:
            space, query = self.space(), self.drawn(7)
            flipped = [-x for x in query]
            await memory.upsert(
                [
                    Document("both", "a parcel arrived", query),
                    Document("words", "the parcel", flipped),
                    Document("vector", "something else", query),
                    Document("neither", "nothing of it", [x * y for x, y in zip(query, self.drawn(8), strict=True)]),
                ],
                namespace=space,
            )
            await self.settle()
            hits = await memory.search("parcels arriving", vector=query, namespace=space)
            assert hits[0].id == "both"
            assert math.isclose(hits[0].score, 1.0, abs_tol=1e-9)
            assert {hit.id for hit in hits[:3]} == {"both", "words", "vector"}
            assert [hit.id for hit in await memory.search("parcels arriving", 1, vector=query, namespace=space)] == [
                "both"
            ]

    async def test_searches_that_mean_nothing_are_refused(self) -> None:
        """No query, a k outside its range, a vector of another length, a mode or condition that there is not."""
        async with self.opened() as memory:
            space, vector = self.space(), self.drawn(0)
            await memory.upsert([self.document("a")], namespace=space)
            await self.settle()
            calls: list[dict[str, Any]] = [
                {},
                {"vector": vector, "k": 0},
                {"vector": vector, "k": True},
                {"vector": vector, "mode": "nearest"},
                {"vector": [*vector, 1.0]},
                {"vector": vector, "mode": "lexical"},
                {"query": "words", "mode": "vector"},
                {"vector": vector, "filter": {"n": {"near": 1}}},
                {"vector": vector, "filter": {"n": {"gt": "1"}}},
                {"vector": vector, "filter": {"n": None}},
                {"vector": vector, "filter": {"a.b": 1}},
                {"vector": vector, "namespace": "\ud83d"},
            ]
            for call in calls:
                with raises(ArgumentError):
                    await memory.search(**{"namespace": space, **call})
