"""Redis URLs: which kind of servers one names, and how the driver writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import unquote

from redis.asyncio.connection import parse_url

from holdall.errors import ArgumentError
from holdall.stores.urls import mask_url, split_url

Kind = Literal["", "cluster", "sentinel"]

# Valkey's own names, which the driver does not know.
_DRIVERS: Final = {"redis": "redis", "rediss": "rediss", "valkey": "redis", "valkeys": "rediss", "unix": "unix"}
_KINDS: Final[Mapping[str, Kind]] = {"": "", "cluster": "cluster", "sentinel": "sentinel"}
_SENTINEL_PORT: Final = 26379


class RedisUrl(NamedTuple):
    """What a URL names: `kind` is "" for one server, and `url` has a scheme that the driver knows."""

    kind: Kind
    url: str

    @property
    def is_tls(self) -> bool:
        """Whether the way there is encrypted."""
        return self.url.startswith("rediss:")


class SentinelUrl(NamedTuple):
    """What a Sentinel URL says: of the Sentinels, of the servers they watch, and of the ways to both."""

    addresses: list[tuple[str, int]]
    service: str
    server: dict[str, Any]
    own: dict[str, Any]


def read(url: str) -> RedisUrl:
    """Return the kind of a URL, and the URL as the driver reads it.

    Raises:
        ArgumentError: Another scheme, or a database that is no number, for which the driver takes 0.
    """
    scheme, _, rest = url.partition("://")
    name, _, kind = scheme.lower().partition("+")
    if name not in _DRIVERS or kind not in _KINDS or (name == "unix" and kind):
        raise ArgumentError(
            f"{mask_url(url)} is no Redis URL: write redis://, rediss:// (TLS), unix:///path, redis+cluster:// or redis+sentinel://"
        )
    read = RedisUrl(_KINDS[kind], f"{_DRIVERS[name]}://{rest}")
    path = unquote(split_url(read.url).path).strip("/")
    if name != "unix" and kind != "sentinel" and path and not path.isdecimal():
        raise ArgumentError(f"{mask_url(url)} names a database that is no number: write redis://host:port/0")
    return read


def read_sentinel(url: str) -> SentinelUrl:
    """Read `redis://user:password@host:port,host:port/SERVICE/DB?...`; fields named `sentinel_...` are of the Sentinels.

    What says how to connect, `ssl_...` and `socket_...`, is of both.

    Raises:
        ArgumentError: The URL names no service.
        ValueError: The driver cannot read a field, or a port or the database is no number.
    """
    parts = split_url(url)
    credentials, _, hosts = parts.netloc.rpartition("@")
    username, _, password = credentials.partition(":")
    service, _, db = parts.path.strip("/").partition("/")
    if not service:
        raise ArgumentError("a Sentinel URL names the service: redis+sentinel://host:26379,host:26379/SERVICE/DB")
    fields: dict[str, Any] = dict(parse_url(f"redis://?{parts.query}"))
    own = {name.removeprefix("sentinel_"): fields.pop(name) for name in list(fields) if name.startswith("sentinel_")}
    way = {name: value for name, value in fields.items() if name.startswith(("ssl_", "socket_"))}
    login = {"username": unquote(username) or None, "password": unquote(password) or None}
    return SentinelUrl(
        [_address(host) for host in hosts.split(",")],
        unquote(service),
        {"db": int(unquote(db) or 0), **login, **fields},
        {**way, **own},
    )


def _address(host: str) -> tuple[str, int]:
    # the colons within brackets are the address's
    name, colon, port = host.rpartition(":") if not host.endswith("]") else (host, "", "")
    return (name if colon else host).strip("[]"), int(port) if colon else _SENTINEL_PORT
