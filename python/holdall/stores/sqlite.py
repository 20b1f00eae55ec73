"""Records in one SQLite file: the embedded default. Several tasks, threads and processes may share the file."""

from __future__ import annotations

import asyncio
import functools
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from holdall.errors import ArgumentError, ConflictError, StaleFenceError
from holdall.stores import keys, rules, sqlite_rows
from holdall.stores.base import Absent, Blob, Durability, Entry, Record, Version
from holdall.stores.sqlite_file import SqliteFile
from holdall.stores.sqlite_step import Places, Step, step_of
from holdall.stores.sqlite_threads import in_statement, in_transaction

_T = TypeVar("_T")

_PAGE = 500
# A write frees at most this many ended records, so that none pays for a thousand; of common steps one in so many looks for them.
_SWEPT_PER_WRITE = 4
_STEPS_PER_SWEEP = 8
_SWEPT_PER_CALL = 1000

# From a record to what it takes over, see `holdall.stores.chain`: a copy where there is one, else the base.
_CHAIN = """
WITH RECURSIVE chain(depth, id, ends) AS (
    SELECT 0, id, log_len FROM records WHERE key = ? AND is_deleted = 0 AND (expires_at IS NULL OR expires_at > ?)
    UNION ALL
    SELECT depth + 1, next.id, CAST(json_extract(taker.tags, '$.base_at') AS INTEGER)
    FROM chain JOIN records taker USING (id) JOIN records next
    WHERE depth + 1 < ? AND json_extract(taker.tags, '$.base') IS NOT NULL
        AND next.is_deleted = 0 AND (next.expires_at IS NULL OR next.expires_at > ?)
        AND next.id = coalesce(
            (SELECT id FROM records WHERE key = '~kept/' || taker.key AND is_deleted = 0),
            (SELECT id FROM records WHERE key = json_extract(taker.tags, '$.base')))
)
SELECT chain.ends, key, head_format, head, id, generation, number, log_len, expires_at, tags, fence, ops, is_deleted, cut_at
FROM chain JOIN records USING (id) ORDER BY depth
"""


class SqliteStore:
    """Records in one SQLite file, in WAL mode. Each call is one transaction in one hop to the file's thread.

    Args:
        path: The file; made if missing, in a folder that exists.
        durability: "fsync" (synchronous=FULL: an acknowledged write survives a power cut) or "process" (NORMAL: it
            survives the process, and a power cut may take the last writes).
        busy_timeout_s: How long to try for the file's write lock before `StoreUnavailableError`.
        now: The clock, Unix seconds.
        retention_s: How long a tombstone keeps fence and op_ids after a delete.
    """

    backend = "sqlite"

    def __init__(
        self,
        path: str | Path,
        *,
        durability: Durability = "fsync",
        busy_timeout_s: float = 10.0,
        now: Callable[[], float] = time.time,
        retention_s: float = rules.DEFAULT_RETENTION_S,
    ) -> None:
        if durability not in ("fsync", "process"):
            raise ArgumentError(f"durability is {durability!r}; SQLite knows 'fsync' and 'process'")
        self.durability: Durability = durability
        self._file = SqliteFile(
            Path(path), synchronous="FULL" if durability == "fsync" else "NORMAL", busy_timeout_s=busy_timeout_s
        )
        self._now = now
        self._retention_s = rules.check_retention(retention_s)
        self._n_steps = 0
        self._places = Places()

    async def _run(self, operation: str, work: Callable[[sqlite3.Connection], _T], *, writes: bool) -> _T:
        return await self._file.call(operation, work, writes=writes)

    async def read(self, key: str, *, log_from: int = 0) -> Record | None:
        """Return the record, its log from entry `log_from` on, both from one snapshot."""
        keys.check_key(key)
        keys.check_count("log_from", log_from)

        return await self._run(
            "read",
            lambda db: sqlite_rows.read(db, key, self._now(), lambda _: log_from, self._places.note),
            writes=False,
        )

    async def write(
        self,
        key: str,
        head: Blob,
        *,
        expected: Version | Absent | None,
        append: Sequence[Entry] = (),
        keep: int | None = None,
        ttl_s: float | None,
        tags: Mapping[str, str] | None = None,
        fence: int | None = None,
        op_id: str | None = None,
    ) -> Version:
        """Replace the head, cut and append the log, set expiry and tags, all or nothing."""
        write = rules.check_write(
            key,
            head,
            expected=expected,
            append=append,
            keep=keep,
            ttl_s=ttl_s,
            tags=tags,
            fence=fence,
            op_id=op_id,
        )
        step = step_of(write, self._places)
        look = None if step is None else functools.partial(self._alone, step)
        return await self._file.call("write", self._writing(write, step), writes=True, look=look)

    async def write_or_read(
        self, key: str, head: Blob, *, expected: Version, ttl_s: float | None, log_from: int, **options: Any
    ) -> Version | Record:
        """As `write`; but where another version is there, return the record.

        That is seen before the file's write lock is taken: who has lost does not stand in the way of who writes. Who wrote the
        last version itself tries at once.
        """
        keys.check_count("log_from", log_from)
        write = rules.check_write(key, head, expected=keys.check_version(expected), ttl_s=ttl_s, **options)
        step = step_of(write, self._places)
        writing = self._writing(write, step)
        place = None if step is None else step.place()
        is_hopeful = place is not None and place.is_ours

        def stored(db: sqlite3.Connection) -> Record:
            record = sqlite_rows.read(
                db, key, self._now(), lambda meta: rules.start_of_log(meta, expected, log_from), self._places.note
            )
            if record is None:
                raise rules.conflict(key, expected, None)
            return record

        def refused(db: sqlite3.Connection) -> Version | Record | None:
            try:
                _, before = sqlite_rows.find_meta(db, key)
                version, meta = rules.after_write(before, write, self._now(), expected.generation)
            except StaleFenceError:
                raise
            except ConflictError:
                return stored(db)
            return version if meta is None else None

        def look(db: sqlite3.Connection) -> Version | Record | None:
            nonlocal is_hopeful
            if is_hopeful and step is not None:
                is_hopeful = False
                version = self._alone(step, db)
                if version is not None:
                    return version
            if not sqlite_rows.is_at(db, key, expected):
                return in_transaction(db, "BEGIN", refused)
            return None if step is None else self._alone(step, db)

        def work(db: sqlite3.Connection) -> Version | Record:
            try:
                return writing(db)
            except StaleFenceError:
                raise
            except ConflictError:
                # the transaction has changed nothing yet
                return stored(db)

        return await self._file.call("write", work, writes=True, look=look)

    def _alone(self, step: Step, db: sqlite3.Connection) -> Version | None:
        if self._n_steps % _STEPS_PER_SWEEP == _STEPS_PER_SWEEP - 1:
            return None  # this one looks for ended records, in its transaction
        version = in_statement(lambda: step.alone(db, self._now()))
        self._n_steps += version is not None
        return version

    def _writing(self, write: rules.Write, step: Step | None) -> Callable[[sqlite3.Connection], Version]:
        # who goes by a version makes no new record
        generation = "" if isinstance(write.expected, Version) else secrets.token_hex(rules.GENERATION_CHARS // 2)

        def work(db: sqlite3.Connection) -> Version:
            now = self._now()
            if step is not None:
                version = step.take(db, now)
                if version is not None:
                    self._n_steps += 1
                    if self._n_steps % _STEPS_PER_SWEEP == 0:
                        sqlite_rows.sweep(db, now, _SWEPT_PER_WRITE)
                    return version
            record_id, before = sqlite_rows.find_meta(db, write.key)
            version, meta = rules.after_write(before, write, now, generation)
            if meta is None:
                return version
            kept = meta.log_len - len(write.append)
            if record_id is None:
                record_id = sqlite_rows.insert(db, write.key, meta, write.head)
            else:
                sqlite_rows.update(db, record_id, meta, write.head)
                # the log of an ended generation may be longer than what is known of it
                if version.number == 1 or (before is not None and kept < before.log_len):
                    sqlite_rows.cut(db, record_id, kept)
            if before is None or before.tags != meta.tags:
                sqlite_rows.retag(db, record_id, {} if before is None else before.tags, meta.tags)
            sqlite_rows.append(db, sqlite_rows.pos(record_id, kept), write.append)
            self._places.note(write.key, version, record_id, meta.log_len, is_ours=True)
            sqlite_rows.sweep(db, now, _SWEPT_PER_WRITE)
            return version

        return work

    async def read_log(self, key: str, *, kind: str | None, before: int | None = None, limit: int = 50) -> list[Entry]:
        """Return up to `limit` entries of one kind with seq < `before`, newest first."""
        keys.check_key(key)
        keys.check_count("limit", limit)
        if before is not None:
            keys.check_count("before", before)

        def work(db: sqlite3.Connection) -> list[Entry]:
            row = db.execute(
                f"SELECT id, log_len FROM records WHERE key = ? AND {sqlite_rows.LIVE}", (key, self._now())
            ).fetchone()
            if row is None:
                return []
            record_id, log_len = row
            start = sqlite_rows.pos(record_id, 0)
            end = sqlite_rows.pos(record_id, log_len if before is None else min(before, log_len))
            return [
                Entry(*entry)
                for entry in db.execute(
                    "SELECT kind, data, pos - ? FROM log WHERE pos >= ? AND pos < ? AND (? IS NULL OR kind = ?)"
                    " ORDER BY pos DESC LIMIT ?",
                    (start, start, end, kind, kind, limit),
                )
            ]

        return await self._run("read_log", work, writes=False)

    async def read_chain(self, key: str, *, limit: int) -> list[Record]:
        """Return the record and what it takes over from others, newest first, from one snapshot."""
        keys.check_key(key)
        keys.check_count("limit", limit)

        def work(db: sqlite3.Connection) -> list[Record]:
            now = self._now()
            rows = db.execute(_CHAIN, (key, now, limit, now)).fetchall()
            return [sqlite_rows.record(db, at, row, end=ends) for ends, at, *row in rows]

        return await self._run("read_chain", work, writes=False)

    async def touch(self, key: str, ttl_s: float | None, *, op_id: str | None = None) -> bool:
        """Set the expiry without a new version; False where there is no such record."""
        keys.check_key(key)
        ttl_s, op = keys.check_ttl(ttl_s), keys.op_token("touch", op_id)

        def work(db: sqlite3.Connection) -> bool:
            record_id, before = sqlite_rows.find_meta(db, key)
            was_there, meta = rules.after_touch(before, ttl_s, op, self._now())
            if meta is not None:
                db.execute(
                    "UPDATE records SET expires_at = ?, sweep_at = ?, ops = ? WHERE id = ?",
                    (meta.expires_at, meta.expires_at, meta.ops, record_id),
                )
            return was_there

        return await self._run("touch", work, writes=True)

    async def delete(
        self, key: str, *, expected: Version | None = None, fence: int | None = None, op_id: str | None = None
    ) -> bool:
        """Delete, leaving a tombstone with fence and op_ids; False where there was no such record."""
        keys.check_key(key)
        expected = None if expected is None else keys.check_version(expected)
        fence, op = keys.check_fence(fence), keys.op_token("delete", op_id)

        def work(db: sqlite3.Connection) -> bool:
            record_id, before = sqlite_rows.find_meta(db, key)
            was_there, meta = rules.after_delete(
                before, key, expected=expected, fence=fence, op=op, now=self._now(), retention_s=self._retention_s
            )
            if meta is not None and before is not None and record_id is not None:
                sqlite_rows.retag(db, record_id, before.tags, {})
                sqlite_rows.cut(db, record_id, 0)
                sqlite_rows.update(db, record_id, meta, Blob("", b""))
            return was_there

        return await self._run("delete", work, writes=True)

    async def find(self, /, **tags: str) -> AsyncIterator[str]:
        """Yield the keys of live records that carry all these tags, a page per hop."""
        wanted = keys.check_tags(tags) or {}
        tagged = " AND EXISTS (SELECT 1 FROM tags WHERE name = ? AND value = ? AND record = id)" * (len(wanted) - 1)
        # the first tag drives: its primary key is walked in order of record, so that a page starts where the last ended
        source = (
            "tags JOIN records ON id = record WHERE name = ? AND value = ? AND record" if wanted else "records WHERE id"
        )
        sql = (
            f"SELECT id, key FROM {source} > ? AND is_deleted = 0 AND (expires_at IS NULL OR expires_at > ?)"
            f"{tagged} ORDER BY id LIMIT ?"
        )
        flat = [text for tag in wanted.items() for text in tag]
        last = -1

        def work(db: sqlite3.Connection) -> list[tuple[int, str]]:
            return db.execute(sql, (*flat[:2], last, self._now(), *flat[2:], _PAGE)).fetchall()

        while True:
            page = await self._run("find", work, writes=False)
            for _, key in page:
                yield key
            if len(page) < _PAGE:
                return
            last = page[-1][0]

    async def sweep(self) -> int:
        """Free what has expired; return how many records and tombstones that were. Reads never see them either way."""
        total = 0
        while True:
            n_due, n_freed = await self._run(
                "sweep", lambda db: sqlite_rows.sweep(db, self._now(), _SWEPT_PER_CALL), writes=True
            )
            total += n_freed
            if n_due < _SWEPT_PER_CALL:
                return total

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        """Bring the file to this version's schema; return the names of the migrations applied, or due with `dry_run`."""
        return await self._file.hop(functools.partial(self._file.migrate, dry_run=dry_run), writes=True)

    async def aclose(self) -> None:
        """Close the file once the calls under way have ended."""
        await asyncio.get_running_loop().run_in_executor(None, self._file.close)
