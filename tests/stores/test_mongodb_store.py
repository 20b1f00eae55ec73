"""The MongoDB store keeps every claim, on an emulator (SecantusDB): no package brings a real server."""

from __future__ import annotations

import contextlib
import json
import secrets
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pymongo import AsyncMongoClient

from holdall.errors import ArgumentError, DecodeError, EncodeError, StoreUnavailableError
from holdall.stores.base import ABSENT, Blob, Entry, Store
from holdall.stores.mongodb import MongoStore
from holdall.testing import StoreConformance
from tests.servers.mongodb import Mongo

HEAD = Blob("msgpack", b"\x80")


@pytest.mark.mongodb
class TestMongoStore(StoreConformance):
    short_s = 60.0
    long_s = 6000.0

    @pytest.fixture(autouse=True)
    def _server(self, mongodb_server: Mongo) -> None:
        self.url = mongodb_server.url
        self.time = 1_700_000_000.0

    async def make_store(self) -> Store:
        return MongoStore(self.url, now=lambda: self.time)

    async def make_peer(self, store: Store) -> Store:
        return await self.make_store()

    async def advance(self, seconds: float) -> None:
        self.time += seconds


@pytest.fixture
async def database(mongodb_server: Mongo) -> AsyncIterator[Any]:
    """A database of the test's own, as people see it."""
    async with AsyncMongoClient(mongodb_server.url) as client:
        yield client.get_database(f"d_{secrets.token_hex(4)}")


@pytest.fixture
async def store(mongodb_server: Mongo, database: Any) -> AsyncIterator[MongoStore]:
    """A store in that database."""
    async with contextlib.aclosing(MongoStore(mongodb_server.url, database=database.name)) as opened:
        yield opened


@pytest.mark.mongodb
async def test_people_query_the_state(store: MongoStore, database: Any):
    """A JSON head is a value, its tags are indexed, and the log is a document per entry."""
    await store.write(
        "session-1",
        Blob("json", b'{"plan": ["a", "b"], "cost": 1.5}'),
        expected=ABSENT,
        ttl_s=60,
        append=[Entry("message", b"one"), Entry("step_result", b"two")],
        tags={"user_id": "u"},
    )
    found = await database.agent_sessions.find_one({"state.plan": "b", "state.cost": {"$gt": 1}})
    assert (found["_id"], found["version"]) == ("session-1", 1)
    entries = await database.agent_session_log.find({"_id": {"$regex": f"^{found['log']}"}}).sort("_id", 1).to_list()
    assert [(entry["kind"], entry["data"]) for entry in entries] == [("message", b"one"), ("step_result", b"two")]
    assert "tags_and_key" in await database.agent_sessions.index_information()


@pytest.mark.mongodb
@pytest.mark.parametrize(
    "text",
    [
        pytest.param('{"$ref": "#/$defs/x", "$id": "y"}', id="a reference of JSON schema"),
        pytest.param('{"a": {"$ref": 1}}', id="a reference within"),
        pytest.param('{"a": 1, "a": 2}', id="a name twice"),
        pytest.param(f'{{"n": {2**63}}}', id="an integer beyond 64 bits"),
        pytest.param("1e999", id="a number beyond a double"),
        pytest.param('"\\ud800"', id="a lone surrogate"),
        pytest.param('{"a\\u0000b": 1}', id="NUL in a name"),
        pytest.param("[" * 90 + "]" * 90, id="90 levels"),
    ],
)
async def test_json_that_bson_would_change_is_kept_as_bytes(store: MongoStore, text: str):
    """Equal bytes come back, beside no value."""
    await store.write("k", Blob("json", text.encode()), expected=ABSENT, ttl_s=None)
    record = await store.read("k")
    assert record is not None
    assert record.head == Blob("json", text.encode())


@pytest.mark.mongodb
@pytest.mark.parametrize(
    "text",
    [
        f'{{"n": [{2**63 - 1}, {-(2**63)}, {2**53 + 1}, 0, -0.0, 1.0, 1e16, 5e-324]}}',
        '{"": {"a.b": 1, "b$": 2}, "z": null, "a": "\\u0000\\n"}',
        "[]",
        '"text"',
        "null",
        "[" * 70 + "]" * 70,
    ],
)
async def test_json_comes_back_with_its_types(store: MongoStore, database: Any, text: str):
    """Stored as a value: integers stay integers, floats floats, and names in their order."""
    await store.write("k", Blob("json", text.encode()), expected=ABSENT, ttl_s=None)
    record = await store.read("k")
    assert record is not None
    assert repr(json.loads(record.head.data)) == repr(json.loads(text))
    assert "head" not in await database.agent_sessions.find_one()


@pytest.mark.mongodb
async def test_what_no_document_can_hold_is_refused(store: MongoStore):
    """17 MB in the head or in an entry: an EncodeError, and nothing is written."""
    large = b"x" * 17_000_000
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=None)
    with pytest.raises(EncodeError, match="16 MB"):
        await store.write("k", Blob("msgpack", large), expected=version, ttl_s=None)
    with pytest.raises(EncodeError, match="16 MB"):
        await store.write("k", HEAD, expected=version, ttl_s=None, append=[Entry("m", large)])
    record = await store.read("k")
    assert record is not None
    assert (record.version, record.log_len) == (version, 0)


@pytest.mark.mongodb
async def test_sweep_frees_records_with_their_logs(mongodb_server: Mongo, database: Any):
    """What has ended is unseen before the sweep and gone after it; what lives stays, tombstones for their retention."""
    time = 1_700_000_000.0
    store = MongoStore(mongodb_server.url, database=database.name, now=lambda: time, retention_s=500)
    added = [Entry("m", b"1"), Entry("m", b"2")]
    await store.write("ends", HEAD, expected=ABSENT, ttl_s=100, append=added, tags={"user_id": "u"})
    await store.write("stays", HEAD, expected=ABSENT, ttl_s=None, append=added, tags={"user_id": "u"})
    await store.write("deleted", HEAD, expected=ABSENT, ttl_s=None, append=added)
    await store.delete("deleted")
    time += 200
    assert await store.read("ends") is None
    assert [key async for key in store.find(user_id="u")] == ["stays"]
    assert await database.agent_sessions.count_documents({}) == 3
    assert (await store.sweep(), await store.sweep()) == (1, 0)
    assert await database.agent_session_log.count_documents({}) == 2
    time += 500
    assert await store.sweep() == 1
    assert [document["_id"] async for document in database.agent_sessions.find()] == ["stays"]
    await store.aclose()


@pytest.mark.mongodb
async def test_a_client_that_was_given_stays_open(mongodb_server: Mongo, database: Any):
    """It is used with plain documents, whatever it makes of them itself, and not closed."""
    store = MongoStore(client=database.client, database=database.name)
    await store.write("k", HEAD, expected=ABSENT, ttl_s=60)
    await store.aclose()
    assert await database.agent_sessions.count_documents({}) == 1
    with pytest.raises(ArgumentError, match="AsyncMongoClient"):
        MongoStore(client=object())
    with pytest.raises(ArgumentError, match="either"):
        MongoStore()


@pytest.mark.mongodb
async def test_what_is_no_record_is_said_to_be_none(store: MongoStore, database: Any):
    """A document of somebody else under the key is an error that says so, not a missing record."""
    await store.write("warm", HEAD, expected=ABSENT, ttl_s=None)
    await database.agent_sessions.insert_one({"_id": "k", "theirs": 1})
    with pytest.raises(DecodeError, match="no record"):
        await store.read("k")
    with pytest.raises(DecodeError, match="no record"):
        await store.write("k", HEAD, expected=None, ttl_s=None)


@pytest.mark.mongodb
async def test_a_log_that_lost_entries_is_no_shorter_log(store: MongoStore, database: Any):
    """Entries removed by hand are missed, not passed over."""
    await store.write("k", HEAD, expected=ABSENT, ttl_s=None, append=[Entry("m", b"1"), Entry("m", b"2")])
    await database.agent_session_log.delete_one({"data": b"1"})
    with pytest.raises(StoreUnavailableError, match="lacks entries"):
        await store.read("k")
