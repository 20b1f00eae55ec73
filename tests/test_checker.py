"""The checker itself: each kind of violation, planted in a right window, is found."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from tests import checker


class Row(NamedTuple):
    source: str
    index: int
    reason: str = ""
    rendition: str = "full"


class Result(NamedTuple):
    messages: list[dict[str, Any]]
    tokens: int
    budget: int
    kept: list[Row]
    dropped: list[Row]
    tools: list[Any] | None = None


def count(text: str) -> int:
    return len(text.split())


def call(*ids: str) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "look", "arguments": "{}"}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answer(call_id: str, text: str = "found it") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


SOURCE: list[dict[str, Any]] = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "old words " * 30},
    call("a", "b"),
    answer("a"),
    answer("b"),
    {"role": "assistant", "content": "so it is"},
    {"role": "user", "content": "and now"},
]
BUDGET = 80


def packed(keep: list[int], **changes: Any) -> Result:
    """A window that keeps these messages and accounts for all."""
    messages = [SOURCE[i] for i in keep]
    rows = [Row("message", i) for i in keep]
    gone = [Row("message", i, "over_budget") for i in range(len(SOURCE)) if i not in keep]
    tokens = checker.request_tokens(messages, None, count)
    return Result(messages, tokens, BUDGET, rows, gone)._replace(**changes)


def faults(result: Result) -> list[str]:
    return checker.check(SOURCE, None, result, budget=BUDGET, count=count)


def test_a_right_window_has_no_fault() -> None:
    assert faults(packed([0, 2, 3, 4, 5, 6])) == []


@pytest.mark.parametrize(
    ("result", "promise"),
    [
        pytest.param(packed([0, 1, 2, 3, 4, 5, 6]), "P1", id="over the budget"),
        pytest.param(packed([0, 5, 6], tokens=5), "P1", id="tokens miscounted"),
        pytest.param(packed([0, 5, 6], budget=90), "P1", id="another budget"),
        pytest.param(packed([5, 6]), "P2", id="system prompt gone"),
        pytest.param(packed([0, 2, 3, 4, 5]), "P2", id="current turn gone"),
        pytest.param(packed([0, 3, 4, 6]), "P3", id="results without their call"),
        pytest.param(packed([0, 2, 3, 6]), "P3", id="call without one of its results"),
        pytest.param(packed([0, 5, 2, 3, 4, 6]), "P4", id="order changed"),
        pytest.param(packed([0, 5, 6], dropped=[]), "P7", id="dropped without a word"),
        pytest.param(packed([0, 5, 6], dropped=[Row("message", i) for i in (1, 2, 3, 4)]), "P7", id="no reason"),
    ],
)
def test_a_planted_violation_is_found(result: Result, promise: str) -> None:
    assert any(fault.startswith(promise) for fault in faults(result)), faults(result)


def test_a_fitting_input_that_was_cut_is_found() -> None:
    """P5."""
    result = packed([0, 5, 6], budget=500)
    assert "P5" in "".join(checker.check(SOURCE, None, result, budget=500, count=count))


def test_a_rendition_that_grew_is_found() -> None:
    """P11."""
    result = packed([0, 2, 3, 4, 5, 6])
    longer = [dict(m, content="found it and more of it") if m["role"] == "tool" else m for m in result.messages]
    assert "P11" in "".join(faults(result._replace(messages=longer)))


def test_an_empty_message_is_found() -> None:
    """P10."""
    result = packed([0, 2, 3, 4, 5, 6])
    blank = [dict(m, content=" \n") if m.get("content") == "so it is" else m for m in result.messages]
    assert "P10" in "".join(faults(result._replace(messages=blank)))


def test_ids_that_repeat_belong_to_the_nearest_call() -> None:
    found = checker.blocks([call("a"), answer("a"), call("a"), answer("a"), answer("a")])
    assert found.groups == [[0, 1], [2, 3]]
    assert found.orphans == {4}
