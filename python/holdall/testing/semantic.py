"""Every claim that `holdall.semantic.SemanticMemory` makes, as a test class for any backend.

```python
from holdall.testing import SemanticConformance

class TestMyMemory(SemanticConformance):
    async def make_memory(self, **options):
        return MyMemory("myscheme://localhost", **options)
```

Run it with pytest and pytest-asyncio in auto mode. The memories may share one backend: every claim uses namespaces and users
of its own. All vectors have `dims` floats.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import secrets
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any

from holdall.errors import ArgumentError, ClosedError, EncodeError, HoldallError
from holdall.semantic.base import Document, Filter, Hit, SemanticMemory
from holdall.semantic.window import MessageMemory
from holdall.testing.semantic_filters import FILTERS, PEOPLE, meets


class SemanticConformance:
    """Subclass it, and say in `make_memory` how a memory is opened; it takes `embedder` and `batch_size` as options."""

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

    async def test_what_goes_in_comes_out(self) -> None:
        """Text, vector, metadata and user are given back equal, by id and in the order asked for."""
        async with self.opened() as memory:
            space = self.space()
            metadata = {"s": "Grüße 🎉 'x' \"y\"", "i": 7, "big": 2**53, "f": 0.1, "b": False, "l": ["a", "b"], "e": []}
            full = self.document("full", 1, text="多 lines\n\tand 'quotes' ; DROP", metadata=metadata, user_id="u:1/*")
            await memory.upsert([full, self.document("bare", 2, text="")], namespace=space)
            await self.settle()
            got = await memory.get(["bare", "absent", "full"], namespace=space)
            assert [one.id for one in got] == ["bare", "full"]
            assert (got[1].text, dict(got[1].metadata), got[1].user_id) == (full.text, metadata, "u:1/*")
            assert type(got[1].metadata["b"]) is bool
            assert (got[0].text, dict(got[0].metadata), got[0].user_id) == ("", {}, None)
            self.same_vectors(got[1].vector, full.vector)

    def same_vectors(self, got: Sequence[float] | None, put: Sequence[float] | None) -> None:
        """Compare vectors; a backend that keeps them at norm 1 overrides this."""
        assert got is not None
        assert put is not None
        assert list(got) == list(put)

    async def test_a_document_is_put_in_place_of_the_one_with_its_id(self) -> None:
        """Nothing of the first is found any more; of two in one call the later counts."""
        async with self.opened() as memory:
            space, user = self.space(), self.space()
            await memory.upsert([self.document("a", 1, metadata={"v": 1}, user_id=user)], namespace=space)
            await memory.upsert(
                [self.document("a", 2, metadata={"v": 2}), self.document("a", 3, metadata={"v": 3})], namespace=space
            )
            await self.settle()
            assert await memory.count(namespace=space) == 1
            assert await self.found(memory, space, filter={"v": [1, 2]}) == []
            assert await self.found(memory, space, user_id=user) == []
            (hit,) = await memory.search(vector=self.drawn(3), namespace=space)
            assert hit.metadata == {"v": 3}
            assert hit.user_id is None
            assert math.isclose(hit.score, 1.0, abs_tol=1e-5)

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

    async def test_users_are_apart(self) -> None:
        """A search for a user finds that user's documents only, with a filter too."""
        async with self.opened() as memory:
            space, ann, bob = self.space(), self.space(), self.space()
            await memory.upsert(
                [
                    self.document(f"{user}-{n}", n, metadata={"n": n}, user_id=user)
                    for user in (ann, bob)
                    for n in range(3)
                ],
                namespace=space,
            )
            await self.settle()
            assert await self.found(memory, space, user_id=ann) == [f"{ann}-{n}" for n in range(3)]
            assert await self.found(memory, space, user_id=bob, filter={"n": {"gte": 1}}) == [f"{bob}-1", f"{bob}-2"]
            assert await self.found(memory, space, user_id=self.space()) == []

    async def test_messages_of_two_users_are_apart_in_sessions_of_one_id(self) -> None:
        """Of a user, of another and of nobody: none overwrites or recalls what is another's, nor is deleted with it."""
        embedder = self.embedder([])
        async with self.opened(embedder=embedder) as memory:
            session = self.space()
            users = (self.space(), "é" * 256, None)
            messages = [MessageMemory(memory, session, user_id=user) for user in users]
            for n, mine in enumerate(messages):
                said = [{"role": "user", "content": f"parcel {n} {i}"} for i in range(3)]
                assert await mine.add(said, start=0) == 3
            await self.settle()
            assert await memory.count(namespace=session) == 9

            async def recalled(n: int, around: int) -> list[str]:
                found = await messages[n].recall(f"parcel {n} 1", 1, around=around)
                return [message["content"] for message in found.messages]

            for n in range(3):
                assert set(await recalled(n, 0)) <= {f"parcel {n} {i}" for i in range(3)}
                assert await recalled(n, 3) == [f"parcel {n} {i}" for i in range(3)]
            await memory.delete_user("é" * 256)
            await self.settle()
            assert [len(await recalled(n, 3)) for n in range(3)] == [3, 0, 3]

    async def test_namespaces_are_apart(self) -> None:
        """The same id in two of them is two documents; the default namespace is one like any other."""
        async with self.opened() as memory:
            first, second = self.space(), self.space() + "/é 多:*'"
            for space in (first, second):
                await memory.upsert([self.document("same", text=space)], namespace=space)
            await self.settle()
            assert [hit.text for hit in await memory.search(vector=self.drawn(0), namespace=second)] == [second]
            await memory.delete(["same"], namespace=first)
            await self.settle()
            assert await memory.count(namespace=first) == 0
            assert [one.text for one in await memory.get(["same"], namespace=second)] == [second]
            assert await memory.search(vector=self.drawn(0), namespace=self.space()) == []

    async def test_deletes_by_id(self) -> None:
        """What is deleted is not found, by vector, words or id; ids that are not there do no harm."""
        async with self.opened() as memory:
            space = self.space()
            await memory.upsert([self.document(f"d{n}", n) for n in range(5)], namespace=space)
            await memory.delete(["d1", "d3", "absent"], namespace=space)
            await memory.delete([], namespace=space)
            await self.settle()
            assert await self.found(memory, space) == ["d0", "d2", "d4"]
            assert await memory.count(namespace=space) == 3
            assert await memory.get(["d1"], namespace=space) == []
            if self.can_match:
                assert [hit.id for hit in await memory.search("d3", namespace=space, mode="lexical")] == []

    async def test_deletes_a_user(self) -> None:
        """In one namespace or everywhere, and nobody else's documents."""
        async with self.opened() as memory:
            one, two, ann, bob = self.space(), self.space(), self.space(), self.space()
            for space in (one, two):
                await memory.upsert([self.document(u, 1, user_id=u) for u in (ann, bob)], namespace=space)
                await memory.upsert([self.document("nobody's", 2)], namespace=space)
            await memory.delete_user(ann, namespace=one)
            await self.settle()
            assert await self.found(memory, one) == sorted([bob, "nobody's"])
            assert await self.found(memory, two) == sorted([ann, bob, "nobody's"])
            await memory.delete_user(bob)
            await self.settle()
            assert await self.found(memory, one) == ["nobody's"]
            assert await self.found(memory, two) == sorted([ann, "nobody's"])
            await memory.delete_user(self.space())

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

    def embedder(self, asked: list[list[str]]) -> Callable[[list[str]], list[list[float]]]:
        """Return an embedder that gives each text a vector of its own, and notes what it was asked."""

        def embed(texts: list[str]) -> list[list[float]]:
            asked.append(texts)
            return [self.drawn(int.from_bytes(text.encode()[:6].rjust(6), "big")) for text in texts]

        return embed

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

    async def test_ids_are_opaque(self) -> None:
        """Separators, quotes, wildcards, other scripts, 512 bytes: each is an id like any other."""
        async with self.opened() as memory:
            space = self.space()
            names = [
                "a:b",
                "a/b",
                "*",
                "'; --",
                '"',
                "{x}",
                "é多🎉",
                " ",
                "%41",
                "A",
                "~",
                "x" * 512,
                "é" * 256,
                "0",
                "00",
            ]
            await memory.upsert([self.document(name, n) for n, name in enumerate(names)], namespace=space)
            await self.settle()
            assert [one.id for one in await memory.get(names, namespace=space)] == names
            assert await self.found(memory, space) == sorted(names)
            await memory.delete(["*", "%41", "é" * 256], namespace=space)
            await self.settle()
            assert await self.found(memory, space) == sorted(set(names) - {"*", "%41", "é" * 256})

    async def test_what_is_refused_changes_nothing(self) -> None:
        """One bad document and none of its call is kept; each error is typed."""
        async with self.opened() as memory:
            space = self.space()
            await memory.upsert([self.document("first")], namespace=space)
            bad: list[tuple[dict[str, Any], type[HoldallError]]] = [
                ({"vector": [0.0] * self.dims}, ArgumentError),
                ({"vector": [math.nan] * self.dims}, ArgumentError),
                ({"vector": [1e39] * self.dims}, ArgumentError),
                ({"vector": [1.0] * (self.dims + 1)}, ArgumentError),
                ({"vector": "text"}, ArgumentError),
                ({"text": "a\0b"}, EncodeError),
                ({"text": "\ud83d"}, EncodeError),
                ({"metadata": {"n": None}}, EncodeError),
                ({"metadata": {"n": 2**53 + 1}}, EncodeError),
                ({"metadata": {"n": math.inf}}, EncodeError),
                ({"metadata": {"n": [1]}}, EncodeError),
                ({"metadata": {"$n": 1}}, ArgumentError),
                ({"metadata": {"a.b": 1}}, ArgumentError),
                ({"user_id": ""}, ArgumentError),
                ({"id": ""}, ArgumentError),
                ({"id": "x" * 513}, ArgumentError),
            ]
            for parts, error in bad:
                name = parts.get("id", "second")
                rest = {key: value for key, value in parts.items() if key != "id"}
                with raises(error):
                    await memory.upsert([self.document("third"), self.document(name, 1, **rest)], namespace=space)
            await self.settle()
            assert await self.found(memory, space) == ["first"]

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

    async def test_many_at_once(self) -> None:
        """Upserts and searches from many tasks: nothing is lost, and no search fails."""
        async with self.opened() as memory:
            space = self.space()

            async def writer(n: int) -> None:
                for i in range(4):
                    await memory.upsert([self.document(f"{n}-{i}", 10 * n + i)], namespace=space)

            async def reader() -> None:
                for _ in range(4):
                    await memory.search(vector=self.drawn(3), namespace=space)

            await asyncio.gather(*(writer(n) for n in range(5)), *(reader() for _ in range(3)))
            await self.settle()
            assert await memory.count(namespace=space) == 20
            assert len(await memory.search(vector=self.drawn(0), k=50, namespace=space)) == 20

    async def test_another_handle_sees_what_was_written(self) -> None:
        """And what was changed and deleted since its last search."""
        async with self.opened() as memory, self.opened() as other:
            space = self.space()
            await memory.upsert([self.document(f"d{n}", n) for n in range(3)], namespace=space)
            await self.settle()
            assert await self.found(other, space) == ["d0", "d1", "d2"]
            await memory.delete(["d1"], namespace=space)
            await memory.upsert([self.document("d2", 9, metadata={"new": True})], namespace=space)
            await self.settle()
            assert await self.found(other, space) == ["d0", "d2"]
            assert await self.found(other, space, filter={"new": True}) == ["d2"]

    async def test_a_closed_memory_says_so(self) -> None:
        """Closing again does no harm."""
        memory = await self.make_memory()
        await memory.upsert([self.document("a")], namespace=self.space())
        await memory.aclose()
        await memory.aclose()
        with raises(ClosedError):
            await memory.search(vector=self.drawn(0))
        with raises(ClosedError):
            await memory.upsert([self.document("b")])

    async def test_it_is_a_semantic_memory(self) -> None:
        """By the Protocol, with a name for its backend."""
        async with self.opened() as memory:
            assert isinstance(memory, SemanticMemory)
            assert memory.can_match is self.can_match
            assert memory.can_embed is False
            assert memory.backend

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
