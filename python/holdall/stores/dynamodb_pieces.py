"""The items around a head: chunks of the log, parts of a large head, index entries. Put before it, taken away after it."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from holdall.errors import StoreUnavailableError
from holdall.stores import dynamodb_items as items
from holdall.stores.aws_link import AwsLink, ClientError, code_of, failure_of
from holdall.stores.dynamodb_items import Item, Rest

CONDITION_FAILED: Final = "ConditionalCheckFailedException"
_PUT_PER_BATCH: Final = 25
# As Base64 below the megabyte from which aiohttp warns that a request holds up the loop.
_BYTES_PER_BATCH: Final = 740_000
_GET_PER_BATCH: Final = 100
_BATCH_ATTEMPTS: Final = 8
_PROLONGED_AT_ONCE: Final = 16
_LEAST_WAIT_S: Final = 0.02
Request = dict[str, Any]


class Torn(Exception):  # noqa: N818 - no error: the record changed while it was read, which begins again
    """A chunk that a head leads to is not there."""


class Chunk(NamedTuple):
    """One append, as a head leads to it: its entries from `start` to `end` are part of the log."""

    name: str
    start: int
    end: int
    data: bytes
    n_parts: int


class DynamoPieces:
    """Reads and writes items other than heads.

    Args:
        link: To the service.
        table: Its name.
        prefix: Of all partition keys.
    """

    def __init__(self, link: AwsLink, table: str, prefix: str) -> None:
        self.link = link
        self.table = table
        self._prefix = prefix

    async def pages(self, operation: str = "query", **arguments: Any) -> AsyncGenerator[list[Item], None]:
        """Yield the pages of a query or a scan, read consistently."""
        start: Request = {}
        while True:
            page = await self.link.request(operation, TableName=self.table, ConsistentRead=True, **arguments, **start)
            yield page["Items"]
            if "LastEvaluatedKey" not in page:
                return
            start = {"ExclusiveStartKey": page["LastEvaluatedKey"]}

    async def backwards(
        self, pk: str, *, limit: int | None = None, names: Sequence[str] = ()
    ) -> AsyncGenerator[Item, None]:
        """Yield the items of a record from the end: its head, then its chunks, newest first."""
        arguments: Request = {
            "KeyConditionExpression": "#pk = :pk AND #sk >= :low",
            "ExpressionAttributeNames": {"#pk": "pk", "#sk": "sk"},
            "ExpressionAttributeValues": {":pk": {"S": pk}, ":low": {"S": items.CHUNKS}},
            "ScanIndexForward": False,
        }
        if limit is not None:
            arguments["Limit"] = limit
        if names:
            arguments["ProjectionExpression"] = ", ".join(f"#{name}" for name in names)
            arguments["ExpressionAttributeNames"] |= {f"#{name}": name for name in names}
        async for page in self.pages(**arguments):
            for item in page:
                yield item

    async def chunks(self, found: AsyncIterator[Item], rest: Rest, log_len: int) -> AsyncGenerator[Chunk, None]:
        """Yield the chunks that a head leads to, newest first, out of the items of its partition.

        Raises:
            Torn: One is missing.
        """
        wanted, end = rest.tip, log_len
        parts: list[bytes] = []
        if not wanted:
            return
        async for item in found:
            sk = item["sk"]["S"]
            if sk == items.HEAD:
                continue
            chunk, part = items.chunk_of(sk)
            if chunk > wanted:
                continue
            if chunk < wanted:
                break
            parts.append(bytes(item["data"]["B"]) if "data" in item else b"")
            n_parts = int(item["n_parts"]["N"])
            if part:
                continue
            if len(parts) != n_parts:
                break
            start = items.start_of(chunk)
            yield Chunk(chunk, start, end, b"".join(reversed(parts)), n_parts)
            wanted, end, parts = item["before"]["S"], start, []
            if not wanted:
                return
        raise Torn

    async def cut(self, pk: str, rest: Rest, log_len: int, kept: int) -> tuple[str, list[Chunk]]:
        """Return the chunk that holds entry `kept` - 1, and the chunks behind it, which a cut leaves out."""
        left_out: list[Chunk] = []
        found = self.backwards(pk, names=("sk", "n_parts", "before"))
        async for chunk in self.chunks(found, rest, log_len):
            if chunk.start < kept:
                return chunk.name, left_out
            left_out.append(chunk)
        return "", left_out

    async def body(self, pk: str, rest: Rest) -> bytes | None:
        """Return a head that lies in parts, None for one that lies in its own item.

        Raises:
            Torn: A part is missing.
        """
        if not rest.body:
            return None
        parts: list[bytes] = []
        async for page in self.pages(
            KeyConditionExpression="#pk = :pk AND begins_with(#sk, :name)",
            ExpressionAttributeNames={"#pk": "pk", "#sk": "sk"},
            ExpressionAttributeValues={":pk": {"S": pk}, ":name": {"S": f"{items.BODIES}{rest.body}#"}},
        ):
            parts += [bytes(item["data"]["B"]) for item in page]
        if len(parts) != rest.n_body:
            raise Torn
        return b"".join(parts)

    def put_parts(self, pk: str, family: str, name: str, data: bytes, attributes: Item) -> list[Request]:
        """Return the requests that put bytes as a chunk or as a body."""
        parts = items.parts_of(data)
        return [
            {
                "PutRequest": {
                    "Item": {
                        "pk": {"S": pk},
                        "sk": {"S": items.part_sk(family, name, n)},
                        "data": {"B": part},
                        "n_parts": {"N": str(len(parts))},
                        **attributes,
                    }
                }
            }
            for n, part in enumerate(parts)
        ]

    def put_entries(self, key: str, tags: Mapping[str, str], word: str, attributes: Item) -> list[Request]:
        """Return the requests that enter a record under its tags."""
        return [
            {
                "PutRequest": {
                    "Item": {
                        "pk": {"S": items.index_pk(self._prefix, name, value)},
                        "sk": {"S": items.index_sk(key, word)},
                        "id": {"S": key},
                        "entry": {"S": word},
                        **attributes,
                    }
                }
            }
            for name, value in tags.items()
        ]

    def drop_entries(self, key: str, tags: Mapping[str, str], word: str) -> list[Request]:
        """Return the requests that take a record out from under its tags."""
        return [
            _delete(items.index_pk(self._prefix, name, value), items.index_sk(key, word))
            for name, value in tags.items()
        ]

    def drop_parts(self, pk: str, family: str, name: str, n_parts: int) -> list[Request]:
        """Return the requests that take away a chunk or a body."""
        return [_delete(pk, items.part_sk(family, name, n)) for n in range(n_parts)]

    async def send(self, requests: Iterable[Request]) -> None:
        """Put and delete, 25 items to a request, those that are refused for want of capacity again.

        Raises:
            StoreUnavailableError: Some were refused again and again.
        """
        for batch in _batches(requests):
            left = batch
            for attempt in range(_BATCH_ATTEMPTS):
                reply = await self.link.request("batch_write_item", RequestItems={self.table: left})
                left = reply.get("UnprocessedItems", {}).get(self.table, [])
                if not left:
                    break
                await _wait(attempt)
            else:
                raise _no_capacity("write")

    async def take_away(self, requests: Sequence[Request]) -> None:
        """Delete what means nothing any more, if it can be: what stays behind is never read, and freed by `sweep`."""
        try:
            await self.send(requests)
        except StoreUnavailableError:
            return
        except Exception as error:
            if failure_of(error) is None:
                raise

    async def clear(self, pk: str, generation: str) -> None:
        """Take away the chunks and parts of a generation that has ended, if that can be done."""
        with contextlib.suppress(StoreUnavailableError):
            try:
                gone = [
                    _delete(pk, item["sk"]["S"])
                    async for item in self._all_pieces(pk)
                    if item.get("generation", {}).get("S") == generation
                ]
                await self.send(gone)
            except Exception as error:
                if failure_of(error) is None:
                    raise

    async def prolong(self, pk: str, until_ms: int) -> None:
        """Let all chunks and parts of a record stand until then."""
        ttl = items.ttl_of(until_ms)
        slots = asyncio.Semaphore(_PROLONGED_AT_ONCE)

        async def one(sk: str) -> None:
            async with slots:
                try:
                    await self.link.request(
                        "update_item",
                        TableName=self.table,
                        Key={"pk": {"S": pk}, "sk": {"S": sk}},
                        UpdateExpression="SET #ttl = :ttl" if ttl else "REMOVE #ttl",
                        ConditionExpression="attribute_exists(#pk)",
                        ExpressionAttributeNames={"#pk": "pk", "#ttl": "ttl"},
                        **({"ExpressionAttributeValues": {":ttl": ttl["ttl"]}} if ttl else {}),
                    )
                except ClientError as error:
                    # taken away since: by a cut, which this change will meet
                    if code_of(error) != CONDITION_FAILED:
                        raise

        await asyncio.gather(*[one(item["sk"]["S"]) async for item in self._all_pieces(pk)])

    async def heads(self, wanted: Sequence[str], names: Sequence[str]) -> dict[str, Item]:
        """Return the heads of partitions, by partition."""
        found: dict[str, Item] = {}
        for batch in items.batches(wanted, _GET_PER_BATCH):
            left: Request = {
                self.table: {
                    "Keys": [{"pk": {"S": pk}, "sk": {"S": items.HEAD}} for pk in batch],
                    "ConsistentRead": True,
                    "ProjectionExpression": ", ".join(f"#{name}" for name in names),
                    "ExpressionAttributeNames": {f"#{name}": name for name in names},
                }
            }
            for attempt in range(_BATCH_ATTEMPTS):
                reply = await self.link.request("batch_get_item", RequestItems=left)
                found |= {item["pk"]["S"]: item for item in reply["Responses"].get(self.table, [])}
                left = reply.get("UnprocessedKeys", {})
                if not left:
                    break
                await _wait(attempt)
            else:
                raise _no_capacity("find")
        return found

    async def _all_pieces(self, pk: str) -> AsyncGenerator[Item, None]:
        async for page in self.pages(
            KeyConditionExpression="#pk = :pk AND #sk < :head",
            ExpressionAttributeNames={"#pk": "pk", "#sk": "sk", "#generation": "generation"},
            ExpressionAttributeValues={":pk": {"S": pk}, ":head": {"S": items.HEAD}},
            ProjectionExpression="#sk, #generation",
        ):
            for item in page:
                yield item


def _batches(requests: Iterable[Request]) -> Iterable[list[Request]]:
    """Yield lists of as many requests as one request takes, by number and by size."""
    batch: list[Request] = []
    n_bytes = 0
    for request in requests:
        size = len(request.get("PutRequest", {}).get("Item", {}).get("data", {"B": b""})["B"])
        if batch and (len(batch) == _PUT_PER_BATCH or n_bytes + size > _BYTES_PER_BATCH):
            yield batch
            batch, n_bytes = [], 0
        batch.append(request)
        n_bytes += size
    if batch:
        yield batch


def _delete(pk: str, sk: str) -> Request:
    return {"DeleteRequest": {"Key": {"pk": {"S": pk}, "sk": {"S": sk}}}}


async def _wait(attempt: int) -> None:
    await asyncio.sleep(random.uniform(0, _LEAST_WAIT_S * 2**attempt))  # noqa: S311 - jitter, not a secret


def _no_capacity(operation: str) -> StoreUnavailableError:
    return StoreUnavailableError(
        f"dynamodb {operation}: the table lacks capacity: nothing was written; try again later",
        backend="dynamodb",
        operation=operation,
        cause="unprocessed items",
    )
