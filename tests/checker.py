"""An independent check of a packed window, on the rendered JSON alone, with tiktoken as the only counter.

It shares no code with the packer: the counting rule is written again from its description, pairs are found again, and what
must be kept is decided again. It reads OpenAI chat messages, the format of the recorded conversations.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Message = Mapping[str, Any]
Count = Callable[[str], int]

PER_MESSAGE, PER_NAME, PER_REQUEST, PER_CALL = 3, 1, 3, 3
TOOLS_ONCE, PER_TOOL = 12, 7
# What is left of a required tool result at the least: the cut's own mark and a little of both ends.
SMALLEST_RESULT = 48


def compact(value: object) -> str:
    """JSON as it is sent: no spaces, non-ASCII as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def message_tokens(message: Message, count: Count) -> int:
    """Tokens of one OpenAI chat message: 3, every string value, 1 for a name, 3 for each tool call."""
    total = PER_MESSAGE
    for key, value in message.items():
        if key == "tool_calls" and value:
            for call in value:
                total += PER_CALL + sum(count(text) for text in _strings(call))
        elif isinstance(value, str):
            total += count(value)
        elif isinstance(value, (list, dict)):
            total += sum(count(text) for text in _strings(value))
        if key == "name":
            total += PER_NAME
    return total


def _strings(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for inner in value.values() for text in _strings(inner)]
    if isinstance(value, (list, tuple)):
        return [text for inner in value for text in _strings(inner)]
    return []


def tools_tokens(tools: Sequence[Any] | None, count: Count) -> int:
    """Tokens of a list of tools: 12 once, and for each 7 and its compact JSON."""
    if not tools:
        return 0
    return TOOLS_ONCE + sum(PER_TOOL + count(compact(tool)) for tool in tools)


def request_tokens(messages: Sequence[Message], tools: Sequence[Any] | None, count: Count) -> int:
    """Tokens of the whole request."""
    return PER_REQUEST + sum(message_tokens(m, count) for m in messages) + tools_tokens(tools, count)


def is_empty(message: Message) -> bool:
    """Whether a message says nothing: no calls, and no text but white space. An empty tool result is an answer all the same."""
    if message.get("tool_calls") or message["role"] == "tool":
        return False
    content = message.get("content")
    if isinstance(content, list):
        return not any(part.get("type") not in ("text", "refusal") or _strings(part) for part in content)
    return not (content or "").strip()


@dataclass
class Blocks:
    """Which message belongs to which block of a call and its results."""

    groups: list[list[int]]
    orphans: set[int]  # results without a call
    unanswered: dict[int, set[str]]  # past assistant message -> call ids nobody answered
    open_tail: int | None  # index of the assistant message whose calls are still open


def blocks(messages: Sequence[Message]) -> Blocks:
    """Find pairs within their own block: ids repeat across turns, so a result belongs to the nearest call before it."""
    groups: list[list[int]] = []
    orphans: set[int] = set()
    unanswered: dict[int, set[str]] = {}
    waiting: dict[str, int] = {}
    at: int | None = None
    for index, message in enumerate(messages):
        if message["role"] == "tool":
            call = message.get("tool_call_id")
            if call in waiting:
                groups[waiting.pop(call)].append(index)
            else:
                orphans.add(index)
            continue
        if waiting and at is not None:
            unanswered[at] = set(waiting)
        waiting, at = {}, None
        groups.append([index])
        if message.get("tool_calls"):
            at = index
            waiting = {call["id"]: len(groups) - 1 for call in message["tool_calls"]}
    return Blocks(groups, orphans, unanswered, at if waiting else None)


def pair_faults(messages: Sequence[Message]) -> list[str]:
    """P3: no result without its call before it, no past call without its results."""
    found = blocks(messages)
    faults = [f"P3: message {index} is a result without its call" for index in sorted(found.orphans)]
    faults += [
        f"P3: message {index} has calls without results: {sorted(ids)}" for index, ids in found.unanswered.items()
    ]
    return faults


def cleaned(messages: Sequence[Message]) -> list[int] | None:
    """What a valid input keeps when everything fits: all but empty messages and orphans. None: it needs repair first."""
    found = blocks(messages)
    if found.unanswered:
        return None
    return [i for i, m in enumerate(messages) if i not in found.orphans and not is_empty(m)]


def required(messages: Sequence[Message]) -> list[int]:
    """System prompt, current turn: the last user message and the last group."""
    found = blocks(messages)
    must: set[int] = set()
    for index, message in enumerate(messages):
        if message["role"] not in ("system", "developer"):
            break
        must.add(index)
    users = [i for i, m in enumerate(messages) if m["role"] == "user" and not is_empty(m)]
    must.update(users[-1:])
    living = [g for g in found.groups if not (len(g) == 1 and is_empty(messages[g[0]]))]
    if living:
        must.update(living[-1])
    return sorted(i for i in must if not is_empty(messages[i]))


def smallest_required(messages: Sequence[Message], used_tools: int, count: Count) -> int:
    """Tokens of the required messages with their tool results at their smallest, and of the tools they call."""
    total = PER_REQUEST + used_tools
    for index in required(messages):
        message = messages[index]
        full = message_tokens(message, count)
        if message["role"] == "tool":
            content = sum(count(text) for text in _strings(message.get("content")))
            full += min(content, SMALLEST_RESULT) - content
        total += full
    return total


def align(
    source: Sequence[Message], packed: Sequence[Message], claimed: Sequence[int]
) -> tuple[list[tuple[int, bool]], list[str]]:
    """Check that the packed messages are the claimed source messages, forwards only (P4); and whether each was changed.

    A packed message is a source message or a rendition of it: the same but for its content, or its set of calls. Ids and
    texts repeat, so which message a rendition is of cannot be found from outside: the report says it, and is held to it.
    """
    found: list[tuple[int, bool]] = []
    if len(claimed) != len(packed):
        return found, [f"P4: {len(packed)} messages are packed, but {len(claimed)} are said to be kept"]
    for place, (index, message) in enumerate(zip(claimed, packed, strict=True)):
        if found and index <= found[-1][0]:
            return found, [f"P4: message {index} stands after message {found[-1][0]}"]
        if source[index] != message and not _rendition(source[index], message):
            return found, [f"P4: packed message {place} ({message['role']}) is no form of message {index}"]
        found.append((index, source[index] != message))
    return found, []


def without_extras(packed: Sequence[Message], result: Any) -> list[Message]:
    """The packed messages but for a summary of what was dropped, which must be a system message after the prompts."""
    if not any(kept.source == "summary" for kept in result.kept):
        return list(packed)
    at = next(
        (i for i, m in enumerate(packed) if m["role"] == "system" and "Summary of the conv" in m["content"]), None
    )
    return [message for i, message in enumerate(packed) if i != at]


def quote_faults(
    source: Sequence[Message], packed: Sequence[Message], recalled: Sequence[int]
) -> tuple[list[Message], list[str]]:
    """The packed messages but for the one that quotes others; and what is wrong with it.

    It stands right before the last user message, and holds the text of every quoted message whole, in their order.
    """
    if not recalled:
        return list(packed), []
    users = [i for i, m in enumerate(packed) if m["role"] == "user"]
    if len(users) < 2 or users[-1] != users[-2] + 1:
        return list(packed), ["quotes: no user message before the last one holds them"]
    block = packed[users[-2]]["content"]
    faults, at = [], 0
    for index in recalled:
        content = source[index]["content"]
        text = content if isinstance(content, str) else "\n".join(part["text"] for part in content)
        found = block.find(text, at)
        if found < 0:
            faults.append(f"quotes: message {index} is not quoted whole, or not in its place")
        at = max(at, found)
    return [m for i, m in enumerate(packed) if i != users[-2]], faults


def _rendition(whole: Message, shown: Message) -> bool:
    if set(shown) - set(whole):
        return False
    same = all(whole[k] == v for k, v in shown.items() if k not in ("content", "tool_calls"))
    calls = shown.get("tool_calls") or []
    return same and all(call in (whole.get("tool_calls") or []) for call in calls)


def check(
    messages: Sequence[Message], tools: Sequence[Any] | None, result: Any, *, budget: int, count: Count
) -> list[str]:
    """Every violation of P1-P5, P7, P10 and P11 in one packed window, as sentences; empty when it is right."""
    packed: list[Message] = result.messages
    tokens = request_tokens(packed, result.tools, count)
    faults = pair_faults(packed)
    if tokens > budget:
        faults.append(f"P1: {tokens} tokens, budget {budget}")
    if tokens != result.tokens:
        faults.append(f"P1: recounted {tokens}, the result says {result.tokens}")
    if result.budget != budget:
        faults.append(f"P1: the result says budget {result.budget}, it is {budget}")
    shown = {k.index: k.rendition for k in result.kept if k.source == "message"}
    recalled = sorted(index for index, rendition in shown.items() if rendition == "recalled")
    packed, misquoted = quote_faults(messages, without_extras(packed, result), recalled)
    matched, misplaced = align(messages, packed, sorted(shown.keys() - set(recalled)))
    faults += misquoted + misplaced
    kept = {index for index, _ in matched}
    faults += [
        f"P2: required message {i} ({messages[i]['role']}) is missing" for i in required(messages) if i not in kept
    ]
    for (index, changed), message in zip(matched, packed, strict=False):
        if is_empty(message):
            faults.append(f"P10: message {index} is empty")
        if changed and message_tokens(message, count) >= message_tokens(messages[index], count):
            faults.append(f"P11: the rendition of message {index} is not smaller")
        if changed and messages[index]["role"] in ("system", "user") and index in required(messages):
            faults.append(f"P2: required message {index} ({messages[index]['role']}) was shortened")
    whole = cleaned(messages)
    if whole is not None:
        fitting = [messages[i] for i in whole]
        if request_tokens(fitting, tools, count) <= budget and (
            packed != fitting or (tools or []) != (result.tools or [])
        ):
            faults.append("P5: everything fits, but the output differs from the input")
    faults += _accounts(messages, tools, result, kept | set(recalled))
    return faults


def _accounts(messages: Sequence[Message], tools: Sequence[Any] | None, result: Any, kept: set[int]) -> list[str]:
    faults = []
    for source, size in (("message", len(messages)), ("tool", len(tools or []))):
        said = [k.index for k in result.kept if k.source == source]
        gone = [d.index for d in result.dropped if d.source == source]
        if sorted(said + gone) != list(range(size)):
            faults.append(f"P7: kept and dropped {source}s are not the input, each once")
        if source == "message" and set(said) != kept:
            faults.append(f"P7: kept says {sorted(set(said) ^ kept)[:5]} otherwise than the messages do")
    faults += [f"P7: {d.source} {d.index} was dropped without a reason" for d in result.dropped if not d.reason]
    return faults
