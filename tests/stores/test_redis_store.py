"""The Redis store keeps every claim: on Valkey, on Redis 7, in a cluster, behind Sentinels."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis, RedisCluster

from holdall.errors import ArgumentError
from holdall.stores.base import Store
from holdall.stores.redis import RedisStore
from holdall.testing import StoreConformance
from tests.servers.redis import Cluster, Node, Sentinels


@pytest.mark.redis
class TestRedisStore(StoreConformance):
    short_s = 60.0
    long_s = 6000.0

    @pytest.fixture(autouse=True)
    def _server(self, valkey_server: Node) -> None:
        self.url = valkey_server.url

    async def make_store(self) -> Store:
        return RedisStore(self.url)

    async def make_peer(self, store: Store) -> Store:
        return await self.make_store()

    def admin(self) -> Redis | RedisCluster:
        return Redis.from_url(self.url)

    async def advance(self, seconds: float) -> None:
        # the clock is the server's: what was to end in a while is made to end that much earlier
        client = self.admin()
        async for key in client.scan_iter(match=b"holdall:*", count=1000):
            left_ms = await client.pttl(key)
            if left_ms >= 0:
                await client.pexpire(key, int(left_ms - 1000 * seconds))
        await client.aclose()


@pytest.mark.redis
class TestRedisStoreOnRedis7(TestRedisStore):
    @pytest.fixture(autouse=True)
    def _server(self, redis7_server: Node) -> None:
        self.url = redis7_server.url


@pytest.mark.redis
class TestRedisStoreInACluster(TestRedisStore):
    @pytest.fixture(autouse=True)
    def _server(self, cluster_server: Cluster) -> None:
        self.url = cluster_server.url

    def admin(self) -> RedisCluster:
        return RedisCluster.from_url(self.url.replace("redis+cluster", "redis"))


@pytest.mark.redis
class TestRedisStoreBehindSentinels(TestRedisStore):
    @pytest.fixture(autouse=True)
    def _server(self, sentinel_server: Sentinels) -> None:
        self.url = sentinel_server.url
        self.port = sentinel_server.master_port()

    def admin(self) -> Redis:
        return Redis(port=self.port)


def test_durability_is_the_callers_claim():
    """What the server syncs is not known here, so nothing is claimed unless the caller does."""
    assert RedisStore("redis://localhost").durability == "memory"
    assert RedisStore("redis://localhost", durability="fsync").durability == "fsync"
    with pytest.raises(ArgumentError, match="durability"):
        RedisStore("redis://localhost", durability="eventually")
