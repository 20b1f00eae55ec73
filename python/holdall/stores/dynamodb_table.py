"""The table below `DynamoStore`: two keys, capacity on demand, and a time to live."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from holdall.stores.aws_link import AwsLink, ClientError, code_of

_POLL_S: Final = 0.5
_POLLS: Final = 120
_ABSENT: Final = "ResourceNotFoundException"
_RACED: Final = "ResourceInUseException"


async def missing(link: AwsLink, table: str) -> list[str]:
    """Return what is not there yet, without changing anything."""
    try:
        await link.request("describe_table", TableName=table)
    except ClientError as error:
        if code_of(error) != _ABSENT:
            raise
        return [f"table {table}", f"time to live of {table}"]
    return [] if await _has_ttl(link, table) else [f"time to live of {table}"]


async def create_table(link: AwsLink, table: str) -> list[str]:
    """Make what is not there yet, also when several do at once; return what was due."""
    due = await missing(link, table)
    if len(due) > 1:
        try:
            await link.request(
                "create_table",
                TableName=table,
                AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
                KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
                BillingMode="PAY_PER_REQUEST",
            )
        except ClientError as error:
            if code_of(error) != _RACED:
                raise
    if due:
        await _active(link, table)
        try:
            await link.request(
                "update_time_to_live",
                TableName=table,
                TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"},
            )
        except ClientError as error:
            # another worker was first, which is as good; a table that lacks it later is found by the next start
            if code_of(error) != "ValidationException":
                raise
    return due


async def _active(link: AwsLink, table: str) -> None:
    for _ in range(_POLLS):
        reply: Any = await link.request("describe_table", TableName=table)
        if reply["Table"]["TableStatus"] == "ACTIVE":
            return
        await asyncio.sleep(_POLL_S)
    raise TimeoutError(f"the table {table} was not made in {_POLLS * _POLL_S:.0f} s")


async def _has_ttl(link: AwsLink, table: str) -> bool:
    reply: Any = await link.request("describe_time_to_live", TableName=table)
    return reply["TimeToLiveDescription"]["TimeToLiveStatus"] in ("ENABLED", "ENABLING")
