"""The way to a master that Sentinels name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from redis.asyncio import Redis, Sentinel

from holdall.stores.redis_urls import read_sentinel


class Sentinels(Sentinel):
    """Clients of all Sentinels of one service, whatever order the driver asks them in.

    Args:
        addresses: Host and port of each.
        kind: The class of connections to use in place of the driver's.
        own: What the Sentinels themselves are connected with.
    """

    def __init__(
        self, addresses: list[tuple[str, int]], *, kind: Callable[[type[Any]], type[Any]], own: Mapping[str, Any]
    ) -> None:
        super().__init__(addresses, sentinel_kwargs=dict(own))  # type: ignore[no-untyped-call]
        self._kind = kind
        self._all: list[Redis] = list(self.sentinels)
        for sentinel in self._all:
            _use_kind(sentinel, kind)

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """Ask one after the other."""
        try:
            address: tuple[str, int] = await super().discover_master(service_name)
        finally:
            # Who answered comes first, by a swap that knows of no other calls: two at once lose one Sentinel, with its connections,
            # and have another twice.
            known = dict.fromkeys(self.sentinels)
            self.sentinels = [*known, *(sentinel for sentinel in self._all if sentinel not in known)]
        return address

    def master(self, service_name: str, **options: Any) -> Redis:
        """Return a client of the master."""
        client: Redis = self.master_for(service_name, **options)
        _use_kind(client, self._kind)
        return client

    async def aclose(self) -> None:
        """Close the connections to the Sentinels."""
        for sentinel in self._all:
            await sentinel.aclose()


def _use_kind(client: Redis, kind: Callable[[type[Any]], type[Any]]) -> None:
    pool = client.connection_pool
    pool.connection_class = kind(pool.connection_class)


def from_sentinels(
    url: str, common: Mapping[str, Any], *, kind: Callable[[type[Any]], type[Any]], max_connections: int
) -> tuple[Sentinels, Redis]:
    """Return the Sentinels of a URL, and a client of the master they name.

    Raises:
        ArgumentError: The URL names no service.
        TypeError: The driver does not know a field of it.
    """
    said = read_sentinel(url)
    sentinels = Sentinels(said.addresses, kind=kind, own={**common, **said.own})
    master = sentinels.master(said.service, **{"max_connections": max_connections, **common, **said.server})
    return sentinels, master
