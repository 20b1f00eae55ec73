"""The rows of a pack's report."""

from __future__ import annotations

from typing import NamedTuple


class Kept(NamedTuple):
    """An input that is in the window.

    Attributes:
        source: "item", "message", "tool", "document", "summary" or "system".
        index: Position in that input.
        rendition: "full", "shortened", "summary", "repaired" (without calls that were never answered), "recalled" (quoted
            whole before the current turn, not in its place), or the name of a rendition that the caller gave.
        tokens: What it costs in the window.
    """

    source: str
    index: int  # type: ignore[assignment]  # the name that reports use; it hides tuple.index
    rendition: str
    tokens: int


class Dropped(NamedTuple):
    """An input that is not in the window.

    Attributes:
        source: "item", "message", "tool", "document", "summary" or "system".
        index: Position in that input.
        tokens: What it would have cost in full.
        reason: One of these, and they are stable: "empty" (no text and nothing else worth sending), "orphan_result" (a
            tool result without a call before it), "duplicate_result" (its call was answered before),
            "dangling_reasoning" (nothing follows it), "unanswered_call" (a call without a result, though the conversation
            went on), "over_budget" (others were worth more), "too_large" (no form of it fits, even alone),
            "tool_dropped" (it belongs to a call of a tool that found no place), "before_user" (`start_on_user`),
            "summarized" (a summary took its place).
    """

    source: str
    index: int  # type: ignore[assignment]  # the name that reports use; it hides tuple.index
    tokens: int
    reason: str


class Calibration(NamedTuple):
    """What `calibrate` found, and the packer counts by from then on.

    Attributes:
        margin: Share by which a bill exceeds the count, at least 0; the budget is divided by 1 + margin.
        per_request: Tokens once for each request, with what is billed but not seen.
        worst: The largest share by which one of the bills exceeds the fit; keep so much more in reserve.
        samples: How many pairs it is fitted to.
    """

    margin: float
    per_request: int
    worst: float
    samples: int
