"""The thread behind a SQLite file: what was put is done, whichever way it ends, and nobody waits for a thread that is gone."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from holdall.errors import ClosedError
from holdall.stores.base import ABSENT, Blob
from holdall.stores.sqlite import SqliteStore
from holdall.stores.worker import Worker


def test_jobs_are_done_in_order_and_before_the_end() -> None:
    """Closing waits for all of them; afterwards none is taken, and closing again changes nothing."""
    worker, done = Worker("w"), []
    for n in range(100):
        worker.put(lambda n=n: done.append(n))  # type: ignore[misc]
    worker.close()
    assert done == list(range(100))
    assert not worker._thread.is_alive()
    with pytest.raises(RuntimeError):
        worker.put(lambda: None)
    worker.close()


def test_a_worker_that_nobody_holds_ends() -> None:
    """Also where the last to hold it is its own job."""
    worker = Worker("w")
    thread = worker._thread
    gate, kept = threading.Event(), [worker]
    worker.put(lambda kept=kept: (gate.wait(), kept.clear()))  # type: ignore[misc]
    del worker, kept
    gate.set()
    thread.join(10)
    gc.collect()
    assert not thread.is_alive()


def test_closing_while_others_put_loses_none() -> None:
    """Each job is done, or refused."""
    for _ in range(4):
        worker, done, taken = Worker("w"), [], []

        def putting(worker: Worker = worker, done: list[int] = done, taken: list[int] = taken) -> None:
            try:
                while True:
                    worker.put(lambda: done.append(1))
                    taken.append(1)
            except RuntimeError:
                pass

        threads = [threading.Thread(target=putting) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.002)
        worker.close()
        for thread in threads:
            thread.join()
        assert len(done) == len(taken)


_AT_EXIT = """
import os, sys, time
from holdall.stores.worker import Worker
worker = Worker("w")
worker.put(lambda: (time.sleep(0.2), print("done", flush=True)))
if sys.argv[1] == "error":
    raise SystemExit(3)
if sys.argv[1] == "fork":
    pid = os.fork()
    if pid:
        raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    raise SystemExit(4)
"""


@pytest.mark.parametrize(("way", "code"), [("end", 0), ("error", 3), ("fork", 4)])
def test_a_job_under_way_is_done_before_the_interpreter_ends(way: str, code: int) -> None:
    """A write that was put is not cut off by the end of the program; a child does not wait for what only its parent has."""
    # Python 3.12 and later warn of every fork beside threads; that it works all the same is what is tested.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _AT_EXIT, way]
    ran = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "done\n", "")


def test_a_fork_ends_without_its_parents_threads(tmp_path: Path) -> None:
    """They do not exist in the child: it waits for none of them, and its own store works."""
    store = SqliteStore(tmp_path / "state.db")
    head = Blob("text", b"")
    asyncio.run(store.write("k", head, expected=ABSENT, ttl_s=None))
    pid = os.fork()
    if not pid:
        code = 1
        try:
            code = 0 if asyncio.run(store.write("k", head, expected=None, ttl_s=None)).number == 2 else 2
        finally:
            os._exit(code)
    ends = time.monotonic() + 20
    while time.monotonic() < ends:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            break
        time.sleep(0.01)
    else:
        os.kill(pid, 9)
        raise AssertionError("the child hangs")
    assert os.waitstatus_to_exitcode(status) == 0
    assert asyncio.run(store.write("k", head, expected=None, ttl_s=None)).number == 3
    asyncio.run(store.aclose())
    with pytest.raises(ClosedError):
        asyncio.run(store.read("k"))
