"""The rows of `SqliteStore`: one record, its log and its tags, within the transaction of the caller."""

from __future__ import annotations

import functools
import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from holdall.stores import keys, rules
from holdall.stores.base import Blob, Record, Version
from holdall.stores.rows import Rows

_SEQ_BITS = 32

META = "id, generation, number, log_len, expires_at, tags, fence, ops, is_deleted, cut_at"
LIVE = "is_deleted = 0 AND (expires_at IS NULL OR expires_at > ?)"

# Called with what was seen of a record: key, version, id and length of the log.
Note = Callable[[str, Version, int, int], None]


def pos(record_id: int, seq: int) -> int:
    """Return where in the log table an entry of a record stands."""
    return (record_id << _SEQ_BITS) + seq


def append(db: sqlite3.Connection, start: int, entries: Sequence[tuple[str, bytes]]) -> None:
    """Write entries of the log from `start` on."""
    if entries:
        db.executemany(
            "INSERT INTO log (pos, kind, data) VALUES (?, ?, ?)",
            [(start + n, kind, data) for n, (kind, data) in enumerate(entries)],
        )


@functools.lru_cache(maxsize=1024)
def _text_of_tags(tags: tuple[tuple[str, str], ...]) -> str:
    return json.dumps(dict(tags), ensure_ascii=False)


def tags_text(tags: Mapping[str, str]) -> str:
    """Return tags as they are stored."""
    return _text_of_tags(tuple(tags.items()))


def _meta(key: str, row: Sequence[Any]) -> tuple[int, rules.Meta]:
    record_id, generation, number, log_len, expires_at, tags, fence, ops, is_deleted, cut_at = row
    try:
        decoded = json.loads(tags)
    except (ValueError, TypeError) as error:
        raise keys.not_ours("sqlite", key, error) from error
    return record_id, rules.Meta(generation, number, log_len, expires_at, decoded, fence, ops, bool(is_deleted), cut_at)


def read(
    db: sqlite3.Connection, key: str, now: float, log_start: Callable[[rules.Meta], int], note: Note
) -> Record | None:
    """Return a live record, its log from where `log_start` says; tell `note` of it."""
    row = db.execute(f"SELECT head_format, head, {META} FROM records WHERE key = ? AND {LIVE}", (key, now)).fetchone()
    if row is None:
        return None
    found = record(db, key, row, start=log_start)
    note(key, found.version, row[2], found.log_len)
    return found


def record(
    db: sqlite3.Connection,
    key: str,
    row: Sequence[Any],
    *,
    start: Callable[[rules.Meta], int] = lambda _: 0,
    end: int | None = None,
) -> Record:
    """Return the record of a row (format and bytes of the head, then `META`), with this part of its log."""
    record_id, meta = _meta(key, row[2:])
    last = meta.log_len if end is None else min(end, meta.log_len)
    first = min(start(meta), last)
    rows = db.execute(
        "SELECT kind, data FROM log WHERE pos >= ? AND pos < ? ORDER BY pos",
        (pos(record_id, first), pos(record_id, last)),
    ).fetchall()
    return Record(
        key,
        Version(meta.generation, meta.number),
        Blob(row[0], row[1]),
        Rows(rows, first),
        meta.log_len,
        meta.expires_at,
        meta.tags,
    )


def is_at(db: sqlite3.Connection, key: str, version: Version) -> bool:
    """Whether a key's row is at a version: true also where it has ended since."""
    sql = "SELECT 1 FROM records WHERE key = ? AND generation = ? AND number = ?"
    return bool(db.execute(sql, (key, *version)).fetchall())


def find_meta(db: sqlite3.Connection, key: str) -> tuple[int | None, rules.Meta | None]:
    """Return the id and what decides of a key's row, whether it has ended or not."""
    row = db.execute(f"SELECT {META} FROM records WHERE key = ?", (key,)).fetchone()
    return (None, None) if row is None else _meta(key, row)


def _columns(meta: rules.Meta, head: Blob) -> tuple[object, ...]:
    return (
        meta.generation,
        meta.number,
        head.format,
        head.data,
        meta.log_len,
        meta.expires_at,
        tags_text(meta.tags),
        meta.fence,
        meta.ops,
        int(meta.is_deleted),
        meta.cut_at,
        meta.expires_at,
    )


def insert(db: sqlite3.Connection, key: str, meta: rules.Meta, head: Blob) -> int:
    """Write the row of a new key, and return its id."""
    cursor = db.execute(
        "INSERT INTO records (generation, number, head_format, head, log_len, expires_at, tags, fence, ops, is_deleted, cut_at,"
        " sweep_at, key) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (*_columns(meta, head), key),
    )
    assert cursor.lastrowid is not None  # noqa: S101 - sqlite3 sets it after every INSERT
    return cursor.lastrowid


def update(db: sqlite3.Connection, record_id: int, meta: rules.Meta, head: Blob) -> None:
    """Write all of a record's row."""
    db.execute(
        "UPDATE records SET generation = ?, number = ?, head_format = ?, head = ?, log_len = ?, expires_at = ?, tags = ?,"
        " fence = ?, ops = ?, is_deleted = ?, cut_at = ?, sweep_at = ? WHERE id = ?",
        (*_columns(meta, head), record_id),
    )


def cut(db: sqlite3.Connection, record_id: int, kept: int) -> None:
    """Remove what stands in the log of a record from entry `kept` on."""
    db.execute("DELETE FROM log WHERE pos >= ? AND pos < ?", (pos(record_id, kept), pos(record_id + 1, 0)))


def retag(db: sqlite3.Connection, record_id: int, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Write what changed in the tags of a record."""
    gone = before.items() - after.items()
    new = after.items() - before.items()
    db.executemany("DELETE FROM tags WHERE name = ? AND value = ? AND record = ?", [(*tag, record_id) for tag in gone])
    db.executemany("INSERT INTO tags (name, value, record) VALUES (?, ?, ?)", [(*tag, record_id) for tag in new])


def sweep(db: sqlite3.Connection, now: float, most: int) -> tuple[int, int]:
    """Look at up to `most` records that may have ended, and free those that have; return both counts."""
    due = db.execute("SELECT id, tags, expires_at FROM records WHERE sweep_at <= ? LIMIT ?", (now, most)).fetchall()
    n_freed = 0
    for record_id, tags, expires_at in due:
        if expires_at is None or expires_at > now:
            db.execute("UPDATE records SET sweep_at = expires_at WHERE id = ?", (record_id,))
            continue
        n_freed += 1
        retag(db, record_id, json.loads(tags), {})
        cut(db, record_id, 0)
        db.execute("DELETE FROM records WHERE id = ?", (record_id,))
    return len(due), n_freed
