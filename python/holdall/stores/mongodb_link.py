"""The client below `MongoStore`, its errors, and heads of JSON as BSON values."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import math
from typing import Any, Final
from urllib.parse import parse_qsl

from holdall.errors import ArgumentError, ClosedError
from holdall.stores.base import Blob
from holdall.stores.loop import HomeLoop
from holdall.stores.swap import Failure
from holdall.stores.urls import split_url, unreadable

try:
    from bson.codec_options import CodecOptions
    from pymongo import AsyncMongoClient, ReadPreference, WriteConcern, errors
    from pymongo.read_concern import ReadConcern
except ImportError as exc:
    raise ImportError("MongoStore needs an extra: pip install 'holdall[mongodb]'") from exc

BACKEND: Final = "mongodb"
JSON: Final = "json"
DATABASE: Final = "holdall"
# The server nests 100 levels, of which the document around the head takes a few.
_MOST_DEPTH: Final = 80
_WAITS: Final = ("serverSelectionTimeoutMS", "connectTimeoutMS", "socketTimeoutMS", "waitQueueTimeoutMS")
_INT64: Final = 2**63
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)
# Never sent, since no server or no connection was to be had.
_UNSENT: Final = (errors.ServerSelectionTimeoutError, errors.WaitQueueTimeoutError)
# Sent, and nobody knows: also a write that a majority did not confirm in time.
_LOST: Final = (
    errors.ConnectionFailure,
    errors.WTimeoutError,
    errors.WriteConcernError,
    errors.ExecutionTimeout,
    OSError,
    asyncio.TimeoutError,
)
# a key that is there by now; a conflict of transactions
_OVERTAKEN: Final = (11000, 112)
_TOO_LARGE: Final = 10334


def failure_of(error: Exception) -> Failure | None:
    """Say how an error of pymongo is to be read."""
    if isinstance(error, _UNSENT):
        return "unsent"
    if isinstance(error, _LOST):
        return "lost"
    return "refused" if isinstance(error, errors.PyMongoError) else None


def is_overtaken(error: BaseException) -> bool:
    """Whether another writer came first."""
    return isinstance(error, errors.OperationFailure) and error.code in _OVERTAKEN


def plain(error: errors.BulkWriteError) -> Exception:
    """Return the first of the errors of a bulk write without the document in it, which no message of ours may show."""
    first: dict[str, Any] = ((error.details or {}).get("writeErrors") or [{}])[0]
    said, code = str(first.get("errmsg", "a write failed")), first.get("code", error.code)
    if code == _TOO_LARGE:
        return errors.DocumentTooLarge(said)
    return errors.OperationFailure(said, code)


class MongoLink:
    """A client that is made on first use, in the loop of that use, with the driver's own retries off.

    A client that is passed in keeps its retries: the server itself knows a repeated write of one session and does it once.
    """

    def __init__(
        self,
        url: str | None,
        client: Any | None,
        *,
        database: str | None,
        prefix: str,
        timeout_s: float,
        connect: dict[str, Any],
    ) -> None:
        """Remember how to connect."""
        if (url is None) == (client is None):
            raise ArgumentError("give either a URL or a client")
        if client is not None and not isinstance(client, AsyncMongoClient):
            raise ArgumentError(f"client must be a pymongo AsyncMongoClient, not {type(client).__name__}")
        self._url = url
        self._client: AsyncMongoClient[dict[str, Any]] | None = client
        self._owns_client = client is None
        self._database = database
        self._prefix = prefix
        self._timeout_ms = math.ceil(timeout_s * 1000)
        self._connect = connect
        self._is_ready = False
        self._is_closed = False
        self._starting = asyncio.Lock()
        self._home = HomeLoop(BACKEND)

    async def ready(self) -> MongoLink:
        """Make the client and the index, once."""
        if self._is_closed:
            raise ClosedError("this MongoStore was closed; make a new one")
        self._follow_loop()
        if not self._is_ready:
            async with self._starting:
                if not self._is_ready:
                    await self._start()
        return self

    def _follow_loop(self) -> None:
        if self._owns_client and self._home.has_moved():
            self._client, self._is_ready, self._starting = None, False, asyncio.Lock()

    async def _start(self) -> None:
        if self._client is None:
            try:
                said = {name.lower() for name, _ in parse_qsl(split_url(str(self._url)).query)}
                # what the URL says of them would count for nothing beside an argument
                waits = {name: self._timeout_ms for name in _WAITS if name.lower() not in said}
                self._client = AsyncMongoClient(
                    self._url, retryWrites=False, retryReads=False, **{**waits, **self._connect}
                )
            except (ValueError, TypeError) as error:
                raise unreadable(str(self._url), error) from None
        database = (
            self._client.get_default_database(DATABASE)
            if self._database is None
            else self._client.get_database(self._database)
        )
        options: dict[str, Any] = {
            # documents as plain dicts, whatever the caller's client makes of them
            "codec_options": CodecOptions(document_class=dict, tz_aware=True),
            "write_concern": WriteConcern("majority", j=True),
            "read_concern": ReadConcern("majority"),
            "read_preference": ReadPreference.PRIMARY,
        }
        self.records = database.get_collection(f"{self._prefix}agent_sessions", **options)
        self.log = database.get_collection(f"{self._prefix}agent_session_log", **options)
        # of one tag, in order of key: a page of `find` starts where the last one ended
        await self.records.create_index([("tags", 1), ("_id", 1)], name="tags_and_key")
        await self.records.create_index([("expires_at", 1)], name="expiry", sparse=True)
        if self._is_closed:
            raise ClosedError("this MongoStore was closed; make a new one")
        self._is_ready = True

    @property
    def client(self) -> AsyncMongoClient[dict[str, Any]]:
        """The client of a link that is ready."""
        if self._client is None or self._is_closed:
            raise ClosedError("this MongoStore was closed; make a new one")
        return self._client

    async def close(self) -> None:
        """Close the client, if it is ours."""
        self._follow_loop()
        self._is_closed = True
        if self._owns_client and self._client is not None:
            await self._client.close()


def date_of(unix_s: float | None) -> dt.datetime | None:
    """Return a time as MongoDB holds it, in whole milliseconds, rounded up."""
    return None if unix_s is None else _EPOCH + dt.timedelta(milliseconds=math.ceil(unix_s * 1000))


def unix_of(date: dt.datetime | None) -> float | None:
    """Return Unix seconds."""
    return None if date is None else (date - _EPOCH) / dt.timedelta(seconds=1)


def head_fields(head: Blob) -> dict[str, Any]:
    """Return a head as fields: JSON as a value that can be queried, where BSON can hold it exactly; else its bytes."""
    if head.format == JSON:
        try:
            value = json.loads(head.data, object_pairs_hook=_exact, parse_constant=_refused)
            _check(value, 0)
        except (ValueError, RecursionError):
            pass
        else:
            return {"head_format": JSON, "state": value}
    return {"head_format": head.format, "head": head.data}


def head_of(document: dict[str, Any]) -> Blob:
    """Return the head that `head_fields` made fields of."""
    if "head" in document:
        return Blob(document["head_format"], bytes(document["head"]))
    return Blob(document["head_format"], json.dumps(document["state"], ensure_ascii=False).encode())


def _exact(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    # a name that begins with $ is read back as something else ({"$ref": ...}), and NUL ends a name
    if len(value) != len(pairs) or any(name.startswith("$") or "\0" in name for name in value):
        raise ValueError("BSON cannot hold these names")
    return value


def _refused(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")


def _check(value: Any, depth: int) -> None:
    if depth > _MOST_DEPTH:
        raise ValueError("nested deeper than BSON allows")
    if isinstance(value, dict):
        for name, item in value.items():
            name.encode()
            _check(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            _check(item, depth + 1)
    elif isinstance(value, str):
        value.encode()
    elif isinstance(value, int) and not -_INT64 <= value < _INT64:
        raise ValueError("an integer beyond 64 bits")
    elif isinstance(value, float) and math.isinf(value):
        raise ValueError("a number beyond a double")
