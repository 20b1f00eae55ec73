"""Writes tests/data: a state as every schema version stored it, in every format. Run once per new version, never again.

python -m tests.make_frozen_states 3
"""

from __future__ import annotations

import sys
from datetime import datetime, timezone
from decimal import Decimal
from pathlib import Path
from uuid import UUID

from holdall._native import msgpack_encode
from holdall.state import Encryption, SessionState, StateSerializer, json_codec, protobuf_codec

DATA = Path(__file__).parent / "data"
SEAL_KEY = bytes(range(32))

MESSAGES = [
    {"role": "user", "content": "Where was I? \0 \ud800 é"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "at step 2"}], "score": float("nan")},
]
RESULTS = {1: {"ok": True, "took": 0.25}, "two": (1, [2, 2**70])}
OWN = {
    "big": 2**64,
    "bytes": b"\x00\xff",
    "when": datetime(2026, 11, 29, 12, 30, 15, 123456, tzinfo=timezone.utc),
    "price": Decimal("1.10"),
    "id": UUID(int=7),
    "set": {"only"},
    1: "int key",
    "zero": -0.0,
    "vector": [n / 3 for n in range(20)],
    "$looks": "like a tag",
}
HEAD = {
    "session_id": "session:é",
    "user_id": "user",
    "summary": "a summary",
    "current_step": 2,
    "active_tools": ["look"],
    "accumulated_cost": Decimal("0.0125"),
    "token_count": 1234,
    "ttl_seconds": 3600,
    "status": "active",
}


def expected(version: int) -> SessionState:
    """The state that each of the files of `version` holds."""
    state = SessionState(**HEAD, metadata=OWN, plan=["look", "answer"] if version > 1 else [])
    state.messages.extend(MESSAGES[:2])
    state.step_results[1] = RESULTS[1]
    state.messages.append(MESSAGES[2])
    state.step_results["two"] = RESULTS["two"]
    return state


def old_document(version: int) -> dict[str, object]:
    """A document as versions 1 and 2 stored it: one record, the messages inside."""
    plan = {"plan": ["look", "answer"]} if version == 2 else {}
    log = {
        "messages": MESSAGES,
        "step_results": [[step, result] for step, result in RESULTS.items()],
        "_order": b"\0\0\1\0\1",
    }
    return {"_version": version, **HEAD, **plan, "context": OWN, **log}


def files(version: int) -> dict[str, bytes]:
    """What stands in tests/data for `version`."""
    made = {}
    for name, dumps in (("msgpack", msgpack_encode), ("json", json_codec.dumps), ("protobuf", protobuf_codec.dumps)):
        if version < 3:
            made[f"v{version}.{name}"] = dumps(old_document(version))
            continue
        serializer = StateSerializer(name, log_format=name)
        state = expected(version)
        snapshot = serializer.snapshot(state)
        made[f"v{version}.{name}"] = serializer.dumps(state)
        made[f"v{version}.head.{name}"] = snapshot.head
        for n, (kind, data) in enumerate(snapshot.append):
            made[f"v{version}.log{n}.{kind}.{name}"] = data
    return made


if __name__ == "__main__":
    DATA.mkdir(exist_ok=True)
    for wanted in map(int, sys.argv[1:]):
        for file, data in files(wanted).items():
            with (DATA / file).open("xb") as out:
                out.write(data)
        if wanted == 3:
            sealed = StateSerializer(compression="zstd", encryption=Encryption({"frozen": SEAL_KEY}, "frozen"))
            (DATA / "v3.zstd.aes").write_bytes(sealed.dumps(expected(3)))
