"""A store of several tiers is a store: it keeps every claim, whatever the tiers and the way of reading."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdall.durable.behind import BehindStore
from holdall.durable.tiered import TieredStore
from holdall.stores.base import Store
from holdall.stores.memory import MemoryStore
from holdall.stores.sqlite import SqliteStore
from holdall.testing import StoreConformance


class Tiered(StoreConformance):
    """Three tiers on one injected clock."""

    short_s = 60.0
    long_s = 6000.0
    reads = "latest"
    many = 150

    def setup_method(self) -> None:
        self.time = 1_700_000_000.0

    def memory(self) -> MemoryStore:
        return MemoryStore(now=lambda: self.time)

    async def make_store(self) -> Store:
        return TieredStore(
            self.memory(), hot=self.memory(), cold=self.memory(), reads=self.reads, now=lambda: self.time
        )

    async def advance(self, seconds: float) -> None:
        self.time += seconds


class TestLatest(Tiered):
    """Reads validated by warm."""


class TestBounded(Tiered):
    """Copies taken as they are: one handle never reads less than it wrote."""

    reads = "bounded"


class Shared:
    """A handle whose tiers are another's to close."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def aclose(self) -> None:
        """Leave them open."""


class TestBehind(Tiered):
    """Hot decides, and nothing is flushed."""

    flush_s = 1e9

    def over(self, hot: Store, warm: Store, cold: Store) -> Store:
        below = TieredStore(warm, cold=cold, now=lambda: self.time)
        return BehindStore(hot, below, flush_s=self.flush_s, now=lambda: self.time)

    async def make_store(self) -> Store:
        return self.over(self.memory(), self.memory(), self.memory())

    async def make_peer(self, store: Store) -> Store:
        assert isinstance(store, BehindStore)
        assert store.below.archive_tier is not None
        tiers = (store.hot.inner, store.below.warm.inner, store.below.archive_tier.cold.inner)
        return Shared(self.over(*tiers))

    async def test_a_touch_is_repeated_after_a_delete(self) -> None:
        """The one thing that hot cannot remember: a touch repeated after a delete finds nothing, and says so."""
        async with self.opened() as store:
            key = self.key()
            await self.made(store, key)
            assert await store.touch(key, self.long_s, op_id="t")
            await store.delete(key)
            assert not await store.touch(key, self.long_s, op_id="t")


class TestBehindFlushing(TestBehind):
    """And is flushed at every turn of the loop, by a worker that does nothing else."""

    flush_s = 1e-9


class TestOverSqlite(Tiered):
    """Warm in a file, which other handles write too: copies in the hot tier of each are never older than warm."""

    @pytest.fixture(autouse=True)
    def _in(self, tmp_path: Path) -> None:
        self.path = tmp_path / "warm.db"

    def over(self) -> Store:
        warm = SqliteStore(self.path, durability="process", now=lambda: self.time)
        return TieredStore(warm, hot=self.memory(), cold=self.memory(), now=lambda: self.time)

    async def make_store(self) -> Store:
        return self.over()

    async def make_peer(self, store: Store) -> Store:
        return self.over()
