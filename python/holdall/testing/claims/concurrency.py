"""Many writers: nothing acknowledged is lost, and nobody waits for a record that is not theirs."""

from __future__ import annotations

import asyncio
import random
import time

from holdall.errors import ConflictError
from holdall.stores.base import ABSENT, Blob, Entry, Store, Version
from holdall.testing.claims.base import HEAD, Claims
from holdall.testing.history import Call, check_history


async def increment(store: Store, key: str) -> Version:
    """Add 1 to the number in the head, again and again until it is done."""
    while True:
        record = await store.read(key)
        assert record is not None
        try:
            return await store.write(
                key, Blob("text", b"%d" % (int(record.head.data) + 1)), expected=record.version, ttl_s=None
            )
        except ConflictError:
            await asyncio.sleep(random.uniform(0, 0.01))  # noqa: S311 - jitter, not a secret


class ConcurrencyClaims(Claims):
    """N writers x M writes end at exactly N x M."""

    async def test_no_update_is_lost(self) -> None:
        """Compare-and-swap increments from many tasks and handles add up."""
        async with self.peers(3) as stores:
            key = self.key()
            await stores[0].write(key, Blob("text", b"0"), expected=ABSENT, ttl_s=None)

            async def worker(n: int) -> None:
                for _ in range(self.writes):
                    await increment(stores[n % 3], key)

            await asyncio.gather(*(worker(n) for n in range(self.writers)))
            record = await self.there(stores[0], key)
            assert int(record.head.data) == self.writers * self.writes
            assert record.version.number == self.writers * self.writes + 1

    async def test_one_of_many_creators_wins(self) -> None:
        """Of 8 that create the same key at once, one gets version 1 and the others a conflict that names it."""
        async with self.peers(4) as stores:
            # more than once: the first calls of a store wait for its connections, and so for each other
            for _ in range(6):
                key = self.key()
                answers = await asyncio.gather(
                    *(stores[n % 4].write(key, Blob("text", b"%d" % n), expected=ABSENT, ttl_s=None) for n in range(8)),
                    return_exceptions=True,
                )
                won = [answer for answer in answers if isinstance(answer, Version)]
                lost = [answer for answer in answers if isinstance(answer, ConflictError)]
                assert (len(won), len(lost)) == (1, 7), answers
                assert all(error.actual == won[0] for error in lost)

    async def test_one_of_many_writers_at_a_version_wins(self) -> None:
        """The others are told the version that won; the log holds one entry."""
        async with self.peers(4) as stores:
            key = self.key()
            seen = await self.made(stores[0], key)
            answers = await asyncio.gather(
                *(
                    stores[n % 4].write(key, HEAD, expected=seen, ttl_s=None, append=[Entry("message", b"%d" % n)])
                    for n in range(8)
                ),
                return_exceptions=True,
            )
            assert sorted(type(answer).__name__ for answer in answers) == ["ConflictError"] * 7 + ["Version"]
            assert (await self.there(stores[0], key)).log_len == 1

    async def test_last_writer_wins_writes_all_count(self) -> None:
        """20 appends without an expectation make 20 entries and 20 versions, also on a new key."""
        async with self.peers(4) as stores:
            for _ in range(4):
                key = self.key()
                versions = await asyncio.gather(
                    *(
                        stores[n % 4].write(key, HEAD, expected=None, ttl_s=None, append=[Entry("message", b"%d" % n)])
                        for n in range(20)
                    )
                )
                assert sorted(version.number for version in versions) == list(range(1, 21))
                assert len({version.generation for version in versions}) == 1
                record = await self.there(stores[0], key)
                assert sorted(int(entry.data) for entry in record.entries) == list(range(20))
                assert [entry.seq for entry in record.entries] == list(range(20))

    async def test_concurrent_pops_take_distinct_entries(self) -> None:
        """5 entries, 5 tasks that each take the last by compare-and-swap: no entry is taken twice."""
        async with self.peers(3) as stores:
            key = self.key()
            await stores[0].write(
                key, HEAD, expected=ABSENT, ttl_s=None, append=[Entry("message", b"%d" % n) for n in range(5)]
            )

            async def pop(store: Store) -> bytes:
                while True:
                    record = await self.there(store, key)
                    try:
                        await store.write(key, HEAD, expected=record.version, ttl_s=None, keep=record.log_len - 1)
                    except ConflictError:
                        await asyncio.sleep(random.uniform(0, 0.01))  # noqa: S311 - jitter, not a secret
                    else:
                        return record.entries[-1].data

            taken = await asyncio.gather(*(pop(stores[n % 3]) for n in range(5)))
            assert sorted(taken) == [b"0", b"1", b"2", b"3", b"4"]
            assert (await self.there(stores[0], key)).log_len == 0

    async def test_one_delete_of_many_wins(self) -> None:
        """Of 6 that delete at once, one is told that it did."""
        async with self.peers(3) as stores:
            key = self.key()
            await self.made(stores[0], key)
            assert sum(await asyncio.gather(*(stores[n % 3].delete(key) for n in range(6)))) == 1

    async def test_a_read_is_one_snapshot(self) -> None:
        """While a writer appends and counts in the head, every read has as many entries as the head says."""
        async with self.peers(2) as stores:
            key = self.key()
            version = await stores[0].write(key, Blob("text", b"0"), expected=ABSENT, ttl_s=None)

            async def write(version: Version) -> None:
                for n in range(1, 31):
                    cut = n % 10 == 0
                    version = await stores[0].write(
                        key,
                        Blob("text", b"%d" % (0 if cut else n % 10)),
                        expected=version,
                        ttl_s=None,
                        keep=0 if cut else None,
                        append=[] if cut else [Entry("message", b"x" * 500)],
                    )

            async def read(writer: asyncio.Future[None]) -> None:
                while not writer.done():
                    record = await self.there(stores[1], key)
                    assert len(record.entries) == record.log_len == int(record.head.data)

            writer = asyncio.ensure_future(write(version))
            await asyncio.gather(writer, read(writer), read(writer))

    async def test_a_history_of_concurrent_calls_is_in_order(self) -> None:
        """What each call was told fits one order of the writes, in real time."""
        async with self.peers(3) as stores:
            key = self.key()
            calls: list[Call] = []
            await asyncio.gather(*(self._recorded(stores[n % 3], key, n, calls) for n in range(self.writers)))
            check_history(calls)
            assert sum(call.outcome == "ok" and call.operation == "write" for call in calls) > self.writers

    async def _recorded(self, store: Store, key: str, process: int, calls: list[Call]) -> None:
        for n in range(self.writes):
            began = time.monotonic()
            record = await store.read(key)
            version = None if record is None else record.version
            body = b"" if record is None else record.head.data
            calls.append(Call(process, "read", key, None, version, body, began, time.monotonic(), "ok"))
            body = f"{process}.{n}".encode()
            began = time.monotonic()
            try:
                version = await store.write(key, Blob("text", body), expected=version or ABSENT, ttl_s=None)
            except ConflictError as error:
                calls.append(
                    Call(process, "write", key, version, error.actual, body, began, time.monotonic(), "conflict")
                )
            else:
                expected = None if record is None else record.version
                calls.append(Call(process, "write", key, expected, version, body, began, time.monotonic(), "ok"))

    async def test_writers_of_different_records_do_not_conflict(self) -> None:
        """32 tasks on 32 records at once all get version 1, then 2."""
        async with self.opened() as store:
            keys = [self.key() for _ in range(32)]
            first = await asyncio.gather(*(self.made(store, key) for key in keys))
            second = await asyncio.gather(
                *(
                    store.write(key, HEAD, expected=version, ttl_s=None)
                    for key, version in zip(keys, first, strict=True)
                )
            )
            assert {version.number for version in second} == {2}
