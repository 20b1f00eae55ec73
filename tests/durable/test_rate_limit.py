"""`RateLimiter`: never more than the limit, over all workers, on every store."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall import ArgumentError, RateLimitedError, RateLimiter, StoreUnavailableError, UnknownNameError
from holdall.durable.rate_limit import Rate, take_bucket, take_window
from holdall.durable.session_store import SessionStore
from holdall.errors import DecodeError
from holdall.stores.base import Blob
from holdall.stores.memory import MemoryStore
from holdall.stores.redis import RedisStore

from .faulty import FaultyStore

ALGORITHMS = pytest.mark.parametrize("algorithm", ["sliding_window", "token_bucket"])


def name() -> str:
    return f"limit-{uuid4().hex}"


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds


@ALGORITHMS
async def test_workers_together_get_the_limit_and_no_more(store: SessionStore, algorithm: Any) -> None:
    """Eight workers ask for more than there is, all at once: exactly the limit is allowed, and the rest says when."""
    limiters = [RateLimiter(store, 10, 60, algorithm=algorithm) for _ in range(8)]
    one = name()
    decisions = await asyncio.gather(*(limiter.take(one) for limiter in limiters for _ in range(3)))
    assert sum(decision.is_allowed for decision in decisions) == 10
    denied = [decision for decision in decisions if not decision.is_allowed]
    assert all(0 < decision.retry_after_s <= 60 and decision.remaining == 0 for decision in denied)
    assert (await limiters[0].take(name())).remaining == 9, "another name has a limit of its own"


@ALGORITHMS
async def test_what_it_says_to_wait_is_enough(store: SessionStore, algorithm: Any) -> None:
    """Who waits that long gets through, and in no stretch did more than the limit."""
    limiter, one = RateLimiter(store, 5, 0.3, algorithm=algorithm), name()
    began = time.monotonic()
    asked, at = [], []
    for _ in range(12):
        asked.append(time.monotonic() - began)
        await limiter.wait(one, timeout_s=5)
        at.append(time.monotonic() - began)
    assert at[-1] >= 0.35, "seven beyond the first five take more than a window"
    if algorithm == "sliding_window":
        # counted after it was asked for, and before it was told
        for n, moment in enumerate(at[5:]):
            assert moment - asked[n] > 0.3 - 0.02


@ALGORITHMS
async def test_a_denied_call_is_not_counted(store: SessionStore, algorithm: Any) -> None:
    """A cost that does not fit takes nothing from one that does."""
    limiter, one = RateLimiter(store, 10, 60, algorithm=algorithm), name()
    assert (await limiter.take(one, cost=7)).remaining == 3
    assert not (await limiter.take(one, cost=4)).is_allowed
    assert (await limiter.take(one, cost=3)).is_allowed
    with pytest.raises(RateLimitedError) as caught:
        await limiter.check(one)
    assert caught.value.name == one
    assert 0 < caught.value.retry_after_s <= 60


async def test_limits_of_one_name_are_apart(store: SessionStore) -> None:
    """A minute and a day, a window and a bucket: each counts for itself, and one of a changed limit goes on counting."""
    one = name()
    minute, day = RateLimiter(store, 2, 60), RateLimiter(store, 5, 86_400)
    bucket = RateLimiter(store, 2, 60, algorithm="token_bucket")
    for limiter in (minute, minute, day, bucket, bucket):
        await limiter.check(one)
    assert [(await limiter.take(one)).is_allowed for limiter in (minute, day, bucket)] == [False, True, False]
    assert (await RateLimiter(store, 4, 60).take(one)).remaining == 1


async def test_case_50_names_of_every_separator_count_apart(store: SessionStore) -> None:
    limiter, one = RateLimiter(store, 1, 60), name()
    for tail in ("", ":", "*", "?", "{", "}", "{x}", "/", "\\", "'", '"', " ", "\n", "é", "%", "_", "."):
        assert (await limiter.take(one + tail)).is_allowed, tail
        assert not (await limiter.take(one + tail)).is_allowed, tail


async def test_a_bucket_holds_its_burst(store: SessionStore) -> None:
    limiter, one = RateLimiter(store, 1, 60, algorithm="token_bucket", burst=5), name()
    assert [(await limiter.take(one)).is_allowed for _ in range(7)] == [True] * 5 + [False] * 2
    assert 55 < (await limiter.take(one)).retry_after_s <= 60


@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 4)), max_size=60),
    st.integers(4, 8),
)
def test_no_stretch_of_a_window_holds_more(steps: list[tuple[int, int]], limit: int) -> None:
    """Against counting by hand: allowed exactly if the last `per_us` hold room; the wait it names is the shortest."""
    rate, now = Rate(limit, 1000, limit), 10_000
    times: list[float] = []
    allowed: list[int] = []
    for passed, cost in steps:
        now += passed
        used = sum(1 for at in allowed if at > now - 1000)
        decision, after = take_window(times, rate, cost, now)
        assert decision.is_allowed == (used + cost <= limit)
        if after is not None:
            times = after
            allowed += [now] * cost
        else:
            wait_us = round(decision.retry_after_s * 1e6)
            assert take_window(times, rate, cost, now + wait_us)[0].is_allowed
            assert not take_window(times, rate, cost, now + wait_us - 1)[0].is_allowed


@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(1, 3)), max_size=60), st.integers(3, 6), st.integers(1, 9))
def test_a_bucket_never_gives_more_than_it_was_filled_with(
    steps: list[tuple[int, int]], burst: int, limit: int
) -> None:
    """Over any run: what it gave is at most the burst and what dripped in since."""
    rate, now = Rate(limit, 1000, burst), 10_000
    held: list[float] = []
    given_out, began = 0, None
    for passed, cost in steps:
        now += passed
        decision, after = take_bucket(held, rate, cost, now)
        if after is None:
            assert take_bucket(held, rate, cost, now + round(decision.retry_after_s * 1e6) + 1)[0].is_allowed
            continue
        held, began = after, now if began is None else began
        given_out += cost
        assert given_out <= burst + (now - began) * limit / 1000 + 1e-6


@ALGORITHMS
async def test_a_clock_that_is_set_back_gives_nothing_away(algorithm: Any) -> None:
    """Workers' clocks differ: one that is an hour behind counts at the moment that is stored."""
    clock = Clock()
    store = MemoryStore()
    ahead = RateLimiter(store, 3, 60, algorithm=algorithm, now=clock)
    behind = RateLimiter(store, 3, 60, algorithm=algorithm, now=lambda: clock.now - 3600)
    assert [(await limiter.take("x")).is_allowed for limiter in (ahead, behind, ahead, behind)] == [True] * 3 + [False]
    clock.now += 61
    assert (await ahead.take("x")).is_allowed


async def test_waiting_ends_as_soon_as_it_would_take_too_long() -> None:
    clock = Clock()
    limiter = RateLimiter(MemoryStore(), 1, 60, now=clock, sleep=clock.sleep)
    began = clock.now
    await limiter.wait("x")
    with pytest.raises(RateLimitedError):
        await limiter.wait("x", timeout_s=30)
    assert clock.now == began
    await limiter.wait("x", timeout_s=90)
    assert 60 <= clock.now - began <= 66


async def test_counters_end(store: SessionStore) -> None:
    """A counter has a time to live: nothing is left of a name that nobody uses."""
    one = name()
    await RateLimiter(store, 5, 90).take(one)
    if isinstance(store.store, RedisStore):
        left_s = await store.store._link.client.ttl(b"holdall:r:~rate/w90000000/" + one.encode())
    else:
        record = await store.store.read("~rate/w90000000/" + one)
        assert record is not None
        left_s = record.expires_at - time.time()
    assert 80 < left_s <= 91
    assert one not in await store.list()


@pytest.mark.redis
async def test_redis_counts_in_one_script(valkey_server: Any) -> None:
    """One command for each call; and in a cluster, where the key names its node."""
    store = RedisStore(valkey_server.url, namespace="rate")
    limiter, one = RateLimiter(store, 100, 60), name()
    await limiter.take(one)
    stats = "cmdstat_evalsha"

    async def calls() -> int:
        return int((await store._link.client.info("commandstats"))[stats]["calls"])

    before = await calls()
    for _ in range(20):
        await limiter.take(one)
    assert await calls() == before + 20
    await store.aclose()


@pytest.mark.redis
async def test_limits_hold_in_a_cluster(cluster_server: Any) -> None:
    async with contextlib.aclosing(RedisStore(cluster_server.url, namespace="rate")) as store:
        limiter = RateLimiter(store, 4, 60)
        for one in (name() for _ in range(5)):
            allowed = await asyncio.gather(*(limiter.take(one) for _ in range(8)))
            assert sum(decision.is_allowed for decision in allowed) == 4


async def test_a_store_that_is_away_raises_allows_or_denies() -> None:
    store = FaultyStore(MemoryStore())
    store.is_dead = True
    with pytest.raises(StoreUnavailableError):
        await RateLimiter(store, 1, 60).take("x")
    assert (await RateLimiter(store, 1, 60, when_away="allow").take("x")).is_allowed
    assert not (await RateLimiter(store, 1, 60, when_away="deny").take("x")).is_allowed


async def test_a_damaged_counter_is_an_error() -> None:
    store = MemoryStore()
    for head in (Blob("holdall.rate", b"[1,"), Blob("holdall.rate", b"7"), Blob("text", b"")):
        await store.write("~rate/w60000000/x", head, expected=None, ttl_s=None)
        with pytest.raises(DecodeError):
            await RateLimiter(store, 1, 60).take("x")


@pytest.mark.parametrize(
    "bad",
    [
        {"limit": 0},
        {"per_s": 0},
        {"per_s": float("inf")},
        {"burst": 3},
        {"limit": 10_001},
        {"limit": 2.5},
        {"algorithm": "token_bucket", "burst": 2.5},
        {"algorithm": "token_bucket", "burst": 0},
    ],
)
def test_bad_limits_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError):
        RateLimiter(MemoryStore(), **({"limit": 5, "per_s": 1} | bad))


async def test_bad_calls_are_refused() -> None:
    limiter = RateLimiter(MemoryStore(), 5, 1)
    for cost in (0, 6, 1.5, True):
        with pytest.raises(ArgumentError):
            await limiter.take("x", cost=cost)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError):
        await limiter.take("")
    with pytest.raises(UnknownNameError):
        RateLimiter(MemoryStore(), 5, 1, algorithm="leaky")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError):
        RateLimiter(MemoryStore(), 5, 1, when_away="panic")  # type: ignore[arg-type]
