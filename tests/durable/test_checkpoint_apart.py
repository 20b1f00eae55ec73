"""Checkpoints in a store of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

import holdall
from holdall import ArgumentError, CheckpointManager, ConflictError, NotFoundError, SessionState, Step, StepRun
from holdall.durable.session_store import SessionStore
from holdall.durable.ttl import CHECKPOINT_TTL_S
from holdall.stores.base import Entry

from .backends import url_of

PAIRS = [
    pytest.param(("memory", "sqlite"), id="memory+sqlite"),
    pytest.param(("sqlite", "redis"), id="sqlite+redis", marks=pytest.mark.redis),
]


@pytest.fixture(params=PAIRS)
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[SessionStore, SessionStore]]:
    """A store of sessions and one of checkpoints."""
    sessions, checkpoints = (url_of(backend, request, tmp_path) for backend in request.param)
    async with holdall.open(sessions) as first, holdall.open(checkpoints) as second:
        yield first, second


def new() -> SessionState:
    return SessionState(session_id=f"s-{uuid4().hex}", user_id="u", ttl_seconds=1800)


def say(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def test_the_checkpoint_is_a_record_of_its_own(pair: tuple[SessionStore, SessionStore]) -> None:
    """The session is not written, and each has its own version and time to live."""
    sessions, checkpoints = pair
    state = new()
    await sessions.save(state)
    manager = CheckpointManager(sessions, checkpoints=checkpoints)
    for step in (1, 2, 3):
        state.messages.append(say(str(step)))
        state.step_results[step] = step
        assert (await manager.save_checkpoint(state, step)).number == step
    assert state.version == 1
    assert len((await sessions.load(state.session_id)).messages) == 0
    here, there = await sessions.info(state.session_id), await checkpoints.info(state.session_id)
    assert (here.version, here.entries, there.version, there.entries) == (1, 0, 3, 6)
    assert there.expires_at - here.expires_at == pytest.approx(CHECKPOINT_TTL_S - 1800, abs=60)
    resumed, next_step = await CheckpointManager(sessions, checkpoints=checkpoints).resume_from_checkpoint(
        state.session_id
    )
    assert (resumed, next_step) == (state, 4)
    # what was checkpointed and not saved is saved now, against the version the session had
    await sessions.save(resumed)
    assert await sessions.load(state.session_id) == resumed
    with pytest.raises(ConflictError):
        await sessions.save(state)


async def test_a_checkpoint_sends_what_is_new_and_edits_move_back(
    pair: tuple[SessionStore, SessionStore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after the session was saved in between, which moves the session's own watermark."""
    sessions, checkpoints = pair
    sent: list[tuple[int, int | None]] = []
    write = checkpoints.store.write

    async def counted(
        key: str, *args: object, append: tuple[Entry, ...] = (), keep: int | None = None, **more: object
    ) -> object:
        if not key.startswith("~cut/"):  # an edit announces itself, for the sake of threads
            sent.append((len(append), keep))
        return await write(key, *args, append=append, keep=keep, **more)

    monkeypatch.setattr(checkpoints.store, "write", counted)
    state = new()
    manager = CheckpointManager(sessions, checkpoints=checkpoints)
    for step in range(1, 4):
        state.messages.append(say(str(step)))
        await manager.save_checkpoint(state, step)
        await sessions.save(state)
    state.messages[1] = say("edited")
    await manager.save_checkpoint(state, 4)
    assert sent == [(1, None), (1, None), (1, None), (2, 1)]
    assert await CheckpointManager(sessions, checkpoints=checkpoints).load_checkpoint(state.session_id) == state


async def test_a_stale_worker_conflicts_and_a_session_saved_since_takes_over(
    pair: tuple[SessionStore, SessionStore],
) -> None:
    """A state that did not come from the checkpoint may not undo it; one that was saved after it may."""
    sessions, checkpoints = pair
    state = new()
    await sessions.save(state)
    manager = CheckpointManager(sessions, checkpoints=checkpoints)
    stale = await sessions.load(state.session_id)
    state.step_results["a"] = 1
    await manager.save_checkpoint(state, 1)
    before = stale.copy()
    for worker in (manager, CheckpointManager(sessions, checkpoints=checkpoints)):
        with pytest.raises(ConflictError):
            await worker.save_checkpoint(stale, 9)
    assert (stale, stale.current_step) == (before, 0)
    await sessions.save(state)
    later = await sessions.load(state.session_id)
    later.messages.append(say("next day"))
    other = CheckpointManager(sessions, checkpoints=checkpoints)
    await other.save_checkpoint(later, 2)
    assert await other.load_checkpoint(state.session_id) == later
    with pytest.raises(ConflictError):
        await manager.save_checkpoint(state, 3)


async def test_missing_checkpoints_and_ended_sessions(pair: tuple[SessionStore, SessionStore]) -> None:
    """A session alone is no checkpoint; a checkpoint whose session has ended brings it back."""
    sessions, checkpoints = pair
    manager = CheckpointManager(sessions, checkpoints=checkpoints)
    state = new()
    await sessions.save(state)
    with pytest.raises(NotFoundError):
        await manager.resume_from_checkpoint(state.session_id)
    state.messages.append(say("kept"))
    await manager.save_checkpoint(state, 1)
    await sessions.delete(state.session_id)
    resumed, _ = await manager.resume_from_checkpoint(state.session_id)
    await sessions.save(resumed)
    assert (await sessions.load(state.session_id)).messages == [say("kept")]
    with pytest.raises(ArgumentError):
        await manager.save_checkpoint(state, -1)
    with pytest.raises(ArgumentError):
        CheckpointManager(sessions, checkpoints=checkpoints, ttl_s=0)


def steps_of(calls: list[str], names: str, keys: list[str] | None = None, fails: str = "") -> list[Step]:
    def make(name: str) -> Step:
        def fn(run: StepRun) -> str:
            calls.append(name)
            if keys is not None:
                keys.append(run.key)
            if name == fails:
                raise RuntimeError(name)
            run.state.messages.append(say(name))
            return name.upper()

        return Step(name, fn)

    return [make(name) for name in names]


async def test_run_goes_on_from_the_checkpoint(pair: tuple[SessionStore, SessionStore]) -> None:
    """Cut off at its first step and again at its third, on three workers: each step once, its key the same."""
    sessions, checkpoints = pair
    state, calls, keys = new(), [], []
    await sessions.save(state)

    def worker() -> CheckpointManager:
        return CheckpointManager(sessions, checkpoints=checkpoints)

    for fails in "ac":
        with pytest.raises(RuntimeError):
            await worker().run(state.session_id, steps_of(calls, "abcd", keys, fails))
        if fails == "a":
            with pytest.raises(NotFoundError):
                await worker().resume_from_checkpoint(state.session_id)
    report = await worker().run(state.session_id, steps_of(calls, "abcd", keys))
    assert (report.skipped, report.done, calls) == (["a", "b"], ["c", "d"], list("aabccd"))
    assert keys[0] == keys[1]
    assert keys[3] == keys[4]
    assert len(set(keys)) == 4
    assert [m["content"] for m in report.state.messages] == list("abcd")
    # the session itself is the caller's to save, and the next day's run goes on from it
    await sessions.save(report.state)
    again = await worker().run(state.session_id, steps_of(calls, "abcde"))
    assert (again.done, len(again.skipped)) == (["e"], 4)
    await sessions.save(again.state)
    assert (await sessions.load(state.session_id)).step_results.keys() == set("abcde")


async def test_the_same_store_stays_one_record(pair: tuple[SessionStore, SessionStore]) -> None:
    """Naming the session's own store for the checkpoints changes nothing."""
    sessions, _ = pair
    state = new()
    await CheckpointManager(sessions, checkpoints=sessions).save_checkpoint(state, 1)
    assert (state.version, (await sessions.info(state.session_id)).version) == (1, 1)
    assert (await CheckpointManager(sessions).resume_from_checkpoint(state.session_id))[1] == 2
