"""The client, the scripts and the retries below `RedisStore`: everything about a connection that is no record."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

from holdall.errors import ArgumentError, ClosedError, StoreUnavailableError, TornRecordError
from holdall.stores import keys, lost, redis_urls
from holdall.stores.lua import Script, script
from holdall.stores.urls import unreadable

try:
    from redis import exceptions
    from redis.asyncio import BlockingConnectionPool, Redis, RedisCluster
    from redis.asyncio.connection import UnixDomainSocketConnection, parse_url
    from redis.asyncio.retry import Retry
    from redis.backoff import NoBackoff
except ImportError as exc:
    raise ImportError("RedisStore needs an extra: pip install 'holdall[redis]'") from exc

from holdall.stores.redis_cluster import send_all, use_kind
from holdall.stores.redis_connection import Connections
from holdall.stores.redis_lane import CONNECTING, Lanes
from holdall.stores.redis_sentinel import Sentinels, from_sentinels

_T = TypeVar("_T")

BACKEND = "redis"
WRITES = ("write", "touch", "delete")
# Redis answers these instead of running the command: nothing was written.
_REFUSED = (
    exceptions.ResponseError,
    exceptions.BusyLoadingError,
    exceptions.AuthenticationError,
    exceptions.AuthorizationError,
    exceptions.MaxConnectionsError,
    exceptions.RedisClusterException,
)
# How long what is written beside a call stands, so that its connection has something to wait for.
_MARK_MS = 1000
_LOST = (exceptions.ConnectionError, exceptions.TimeoutError, OSError, asyncio.TimeoutError)


class RedisLink:
    """A client that is made on first use, in the loop of that use, with the driver's own retries off.

    The driver cannot know which calls may be repeated: a reply that was cut made it apply an INCR twice. A client that is
    passed in keeps its retries, and then every call gets an op_id, which makes them harmless.
    """

    def __init__(
        self, url: str | None, client: Any | None, *, max_connections: int, timeout_s: float, connect: dict[str, Any]
    ) -> None:
        """Remember how to connect."""
        if (url is None) == (client is None):
            raise ArgumentError("give either a URL or a client")
        self._url = url
        self._client = client
        self._owns_client = client is None
        self._max_connections = max_connections
        self._timeout_s = timeout_s
        self._connect = connect
        # the pools of Cluster and Sentinel clients refuse what they have no connection for: calls wait here instead
        self._slots = asyncio.Semaphore(max_connections)
        self._sentinels: Sentinels | None = None
        # for one server, where the client is ours
        self._lanes: Lanes | None = None
        self._connections = Connections()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_closed = False
        self.has_driver_retries = client is not None and _check_client(client) > 0

    @property
    def is_cluster(self) -> bool:
        """Whether keys live on several nodes."""
        return isinstance(self.client, RedisCluster)

    @property
    def client(self) -> Any:
        """The client; made here if need be."""
        if self._is_closed:
            raise ClosedError("this RedisStore was closed; make a new one")
        self._follow_loop()
        if self._client is None:
            try:
                self._client = self._made(cast("str", self._url))
            except (ValueError, TypeError, exceptions.RedisError, exceptions.RedisClusterException) as error:
                if isinstance(error, ArgumentError):
                    raise
                raise unreadable(cast("str", self._url), error) from None
        return self._client

    def _follow_loop(self) -> None:
        """Let go of what was connected in a loop that has ended."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop and self._owns_client:
            if self._loop is not None and self._loop.is_closed():
                self._client = self._lanes = self._sentinels = None
                self._connections = Connections()
                self._slots = asyncio.Semaphore(self._max_connections)
            self._loop = loop

    def _made(self, url: str) -> Any:
        common = {
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": self._timeout_s,
            "socket_connect_timeout": self._timeout_s,
            **self._connect,
        }
        named = redis_urls.read(url)
        if named.kind == "cluster":
            # 0: a moved slot is noted alone; the default closes every connection, also those with calls under way
            client = RedisCluster.from_url(
                named.url, max_connections=2 * self._max_connections, reinitialize_steps=0, **common
            )
            use_kind(client, self._connections.kind)
            return client
        if named.kind == "sentinel":
            common |= {"ssl": True} if named.is_tls else {}
            self._sentinels, master = from_sentinels(
                named.url, common, kind=self._connections.kind, max_connections=2 * self._max_connections
            )
            # fields that the driver does not know are met here, and not by the first call
            for pool in (master.connection_pool, *(one.connection_pool for one in self._sentinels.sentinels)):
                pool.connection_class(**pool.connection_kwargs)
            return master
        pool = BlockingConnectionPool.from_url(
            named.url, max_connections=self._max_connections, timeout=self._timeout_s, **common
        )
        pool.connection_class = self._connections.kind(pool.connection_class)
        pool.connection_class(**pool.connection_kwargs)
        options = {**parse_url(named.url), **self._connect}
        if options.get("connection_class") is UnixDomainSocketConnection:
            del options["connection_class"]
        self._lanes = Lanes.of(pool, options, timeout_s=self._timeout_s)
        return Redis.from_pool(pool)

    async def run(self, name: str, slot_keys: Sequence[bytes], args: Sequence[Any]) -> Any:
        """Call a script by its hash, or by its text where the server does not have it yet."""
        lua = script(name)
        async with self._slots:
            return await self._run(lua, slot_keys, args)

    async def _run(self, lua: Script, slot_keys: Sequence[bytes], args: Sequence[Any]) -> Any:
        client = self.client
        if isinstance(client, RedisCluster):
            # without it the first calls, if concurrent, go to any node, are sent elsewhere, and close each other's connections
            await client.initialize()
        execute = client.execute_command if self._lanes is None else self._lanes.execute
        try:
            return await execute("EVALSHA", lua.sha, len(slot_keys), *slot_keys, *args)
        except exceptions.NoScriptError:
            return await execute("EVAL", lua.text, len(slot_keys), *slot_keys, *args)

    async def read_at_once(self, *commands: Sequence[Any]) -> list[Any] | None:
        """Return the replies to commands that only read, from one snapshot; None where that takes a script.

        A cluster needs to be told by a key where to go, and a server may allow scripts and no transactions.
        """
        async with self._slots:
            client = self.client
            try:
                if self._lanes is not None:
                    replies = await self._lanes.transact(*commands)
                elif isinstance(client, RedisCluster):
                    return None
                else:
                    pipe = client.pipeline(transaction=True)
                    for command in commands:
                        pipe.execute_command(*command)
                    replies = await pipe.execute()
            except exceptions.ResponseError:
                return None
        return None if any(isinstance(reply, Exception) for reply in replies) else replies

    async def run_and_wait(
        self, name: str, slot_keys: Sequence[bytes], args: Sequence[Any], *, replicas: int, mark: bytes
    ) -> tuple[Any, int]:
        """Call a script, and then WAIT on the connection it went through; return the reply and how many replicas have it.

        WAIT waits for what this connection has written. The script writes nothing where it answers a repeated call from
        memory, whose first copy went over another connection, perhaps: so something is written in any case, under `mark`.
        """
        lua = script(name)
        beside = (b"SET", mark, b"", b"PX", _MARK_MS)
        wait = ("WAIT", replicas, int(self._timeout_s * 500))
        for head in (("EVALSHA", lua.sha), ("EVAL", lua.text)):
            command = (*head, len(slot_keys), *slot_keys, *args)
            try:
                async with self._slots:
                    reply, n = await self._all(slot_keys[0], command, beside, wait)
            except exceptions.NoScriptError:
                continue
            return reply, n
        raise AssertionError("EVAL needs no loaded script")

    async def _all(self, key: bytes, command: tuple[Any, ...], *more: tuple[Any, ...]) -> tuple[Any, int]:
        """Send commands over one connection; return the replies to the first and the last, 0 if one after the first failed."""
        client = self.client
        if isinstance(client, RedisCluster):
            return await send_all(client, key, command, *more)
        pipe = client.pipeline(transaction=False)
        for one in (command, *more):
            pipe.execute_command(*one)
        reply, *rest = await pipe.execute(raise_on_error=False)
        if isinstance(reply, Exception):
            raise reply
        return reply, 0 if any(isinstance(one, Exception) for one in rest) else int(rest[-1])

    async def call(self, operation: str, work: Callable[[], Awaitable[_T]], *, is_repeatable: bool) -> _T:
        """Run `work`, once more after a lost connection if it is repeatable, or was not sent.

        Raises:
            StoreUnavailableError: The server cannot be reached, or refused; nothing was written.
            OutcomeUnknownError: The connection was lost after a write was sent.
        """
        was_sent = False
        for is_last in (False, True):
            try:
                return await work()
            except exceptions.NoScriptError as error:
                raise lost.unavailable(BACKEND, operation, error) from error
            except StoreUnavailableError:
                # said by `work` itself: too few replicas have the write
                raise
            except (*_REFUSED, *_LOST) as error:
                was_sent = was_sent or not _was_never_sent(error)
                is_lost = isinstance(error, _LOST) and not isinstance(error, _REFUSED)
                if isinstance(error, exceptions.ReadOnlyError):
                    # the name that was connected to leads to another server by now: this one was told to follow it
                    await self._let_go()
                    is_safe = True
                else:
                    is_safe = is_lost and (is_repeatable or not was_sent)
                if is_safe and not is_last:
                    continue
                if was_sent and operation in WRITES:
                    raise lost.unknown(BACKEND, operation, error, is_repeatable=is_repeatable) from error
                raise lost.unavailable(BACKEND, operation, error) from error
        raise AssertionError("the second attempt returns or raises")

    async def _let_go(self) -> None:
        """Close the connections to one server that no call is under way on."""
        if self._lanes is not None:
            await self._lanes.aclose()
        if self._owns_client and self._sentinels is None and isinstance(self._client, Redis):
            await self._client.connection_pool.disconnect(inuse_connections=False)

    async def walk(self, names: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield what the driver yields, with our errors for its own."""
        try:
            async for name in names:
                yield name
        except (*_REFUSED, *_LOST) as error:
            raise lost.unavailable(BACKEND, "find", error) from error

    async def close(self) -> None:
        """Close the client, if it is ours."""
        if self._is_closed:
            return
        self._is_closed = True
        self._follow_loop()
        if self._lanes is not None:
            await self._lanes.end()
        if self._owns_client and self._client is not None:
            await self._client.aclose()
            if self._sentinels is not None:
                await self._sentinels.aclose()
            await self._connections.aclose()


def _was_never_sent(error: BaseException) -> bool:
    if isinstance(error, _REFUSED):
        return True
    # redis-py has one error for a connection that could not be made and one that broke; these texts are its own
    said = str(error)
    return CONNECTING in said or "No master found" in said or "No connection available" in said


def _check_client(client: Any) -> int:
    """Return how often the client retries by itself.

    Raises:
        ArgumentError: It decodes replies, which would damage bytes.
    """
    if isinstance(client, RedisCluster):
        options: dict[str, Any] = client.connection_kwargs
        retry: Retry | None = client.retry
    elif isinstance(client, Redis):
        options = client.get_connection_kwargs()  # type: ignore[no-untyped-call]
        retry = client.get_retry()
    else:
        raise ArgumentError(f"client must be a redis.asyncio Redis or RedisCluster, not {type(client).__name__}")
    if options.get("decode_responses"):
        raise ArgumentError(
            "the client decodes replies to text, which damages bytes: make it with decode_responses=False"
        )
    return 0 if retry is None else int(retry.get_retries())


def damaged(operation: str, key: str) -> TornRecordError:
    """The log of a record is shorter than its head says."""
    return TornRecordError(
        f"redis {operation}: the log of {keys.shown(key)!r} lacks entries, as after an eviction: set maxmemory-policy to noeviction",
        backend=BACKEND,
        operation=operation,
        cause="log shorter than its head says",
        key=key,
    )
