"""S1: an acknowledged write survives the crash of the server, where its durability is "fsync"."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import holdall
from holdall.errors import NotFoundError
from tests.servers.postgres import Postgres
from tests.servers.redis import Node, valkey_program

from .herd import Herd
from .test_worker_kill import Figures, check

WRITERS = 4


@pytest.fixture
def durable_postgres() -> Iterator[Postgres]:
    """PostgreSQL that fsyncs; `crash` is its immediate shutdown."""
    server = Postgres(is_durable=True)
    yield server
    server.stop()


@pytest.fixture
def valkey_with() -> Iterator[Callable[[str], Node]]:
    """Make a Valkey with an append-only file that is synced as said."""
    made: list[Node] = []

    def make(appendfsync: str) -> Node:
        made.append(Node(valkey_program(), config=f"appendonly yes\nappendfsync {appendfsync}\n"))
        return made[-1]

    yield make
    for server in made:
        server.stop()


async def crash_under_load(
    herd: Herd, url: str, crashes: int, crash: Callable[[], None], restart: Callable[[], None], session_id: str
) -> Figures:
    """Crash the server under four writers, bring it back, and look at every session; again and again."""
    rng = random.Random()
    figures = Figures()
    herd.may_fail = True
    acknowledged = dict.fromkeys([f"{session_id}-{n}" for n in range(WRITERS)], 0)
    for _ in range(crashes):
        pids = {}
        for session in acknowledged:
            herd.start("append", url=url, session=session)
            pids[session] = herd.wait_for("R").pid
        await asyncio.sleep(rng.uniform(0.1, 0.5))
        await asyncio.to_thread(crash)
        for _ in pids:
            herd.wait_for("X")
        await asyncio.to_thread(restart)
        figures.kills += 1
        was_writing = False
        async with holdall.open(url) as store:
            for session, pid in pids.items():
                said = [line for line in herd.said.pop(pid) if line.kind in "AB"]
                was_writing = was_writing or (bool(said) and said[-1].kind == "B")
                versions = [int(line.words[1]) for line in said if line.kind == "A"]
                figures.acknowledged += len(versions)
                last = max([acknowledged[session], *versions])
                try:
                    state = await store.load(session)
                except NotFoundError:
                    if last:
                        figures.lost.append(f"{session}: gone, acknowledged {last}")
                    continue
                before = acknowledged[session]
                check(state, last, figures)
                assert state.version >= before, "what an earlier restart had read back is gone"
                acknowledged[session] = state.version
        figures.during_write += was_writing
    return figures


def judge(figures: Figures, what: str, report: Any) -> None:
    report(f"server crash, {what}: {figures}")
    assert not figures.lost, figures.lost
    assert not figures.duplicated, figures.duplicated
    assert figures.acknowledged > 10 * figures.kills
    assert figures.during_write * 2 >= figures.kills


@pytest.mark.postgres
async def test_acknowledged_writes_survive_a_crash_of_postgres(
    durable_postgres: Postgres, herd: Herd, full: bool, session_id: str, report: Any
) -> None:
    """Immediate shutdown under load: the log is replayed, and every acknowledged write is there."""
    server = durable_postgres
    figures = await crash_under_load(herd, server.url, 10 if full else 1, server.crash, server.start, session_id)
    judge(figures, "postgres", report)


@pytest.mark.redis
async def test_acknowledged_writes_survive_a_kill_of_valkey(
    valkey_with: Callable[[str], Node], herd: Herd, full: bool, session_id: str, report: Any
) -> None:
    """kill -9 under load with appendfsync always: every acknowledged write is there."""
    server = valkey_with("always")
    figures = await crash_under_load(herd, server.url, 10 if full else 1, server.kill, server.start, session_id)
    judge(figures, "valkey, appendfsync always", report)


@pytest.mark.redis
async def test_a_kill_of_valkey_that_syncs_every_second_loses_at_most_the_last_writes(
    valkey_with: Callable[[str], Node], herd: Herd, full: bool, session_id: str, report: Any
) -> None:
    """With appendfsync everysec the server acknowledges before it writes where the disk is slow, for up to two seconds.

    So writes of the last moments may be lost, as was seen here under load; what is there is whole, in order, and a
    session only loses its end.
    """
    server = valkey_with("everysec")
    figures = await crash_under_load(herd, server.url, 10 if full else 1, server.kill, server.start, session_id)
    report(f"server crash, valkey, appendfsync everysec (may lose the last two seconds): {figures}")
    assert not figures.duplicated, figures.duplicated
    assert figures.acknowledged > 10 * figures.kills
