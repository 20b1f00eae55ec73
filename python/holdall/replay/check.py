"""Whether a request could have been sent: an own check of what strategies give back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdall.replay.ledger import Block
from holdall.replay.request import Request


@dataclass(frozen=True)
class Faults:
    """What is wrong with one request."""

    overflow: bool
    orphans: int
    """Results without their call, and past calls without their results: providers refuse both.

    Those that the recording has itself are not held against a strategy that passes them on.
    """
    missing: int
    """Required messages that are not in: system prompt, last user message, last group."""


def check(request: Request, source: Sequence[Block], sent: Sequence[Block], tokens: int, *, system: bool) -> Faults:
    """Check a request.

    Args:
        request: The turn.
        source: The blocks of the conversation up to here.
        sent: The blocks of the messages that a strategy chose.
        tokens: Tokens of the whole request.
        system: Whether a system prompt that stands apart is as it was.
    """
    missing = _missing(request, source, sent) + (not system)
    alone = _alone(sent)
    if alone:
        alone -= _alone(source)
    return Faults(tokens > request.budget, len(alone), missing)


def _alone(blocks: Sequence[Block]) -> set[tuple[int, str]]:
    """Results without a call before them, and calls that were not answered before the conversation went on."""
    alone: set[tuple[int, str]] = set()
    waiting: dict[str, int] = {}
    for block in blocks:
        shape = block.shape
        if not waiting and not shape.calls and not shape.results:
            continue
        if shape.results:
            alone.update((block.number, result) for result in shape.results if waiting.pop(result, None) is None)
        elif shape.role != "assistant" or (waiting and not shape.calls and not shape.leads):
            alone.update((number, call) for call, number in waiting.items())
            waiting = {}
        waiting.update(dict.fromkeys(shape.calls, block.number))
    return alone


def _missing(request: Request, source: Sequence[Block], sent: Sequence[Block]) -> int:
    """How many of the required messages are not among those sent, in their order.

    Tool results may be shortened, and calls repaired, so these are known by the ids of their calls; the rest must be
    unchanged. They are looked for from the end, since ids and texts repeat.
    """
    missing, at = 0, len(sent)
    for index in sorted(request.required, reverse=True):
        wanted = source[index]
        if wanted.is_blank:
            continue
        place = next((n for n in range(at - 1, -1, -1) if _stands_for(sent[n], wanted)), None)
        if place is None:
            missing += 1
        else:
            at = place
    return missing


def _stands_for(block: Block, wanted: Block) -> bool:
    if block.number == wanted.number:
        return True
    shape = wanted.shape
    if shape.results:
        return set(shape.results) <= set(block.shape.results)
    return bool(shape.calls) and set(shape.calls) <= set(block.shape.calls)
