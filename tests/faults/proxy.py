"""A TCP proxy that cuts connections: before a request reaches the server, or after the server answered it."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from typing_extensions import Self

Cut = Literal["before", "after"]


class Proxy:
    """Forwards bytes to one server. `cut_next` arms it: the next request dies with its connection.

    "before": the request is not forwarded. "after": it is forwarded, the server's reply is waited for and dropped, so the
    write has happened and nobody was told.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._server: asyncio.Server | None = None
        self._armed: list[Cut] = []
        self._open: set[asyncio.StreamWriter] = set()
        self.n_cut = 0
        self.port = 0
        self.is_down = False

    def cut_next(self, how: Cut, *, times: int = 1) -> None:
        self._armed.extend([how] * times)

    def disarm(self) -> None:
        self._armed.clear()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.drop_all()
        await self._server.wait_closed()

    def drop_all(self) -> None:
        """Cut every open connection now."""
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_down:
            writer.transport.abort()
            return
        try:
            upstream, to_server = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        both = {writer, to_server}
        self._open |= both
        lost = asyncio.Event()
        answers = asyncio.create_task(self._answers(upstream, writer, lost, both))
        try:
            while data := await reader.read(1 << 16):
                if self._armed:
                    how = self._armed.pop(0)
                    self.n_cut += 1
                    if how == "before":
                        break
                    lost.set()
                to_server.write(data)
                await to_server.drain()
        except OSError:
            pass
        finally:
            if not lost.is_set():
                for end in both:
                    end.transport.abort()
            with suppress(asyncio.CancelledError):
                await answers
            self._open -= both

    async def _answers(
        self,
        upstream: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        lost: asyncio.Event,
        both: set[asyncio.StreamWriter],
    ) -> None:
        with suppress(OSError):
            while data := await upstream.read(1 << 16):
                if lost.is_set():
                    break
                writer.write(data)
                await writer.drain()
        for end in both:
            end.transport.abort()
