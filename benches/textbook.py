"""The textbook rule in plain Python: required first, then by priority per token; the peer that the packer is timed against.

It is the rule as a careful reader would write it for items whose token counts are known, without the usual faults: recency
by turn, ties by position, order of the conversation on the way out, an error where the required items do not fit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

WEIGHTS = {
    "system_prompt": 1.0,
    "current_turn": 0.95,
    "tool_schemas": 0.9,
    "recent_turns": 0.8,
    "rag_documents": 0.7,
    "tool_results": 0.6,
    "summary": 0.5,
    "older_history": 0.3,
}
REQUIRED_WEIGHT = 0.9
UNKNOWN_WEIGHT = 0.1


@dataclass(slots=True)
class Item:
    """One candidate."""

    type: str
    content: str
    position: int
    turn_index: int = 0
    relevance_score: float = 1.0
    tokens: int = 0
    renditions: Sequence[tuple[str, int, float]] = ()  # text, tokens, fidelity; larger ones first


class OverflowingError(Exception):
    """The required items do not fit."""


def pack(items: Sequence[Item], budget: int, *, rate: float = 2.0) -> list[tuple[Item, str]]:
    """Choose items within the budget; each with the text to send, in conversation order."""
    newest = max((item.turn_index for item in items), default=0) or 1
    required: list[tuple[int, Item, str]] = []
    optional: list[tuple[float, int, Item]] = []
    used = 0
    order = sorted(range(len(items)), key=lambda n: items[n].position)
    for place, n in enumerate(order):
        item = items[n]
        if not item.content.strip():
            continue
        weight = WEIGHTS.get(item.type, UNKNOWN_WEIGHT)
        if weight >= REQUIRED_WEIGHT:
            required.append((place, item, item.content))
            used += item.tokens
            continue
        recency = math.exp(-rate * (newest - item.turn_index) / newest)
        priority = weight * recency * item.relevance_score
        optional.append((-priority / max(item.tokens, 1), place, item))
    if used > budget:
        raise OverflowingError(f"the required items need {used} of {budget} tokens")
    optional.sort(key=lambda row: row[:2])
    chosen = required
    left = budget - used
    for _, place, item in optional:
        if item.tokens <= left:
            chosen.append((place, item, item.content))
            left -= item.tokens
            continue
        for text, tokens, _ in item.renditions:
            if tokens <= left and tokens < item.tokens:
                chosen.append((place, item, text))
                left -= tokens
                break
    chosen.sort(key=lambda row: row[0])
    return [(item, text) for _, item, text in chosen]
