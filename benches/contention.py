"""Several processes that each add to one counter, so many times: ours, or the loop one would write by hand.

Run as `python -m benches.contention WHO URL KEY TIMES`; it says "ready", waits for a line, works, and prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol
from uuid import uuid4

import holdall
from holdall import OptimisticStateStore, SessionState, StateSerializer


class Floor(Protocol):
    """What the loop by hand stands on."""

    async def read(self, key: str) -> tuple[int, bytes]: ...

    async def write(self, key: str, version: int, start: int, head: bytes, append: list[bytes]) -> bool: ...

    async def aclose(self) -> None: ...


class InThread:
    """The SQLite floor in a thread of its own: code on an event loop cannot stop it for every fsync."""

    def __init__(self, path: str) -> None:
        from benches.floor_sqlite import SqliteFloor

        self._thread = ThreadPoolExecutor(1)
        self._floor = self._thread.submit(SqliteFloor, path).result()

    async def _hop(self, call: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, lambda: _result(call(*args)))

    async def read(self, key: str) -> tuple[int, bytes]:
        """One hop, one SELECT."""
        found: tuple[int, bytes] = await self._hop(self._floor.read, key)
        return found

    async def write(self, key: str, version: int, start: int, head: bytes, append: list[bytes]) -> bool:
        """One hop, one transaction."""
        return bool(await self._hop(self._floor.write, key, version, start, head, append))

    async def aclose(self) -> None:
        """Close the file in its own thread."""
        await self._hop(self._floor.aclose)
        self._thread.shutdown()


def _result(coroutine: Coroutine[Any, Any, Any]) -> Any:
    # the floor's methods await nothing
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits for something")


async def floor_of(url: str, *, blocks: bool = False) -> Floor:
    """Return the hand-written store behind a URL; `blocks` lets SQLite stop the event loop."""
    if url.startswith("sqlite"):
        from benches.floor_sqlite import SqliteFloor

        path = url.removeprefix("sqlite:///")
        return SqliteFloor(path) if blocks else InThread(path)
    if url.startswith("postgres"):
        from benches.floor_postgres import PostgresFloor

        floor = PostgresFloor(url)
        await floor.open()
        return floor
    from benches.floor_redis import RedisFloor

    return RedisFloor(url)


async def ours(url: str, key: str, times: int) -> tuple[list[float], float]:
    """`OptimisticStateStore.update`; return how long each took, and when the last ended."""

    def add(state: SessionState) -> None:
        state.metadata["n"] = state.metadata.get("n", 0) + 1

    took = []
    async with holdall.open(url) as store:
        shared = OptimisticStateStore(store)
        await store.load(key)
        await _go()
        for _ in range(times):
            before = time.perf_counter()
            await shared.update(key, add, 10_000)
            took.append(time.perf_counter() - before)
        ended = time.perf_counter()
    return took, ended


async def by_hand(url: str, key: str, times: int, *, blocks: bool = False) -> tuple[list[float], float]:
    """Read, add, compare-and-swap; on a conflict wait 1 to 50 ms and start over. The head is a whole session's."""
    took = []
    floor = await floor_of(url, blocks=blocks)
    await floor.read(key)
    await _go()
    for _ in range(times):
        before = time.perf_counter()
        while True:
            version, head = await floor.read(key)
            document = json.loads(head)
            document["metadata"]["n"] += 1
            if await floor.write(key, version, 0, json.dumps(document).encode(), []):
                break
            await asyncio.sleep(random.uniform(0.001, 0.050))
        took.append(time.perf_counter() - before)
    ended = time.perf_counter()
    await floor.aclose()
    return took, ended


async def _go() -> None:
    print("ready", flush=True)
    await asyncio.to_thread(sys.stdin.readline)


def counter(key: str) -> SessionState:
    """The session that is counted in: both sides read and write its whole head."""
    return SessionState(session_id=key, user_id="bench", metadata={"n": 0})


async def prepare(who: str, url: str) -> str:
    """Make the counter and return its key."""
    key = f"counter-{uuid4().hex}"
    if who == "ours":
        async with holdall.open(url) as store:
            await store.save(counter(key))
    else:
        floor = await floor_of(url)
        assert await floor.write(key, 0, 0, StateSerializer("json").snapshot(counter(key)).head, [])
        await floor.aclose()
    return key


async def final(who: str, url: str, key: str) -> int:
    """Return what the counter stands at."""
    if who == "ours":
        async with holdall.open(url) as store:
            return int((await store.load(key)).metadata["n"])
    floor = await floor_of(url)
    try:
        return int(json.loads((await floor.read(key))[1])["metadata"]["n"])
    finally:
        await floor.aclose()


def race(who: str, url: str, n_processes: int, times: int) -> dict[str, float]:
    """Let so many processes add at once; return updates per second and the 99th percentile of one update's time."""
    key = asyncio.run(prepare(who, url))
    command = [sys.executable, "-m", "benches.contention", who, url, key, str(times)]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(n_processes)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    before = time.perf_counter()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [json.loads(process.communicate()[0]) for process in processes]
    # From the first start to the last end; the interpreters' own ends are not in it.
    seconds = max(one["ended"] for one in said) - before
    assert asyncio.run(final(who, url, key)) == n_processes * times, "an update was lost"
    took = sorted(second for one in said for second in one["took"])
    return {"rate": len(took) / seconds, "p99": took[int(len(took) * 0.99)]}


def main() -> None:
    who, url, key, times = sys.argv[1:]
    if who == "ours":
        took, ended = asyncio.run(ours(url, key, int(times)))
    else:
        took, ended = asyncio.run(by_hand(url, key, int(times), blocks=who == "by hand, blocking"))
    print(json.dumps({"took": took, "ended": ended}))


if __name__ == "__main__":
    main()
