"""S1: an acknowledged write survives kill -9 of the worker at any instruction. Acknowledgements go through a pipe."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

import holdall
from holdall.errors import NotFoundError

from .herd import Herd

Report = Callable[[str], None]
# Then a new session begins: a longer one would be spent on loading.
KILLS_PER_SESSION = 15


@dataclass
class Figures:
    """What a series of kills came to."""

    kills: int = 0
    during_write: int = 0
    acknowledged: int = 0
    unacknowledged_kept: int = 0
    lost: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.during_write} during a write; {self.acknowledged} writes acknowledged, "
            f"{len(self.lost)} lost, {len(self.duplicated)} duplicated, "
            f"{self.unacknowledged_kept} kept that were not acknowledged yet; {self.seconds:.1f} s"
        )


def check(state: holdall.SessionState, acknowledged: int, figures: Figures) -> None:
    """The session is exactly what so many whole saves make of it, and at least those acknowledged."""
    if state.version < acknowledged:
        figures.lost.append(f"{state.session_id}: at version {state.version}, acknowledged {acknowledged}")
    numbers = [int(message["content"].split()[0]) for message in state.messages]
    if len(set(numbers)) != len(numbers):
        figures.duplicated.append(f"{state.session_id}: {len(numbers) - len(set(numbers))} messages twice")
    assert numbers == list(range(2 * state.version)), "messages and version are not of one write"
    assert list(state.step_results) == [f"step-{n}" for n in range(1, state.version + 1)]
    assert state.current_step == state.version
    figures.unacknowledged_kept += max(0, state.version - acknowledged)


async def kill_again_and_again(herd: Herd, url: str, session_id: str, kills: int, rng: random.Random) -> Figures:
    figures = Figures()
    started = time.monotonic()
    session, acknowledged = session_id, 0
    store = holdall.open(url)
    try:
        for kill in range(kills):
            if kill % KILLS_PER_SESSION == 0:
                session, acknowledged = f"{session_id}-{kill}", 0
            herd.start("append", url=url, session=session)
            pid = herd.wait_for("R").pid
            await asyncio.sleep(rng.uniform(0.020, 0.300))
            herd.kill(pid)
            said = [line for line in herd.said.pop(pid) if line.kind in "AB"]
            figures.kills += 1
            figures.during_write += bool(said) and said[-1].kind == "B"
            versions = [int(line.words[1]) for line in said if line.kind == "A"]
            figures.acknowledged += len(versions)
            acknowledged = max([acknowledged, *versions])
            try:
                state = await store.load(session)
            except NotFoundError:
                assert not acknowledged
                continue
            check(state, acknowledged, figures)
            # What was kept without an acknowledgement is the next worker's start: count it from there.
            acknowledged = state.version
    finally:
        await store.aclose()
    figures.seconds = time.monotonic() - started
    return figures


async def test_acknowledged_writes_survive_random_kills(
    url: str, herd: Herd, full: bool, session_id: str, report: Report
) -> None:
    """No acknowledged write is lost and none is applied twice, wherever the kill lands."""
    seed = random.randrange(10**6)
    figures = await kill_again_and_again(herd, url, session_id, 300 if full else 8, random.Random(seed))
    report(f"worker kill, {url.partition(':')[0]}, seed {seed}: {figures}")
    assert not figures.lost, figures.lost
    assert not figures.duplicated, figures.duplicated
    assert figures.acknowledged > figures.kills
    assert figures.during_write * 2 >= figures.kills, "too few kills landed during a write"


@pytest.fixture(params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("mongodb", "dynamodb", "s3")])
async def emulated_url(request: pytest.FixtureRequest, session_id: str) -> str:
    """An emulator that other processes reach; before the herd, which takes the environment that it was started in."""
    if request.param == "mongodb":
        mongodb: str = request.getfixturevalue("mongodb_server").url
        return mongodb
    server = request.getfixturevalue("aws_server")
    if request.param == "s3":
        await server.make_bucket(session_id)
    return f"{request.param}://{session_id}?region=us-east-1&endpoint_url={server.url}"


async def test_acknowledged_writes_survive_kills_of_workers_on_emulators(
    emulated_url: str, herd: Herd, full: bool, session_id: str, report: Report
) -> None:
    """Killed between the requests of a save: what was staged for it is no part of the session."""
    seed = random.randrange(10**6)
    figures = await kill_again_and_again(herd, emulated_url, session_id, 60 if full else 4, random.Random(seed))
    report(f"worker kill, {emulated_url.partition(':')[0]} (emulator), seed {seed}: {figures}")
    assert not figures.lost, figures.lost
    assert not figures.duplicated, figures.duplicated
    assert figures.acknowledged


async def test_kill_at_every_io_of_a_save(url: str, herd: Herd, full: bool, session_id: str, report: Report) -> None:
    """Killed before or after any single I/O of a save, the session is at the old or at the new version, never between."""
    store = holdall.open(url)
    outcomes = {"old": 0, "new": 0}
    try:
        for after in (False, True):
            # PostgreSQL takes some fifty sends and receives to connect, load and save: every fifth is a sample of them.
            stride = 1 if full else 5 if url.startswith("postgres") else 2
            k = 0
            while True:
                k += stride
                session = f"{session_id}/{after}/{k}"
                # A session with some history, saved by a worker that is not killed.
                herd.start("append", url=url, session=session, limit=2, ready=False)
                herd.wait_for("X")
                herd.start("append", url=url, session=session, limit=3, ready=False, kill_at=k, after=after)
                status = int(herd.wait_for("X").words[0])
                state = await store.load(session)
                figures = Figures()
                check(state, 2, figures)
                assert not figures.lost
                assert not figures.duplicated
                assert state.version in (2, 3)
                if status == 0:
                    assert state.version == 3
                    break
                assert status == -9, status
                outcomes["new" if state.version == 3 else "old"] += 1
                assert k < 200
    finally:
        await store.aclose()
    report(f"kill at every I/O of load and save, {url.partition(':')[0]}: {outcomes}")
    assert outcomes["old"] >= 2
    assert outcomes["new"] >= 1
