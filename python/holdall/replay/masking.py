"""Observation masking: old tool results give way to a line that says what stood there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdall.replay.request import Request, Window
from holdall.replay.trace import Message

# Groups at the end whose results stay whole (arXiv 2508.21433 keeps the latest 10 turns).
WHOLE_GROUPS: Final = 10
LOW_WATER: Final = 0.6


class ObservationMasking:
    """Old tool results are replaced by a line with their size; calls, reasoning and what people said stay.

    Nothing is masked while everything fits. When it does not, the oldest are masked until 0.6 of the budget is in use, so
    that the prefix changes once in many turns; what is masked stays masked. Where masking is not enough, the oldest groups
    leave, by the same rule.
    """

    def __init__(self) -> None:
        self._masked: dict[int, tuple[Message, Message, int]] = {}

    def __call__(self, request: Request) -> Window:
        """Build the window."""
        masked, start = request.memory.get("masked", 0), request.memory.get("start", 0)
        if self._tokens(request, masked, start) > request.budget:
            room = int(request.budget * LOW_WATER)
            borders = [group[0] for group in request.groups]
            whole = borders[-WHOLE_GROUPS] if len(borders) >= WHOLE_GROUPS else borders[0]
            masked = self._until(request, (masked, whole), start, room)
            if self._tokens(request, masked, start) > request.budget:
                start = self._later(request, masked, start, room)
                masked = self._until(request, (masked, borders[-1]), start, room)
            request.memory["masked"], request.memory["start"] = masked, start
        messages, kept = [], {}
        for n in self._live(request, start):
            message, _ = self._shown(request, n, masked)
            messages.append(message)
            kept[n] = "full" if message is request.messages[n] else "masked"
        return Window(messages, request.system, request.tools, kept)

    def _later(self, request: Request, masked: int, start: int, room: int) -> int:
        """The first group that stays, so that the request is small enough; at the latest the last group."""
        used = self._tokens(request, masked, start)
        for group in request.groups:
            border = group[0]
            if border <= start:
                continue
            used -= sum(self._shown(request, n, masked)[1] for n in range(start, border) if n not in request.required)
            start = border
            if used <= room:
                break
        return start

    def _until(self, request: Request, span: tuple[int, int], start: int, room: int) -> int:
        """Mask from the one end of the span until the request is small enough, at most to the other."""
        masked, end = span
        used = self._tokens(request, masked, start)
        live = set(self._live(request, start))
        for border in (group[0] for group in request.groups):
            if border <= masked:
                continue
            if border > end or used <= room:
                break
            for n in range(masked, border):
                if n in live:
                    used += self._shown(request, n, border)[1] - request.tokens[n]
            masked = border
        return masked

    def _tokens(self, request: Request, masked: int, start: int) -> int:
        return request.base + sum(self._shown(request, n, masked)[1] for n in self._live(request, start))

    @staticmethod
    def _live(request: Request, start: int) -> list[int]:
        return sorted(request.required.union(range(start, len(request.messages))))

    def _shown(self, request: Request, index: int, masked: int) -> tuple[Message, int]:
        message, tokens = request.messages[index], request.tokens[index]
        if index >= masked or not request.shapes[index].results or index in request.required:
            return message, tokens
        known = self._masked.get(id(message))
        if known is None or known[0] is not message:
            short = mask(message, tokens)
            size = request.count(short)
            known = (message, short, size) if size < tokens else (message, message, tokens)
            self._masked[id(message)] = known
        return known[1], known[2]


def mask(message: Message, tokens: int) -> Message:
    """A message with its tool results replaced by a line."""
    note = f"[earlier tool output of {tokens:,} tokens left out]"
    if "output" in message:
        return {**message, "output": note}
    content = message.get("content")
    if isinstance(content, list):
        return {**message, "content": [_mask_block(block, note) for block in content]}
    return {**message, "content": note}


def _mask_block(block: Any, note: str) -> Any:
    if isinstance(block, Mapping) and str(block.get("type")).endswith("tool_result"):
        return {**block, "content": note}
    return block
