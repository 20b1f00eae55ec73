"""`holdall.open`, `holdall.open_sync`: URLs, secrets, and code without asyncio."""

from __future__ import annotations

import asyncio
import builtins
import gc
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import holdall
from holdall import ConflictError, SessionState, UnknownNameError
from holdall.errors import ArgumentError, ClosedError, HoldallError, RunningLoopError
from holdall.stores.urls import mask_url, split_url


def new(session_id: str = "s") -> SessionState:
    return SessionState(session_id=session_id, user_id="u")


@pytest.mark.parametrize("url", ["mysql://u:pw@h/d", "nonsense", ""])
def test_an_unknown_scheme_names_the_known_ones(url: str) -> None:
    """And does not show a password that stands in the URL."""
    with pytest.raises(UnknownNameError, match=r"sqlite:///path.*redis\+cluster://") as caught:
        holdall.open(url)
    assert "pw" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:",
        "sqlite://host/x",
        "sqlite:///",
        "sqlite:///a?mode=ro",
        "sqlite:///:memory:",
        "postgresql:///",
        "redis://",
        "dynamodb://",
        "dynamodb://x",
        "dynamodb://key:hunter2@table",
        "dynamodb://table?profile=p",
        "s3://",
        "s3://key:hunter2@bucket/prefix",
        7,
        None,
    ],
)
def test_a_url_that_cannot_be_read_says_what_to_write(url: Any) -> None:
    """An ArgumentError, which is a ValueError, at once."""
    with pytest.raises(ArgumentError) as caught:
        holdall.open(url)
    assert "hunter2" not in str(caught.value)


SECRETS = [
    ("redis://:hunter2@host:6379/0", "redis://:***@host:6379/0"),
    ("postgresql://ann:hunter2@h/db", "postgresql://ann:***@h/db"),
    ("postgresql://ann:hunter2/@x:y@h/db", "postgresql://ann:***@h/db"),
    ("postgresql://ann@h/db?password=hunter2&sslmode=require", "postgresql://ann@h/db?password=***&sslmode=require"),
    ("rediss://h/0?ssl_password=hunter2", "rediss://h/0?ssl_password=***"),
    (
        "redis+sentinel://u:hunter2@a:1,b:2/m/0?sentinel_password=hunter2",
        "redis+sentinel://u:***@a:1,b:2/m/0?sentinel_password=***",
    ),
    ("mongodb://ann:hunter2@a:1,b:2/db?tls=true", "mongodb://ann:***@a:1,b:2/db?tls=true"),
    ("sqlite:////tmp/x.db", "sqlite:////tmp/x.db"),
    ("redis://host:6379/0", "redis://host:6379/0"),
]


@pytest.mark.parametrize(("url", "shown"), SECRETS)
def test_passwords_are_masked(url: str, shown: str) -> None:
    """In user info and in query fields; the rest of the URL stays readable."""
    assert mask_url(url) == shown


def test_a_blocking_store_that_nobody_refers_to_ends_its_thread(tmp_path: Path) -> None:
    """It closes its file first. A view of it is a reference."""
    store = holdall.open_sync(f"sqlite:///{tmp_path}/s.db")
    store.save(SessionState(session_id="s", user_id="u"))
    inner, view = store._store, store.scoped("u")
    thread = store._runner._thread
    assert thread is not None
    del store
    gc.collect()
    assert view.load("s").version == 1
    assert thread.is_alive()
    del view
    gc.collect()
    thread.join(5)
    assert not thread.is_alive()
    assert inner._is_closed


def test_a_close_inside_a_loop_is_refused_and_can_be_done_outside(tmp_path: Path) -> None:
    store = holdall.open_sync(f"sqlite:///{tmp_path}/s.db")
    assert store.list() == []

    async def close() -> None:
        with pytest.raises(RunningLoopError):
            store.close()

    asyncio.run(close())
    assert store.list() == []
    store.close()
    assert store._store._is_closed


URLS_WITH_SECRETS = [
    "postgresql://u:SECRET@127.0.0.1:1/db",
    "postgresql://127.0.0.1:1/db?user=u&password=SECRET",
    "postgresql://u:a/SECRET@127.0.0.1:1/db",
    "postgresql://u:12/SECRET@127.0.0.1:1/db",
    "postgresql://u:a#SECRET@127.0.0.1:1/db",
    "redis://u:a/SECRET@127.0.0.1:1/0",
    "redis://127.0.0.1:1/0?password=SECRET",
    "redis://u:SECRET@127.0.0.1:1/0?unknown=field",
    "redis+sentinel://u:SECRET@127.0.0.1:x/main/0?sentinel_password=SECRET",
    "mongodb://u:a/SECRET@127.0.0.1:1/db",
    "mongodb://127.0.0.1:1/db?authMechanismProperties=AWS_SESSION_TOKEN:SECRET",
]


@pytest.mark.parametrize("url", URLS_WITH_SECRETS)
async def test_no_store_shows_a_secret_and_what_cannot_be_read_is_our_error(url: str) -> None:
    """Also one that is made directly, and a password that nobody escaped."""
    from holdall.stores.mongodb import MongoStore
    from holdall.stores.postgres import PostgresStore
    from holdall.stores.redis import RedisStore

    made: dict[str, Any] = {"postgresql": PostgresStore, "redis": RedisStore, "mongodb": MongoStore}
    store = made[url.partition(":")[0].partition("+")[0]](url, timeout_s=0.2)
    assert "SECRET" not in repr(store)
    with pytest.raises(HoldallError) as caught:
        await store.read("k")
    error: BaseException | None = caught.value
    while error is not None:
        assert "SECRET" not in str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    await store.aclose()


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2@127.0.0.1:1/db",
        "redis://ann:hunter2@127.0.0.1:1/0",
        "postgresql://ann:hunter2@[::1/db",
        "redis://:hunter2@127.0.0.1:notaport/0",
    ],
)
async def test_no_error_or_repr_shows_a_password(url: str) -> None:
    """Neither of a URL that cannot be read nor of a server that is not there."""
    with pytest.raises(HoldallError) as caught:  # noqa: PT012 - which of the two raises differs by URL
        store = holdall.open(url)
        assert "hunter2" not in repr(store)
        async with store:
            await store.load("x")
    assert "hunter2" not in f"{caught.value!r} {caught.value} {caught.value.figures}"


@pytest.mark.parametrize("hosts", ["[::1]:1,b:2", "a,[::1]:1", "a:1,[::1],c:2", "[fe80::1%25eth0]:1"])
def test_hosts_may_be_addresses_of_ipv6_wherever_they_stand(hosts: str) -> None:
    """Newer interpreters refuse to split such a URL."""
    assert split_url(f"x+y://u:p@{hosts}/p/q?r=s").netloc == f"u:p@{hosts}"
    assert split_url(f"x+y://{hosts}?r=s#t")[1:] == (hosts, "", "r=s", "t")
    for url in (f"redis+sentinel://u:p@{hosts}/main", f"postgresql://u:p@{hosts}/db"):
        assert repr(holdall.open(url))


@pytest.mark.parametrize("hosts", ["[::1", "::1]", "[]", "[zzz]:1", "a:1:2", "[::1]x:1"])
def test_hosts_that_are_none_are_refused(hosts: str) -> None:
    """Before a driver sees them."""
    for url in (f"redis+sentinel://u:hunter2@{hosts}/main", f"postgresql://u:hunter2@{hosts}/db"):
        with pytest.raises(ArgumentError, match="host:port") as caught:
            holdall.open(url)
        assert "hunter2" not in str(caught.value)


async def test_memory_stores_are_apart() -> None:
    """Each open of `memory:` is its own."""
    async with holdall.open("memory:") as a, holdall.open("memory:") as b:
        await a.save(new())
        assert (await a.list(), await b.list()) == (["s"], [])


async def test_sqlite_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slashes are relative, four absolute, escapes are read; the file is made on first use."""
    monkeypatch.chdir(tmp_path)
    for url, file in (
        ("sqlite:///relative.db", "relative.db"),
        (f"sqlite:///{tmp_path}/absolute.db", "absolute.db"),
        ("sqlite:///with%20space.db", "with space.db"),
    ):
        store = holdall.open(url)
        assert not (tmp_path / file).exists()
        await store.save(new())
        assert (tmp_path / file).exists()
        await store.aclose()


@pytest.mark.parametrize(
    ("url", "driver", "extra"), [("redis://h", "redis", "redis"), ("postgresql://h/d", "asyncpg", "postgres")]
)
def test_a_missing_driver_says_what_to_install(
    url: str, driver: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ImportError with the command."""
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name.partition(".")[0] == driver:
            raise ImportError(f"No module named {name!r}")
        return real(name, *args, **options)

    for name in [name for name in sys.modules if name.startswith(f"holdall.stores.{extra}")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=rf"pip install 'holdall\[{extra}\]'"):
        holdall.open(url)


def test_import_holdall_loads_no_driver_and_no_asyncio() -> None:
    """What an importer does not use costs nothing."""
    code = (
        "import sys, holdall; "
        "print([m for m in ('asyncio', 'sqlite3', 'asyncpg', 'redis', 'holdall.state', 'holdall.durable') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_can_be_imported() -> None:
    """The lazy names are all there, and listed by dir()."""
    for name in holdall.__all__:
        assert getattr(holdall, name) is not None
    assert set(holdall.__all__) <= set(dir(holdall))
    with pytest.raises(AttributeError, match="nonsense"):
        holdall.nonsense  # noqa: B018


def test_open_sync_round_trip(tmp_path: Path) -> None:
    """The same calls, blocking."""
    with holdall.open_sync(f"sqlite:///{tmp_path}/s.db") as store:
        state = new()
        state.messages.append({"role": "user", "content": "hi"})
        assert store.save(state).number == 1
        loaded = store.load("s")
        assert loaded == state
        store.save(loaded)
        with pytest.raises(ConflictError):
            store.save(state)
        updated = store.update("s", lambda state: state.metadata.update(k=1))
        assert updated.metadata == {"k": 1}
        assert [item.message["content"] for item in store.history("s")] == ["hi"]
        assert store.list(user_id="u") == ["s"]
        assert store.extend_ttl("s", 60) is True
        mine = store.scoped("u")
        assert mine.list() == ["s"]
        assert mine.load("s").version == 3
        assert store.delete_user("u") == 1
        assert store.delete("s") is False
    with pytest.raises(ClosedError):
        store.list()
    store.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "holdall"]


def test_open_sync_from_several_threads() -> None:
    """One store, eight threads, no update lost."""
    with holdall.open_sync("memory:") as store:
        store.save(SessionState(session_id="s", user_id="u", metadata={"n": 0}))

        def work() -> None:
            for _ in range(20):
                store.update("s", lambda state: state.metadata.update(n=state.metadata["n"] + 1))

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert store.load("s").metadata == {"n": 160}


async def test_case_32_open_sync_inside_a_loop_is_refused_at_once() -> None:
    """A blocking call inside a coroutine would deadlock or stop the loop: a clear error instead."""
    with pytest.raises(RunningLoopError, match=r"async with holdall\.open"):
        holdall.open_sync("memory:")
    store = await asyncio.to_thread(holdall.open_sync, "memory:")
    with pytest.raises(RunningLoopError):
        store.load("s")
    await asyncio.to_thread(store.close)


def test_a_store_that_is_not_closed_ends_with_the_process(tmp_path: Path) -> None:
    """No hang, no traceback at exit; what was saved is there."""
    url = f"sqlite:///{tmp_path}/s.db"
    code = (
        "import holdall\n"
        f"store = holdall.open_sync({url!r})\n"
        "store.save(holdall.SessionState(session_id='s', user_id='u'))\n"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    with holdall.open_sync(url) as store:
        assert store.load("s").version == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_does_not_carry_the_thread_over(tmp_path: Path) -> None:
    """The child is told to open the store again, and does not hang."""
    code = (
        "import holdall, os, sys\n"
        f"store = holdall.open_sync('sqlite:///{tmp_path}/s.db')\n"
        "store.list()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try:\n"
        "        store.list()\n"
        "    except holdall.ClosedError as error:\n"
        "        os._exit(7 if 'fork' in str(error) else 8)\n"
        "    os._exit(9)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 7, done.stderr


@pytest.mark.redis
@pytest.mark.parametrize("server", ["cluster_server", "sentinel_server"])
async def test_topologies_of_redis(server: str, request: pytest.FixtureRequest) -> None:
    """A Cluster and a Sentinel trio open by their URLs and hold sessions."""
    async with holdall.open(request.getfixturevalue(server).url) as store:
        states = [SessionState(session_id=f"topology-{n}", user_id="topology") for n in range(8)]
        for state in states:
            state.messages.append({"role": "user", "content": "hi"})
            await store.save(state)
        assert sorted(await store.list(user_id="topology")) == [state.session_id for state in states]
        assert await store.load("topology-3") == states[3]
        assert await store.delete_user("topology") == 8


@pytest.mark.postgres
async def test_a_pool_that_was_given_stays_open(postgres_server: Any) -> None:
    """PostgresSessionStore takes an asyncpg pool and leaves it to its owner."""
    import asyncpg

    async with asyncpg.create_pool(postgres_server.url, min_size=0) as pool:
        async with holdall.PostgresSessionStore(pool) as store:
            await store.save(new("pooled"))
        assert await pool.fetchval("SELECT version FROM agent_sessions WHERE session_id = 'pooled'") == 1


@pytest.mark.redis
async def test_a_client_that_was_given_stays_open(valkey_server: Any) -> None:
    """RedisSessionStore takes a client of redis.asyncio and leaves it to its owner."""
    from redis.asyncio import Redis

    async with Redis.from_url(valkey_server.url) as client:
        async with holdall.RedisSessionStore(client) as store:
            await store.save(new("given"))
        assert await client.ping()


@pytest.mark.postgres
async def test_psql_reads_a_session(postgres_server: Any) -> None:
    """The head is JSON with the fields of the state, whatever is in it."""
    import asyncpg

    async with holdall.open(postgres_server.url) as store:
        await store.save(SessionState(session_id="psql", user_id="ann", summary="a\0b", metadata={"nan": float("nan")}))
        loaded = await store.load("psql")
    assert loaded.summary == "a\0b"
    assert loaded.metadata["nan"] != loaded.metadata["nan"]
    connection = await asyncpg.connect(postgres_server.url)
    row = await connection.fetchrow(
        "SELECT user_id, status, state ->> 'user_id' AS inside FROM agent_sessions WHERE session_id = 'psql'"
    )
    await connection.close()
    assert tuple(row) == ("ann", "active", "ann")
