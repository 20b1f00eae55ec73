"""`ToolResultCache`: the same question once, whoever asks it, and never a stale or foreign answer."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import Counter
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdall import ArgumentError, EncodeError, ToolResultCache, UserDeletedError
from holdall.durable.session_store import SessionStore
from holdall.durable.tool_cache import Hit, canonical
from holdall.stores.memory import MemoryStore

from .faulty import FaultyStore

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def tool() -> str:
    return f"tool-{uuid4().hex}"


class Tool:
    """Counts its calls."""

    def __init__(self, answer: Any = None, takes_s: float = 0.0) -> None:
        self.answer, self.takes_s = answer, takes_s
        self.calls = 0
        self.began = asyncio.Event()

    async def __call__(self) -> Any:
        self.calls += 1
        self.began.set()
        if self.takes_s:
            await asyncio.sleep(self.takes_s)
        return self.calls if self.answer is None else self.answer


async def test_the_same_question_is_asked_once(store: SessionStore) -> None:
    """In whatever order its keys are; another question, tool or user is another answer."""
    cache, name, ask = ToolResultCache(store), tool(), Tool()
    assert await cache.get_or_call(name, {"a": 1, "b": [1.5, None]}, ask) == 1
    assert await cache.get_or_call(name, {"b": [1.5, None], "a": 1.0}, ask) == 1
    assert await cache.get(name, {"a": 1, "b": [1.5, None]}) == Hit(1)
    assert await cache.get_or_call(name, {"a": True, "b": [1.5, None]}, ask) == 2
    assert await cache.get_or_call(name, {"a": 1, "b": [1.5, None]}, ask, user_id="u") == 3
    assert await cache.get_or_call(tool(), {"a": 1, "b": [1.5, None]}, ask) == 4
    assert await ToolResultCache(store).get_or_call(name, {"a": 1, "b": [1.5, None]}, ask) == 1
    assert await cache.get(name, {}) is None


async def test_an_answer_comes_back_equal_and_is_the_callers_own(store: SessionStore) -> None:
    """None, bytes, Decimal, nested; what one caller changes, the next does not see."""
    cache, name = ToolResultCache(store), tool()
    answer = {"rows": [[1, b"\0"], [2**70, Decimal("1.10")]], "none": None}
    first = await cache.get_or_call(name, {"n": 1}, lambda: answer)
    first["rows"].append("mine")
    assert await cache.get_or_call(name, {"n": 1}, lambda: "another") == answer
    assert await cache.get_or_call(name, {"n": 2}, lambda: None) is None
    assert await cache.get(name, {"n": 2}) == Hit(None)


async def test_a_stampede_of_tasks_calls_once(store: SessionStore) -> None:
    cache, name, ask = ToolResultCache(store), tool(), Tool(takes_s=0.05)
    answers = await asyncio.gather(*(cache.get_or_call(name, {"q": "x"}, ask) for _ in range(50)))
    assert (answers, ask.calls) == ([1] * 50, 1)


async def test_a_stampede_of_workers_calls_once(store: SessionStore) -> None:
    """Each with a cache of its own, as processes have: they see each other's lease."""
    name, ask = tool(), Tool(takes_s=0.1)
    caches = [ToolResultCache(store) for _ in range(8)]
    answers = await asyncio.gather(*(cache.get_or_call(name, {"q": "x"}, ask) for cache in caches))
    assert (answers, ask.calls) == ([1] * 8, 1)


async def test_of_two_who_see_nothing_one_takes_the_lease() -> None:
    """Both have read that there is no answer and no lease: the compare-and-swap lets one call."""
    inner, ask = MemoryStore(), Tool(takes_s=0.05)
    stores = [FaultyStore(inner) for _ in range(2)]
    for store in stores:
        store.held["write"] = asyncio.Event()
    asking = [asyncio.ensure_future(ToolResultCache(store).get_or_call("t", {}, ask)) for store in stores]
    await asyncio.sleep(0.01)
    assert [store.calls["write"] for store in stores] == [1, 1]
    for store in stores:
        store.held.pop("write").set()
    assert await asyncio.gather(*asking) == [1, 1]
    assert ask.calls == 1


WORKER = """
import asyncio, sys, holdall
async def main(url, name, log):
    async with holdall.open(url) as store:
        cache = holdall.ToolResultCache(store)
        async def call():
            with open(log, "a") as file:
                file.write("call\\n")
            await asyncio.sleep(0.3)
            return 7
        print(await cache.get_or_call(name, {"q": 1}, call))
asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.postgres
async def test_a_stampede_of_processes_calls_once(postgres_server: Any, tmp_path: Any) -> None:
    log, name = tmp_path / "calls", tool()
    workers = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", WORKER, postgres_server.url, name, str(log), stdout=asyncio.subprocess.PIPE
        )
        for _ in range(3)
    ]
    said = [(await worker.communicate())[0] for worker in workers]
    assert said == [b"7\n"] * 3
    assert log.read_text() == "call\n"


async def test_a_dead_workers_lease_ends(store: SessionStore) -> None:
    """Its holder was killed: the next one waits for the lease to end, no longer, and calls."""
    name, hung = tool(), Tool(takes_s=60)
    dead = ToolResultCache(store, lease_s=0.2)
    dead._renew = lambda ask, lease: asyncio.sleep(60)  # type: ignore[method-assign, assignment]
    holder = asyncio.ensure_future(dead.get_or_call(name, {}, hung))
    await hung.began.wait()
    began = time.monotonic()
    assert await ToolResultCache(store, lease_s=0.2).get_or_call(name, {}, lambda: "mine") == "mine"
    assert time.monotonic() - began < 20
    holder.cancel()
    await asyncio.wait({holder})
    assert await ToolResultCache(store).get(name, {}) == Hit("mine")


async def test_a_lease_is_renewed_while_the_tool_works(store: SessionStore) -> None:
    """Nobody else calls, though the tool takes several leases' time."""
    name, slow = tool(), Tool(takes_s=0.5)
    caches = [ToolResultCache(store, lease_s=0.2) for _ in range(2)]
    assert await asyncio.gather(*(cache.get_or_call(name, {}, slow) for cache in caches)) == [1, 1]


async def test_a_tool_that_asks_for_its_own_answer_is_told() -> None:
    """It would wait for itself."""
    cache = ToolResultCache(MemoryStore())

    async def tool() -> Any:
        return await cache.get_or_call("t", {"a": 1}, tool)

    with pytest.raises(ArgumentError, match="its own answer"):
        await asyncio.wait_for(cache.get_or_call("t", {"a": 1}, tool), 5)
    assert await cache.get_or_call("t", {"a": 1}, lambda: 7) == 7


async def test_an_error_is_not_kept_and_holds_up_nobody(store: SessionStore) -> None:
    """The lease is given back at once."""
    cache, name = ToolResultCache(store, lease_s=30), tool()

    async def fails() -> None:
        await asyncio.sleep(0.02)
        raise LookupError("no such page")

    results = await asyncio.gather(*(cache.get_or_call(name, {}, fails) for _ in range(3)), return_exceptions=True)
    assert all(isinstance(result, LookupError) for result in results)
    began = time.monotonic()
    assert await ToolResultCache(store).get_or_call(name, {}, lambda: "now it works") == "now it works"
    assert time.monotonic() - began < 20


async def test_what_is_forgotten_while_a_call_is_under_way_is_not_kept(store: SessionStore) -> None:
    """The call's own caller gets its answer; the next one calls again."""
    cache, name, slow = ToolResultCache(store), tool(), Tool(takes_s=0.1)
    await cache.put(name, {"other": 1}, "x")
    calling = asyncio.ensure_future(cache.get_or_call(name, {}, slow))
    await slow.began.wait()
    assert await cache.forget(name) == 2
    assert await calling == 1
    assert await cache.get(name, {}) is None
    assert await cache.forget(name, {}) == 0


async def test_answers_end_with_their_time_to_live() -> None:
    now = [0.0]
    cache, name, ask = ToolResultCache(MemoryStore(now=lambda: now[0]), ttl_s=100), tool(), Tool()
    await cache.get_or_call(name, {}, ask)
    await cache.get_or_call(name, {"short": 1}, ask, ttl_s=10)
    now[0] = 50
    assert await cache.get_or_call(name, {}, ask) == 1
    assert await cache.get_or_call(name, {"short": 1}, ask) == 3
    now[0] = 101
    assert await cache.get_or_call(name, {}, ask) == 4


async def test_without_its_store_a_tool_is_called_as_if_there_were_no_cache() -> None:
    """A cache that is away takes no tool with it, before the call or after it."""
    store = FaultyStore(MemoryStore())
    cache, ask = ToolResultCache(store), Tool()
    store.is_dead = True
    assert await cache.get_or_call("t", {}, ask) == 1
    assert await cache.get_or_call("t", {}, ask) == 2
    store.is_dead = False

    async def dies() -> str:
        store.is_dead = True
        return "answered"

    assert await cache.get_or_call("t", {}, dies) == "answered"
    store.is_dead = False


async def test_a_users_answers_go_with_the_user(store: SessionStore) -> None:
    """And no call that was under way brings one back."""
    cache, name, user = ToolResultCache(store), tool(), f"u-{uuid4().hex}"
    await cache.put(name, {"mail": 1}, "private", user_id=user)
    slow = Tool("late", takes_s=0.1)
    late = asyncio.ensure_future(cache.get_or_call(name, {"mail": 2}, slow, user_id=user))
    await slow.began.wait()
    assert await store.delete_user(user) == 0, "answers are no sessions"
    with pytest.raises(UserDeletedError):
        await late
    for n in (1, 2):
        assert await cache.get(name, {"mail": n}, user_id=user) is None
    assert [key async for key in store.store.find(user_id=user)] == []
    with pytest.raises(UserDeletedError):
        await cache.put(name, {}, "x", user_id=user)


@given(JSON)
def test_equal_json_has_one_form(value: Any) -> None:
    """Reordered, sent as text and read again, with whole floats as ints: the same key."""

    def shuffled(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: shuffled(value[name]) for name in reversed(value)}
        return [shuffled(item) for item in value] if isinstance(value, list) else value

    one = json.dumps(canonical(value))
    assert json.dumps(canonical(shuffled(value))) == one
    assert json.dumps(canonical(json.loads(json.dumps(value)))) == one


@given(st.lists(JSON, min_size=2, max_size=6))
def test_different_json_has_different_forms(values: list[Any]) -> None:
    """Two values share a form only if they are equal as JSON: True is not 1, "1" is not 1, but 1.0 is."""
    forms = Counter(json.dumps(canonical(value)) for value in values)
    for a in values:
        for b in values:
            if json.dumps(canonical(a)) == json.dumps(canonical(b)):
                assert a == b
    assert sum(forms.values()) == len(values)


@pytest.mark.parametrize(
    "arguments",
    [{"x": float("nan")}, {"x": b""}, {1: "x"}, {"x": {"y": {None: 1}}}, {"x": object()}, {"x": {1, 2}}],
)
async def test_arguments_that_are_no_json_are_refused(arguments: Any) -> None:
    """Before anything is called, with the path."""
    ask = Tool()
    with pytest.raises(EncodeError, match="arguments"):
        await ToolResultCache(MemoryStore()).get_or_call("t", arguments, ask)
    assert ask.calls == 0


async def test_bad_settings_are_refused() -> None:
    deep: Any = {}
    for _ in range(200):
        deep = {"x": deep}
    with pytest.raises(EncodeError, match="deep"):
        await ToolResultCache(MemoryStore()).get("t", deep)
    for bad in ({"lease_s": 0}, {"ttl_s": -1}):
        with pytest.raises(ArgumentError):
            ToolResultCache(MemoryStore(), **bad)
    with pytest.raises(ArgumentError):
        await ToolResultCache(MemoryStore()).get("", {})
