"""A log is read as the driver gives it: nobody can tell by the entries, and what is damaged is said with a type."""

from __future__ import annotations

import contextlib
import pickle
import secrets
from collections.abc import Sequence
from typing import Any

import asyncpg
import pytest
from redis.asyncio import Redis

from holdall import SessionState
from holdall.durable.session_store import SessionStore
from holdall.errors import ArgumentError, DecodeError, StoreUnavailableError
from holdall.state import StateSerializer
from holdall.stores.base import ABSENT, Blob, Entry
from holdall.stores.postgres import PostgresStore
from holdall.stores.redis import RedisStore
from holdall.stores.rows import Rows
from holdall.stores.sqlite import SqliteStore
from tests.servers.postgres import Postgres
from tests.servers.redis import Node

ENTRIES = [Entry("message", b"a\0b", 3), Entry("step_result", b"", 4), Entry("m", b"\0", 5)]
AS_ROWS = [(kind, data) for kind, data, _ in ENTRIES]
AS_RUNS = [kind.encode() + b"\0" + data for kind, data, _ in ENTRIES]
HEAD = Blob("msgpack", b"\x80")


@pytest.mark.parametrize("raw", [AS_ROWS, AS_RUNS, list(ENTRIES)], ids=["rows", "runs", "entries"])
def test_rows_are_a_sequence_of_entries(raw: Sequence[Any]) -> None:
    """Whatever the driver gave: by number, from the end, by slices, and as equals of a list."""
    rows = Rows(raw, 3)
    assert list(rows) == ENTRIES == [*reversed(list(reversed(rows)))]
    assert (len(rows), rows[0], rows[-1], rows[1:], rows[::-2]) == (
        3,
        ENTRIES[0],
        ENTRIES[2],
        ENTRIES[1:],
        [ENTRIES[2], ENTRIES[0]],
    )
    assert rows == ENTRIES
    assert rows == tuple(ENTRIES)
    assert rows == Rows(AS_RUNS, 3)
    assert rows != Rows(raw, 4)
    assert rows != "abc"
    assert ENTRIES[1] in rows
    assert pickle.loads(pickle.dumps(rows)) == ENTRIES  # noqa: S301 - its own
    assert "step_result" in repr(rows)
    for beyond in (3, -4):
        with pytest.raises(IndexError):
            rows[beyond]


def stored(n: int = 4) -> tuple[SessionState, bytes, list[tuple[str, bytes]]]:
    state = SessionState("s", "u")
    for step in range(n):
        state.messages.append({"role": "user", "content": f"é {step}", "parts": [{"n": -step}]})
        state.step_results[step] = {"ok": True}
    now = StateSerializer().snapshot(state)
    return state, now.head, list(now.append)


@pytest.mark.parametrize("by", ["pair", "triple", "run", "row"])
def test_a_log_is_restored_from_whatever_holds_it(by: str) -> None:
    """Pairs, entries, runs of bytes, and what is indexed without being a sequence, as the rows of a driver are."""

    class Row:
        def __init__(self, *columns: Any) -> None:
            self._columns = columns

        def __getitem__(self, at: int) -> Any:
            return self._columns[at]

    state, head, entries = stored()
    made: dict[str, Any] = {
        "pair": lambda _, kind, data: (kind, data),
        "triple": lambda n, kind, data: Entry(kind, data, n),
        "run": lambda _, kind, data: kind.encode() + b"\0" + data,
        "row": lambda n, kind, data: Row(kind, data, n),
    }
    log = [made[by](n, kind, data) for n, (kind, data) in enumerate(entries)]
    found = StateSerializer().restore(head, log)
    assert found == state
    assert list(found.log.items) == [item._replace(packed=None) for item in state.log.items]


def test_a_damaged_entry_is_the_same_error_however_it_is_held() -> None:
    """Cut off, trailing bytes, no pair of step and result, another kind: type and offset do not depend on the driver."""
    _, head, entries = stored()
    (_, message), (_, result) = entries[:2]
    bad = [
        ("message", message[:-1]),
        ("message", message + b"\0"),
        ("message", b""),
        ("message", b"\xff" + message),
        ("step_result", message),
        ("step_result", result[:3]),
        ("no kind", message),
        ("", message),
    ]
    for kind, data in bad:
        said = []
        for entry in ((kind, data), kind.encode() + b"\0" + data):
            with pytest.raises((DecodeError, ArgumentError)) as caught:
                StateSerializer().restore(head, [entries[0], entry])
            said.append((type(caught.value), str(caught.value), getattr(caught.value, "offset", None)))
        assert said[0] == said[1]
    with pytest.raises(DecodeError):
        StateSerializer().restore(head, [b"\xff\xfe\0" + message])
    with pytest.raises(DecodeError):
        list(Rows([b"\xff\xfe\0" + message], 0))


@pytest.mark.postgres
async def test_postgres_gives_the_log_in_order_wherever_its_rows_lie(postgres_server: Postgres) -> None:
    """The statement sorts nothing: rows that were moved within the table come late and are put in their place."""
    schema = f"s{secrets.token_hex(4)}"
    async with contextlib.aclosing(PostgresStore(postgres_server.url, schema=schema)) as store:
        entries = [Entry("message", b"%d" % n) for n in range(40)]
        await store.write("k", Blob("json", b'{"a": 1}'), expected=ABSENT, append=entries, ttl_s=None, tags={"t": "x"})
        connection = await asyncpg.connect(postgres_server.url)
        await connection.execute(f"UPDATE {schema}.agent_session_log SET data = data WHERE seq % 3 = 0")  # noqa: S608 - a name of this test
        first = await connection.fetch(f"SELECT seq FROM {schema}.agent_session_log ORDER BY ctid LIMIT 3")  # noqa: S608
        assert [row["seq"] for row in first] != [0, 1, 2]
        await connection.close()
        for log_from in (0, 7, 39, 40, 1000):
            record = await store.read("k", log_from=log_from)
            assert record is not None
            assert [(entry.seq, entry.data) for entry in record.entries] == [
                (n, b"%d" % n) for n in range(log_from, 40)
            ]
            assert (record.head, record.log_len, dict(record.tags)) == (Blob("json", b'{"a": 1}'), 40, {"t": "x"})


@pytest.mark.postgres
async def test_postgres_reads_through_a_pool_whose_types_are_others(postgres_server: Postgres) -> None:
    """A pool that is shared with an application may read JSON as objects."""

    async def as_objects(connection: asyncpg.Connection) -> None:
        await connection.set_type_codec("jsonb", encoder=str, decoder=lambda _: object(), schema="pg_catalog")

    schema = f"s{secrets.token_hex(4)}"
    async with contextlib.aclosing(PostgresStore(postgres_server.url, schema=schema)) as store:
        await store.write(
            "k", Blob("json", b"{}"), expected=ABSENT, append=[Entry("m", b"1")], ttl_s=60, tags={"t": "x"}
        )
    async with asyncpg.create_pool(postgres_server.url, min_size=0, max_size=1, init=as_objects) as pool:
        record = await PostgresStore(pool=pool, schema=schema).read("k")
        assert record is not None
        assert (record.head, dict(record.tags)) == (Blob("json", b"{}"), {"t": "x"})
        assert record.entries == [Entry("m", b"1", 0)]


@pytest.mark.redis
@pytest.mark.parametrize("how", ["own", "given", "no transactions"])
async def test_redis_reads_the_same_with_and_without_a_script(valkey_server: Node, how: str) -> None:
    """In a transaction where the server lets us, in a script where it does not: records, none, tombstones, a log that lacks entries."""
    user = f"u{secrets.token_hex(4)}"
    admin = Redis(port=valkey_server.port)
    await admin.execute_command(
        "ACL", "SETUSER", user, "on", "nopass", "~*", "+@all", *(["-multi"] if how == "no transactions" else [])
    )
    url = f"redis://{user}:x@127.0.0.1:{valkey_server.port}"
    client = Redis.from_url(url) if how == "given" else None
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(admin.aclose)
        stack.push_async_callback(admin.execute_command, "ACL", "DELUSER", user)
        if client is not None:
            stack.push_async_callback(client.aclose)
        store = RedisStore(None if client else url, client=client, namespace=f"n{secrets.token_hex(4)}")
        stack.push_async_callback(store.aclose)
        assert await store.read("k") is None
        version = await store.write("k", HEAD, expected=ABSENT, append=ENTRIES, ttl_s=60, tags={"t": "x"})
        for log_from in (0, 2, 3, 9, 2**31 - 1):
            record = await store.read("k", log_from=log_from)
            assert record is not None
            assert (record.version, record.head, record.log_len) == (version, HEAD, 3)
            assert [entry[:2] for entry in record.entries] == [entry[:2] for entry in ENTRIES][log_from:]
            assert record.expires_at is not None
        log = store._index.slot_keys("k")[1]
        await admin.ltrim(log, 0, 1)
        with pytest.raises(StoreUnavailableError, match="lacks entries"):
            await store.read("k")
        await admin.delete(log)
        await admin.set(log, "no list")
        with pytest.raises(StoreUnavailableError, match="WRONGTYPE"):
            await store.read("k")
        await admin.delete(log)
        assert await store.delete("k")
        assert await store.read("k") is None


async def test_sqlite_gives_the_part_of_the_log_that_is_asked_for(tmp_path: Any) -> None:
    """With the numbers that entries have in the whole log."""
    async with contextlib.aclosing(SqliteStore(tmp_path / "r.db")) as store:
        await store.write("k", HEAD, expected=ABSENT, append=ENTRIES, ttl_s=None)
        for log_from in (0, 2, 3, 9):
            record = await store.read("k", log_from=log_from)
            assert record is not None
            assert [entry.seq for entry in record.entries] == [0, 1, 2][log_from:]


@pytest.mark.parametrize("n", [0, 1, 200])
async def test_a_session_store_decodes_what_its_store_read(n: int, tmp_path: Any) -> None:
    """Through the rows of a driver, and entry by entry."""
    store = SessionStore(SqliteStore(tmp_path / "s.db"))
    async with contextlib.aclosing(store):
        state = stored(n)[0]
        await store.save(state)
        record = await store.read("s")
        assert isinstance(record.entries, Rows)
        assert await store.load("s") == state
        assert StateSerializer().restore(record.head.data, list(record.entries)).messages == state.messages
