"""The history checker accepts what a right store tells its callers, and finds each broken one."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from holdall.errors import ConflictError
from holdall.stores.base import ABSENT, Blob, Record, Version
from holdall.stores.memory import MemoryStore
from holdall.testing import Broken, Call, check_history

G = "0123456789abcdef"


def at(number: int) -> Version:
    return Version(G, number)


def write(process, number, began, ended, *, body=b"", outcome="ok", actual=None):
    """A write that names version number - 1."""
    expected = None if number == 1 else at(number - 1)
    version = at(number) if outcome == "ok" else actual
    return Call(process, "write", "k", expected, version, body, began, ended, outcome)


def read(process, number, began, ended, body=b""):
    return Call(process, "read", "k", None, at(number) if number else None, body, began, ended, "ok")


def test_a_history_in_order_is_accepted():
    check_history(
        [write(0, 1, 0, 1, body=b"a"), read(1, 1, 2, 3, b"a"), write(1, 2, 4, 5, body=b"b"), read(0, 2, 6, 7, b"b")]
    )


def test_concurrent_calls_may_be_told_either_order():
    check_history(
        [write(0, 1, 0, 10, body=b"a"), read(1, 0, 1, 2), read(2, 1, 3, 4, b"a"), write(1, 2, 5, 6), read(3, 2, 5, 9)]
    )


def test_an_unknown_write_may_have_happened_or_not():
    lost = write(0, 2, 2, 3, body=b"u", outcome="unknown")
    check_history([write(0, 1, 0, 1), lost, read(1, 1, 4, 5)])
    check_history([write(0, 1, 0, 1), lost, read(1, 2, 4, 5, b"u"), write(1, 3, 6, 7)])


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param([write(0, 1, 0, 1), write(1, 1, 0, 1)], id="a version given twice"),
        pytest.param([write(0, 1, 0, 1), write(1, 3, 2, 3)], id="a version nobody wrote"),
        pytest.param([write(0, 1, 0, 1), write(1, 2, 2, 3), read(2, 1, 4, 5)], id="a stale read"),
        pytest.param([write(0, 1, 0, 1), read(2, 0, 2, 3)], id="an acknowledged write read as absent"),
        pytest.param([write(0, 1, 0, 1, body=b"a"), read(1, 1, 2, 3, b"b")], id="another body"),
        pytest.param([write(0, 1, 5, 6), read(1, 1, 1, 2)], id="read before it was written"),
        pytest.param([write(0, 1, 0, 1), read(1, 2, 2, 3)], id="read of a version nobody wrote"),
        pytest.param([write(0, 2, 0, 1), write(1, 1, 2, 3)], id="versions against real time"),
        pytest.param(
            [write(0, 1, 0, 1), write(1, 2, 2, 3), write(2, 2, 4, 5, outcome="conflict", actual=at(1))],
            id="a conflict with what it named",
        ),
        pytest.param(
            [write(0, 1, 0, 1), write(1, 2, 2, 3), write(2, 1, 4, 5, outcome="conflict", actual=at(1))],
            id="a conflict with a stale version",
        ),
        pytest.param(
            [write(0, 1, 0, 1), write(1, 1, 2, 3, outcome="conflict", actual=at(2)), write(2, 2, 6, 7)],
            id="a conflict with the future",
        ),
        pytest.param(
            [write(0, 1, 0, 1), read(1, 1, 2, 3)._replace(version=Version("f" * 16, 1))], id="two generations"
        ),
        pytest.param(
            [write(0, 1, 0, 1), write(1, 2, 2, 3, body=b"u", outcome="unknown"), read(2, 2, 4, 5, b"x")],
            id="not what the unknown write sent",
        ),
    ],
)
def test_a_broken_history_is_refused(calls):
    with pytest.raises(Broken):
        check_history(calls)


def test_200_000_calls_are_checked_in_seconds():
    """O(n log n): the time of a long history is that of its sorting."""
    calls = []
    for n in range(1, 100_001):
        calls.append(write(n % 7, n, n, n + 0.5, body=b"%d" % n))
        calls.append(read(n % 5, n, n + 0.6, n + 0.7, b"%d" % n))
    began = time.process_time()
    check_history(calls)
    assert time.process_time() - began < 10


# ---- mutants: a store with one fault each, under the same load as a right one


class DropsTheVersion(MemoryStore):
    """Compares nothing: every write is let through at the version it names."""

    async def write(self, key, head, *, expected, **rest):
        if self.rng.random() < 0.2:
            version = await super().write(key, head, expected=None, **rest)
            return version if expected is ABSENT else Version(version.generation, expected.number + 1)
        return await super().write(key, head, expected=expected, **rest)


class AcknowledgesBeforeCommit(MemoryStore):
    """Answers, and commits a little later or, now and then, never."""

    async def write(self, key, head, *, expected, **rest):
        if expected is not ABSENT and self.rng.random() < 0.1:
            record = await self.read(key)
            if record.version == expected:
                return Version(expected.generation, expected.number + 1)
        return await super().write(key, head, expected=expected, **rest)


class ServesAStaleCache(MemoryStore):
    """Reads what it read before."""

    async def read(self, key, *, log_from=0):
        if self.rng.random() < 0.3 and getattr(self, "cached", None) is not None:
            return self.cached
        self.cached: Record | None = await super().read(key)
        return self.cached


class MixesHeads(MemoryStore):
    """Gives a head with a version that is not its own."""

    async def read(self, key, *, log_from=0):
        record = await super().read(key)
        if record is None or self.rng.random() > 0.05:
            return record
        return Record(key, record.version, Blob("text", b"mixed"), record.entries, record.log_len)


async def load(store) -> list[Call]:
    """8 tasks that read and write one record, and note what they were told."""
    store.rng = random.Random(5)
    calls: list[Call] = []
    ticks = iter(range(10**9))

    async def worker(process: int) -> None:
        for n in range(60):
            began = next(ticks)
            record = await store.read("k")
            await asyncio.sleep(0)
            version = None if record is None else record.version
            calls.append(
                Call(
                    process,
                    "read",
                    "k",
                    None,
                    version,
                    b"" if record is None else record.head.data,
                    began,
                    next(ticks),
                    "ok",
                )
            )
            body = b"%d.%d" % (process, n)
            began = next(ticks)
            try:
                got = await store.write("k", Blob("text", body), expected=version or ABSENT, ttl_s=None)
            except ConflictError as error:
                calls.append(Call(process, "write", "k", version, error.actual, body, began, next(ticks), "conflict"))
            else:
                await asyncio.sleep(0)
                calls.append(Call(process, "write", "k", version, got, body, began, next(ticks), "ok"))

    await asyncio.gather(*(worker(n) for n in range(8)))
    return calls


async def test_a_right_store_passes_under_load():
    calls = await load(MemoryStore())
    check_history(calls)
    assert {call.outcome for call in calls} == {"ok", "conflict"}


@pytest.mark.parametrize("mutant", [DropsTheVersion, AcknowledgesBeforeCommit, ServesAStaleCache, MixesHeads])
async def test_a_mutant_is_found(mutant):
    with pytest.raises(Broken):
        check_history(await load(mutant()))
