"""Fencing tokens: a holder that lost its lock is refused by the record itself."""

from __future__ import annotations

from holdall.errors import ConflictError, StaleFenceError
from holdall.stores.base import ABSENT, Blob
from holdall.testing.claims.base import HEAD, Claims, raised


class FenceClaims(Claims):
    """A fence is refused when lower than the highest seen, and missing once one was seen."""

    async def test_a_lower_fence_is_refused(self) -> None:
        """The stale holder learns which fence it has and which was seen; nothing is written."""
        async with self.opened() as store:
            key = self.key()
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, fence=41)
            version = await store.write(key, Blob("msgpack", b"42"), expected=None, ttl_s=None, fence=42)
            error = await raised(StaleFenceError, store.write(key, HEAD, expected=None, ttl_s=None, fence=41))
            assert (error.fence, error.highest) == (41, 42)
            assert isinstance(error, ConflictError)
            record = await self.there(store, key)
            assert (record.version, record.head.data) == (version, b"42")

    async def test_a_missing_fence_is_refused_once_one_was_seen(self) -> None:
        """A writer without a lock cannot pass one with a lock."""
        async with self.opened() as store:
            key = self.key()
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None)
            version = await store.write(key, HEAD, expected=None, ttl_s=None, fence=0)
            error = await raised(StaleFenceError, store.write(key, HEAD, expected=version, ttl_s=None))
            assert (error.fence, error.highest) == (None, 0)

    async def test_the_same_fence_writes_again(self) -> None:
        """One holder may write many times."""
        async with self.opened() as store:
            key = self.key()
            for n in range(3):
                version = await store.write(key, HEAD, expected=None, ttl_s=None, fence=7)
                assert version.number == n + 1

    async def test_the_right_version_does_not_excuse_a_stale_fence(self) -> None:
        """Both must hold."""
        async with self.opened() as store:
            key = self.key()
            version = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, fence=5)
            await raised(StaleFenceError, store.write(key, HEAD, expected=version, ttl_s=None, fence=4))

    async def test_the_right_fence_does_not_excuse_a_stale_version(self) -> None:
        """Both must hold."""
        async with self.opened() as store:
            key = self.key()
            seen = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, fence=5)
            now = await store.write(key, HEAD, expected=seen, ttl_s=None, fence=5)
            error = await raised(ConflictError, store.write(key, HEAD, expected=seen, ttl_s=None, fence=9))
            assert not isinstance(error, StaleFenceError)
            assert error.actual == now

    async def test_a_refused_write_does_not_raise_the_fence(self) -> None:
        """The fence of a write that lost on its version was not seen."""
        async with self.opened() as store:
            key = self.key()
            seen = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, fence=5)
            now = await store.write(key, HEAD, expected=seen, ttl_s=None, fence=5)
            await raised(ConflictError, store.write(key, HEAD, expected=seen, ttl_s=None, fence=9))
            assert (await store.write(key, HEAD, expected=now, ttl_s=None, fence=6)).number == 3

    async def test_fences_are_compared_as_integers(self) -> None:
        """10 is more than 9, and 2**63 - 1 more than 2**63 - 2: neither as text nor as floats."""
        async with self.opened() as store:
            key = self.key()
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, fence=9)
            await store.write(key, HEAD, expected=None, ttl_s=None, fence=10)
            await raised(StaleFenceError, store.write(key, HEAD, expected=None, ttl_s=None, fence=9))
            await store.write(key, HEAD, expected=None, ttl_s=None, fence=2**63 - 1)
            error = await raised(StaleFenceError, store.write(key, HEAD, expected=None, ttl_s=None, fence=2**63 - 2))
            assert error.highest == 2**63 - 1

    async def test_delete_obeys_the_fence(self) -> None:
        """A stale holder cannot delete, and neither can one without a fence."""
        async with self.opened() as store:
            key = self.key()
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, fence=5)
            await raised(StaleFenceError, store.delete(key, fence=4))
            await raised(StaleFenceError, store.delete(key))
            assert await store.read(key) is not None
            assert await store.delete(key, fence=6)

    async def test_a_tombstone_keeps_the_fence(self) -> None:
        """After a delete a stale holder is still refused, also the fence that the delete itself brought."""
        async with self.opened() as store:
            key = self.key()
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, fence=5)
            await store.delete(key, fence=6)
            for fence in (5, None):
                for expected in (ABSENT, None):
                    error = await raised(
                        StaleFenceError, store.write(key, HEAD, expected=expected, ttl_s=None, fence=fence)
                    )
                    assert error.highest == 6
            assert (await store.write(key, HEAD, expected=ABSENT, ttl_s=None, fence=6)).number == 1
            await raised(StaleFenceError, store.write(key, HEAD, expected=None, ttl_s=None, fence=5))

    async def test_a_repeat_is_answered_before_the_fence_is_asked(self) -> None:
        """A call that was done is not undone by a fence that came later."""
        async with self.opened() as store:
            key = self.key()
            first = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, fence=1, op_id="op")
            await store.write(key, HEAD, expected=first, ttl_s=None, fence=2)
            assert await store.write(key, HEAD, expected=ABSENT, ttl_s=None, fence=1, op_id="op") == first
