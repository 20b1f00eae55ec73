"""A process that forks workers on command, so that a kill costs a fork and not an interpreter start.

Reads one JSON command a line: {"do": NAME, ...}. Each is run in a forked child, which says what it does on the shared
standard output: "pid R" ready, "pid B n" before write n, "pid A n version" after it is acknowledged, "pid D ..." done. When a
child is gone the parent process says "pid X status"; a pipe keeps order, so nothing of that child comes after it.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import socket
import sqlite3
import sys
import traceback
from collections.abc import Callable
from typing import Any

import holdall
from holdall.durable.locked import LockedStateStore
from holdall.durable.optimistic import OptimisticStateStore
from holdall.errors import HoldallError, LockLostError, NotFoundError

PAD = "x" * 1200


def say(*words: object) -> None:
    """One write, below PIPE_BUF, so lines of several children never mix."""
    os.write(1, (" ".join(map(str, (os.getpid(), *words))) + "\n").encode())


async def append(
    url: str, session: str, limit: int = 10**9, ready: bool = True, options: dict[str, Any] | None = None
) -> None:
    """Append two numbered messages and a step result, save, acknowledge, again and again."""
    store = holdall.open(url, **(options or {}))
    try:
        state = await store.load(session)
    except NotFoundError:
        state = holdall.SessionState(session_id=session, user_id="u")
    if ready:
        say("R")
    while state.version < limit:
        n = state.version + 1
        state.messages.append({"role": "user", "content": f"{2 * n - 2} {PAD}"})
        state.messages.append({"role": "assistant", "content": f"{2 * n - 1} {PAD}"})
        state.step_results[f"step-{n}"] = n
        state.current_step = n
        say("B", n)
        version = await store.save(state)
        say("A", n, version.number)
    await store.aclose()


async def increment(url: str, session: str, times: int, retries: int = 10_000) -> None:
    """Add 1 to a counter so many times, with whoever else does."""
    store = holdall.open(url)
    shared = OptimisticStateStore(store)
    n_calls = 0

    def add(state: holdall.SessionState) -> None:
        nonlocal n_calls
        n_calls += 1
        state.metadata["n"] = state.metadata.get("n", 0) + 1

    say("R")
    loop = asyncio.get_running_loop()
    slowest = 0.0
    for _ in range(times):
        started = loop.time()
        state = await shared.update(session, add, retries)
        slowest = max(slowest, loop.time() - started)
        say("A", state.metadata["n"], state.version)
    say("D", n_calls, f"{slowest:.4f}")
    await store.aclose()


async def _write_on(
    store: holdall.SessionStore, state: holdall.SessionState, fence: int, pause_s: float, said: list[object]
) -> None:
    try:
        while True:
            await asyncio.sleep(pause_s)
            version = await store.save(state, fence=fence)
            say("A", version.number)
    except HoldallError as error:
        said.append(type(error).__name__)


def lock_of(url: str) -> Any:
    """The lock service behind a URL."""
    if url.startswith("dynamodb:"):
        from holdall.durable.urls import aws_url
        from holdall.stores.dynamodb_lock import DynamoLock

        table, _, connect = aws_url(url, "dynamodb")
        return DynamoLock(table, connect=connect)
    from holdall.stores.redis_lock import RedisLock

    return RedisLock(url)


async def hold(url: str, lock_url: str, session: str, rounds: int, ttl_s: float, pause_s: float) -> None:
    """Hold a session and write it without ever looking at the lease, until the store refuses; so many times."""
    store = holdall.open(url)
    lock = lock_of(lock_url)
    locked = LockedStateStore(store, lock, ttl_s=ttl_s, wait_s=None)
    left = rounds
    while left:
        said: list[object] = []
        writing: asyncio.Task[None] | None = None
        try:
            async with locked.hold(session) as held:
                say("H", held.fence, held.state.version)
                writing = asyncio.ensure_future(_write_on(store, held.state, held.fence, pause_s, said))
                # it is not stopped by the loss: the fence has to
                await asyncio.shield(writing)
        except LockLostError:
            said.append("LockLostError")
        if writing is None:
            # lost before it was told of: no round
            continue
        await writing
        left -= 1
        say("S", *said)
    await lock.aclose()
    await store.aclose()


async def migrate(url: str, options: dict[str, Any] | None = None) -> None:
    """Bring the schema up, as the first use of a store does."""
    store = holdall.open(url, **(options or {}))
    await store.list()
    say("D")
    await store.aclose()


COMMANDS: dict[str, Callable[..., Any]] = {
    "append": append,
    "hold": hold,
    "increment": increment,
    "migrate": migrate,
}


class Countdown:
    """Kill this process at its k-th I/O, before or after it."""

    def __init__(self, k: int, *, after: bool) -> None:
        self.left = k
        self.after = after

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **options: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                os.kill(os.getpid(), signal.SIGKILL)
            try:
                return call(*args, **options)
            finally:
                if self.left == 0 and self.after:
                    os.kill(os.getpid(), signal.SIGKILL)

        return counted


def kill_at(k: int, *, after: bool) -> None:
    """Count sends and receives on sockets, and statements of SQLite; die at the k-th."""
    countdown = Countdown(k, after=after)
    socket.socket.send = countdown.around(socket.socket.send)  # type: ignore[method-assign]
    socket.socket.recv = countdown.around(socket.socket.recv)  # type: ignore[method-assign]
    socket.socket.recv_into = countdown.around(socket.socket.recv_into)  # type: ignore[method-assign]

    class Cursor(sqlite3.Cursor):
        execute = countdown.around(sqlite3.Cursor.execute)
        executemany = countdown.around(sqlite3.Cursor.executemany)
        executescript = countdown.around(sqlite3.Cursor.executescript)

    class Connection(sqlite3.Connection):
        def cursor(self, factory: Any = Cursor) -> Any:
            return super().cursor(factory)

        def execute(self, *args: Any) -> Any:
            return self.cursor().execute(*args)

        def executemany(self, *args: Any) -> Any:
            return self.cursor().executemany(*args)

        def executescript(self, *args: Any) -> Any:
            return self.cursor().executescript(*args)

        commit = countdown.around(sqlite3.Connection.commit)

    connect = sqlite3.connect

    def counted_connect(*args: Any, **options: Any) -> Any:
        return connect(*args, **{**options, "factory": Connection})

    sqlite3.connect = counted_connect  # type: ignore[assignment]


def child(command: dict[str, Any]) -> None:
    what = COMMANDS[command.pop("do")]
    k = command.pop("kill_at", None)
    if k is not None:
        kill_at(k, after=command.pop("after", False))
    try:
        asyncio.run(what(**command))
    except HoldallError as error:
        say("E", type(error).__name__, str(error)[:300].replace("\n", " "))
        os._exit(3)
    except BaseException:  # noqa: BLE001 - a fork must not run on into its parent's code
        say("E", traceback.format_exc()[-900:].replace("\n", " | "))
        os._exit(4)
    os._exit(0)


def main() -> None:
    # Drivers are loaded before the fork, where they are there.
    for module in ("asyncpg", "redis.asyncio", "holdall.stores.sqlite", "pymongo", "aiobotocore.session"):
        try:
            __import__(module)
        except ImportError:
            continue
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(woken)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    pending = b""
    alive = 0
    is_open = True
    while is_open or alive:
        ready, _, _ = select.select([0, wake] if is_open else [wake], [], [])
        if wake in ready:
            os.read(wake, 4096)
        while alive:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            alive -= 1
            os.write(1, f"{pid} X {os.waitstatus_to_exitcode(status)}\n".encode())
        if 0 in ready:
            data = os.read(0, 65536)
            is_open = bool(data)
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                if os.fork() == 0:
                    signal.set_wakeup_fd(-1)
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    child(json.loads(line))
                alive += 1


if __name__ == "__main__":
    sys.exit(main())
