"""S9 and case 34: a cancelled call leaves the store usable and its outcome either whole or absent, and known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import holdall
from holdall import NotFoundError, OptimisticStateStore, SessionState
from holdall.durable.finish import finish
from holdall.durable.session_store import SessionStore


def say(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def cancel_after(call: Coroutine[Any, Any, Any], turns: int, *, again: int | None = None) -> bool:
    """Cancel a call after so many turns of the event loop, perhaps twice; whether it was cancelled before its end."""
    task = asyncio.ensure_future(call)
    for _ in range(turns):
        await asyncio.sleep(0)
    task.cancel()
    if again is not None:
        for _ in range(again):
            await asyncio.sleep(0)
        task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


async def settle() -> None:
    """Wait for every call that a cancellation left to end by itself."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        await asyncio.wait(others, timeout=10)


@pytest.mark.parametrize("turns", [*range(12), 20, 50, 200, 1000])
async def test_case_34_a_cancelled_save_is_whole_or_absent_and_known(any_url: str, session_id: str, turns: int) -> None:
    """Cancelled once at any moment: what is stored is what `state.version` says, and the next save works."""
    async with holdall.open(any_url) as store:
        state = SessionState(session_id=session_id, user_id="u")
        state.messages.append(say("0"))
        await store.save(state)
        state.messages.append(say("1"))
        state.metadata["k"] = 1
        await cancel_after(store.save(state), turns)
        stored = await store.load(session_id)
        assert stored.version == state.version
        assert len(stored.messages) == stored.version
        assert stored.metadata == ({"k": 1} if stored.version == 2 else {})
        await store.save(state)
        assert await store.load(session_id) == state


@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 20])
@pytest.mark.parametrize("again", [0, 1, 3])
async def test_a_save_that_is_cancelled_twice_is_whole_or_absent(
    any_url: str, session_id: str, turns: int, again: int
) -> None:
    """A second cancellation cuts the call off: the caller may not know, but nothing is half written and the pool works."""
    async with holdall.open(any_url) as store:
        state = SessionState(session_id=session_id, user_id="u")
        await store.save(state)
        state.messages.append(say("1"))
        state.step_results["a"] = 1
        await cancel_after(store.save(state), turns, again=again)
        await settle()
        stored = await store.load(session_id)
        assert (stored.version, len(stored.messages), len(stored.step_results)) in ((1, 0, 0), (2, 1, 1))
        other = SessionState(session_id=f"{session_id}-2", user_id="u")
        await store.save(other)
        await asyncio.gather(*(store.load(session_id) for _ in range(20)))


CALLS: dict[str, Callable[[SessionStore, str], Coroutine[Any, Any, Any]]] = {
    "load": lambda store, session_id: store.load(session_id),
    "history": lambda store, session_id: store.history(session_id),
    "list": lambda store, _: store.list(user_id="u"),
    "extend_ttl": lambda store, session_id: store.extend_ttl(session_id, 500),
    "delete": lambda store, session_id: store.delete(session_id),
    "update": lambda store, session_id: OptimisticStateStore(store).update(
        session_id, lambda state: state.messages.append(say("u"))
    ),
}


@pytest.mark.parametrize("name", list(CALLS))
async def test_a_cancelled_call_leaves_the_store_usable(any_url: str, session_id: str, name: str) -> None:
    """Each call, cancelled at each of its first turns; afterwards the session is whole and every connection works."""
    async with holdall.open(any_url) as store:
        for turns in (*range(8), 15, 40):
            state = SessionState(session_id=f"{session_id}-{turns}", user_id="u")
            state.messages.append(say("0"))
            await store.save(state)
            await cancel_after(CALLS[name](store, state.session_id), turns)
            try:
                stored = await store.load(state.session_id)
            except NotFoundError:
                assert name == "delete"
                continue
            assert len(stored.messages) == stored.version
        await asyncio.gather(*(store.load(f"{session_id}-99") for _ in range(20)), return_exceptions=True)
        await store.save(SessionState(session_id=f"{session_id}-end", user_id="u"))


async def test_a_call_that_hangs_does_not_hold_its_cancelled_caller_for_ever() -> None:
    """The caller waits for the grace period, then the call is cut off."""
    ended = asyncio.Event()

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.ensure_future(finish(hang(), grace_s=0.02))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_a_timeout_around_a_save_still_ends_as_a_timeout() -> None:
    """The cancellation that a timeout sends is passed on, not swallowed."""

    async def slow() -> str:
        await asyncio.sleep(0.03)
        return "done"

    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(finish(slow()), 0.005)


async def test_an_error_after_a_cancellation_is_not_a_second_error() -> None:
    """The caller gets its cancellation; nothing is left that nobody looked at."""

    async def fail() -> None:
        await asyncio.sleep(0.005)
        raise ValueError

    task = asyncio.ensure_future(finish(fail()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
