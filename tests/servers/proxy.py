"""A TCP proxy that fails as networks do: cut before the request, lose the reply, swallow everything."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Literal

from tests.servers.process import HOST

if TYPE_CHECKING:
    from typing_extensions import Self

Fault = Literal["none", "cut request", "cut reply", "black hole", "refuse"]


class Proxy:
    """Stands between a store and its server, within the test's loop.

    Set `fault` and the next bytes of a connection meet it: "cut request" closes before the server sees them, "cut reply" lets
    the server do the work and closes instead of answering, "black hole" swallows what comes and answers nothing, "refuse"
    closes new connections. A fault stays until it is set to another, or `after` replies have passed.
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self.fault: Fault = "none"
        # how many more requests pass before `fault` acts
        self.after = 0
        # how often the fault acts before it is over; None: until it is set to "none"
        self.times: int | None = None
        self.n_faults = 0
        # pieces that came from the client
        self.n_requests = 0
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut_all()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # aborted transports close their sockets in the next turns of the loop
        await asyncio.sleep(0.01)

    def fail(self, fault: Fault, *, after: int = 0, times: int | None = 1) -> None:
        """Let `after` requests pass, then meet `times` with the fault."""
        self.fault, self.after, self.times = fault, after, times

    def cut_all(self) -> None:
        """Close every connection now."""
        for writer in list(self._writers):
            writer.transport.abort()

    def _acts(self, *faults: Fault) -> bool:
        if self.fault not in faults:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is not None:
            if self.times == 0:
                return False
            self.times -= 1
        self.n_faults += 1
        return True

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self._acts("refuse"):
                writer.transport.abort()
                return
            with contextlib.suppress(OSError):
                server_reader, server_writer = await asyncio.open_connection(HOST, self.target)
                await self._between(reader, writer, server_reader, server_writer)
        finally:
            self._tasks.discard(task)

    async def _between(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        server_reader: asyncio.StreamReader,
        server_writer: asyncio.StreamWriter,
    ) -> None:
        self._writers |= {writer, server_writer}
        # what the fault does to replies of this connection from now on
        state = {"reply": "pass"}

        async def requests() -> None:
            while data := await reader.read(65536):
                self.n_requests += 1
                if state["reply"] == "swallow":
                    continue
                if self._acts("cut request"):
                    writer.transport.abort()
                    return
                if self._acts("black hole"):
                    state["reply"] = "swallow"
                    continue
                if self._acts("cut reply"):
                    state["reply"] = "cut"
                server_writer.write(data)
                await server_writer.drain()

        async def replies() -> None:
            while data := await server_reader.read(65536):
                if state["reply"] == "cut":
                    writer.transport.abort()
                    return
                writer.write(data)
                await writer.drain()

        try:
            both = {asyncio.ensure_future(requests()), asyncio.ensure_future(replies())}
            try:
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for one in both:
                    one.cancel()
                await asyncio.gather(*both, return_exceptions=True)
        finally:
            for end in (writer, server_writer):
                self._writers.discard(end)
                end.transport.abort()
