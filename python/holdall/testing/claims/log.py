"""The log: appended, cut, read in parts."""

from __future__ import annotations

from holdall.stores.base import ABSENT, Entry
from holdall.testing.claims.base import HEAD, Claims


def _messages(*texts: str) -> list[Entry]:
    return [Entry("message", text.encode()) for text in texts]


class LogClaims(Claims):
    """A log only grows, unless a write says how much of it to keep."""

    async def test_appended_entries_come_back_in_order(self) -> None:
        """Seq counts from 0 over all kinds, whatever seq the writer gave."""
        async with self.opened() as store:
            key = self.key()
            added = [Entry("message", b"a", 7), Entry("step_result", b"b", 7), Entry("message", b"c", 0)]
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=added)
            record = await self.there(store, key)
            assert list(record.entries) == [
                Entry("message", b"a", 0),
                Entry("step_result", b"b", 1),
                Entry("message", b"c", 2),
            ]
            assert record.log_len == 3

    async def test_each_append_goes_on_where_the_log_ended(self) -> None:
        """Ten writes of three entries make thirty entries without a gap."""
        async with self.opened() as store:
            key, version = self.key(), None
            for n in range(10):
                version = await store.write(
                    key, HEAD, expected=version, ttl_s=None, append=_messages(*(f"{n}.{i}" for i in range(3)))
                )
            record = await self.there(store, key)
            assert [entry.seq for entry in record.entries] == list(range(30))
            assert [entry.data for entry in record.entries] == [
                f"{n}.{i}".encode() for n in range(10) for i in range(3)
            ]

    async def test_a_write_without_entries_leaves_the_log(self) -> None:
        """The head changes alone."""
        async with self.opened() as store:
            key = self.key()
            version = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=_messages("a"))
            await store.write(key, HEAD, expected=version, ttl_s=None)
            assert [entry.data for entry in (await self.there(store, key)).entries] == [b"a"]

    async def test_log_from_reads_the_tail(self) -> None:
        """What is before `log_from` is not sent; the length still counts it."""
        async with self.opened() as store:
            key = self.key()
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=_messages("a", "b", "c"))
            record = await self.there(store, key, log_from=2)
            assert list(record.entries) == [Entry("message", b"c", 2)]
            assert record.log_len == 3

    async def test_log_from_past_the_end_reads_nothing(self) -> None:
        """A reader that knows the whole log gets none of it, however far past the end it asks."""
        async with self.opened() as store:
            key = self.key()
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=_messages("a"))
            for log_from in (1, 2, 10**6, 2**62):
                record = await self.there(store, key, log_from=log_from)
                assert list(record.entries) == []
                assert record.log_len == 1

    async def test_keep_cuts_before_the_append(self) -> None:
        """Undo: the first n entries stay, the new ones follow them."""
        async with self.opened() as store:
            key = self.key()
            version = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=_messages("a", "b", "c", "d"))
            await store.write(key, HEAD, expected=version, ttl_s=None, keep=2, append=_messages("C"))
            record = await self.there(store, key)
            assert list(record.entries) == [
                Entry("message", b"a", 0),
                Entry("message", b"b", 1),
                Entry("message", b"C", 2),
            ]
            assert record.log_len == 3

    async def test_keep_0_empties_the_log(self) -> None:
        """Nothing is kept, and a later append begins at 0."""
        async with self.opened() as store:
            key = self.key()
            version = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=_messages("a", "b"))
            version = await store.write(key, HEAD, expected=version, ttl_s=None, keep=0)
            assert (await self.there(store, key)).log_len == 0
            await store.write(key, HEAD, expected=version, ttl_s=None, append=_messages("n"))
            assert list((await self.there(store, key)).entries) == [Entry("message", b"n", 0)]

    async def test_keep_past_the_end_keeps_all(self) -> None:
        """There is nothing to cut."""
        async with self.opened() as store:
            key = self.key()
            version = await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=_messages("a"), keep=5)
            await store.write(key, HEAD, expected=version, ttl_s=None, append=_messages("b"), keep=2**40)
            assert [entry.seq for entry in (await self.there(store, key)).entries] == [0, 1]

    async def test_read_log_is_newest_first(self) -> None:
        """The last entries come first, up to the limit."""
        async with self.opened() as store:
            key = self.key()
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=_messages("a", "b", "c"))
            assert await store.read_log(key, kind=None, limit=2) == [
                Entry("message", b"c", 2),
                Entry("message", b"b", 1),
            ]

    async def test_read_log_selects_one_kind(self) -> None:
        """Other kinds neither come back nor count against the limit."""
        async with self.opened() as store:
            key = self.key()
            added = [Entry("message" if n % 5 == 0 else "step_result", b"%d" % n) for n in range(30)]
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=added)
            got = await store.read_log(key, kind="message", limit=3)
            assert [entry.seq for entry in got] == [25, 20, 15]
            assert await store.read_log(key, kind="none of these") == []

    async def test_read_log_pages_through_all(self) -> None:
        """`before` the oldest of a page gives the next page; nothing is missed or seen twice."""
        async with self.opened() as store:
            key = self.key()
            added = [Entry(("message", "step_result")[n % 2], b"%d" % n) for n in range(25)]
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=added)
            for kind, right in ((None, list(range(24, -1, -1))), ("message", list(range(24, -1, -2)))):
                seen: list[int] = []
                before: int | None = None
                while page := await store.read_log(key, kind=kind, before=before, limit=4):
                    assert len(page) <= 4
                    seen += [entry.seq for entry in page]
                    before = page[-1].seq
                assert seen == right

    async def test_read_log_finds_a_rare_kind_far_back(self) -> None:
        """One entry of a kind before thousands of another is found."""
        async with self.opened() as store:
            key = self.key()
            added = [Entry("rare", b"here"), *(Entry("message", b"m") for _ in range(3000))]
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=added)
            assert await store.read_log(key, kind="rare") == [Entry("rare", b"here", 0)]

    async def test_read_log_at_the_edges(self) -> None:
        """`before` 0, a limit of 0, an empty log and a missing record give nothing; `before` past the end gives all."""
        async with self.opened() as store:
            key = self.key()
            assert await store.read_log(key, kind=None) == []
            version = await self.made(store, key)
            assert await store.read_log(key, kind=None) == []
            await store.write(key, HEAD, expected=version, ttl_s=None, append=_messages("a"))
            assert await store.read_log(key, kind=None, before=0) == []
            assert await store.read_log(key, kind=None, limit=0) == []
            assert len(await store.read_log(key, kind=None, before=2**62)) == 1

    async def test_a_deleted_log_is_gone(self) -> None:
        """Nothing of the log can be read after a delete."""
        async with self.opened() as store:
            key = self.key()
            await store.write(key, HEAD, expected=ABSENT, ttl_s=None, append=_messages("a", "b"))
            await store.delete(key)
            assert await store.read_log(key, kind=None) == []
