"""What happens when two workers change one session, by the name of the strategy."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

import holdall
from holdall import (
    ArgumentError,
    ConflictError,
    MergeConflictError,
    NotFoundError,
    SessionState,
    StaleFenceError,
    UnknownNameError,
    state_store,
)
from holdall.durable.conflict import STRATEGIES
from holdall.durable.session_store import SessionStore
from holdall.errors import OutcomeUnknownError
from holdall.stores.memory_lock import MemoryLock


def new() -> SessionState:
    return SessionState(session_id=f"s-{uuid4().hex}", user_id="u", metadata={"n": 0})


def texts(state: SessionState) -> list[str]:
    return [message["content"] for message in state.messages]


def said(content: str) -> dict[str, str]:
    return {"role": "user", "content": content}


class Interrupted:
    """A store in which somebody else does something before each of the first saves."""

    def __init__(self, store: SessionStore, *others: Callable[[SessionState], Any]) -> None:
        self._store = store
        self._others = list(others)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def save(self, state: SessionState, **options: Any) -> Any:
        if self._others:
            other = await self._store.load(state.session_id)
            result = self._others.pop(0)(other)
            await (result if asyncio.iscoroutine(result) else self._store.save(other))
        return await self._store.save(state, **options)


def options_of(name: str) -> dict[str, Any]:
    return {"lock": MemoryLock()} if name == "lock" else {}


@pytest.mark.parametrize("name", list(STRATEGIES))
async def test_every_strategy_updates_creates_and_refuses(store: SessionStore, name: str) -> None:
    """The calls are the same; without anybody else so is what they do."""
    states = state_store(store, name, **options_of(name))
    session_id = new().session_id

    def add(state: SessionState) -> None:
        state.metadata["n"] += 1
        state.messages.append(said(str(state.metadata["n"])))

    async def replace(state: SessionState) -> SessionState:
        twin = state.copy()
        await asyncio.sleep(0)
        add(twin)
        return twin

    with pytest.raises(NotFoundError):
        await states.update(session_id, add)
    with pytest.raises(ArgumentError):
        await states.update(session_id, add, -1)

    def make() -> SessionState:
        return SessionState(session_id=session_id, user_id="u", metadata={"n": 0})

    await states.update(session_id, add, create=make)
    given = await states.update(session_id, replace)
    stored = await store.load(session_id)
    assert stored == given
    assert (stored.metadata["n"], texts(stored), stored.version) == (2, ["1", "2"], 2)
    with pytest.raises(ArgumentError, match="returned the state of"):
        await states.update(session_id, lambda _: new())
    with pytest.raises(ZeroDivisionError):
        await states.update(session_id, lambda _: 1 / 0)
    assert (await store.load(session_id)).version == 2


def test_unknown_names_are_refused() -> None:
    """With the known ones."""
    with pytest.raises(UnknownNameError, match="optimistic, merge, last_writer_wins, lock"):
        state_store(holdall.open("memory:"), "pessimistic")


async def test_case_11_merge_keeps_what_both_wrote(store: SessionStore) -> None:
    """A sets a, B sets b from the same version; the function runs once, and what is stored is what is given back."""
    state = new()
    state.messages.append(said("1"))
    await store.save(state)
    n_calls = 0

    def ours(state: SessionState) -> None:
        nonlocal n_calls
        n_calls += 1
        state.metadata["a"] = 1
        state.add_cost(0.5)
        state.messages.append(said("ours"))

    def theirs(state: SessionState) -> None:
        state.metadata["b"] = 2
        state.add_cost(0.25)
        state.messages.append(said("theirs"))
        state.step_results["s"] = "done"

    contended = Interrupted(store, theirs, theirs)
    given = await state_store(contended, "merge").update(state.session_id, ours)
    stored = await store.load(state.session_id)
    assert stored == given
    assert stored.metadata == {"n": 0, "a": 1, "b": 2}
    assert texts(stored) == ["1", "theirs", "theirs", "ours"]
    assert stored.accumulated_cost == pytest.approx(1.0)
    assert (n_calls, stored.version) == (1, 4)
    # what is given back can be changed and saved again
    given.messages.append(said("more"))
    await store.save(given)
    assert texts(await store.load(state.session_id))[-2:] == ["ours", "more"]


async def test_a_merge_after_an_edit_of_old_messages_is_stored_as_merged(store: SessionStore) -> None:
    """The watermark of the result stands where its log departs from the stored one."""
    state = new()
    state.messages.extend(said(str(n)) for n in range(4))
    await store.save(state)

    def trim(state: SessionState) -> None:
        del state.messages[:2]
        state.messages.append(said("ours"))

    contended = Interrupted(store, lambda other: other.messages.append(said("theirs")))
    given = await state_store(contended, "merge").update(state.session_id, trim)
    stored = await store.load(state.session_id)
    assert texts(stored) == texts(given) == ["2", "3", "theirs", "ours"]


async def test_a_clash_writes_nothing(store: SessionStore) -> None:
    """The typed error holds both sides; the winner's state stands."""
    state = new()
    await store.save(state)
    contended = Interrupted(store, lambda other: setattr(other, "summary", "theirs"))
    with pytest.raises(MergeConflictError) as caught:
        await state_store(contended, "merge").update(state.session_id, lambda s: setattr(s, "summary", "ours"))
    assert (caught.value.field, caught.value.ours, caught.value.theirs) == ("summary", "ours", "theirs")
    assert (await store.load(state.session_id)).summary == "theirs"


async def test_merging_does_not_revive_or_mix_sessions(store: SessionStore) -> None:
    """Deleted meanwhile: missing. Deleted and made anew: the conflict, since ours belongs to what is gone."""

    def ours(state: SessionState) -> None:
        state.metadata["a"] = 1

    state = new()
    await store.save(state)
    contended = Interrupted(store, lambda other: store.delete(other.session_id))
    with pytest.raises(NotFoundError):
        await state_store(contended, "merge").update(state.session_id, ours)

    async def anew(other: SessionState) -> None:
        await store.delete(other.session_id)
        await store.save(SessionState(session_id=other.session_id, user_id="u", metadata={"new": 1}))

    await store.save(SessionState(session_id=state.session_id, user_id="u"))
    with pytest.raises(ConflictError):
        await state_store(Interrupted(store, anew), "merge").update(state.session_id, ours)
    assert (await store.load(state.session_id)).metadata == {"new": 1}


async def test_merging_ends_after_its_retries(store: SessionStore) -> None:
    """With the last conflict; waits as documented."""
    state = new()
    await store.save(state)
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    def theirs(other: SessionState) -> None:
        other.token_count += 1

    contended = Interrupted(store, *[theirs] * 3)
    merging = state_store(contended, "merge", sleep=sleep, random=lambda: 0.5)
    with pytest.raises(ConflictError):
        await merging.update(state.session_id, lambda s: s.messages.append(said("ours")), 2)
    assert waited == pytest.approx([0.005, 0.010])
    assert texts(await store.load(state.session_id)) == []


async def test_the_last_writer_wins_whole(store: SessionStore) -> None:
    """Nothing of two writers is mixed, also where the other cut the log; what is given back can be saved again."""
    state = new()
    state.messages.extend(said(str(n)) for n in range(3))
    await store.save(state)

    def cut(other: SessionState) -> None:
        del other.messages[1:]
        other.metadata["theirs"] = 1

    contended = Interrupted(store, cut, lambda other: other.messages.append(said("theirs")))
    given = await state_store(contended, "last_writer_wins").update(
        state.session_id, lambda s: s.messages.append(said("ours"))
    )
    stored = await store.load(state.session_id)
    assert stored == given
    assert (texts(stored), stored.metadata, stored.version) == (["0", "1", "2", "ours"], {"n": 0}, 4)
    given.messages.append(said("more"))
    await store.save(given)
    assert texts(await store.load(state.session_id)) == ["0", "1", "2", "ours", "more"]


async def test_the_last_writer_does_not_revive_what_was_deleted(store: SessionStore) -> None:
    """And gives up after its retries."""
    state = new()
    await store.save(state)
    contended = Interrupted(store, lambda other: store.delete(other.session_id))
    with pytest.raises(ConflictError):
        await state_store(contended, "last_writer_wins").update(state.session_id, lambda _: None)
    with pytest.raises(NotFoundError):
        await store.load(state.session_id)
    await store.save(SessionState(session_id=state.session_id, user_id="u"))
    contended = Interrupted(store, *[lambda other: setattr(other, "status", "theirs")] * 2)
    with pytest.raises(ConflictError):
        await state_store(contended, "last_writer_wins").update(state.session_id, lambda _: None, 1)


@pytest.mark.parametrize("name", ["optimistic", "merge", "last_writer_wins"])
async def test_without_the_lock_a_locked_session_refuses_at_once(store: SessionStore, name: str) -> None:
    """A missing fence does not appear by trying again."""
    state = new()
    locked = state_store(store, "lock", lock=MemoryLock())
    await locked.update(state.session_id, lambda _: None, create=lambda: state)

    async def sleep(_: float) -> None:
        raise AssertionError("it waited")

    options = {} if name == "last_writer_wins" else {"sleep": sleep}
    with pytest.raises(StaleFenceError):
        await state_store(store, name, **options).update(state.session_id, lambda _: None)
    with pytest.raises(StaleFenceError):
        await store.scoped("u").delete(state.session_id)
    assert await store.scoped("u").delete(state.session_id, fence=9)


@pytest.mark.parametrize("name", ["merge", "last_writer_wins", "lock"])
async def test_an_unknown_outcome_is_not_repeated(store: SessionStore, name: str) -> None:
    """It may have been a success."""

    class LostReply(Interrupted):
        async def save(self, state: SessionState, **options: Any) -> Any:
            await self._store.save(state, **options)
            raise OutcomeUnknownError("lost", backend="test", operation="write", cause="test")

    state = new()
    await store.save(state)

    def add(state: SessionState) -> None:
        state.metadata["n"] += 1

    with pytest.raises(OutcomeUnknownError):
        await state_store(LostReply(store), name, **options_of(name)).update(state.session_id, add)
    assert (await store.load(state.session_id)).metadata == {"n": 1}


@pytest.mark.parametrize("name", ["merge", "lock"])
async def test_ten_updates_of_ten_workers_all_land(store: SessionStore, name: str) -> None:
    """Each with an object of its own, so that they meet in the store."""
    state = new()
    await store.save(state)
    options = options_of(name)

    def add(state: SessionState) -> None:
        state.token_count += 1
        state.messages.append(said("one of ten"))

    await asyncio.gather(*(state_store(store, name, **options).update(state.session_id, add, 1000) for _ in range(10)))
    stored = await store.load(state.session_id)
    assert (stored.token_count, len(stored.messages)) == (10, 10)
