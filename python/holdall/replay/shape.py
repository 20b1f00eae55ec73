"""What role a message plays and which calls and results it holds, in each of the three formats.

Written apart from the packer's own reading of messages: replay judges the packer too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

SYSTEM: Final = frozenset({"system", "developer"})


class Shape(NamedTuple):
    """What a message is.

    Attributes:
        role: "system", "user", "assistant" or "result".
        calls: Ids of the calls it makes, in order.
        results: Ids of the calls it answers, in order.
        leads: Whether it is refused without what follows it, as reasoning items are.
    """

    role: str
    calls: tuple[str, ...] = ()
    results: tuple[str, ...] = ()
    leads: bool = False


def shape_of(message: Mapping[str, Any]) -> Shape:
    """Read the shape of an OpenAI chat message, a Responses item or an Anthropic message."""
    kind = message.get("type")
    role = message.get("role")
    if isinstance(kind, str) and (role is None or kind.endswith(("_call", "_call_output"))):
        if kind.endswith("_call_output"):
            return Shape("result", (), _ids([message.get("call_id")]))
        # Built-in calls (web search, file search) are answered within their own item.
        return Shape(
            "assistant", _ids([message.get("call_id")]) if kind.endswith("_call") else (), leads=kind == "reasoning"
        )
    if role == "tool":
        return Shape("result", (), _ids([message.get("tool_call_id")]))
    if role == "function":
        return Shape("result")
    if role in SYSTEM:
        return Shape("system")
    blocks = _blocks(message.get("content"))
    calls = [call.get("id") for call in _blocks(message.get("tool_calls"))]
    calls += [block.get("id") for block in blocks if str(block.get("type")).endswith("tool_use")]
    results = [block.get("tool_use_id") for block in blocks if str(block.get("type")).endswith("tool_result")]
    if role == "assistant":
        answered = set(_ids(results))  # server tools: the call and its result stand in one message
        return Shape("assistant", tuple(call for call in _ids(calls) if call not in answered))
    return Shape("result" if results else "user", (), _ids(results))


def is_output(message: Mapping[str, Any]) -> bool:
    """Whether a model made it."""
    return shape_of(message).role == "assistant"


def groups(shapes: Sequence[Shape]) -> list[list[int]]:
    """What lives or dies together, in order: a message with calls and all its results, a reasoning item and what follows.

    Ids repeat across turns, so a result belongs to the nearest call before it that still waits. A result without one is a
    group of its own.
    """
    found: list[list[int]] = []
    waiting: dict[str, list[int]] = {}
    for index, shape in enumerate(shapes):
        if shape.results:
            homes = [waiting.pop(result) for result in shape.results if result in waiting]
            if homes:
                homes.sort(key=min)
                homes[0].append(index)
                # One message may answer calls of several Responses items: they can only be kept together.
                for home in homes[1:]:
                    if home is not homes[0]:
                        homes[0].extend(home)
                        home.clear()
                homes[0].sort()
                continue
        elif shape.role != "assistant":
            waiting = {}
        if index and shapes[index - 1].leads and shape.role == "assistant":
            next(group for group in reversed(found) if index - 1 in group).append(index)
        else:
            found.append([index])
        if shape.calls:
            home = next(group for group in reversed(found) if index in group)
            waiting.update(dict.fromkeys(shape.calls, home))
    return [group for group in found if group]


def text_of(message: Mapping[str, Any]) -> str:
    """What a message says: its texts, the arguments of its calls, its results."""
    found: list[str] = []
    _texts(message.get("content"), found)
    _texts(message.get("output"), found)
    _texts(message.get("arguments"), found)
    for call in _blocks(message.get("tool_calls")):
        function = call.get("function")
        if isinstance(function, Mapping):
            _texts(function.get("name"), found)
            _texts(function.get("arguments"), found)
    return "\n".join(found)


def _texts(value: Any, found: list[str]) -> None:
    if isinstance(value, str):
        found.append(value)
    elif isinstance(value, Mapping):
        for key in ("text", "content", "input", "name"):
            _texts(value.get(key), found)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            _texts(inner, found)


def _blocks(value: Any) -> list[Mapping[str, Any]]:
    return [block for block in value if isinstance(block, Mapping)] if isinstance(value, (list, tuple)) else []


def _ids(values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(str(value) for value in values if value is not None)
