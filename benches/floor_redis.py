"""The floor of a checkpoint in Redis: one hand-written script, through the same driver."""

from __future__ import annotations

from collections.abc import Sequence

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

_WRITE = """
if tonumber(redis.call('HGET', KEYS[1], 'v') or 0) ~= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], 'v', ARGV[1] + 1, 'd', ARGV[2])
if ARGV[3] then redis.call('RPUSH', KEYS[2], unpack(ARGV, 3)) end
redis.call('EXPIRE', KEYS[1], 3600)
redis.call('EXPIRE', KEYS[2], 3600)
return 1
"""


class RedisFloor:
    """A hash and a list under one hash tag, one script call a checkpoint."""

    def __init__(self, url: str) -> None:
        # The pool that the store uses: one that waits for a connection where all are taken.
        pool = BlockingConnectionPool.from_url(
            url, max_connections=50, timeout=10.0, socket_timeout=10.0, retry=Retry(NoBackoff(), 0)
        )
        self._client = Redis.from_pool(pool)
        self._write = self._client.register_script(_WRITE)

    async def write(self, key: str, version: int, start: int, head: bytes, append: Sequence[bytes]) -> bool:
        """Write version + 1 if the record is at `version`, and append the entries."""
        return bool(await self._write(keys=[f"{{floor:{key}}}", f"{{floor:{key}}}:log"], args=[version, head, *append]))

    async def read(self, key: str) -> tuple[int, bytes]:
        """Return version and head."""
        version, head = await self._client.hmget(f"{{floor:{key}}}", "v", "d")
        return int(version), head

    async def read_all(self, key: str) -> tuple[bytes, list[bytes]]:
        """Return the head and the log, in one round trip."""
        async with self._client.pipeline(transaction=False) as pipe:
            pipe.hget(f"{{floor:{key}}}", "d")
            pipe.lrange(f"{{floor:{key}}}:log", 0, -1)
            head, entries = await pipe.execute()
        return head, entries

    async def aclose(self) -> None:
        """Close the connections."""
        await self._client.aclose()
