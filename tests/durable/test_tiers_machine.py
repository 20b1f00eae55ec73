"""Any sequence of calls and of moves between tiers, against the same model as every store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from holdall.durable.behind import BehindStore
from holdall.durable.tiered import TieredStore
from holdall.stores.base import Store, Version
from holdall.stores.memory import MemoryStore
from holdall.stores.sqlite import SqliteStore
from tests.stores.test_store_machine import KEYS, RETENTION_S, TTLS, Backend, StoreMachine

MOVES = st.sampled_from([150, 350, 1050])


class TiersBackend(Backend):
    """Three tiers on the model's clock. A new handle, which knows nothing, takes over in the middle."""

    def __init__(self, write: str, reads: str, warm: Path | None = None) -> None:
        super().__init__()
        self.write, self.reads = write, reads
        self.tiers: list[Store] = [MemoryStore(now=self.now, retention_s=RETENTION_S) for _ in range(3)]
        if warm is not None:
            self.tiers[1] = SqliteStore(warm, durability="process", now=self.now, retention_s=RETENTION_S)

    def now(self) -> float:
        return self.time

    def open(self) -> Store:
        hot, warm, cold = self.tiers
        if self.write == "through":
            return TieredStore(warm, hot=hot, cold=cold, reads=self.reads, now=self.now)
        below = TieredStore(warm, cold=cold, now=self.now)
        return BehindStore(hot, below, flush_s=1e9, negative_s=0.0, retention_s=RETENTION_S, now=self.now)

    async def reopen(self, store: Store) -> Store:
        if isinstance(store, BehindStore) and store.flusher._task is not None:
            store.flusher._task.cancel()
        return self.open()


class ThroughMachine(StoreMachine):
    """With an archive: moves change nothing but the expiry, and the number of the next version."""

    def follows(self, version: Version, before: Version) -> bool:
        return version.generation == before.generation and version.number > before.number

    @rule(key=KEYS, ttl_s=MOVES)
    def archive(self, key: str, ttl_s: float) -> None:
        live = self.live(key)
        assert self.run(self.store.archive(self.prefix + key, ttl_s)) == (live is not None)
        if live is not None and not self.was_archived(key):
            live.ends = self.clock + ttl_s
            self.archived[key] = live.version

    def was_archived(self, key: str) -> bool:
        live = self.live(key)
        return live is not None and self.archived.get(key) == live.version

    @property
    def archived(self) -> dict[str, Version]:
        held: dict[str, Version] = self.__dict__.setdefault("_archived", {})
        return held

    @rule(key=KEYS, ttl_s=TTLS)
    def restore(self, key: str, ttl_s: float | None) -> None:
        live = self.live(key)
        is_moved = self.run(self.store.restore(self.prefix + key, ttl_s))
        assert is_moved == self.was_archived(key)
        if is_moved and live is not None:
            record = self.run(self.store.read(self.prefix + key))
            assert self.follows(record.version, live.version)
            live.version = record.version
            live.ends = None if ttl_s is None else self.clock + ttl_s

    @rule(key=KEYS)
    def lose_the_copy(self, key: str) -> None:
        self.run(self.backend.tiers[0].delete(self.prefix + key))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.sweep())
            left = self.run(self.keys_of(self.backend.tiers[2]))
            assert len(left) == sum(self.was_archived(key) for key in list(self.models)), "orphans in cold"
        super().teardown()

    async def keys_of(self, store: Store) -> list[str]:
        return [key async for key in store.find()]


class BehindMachine(StoreMachine):
    """With flushes at any time, by any worker; in the end warm holds what hot does."""

    @rule()
    def flush(self) -> None:
        self.run(self.store.flush())

    @rule()
    def recover(self) -> None:
        self.run(self.store.recover())

    @rule(key=KEYS, ttl_s=TTLS, op=st.none())
    def touch(self, key: str, ttl_s: float | None, op: None) -> None:
        """Without an op_id: hot forgets those of a touch when the record is deleted."""
        was_there = self.run(self.store.touch(self.prefix + key, ttl_s, op_id=op))
        live = self.live(key)
        assert was_there == (live is not None)
        if live is not None:
            live.ends = None if ttl_s is None else self.clock + ttl_s

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.run(self.store.recover())
            warm = self.backend.tiers[1]
            for key in list(self.models):
                live, record = self.live(key), self.run(warm.read(self.prefix + key))
                assert (record is None) == (live is None)
                if live is not None and live.log is not None:
                    assert record.head.data == live.head
                    assert [(entry.kind, entry.data) for entry in record.entries] == live.log
        super().teardown()


@pytest.mark.parametrize(
    ("machine", "write", "reads", "is_file"),
    [
        pytest.param(ThroughMachine, "through", "latest", False, id="through, latest"),
        pytest.param(ThroughMachine, "through", "bounded", False, id="through, bounded"),
        pytest.param(ThroughMachine, "through", "latest", True, id="through, latest, SQLite"),
        pytest.param(BehindMachine, "behind", "latest", False, id="behind"),
    ],
)
def test_any_sequence_of_calls_and_moves(
    machine: type[Any], write: str, reads: str, is_file: bool, tmp_path: Path, full: bool
) -> None:
    files = iter(range(10**9))

    def make() -> Any:
        return machine(TiersBackend(write, reads, tmp_path / f"{next(files)}.db" if is_file else None))

    examples = 200 if full else 6 if is_file else 25
    run_state_machine_as_test(
        make,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        ),
    )
