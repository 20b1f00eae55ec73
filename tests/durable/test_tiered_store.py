"""A store of several tiers is a store: it keeps every claim, whatever the tiers and the way of reading."""

from __future__ import annotations

from pathlib import Path

import pytest

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
