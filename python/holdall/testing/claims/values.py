"""What goes in comes out, and what cannot be stored is refused before anything is written."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

from holdall.errors import ArgumentError, ConflictError
from holdall.stores.base import ABSENT, Blob, Entry, Version
from holdall.testing.claims.base import HEAD, Claims, raised

_BYTES = (b"", b"\0", bytes(range(256)), b"\xff\xfe", b"'; DROP TABLE records; --", b"x" * 300_000)


class ValueClaims(Claims):
    """Bytes are opaque; arguments are checked; what is stored is what was there when the call was made."""

    async def test_head_bytes_are_opaque(self) -> None:
        """Any bytes, none included, come back as they went in, with their format."""
        async with self.opened() as store:
            for n, data in enumerate(_BYTES):
                key = self.key()
                await store.write(key, Blob(f"format-{n}", data), expected=ABSENT, ttl_s=None)
                assert (await self.there(store, key)).head == Blob(f"format-{n}", data)

    async def test_entry_bytes_are_opaque(self) -> None:
        """Any bytes under any kind come back as they went in."""
        async with self.opened() as store:
            key = self.key()
            kinds = ("message", "step_result", "a:b", "{k}", "quo'te\"", "new\nline", "é\U0001f600", "k" * 200)
            added = [Entry(kind, data) for kind in kinds for data in _BYTES[:-1]]
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=added)
            got = (await self.there(store, key)).entries
            assert [entry[:2] for entry in got] == [entry[:2] for entry in added]

    async def test_a_json_head_keeps_its_value(self) -> None:
        """A head of format "json" may be stored as a JSON value: its bytes may change, what they say does not."""
        async with self.opened() as store:
            key = self.key()
            value = {"b": [1, 2.5, None, True, {"": "é\U0001f600"}], "a": "text with 'quotes' and \\ and \n", "z": {}}
            await store.write(key, Blob("json", json.dumps(value).encode()), expected=ABSENT, ttl_s=None)
            head = (await self.there(store, key)).head
            assert head.format == "json"
            assert json.loads(head.data) == value

    async def test_a_head_may_change_its_format(self) -> None:
        """From JSON to binary and back; only the last is there."""
        async with self.opened() as store:
            key, version = self.key(), None
            for head in (Blob("json", b'{"n": 1}'), Blob("msgpack", b"\x01"), Blob("json", b'{"n": 2}')):
                version = await store.write(key, head, expected=version, ttl_s=None)
                got = (await self.there(store, key)).head
                assert got.format == head.format
                assert got.data == head.data or json.loads(got.data) == json.loads(head.data)

    async def test_tags_none_leaves_them_and_a_mapping_replaces_them(self) -> None:
        """None is not the empty mapping."""
        async with self.opened() as store:
            key = self.key()
            version = await store.write(
                key, HEAD, expected=ABSENT, ttl_s=None, tags={"user_id": "u", "status": "active"}
            )
            version = await store.write(key, HEAD, expected=version, ttl_s=None)
            assert dict((await self.there(store, key)).tags) == {"user_id": "u", "status": "active"}
            version = await store.write(key, HEAD, expected=version, ttl_s=None, tags={"status": "done"})
            assert dict((await self.there(store, key)).tags) == {"status": "done"}
            await store.write(key, HEAD, expected=version, ttl_s=None, tags={})
            assert dict((await self.there(store, key)).tags) == {}

    async def test_a_write_stores_what_was_there_when_it_was_called(self) -> None:
        """Buffers, lists and mappings that change while the write waits do not change what is stored."""
        async with self.opened() as store:
            key = self.key()
            data, entry, tags = bytearray(b"before"), bytearray(b"entry"), {"user_id": "before"}
            added = [Entry("message", entry)]  # type: ignore[arg-type]
            call = asyncio.ensure_future(
                store.write(key, Blob("msgpack", data), expected=ABSENT, ttl_s=None, append=added, tags=tags)  # type: ignore[arg-type]
            )
            await asyncio.sleep(0)
            data[:] = b"after!"
            entry[:] = b"ENTRY"
            added.append(Entry("message", b"late"))
            tags["user_id"] = "after"
            await call
            record = await self.there(store, key)
            assert record.head.data == b"before"
            assert [got.data for got in record.entries] == [b"entry"]
            assert dict(record.tags) == {"user_id": "before"}

    async def test_what_was_read_stays_as_it_was(self) -> None:
        """A record in hand is a snapshot: later writes do not change it."""
        async with self.opened() as store:
            key = self.key()
            version = await store.write(
                key, HEAD, expected=ABSENT, ttl_s=None, append=[Entry("message", b"a")], tags={"user_id": "u"}
            )
            record = await self.there(store, key)
            await store.write(
                key, HEAD, expected=version, ttl_s=None, append=[Entry("message", b"b")], keep=0, tags={"user_id": "v"}
            )
            assert record.version == version
            assert list(record.entries) == [Entry("message", b"a", 0)]
            assert dict(record.tags) == {"user_id": "u"}

    async def test_wrong_arguments_are_refused_before_anything_is_written(self) -> None:
        """Each is an `ArgumentError`, a ValueError, and the record is as it was."""
        wrong: list[dict[str, Any]] = [
            {"head": b"bytes"},
            {"head": Blob("msgpack", "text")},  # type: ignore[arg-type]
            {"head": Blob("", b"")},
            {"expected": 3},
            {"expected": ("a", 1)},
            {"expected": Version("g", -1)},
            {"append": [Entry("", b"")]},
            {"append": [Entry("message", "text")]},  # type: ignore[arg-type]
            {"append": [Entry("a\0b", b"")]},
            {"keep": -1},
            {"keep": 1.5},
            {"ttl_s": 0},
            {"ttl_s": -1},
            {"ttl_s": math.nan},
            {"ttl_s": math.inf},
            {"ttl_s": "60"},
            {"ttl_s": True},
            {"tags": {"": "v"}},
            {"tags": {"k": 3}},
            {"tags": {"k": "a\0b"}},
            {"tags": {"k": "\ud800"}},
            {"tags": {"k": "v" * 3000}},
            {"tags": [("k", "v")]},
            {"fence": -1},
            {"fence": 2**63},
            {"fence": 1.0},
            {"op_id": ""},
            {"op_id": "a\0b"},
            {"op_id": 7},
        ]
        async with self.opened() as store:
            key = self.key()
            version = await self.made(store, key)
            before = await self.there(store, key)
            for change in wrong:
                call = {"head": HEAD, "expected": version, "ttl_s": None} | change
                error = await raised(ArgumentError, store.write(key, **call))
                assert isinstance(error, ValueError)
            for read in ({"log_from": -1}, {"log_from": "0"}):
                await raised(ArgumentError, store.read(key, **read))
            for page in ({"limit": -1}, {"before": -1}, {"limit": None}):
                await raised(ArgumentError, store.read_log(key, kind=None, **page))
            await raised(ArgumentError, store.touch(key, 0))
            await raised(ArgumentError, store.delete(key, fence=-1))
            await raised(ArgumentError, store.delete(key, expected=ABSENT))  # type: ignore[arg-type]
            assert await self.there(store, key) == before

    async def test_a_bad_json_head_is_refused_or_kept_as_it_is(self) -> None:
        """A backend that stores JSON as values refuses what is not JSON with a ValueError; no other error, no other data."""
        async with self.opened() as store:
            for data in (b"", b"{", b'{"a": NaN}', b'"\\u0000"', b'"\\ud800"', b"\xff", b"\0", b"[" * 50_000):
                key = self.key()
                try:
                    await store.write(key, Blob("json", data), expected=ABSENT, ttl_s=None)
                except ConflictError as error:
                    raise AssertionError("nothing was there to conflict with") from error
                except ValueError:
                    assert await store.read(key) is None
                else:
                    assert (await self.there(store, key)).head == Blob("json", data)
