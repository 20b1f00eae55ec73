"""`UserProfileStore`: read often, changed seldom, never staler than it says."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import pytest

import holdall
from holdall import ArgumentError, ConflictError, EncodeError, SessionState, StoreUnavailableError, UserProfileStore
from holdall.durable.session_store import SessionStore
from holdall.errors import UserDeletedError
from holdall.stores.memory import MemoryStore

from .faulty import FaultyStore


def user() -> str:
    return f"u-{uuid4().hex}"


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_a_profile_is_stored_changed_and_deleted(store: SessionStore) -> None:
    profiles, one = UserProfileStore(store), user()
    assert await profiles.get(one) is None
    assert await profiles.update(one, lambda p: p.update(name="Ada", tags={"x"})) == {"name": "Ada", "tags": {"x"}}

    async def older(profile: dict[str, Any]) -> dict[str, Any]:
        return profile | {"age": profile.get("age", 36) + 1}

    await profiles.update(one, older)
    assert await profiles.get(one) == {"name": "Ada", "tags": {"x"}, "age": 37}
    await profiles.put(one, {"name": "Grace"})
    assert await UserProfileStore(store).get(one) == {"name": "Grace"}
    assert await profiles.delete(one)
    assert not await profiles.delete(one)
    assert await profiles.get(one) is None


async def test_case_3_concurrent_updates_all_land(store: SessionStore) -> None:
    """Eight workers change one profile at once: none of the changes is lost."""
    workers, one = [UserProfileStore(store) for _ in range(8)], user()

    async def count(worker: UserProfileStore) -> None:
        for _ in range(3):
            await worker.update(one, lambda p: p.update(n=p.get("n", 0) + 1), max_retries=200)

    await asyncio.gather(*(count(worker) for worker in workers))
    assert await UserProfileStore(store).get(one) == {"n": 24}


async def test_staleness_is_bounded_and_ones_own_changes_are_seen_at_once() -> None:
    """Reads within the bound ask nobody; a change of another worker is seen after it."""
    store, clock = FaultyStore(MemoryStore()), Clock()
    mine, other = UserProfileStore(store, max_stale_s=30, clock=clock), UserProfileStore(store)
    await mine.update("u", lambda p: p.update(n=1))
    assert await mine.get("u") == {"n": 1}
    store.calls.clear()
    for _ in range(10):
        clock.now += 3
        assert await mine.get("u") == {"n": 1}
    assert not store.calls
    await other.update("u", lambda p: p.update(n=2))
    assert await mine.get("u") == {"n": 1}
    clock.now += 0.1
    assert await mine.get("u") == {"n": 2}
    await mine.update("u", lambda p: p.update(n=3))
    assert await mine.get("u") == {"n": 3}
    fresh = UserProfileStore(store, max_stale_s=0, clock=clock)
    await fresh.get("u")
    await other.update("u", lambda p: p.update(n=4))
    clock.now += 0.001
    assert await fresh.get("u") == {"n": 4}


async def test_a_read_that_began_before_a_write_is_not_kept() -> None:
    """It was held up: what it brings is older than what was written meanwhile."""
    inner = MemoryStore()
    store = FaultyStore(inner)
    profiles = UserProfileStore(store)
    await UserProfileStore(inner).put("u", {"n": 1})
    old = await inner.read("~profile/u")
    release, read = asyncio.Event(), inner.read

    async def slow(key: str, *, log_from: int = 0) -> Any:
        if key == "~profile/u" and not release.is_set():
            await release.wait()
            return old
        return await read(key, log_from=log_from)

    inner.read = slow  # type: ignore[method-assign]
    early = asyncio.ensure_future(profiles.get("u"))
    await asyncio.sleep(0.01)
    await profiles.put("u", {"n": 2})
    release.set()
    assert await early == {"n": 1}
    assert await profiles.get("u") == {"n": 2}


async def test_a_burst_of_readers_costs_two_reads_and_each_has_its_own() -> None:
    store = FaultyStore(MemoryStore())
    profiles = UserProfileStore(store)
    await profiles.put("u", {"xs": [1]})
    store.calls.clear()
    store.delay_s = 0.002
    found = await asyncio.gather(*(profiles.get("u") for _ in range(40)))
    assert store.calls["read"] <= 2
    assert found[0] is not None
    found[0]["xs"].append(2)
    assert found[1] == await profiles.get("u") == {"xs": [1]}


async def test_while_the_store_is_away_a_profile_may_be_older_if_said() -> None:
    store, clock = FaultyStore(MemoryStore()), Clock()
    strict = UserProfileStore(store, max_stale_s=10, clock=clock)
    patient = UserProfileStore(store, max_stale_s=10, away_stale_s=300, clock=clock)
    await strict.put("u", {"n": 1})
    assert await strict.get("u") == await patient.get("u") == {"n": 1}
    store.is_dead = True
    clock.now = 200
    assert await patient.get("u") == {"n": 1}
    with pytest.raises(StoreUnavailableError):
        await strict.get("u")
    clock.now = 301
    with pytest.raises(StoreUnavailableError):
        await patient.get("u")


async def test_only_so_many_are_cached() -> None:
    store = FaultyStore(MemoryStore())
    profiles = UserProfileStore(store, max_cached=2)
    for one in "abc":
        await profiles.put(one, {"id": one})
        await profiles.get(one)
    store.calls.clear()
    assert await profiles.get("c") == {"id": "c"}
    assert not store.calls
    assert await profiles.get("a") == {"id": "a"}
    assert store.calls["read"] == 1


async def test_a_profile_goes_with_its_user(store: SessionStore) -> None:
    """No late writer brings it back; after readmission it begins empty."""
    profiles, one = UserProfileStore(store, max_stale_s=0), user()
    await profiles.update(one, lambda p: p.update(n=1))
    state = SessionState(session_id=f"s-{one}", user_id=one)
    await store.save(state)
    assert await store.delete_user(one) == 1
    assert await profiles.get(one) is None
    for late in (profiles.update(one, lambda p: p.update(n=2)), profiles.put(one, {"n": 3})):
        with pytest.raises(UserDeletedError):
            await late
    assert await profiles.get(one) is None
    await store.readmit_user(one)
    assert await profiles.update(one, lambda p: p.update(m=1)) == {"m": 1}


async def test_a_write_that_was_under_way_leaves_nothing_of_a_deleted_user() -> None:
    """It had seen no mark when it began, and reaches the store after everything of the user was deleted."""
    inner = MemoryStore()
    slow, sessions = FaultyStore(inner), SessionStore(inner)
    slow.held["write"] = asyncio.Event()
    late = asyncio.ensure_future(UserProfileStore(slow).put("u", {"n": 1}))
    await asyncio.sleep(0.01)
    assert slow.calls["write"] == 1
    await sessions.delete_user("u")
    slow.held["write"].set()
    with pytest.raises(UserDeletedError):
        await late
    assert [key async for key in inner.find(user_id="u")] == []


async def test_a_cancelled_write_leaves_nothing_of_a_user_who_was_deleted_meanwhile() -> None:
    """It reaches the store all the same, and its caller is no longer there to look for the mark."""
    inner = MemoryStore()
    slow, sessions = FaultyStore(inner), SessionStore(inner)
    slow.held["write"] = asyncio.Event()
    write, is_written = slow.write, asyncio.Event()

    async def written_but_not_said(*args: object, **options: object) -> object:
        version = await write(*args, **options)
        is_written.set()
        await asyncio.sleep(0.05)
        return version

    slow.write = written_but_not_said  # type: ignore[method-assign]
    late = asyncio.ensure_future(UserProfileStore(slow).put("u", {"n": 1}))
    await asyncio.sleep(0.01)
    await sessions.delete_user("u")
    slow.held["write"].set()
    await is_written.wait()
    late.cancel()
    with pytest.raises(asyncio.CancelledError):
        await late
    assert [key async for key in inner.find(user_id="u")] == []


async def test_a_user_is_deleted_from_every_store(store: SessionStore) -> None:
    """A store that is away keeps no other from deleting; again until it is complete; late writers are refused in each."""
    one = user()
    away = FaultyStore(MemoryStore())
    others = [SessionStore(MemoryStore()), holdall.TieredStateManager(away, hot=MemoryStore(), cold=MemoryStore())]
    for n, each in enumerate([store, *others]):
        for i in range(n + 1):
            await each.save(SessionState(session_id=f"s-{one}-{i}", user_id=one))
        await UserProfileStore(each).put(one, {"n": n})
    await others[1].archive(f"s-{one}-0")
    away.is_dead = True
    first = await holdall.delete_user(one, store, *others)
    assert first.deleted == (1, 2, None)
    assert not first.is_complete
    assert isinstance(first.errors[2], StoreUnavailableError)
    away.is_dead = False
    others[1] = holdall.TieredStateManager(away, hot=MemoryStore(), cold=others[1].store.archive_tier.cold.inner)
    second = await holdall.delete_user(one, store, *others)
    assert (second.deleted, second.is_complete) == ((0, 0, 3), True)
    for each in (store, *others):
        assert await each.list(user_id=one) == []
        with pytest.raises(UserDeletedError):
            await each.save(SessionState(session_id=f"late-{one}", user_id=one))
    with pytest.raises(ArgumentError):
        await holdall.delete_user(one)
    with pytest.raises(ArgumentError):
        await holdall.delete_user(one, MemoryStore())  # type: ignore[arg-type]


async def test_what_cannot_be_stored_is_refused() -> None:
    profiles = UserProfileStore(MemoryStore())
    with pytest.raises(EncodeError, match="x"):
        await profiles.put("u", {"x": object()})
    with pytest.raises(ArgumentError):
        await profiles.get("")
    with pytest.raises(ArgumentError):
        await profiles.update("u", lambda p: None, max_retries=-1)
    for bad in ({"max_stale_s": -1}, {"max_cached": 0}, {"ttl_s": 0}):
        with pytest.raises(ArgumentError):
            UserProfileStore(MemoryStore(), **bad)


async def test_an_update_that_always_loses_says_so() -> None:
    store = MemoryStore()
    other = UserProfileStore(store)

    async def meddle(profile: dict[str, Any]) -> None:
        await other.put("u", {"theirs": True})

    with pytest.raises(ConflictError):
        await UserProfileStore(store).update("u", meddle, max_retries=2)
    assert await other.get("u") == {"theirs": True}
