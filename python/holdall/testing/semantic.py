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
import math
from typing import Any

from holdall.errors import ArgumentError, ClosedError, EncodeError, HoldallError
from holdall.semantic.base import SemanticMemory
from holdall.semantic.window import MessageMemory
from holdall.testing.semantic_base import raises
from holdall.testing.semantic_search import SearchClaims


class SemanticConformance(SearchClaims):
    """Subclass it, and say in `make_memory` how a memory is opened; it takes `embedder` and `batch_size` as options."""

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
