"""The SQLite file of an `EmbeddedMemory`: its schema, and the index that follows it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from holdall._native import MemoryIndex
from holdall.errors import ArgumentError, DecodeError, NewerStateError
from holdall.semantic.base import Metric, Value
from holdall.semantic.facts import Facts
from holdall.semantic.rules import Row, Where, whole
from holdall.stores.sqlite_threads import SqliteThreads, in_transaction

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


class MemoryFile(SqliteThreads):
    """A file with one thread that writes and one that reads and searches.

    A row is never changed: a document that is put again is a new row, and rows that are deleted leave their number in `gone`.
    So what any process has done since the last search is the rows above the last one seen, and the numbers above the last.
    """

    backend = "embedded"
    owner = "EmbeddedMemory"

    def __init__(self, path: Path | None, *, metric: Metric, busy_timeout_s: float) -> None:
        """Remember how to open."""
        super().__init__(path, synchronous="FULL", busy_timeout_s=busy_timeout_s)
        self._metric: Metric = metric
        self._view = View(metric)
        self._viewer = os.getpid()

    def _set_up(self, db: sqlite3.Connection) -> None:
        _migrate(db)

    def view(self, db: sqlite3.Connection) -> View:
        """Return the index as of the transaction of `db`; in the reader's thread."""
        is_forked = self._viewer != os.getpid()
        if is_forked or not self._view.follow(db):
            self._viewer, self._view = os.getpid(), View(self._metric)
            self._view.follow(db)
        return self._view


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

    def work(db: sqlite3.Connection) -> None:
        # under the write lock: another process may have come first
        for statement in _SCHEMA:
            db.execute(statement)

    in_transaction(db, "BEGIN IMMEDIATE", work)


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
    db.execute(
        "DELETE FROM documents WHERE user_id = ? AND (? IS NULL OR namespace = ?)", (user_id, namespace, namespace)
    )
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
