"""Read the messages of a LangGraph checkpoint: MessagePack whose extension types name Python classes.

Nothing is imported or called that the file names: a class is read as its name and its fields, and only messages are taken.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from holdall.errors import DecodeError

MAX_DEPTH: Final = 200
ROLES: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "developer": "developer"}
# Fixed-size values: marker -> struct format.
SCALARS: Final = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
SIZES: Final = {1: ">B", 2: ">H", 4: ">I"}
FIXED_FOREIGN: Final = 0xD4
# First and last marker, what follows, and the bytes its size takes, doubled for each marker after the first; 0: the marker
# holds the size. For ints: what to take off the marker.
SIZED: Final = (
    (0x00, 0x7F, "int", 0),
    (0xE0, 0xFF, "int", 0x100),
    (0x80, 0x8F, "map", 0),
    (0x90, 0x9F, "list", 0),
    (0xA0, 0xBF, "text", 0),
    (0xD9, 0xDB, "text", 1),
    (0xC4, 0xC6, "bytes", 1),
    (0xDC, 0xDD, "list", 2),
    (0xDE, 0xDF, "map", 2),
    (0xC7, 0xC9, "foreign", 1),
    (FIXED_FOREIGN, 0xD8, "foreign", 0),
)
CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}


class Foreign(NamedTuple):
    """A value of an extension type, decoded where it holds MessagePack, raw where not."""

    code: int
    value: Any


class _Reader:
    """MessagePack with foreign extension types; sizes are checked against the bytes that are there."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise DecodeError(f"truncated: {size} bytes wanted (at byte {self.at})", offset=self.at, reason="truncated")
        self.at += size
        return self.data[self.at - size : self.at]

    def size(self, width: int) -> int:
        return int(struct.unpack(SIZES[width], self.take(width))[0])

    def read(self, depth: int = 0) -> Any:
        if depth > MAX_DEPTH:
            raise DecodeError(f"nested too deeply (at byte {self.at})", offset=self.at, reason="nested too deeply")
        mark = self.take(1)[0]
        if mark in CONSTANTS:
            return CONSTANTS[mark]
        if mark in SCALARS:
            return struct.unpack(SCALARS[mark], self.take(struct.calcsize(SCALARS[mark])))[0]
        for first, last, kind, width in SIZED:
            if first <= mark <= last:
                if kind == "int":
                    return mark - width
                size = self.size(width << (mark - first)) if width else mark - first
                return getattr(self, f"_{kind}")(1 << size if first == FIXED_FOREIGN else size, depth)
        raise DecodeError(f"marker {mark:#x} (at byte {self.at - 1})", offset=self.at - 1, reason="unknown marker")

    def _text(self, size: int, _depth: int) -> str:
        return self.take(size).decode("utf-8", "replace")

    def _bytes(self, size: int, _depth: int) -> bytes:
        return self.take(size)

    def _list(self, size: int, depth: int) -> list[Any]:
        return [self.read(depth + 1) for _ in range(size)]

    def _map(self, size: int, depth: int) -> dict[Any, Any]:
        found: dict[Any, Any] = {}
        for _ in range(size):
            key = self.read(depth + 1)
            value = self.read(depth + 1)
            if isinstance(key, (str, int, float, bytes)):  # others cannot be what is looked for here
                found[key] = value
        return found

    def _foreign(self, size: int, depth: int) -> Foreign:
        code = self.take(1)[0]
        data = self.take(size)
        inner = _Reader(data)
        try:
            value = inner.read(depth + 1)
        except DecodeError:
            return Foreign(code, data)
        return Foreign(code, value if inner.at == len(data) else data)


def read_checkpoint(data: bytes) -> list[dict[str, Any]]:
    """Return the messages of the channel `messages` as OpenAI chat messages.

    Raises:
        DecodeError: The bytes are not MessagePack.
    """
    document = _Reader(data).read()
    values = document.get("channel_values") if isinstance(document, Mapping) else None
    channel = values.get("messages") if isinstance(values, Mapping) else None
    found = [_message(value) for value in channel] if isinstance(channel, list) else []
    return [message for message in found if message is not None]


def _message(value: Any) -> dict[str, Any] | None:
    """One message, from the fields of its class or from LangChain's own JSON form of it."""
    fields: Any = value
    if isinstance(value, Foreign):
        parts = value.value
        fields = next((part for part in parts if isinstance(part, Mapping)), None) if isinstance(parts, list) else None
    elif isinstance(value, Mapping) and isinstance(value.get("kwargs"), Mapping):
        fields = value["kwargs"]
    if not isinstance(fields, Mapping):
        return None
    role = ROLES.get(str(fields.get("type")), fields.get("role"))
    if not isinstance(role, str):
        return None
    message: dict[str, Any] = {"role": role, "content": fields.get("content")}
    if isinstance(fields.get("name"), str):
        message["name"] = fields["name"]
    if role == "tool":
        message["tool_call_id"] = str(fields.get("tool_call_id"))
    calls = [call for call in fields.get("tool_calls") or [] if isinstance(call, Mapping)]
    if calls:
        message["tool_calls"] = [
            {
                "id": str(call.get("id")),
                "type": "function",
                "function": {
                    "name": str(call.get("name")),
                    "arguments": json.dumps(call.get("args"), ensure_ascii=False, default=str),
                },
            }
            for call in calls
        ]
    return message
