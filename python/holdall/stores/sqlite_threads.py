"""One SQLite file and its two threads: what sessions and an embedded memory run their transactions on."""

from __future__ import annotations

import asyncio
import functools
import os
import random
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, TypeVar

from holdall.errors import ClosedError, StoreBusyError, StoreUnavailableError
from holdall.stores import lost
from holdall.stores.answers import Answers
from holdall.stores.worker import Worker

_T = TypeVar("_T")
# Full jitter between these: SQLite's own handler sleeps up to 100 ms, which starves one of eight writers.
_BACKOFF_S = 0.001
_MOST_BACKOFF_S = 0.025


class _Unsettled(Exception):  # noqa: N818 - no error of its own: the file could not be synced
    """A commit may stand in the file, though it could not be synced: who opens it after a crash may find it whole."""


class SqliteThreads:
    """A file with one thread that writes and one that reads, so that a read never waits for an fsync.

    A connection belongs to one thread and one process: after a fork both are made anew.
    """

    # For errors: what the file is part of, and what is to be made anew.
    backend = "sqlite"
    owner = "SqliteStore"

    def __init__(self, path: Path | None, *, synchronous: Literal["FULL", "NORMAL"], busy_timeout_s: float) -> None:
        """Remember how to open; without a path, a database in memory, which one connection and one thread share."""
        self._path = path
        self._synchronous = synchronous
        self._busy_timeout_s = busy_timeout_s
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._workers: dict[bool, Worker] = {}
        self._connections: dict[bool, sqlite3.Connection] = {}
        self._answers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Answers] = weakref.WeakKeyDictionary()
        self._is_closed = False
        weakref.finalize(self, _end, self._answers).atexit = False
        self._left = weakref.finalize(self, _close, self._connections, self._pid)

    def worker(self, *, writes: bool) -> Worker:
        """Return the thread of the writer or of the reader.

        Raises:
            ClosedError: The file was closed, or is in memory and was made before a fork.
        """
        writes = writes or self._path is None
        with self._lock:
            if self._is_closed:
                raise ClosedError(f"this {self.owner} was closed; make a new one")
            if self._pid != os.getpid():
                if self._path is None:
                    raise ClosedError(f"this {self.owner} has no file and was made before a fork; make a new one")
                # the parent's threads do not exist here, and its connections must not be used or closed here
                self._pid, self._workers, self._connections = os.getpid(), {}, {}
                self._left.detach()
                self._left = weakref.finalize(self, _close, self._connections, self._pid)
                self._answers.clear()
            if writes not in self._workers:
                self._workers[writes] = Worker(f"holdall-{self.backend}-{'write' if writes else 'read'}")
            return self._workers[writes]

    def close(self) -> None:
        """Wait for the calls under way, then close the connections. Idempotent."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            workers, self._workers = self._workers, {}
        for writes, worker in workers.items():
            worker.close()
            # nobody uses it any more
            self._disconnect(writes)
        _end(self._answers)

    async def call(
        self,
        operation: str,
        work: Callable[[sqlite3.Connection], _T],
        *,
        writes: bool,
        look: Callable[[sqlite3.Connection], _T | None] | None = None,
    ) -> _T:
        """Run `work` in one transaction, in the thread of the writer or of the reader; see `run`.

        A call that is cancelled stays on the queue, as a write does that is under way: neither says that it did not happen.
        """
        return await self.hop(functools.partial(self.run, operation, work, writes, look), writes=writes)

    async def hop(self, run: Callable[[], _T], *, writes: bool) -> _T:
        """Run something in the thread of the writer or of the reader."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[_T] = loop.create_future()
        worker = self.worker(writes=writes)
        answers = self._answers.get(loop)
        if answers is None:
            answers = self._answers[loop] = Answers(loop)
        worker.put(functools.partial(_answer, answers, future, run))
        return await future

    def run(
        self,
        operation: str,
        work: Callable[[sqlite3.Connection], _T],
        writes: bool,  # noqa: FBT001 - partial passes positions
        look: Callable[[sqlite3.Connection], _T | None] | None = None,
    ) -> _T:
        """Run `work` in one transaction, in the thread this is called in; nothing is left of it if it raises.

        Args:
            operation: For errors.
            work: What to do in the transaction.
            writes: Whether it takes the file's write lock.
            look: Asked before each attempt at that lock, outside of it; what it returns, if anything, is the answer.

        Raises:
            StoreUnavailableError: The file cannot be opened, read or written.
            StoreBusyError: Another writer held it too long.
        """
        begin = "BEGIN IMMEDIATE" if writes else "BEGIN"

        def attempt() -> _T:
            db = self._connection(writes)
            if look is not None:
                answer = look(db)
                if answer is not None:
                    return answer
            return in_transaction(db, begin, work)

        return self._trying(operation, attempt, writes=writes)

    def _trying(self, operation: str, attempt: Callable[[], _T], *, writes: bool) -> _T:
        began, backoffs = time.monotonic(), None
        while True:
            try:
                return attempt()
            except _Unsettled as error:
                self._disconnect(writes)
                if not writes:
                    raise self._unavailable(operation, error) from error
                raise lost.unknown(self.backend, operation, error.__cause__ or error, is_repeatable=False) from error
            except (sqlite3.OperationalError, sqlite3.DatabaseError) as error:
                if not _is_busy(error) or time.monotonic() >= began + self._busy_timeout_s:
                    if not _is_busy(error):
                        self._disconnect(writes)
                    raise self._unavailable(operation, error) from error
            backoffs = backoffs or _backoffs()
            time.sleep(next(backoffs))

    def _connection(self, writes: bool) -> sqlite3.Connection:  # noqa: FBT001 - a key of two dicts
        writes = writes or self._path is None
        known = self._connections.get(writes)
        if known is not None:
            return known
        if self._path is not None and not self._path.parent.is_dir():
            raise sqlite3.OperationalError(f"the folder {self._path.parent} does not exist: make it first")
        db = sqlite3.connect(self._path or ":memory:", timeout=0, isolation_level=None, check_same_thread=False)
        try:
            db.execute(f"PRAGMA synchronous = {self._synchronous}")
            _to_wal(db)
            self._set_up(db)
        except BaseException:
            db.close()
            raise
        self._connections[writes] = db
        return db

    def _set_up(self, db: sqlite3.Connection) -> None:
        """Bring the schema up to date, as each connection is made."""
        raise NotImplementedError

    def _disconnect(self, writes: bool) -> None:  # noqa: FBT001 - a key of two dicts
        if self._path is None and not self._is_closed:
            return  # what is in memory would go with it
        db = self._connections.pop(writes, None)
        if db is not None:
            db.close()

    def _unavailable(self, operation: str, error: Exception) -> StoreUnavailableError:
        kind, advice = StoreUnavailableError, "see that the file is a readable and writable SQLite database"
        if "disk is full" in str(error):
            advice = "nothing was written: make room, then try again"
        if _is_busy(error):
            kind = StoreBusyError
            advice = f"another writer held the file for {self._busy_timeout_s} s; try again, or raise busy_timeout_s"
        return kind(
            f"{self.backend} {operation} on {self._path or 'no file'}: {error}: {advice}",
            backend=self.backend,
            operation=operation,
            cause=str(error),
        )


def _close(connections: dict[bool, sqlite3.Connection], pid: int) -> None:
    """Close what nobody closed: of two finalizers the later made one runs first, so that the threads are at their end."""
    if pid == os.getpid():
        for db in connections.values():
            db.close()
        connections.clear()


def _end(answers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Answers]) -> None:
    for way in list(answers.values()):
        way.end()
    answers.clear()


def _answer(answers: Answers, future: asyncio.Future[_T], run: Callable[[], _T]) -> None:
    try:
        result = run()
    except BaseException as error:  # noqa: BLE001 - it is raised where the call is waited for
        answers.put(_fail, future, error)
    else:
        answers.put(_succeed, future, result)


def _succeed(future: asyncio.Future[_T], result: _T) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[_T], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)


def _backoffs() -> Iterator[float]:
    ceiling = _BACKOFF_S
    while True:
        yield random.uniform(0, ceiling)  # noqa: S311 - jitter, not a secret
        ceiling = min(2 * ceiling, _MOST_BACKOFF_S)


def _is_busy(error: Exception) -> bool:
    # Python 3.10 has no sqlite_errorcode; the two texts are SQLite's own for SQLITE_BUSY and SQLITE_LOCKED
    return isinstance(error, sqlite3.OperationalError) and "is locked" in str(error)


def in_transaction(db: sqlite3.Connection, begin: str, work: Callable[[sqlite3.Connection], _T]) -> _T:
    """Run `work` between BEGIN and COMMIT; nothing is left of it if it raises, but for what `_Unsettled` says."""
    db.execute(begin)
    is_ending = False
    try:
        result = work(db)
        is_ending = True
        db.execute("COMMIT")
    except BaseException as error:
        if db.in_transaction:
            db.execute("ROLLBACK")
        if is_ending and isinstance(error, sqlite3.Error) and "I/O error" in str(error):
            raise _Unsettled(str(error)) from error
        raise
    return result


def in_statement(statement: Callable[[], _T]) -> _T:
    """Run a statement that is a transaction by itself; nothing is left of it if it raises, but for what `_Unsettled` says."""
    try:
        return statement()
    except sqlite3.Error as error:
        if "I/O error" in str(error):
            raise _Unsettled(str(error)) from error
        raise


def _to_wal(db: sqlite3.Connection) -> None:
    if db.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        db.execute("PRAGMA journal_mode = WAL")
