"""`TieredStateManager`: which tier answers, what is moved, and what happens while a tier is away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from holdall import (
    ArgumentError,
    CheckpointManager,
    ConflictError,
    ConversationThread,
    DecodeError,
    NotFoundError,
    OptimisticStateStore,
    SessionState,
    StoreUnavailableError,
    TieredStateManager,
    UserDeletedError,
    UserProfileStore,
)
from holdall.durable.copies import Copied, Pointer
from holdall.durable.session_store import SessionStore
from holdall.errors import TornRecordError
from holdall.stores.base import ABSENT, Blob, Entry, Record
from holdall.stores.memory import MemoryStore

from .faulty import FaultyStore


def say(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def new(**fields: Any) -> SessionState:
    return SessionState(session_id=f"s-{uuid4().hex}", **({"user_id": f"u-{uuid4().hex}"} | fields))


class Tiers:
    """Three tiers in memory, on one clock, and as many workers over them as wanted."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0
        self.hot, self.warm, self.cold = (FaultyStore(MemoryStore(now=self.now)) for _ in range(3))

    def now(self) -> float:
        return self.time

    def worker(self, **options: Any) -> TieredStateManager:
        return TieredStateManager(self.warm, hot=self.hot, cold=self.cold, now=self.now, **options)

    def forget_calls(self) -> None:
        for tier in (self.hot, self.warm, self.cold):
            tier.calls.clear()


@pytest.fixture
def tiers() -> Tiers:
    return Tiers()


async def saved(worker: SessionStore, n: int = 3, **fields: Any) -> SessionState:
    state = new(**fields)
    for i in range(n):
        state.messages.append(say(f"{i}"))
        await worker.save(state)
    return state


def said(state: SessionState) -> list[str]:
    return [message["content"] for message in state.messages]


async def until(is_so: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if is_so():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


async def test_it_is_a_session_store(tiers: Tiers) -> None:
    """Updates, checkpoints, pages, scoped views and lists work on it as on any."""
    worker = tiers.worker()
    state = await saved(worker)
    await OptimisticStateStore(worker).update(state.session_id, lambda s: s.messages.append(say("more")))
    checkpoints = CheckpointManager(worker)
    state = await worker.load(state.session_id)
    await checkpoints.save_checkpoint(state, 4)
    _, next_step = await CheckpointManager(tiers.worker()).resume_from_checkpoint(state.session_id)
    assert next_step == 5
    assert [item.message["content"] for item in await worker.history(state.session_id, limit=2)] == ["2", "more"]
    assert await worker.list(user_id=state.user_id) == [state.session_id]
    assert said(await worker.scoped(state.user_id).load(state.session_id)) == ["0", "1", "2", "more"]
    with pytest.raises(NotFoundError):
        await worker.scoped("another").load(state.session_id)


async def test_a_read_takes_the_log_from_hot_and_the_version_from_warm(tiers: Tiers) -> None:
    """One whole read of warm makes the copy; after that warm is asked for the head alone."""
    state = await saved(tiers.worker())
    await tiers.hot.inner.delete(state.session_id)
    reader = tiers.worker()
    asked: list[int] = []
    read = tiers.warm.inner.read

    async def watched(key: str, *, log_from: int = 0) -> Any:
        asked.append(log_from)
        return await read(key, log_from=log_from)

    tiers.warm.inner.read = watched
    for _ in range(3):
        assert await reader.load(state.session_id) == state
    assert asked.count(0) == 1
    assert asked[-1] > 0
    near = TieredStateManager(tiers.warm, hot=MemoryStore(now=tiers.now), now=tiers.now)
    asked.clear()
    for _ in range(3):
        assert await near.load(state.session_id) == state
    assert asked == [0, asked[1], asked[1]], "a hot tier in this process is asked first, and a miss costs no head"
    assert asked[1] > 0


async def test_a_save_takes_the_copy_along(tiers: Tiers) -> None:
    """What the step added is sent to hot too, and no more: the next read finds the copy current."""
    worker = tiers.worker()
    state = await saved(worker)
    raw = await tiers.hot.inner.read(state.session_id)
    assert Copied.of(raw.head, "").version.number == state.version == 3
    assert len(raw.entries) == 3
    assert raw.version.number == 3, "one write for each save"


async def test_case_8_a_snapshot_is_of_the_instant_in_every_tier(tiers: Tiers) -> None:
    """What changes while warm is slow is in neither warm nor the copy."""
    worker = tiers.worker()
    state = await saved(worker, metadata={"xs": [1]})
    tiers.warm.delay_s = 0.01
    saving = asyncio.ensure_future(worker.save(state))
    await asyncio.sleep(0)
    state.metadata["xs"].append(2)
    state.messages.append(say("later"))
    await saving
    tiers.warm.delay_s = 0.0
    for one in (worker, tiers.worker(), tiers.worker(reads="bounded"), SessionStore(tiers.warm)):
        found = await one.load(state.session_id)
        assert (found.metadata, said(found)) == ({"xs": [1]}, ["0", "1", "2"])


async def test_case_13_a_save_sends_each_tier_only_its_step(tiers: Tiers) -> None:
    """At message 200 as at message 3: one entry to warm, and one to hot."""
    worker = tiers.worker()
    state = await saved(worker)
    for n in range(200):
        state.messages.append(say(f"m{n}"))
    await worker.save(state)
    sent: dict[str, int] = {}
    for name, tier in (("hot", tiers.hot), ("warm", tiers.warm)):
        write = tier.inner.write

        async def watched(key: str, head: Any, *, name: str = name, write: Any = write, **args: Any) -> Any:
            sent[name] = sum(len(entry.data) for entry in args["append"])
            return await write(key, head, **args)

        tier.inner.write = watched
    state.messages.append(say("one"))
    await worker.save(state)
    assert set(sent) == {"hot", "warm"}
    assert max(sent.values()) < 100


async def test_a_write_past_this_worker_is_seen_at_once(tiers: Tiers) -> None:
    """Warm was written by somebody who knows nothing of hot: the copy is old, and is replaced."""
    state = await saved(tiers.worker())
    other = SessionStore(tiers.warm)
    theirs = await other.load(state.session_id)
    theirs.messages[0] = say("edited")
    await other.save(theirs)
    reader = tiers.worker()
    assert said(await reader.load(state.session_id)) == ["edited", "1", "2"]
    raw = await tiers.hot.inner.read(state.session_id)
    assert Copied.of(raw.head, "").version.number == 4


async def test_promotion_does_not_replace_a_newer_copy(tiers: Tiers) -> None:
    """A reader that was stopped between warm and hot comes back when hot holds a newer version, and leaves it."""
    writer = tiers.worker()
    state = await saved(writer)
    await tiers.hot.inner.delete(state.session_id)
    tiers.hot.held["write"] = asyncio.Event()
    reader = tiers.worker(hot_timeout_s=None)
    reading = asyncio.ensure_future(reader.load(state.session_id))
    await until(lambda: tiers.hot.calls["write"] > 3)
    held = tiers.hot.held.pop("write")
    state.messages.append(say("new"))
    await writer.save(state)
    assert said(await writer.load(state.session_id)) == said(state)
    held.set()
    assert len((await reading).messages) == 3
    raw = await tiers.hot.inner.read(state.session_id)
    assert Copied.of(raw.head, "").version.number == 4


async def test_a_burst_of_readers_costs_two_reads(tiers: Tiers) -> None:
    """Those who come while a read is under way share the next."""
    state = await saved(tiers.worker())
    await tiers.hot.inner.delete(state.session_id)
    reader = tiers.worker()
    tiers.forget_calls()
    tiers.warm.delay_s = 0.002
    states = await asyncio.gather(*(reader.load(state.session_id) for _ in range(50)))
    assert all(found == state for found in states)
    assert tiers.warm.calls["read"] <= 4, "two reads: of the head, and of the whole where there is no copy"
    states[0].messages.append(say("mine"))
    assert states[1] == state, "each reader has a state of its own"


async def test_a_reader_never_joins_a_read_from_before_a_write(tiers: Tiers) -> None:
    """A read that is held up brings what was current when it began; who comes after a write gets the write."""
    writer, reader = tiers.worker(), tiers.worker()
    state = await saved(writer)
    found = await tiers.warm.inner.read(state.session_id)
    release = asyncio.Event()
    read, is_first = tiers.warm.inner.read, [True]

    async def slow(key: str, *, log_from: int = 0) -> Any:
        if is_first.pop() if is_first else False:
            await release.wait()
            return found
        return await read(key, log_from=log_from)

    tiers.warm.inner.read = slow
    early = asyncio.ensure_future(reader.load(state.session_id))
    await until(lambda: not is_first)
    state.messages.append(say("new"))
    await writer.save(state)
    late = asyncio.ensure_future(reader.load(state.session_id))
    await asyncio.sleep(0)
    release.set()
    assert len((await early).messages) == 3
    assert len((await late).messages) == 4


async def test_cancelled_readers_leave_the_read_to_the_others(tiers: Tiers) -> None:
    """And a read that nobody waits for is given up; the next one starts afresh."""
    state = await saved(tiers.worker())
    reader = tiers.worker()
    tiers.warm.held["read"] = asyncio.Event()
    readers = [asyncio.ensure_future(reader.load(state.session_id)) for _ in range(3)]
    await asyncio.sleep(0.01)
    readers[0].cancel()
    tiers.warm.held.pop("read").set()
    assert [task for task in await asyncio.gather(*readers, return_exceptions=True) if task == state] == [state] * 2
    tiers.warm.held["read"] = asyncio.Event()
    alone = asyncio.ensure_future(reader.load(state.session_id))
    await asyncio.sleep(0.01)
    alone.cancel()
    await asyncio.wait({alone})
    tiers.warm.held.pop("read")
    assert await asyncio.wait_for(reader.load(state.session_id), 1) == state


@pytest.mark.parametrize("how", ["dead", "slow"])
async def test_a_hot_tier_that_is_away_holds_up_nothing(tiers: Tiers, how: str) -> None:
    """Reads and writes go through warm; after a few failures hot is not even asked, and it is used again when it is back."""
    worker = tiers.worker(hot_timeout_s=0.02)
    state = await saved(worker)
    tiers.hot.is_dead = how == "dead"
    tiers.hot.delay_s = 30.0 if how == "slow" else 0.0
    began = time.monotonic()
    for _ in range(20):
        state.messages.append(say("x"))
        await worker.save(state)
        assert await worker.load(state.session_id) == state
    assert time.monotonic() - began < 10
    tiers.hot.calls.clear()
    await worker.load(state.session_id)
    assert not tiers.hot.calls, "the breaker is open"
    tiers.hot.is_dead, tiers.hot.delay_s = False, 0.0
    assert await tiers.worker().load(state.session_id) == state, "no older copy than what was written past hot"


async def test_a_dead_cold_tier_takes_only_the_archive_away(tiers: Tiers) -> None:
    """What is not archived is read and written; what is archived says which tier is missing."""
    worker = tiers.worker()
    here, there = await saved(worker), await saved(worker)
    assert await worker.archive(there.session_id)
    tiers.cold.is_dead = True
    here.messages.append(say("x"))
    await worker.save(here)
    assert await worker.load(here.session_id) == here
    with pytest.raises(StoreUnavailableError):
        await worker.load(there.session_id)
    with pytest.raises(StoreUnavailableError):
        await worker.archive(here.session_id)
    assert await worker.load(here.session_id) == here
    tiers.cold.is_dead = False
    assert await tiers.worker().load(there.session_id) == there
    lost = TieredStateManager(tiers.warm, hot=MemoryStore(now=tiers.now), now=tiers.now)
    with pytest.raises(StoreUnavailableError, match="no cold tier"):
        await lost.load(there.session_id)


async def test_without_warm_nothing_is_acknowledged(tiers: Tiers) -> None:
    """Reads that must be the latest fail; bounded ones are served from hot for as long as the bound allows."""
    worker, bounded = tiers.worker(), tiers.worker(reads="bounded")
    state = await saved(worker)
    tiers.warm.is_dead = True
    with pytest.raises(StoreUnavailableError):
        await worker.load(state.session_id)
    with pytest.raises(StoreUnavailableError):
        await worker.save(state)
    assert await bounded.load(state.session_id) == state
    assert state.version == 3


async def test_archiving_changes_nothing_that_is_seen(tiers: Tiers) -> None:
    """Version, content, list, pages and expiry stay; a worker that loaded before it saves without a conflict."""
    worker, holder = tiers.worker(), tiers.worker()
    state = await saved(worker, status="done")
    held = await holder.load(state.session_id)
    assert await worker.archive(state.session_id)
    assert await worker.archive(state.session_id), "again is no error"
    raw = await tiers.warm.inner.read(state.session_id)
    assert raw.entries == []
    assert Pointer.of(raw) is not None
    for one in (worker, holder, tiers.worker()):
        assert await one.load(state.session_id) == state
        assert (await one.info(state.session_id)).version == 3
        assert (await one.info(state.session_id)).entries == 3
        assert [item.seq for item in await one.history(state.session_id, before=2)] == [0, 1]
        assert await one.list(user_id=state.user_id, status="done") == [state.session_id]
        assert await one.is_archived(state.session_id)
    held.messages.append(say("on"))
    await holder.save(held)
    assert said(await worker.load(state.session_id)) == ["0", "1", "2", "on"]
    assert not await worker.is_archived(state.session_id)
    assert [key async for key in tiers.cold.find()] == []


async def test_a_stale_writer_conflicts_with_an_archived_session(tiers: Tiers) -> None:
    """The version of the archived session is compared, and named in the error."""
    worker = tiers.worker()
    state = await saved(worker)
    stale = await worker.load(state.session_id)
    state.messages.append(say("new"))
    await worker.save(state)
    await worker.archive(state.session_id)
    with pytest.raises(ConflictError) as caught:
        await worker.save(stale)
    assert (caught.value.expected.number, caught.value.actual.number) == (3, 4)
    with pytest.raises(ConflictError):
        await worker.save(SessionState(session_id=state.session_id, user_id=state.user_id))
    with pytest.raises(ConflictError):
        await worker.delete(state.session_id, expected=caught.value.expected)
    assert await worker.delete(state.session_id, expected=caught.value.actual)
    assert [key async for key in tiers.cold.find()] == []


async def test_an_edit_of_an_archived_session_cuts_its_log(tiers: Tiers) -> None:
    """What the write keeps is kept of the archived log."""
    worker = tiers.worker()
    state = await saved(worker)
    await worker.archive(state.session_id)
    state = await worker.load(state.session_id)
    state.messages[1] = say("edited")
    await worker.save(state)
    assert said(await tiers.worker().load(state.session_id)) == ["0", "edited", "2"]


async def test_restoring_brings_the_content_back(tiers: Tiers) -> None:
    """It is in warm again, with the life of a session."""
    worker = tiers.worker()
    state = await saved(worker, ttl_seconds=500)
    await worker.archive(state.session_id)
    assert await worker.restore_archived(state.session_id)
    assert not await worker.restore_archived(state.session_id)
    raw = await tiers.warm.inner.read(state.session_id)
    assert (len(raw.entries), raw.expires_at) == (3, tiers.time + 500)
    assert said(await worker.load(state.session_id)) == said(state)


async def test_a_damaged_copy_is_never_served(tiers: Tiers) -> None:
    """A flipped byte in cold is an error that says so; found while archiving, the session stays where it was."""
    worker = tiers.worker(reads="latest")
    state = await saved(worker)
    await worker.archive(state.session_id)
    [key] = [key async for key in tiers.cold.find()]
    raw = await tiers.cold.inner.read(key)
    bad = [Entry(raw.entries[0].kind, raw.entries[0].data[:-1] + b"?"), *raw.entries[1:]]
    await tiers.cold.inner.write(key, raw.head, expected=None, keep=0, append=bad, ttl_s=None)
    await tiers.hot.inner.delete(state.session_id)
    with pytest.raises(DecodeError, match="checksum of its log"):
        await worker.load(state.session_id)
    await tiers.cold.inner.delete(key)
    with pytest.raises(DecodeError, match="does not hold it"):
        await worker.load(state.session_id)

    other = await saved(worker)
    write = tiers.cold.inner.write

    async def forgetful(key: str, head: Any, **args: Any) -> Any:
        return await write(key, head, **(args | {"append": args["append"][:-1]}))

    tiers.cold.inner.write = forgetful
    with pytest.raises(DecodeError):
        await worker.archive(other.session_id)
    assert await tiers.worker().load(other.session_id) == other
    assert not await worker.is_archived(other.session_id)


async def test_expiry_holds_in_every_tier(tiers: Tiers) -> None:
    """A copy in hot ends no later than its session; an archived session with its pointer, and its copy is swept."""
    worker = tiers.worker()
    short, archived = await saved(worker, ttl_seconds=100), await saved(worker, ttl_seconds=100)
    for _ in ("saved", "promoted"):
        assert (await tiers.hot.inner.read(short.session_id)).expires_at == tiers.time + 100
        await tiers.hot.inner.delete(short.session_id)
        await tiers.worker().load(short.session_id)
    await worker.archive(archived.session_id, ttl_s=1000)
    tiers.time += 101
    for one in (worker, tiers.worker(reads="bounded")):
        with pytest.raises(NotFoundError):
            await one.load(short.session_id)
        assert await one.load(archived.session_id) == archived
    tiers.time += 1000
    with pytest.raises(NotFoundError):
        await worker.load(archived.session_id)
    assert await worker.sweep() >= 1
    assert [key async for key in tiers.cold.find()] == []


async def test_idle_sessions_are_archived(tiers: Tiers) -> None:
    """Idle is who has no copy in hot: there each save and load renews it."""
    worker = tiers.worker(hot_ttl_s=100)
    idle, busy = await saved(worker, ttl_seconds=None), await saved(worker, ttl_seconds=None)
    tiers.time += 60
    await worker.load(busy.session_id)
    busy.messages.append(say("x"))
    await worker.save(busy)
    tiers.time += 60
    assert await worker.archive_idle() == [idle.session_id]
    assert await worker.archive_idle() == []
    tiers.hot.is_dead = True
    tiers.time += 1000
    assert await worker.archive_idle() == [], "a hot tier that is away says nothing of who is idle"
    with pytest.raises(ArgumentError):
        await TieredStateManager(tiers.warm, cold=tiers.cold).archive_idle()


async def test_delete_user_reaches_every_tier(tiers: Tiers) -> None:
    """Sessions, archived ones, copies, and what crashed archivers left; late writers are refused; again is harmless."""
    worker = tiers.worker()
    user = f"u-{uuid4().hex}"
    one, two, other = await saved(worker, user_id=user), await saved(worker, user_id=user), await saved(worker)
    await worker.archive(two.session_id)
    left = Copied(
        (await tiers.warm.inner.read(one.session_id)).version, (await tiers.warm.inner.read(one.session_id)).head
    )
    await tiers.cold.inner.write(
        "~archive/x.1/" + one.session_id, left.packed(), expected=None, ttl_s=None, tags={"user_id": user}
    )
    tiers.cold.is_dead = True
    with pytest.raises(StoreUnavailableError):
        await worker.delete_user(user)
    tiers.cold.is_dead = False
    again = tiers.worker()
    await again.delete_user(user)
    assert await again.delete_user(user) == 0
    for tier in (tiers.hot, tiers.warm, tiers.cold):
        assert [key async for key in tier.inner.find(user_id=user)] == []
    for state in (one, two):
        state.messages.append(say("late"))
        with pytest.raises(ConflictError):
            await worker.save(state)
    with pytest.raises(UserDeletedError):
        await worker.save(new(user_id=user))
    assert await worker.load(other.session_id) == other


async def test_bounded_reads_ask_hot_alone(tiers: Tiers) -> None:
    """Another worker's write is seen after `max_stale_s`; one's own at once; an unknown id is asked for once."""
    reader, writer = tiers.worker(reads="bounded", max_stale_s=5), SessionStore(tiers.warm)
    state = await saved(writer)
    assert await reader.load(state.session_id) == state
    tiers.forget_calls()
    assert await reader.load(state.session_id) == state
    assert not tiers.warm.calls
    state.messages.append(say("past hot"))
    await writer.save(state)
    assert len((await reader.load(state.session_id)).messages) == 3
    tiers.time += 5.1
    assert len((await reader.load(state.session_id)).messages) == 4
    mine = await reader.load(state.session_id)
    tiers.hot.is_dead = True
    mine.messages.append(say("hot was dead"))
    await reader.save(mine)
    tiers.hot.is_dead = False
    assert len((await reader.load(state.session_id)).messages) == 5
    tiers.forget_calls()
    for _ in range(3):
        with pytest.raises(NotFoundError):
            await reader.load("nobody")
    assert tiers.warm.calls["read"] == 1
    fresh = SessionState(session_id="nobody", user_id="u")
    await reader.save(fresh)
    assert await reader.load("nobody") == fresh


async def test_a_conflict_ends_what_is_bounded(tiers: Tiers) -> None:
    """Who was told that a copy is old is not given it again, nor told again that what is there is missing."""
    worker, others = tiers.worker(reads="bounded", max_stale_s=60, negative_s=60), SessionStore(tiers.warm)
    state = await saved(others)
    assert await worker.load(state.session_id) == state
    state.messages.append(say("past hot"))
    await others.save(state)
    updates = OptimisticStateStore(worker)

    def count(one: SessionState) -> None:
        one.token_count += 1

    assert len((await updates.update(state.session_id, count, 1)).messages) == 4
    seen = await worker.load(state.session_id)
    await others.save(await others.load(state.session_id))
    version = (await worker.store.read(seen.session_id)).version  # type: ignore[union-attr]
    with pytest.raises(ConflictError):
        await worker.delete(state.session_id, expected=version)
    assert await worker.load(state.session_id) == await others.load(state.session_id)
    fresh = new()
    with pytest.raises(NotFoundError):
        await worker.load(fresh.session_id)
    await others.save(SessionState(fresh.session_id, fresh.user_id))
    with pytest.raises(ConflictError):
        await worker.save(fresh)
    assert (await worker.load(fresh.session_id)).version == 1
    await others.delete(fresh.session_id)
    with pytest.raises(ConflictError):
        await worker.save(await worker.load(fresh.session_id))
    with pytest.raises(NotFoundError):
        await worker.load(fresh.session_id)


async def test_a_life_that_is_extended_while_archiving_holds_for_the_copy_too(tiers: Tiers) -> None:
    """Whoever looked before the archiver came keeps the copy all the same: it must not end before its pointer."""
    worker, archiver = tiers.worker(), tiers.worker()
    state = await saved(worker)
    may_touch = tiers.warm.held["touch"] = asyncio.Event()
    extending = asyncio.ensure_future(worker.extend_ttl(state.session_id, 365 * 86_400))
    await until(lambda: tiers.warm.calls["touch"] > 0)
    assert await archiver.archive(state.session_id, ttl_s=86_400)
    may_touch.set()
    assert await extending
    tiers.time += 300 * 86_400
    assert said(await worker.load(state.session_id)) == said(state)


class Evicting(MemoryStore):
    """A hot tier that may drop the log of a record and keep its head, as Redis may under memory pressure."""

    torn: set[str]

    async def read(self, key: str, *, log_from: int = 0) -> Record | None:
        if key in self.torn and await super().read(key, log_from=log_from) is not None:
            raise TornRecordError("torn", backend="test", operation="read", cause="evicted", key=key)
        return await super().read(key, log_from=log_from)


async def test_a_copy_that_was_evicted_in_part_is_made_anew(tiers: Tiers) -> None:
    """It is in the way of no read, opens no breaker, and is replaced by a whole one."""
    hot = Evicting(now=tiers.now)
    hot.torn, tiers.hot.inner = set(), hot
    worker = tiers.worker()
    states = [await saved(worker) for _ in range(5)]
    hot.torn |= {state.session_id for state in states}
    for state in states:
        assert await worker.load(state.session_id) == state
    assert not worker.store.hot.store.breaker.is_open  # type: ignore[union-attr]
    hot.torn.clear()
    for state in states:
        assert await worker.load(state.session_id) == state
    tiers.forget_calls()
    assert await worker.load(states[0].session_id) == states[0]
    assert tiers.hot.calls == {"read": 1}


async def test_a_deleted_user_is_refused_however_stale_reads_may_be(tiers: Tiers) -> None:
    """That there was no mark a moment ago is no answer: a late writer must not bring a user back."""
    worker, others = tiers.worker(reads="bounded", max_stale_s=60, negative_s=60), SessionStore(tiers.warm)
    state = await saved(worker)
    profiles = UserProfileStore(worker)
    await profiles.put(state.user_id, {"language": "en"})
    await others.delete_user(state.user_id)
    with pytest.raises(UserDeletedError):
        await worker.save(new(user_id=state.user_id))
    with pytest.raises(UserDeletedError):
        await profiles.put(state.user_id, {"language": "en"})
    assert await others.list(user_id=state.user_id) == []
    assert await tiers.warm.read(f"~profile/{state.user_id}") is None
    await others.readmit_user(state.user_id)
    await worker.save(new(user_id=state.user_id))


async def test_a_thread_sees_what_was_kept_for_it_however_stale_reads_may_be(tiers: Tiers) -> None:
    """That there was no copy a moment ago is no answer either: the base may have been edited since."""
    worker, others = tiers.worker(reads="bounded", max_stale_s=5, negative_s=60), SessionStore(tiers.warm)
    root = await saved(others)
    fork = await ConversationThread(others, root.session_id).fork()
    thread = ConversationThread(worker, fork.session_id)
    assert [message["content"] for message in await thread.build_context()] == said(root)
    before = said(root)
    root.messages[0] = say("edited")
    await others.save(root)
    tiers.time += 5.1
    assert [message["content"] for message in await thread.build_context()] == before


async def test_two_tiers_cannot_be_one_store() -> None:
    store = MemoryStore()
    with pytest.raises(ArgumentError):
        TieredStateManager(store, hot=store)
    with pytest.raises(ArgumentError):
        TieredStateManager(store, reads="eventually")  # type: ignore[arg-type]


def test_a_tier_is_a_store_and_no_url() -> None:
    for given in ({"warm": None}, {"warm": "memory:"}, {"warm": MemoryStore(), "hot": "redis://h"}):
        wrong = list(given)[-1]
        with pytest.raises(ArgumentError, match=f"^{wrong} must be a store, such as .* not (str|NoneType)$"):
            TieredStateManager(**given)  # type: ignore[arg-type]


async def test_a_repeated_call_takes_no_archived_content_with_it(tiers: Tiers) -> None:
    """It is answered from memory and has written nothing: the copy in cold is still pointed to."""
    store = tiers.worker().store
    head = Blob("text", b"1")
    entry = Entry("message", b"x")
    for again in ("write", "delete"):
        key = f"k-{again}"
        if again == "delete":
            await store.write(key, head, expected=ABSENT, ttl_s=None)
            assert await store.delete(key, op_id="op")
            first = await store.write(key, head, expected=ABSENT, append=[entry], ttl_s=None)
        else:
            first = await store.write(key, head, expected=ABSENT, append=[entry], ttl_s=None, op_id="op")
        assert await store.archive(key, None)
        if again == "delete":
            assert await store.delete(key, op_id="op")
        else:
            for expected in (None, ABSENT):
                assert first == await store.write(key, head, expected=expected, append=[entry], ttl_s=None, op_id="op")
        record = await tiers.worker().store.read(key)
        assert record is not None
        assert (record.version, [one.data for one in record.entries]) == (first, [b"x"])


async def test_a_repeat_with_other_content_is_not_shown(tiers: Tiers) -> None:
    """Warm has answered it from memory, with the version of the first call: the copy must not hold the second's content."""
    store = tiers.worker().store
    first = await store.write("k", Blob("text", b"1"), expected=ABSENT, ttl_s=None, op_id="op")
    await store.touch("k", None)
    assert await store.write("k", Blob("text", b"2"), expected=ABSENT, ttl_s=None, op_id="op") == first
    for one in (store, tiers.worker().store, tiers.worker(reads="bounded").store):
        record = await one.read("k")
        assert record is not None
        assert record.head.data == b"1"
