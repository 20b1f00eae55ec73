"""A lock service on Redis or Valkey: one key per name, set if absent, compared before it is extended or deleted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from holdall.stores import keys
from holdall.stores.redis_link import BACKEND, RedisLink


class RedisLock:
    """Leases in one Redis: a standalone server, one behind Sentinels, or a cluster.

    A failover may forget a lease that no replica had yet, and then two hold it at once; the fence of the record tells them
    apart. `Redlock` over several independent servers survives the loss of a minority of them.

    Args:
        url: As of `holdall.stores.redis.RedisStore`; None if a client is given.
        client: A `redis.asyncio` client to use instead; it is not closed by `aclose`.
        namespace: What every key begins with.
        max_connections: At most, per node.
        timeout_s: For connecting and for each reply.
        connect: More arguments for the driver's connections, such as ssl_ca_certs.
    """

    backend = BACKEND

    def __init__(
        self,
        url: str | None = None,
        *,
        client: Any | None = None,
        namespace: str = "holdall",
        max_connections: int = 50,
        timeout_s: float = 10.0,
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        self._prefix = keys.check_text("namespace", namespace, least=1, most=64).encode() + b":lock:"
        self._link = RedisLink(
            url, client, max_connections=max_connections, timeout_s=timeout_s, connect=dict(connect or {})
        )

    async def acquire(self, name: str, token: str, ttl_s: float) -> bool:
        """Take the name for `ttl_s` seconds from now; False where another token holds it."""
        return await self._call("lock_acquire", name, token, _ms(ttl_s))

    async def extend(self, name: str, token: str, ttl_s: float) -> bool:
        """Let the lease end `ttl_s` seconds from now; False where this token does not hold the name."""
        return await self._call("lock_extend", name, token, _ms(ttl_s))

    async def release(self, name: str, token: str) -> bool:
        """Give the name back; False where this token does not hold it."""
        return await self._call("lock_release", name, token)

    async def aclose(self) -> None:
        """Close the client; one that was given stays open."""
        await self._link.close()

    async def _call(self, script: str, name: str, *args: Any) -> bool:
        # all three may be repeated: the token says whose the key is
        key = [self._prefix + keys.check_key(name).encode()]
        return bool(await self._link.call(script, lambda: self._link.run(script, key, args), is_repeatable=True))


def _ms(ttl_s: float) -> int:
    # down, and never 0: a lease may end early and not late
    return max(1, math.floor(ttl_s * 1000))
