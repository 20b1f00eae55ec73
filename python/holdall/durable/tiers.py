"""Sessions in tiers: hot, warm and cold stores that behave as one session store."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal

from holdall.durable.behind import BehindStore
from holdall.durable.finish import finish
from holdall.durable.keys import check_id, session_id_of, session_key
from holdall.durable.session_store import SessionStore
from holdall.durable.sessions import NO_LOG, missing
from holdall.durable.sweep import sweep
from holdall.durable.tiered import Reads, TieredStore
from holdall.durable.ttl import HISTORY_TTL_S, check_ttl
from holdall.errors import ArgumentError, UnknownNameError
from holdall.stores.base import Store

if TYPE_CHECKING:
    from holdall.state import StateSerializer

Writes = Literal["through", "behind"]

# Sessions that one call of `archive_idle` looks at, unless told otherwise.
ARCHIVED_PER_CALL: Final = 1000


class TieredStateManager(SessionStore):
    """A session store over a hot, a warm and a cold store; whatever takes a `SessionStore` takes it.

    Sessions are written to warm, which decides who wins, and copied to hot. Reads come from the quickest tier that has the
    current version, and put a copy into hot. `archive` moves what nobody works on to cold, and the next write brings it back.
    How each tier is used, and what happens while one of them is slow or dead, is said in `TieredStore`.

    Durability, by `write=`:

    - "through": `save` returns when warm has the write, so it is as durable as warm. Losing hot loses nothing; losing cold loses
      what was archived.
    - "behind": `save` returns when hot has the write, and warm follows within `flush_s` seconds. It is as durable as hot:
      when hot crashes, sessions can lose what was saved since their last flush, and go back to it; a worker that loaded them
      since then gets a `ConflictError`. Killing workers loses nothing. See `BehindStore`.

    Args:
        warm: The tier that decides, such as `PostgresStore`; or a session store, whose serializer is used too.
        hot: Copies, such as `RedisStore`, or `MemoryStore` for this process alone. Everything in it is replaced and deleted as
            copies are: give it a namespace of its own.
        cold: The archive, such as `S3Store`; likewise.
        serializer: How states become bytes.
        write: "through" or "behind"; behind needs a hot tier that all workers share and that evicts nothing.
        reads: "latest": never an older version than was acknowledged before the read; "bounded": up to `max_stale_s` old.
        options: As of `TieredStore`: hot_ttl_s, max_stale_s, negative_s, and time limits for each tier. Behind: flush_s,
            negative_s, and the time limits.
    """

    store: TieredStore | BehindStore

    def __init__(
        self,
        warm: Store | SessionStore,
        *,
        hot: Store | SessionStore | None = None,
        cold: Store | SessionStore | None = None,
        serializer: StateSerializer | None = None,
        write: Writes = "through",
        reads: Reads = "latest",
        now: Callable[[], float] = time.time,
        **options: Any,
    ) -> None:
        if serializer is None and isinstance(warm, SessionStore):
            serializer = warm.serializer
        tiers = [tier.store if isinstance(tier, SessionStore) else tier for tier in (warm, hot, cold)]
        for name, tier in zip(("warm", "hot", "cold"), tiers, strict=True):
            if not (isinstance(tier, Store) or (tier is None and name != "warm")):
                raise ArgumentError(
                    f"{name} must be a store, such as SqliteStore(path), or a session store, such as holdall.open(url); not "
                    f"{type(tier).__name__}"
                )
        given = [tier for tier in tiers if tier is not None]
        if len({id(tier) for tier in given}) < len(given):
            raise ArgumentError("two tiers are the same store; each needs its own, or its own namespace")
        assert tiers[0] is not None  # noqa: S101 - warm is no option
        store = _joined(tiers[0], tiers[1], tiers[2], write=write, reads=reads, now=now, options=options)
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
        if status is None and self.store.hot is None:
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
        """Free what has expired in every tier, what crashes left in the archive, and what was kept for threads that are gone.

        Returns:
            How much that was.
        """
        self._check_open()
        return await sweep(self)

    async def flush(self) -> int:
        """Behind: write to warm, now, all that this worker has saved; return how many sessions that were. Through: nothing waits.

        Raises:
            StoreUnavailableError: Warm cannot be reached; what was not flushed is tried again later.
        """
        self._check_open()
        return await self.store.flush() if isinstance(self.store, BehindStore) else 0

    async def recover(self) -> int:
        """Behind: write to warm what workers that died have left in hot; return how many sessions were looked at.

        Raises:
            StoreUnavailableError: A tier cannot be reached.
        """
        self._check_open()
        return await self.store.recover() if isinstance(self.store, BehindStore) else 0


def _joined(
    warm: Store,
    hot: Store | None,
    cold: Store | None,
    *,
    write: Writes,
    reads: Reads,
    now: Callable[[], float],
    options: dict[str, Any],
) -> TieredStore | BehindStore:
    if write == "through":
        return TieredStore(warm, hot=hot, cold=cold, reads=reads, now=now, **options)
    if write != "behind":
        raise UnknownNameError(
            f"write is {write!r}; known are 'through' and 'behind'",
            what="write",
            name=str(write),
            known=["through", "behind"],
        )
    if hot is None:
        raise ArgumentError('write="behind" acknowledges what hot has: give a hot tier')
    if reads != "latest":
        raise ArgumentError('behind, hot decides, and every read is the latest: leave reads="latest"')
    limits = {name: options.pop(name) for name in ("warm_timeout_s", "cold_timeout_s") if name in options}
    return BehindStore(hot, TieredStore(warm, cold=cold, now=now, **limits), now=now, **options)
