"""Records in PostgreSQL: one call of one SQL function per operation, readable with psql."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from itertools import islice
from operator import ge, itemgetter
from typing import Any

from holdall.errors import ArgumentError, EncodeError
from holdall.stores import keys, rules
from holdall.stores.base import Absent, Blob, Durability, Entry, Record, Version
from holdall.stores.postgres_link import PostgresLink, apply_migrations, due_migrations
from holdall.stores.rows import Rows
from holdall.stores.urls import mask_url

__all__ = ["PostgresStore", "apply_migrations", "due_migrations"]

_PAGE = 500
_SWEPT_PER_CALL = 1000
JSON = "json"

_UPDATE = "SELECT * FROM {p}update_session($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)"
_STEP = "SELECT * FROM {p}step_session($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
_TOUCH = "SELECT {p}touch_session($1, $2, $3, $4)"
_DELETE = "SELECT * FROM {p}delete_session($1, $2, $3, $4, $5, $6, $7)"
_SWEEP = "SELECT due, freed FROM {p}sweep_due($1)"
_LIVE = "NOT s.is_deleted AND (s.expires_at IS NULL OR s.expires_at > clock_timestamp())"
_IS_KEY = "s.key_hash = sha256(convert_to($1, 'UTF8'))"
# The record as one row and then each entry as a row, the log in whatever order it comes: an array of a thousand entries takes the
# server as long to build as everything else together, and a sort as long as to read them, which are mostly in order.
_READ = (
    "WITH s AS MATERIALIZED (SELECT s.log_id, ROW(s.generation, s.version, s.state::text, s.head, s.head_format, s.log_len,"
    " s.tags::text, extract(epoch FROM s.expires_at)::float8) AS record"
    f" FROM {{p}}agent_sessions s WHERE {_IS_KEY} AND {_LIVE})"
    " SELECT NULL::text AS kind, NULL::bytea AS data, -1::bigint AS seq, s.record FROM s"
    " UNION ALL SELECT e.kind, e.data, e.seq, NULL FROM s JOIN {p}agent_session_log e ON e.log_id = s.log_id AND e.seq >= $2"
)
_READ_LOG = (
    "SELECT e.kind, e.data, e.seq FROM {p}agent_sessions s JOIN {p}agent_session_log e ON e.log_id = s.log_id"
    f" WHERE {_IS_KEY} AND {_LIVE}"
    " AND ($2::bigint IS NULL OR e.seq < $2) AND ($3::text IS NULL OR e.kind = $3) ORDER BY e.seq DESC LIMIT $4"
)
# From a record to what it takes over, see `holdall.stores.chain`: a copy where there is one, else the base.
_CHAIN = (
    "WITH RECURSIVE chain AS ("
    " SELECT 0 AS depth, s.key_hash, s.session_id, s.tags, s.log_len AS ends FROM {p}agent_sessions s"
    f" WHERE {_IS_KEY} AND {_LIVE}"
    " UNION ALL"
    " SELECT c.depth + 1, n.key_hash, n.session_id, n.tags, (c.tags ->> 'base_at')::bigint"
    " FROM chain c CROSS JOIN LATERAL ("
    "SELECT s.key_hash, s.session_id, s.tags FROM {p}agent_sessions s"
    " WHERE s.key_hash IN (sha256(convert_to('~kept/' || c.session_id, 'UTF8')),"
    " sha256(convert_to(c.tags ->> 'base', 'UTF8')))"
    f" AND {_LIVE} ORDER BY s.session_id = '~kept/' || c.session_id DESC LIMIT 1) n"
    " WHERE c.depth + 1 < $2 AND c.tags ->> 'base' IS NOT NULL)"
    " SELECT s.session_id, s.generation, s.version, s.state, s.head, s.head_format, s.log_len, s.tags,"
    " extract(epoch FROM s.expires_at)::float8 AS expires_at, l.kinds, l.datas"
    " FROM chain c JOIN {p}agent_sessions s USING (key_hash) LEFT JOIN LATERAL ("
    "SELECT array_agg(e.kind ORDER BY e.seq) AS kinds, array_agg(e.data ORDER BY e.seq) AS datas"
    " FROM {p}agent_session_log e WHERE e.log_id = s.log_id AND e.seq < c.ends) l ON true"
    " ORDER BY c.depth"
)
_FIND = (
    "SELECT s.key_hash, s.session_id FROM {p}agent_sessions s WHERE s.key_hash > $1 AND s.tags @> $2::jsonb"
    f" AND {_LIVE} ORDER BY s.key_hash LIMIT $3"
)
_FIND_USER = (
    "SELECT s.key_hash, s.session_id FROM {p}agent_sessions s"
    " WHERE s.user_id = $4 AND s.key_hash > $1 AND s.tags @> $2::jsonb"
    f" AND {_LIVE} ORDER BY s.key_hash LIMIT $3"
)
_FIND_TAG = (
    "SELECT s.key_hash, s.session_id FROM {p}agent_session_tags t JOIN {p}agent_sessions s ON s.key_hash = t.key_hash"
    " WHERE t.name = $4 AND t.value = $5 AND t.key_hash > $1 AND s.tags @> $2::jsonb"
    f" AND {_LIVE} ORDER BY t.key_hash LIMIT $3"
)


class PostgresStore:
    """Records in the table `agent_sessions` and its log, in one round trip per call, by the server's clock.

    A head of format "json" is stored as JSONB, so that people can query it: it comes back as equal JSON, not as equal bytes.
    Any other head is stored as it is, in a bytea column. Works through pgbouncer in transaction mode, which it notices.

    Args:
        dsn: `postgresql://user:password@host:port/database`; None if a pool is given.
        pool: An asyncpg pool to use instead; it is not closed by `aclose`.
        min_size: Connections that are kept open.
        max_size: Connections at most.
        schema: Where the tables are; None for the connection's search path. Made if missing.
        durability: "fsync" (a commit waits for the disk, and for standbys if the server is set so) or "process"
            (synchronous_commit off: a crash of the server may lose the last commits, never their order).
        retention_s: How long a tombstone keeps fence and op_ids after a delete.
        auto_migrate: Whether the first use brings the schema up to date; else it fails and says so.
        timeout_s: For connecting and for each call.
        connect: More arguments for `asyncpg.connect`, such as ssl.
    """

    backend = "postgres"

    def __init__(
        self,
        dsn: str | None = None,
        *,
        pool: Any | None = None,
        min_size: int = 0,
        max_size: int = 10,
        schema: str | None = None,
        durability: Durability = "fsync",
        retention_s: float = rules.DEFAULT_RETENTION_S,
        auto_migrate: bool = True,
        timeout_s: float = 30.0,
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        if durability not in ("fsync", "process"):
            raise ArgumentError(f"durability is {durability!r}; PostgreSQL knows 'fsync' and 'process'")
        if schema is not None:
            keys.check_text("schema", schema, least=1, most=63)
        self.durability: Durability = durability
        self._is_synced = durability == "fsync"
        self._retention_s = rules.check_retention(retention_s)
        self._shown = "a pool" if dsn is None else mask_url(dsn)
        self._link = PostgresLink(
            dsn,
            pool=pool,
            min_size=min_size,
            max_size=max_size,
            schema=schema,
            auto_migrate=auto_migrate,
            timeout_s=timeout_s,
            connect=dict(connect or {}),
        )
        every = (_UPDATE, _STEP, _TOUCH, _DELETE, _SWEEP, _READ, _READ_LOG, _CHAIN, _FIND, _FIND_USER, _FIND_TAG)
        self._sql = {query: query.format(p=self._link.prefix) for query in every}

    def __repr__(self) -> str:
        return f"PostgresStore({self._shown})"

    async def read(self, key: str, *, log_from: int = 0) -> Record | None:
        """Return the record, its log from entry `log_from` on, both from one snapshot."""
        keys.check_key(key)
        keys.check_count("log_from", log_from)
        rows = await self._link.call("read", self._sql[_READ], key, log_from, is_repeatable=True)
        return _read(key, rows) if rows else None

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
        is_json = write.head.format == JSON
        row = await self._one(
            "write",
            _UPDATE,
            key,
            _json_text(write.head.data) if is_json else None,
            None if is_json else write.head.data,
            write.head.format,
            *_expectation(write.expected),
            secrets.token_hex(rules.GENERATION_CHARS // 2),
            [kind for kind, _ in write.append] or None,
            [data for _, data in write.append] or None,
            write.keep,
            write.ttl_s,
            None if write.tags is None else json.dumps(write.tags),
            write.fence,
            write.op,
            self._is_synced,
            is_repeatable=write.op is not None,
        )
        return _judged(row, key, write.expected, write.fence)

    async def write_or_read(
        self, key: str, head: Blob, *, expected: Version, ttl_s: float | None, log_from: int, **options: Any
    ) -> Version | Record:
        """As `write`; but where another version is there, return the record."""
        keys.check_count("log_from", log_from)
        write = rules.check_write(key, head, expected=keys.check_version(expected), ttl_s=ttl_s, **options)
        is_json = write.head.format == JSON
        row = await self._one(
            "write",
            _STEP,
            key,
            _json_text(write.head.data) if is_json else None,
            None if is_json else write.head.data,
            write.head.format,
            *expected,
            [kind for kind, _ in write.append] or None,
            [data for _, data in write.append] or None,
            write.keep,
            write.ttl_s,
            None if write.tags is None else json.dumps(write.tags),
            write.fence,
            write.op,
            self._is_synced,
            log_from,
            is_repeatable=write.op is not None,
        )
        if row["outcome"] == "conflict" and row["log_start"] is not None:
            return _record(key, row, row["log_start"])
        return _judged(row, key, expected, write.fence)

    async def read_log(self, key: str, *, kind: str | None, before: int | None = None, limit: int = 50) -> list[Entry]:
        """Return up to `limit` entries of one kind with seq < `before`, newest first."""
        keys.check_page(key, kind=kind, before=before, limit=limit)
        rows = await self._link.call("read_log", self._sql[_READ_LOG], key, before, kind, limit, is_repeatable=True)
        return [Entry(row["kind"], row["data"], row["seq"]) for row in rows]

    async def read_chain(self, key: str, *, limit: int) -> list[Record]:
        """Return the record and what it takes over from others, newest first: one recursive query."""
        keys.check_key(key)
        keys.check_count("limit", limit)
        rows = await self._link.call("read_chain", self._sql[_CHAIN], key, limit, is_repeatable=True)
        return [_record(row["session_id"], row, 0) for row in rows]

    async def touch(self, key: str, ttl_s: float | None, *, op_id: str | None = None) -> bool:
        """Set the expiry without a new version; False where there is no such record."""
        keys.check_key(key)
        ttl_s, op = keys.check_ttl(ttl_s), keys.op_token("touch", op_id)
        row = await self._one("touch", _TOUCH, key, ttl_s, op, self._is_synced, is_repeatable=op is not None)
        return bool(row[0])

    async def delete(
        self, key: str, *, expected: Version | None = None, fence: int | None = None, op_id: str | None = None
    ) -> bool:
        """Delete, leaving a tombstone with fence and op_ids; False where there was no such record."""
        keys.check_key(key)
        generation, number = (None, None) if expected is None else keys.check_version(expected)
        fence, op = keys.check_fence(fence), keys.op_token("delete", op_id)
        row = await self._one(
            "delete",
            _DELETE,
            key,
            generation,
            number,
            fence,
            op,
            self._retention_s,
            self._is_synced,
            is_repeatable=op is not None,
        )
        if row["outcome"] not in ("ok", "none"):
            _judged(row, key, expected, fence)
        return bool(row["outcome"] == "ok")

    async def find(self, /, **tags: str) -> AsyncIterator[str]:
        """Yield the keys of live records that carry all these tags, a page per call."""
        wanted = keys.check_tags(tags) or {}
        query, driver = _driver(wanted)
        last = b""
        while True:
            page = await self._link.call(
                "find", self._sql[query], last, json.dumps(wanted), _PAGE, *driver, is_repeatable=True
            )
            for row in page:
                yield row["session_id"]
            if len(page) < _PAGE:
                return
            last = page[-1]["key_hash"]

    async def sweep(self) -> int:
        """Free what has expired; return how many records and tombstones that were. Reads never see them either way."""
        total = 0
        while True:
            n_due, n_freed = await self._one("sweep", _SWEEP, _SWEPT_PER_CALL, is_repeatable=True)
            total += int(n_freed)
            if n_due < _SWEPT_PER_CALL:
                return total

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        """Bring the schema up to date; return the names of the migrations applied, or due with `dry_run`."""
        return await self._link.migrate(dry_run=dry_run)

    async def aclose(self) -> None:
        """Close the pool once the calls under way have ended; a pool that was given stays open."""
        await self._link.close()

    async def _one(self, operation: str, query: str, *args: Any, is_repeatable: bool) -> Any:
        return (await self._link.call(operation, self._sql[query], *args, is_repeatable=is_repeatable))[0]


def _read(key: str, rows: list[Any]) -> Record:
    seqs = [row["seq"] for row in rows]
    if any(map(ge, seqs, islice(seqs, 1, None))):
        rows.sort(key=itemgetter("seq"))
    generation, number, state, head, head_format, log_len, tags, expires_at = rows[0]["record"]
    log_from = rows[1]["seq"] if len(rows) > 1 else log_len
    return Record(
        key,
        Version(generation, number),
        Blob(JSON, state.encode()) if head is None else Blob(head_format, head),
        Rows(rows[1:], log_from),
        log_len,
        expires_at,
        json.loads(tags),
    )


def _record(key: str, row: Any, log_from: int) -> Record:
    head = Blob(JSON, row["state"].encode()) if row["head"] is None else Blob(row["head_format"], row["head"])
    kinds, datas = row["kinds"] or (), row["datas"] or ()
    return Record(
        key,
        Version(row["generation"], row["version"]),
        head,
        Rows(list(zip(kinds, datas, strict=True)), log_from),
        row["log_len"],
        row["expires_at"],
        json.loads(row["tags"]),
    )


def _json_text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise EncodeError(f"a head of format json is not UTF-8: {error}", path="$", reason=str(error)) from error


def _expectation(expected: Version | Absent | None) -> tuple[str, str | None, int | None]:
    if expected is None:
        return "any", None, None
    if isinstance(expected, Absent):
        return "absent", None, None
    return "version", expected.generation, expected.number


def _judged(row: Any, key: str, expected: Version | Absent | None, fence: int | None) -> Version:
    version = None if row["version"] is None else Version(row["generation"], row["version"])
    if row["outcome"] == "stale":
        raise rules.stale_fence(key, expected, version, fence, row["fence"])
    if row["outcome"] == "conflict" or version is None:
        raise rules.conflict(key, expected, version)
    return version


def _driver(wanted: Mapping[str, str]) -> tuple[str, tuple[str, ...]]:
    """Which index leads: the user's, else the first tag's, else all records in order of their hash."""
    if "user_id" in wanted:
        return _FIND_USER, (wanted["user_id"],)
    for name, value in wanted.items():
        return _FIND_TAG, (name, value)
    return _FIND, ()
