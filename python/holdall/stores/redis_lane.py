"""The way of a script to one server: a connection that the driver has made, spoken to without the driver.

A call through redis-py costs 90 us of the processor: a pool behind a lock, timers for each write and read, counters. The same
bytes over the same socket cost 20. So the driver connects (TLS, passwords, database, options of sockets), and what is sent from
then on is packed and parsed by hiredis alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Final

from redis import exceptions

try:
    import hiredis
except ImportError:  # the driver does without, and so do we
    hiredis = None  # type: ignore[assignment]

# What the driver would do with a connection in use; then it keeps all of them.
_NEEDS_DRIVER: Final = ("credential_provider", "health_check_interval", "redis_connect_func")
# Whether the server has closed a connection is known for as long as the loop has looked; after a pause it looks first.
_FRESH_S: Final = 0.5
_NOTHING: Final = object()


class _Lane(asyncio.Protocol):
    """One connection, one call at a time."""

    def __init__(self, writer: asyncio.StreamWriter, reader: Any, timeout_s: float) -> None:
        self.loop: Final = asyncio.get_running_loop()
        # it would close the transport when it is collected
        self._writer = writer
        self._transport: Any = writer.transport
        self._reader = reader
        self._timeout_s = timeout_s
        self._waiter: asyncio.Future[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = self.used_at = self.loop.time()
        self._unsent = 0

    @property
    def is_open(self) -> bool:
        return not self._transport.is_closing()

    async def call(self, packed: bytes) -> Any:
        """Send a command and return its reply, which may be an exception of the driver."""
        loop = self.loop
        waiter = self._waiter = loop.create_future()
        self._deadline = loop.time() + self._timeout_s
        if self._timer is None:
            # one for many calls: it looks again at the deadline of the last
            self._timer = loop.call_at(self._deadline, self._look)
        self._transport.write(packed)
        self._unsent = self._transport.get_write_buffer_size()
        try:
            reply = await waiter
        except BaseException:
            # a reply that comes all the same would be taken for that of the next call
            self.close()
            raise
        self._waiter = None
        self.used_at = loop.time()
        return reply

    def data_received(self, data: bytes) -> None:
        self._deadline = self.loop.time() + self._timeout_s
        try:
            self._reader.feed(data)
            reply = self._reader.gets()
        except exceptions.RedisError as error:
            self._fail(error)
            return
        if reply is _NOTHING:
            return
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(reply)
            if not self._reader.has_data():
                return
        # nobody asked for it
        self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(exceptions.ConnectionError(f"Connection closed by server: {exc or 'no reason given'}"))

    def _look(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        unsent = self._transport.get_write_buffer_size()
        if unsent < self._unsent:
            # long to send is not long to answer
            self._unsent, self._deadline = unsent, self.loop.time() + self._timeout_s
        if self.loop.time() < self._deadline:
            self._timer = self.loop.call_at(self._deadline, self._look)
        else:
            self._fail(exceptions.TimeoutError(f"no reply within {self._timeout_s} s"))

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self.close()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # of a loop that has ended nothing can be asked any more
        with contextlib.suppress(RuntimeError):
            self._transport.abort()


class Lanes:
    """As many connections as calls are under way, to one server.

    Args:
        pool: The driver's pool for that server, which says how to connect.
        timeout_s: For each reply.
    """

    def __init__(self, pool: Any, *, timeout_s: float) -> None:
        self._pool = pool
        self._timeout_s = timeout_s
        self._idle: list[_Lane] = []

    @staticmethod
    def fit(pool: Any) -> bool:
        """Whether the connections of this pool can be spoken to without the driver."""
        options = pool.connection_kwargs
        return hiredis is not None and not any(options.get(name) for name in _NEEDS_DRIVER)

    async def execute(self, *command: Any) -> Any:
        """Send a command, return its reply; errors are the driver's."""
        lane = await self._taken()
        try:
            reply = await lane.call(hiredis.pack_command(command))
        except exceptions.ConnectionError:
            # what the server did to one connection it has done to all
            self.close()
            raise
        if lane.is_open:
            self._idle.append(lane)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def _taken(self) -> _Lane:
        loop = asyncio.get_running_loop()
        while self._idle:
            lane = self._idle.pop()
            if lane.loop is not loop:
                lane.close()
                continue
            if loop.time() - lane.used_at > _FRESH_S:
                # once to look, and once to be told
                await asyncio.sleep(0)
                await asyncio.sleep(0)
            if lane.is_open:
                return lane
        return await self._connected()

    async def _connected(self) -> _Lane:
        # pushes, which the third protocol sends unasked, are for the driver
        connection = self._pool.connection_class(**{**self._pool.connection_kwargs, "protocol": 2})
        await connection.connect()
        reader = hiredis.Reader(
            protocolError=exceptions.InvalidResponse,
            replyError=connection._parser.parse_error,  # noqa: SLF001
            notEnoughData=_NOTHING,
        )
        writer = connection._writer  # noqa: SLF001
        lane = _Lane(writer, reader, self._timeout_s)
        writer.transport.set_protocol(lane)
        # from here on it is ours: the driver's object is left without it
        connection._reader = connection._writer = None  # noqa: SLF001
        return lane

    def close(self) -> None:
        """Close the connections that no call is under way on."""
        while self._idle:
            self._idle.pop().close()
