"""Records in S3: one checksummed object each, replaced only if nobody replaced it since. A cold tier."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import io
import secrets
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from holdall.errors import ArgumentError
from holdall.stores import keys, rules
from holdall.stores.aws_link import AwsLink, ClientError, code_of, failure_of, status_of
from holdall.stores.base import Blob, Durability, Entry, Record, Version
from holdall.stores.packed import pack, size_of, unpack
from holdall.stores.s3_object import (
    BACKEND,
    HEADER_BYTES,
    Header,
    Rest,
    decode,
    decode_header,
    encode,
    hashed,
    header_size,
    tag_hash,
)
from holdall.stores.swap import Held, Overtaken, Sent, Swaps
from holdall.stores.swap_store import Replace, SwapStore

__all__ = ["S3Store"]

_AT_ONCE: Final = 32
_PAGE: Final = 1000
# What is seen of a record is the whole of it here: so few are remembered.
_SEEN: Final = 16
# An index entry that no record names may be that of a write under way: only one older than any is left behind.
_LEFT_S: Final = 3600
_ABSENT: Final = ("NoSuchKey", "404")
_CHANGED: Final = ("PreconditionFailed", "ConditionalRequestConflict", "412", "409")
_LARGE_BYTES: Final = 2**20
_PREFIX_BYTES: Final = 512


class S3Store(SwapStore[Rest]):
    """Records in an S3 bucket, or one that keeps S3's conditional writes (If-None-Match, If-Match).

    Each write sends the whole record, so this is for records that are written seldom: archives, the coldest tier. Expiry goes
    by the clocks of the workers, which must agree; `sweep` frees what has ended. An object that was damaged is refused by its
    checksum. Every write carries an op_id, drawn if none is given, since HTTP clients repeat a PUT on their own.

    Args:
        bucket: It must exist; its default encryption and versioning are used as they are.
        prefix: Put before the names of all objects, such as "agents/".
        client: An aiobotocore client to use instead; it is not closed by `aclose`.
        put: More arguments for every `put_object`, such as {"StorageClass": "STANDARD_IA"}.
        now: The clock, Unix seconds.
        retention_s: How long a tombstone keeps fence and op_ids after a delete.
        timeout_s: For connecting and for each reply.
        max_connections: At most.
        connect: More arguments for `create_client`: region_name, endpoint_url, aws_access_key_id, ...
    """

    backend = BACKEND
    durability: Durability = "fsync"

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        client: Any | None = None,
        put: Mapping[str, Any] | None = None,
        now: Callable[[], float] = time.time,
        retention_s: float = rules.DEFAULT_RETENTION_S,
        timeout_s: float = 30.0,
        max_connections: int = 50,
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(bucket, str) or not bucket:
            raise ArgumentError("bucket must name a bucket")
        self._bucket = bucket
        self._prefix = keys.check_text("prefix", prefix, least=0, most=_PREFIX_BYTES)
        self._put_options = dict(put or {})
        self._now = now
        self._retention_s = rules.check_retention(retention_s)
        connect = dict(connect or {})
        config: dict[str, Any] = {
            # objects carry checksums of their own, which other services than AWS's keep too
            "request_checksum_calculation": "when_required",
            "response_checksum_validation": "when_required",
        }
        if "endpoint_url" in connect:
            config["s3"] = {"addressing_style": "path"}
        self._link = AwsLink(
            "s3",
            "S3Store",
            client=client,
            config=config,
            connect=connect,
            timeout_s=timeout_s,
            max_connections=max_connections,
        )
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._swaps: Swaps[Rest] = Swaps(BACKEND, failure_of, now, n_seen=_SEEN)

    def __repr__(self) -> str:
        return f"S3Store({self._bucket!r}, {self._prefix!r})"

    async def read(self, key: str, *, log_from: int = 0) -> Record | None:
        """Return the record, its log from entry `log_from` on, both of one version."""
        keys.check_key(key)
        keys.check_count("log_from", log_from)
        live = await self._live("read", key)
        if live is None:
            return None
        meta, rest = live
        entries = self._entries(key, meta, rest)[log_from:]
        return Record(
            key,
            Version(meta.generation, meta.number),
            rest.head,
            entries,
            meta.log_len,
            meta.expires_at,
            meta.tags,
        )

    async def read_log(self, key: str, *, kind: str | None, before: int | None = None, limit: int = 50) -> list[Entry]:
        """Return up to `limit` entries of one kind with seq < `before`, newest first."""
        keys.check_page(key, kind=kind, before=before, limit=limit)
        live = await self._live("read_log", key)
        if live is None:
            return []
        entries = self._entries(key, *live)[:before]
        return [entry for entry in reversed(entries) if kind in (None, entry.kind)][:limit]

    async def find(self, /, **tags: str) -> AsyncIterator[str]:
        """Yield the keys of live records that carry all these tags, up to 1000 per listing."""
        wanted = keys.check_tags(tags) or {}
        name, value = ("user_id", wanted["user_id"]) if "user_id" in wanted else next(iter(wanted.items()), ("", ""))
        listing = f"{self._prefix}t/{tag_hash(name, value)}/" if wanted else f"{self._prefix}r/"
        seen: set[str] = set()
        async with contextlib.aclosing(self._listed("find", listing)) as pages:
            async for page in pages:
                records = dict.fromkeys(_record_of(entry["Key"], listing) for entry in page)
                fresh = [record for record in records if record not in seen]
                seen.update(fresh)
                for header in await self._headers("find", fresh):
                    if header is not None and self._is_live(header.meta) and wanted.items() <= header.meta.tags.items():
                        yield header.key

    async def sweep(self) -> int:
        """Free what has expired and what was left behind; return how many records and tombstones that were.

        It reads the header of every record.
        """
        n = 0
        async with contextlib.aclosing(self._listed("sweep", f"{self._prefix}r/")) as pages:
            async for page in pages:
                headers = await self._headers(
                    "sweep", [_record_of(entry["Key"], f"{self._prefix}r/") for entry in page]
                )
                for entry, header in zip(page, headers, strict=True):
                    if header is not None and rules.known(header.meta, self._now()) is None:
                        n += await self._swaps.call(
                            "sweep",
                            lambda _sent, entry=entry, header=header: self._free(entry, header),  # type: ignore[misc]
                            is_repeatable=True,
                        )
        await self._free_entries()
        return n

    async def aclose(self) -> None:
        """Close the client; one that was given stays open."""
        await self._swaps.end()
        await self._link.close()

    def _writing(self, key: str, write: rules.Write) -> Replace[Rest]:
        added = pack(write.append)

        async def replace(held: Held[Rest], meta: rules.Meta, sent: Sent) -> Rest:
            kept = meta.log_len - len(write.append)
            return await self._replace(key, held, meta, sent, head=write.head, log=self._cut(key, held, kept) + added)

        return replace

    def _touching(self, key: str) -> Replace[Rest]:
        async def replace(held: Held[Rest], meta: rules.Meta, sent: Sent) -> Rest:
            if held.rest is None:
                raise Overtaken
            return await self._replace(key, held, meta, sent, head=held.rest.head, log=held.rest.log)

        return replace

    def _deleting(self, key: str) -> Replace[Rest]:
        return lambda held, meta, sent: self._replace(key, held, meta, sent, head=Blob("", b""), log=b"")

    def _op_id(self, op_id: str | None) -> str:
        return secrets.token_hex(12) if op_id is None else op_id

    def _name(self, key: str) -> str:
        return f"{self._prefix}r/{hashed(key)}"

    def _entry_names(self, key: str, tags: Mapping[str, str], word: str) -> list[str]:
        record = hashed(key)
        return [f"{self._prefix}t/{tag_hash(name, value)}/{record}-{word}" for name, value in tags.items()]

    def _is_live(self, meta: rules.Meta) -> bool:
        return rules.known(meta, self._now()) is not None and not meta.is_deleted

    async def _live(self, operation: str, key: str) -> tuple[rules.Meta, Rest] | None:
        held = await self._swaps.call(operation, lambda _sent: self._fetch(key), is_repeatable=True)
        self._swaps.see(key, held)
        if held.meta is None or held.rest is None or not self._is_live(held.meta):
            return None
        return held.meta, held.rest

    async def _fetch(self, key: str) -> Held[Rest]:
        found = await self._get(self._name(key))
        return Held(None, None) if found is None else Held(*decode(key, *found))

    async def _get(self, name: str, n_bytes: int | None = None) -> tuple[bytes, str] | None:
        """Return the bytes of an object, or its first ones, and its ETag; None where there is none."""
        span = {} if n_bytes is None else {"Range": f"bytes=0-{n_bytes - 1}"}
        try:
            reply = await self._link.request("get_object", Bucket=self._bucket, Key=name, **span)
        except ClientError as error:
            if code_of(error) in _ABSENT:
                return None
            if code_of(error) == "InvalidRange":
                # an object without a byte, which is no record
                return b"", ""
            raise
        async with reply["Body"] as stream:
            return await stream.read(), reply["ETag"]

    def _entries(self, key: str, meta: rules.Meta, rest: Rest) -> Sequence[Entry]:
        try:
            return unpack(rest.log, meta.log_len, seq=0)
        except ValueError as error:
            raise keys.not_ours(BACKEND, key, error) from error

    def _cut(self, key: str, held: Held[Rest], kept: int) -> bytes:
        """Return the log up to the entries that are kept."""
        if held.meta is None or held.rest is None or not kept:
            return b""
        if kept == held.meta.log_len:
            return held.rest.log
        try:
            return held.rest.log[: size_of(held.rest.log, kept)]
        except ValueError as error:
            raise keys.not_ours(BACKEND, key, error) from error

    async def _replace(
        self, key: str, held: Held[Rest], meta: rules.Meta, sent: Sent, *, head: Blob, log: bytes
    ) -> Rest:
        """Enter the record under its tags, put it if nobody did since, and take away the entries it no longer names."""
        old, before, word = held.rest, held.meta, secrets.token_hex(8)
        entry = "" if old is None else old.entry
        added: list[str] = []
        if not meta.tags:
            entry = ""
        elif before is None or before.tags != meta.tags or not entry:
            entry = word
            added = self._entry_names(key, meta.tags, word)
            await self._each(functools.partial(self._put, name, b"") for name in added)
        data = encode(key, meta, entry, head, log, rev=word)
        condition = {"IfNoneMatch": "*"} if old is None else {"IfMatch": old.etag}
        try:
            with sent:
                etag = await self._put(self._name(key), data, **condition)
        except Overtaken:
            await self._take_away(added)
            raise
        if before is not None and old is not None and old.entry and old.entry != entry:
            await self._take_away(self._entry_names(key, before.tags, old.entry))
        return Rest(etag, entry, head, log)

    async def _put(self, name: str, data: bytes, **condition: str) -> str:
        options = self._put_options if data else {}
        # aiohttp sends a file in pieces; bytes above a megabyte would hold up the loop
        body = data if len(data) < _LARGE_BYTES else io.BytesIO(data)
        try:
            reply = await self._link.request(
                "put_object", Bucket=self._bucket, Key=name, Body=body, **options, **condition
            )
        except ClientError as error:
            # a record that If-Match names and that is gone was swept since
            if condition and (code_of(error) in (*_CHANGED, *_ABSENT) or status_of(error) in (404, 409, 412)):
                raise Overtaken from None
            raise
        return str(reply["ETag"])

    async def _take_away(self, names: Sequence[str]) -> None:
        """Delete index entries, if that can be done: one that stays is checked by `find`, and freed by `sweep`."""
        try:
            await self._each(
                functools.partial(self._link.request, "delete_object", Bucket=self._bucket, Key=name) for name in names
            )
        except Exception as error:
            if failure_of(error) is None:
                raise

    async def _each(self, calls: Iterable[Callable[[], Awaitable[Any]]]) -> list[Any]:
        async def one(call: Callable[[], Awaitable[Any]]) -> Any:
            # made only where it is awaited: those that wait for a slot may be cancelled
            async with self._slots:
                return await call()

        return list(await asyncio.gather(*(one(call) for call in calls)))

    async def _listed(self, operation: str, prefix: str) -> AsyncGenerator[list[dict[str, Any]], None]:
        start: dict[str, str] = {}
        while True:
            page = await self._swaps.call(
                operation,
                lambda _sent, start=start: self._link.request(  # type: ignore[misc]
                    "list_objects_v2", Bucket=self._bucket, Prefix=prefix, MaxKeys=_PAGE, **start
                ),
                is_repeatable=True,
            )
            yield page.get("Contents", [])
            if not page.get("IsTruncated"):
                return
            start = {"ContinuationToken": page["NextContinuationToken"]}

    async def _headers(self, operation: str, records: Sequence[str]) -> list[Header | None]:
        """Return the headers of records by the hashes of their keys, None where there is none, or none of ours."""

        async def header(record: str) -> Header | None:
            name, n_bytes = f"{self._prefix}r/{record}", HEADER_BYTES
            while True:
                found = await self._get(name, n_bytes)
                if found is None:
                    return None
                try:
                    n_header = header_size(found[0])
                    if n_header <= len(found[0]):
                        return decode_header(found[0])
                except (ValueError, KeyError, TypeError):
                    return None
                if n_header <= n_bytes:
                    return None
                n_bytes = n_header

        return await self._swaps.call(
            operation,
            lambda _sent: self._each(functools.partial(header, record) for record in records),
            is_repeatable=True,
        )

    async def _free(self, entry: Mapping[str, Any], header: Header) -> int:
        """Delete the object of a record that has ended, if it is still the one that was listed."""
        try:
            await self._link.request("delete_object", Bucket=self._bucket, Key=entry["Key"], IfMatch=entry["ETag"])
        except ClientError as error:
            if code_of(error) in (*_CHANGED, *_ABSENT):
                return 0
            raise
        if header.entry:
            await self._take_away(self._entry_names(header.key, header.meta.tags, header.entry))
        return 1

    async def _free_entries(self) -> None:
        """Delete index entries that no record names and that are older than any write under way."""
        prefix = f"{self._prefix}t/"
        async with contextlib.aclosing(self._listed("sweep", prefix)) as pages:
            async for page in pages:
                # by the service's clock, as `LastModified` is
                old = [entry["Key"] for entry in page if time.time() - entry["LastModified"].timestamp() > _LEFT_S]
                records = [name.rpartition("/")[2].partition("-") for name in old]
                headers = await self._headers("sweep", [record for record, _, _ in records])
                await self._take_away(
                    [
                        name
                        for name, (_, _, word), header in zip(old, records, headers, strict=True)
                        if header is None or header.entry != word
                    ]
                )


def _record_of(name: str, listing: str) -> str:
    return name[len(listing) :].partition("-")[0]
