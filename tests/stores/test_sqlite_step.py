"""The common step of SQLite, which is one statement, does what the general way does; and who has lost needs no lock to know."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdall.errors import ConflictError, StaleFenceError
from holdall.stores import sqlite_rows
from holdall.stores.base import ABSENT, Blob, Entry, Record, Version
from holdall.stores.sql import migrations
from holdall.stores.sqlite import SqliteStore

HEAD = Blob("text", b"")
USUAL = {"user_id": "u"}

write = st.fixed_dictionaries(
    {
        "op": st.just("write"),
        "behind": st.sampled_from([*[0] * 9, 1]),
        "append": st.lists(st.sampled_from([b"1", b"22"]), max_size=2),
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
                version = await store.write(
                    "k",
                    HEAD,
                    expected=expected,
                    append=[Entry("m", data) for data in call["append"]],
                    fence=fence,
                    **{name: call[name] for name in ("keep", "ttl_s", "tags", "op_id")},
                )
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
@given(calls=st.lists(call, min_size=10, max_size=25))
def test_the_step_is_the_general_way(tmp_path_factory: pytest.TempPathFactory, calls: list[dict[str, Any]]):
    """Any calls in any order leave the same rows and give the same answers with the one statement and without."""
    folder = tmp_path_factory.mktemp("step")
    quick = asyncio.run(played(folder / f"{secrets.token_hex(4)}.db", calls))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_rows, "_HAS_RETURNING", False)
        general = asyncio.run(played(folder / f"{secrets.token_hex(4)}.db", calls))
    assert quick == general
    assert quick[1][3] == (0,)


async def test_a_common_step_is_one_statement(tmp_path: Path):
    """And it leaves alone the index that says when to look for ended records."""
    store = SqliteStore(tmp_path / "state.db")
    version = await store.write("k", HEAD, expected=ABSENT, ttl_s=60, tags={"user_id": "u"}, op_id="0")
    said: list[str] = []
    await store._run("trace", lambda db: db.set_trace_callback(said.append), writes=True)
    said.clear()
    await store.write("k", HEAD, expected=version, ttl_s=60, tags={"user_id": "u"}, op_id="1")
    assert [text.split()[0] for text in said] == ["BEGIN", "UPDATE", "COMMIT"]
    assert "sweep_at =" not in said[1]
    await store.aclose()


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
