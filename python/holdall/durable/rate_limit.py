"""How often something may happen, counted over all workers of a store."""

from __future__ import annotations

import asyncio
import json
import math
import random
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, cast, runtime_checkable
from weakref import WeakValueDictionary

from holdall.durable.keys import check_id
from holdall.durable.sessions import new_op_id
from holdall.durable.ttl import RATE_COUNTER_TTL_RANGE_S
from holdall.errors import (
    ArgumentError,
    ConflictError,
    DecodeError,
    RateLimitedError,
    StoreUnavailableError,
    UnknownNameError,
)
from holdall.stores.base import ABSENT, Blob

if TYPE_CHECKING:
    from holdall.durable.session_store import SessionStore
    from holdall.stores.base import Store

Algorithm = Literal["sliding_window", "token_bucket"]
WhenAway = Literal["raise", "allow", "deny"]

# The window remembers the moment of each call: more of them want a bucket, which is two numbers.
MAX_WINDOW: Final = 10_000
_ATTEMPTS: Final = 64
_MAX_DELAY_S: Final = 0.050
_FORMAT: Final = "holdall.rate"


class Decision(NamedTuple):
    """What a limit said.

    Attributes:
        is_allowed: Whether it may happen; it is counted then, and not otherwise.
        remaining: How much more would be allowed at this moment.
        retry_after_s: Seconds until it would be allowed, if nobody else comes; 0 where it is.
    """

    is_allowed: bool
    remaining: int
    retry_after_s: float


class Rate(NamedTuple):
    """A limit, in microseconds and whole units, as both the script and the code here count."""

    limit: int
    per_us: int
    burst: int


@runtime_checkable
class RateStore(Protocol):
    """A store that counts rates in one call of its own."""

    async def take_rate(self, key: str, **rate: Any) -> tuple[bool, int, int]:
        """Count `cost` if the limit allows it; return whether it did, what is left, and microseconds until it would."""
        ...


class RateLimiter:
    """Limits by name, such as a user or a tool: at most `limit` in `per_s` seconds, over all workers.

    Limiters of one algorithm and one `per_s` share what is counted under a name; others count apart, so that a user may have
    a limit for the minute and one for the day.

    - "sliding_window" is exact: no stretch of `per_s` seconds holds more than `limit`. It remembers the moment of each call.
    - "token_bucket" refills at `limit` per `per_s` and holds `burst`: after a pause that much may happen at once, and a
      stretch of `per_s` seconds can hold `burst + limit`. It is two numbers, whatever the limit.

    On Redis each call is one script, by the server's clock. On any other store it is a compare-and-swap, by the callers' clocks:
    one that is behind counts at the latest moment it finds stored, so that it is never given more. A counter lives until
    it is as new, at least a minute, and holds nothing but numbers.

    Args:
        store: Any store, or a session store.
        limit: How much in `per_s` seconds, at least 1; a window at most 10,000.
        per_s: The length of the window in seconds.
        algorithm: "sliding_window" or "token_bucket".
        burst: What a bucket holds; `limit` by default.
        when_away: While the store cannot be reached: "raise" the error, "allow" or "deny" uncounted.
        now: The clock for stores without one of their own, Unix seconds.
        sleep: Waits in `wait`; for tests.
    """

    def __init__(
        self,
        store: Store | SessionStore,
        limit: int,
        per_s: float,
        *,
        algorithm: Algorithm = "sliding_window",
        burst: int | None = None,
        when_away: WhenAway = "raise",
        now: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        for what, name, known in (
            ("algorithm", algorithm, ["sliding_window", "token_bucket"]),
            ("when_away", when_away, ["raise", "allow", "deny"]),
        ):
            if name not in known:
                raise UnknownNameError(
                    f"{what} is {name!r}; known are {', '.join(known)}", what=what, name=str(name), known=known
                )
        if not all(isinstance(count, int) for count in (limit, burst or 1)):
            raise ArgumentError(f"limit={limit!r}, burst={burst!r}: ints, counted in whole units")
        if limit < 1 or not 0 < per_s < math.inf or (burst is not None and burst < 1):
            raise ArgumentError(f"limit={limit}, per_s={per_s}, burst={burst}: at least 1, above 0, at least 1")
        if algorithm == "sliding_window" and (limit > MAX_WINDOW or burst is not None):
            raise ArgumentError(f"a sliding window counts up to {MAX_WINDOW} and has no burst; use a token bucket")
        inner: Store | None = getattr(store, "store", None)
        self._store = cast("Store", store if inner is None else inner)
        self._rate = Rate(limit, max(1, round(per_s * 1e6)), limit if burst is None else burst)
        self._is_window = algorithm == "sliding_window"
        lives_s = per_s if self._is_window else per_s * self._rate.burst / limit
        self._ttl_s = max(lives_s, RATE_COUNTER_TTL_RANGE_S[0])
        self._prefix = f"~rate/{'w' if self._is_window else 'b'}{self._rate.per_us}/"
        self._when_away = when_away
        self._now = now
        self._sleep = sleep
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def take(self, name: str, cost: int = 1) -> Decision:
        """Count `cost` under a name if the limit allows it.

        Raises:
            ArgumentError: `cost` is below 1, or more than could ever be allowed.
            StoreUnavailableError: The store cannot be reached, and `when_away` is "raise".
        """
        most = self._rate.limit if self._is_window else self._rate.burst
        if isinstance(cost, bool) or not isinstance(cost, int) or not 1 <= cost <= most:
            raise ArgumentError(f"cost is {cost!r}; this limit allows 1 to {most} at once, in whole units")
        key = self._prefix + check_id(name, "name")
        try:
            if isinstance(self._store, RateStore):
                return await self._by_script(self._store, key, cost)
            return await self._by_cas(key, cost)
        except StoreUnavailableError:
            if self._when_away == "raise":
                raise
            is_allowed = self._when_away == "allow"
            return Decision(is_allowed, 0, 0.0 if is_allowed else self._rate.per_us / 1e6)

    async def check(self, name: str, cost: int = 1) -> Decision:
        """As `take`, but raise where it is not allowed.

        Raises:
            RateLimitedError: It is not; `retry_after_s` says when it would be.
        """
        decision = await self.take(name, cost)
        if not decision.is_allowed:
            raise _limited(name, decision)
        return decision

    async def wait(self, name: str, cost: int = 1, *, timeout_s: float | None = None) -> Decision:
        """Wait until it is allowed, and count it. Those who wait are served in no order.

        Raises:
            RateLimitedError: It would take longer than `timeout_s`; raised as soon as that is known.
        """
        waited_s = 0.0
        while True:
            decision = await self.take(name, cost)
            if decision.is_allowed:
                return decision
            # spread a little, so that all who were told the same moment do not come at once
            pause_s = decision.retry_after_s * (1 + 0.1 * random.random())  # noqa: S311
            if timeout_s is not None and waited_s + decision.retry_after_s > timeout_s:
                raise _limited(name, decision)
            await self._sleep(pause_s)
            waited_s += pause_s

    async def _by_script(self, store: RateStore, key: str, cost: int) -> Decision:
        is_allowed, left, wait_us = await store.take_rate(
            key,
            algorithm="window" if self._is_window else "bucket",
            **self._rate._asdict(),
            cost=cost,
            least_ttl_ms=math.ceil(self._ttl_s * 1000),
        )
        return Decision(is_allowed, left, wait_us / 1e6)

    async def _by_cas(self, key: str, cost: int) -> Decision:
        turn = self._turns.get(key)
        if turn is None:
            turn = self._turns[key] = asyncio.Lock()
        async with turn:
            ceiling = 0.001
            for attempt in range(_ATTEMPTS):
                record = await self._store.read(key)
                said = _said(key, record.head) if record is not None else []
                taken = take_window if self._is_window else take_bucket
                decision, after = taken(said, self._rate, cost, int(self._now() * 1e6))
                if after is None:
                    return decision
                head = Blob(_FORMAT, json.dumps(after, separators=(",", ":")).encode())
                try:
                    await self._store.write(
                        key,
                        head,
                        expected=ABSENT if record is None else record.version,
                        ttl_s=self._ttl_s,
                        op_id=new_op_id(),
                    )
                except ConflictError:
                    if attempt == _ATTEMPTS - 1:
                        raise
                    await asyncio.sleep(random.random() * ceiling)  # noqa: S311 - only spreads the writers
                    ceiling = min(_MAX_DELAY_S, ceiling * 2)
                else:
                    return decision
        raise AssertionError("the last attempt returns or raises")


def take_window(times: list[float], rate: Rate, cost: int, now_us: int) -> tuple[Decision, list[float] | None]:
    """Decide by the moments of the calls so far; return them as they are afterwards, None where nothing changes."""
    now_us = max([now_us, *map(int, times[-1:])])
    live = [at for at in times if at > now_us - rate.per_us]
    if len(live) + cost > rate.limit:
        frees = live[len(live) + cost - rate.limit - 1]
        return Decision(
            is_allowed=False, remaining=rate.limit - len(live), retry_after_s=(frees + rate.per_us - now_us) / 1e6
        ), None
    return Decision(is_allowed=True, remaining=rate.limit - len(live) - cost, retry_after_s=0.0), [
        *live,
        *[now_us] * cost,
    ]


def take_bucket(held: list[float], rate: Rate, cost: int, now_us: int) -> tuple[Decision, list[float] | None]:
    """Decide by what a bucket holds, [tokens, at]; return it as it is afterwards, None where nothing changes."""
    tokens, at_us = held or (float(rate.burst), now_us)
    now_us = max(now_us, int(at_us))
    tokens = min(rate.burst, tokens + (now_us - at_us) * rate.limit / rate.per_us)
    if tokens < cost:
        wait_us = math.ceil((cost - tokens) * rate.per_us / rate.limit)
        return Decision(is_allowed=False, remaining=math.floor(tokens), retry_after_s=wait_us / 1e6), None
    return Decision(is_allowed=True, remaining=math.floor(tokens - cost), retry_after_s=0.0), [tokens - cost, now_us]


def _said(key: str, head: Blob) -> list[float]:
    reason = f"its format is {head.format!r}"
    if head.format == _FORMAT:
        try:
            numbers: list[float] = json.loads(head.data)
        except ValueError as error:
            reason = str(error)
        else:
            if isinstance(numbers, list) and all(type(number) in (int, float) for number in numbers):
                return numbers
            reason = "it holds no numbers"
    raise DecodeError(f"the counter {key!r} is damaged: {reason}", offset=0, reason=reason)


def _limited(name: str, decision: Decision) -> RateLimitedError:
    return RateLimitedError(
        f"{name!r} is over its limit: try again in {decision.retry_after_s:.3f} s",
        name=name,
        retry_after_s=decision.retry_after_s,
    )
