"""op_id: a call that is repeated has one effect and one answer."""

from __future__ import annotations

import asyncio

from holdall.errors import ConflictError
from holdall.stores.base import ABSENT, Blob, Entry
from holdall.testing.claims.base import HEAD, Claims, raised


class OpClaims(Claims):
    """A record remembers its last 32 op_ids with the versions they gave."""

    async def test_a_repeated_write_has_one_effect(self) -> None:
        """The same op_id gives the same version; the entry is there once, the head as the first call left it."""
        async with self.opened() as store:
            key = self.key()
            added = [Entry("message", b"once")]
            first = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=added, op_id="op-1")
            again = await store.write(
                key, Blob("msgpack", b"other"), expected=ABSENT, ttl_s=None, append=added, op_id="op-1"
            )
            assert again == first
            record = await self.there(store, key)
            assert (record.version, record.head, record.log_len) == (first, HEAD, 1)

    async def test_a_repeat_is_answered_after_later_writes(self) -> None:
        """The answer is the version that the call gave, not the one that is there now."""
        async with self.opened() as store:
            key = self.key()
            first = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, op_id="op-1")
            second = await store.write(key, HEAD, expected=first, ttl_s=None)
            assert await store.write(key, HEAD, expected=ABSENT, ttl_s=None, op_id="op-1") == first
            assert (await self.there(store, key)).version == second

    async def test_a_repeat_that_names_the_current_version_is_answered(self) -> None:
        """Who read again before repeating a call gets its answer all the same, and no second effect."""
        async with self.opened() as store:
            key = self.key()
            first = await self.made(store, key)
            added = [Entry("message", b"once")]
            second = await store.write(key, HEAD, expected=first, ttl_s=None, append=added, op_id="op")
            assert await store.write(key, HEAD, expected=second, ttl_s=None, append=added, op_id="op") == second
            third = await store.write(key, HEAD, expected=second, ttl_s=None)
            assert await store.write(key, HEAD, expected=third, ttl_s=None, append=added, op_id="op") == second
            record = await self.there(store, key)
            assert (record.version, record.log_len) == (third, 1)

    async def test_the_last_32_op_ids_are_remembered(self) -> None:
        """The 32nd back is answered; the 33rd is forgotten and meets a conflict."""
        async with self.opened() as store:
            key = self.key()
            versions = []
            version = None
            for n in range(33):
                version = await store.write(key, HEAD, expected=version, ttl_s=None, op_id=f"op-{n}")
                versions.append(version)
            for n in range(1, 33):
                assert await store.write(key, HEAD, expected=ABSENT, ttl_s=None, op_id=f"op-{n}") == versions[n]
            await raised(ConflictError, store.write(key, HEAD, expected=ABSENT, ttl_s=None, op_id="op-0"))
            assert (await self.there(store, key)).version == versions[-1]

    async def test_op_ids_are_opaque(self) -> None:
        """Separators, prefixes of each other and long ones are told apart."""
        async with self.opened() as store:
            key = self.key()
            ids = ["a", "aa", "a:b", "a=b;", "{a}", "%", "'", '"', "\n", "é", "a" * 1000, "a" * 999 + "b"]
            version = None
            for n, op_id in enumerate(ids):
                version = await store.write(key, HEAD, expected=version, ttl_s=None, op_id=op_id)
                assert version.number == n + 1
            for n, op_id in enumerate(ids):
                assert (await store.write(key, HEAD, expected=None, ttl_s=None, op_id=op_id)).number == n + 1

    async def test_op_ids_of_records_are_apart(self) -> None:
        """The same op_id on another key is another call."""
        async with self.opened() as store:
            one, two = self.key(), self.key()
            first = await store.write(one, HEAD, expected=ABSENT, ttl_s=None, op_id="op")
            second = await store.write(two, HEAD, expected=ABSENT, ttl_s=None, op_id="op")
            assert first.generation != second.generation
            assert await store.read(two) is not None

    async def test_op_ids_of_operations_are_apart(self) -> None:
        """One op_id for a write, a touch and a delete names three calls."""
        async with self.opened() as store:
            key = self.key()
            version = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, op_id="op")
            assert await store.touch(key, self.long_s, op_id="op")
            assert (await self.there(store, key)).expires_at is not None
            assert await store.delete(key, expected=version, op_id="op")
            assert await store.read(key) is None

    async def test_a_repeated_touch_has_one_effect(self) -> None:
        """A late repeat does not undo the expiry that another call set since."""
        async with self.opened() as store:
            key = self.key()
            await self.made(store, key)
            assert await store.touch(key, self.long_s, op_id="t")
            assert await store.touch(key, None)
            assert await store.touch(key, self.long_s, op_id="t")
            assert (await self.there(store, key)).expires_at is None

    async def test_a_repeated_delete_spares_the_next_record(self) -> None:
        """A late repeat answers True and does not delete what was created since."""
        async with self.opened() as store:
            key = self.key()
            await self.made(store, key)
            assert await store.delete(key, op_id="d")
            assert await store.delete(key, op_id="d")
            new = await self.made(store, key)
            assert await store.delete(key, op_id="d")
            assert (await self.there(store, key)).version == new

    async def test_a_repeated_write_is_answered_after_a_delete(self) -> None:
        """The tombstone keeps the op_ids: the record does not come back."""
        async with self.opened() as store:
            key = self.key()
            first = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, op_id="w")
            await store.delete(key)
            assert await store.write(key, HEAD, expected=ABSENT, ttl_s=None, op_id="w") == first
            assert await store.read(key) is None

    async def test_a_new_generation_keeps_the_op_ids(self) -> None:
        """Also when the key was used again, an old call is still known."""
        async with self.opened() as store:
            key = self.key()
            old = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, op_id="w")
            await store.delete(key)
            new = await self.made(store, key)
            assert await store.write(key, HEAD, expected=None, ttl_s=None, op_id="w") == old
            assert (await self.there(store, key)).version == new

    async def test_a_touch_is_repeated_after_a_delete(self) -> None:
        """The call was made and answered True; it still does."""
        async with self.opened() as store:
            key = self.key()
            await self.made(store, key)
            assert await store.touch(key, self.long_s, op_id="t")
            await store.delete(key)
            assert await store.touch(key, self.long_s, op_id="t")
            assert not await store.touch(key, self.long_s, op_id="t2")

    async def test_concurrent_repeats_have_one_effect(self) -> None:
        """Eight copies of one call at once append one entry and agree on the version."""
        async with self.peers(4) as stores:
            key = self.key()
            await self.made(stores[0], key)
            answers = await asyncio.gather(
                *(
                    stores[n % 4].write(
                        key, HEAD, expected=None, ttl_s=None, append=[Entry("message", b"1")], op_id="op"
                    )
                    for n in range(8)
                )
            )
            assert len(set(answers)) == 1
            assert (await self.there(stores[0], key)).log_len == 1
