"""Read the session logs of Claude Code: one event a line, of which some are parts of Anthropic messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

# Thinking of earlier turns is not sent again, and what the program noted for itself never was.
UNSENT: Final = frozenset({"thinking", "redacted_thinking"})


def is_log(rows: Sequence[Any]) -> bool:
    """Whether these lines are such a log."""
    return any(isinstance(row, dict) and "sessionId" in row and isinstance(row.get("message"), dict) for row in rows)


def messages_of(rows: Sequence[Any]) -> list[dict[str, Any]]:
    """The messages of the main conversation, as they were sent.

    A message of the model's is logged block by block under one id, sometimes with a result in between; results of calls that
    were made together are logged one by one, and are sent as one message.
    """
    found: list[dict[str, Any]] = []
    said: dict[str, Any] | None = None
    named: Any = None
    for row in rows:
        message = row.get("message") if isinstance(row, dict) else None
        if not isinstance(message, dict) or row.get("type") not in ("user", "assistant") or row.get("isSidechain"):
            continue
        blocks = _blocks(message.get("content"))
        if not blocks:
            continue
        if message.get("role") == "assistant":
            if said is not None and named is not None and message.get("id") == named:
                said["content"].extend(blocks)
                continue
            said, named = {"role": "assistant", "content": blocks}, message.get("id")
            found.append(said)
        elif found and _is_results(blocks) and _is_results(found[-1]["content"]):
            found[-1]["content"].extend(blocks)
        else:
            found.append({"role": "user", "content": blocks})
    return found


def _blocks(content: Any) -> list[Any]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content.strip() else []
    if not isinstance(content, list):
        return []
    return [block for block in content if isinstance(block, dict) and block.get("type") not in UNSENT]


def _is_results(blocks: Sequence[Any]) -> bool:
    return all(block.get("type") == "tool_result" for block in blocks)
