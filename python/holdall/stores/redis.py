"""Records in Redis or Valkey: one Lua script per operation, both keys of a record in one slot of a cluster."""

from __future__ import annotations

import contextlib
import json
import math
import re
import secrets
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from holdall.errors import ArgumentError, StoreUnavailableError
from holdall.stores import keys, lost, redis_rate, rules
from holdall.stores.base import Absent, Blob, Durability, Entry, Record, Version
from holdall.stores.chain import link_of, walk_chain
from holdall.stores.redis_index import RedisIndex
from holdall.stores.redis_link import BACKEND, WRITES, RedisLink, damaged
from holdall.stores.rows import Rows, entry_of
from holdall.stores.urls import mask_url

_NAMESPACE = re.compile(r"[A-Za-z0-9_.:/-]{1,64}")
# Fences and versions travel as text of one width, so that they compare as text and never as doubles.
_FENCE_CHARS = 19
_MOST_INDEX = 2**53 - 1
# Whoever asks for a log from here on wants none.
_NO_LOG = 2**31 - 1
# Of the hash of a record: generation, number, format and bytes of the head, length of the log, tags, and the mark of a tombstone.
_FIELDS = ("g", "n", "f", "d", "l", "t", "D")
# What write.lua says where it brings no record along: outcome, generation, number.
_CONFLICT_ALONE = 3
# One call of read_log looks at no more entries, so that a rare kind far back does not hold up the server.
_LOOKED_AT = 2000
# A write that must enter its index first is called twice; more often only while others remove entries of the same key.
_INDEX_ATTEMPTS = 16


class RedisStore:
    """Records in Redis 7 or Valkey, standalone, behind Sentinels, or in a cluster, by the server's clock.

    Durability is what the server is set to, and the caller's to claim: by default it is named "memory". With
    `appendfsync always` a kill of the server loses nothing that was acknowledged. With `everysec`, the usual setting, it
    can lose the last seconds, and not only at a loss of power: while an fsync in the background is slow, acknowledged writes
    wait in the server's own memory, and kill -9 takes them along. A failover can lose writes that no replica had yet, under
    either; `wait_replicas` narrows that window. Behind Sentinels it closes it where it is the number of all replicas, and all but
    for a master that dies where it is less: one that is told to step down, or stood still and comes back, goes on for a second
    or so with the replicas that are not promoted, which then throw away what they have acknowledged.

    Args:
        url: `redis://`, `rediss://`, `unix://`, `redis+sentinel://user:password@host:port,host:port/SERVICE/DB` (what the
            Sentinels themselves ask for is `?sentinel_password=`), or `redis+cluster://host:port`, the last two also with
            `rediss+`; None if a client is given.
        client: A `redis.asyncio` client to use instead; it is not closed by `aclose`.
        namespace: What every key begins with: letters, digits and `_.:/-`.
        durability: What the caller knows of the server, only named here: "fsync" is AOF with `appendfsync always`, "process"
            is AOF with `everysec`, with the loss that was said above, "memory" is neither.
        wait_replicas: A write returns once this many replicas have it, else it raises `UnreplicatedError`, an
            `OutcomeUnknownError`. The entries by which `find` finds it are waited for before it, in a cluster on nodes of their
            own: where these lack replicas it raises `StoreBusyError`, and nothing was written.
        retention_s: How long a tombstone keeps fence and op_ids after a delete.
        max_connections: At most, per node; as many again for `find` where there is one server.
        timeout_s: For connecting and for each reply.
        connect: More arguments for the driver's connections, such as ssl_ca_certs.
    """

    backend = BACKEND

    def __init__(
        self,
        url: str | None = None,
        *,
        client: Any | None = None,
        namespace: str = "holdall",
        durability: Durability = "memory",
        wait_replicas: int = 0,
        retention_s: float = rules.DEFAULT_RETENTION_S,
        max_connections: int = 50,
        timeout_s: float = 10.0,
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(namespace, str) or not _NAMESPACE.fullmatch(namespace):
            raise ArgumentError(f"namespace is {namespace!r}; allowed are 1 to 64 letters, digits and _.:/-")
        if durability not in ("memory", "process", "fsync"):
            raise ArgumentError(f"durability is {durability!r}; known are 'memory', 'process' and 'fsync'")
        self.durability: Durability = durability
        self._wait_replicas = keys.check_count("wait_replicas", wait_replicas)
        self._retention_ms = math.ceil(rules.check_retention(retention_s) * 1000)
        self._shown = "a client" if url is None else mask_url(url)
        self._link = RedisLink(
            url, client, max_connections=max_connections, timeout_s=timeout_s, connect=dict(connect or {})
        )
        self._index = RedisIndex(self._link, namespace.encode(), wait_replicas=self._wait_replicas)
        self._namespace = namespace.encode()

    def __repr__(self) -> str:
        return f"RedisStore({self._shown})"

    async def read(self, key: str, *, log_from: int = 0) -> Record | None:
        """Return the record, its log from entry `log_from` on, both from one snapshot."""
        keys.check_key(key)
        log_from = min(keys.check_count("log_from", log_from), _MOST_INDEX)
        slot = self._index.slot_keys(key)[:2]
        row = await self._link.call("read", lambda: self._read(slot, log_from), is_repeatable=True)
        return None if row is None else _whole("read", key, row, log_from)

    async def _read(self, slot: Sequence[bytes], log_from: int) -> Sequence[Any] | None:
        """Return the fields of a record and its log."""
        if log_from < _NO_LOG:
            # a script gets each entry as a string of Lua and gives it back as another: half as much again for a log of a megabyte
            replies = await self._link.read_at_once(
                ("HMGET", slot[0], *_FIELDS), ("PEXPIRETIME", slot[0]), ("LRANGE", slot[1], log_from, -1)
            )
            if replies is not None:
                (*held, is_deleted), ends, entries = replies
                if held[0] is None or is_deleted:
                    return None
                # else one of the two has just expired, which is a matter of the server's clock: a script sees one instant
                if held[4] == b"%d" % (log_from + len(entries)):
                    return *held, ends, entries
        row: list[Any] | None = await self._link.run("read", slot, [log_from])
        return row

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
            op_id=self._op_id(op_id),
        )
        return _judged(await self._written(write, ""), key, write.expected, write.fence)

    async def write_or_read(
        self, key: str, head: Blob, *, expected: Version, ttl_s: float | None, log_from: int, **options: Any
    ) -> Version | Record:
        """As `write`; but where another version is there, return the record."""
        log_from = min(keys.check_count("log_from", log_from), _MOST_INDEX)
        options["op_id"] = self._op_id(options.get("op_id"))
        write = rules.check_write(key, head, expected=keys.check_version(expected), ttl_s=ttl_s, **options)
        reply = await self._written(write, log_from)
        if reply[0] == b"conflict" and len(reply) > _CONFLICT_ALONE:
            return _whole("write", key, [*reply[1:3], *reply[4:]], int(reply[3]))
        return _judged(reply, key, expected, write.fence)

    async def _written(self, write: rules.Write, log_from: int | str) -> list[Any]:
        key = write.key
        before = [
            *_expectation(write.expected),
            secrets.token_hex(rules.GENERATION_CHARS // 2),
            write.head.format,
            write.head.data,
            "" if write.keep is None else min(write.keep, _MOST_INDEX),
            _ttl_ms(write.ttl_s),
            "" if write.tags is None else _tags_text(write.tags),
            _fence_text(write.fence),
            _op_bytes(write.op),
        ]
        entries = [kind.encode() + b"\0" + data for kind, data in write.append]
        reply = await self._indexed(
            "write",
            key,
            write.ttl_s,
            lambda guarantee: [*before, *guarantee, log_from, *entries],
            is_repeatable=write.op is not None,
        )
        if reply[0] == b"ok" and reply[3]:
            old = json.loads(reply[3])
            kept = json.loads(_tags_text(write.tags or {}))
            await self._drop(key, {name: value for name, value in old.items() if kept.get(name) != value})
        return reply

    async def read_log(self, key: str, *, kind: str | None, before: int | None = None, limit: int = 50) -> list[Entry]:
        """Return up to `limit` entries of one kind with seq < `before`, newest first."""
        keys.check_page(key, kind=kind, before=before, limit=limit)
        if before is not None:
            before = min(before, _MOST_INDEX)
        slot = self._index.slot_keys(key)[:2]
        found: list[Entry] = []
        generation, at = b"", before
        while len(found) < limit and at != 0:
            args = [kind or "", "" if at is None else at, min(limit - len(found), _MOST_INDEX), _LOOKED_AT, generation]
            reply = await self._link.call(
                "read_log",
                lambda args=args: self._link.run("read_log", slot, args),  # type: ignore[misc]
                is_repeatable=True,
            )
            if reply is None:
                # gone, or another generation than the one that was being read: its entries are gone too
                return [] if not generation else await self.read_log(key, kind=kind, before=before, limit=limit)
            generation, rest, seqs, entries = reply
            try:
                found += [entry_of(entry, int(seq)) for seq, entry in zip(seqs, entries, strict=True)]
            except ValueError as error:
                raise keys.not_ours("redis", key, error) from error
            if at is not None and int(rest) == at:
                break
            at = int(rest)
        return found

    async def read_chain(self, key: str, *, limit: int) -> list[Record]:
        """Return the record and what it takes over from others, newest first: one script, but one call each in a cluster."""
        if self._link.is_cluster:
            # the records are on several nodes, and a script sees those of one
            return await walk_chain(self, key, limit=limit)
        keys.check_key(key)
        limit = min(keys.check_count("limit", limit), _MOST_INDEX)
        slot = self._index.slot_keys(key)[:2]
        args = [limit, self._namespace, key]
        rows = await self._link.call("read_chain", lambda: self._link.run("read_chain", slot, args), is_repeatable=True)
        try:
            chain = [_record(row[0].decode(), row[1:], 0) for row in rows]
        except (ValueError, TypeError, AttributeError) as error:
            raise keys.not_ours("redis", key, error) from error
        links = [None, *(link_of(record.tags) for record in chain)]
        for record, link in zip(chain, links, strict=False):
            if len(record.entries) != (record.log_len if link is None else min(link.at, record.log_len)):
                raise damaged("read_chain", record.key)
        return chain

    async def touch(self, key: str, ttl_s: float | None, *, op_id: str | None = None) -> bool:
        """Set the expiry without a new version; False where there is no such record."""
        keys.check_key(key)
        ttl_s, op = keys.check_ttl(ttl_s), keys.op_token("touch", self._op_id(op_id))
        reply = await self._indexed(
            "touch",
            key,
            ttl_s,
            lambda guarantee: [_ttl_ms(ttl_s), _op_bytes(op), *guarantee],
            is_repeatable=op is not None,
        )
        return bool(reply[0] == b"ok")

    async def delete(
        self, key: str, *, expected: Version | None = None, fence: int | None = None, op_id: str | None = None
    ) -> bool:
        """Delete, leaving a tombstone with fence and op_ids; False where there was no such record."""
        keys.check_key(key)
        generation, number = ("", "") if expected is None else keys.check_version(expected)
        fence, op = keys.check_fence(fence), keys.op_token("delete", self._op_id(op_id))
        args = [generation, number, _fence_text(fence), _op_bytes(op), self._retention_ms]
        reply = await self._link.call(
            "delete", lambda: self._script("delete", self._index.slot_keys(key)[:2], args), is_repeatable=op is not None
        )
        if reply[0] == b"none":
            return False
        if reply[0] != b"ok":
            _judged(reply, key, expected, fence)
        await self._drop(key, json.loads(reply[1]))
        return True

    async def find(self, /, **tags: str) -> AsyncIterator[str]:
        """Yield the keys of live records that carry all these tags, a page per call."""
        wanted = keys.check_tags(tags) or {}
        async for key in self._index.find(wanted) if wanted else self._index.every():
            yield key

    async def take_rate(self, key: str, **rate: Any) -> tuple[bool, int, int]:
        """Count against a rate limit in one script; `holdall.RateLimiter` asks for it, and says what the arguments are."""
        return await redis_rate.take(self._link, self._namespace + b":r:" + keys.check_key(key).encode(), **rate)

    async def sweep(self) -> int:
        """Return 0: the server frees what has expired by itself."""
        return 0

    async def aclose(self) -> None:
        """Close the client; one that was given stays open."""
        await self._link.close()

    def _op_id(self, op_id: str | None) -> str | None:
        return secrets.token_hex(12) if op_id is None and self._link.has_driver_retries else op_id

    async def _script(self, name: str, slot: Sequence[bytes], args: Sequence[Any]) -> list[Any]:
        if not self._wait_replicas or name not in WRITES:
            reply: list[Any] = await self._link.run(name, slot, args)
            return reply
        reply, n = await self._link.run_and_wait(
            name, slot, args, replicas=self._wait_replicas, mark=self._index.beside(slot[0])
        )
        if n < self._wait_replicas and reply[0] == b"ok":
            raise lost.unreplicated(BACKEND, name, found=n, wanted=self._wait_replicas)
        return reply

    async def _indexed(self, name: str, key: str, ttl_s: float | None, args: Any, *, is_repeatable: bool) -> list[Any]:
        """Call a script that may ask for index entries first, which it does when tags or a much longer life are new."""
        slot = self._index.slot_keys(key)
        guarantee = ("", "")
        for _ in range(_INDEX_ATTEMPTS):
            call = args(guarantee)
            reply = await self._link.call(
                name,
                lambda call=call: self._script(name, slot, call),  # type: ignore[misc]
                is_repeatable=is_repeatable,
            )
            if reply[0] != b"index":
                return reply
            _, epoch, tags, ends = reply
            until = await self._link.call(
                "index",
                lambda tags=tags, ends=ends: self._index.add(  # type: ignore[misc]
                    key, json.loads(tags), int(ends) if ends else None, ttl_s
                ),
                is_repeatable=True,
            )
            guarantee = (until, epoch.decode())
        said = f"the index of {key[:80]!r} was changed by others {_INDEX_ATTEMPTS} times over"
        raise lost.busy(BACKEND, name, said, cause="index contention")

    async def _drop(self, key: str, tags: Mapping[str, str]) -> None:
        # what was asked for is done and acknowledged: an entry that stays behind is found and removed by the next find
        with contextlib.suppress(StoreUnavailableError):
            await self._link.call("index", lambda: self._index.drop(key, tags), is_repeatable=True)


def _ttl_ms(ttl_s: float | None) -> int | str:
    return "" if ttl_s is None else math.ceil(ttl_s * 1000)


def _tags_text(tags: Mapping[str, str]) -> str:
    return json.dumps(tags, ensure_ascii=False, separators=(",", ":"))


def _fence_text(fence: int | None) -> str:
    return "" if fence is None else f"{fence:0{_FENCE_CHARS}d}"


def _op_bytes(op: str | None) -> bytes:
    return b"" if op is None else bytes.fromhex(op)


def _expectation(expected: Version | Absent | None) -> tuple[str, str, str]:
    if expected is None:
        return "any", "", ""
    if isinstance(expected, Absent):
        return "absent", "", ""
    return "version", expected.generation, str(expected.number)


def _whole(operation: str, key: str, row: Sequence[Any], log_from: int) -> Record:
    try:
        record = _record(key, row, log_from)
    except (ValueError, TypeError, AttributeError) as error:
        raise keys.not_ours("redis", key, error) from error
    if len(record.entries) != max(0, record.log_len - log_from):
        raise damaged(operation, key)
    return record


def _record(key: str, row: Sequence[Any], log_from: int) -> Record:
    generation, number, name, data, log_len, tags, ends, entries = row
    return Record(
        key,
        Version(generation.decode(), int(number)),
        Blob(name.decode(), data),
        Rows(entries, log_from),
        int(log_len),
        None if int(ends) < 0 else int(ends) / 1000,
        json.loads(tags),
    )


def _judged(reply: list[Any], key: str, expected: Version | Absent | None, fence: int | None) -> Version:
    version = Version(reply[1].decode(), int(reply[2])) if reply[1] else None
    if reply[0] == b"stale":
        raise rules.stale_fence(key, expected, version, fence, int(reply[3]))
    if reply[0] == b"conflict" or version is None:
        raise rules.conflict(key, expected, version)
    return version
