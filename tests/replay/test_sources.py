"""What replay reads: recorded conversations in each format, and every bad file as one clear line."""

from __future__ import annotations

import json
import pickle
import re
import sqlite3
from pathlib import Path
from typing import Any

import msgpack
import pytest

from holdall.errors import ArgumentError, DecodeError
from holdall.replay import load_traces, replay
from holdall.replay.langgraph import read_checkpoint
from tests.replay.conversations import agent, as_anthropic, as_responses, call, result, says, user

CHAT = agent(2)


def written(folder: Path, text: str | bytes, name: str = "input.json") -> Path:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps(CHAT), id="a list of messages"),
        pytest.param(json.dumps({"messages": CHAT}), id="an object"),
        pytest.param(json.dumps([{"messages": CHAT}]), id="a list of conversations"),
        pytest.param("\n".join(map(json.dumps, CHAT)) + "\n", id="a message a line"),
        pytest.param(json.dumps({"messages": CHAT}) + "\n\n", id="a conversation a line"),
        pytest.param("\ufeff" + json.dumps(CHAT, indent=2), id="a byte order mark"),
    ],
)
def test_a_conversation_is_read_from(text: str, tmp_path: Path) -> None:
    (trace,) = load_traces([written(tmp_path, text)])
    assert trace.messages == CHAT
    assert (trace.id, trace.source, trace.format) == ("input", "input", "openai")


def test_formats_are_found_from_the_messages(tmp_path: Path) -> None:
    system, messages = as_anthropic(CHAT)
    rows = [{"system": system, "messages": messages}, {"input": as_responses(CHAT), "instructions": "x"}]
    one, other = load_traces([written(tmp_path, json.dumps(rows))])
    assert (one.format, one.system, one.id) == ("anthropic", system, "input[0]")
    assert (other.format, other.system) == ("responses", "x")


def test_a_request_stands_before_each_stretch_of_output_in_every_format(tmp_path: Path) -> None:
    system, messages = as_anthropic(CHAT)
    rows = [{"messages": CHAT}, {"system": system, "messages": messages}, {"input": as_responses(CHAT)}]
    chat, anthropic, responses = load_traces([written(tmp_path, json.dumps(rows))])
    assert chat.turns() == [2, 4, 6]
    assert anthropic.turns() == [1, 3, 5]
    assert responses.turns() == [2, 4, 6]


def test_a_conversation_that_waits_for_an_answer_ends_with_a_request(tmp_path: Path) -> None:
    (trace,) = load_traces([written(tmp_path, json.dumps([user("a"), says("b"), user("c")]))])
    assert trace.turns() == [1, 3]


def test_what_a_recorder_notes_beside_a_message_is_not_sent(tmp_path: Path) -> None:
    noted = [{**message, "id": str(n), "timestamp": "2026", "session": 1} for n, message in enumerate(CHAT)]
    questions = [{"question": "why?", "evidence_ids": ["3", 5], "category": "x"}, {"question": "?", "evidence_ids": []}]
    (trace,) = load_traces([written(tmp_path, json.dumps({"id": "k", "messages": noted, "questions": questions}))])
    assert trace.messages == CHAT
    (question,) = trace.questions
    assert (question.text, question.evidence, question.category, trace.id) == ("why?", {3, 5}, "x", "k")


def test_limit_and_names(tmp_path: Path) -> None:
    path = written(tmp_path, json.dumps([{"id": "a", "messages": CHAT}] * 3))
    assert [trace.id for trace in load_traces([path, path])] == ["a", "a #2", "a #3", "a #4", "a #5", "a #6"]
    assert len(load_traces([path, path], limit=4)) == 4
    with pytest.raises(ArgumentError, match="limit"):
        load_traces([path], limit=0)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param("", "is empty; expected JSON, JSONL or SQLite", id="empty"),
        pytest.param("{", "is not JSON", id="half"),
        pytest.param('{"messages": []}\n{', "line 2 is not JSON", id="a bad line"),
        pytest.param("[" * 100_000, "nested too deeply", id="deep"),
        pytest.param(b"\xff\xfe\x00", "is not UTF-8", id="binary"),
        pytest.param("3", "is no object", id="a number"),
        pytest.param('{"messages": 3}', "must be a list", id="messages no list"),
        pytest.param('{"messages": [3]}', "must be a list of objects", id="a message no object"),
        pytest.param('{"messages": [{"role": "user"}], "tools": 3}', "`tools` must be a list", id="tools no list"),
        pytest.param('{"messages": [{"role": 3, "content": "x"}]}', "conversation 0", id="a role no text"),
        pytest.param('{"messages": [], "system": 3}', "conversation 0: system", id="a system prompt no text"),
        pytest.param('{"messages": [], "tools": [3]}', "conversation 0", id="a tool no object"),
        pytest.param('{"messages": [], "questions": 3}', "`questions`", id="questions no list"),
        pytest.param(
            '{"messages": [], "questions": [{"question": "x", "evidence_ids": ["y"]}]}', "'y'", id="no such id"
        ),
        pytest.param(
            '{"messages": [], "questions": [{"question": "x", "evidence_ids": [[]]}]}', "no message", id="odd id"
        ),
        pytest.param("[]", "holds no conversation", id="an empty list"),
        pytest.param("[]\n[]", "holds no conversation", id="two empty lists"),
        pytest.param(b"SQLite format 3\0nonsense", "cannot be read as SQLite", id="broken SQLite"),
    ],
)
def test_a_bad_file_is_one_clear_line(text: str | bytes, said: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    try:
        traces = load_traces([path])
    except ArgumentError as error:
        assert str(path) in str(error)
        assert "\n" not in str(error)
        assert re.search(said, str(error)), str(error)
    else:
        assert all(not trace.messages for trace in traces)


def test_a_missing_file_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"cannot read .*: No such file"):
        load_traces([tmp_path / "no.json"])


@pytest.mark.data
def test_sessions_of_openai_agents_are_read(recorded: Path) -> None:
    for age in ("old", "new"):
        one, other = load_traces([recorded / "state" / f"peer_sqlite_{age}" / "openai_agents_session.sqlite"])
        assert one.format == "responses" or other.format == "responses"
        assert len(one.messages) + len(other.messages) == 28
        assert one.messages[0]["content"].startswith("Hi there! I need to change")


@pytest.mark.data
def test_checkpoints_of_langgraph_are_read(recorded: Path) -> None:
    for age in ("old", "new"):
        traces = load_traces([recorded / "state" / f"peer_sqlite_{age}" / "langgraph_checkpoints.sqlite"])
        assert traces
        for trace in traces:
            assert trace.format == "openai"
            assert trace.messages[0]["role"] == "system"
            assert {message["role"] for message in trace.messages} <= {"system", "user", "assistant", "tool"}
            assert trace.messages[1]["content"].startswith("Hi")


@pytest.mark.data
def test_reading_a_session_file_leaves_nothing_beside_it(recorded: Path, tmp_path: Path) -> None:
    path = written(tmp_path, (recorded / "state/peer_sqlite_new/openai_agents_session.sqlite").read_bytes(), "s.sqlite")
    before = path.read_bytes()
    load_traces([path])
    assert [one.name for one in tmp_path.iterdir()] == ["s.sqlite"]
    assert path.read_bytes() == before


def checkpoint_file(folder: Path, kind: str, data: bytes) -> Path:
    path = folder / "graph.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute(
            "CREATE TABLE checkpoints (thread_id, checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata)"
        )
        connection.execute("INSERT INTO checkpoints VALUES ('t', '', '1', NULL, ?, ?, NULL)", (kind, data))
    connection.close()
    return path


def langchain(kind: str, /, **fields: Any) -> msgpack.ExtType:
    data = ["langchain_core.messages", kind, fields, "model_validate_json"]
    return msgpack.ExtType(5, msgpack.packb(data))


def test_calls_of_a_checkpoint_become_calls(tmp_path: Path) -> None:
    calls = [{"name": "look", "args": {"q": "ü"}, "id": "c1", "type": "tool_call"}]
    messages = [
        langchain("HumanMessage", type="human", content="x" * 70_000, name="Ada"),
        langchain("AIMessage", type="ai", content="", tool_calls=calls),
        langchain("ToolMessage", type="tool", content="found", tool_call_id="c1"),
        "not a message",
        {"kwargs": {"type": "ai", "content": "done"}},
    ]
    document = {"v": 4, "odd": [1.5, -3, 2**40, None, True, b"x", {}], "channel_values": {"messages": messages}}
    (trace,) = load_traces([checkpoint_file(tmp_path, "msgpack", msgpack.packb(document))])
    assert trace.messages == [
        {"role": "user", "content": "x" * 70_000, "name": "Ada"},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"q": "ü"}'}}],
        },
        {"role": "tool", "content": "found", "tool_call_id": "c1"},
        {"role": "assistant", "content": "done"},
    ]


def test_a_log_of_claude_code_becomes_the_messages_that_were_sent(tmp_path: Path) -> None:
    def row(kind: str, content: Any, one: str | None = None, **more: Any) -> dict[str, Any]:
        return {"type": kind, "sessionId": "s", "message": {"role": kind, "id": one, "content": content}, **more}

    def use(one: str) -> dict[str, Any]:
        return {"type": "tool_use", "id": one, "name": "Bash", "input": {}}

    def answer(one: str) -> dict[str, Any]:
        return {"type": "tool_result", "tool_use_id": one, "content": "ok"}

    rows = [
        {"type": "file-history-snapshot", "messageId": "x"},
        row("user", "mend it"),
        row("assistant", [{"type": "thinking", "thinking": "hm", "signature": "s"}], "m1"),
        row("assistant", [{"type": "text", "text": "I look."}], "m1"),
        row("assistant", [use("a")], "m1"),
        row("user", [answer("a")]),
        row("assistant", [use("b")], "m1"),
        row("user", [answer("b")]),
        row("assistant", [use("x")], "m9", isSidechain=True),
        {"type": "progress", "sessionId": "s"},
        row("assistant", [{"type": "text", "text": "Done."}], "m2"),
        row("user", " "),
    ]
    (trace,) = load_traces([written(tmp_path, "\n".join(map(json.dumps, rows)), "log.jsonl")])
    assert (trace.format, trace.id) == ("anthropic", "log")
    assert trace.messages == [
        {"role": "user", "content": [{"type": "text", "text": "mend it"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "I look."}, use("a"), use("b")]},
        {"role": "user", "content": [answer("a"), answer("b")]},
        {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
    ]


@pytest.mark.data
def test_recorded_logs_of_claude_code_are_valid_conversations(recorded: Path) -> None:
    for name in ("short", "tool_heavy"):
        (trace,) = load_traces([recorded / "state" / "claude_code_jsonl" / f"{name}.jsonl"])
        (figures,) = replay([trace], budgets=[50_000], strategies="full").figures
        assert (trace.format, figures.invalid) == ("anthropic", 0)
        assert figures.requests >= 2


class Bomb:
    def __reduce__(self) -> Any:
        return (pytest.fail, ("unpickled",))


def test_pickle_is_refused_and_never_loaded(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="never pickle"):
        load_traces([checkpoint_file(tmp_path, "pickle", pickle.dumps(Bomb()))])


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xdf\xff\xff\xff\xff", id="four billion keys"),
        pytest.param(b"\xdd\xff\xff\xff\xff", id="four billion values"),
        pytest.param(b"\xdb\xff\xff\xff\xffx", id="four billion bytes"),
        pytest.param(b"\x91" * 5_000, id="nested"),
        pytest.param(b"\xc1", id="the marker that is never used"),
    ],
)
def test_hostile_checkpoints_end_in_an_error(data: bytes) -> None:
    with pytest.raises(DecodeError):
        read_checkpoint(data)


def test_a_database_of_another_kind_is_one_clear_line(tmp_path: Path) -> None:
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE x (y)")
    connection.close()
    with pytest.raises(ArgumentError, match="no session file"):
        load_traces([path])


@pytest.mark.data
def test_every_recorded_set_is_read(recorded: Path) -> None:
    counts = {
        "trajectories/claude_code": 8, "trajectories/livemcp": 22, "trajectories/pi_coding_agent": 1,
        "trajectories/swe_agent": 4, "trajectories/tau_airline": 16, "recall/beam_100k": 4, "recall/locomo10_NC": 7,
        "recall/qmsum": 18,
    }  # fmt: skip
    for name, count in counts.items():
        traces = load_traces([recorded / f"{name}.jsonl"])
        assert len(traces) == count, name
        assert all((trace.format == "openai" and trace.turns()) or trace.questions for trace in traces)


def test_messages_of_a_trace_may_call_and_answer_in_parallel(tmp_path: Path) -> None:
    messages = [user("a"), call("f", "1", "2"), result("2", "x"), result("1", "y"), says("z")]
    (trace,) = load_traces([written(tmp_path, json.dumps(messages))])
    assert trace.turns() == [1, 4]
