"""The tests' side of worker.py: start workers, read what they say, kill them by their own process id."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import defaultdict, deque
from pathlib import Path
from typing import Any, NamedTuple

WORKER = Path(__file__).with_name("worker.py")


class Line(NamedTuple):
    pid: int
    kind: str
    words: list[str]


class Herd:
    """Workers forked by one helper process."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._rest = b""
        # Whether an error of a worker is what the test provokes.
        self.may_fail = False
        self._queue: deque[Line] = deque()
        self.said: dict[int, list[Line]] = defaultdict(list)

    def start(self, do: str, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write((json.dumps({"do": do, **command}) + "\n").encode())

    def wait_for(self, kind: str, *, pid: int | None = None, timeout_s: float = 60.0) -> Line:
        """Wait for the next line of this kind (of this worker); an error of a worker fails the test with its text."""
        until = time.monotonic() + timeout_s
        while True:
            while self._queue:
                line = self._queue.popleft()
                if line.kind == "E" and kind != "E" and not self.may_fail:
                    raise AssertionError(f"worker {line.pid}: {' '.join(line.words)}")
                if line.kind == kind and pid in (None, line.pid):
                    return line
            left = until - time.monotonic()
            assert left > 0, f"no {kind} line within {timeout_s} s"
            self._read(left)

    def _read(self, timeout_s: float) -> None:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], timeout_s)
        if not ready:
            return
        data = os.read(self._process.stdout.fileno(), 1 << 20)
        assert data, "the helper process is gone"
        *whole, self._rest = (self._rest + data).split(b"\n")
        for text in whole:
            pid, kind, *words = text.decode().split(" ")
            line = Line(int(pid), kind, words)
            self._queue.append(line)
            self.said[line.pid].append(line)

    def kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        self.wait_for("X", pid=pid)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        for pid, said in self.said.items():
            if said and said[-1].kind != "X":
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
        self._process.stdin.close()
        while os.read(self._process.stdout.fileno(), 1 << 20):
            pass
        self._process.stdout.close()
        self._process.wait(30)
