"""What a user gains: the time to write and read a whole session state, against the codecs that others use.

    python -m benches.bench_codec

States of about 20 KB, 200 KB and 2 MB of seeded conversation. Every round trip is checked before it is timed. All codecs
take turns in short bursts; the figures are medians over the rounds, and `ratio` is ours by the peer's.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import msgpack
import msgspec
import orjson
import ormsgpack

from benches.figures import Median
from holdall._native import msgpack_decode, msgpack_encode
from holdall.state import SessionState, StateSerializer

SIZES = {"20 KB": 20_000, "200 KB": 200_000, "2 MB": 2_000_000}
WORDS = [
    "the",
    "agent",
    "reads",
    "a",
    "file",
    "and",
    "finds",
    "that",
    "build",
    "fails",
    "because",
    "of",
    "missing",
    "symbol",
    "in",
    "the",
    "linker",
    "step",
]
# The rows of the design: on dicts, against msgspec on dicts.
MUST = 1.0
JUDGED = ("dicts", "SessionState", "SessionState, log read")
AIM = {"encode": 0.75, "decode": 0.65}
# A session state against the same as Structs of msgspec: at, or ahead.
TYPED_AIM = 1.0
ROUNDS = 30
BURST_BYTES = 200_000

Timed = Callable[[], object]


# Structs as who knows msgspec writes them for these messages: out of the collector's sight, what is absent told from what is None.
class Function(msgspec.Struct, gc=False):
    name: str
    arguments: str


class Call(msgspec.Struct, gc=False):
    id: str
    type: str
    function: Function


class Message(msgspec.Struct, gc=False, omit_defaults=True):
    role: str
    content: str | msgspec.UnsetType | None = msgspec.UNSET
    tool_calls: list[Call] | msgspec.UnsetType = msgspec.UNSET
    tool_call_id: str | msgspec.UnsetType = msgspec.UNSET


class Result(msgspec.Struct, gc=False):
    ok: bool
    took_ms: float
    tokens: int


class Typed(msgspec.Struct, gc=False, omit_defaults=True):
    _version: int
    session_id: str
    user_id: str
    summary: str | None
    current_step: int
    plan: list[str]
    active_tools: list[str]
    accumulated_cost: float
    token_count: int
    ttl_seconds: int
    status: str
    metadata: dict[str, Any]
    version: int
    messages: list[Message]
    step_results: list[tuple[int, Result]]
    _order: bytes | None = None


def a_state(size: int, seed: int = 7) -> SessionState:
    """A session of about `size` bytes: rounds of question, tool call, tool result and answer."""
    rng = random.Random(seed)

    def text(n: int) -> str:
        words = rng.choices(WORDS, k=n)
        if rng.random() < 0.1:  # a tenth of the texts is not ASCII
            words[n // 2] = rng.choice(["naïve", "“quoted”", "日本語", "\U0001f600"])
        return " ".join(words)

    state = SessionState("session-0001", "user-42", plan=["look", "fix", "test"], active_tools=["read_file", "run"])
    state.metadata = {"model": "a-model", "tags": ["x", "y"], "budget": 128_000, "temperature": 0.2}
    state.summary, state.token_count, state.accumulated_cost = text(40), size // 4, 0.125
    written, step = 0, 0
    while written < size:
        step += 1
        round_ = [
            {"role": "user", "content": text(rng.randrange(5, 60))},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {
                        "id": f"call_{step:06}",
                        "type": "function",
                        "function": {"name": "read_file", "arguments": json.dumps({"path": text(3), "line": step})},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": f"call_{step:06}", "content": text(rng.randrange(20, 200))},
            {"role": "assistant", "content": text(rng.randrange(20, 120))},
        ]
        state.messages.extend(round_)
        state.step_results[step] = {"ok": True, "took_ms": rng.random() * 100, "tokens": rng.randrange(4000)}
        written += len(msgpack.packb(round_))
    state.current_step = step
    return state


def load_and_read(serializer: StateSerializer, data: bytes) -> object:
    """Load a state and ask for its log, all of which is then decoded."""
    state = serializer.loads(data)
    return state.messages, state.step_results


def peers(document: dict[str, Any]) -> dict[str, tuple[Timed, Timed]]:
    """Encoder and decoder of each, on the same dicts, msgspec on Structs too; each has just come back equal.

    Structs, too, are written as that document and read from it: whoever has the one can read the other.
    """
    encoder, decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder()
    typed_decoder = msgspec.msgpack.Decoder(Typed)
    typed = typed_decoder.decode(encoder.encode(document))
    assert msgpack.unpackb(encoder.encode(typed)) == document
    codecs: dict[str, tuple[Any, Callable[[Any], bytes], Callable[[bytes], Any]]] = {
        "msgspec, dicts": (document, encoder.encode, decoder.decode),
        "msgspec, Structs": (typed, encoder.encode, typed_decoder.decode),
        "ormsgpack": (document, ormsgpack.packb, ormsgpack.unpackb),
        "msgpack": (document, msgpack.packb, msgpack.unpackb),
        # The same plain document, as JSON has it: without `_order`, which is bytes.
        "orjson": ({**document, "_order": None}, orjson.dumps, orjson.loads),
    }
    made = {}
    for name, (value, encode, decode) in codecs.items():
        data = encode(value)
        assert decode(data) == value, name
        made[name] = (partial(encode, value), partial(decode, data))
    return made


def in_turn(calls: dict[str, Timed], n: int) -> dict[str, float]:
    """Seconds of one call of each: the median over bursts of `n` calls, one of each call in every round.

    Time of this thread on a processor, so that what else runs on the machine counts as little as it can.
    """
    bursts: dict[str, list[int]] = {name: [] for name in calls}
    for _ in range(ROUNDS):
        for name, call in calls.items():
            call()
            began = time.thread_time_ns()
            for _ in range(n):
                call()
            bursts[name].append(time.thread_time_ns() - began)
    return {name: Median(time / n / 1e9 for time in times) for name, times in bursts.items()}


def rows(sizes: dict[str, int] | None = None) -> Iterator[dict[str, Any]]:
    """Yield what was timed, ours and the peer's seconds, their ratio, and what the design asks of it."""
    for label, size in (sizes or SIZES).items():
        state, serializer = a_state(size), StateSerializer()
        data = serializer.dumps(state)
        assert serializer.loads(data) == state
        # Dicts as anybody makes them: those that we read share their keys.
        document = msgpack.unpackb(data)
        assert document == msgpack_decode(data)
        assert msgpack_encode(document) == data == msgpack.packb(document)
        untouched, read = serializer.loads(data), serializer.loads(data)
        assert list(read.messages) == document["messages"]
        for loaded in (untouched, read):
            assert serializer.dumps(loaded) == data

        # A state that was built here, one that was loaded and whose log was not asked for, and one whose log was.
        ours: dict[str, tuple[Timed, Timed]] = {
            "dicts": (partial(msgpack_encode, document), partial(msgpack_decode, data)),
            "SessionState": (partial(serializer.dumps, state), partial(serializer.loads, data)),
            "SessionState, loaded": (partial(serializer.dumps, untouched), partial(serializer.loads, data)),
            "SessionState, log read": (partial(serializer.dumps, read), partial(load_and_read, serializer, data)),
        }
        theirs = peers(document)
        for at, way in enumerate(("encode", "decode")):
            calls = {name: pair[at] for name, pair in (ours | theirs).items()}
            took = in_turn(calls, max(1, BURST_BYTES // size))
            for what, peer in product(ours, theirs):
                if (way, what) == ("decode", "SessionState, loaded"):
                    continue
                is_judged = what in JUDGED and peer == "msgspec, dicts"
                is_typed = what in JUDGED and peer == "msgspec, Structs"
                yield {
                    "what": f"{way} {label}, {what} against {peer}",
                    "ours": took[what],
                    "peer": took[peer],
                    "ratio": took[what] / took[peer],
                    "lower": True,
                    "must": MUST if is_judged else None,
                    "aim": AIM[way] if is_judged else TYPED_AIM if is_typed else None,
                }


def main() -> None:
    """Print the rows."""
    print(f"{'what':60} {'ours us':>10} {'peer us':>10} {'ratio':>6} {'must':>5} {'aim':>5}")
    for row in rows():
        ours, peer = row["ours"] * 1e6, row["peer"] * 1e6
        must, aim = row["must"] or "", row["aim"] or ""
        print(f"{row['what']:60} {ours:10.1f} {peer:10.1f} {row['ratio']:6.2f} {must:>5} {aim:>5}")


if __name__ == "__main__":
    main()
