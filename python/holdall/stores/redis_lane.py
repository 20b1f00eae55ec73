"""The way of a script to one server: connections that are kept here, and not in the driver's pool.

A call through redis-py's client and pool costs the processor 130 us, the same call on a connection that it has made 80: the rest
is a lock, a look at the socket before each call, and counters. Where nothing is asked of a connection but a login, it is one of
our own, and the call costs 25; elsewhere the driver connects, sends and reads. Only which connection is free is known here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from redis import exceptions

from holdall.stores.redis_wire import Wire, is_enough

# Whether the server has closed a connection is known for as long as the loop has looked; after a pause it looks first.
_FRESH_S: Final = 0.5


# In the text of an error: no call was sent yet.
CONNECTING: Final = "connecting to"


class _Idle:
    """A connection that no call is under way on."""

    def __init__(self, connection: Any) -> None:
        self.connection: Final = connection
        self.loop: Final = asyncio.get_running_loop()
        self.since: Final = self.loop.time()


class Lanes:
    """As many connections as calls are under way, to one server.

    Args:
        make: Makes a connection, one of the driver's or a `Wire`, that is yet to connect.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._idle: list[_Idle] = []
        self._has_ended = False

    @classmethod
    def of(cls, pool: Any, options: Mapping[str, Any], *, timeout_s: float) -> Lanes | None:
        """Return the way to the server of the driver's pool.

        None where only the pool will do, which is told of passwords that change.

        Args:
            pool: Says how the driver connects.
            options: What of that was asked for, by the URL or else.
            timeout_s: For each reply.
        """
        if pool.connection_kwargs.get("credential_provider"):
            return None
        if is_enough(options):
            return cls(lambda: Wire(options, timeout_s=timeout_s))
        return cls(lambda: pool.connection_class(**pool.connection_kwargs))

    async def execute(self, *command: Any) -> Any:
        """Send a command, return its reply; errors are the driver's."""
        return await self._said(command)

    async def transact(self, *commands: Sequence[Any]) -> list[Any]:
        """Send commands as one transaction and at once, return their replies; errors are the driver's."""
        replies: list[Any] = await self._said(("MULTI",), *commands, ("EXEC",))
        return replies

    async def _said(self, *commands: Sequence[Any]) -> Any:
        """Send commands, return the reply to the last, or raise that of the first that was refused."""
        connection = await self._taken()
        try:
            replies = await _replies(connection, commands)
        except exceptions.ConnectionError:
            # what the server did to one connection it has done to all
            await connection.disconnect(nowait=True)
            await self.aclose()
            raise
        except BaseException:
            # a reply that comes all the same would be taken for that of the next call
            await connection.disconnect(nowait=True)
            raise
        await self._put_back(connection)
        for reply in replies:
            if isinstance(reply, exceptions.ResponseError):
                raise reply
        return replies[-1]

    async def _put_back(self, connection: Any) -> None:
        if self._has_ended:
            # this call was under way then
            await _left(connection)
        else:
            self._idle.append(_Idle(connection))

    async def _taken(self) -> Any:
        loop = asyncio.get_running_loop()
        while self._idle:
            idle = self._idle.pop()
            try:
                if idle.loop is loop and await _is_good(idle):
                    return idle.connection
            except BaseException:
                await _left(idle.connection)
                raise
            await _left(idle.connection)
        connection = self._make()
        try:
            await connection.connect()
        except (exceptions.ConnectionError, exceptions.TimeoutError) as error:
            if type(error) not in (exceptions.ConnectionError, exceptions.TimeoutError) or CONNECTING in str(error):
                raise
            # The driver can fail in the middle of a login, as by a health check whose ping meets the reply to another command.
            raise exceptions.ConnectionError(f"Error {CONNECTING} the server: {error}") from error
        return connection

    async def end(self) -> None:
        """Close all connections, each once no call is under way on it."""
        self._has_ended = True
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections that no call is under way on."""
        while self._idle:
            await _left(self._idle.pop().connection)


async def _replies(connection: Any, commands: Sequence[Sequence[Any]]) -> list[Any]:
    """Send commands at once; return the reply to each, or the refusal that it is."""
    packed = [connection.pack_command(*command) for command in commands]
    if isinstance(connection, Wire):
        return await connection.exchange(packed)
    await connection.send_packed_command([part for parts in packed for part in parts])
    replies: list[Any] = []
    for _ in commands:
        try:
            replies.append(await connection.read_response())
        except exceptions.ResponseError as error:
            replies.append(error)
    return replies


async def _is_good(idle: _Idle) -> bool:
    if idle.loop.time() - idle.since > _FRESH_S:
        # once for the loop to look, and once to be told
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    connection: Any = idle.connection
    # the name before redis-py 8
    has_more = connection.can_read if hasattr(connection, "can_read") else connection.can_read_destructive
    try:
        # that the connection was closed can be read as well as what nobody asked for
        return not await has_more()
    except (exceptions.RedisError, OSError):
        return False


async def _left(connection: Any) -> None:
    # of a loop that has ended nothing can be asked any more
    with contextlib.suppress(RuntimeError, exceptions.RedisError, OSError):
        await connection.disconnect(nowait=True)
