"""A server as a child process that is waited for, killed, and ended with the tests that asked for it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

HOST = "127.0.0.1"


def free_port(*, below: int = 65536) -> int:
    """Return a port that is free now; `below` leaves room for servers that use a second one, so far above it that it just fits."""
    above = 65536 - below
    for _ in range(200):
        with socket.socket() as listener:
            listener.bind((HOST, 0))
            port = listener.getsockname()[1]
        if port >= below:
            # the ephemeral range may lie above: pick below it
            port = 20_000 + (port * 7919 + time.time_ns()) % (below - 20_000)
        if _is_free(port) and (not above or _is_free(port + above)):
            return port
    raise RuntimeError("no free port")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
    return True


def wait_until(what: str, is_so: Callable[[], bool], *, seconds: float = 30.0) -> None:
    """Poll until it is so, or fail with what was waited for."""
    ends = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > ends:
            raise TimeoutError(f"waited {seconds} s in vain: {what}")
        time.sleep(0.01)


def accepts(port: int) -> bool:
    """Whether something listens on the port."""
    with socket.socket() as probe:
        probe.settimeout(0.5)
        return probe.connect_ex((HOST, port)) == 0


def lacking(what: str, how: str) -> None:
    """Skip, or in CI fail, for want of a server."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing in CI: {how}")
    pytest.skip(f"{what} is not installed: {how}")


def find_program(name: str, *folders: str) -> str | None:
    """Return the path of a program, looking where Debian puts daemons too."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", *folders]))


_MEMORY = Path("/dev/shm")  # noqa: S108 - looked at, not written to blindly
_MEMORY_BYTES = 2**30


class Folder:
    """A folder outside root's home that the given user owns; `in_memory` if there is a tmpfs with room."""

    def __init__(self, name: str, uid: int | None, *, in_memory: bool = False) -> None:
        fits = in_memory and _MEMORY.is_dir() and shutil.disk_usage(_MEMORY).free > _MEMORY_BYTES
        self.path = Path(tempfile.mkdtemp(prefix=f"holdall-{name}-", dir=_MEMORY if fits else "/tmp"))  # noqa: S108 - root's home is closed to others
        if uid is not None:
            os.chown(self.path, uid, uid)

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


class Server:
    """One process with its log; `start` and `stop` may be repeated on the same folder and port."""

    def __init__(self, command: Sequence[str], *, folder: Path, port: int, uid: int | None = None) -> None:
        self.command = list(command)
        self.folder = folder
        self.port = port
        self.uid = uid
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, *, ready: Callable[[], bool] | None = None) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                user=self.uid,
                group=self.uid,
            )
        wait_until(f"{self.command[0]} on port {self.port}", lambda: self._is_up(ready))

    def _is_up(self, ready: Callable[[], bool] | None) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            log = (self.folder / "server.log").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"{self.command[0]} ended with {self.process.returncode}:\n{log}")
        return accepts(self.port) if ready is None else ready()

    def send(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut of the process would: no shutdown, no flush."""
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(number)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()


def unprivileged() -> int | None:
    """The user that servers run as which refuse root; None where we are not root."""
    return 65534 if os.geteuid() == 0 else None
