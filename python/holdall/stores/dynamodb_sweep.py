"""Free what has ended and what was left behind in the table of `DynamoStore`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdall.stores import dynamodb_items as items
from holdall.stores.aws_link import ClientError, code_of
from holdall.stores.dynamodb_items import Item
from holdall.stores.dynamodb_pieces import CONDITION_FAILED, DynamoPieces

# What was staged longer ago was left behind: no request is under way for that long.
_STAGED_MS: Final = 3600 * 1000


async def free(pieces: DynamoPieces, prefix: str, found: Sequence[Item], *, now: float) -> int:
    """Free, of a page of the table, the heads that have ended and what was left behind around others."""
    now_ms = int(now * 1000)
    n = 0
    for item in found:
        if item["sk"]["S"] == items.HEAD and "ends_ms" in item and int(item["ends_ms"]["N"]) <= now_ms:
            n += await _free_head(pieces, item)
    old = [item for item in found if int(item.get("staged_ms", {"N": now_ms})["N"]) < now_ms - _STAGED_MS]
    of = {
        (item["pk"]["S"], item["sk"]["S"]): (
            items.pk_of(prefix, item["id"]["S"]) if "entry" in item else item["pk"]["S"]
        )
        for item in old
    }
    heads = await pieces.heads(list(dict.fromkeys(of.values())), ("pk", "generation", "entry"))
    gone = []
    for item in old:
        head = heads.get(of[item["pk"]["S"], item["sk"]["S"]])
        name = "entry" if "entry" in item else "generation"
        if head is None or head.get(name) != item.get(name):
            gone.append({"DeleteRequest": {"Key": {"pk": item["pk"], "sk": item["sk"]}}})
    await pieces.take_away(gone)
    return n


async def _free_head(pieces: DynamoPieces, item: Item) -> int:
    try:
        await pieces.link.request(
            "delete_item",
            TableName=pieces.table,
            Key={"pk": item["pk"], "sk": item["sk"]},
            ConditionExpression="#rev = :seen",
            ExpressionAttributeNames={"#rev": "rev"},
            ExpressionAttributeValues={":seen": item["rev"]},
        )
    except ClientError as error:
        if code_of(error) != CONDITION_FAILED:
            raise
        return 0
    await pieces.clear(item["pk"]["S"], item["generation"]["S"])
    return 1
