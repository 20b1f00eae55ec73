"""The tools of a stable window: they stand before everything else, so a prompt cache loses all of it when they change."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdall import Tokenizer
from holdall.errors import RequiredOverflowError
from holdall.replay import load_traces
from tests import checker
from tests.test_pack_cases import A, C, R, S, U, size, text
from tests.test_pack_stable import Session

TOKENIZER = Tokenizer("o200k_base")


def tool(n: int, words: int = 60) -> dict[str, Any]:
    """A tool most of which is description."""
    name = f"tool_{n}"
    return {
        "type": "function",
        "function": {"name": name, "description": text(words, n), "parameters": {"type": "object"}},
    }


def names(tools: list[Any] | None) -> set[str]:
    return {one["function"]["name"] for one in tools or []}


def test_every_tool_stays_in_view_where_half_of_the_room_holds_them_shortened() -> None:
    """In full they would take most of the budget; a cut shortens them once, and from then on they stay as they are."""
    tools = [tool(n) for n in range(12)]
    session = Session(1_500)
    messages = [S(), U("Begin.")]
    shown = []
    for n in range(60):
        messages += [A(text(30, n)), U(f"Go on with {text(5, n)}")]
        result = session.send(messages, tools=tools)
        assert names(result.tools) == names(tools)
        shown.append(checker.compact(result.tools))
    assert session.cuts
    assert len(set(shown)) <= 2, "in full until the first cut, then shortened"
    assert session.faults == []


def test_a_call_of_a_tool_that_is_out_brings_it_in_beside_the_others() -> None:
    """Too many for the budget even shortened: the one called is shown from then on, and those before it keep their place."""
    tools = [tool(n) for n in range(60)]
    session = Session(2_000)
    messages = [S(), U("Begin.")]
    for n in range(40):
        messages += [A(text(30, n)), U(f"Go on with {text(5, n)}")]
        result = session.send(messages, tools=tools)
    before = names(result.tools)
    missing = min(names(tools) - before)
    messages += [C("x", name=missing), R("x")]
    result = session.send(messages, tools=tools)
    assert missing in names(result.tools)
    assert len(before - names(result.tools)) <= 1
    after = checker.compact(result.tools)
    messages += [A("Done."), U("And now?")]
    assert checker.compact(session.send(messages, tools=tools).tools) == after
    assert session.faults == []


@settings(max_examples=settings().max_examples // 3)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from([5, 30, 90]), st.booleans()), min_size=20, max_size=50),
    st.sampled_from([700, 1_200, 2_400]),
)
def test_tools_change_only_where_the_request_would_not_fit(steps: list[tuple[int, int, bool]], budget: int) -> None:
    """Whatever is called: while what was sent fits with what is new, the list is the same bytes; every promise holds."""
    tools = [tool(n, 25) for n in range(10)]
    session = Session(budget)
    messages = [S(), U("Begin.")]
    sent: list[Any] = []
    last: list[Any] | None = None
    for n, (which, words, is_call) in enumerate(steps):
        new = [C(f"c{n}", name=f"tool_{which}"), R(f"c{n}", text(words, n))] if is_call else [U(text(words, n))]
        messages += new
        try:
            result = session.send(messages, tools=tools)
        except RequiredOverflowError as error:
            assert error.total > budget
            return
        is_called = is_call and f"tool_{which}" not in names(last)
        if last is not None and not is_called and size(*sent, *new, tools=last) <= budget:
            assert result.tools == last
        sent = [m for n, m in enumerate(result.messages) if not session.quoted or n != result.n_lasting]
        last = result.tools
    assert session.faults == []


@pytest.mark.data
@pytest.mark.parametrize(("budget", "most"), [(4_000, 0.12), (8_000, 0.01)])
def test_recorded_agents_have_the_tool_that_they_call_next(
    budget: int, most: float, recorded: Path, report: Any
) -> None:
    """14 tools of 2k tokens beside a prompt of 1.3k: they rarely change, and nearly every call finds its tool."""
    n_turns = n_changes = n_calls = n_missing = 0
    for trace in load_traces([recorded / "trajectories" / "tau_airline.jsonl"]):
        session = Session(budget)
        last = None
        for end in trace.turns():
            result = session.send(trace.messages[:end], tools=trace.tools, is_checked=False)
            n_turns += 1
            n_changes += last is not None and result.tools != last
            last = result.tools
            calls = next(iter(trace.messages[end : end + 1]), {}).get("tool_calls") or []
            n_calls += len(calls)
            n_missing += sum(call["function"]["name"] not in names(last) for call in calls)
    report(
        f"tau_airline at {budget}: tools changed at {n_changes} of {n_turns} turns, missing for {n_missing} of {n_calls} calls"
    )
    assert n_changes <= most * n_turns
    assert n_missing <= 0.05 * n_calls
