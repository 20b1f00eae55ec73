"""Checkpoints, and code without asyncio, on sessions that are written under a lock."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import holdall
from holdall import (
    ArgumentError,
    CheckpointManager,
    ConflictError,
    LockedStateStore,
    LockHeldError,
    LockLostError,
    OptimisticStateStore,
    SessionState,
    StaleFenceError,
    Step,
)
from holdall.durable.fenced import FencedSessions
from holdall.durable.locked import HeldSession
from holdall.durable.session_store import SessionStore
from holdall.stores.memory import MemoryStore
from holdall.stores.memory_lock import MemoryLock


def session(name: str = "s") -> SessionState:
    return SessionState(session_id=name, user_id="u")


def steps(ran: list[str]) -> list[Step]:
    def do(name: str) -> Step:
        return Step(name, lambda run: ran.append(run.name))

    return [do("a"), do("b"), do("c")]


async def test_a_run_under_a_lock_is_checkpointed_under_its_fence(any_url: str) -> None:
    """What `hold` yields is a store to the manager; who has no fence, or an old one, is refused by a typed error."""
    async with holdall.open(any_url) as store:
        name = f"s-{time.time_ns()}"
        await store.save(session(name))
        locked = LockedStateStore(store, MemoryLock())
        ran: list[str] = []
        async with locked.hold(name) as first:
            report = await CheckpointManager(first).run(first.state, steps(ran)[:2])
            assert (report.done, ran) == (["a", "b"], ["a", "b"])
        async with locked.hold(name) as second:
            assert second.fence > first.fence
            manager = CheckpointManager(second)
            state, next_step = await manager.resume_from_checkpoint(name)
            assert (next_step, set(state.step_results)) == (3, {"a", "b"})
            assert (await manager.run(name, steps(ran))).done == ["c"]
            # by its number, as with a lock of one's own
            await CheckpointManager(store, fence=second.fence).save_checkpoint(await store.load(name), 3)
            late = await store.load(name)
            for manager in (CheckpointManager(store), CheckpointManager(store, fence=first.fence)):
                with pytest.raises(StaleFenceError):
                    await manager.save_checkpoint(late, 4)
        state, next_step = await CheckpointManager(store).resume_from_checkpoint(name)
        assert (next_step, state.version) == (4, late.version)
        assert await FencedSessions(store, second.fence).delete(name)


async def test_checkpoints_in_a_store_of_their_own_carry_the_fence(any_url: str) -> None:
    """A holder whose time is over is kept out there too."""
    async with holdall.open(any_url) as store, holdall.open("memory:") as apart:
        name = f"s-{time.time_ns()}"
        await store.save(session(name))
        locked = LockedStateStore(store, MemoryLock())
        async with locked.hold(name) as first:
            earlier = CheckpointManager(store, checkpoints=apart, fence=first.fence)
            await earlier.save_checkpoint(first.state, 1)
        async with locked.hold(name) as second:
            manager = CheckpointManager(second, checkpoints=apart)
            state = await manager.load_checkpoint(name)
            await manager.save_checkpoint(state, 2)
            for stale in (earlier, CheckpointManager(store, checkpoints=apart)):
                with pytest.raises(StaleFenceError):
                    await stale.save_checkpoint(await stale.load_checkpoint(name), 3)


async def test_a_checkpoint_that_outlived_its_session_is_gone_on_with() -> None:
    """The fences of the session that was made anew count from 1; whoever is stale is refused all the same."""
    now = [1_000.0]
    store, apart = (SessionStore(MemoryStore(now=lambda: now[0])) for _ in range(2))
    locked = LockedStateStore(store, MemoryLock())
    work = [Step(f"s{n}", lambda _: 1) for n in range(4)]
    for n in (1, 2):
        async with locked.hold("s", create=lambda: session("s")) as held:
            await CheckpointManager(held, checkpoints=apart).run(held.state, work[:n])
            await held.save(await held.load("s"))
    now[0] += 7200
    for n in (3, 4):
        async with locked.hold("s", create=lambda: session("s")) as held:
            report = await CheckpointManager(held, checkpoints=apart).run(held.state, work[:n])
            assert (len(report.done), len(report.skipped)) == (1, n - 1)
            stale = held.fence - 1
            manager = CheckpointManager(store, checkpoints=apart, fence=stale)
            with pytest.raises(StaleFenceError):
                await manager.save_checkpoint(await manager.load_checkpoint("s"), 9)


def test_an_interrupt_as_a_session_is_taken_leaves_it_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is given back, though nobody got to know that it was had."""
    lock = MemoryLock()
    with holdall.open_sync(f"sqlite:///{tmp_path}/s.db") as store:
        locked = store.state_store("lock", lock=lock, wait_s=0.1)
        run = store._runner.run

        def interrupted(call: Any) -> Any:
            answer = run(call)
            if isinstance(answer, HeldSession):
                raise KeyboardInterrupt
            return answer

        monkeypatch.setattr(store._runner, "run", interrupted)
        with pytest.raises(KeyboardInterrupt), locked.hold("s", create=session):
            raise AssertionError("it never begins")
        monkeypatch.undo()
        with locked.hold("s") as held:
            held.save()
            with pytest.raises(LockHeldError), locked.hold("s"):
                raise AssertionError("it never begins")


async def test_a_held_session_is_a_store_of_that_session_alone() -> None:
    """Updates go under its fence too; another session, and a lease that is over, are refused before anything is sent."""
    async with holdall.open("memory:") as store:
        for name in ("s", "other"):
            await store.save(session(name))
        now = [100.0]
        locked = LockedStateStore(store, MemoryLock(), clock=lambda: now[0])
        seen: list[HeldSession] = []

        async def work() -> None:
            async with locked.hold("s") as held:
                seen.append(held)
                shared = OptimisticStateStore(held)
                for _ in range(3):
                    await shared.update("s", lambda state: state.metadata.update(n=state.metadata.get("n", 0) + 1))
                held.state = await held.load("s")
                assert held.state.metadata == {"n": 3}
                assert (await held.save()).number == held.state.version == 6
                other = await held.load("other")
                for call in (held.save(other), held.extend_ttl("other", 9), held.delete("other")):
                    with pytest.raises(ArgumentError, match="not for 'other'"):
                        await call
                now[0] += 1000
                for call in (held.save(), CheckpointManager(held).save_checkpoint(held.state, 1), held.delete("s")):
                    with pytest.raises(LockLostError):
                        await call

        with pytest.raises(LockLostError):
            await work()
        assert (await store.load("s")).version == 6
        assert seen[0].state.current_step == 0


@pytest.mark.parametrize("fence", [-1, True, "1", 2**63])
async def test_what_is_no_fence_is_refused(fence: Any) -> None:
    async with holdall.open("memory:") as store:
        with pytest.raises(ArgumentError):
            CheckpointManager(store, fence=fence)


def test_code_without_asyncio_writes_under_fences(tmp_path: Path) -> None:
    """Save and delete take a fence, updates come by the name of a strategy, and a lock is held by a `with`."""
    with holdall.open_sync(f"sqlite:///{tmp_path}/s.db") as store:
        store.save(session())
        merging = store.scoped("u").state_store("merge")
        assert merging.update("s", lambda state: state.metadata.update(k=1)).metadata == {"k": 1}
        locked = store.state_store("lock", lock=MemoryLock(), wait_s=0.05)
        assert locked.update("s", lambda state: state.metadata.update(k=2)).metadata == {"k": 2}
        with locked.hold("s") as held:
            held.state.metadata["k"] = 3
            assert held.save().number == held.state.version
            held.lease.check()
            with pytest.raises(LockHeldError), locked.hold("s"):
                raise AssertionError("held twice")
        loaded = store.load("s")
        assert loaded.metadata == {"k": 3}
        with pytest.raises(StaleFenceError):
            store.save(loaded)
        with pytest.raises(StaleFenceError):
            store.scoped("u").delete("s", fence=held.fence - 1)
        version = store.save(loaded, fence=held.fence)
        with pytest.raises(ConflictError):
            store.delete("s", expected=version._replace(number=1), fence=held.fence)
        with pytest.raises(ZeroDivisionError), locked.hold("s"):
            raise ZeroDivisionError
        with pytest.raises(holdall.NotFoundError), locked.hold("none"):
            raise AssertionError("there is none")
        with locked.hold("s") as held:
            assert store.delete("s", fence=held.fence)


def test_holders_in_threads_take_turns(tmp_path: Path) -> None:
    """Four threads through one lock: nothing is lost, and nobody meets a conflict."""
    with holdall.open_sync("memory:") as store:
        store.save(session())
        locked = store.state_store("lock", lock=MemoryLock())

        def work() -> None:
            for _ in range(5):
                with locked.hold("s") as held:
                    held.state.token_count += 1
                    held.save()

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.load("s").token_count == 20


class _Forgetful(MemoryLock):
    """Forgets who holds it as soon as it is asked to extend."""

    async def extend(self, name: str, token: str, ttl_s: float) -> bool:
        return False


def test_a_lease_that_is_lost_is_told_at_the_next_save_and_at_the_end() -> None:
    """A body that blocks is not stopped, but nothing of it is written; the lock is closed with the store."""
    lock = _Forgetful()
    with holdall.open_sync("memory:") as store:
        version = store.save(session())
        locked = store.state_store("lock", lock=lock, ttl_s=0.15)

        def work() -> None:
            with locked.hold("s") as held:
                while held.lease.is_held:
                    time.sleep(0.01)
                with pytest.raises(LockLostError):
                    held.save()

        with pytest.raises(LockLostError):
            work()
        # the claim of `hold` alone
        assert store.load("s").version == version.number + 1
    with pytest.raises(holdall.ClosedError):
        asyncio.run(lock.acquire("s", "t", 1.0))
