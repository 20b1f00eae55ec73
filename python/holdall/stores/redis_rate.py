"""Rate limits in Redis: one script, by the server's clock."""

from __future__ import annotations

from typing import Any

from holdall.stores.redis_link import RedisLink


async def take(
    link: RedisLink, key: bytes, *, algorithm: str, limit: int, per_us: int, burst: int, cost: int, least_ttl_ms: int
) -> tuple[bool, int, int]:
    """Count `cost` if the limit allows it; return whether it did, what is left, and microseconds until it would.

    A lost reply is asked for once more, and may count twice then: a limit errs on the side of less.
    """
    args: list[Any] = [algorithm, limit, per_us, burst, cost, least_ttl_ms]
    is_allowed, left, wait_us = await link.call("rate", lambda: link.run("rate", [key], args), is_repeatable=True)
    return bool(is_allowed), int(left), int(wait_us)
