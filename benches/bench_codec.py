"""What a user gains: the time to write and read a whole session state, against the codecs that others use.

    python -m benches.bench_codec

States of about 20 KB, 200 KB and 2 MB of seeded conversation. Every peer's round trip is checked before it is timed. The
figures are the best of several runs of many calls; `ratio` is ours by the peer's, in the same run.
"""

from __future__ import annotations

import json
import random
import timeit
from typing import Any

import msgpack
import msgspec
import orjson
import ormsgpack

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
AIM = {"encode": 0.75, "decode": 0.65}


class Function(msgspec.Struct):
    name: str
    arguments: str


class Call(msgspec.Struct):
    id: str
    type: str
    function: Function


class Message(msgspec.Struct, omit_defaults=True):
    role: str
    content: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None


class Typed(msgspec.Struct):
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
    step_results: list[tuple[int, dict[str, Any]]]
    _order: list[int] | None = None


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


def best(call: Any, *, seconds: float = 0.25) -> float:
    """Microseconds of one call."""
    timer = timeit.Timer(call)
    n, took = timer.autorange()
    n = max(1, int(n * 0.02 / took)) if took > 0 else n
    repeats = max(5, int(seconds / max(took / n * n, 1e-6) / 10))
    return min(timer.repeat(min(repeats, 15), n)) / n * 1e6


def peers(document: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Encoder and decoder of each, on the same dicts; msgspec on Structs too."""
    typed_encoder, typed_decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(Typed)
    encoder, decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder()
    typed = typed_decoder.decode(encoder.encode(document))
    made = {
        "msgspec, dicts": (lambda: encoder.encode(document), decoder.decode),
        "msgspec, Structs": (lambda: typed_encoder.encode(typed), typed_decoder.decode),
        "ormsgpack": (lambda: ormsgpack.packb(document), ormsgpack.unpackb),
        "msgpack": (lambda: msgpack.packb(document), msgpack.unpackb),
        "orjson": (lambda: orjson.dumps(document), orjson.loads),
    }
    for name, (encode, decode) in made.items():
        back = decode(encode())
        assert (msgspec.to_builtins(back, order=None) if name == "msgspec, Structs" else back) is not None
        if name != "msgspec, Structs":
            assert back == document, name
        else:
            assert back == typed
    return made


def rows(sizes: dict[str, int] | None = None) -> list[dict[str, Any]]:
    """What was timed, ours and the peer's microseconds, their ratio, and what the design asks of it."""
    found = []
    for label, size in (sizes or SIZES).items():
        state, serializer = a_state(size), StateSerializer()
        data = serializer.dumps(state)
        assert serializer.loads(data) == state
        document = msgpack_decode(data)
        assert msgpack_encode(document) == data == msgpack.packb(document)
        assert msgpack_decode(data) == msgpack.unpackb(data)
        times = {
            ("dicts", "encode"): best(lambda document=document: msgpack_encode(document)),
            ("dicts", "decode"): best(lambda data=data: msgpack_decode(data)),
            ("SessionState", "encode"): best(lambda serializer=serializer, state=state: serializer.dumps(state)),
            ("SessionState", "decode"): best(lambda serializer=serializer, data=data: serializer.loads(data)),
        }
        for peer, (encode, decode) in peers(document).items():
            theirs = encode()
            timed = {"encode": best(encode), "decode": best(lambda decode=decode, theirs=theirs: decode(theirs))}
            for (ours, way), took in times.items():
                judged = peer == "msgspec, dicts" and ours == "dicts"
                found.append(
                    {
                        "what": f"{way} {label}, {ours} against {peer}",
                        "ours": round(took, 1),
                        "peer": round(timed[way], 1),
                        "ratio": round(took / timed[way], 2),
                        "must": MUST if judged else None,
                        "aim": AIM[way] if judged else None,
                    }
                )
    return found


def main() -> None:
    """Print the rows."""
    print(f"{'what':60} {'ours us':>10} {'peer us':>10} {'ratio':>6} {'must':>5} {'aim':>5}")
    for row in rows():
        must, aim = row["must"] or "", row["aim"] or ""
        print(f"{row['what']:60} {row['ours']:10} {row['peer']:10} {row['ratio']:6} {must:>5} {aim:>5}")


if __name__ == "__main__":
    main()
