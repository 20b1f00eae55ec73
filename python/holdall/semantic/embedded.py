"""A memory in the process itself: exact search, kept in one SQLite file. No server, no extra."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from holdall.errors import ArgumentError, UnknownNameError
from holdall.semantic import embedded_file as file
from holdall.semantic.base import Embedder, Hit, Metric
from holdall.semantic.embedded_file import Found, MemoryFile, View
from holdall.semantic.rules import Row, Where
from holdall.semantic.searching import Searching

_T = TypeVar("_T")


class EmbeddedMemory(Searching):
    """Documents in one SQLite file, searched exactly by a native index that each process keeps in memory.

    Several tasks, threads and processes may share the file: a search sees what any of them has committed. The index takes
    5 bytes for each float of a vector and 16 for each distinct word of a text; opening reads the file once.

    Args:
        path: The file, in a folder that exists; not the file of a session store. None: nothing is kept after `aclose`.
        embedder: Turns texts into vectors.
        batch_size: Texts for each call of the embedder.
        metric: "cosine" or "dot"; the file holds the vectors as they came, so it may be opened with either.
        busy_timeout_s: How long to wait for the file's write lock before `StoreUnavailableError`.
    """

    backend = "embedded"

    def __init__(
        self,
        path: str | Path | None = None,
        *,
        embedder: Embedder | None = None,
        batch_size: int = 64,
        metric: Metric = "cosine",
        busy_timeout_s: float = 10.0,
    ) -> None:
        super().__init__(embedder=embedder, batch_size=batch_size)
        if metric not in ("cosine", "dot"):
            raise UnknownNameError(
                f"unknown metric {metric!r}; known: cosine, dot",
                what="metric",
                name=str(metric),
                known=["cosine", "dot"],
            )
        if path == ":memory:":
            raise ArgumentError("for a memory that is not kept, give no path")
        self._file = MemoryFile(
            None if path is None else Path(path).absolute(), metric=metric, busy_timeout_s=busy_timeout_s
        )

    async def _run(self, operation: str, work: Callable[[sqlite3.Connection], _T], *, writes: bool) -> _T:
        return await self._file.call(operation, work, writes=writes)

    async def _put(self, namespace: str, rows: list[Row]) -> None:
        await self._run("upsert", lambda db: file.put(db, namespace, rows), writes=True)

    async def _nearest(self, namespace: str, vector: bytes, k: int, where: Where) -> list[Hit]:
        return await self._found(lambda view: view.nearest(namespace, vector, k, where))

    async def _matching(self, namespace: str, query: str, k: int, where: Where) -> list[Hit]:
        return await self._found(lambda view: view.matching(namespace, query, k, where))

    async def _found(self, look: Callable[[View], Found]) -> list[Hit]:
        def work(db: sqlite3.Connection) -> list[Hit]:
            found = look(self._file.view(db))
            rows = file.select(db, "row, id, text, metadata, user_id", "row", [row for row, _ in found])
            known = {row[0]: row for row in rows}
            hits = []
            for row, score in found:
                _, name, text, metadata, user_id = known[row]
                hits.append(Hit(name, score, text, file.metadata_of(row, metadata), user_id))
            return hits

        return await self._run("search", work, writes=False)

    async def _get(self, namespace: str, ids: list[str]) -> list[Row]:
        def work(db: sqlite3.Connection) -> list[Row]:
            columns = "row, id, text, vector, metadata, user_id"
            found = file.select(db, columns, "namespace = ? AND id", ids, namespace)
            return [
                Row(name, text, file.vector_of(row, vector), file.metadata_of(row, kept), user)
                for row, name, text, vector, kept, user in found
            ]

        return await self._run("get", work, writes=False)

    async def _drop(self, namespace: str, ids: list[str]) -> None:
        await self._run("delete", lambda db: file.drop(db, namespace, ids), writes=True)

    async def _drop_user(self, user_id: str, namespace: str | None) -> None:
        await self._run("delete_user", lambda db: file.drop_user(db, user_id, namespace), writes=True)

    async def _count(self, namespace: str) -> int:
        def work(db: sqlite3.Connection) -> int:
            return int(db.execute("SELECT count(*) FROM documents WHERE namespace = ?", (namespace,)).fetchone()[0])

        return await self._run("count", work, writes=False)

    async def _close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(None, self._file.close)
