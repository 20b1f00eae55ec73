"""The recorded conversations and states, read as they were recorded."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdall import _native, count_messages

from .chat_oracle import Oracle
from .checker import pair_faults, request_tokens

pytestmark = pytest.mark.data
TRAJECTORIES = ["claude_code", "livemcp", "pi_coding_agent", "swe_agent", "tau_airline"]


@pytest.fixture(scope="module")
def tok(tiktoken_encoding):
    encoding = tiktoken_encoding("o200k_base")
    seen: dict[str, int] = {}

    def count(text: str) -> int:
        if text not in seen:
            seen[text] = len(encoding.encode_ordinary(text))
        return seen[text]

    return count


def rows(path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def check(messages: list[Any], fmt: str) -> list[Any]:
    """Everything is accounted for, what is whole is the same object; returns what can be sent."""
    found = _native._chat_groups(messages)
    assert found["format"] == fmt
    kept = [i for g in found["groups"] for i in g["indices"]]
    gone = [i for i, at, _ in found["findings"] if at is None]
    assert sorted(kept + gone) == list(range(len(messages)))
    repaired = {i for i, at, _ in found["findings"] if at is not None}
    sent = _native._chat_sendable(messages)
    for index, shown in zip(sorted(kept), sent, strict=True):
        assert (shown is messages[index]) == (index not in repaired)
    assert _native._chat_groups(sent, format=fmt)["findings"] == []
    return sent


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_trajectories_are_grouped_and_counted(recorded, tok, name):
    """Pairs are whole, as the checker finds them; the count is the checker's and the oracle's."""
    n_findings = 0
    for row in rows(recorded / "trajectories" / f"{name}.jsonl"):
        messages = row["messages"]
        sent = check(messages, "openai")
        assert pair_faults(sent) == []
        counted = count_messages(messages, tools=row["tools"] or None)
        assert counted == request_tokens(messages, row["tools"] or None, tok)
        assert count_messages(messages) == Oracle(tok, "openai").request(messages)
        n_findings += len(_native._chat_groups(messages)["findings"])
    assert n_findings == {"pi_coding_agent": 18}.get(name, 0)


@pytest.mark.parametrize("name", TRAJECTORIES)
def test_every_prefix_of_a_trajectory_is_grouped(recorded, name, full):
    """At each assistant turn: the calls of the last group are open or answered, all others answered."""
    for row in rows(recorded / "trajectories" / f"{name}.jsonl"):
        messages = row["messages"]
        ends = [i for i, m in enumerate(messages) if m["role"] == "assistant"]
        for end in ends if full else ends[:: max(len(ends) // 5, 1)]:
            for cut in (end, end + 1):
                found = _native._chat_groups(messages[:cut])
                assert pair_faults(_native._chat_sendable(messages[:cut])) == []
                open_groups = [g for g in found["groups"] if g["is_open"]]
                assert all(g is found["groups"][-1] for g in open_groups)
                assert bool(open_groups) == bool(cut == end + 1 and messages[end].get("tool_calls"))


@pytest.mark.parametrize("name", ["short", "tool_heavy"])
def test_raw_blocks_of_a_coding_agent_are_turns(recorded, tok, name):
    """One block a line, several lines a turn: pairs are whole and the count is the oracle's."""
    lines = rows(recorded / "state" / "claude_code_jsonl" / f"{name}.jsonl")
    messages = [line["message"] for line in lines if "message" in line]
    sent = check(messages, "anthropic")
    uses = [b["id"] for m in sent if isinstance(m["content"], list) for b in m["content"] if b["type"] == "tool_use"]
    results = [
        b["tool_use_id"]
        for m in sent
        if isinstance(m["content"], list)
        for b in m["content"]
        if b["type"] == "tool_result"
    ]
    assert uses
    assert sorted(uses) == sorted(results)
    assert count_messages(messages) == Oracle(tok, "anthropic").request(messages)


def test_messages_of_an_agent_file_are_chat(recorded, tok):
    for path in sorted((recorded / "state" / "letta").glob("*.af")):
        state = json.loads(path.read_text())
        state = json.loads(state) if isinstance(state, str) else state
        for agent in state["agents"]:
            messages = agent["messages"]
            calls = any(m.get("tool_calls") for m in messages)
            found = _native._chat_groups(messages)
            assert found["format"] == "openai"
            assert found["findings"] == []
            assert any(g["kind"] == "turn" for g in found["groups"]) == calls
            assert count_messages(messages) == Oracle(tok, "openai").request(messages)


def test_a_session_file_with_its_own_blocks_is_refused_by_name(recorded):
    """pi's own format is none of the three: its tool results name a role that there is not, and the error says so."""
    lines = rows(recorded / "state" / "pi_jsonl" / "large-session.first60.jsonl")
    messages = [line["message"] for line in lines if line["type"] == "message"]
    with pytest.raises(ValueError, match='message 4, role: unknown role "toolResult"'):
        count_messages(messages)
