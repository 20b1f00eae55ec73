"""The way to a master that Sentinels name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, unquote

from redis.asyncio import Redis, Sentinel

from holdall.errors import ArgumentError
from holdall.stores.urls import split_url


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
    """
    parts = split_url(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise ArgumentError("a Sentinel URL names the service: redis+sentinel://host:26379,host:26379/SERVICE/DB")
    addresses = []
    for host in hosts.split(","):
        name, _, port = host.rpartition(":") if ":" in host else (host, "", "26379")
        addresses.append((name.strip("[]"), int(port)))
    extra = dict(parse_qsl(parts.query))
    own = {
        name.removeprefix("sentinel_"): extra[name]
        for name in ("sentinel_username", "sentinel_password")
        if name in extra
    }
    sentinels = Sentinels(addresses, kind=kind, own={**common, **own})
    master = sentinels.master(
        service,
        db=int(db or 0),
        username=unquote(username) or None,
        password=unquote(password) or None,
        max_connections=max_connections,
        **common,
    )
    return sentinels, master
