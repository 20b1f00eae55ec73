"""Records in this process: for tests, for one worker, and as the plainest reading of the rules."""

from __future__ import annotations

import heapq
import itertools
import secrets
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdall.errors import ClosedError, ConflictError, StaleFenceError
from holdall.stores import keys, rules
from holdall.stores.base import Absent, Blob, Durability, Entry, Record, Version


@dataclass(slots=True)
class _Held:
    meta: rules.Meta
    head: Blob
    log: list[Entry]
    # when `_ends` will look at this record next, None for not at all
    looked_at: float | None = None

    def record(self, key: str, log_from: int) -> Record:
        meta = self.meta
        return Record(
            key,
            Version(meta.generation, meta.number),
            self.head,
            self.log[log_from:],
            meta.log_len,
            meta.expires_at,
            dict(meta.tags),
        )


class MemoryStore:
    """Records in a dict. Safe from several tasks and threads; gone when the process ends.

    Args:
        now: The clock, Unix seconds.
        retention_s: How long a tombstone keeps fence and op_ids after a delete.
    """

    backend = "memory"
    durability: Durability = "memory"

    def __init__(self, *, now: Callable[[], float] = time.time, retention_s: float = rules.DEFAULT_RETENTION_S) -> None:
        self._now = now
        self._retention_s = rules.check_retention(retention_s)
        self._lock = threading.Lock()
        self._held: dict[str, _Held] = {}
        self._by_tag: dict[tuple[str, str], set[str]] = {}
        # (expires_at, key): a hint when to look; the record itself says whether it has ended
        self._ends: list[tuple[float, str]] = []
        self._is_closed = False

    async def read(self, key: str, *, log_from: int = 0) -> Record | None:
        """Return the record, its log from entry `log_from` on."""
        keys.check_key(key)
        keys.check_count("log_from", log_from)
        with self._lock:
            held = self._live(key)
            return None if held is None else held.record(key, log_from)

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
        with self._lock:
            self._check_open()
            now = self._now()
            self._forget_ended(now)
            held = self._held.get(key)
            version, meta = rules.after_write(
                None if held is None else held.meta, write, now, secrets.token_hex(rules.GENERATION_CHARS // 2)
            )
            if meta is None:
                return version
            kept = meta.log_len - len(write.append)
            # in place, so that an append costs the step and not the conversation; readers hold copies
            log = [] if held is None else held.log
            del log[kept:]
            log.extend(Entry(kind, data, kept + i) for i, (kind, data) in enumerate(write.append))
            self._put(key, meta, write.head, log)
            return version

    async def write_or_read(
        self, key: str, head: Blob, *, expected: Version, log_from: int, **options: Any
    ) -> Version | Record:
        """As `write`; but where another version is there, return the record."""
        keys.check_count("log_from", log_from)
        try:
            return await self.write(key, head, expected=keys.check_version(expected), **options)
        except StaleFenceError:
            raise
        except ConflictError:
            with self._lock:
                held = self._live(key)
                if held is None:
                    raise
                return held.record(key, rules.start_of_log(held.meta, expected, log_from))

    async def read_log(self, key: str, *, kind: str | None, before: int | None = None, limit: int = 50) -> list[Entry]:
        """Return up to `limit` entries of one kind with seq < `before`, newest first."""
        keys.check_key(key)
        keys.check_count("limit", limit)
        if before is not None:
            keys.check_count("before", before)
        with self._lock:
            held = self._live(key)
            if held is None:
                return []
            end = len(held.log) if before is None else min(before, len(held.log))
            newest_first = (held.log[at] for at in range(end - 1, -1, -1))
            wanted = (entry for entry in newest_first if kind is None or entry.kind == kind)
            return list(itertools.islice(wanted, limit))

    async def touch(self, key: str, ttl_s: float | None, *, op_id: str | None = None) -> bool:
        """Set the expiry without a new version; False where there is no such record."""
        keys.check_key(key)
        ttl_s, op = keys.check_ttl(ttl_s), keys.op_token("touch", op_id)
        with self._lock:
            self._check_open()
            held = self._held.get(key)
            was_there, meta = rules.after_touch(None if held is None else held.meta, ttl_s, op, self._now())
            if held is not None and meta is not None:
                self._put(key, meta, held.head, held.log)
            return was_there

    async def delete(
        self, key: str, *, expected: Version | None = None, fence: int | None = None, op_id: str | None = None
    ) -> bool:
        """Delete, leaving a tombstone with fence and op_ids; False where there was no such record."""
        keys.check_key(key)
        expected = None if expected is None else keys.check_version(expected)
        fence, op = keys.check_fence(fence), keys.op_token("delete", op_id)
        with self._lock:
            self._check_open()
            held = self._held.get(key)
            was_there, meta = rules.after_delete(
                None if held is None else held.meta,
                key,
                expected=expected,
                fence=fence,
                op=op,
                now=self._now(),
                retention_s=self._retention_s,
            )
            if meta is not None:
                self._put(key, meta, Blob("", b""), [])
            return was_there

    async def find(self, /, **tags: str) -> AsyncIterator[str]:
        """Yield the keys of live records that carry all these tags."""
        wanted = keys.check_tags(tags) or {}
        with self._lock:
            self._check_open()
            named = [self._by_tag.get(tag, set()) for tag in wanted.items()]
            found = sorted(min(named, key=len) if named else self._held)
        for key in found:
            with self._lock:
                held = self._live(key)
            if held is not None and wanted.items() <= held.meta.tags.items():
                yield key

    async def sweep(self) -> int:
        """Free what has expired; return how many records and tombstones that were. Reads never see them either way."""
        with self._lock:
            self._check_open()
            return self._forget_ended(self._now())

    async def aclose(self) -> None:
        """Let go of everything."""
        with self._lock:
            self._is_closed = True
            self._held.clear()
            self._by_tag.clear()
            self._ends.clear()

    def _check_open(self) -> None:
        if self._is_closed:
            raise ClosedError("this MemoryStore was closed; make a new one")

    def _live(self, key: str) -> _Held | None:
        self._check_open()
        held = self._held.get(key)
        if held is None or rules.known(held.meta, self._now()) is None or held.meta.is_deleted:
            return None
        return held

    def _put(self, key: str, meta: rules.Meta, head: Blob, log: list[Entry]) -> None:
        before = self._held.get(key)
        if before is None or before.meta.tags != meta.tags:
            self._drop_tags(key)
            for tag in meta.tags.items():
                self._by_tag.setdefault(tag, set()).add(key)
        held = self._held[key] = _Held(meta, head, log, None if before is None else before.looked_at)
        self._look_again(key, held)

    def _look_again(self, key: str, held: _Held) -> None:
        ends = held.meta.expires_at
        if ends is not None and (held.looked_at is None or ends < held.looked_at):
            held.looked_at = ends
            heapq.heappush(self._ends, (ends, key))

    def _drop_tags(self, key: str) -> None:
        held = self._held.get(key)
        for tag in () if held is None else held.meta.tags.items():
            named = self._by_tag[tag]
            named.discard(key)
            if not named:
                del self._by_tag[tag]

    def _forget_ended(self, now: float) -> int:
        n = 0
        while self._ends and self._ends[0][0] <= now:
            at, key = heapq.heappop(self._ends)
            held = self._held.get(key)
            if held is None or held.looked_at != at:
                continue
            if rules.known(held.meta, now) is None:
                self._drop_tags(key)
                del self._held[key]
                n += 1
            else:
                held.looked_at = None
                self._look_again(key, held)
        return n
