"""A lock service on DynamoDB: one item per name, every step a conditional write, and no clock but the caller's own."""

from __future__ import annotations

import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from holdall.errors import ArgumentError
from holdall.stores import dynamodb_items as items
from holdall.stores import keys
from holdall.stores.aws_link import AwsLink, ClientError, code_of, failure_of
from holdall.stores.dynamodb import BACKEND, TABLE_NAME
from holdall.stores.dynamodb_pieces import CONDITION_FAILED, Request
from holdall.stores.dynamodb_table import create_table
from holdall.stores.swap import Sent, Swaps

_SORT_KEY: Final = "lock"
# A lock that nobody gave back is freed by the table's time to live this long after its lease.
_LEFT_S: Final = 24 * 3600
# Names whose holders are watched, and leases of our own.
_WATCHED: Final = 4096


class _Watched(NamedTuple):
    """A lease of somebody else, and since when it has not changed."""

    beat: str
    since: float


class DynamoLock:
    """Leases in a DynamoDB table, which may be the one of the records.

    DynamoDB has no clock that a condition could ask, and clocks of workers differ. So nobody compares them: each grant and each
    extension draws a new word, and whoever wants the name takes it once the same word has stood there, under its own eyes, for
    as long as the lease lasts. A holder that died is therefore waited for from when it is first seen, and asking once
    (`wait_s=0`) never takes its lock.

    Args:
        table: As of `holdall.stores.dynamodb.DynamoStore`.
        client: An aiobotocore client to use instead; it is not closed by `aclose`.
        prefix: Of all partition keys.
        auto_create: Whether to make the table; else it must be there.
        clock: Monotonic seconds; for tests.
        timeout_s: For connecting and for each reply.
        max_connections: At most.
        connect: More arguments for `create_client`: region_name, endpoint_url, ...
    """

    backend = BACKEND

    def __init__(
        self,
        table: str = "holdall",
        *,
        client: Any | None = None,
        prefix: str = "",
        auto_create: bool = True,
        clock: Callable[[], float] = time.monotonic,
        timeout_s: float = 10.0,
        max_connections: int = 50,
        connect: Mapping[str, Any] | None = None,
    ) -> None:
        if not isinstance(table, str) or not TABLE_NAME.fullmatch(table):
            raise ArgumentError(f"table is {table!r}; allowed are 3 to 255 letters, digits and _.-")
        self._table = table
        self._prefix = keys.check_text("prefix", prefix, least=0, most=keys.MAX_NAME_BYTES)
        self._clock = clock
        self._is_ready = not auto_create
        self._link = AwsLink(
            "dynamodb",
            "DynamoLock",
            client=client,
            config={},
            connect=dict(connect or {}),
            timeout_s=timeout_s,
            max_connections=max_connections,
        )
        self._swaps: Swaps[None] = Swaps(BACKEND, failure_of, time.time)
        self._watched: OrderedDict[str, _Watched] = OrderedDict()
        # when leases that were granted here end at the earliest
        self._ends: OrderedDict[tuple[str, str], float] = OrderedDict()

    async def acquire(self, name: str, token: str, ttl_s: float) -> bool:
        """Take the name for `ttl_s` seconds from now; False where another token holds it."""
        condition = "attribute_not_exists(#pk) OR #token = :token"
        there = await self._put("lock_acquire", name, token, ttl_s, condition=condition)
        if there is not None:
            beat, lease_s = there.get("beat", {}).get("S", ""), int(there.get("lease_ms", {}).get("N", "0")) / 1000
            seen = self._watched.get(name)
            now = self._clock()
            if seen is None or seen.beat != beat:
                _remember(self._watched, name, _Watched(beat, now))
                return False
            if now - seen.since < lease_s:
                return False
            there = await self._put(
                "lock_acquire", name, token, ttl_s, condition="#beat = :beat", values={":beat": {"S": beat}}
            )
        if there is None:
            self._watched.pop(name, None)
        return there is None

    async def extend(self, name: str, token: str, ttl_s: float) -> bool:
        """Let the lease end `ttl_s` seconds from now; False where this token does not hold the name."""
        ends = self._ends.get((name, token))
        if ends is not None and ends <= self._clock():
            return False
        return await self._put("lock_extend", name, token, ttl_s, condition="#token = :token") is None

    async def release(self, name: str, token: str) -> bool:
        """Give the name back; False where this token does not hold it."""
        self._ends.pop((name, token), None)
        arguments = {
            "Key": self._key(name),
            "ConditionExpression": "#token = :token",
            "ExpressionAttributeNames": {"#token": "token"},
            "ExpressionAttributeValues": {":token": {"S": token}},
        }
        return await self._step("lock_release", "delete_item", arguments) is None

    async def aclose(self) -> None:
        """Close the client; one that was given stays open."""
        await self._link.close()

    def _key(self, name: str) -> items.Item:
        return {"pk": {"S": items.lock_pk(self._prefix, keys.check_key(name))}, "sk": {"S": _SORT_KEY}}

    async def _put(
        self,
        operation: str,
        name: str,
        token: str,
        ttl_s: float,
        *,
        condition: str,
        values: Mapping[str, Any] | None = None,
    ) -> items.Item | None:
        """Put the lock under this token if the condition holds; return None, or what is there instead."""
        asked = self._clock()
        # down, and never 0: a lease may end early and not late
        lease_ms = max(1, math.floor(ttl_s * 1000))
        item = {
            **self._key(name),
            "token": {"S": token},
            "beat": {"S": secrets.token_hex(12)},
            "lease_ms": {"N": str(lease_ms)},
            **items.ttl_of(math.ceil((time.time() + ttl_s + _LEFT_S) * 1000)),
        }
        arguments: Request = {"Item": item, "ConditionExpression": condition}
        used = {f"#{word}": word for word in ("pk", "token", "beat") if f"#{word}" in condition}
        arguments["ExpressionAttributeNames"] = used
        arguments["ExpressionAttributeValues"] = {
            **({":token": {"S": token}} if ":token" in condition else {}),
            **(values or {}),
        }
        there = await self._step(operation, "put_item", arguments)
        if there is None:
            _remember(self._ends, (name, token), asked + lease_ms / 1000)
        return there

    async def _step(self, operation: str, request: str, arguments: Request) -> items.Item | None:
        """Make one conditional request; return None, or what is there where its condition does not hold."""

        async def work(_sent: Sent) -> items.Item | None:
            self._link.check_open()
            if not self._is_ready:
                await create_table(self._link, self._table)
                self._is_ready = True
            try:
                await self._link.request(
                    request, TableName=self._table, ReturnValuesOnConditionCheckFailure="ALL_OLD", **arguments
                )
            except ClientError as error:
                if code_of(error) != CONDITION_FAILED:
                    raise
                there: items.Item = error.response.get("Item", {})
                if there.get("beat") == arguments.get("Item", {}).get("beat", ""):
                    # the first copy of this very request was in its way
                    return None
                return there
            return None

        # all may be repeated: the token says whose the name is, and the word which request was done
        return await self._swaps.call(operation, work, is_repeatable=True)


def _remember(kept: OrderedDict[Any, Any], name: Any, value: Any) -> None:
    kept[name] = value
    kept.move_to_end(name)
    while len(kept) > _WATCHED:
        kept.popitem(last=False)
