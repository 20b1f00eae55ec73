"""The common step of SQLite, which is one statement, does what the general way does; and who has lost needs no lock to know."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdall.errors import ConflictError, OutcomeUnknownError, StaleFenceError
from holdall.stores import sqlite, sqlite_step
from holdall.stores.base import ABSENT, Blob, Entry, Record, Version
from holdall.stores.sql import migrations
from holdall.stores.sqlite import SqliteStore

HEAD = Blob("text", b"")
USUAL = {"user_id": "u"}

write = st.fixed_dictionaries(
    {
        "op": st.just("write"),
        "or_read": st.booleans(),
        "behind": st.sampled_from([*[0] * 9, 1]),
        "append": st.sampled_from([[], [], [b"1"], [b"1", b"22"]]),
        "keep": st.sampled_from([*[None] * 9, 1]),
        "ttl_s": st.sampled_from([10.0, 20.0, 20.0, 20.0, 20.0, None]),
        "tags": st.sampled_from([*[USUAL] * 9, {"user_id": "u", "status": "done"}, None]),
        "fence": st.sampled_from([*["as needed"] * 12, None, 3]),
        "op_id": st.sampled_from([None, None, "x", "y"]),
    }
)
others = (
    st.fixed_dictionaries({"op": st.just("touch"), "ttl_s": st.sampled_from([5.0, None])}),
    st.just({"op": "delete"}),
    st.fixed_dictionaries({"op": st.just("wait"), "s": st.sampled_from([1.0, 15.0])}),
    st.just({"op": "wait", "s": 25.0}),
    st.just({"op": "sweep"}),
)
# four writes of five
call = st.integers(0, 24).flatmap(lambda n: others[n] if n < len(others) else write)


def step(**options: Any) -> dict[str, Any]:
    """A write as most are."""
    usual = {
        "or_read": False,
        "behind": 0,
        "append": [b"1"],
        "keep": None,
        "ttl_s": 20.0,
        "tags": USUAL,
        "fence": "as needed",
        "op_id": None,
    }
    return {"op": "write", **usual, **options}


async def played(path: Path, calls: list[dict[str, Any]]) -> tuple[list[Any], list[Any]]:
    """Return what each call gave, and the rows that are there after them, without what is drawn."""
    now = [1000.0]
    store = SqliteStore(path, now=lambda: now[0], durability="process")
    seen: list[Version] = []
    highest: int | None = None
    said: list[Any] = []
    for call in calls:
        try:
            if call["op"] == "write":
                fence = highest if call["fence"] == "as needed" else call["fence"]
                expected = seen[-1 - call["behind"]] if len(seen) > call["behind"] else ABSENT
                or_read = call["or_read"] and isinstance(expected, Version)
                version = await (functools.partial(store.write_or_read, log_from=0) if or_read else store.write)(
                    "k",
                    HEAD,
                    expected=expected,
                    append=[Entry("m", data) for data in call["append"]],
                    fence=fence,
                    **{name: call[name] for name in ("keep", "ttl_s", "tags", "op_id")},
                )
                if isinstance(version, Record):
                    said.append(("ConflictError", version.version.number))
                    seen.append(version.version)
                    continue
                highest = fence if highest is None else highest
                seen.append(version)
                said.append(version.number)
            elif call["op"] == "touch":
                said.append(await store.touch("k", call["ttl_s"]))
            elif call["op"] == "delete":
                said.append(await store.delete("k", fence=9))
            elif call["op"] == "wait":
                now[0] += call["s"]
            else:
                await store.sweep()
        except ConflictError as error:
            said.append((type(error).__name__, error.actual and error.actual.number))
            record = await store.read("k")
            seen = [] if record is None else [*seen, record.version]
    await store.sweep()

    def rows(db: sqlite3.Connection) -> list[Any]:
        columns = "key, number, head, log_len, expires_at, tags, fence, is_deleted, cut_at, length(ops)"
        records = db.execute(f"SELECT {columns} FROM records ORDER BY key").fetchall()  # noqa: S608 - names of this file
        log = db.execute("SELECT key, pos & 0xffffffff, data FROM log JOIN records ON id = pos >> 32 ORDER BY 1, 2")
        tags = db.execute("SELECT key, name, value FROM tags JOIN records ON id = record ORDER BY 1, 2")
        # looked for in time: no record's end is past while nothing says to look
        late = db.execute("SELECT count(*) FROM records WHERE expires_at < ifnull(sweep_at, 1e99)").fetchone()
        return [records, log.fetchall(), tags.fetchall(), late]

    left = await store._run("rows", rows, writes=False)
    await store.aclose()
    return said, left


@settings(deadline=None, max_examples=25)
@example(calls=[step(), step(ttl_s=10.0)])
@example(calls=[step(), {"op": "wait", "s": 25.0}, step()])
@example(calls=[step(), step(tags={"user_id": "v"}), step(tags=None)])
@example(calls=[step(), step(fence=3), step(fence=None), step()])
@example(calls=[step(op_id="x"), step(op_id="y"), step(op_id="x"), step(op_id="y", behind=1)])
@example(calls=[step(), step(), {"op": "delete"}, step()])
@example(calls=[step(append=[]), step(append=[]), step(append=[], behind=1), step(append=[])])
@example(calls=[step(), *[step(append=[], or_read=True, op_id="x")] * 2, step(append=[], or_read=True, behind=1)])
@example(calls=[step(), step(keep=0), step(append=[]), step()])
@given(calls=st.lists(call, min_size=10, max_size=25))
def test_the_step_is_the_general_way(tmp_path_factory: pytest.TempPathFactory, calls: list[dict[str, Any]]):
    """Any calls in any order leave the same rows and give the same answers with the one statement and without."""
    folder = tmp_path_factory.mktemp("step")
    quick = asyncio.run(played(folder / f"{secrets.token_hex(4)}.db", calls))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_step, "_HAS_RETURNING", False)
        old = asyncio.run(played(folder / f"{secrets.token_hex(4)}.db", calls))
        patch.setattr(sqlite, "step_of", lambda *_: None)
        general = asyncio.run(played(folder / f"{secrets.token_hex(4)}.db", calls))
    assert quick == general
    assert old == general
    assert quick[1][3] == (0,)


async def test_a_common_step_is_one_statement(tmp_path: Path):
    """And it leaves alone the index that says when to look for ended records."""
    store = SqliteStore(tmp_path / "state.db")
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=60, tags={"user_id": "u"}, op_id="0")
    said: list[str] = []
    await store._run("trace", lambda db: db.set_trace_callback(said.append), writes=True)
    said.clear()
    version = await store.write("k", HEAD, expected=version, ttl_s=60, tags={"user_id": "u"}, op_id="1")
    assert [text.split()[0] for text in said] == ["UPDATE"]
    assert "sweep_at =" not in said[0]
    said.clear()
    found = await store.write_or_read("k", HEAD, expected=version, ttl_s=60, tags={"user_id": "u"}, log_from=0)
    assert [text.split()[0] for text in said] == ["UPDATE"]
    said.clear()
    one = [Entry("m", b"1")]
    await store.write("k", HEAD, expected=found, ttl_s=60, tags={"user_id": "u"}, append=one)  # type: ignore[arg-type]
    assert [text.split()[0] for text in said] == ["BEGIN", "UPDATE", "INSERT", "COMMIT"]
    assert "RETURNING" not in said[1]
    await store.aclose()


async def test_who_knows_no_place_has_it_returned(tmp_path: Path):
    """A store that neither read nor wrote the record, as one whose caller has the version from elsewhere, takes one statement too."""
    async with contextlib.aclosing(SqliteStore(tmp_path / "state.db")) as store:
        version = await store.write("k", HEAD, expected=ABSENT, ttl_s=60, tags={"user_id": "u"})
    async with contextlib.aclosing(SqliteStore(tmp_path / "state.db")) as store:
        said: list[str] = []
        await store._run("trace", lambda db: db.set_trace_callback(said.append), writes=True)
        said.clear()
        one = [Entry("m", b"1")]
        await store.write("k", HEAD, expected=version, ttl_s=60, tags={"user_id": "u"}, append=one)
        assert [text.split()[0] for text in said] == ["BEGIN", "UPDATE", "INSERT", "COMMIT"]
        assert "RETURNING" in said[1]


@pytest.mark.parametrize("wrong", [{"record_id": 7}, {"log_len": 0}])
@pytest.mark.parametrize("append", [[], [Entry("m", b"2")]])
async def test_a_place_that_is_wrong_refuses_nothing(tmp_path: Path, wrong: dict[str, int], append: list[Entry]):
    """As after the file was put back from a copy: the write goes the general way, to the right place."""
    async with contextlib.aclosing(SqliteStore(tmp_path / "state.db")) as store:
        version = await store.write("k", HEAD, expected=ABSENT, ttl_s=60, tags={}, append=[Entry("m", b"1")])
        place = store._places.at("k", version)
        assert place is not None
        store._places._of_key["k"] = place._replace(**wrong)
        assert (await store.write("k", HEAD, expected=version, ttl_s=60, tags={}, append=append)).number == 2
        record = await store.read("k")
        assert record is not None
        assert [entry.data for entry in record.entries] == [b"1", *(entry.data for entry in append)]


async def test_who_wrote_last_and_lost_sees_it_without_the_lock(tmp_path: Path):
    """It tries at once, and once more only after a look: a process that holds the file does not stand in the way of the answer."""
    path = tmp_path / "state.db"
    store, other = SqliteStore(path, busy_timeout_s=0.5), SqliteStore(path)
    first = await store.write("k", HEAD, expected=ABSENT, ttl_s=60, tags={})
    second = await other.write("k", HEAD, expected=first, ttl_s=60, tags={})
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    found = await store.write_or_read("k", HEAD, expected=first, ttl_s=60, tags={}, log_from=0)
    assert isinstance(found, Record)
    assert found.version == second
    holder.execute("ROLLBACK")
    holder.close()
    for closed in (store, other):
        await closed.aclose()


async def test_a_step_that_could_not_be_synced_is_an_unknown_outcome(tmp_path: Path):
    """Also where the step is a statement by itself, and no COMMIT says where it failed."""
    async with contextlib.aclosing(SqliteStore(tmp_path / "s.db")) as store:
        version = await store.write("k", HEAD, expected=ABSENT, ttl_s=60, tags={})
        connection = store._file._connections[True]

        class Failing:
            in_transaction = False
            close = connection.close

            def execute(self, sql: str, *_args: Any) -> Any:
                assert sql.lstrip().startswith("UPDATE")
                raise sqlite3.OperationalError("disk I/O error")

        store._file._connections[True] = Failing()  # type: ignore[assignment]
        with pytest.raises(OutcomeUnknownError, match="disk I/O error"):
            await store.write("k", HEAD, expected=version, ttl_s=60, tags={})
        assert (await store.write("k", HEAD, expected=version, ttl_s=60, tags={})).number == 2


def test_places_are_forgotten_in_the_order_they_were_noted():
    """However many records a process meets, it remembers the last of them."""
    places = sqlite_step.Places()
    version = Version("g", 1)
    for n in range(2000):
        places.note(f"k{n}", version, n, 0)
    assert len(places._of_key) == 1024
    assert places.at("k0", version) is None
    assert places.at("k1999", Version("g", 2)) is None
    assert places.at("k1999", version) == (version, 1999, 0, False)


async def test_a_record_that_lives_on_is_not_freed_when_it_is_looked_at(tmp_path: Path):
    """A sliding expiry moves past the time to look; the record is kept, and looked at again at its end."""
    now = [100.0]
    store = SqliteStore(tmp_path / "state.db", now=lambda: now[0])
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=10, tags={"user_id": "u"})
    for _ in range(20):
        now[0] += 5
        version = await store.write("k", HEAD, expected=version, ttl_s=10, tags={"user_id": "u"})
        assert await store.sweep() == 0
    assert (await store.read("k")) is not None
    now[0] += 10
    assert await store.sweep() == 1
    await store.aclose()


async def test_who_has_lost_needs_no_lock_to_know(tmp_path: Path):
    """While another process holds the file's write lock, a conflict, a repeat and a stale fence are answered all the same."""
    path = tmp_path / "state.db"
    store = SqliteStore(path, busy_timeout_s=0.05)
    first = await store.write("k", HEAD, expected=ABSENT, ttl_s=60)
    second = await store.write("k", HEAD, expected=first, ttl_s=60, append=[Entry("m", b"1")], op_id="op")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    found = await store.write_or_read("k", HEAD, expected=first, ttl_s=60, log_from=0)
    assert isinstance(found, Record)
    assert (found.version, [entry.data for entry in found.entries]) == (second, [b"1"])
    assert await store.write_or_read("k", HEAD, expected=first, ttl_s=60, log_from=0, op_id="op") == second
    with pytest.raises(ConflictError):
        await store.write_or_read("none", HEAD, expected=first, ttl_s=60, log_from=0)
    holder.execute("ROLLBACK")
    third = await store.write("k", HEAD, expected=second, ttl_s=60, fence=5)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StaleFenceError):
        await store.write_or_read("k", HEAD, expected=first, ttl_s=60, log_from=0, fence=4)
    holder.execute("ROLLBACK")
    holder.close()
    assert (await store.write_or_read("k", HEAD, expected=third, ttl_s=60, log_from=0, fence=5)) == Version(
        third.generation, 4
    )
    await store.aclose()


async def test_records_from_before_the_time_to_look_are_freed_in_time(tmp_path: Path):
    """A file of the schema before is taken over: what ends later is freed then."""
    path = tmp_path / "state.db"
    old = sqlite3.connect(path)
    for migration in migrations("sqlite")[:2]:
        old.executescript(migration.sql)
    old.execute("PRAGMA user_version = 2")
    row = ("k", "0123456789abcdef", 3, "text", b"h", 0, 1010.0, "{}", "")
    columns = "key, generation, number, head_format, head, log_len, expires_at, tags, ops"
    old.execute(f"INSERT INTO records ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", row)  # noqa: S608 - names of this file
    old.commit()
    old.close()
    now = [1000.0]
    store = SqliteStore(path, now=lambda: now[0])
    record = await store.read("k")
    assert record is not None
    assert record.version.number == 3
    assert await store.sweep() == 0
    now[0] = 1010.0
    assert await store.sweep() == 1
    await store.aclose()
