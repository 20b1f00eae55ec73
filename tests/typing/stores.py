"""Never run, only type-checked: every store is a Store, and a subclass of the suite needs `make_store` alone."""

from __future__ import annotations

from holdall.stores.base import ABSENT, Blob, Entry, Record, Store, Version
from holdall.stores.memory import MemoryStore
from holdall.stores.postgres import PostgresStore
from holdall.stores.redis import RedisStore
from holdall.stores.sqlite import SqliteStore
from holdall.testing import StoreConformance

STORES: list[Store] = [
    MemoryStore(),
    SqliteStore("state.db"),
    PostgresStore("postgresql://localhost"),
    RedisStore("redis://localhost"),
]


class TestMine(StoreConformance):
    async def make_store(self) -> Store:
        return MemoryStore()


async def use(store: Store) -> list[str]:
    version: Version = await store.write(
        "k", Blob("msgpack", b""), expected=ABSENT, append=[Entry("message", b"")], ttl_s=None, tags={"user_id": "u"}
    )
    record: Record | None = await store.read("k", log_from=1)
    if record is not None and await store.touch("k", 60.0):
        await store.delete("k", expected=version)
    return [key async for key in store.find(user_id="u")]
