"""Keep for threads what they took over of a log, when that log is about to be cut.

A fork costs nothing but its own record, since a log only grows. An edit cuts the log, and so first copies what threads took
over of the part that goes. A fork and an edit at the same instant must not miss each other: the editor announces the cut, looks
for threads, cuts, and takes the announcement back; the fork writes the thread, then looks for announcements, then whether the
log is still at the version it saw. Whoever looks second sees the other. A fork that sees an announcement begins anew; where an
editor died or hangs, it first writes the record once more as it is, so that the version that the editor holds is no longer
current and its cut is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Final

from holdall.durable.sessions import NO_LOG, new_op_id
from holdall.errors import ConflictError, StaleFenceError, StoreUnavailableError
from holdall.stores.base import ABSENT, Blob, Record, Store
from holdall.stores.chain import BASE, Link, kept_key, link_of, link_tags

_ANNOUNCED: Final = "~cut/"
# Of an editor that died. One that hangs longer, and then goes on at the version it read, is not seen by a fork.
_ANNOUNCED_TTL_S: Final = 7 * 86_400.0
# How long a fork waits for an editor: some hundred times what a save takes.
PATIENCE_S: Final = 1.0
_LEAST_TTL_S: Final = 0.001
_PROBE_TTL_S: Final = 60.0
# The tag by which announcements for a record are found.
CUTTING: Final = "cutting"
_EMPTY: Final = Blob("json", b"{}")
# The tag by which the copies of a record's log are found.
KEPT_OF: Final = "kept_of"
# Of which life of it: what was kept for an earlier session of an id is of another one.
KEPT_LIFE: Final = "kept_life"
# The tag by which all copies are found.
COPY: Final = "kept_copy"


@contextlib.asynccontextmanager
async def announced_cut(store: Store, key: str, keep: int, *, user_id: str, op_id: str) -> AsyncIterator[None]:
    """Announce that the log will be cut to its first `keep` entries, and copy what threads see beyond; the cut goes inside."""
    announcement = f"{_ANNOUNCED}{op_id}/{key}"
    tags = {"user_id": user_id, CUTTING: key}
    await store.write(announcement, _EMPTY, expected=None, ttl_s=_ANNOUNCED_TTL_S, tags=tags, op_id=new_op_id())
    try:
        await _keep_for_threads(store, key, keep)
        yield
    finally:
        # What stays behind makes a later fork write the record once more, and is taken away by it.
        with contextlib.suppress(StoreUnavailableError):
            await store.delete(announcement, op_id=new_op_id())


async def none_cutting(store: Store, key: str, *, patience_s: float = PATIENCE_S) -> bool:
    """Whether nobody is about to cut the log; False after waiting for those that are, or putting an end to those that hang."""
    waited_s, wait_s = 0.0, 0.005
    while found := [announcement async for announcement in store.find(**{CUTTING: key})]:
        if waited_s >= patience_s:
            await _outdate(store, key)
            for announcement in found:
                await store.delete(announcement, op_id=new_op_id())
            return False
        await asyncio.sleep(wait_s)
        waited_s, wait_s = waited_s + wait_s, wait_s * 2
    return waited_s == 0.0


async def _outdate(store: Store, key: str) -> None:
    """Write a record as it is, so that nobody can write it who read it before."""
    fence = None
    while (record := await store.read(key, log_from=NO_LOG)) is not None:
        ttl_s = None if record.expires_at is None else max(record.expires_at - await _now(store), _LEAST_TTL_S)
        # A conflict: somebody else wrote it, which does the same.
        with contextlib.suppress(ConflictError):
            try:
                await store.write(
                    key, record.head, expected=record.version, ttl_s=ttl_s, fence=fence, op_id=new_op_id()
                )
            except StaleFenceError as error:
                fence = error.highest
                continue
        return


async def _now(store: Store) -> float:
    """Return the time by the clock that ends the store's records: by another one a record that is written anew could be lost."""
    probe = f"~clock/{new_op_id()}"
    await store.write(probe, _EMPTY, expected=ABSENT, ttl_s=_PROBE_TTL_S, op_id=new_op_id())
    record = await store.read(probe, log_from=NO_LOG)
    return time.time() if record is None or record.expires_at is None else record.expires_at - _PROBE_TTL_S


async def _keep_for_threads(store: Store, key: str, keep: int) -> None:
    """Copy what threads see of a log beyond its first `keep` entries."""
    at_stake: list[tuple[str, Link]] = []
    async for taker in store.find(**{BASE: key}):
        record = await store.read(taker, log_from=NO_LOG)
        link = None if record is None else link_of(record.tags)
        if link is not None and link.base == key and link.at > keep:
            at_stake.append((taker, link))
    await drop_orphans(store, **{KEPT_OF: key})
    if not at_stake:
        return
    base = await store.read(key)
    if base is not None:
        for taker, link in at_stake:
            if link.generation == base.version.generation:
                await _copy(store, base, taker, link.at)


async def _copy(store: Store, base: Record, taker: str, at: int) -> None:
    copy, onward = kept_key(taker), await _onward(store, base)
    # Where an earlier edit kept it: what a thread took over is the same for ever.
    with contextlib.suppress(ConflictError):
        await store.write(
            copy,
            _EMPTY,
            expected=ABSENT,
            append=base.entries[:at],
            ttl_s=None,
            tags=_tags(base, copy, onward),
            op_id=new_op_id(),
        )
    if onward is not None:
        await _lead_on(store, base, copy, onward)


async def _onward(store: Store, base: Record) -> Link | None:
    """Return what a record takes over, in the copy that was kept for it where there is one."""
    onward = link_of(base.tags)
    kept = None if onward is None else await store.read(kept_key(base.key), log_from=NO_LOG)
    if onward is None or kept is None:
        return onward
    return Link(kept.key, onward.at, kept.version.generation)


async def _lead_on(store: Store, base: Record, copy: str, onward: Link) -> None:
    """Let a copy lead on to what its base sees, also where that was cut just now by somebody who did not see the copy."""
    await none_cutting(store, onward.base)
    now = await _onward(store, base)
    record = await store.read(copy, log_from=NO_LOG)
    if now is None or record is None or link_of(record.tags) == now:
        return
    # A conflict: another edit of the base does the same.
    with contextlib.suppress(ConflictError):
        await store.write(
            copy, _EMPTY, expected=record.version, ttl_s=None, tags=_tags(base, copy, now), op_id=new_op_id()
        )


def _tags(base: Record, copy: str, onward: Link | None) -> dict[str, str]:
    tags = {"user_id": base.tags.get("user_id", ""), KEPT_OF: base.key, KEPT_LIFE: base.version.generation, COPY: "1"}
    return tags if onward is None else tags | link_tags(copy, onward)


async def drop_kept(store: Store, key: str) -> int:
    """Remove what was kept for a record, and first what was kept for that: a later record of the key must not find it."""
    return await _drop(store, await _kept_for(store, key))


async def drop_orphans(store: Store, **tags: str) -> int:
    """Remove copies whose thread is gone, deleted or expired: all of them, or those with these tags; return how many.

    They have no end of their own, since a thread's moves with every save. One that a copy for another thread leads on to stays
    until that one is gone.
    """
    n = 0
    async for copy in store.find(**(tags or {COPY: "1"})):
        taker = copy.removeprefix(kept_key(""))
        # Before the thread is looked for: a copy that is made for another thread of that id meanwhile is not among them.
        copies = await _kept_for(store, taker)
        is_orphan = await store.read(taker, log_from=NO_LOG) is None
        if is_orphan and not [key async for key in store.find(**{BASE: copy})]:
            n += await _drop(store, copies)
    return n


async def _kept_for(store: Store, key: str) -> list[Record]:
    copies: list[Record] = []
    while (copy := await store.read(kept_key(key), log_from=NO_LOG)) is not None:
        copies.append(copy)
        key = copy.key
    return copies


async def _drop(store: Store, copies: list[Record]) -> int:
    n = 0
    for copy in reversed(copies):
        # A conflict: dropped by somebody else, or it leads on to another place by now.
        with contextlib.suppress(ConflictError):
            n += await store.delete(copy.key, expected=copy.version, op_id=new_op_id())
    return n
