"""Doing the same again takes no more memory: neither objects of Python nor what native code allocates."""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable
from typing import Any

import pytest

from holdall import (
    ContextItem,
    ContextWindowPacker,
    Rendition,
    SessionState,
    StateSerializer,
    Tokenizer,
    ToolSet,
    count_messages,
    extractive_summary,
    fit_tools,
)
from holdall._native import LexicalIndex, msgpack_decode, msgpack_encode
from holdall.errors import HoldallError

TIMES = 40
WINDOWS = 12
# A leak of one object, or of sixteen bytes, at every call is more than this in each window.
MOST_OBJECTS = TIMES // 4
MOST_BYTES = TIMES * 16


class MallInfo(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        )
    ]


def malloc_info() -> Callable[[], int] | None:
    """Bytes that malloc has given out, where it is glibc's."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        mallinfo2 = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return None
    mallinfo2.restype = MallInfo

    def taken() -> int:
        found = mallinfo2()
        return int(found.uordblks + found.hblkhd)

    return taken


def conversation(n: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You look things up."}]
    for at in range(n):
        call = {"id": f"c{at}", "type": "function", "function": {"name": "look", "arguments": '{"a": 1}'}}
        messages += [
            {"role": "user", "content": f"question {at} about rivers and lamps, déjà vu"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "content": f"{at} " + "a long answer of some words " * 20},
            {"role": "assistant", "content": f"answer {at}"},
        ]
    return messages


def tools(n: int) -> list[dict[str, Any]]:
    schema = {"type": "object", "properties": {"q": {"type": "string", "description": "what to look for"}}}
    return [
        {"type": "function", "function": {"name": f"tool_{at}", "description": "Looks. " * 20, "parameters": schema}}
        for at in range(n)
    ]


def calls() -> dict[str, Callable[[], object]]:
    tokenizer = Tokenizer("o200k_base")
    messages = conversation(30)
    items = [
        ContextItem("rag_documents", f"text {at} " * 30, at, None, at, 0.5, renditions=[Rendition("short")])
        for at in range(100)
    ]
    stable = ContextWindowPacker(2_000, tokenizer, strategy="stable")
    memo = [stable.pack_messages(messages[:60]).memo]
    optimal, greedy = ContextWindowPacker(2_000, tokenizer), ContextWindowPacker(2_000, tokenizer, strategy="greedy")
    small = ContextWindowPacker(20, tokenizer)
    state = SessionState("s", "u", metadata={"a": [1, 2.5, None, "x" * 300]})
    state.messages.extend(messages)
    serializer = StateSerializer()
    data = serializer.dumps(state)
    document = {"a": [1, 2.0, "three", b"four", {"five": None}], "key": "x" * 100}
    toolset = ToolSet(tools(40))
    index = LexicalIndex()
    index.add_many([str(message["content"]) for message in messages])
    long = "one two three " * 400

    def refused() -> None:
        for act in (lambda: small.pack_messages(messages), lambda: serializer.loads(data[:-3])):
            try:
                act()
            except HoldallError:
                continue
            pytest.fail("it is refused")

    def read() -> None:
        loaded = serializer.loads(data)
        assert len(loaded.messages) == len(messages)
        serializer.snapshot(loaded)

    def go_on() -> None:
        memo[0] = stable.pack_messages(messages, previous=memo[0]).memo

    return {
        "count": lambda: (tokenizer.count(long), tokenizer.count_many([long, "short"]), tokenizer.cut(long, 50)),
        "pack items": lambda: (optimal.pack(items), greedy.pack(items), optimal.pack_many([items] * 3)),
        "new items": lambda: optimal.pack([ContextItem("summary", f"{at} text", at) for at in range(20)]),
        "pack messages": lambda: optimal.pack_messages(messages, tools=tools(5), documents=["a document"], summary="s"),
        "a grown copy": lambda: greedy.pack_messages([dict(message) for message in messages]),
        "explain": lambda: optimal.pack_messages(messages).explain(),
        "stable": go_on,
        "count messages": lambda: count_messages(messages, tokenizer=tokenizer),
        "tools": lambda: (fit_tools(toolset, 500, query="rivers"), fit_tools(tools(10), 200)),
        "summary": lambda: extractive_summary([long, "another text. And more."], 30),
        "write": lambda: (serializer.dumps(state), msgpack_decode(msgpack_encode(document))),
        "read": read,
        "errors": refused,
        "search": lambda: index.scores("rivers and lamps"),
    }


@pytest.mark.parametrize("name", list(calls()))
def test_doing_it_again_takes_no_more_memory(name: str) -> None:
    """Sooner or later there is a window of calls that leaves nothing behind."""
    call = calls()[name]
    taken = malloc_info()
    objects, sizes = left_behind(call, taken)
    assert objects[-1] <= MOST_OBJECTS, f"{name}: objects left behind by {TIMES} calls: {objects}"
    assert sizes[-1] <= MOST_BYTES, f"{name}: bytes left behind by {TIMES} calls: {sizes}"


def test_a_leak_is_seen() -> None:
    kept: list[object] = []
    libc = ctypes.CDLL(None)
    objects, _ = left_behind(lambda: kept.append(object()), malloc_info())
    assert min(objects) > MOST_OBJECTS
    if taken := malloc_info():
        _, sizes = left_behind(lambda: libc.malloc(32), taken)
        assert min(sizes) > MOST_BYTES


def left_behind(call: Callable[[], object], taken: Callable[[], int] | None) -> tuple[list[int], list[int]]:
    """Objects and bytes that each window of calls leaves behind."""
    for _ in range(TIMES // 2):
        call()
    objects: list[int] = []
    sizes: list[int] = []
    gc.collect()
    gc.freeze()  # what was there before is not looked through again and again
    try:
        for _ in range(WINDOWS):
            before = sys.getallocatedblocks(), taken() if taken else 0
            for _ in range(TIMES):
                call()
            gc.collect()
            objects.append(sys.getallocatedblocks() - before[0])
            sizes.append((taken() if taken else 0) - before[1])
            if objects[-1] <= MOST_OBJECTS and sizes[-1] <= MOST_BYTES:
                break  # what Python keeps for itself at first has been kept
    finally:
        gc.unfreeze()
    return objects, sizes
