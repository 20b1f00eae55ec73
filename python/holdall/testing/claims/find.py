"""find: an index that never misses, and whose answers were checked against the record."""

from __future__ import annotations

import asyncio

from holdall.errors import ArgumentError
from holdall.stores.base import ABSENT
from holdall.testing.claims.base import HEAD, Claims, found


class FindClaims(Claims):
    """Select live records by their tags."""

    async def test_find_by_one_tag(self) -> None:
        """All that carry it, and no other."""
        async with self.opened() as store:
            user, other = self.key("user"), self.key("user")
            keys = [self.key() for _ in range(5)]
            for n, key in enumerate(keys):
                await store.write(key, HEAD, expected=ABSENT, ttl_s=None, tags={"user_id": user if n < 3 else other})
            assert sorted(await found(store, user_id=user)) == sorted(keys[:3])
            assert await found(store, user_id=self.key("nobody")) == []

    async def test_find_by_all_of_several_tags(self) -> None:
        """Every tag must match, by name and value."""
        async with self.opened() as store:
            user = self.key("user")
            rows = [("active", "x"), ("active", "y"), ("done", "x")]
            keys = [self.key() for _ in rows]
            for key, (status, team) in zip(keys, rows, strict=True):
                tags = {"user_id": user, "status": status, "team": team}
                await store.write(key, HEAD, expected=ABSENT, ttl_s=None, tags=tags)
            assert await found(store, user_id=user, status="active", team="y") == [keys[1]]
            assert sorted(await found(store, user_id=user, team="x")) == sorted([keys[0], keys[2]])
            assert await found(store, user_id="active", status=user) == []

    async def test_find_without_tags_yields_every_live_record(self) -> None:
        """Tagged or not, each once, the deleted not."""
        async with self.opened() as store:
            keys = [self.key() for _ in range(4)]
            for n, key in enumerate(keys):
                tags = {"user_id": "u", "status": "s"} if n % 2 else None
                await store.write(key, HEAD, expected=ABSENT, ttl_s=None, tags=tags)
            await store.delete(keys[0])
            listed = await found(store)
            assert set(keys[1:]) <= set(listed)
            assert keys[0] not in listed
            assert len(listed) == len(set(listed))

    async def test_find_follows_a_change_of_tags(self) -> None:
        """Found under the new, no longer under the old, and found again when changed back."""
        async with self.opened() as store:
            key, old, new = self.key(), self.key("old"), self.key("new")
            version = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, tags={"status": old})
            for status, gone in ((new, old), (old, new), (new, old)):
                version = await store.write(key, HEAD, expected=version, ttl_s=None, tags={"status": status})
                assert await found(store, status=status) == [key]
                assert await found(store, status=gone) == []
            await store.write(key, HEAD, expected=version, ttl_s=None, tags={})
            assert await found(store, status=new) == []

    async def test_find_forgets_the_deleted(self) -> None:
        """And a record created anew without tags is not found by the old ones."""
        async with self.opened() as store:
            key, mark = self.key(), self.key("mark")
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, tags={"mark": mark})
            await store.delete(key)
            assert await found(store, mark=mark) == []
            await self.made(store, key)
            assert await found(store, mark=mark) == []

    async def test_find_still_finds_after_writes_without_tags(self) -> None:
        """Writes that leave the tags, and touches that lengthen the life, keep the record in the index."""
        async with self.opened() as store:
            key, mark = self.key(), self.key("mark")
            version = await store.write(key, HEAD, expected=ABSENT, ttl_s=self.short_s, tags={"mark": mark})
            version = await store.write(key, HEAD, expected=version, ttl_s=self.long_s)
            await store.touch(key, 2 * self.long_s)
            await self.advance(self.short_s * 1.2)
            assert await found(store, mark=mark) == [key]
            await store.write(key, HEAD, expected=version, ttl_s=None)
            assert await found(store, mark=mark) == [key]

    async def test_a_hostile_filter_is_only_text(self) -> None:
        """Names and values with quotes, SQL, globs and separators match themselves and nothing else."""
        async with self.opened() as store:
            mark = self.key("mark")
            hostile = ["a') OR 1=1 --", '"', "*", "%", "_", "{x}", "a=b", "a:b", "\\", "\n", "$.a", "é", "self", "key"]
            keys = {name: self.key() for name in hostile}
            for name, key in keys.items():
                await store.write(key, HEAD, expected=ABSENT, ttl_s=None, tags={name: mark + name, "mark": mark})
            for name, key in keys.items():
                assert await found(store, **{name: mark + name}) == [key]
                assert await found(store, **{name: "*"}) == []
                assert await found(store, **{name: "' OR ''='"}) == []
            assert len(await found(store, mark=mark)) == len(hostile)

    async def test_tag_names_and_values_do_not_run_together(self) -> None:
        """("a", "bc") is not ("ab", "c"), nor is an empty value a missing one."""
        async with self.opened() as store:
            mark, one, two, three = self.key("m"), self.key(), self.key(), self.key()
            await store.write(one, HEAD, expected=ABSENT, ttl_s=None, tags={f"{mark}a": "bc"})
            await store.write(two, HEAD, expected=ABSENT, ttl_s=None, tags={f"{mark}ab": "c"})
            await store.write(three, HEAD, expected=ABSENT, ttl_s=None, tags={f"{mark}e": ""})
            assert await found(store, **{f"{mark}a": "bc"}) == [one]
            assert await found(store, **{f"{mark}ab": "c"}) == [two]
            assert await found(store, **{f"{mark}e": ""}) == [three]

    async def test_find_refuses_what_no_tag_can_be(self) -> None:
        """A value that could never be stored is an error, not an empty answer."""
        async with self.opened() as store:
            for value in ("a\0b", "\ud800", 3):
                try:
                    got = await found(store, user_id=value)  # type: ignore[arg-type]
                except ArgumentError:
                    continue
                raise AssertionError(f"{value!r} was accepted and found {got}")

    async def test_find_pages_through_many(self) -> None:
        """More than a page of records: none is missed, none comes twice."""
        async with self.opened() as store:
            mark = self.key("mark")
            keys = [self.key() for _ in range(self.many)]
            for start in range(0, len(keys), 50):
                await asyncio.gather(
                    *(
                        store.write(key, HEAD, expected=ABSENT, ttl_s=self.long_s, tags={"mark": mark})
                        for key in keys[start : start + 50]
                    )
                )
            listed = await found(store, mark=mark)
            assert len(listed) == len(set(listed)) == len(keys)
            assert set(listed) == set(keys)

    async def test_find_never_misses_a_record_that_stays(self) -> None:
        """While others come, go and change their tags, a record that is there throughout is always found."""
        async with self.peers(3) as stores:
            mark, stays = self.key("mark"), self.key("stays")
            await store_with(stores[0], stays, mark)
            moving = [self.key() for _ in range(4)]

            async def move(n: int) -> None:
                store = stores[1 + n % 2]
                for turn in range(8):
                    await store.write(
                        moving[n], HEAD, expected=None, ttl_s=None, tags={"mark": mark if turn % 2 else "elsewhere"}
                    )
                    if turn % 3 == 2:
                        await store.delete(moving[n])

            async def look() -> None:
                for _ in range(12):
                    assert stays in await found(stores[0], mark=mark)

            await asyncio.gather(look(), look(), *(move(n) for n in range(4)))


async def store_with(store: object, key: str, mark: str) -> None:
    """Create a record with a mark."""
    await store.write(key, HEAD, expected=ABSENT, ttl_s=None, tags={"mark": mark})  # type: ignore[attr-defined]
