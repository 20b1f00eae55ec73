"""The floor of a checkpoint in SQLite: one hand-written transaction, in the caller's own thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path


class SqliteFloor:
    """A head row and log rows in one file: WAL, synchronous=FULL."""

    def __init__(self, path: Path | str) -> None:
        self._db = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        self._db.execute(
            "CREATE TABLE IF NOT EXISTS head (id TEXT PRIMARY KEY, version INTEGER, ends REAL, data BLOB) WITHOUT ROWID"
        )
        self._db.execute("CREATE TABLE IF NOT EXISTS log (id TEXT, seq INTEGER, data BLOB, PRIMARY KEY (id, seq))")

    async def write(self, key: str, version: int, start: int, head: bytes, append: Sequence[bytes]) -> bool:
        """Write version + 1 if the record is at `version`, and the entries from `start` on."""
        db = self._db
        db.execute("BEGIN IMMEDIATE")
        if version:
            changed = db.execute(
                "UPDATE head SET version = version + 1, ends = ?, data = ? WHERE id = ? AND version = ?",
                (4e9, head, key, version),
            ).rowcount
        else:
            changed = db.execute(
                "INSERT INTO head VALUES (?, 1, ?, ?) ON CONFLICT DO NOTHING", (key, 4e9, head)
            ).rowcount
        if changed:
            db.executemany(
                "INSERT INTO log VALUES (?, ?, ?)", [(key, start + n, data) for n, data in enumerate(append)]
            )
        db.execute("COMMIT")
        return bool(changed)

    async def read(self, key: str) -> tuple[int, bytes]:
        """Return version and head."""
        row: tuple[int, bytes] = self._db.execute("SELECT version, data FROM head WHERE id = ?", (key,)).fetchone()
        return row

    async def read_all(self, key: str) -> tuple[bytes, list[bytes]]:
        """Return the head and the log."""
        return self.fetch_all(key)

    def fetch_all(self, key: str) -> tuple[bytes, list[bytes]]:
        """The same, in whichever thread it is called."""
        (head,) = self._db.execute("SELECT data FROM head WHERE id = ?", (key,)).fetchone()
        return head, [data for (data,) in self._db.execute("SELECT data FROM log WHERE id = ? ORDER BY seq", (key,))]

    async def aclose(self) -> None:
        """Close the file."""
        self._db.close()
