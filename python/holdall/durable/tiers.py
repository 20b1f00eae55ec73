"""Sessions in tiers: hot, warm and cold stores that behave as one session store."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdall.durable.finish import finish
from holdall.durable.keys import check_id, session_id_of, session_key
from holdall.durable.session_store import SessionStore
from holdall.durable.sessions import NO_LOG, missing
from holdall.durable.tiered import Reads, TieredStore
from holdall.durable.ttl import HISTORY_TTL_S, check_ttl
from holdall.errors import ArgumentError

if TYPE_CHECKING:
    from holdall.state import StateSerializer
    from holdall.stores.base import Store

# Sessions that one call of `archive_idle` looks at, unless told otherwise.
ARCHIVED_PER_CALL: Final = 1000


class TieredStateManager(SessionStore):
    """A session store over a hot, a warm and a cold store; whatever takes a `SessionStore` takes it.

    Sessions are written to warm, which decides who wins, and copied to hot. Reads come from the quickest tier that has the
    current version, and put a copy into hot. `archive` moves what nobody works on to cold, and the next write brings it back.
    How each tier is used, and what happens while one of them is slow or dead, is said in `TieredStore`.

    Durability: `save` returns when warm has the write, so it is as durable as warm; losing hot loses nothing, losing cold loses
    what was archived.

    Args:
        warm: The tier that decides, such as `PostgresStore`; or a session store, whose serializer is used too.
        hot: Copies, such as `RedisStore`, or `MemoryStore` for this process alone.
        cold: The archive, such as `S3Store`.
        serializer: How states become bytes.
        reads: "latest": never an older version than was acknowledged before the read; "bounded": up to `max_stale_s` old.
        options: As of `TieredStore`: hot_ttl_s, max_stale_s, negative_s, and time limits for each tier.
    """

    store: TieredStore

    def __init__(
        self,
        warm: Store | SessionStore,
        *,
        hot: Store | SessionStore | None = None,
        cold: Store | SessionStore | None = None,
        serializer: StateSerializer | None = None,
        reads: Reads = "latest",
        now: Callable[[], float] = time.time,
        **options: Any,
    ) -> None:
        if serializer is None and isinstance(warm, SessionStore):
            serializer = warm.serializer
        tiers = [tier.store if isinstance(tier, SessionStore) else tier for tier in (warm, hot, cold)]
        given = [tier for tier in tiers if tier is not None]
        if len({id(tier) for tier in given}) < len(given):
            raise ArgumentError("two tiers are the same store; each needs its own, or its own namespace")
        assert tiers[0] is not None  # noqa: S101 - warm is no option
        store = TieredStore(tiers[0], hot=tiers[1], cold=tiers[2], reads=reads, now=now, **options)
        super().__init__(store, serializer, name=repr(store))

    async def archive(self, session_id: str, *, ttl_s: float | None = HISTORY_TTL_S) -> bool:
        """Move a session's content to cold, to live there for `ttl_s` seconds, 90 days by default.

        It stays in `list`, and is loaded, saved and deleted as before, at the same version. The next save brings it back.

        Returns:
            False where there is no such session, or somebody wrote it at this moment.

        Raises:
            DecodeError: What cold gave back is not what was copied there; the session stays in warm.
        """
        self._check_open()
        return await finish(self.store.archive(session_key(session_id), check_ttl(ttl_s)))

    async def restore_archived(self, session_id: str) -> bool:
        """Move an archived session back to warm without changing it; False where it is not archived.

        It makes a new version: a worker that holds the session must load it again.
        """
        self._check_open()
        if not await self.store.is_archived(session_key(session_id)):
            return False
        ttl_s = (await self.load(session_id)).ttl_seconds
        return await finish(self.store.restore(session_key(session_id), check_ttl(ttl_s)))

    async def archive_idle(
        self, *, limit: int = ARCHIVED_PER_CALL, ttl_s: float | None = HISTORY_TTL_S, status: str | None = None
    ) -> list[str]:
        """Archive sessions that nobody works on: those without a copy in hot, whose life there each save and load renews.

        Args:
            limit: Sessions to look at.
            ttl_s: How long they live in the archive.
            status: Only sessions with this status, such as "done".

        Returns:
            The ids of those that were archived.

        Raises:
            ArgumentError: There is no hot tier, so that idle sessions cannot be told from others, and no status was given.
        """
        self._check_open()
        if self.store.hot is None and status is None:
            raise ArgumentError("archive_idle tells idle sessions by their copies in hot: give a hot tier, or a status")
        tags = {} if status is None else {"status": status}
        archived: list[str] = []
        looked_at = 0
        async for key in self.store.find(**tags):
            session_id = session_id_of(key)
            if session_id is None:
                continue
            if looked_at == limit:
                break
            looked_at += 1
            if await self.store.is_idle(key) and await finish(self.store.archive(key, check_ttl(ttl_s))):
                archived.append(session_id)
        return archived

    async def is_archived(self, session_id: str) -> bool:
        """Whether the session's content is in cold.

        Raises:
            NotFoundError: There is no such session.
        """
        self._check_open()
        if await self.store.read(session_key(session_id), log_from=NO_LOG) is None:
            raise missing(session_id)
        return await self.store.is_archived(session_key(session_id))

    async def _delete_user(self, user_id: str) -> int:
        n_deleted = await super()._delete_user(user_id)
        # What a crash left in a tier, with nothing that points to it, is the user's too.
        await self.store.drop_user(check_id(user_id, "user_id"))
        return n_deleted

    async def sweep(self) -> int:
        """Free what has expired in every tier, and what crashes left in the archive; return how much that was."""
        self._check_open()
        return await self.store.sweep()
