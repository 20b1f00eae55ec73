"""The schema of a `SqliteStore`'s file: its migrations, numbered and applied once."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from holdall.errors import NewerStateError
from holdall.stores.sql import Migration, migrations
from holdall.stores.sqlite_threads import SqliteThreads, in_transaction


class SqliteFile(SqliteThreads):
    """The file of a `SqliteStore`."""

    def __init__(self, path: Path, *, synchronous: Literal["FULL", "NORMAL"], busy_timeout_s: float) -> None:
        """Remember how to open; nothing is opened before the first call."""
        super().__init__(path, synchronous=synchronous, busy_timeout_s=busy_timeout_s)
        self._file = path

    def _set_up(self, db: sqlite3.Connection) -> None:
        _migrate(db)

    def migrate(self, *, dry_run: bool = False) -> list[str]:
        """Apply the migrations that are due; return their names."""
        if dry_run:
            return self._trying("migrate", lambda: [m.name for m in self._due_without_opening()], writes=True)
        before: list[str] = []
        self._trying("migrate", lambda: before.extend(m.name for m in self._due_without_opening()), writes=True)
        self._trying("migrate", lambda: self._connection(writes=True), writes=True)
        return before

    def _due_without_opening(self) -> list[Migration]:
        every = migrations("sqlite")
        if not self._file.exists():
            return every
        db = sqlite3.connect(f"{self._file.absolute().as_uri()}?mode=ro", uri=True, isolation_level=None)
        try:
            return every[_applied(db) :]
        finally:
            db.close()


def _applied(db: sqlite3.Connection) -> int:
    n = int(db.execute("PRAGMA user_version").fetchone()[0])
    supported = len(migrations("sqlite"))
    if n > supported:
        raise NewerStateError(
            f"the SQLite file has schema {n} and this holdall knows {supported}: upgrade holdall",
            found=n,
            supported=supported,
        )
    return n


def _migrate(db: sqlite3.Connection) -> None:
    if _applied(db) == len(migrations("sqlite")):
        return

    def work(db: sqlite3.Connection) -> None:
        # under the write lock: another process may have come first
        for migration in migrations("sqlite")[_applied(db) :]:
            for statement in _statements(migration.sql):
                db.execute(statement)
            db.execute(f"PRAGMA user_version = {migration.number}")

    in_transaction(db, "BEGIN IMMEDIATE", work)


def _statements(sql: str) -> Iterator[str]:
    # executescript would commit the transaction it runs in
    statement = ""
    for line in sql.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
