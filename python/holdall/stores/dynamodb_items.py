"""How a record lies in a DynamoDB table: the items of its partition, and those of the index.

A record is one partition. Its head is the item with the highest sort key, so that a query from the end gives head and newest
entries at once. Entries lie in chunks, one per append, named by where they begin and by a word drawn for them; each names the
chunk before it, and the head names the last. What no head leads to was staged by a write that lost, or cut, and means
nothing. A head or a chunk that is larger than an item lies in parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from holdall.stores import keys, rules
from holdall.stores.base import Blob

Item = dict[str, dict[str, Any]]

# An item holds 400 KB, names and the decisive part of a head included.
PART_BYTES: Final = 360_000
HEAD: Final = "~"
CHUNKS: Final = "c"
BODIES: Final = "b"
# Guarantees are in milliseconds; what never ends stands for ever.
NEVER_MS: Final = 2**53
# A chunk or an index entry stands this much longer than its record, so that a sliding expiry rewrites it seldom.
_LEAST_LEAD_MS: Final = 24 * 3600 * 1000
# A partition key holds 2048 bytes: longer keys lie under their hash.
_MOST_PLAIN_BYTES: Final = 1024
_START_CHARS: Final = 16
# Heads that one request reads.
PAGE: Final = 100


class Rest(NamedTuple):
    """What a head carries beside what decides.

    Attributes:
        rev: Drawn for every change; what a conditional write names.
        tip: The last chunk of the log, "" for none.
        body: The parts of a head that is larger than an item, "" for none.
        n_body: How many.
        entry: The word in the names of its index entries, "" for none.
        until_ms: Until when its chunks, parts and index entries surely stand.
    """

    rev: str
    tip: str
    body: str
    n_body: int
    entry: str
    until_ms: int


def pk_of(prefix: str, key: str) -> str:
    """Return the partition of a record."""
    raw = key.encode()
    return (
        f"{prefix}r#{key}" if len(raw) <= _MOST_PLAIN_BYTES else f"{prefix}h#{blake2b(raw, digest_size=32).hexdigest()}"
    )


def lock_pk(prefix: str, name: str) -> str:
    """Return the partition of a lock."""
    return f"{prefix}l#{blake2b(name.encode(), digest_size=20).hexdigest()}"


def index_pk(prefix: str, name: str, value: str) -> str:
    """Return the partition of a tag."""
    return f"{prefix}t#{blake2b(f'{name}{chr(0)}{value}'.encode(), digest_size=20).hexdigest()}"


def index_sk(key: str, word: str) -> str:
    """Return the sort key of a record's entry under a tag."""
    return f"{blake2b(key.encode(), digest_size=20).hexdigest()}#{word}"


def chunk_id(start: int, word: str) -> str:
    """Return the name of a chunk, whose order is that of the log."""
    return f"{start:0{_START_CHARS}x}#{word}"


def start_of(chunk: str) -> int:
    """Return the number of a chunk's first entry."""
    return int(chunk[:_START_CHARS], 16)


def chunk_of(sk: str) -> tuple[str, int]:
    """Return the chunk and the part that a sort key names."""
    chunk, _, part = sk[len(CHUNKS) :].rpartition("#")
    return chunk, int(part, 16)


def part_sk(family: str, name: str, part: int) -> str:
    """Return the sort key of a part of a chunk or of a body."""
    return f"{family}{name}#{part:04x}"


def parts_of(data: bytes) -> list[bytes]:
    """Cut bytes into what fits an item each; at least one."""
    return [data[at : at + PART_BYTES] for at in range(0, len(data), PART_BYTES)] or [b""]


def lead_ms(expires_at: float | None, now: float) -> int:
    """Return until when what belongs to a record should stand, if it is written now."""
    if expires_at is None:
        return NEVER_MS
    return math.ceil(expires_at * 1000) + max(math.ceil((expires_at - now) * 1000), _LEAST_LEAD_MS)


def is_covered(expires_at: float | None, until_ms: int) -> bool:
    """Whether what stands until then outlasts the record."""
    return until_ms >= (NEVER_MS if expires_at is None else math.ceil(expires_at * 1000))


def ttl_of(until_ms: int) -> Item:
    """Return the attribute that DynamoDB's time to live goes by: whole seconds, never before the time."""
    return {} if until_ms >= NEVER_MS else {"ttl": {"N": str(until_ms // 1000 + 1)}}


def head_item(pk: str, key: str, meta: rules.Meta, rest: Rest, head: Mapping[str, Any]) -> Item:
    """Return the item of a record or of a tombstone."""
    item: Item = {
        "pk": {"S": pk},
        "sk": {"S": HEAD},
        "id": {"S": key},
        "rev": {"S": rest.rev},
        "generation": {"S": meta.generation},
        "version": {"N": str(meta.number)},
        "log_len": {"N": str(meta.log_len)},
        "tip": {"S": rest.tip},
        "body": {"S": rest.body},
        "n_body": {"N": str(rest.n_body)},
        "entry": {"S": rest.entry},
        "until_ms": {"N": str(rest.until_ms)},
        "tags": {"M": {name: {"S": value} for name, value in meta.tags.items()}},
        "ops": {"S": meta.ops},
        "is_deleted": {"BOOL": meta.is_deleted},
        **head,
    }
    if meta.fence is not None:
        item["fence"] = {"N": str(meta.fence)}
    return item | expiry(meta.expires_at)


def head_update(pk: str, meta: rules.Meta, rest: Rest) -> dict[str, Any]:
    """Return the update that changes what a touch changes, and leaves the head's bytes where they are."""
    change: Item = {
        "rev": {"S": rest.rev},
        "ops": {"S": meta.ops},
        "entry": {"S": rest.entry},
        "until_ms": {"N": str(rest.until_ms)},
        **expiry(meta.expires_at),
    }
    gone = [name for name in ("ends_ms", "ttl") if name not in change]
    update = "SET " + ", ".join(f"#{name} = :{name}" for name in change)
    return {
        "Key": {"pk": {"S": pk}, "sk": {"S": HEAD}},
        "UpdateExpression": update + (" REMOVE " + ", ".join(f"#{name}" for name in gone) if gone else ""),
        "ExpressionAttributeNames": {f"#{name}": name for name in (*change, *gone)},
        "ExpressionAttributeValues": {f":{name}": value for name, value in change.items()},
    }


def expiry(expires_at: float | None) -> Item:
    """Return the expiry of a head: in milliseconds for readers, in whole seconds for DynamoDB's time to live."""
    if expires_at is None:
        return {}
    ends_ms = math.ceil(expires_at * 1000)
    return {"ends_ms": {"N": str(ends_ms)}, **ttl_of(ends_ms)}


def held_of(key: str, item: Item) -> tuple[rules.Meta, Rest]:
    """Return what a head says.

    Raises:
        DecodeError: It is no head of holdall's.
    """
    try:
        ends = item.get("ends_ms")
        fence = item.get("fence")
        meta = rules.Meta(
            item["generation"]["S"],
            int(item["version"]["N"]),
            int(item["log_len"]["N"]),
            None if ends is None else int(ends["N"]) / 1000,
            {name: value["S"] for name, value in item["tags"]["M"].items()},
            None if fence is None else int(fence["N"]),
            item["ops"]["S"],
            item["is_deleted"]["BOOL"],
        )
        rest = Rest(
            item["rev"]["S"],
            item["tip"]["S"],
            item["body"]["S"],
            int(item["n_body"]["N"]),
            item["entry"]["S"],
            int(item["until_ms"]["N"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise keys.not_ours("dynamodb", key, error) from error
    return meta, rest


def blob_of(item: Item, data: bytes | None) -> Blob:
    """Return the head's bytes, its own or those of its parts."""
    return Blob(item["format"]["S"], bytes(item["data"]["B"]) if data is None else data)


def staged(generation: str, now: float, until_ms: int) -> Item:
    """Return the attributes of what is put before a head: whose it is, when it was put, until when it stands."""
    return {"generation": {"S": generation}, "staged_ms": {"N": str(int(now * 1000))}, **ttl_of(until_ms)}


def projection(names: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that ask for these attributes only."""
    return {
        "ProjectionExpression": ", ".join(f"#{name}" for name in names),
        "ExpressionAttributeNames": {f"#{name}": name for name in names},
    }


def index_query(prefix: str, name: str, value: str) -> dict[str, Any]:
    """Return the query for the entries under a tag, as many as one request reads the heads of."""
    return {
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": index_pk(prefix, name, value)}},
        "Limit": PAGE,
        **projection(["id"]),
    }


def scan_query(prefix: str) -> dict[str, Any]:
    """Return the scan for all heads."""
    only = projection(["id", "pk", "sk"])
    return only | {
        "FilterExpression": "begins_with(#pk, :prefix) AND #sk = :head",
        "ExpressionAttributeValues": {":prefix": {"S": prefix}, ":head": {"S": HEAD}},
    }


def sweep_query(prefix: str) -> dict[str, Any]:
    """Return the scan for all items, without what is large in them."""
    return projection(["pk", "sk", "id", "rev", "generation", "ends_ms", "staged_ms", "entry"]) | {
        "FilterExpression": "begins_with(#pk, :prefix)",
        "ExpressionAttributeValues": {":prefix": {"S": prefix}},
    }


def batches(items: Iterable[Any], size: int) -> Iterable[list[Any]]:
    """Yield lists of up to `size`."""
    batch: list[Any] = []
    for item in items:
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
