"""Opening, closing and cancelling."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdall.errors import ClosedError
from holdall.stores.base import ABSENT, Blob, Entry, Store
from holdall.testing.claims.base import HEAD, Claims, found, raised


class LifecycleClaims(Claims):
    """A store says what it is, closes once, and survives the cancelling of its callers."""

    async def test_a_store_keeps_the_protocol(self) -> None:
        """It has the methods, a backend's name and a named durability."""
        async with self.opened() as store:
            assert isinstance(store, Store)
            assert store.backend
            assert store.durability in ("memory", "process", "fsync")

    async def test_closing_twice_is_closing_once(self) -> None:
        """Closing is idempotent, used or not."""
        async with self.opened() as store:
            await store.aclose()
            await store.aclose()
        async with self.opened() as store:
            await self.made(store, self.key())
            await store.aclose()
            await store.aclose()

    async def test_a_closed_store_refuses_every_call(self) -> None:
        """`ClosedError`, not a driver's own."""
        async with self.opened() as store:
            key = self.key()
            await self.made(store, key)
            await store.aclose()
            calls: list[Callable[[], Awaitable[object]]] = [
                lambda: store.read(key),
                lambda: store.write(key, HEAD, expected=None, ttl_s=None),
                lambda: store.read_log(key, kind=None),
                lambda: store.touch(key, None),
                lambda: store.delete(key),
                lambda: found(store),
                lambda: found(store, user_id="u"),
            ]
            for call in calls:
                await raised(ClosedError, call())

    async def test_a_second_handle_sees_what_the_first_wrote(self) -> None:
        """Any worker picks it up."""
        async with self.peers(2) as (one, two):
            key = self.key()
            version = await one.write(
                key, HEAD, expected=ABSENT, ttl_s=self.long_s, append=[Entry("message", b"a")], tags={"user_id": key}
            )
            record = await self.there(two, key)
            assert (record.version, record.head, list(record.entries)) == (version, HEAD, [Entry("message", b"a", 0)])
            assert await found(two, user_id=key) == [key]

    async def test_a_cancelled_write_is_whole_or_absent(self) -> None:
        """Cancelled after any number of turns of the loop: head, log and version agree, and the store goes on working."""
        async with self.opened() as store:
            for turns in range(12):
                key = self.key()
                version = await store.write(key, Blob("text", b"0"), expected=ABSENT, ttl_s=self.long_s)
                call = asyncio.ensure_future(
                    store.write(
                        key, Blob("text", b"1"), expected=version, ttl_s=self.long_s, append=[Entry("message", b"1")]
                    )
                )
                for _ in range(turns):
                    await asyncio.sleep(0)
                call.cancel()
                await asyncio.gather(call, return_exceptions=True)
                # what was sent before the cancel may land after it: a write behind it is ordered after it, or wins over it
                await self._settled(store, key)
                record = await self.there(store, key)
                done = int(record.head.data)
                assert record.version.number == 1 + done
                assert record.log_len == len(record.entries) == done
                assert (await store.write(key, HEAD, expected=record.version, ttl_s=None)).number == 2 + done

    async def _settled(self, store: Store, key: str) -> None:
        seen = None
        for _ in range(5):
            record = await self.there(store, key)
            if seen == record.version and record.version.number > 1:
                return
            seen = record.version
            await asyncio.sleep(0.004)

    async def test_cancelled_reads_leave_the_store_usable(self) -> None:
        """40 reads cancelled at different moments; the next read gets its own answer and not another's."""
        async with self.opened() as store:
            keys = [self.key() for _ in range(4)]
            for key in keys:
                await store.write(key, Blob("text", key.encode()), expected=ABSENT, ttl_s=None)
            for turn in range(10):
                calls = [asyncio.ensure_future(store.read(key)) for key in keys]
                for _ in range(turn):
                    await asyncio.sleep(0)
                for call in calls:
                    call.cancel()
                await asyncio.gather(*calls, return_exceptions=True)
                for key in keys:
                    assert (await self.there(store, key)).head.data == key.encode()
