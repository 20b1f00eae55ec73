"""Never run, only type-checked: sessions as a user writes them."""

from __future__ import annotations

from typing import Any

import holdall
from holdall import CheckpointManager, OptimisticStateStore, SessionState, Step, StepRun


def count(state: SessionState) -> None:
    state.metadata["n"] = state.metadata.get("n", 0) + 1


async def replace(state: SessionState) -> SessionState:
    return state


async def fetch(run: StepRun) -> dict[str, Any]:
    run.state.messages.append({"role": "tool", "content": run.key})
    return {"ok": True}


async def use() -> None:
    async with holdall.open("sqlite:///sessions.db") as store:
        state: SessionState = await store.load("s")
        number: int = (await store.save(state)).number
        ids: list[str] = await store.list(user_id="u", status="active")
        texts: list[Any] = [item.message["content"] for item in await store.history("s", limit=10)]
        gone: bool = await store.delete("s")
        n: int = await store.delete_user("u")
        shared = OptimisticStateStore(store.scoped("u"))
        await shared.update("s", count)
        await shared.update("s", replace, max_retries=3, create=lambda: SessionState("s", "u"))
        manager = CheckpointManager(store, policy=holdall.policy_for(0.05))
        resumed, next_step = await manager.resume_from_checkpoint("s")
        await manager.save_checkpoint(resumed, next_step)
        report = await manager.run("s", [Step("fetch", fetch, phase="research")])
        done: list[str] = report.done
        _ = (number, ids, texts, gone, n, done)


def use_sync() -> None:
    with holdall.open_sync("redis://localhost") as store:
        state: SessionState = store.load("s")
        number: int = store.save(state).number
        ids: list[str] = store.scoped("u").list()
        _ = (number, ids)
