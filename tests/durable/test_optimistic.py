"""`OptimisticStateStore.update`."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from holdall import ArgumentError, ConflictError, NotFoundError, OptimisticStateStore, SessionState, StaleFenceError
from holdall.durable.session_store import SessionStore
from holdall.errors import OutcomeUnknownError


def new(session_id: str | None = None) -> SessionState:
    return SessionState(session_id=session_id or f"s-{uuid4().hex}", user_id="u", metadata={"n": 0})


def add(state: SessionState) -> None:
    state.metadata["n"] += 1


async def slowly_add(state: SessionState) -> SessionState:
    n = state.metadata["n"]
    await asyncio.sleep(0)
    state.metadata["n"] = n + 1
    return state


@pytest.mark.parametrize("fn", [add, slowly_add], ids=["sync", "async"])
async def test_case_3_ten_updates_at_once_all_land(store: SessionStore, fn: object) -> None:
    """The user texts twice, or ten times: no stale-session error, and every update is in the result."""
    state = new()
    await store.save(state)
    shared = OptimisticStateStore(store)
    await asyncio.gather(*(shared.update(state.session_id, fn) for _ in range(10)))
    assert (await store.load(state.session_id)).metadata == {"n": 10}


async def test_case_3_ten_updates_of_ten_workers_all_land(store: SessionStore) -> None:
    """The same without taking turns: each worker has its own object and meets the others in the store."""
    state = new()
    await store.save(state)
    await asyncio.gather(
        *(OptimisticStateStore(store).update(state.session_id, add, max_retries=1000) for _ in range(10))
    )
    stored = await store.load(state.session_id)
    assert (stored.metadata, stored.version) == ({"n": 10}, 11)


async def test_case_7_five_pops_give_five_items(store: SessionStore) -> None:
    """No item is popped twice, none is lost."""
    state = new()
    state.messages.extend({"role": "user", "content": str(n)} for n in range(5))
    await store.save(state)
    popped = []

    async def pop(worker: OptimisticStateStore) -> None:
        taken: list[str] = []

        def fn(state: SessionState) -> None:
            taken.append(state.messages.pop()["content"])

        await worker.update(state.session_id, fn, max_retries=1000)
        popped.append(taken[-1])

    await asyncio.gather(*(pop(OptimisticStateStore(store)) for _ in range(5)))
    assert sorted(popped) == ["0", "1", "2", "3", "4"]
    assert len((await store.load(state.session_id)).messages) == 0


class Contended:
    """A store in which somebody else is faster so many times."""

    def __init__(self, store: SessionStore, times: int) -> None:
        self._store = store
        self._times = times

    async def load(self, session_id: str) -> SessionState:
        return await self._store.load(session_id)

    async def save(self, state: SessionState) -> object:
        if self._times:
            self._times -= 1
            other = await self._store.load(state.session_id)
            other.metadata["others"] = other.metadata.get("others", 0) + 1
            await self._store.save(other)
        return await self._store.save(state)


async def test_waits_grow_with_full_jitter_and_the_last_conflict_comes_through(store: SessionStore) -> None:
    """Five retries by default, each wait a random part of 10, 40, 50, 50, 50 ms; then the ConflictError."""
    state = new()
    await store.save(state)
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    def update(times: int) -> object:
        # An object of its own for each: none of them has written lately.
        optimistic = OptimisticStateStore(Contended(store, times), sleep=sleep, random=lambda: 0.5)
        return optimistic.update(state.session_id, add)

    done = await update(5)
    assert done.metadata == {"n": 1, "others": 5}
    assert waited == pytest.approx([0.005, 0.020, 0.025, 0.025, 0.025])
    waited.clear()
    with pytest.raises(ConflictError) as caught:
        await update(6)
    assert len(waited) == 5
    assert caught.value.actual.number == caught.value.expected.number + 1
    assert (await store.load(state.session_id)).metadata == {"n": 1, "others": 11}


async def test_an_unknown_outcome_is_not_repeated(store: SessionStore) -> None:
    """A lost reply may have been a success: adding again would add twice."""

    class LostReply(Contended):
        async def save(self, state: SessionState) -> object:
            await self._store.save(state)
            raise OutcomeUnknownError("lost", backend="test", operation="write", cause="test")

    state = new()
    await store.save(state)
    with pytest.raises(OutcomeUnknownError):
        await OptimisticStateStore(LostReply(store, 0)).update(state.session_id, add)
    assert (await store.load(state.session_id)).metadata == {"n": 1}


async def test_missing_sessions_are_an_error_or_made(store: SessionStore) -> None:
    """`create` gives the state to start from; two workers that both create do not lose one another."""
    missing = f"s-{uuid4().hex}"
    with pytest.raises(NotFoundError):
        await OptimisticStateStore(store).update(missing, add)
    await asyncio.gather(
        *(OptimisticStateStore(store).update(missing, add, 1000, create=lambda: new(missing)) for _ in range(4))
    )
    assert (await store.load(missing)).metadata == {"n": 4}


async def test_an_error_of_the_updater_comes_through_and_writes_nothing(store: SessionStore) -> None:
    """It is not retried."""
    state = new()
    await store.save(state)
    calls = []

    def fail(state: SessionState) -> None:
        calls.append(1)
        raise KeyError("mine")

    with pytest.raises(KeyError):
        await OptimisticStateStore(store).update(state.session_id, fail)
    assert len(calls) == 1
    assert (await store.load(state.session_id)).version == 1


async def test_arguments_are_checked(store: SessionStore) -> None:
    """Retries that are no number of them and a state of another session are refused."""
    state = new()
    await store.save(state)
    for wrong in (-1, 1.5, True, None):
        with pytest.raises(ArgumentError, match="max_retries is"):
            await OptimisticStateStore(store).update(state.session_id, add, wrong)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="returned the state of"):
        await OptimisticStateStore(store).update(state.session_id, lambda _: new())
    with pytest.raises(ArgumentError, match="value of type int"):
        await OptimisticStateStore(store).update(state.session_id, lambda _: 5)


class Counted(Contended):
    """Counts the calls."""

    def __init__(self, store: SessionStore) -> None:
        super().__init__(store, 0)
        self.loads = 0

    async def load(self, session_id: str) -> SessionState:
        self.loads += 1
        return await super().load(session_id)


async def test_an_update_within_itself_is_refused_and_does_not_hang(store: SessionStore) -> None:
    """Of the same session, by the updater's own task; another session may be updated meanwhile."""
    updates = OptimisticStateStore(store)
    one, other = new(), new()
    for state in (one, other):
        await store.save(state)

    async def nested(state: SessionState) -> None:
        await updates.update(other.session_id, add)
        add(state)
        await updates.update(one.session_id, add)

    with pytest.raises(ArgumentError, match="wait for itself"):
        await asyncio.wait_for(updates.update(one.session_id, nested), 10)
    assert [(await store.load(state.session_id)).metadata["n"] for state in (one, other)] == [0, 1]
    assert (await updates.update(one.session_id, add)).version == 2


async def test_updates_in_a_row_start_from_the_state_that_was_saved(store: SessionStore) -> None:
    """One read for all of them; a moment later it is read again, and what callers do to their states is nobody else's."""
    state = new()
    state.metadata["seen"] = {1}
    await store.save(state)
    now = 0.0
    counted = Counted(store)
    shared = OptimisticStateStore(counted, clock=lambda: now)
    for n in range(1, 4):
        given = await shared.update(state.session_id, add)
        assert given.metadata == {"n": n, "seen": {1}}
        given.metadata["n"] = 99
        given.metadata["seen"].add(2)
        given.messages.append({"role": "user", "content": "never saved"})
    assert counted.loads == 1
    now = 1.0
    await shared.update(state.session_id, add)
    assert counted.loads == 2
    stored = await store.load(state.session_id)
    assert (stored.metadata, stored.version, len(stored.messages)) == ({"n": 4, "seen": {1}}, 5, 0)


async def test_who_has_just_written_yields_and_nothing_is_lost(store: SessionStore) -> None:
    """A conflict on the state that was saved last counts as an attempt, waits longer, and loads what is there."""
    state = new()
    await store.save(state)
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    counted = Counted(store)
    shared = OptimisticStateStore(counted, clock=lambda: 0.0, sleep=sleep, random=lambda: 0.5)
    await shared.update(state.session_id, add)
    await OptimisticStateStore(store).update(state.session_id, add)
    assert (await shared.update(state.session_id, add)).metadata == {"n": 3}
    assert waited == pytest.approx([0.025])
    counted._times = 2
    with pytest.raises(ConflictError):
        await shared.update(state.session_id, add, 1)
    assert len(waited) == 2
    # without retries there is no attempt to spend on a guess
    await OptimisticStateStore(store).update(state.session_id, add)
    assert (await shared.update(state.session_id, add, 0)).metadata["n"] == 5


async def test_an_error_over_a_state_out_of_date_is_not_the_callers(store: SessionStore) -> None:
    """Popping from a list that another worker has refilled: the updater failed on what is no longer so."""
    state = new()
    state.plan = ["a"]
    await store.save(state)
    shared = OptimisticStateStore(store, clock=lambda: 0.0)

    def pop(state: SessionState) -> None:
        state.plan.pop()

    await shared.update(state.session_id, pop)
    await OptimisticStateStore(store).update(state.session_id, lambda s: s.plan.append("b"))
    assert (await shared.update(state.session_id, pop)).plan == []
    with pytest.raises(IndexError):
        await shared.update(state.session_id, pop)
    await shared.update(state.session_id, add)
    await store.delete(state.session_id)
    with pytest.raises(NotFoundError):
        await shared.update(state.session_id, pop)


async def test_a_stale_fence_is_no_race_to_be_tried_again(store: SessionStore) -> None:
    """Who lost the lock cannot win it back by trying: the updater runs once, and nobody waits."""
    state = new()
    await store.save(state)
    await store.save(state, fence=7)
    calls = 0

    def fn(state: SessionState) -> None:
        nonlocal calls
        calls += 1
        add(state)

    with pytest.raises(StaleFenceError):
        await OptimisticStateStore(store).update(state.session_id, fn)
    assert calls == 1


async def test_an_error_over_what_is_stored_comes_at_once(store: SessionStore) -> None:
    """The state that was saved last is still the one that is stored: the updater's error is about that, and final."""
    state = new()
    await store.save(state)
    shared = OptimisticStateStore(store, clock=lambda: 0.0)
    await shared.update(state.session_id, add)
    calls = 0

    def fails(state: SessionState) -> None:
        nonlocal calls
        calls += 1
        raise KeyError("plan")

    with pytest.raises(KeyError, match="plan"):
        await shared.update(state.session_id, fails)
    assert calls == 1
