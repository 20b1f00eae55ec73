"""`holdall.open(url)`: the session store behind a URL."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

from holdall.durable.backends import (
    DynamoSessionStore,
    MemorySessionStore,
    MongoSessionStore,
    PostgresSessionStore,
    RedisSessionStore,
    S3SessionStore,
    SqliteSessionStore,
)
from holdall.durable.loop_thread import refuse_in_loop
from holdall.durable.sync import SyncSessionStore
from holdall.errors import ArgumentError, UnknownNameError
from holdall.stores.urls import mask_url, split_url

if TYPE_CHECKING:
    from holdall.durable.session_store import SessionStore
    from holdall.state import StateSerializer

SCHEMES: Final = (
    "memory:",
    "sqlite:///path",
    "postgresql://",
    "redis://",
    "rediss://",
    "redis+sentinel://",
    "redis+cluster://",
    "unix:///path",
    "mongodb://",
    "dynamodb://",
    "s3://",
)
_REDIS: Final = frozenset(
    f"{name}{kind}" for name in ("redis", "rediss", "valkey", "valkeys") for kind in ("", "+cluster", "+sentinel")
) | {"unix"}
_MOST_PORT: Final = 65535
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+(%[^\]]*)?\]|[^:\[\]]*)(:\d{1,5})?")
# the last as SQLAlchemy writes it, which many keep in their settings
_POSTGRES: Final = frozenset({"postgresql", "postgres", "postgresql+asyncpg", "postgres+asyncpg"})
_AWS: Final = {"dynamodb": DynamoSessionStore, "s3": S3SessionStore}
_MONGODB: Final = frozenset({"mongodb", "mongodb+srv"})


def open(  # noqa: A001 - `holdall.open` is the public name
    url: str, *, serializer: StateSerializer | None = None, **options: Any
) -> SessionStore:
    """Return the session store behind a URL. It connects on first use; no server is needed to construct it.

    Its connections are of the event loop of that use. In a later loop, once that one has ended, it connects anew.

    `async with holdall.open(url) as store` closes it at the end; without `async with`, call `await store.aclose()`.

    Args:
        url: `memory:`, `sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://user:password@host/database`,
            `redis://host:6379/0`, `rediss://` (TLS), `redis+sentinel://host:26379,host:26379/master/0`,
            `redis+cluster://host:6379` (each also as `valkey`), `unix:///path/redis.sock?db=0`,
            `mongodb://host:27017/database`, `mongodb+srv://`,
            `dynamodb://TABLE?region=eu-west-1`, `s3://BUCKET/PREFIX?region=eu-west-1` (both also `endpoint_url=`; credentials as AWS's tools find them).
        serializer: How states become bytes; by default what suits the backend.
        options: Passed to the backend's store (pool sizes, key prefix, durability, ...).

    Raises:
        UnknownNameError: Another scheme; the message names the known ones.
        ArgumentError: The URL cannot be read.
        ImportError: The backend needs a driver; the message says which `pip install 'holdall[...]'` brings it.
    """
    if not isinstance(url, str):
        raise ArgumentError(f"holdall.open takes a URL as text, not {type(url).__name__}")
    scheme, colon, rest = url.partition(":")
    scheme = scheme.lower()
    if colon and scheme == "memory":
        return MemorySessionStore(serializer=serializer, **options)
    if colon and scheme == "sqlite":
        return SqliteSessionStore(_sqlite_path(url, rest), serializer=serializer, **options)
    if colon and scheme in _AWS:
        _check_host(url)
        return _AWS[scheme](url, serializer=serializer, **options)
    if colon and scheme in _POSTGRES | _REDIS | _MONGODB:
        _check_host(url)
        if scheme in _POSTGRES:
            return PostgresSessionStore(f"postgresql:{rest}", serializer=serializer, **options)
        if scheme in _MONGODB:
            return MongoSessionStore(url, serializer=serializer, **options)
        return RedisSessionStore(url, serializer=serializer, **options)
    shown = f"{scheme}:" if colon else mask_url(url)
    raise UnknownNameError(
        f"holdall.open knows no {shown!r}; it opens {', '.join(SCHEMES)}",
        what="scheme",
        name=scheme,
        known=list(SCHEMES),
    )


def open_sync(url: str, *, serializer: StateSerializer | None = None, **options: Any) -> SyncSessionStore:
    """Return the same store for code without asyncio; its calls block.

    A context manager. It runs its own event loop in a thread, closes at exit, and is not carried over a fork.

    Raises:
        RunningLoopError: At once, when called inside a running event loop.
    """
    refuse_in_loop()
    return SyncSessionStore(open(url, serializer=serializer, **options))


def sqlite_file(url: str) -> Path | None:
    """Return the file behind a SQLite URL, None for another backend's.

    Raises:
        ArgumentError: The URL cannot be read.
    """
    scheme, _, rest = url.partition(":")
    return Path(_sqlite_path(url, rest)) if scheme.lower() == "sqlite" else None


def _sqlite_path(url: str, rest: str) -> str:
    """Read `sqlite:///path` as SQLAlchemy does: three slashes relative, four absolute."""
    if rest.startswith("///"):
        path = unquote(rest[3:])
        if path == ":memory:":
            # SQLite would make one database per connection, and a reader would not see what a writer wrote.
            raise ArgumentError("sqlite:///:memory: is not shared between connections; open memory: instead")
        if path and "?" not in rest and "\0" not in path:
            return path
    raise ArgumentError(
        f"cannot read {url!r}: write sqlite:///relative/path.db or sqlite:////absolute/path.db, without a query"
    )


def _check_host(url: str) -> None:
    parts = split_url(url)
    hosts = parts.netloc.rpartition("@")[2]
    found = [_HOST.fullmatch(host) for host in hosts.split(",")]
    if not all(host and int((host[3] or ":0")[1:]) <= _MOST_PORT for host in found):
        raise ArgumentError(f"cannot read {mask_url(url)}: its hosts are not host:port, with commas between several")
    if parts.scheme == "unix":
        if not parts.path.strip("/"):
            raise ArgumentError("a unix: URL names a socket; write unix:///path/redis.sock?db=0")
    elif not hosts and "host=" not in parts.query:
        raise ArgumentError(f"{mask_url(url)} names no host; write {parts.scheme}://host/...")
