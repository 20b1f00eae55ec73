"""Records in DynamoDB: entries are staged, and one conditional write of the head makes them real."""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, Final

from holdall.errors import ArgumentError, TornRecordError
from holdall.stores import dynamodb_items as items
from holdall.stores import keys, rules
from holdall.stores.aws_link import AwsLink, ClientError, code_of, failure_of
from holdall.stores.base import Blob, Durability, Entry, Record, Version
from holdall.stores.dynamodb_items import Item, Rest
from holdall.stores.dynamodb_pieces import CONDITION_FAILED, DynamoPieces, Request, Torn
from holdall.stores.dynamodb_plan import Plan, with_head
from holdall.stores.dynamodb_sweep import free
from holdall.stores.dynamodb_table import create_table, missing
from holdall.stores.packed import pack, unpack
from holdall.stores.swap import Held, Overtaken, Sent, Swaps
from holdall.stores.swap_store import Replace, SwapStore

__all__ = ["DynamoStore"]

BACKEND: Final = "dynamodb"
TABLE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_READ_ATTEMPTS: Final = 20
_TAIL_ITEMS: Final = 20
_DECIDING: Final = (
    "rev",
    "generation",
    "version",
    "log_len",
    "tip",
    "body",
    "n_body",
    "entry",
    "until_ms",
    "tags",
    "ops",
    "is_deleted",
    "ends_ms",
    "fence",
)
_NEW: Final = Rest("", "", "", 0, "", 0)


class DynamoStore(SwapStore[Rest]):
    """Records in one DynamoDB table with the keys `pk` and `sk`, and the time to live attribute `ttl`.

    A write puts its entries as one item (in parts above 400 KB) and then the head, on the condition that nobody changed it: two
    requests, and one without entries. `TransactWriteItems` would cost twice the capacity for what the head's condition gives
    already. Reads are consistent. Expiry goes by the clocks of the workers, which must agree; DynamoDB frees what has ended by
    its time to live, and `sweep` what a worker that died left behind.

    Args:
        table: Its name; made on first use if missing, with capacity on demand.
        client: An aiobotocore client to use instead; it is not closed by `aclose`.
        prefix: Of all partition keys, so that several stores share a table.
        auto_create: Whether to make the table; else it must be there.
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
        table: str = "holdall",
        *,
        client: Any | None = None,
        prefix: str = "",
        auto_create: bool = True,
        now: Callable[[], float] = time.time,
        retention_s: float = rules.DEFAULT_RETENTION_S,
        timeout_s: float = 10.0,
        max_connections: int = 50,
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(table, str) or not TABLE_NAME.fullmatch(table):
            raise ArgumentError(f"table is {table!r}; allowed are 3 to 255 letters, digits and _.-")
        self._prefix = keys.check_text("prefix", prefix, least=0, most=keys.MAX_NAME_BYTES)
        self._now = now
        self._retention_s = rules.check_retention(retention_s)
        self._auto_create = auto_create
        self._is_ready = not auto_create
        self._link = AwsLink(
            "dynamodb",
            "DynamoStore",
            client=client,
            config={},
            connect=dict(connect or {}),
            timeout_s=timeout_s,
            max_connections=max_connections,
        )
        self._pieces = DynamoPieces(self._link, table, self._prefix)
        self._table = table
        self._swaps: Swaps[Rest] = Swaps(BACKEND, failure_of, now)

    def __repr__(self) -> str:
        return f"DynamoStore({self._table!r})"

    async def read(self, key: str, *, log_from: int = 0) -> Record | None:
        """Return the record, its log from entry `log_from` on, both of one version."""
        keys.check_key(key)
        keys.check_count("log_from", log_from)

        async def work(_sent: Sent) -> Record | None:
            await self._ready()
            pk = items.pk_of(self._prefix, key)
            for _ in range(_READ_ATTEMPTS):
                entries: list[Entry] = []
                async with contextlib.aclosing(
                    self._pieces.backwards(pk, limit=_TAIL_ITEMS if log_from else None)
                ) as found:
                    item = await anext(found, None)
                    live = None if item is None else self._live(key, item)
                    if item is None or live is None:
                        return None
                    meta, rest = live
                    try:
                        if log_from < meta.log_len:
                            async for start, some in self._entries(key, found, rest, meta.log_len):
                                entries[:0] = some[max(0, log_from - start) :]
                                if start <= log_from:
                                    break
                        head = items.blob_of(item, await self._pieces.body(pk, rest))
                    except Torn:
                        continue
                self._swaps.see(key, Held(meta, rest))
                version = Version(meta.generation, meta.number)
                return Record(key, version, head, entries, meta.log_len, meta.expires_at, meta.tags)
            raise _torn("read", key)

        return await self._swaps.call("read", work, is_repeatable=True)

    async def read_log(self, key: str, *, kind: str | None, before: int | None = None, limit: int = 50) -> list[Entry]:
        """Return up to `limit` entries of one kind with seq < `before`, newest first."""
        keys.check_page(key, kind=kind, before=before, limit=limit)

        async def work(_sent: Sent) -> list[Entry]:
            await self._ready()
            for _ in range(_READ_ATTEMPTS):
                found: list[Entry] = []
                async with contextlib.aclosing(
                    self._pieces.backwards(items.pk_of(self._prefix, key), limit=_TAIL_ITEMS)
                ) as pieces:
                    item = await anext(pieces, None)
                    live = None if item is None else self._live(key, item)
                    if live is None or not limit:
                        return []
                    meta, rest = live
                    end = meta.log_len if before is None else before
                    try:
                        async for _, some in self._entries(key, pieces, rest, meta.log_len):
                            found += [
                                entry for entry in reversed(some) if entry.seq < end and kind in (None, entry.kind)
                            ]
                            if len(found) >= limit:
                                break
                    except Torn:
                        continue
                return found[:limit]
            raise _torn("read_log", key)

        return await self._swaps.call("read_log", work, is_repeatable=True)

    async def find(self, /, **tags: str) -> AsyncIterator[str]:
        """Yield the keys of live records that carry all these tags, a page per call."""
        wanted = keys.check_tags(tags) or {}
        name, value = _leading(wanted)
        query = items.index_query(self._prefix, name, value) if wanted else items.scan_query(self._prefix)
        start: Request = {}
        seen: set[str] = set()
        while True:
            page = await self._swaps.call("find", lambda _sent, at=start: self._page(query | at), is_repeatable=True)  # type: ignore[misc]
            fresh = list(dict.fromkeys(item["id"]["S"] for item in page["Items"] if item["id"]["S"] not in seen))
            seen.update(fresh)
            for key in await self._swaps.call(
                "find",
                lambda _sent, fresh=fresh: self._carrying(fresh, wanted),  # type: ignore[misc]
                is_repeatable=True,
            ):
                yield key
            if "LastEvaluatedKey" not in page:
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    async def sweep(self) -> int:
        """Free what has expired and what was left behind; return how many records and tombstones that were.

        It reads the whole table; DynamoDB's time to live frees most of it without.
        """

        async def work(_sent: Sent) -> tuple[int, Request]:
            page = await self._page(items.sweep_query(self._prefix) | start)
            return await free(self._pieces, self._prefix, page["Items"], now=self._now()), page.get(
                "LastEvaluatedKey", {}
            )

        n, start = 0, Request()
        while True:
            n_freed, last = await self._swaps.call("sweep", work, is_repeatable=True)
            n += n_freed
            if not last:
                return n
            start = {"ExclusiveStartKey": last}

    async def migrate(self, *, dry_run: bool = False) -> list[str]:
        """Make the table and set its time to live; return what was done, or is due with `dry_run`."""

        async def work(_sent: Sent) -> list[str]:
            return await (missing if dry_run else create_table)(self._link, self._table)

        return await self._swaps.call("migrate", work, is_repeatable=True)

    async def aclose(self) -> None:
        """Close the client; one that was given stays open."""
        await self._swaps.end()
        await self._link.close()

    def _writing(self, key: str, write: rules.Write) -> Replace[Rest]:
        return lambda held, meta, sent: self._replace(key, held, meta, sent, head=write.head, append=write.append)

    def _touching(self, key: str) -> Replace[Rest]:
        return lambda held, meta, sent: self._replace(key, held, meta, sent, head=None, append=())

    def _deleting(self, key: str) -> Replace[Rest]:
        return lambda held, meta, sent: self._replace(key, held, meta, sent, head=Blob("", b""), append=())

    def _op_id(self, op_id: str | None) -> str | None:
        return secrets.token_hex(12) if op_id is None and self._link.has_driver_retries else op_id

    async def _ready(self) -> None:
        self._link.check_open()
        if not self._is_ready:
            await create_table(self._link, self._table)
            self._is_ready = True

    def _live(self, key: str, item: Item) -> tuple[rules.Meta, Rest] | None:
        """Return what a head says, None for one that has ended or was deleted, or for what is no head."""
        if item["sk"]["S"] != items.HEAD:
            return None
        meta, rest = items.held_of(key, item)
        return None if rules.known(meta, self._now()) is None or meta.is_deleted else (meta, rest)

    async def _entries(
        self, key: str, found: AsyncIterator[Item], rest: Rest, log_len: int
    ) -> AsyncIterator[tuple[int, Sequence[Entry]]]:
        """Yield the entries of each chunk with the number of the first, newest chunk first."""
        async for chunk in self._pieces.chunks(found, rest, log_len):
            try:
                yield chunk.start, unpack(chunk.data, chunk.end - chunk.start, seq=chunk.start)
            except ValueError as error:
                raise keys.not_ours(BACKEND, key, error) from error

    async def _fetch(self, key: str) -> Held[Rest]:
        await self._ready()
        reply = await self._link.request(
            "get_item",
            TableName=self._table,
            Key={"pk": {"S": items.pk_of(self._prefix, key)}, "sk": {"S": items.HEAD}},
            ConsistentRead=True,
            **items.projection(_DECIDING),
        )
        item = reply.get("Item")
        return Held(None, None) if item is None else Held(*items.held_of(key, item))

    async def _replace(
        self,
        key: str,
        held: Held[Rest],
        meta: rules.Meta,
        sent: Sent,
        *,
        head: Blob | None,
        append: Sequence[tuple[str, bytes]],
    ) -> Rest:
        """Stage what belongs to the new head, put the head if nobody did since, and take away what it no longer leads to."""
        await self._ready()
        old, before = held.rest, held.meta
        goes_on = before is not None and before.generation == meta.generation and not meta.is_deleted
        pk, word, now = items.pk_of(self._prefix, key), secrets.token_hex(8), self._now()
        rest = old if old is not None and goes_on else _NEW
        kept, plan = meta.log_len - len(append), Plan(self._pieces, pk, key)
        if before is not None and goes_on and kept < before.log_len:
            try:
                tip, left_out = await self._pieces.cut(pk, rest, before.log_len, kept)
            except Torn as error:
                raise Overtaken from error
            rest = rest._replace(tip=tip)
            for chunk in left_out:
                plan.drop_parts(items.CHUNKS, chunk.name, chunk.n_parts)
        is_covered = goes_on and items.is_covered(meta.expires_at, rest.until_ms)
        if not is_covered:
            rest = rest._replace(until_ms=items.lead_ms(meta.expires_at, now))
            if rest.tip or rest.body:
                await self._pieces.prolong(pk, rest.until_ms)
        rest = rest._replace(rev=word)
        plan.attributes = items.staged(meta.generation, now, rest.until_ms)
        if append:
            name = items.chunk_id(kept, word)
            plan.put_parts(items.CHUNKS, name, pack(append), {"before": {"S": rest.tip}})
            rest = rest._replace(tip=name)
        fields: Item = {}
        if head is not None:
            rest, fields = with_head(plan, rest, head, word)
        if not meta.tags:
            rest = rest._replace(entry="")
        elif not is_covered or before is None or before.tags != meta.tags:
            plan.put_entries(meta.tags, word)
            rest = rest._replace(entry=word)
        if before is not None and old is not None:
            plan.drop_old(before, old, rest, has_head=head is not None)
        await self._pieces.send(plan.puts)
        try:
            if head is None:
                operation, arguments = "update_item", items.head_update(pk, meta, rest)
            else:
                operation, arguments = "put_item", {"Item": items.head_item(pk, key, meta, rest, fields)}
            with sent:
                await self._swap(key, old, operation, arguments)
        except Overtaken:
            await self._pieces.take_away(plan.undo)
            raise
        await self._pieces.take_away(plan.after)
        if before is not None and not goes_on and (before.log_len or (old is not None and old.body)):
            await self._pieces.clear(pk, before.generation)
        return rest

    async def _swap(self, key: str, old: Rest | None, operation: str, arguments: Request) -> None:
        """Make one conditional request."""
        if old is None:
            arguments |= {"ConditionExpression": "attribute_not_exists(pk)"}
        else:
            arguments["ExpressionAttributeNames"] = arguments.get("ExpressionAttributeNames", {}) | {"#rev": "rev"}
            arguments["ExpressionAttributeValues"] = arguments.get("ExpressionAttributeValues", {}) | {
                ":seen": {"S": old.rev}
            }
            arguments |= {"ConditionExpression": "#rev = :seen"}
        try:
            await self._link.request(
                operation, TableName=self._table, ReturnValuesOnConditionCheckFailure="ALL_OLD", **arguments
            )
        except ClientError as error:
            if code_of(error) != CONDITION_FAILED:
                raise
            item = error.response.get("Item")
            raise Overtaken(Held(*items.held_of(key, item)) if item else Held(None, None)) from None

    async def _page(self, query: Request) -> Any:
        await self._ready()
        operation = "query" if "KeyConditionExpression" in query else "scan"
        return await self._link.request(operation, TableName=self._table, ConsistentRead=True, **query)

    async def _carrying(self, found: Sequence[str], wanted: Mapping[str, str]) -> list[str]:
        """Return those of the keys whose records live and carry the tags."""
        by_pk = {items.pk_of(self._prefix, key): key for key in found}
        heads = await self._pieces.heads(list(by_pk), ("pk", "sk", *_DECIDING))
        carrying = []
        for pk, key in by_pk.items():
            live = self._live(key, heads[pk]) if pk in heads else None
            if live is not None and wanted.items() <= live[0].tags.items():
                carrying.append(key)
        return carrying


def _leading(wanted: Mapping[str, str]) -> tuple[str, str]:
    """Return the tag whose entries are walked: the user's where there is one, since users are many."""
    if "user_id" in wanted:
        return "user_id", wanted["user_id"]
    return next(iter(wanted.items()), ("", ""))


def _torn(operation: str, key: str) -> TornRecordError:
    return TornRecordError(
        f"dynamodb {operation}: the log of {keys.shown(key)!r} lacks entries that its head names, or is cut all the time",
        backend=BACKEND,
        operation=operation,
        cause="log shorter than its head says",
        key=key,
    )
