"""A connection to a Redis server of which nothing is asked but a login: 25 us of the processor for a call.

On a connection of redis-py the same call costs 70: two coroutines with a timer each, a stream to write and one to read. Packing and
parsing are hiredis' own in both. What needs more than a login (TLS, passwords that change, checks of health, options of
sockets) goes over the driver's connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from redis import exceptions

try:
    import hiredis
except ImportError:  # the driver does without; then all goes over the driver
    hiredis = None  # type: ignore[assignment]

_KNOWN: Final = frozenset({"host", "port", "path", "db", "username", "password", "client_name"})
_NOTHING: Final = object()
# Replies of servers that mean more than "refused"; the driver has more of them, for calls that no script makes.
_ERRORS: Final[Mapping[str, type[exceptions.RedisError]]] = {
    "NOSCRIPT": exceptions.NoScriptError,
    "LOADING": exceptions.BusyLoadingError,
    "NOAUTH": exceptions.AuthenticationError,
    "WRONGPASS": exceptions.AuthenticationError,
    "NOPERM": exceptions.NoPermissionError,
    "READONLY": exceptions.ReadOnlyError,
}


def is_enough(options: Mapping[str, Any]) -> bool:
    """Whether a connection with these options of the driver may be a `Wire`."""
    return hiredis is not None and options.keys() <= _KNOWN


class Wire(asyncio.Protocol):
    """One connection, one call at a time: what is used here of the driver's connections, by the same names.

    Args:
        options: `host` and `port`, or `path`; `db`, `username`, `password`, `client_name`.
        timeout_s: For connecting, and for each reply from the last bytes that went one way or the other.
    """

    def __init__(self, options: Mapping[str, Any], *, timeout_s: float) -> None:
        self._options = options
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._reader = hiredis.Reader(
            protocolError=exceptions.InvalidResponse, replyError=_error_of, notEnoughData=_NOTHING
        )
        self._waiter: asyncio.Future[Any] | None = None
        # of several commands that were sent at once, the replies to all but the last
        self._n_before = 0
        self._before: list[Any] = []
        self._timer: asyncio.TimerHandle | None = None
        self._deadline = 0.0
        self._unsent = 0

    @property
    def is_connected(self) -> bool:
        """Whether calls may be made, as far as the loop has been told."""
        return self._transport is not None and not self._transport.is_closing()

    async def connect(self) -> None:
        """Connect and log in."""
        options = self._options
        if "path" in options:
            where = options["path"]
            made = self._loop.create_unix_connection(lambda: self, where)
        else:
            host, port = options.get("host", "localhost"), options.get("port", 6379)
            where = f"{host}:{port}"
            made = self._loop.create_connection(lambda: self, host, port)
        try:
            await asyncio.wait_for(made, self._timeout_s)
            for command in _login(options):
                await self.send_packed_command(self.pack_command(*command))
                await self.read_response()
        except (exceptions.AuthenticationError, exceptions.BusyLoadingError):
            await self.disconnect()
            raise
        except (OSError, asyncio.TimeoutError, exceptions.ConnectionError, exceptions.TimeoutError) as error:
            await self.disconnect()
            raise exceptions.ConnectionError(f"Error connecting to {where}: {error or 'no answer in time'}") from error
        except BaseException:
            await self.disconnect()
            raise

    def pack_command(self, *command: Any) -> bytes:
        """Return a command as it is sent."""
        packed: bytes = hiredis.pack_command(command)
        return packed

    async def send_packed_command(self, packed: bytes) -> None:
        """Hand a command to the loop, which sends it."""
        loop = self._loop
        self._waiter = loop.create_future()
        self._deadline = loop.time() + self._timeout_s
        if self._timer is None:
            # one for many calls: it looks again at the deadline of the last
            self._timer = loop.call_at(self._deadline, self._look)
        self._transport.write(packed)
        self._unsent = self._transport.get_write_buffer_size()

    async def read_response(self) -> Any:
        """Return the reply to the command that was sent."""
        assert self._waiter is not None  # noqa: S101 - sent before
        reply = await self._waiter
        self._waiter = None
        if isinstance(reply, exceptions.RedisError):
            raise reply
        return reply

    async def exchange(self, packed: Sequence[bytes]) -> list[Any]:
        """Send commands at once; return the reply to each, or the refusal that it is."""
        self._n_before, self._before = len(packed) - 1, []
        await self.send_packed_command(b"".join(packed))
        assert self._waiter is not None  # noqa: S101 - sent just now
        last = await self._waiter
        self._waiter = None
        self._n_before = 0
        replies = [*self._before, last]
        for reply in replies:
            if isinstance(reply, exceptions.RedisError) and not isinstance(reply, exceptions.ResponseError):
                # it says something of the server, and not of the command
                raise reply
        return replies

    async def can_read(self) -> bool:
        """Whether there is something that nobody asked for, or an end; what came is looked at when it comes."""
        return not self.is_connected

    async def disconnect(self, *, nowait: bool = True) -> None:
        """Close it; there is nothing to wait for."""
        assert nowait  # noqa: S101 - part of the driver's signature
        self._close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        self._deadline = self._loop.time() + self._timeout_s
        try:
            self._reader.feed(data)
            reply = self._reader.gets()
            while reply is not _NOTHING and len(self._before) < self._n_before:
                self._before.append(reply)
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
        self._close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        self._fail(exceptions.ConnectionError(f"Connection closed by server: {exc or 'it gave no reason'}"))

    def _look(self) -> None:
        self._timer = None
        if self._waiter is None or self._waiter.done():
            return
        unsent = self._transport.get_write_buffer_size()
        if unsent < self._unsent:
            # long to send is not long to answer
            self._unsent, self._deadline = unsent, self._loop.time() + self._timeout_s
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look)
        else:
            self._fail(exceptions.TimeoutError(f"no reply within {self._timeout_s} s"))

    def _fail(self, error: Exception) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
        self._close()

    def _close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._transport is not None:
            self._transport.abort()


def _login(options: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    username, password = options.get("username"), options.get("password")
    if username or password:
        yield ("AUTH", username, password or "") if username else ("AUTH", password)
    if options.get("client_name"):
        yield "CLIENT", "SETNAME", options["client_name"]
    if options.get("db"):
        yield "SELECT", options["db"]


def _error_of(said: str) -> exceptions.RedisError:
    kind = _ERRORS.get(said.partition(" ")[0], exceptions.ResponseError)
    return kind(said)
