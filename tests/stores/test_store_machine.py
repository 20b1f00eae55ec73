"""Any sequence of calls, on every store, against a model that is a dict and a few lists."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from redis.asyncio import Redis

from holdall.errors import ConflictError, StaleFenceError
from holdall.stores.base import ABSENT, Blob, Entry, Store, Version
from holdall.stores.dynamodb import DynamoStore
from holdall.stores.memory import MemoryStore
from holdall.stores.mongodb import MongoStore
from holdall.stores.postgres import PostgresStore
from holdall.stores.redis import RedisStore
from holdall.stores.s3 import S3Store
from holdall.stores.sqlite import SqliteStore
from tests.servers.aws import Aws

RETENTION_S = 5000
KEYS = st.sampled_from(["a", "b:{x}", "c'"])
OPS = st.sampled_from([None, *(f"op{n}" for n in range(6))])
FENCES = st.sampled_from([None, None, None, 1, 2, 10])
# never on the edge: time moves by multiples of 100 s
TTLS = st.sampled_from([None, 150, 350, 1050])
TAGS = st.sampled_from([None, {}, {"s": "x"}, {"s": "y"}, {"s": "x", "t": "1"}])
KINDS = ("message", "step_result")


class Backend:
    """How one backend is opened for one example, and how its time passes."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def open(self) -> Store:
        raise NotImplementedError

    async def advance(self, seconds: float) -> None:
        self.time += seconds

    async def reopen(self, store: Store) -> Store:
        await store.aclose()
        return self.open()


class MemoryBackend(Backend):
    def open(self) -> Store:
        return MemoryStore(now=lambda: self.time, retention_s=RETENTION_S)

    async def reopen(self, store: Store) -> Store:
        return store  # it ends with its process


class SqliteBackend(Backend):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path = folder / f"{secrets.token_hex(6)}.db"

    def open(self) -> Store:
        return SqliteStore(self.path, durability="process", now=lambda: self.time, retention_s=RETENTION_S)


class PostgresBackend(Backend):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def open(self) -> Store:
        return PostgresStore(self.url, schema="machine", retention_s=RETENTION_S, max_size=1)

    async def advance(self, seconds: float) -> None:
        connection = await asyncpg.connect(self.url)
        await connection.execute(
            "UPDATE machine.agent_sessions SET expires_at = expires_at - $1 * interval '1 second',"
            " sweep_at = sweep_at - $1 * interval '1 second'",
            seconds,
        )
        await connection.close()


class RedisBackend(Backend):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.namespace = f"machine-{secrets.token_hex(4)}"

    def open(self) -> Store:
        return RedisStore(self.url, namespace=self.namespace, retention_s=RETENTION_S)

    async def advance(self, seconds: float) -> None:
        async with Redis.from_url(self.url) as client:
            async for key in client.scan_iter(match=f"{self.namespace}:*", count=1000):
                left_ms = await client.pttl(key)
                if left_ms >= 0:
                    await client.pexpire(key, int(left_ms - 1000 * seconds))


class MongoBackend(Backend):
    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url

    def open(self) -> Store:
        return MongoStore(self.url, database="machine", now=lambda: self.time, retention_s=RETENTION_S)


class AwsBackend(Backend):
    """A store of its own per example, since a look through all records is one of the rules."""

    def __init__(self, server: Aws) -> None:
        super().__init__()
        self.server = server
        self.name = f"machine-{secrets.token_hex(6)}"


class DynamoBackend(AwsBackend):
    def open(self) -> Store:
        return DynamoStore(self.name, connect=self.server.connect, now=lambda: self.time, retention_s=RETENTION_S)


class S3Backend(AwsBackend):
    def __init__(self, server: Aws) -> None:
        super().__init__(server)
        asyncio.run(server.make_bucket(self.name))

    def open(self) -> Store:
        return S3Store(self.name, connect=self.server.connect, now=lambda: self.time, retention_s=RETENTION_S)


class Model:
    """What is known of one key. `log` is None on a tombstone."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.head = b""
        self.log: list[tuple[str, bytes]] | None = []
        self.tags: dict[str, str] = {}
        self.ends: float | None = None
        self.fence: int | None = None
        self.ops: list[tuple[str, Any]] = []

    @property
    def is_live(self) -> bool:
        return self.log is not None

    def answer(self, op: str | None) -> Any:
        return next((answer for known, answer in self.ops[:32] if known == op), None)

    def remember(self, op: str | None, answer: Any) -> None:
        if op is not None:
            self.ops = [(op, answer), *self.ops][:32]


class StoreMachine(RuleBasedStateMachine):
    """The rules of `holdall.stores.base.Store`, said once more and in another way."""

    def __init__(self, backend: Backend) -> None:
        super().__init__()
        self.backend = backend
        self.loop = asyncio.new_event_loop()
        self.prefix = secrets.token_hex(6)
        self.models: dict[str, Model] = {}
        self.old: list[Version] = [Version("0" * 16, 1)]
        self.clock = 0.0
        self.n = 0

    @initialize()
    def open(self) -> None:
        self.store = self.backend.open()

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.aclose())
        self.loop.close()

    def run(self, call: Any) -> Any:
        return self.loop.run_until_complete(call)

    def known(self, key: str) -> Model | None:
        model = self.models.get(key)
        if model is not None and model.ends is not None and model.ends <= self.clock:
            del self.models[key]
            return None
        return model

    def live(self, key: str) -> Model | None:
        model = self.known(key)
        return model if model is not None and model.is_live else None

    def follows(self, version: Version, before: Version) -> bool:
        return version == Version(before.generation, before.number + 1)

    def expect(self, call: Any, error: type[Exception]) -> None:
        with pytest.raises(error) as caught:
            self.run(call)
        # a stale fence is a conflict too, but a conflict is no stale fence
        assert type(caught.value) is error

    @rule(
        key=KEYS,
        against=st.sampled_from(["current", "current", "current", "any", "absent", "stale"]),
        kinds=st.lists(st.sampled_from(KINDS), max_size=3),
        keep=st.sampled_from([None, None, None, 0, 1, 3, 100]),
        ttl_s=TTLS,
        tags=TAGS,
        fence=FENCES,
        op=OPS,
    )
    def write(self, key, against, kinds, keep, ttl_s, tags, fence, op):
        model, live = self.known(key), self.live(key)
        expected: Any = {
            "any": None,
            "absent": ABSENT,
            "stale": self.old[-1],
            "current": ABSENT if live is None else live.version,
        }[against]
        self.n += 1
        head = b"head %d" % self.n
        added = [Entry(kind, b"%d.%d" % (self.n, i)) for i, kind in enumerate(kinds)]
        call = self.store.write(
            self.prefix + key,
            Blob("msgpack", head),
            expected=expected,
            append=added,
            keep=keep,
            ttl_s=ttl_s,
            tags=None if tags is None else tags | {"mark": self.prefix},
            fence=fence,
            op_id=op,
        )
        token = None if op is None else f"write {op}"
        if model is not None and token and (answer := model.answer(token)):
            assert self.run(call) == answer
            return
        if model is not None and model.fence is not None and (fence is None or fence < model.fence):
            self.expect(call, StaleFenceError)
            return
        actual = None if live is None else live.version
        if (expected is ABSENT and actual is not None) or (isinstance(expected, Version) and expected != actual):
            self.expect(call, ConflictError)
            return
        version = self.run(call)
        if live is None:
            assert version.number == 1
            assert version.generation not in {old.generation for old in self.old}
            fresh = Model(version)
            if model is not None:
                fresh.fence, fresh.ops = model.fence, model.ops
            self.models[key] = live = fresh
        else:
            assert self.follows(version, live.version)
            live.version = version
        assert live.log is not None
        live.log = live.log[:keep] + [(entry.kind, entry.data) for entry in added]
        live.head = head
        live.ends = None if ttl_s is None else self.clock + ttl_s
        if tags is not None:
            live.tags = tags | {"mark": self.prefix}
        live.fence = fence if fence is not None else live.fence
        live.remember(token, version)
        self.old.append(version)

    @rule(key=KEYS, ttl_s=TTLS, op=OPS)
    def touch(self, key, ttl_s, op):
        was_there = self.run(self.store.touch(self.prefix + key, ttl_s, op_id=op))
        model, live = self.known(key), self.live(key)
        token = None if op is None else f"touch {op}"
        if model is not None and token and model.answer(token):
            assert was_there
        else:
            assert was_there == (live is not None)
            if live is not None:
                live.ends = None if ttl_s is None else self.clock + ttl_s
                live.remember(token, True)

    @rule(key=KEYS, against=st.sampled_from(["current", "any", "stale"]), fence=FENCES, op=OPS)
    def delete(self, key, against, fence, op):
        model, live = self.known(key), self.live(key)
        expected = {"any": None, "stale": self.old[0], "current": None if live is None else live.version}[against]
        call = self.store.delete(self.prefix + key, expected=expected, fence=fence, op_id=op)
        token = None if op is None else f"delete {op}"
        if model is not None and token and model.answer(token):
            assert self.run(call)
        elif live is None:
            assert not self.run(call)
        elif live.fence is not None and (fence is None or fence < live.fence):
            self.expect(call, StaleFenceError)
        elif expected is not None and expected != live.version:
            self.expect(call, ConflictError)
        else:
            assert self.run(call)
            live.log, live.tags = None, {}
            live.ends = self.clock + RETENTION_S
            live.fence = fence if fence is not None else live.fence
            live.remember(token, True)

    @rule(key=KEYS, log_from=st.sampled_from([0, 1, 4, 1000]))
    def read(self, key, log_from):
        record = self.run(self.store.read(self.prefix + key, log_from=log_from))
        live = self.live(key)
        assert (record is None) == (live is None)
        if record is not None and live is not None and live.log is not None:
            assert record.version == live.version
            assert record.head == Blob("msgpack", live.head)
            assert record.log_len == len(live.log)
            assert list(record.entries) == [Entry(*entry, n) for n, entry in enumerate(live.log)][log_from:]
            assert dict(record.tags) == live.tags
            assert (record.expires_at is None) == (live.ends is None)

    @rule(
        key=KEYS,
        kind=st.sampled_from([None, *KINDS, "other"]),
        before=st.sampled_from([None, 0, 2, 50]),
        limit=st.sampled_from([1, 3, 50]),
    )
    def read_log(self, key, kind, before, limit):
        got = self.run(self.store.read_log(self.prefix + key, kind=kind, before=before, limit=limit))
        live = self.live(key)
        log = (
            [] if live is None or live.log is None else [Entry(*entry, n) for n, entry in enumerate(live.log)][:before]
        )
        assert got == [entry for entry in reversed(log) if kind is None or entry.kind == kind][:limit]

    @rule(tags=st.sampled_from([{}, {"s": "x"}, {"s": "y"}, {"t": "1"}, {"s": "x", "t": "1"}]))
    def find(self, tags):
        wanted = tags | {"mark": self.prefix}

        async def found() -> list[str]:
            return [key async for key in self.store.find(**wanted)]

        right = [
            self.prefix + key
            for key in ("a", "b:{x}", "c'")
            if (live := self.live(key)) and wanted.items() <= live.tags.items()
        ]
        assert sorted(self.run(found())) == sorted(right)

    @rule(hundreds=st.sampled_from([1, 3, 60]))
    def time_passes(self, hundreds):
        self.run(self.backend.advance(100.0 * hundreds))
        self.clock += 100.0 * hundreds

    @rule()
    def sweep(self):
        self.run(self.store.sweep())  # type: ignore[attr-defined]

    @precondition(lambda self: self.n % 5 == 4)
    @rule()
    def reopen(self):
        self.store = self.run(self.backend.reopen(self.store))

    @invariant()
    def every_head_is_the_last_one_acknowledged(self):
        for key in list(self.models):
            live = self.live(key)
            record = self.run(self.store.read(self.prefix + key, log_from=10**9))
            assert (record is None) == (live is None)
            if record is not None and live is not None:
                assert (record.version, record.head.data) == (live.version, live.head)


@pytest.mark.parametrize(
    "kind",
    [
        "memory",
        "sqlite",
        pytest.param("postgres", marks=pytest.mark.postgres),
        pytest.param("valkey", marks=pytest.mark.redis),
        pytest.param("redis7", marks=pytest.mark.redis),
        pytest.param("mongodb", marks=pytest.mark.mongodb),
        pytest.param("dynamodb", marks=pytest.mark.dynamodb),
        pytest.param("s3", marks=pytest.mark.s3),
    ],
)
def test_any_sequence_of_calls_does_what_the_model_says(kind, request, tmp_path, full):
    def backend() -> Backend:
        if kind == "memory":
            return MemoryBackend()
        if kind == "sqlite":
            return SqliteBackend(tmp_path)
        if kind == "postgres":
            return PostgresBackend(request.getfixturevalue("postgres_server").url)
        if kind == "mongodb":
            return MongoBackend(request.getfixturevalue("mongodb_server").url)
        if kind in ("dynamodb", "s3"):
            server = request.getfixturevalue("aws_server")
            return DynamoBackend(server) if kind == "dynamodb" else S3Backend(server)
        return RedisBackend(request.getfixturevalue(f"{kind}_server").url)

    # moto and its client take 5 ms of processor time per request, ten times those of a database
    in_ci = {"memory": (60, 40), "dynamodb": (3, 30), "s3": (3, 30)}.get(kind, (12, 40))
    examples, steps = (200, 50) if full else in_ci
    run_state_machine_as_test(
        lambda: StoreMachine(backend()),
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            print_blob=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
