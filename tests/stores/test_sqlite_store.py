"""The SQLite store keeps every claim; one file serves several processes, survives kills, and says what is wrong with it."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import holdall
from holdall.errors import ArgumentError, DecodeError, NewerStateError, OutcomeUnknownError, StoreUnavailableError
from holdall.stores.base import ABSENT, Blob, Entry, Store
from holdall.stores.sql import migrations
from holdall.stores.sqlite import SqliteStore
from holdall.stores.sqlite_file import _statements
from holdall.testing import StoreConformance

HEAD = Blob("text", b"")


def test_placeholders_have_no_numbers() -> None:
    """Python 3.12.0 to 3.12.3 take `?1` for a name, and warn of it at every statement."""
    package = Path(holdall.__file__).parent
    written = [path for folder in ("stores", "semantic", "durable") for path in (package / folder).rglob("*.py")]
    numbered = [path.name for path in written if re.search(r"[=<>(,] ?\?[0-9{]", path.read_text(encoding="utf-8"))]
    assert len(written) > 50
    assert numbered == []


class TestSqliteStore(StoreConformance):
    short_s = 60.0
    long_s = 6000.0

    @pytest.fixture(autouse=True)
    def _file(self, tmp_path: Path) -> None:
        self.path = tmp_path / "state.db"
        self.time = 1_700_000_000.0

    async def make_store(self) -> Store:
        # the claims are about order and atomicity; what FULL adds is tested by crashes
        return SqliteStore(self.path, durability="process", now=lambda: self.time)

    async def make_peer(self, store: Store) -> Store:
        return await self.make_store()

    async def advance(self, seconds: float) -> None:
        self.time += seconds


async def test_records_survive_reopening(tmp_path: Path):
    path = tmp_path / "state.db"
    store = SqliteStore(path)
    version = await store.write(
        "k", Blob("text", b"head"), expected=ABSENT, ttl_s=None, append=[Entry("m", b"1")], tags={"a": "b"}
    )
    await store.aclose()
    again = SqliteStore(path)
    record = await again.read("k")
    assert record is not None
    assert (record.version, record.head.data, record.log_len, dict(record.tags)) == (version, b"head", 1, {"a": "b"})
    await again.aclose()


async def test_durability_is_named_and_set(tmp_path: Path):
    """ "fsync" is synchronous=FULL (2), "process" is NORMAL (1), and both are WAL."""
    for durability, level in (("fsync", 2), ("process", 1)):
        store = SqliteStore(tmp_path / f"{durability}.db", durability=durability)
        assert store.durability == durability
        await store.write("k", HEAD, expected=ABSENT, ttl_s=None)
        db = store._file._connections[True]
        assert db.execute("PRAGMA synchronous").fetchone() == (level,)
        assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        await store.aclose()
    assert SqliteStore(tmp_path / "default.db").durability == "fsync"
    with pytest.raises(ArgumentError):
        SqliteStore(tmp_path / "x.db", durability="memory")


async def test_a_missing_folder_is_named(tmp_path: Path):
    store = SqliteStore(tmp_path / "no" / "such" / "state.db")
    with pytest.raises(StoreUnavailableError, match="no/such does not exist") as caught:
        await store.read("k")
    assert caught.value.backend == "sqlite"
    assert caught.value.operation == "read"
    await store.aclose()


@pytest.mark.parametrize(
    "content", [b"this is no database, and long enough to be looked at" * 100, b"SQLite format 3\0" + b"\xff" * 5000]
)
async def test_a_corrupt_file_is_a_typed_error(tmp_path: Path, content: bytes):
    path = tmp_path / "state.db"
    path.write_bytes(content)
    store = SqliteStore(path)
    with pytest.raises(StoreUnavailableError):
        await store.write("k", HEAD, expected=None, ttl_s=None)
    await store.aclose()
    assert path.read_bytes() == content


async def test_a_folder_in_place_of_a_file_is_a_typed_error(tmp_path: Path):
    store = SqliteStore(tmp_path)
    with pytest.raises(StoreUnavailableError):
        await store.read("k")
    await store.aclose()


async def test_what_is_no_record_is_a_typed_error(tmp_path: Path):
    """Tags that another program wrote are not read as tags."""
    store = SqliteStore(tmp_path / "state.db")
    await store.write("k", HEAD, expected=ABSENT, ttl_s=None)
    db = sqlite3.connect(tmp_path / "state.db")
    db.execute("UPDATE records SET tags = '{'")
    db.commit()
    db.close()
    for call in (store.read("k"), store.write("k", HEAD, expected=None, ttl_s=None)):
        with pytest.raises(DecodeError):
            await call
    await store.aclose()


async def test_a_newer_schema_is_refused(tmp_path: Path):
    """A file of a later holdall is neither read nor changed."""
    path = tmp_path / "state.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA user_version = 99")
    db.close()
    store = SqliteStore(path)
    with pytest.raises(NewerStateError) as caught:
        await store.read("k")
    assert (caught.value.found, caught.value.supported) == (99, len(migrations("sqlite")))
    await store.aclose()


async def test_a_held_file_is_waited_for_and_then_given_up(tmp_path: Path):
    """Another writer that keeps the lock past the bound makes the store unavailable; after it lets go, all is well."""
    path = tmp_path / "state.db"
    store = SqliteStore(path, busy_timeout_s=0.05)
    await store.write("k", HEAD, expected=ABSENT, ttl_s=None)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="locked"):
        await store.write("k", HEAD, expected=None, ttl_s=None)
    assert await store.read("k") is not None
    holder.execute("ROLLBACK")
    holder.close()
    assert (await store.write("k", HEAD, expected=None, ttl_s=None)).number == 2
    await store.aclose()


async def test_a_commit_that_could_not_be_synced_is_an_unknown_outcome(tmp_path: Path):
    """Its frames may be in the log of the file, and be found after a crash; the next call opens the file anew."""
    async with contextlib.aclosing(SqliteStore(tmp_path / "s.db")) as store:
        version = await store.write("k", Blob("t", b"1"), expected=ABSENT, ttl_s=None)
        connection = store._file._connections[True]

        class Failing:
            in_transaction = property(lambda _: connection.in_transaction)
            close = connection.close

            def execute(self, sql: str, *args: Any) -> Any:
                if sql == "COMMIT":
                    raise sqlite3.OperationalError("disk I/O error")
                return connection.execute(sql, *args)

            def executemany(self, sql: str, *args: Any) -> Any:
                return connection.executemany(sql, *args)

        store._file._connections[True] = Failing()  # type: ignore[assignment]
        with pytest.raises(OutcomeUnknownError, match="disk I/O error"):
            await store.write("k", Blob("t", b"2"), expected=version, ttl_s=None)
        assert (await store.write("k", Blob("t", b"3"), expected=version, ttl_s=None)).number == 2


async def test_case_23_expired_rows_are_absent_before_they_are_swept(tmp_path: Path):
    """Get, search and list do not see what has expired, though its row is still there."""
    now = [100.0]
    store = SqliteStore(tmp_path / "state.db", now=lambda: now[0])
    await store.write("k", HEAD, expected=ABSENT, ttl_s=10, append=[Entry("m", b"1")], tags={"user_id": "u"})
    now[0] = 110.0
    assert await store.read("k") is None
    assert await store.read_log("k", kind=None) == []
    assert [key async for key in store.find()] == []
    assert [key async for key in store.find(user_id="u")] == []
    assert await _count(store, "records") == 1
    assert await store.sweep() == 1
    assert [await _count(store, table) for table in ("records", "log", "tags")] == [0, 0, 0]
    await store.aclose()


async def test_case_17_ended_records_are_freed_by_later_writes(tmp_path: Path):
    now = [0.0]
    store = SqliteStore(tmp_path / "state.db", now=lambda: now[0], durability="process")
    for n in range(40):
        await store.write(f"k{n}", HEAD, expected=ABSENT, ttl_s=1, append=[Entry("m", b"1")], tags={"user_id": "u"})
    now[0] = 5.0
    for _ in range(12):
        await store.write("other", HEAD, expected=None, ttl_s=None)
    assert [await _count(store, table) for table in ("records", "log", "tags")] == [1, 0, 0]
    await store.aclose()


async def _count(store: SqliteStore, table: str) -> int:
    return await store._run("count", lambda db: db.execute(f"SELECT count(*) FROM {table}").fetchone()[0], writes=False)  # noqa: S608 - names of this file


async def test_case_4_versions_do_not_depend_on_clocks(tmp_path: Path):
    """Two writes at one instant, and one after the clock was set back, count 1, 2, 3."""
    now = [1000.0]
    store = SqliteStore(tmp_path / "state.db", now=lambda: now[0])
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=None)
    version = await store.write("k", HEAD, expected=version, ttl_s=None)
    now[0] = 1.0
    version = await store.write("k", HEAD, expected=version, ttl_s=None)
    assert version.number == 3
    await store.aclose()


async def test_a_stored_entry_costs_its_bytes(tmp_path: Path):
    """1000 entries of 1.2 kB take less than 1.2 times their bytes on disk: no second btree, no page per entry."""
    path = tmp_path / "state.db"
    store = SqliteStore(path, durability="process")
    version = None
    for _ in range(500):
        added = [Entry("message", os.urandom(1200)), Entry("message", os.urandom(1200))]
        version = await store.write("k", HEAD, expected=version, ttl_s=None, append=added)
    await store.aclose()
    assert path.stat().st_size < 1.2 * 1000 * 1200


def test_one_call_is_one_hop(tmp_path: Path):
    """A call hands one piece of work to the file's thread, however many statements it takes."""

    async def count() -> int:
        store = SqliteStore(tmp_path / "state.db", durability="process")
        await store.write("k", HEAD, expected=ABSENT, ttl_s=None)
        worker = store._file.worker(writes=True)
        hops = []
        put = worker.put
        worker.put = lambda job: hops.append(1) or put(job)  # type: ignore[method-assign]
        await store.write(
            "k", HEAD, expected=None, ttl_s=60, append=[Entry("m", b"1")] * 20, tags={"a": "b"}, op_id="x"
        )
        await store.aclose()
        return len(hops)

    assert asyncio.run(count()) == 1


# ---- several processes on one file


def _open_and_append(path: str, gate: multiprocessing.synchronize.Event, n: int, times: int) -> None:
    async def work() -> None:
        store = SqliteStore(path, durability="process")
        for i in range(times):
            await store.write("shared", HEAD, expected=None, ttl_s=None, append=[Entry("m", b"%d.%d" % (n, i))])
        await store.aclose()

    gate.wait()
    asyncio.run(work())


def test_case_35_eight_processes_open_a_new_file_at_once(tmp_path: Path, full: bool):
    """All of them make the schema or find it made, and no append is lost."""
    context = multiprocessing.get_context("fork")
    for turn in range(20 if full else 3):
        path = tmp_path / f"state{turn}.db"
        gate = context.Event()
        workers = [context.Process(target=_open_and_append, args=(str(path), gate, n, 10)) for n in range(8)]
        for worker in workers:
            worker.start()
        gate.set()
        for worker in workers:
            worker.join(60)
        assert [worker.exitcode for worker in workers] == [0] * 8
        record = asyncio.run(_read(path, "shared"))
        assert record.version.number == record.log_len == 80
        assert len({entry.data for entry in record.entries}) == 80


async def _read(path: Path, key: str):
    store = SqliteStore(path)
    record = await store.read(key)
    await store.aclose()
    return record


def test_a_fork_opens_its_own_connections(tmp_path: Path):
    """A store that was used before a fork works on in both processes."""

    async def append(store: SqliteStore, data: bytes) -> None:
        await store.write("k", HEAD, expected=None, ttl_s=None, append=[Entry("m", data)])

    store = SqliteStore(tmp_path / "state.db", durability="process")
    asyncio.run(append(store, b"before"))
    child = multiprocessing.get_context("fork").Process(target=lambda: asyncio.run(append(store, b"child")))
    child.start()
    child.join(30)
    assert child.exitcode == 0
    asyncio.run(append(store, b"parent"))
    record = asyncio.run(store.read("k"))
    assert [entry.data for entry in record.entries] == [b"before", b"child", b"parent"]
    asyncio.run(store.aclose())


_SETUP = """
import sqlite3, sys, os, signal
from holdall.stores import sqlite_file
from pathlib import Path
from typing import Any
n, left = int(sys.argv[2]), len(sqlite_file.migrations("sqlite"))
def dying(sql, real=sqlite_file._statements):
    global n, left
    for statement in real(sql):
        if n == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        n -= 1
        yield statement
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
sqlite_file._statements = dying
file = sqlite_file.SqliteFile(Path(sys.argv[1]), synchronous="FULL", busy_timeout_s=5)
file.migrate()
"""


def test_case_36_a_setup_killed_after_any_statement_is_done_again(tmp_path: Path):
    """SIGKILL before each statement of the schema and before the commit: opening again gives a whole store."""
    n_statements = sum(len(list(_statements(migration.sql))) for migration in migrations("sqlite"))
    for n in range(n_statements + 1):
        path = tmp_path / f"killed{n}.db"
        done = subprocess.run([sys.executable, "-c", _SETUP, str(path), str(n)], check=False, timeout=60)
        assert done.returncode == -signal.SIGKILL, n

        async def use(path: Path = path) -> None:
            store = SqliteStore(path)
            assert (await store.write("k", HEAD, expected=ABSENT, ttl_s=None)).number == 1
            await store.aclose()

        asyncio.run(use())


async def test_migrate_names_what_is_due_and_then_nothing(tmp_path: Path):
    store = SqliteStore(tmp_path / "state.db")
    names = [migration.name for migration in migrations("sqlite")]
    assert await store.migrate(dry_run=True) == names
    assert not (tmp_path / "state.db").exists()
    assert await store.migrate() == names
    assert await store.migrate(dry_run=True) == []
    assert await store.migrate() == []
    await store.aclose()


_WRITER = """
import asyncio, os, sys
from holdall.stores.base import Blob, Entry
from holdall.stores.sqlite import SqliteStore
from holdall.stores.sqlite_file import _statements

async def main():
    store = SqliteStore(sys.argv[1])
    record = await store.read("k")
    version, n = (None, 0) if record is None else (record.version, record.version.number)
    usual = {"ttl_s": None} if sys.argv[2] == "general" else {"ttl_s": 600.0, "tags": {"user_id": "u"}}
    while True:
        added = [] if sys.argv[2] == "alone" else [Entry("m", b"%d." % n + b"x" * 400)]
        os.write(1, b"begin\\n")
        version = await store.write("k", Blob("text", b"%d" % (n + 1)), expected=version, append=added, **usual)
        n += 1
        os.write(1, b"%d\\n" % n)  # the acknowledgement, after the commit

asyncio.run(main())
"""


@pytest.mark.faults
@pytest.mark.parametrize("way", ["general", "step", "alone"])
def test_a_killed_worker_loses_no_acknowledged_write(tmp_path: Path, full: bool, way: str):
    """SIGKILL at random moments: what was acknowledged is there, whole, once, and the next worker goes on behind it."""
    rng = random.Random(3)
    path = tmp_path / "state.db"
    n_kills = 300 if full else 12
    held = n_acked = n_in_write = 0
    for _ in range(n_kills):
        worker = subprocess.Popen([sys.executable, "-c", _WRITER, str(path), way], stdout=subprocess.PIPE)
        assert worker.stdout is not None
        # a number of begun and acknowledged writes, however long the machine takes for them
        lines = [worker.stdout.readline() for _ in range(rng.randrange(1, 16))]
        time.sleep(rng.uniform(0, 0.003))
        worker.kill()
        lines += worker.stdout.read().splitlines()
        worker.stdout.close()
        worker.wait()
        acks = [int(line) for line in lines if line.strip() != b"begin"]
        n_in_write += lines[-1].strip() == b"begin"
        n_acked += len(acks)
        assert acks == list(range(held + 1, held + 1 + len(acks)))
        record = asyncio.run(_read(path, "k"))
        if record is None:
            # killed before the first commit of all
            assert (held, acks) == (0, [])
            continue
        # the write that was under way may have been committed, and nothing else may be there
        number = record.version.number
        assert held + len(acks) <= number <= held + len(acks) + 1
        held = number
        assert number == int(record.head.data)
        assert record.log_len == len(record.entries) == (0 if way == "alone" else number)
        assert [int(entry.data.split(b".")[0]) for entry in record.entries] == list(range(record.log_len))
    print(f"sqlite, {way}: {n_kills} kills, {n_in_write} in a write, {n_acked} acknowledged, 0 lost, 0 doubled")  # noqa: T201 - the figures of a full run
    assert n_in_write >= n_kills / 2
    assert n_acked  # how many depends on how long the disk takes
