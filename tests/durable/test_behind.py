"""Write-behind: what is acknowledged, what follows it below, and what a crash of hot can take along."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

from holdall import (
    ArgumentError,
    ConflictError,
    EncodeError,
    NotFoundError,
    OptimisticStateStore,
    SessionState,
    StoreUnavailableError,
    TieredStateManager,
    UnknownNameError,
)
from holdall.durable.behind import BehindStore
from holdall.durable.session_store import SessionStore
from holdall.stores.memory import MemoryStore

from .faulty import FaultyStore


def say(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def said(state: SessionState) -> list[str]:
    return [message["content"] for message in state.messages]


class Tiers:
    """Three tiers in memory on one clock, and workers that flush when told to."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0
        self.hot, self.warm, self.cold = (FaultyStore(MemoryStore(now=self.now)) for _ in range(3))

    def now(self) -> float:
        return self.time

    def worker(self, **options: Any) -> TieredStateManager:
        given = {"flush_s": 1e9, "negative_s": 0.0} | options
        return TieredStateManager(self.warm, hot=self.hot, cold=self.cold, write="behind", now=self.now, **given)

    def lose_hot(self) -> None:
        self.hot.inner = MemoryStore(now=self.now)


@pytest.fixture
def tiers() -> Tiers:
    return Tiers()


async def saved(worker: SessionStore, n: int = 3, **fields: Any) -> SessionState:
    state = SessionState(session_id=f"s-{uuid4().hex}", **({"user_id": f"u-{uuid4().hex}"} | fields))
    for i in range(n):
        state.messages.append(say(f"{i}"))
        await worker.save(state)
    return state


async def test_a_save_is_one_write_to_hot(tiers: Tiers) -> None:
    """Once the session is known, nothing else is asked; every worker sees the save at once."""
    worker, other = tiers.worker(), tiers.worker()
    state = await saved(worker)
    for tier in (tiers.hot, tiers.warm, tiers.cold):
        tier.calls.clear()
    state.messages.append(say("x"))
    await worker.save(state)
    assert (dict(tiers.hot.calls), dict(tiers.warm.calls)) == ({"write": 1}, {})
    assert await other.load(state.session_id) == state


async def test_a_flush_brings_warm_to_the_same_content(tiers: Tiers) -> None:
    """Warm holds the session as a session store reads it, with its tags and expiry; a second flush sends what is new."""
    worker = tiers.worker()
    state = await saved(worker, status="busy", ttl_seconds=500)
    assert await worker.flush() == 1
    raw = await tiers.warm.inner.read(state.session_id)
    assert (raw.log_len, raw.expires_at) == (3, tiers.time + 500)
    assert said(await SessionStore(tiers.warm).load(state.session_id)) == said(state)
    assert await SessionStore(tiers.warm).list(user_id=state.user_id, status="busy") == [state.session_id]
    sent: list[int] = []
    write = tiers.warm.inner.write

    async def watched(key: str, head: Any, **args: Any) -> Any:
        sent.append(len(args["append"]))
        return await write(key, head, **args)

    tiers.warm.inner.write = watched
    for n in range(2):
        state.messages.append(say(f"new {n}"))
        await worker.save(state)
    await worker.flush()
    assert sent == [2], "only what came since"
    state.messages[0] = say("edited")
    await worker.save(state)
    await worker.flush()
    assert sent == [2, 5], "the log was cut: all of it"
    assert said(await SessionStore(tiers.warm).load(state.session_id)) == said(state)
    assert await worker.flush() == 0


async def test_writes_flow_below_by_themselves(tiers: Tiers) -> None:
    """After `flush_s`, and when the store is closed."""
    worker = tiers.worker(flush_s=0.01)
    state = await saved(worker)
    for _ in range(200):
        if await tiers.warm.inner.read(state.session_id) is not None:
            break
        await asyncio.sleep(0.01)
    assert said(await SessionStore(tiers.warm).load(state.session_id)) == ["0", "1", "2"]
    late = tiers.worker()
    state = await late.load(state.session_id)
    state.messages.append(say("last"))
    await late.save(state)
    tiers.hot.inner.aclose = tiers.warm.inner.aclose = tiers.cold.inner.aclose = _nothing
    await late.aclose()
    assert len((await SessionStore(tiers.warm).load(state.session_id)).messages) == 4


async def _nothing() -> None:
    return None


async def test_a_dead_worker_loses_nothing(tiers: Tiers) -> None:
    """It never flushed: hot serves its write to all, the next writer's flush brings it below, and so does `recover`."""
    one, two = await saved(tiers.worker()), await saved(tiers.worker())
    heir = tiers.worker()
    assert await heir.load(one.session_id) == one
    state = await heir.load(two.session_id)
    state.messages.append(say("on"))
    await heir.save(state)
    await heir.flush()
    assert len((await SessionStore(tiers.warm).load(two.session_id)).messages) == 4
    assert await tiers.warm.inner.read(one.session_id) is None
    await tiers.worker().recover()
    assert said(await SessionStore(tiers.warm).load(one.session_id)) == said(one)


async def test_a_crash_of_hot_goes_back_to_the_last_flush_and_says_so(tiers: Tiers) -> None:
    """What was flushed is there, at its version; who holds a later state gets a conflict, and can go on after loading."""
    worker = tiers.worker()
    state = await saved(worker)
    await worker.flush()
    state.messages.append(say("not flushed"))
    await worker.save(state)
    tiers.lose_hot()
    for one in (worker, tiers.worker()):
        found = await one.load(state.session_id)
        assert (found.version, said(found)) == (3, ["0", "1", "2"])
    state.messages.append(say("on top of what is lost"))
    with pytest.raises(ConflictError) as caught:
        await worker.save(state)
    assert (caught.value.expected.number, caught.value.actual.number) == (4, 3)
    assert caught.value.expected.generation == caught.value.actual.generation
    await OptimisticStateStore(worker).update(state.session_id, lambda s: s.messages.append(say("again")))
    assert said(await tiers.worker().load(state.session_id)) == ["0", "1", "2", "again"]
    await worker.flush()
    assert (await SessionStore(tiers.warm).load(state.session_id)).messages[-1]["content"] == "again"


async def test_a_dead_warm_tier_stops_no_write(tiers: Tiers) -> None:
    """Saves are acknowledged and wait; `flush` says that they do; they are below when warm is back."""
    worker = tiers.worker()
    state = await saved(worker)
    tiers.warm.is_dead = True
    state.messages.append(say("x"))
    await worker.save(state)
    assert await worker.load(state.session_id) == state
    with pytest.raises(StoreUnavailableError):
        await worker.flush()
    with pytest.raises(StoreUnavailableError):
        await worker.load("who knows")
    tiers.warm.is_dead = False
    worker.store.below.warm.breaker.succeeded()
    await worker.flush()
    assert said(await SessionStore(tiers.warm).load(state.session_id)) == said(state)


async def test_a_deleted_session_stays_deleted(tiers: Tiers) -> None:
    """While warm is away, hot's mark hides what is still below; a new session of the id is another generation."""
    worker = tiers.worker()
    state = await saved(worker)
    await worker.flush()
    tiers.warm.is_dead = True
    assert await worker.delete(state.session_id)
    for one in (worker, tiers.worker()):
        with pytest.raises(NotFoundError):
            await one.load(state.session_id)
    tiers.warm.is_dead = False
    worker.store.below.warm.breaker.succeeded()
    assert await tiers.worker().list() == []
    reborn = SessionState(session_id=state.session_id, user_id=state.user_id)
    version = await tiers.worker().save(reborn)
    assert (version.number, version.generation == state.generation) == (1, False)
    with pytest.raises(ConflictError):
        await worker.save(state)
    await worker.flush()
    assert said(await SessionStore(tiers.warm).load(state.session_id)) == []


async def test_a_flush_that_meets_a_delete_leaves_nothing(tiers: Tiers) -> None:
    """It had read the session before the delete, and writes it below after it."""
    flusher, other = tiers.worker(), tiers.worker()
    state = await saved(flusher)
    tiers.warm.held["write"] = asyncio.Event()
    flushing = asyncio.ensure_future(flusher.flush())
    while not tiers.warm.calls["write"]:  # noqa: ASYNC110 - a turn of the loop, no time
        await asyncio.sleep(0)
    assert await other.delete(state.session_id)
    tiers.warm.held.pop("write").set()
    await flushing
    assert await tiers.warm.inner.read(state.session_id) is None


async def test_flushers_of_many_workers_leave_the_latest(tiers: Tiers) -> None:
    """They flush the same sessions at the same time as others write them."""
    workers = [tiers.worker() for _ in range(4)]
    ids = [(await saved(workers[0], n=1)).session_id for _ in range(3)]
    for _ in range(6):
        for one in ids:
            await asyncio.gather(
                *(
                    OptimisticStateStore(worker).update(one, lambda s: s.messages.append(say("x")), 50)
                    for worker in workers
                ),
                *(worker.flush() for worker in workers),
            )
    for worker in workers:
        await worker.flush()
    for one in ids:
        below = await SessionStore(tiers.warm).load(one)
        assert said(below) == said(await workers[1].load(one))
        assert len(below.messages) == 25


async def test_an_archived_session_lives_on_below(tiers: Tiers) -> None:
    """Archiving flushes first; hot's copy ends with the session's own life, and the archive serves it after that."""
    worker = tiers.worker()
    state = await saved(worker, ttl_seconds=100)
    assert await worker.archive(state.session_id)
    await worker.recover()
    tiers.time += 101
    found = await tiers.worker().load(state.session_id)
    assert (said(found), found.version) == (said(state), 3)
    found.messages.append(say("on"))
    await worker.save(found)
    await worker.flush()
    assert not await worker.is_archived(state.session_id)
    assert [key async for key in tiers.cold.find()] == []
    assert len((await SessionStore(tiers.warm).load(state.session_id)).messages) == 4


async def test_idle_sessions_are_those_that_hot_has_let_go(tiers: Tiers) -> None:
    worker = tiers.worker()
    state = await saved(worker, ttl_seconds=None)
    await worker.flush()
    assert await worker.archive_idle() == []
    tiers.lose_hot()
    assert await worker.archive_idle() == [state.session_id]


async def test_delete_user_reaches_every_tier(tiers: Tiers) -> None:
    """Flushed or not, archived or not."""
    worker, user = tiers.worker(), f"u-{uuid4().hex}"
    states = [await saved(worker, user_id=user) for _ in range(3)]
    await worker.archive(states[0].session_id)
    await worker.flush()
    states.append(await saved(worker, user_id=user))
    assert await worker.delete_user(user) == 4
    assert await tiers.worker().delete_user(user) == 0
    for tier in (tiers.hot, tiers.warm, tiers.cold):
        assert [key async for key in tier.inner.find(user_id=user)] == []
    for state in states:
        with pytest.raises(ConflictError):
            await worker.save(state)


async def test_extending_a_life_reaches_below(tiers: Tiers) -> None:
    worker = tiers.worker()
    state = await saved(worker, ttl_seconds=100)
    await worker.flush()
    assert await worker.extend_ttl(state.session_id, 1000)
    await worker.flush()
    tiers.time += 500
    tiers.lose_hot()
    assert said(await tiers.worker().load(state.session_id)) == said(state)


async def test_sessions_written_through_go_on_behind(tiers: Tiers) -> None:
    """A store that was used without hot, or with writes through, is taken over as it is, and back."""
    state = await saved(SessionStore(tiers.warm))
    worker = tiers.worker()
    held = await worker.load(state.session_id)
    assert held.version == 3
    held.messages.append(say("behind"))
    await worker.save(held)
    await worker.flush()
    through = TieredStateManager(tiers.warm, hot=MemoryStore(now=tiers.now), cold=tiers.cold, now=tiers.now)
    again = await through.load(state.session_id)
    assert said(again) == ["0", "1", "2", "behind"]
    again.messages.append(say("through"))
    await through.save(again)


async def test_an_id_that_is_nowhere_is_asked_for_below_once(tiers: Tiers) -> None:
    """For a moment: hot is asked each time, so that a session made meanwhile is found at once."""
    worker = tiers.worker(negative_s=60.0)
    for _ in range(3):
        with pytest.raises(NotFoundError):
            await worker.load("nobody")
    assert tiers.warm.calls["read"] == 1
    made = SessionState(session_id="nobody", user_id="u")
    await tiers.worker().save(made)
    assert await worker.load("nobody") == made


def test_settings_are_checked() -> None:
    with pytest.raises(ArgumentError, match="hot tier"):
        TieredStateManager(MemoryStore(), write="behind")
    with pytest.raises(ArgumentError, match="latest"):
        TieredStateManager(MemoryStore(), hot=MemoryStore(), write="behind", reads="bounded")
    with pytest.raises(UnknownNameError):
        TieredStateManager(MemoryStore(), write="around")  # type: ignore[arg-type]
    assert isinstance(TieredStateManager(MemoryStore(), hot=MemoryStore(), write="behind").store, BehindStore)


async def test_a_shorter_life_holds_below_too(tiers: Tiers) -> None:
    """Cut short by a save or by `extend_ttl` and not flushed: what is below does not come back when hot's record has ended."""
    worker = tiers.worker()
    for how in ("save", "extend_ttl"):
        state = await saved(worker, ttl_seconds=1000)
        await worker.flush()
        if how == "save":
            state.ttl_seconds = 100
            await worker.save(state)
        else:
            assert await worker.extend_ttl(state.session_id, 100)
        tiers.time += 101
        for one in (worker, tiers.worker()):
            with pytest.raises(NotFoundError):
                await one.load(state.session_id)


async def test_a_record_that_below_refuses_holds_up_no_other(tiers: Tiers) -> None:
    """It waits on, each flush that is asked for says so, and what comes later still flows by itself."""
    worker = tiers.worker(flush_s=0.005)
    refused, write = f"s-{uuid4().hex}", tiers.warm.write
    fails = {"other": 1}

    async def picky(key: str, head: Any, **args: Any) -> Any:
        if key == refused:
            raise EncodeError("larger than warm takes", path="$", reason="too large")
        if fails["other"]:
            fails["other"] -= 1
            raise StoreUnavailableError("away", backend="test", operation="write", cause="test")
        return await write(key, head, **args)

    tiers.warm.write = picky  # type: ignore[method-assign]
    await worker.save(SessionState(session_id=refused, user_id="u"))
    state = await saved(worker, 1)
    for _ in range(200):
        await asyncio.sleep(0.005)
        if await tiers.warm.inner.read(state.session_id) is not None:
            break
    assert await tiers.warm.inner.read(state.session_id) is not None
    with pytest.raises(EncodeError):
        await worker.flush()
    assert (await worker.load(refused)).version == 1
    tiers.warm.write = write  # type: ignore[method-assign]
    assert await worker.flush() == 1
    await worker.aclose()


async def test_a_flush_that_meets_an_edit_mixes_no_two_versions(tiers: Tiers, monkeypatch: pytest.MonkeyPatch) -> None:
    """It had decided to append the last message below, when the first one was changed: the log below is written anew."""
    flusher, other = tiers.worker(), tiers.worker()
    state = await saved(flusher)
    await flusher.flush()
    state.messages.append(say("3"))
    await flusher.save(state)
    read, n_edits = tiers.warm.read, 0

    async def edited_meanwhile(key: str, **options: Any) -> Any:
        nonlocal n_edits
        there = await read(key, **options)
        if not n_edits:
            n_edits += 1
            state.messages[0] = say("edited")
            await other.save(state)
        return there

    monkeypatch.setattr(tiers.warm, "read", edited_meanwhile)
    await asyncio.wait_for(flusher.flush(), 10)
    await other.flush()
    assert n_edits == 1
    tiers.lose_hot()
    assert said(await tiers.worker().load(state.session_id)) == ["edited", "1", "2", "3"]
