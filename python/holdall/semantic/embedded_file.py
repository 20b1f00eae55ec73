"""The SQLite file of an `EmbeddedMemory`: its two threads, its schema, and the index that follows it."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

from holdall._native import MemoryIndex
from holdall.errors import ArgumentError, ClosedError, DecodeError, NewerStateError, StoreUnavailableError
from holdall.semantic.base import Metric, Value
from holdall.semantic.facts import Facts
from holdall.semantic.rules import Row, Where, whole

_T = TypeVar("_T")
Found = list[tuple[int, float]]

_VERSION: Final = 1
# Of deleted rows so many are remembered; a process that has missed more of them reads the file anew.
_MOST_GONE: Final = 100_000
_PAGE: Final = 2000
# Below SQLite's limit on the variables of one statement.
_VARIABLES: Final = 500

_SCHEMA: Final = (
    """CREATE TABLE IF NOT EXISTS documents (row INTEGER PRIMARY KEY AUTOINCREMENT, namespace TEXT NOT NULL,
    id TEXT NOT NULL, user_id TEXT, text TEXT NOT NULL, metadata TEXT NOT NULL, vector BLOB, UNIQUE (namespace, id))""",
    "CREATE INDEX IF NOT EXISTS documents_user ON documents (user_id) WHERE user_id IS NOT NULL",
    "CREATE INDEX IF NOT EXISTS documents_vector ON documents (namespace, length(vector)) WHERE vector IS NOT NULL",
    "CREATE TABLE IF NOT EXISTS gone (seq INTEGER PRIMARY KEY AUTOINCREMENT, row INTEGER NOT NULL)",
    """CREATE TRIGGER IF NOT EXISTS documents_gone AFTER DELETE ON documents
    BEGIN INSERT INTO gone (row) VALUES (old.row); END""",
    f"PRAGMA user_version = {_VERSION}",
)


class MemoryFile:
    """A file with one thread that writes and one that reads and searches.

    A row is never changed: a document that is put again is a new row, and rows that are deleted leave their number in `gone`.
    So what any process has done since the last search is the rows above the last one seen, and the numbers above the last.
    """

    def __init__(self, path: Path | None, *, metric: Metric, busy_timeout_s: float) -> None:
        """Remember how to open; without a path, a database in memory, which one connection and one thread share."""
        self._path = path
        self._busy_timeout_s = busy_timeout_s
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._executors: dict[bool, ThreadPoolExecutor] = {}
        self._connections: dict[bool, sqlite3.Connection] = {}
        self._view = View(metric)
        self._metric: Metric = metric
        self._is_closed = False

    def executor(self, *, writes: bool) -> ThreadPoolExecutor:
        """Return the thread of the writer or of the reader.

        Raises:
            ClosedError: The memory was closed, or is in memory and was made before a fork.
        """
        writes = writes or self._path is None
        with self._lock:
            if self._is_closed:
                raise ClosedError("this EmbeddedMemory was closed; make a new one")
            if self._pid != os.getpid():
                if self._path is None:
                    raise ClosedError("this EmbeddedMemory has no file and was made before a fork; make a new one")
                # the parent's threads do not exist here, and its connections must not be used or closed here
                self._pid, self._executors, self._connections = os.getpid(), {}, {}
                self._view = View(self._metric)
            if writes not in self._executors:
                self._executors[writes] = ThreadPoolExecutor(1, thread_name_prefix="holdall-memory")
            return self._executors[writes]

    def run(self, operation: str, work: Callable[[sqlite3.Connection], _T], writes: bool) -> _T:  # noqa: FBT001 - run_in_executor passes positions
        """Run `work` in one transaction, in the thread this is called in; nothing is left of it if it raises."""
        try:
            db = self._connection(writes or self._path is None)
            db.execute("BEGIN IMMEDIATE" if writes else "BEGIN")
            try:
                result = work(db)
                db.execute("COMMIT")
            except BaseException:
                if db.in_transaction:
                    db.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise StoreUnavailableError(
                f"embedded memory {operation} on {self._path or 'no file'}: {error}: see that the file is a readable and writable SQLite"
                " database in a folder that exists, and not held by a writer that does not end",
                backend="embedded",
                operation=operation,
                cause=str(error),
            ) from error
        return result

    def _connection(self, writes: bool) -> sqlite3.Connection:  # noqa: FBT001 - a key of a dict
        known = self._connections.get(writes)
        if known is not None:
            return known
        db = sqlite3.connect(
            self._path or ":memory:", timeout=self._busy_timeout_s, isolation_level=None, check_same_thread=False
        )
        try:
            db.execute("PRAGMA synchronous = FULL")
            db.execute("PRAGMA journal_mode = WAL")
            _migrate(db)
        except BaseException:
            db.close()
            raise
        self._connections[writes] = db
        return db

    def view(self, db: sqlite3.Connection) -> View:
        """Return the index as of the transaction of `db`; in the reader's thread."""
        if not self._view.follow(db):
            self._view = View(self._metric)
            self._view.follow(db)
        return self._view

    def close(self) -> None:
        """Wait for the calls under way, then close the connections in their own threads."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            executors, self._executors = self._executors, {}
        for writes, executor in executors.items():
            executor.submit(self._disconnect, writes)
            executor.shutdown(wait=True)

    def _disconnect(self, writes: bool) -> None:  # noqa: FBT001 - a key of a dict
        db = self._connections.pop(writes, None)
        if db is not None:
            db.close()


class View:
    """What one process knows of the file: an index for each namespace, and what is true of each row."""

    def __init__(self, metric: Metric) -> None:
        """Know nothing yet."""
        self._metric = metric
        self._row = 0
        self._gone = 0
        self._spaces: dict[str, tuple[MemoryIndex, Facts]] = {}
        self._known: dict[int, tuple[str, str | None, dict[str, Value]]] = {}

    def follow(self, db: sqlite3.Connection) -> bool:
        """Take in what was written since; False where too much was deleted to know what, and all must be read anew."""
        first, last = db.execute("SELECT (SELECT min(seq) FROM gone), (SELECT max(seq) FROM gone)").fetchone()
        if last is not None and last > self._gone:
            if self._row and first > self._gone + 1:
                return False
            for (row,) in db.execute("SELECT row FROM gone WHERE seq > ?", (self._gone,)):
                self._forget(row)
            self._gone = last
        while True:
            rows = db.execute(
                "SELECT row, namespace, user_id, metadata, vector, text FROM documents WHERE row > ? ORDER BY row LIMIT ?",
                (self._row, _PAGE),
            ).fetchall()
            self._learn(rows)
            if len(rows) < _PAGE:
                return True

    def _forget(self, row: int) -> None:
        known = self._known.pop(row, None)
        if known is not None:
            namespace, user_id, metadata = known
            index, facts = self._spaces[namespace]
            index.remove_many([row])
            facts.remove(row, user_id, metadata)
            if not len(index):
                del self._spaces[namespace]

    def _learn(self, rows: Sequence[tuple[int, str, str | None, str, bytes | None, str]]) -> None:
        by_space: dict[str, list[tuple[int, str, str | None, str, bytes | None, str]]] = {}
        for one in rows:
            by_space.setdefault(one[1], []).append(one)
        for namespace, ours in by_space.items():
            # before anything is learnt of them: what cannot be read leaves the view as it was
            kept = [(row, user_id, metadata_of(row, encoded)) for row, _, user_id, encoded, _, _ in ours]
            vectors = [vector_of(one[0], one[4]) for one in ours]
            index, facts = self._spaces.setdefault(namespace, (MemoryIndex(self._metric), Facts()))
            try:
                index.add_many([one[0] for one in ours], vectors, [one[5] for one in ours])
            except ArgumentError as error:
                raise _damaged(ours[0][0], f"one of {len(ours)} rows from here has {error}") from error
            for row, user_id, metadata in kept:
                facts.add(row, user_id, metadata)
                self._known[row] = (namespace, user_id, metadata)
        if rows:
            self._row = rows[-1][0]

    def nearest(self, namespace: str, vector: bytes, k: int, where: Where) -> Found:
        """Return rows and scores, nearest first."""
        space = self._spaces.get(namespace)
        return [] if space is None else space[0].nearest(vector, k, space[1].meeting(where))

    def matching(self, namespace: str, query: str, k: int, where: Where) -> Found:
        """Return rows and BM25 scores, best first; the statistics are those of the whole namespace."""
        space = self._spaces.get(namespace)
        return [] if space is None else space[0].matching(query, k, space[1].meeting(where))


def metadata_of(row: int, encoded: str) -> dict[str, Value]:
    """Return the metadata of a row.

    Raises:
        DecodeError: It is not what was written.
    """
    try:
        found = json.loads(encoded)
    except (ValueError, TypeError, RecursionError) as error:
        raise _damaged(row, f"its metadata is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise _damaged(row, "its metadata is no object")
    metadata: dict[str, Value] = found
    return metadata


def vector_of(row: int, data: object) -> bytes | None:
    """Return the vector of a row.

    Raises:
        DecodeError: It is not what was written.
    """
    if data is None or (isinstance(data, bytes) and data and len(data) % 4 == 0):
        return data
    raise _damaged(row, "its vector is no row of 32-bit floats")


def _damaged(row: int, reason: str) -> DecodeError:
    return DecodeError(
        f"the memory file is damaged: row {row} of `documents`: {reason}; delete the row, or restore the file"
    )


def _migrate(db: sqlite3.Connection) -> None:
    # first: other files count their versions too
    tables = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if tables and not {"documents", "gone"} <= tables:
        raise ArgumentError("this SQLite file holds something else: give a memory a file of its own, not the sessions'")
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found > _VERSION:
        raise NewerStateError(
            f"the memory file has schema {found} and this holdall knows {_VERSION}: upgrade holdall",
            found=found,
            supported=_VERSION,
        )
    if found == _VERSION:
        return
    db.execute("BEGIN IMMEDIATE")
    try:
        # under the write lock: another process may have come first
        for statement in _SCHEMA:
            db.execute(statement)
        db.execute("COMMIT")
    except BaseException:
        db.execute("ROLLBACK")
        raise


def put(db: sqlite3.Connection, namespace: str, rows: list[Row]) -> None:
    """Write rows, each in place of the one with its id."""
    drop(db, namespace, [row.id for row in rows])
    known = db.execute(
        "SELECT length(vector) FROM documents WHERE namespace = ? AND vector IS NOT NULL LIMIT 1", (namespace,)
    ).fetchone()
    whole(None if known is None else known[0] // 4, rows)
    db.executemany(
        "INSERT INTO documents (namespace, id, user_id, text, metadata, vector) VALUES (?, ?, ?, ?, ?, ?)",
        [
            (namespace, row.id, row.user_id, row.text, json.dumps(row.metadata, ensure_ascii=False), row.vector)
            for row in rows
        ],
    )


def drop(db: sqlite3.Connection, namespace: str, ids: Sequence[str]) -> None:
    """Delete by id."""
    db.executemany("DELETE FROM documents WHERE namespace = ? AND id = ?", [(namespace, one) for one in ids])
    db.execute("DELETE FROM gone WHERE seq <= (SELECT max(seq) FROM gone) - ?", (_MOST_GONE,))


def drop_user(db: sqlite3.Connection, user_id: str, namespace: str | None) -> None:
    """Delete what is a user's, in one namespace or all."""
    db.execute("DELETE FROM documents WHERE user_id = ?1 AND (?2 IS NULL OR namespace = ?2)", (user_id, namespace))
    db.execute("DELETE FROM gone WHERE seq <= (SELECT max(seq) FROM gone) - ?", (_MOST_GONE,))


def select(db: sqlite3.Connection, columns: str, where: str, values: Iterable[object], *fixed: object) -> list[tuple]:  # type: ignore[type-arg]
    """Select rows of `documents` where a column is one of many values."""
    wanted = list(values)
    found: list[tuple] = []  # type: ignore[type-arg]
    for start in range(0, len(wanted), _VARIABLES):
        part = wanted[start : start + _VARIABLES]
        marks = ", ".join("?" * len(part))
        query = f"SELECT {columns} FROM documents WHERE {where} IN ({marks})"  # noqa: S608 - constants of this package
        found += db.execute(query, (*fixed, *part)).fetchall()
    return found
