"""The memory store keeps every claim, and is safe from threads."""

from __future__ import annotations

import asyncio
import threading

from holdall.stores.base import ABSENT, Blob, Entry, Store
from holdall.stores.memory import MemoryStore
from holdall.testing import StoreConformance


class TestMemoryStore(StoreConformance):
    short_s = 60.0
    long_s = 6000.0

    def setup_method(self) -> None:
        self.time = 1_700_000_000.0

    async def make_store(self) -> Store:
        return MemoryStore(now=lambda: self.time)

    async def advance(self, seconds: float) -> None:
        self.time += seconds


class TestMemoryStoreBySleeping(StoreConformance):
    """As a third party runs it: nothing but `make_store`."""

    async def make_store(self) -> Store:
        return MemoryStore()


def test_threads_do_not_lose_an_append():
    """8 threads with a loop each append 50 entries to one record."""
    store = MemoryStore()

    async def append(n: int) -> None:
        for i in range(50):
            await store.write("k", Blob("text", b""), expected=None, ttl_s=None, append=[Entry("m", b"%d.%d" % (n, i))])

    threads = [threading.Thread(target=asyncio.run, args=(append(n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    record = asyncio.run(store.read("k"))
    assert record is not None
    assert record.version.number == record.log_len == 400
    assert len({entry.data for entry in record.entries}) == 400


async def test_ended_records_are_freed_by_later_writes():
    """Case 17: 1000 sessions with a time to live leave nothing behind, index included."""
    time = [0.0]
    store = MemoryStore(now=lambda: time[0])
    for n in range(1000):
        await store.write(f"k{n}", Blob("text", b""), expected=ABSENT, ttl_s=1, tags={"user_id": f"u{n % 7}"})
    time[0] = 2.0
    assert [key async for key in store.find(user_id="u1")] == []
    await store.write("last", Blob("text", b""), expected=ABSENT, ttl_s=1)
    assert list(store._held) == ["last"]
    assert store._by_tag == {}
    assert len(store._ends) == 1


async def test_many_writes_of_one_record_keep_one_look_ahead():
    """A record with a sliding expiry holds one place in the queue of ends, not one per write."""
    time = [0.0]
    store = MemoryStore(now=lambda: time[0])
    for n in range(200):
        time[0] = float(n)
        await store.write("k", Blob("text", b""), expected=None, ttl_s=50)
    assert len(store._ends) == 1
    time[0] = 300.0
    assert await store.sweep() == 1
    assert store._held == {}


async def test_a_tombstone_ends_after_its_retention():
    """Then the key is as new."""
    time = [0.0]
    store = MemoryStore(now=lambda: time[0], retention_s=10)
    await store.write("k", Blob("text", b""), expected=ABSENT, ttl_s=None, fence=5)
    await store.delete("k", fence=5)
    time[0] = 11.0
    await store.write("k", Blob("text", b""), expected=ABSENT, ttl_s=None)
