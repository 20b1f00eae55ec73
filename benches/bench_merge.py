"""A three-way merge of long sessions, against the same on plain dicts written by hand, which checks no more than it must."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from holdall.state import SessionState, StateSerializer
from holdall.state.log import MESSAGE
from holdall.state.merge import merge

SIZES = (100, 1000)
ROUNDS = 40


def session(n_messages: int) -> SessionState:
    """A session of so many messages of some 200 bytes."""
    state = SessionState(session_id="s", user_id="u", metadata={"kept": list(range(20))}, plan=["a", "b"])
    state.messages.extend(
        {"role": ("user", "assistant")[n % 2], "content": f"message {n} " + "of some length " * 12}
        for n in range(n_messages)
    )
    return state


def stored(state: SessionState) -> SessionState:
    """The state as another worker loads it: equal values, other objects."""
    serializer = StateSerializer()
    now = serializer.snapshot(state)
    loaded = serializer.restore(now.head, now.append, version=1, generation="g")
    assert loaded.log.items[0].kind == MESSAGE
    return loaded


def change(state: SessionState, who: str) -> SessionState:
    """What a worker does in a step."""
    state = state.copy()
    state.messages.append({"role": "assistant", "content": who})
    state.step_results[who] = "ok"
    state.metadata[who] = 1
    state.token_count += 10
    state.add_cost(0.5)
    return state


def document(state: SessionState) -> dict[str, Any]:
    """The same as plain dicts."""
    return {
        "messages": [dict(message) for message in state.messages],
        "step_results": dict(state.step_results),
        "metadata": copy.deepcopy(state.metadata),
        "token_count": state.token_count,
        "cost": state.accumulated_cost,
    }


def by_hand(base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Append, unite, add; nothing but appends is understood."""
    n = len(base["messages"])
    if ours["messages"][:n] != base["messages"] or theirs["messages"][:n] != base["messages"]:
        raise ValueError("edited")
    merged = copy.deepcopy(theirs)
    merged["messages"] += copy.deepcopy(ours["messages"][n:])
    for field in ("step_results", "metadata"):
        for key, value in ours[field].items():
            if base[field].get(key) != value:
                if key in theirs[field] and theirs[field][key] not in (value, base[field].get(key)):
                    raise ValueError(key)
                merged[field][key] = copy.deepcopy(value)
    for field in ("token_count", "cost"):
        merged[field] += ours[field] - base[field]
    return merged


def best(call: Callable[[], object]) -> float:
    """Return the seconds of processor time of the quickest of some rounds."""
    times = []
    for _ in range(ROUNDS):
        before = time.process_time()
        call()
        times.append(time.process_time() - before)
    return min(times)


def rows() -> Iterator[dict[str, Any]]:
    """Merges of two workers that both went on by a step."""
    for size in SIZES:
        base = stored(session(size))
        ours, theirs = change(base, "ours"), change(base, "theirs")
        other = change(stored(session(size)), "theirs")
        plain = [document(state) for state in (base, ours, theirs)]
        expected = by_hand(*plain)
        for what, side in (("that share the messages they know", theirs), ("read apart", other)):
            merged = merge(base, ours, side)
            assert document(merged) == expected
            mine, peer = best(partial(merge, base, ours, side)), best(partial(by_hand, *plain))
            yield {
                "what": f"merge of {size} messages, states {what}, against plain dicts by hand",
                "ours": mine,
                "peer": peer,
                "ratio": peer / mine,
                "must": None,
                "aim": None,
            }
