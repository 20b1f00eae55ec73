"""Never run, only type-checked: conflict strategies and locks as a user writes them."""

from __future__ import annotations

import holdall
from holdall import LockedStateStore, MergingStateStore, RedisLock, Redlock, SessionState
from holdall.durable.locks import Lock, hold


def count(state: SessionState) -> None:
    state.token_count += 1


async def use() -> None:
    lock: Lock = Redlock([RedisLock(f"redis://node-{n}") for n in range(5)])
    async with holdall.open("redis://localhost") as store:
        state: SessionState = await MergingStateStore(store.scoped("u")).update("s", count)
        await holdall.state_store(store, "last_writer_wins").update("s", count, 3, create=lambda: state)
        locked = LockedStateStore(store, lock, ttl_s=10.0)
        async with locked.hold("s") as held:
            held.state.summary = "mine"
            number: int = (await held.save()).number
            fence: int = held.fence
        await store.save(state, fence=fence)
        await store.delete("s", fence=fence)
        async with hold(lock, "a job", wait_s=None) as lease:
            left: float = lease.remaining_s
            lease.check()
        _ = (number, left)


def use_sync_locks() -> None:
    with holdall.open_sync("redis://localhost") as store:
        merged: SessionState = store.state_store("merge").update("s", lambda state: None)
        with store.state_store("lock", lock=holdall.RedisLock("redis://localhost")).hold("s") as held:
            number: int = held.save(held.state).number
        store.save(merged, fence=held.fence)
        _ = number
