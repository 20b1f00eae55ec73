"""Threads that share everything: a tokenizer, packers, items, tools, an index and a session get what one thread alone gets."""

from __future__ import annotations

import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from holdall import (
    ContextItem,
    ContextWindowPacker,
    SessionState,
    StateSerializer,
    Tokenizer,
    ToolSet,
    count_messages,
    fit_tools,
)
from holdall._native import LexicalIndex, msgpack_decode, msgpack_encode

N_THREADS = 8
CALLS = 60


@pytest.fixture(autouse=True)
def often() -> Iterator[None]:
    """Let threads take turns at almost every step."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def conversation(seed: int, n: int = 60) -> list[dict[str, Any]]:
    draw = random.Random(seed)
    words = ["river", "stone", "lamp", "déjà", "copper", "日本", "winter"]
    return [
        {"role": ("user", "assistant")[at % 2], "content": f"{seed} {at} " + " ".join(draw.choices(words, k=60))}
        for at in range(n)
    ]


def works() -> dict[str, Callable[[], object]]:
    """What each thread does, with objects that all of them share. Long texts are counted with other threads running."""
    tokenizer = Tokenizer("o200k_base")
    conversations = [conversation(seed) for seed in range(6)]
    texts = [message["content"] for messages in conversations for message in messages]
    long = "\n".join(texts)
    items = [ContextItem("rag_documents", text, at, None, at // 6, 0.5) for at, text in enumerate(texts)]
    tools = [
        {"type": "function", "function": {"name": f"tool_{at}", "description": text[:200], "parameters": {}}}
        for at, text in enumerate(texts[:60])
    ]
    packer = ContextWindowPacker(1_000, tokenizer)
    stable = ContextWindowPacker(1_000, tokenizer, strategy="stable")
    toolset = ToolSet(tools)
    state = SessionState("s", "u", metadata={"k": [1, 2.0, None, "v"]})
    state.messages.extend(conversations[0])
    serializer = StateSerializer()
    data = serializer.dumps(state)
    loaded = serializer.loads(data)
    document = msgpack_decode(data)
    index = LexicalIndex()
    index.add_many(texts)

    def packed(one: ContextWindowPacker, messages: list[dict[str, Any]]) -> tuple[object, ...]:
        result = one.pack_messages(messages)
        return result.messages, result.tokens, result.memo

    def grown() -> object:
        memo, found = None, []
        for end in (20, 40, 60):
            result = stable.pack_messages(conversations[1][:end], previous=memo)
            memo = result.memo
            found.append(result.messages)
        return found

    return {
        "count": lambda: [tokenizer.count(text) for text in texts],
        "count many": lambda: tokenizer.count_many(texts),
        "count a long text": lambda: (tokenizer.count(long), tokenizer.fits(long, 50), tokenizer.cut(long, 500)),
        "forget": tokenizer.cache_clear,
        "pack messages": lambda: [packed(packer, messages) for messages in conversations],
        "pack copies": lambda: packed(packer, [dict(message) for message in conversations[2]]),
        "stable": grown,
        "pack items": lambda: [item.position for item in packer.pack(items)],
        "pack many": lambda: [[one.position for one in result] for result in packer.pack_many([items, items[:90]])],
        "new items": lambda: [
            one.position for one in packer.pack([ContextItem("summary", t, n) for n, t in enumerate(texts)])
        ],
        "count messages": lambda: count_messages(conversations[3], tokenizer=tokenizer, tools=tools[:5]),
        "tools": lambda: (fit_tools(toolset, 400, query="copper").tools, fit_tools(tools, 300, query="lamp").tools),
        "write": lambda: (serializer.dumps(state), serializer.dumps(loaded)),
        "read": lambda: list(serializer.loads(data).messages),
        "read one": lambda: [loaded.messages[at] for at in (0, 30, -1)],
        "msgpack": lambda: msgpack_encode(document),
        "search": lambda: index.scores("copper river"),
    }


def test_threads_get_what_one_alone_gets(full: bool) -> None:
    shared = works()
    expected = {name: work() for name, work in works().items()}
    start = threading.Barrier(N_THREADS)

    def run(seed: int) -> list[str]:
        draw = random.Random(seed)
        start.wait()
        names = draw.choices(list(shared), k=CALLS * (10 if full else 1))
        return [name for name in names if shared[name]() != expected[name]]

    with ThreadPoolExecutor(N_THREADS) as pool:
        wrong = [name for names in pool.map(run, range(N_THREADS)) for name in names]
    assert wrong == []
