"""Was what every caller was told consistent with one order of the writes? Checked in O(n log n).

A successful compare-and-swap takes version v to v + 1, so the versions themselves give the order, and what is left is to see
that no version was given twice, none is missing, real time is respected, and reads and conflicts name what was there.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from typing import Literal, NamedTuple

from holdall.stores.base import Version


class Call(NamedTuple):
    """One call as its caller saw it.

    Attributes:
        process: Who called.
        operation: "read", or "write" for a compare-and-swap that creates, replaces the head, or both.
        key: Of which record.
        expected: The version a write named, None for a record that must not exist.
        version: What came back: the version read or written, or the actual one of a conflict; None for none or unknown.
        body: What a write sent, or what a read got.
        began: A clock that all callers share, before the call.
        ended: The same clock, after it.
        outcome: "unknown" is a write whose reply was lost.
    """

    process: int
    operation: Literal["read", "write"]
    key: str
    expected: Version | None
    version: Version | None
    body: bytes
    began: float
    ended: float
    outcome: Literal["ok", "conflict", "unknown"]


class Broken(AssertionError):  # noqa: N818 - a verdict on a history, not an error of holdall
    """The history has no order that explains it; the message names the calls."""


def check_history(calls: Iterable[Call]) -> None:
    """Check the calls of every record on its own.

    The records must be created once and never deleted while the history is recorded (one generation each).

    Raises:
        Broken: No order of the writes explains what the callers were told.
    """
    by_key: defaultdict[str, list[Call]] = defaultdict(list)
    for call in calls:
        by_key[call.key].append(call)
    for of_one in by_key.values():
        _check_record(of_one)


def _check_record(calls: list[Call]) -> None:
    wrote = [call for call in calls if call.operation == "write" and call.outcome == "ok"]
    unknown = [call for call in calls if call.outcome == "unknown"]
    generations = {call.version.generation for call in calls if call.version is not None}
    if len(generations) > 1:
        raise Broken(f"several generations {generations} of {calls[0].key!r}")
    by_number: dict[int, Call] = {}
    for call in wrote:
        number = _number(call)
        if number in by_number:
            raise Broken(f"version {number} was given twice: {by_number[number]} and {call}")
        if number != 1 + (0 if call.expected is None else call.expected.number):
            raise Broken(f"a write did not follow the version it named: {call}")
        by_number[number] = call
    possible = defaultdict(set)
    for call in unknown:
        possible[1 + (0 if call.expected is None else call.expected.number)].add(call.body)
    for number in range(1, max(by_number, default=0)):
        if number not in by_number and not possible[number]:
            raise Broken(f"nobody wrote version {number}: an acknowledged write was lost, or made up")
    for call in calls:
        if call.operation == "read" and call.version is not None:
            _check_body(call, by_number, possible)
    _check_real_time(calls, by_number)


def _number(call: Call) -> int:
    return 0 if call.version is None else call.version.number


def _check_body(read: Call, by_number: dict[int, Call], possible: dict[int, set[bytes]]) -> None:
    number = _number(read)
    known = by_number.get(number)
    if known is None and number not in possible:
        raise Broken(f"a version that nobody wrote was read: {read}")
    if read.body not in ({known.body} if known is not None else possible[number]):
        raise Broken(f"the body read is not the one that made version {number}: {read}")
    if known is not None and read.ended < known.began:
        raise Broken(f"version {number} was read before its write began: {read}")


def _check_real_time(calls: list[Call], by_number: dict[int, Call]) -> None:
    """What ended before a call began happened before it: the versions known then are a floor for the call."""
    answered = [call for call in calls if call.outcome != "unknown"]
    ended: list[tuple[float, int]] = []
    floor = 0
    for call in sorted(answered, key=lambda call: call.began):
        while ended and ended[0][0] < call.began:
            floor = max(floor, heapq.heappop(ended)[1])
        number = _number(call)
        is_write = call.operation == "write" and call.outcome == "ok"
        if number < floor + is_write:
            raise Broken(f"version {floor} was known before this call began: {call}")
        heapq.heappush(ended, (call.ended, number))
    for call in calls:
        if call.outcome == "conflict":
            _check_conflict(call, by_number)


def _check_conflict(call: Call, by_number: dict[int, Call]) -> None:
    if call.version == call.expected:
        raise Broken(f"a conflict names the version that the write named: {call}")
    known = by_number.get(_number(call))
    if known is not None and known.began > call.ended:
        raise Broken(f"a conflict names a version from the future: {call}")
