"""Time to live: set with the write, moved by touch, and the end of a generation."""

from __future__ import annotations

from holdall.errors import ConflictError
from holdall.stores.base import ABSENT, Entry
from holdall.testing.claims.base import HEAD, Claims, found, raised


class ExpiryClaims(Claims):
    """An expired record is absent at once, swept or not."""

    async def test_without_a_ttl_a_record_does_not_expire(self) -> None:
        """None is never."""
        async with self.opened() as store:
            key = self.key()
            await self.made(store, key)
            assert (await self.there(store, key)).expires_at is None

    async def test_a_write_sets_the_expiry(self) -> None:
        """Each write sets it anew, None takes it away."""
        async with self.opened() as store:
            key = self.key()
            version = await store.write(key, HEAD, expected=ABSENT, ttl_s=self.long_s)
            first = (await self.there(store, key)).expires_at
            version = await store.write(key, HEAD, expected=version, ttl_s=2 * self.long_s)
            second = (await self.there(store, key)).expires_at
            assert first is not None
            assert second is not None
            assert abs(second - first - self.long_s) < self.long_s / 2
            await store.write(key, HEAD, expected=version, ttl_s=None)
            assert (await self.there(store, key)).expires_at is None

    async def test_an_expired_record_is_absent(self) -> None:
        """From read, read_log, find, touch and delete."""
        async with self.opened() as store:
            key, mark = self.key(), self.key("mark")
            await store.write(
                key, HEAD, expected=ABSENT, ttl_s=self.short_s, append=[Entry("message", b"a")], tags={"mark": mark}
            )
            await self.advance(self.short_s * 1.2)
            assert await store.read(key) is None
            assert await store.read_log(key, kind=None) == []
            assert await found(store, mark=mark) == []
            assert not await store.touch(key, self.long_s)
            assert not await store.delete(key)

    async def test_a_record_lives_until_its_expiry(self) -> None:
        """Not a moment less."""
        async with self.opened() as store:
            key = self.key()
            await store.write(key, HEAD, expected=ABSENT, ttl_s=self.long_s)
            await self.advance(self.short_s)
            assert await store.read(key) is not None

    async def test_a_write_after_expiry_begins_a_new_generation(self) -> None:
        """Number 1, another generation, an empty log, no tags; the old version conflicts."""
        async with self.opened() as store:
            key = self.key()
            old = await store.write(
                key, HEAD, expected=ABSENT, ttl_s=self.short_s, append=[Entry("message", b"a")], tags={"user_id": "u"}
            )
            await self.advance(self.short_s * 1.2)
            error = await raised(ConflictError, store.write(key, HEAD, expected=old, ttl_s=None))
            assert error.actual is None
            new = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=[Entry("message", b"b")])
            assert new.number == 1
            assert new.generation != old.generation
            record = await self.there(store, key)
            assert list(record.entries) == [Entry("message", b"b", 0)]
            assert dict(record.tags) == {}

    async def test_a_last_writer_wins_write_after_expiry_begins_anew(self) -> None:
        """It neither revives the log nor goes on counting."""
        async with self.opened() as store:
            key = self.key()
            await store.write(key, HEAD, expected=None, ttl_s=self.short_s, append=[Entry("message", b"a")])
            await self.advance(self.short_s * 1.2)
            version = await store.write(key, HEAD, expected=None, ttl_s=self.long_s)
            assert version.number == 1
            assert (await self.there(store, key)).log_len == 0

    async def test_expiry_ends_fence_and_op_ids_too(self) -> None:
        """What expired leaves no tombstone: the key is as new."""
        async with self.opened() as store:
            key = self.key()
            old = await store.write(key, HEAD, expected=ABSENT, ttl_s=self.short_s, fence=9, op_id="op")
            await self.advance(self.short_s * 1.2)
            new = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, op_id="op")
            assert new.generation != old.generation

    async def test_touch_moves_the_expiry_and_nothing_else(self) -> None:
        """The version stays, so that a touch never makes a writer conflict."""
        async with self.opened() as store:
            key = self.key()
            version = await store.write(
                key, HEAD, expected=ABSENT, ttl_s=self.short_s, append=[Entry("message", b"a")], tags={"user_id": "u"}
            )
            before = await self.there(store, key)
            assert await store.touch(key, self.long_s)
            await self.advance(self.short_s * 1.2)
            record = await self.there(store, key)
            assert (record.version, record.head, record.tags) == (version, before.head, before.tags)
            assert list(record.entries) == list(before.entries)
            assert (await store.write(key, HEAD, expected=version, ttl_s=None)).number == 2

    async def test_touch_can_shorten_a_life(self) -> None:
        """Also from never to soon."""
        async with self.opened() as store:
            key = self.key()
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=[Entry("message", b"a")])
            assert await store.touch(key, self.short_s)
            await self.advance(self.short_s * 1.2)
            assert await store.read(key) is None
            assert await store.read_log(key, kind=None) == []

    async def test_touch_none_takes_the_expiry_away(self) -> None:
        """The record, its log included, then stays."""
        async with self.opened() as store:
            key, mark = self.key(), self.key("mark")
            await store.write(
                key, HEAD, expected=ABSENT, ttl_s=self.short_s, append=[Entry("message", b"a")], tags={"mark": mark}
            )
            assert await store.touch(key, None)
            await self.advance(self.short_s * 1.2)
            record = await self.there(store, key)
            assert record.expires_at is None
            assert record.log_len == len(record.entries) == 1
            assert await found(store, mark=mark) == [key]

    async def test_touch_of_nothing_is_false(self) -> None:
        """A missing or deleted record cannot be kept alive."""
        async with self.opened() as store:
            key = self.key()
            assert not await store.touch(key, self.long_s)
            await self.made(store, key)
            await store.delete(key)
            assert not await store.touch(key, self.long_s)
            assert await store.read(key) is None

    async def test_a_refused_write_leaves_the_expiry(self) -> None:
        """A conflict neither lengthens nor shortens a life."""
        async with self.opened() as store:
            key = self.key()
            seen = await store.write(key, HEAD, expected=ABSENT, ttl_s=self.short_s)
            await store.write(key, HEAD, expected=seen, ttl_s=self.short_s)
            await raised(ConflictError, store.write(key, HEAD, expected=seen, ttl_s=None))
            await self.advance(self.short_s * 1.2)
            assert await store.read(key) is None
