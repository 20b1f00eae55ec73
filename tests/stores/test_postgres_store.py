"""The PostgreSQL store keeps every claim, directly and through pgbouncer."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
from collections.abc import AsyncIterator

import asyncpg
import msgpack
import pytest

from holdall.errors import ArgumentError, EncodeError, NewerStateError, OutcomeUnknownError, StoreUnavailableError
from holdall.stores.base import ABSENT, Blob, Entry, Store
from holdall.stores.postgres import PostgresStore, apply_migrations, due_migrations
from holdall.stores.sql import migrations
from holdall.testing import StoreConformance
from tests.servers.postgres import Pgbouncer, Postgres

HEAD = Blob("msgpack", b"\x80")


@pytest.mark.postgres
class TestPostgresStore(StoreConformance):
    short_s = 60.0
    long_s = 6000.0
    schema = "conformance"

    @pytest.fixture(autouse=True)
    def _server(self, postgres_server: Postgres) -> None:
        self.url = self.admin_url = postgres_server.url

    async def make_store(self) -> Store:
        return PostgresStore(self.url, schema=self.schema)

    async def make_peer(self, store: Store) -> Store:
        return await self.make_store()

    async def advance(self, seconds: float) -> None:
        # the clock is the server's: what was to end in a while is made to end that much earlier
        connection = await asyncpg.connect(self.admin_url)
        await connection.execute(
            f"UPDATE {self.schema}.agent_sessions SET expires_at = expires_at - make_interval(secs => $1),"  # noqa: S608 - a name of this file
            " sweep_at = sweep_at - make_interval(secs => $1)",
            seconds,
        )
        await connection.close()


@pytest.mark.postgres
@pytest.mark.pgbouncer
class TestPostgresStoreThroughPgbouncer(TestPostgresStore):
    schema = "pooled"

    @pytest.fixture(autouse=True)
    def _pooler(self, _server: None, pgbouncer_server: Pgbouncer) -> None:
        self.url = pgbouncer_server.url


@pytest.fixture
def fresh_schema(postgres_server: Postgres) -> str:
    """A schema of its own for the test."""
    return f"s_{secrets.token_hex(4)}"


@pytest.fixture
async def admin(postgres_server: Postgres, fresh_schema: str) -> AsyncIterator[asyncpg.Connection]:
    """A connection that looks into `fresh_schema`."""
    connection = await asyncpg.connect(postgres_server.url, server_settings={"search_path": fresh_schema})
    yield connection
    await connection.close()


@pytest.fixture
async def store(postgres_server: Postgres, fresh_schema: str) -> AsyncIterator[PostgresStore]:
    """A store in `fresh_schema`."""
    async with contextlib.aclosing(PostgresStore(postgres_server.url, schema=fresh_schema)) as opened:
        yield opened


@pytest.mark.postgres
async def test_people_read_state_and_messages_with_psql(store: PostgresStore, admin: asyncpg.Connection):
    """The state is JSONB with its columns beside it, and the view shows what the log says."""
    message = {
        "role": "user",
        "content": "héllo\nworld",
        "n": [1, -2, 300, 70000, 2**40, -(2**40), 1.5, -0.25, None, True, False],
    }
    long = {"role": "assistant", "content": "x" * 70_000, "map": {str(n): n for n in range(20)}, "b": b"\x00\xff"}
    await store.write(
        "session-1",
        Blob("json", b'{"plan": ["a", "b"], "cost": 1.5}'),
        expected=ABSENT,
        ttl_s=60,
        append=[
            Entry("message", msgpack.packb([1, message])),
            Entry("message", msgpack.packb([1, long])),
            Entry("message", msgpack.packb([1, {"role": "tool", "content": "a\0b"}])),
            Entry("message", b'{"role": "user", "content": "json"}'),
            Entry("message", b"\xc1z...."),
            Entry("message", b"\x93"),
        ],
        tags={"user_id": "u", "status": "active"},
    )
    row = await admin.fetchrow(
        "SELECT *, state -> 'plan' ->> 1 AS second FROM agent_sessions WHERE session_id = 'session-1'"
    )
    assert (row["user_id"], row["status"], row["version"], row["second"]) == ("u", "active", 1, "b")
    assert row["created_at"] == row["updated_at"] < row["expires_at"]
    rows = await admin.fetch("SELECT * FROM agent_session_messages WHERE session_id = 'session-1' ORDER BY seq")
    assert json.loads(rows[0]["entry"]) == message
    assert json.loads(rows[1]["entry"]) == long | {"b": "\\x00ff"}
    assert [row["role"] for row in rows] == ["user", "assistant", "tool", "user", None, None]
    assert [row["content"] for row in rows[2:]] == [
        "a\\000b",
        "json",
        "(compressed, 6 bytes)",
        "(1 bytes that are neither MessagePack nor JSON)",
    ]
    assert {row["state"] for row in rows} == {row["state"] for row in rows[:1]}


@pytest.mark.postgres
async def test_binary_heads_lie_beside_the_state(store: PostgresStore, admin: asyncpg.Connection):
    """A head that is not JSON is bytea, and nothing of an older JSON head stays."""
    version = await store.write("k", Blob("json", b'{"secret": 1}'), expected=ABSENT, ttl_s=None)
    await store.write("k", Blob("encrypted", b"\x00\x01"), expected=version, ttl_s=None)
    row = await admin.fetchrow("SELECT state, head, head_format FROM agent_sessions")
    assert tuple(row) == (None, b"\x00\x01", "encrypted")


@pytest.mark.postgres
async def test_a_head_that_the_server_refuses_is_not_quoted(store: PostgresStore):
    """What it says of JSON that it cannot read has the place where it stopped, which is content."""
    with pytest.raises(EncodeError, match="invalid input syntax for type json") as caught:
        await store.write("k", Blob("json", b'{"a": CONTENT}'), expected=ABSENT, ttl_s=60)
    assert "CONTENT" not in f"{caught.value} {caught.value.reason} {caught.value.__cause__}"


async def test_a_tombstone_holds_no_content(store: PostgresStore, admin: asyncpg.Connection):
    """What was deleted is gone from every table at once; the row that stays says so and ends with its retention."""
    await store.write(
        "k",
        Blob("json", b"{}"),
        expected=ABSENT,
        ttl_s=None,
        append=[Entry("m", b"1")],
        tags={"user_id": "u", "team": "t"},
        fence=3,
    )
    await store.delete("k", fence=3)
    row = await admin.fetchrow("SELECT * FROM agent_sessions")
    assert (row["user_id"], row["status"], row["state"], row["head"], row["tags"]) == (
        None,
        "deleted",
        None,
        None,
        "{}",
    )
    assert await admin.fetchval("SELECT count(*) FROM agent_session_log") == 0
    assert await admin.fetchval("SELECT count(*) FROM agent_session_tags") == 0
    assert await store.sweep() == 0
    await admin.execute("UPDATE agent_sessions SET expires_at = now(), sweep_at = now()")
    assert await store.sweep() == 1
    assert await admin.fetchval("SELECT count(*) FROM agent_sessions") == 0
    assert (await store.write("k", Blob("json", b"{}"), expected=ABSENT, ttl_s=None)).number == 1


@pytest.mark.postgres
async def test_a_step_is_written_in_place(store: PostgresStore, admin: asyncpg.Connection):
    """No index changes with a step, so that the room of the version before is taken again: 200 steps take two pages, not 40."""
    tags = {"user_id": "u", "status": "active"}
    version = await store.write("k", Blob("json", b"{}"), expected=ABSENT, ttl_s=60, tags=tags, op_id="0")
    for n in range(200):
        version = await store.write(
            "k", Blob("json", b'{"n": %d}' % n), expected=version, ttl_s=60, tags=tags, op_id=f"{n + 1}"
        )
    assert await admin.fetchval("SELECT pg_relation_size('agent_sessions')") <= 3 * 8192
    row = await admin.fetchrow("SELECT sweep_at, expires_at, created_at FROM agent_sessions")
    assert row["created_at"] < row["sweep_at"] < row["expires_at"]


@pytest.mark.postgres
async def test_a_record_that_lives_on_is_looked_at_again_at_its_end(store: PostgresStore, admin: asyncpg.Connection):
    """The time to look comes before the end moves on: the sweeper keeps the record and moves that time."""
    await store.write("k", Blob("json", b"{}"), expected=ABSENT, ttl_s=600)
    await store.write("never", Blob("json", b"{}"), expected=ABSENT, ttl_s=600)
    await store.touch("never", None)
    await admin.execute("UPDATE agent_sessions SET sweep_at = now()")
    assert await store.sweep() == 0
    alike = "SELECT count(*) FROM agent_sessions WHERE sweep_at IS NOT DISTINCT FROM expires_at"
    assert await admin.fetchval(alike) == 2
    # a shorter life is looked at in time
    await store.touch("k", 60)
    assert await admin.fetchval("SELECT count(*) FROM agent_sessions WHERE sweep_at <= expires_at") == 1
    await admin.execute("UPDATE agent_sessions SET sweep_at = now(), expires_at = now() WHERE session_id = 'k'")
    # what workers of before this schema call
    assert await admin.fetchval("SELECT sweep_sessions(10)") == 1
    assert await admin.fetchval("SELECT session_id FROM agent_sessions") == "never"


@pytest.mark.postgres
async def test_records_from_before_the_time_to_look_are_taken_over(admin: asyncpg.Connection, fresh_schema: str):
    """The fourth migration finds rows, those with an end and those without."""
    await admin.execute(f"CREATE SCHEMA {fresh_schema}")
    every = migrations("postgres")
    for migration in every[:3]:
        await admin.execute(migration.sql)
    call = "SELECT outcome FROM update_session($1, '{}', NULL, 'json', 'absent', NULL, NULL, 'g', p_ttl_s => $2)"
    for key, ttl_s in (("a", 60.0), ("b", None)):
        assert await admin.fetchval(call, key, ttl_s) == "ok"
    for migration in every[3:]:
        await admin.execute(migration.sql)
    alike = "SELECT count(*) FROM agent_sessions WHERE sweep_at IS NOT DISTINCT FROM expires_at"
    assert await admin.fetchval(alike) == 2
    await admin.execute("UPDATE agent_sessions SET expires_at = now(), sweep_at = now() WHERE session_id = 'a'")
    assert tuple(await admin.fetchrow("SELECT due, freed FROM sweep_due(10)")) == (1, 1)


@pytest.mark.postgres
async def test_sweep_frees_what_has_ended_and_nothing_else(store: PostgresStore, admin: asyncpg.Connection):
    """Rows, logs and tags of ended records go; a row that someone holds is left, and not waited for."""
    for n in range(6):
        await store.write(
            f"k{n}", Blob("json", b"{}"), expected=ABSENT, ttl_s=60, append=[Entry("m", b"1")], tags={"team": "t"}
        )
    await admin.execute("UPDATE agent_sessions SET expires_at = now(), sweep_at = now() WHERE session_id <> 'k5'")
    async with admin.transaction():
        await admin.execute("SELECT 1 FROM agent_sessions WHERE session_id = 'k4' FOR UPDATE")
        assert await asyncio.wait_for(store.sweep(), 5) == 4
    assert await store.sweep() == 1
    for table in ("agent_sessions", "agent_session_log", "agent_session_tags"):
        assert await admin.fetchval(f"SELECT count(*) FROM {table}") == 1, table  # noqa: S608 - names of this file
    assert [key async for key in store.find(team="t")] == ["k5"]


@pytest.mark.postgres
async def test_durability_is_named_and_set(postgres_server: Postgres, fresh_schema: str, admin: asyncpg.Connection):
    """ "fsync" commits wait for the disk even where the server's default does not; "process" commits do not wait."""
    seen = "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.head_format := current_setting('synchronous_commit'); RETURN NEW; END $$; CREATE TRIGGER note BEFORE INSERT OR UPDATE ON agent_sessions FOR EACH ROW EXECUTE FUNCTION note()"
    assert PostgresStore(postgres_server.url).durability == "fsync"
    for durability, default, right in (
        ("fsync", "on", "on"),
        ("fsync", "off", "on"),
        ("process", "on", "off"),
        ("fsync", "remote_write", "remote_write"),
    ):
        store = PostgresStore(
            postgres_server.url,
            schema=fresh_schema,
            durability=durability,
            connect={"server_settings": {"synchronous_commit": default}},
        )
        assert store.durability == durability
        await store.read("k")
        await admin.execute(seen if not await admin.fetchval("SELECT to_regproc('note') IS NOT NULL") else "SELECT 1")
        await store.write("k", Blob("msgpack", b""), expected=None, ttl_s=None)
        assert await admin.fetchval("SELECT head_format FROM agent_sessions") == right
        await store.aclose()
    with pytest.raises(ArgumentError):
        PostgresStore(postgres_server.url, durability="memory")


@pytest.mark.postgres
async def test_entries_of_one_step_cost_one_round_trip(postgres_server: Postgres, fresh_schema: str, proxy_to):
    """A checkpoint with head, tags, expiry, op_id and ten entries is one request and one reply."""
    proxy = await proxy_to(postgres_server.port)
    store = PostgresStore(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres", schema=fresh_schema)
    version = await store.write("k", Blob("json", b"{}"), expected=ABSENT, ttl_s=60)
    version = await store.write("k", Blob("json", b"{}"), expected=version, ttl_s=60, op_id="warm")
    before = proxy.n_requests
    await store.write("k", Blob("json", b"{}"), expected=version, ttl_s=60, op_id="op", append=[Entry("m", b"1")] * 10)
    assert proxy.n_requests - before == 1
    await store.aclose()


# ---- schema


@pytest.mark.postgres
async def test_case_35_eight_stores_set_up_an_empty_schema_at_once(postgres_server: Postgres, full: bool):
    """All of them make the schema or find it made; none sees a unique violation."""
    for _ in range(20 if full else 3):
        schema = f"race_{secrets.token_hex(4)}"
        stores = [PostgresStore(postgres_server.url, schema=schema) for _ in range(8)]
        versions = await asyncio.gather(
            *(store.write(f"k{n}", Blob("json", b"{}"), expected=ABSENT, ttl_s=None) for n, store in enumerate(stores))
        )
        assert [version.number for version in versions] == [1] * 8
        for store in stores:
            await store.aclose()


@pytest.mark.postgres
async def test_case_36_a_setup_cut_off_anywhere_is_done_again(postgres_server: Postgres, proxy_to):
    """The connection is cut at each message of the setup: opening again converges."""
    cut = 0
    for n in range(40):
        schema = f"cut_{secrets.token_hex(4)}"
        proxy = await proxy_to(postgres_server.port)
        store = PostgresStore(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres", schema=schema)
        proxy.fail("cut reply" if n % 2 else "cut request", after=n // 2)
        try:
            await store.migrate()
        except StoreUnavailableError:
            cut += 1
        finally:
            await store.aclose()
        again = PostgresStore(postgres_server.url, schema=schema)
        assert (await again.write("k", Blob("json", b"{}"), expected=ABSENT, ttl_s=None)).number == 1
        await again.aclose()
        if not proxy.n_faults:
            break
    assert cut > 10


@pytest.mark.postgres
async def test_case_37_setup_works_inside_a_callers_transaction(
    postgres_server: Postgres, fresh_schema: str, admin: asyncpg.Connection
):
    """It joins the transaction: rolled back with it, or committed with it."""
    names = [migration.name for migration in migrations("postgres")]
    transaction = admin.transaction()
    await transaction.start()
    assert await apply_migrations(admin, schema=fresh_schema) == names
    await transaction.rollback()
    assert await due_migrations(admin, schema=fresh_schema) == names
    async with admin.transaction():
        assert await apply_migrations(admin, schema=fresh_schema) == names
    assert await due_migrations(admin, schema=fresh_schema) == []


@pytest.mark.postgres
async def test_migrate_names_what_is_due_and_then_nothing(
    postgres_server: Postgres, fresh_schema: str, admin: asyncpg.Connection
):
    store = PostgresStore(postgres_server.url, schema=fresh_schema)
    names = [migration.name for migration in migrations("postgres")]
    assert await store.migrate(dry_run=True) == names
    assert await admin.fetchval("SELECT to_regclass('agent_sessions')") is None
    assert await store.migrate() == names
    assert await store.migrate() == []
    await store.aclose()


@pytest.mark.postgres
async def test_without_auto_migrate_a_store_says_what_is_due(
    postgres_server: Postgres, fresh_schema: str, admin: asyncpg.Connection
):
    store = PostgresStore(postgres_server.url, schema=fresh_schema, auto_migrate=False)
    with pytest.raises(StoreUnavailableError, match="holdall migrate"):
        await store.read("k")
    assert await admin.fetchval("SELECT to_regclass('agent_sessions')") is None
    await store.aclose()


@pytest.mark.postgres
async def test_a_newer_schema_is_refused(
    store: PostgresStore, postgres_server: Postgres, fresh_schema: str, admin: asyncpg.Connection
):
    await store.migrate()
    await admin.execute("INSERT INTO agent_session_migrations (name) VALUES ('9999_later.sql')")
    with pytest.raises(NewerStateError, match="9999_later"):
        await store.read("k")


@pytest.mark.postgres
async def test_a_schema_name_is_only_a_name(postgres_server: Postgres):
    """Quotes, braces and upper case in a schema's name work and inject nothing."""
    store = PostgresStore(postgres_server.url, schema=f'A "b"; {{c}} {secrets.token_hex(3)}')
    assert (await store.write("k", Blob("json", b"{}"), expected=ABSENT, ttl_s=None, tags={"user_id": "u"})).number == 1
    assert [key async for key in store.find(user_id="u")] == ["k"]
    assert await store.sweep() == 0
    await store.aclose()


def test_migrations_are_numbered_and_named():
    for backend in ("postgres", "sqlite"):
        found = migrations(backend)
        assert [migration.number for migration in found] == list(range(1, len(found) + 1))
        assert all("CREATE INDEX CONCURRENTLY" not in migration.sql for migration in found)


# ---- connections


@pytest.mark.postgres
@pytest.mark.pgbouncer
async def test_case_30_eight_clients_through_pgbouncer(
    pgbouncer_server: Pgbouncer, postgres_server: Postgres, fresh_schema: str
):
    """Eight pools share two server connections in transaction mode: no error about prepared statements, no lost write."""
    stores = [PostgresStore(pgbouncer_server.url, schema=fresh_schema) for _ in range(8)]

    async def work(n: int) -> None:
        for i in range(30):
            await stores[n].write(
                "shared", Blob("json", b"{}"), expected=None, ttl_s=60, append=[Entry("m", b"%d.%d" % (n, i))]
            )
            await stores[n].read("shared", log_from=10**6)

    await asyncio.gather(*(work(n) for n in range(8)))
    record = await stores[0].read("shared")
    assert record is not None
    assert record.log_len == len({entry.data for entry in record.entries}) == 240
    assert all(store._link.is_pooled for store in stores)
    for store in stores:
        await store.aclose()
    direct = PostgresStore(postgres_server.url, schema=fresh_schema)
    await direct.read("shared")
    assert direct._link.is_pooled is False
    await direct.aclose()


@pytest.mark.postgres
async def test_case_29_a_connection_cut_while_idle_is_replaced(store: PostgresStore, admin: asyncpg.Connection):
    """Every pooled connection is terminated during a long model call: the save behind it succeeds, once."""
    version = await store.write("k", Blob("json", b"{}"), expected=ABSENT, ttl_s=None)
    for n in range(5):
        await admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND query LIKE '%update_session%'"
        )
        if n % 2:
            await asyncio.sleep(0.05)
        version = await store.write(
            "k", Blob("json", b"{}"), expected=version, ttl_s=None, append=[Entry("m", b"%d" % n)], op_id=f"op{n}"
        )
    record = await store.read("k")
    assert record is not None
    assert (record.version.number, record.log_len) == (6, 5)


@pytest.mark.postgres
async def test_a_server_that_became_read_only_is_left(postgres_server: Postgres, fresh_schema: str, admin):
    """As behind a name that a failover has moved: the connections to the old one are given up."""
    role = f"r_{secrets.token_hex(4)}"
    await admin.execute(f"CREATE ROLE {role} SUPERUSER LOGIN")
    url = postgres_server.url.replace("//postgres@", f"//{role}@")
    async with contextlib.aclosing(PostgresStore(url, schema=fresh_schema)) as store:
        await store.write("k", HEAD, expected=ABSENT, ttl_s=60)
        await admin.execute(f"ALTER ROLE {role} SET default_transaction_read_only = on")
        lanes = store._link._lanes
        assert lanes is not None
        await lanes.expire()
        with pytest.raises(StoreUnavailableError, match="read-only"):
            await store.write("k2", HEAD, expected=ABSENT, ttl_s=60)
        await admin.execute(f"ALTER ROLE {role} RESET default_transaction_read_only")
        assert (await store.write("k2", HEAD, expected=ABSENT, ttl_s=60)).number == 1
    await admin.execute(f"DROP OWNED BY {role} CASCADE; DROP ROLE {role}")


@pytest.mark.postgres
@pytest.mark.parametrize("error", [asyncpg.QueryCanceledError("timeout"), asyncpg.InsufficientResourcesError("full")])
async def test_a_repeat_that_is_refused_does_not_say_that_nothing_was_written(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, error: Exception
):
    """The reply to the first attempt was lost: it may have been."""
    await store.write("k", HEAD, expected=ABSENT, ttl_s=60)
    answers = iter([asyncpg.ConnectionDoesNotExistError("lost"), error])

    async def fetch(*_: object) -> None:
        raise next(answers)

    monkeypatch.setattr(store._link, "_fetch", fetch)
    with pytest.raises(OutcomeUnknownError):
        await store.write("k", HEAD, expected=None, ttl_s=60, op_id="once")


@pytest.mark.postgres
async def test_case_12_a_held_session_holds_up_no_other(store: PostgresStore, admin: asyncpg.Connection):
    """A transaction that keeps session 1 locked lets session 2 be written and session 1 be read."""
    for key in ("one", "two"):
        await store.write(
            key, Blob("json", b"{}"), expected=ABSENT, ttl_s=60, tags={"user_id": "u", "status": "active"}
        )
    async with admin.transaction():
        await admin.execute("SELECT 1 FROM agent_sessions WHERE session_id = 'one' FOR UPDATE")
        waiting = asyncio.ensure_future(store.write("one", Blob("json", b"{}"), expected=None, ttl_s=60))
        assert (await asyncio.wait_for(store.write("two", Blob("json", b"{}"), expected=None, ttl_s=60), 5)).number == 2
        assert (
            await asyncio.wait_for(
                store.write("three", Blob("json", b"{}"), expected=None, ttl_s=60, tags={"user_id": "u"}), 5
            )
        ).number == 1
        assert await asyncio.wait_for(store.read("one"), 5) is not None
        assert len([key async for key in store.find(user_id="u")]) == 3
        assert not waiting.done()
    assert (await waiting).number == 2


@pytest.mark.postgres
async def test_case_31_sessions_do_not_wait_for_each_other(
    postgres_server: Postgres, fresh_schema: str, admin: asyncpg.Connection
):
    """With 8 sessions held by others, 8 writes wait at once on 8 connections: no lock of the store's own stands before the pool."""
    store = PostgresStore(postgres_server.url, schema=fresh_schema, max_size=9)
    for n in range(8):
        await store.write(f"k{n}", Blob("json", b"{}"), expected=ABSENT, ttl_s=None)
    async with admin.transaction():
        await admin.execute("SELECT 1 FROM agent_sessions FOR UPDATE")
        calls = [
            asyncio.ensure_future(store.write(f"k{n}", Blob("json", b"{}"), expected=None, ttl_s=None))
            for n in range(8)
        ]
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE $1"
        for _ in range(1000):
            await admin.execute("SELECT pg_stat_clear_snapshot()")
            n_waiting = await admin.fetchval(waiting, f"%{fresh_schema}%")
            if n_waiting == 8:
                break
            await asyncio.sleep(0.01)
        assert n_waiting == 8
        assert (await store.write("free", Blob("json", b"{}"), expected=ABSENT, ttl_s=None)).number == 1
    assert {version.number for version in await asyncio.gather(*calls)} == {2}
    await store.aclose()


@pytest.mark.postgres
async def test_case_58_a_serialization_failure_is_tried_again(
    postgres_server: Postgres, fresh_schema: str, admin: asyncpg.Connection
):
    """On a server whose default is SERIALIZABLE, writers of one record meet 40001 and still all land."""
    stores = [
        PostgresStore(
            postgres_server.url,
            schema=fresh_schema,
            connect={"server_settings": {"default_transaction_isolation": "serializable"}},
        )
        for _ in range(2)
    ]
    await stores[0].write("k", Blob("json", b"{}"), expected=ABSENT, ttl_s=None)
    failures = "CREATE SEQUENCE failures; CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF nextval('failures') % 3 = 1 THEN RAISE EXCEPTION 'injected' USING ERRCODE = CASE WHEN random() < 0.5 THEN '40001' ELSE '40P01' END; END IF; RETURN NEW; END $$; CREATE TRIGGER fail BEFORE UPDATE ON agent_sessions FOR EACH ROW EXECUTE FUNCTION fail()"
    await admin.execute(failures)
    versions = await asyncio.gather(
        *(
            stores[n % 2].write("k", Blob("json", b"{}"), expected=None, ttl_s=None, append=[Entry("m", b"%d" % n)])
            for n in range(6)
        )
    )
    assert sorted(version.number for version in versions) == list(range(2, 8))
    assert await admin.fetchval("SELECT last_value FROM failures") > 6
    for store in stores:
        await store.aclose()


@pytest.mark.postgres
async def test_a_server_that_is_not_there_is_named_without_its_password():
    store = PostgresStore("postgresql://user:s3cret@127.0.0.1:1/db", timeout_s=2)
    with pytest.raises(StoreUnavailableError) as caught:
        await store.write("k", Blob("json", b"{}"), expected=None, ttl_s=None)
    assert not isinstance(caught.value, OutcomeUnknownError)
    for text in (str(caught.value), repr(caught.value), repr(store)):
        assert "s3cret" not in text
    assert (caught.value.backend, caught.value.operation) == ("postgres", "write")
    await store.aclose()


@pytest.mark.postgres
async def test_a_pool_that_was_given_stays_open(postgres_server: Postgres, fresh_schema: str):
    pool = await asyncpg.create_pool(postgres_server.url, min_size=0, max_size=2)
    store = PostgresStore(pool=pool, schema=fresh_schema)
    assert (await store.write("k", Blob("json", b"{}"), expected=ABSENT, ttl_s=None)).number == 1
    await store.aclose()
    assert await pool.fetchval("SELECT 1") == 1
    await pool.close()
    for wrong in ({}, {"dsn": "postgresql://x", "pool": pool}):
        with pytest.raises(ArgumentError):
            PostgresStore(**wrong)
