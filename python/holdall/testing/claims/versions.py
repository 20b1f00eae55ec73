"""Compare and swap: what a version is, and which writes it lets through."""

from __future__ import annotations

from holdall.errors import ConflictError
from holdall.stores.base import ABSENT, Blob, Entry, Version
from holdall.testing.claims.base import HEAD, Claims, raised


class VersionClaims(Claims):
    """A write names the version it saw."""

    async def test_a_missing_record_reads_as_none(self) -> None:
        """What was never written is absent."""
        async with self.opened() as store:
            assert await store.read(self.key()) is None

    async def test_the_first_version_is_number_1(self) -> None:
        """A record begins at number 1 of a drawn generation."""
        async with self.opened() as store:
            key = self.key()
            version = await self.made(store, key)
            assert version.number == 1
            assert version.generation
            assert (await self.there(store, key)).version == version

    async def test_each_write_adds_1(self) -> None:
        """Numbers have no gaps, and the generation stays."""
        async with self.opened() as store:
            key = self.key()
            first = version = await self.made(store, key)
            for number in range(2, 8):
                version = await store.write(key, HEAD, expected=version, ttl_s=None)
                assert version == Version(first.generation, number)

    async def test_versions_compare_as_integers(self) -> None:
        """Version 10 follows 9, as numbers do and texts do not."""
        async with self.opened() as store:
            key = self.key()
            version = await self.made(store, key)
            for _ in range(11):
                version = await store.write(key, HEAD, expected=version, ttl_s=None)
            assert version.number == 12
            await raised(ConflictError, store.write(key, HEAD, expected=version._replace(number=9), ttl_s=None))

    async def test_absent_refuses_an_existing_record(self) -> None:
        """Create means create: the conflict names the version that is there."""
        async with self.opened() as store:
            key = self.key()
            version = await self.made(store, key)
            error = await raised(ConflictError, store.write(key, HEAD, expected=ABSENT, ttl_s=None))
            assert error.actual == version
            assert error.key == key

    async def test_a_version_refuses_a_missing_record(self) -> None:
        """A write that names a version needs a record; the conflict says that there is none."""
        async with self.opened() as store:
            key = self.key()
            ghost = Version("0123456789abcdef", 1)
            error = await raised(ConflictError, store.write(key, HEAD, expected=ghost, ttl_s=None))
            assert error.actual is None
            assert error.expected == ghost
            assert await store.read(key) is None

    async def test_a_stale_version_conflicts(self) -> None:
        """Of two writers that read the same version, the second is refused with both versions."""
        async with self.opened() as store:
            key = self.key()
            seen = await self.made(store, key)
            now = await store.write(key, Blob("msgpack", b"winner"), expected=seen, ttl_s=None)
            error = await raised(ConflictError, store.write(key, Blob("msgpack", b"loser"), expected=seen, ttl_s=None))
            assert error.expected == seen
            assert error.actual == now
            assert (await self.there(store, key)).head.data == b"winner"

    async def test_a_version_from_the_future_conflicts(self) -> None:
        """Equal, not at least."""
        async with self.opened() as store:
            key = self.key()
            version = await self.made(store, key)
            ahead = version._replace(number=version.number + 1)
            await raised(ConflictError, store.write(key, HEAD, expected=ahead, ttl_s=None))

    async def test_the_same_number_of_another_generation_conflicts(self) -> None:
        """Both parts of a version are compared."""
        async with self.opened() as store:
            key = self.key()
            version = await self.made(store, key)
            other = Version("f" * 16 if version.generation != "f" * 16 else "e" * 16, version.number)
            await raised(ConflictError, store.write(key, HEAD, expected=other, ttl_s=None))

    async def test_none_lets_the_last_writer_win(self) -> None:
        """Without an expectation a write creates or replaces, and still counts."""
        async with self.opened() as store:
            key = self.key()
            first = await store.write(key, HEAD, expected=None, ttl_s=None)
            second = await store.write(key, Blob("msgpack", b"2"), expected=None, ttl_s=None)
            assert (first.number, second.number) == (1, 2)
            assert first.generation == second.generation
            assert (await self.there(store, key)).head.data == b"2"

    async def test_a_refused_write_changes_nothing(self) -> None:
        """Head, log, version, tags and expiry are as they were before the conflict."""
        async with self.opened() as store:
            key = self.key()
            seen = await store.write(
                key, HEAD, expected=ABSENT, ttl_s=self.long_s, append=[Entry("message", b"0")], tags={"user_id": "a"}
            )
            await store.write(key, HEAD, expected=seen, ttl_s=self.long_s, append=[Entry("message", b"1")])
            before = await self.there(store, key)
            await raised(
                ConflictError,
                store.write(
                    key,
                    Blob("msgpack", b"other"),
                    expected=seen,
                    ttl_s=None,
                    append=[Entry("message", b"2")],
                    keep=0,
                    tags={},
                    op_id="refused",
                ),
            )
            assert await self.there(store, key) == before

    async def test_a_refused_op_id_is_free_again(self) -> None:
        """A refused write is not remembered: repeated with the right version it is done."""
        async with self.opened() as store:
            key = self.key()
            seen = await self.made(store, key)
            now = await store.write(key, HEAD, expected=seen, ttl_s=None)
            await raised(ConflictError, store.write(key, HEAD, expected=seen, ttl_s=None, op_id="again"))
            version = await store.write(key, HEAD, expected=now, ttl_s=None, op_id="again")
            assert version.number == 3

    async def test_delete_needs_the_version_it_names(self) -> None:
        """A delete compares as a write does."""
        async with self.opened() as store:
            key = self.key()
            seen = await self.made(store, key)
            now = await store.write(key, HEAD, expected=seen, ttl_s=None)
            error = await raised(ConflictError, store.delete(key, expected=seen))
            assert error.actual == now
            assert (await self.there(store, key)).version == now
            assert await store.delete(key, expected=now)
            assert await store.read(key) is None

    async def test_delete_of_nothing_is_false(self) -> None:
        """What is not there cannot be deleted, nor deleted twice."""
        async with self.opened() as store:
            key = self.key()
            assert not await store.delete(key)
            version = await self.made(store, key)
            assert await store.delete(key)
            assert not await store.delete(key)
            assert not await store.delete(key, expected=version)

    async def test_a_late_writer_meets_a_conflict_after_a_delete(self) -> None:
        """A deleted record does not come back through a writer that still knows its version."""
        async with self.opened() as store:
            key = self.key()
            seen = await self.made(store, key)
            await store.delete(key)
            error = await raised(ConflictError, store.write(key, HEAD, expected=seen, ttl_s=None))
            assert error.actual is None
            assert await store.read(key) is None

    async def test_a_deleted_key_begins_a_new_generation(self) -> None:
        """Used again, a key counts from 1 in another generation, with an empty log and no tags."""
        async with self.opened() as store:
            key = self.key()
            old = await store.write(
                key, HEAD, expected=ABSENT, ttl_s=None, append=[Entry("message", b"old")], tags={"user_id": "a"}
            )
            await store.delete(key)
            new = await self.made(store, key)
            assert new.number == 1
            assert new.generation != old.generation
            record = await self.there(store, key)
            assert (list(record.entries), record.log_len, dict(record.tags)) == ([], 0, {})
            await raised(ConflictError, store.write(key, HEAD, expected=old, ttl_s=None))
