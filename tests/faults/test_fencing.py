"""A holder that stood still past the end of its lease does not know it; the record does."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
from collections.abc import Callable

import pytest

import holdall
from holdall import LockedStateStore
from tests.servers.aws import Aws
from tests.servers.redis import Node

from .herd import Herd
from .worker import lock_of

TTL_S = 0.15


@pytest.mark.redis
async def test_a_stopped_holder_writes_nothing(
    url: str,
    valkey_server: Node,
    herd: Herd,
    full: bool,
    session_id: str,
    report: Callable[[str], None],
) -> None:
    """SIGSTOP past its lease, in the middle of its writes; another takes over and writes; SIGCONT: the store refuses it."""
    await stop_holders(url, valkey_server.url, herd, session_id, report, rounds=200 if full else 6)


@pytest.mark.dynamodb
async def test_a_stopped_holder_of_a_dynamodb_lock_writes_nothing(
    aws_server: Aws,
    herd: Herd,
    full: bool,
    session_id: str,
    report: Callable[[str], None],
) -> None:
    """The same, where the lock is taken over once it has stood still for as long as the lease."""
    url = f"dynamodb://fencing?region=us-east-1&endpoint_url={aws_server.url}"
    # a grant must come back within its lease, also from an emulator on a busy machine
    await stop_holders(url, url, herd, session_id, report, rounds=200 if full else 4, ttl_s=4 * TTL_S)


async def stop_holders(
    url: str,
    lock_url: str,
    herd: Herd,
    session_id: str,
    report: Callable[[str], None],
    *,
    rounds: int,
    ttl_s: float = TTL_S,
) -> None:
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    # A process that stops inside a transaction of SQLite keeps everybody from the file, as a lock would: it is stopped
    # before it writes. A server goes on without its client.
    pause_s = 0.1 if url.startswith("sqlite") else 0.0
    lock = lock_of(lock_url)
    async with holdall.open(url) as store:
        await store.save(holdall.SessionState(session_id=session_id, user_id="u"))
        locked = LockedStateStore(
            store, lock, ttl_s=20.0, wait_s=None, sleep=lambda seconds: asyncio.sleep(min(seconds, 0.01))
        )
        herd.start(
            "hold",
            url=url,
            lock_url=lock_url,
            session=session_id,
            rounds=rounds,
            ttl_s=ttl_s,
            pause_s=pause_s,
        )
        taken_over = told = 0
        claims = []
        for at in range(rounds):
            held_by = await asyncio.to_thread(herd.wait_for, "H")
            await asyncio.sleep(0 if pause_s else rng.uniform(0, 0.05))
            os.kill(held_by.pid, signal.SIGSTOP)
            try:
                async with locked.hold(session_id) as ours:
                    assert ours.fence > int(held_by.words[0]), f"seed {seed}"
                    claims.append(ours.state.version)
                    ours.state.metadata["round"] = at
                    await ours.save()
                    os.kill(held_by.pid, signal.SIGCONT)
                    said = await asyncio.to_thread(herd.wait_for, "S", pid=held_by.pid)
                    assert "StaleFenceError" in said.words, f"seed {seed}, round {at}"
                    told += "LockLostError" in said.words
                    # nothing came in between: the version is still ours to write on
                    await ours.save()
                    taken_over += 1
            finally:
                # gone already, after its last round
                with contextlib.suppress(ProcessLookupError):
                    os.kill(held_by.pid, signal.SIGCONT)
        await asyncio.to_thread(herd.wait_for, "X")
        stored = await store.load(session_id)
    assert stored.metadata == {"round": rounds - 1}
    acknowledged = sorted(int(line.words[0]) for lines in herd.said.values() for line in lines if line.kind == "A")
    ours_alone = {version + n for version in claims for n in range(3)}
    assert not ours_alone & set(acknowledged), f"seed {seed}"
    assert len(set(acknowledged)) == len(acknowledged)
    await lock.aclose()
    report(
        f"{store.store.backend}: holder stopped past its lease {taken_over} times, {len(acknowledged)} writes of holders "
        f"acknowledged, {taken_over} stale writes refused, 0 accepted; {told} heard of the loss of the lease too"
    )
