"""Records in MongoDB: the version in the filter of one update, the log in a collection of its own."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from pymongo import errors

from holdall.errors import ArgumentError, EncodeError, TornRecordError
from holdall.stores import keys, rules
from holdall.stores.base import Durability, Entry, Record, Version
from holdall.stores.mongodb_link import (
    BACKEND,
    MongoLink,
    date_of,
    failure_of,
    head_fields,
    head_of,
    is_overtaken,
    plain,
    unix_of,
)
from holdall.stores.swap import Held, Overtaken, Sent, Swaps
from holdall.stores.swap_store import Replace, SwapStore

__all__ = ["MongoStore"]

_PAGE = 500
_SWEPT_PER_CALL = 500
_SEQ_CHARS = 11
# A reader that meets a cut of the log reads again; more often only while others cut without a pause.
_READ_ATTEMPTS = 20
_DECIDING = {"state": 0, "head": 0}


class _Rest(NamedTuple):
    """What a document carries beside what decides."""

    rev: str
    log: str
    # rises with every cut: an entry of a later epoch than its head is of a later version
    epoch: int


class MongoStore(SwapStore[_Rest]):
    """Records in MongoDB, on a replica set (one node is enough): appends need transactions.

    A head of format "json" is stored as a value, so that people can query `agent_sessions`; the log lies in
    `agent_session_log`, one document per entry, `_id` being the field `log` of the record and the number of the entry in hex.
    Writes wait for a majority and its journal. Expiry goes by the clocks of the workers, which must agree; what has ended is
    freed by `sweep`, for which there is no TTL index: it would free a record without its log.

    A worker that is killed within an append's transaction keeps others from writing that record until the server ends the
    transaction (`transactionLifetimeLimitSeconds`, 60 s unless set): until then they raise `StoreUnavailableError`, and read.

    Args:
        url: `mongodb://user:password@host:port,host:port/database`, `mongodb+srv://`; None if a client is given. Without a
            database it is "holdall".
        client: A pymongo `AsyncMongoClient` to use instead; it is not closed by `aclose`.
        database: Which one, if not the URL's.
        prefix: Put before the names of the collections.
        now: The clock, Unix seconds.
        retention_s: How long a tombstone keeps fence and op_ids after a delete.
        timeout_s: For connecting and for each reply.
        connect: More arguments for `AsyncMongoClient`, such as tlsCAFile.
    """

    backend = BACKEND
    durability: Durability = "fsync"

    def __init__(
        self,
        url: str | None = None,
        *,
        client: Any | None = None,
        database: str | None = None,
        prefix: str = "",
        now: Callable[[], float] = time.time,
        retention_s: float = rules.DEFAULT_RETENTION_S,
        timeout_s: float = 30.0,
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(prefix, str) or "\0" in prefix or "$" in prefix:
            raise ArgumentError(f"prefix is {prefix!r}; the name of a collection has neither $ nor NUL")
        self._now = now
        self._retention_s = rules.check_retention(retention_s)
        self._link = MongoLink(
            url, client, database=database, prefix=prefix, timeout_s=timeout_s, connect=dict(connect or {})
        )
        self._swaps: Swaps[_Rest] = Swaps(BACKEND, failure_of, now, is_shielded=True)

    async def read(self, key: str, *, log_from: int = 0) -> Record | None:
        """Return the record, its log from entry `log_from` on, both of one version."""
        keys.check_key(key)
        keys.check_count("log_from", log_from)

        async def work(_sent: Sent) -> Record | None:
            for _ in range(_READ_ATTEMPTS):
                document = await self._document(key)
                if document is None:
                    return None
                meta, rest = _held(key, document)
                self._swaps.see(key, Held(meta, rest))
                if rules.known(meta, self._now()) is None or meta.is_deleted:
                    return None
                entries = await self._entries(rest, log_from, meta.log_len)
                if entries is not None:
                    version = Version(meta.generation, meta.number)
                    head = head_of(document)
                    return Record(key, version, head, entries, meta.log_len, meta.expires_at, meta.tags)
            raise _torn("read", key)

        return await self._swaps.call("read", work, is_repeatable=True)

    async def read_log(self, key: str, *, kind: str | None, before: int | None = None, limit: int = 50) -> list[Entry]:
        """Return up to `limit` entries of one kind with seq < `before`, newest first."""
        keys.check_page(key, kind=kind, before=before, limit=limit)

        async def work(_sent: Sent) -> list[Entry]:
            for _ in range(_READ_ATTEMPTS):
                document = await self._document(key, _DECIDING)
                if document is None:
                    return []
                meta, rest = _held(key, document)
                if rules.known(meta, self._now()) is None or meta.is_deleted or limit == 0:
                    return []
                end = meta.log_len if before is None else min(before, meta.log_len)
                wanted = {} if kind is None else {"kind": kind}
                cursor = self._link.log.find(_span(rest.log, 0, end) | wanted).sort("_id", -1).limit(limit)
                found = await cursor.to_list()
                if kind is None and len(found) < min(limit, end):
                    continue
                if all(entry["epoch"] <= rest.epoch for entry in found):
                    return [_entry(entry) for entry in found]
            raise _torn("read_log", key)

        return await self._swaps.call("read_log", work, is_repeatable=True)

    async def find(self, /, **tags: str) -> AsyncIterator[str]:
        """Yield the keys of live records that carry all these tags, a page per call."""
        wanted = keys.check_tags(tags) or {}
        last = ""
        while True:
            page = await self._swaps.call("find", lambda _sent, last=last: self._page(wanted, last), is_repeatable=True)  # type: ignore[misc]
            for key in page:
                yield key
            if len(page) < _PAGE:
                return
            last = page[-1]

    async def sweep(self) -> int:
        """Free what has expired; return how many records and tombstones that were. Reads never see them either way."""
        total = 0
        while True:
            n = await self._swaps.call("sweep", self._sweep, is_repeatable=True)
            total += n
            if not n:
                return total

    async def aclose(self) -> None:
        """Close the client; one that was given stays open."""
        await self._swaps.end()
        await self._link.close()

    def _writing(self, key: str, write: rules.Write) -> Replace[_Rest]:
        fields = head_fields(write.head)

        async def replace(held: Held[_Rest], meta: rules.Meta, sent: Sent) -> _Rest:
            try:
                return await self._replace(key, held, meta, sent, head=fields, append=write.append)
            except errors.DocumentTooLarge as error:
                raise EncodeError(
                    f"mongodb write: a head or an entry is larger than a document of 16 MB: {error}",
                    path="$",
                    reason=str(error),
                ) from error

        return replace

    def _touching(self, key: str) -> Replace[_Rest]:
        async def replace(held: Held[_Rest], meta: rules.Meta, sent: Sent) -> _Rest:
            rest = _known(held)
            rev = secrets.token_hex(8)
            change = {"$set": {"rev": rev, "ops": meta.ops, "expires_at": date_of(meta.expires_at)}}
            with sent:
                result = await self._link.records.update_one({"_id": key, "rev": rest.rev}, change)
                if not result.matched_count:
                    raise Overtaken
            return rest._replace(rev=rev)

        return replace

    def _deleting(self, key: str) -> Replace[_Rest]:
        return lambda held, meta, sent: self._replace(key, held, meta, sent, head={}, append=())

    async def _document(self, key: str, fields: Mapping[str, int] | None = None) -> dict[str, Any] | None:
        await self._link.ready()
        found: dict[str, Any] | None = await self._link.records.find_one({"_id": key}, fields)
        return found

    async def _fetch(self, key: str) -> Held[_Rest]:
        document = await self._document(key, _DECIDING)
        return Held(None, None) if document is None else Held(*_held(key, document))

    async def _entries(self, rest: _Rest, start: int, end: int) -> list[Entry] | None:
        """Return the entries of a version, None if the log was cut since."""
        if start >= end:
            return []
        found = await self._link.log.find(_span(rest.log, start, end)).sort("_id", 1).to_list()
        if len(found) != end - start or any(entry["epoch"] > rest.epoch for entry in found):
            return None
        return [_entry(entry) for entry in found]

    async def _replace(
        self,
        key: str,
        held: Held[_Rest],
        meta: rules.Meta,
        sent: Sent,
        *,
        head: Mapping[str, Any],
        append: Sequence[tuple[str, bytes]],
    ) -> _Rest:
        await self._link.ready()
        old, kept = held.rest, meta.log_len - len(append)
        old_len = 0 if held.meta is None else held.meta.log_len
        # the log of an ended generation is not gone on with
        goes_on = held.meta is not None and held.meta.generation == meta.generation and not meta.is_deleted
        if old is not None and goes_on:
            cut = _span(old.log, kept, old_len) if kept < old_len else None
            rest = _Rest(secrets.token_hex(8), old.log, old.epoch + (cut is not None))
        else:
            cut = None if old is None or not old_len else _span(old.log, 0, old_len)
            rest = _Rest(secrets.token_hex(8), secrets.token_hex(12), 0)
        document = {"_id": key, **_fields(meta, rest), **head}
        if cut is None and not append:
            with sent:
                await self._put(key, old, document, None)
            return rest
        entries = [
            {"_id": _entry_id(rest.log, kept + n), "kind": kind, "data": data, "epoch": rest.epoch}
            for n, (kind, data) in enumerate(append)
        ]
        async with self._link.client.start_session() as session:
            await session.start_transaction(write_concern=self._link.records.write_concern)
            try:
                await self._put(key, old, document, session)
                if cut is not None:
                    await self._link.log.delete_many(cut, session=session)
                if entries:
                    try:
                        await self._link.log.insert_many(entries, session=session)
                    except errors.BulkWriteError as error:
                        raise plain(error) from None
            except BaseException as error:
                # a transaction left open would keep others waiting until the server ends it
                with contextlib.suppress(errors.PyMongoError):
                    await session.abort_transaction()
                if is_overtaken(error):
                    raise Overtaken from error
                raise
            with sent:
                try:
                    await session.commit_transaction()
                except errors.OperationFailure as error:
                    if is_overtaken(error):
                        raise Overtaken from error
                    raise
        return rest

    async def _put(self, key: str, old: _Rest | None, document: dict[str, Any], session: Any) -> None:
        """Put a document in place of the revision that was read, or where there was none."""
        try:
            if old is None:
                await self._link.records.insert_one(document, session=session)
                return
            result = await self._link.records.replace_one({"_id": key, "rev": old.rev}, document, session=session)
        except errors.OperationFailure as error:
            if is_overtaken(error):
                raise Overtaken from error
            raise
        if not result.matched_count:
            raise Overtaken

    async def _page(self, wanted: Mapping[str, str], last: str) -> list[str]:
        await self._link.ready()
        query: dict[str, Any] = {
            "_id": {"$gt": last},
            "is_deleted": False,
            "$or": [{"expires_at": None}, {"expires_at": {"$gt": date_of(self._now())}}],
        }
        if wanted:
            query["tags"] = {"$all": _tags(wanted)}
        page = await self._link.records.find(query, {"_id": 1}).sort("_id", 1).limit(_PAGE).to_list()
        return [document["_id"] for document in page]

    async def _sweep(self, _sent: Sent) -> int:
        await self._link.ready()
        ended = {"expires_at": {"$lte": date_of(self._now())}}
        page = await self._link.records.find(ended, {"rev": 1, "log": 1, "log_len": 1}).limit(_SWEPT_PER_CALL).to_list()
        n = 0
        for document in page:
            # by its revision: a record that was begun anew since is another one, with another log
            result = await self._link.records.delete_one({"_id": document["_id"], "rev": document["rev"]})
            if result.deleted_count:
                await self._link.log.delete_many(_span(document["log"], 0, document["log_len"]))
                n += 1
        return n


def _fields(meta: rules.Meta, rest: _Rest) -> dict[str, Any]:
    return {
        "rev": rest.rev,
        "generation": meta.generation,
        "version": meta.number,
        "expires_at": date_of(meta.expires_at),
        "tags": _tags(meta.tags),
        "log": rest.log,
        "log_len": meta.log_len,
        "epoch": rest.epoch,
        "fence": meta.fence,
        "ops": meta.ops,
        "is_deleted": meta.is_deleted,
    }


def _held(key: str, document: dict[str, Any]) -> tuple[rules.Meta, _Rest]:
    try:
        meta = rules.Meta(
            document["generation"],
            document["version"],
            document["log_len"],
            unix_of(document["expires_at"]),
            {tag["name"]: tag["value"] for tag in document["tags"]},
            document["fence"],
            document["ops"],
            document["is_deleted"],
        )
        return meta, _Rest(document["rev"], document["log"], document["epoch"])
    except (KeyError, TypeError) as error:
        raise keys.not_ours(BACKEND, key, error) from error


def _known(held: Held[_Rest]) -> _Rest:
    if held.rest is None:
        raise Overtaken
    return held.rest


def _tags(tags: Mapping[str, str]) -> list[dict[str, str]]:
    # documents of two fields in one order, so that the index on `tags` compares them whole
    return [{"name": name, "value": value} for name, value in tags.items()]


def _entry_id(log: str, seq: int) -> str:
    return f"{log}{seq:0{_SEQ_CHARS}x}"


def _span(log: str, start: int, end: int) -> dict[str, Any]:
    return {"_id": {"$gte": _entry_id(log, start), "$lt": _entry_id(log, end)}}


def _entry(document: dict[str, Any]) -> Entry:
    return Entry(document["kind"], bytes(document["data"]), int(document["_id"][-_SEQ_CHARS:], 16))


def _torn(operation: str, key: str) -> TornRecordError:
    return TornRecordError(
        f"mongodb {operation}: the log of {keys.shown(key)!r} lacks entries that its record names, or is cut all the time",
        backend=BACKEND,
        operation=operation,
        cause="log shorter than its record says",
        key=key,
    )
