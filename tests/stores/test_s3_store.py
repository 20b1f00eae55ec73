"""The S3 store keeps every claim, on an emulator (moto, one request at a time): no package brings a real server."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdall.errors import ConflictError, DecodeError, StoreUnavailableError
from holdall.stores.base import ABSENT, Blob, Entry, Store
from holdall.stores.s3 import S3Store
from holdall.testing import StoreConformance
from holdall.testing.claims.keys import HOSTILE
from tests.conftest import PROFILE
from tests.servers.aws import Aws

HEAD = Blob("msgpack", b"\x80")


@pytest.mark.s3
class TestS3Store(StoreConformance):
    short_s = 60.0
    long_s = 6000.0
    # moto and its client take 5 ms of processor time per request
    if PROFILE != "full":
        hostile, writers, writes, many = HOSTILE[::4], 4, 6, 90

    @pytest.fixture(autouse=True)
    async def _server(self, aws_server: Aws, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
        self.bucket = f"conformance-{secrets.token_hex(4)}"
        self.time = 1_700_000_000.0
        monkeypatch.setattr("holdall.stores.s3._PAGE", 40)
        # one client per claim, since each takes as long to make as three requests
        async with aws_server.client("s3", retries=False) as self.client:
            await self.client.create_bucket(Bucket=self.bucket)
            yield

    async def make_store(self) -> Store:
        return S3Store(self.bucket, "a/b/", client=self.client, now=lambda: self.time)

    async def make_peer(self, store: Store) -> Store:
        return await self.make_store()

    async def advance(self, seconds: float) -> None:
        self.time += seconds


class Bucket:
    """A bucket of the test's own, as somebody else sees it."""

    def __init__(self, client: Any, name: str) -> None:
        self.client, self.name = client, name

    async def names(self, family: str = "") -> list[str]:
        """Names of objects."""
        found = await self.client.list_objects_v2(Bucket=self.name, Prefix=family)
        return [entry["Key"] for entry in found.get("Contents", [])]

    async def get(self, name: str) -> bytes:
        reply = await self.client.get_object(Bucket=self.name, Key=name)
        async with reply["Body"] as stream:
            data: bytes = await stream.read()
            return data

    async def put(self, name: str, data: bytes) -> None:
        await self.client.put_object(Bucket=self.name, Key=name, Body=data)


@pytest.fixture
async def bucket(aws_server: Aws) -> AsyncIterator[Bucket]:
    name = f"b-{secrets.token_hex(4)}"
    await aws_server.make_bucket(name)
    async with aws_server.client("s3") as client:
        yield Bucket(client, name)


@pytest.fixture
async def store(aws_server: Aws, bucket: Bucket) -> AsyncIterator[S3Store]:
    async with contextlib.aclosing(S3Store(bucket.name, connect=aws_server.connect)) as opened:
        yield opened


@pytest.mark.s3
async def test_a_damaged_object_is_refused(aws_server: Aws, store: S3Store, bucket: Bucket):
    """Whichever byte was changed, cut off or added: an error that says so, never other data, and never a missing record."""
    await store.write("k", Blob("b", b"head"), expected=ABSENT, ttl_s=None, append=[Entry("m", b"entry")])
    (name,) = await bucket.names("r/")
    right = await bucket.get(name)
    wrong = [right[:at] + bytes([right[at] ^ 1]) + right[at + 1 :] for at in range(0, len(right), 29)]
    wrong += [b"", right[:20], right[:-1], right + b"x", b"somebody else's"]
    for data in wrong:
        await bucket.put(name, data)
        with pytest.raises(DecodeError, match="no record"):
            await store.read("k")
        assert [key async for key in store.find()] in ([], ["k"])
    await bucket.put(name, right)
    record = await store.read("k")
    assert record is not None
    assert (record.head.data, record.entries[0].data) == (b"head", b"entry")
    # a record under another's name is none of it
    await store.write("other", HEAD, expected=ABSENT, ttl_s=None)
    (elsewhere,) = set(await bucket.names("r/")) - {name}
    await bucket.put(elsewhere, right)
    with pytest.raises(DecodeError, match="another key"):
        await store.read("other")


@pytest.mark.s3
async def test_a_record_of_megabytes_comes_back(store: S3Store):
    """Head and entries of any size are one object; a cut leaves the first entries as they were."""
    head, large = secrets.token_bytes(3_000_000), secrets.token_bytes(2_000_000)
    added = [Entry("m", b"%d" % n) for n in range(1000)]
    version = await store.write("k", Blob("b", head), expected=ABSENT, ttl_s=None, append=[*added, Entry("m", large)])
    record = await store.read("k", log_from=1000)
    assert record is not None
    assert record.head.data == head
    assert list(record.entries) == [Entry("m", large, 1000)]
    await store.write("k", HEAD, expected=version, ttl_s=None, keep=10, append=[Entry("m", b"new")])
    record = await store.read("k")
    assert record is not None
    assert [entry.data for entry in record.entries] == [*(entry.data for entry in added[:10]), b"new"]


@pytest.mark.s3
async def test_index_entries_are_those_of_the_record(store: S3Store, bucket: Bucket):
    """One per tag while it stays, none after; a header longer than one range is found all the same."""
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=None, tags={"user_id": "u", "status": "a"})
    entries = await bucket.names("t/")
    assert len(entries) == 2
    version = await store.write("k", HEAD, expected=version, ttl_s=None, append=[Entry("m", b"1")])
    assert await bucket.names("t/") == entries
    version = await store.write("k", HEAD, expected=version, ttl_s=None, tags={"user_id": "u"})
    assert len(await bucket.names("t/")) == 1
    many = {f"n{n}": "v" * 1000 for n in range(12)} | {"user_id": "u"}
    version = await store.write("k", HEAD, expected=version, ttl_s=None, tags=many)
    assert [key async for key in store.find(user_id="u", n3="v" * 1000)] == ["k"]
    with pytest.raises(ConflictError):
        await store.write("k", HEAD, expected=version._replace(number=1), ttl_s=None, tags={"x": "y"})
    assert len(await bucket.names("t/")) == 13
    await store.delete("k")
    assert await bucket.names("t/") == []


@pytest.mark.s3
async def test_sweep_frees_what_ended_and_what_was_left_behind(
    aws_server: Aws, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
):
    """Records and tombstones by their expiry; index entries that no record names only once they are old."""
    time = 1_700_000_000.0
    store = S3Store(bucket.name, connect=aws_server.connect, now=lambda: time, retention_s=500)
    await store.write("ends", HEAD, expected=ABSENT, ttl_s=100, append=[Entry("m", b"1")], tags={"user_id": "u"})
    await store.write("stays", HEAD, expected=ABSENT, ttl_s=None, tags={"user_id": "u"})
    await store.write("deleted", HEAD, expected=ABSENT, ttl_s=None)
    await store.delete("deleted")
    left = (await bucket.names("t/"))[0].rpartition("-")[0] + "-" + "f" * 16
    await bucket.put(left, b"")
    time += 101
    assert await store.read("ends") is None
    assert [key async for key in store.find(user_id="u")] == ["stays"]
    assert len(await bucket.names("r/")) == 3
    assert (await store.sweep(), await store.sweep()) == (1, 0)
    assert left in await bucket.names("t/"), "a write under way may still need it"
    monkeypatch.setattr("holdall.stores.s3._LEFT_S", -60)
    time += 500
    assert await store.sweep() == 1
    assert (len(await bucket.names("r/")), len(await bucket.names("t/"))) == (1, 1)
    assert [key async for key in store.find(user_id="u")] == ["stays"]
    await store.aclose()


@pytest.mark.s3
async def test_records_are_put_as_the_caller_says(aws_server: Aws, bucket: Bucket):
    """A storage class for the records; names under the prefix; a bucket that is missing is an error, not a missing record."""
    store = S3Store(bucket.name, "deep/", put={"StorageClass": "STANDARD_IA"}, connect=aws_server.connect)
    await store.write("k", HEAD, expected=ABSENT, ttl_s=None, tags={"user_id": "u"})
    (name,) = await bucket.names("deep/r/")
    assert (await bucket.client.head_object(Bucket=bucket.name, Key=name))["StorageClass"] == "STANDARD_IA"
    await store.aclose()
    async with contextlib.aclosing(S3Store("no-such-bucket", connect=aws_server.connect)) as wrong:
        for call in (wrong.read("k"), wrong.write("k", HEAD, expected=ABSENT, ttl_s=None), wrong.sweep()):
            with pytest.raises(StoreUnavailableError, match="NoSuchBucket"):
                await call


async def test_requests_that_wait_for_a_slot_are_not_made_when_their_call_is_cancelled():
    """Nor is one made and left: that would be reported as never awaited."""
    store = S3Store("bucket")
    store._slots = asyncio.Semaphore(1)
    made: list[int] = []

    async def request(n: int) -> None:
        made.append(n)
        await asyncio.Event().wait()

    calling = asyncio.ensure_future(store._each(functools.partial(request, n) for n in range(3)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    calling.cancel()
    await asyncio.wait({calling})
    assert made == [0]
