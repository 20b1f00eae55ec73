"""Keys are opaque: any text up to 4096 bytes, and no two of them meet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdall.errors import ArgumentError
from holdall.stores.base import ABSENT, Blob, Entry
from holdall.testing.claims.base import HEAD, Claims, found, raised

HOSTILE = (
    "a:b", "a::b", "a/b", "a.b", "a-b", "a#b", "a@b", "a b", " a", "a ", "a*", "*", "?", "[a]", "[a-z]", "{a}", "{a", "a}", "}{",
    "{}", "{}a", "a{b}c{d}", "'", '"', "''", "a'b", 'a"b', "`", "\\", "\\n", "\n", "\r\n", "\t", "%", "%25", "%s", "_", "$1", "?1",
    ":name", ";", "--", "/*", "a') OR 1=1 --", "é", "e\u0301", "E", "e", "ß", "\U0001f600", "\u202e", "\x7f", "\x01", "None", "null",
    "0", "00", "-1", "a:h", "a:l", "..", "../a", "~",
)  # fmt: skip


class KeyClaims(Claims):
    """No separator, quote, brace or length makes one record reach another."""

    hostile: Sequence[str] = HOSTILE

    async def test_hostile_keys_do_not_meet(self) -> None:
        """Each holds its own head, log and tags, and is found, touched and deleted alone."""
        async with self.opened() as store:
            mark = self.key("mark")
            # behind one prefix, so that keys that differ by a separator stand beside each other; and bare braces in front
            keys = [f"{mark}{text}" for text in self.hostile] + [f"{text}{mark}" for text in self.hostile]
            for key in keys:
                await store.write(
                    key,
                    Blob("msgpack", key.encode()),
                    expected=ABSENT,
                    ttl_s=self.long_s,
                    append=[Entry("message", key.encode())],
                    tags={"mark": mark, "key": key[:200]},
                )
            assert sorted(await found(store, mark=mark)) == sorted(keys)
            for key in keys:
                record = await self.there(store, key)
                assert record.key == key
                assert record.head.data == key.encode()
                assert [entry.data for entry in record.entries] == [key.encode()]
            for n, key in enumerate(keys):
                if n % 2:
                    assert await store.delete(key)
            assert sorted(await found(store, mark=mark)) == sorted(keys[::2])
            for n, key in enumerate(keys):
                assert (await store.read(key) is None) == bool(n % 2)
                assert await store.touch(key, self.long_s) == (n % 2 == 0)

    async def test_keys_of_4096_bytes(self) -> None:
        """The longest key works, and its last byte counts."""
        async with self.opened() as store:
            mark = self.key("long")
            # hard to compress, so that an index that compresses does not hide its limit
            body = "".join(chr(0x4E00 + (n * n * 7919) % 20000) for n in range(1350))
            stem = (mark + body).encode()[:4080].decode(errors="ignore")
            one, two = (stem + "x" * (4095 - len(stem.encode())) + last for last in "ab")
            assert len(one.encode()) == 4096
            for key in (one, two):
                await store.write(
                    key, Blob("msgpack", key[-1].encode()), expected=ABSENT, ttl_s=None, tags={"mark": mark}
                )
            assert (await self.there(store, one)).head.data == b"a"
            assert (await self.there(store, two)).head.data == b"b"
            assert sorted(await found(store, mark=mark)) == sorted([one, two])
            assert await store.delete(one)
            assert await store.read(two) is not None

    async def test_tags_of_1024_bytes(self) -> None:
        """A user id of 1 KB is a tag like any other."""
        async with self.opened() as store:
            key = self.key()
            user = (key + "".join(chr(0x4E00 + (n * n * 7919) % 20000) for n in range(400))).encode()[:1024]
            value = user.decode(errors="ignore")
            await store.write(
                key, HEAD, expected=ABSENT, ttl_s=None, tags={"user_id": value, "status": value, "n" * 256: value}
            )
            assert await found(store, user_id=value) == [key]
            assert await found(store, **{"n" * 256: value}) == [key]
            assert await found(store, user_id=value[:-1]) == []

    async def test_what_no_key_can_be_is_refused(self) -> None:
        """Empty, too long, NUL, lone surrogates and other types: a ValueError from every call."""
        wrong: tuple[Any, ...] = ("", "a\0b", "\0", "\ud83d", "x" * 4097, "é" * 2049, None, 7, b"bytes", ("a",))
        async with self.opened() as store:
            for key in wrong:
                await raised(ArgumentError, store.read(key))
                await raised(ArgumentError, store.write(key, HEAD, expected=None, ttl_s=None))
                await raised(ArgumentError, store.read_log(key, kind=None))
                await raised(ArgumentError, store.touch(key, None))
                await raised(ArgumentError, store.delete(key))
