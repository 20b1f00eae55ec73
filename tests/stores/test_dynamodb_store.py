"""The DynamoDB store keeps every claim, on an emulator (moto, one request at a time): no package brings a real server."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from holdall.errors import ArgumentError, ConflictError, DecodeError, StoreUnavailableError
from holdall.stores.base import ABSENT, Blob, Entry, Store
from holdall.stores.dynamodb import DynamoStore
from holdall.stores.packed import pack
from holdall.testing import StoreConformance
from holdall.testing.claims.keys import HOSTILE
from tests.conftest import PROFILE
from tests.servers.aws import Aws

HEAD = Blob("msgpack", b"\x80")


@pytest.mark.dynamodb
class TestDynamoStore(StoreConformance):
    short_s = 60.0
    long_s = 6000.0
    has_table = False
    # moto and its client take 5 ms of processor time per request: three pages of 100, where others have three of 500
    many = 210
    if PROFILE != "full":
        hostile, writers, writes = HOSTILE[::4], 4, 6

    @pytest.fixture(autouse=True)
    async def _server(self, aws_server: Aws) -> AsyncIterator[None]:
        self.prefix = f"{secrets.token_hex(4)}/"
        self.time = 1_700_000_000.0
        # one client per claim, since each takes as long to make as three requests
        async with aws_server.client("dynamodb", retries=False) as self.client:
            yield

    async def make_store(self) -> Store:
        cls = type(self)
        made = DynamoStore(
            "conformance",
            client=self.client,
            prefix=self.prefix,
            auto_create=not cls.has_table,
            now=lambda: self.time,
        )
        if not cls.has_table:
            await made.read("makes the table")
            cls.has_table = True
        return made

    async def make_peer(self, store: Store) -> Store:
        return await self.make_store()

    async def advance(self, seconds: float) -> None:
        self.time += seconds


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def __call__(self) -> float:
        return self.time


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def table() -> str:
    return f"t-{secrets.token_hex(4)}"


@pytest.fixture
async def store(aws_server: Aws, table: str, clock: Clock) -> AsyncIterator[DynamoStore]:
    """A store in a table of the test's own."""
    made = DynamoStore(table, connect=aws_server.connect, now=clock, retention_s=500)
    async with contextlib.aclosing(made) as opened:
        yield opened


@pytest.fixture
async def rows(aws_server: Aws, table: str) -> AsyncIterator[Rows]:
    """What lies in that table."""
    async with aws_server.client("dynamodb") as client:
        yield Rows(client, table)


class Rows:
    """The table as somebody else sees it."""

    def __init__(self, client: Any, table: str) -> None:
        self.client, self.table = client, table

    async def all(self, family: str = "") -> list[Any]:
        """Items, of one family of sort keys."""
        found: list[Any] = []
        async for page in self.client.get_paginator("scan").paginate(TableName=self.table):
            found += page["Items"]
        return [item for item in found if item["sk"]["S"].startswith(family)]

    async def put(self, item: Any) -> None:
        await self.client.put_item(TableName=self.table, Item=item)

    async def delete(self, item: Any) -> None:
        await self.client.delete_item(TableName=self.table, Key={"pk": item["pk"], "sk": item["sk"]})


@pytest.mark.dynamodb
async def test_what_is_larger_than_an_item_lies_in_parts(store: DynamoStore, rows: Rows):
    """A head of 900 KB, an entry of 1 MB, two thousand small ones: no item above 400 KB, all of it comes back, and goes."""
    head, large = secrets.token_bytes(900_000), secrets.token_bytes(1_000_000)
    added = [Entry("m", b"%d" % n) for n in range(2000)]
    version = await store.write("k", Blob("b", head), expected=ABSENT, ttl_s=600, append=[*added, Entry("m", large)])
    await store.write("k", Blob("b", head + b"2"), expected=version, ttl_s=600, append=[Entry("step", b"last")])
    record = await store.read("k")
    assert record is not None
    assert record.head.data == head + b"2"
    assert [entry.data for entry in record.entries] == [*(entry.data for entry in added), large, b"last"]
    assert [entry.seq for entry in record.entries] == list(range(2002))
    tail = await store.read("k", log_from=2000)
    assert tail is not None
    assert [entry.data for entry in tail.entries] == [large, b"last"]
    assert [entry.seq for entry in await store.read_log("k", kind="m", before=3, limit=2)] == [2, 1]
    sizes = [
        sum(len(name) + len(str(next(iter(value.values())))) for name, value in item.items() if name != "data")
        + len(item.get("data", {"B": b""})["B"])
        for item in await rows.all()
    ]
    assert max(sizes) < 400 * 1024
    # the parts of the first head went with it
    assert len(await rows.all("b")) == 3
    await store.delete("k")
    assert [item["sk"]["S"] for item in await rows.all()] == ["~"]


@pytest.mark.dynamodb
async def test_a_cut_may_end_within_an_append(store: DynamoStore, rows: Rows):
    """The chunk stays, its tail no longer means anything; the chunks behind it go."""
    version = await store.write(
        "k", HEAD, expected=ABSENT, ttl_s=None, append=[Entry("m", b"%d" % n) for n in range(4)]
    )
    for n in (4, 5):
        version = await store.write("k", HEAD, expected=version, ttl_s=None, append=[Entry("m", b"%d" % n)])
    version = await store.write("k", HEAD, expected=version, ttl_s=None, keep=2, append=[Entry("m", b"two")])
    assert len(await rows.all("c")) == 2
    version = await store.write("k", HEAD, expected=version, ttl_s=None, append=[Entry("m", b"three")])
    record = await store.read("k")
    assert record is not None
    assert list(record.entries) == [Entry("m", data, n) for n, data in enumerate((b"0", b"1", b"two", b"three"))]
    await store.write("k", HEAD, expected=version, ttl_s=None, keep=1)
    record = await store.read("k")
    assert record is not None
    assert list(record.entries) == [Entry("m", b"0", 0)]
    assert len(await rows.all("c")) == 1


@pytest.mark.dynamodb
async def test_what_was_staged_and_lost_means_nothing(store: DynamoStore, rows: Rows, clock: Clock):
    """A worker that died before its head left entries and an index entry behind: nobody reads them, and sweep frees them."""
    version = await store.write(
        "k", HEAD, expected=ABSENT, ttl_s=None, append=[Entry("m", b"0")], tags={"user_id": "u"}
    )
    await store.write("k", HEAD, expected=version, ttl_s=None, append=[Entry("m", b"1")])
    first, second = sorted(await rows.all("c"), key=lambda item: item["sk"]["S"])
    (entry,) = [item for item in await rows.all() if item["pk"]["S"].startswith("t#")]
    for like, word in ((second, "0" * 16), (second, "f" * 16), (first, "f" * 16)):
        name = like["sk"]["S"].split("#")
        lie = {"data": {"B": pack([("m", b"lie")])}, "generation": {"S": "of no head"}}
        await rows.put({**like, "sk": {"S": f"{name[0]}#{word}#{name[2]}"}, **lie})
    await rows.put({**entry, "sk": {"S": f"{entry['sk']['S'].split('#')[0]}#{'f' * 16}"}, "entry": {"S": "f" * 16}})
    record = await store.read("k")
    assert record is not None
    assert [entry.data for entry in record.entries] == [b"0", b"1"]
    assert [entry.data for entry in await store.read_log("k", kind=None)] == [b"1", b"0"]
    assert [key async for key in store.find(user_id="u")] == ["k"]
    assert await store.sweep() == 0
    assert len(await rows.all()) == 8, "a write under way may still need what it staged"
    clock.time += 4000
    assert await store.sweep() == 0
    assert len(await rows.all()) == 4
    assert await store.read("k") == record


@pytest.mark.dynamodb
async def test_case_18_every_item_ends_with_its_record(store: DynamoStore, rows: Rows, clock: Clock):
    """All carry DynamoDB's time to live, none before the record's end, also after it was moved far out; without a ttl none do."""
    version = await store.write(
        "k", Blob("b", b"x" * 300_000), expected=ABSENT, ttl_s=60, append=[Entry("m", b"1")], tags={"user_id": "u"}
    )
    assert {len(await rows.all(family)) for family in ("b", "c", "~")} == {1}
    for ttl_s in (60, 600, 7 * 86400, 400 * 86400):
        await store.touch("k", ttl_s)
        ends = [int(item["ttl"]["N"]) for item in await rows.all() if item["pk"]["S"] != "k" and "pk" in item]
        assert len(ends) >= 4
        assert min(ends) >= clock.time + ttl_s
        (head,) = await rows.all("~")
        assert int(head["ttl"]["N"]) <= clock.time + ttl_s + 2
    await store.write("k", HEAD, expected=version, ttl_s=None)
    assert [item["sk"]["S"] for item in await rows.all() if "ttl" in item] == []


@pytest.mark.dynamodb
async def test_a_sliding_expiry_rewrites_the_log_seldom(store: DynamoStore, rows: Rows, clock: Clock):
    """An hour's life, moved on with each of many writes, touches no chunk for a day."""
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=3600, append=[Entry("m", b"0")], tags={"t": "v"})
    first = {item["sk"]["S"]: item["ttl"] for item in await rows.all() if item["sk"]["S"] != "~"}
    for _ in range(20):
        clock.time += 3500
        version = await store.write("k", HEAD, expected=version, ttl_s=3600)
    assert {item["sk"]["S"]: item["ttl"] for item in await rows.all() if item["sk"]["S"] != "~"} == first
    for _ in range(20):
        clock.time += 3500
        version = await store.write("k", HEAD, expected=version, ttl_s=3600)
    (chunk,) = await rows.all("c")
    assert int(chunk["ttl"]["N"]) > clock.time + 3600
    assert [key async for key in store.find(t="v")] == ["k"]


@pytest.mark.dynamodb
async def test_what_has_expired_is_not_read_before_dynamodb_deletes_it(store: DynamoStore, rows: Rows, clock: Clock):
    """Which takes it days: the item is there and the record is not; sweep frees it with all that is around it."""
    await store.write("k", HEAD, expected=ABSENT, ttl_s=60, append=[Entry("m", b"1")], tags={"user_id": "u"})
    clock.time += 61
    assert len(await rows.all()) == 3
    assert await store.read("k") is None
    assert await store.read_log("k", kind=None) == []
    assert [key async for key in store.find(user_id="u")] == [key async for key in store.find()] == []
    assert not await store.touch("k", 60)
    assert not await store.delete("k")
    clock.time += 4000
    assert (await store.sweep(), await store.sweep()) == (1, 0)
    assert await rows.all() == []


@pytest.mark.dynamodb
async def test_a_head_that_dynamodb_deleted_ends_its_record(store: DynamoStore, rows: Rows, clock: Clock):
    """Its time to live takes the head before the rest: what is left belongs to no later record of the key."""
    old = await store.write("k", HEAD, expected=ABSENT, ttl_s=60, append=[Entry("m", b"1")], tags={"user_id": "u"})
    (head,) = await rows.all("~")
    await rows.delete(head)
    clock.time += 61
    with pytest.raises(ConflictError):
        await store.write("k", HEAD, expected=old, ttl_s=60)
    new = await store.write("k", HEAD, expected=ABSENT, ttl_s=60, append=[Entry("m", b"2")])
    assert new.generation != old.generation
    record = await store.read("k")
    assert record is not None
    assert list(record.entries) == [Entry("m", b"2", 0)]
    assert [key async for key in store.find(user_id="u")] == []


@pytest.mark.dynamodb
async def test_a_chunk_that_is_missing_is_no_shorter_log(store: DynamoStore, rows: Rows):
    """Taken away by hand: an error that says so."""
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=None, append=[Entry("m", b"0")])
    await store.write("k", HEAD, expected=version, ttl_s=None, append=[Entry("m", b"1")])
    await rows.delete(min(await rows.all("c"), key=lambda item: item["sk"]["S"]))
    with pytest.raises(StoreUnavailableError, match="lacks entries"):
        await store.read("k")
    with pytest.raises(StoreUnavailableError, match="lacks entries"):
        await store.read_log("k", kind=None)
    assert (await store.read("k", log_from=1)) is not None


@pytest.mark.dynamodb
async def test_the_table_is_made_once_by_whoever_comes_first(aws_server: Aws, table: str):
    """Eight workers at once; `migrate` says what is due without doing it; without auto_create a missing table is an error."""
    stores = [DynamoStore(table, connect=aws_server.connect) for _ in range(8)]
    strict = DynamoStore(table, connect=aws_server.connect, auto_create=False)
    with pytest.raises(StoreUnavailableError, match="ResourceNotFound"):
        await strict.write("k", HEAD, expected=ABSENT, ttl_s=None)
    assert await stores[0].migrate(dry_run=True) == [f"table {table}", f"time to live of {table}"]
    await asyncio.gather(*(made.read("k") for made in stores))
    assert await stores[0].migrate() == []
    await strict.write("k", HEAD, expected=ABSENT, ttl_s=None)
    async with aws_server.client("dynamodb") as client:
        reply = await client.describe_time_to_live(TableName=table)
    assert reply["TimeToLiveDescription"] == {"TimeToLiveStatus": "ENABLED", "AttributeName": "ttl"}
    for made in (*stores, strict):
        await made.aclose()


@pytest.mark.dynamodb
async def test_prefixes_share_a_table(aws_server: Aws, table: str):
    """Neither finds, reads or sweeps the other's."""
    one, two = (DynamoStore(table, prefix=prefix, connect=aws_server.connect) for prefix in ("one/", "two/"))
    await one.write("k", HEAD, expected=ABSENT, ttl_s=None, tags={"user_id": "u"})
    assert await two.read("k") is None
    assert [key async for key in two.find(user_id="u")] == [key async for key in two.find()] == []
    assert [key async for key in one.find()] == ["k"]
    for made in (one, two):
        await made.aclose()


class Throttled:
    """A client whose service refuses every request a few times for want of capacity."""

    def __init__(self, client: Any, *, times: int) -> None:
        self._client, self._times, self.meta = client, times, client.meta
        self.n_refused = 0
        self._left: dict[str, int] = {}

    def __getattr__(self, operation: str) -> Any:
        async def call(**arguments: Any) -> Any:
            left = self._left.setdefault(operation, self._times)
            if left:
                self._left[operation] -= 1
                self.n_refused += 1
                said = {"Error": {"Code": "ThrottlingException", "Message": "slower"}}
                raise ClientError(said, operation)
            self._left[operation] = self._times
            return await getattr(self._client, operation)(**arguments)

        return call


@pytest.mark.dynamodb
async def test_a_service_that_lacks_capacity_is_asked_again(aws_server: Aws, table: str):
    """A few times; then it is unavailable, and nothing was written."""
    async with aws_server.client("dynamodb") as client:
        throttled = Throttled(client, times=2)
        store = DynamoStore(table, client=throttled)
        await store.write("k", HEAD, expected=ABSENT, ttl_s=None, append=[Entry("m", b"1")])
        assert (await store.read("k")) is not None
        assert throttled.n_refused >= 6
        hopeless = DynamoStore(table, client=Throttled(client, times=100))
        with pytest.raises(StoreUnavailableError, match="nothing was written"):
            await hopeless.write("k2", HEAD, expected=ABSENT, ttl_s=None)
        assert await store.read("k2") is None


@pytest.mark.dynamodb
async def test_a_client_that_was_given_stays_open(aws_server: Aws, table: str):
    """One that repeats requests by itself makes every write carry an op_id; one of another service is refused."""
    async with aws_server.client("dynamodb") as client, aws_server.client("s3") as other:
        store = DynamoStore(table, client=client)
        version = await store.write("k", HEAD, expected=ABSENT, ttl_s=None)
        await store.aclose()
        item = (await client.get_item(TableName=table, Key={"pk": {"S": "r#k"}, "sk": {"S": "~"}}))["Item"]
        assert item["ops"]["S"][24:40] == version.generation
        with pytest.raises(ArgumentError, match="s3"):
            DynamoStore(table, client=other)
    with pytest.raises(ArgumentError, match="table"):
        DynamoStore("a/b")


@pytest.mark.dynamodb
async def test_what_is_no_record_is_said_to_be_none(store: DynamoStore, rows: Rows):
    """An item of somebody else under the key is an error that says so, not a missing record."""
    await store.read("warm")
    await rows.put({"pk": {"S": "r#k"}, "sk": {"S": "~"}, "theirs": {"S": "x"}})
    with pytest.raises(DecodeError, match="no record"):
        await store.read("k")
    with pytest.raises(DecodeError, match="no record"):
        await store.write("k", HEAD, expected=None, ttl_s=None)
