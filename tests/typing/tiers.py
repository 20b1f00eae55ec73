"""Never run, only type-checked: tiers, caches and limits as a user writes them."""

from __future__ import annotations

from typing import Any

import holdall
from holdall import CheckpointManager, OptimisticStateStore, SessionState, TieredStateManager
from holdall.stores.memory import MemoryStore
from holdall.stores.sqlite import SqliteStore


def rename(profile: dict[str, Any]) -> None:
    profile["name"] = "Ada"


async def use() -> None:
    policies = holdall.TtlPolicies(session=2 * 3600)
    async with TieredStateManager(
        holdall.open("sqlite:///warm.db"), hot=MemoryStore(), cold=SqliteStore("cold.db"), write="through"
    ) as tiers:
        state: SessionState = await tiers.load("s")
        is_moved: bool = await tiers.archive("s", ttl_s=policies.of("history"))
        idle: list[str] = await tiers.archive_idle(limit=10, status="done")
        await OptimisticStateStore(tiers).update("s", lambda one: one.messages.clear())
        await CheckpointManager(tiers).save_checkpoint(state, 1)
        cache = holdall.ToolResultCache(tiers, ttl_s=policies.tool_cache)
        answer: Any = await cache.get_or_call("search", {"q": "x"}, lambda: 1)
        decision = await holdall.RateLimiter(tiers, 60, 60.0, algorithm="token_bucket", burst=10).take("u")
        profile: dict[str, Any] = await holdall.UserProfileStore(tiers).update("u", rename)
        erased: bool = (await holdall.delete_user("u", tiers)).is_complete
        async with holdall.Sweeper(tiers, every_s=60):
            pass
        _ = (is_moved, idle, answer, decision.retry_after_s, profile, erased)


def advised() -> dict[str, str]:
    return {one.question: one.answer for one in holdall.advise(holdall.Workload(hosts=3, writers=2))}
