"""A thread that does one job after the other: half of what a hop to a pool's thread costs is the pool's own futures."""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue

Job = Callable[[], None]


class Worker:
    """A thread with a queue. What was put before its end is done before its end.

    It ends with `close`, with the last reference to it, or when the interpreter does. It is no other process's: after a fork
    the child makes its own.

    Args:
        name: Of the thread.
    """

    def __init__(self, name: str) -> None:
        self._jobs: SimpleQueue[Job | None] = SimpleQueue()
        self._thread = threading.Thread(target=_serve, args=(self._jobs,), name=name, daemon=True)
        self._lock = threading.Lock()
        self._is_over = False
        self._thread.start()
        # a daemon would be cut off in the middle of a commit: this waits for it, as the pool's own hook would
        self._end = weakref.finalize(self, _finish, self._jobs, self._thread, os.getpid())

    def put(self, job: Job) -> None:
        """Have a job done. It must not raise.

        Raises:
            RuntimeError: The thread has ended.
        """
        with self._lock:
            if self._is_over or not self._thread.is_alive():
                raise RuntimeError("the thread has ended")
            self._jobs.put(job)

    def close(self) -> None:
        """End the thread, once all is done. Idempotent."""
        with self._lock:
            self._is_over = True
        self._end()


def _serve(jobs: SimpleQueue[Job | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        # what waits for the next must not keep the last alive
        del job


def _finish(jobs: SimpleQueue[Job | None], thread: threading.Thread, pid: int) -> None:
    if pid != os.getpid():
        return
    jobs.put(None)
    # the last reference may have been the job's own
    if thread is not threading.current_thread():
        thread.join()
