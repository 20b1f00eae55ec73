"""redis-py's connections with two things mended: they pack commands in C, and they end in one step."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import Any

from redis import exceptions

from holdall.stores.redis_lane import CONNECTING


class Connections:
    """The connections of one client, wherever the driver has them.

    A cluster client lets go of nodes that leave the cluster, has two objects for a node that it was told of at first, and closes
    nothing while it waits to learn the topology anew.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()

    def kind(self, driver: type[Any]) -> type[Any]:
        """Return the class to have the client make its connections of, in place of the driver's own."""
        return type(f"Whole{driver.__name__}", (_Whole, _packing(driver)), {"made": self._made})

    async def aclose(self) -> None:
        """Close them all."""
        for connection in list(self._made):
            with contextlib.suppress(exceptions.RedisError, OSError):
                await connection.disconnect()


class _Whole:
    """Mixed into a connection: it is closed and forgotten in one step, whoever else has it.

    The driver closes a stream, waits for its end, and then forgets whatever stream there is. It does so to connections that calls
    are under way on or begin on meanwhile, most of all where it learns the topology anew: the stream that such a call has made is
    forgotten and stays open, or is gone between two lines of the driver's that use it.
    """

    made: weakref.WeakSet[Any]

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.made.add(self)

    async def disconnect(self: Any, nowait: bool = False, **more: Any) -> None:  # noqa: FBT001, FBT002 - as the driver calls it
        """Close; wait for the end only once nobody can meet what is being closed."""
        writer: asyncio.StreamWriter | None = self._writer
        await super().disconnect(nowait=True, **more)  # type: ignore[misc]
        if writer is None or nowait:
            return
        try:
            await asyncio.wait_for(writer.wait_closed(), self.socket_connect_timeout)
        except asyncio.TimeoutError:
            # the peer reads no more, and what it was sent is nobody's any more
            writer.transport.abort()
        except OSError:
            pass

    async def send_packed_command(self: Any, *args: Any, **options: Any) -> None:
        """Send; a connection that another call has closed just now is one that was lost."""
        try:
            await super().send_packed_command(*args, **options)  # type: ignore[misc]
        except AttributeError as error:
            if self.is_connected:
                raise
            # the driver had no stream to write to: nothing was sent
            raise exceptions.ConnectionError(f"closed while {CONNECTING} the server") from error


def _packing(kind: type[Any]) -> type[Any]:
    """Return the class of connections that packs a command in C where hiredis is there: 2 us for a write, and not 13."""
    try:
        from hiredis import pack_command
    except ImportError:
        return kind

    def packed(_connection: Any, *args: Any) -> list[bytes]:
        name = args[0]
        # as the driver would: a command of two words is two arguments
        words = name.split() if isinstance(name, str | bytes) else [name]
        return [pack_command((*words, *args[1:]))]

    return type(f"Packing{kind.__name__}", (kind,), {"pack_command": packed})
