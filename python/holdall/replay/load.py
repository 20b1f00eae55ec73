"""Read recorded conversations: JSON and JSONL of chat messages, and the SQLite files of agent frameworks."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from holdall._native import ToolSet, _chat_groups, count_messages
from holdall.errors import ArgumentError, DecodeError, MessageError, ToolSchemaError
from holdall.replay.claude_code import is_log, messages_of
from holdall.replay.langgraph import read_checkpoint
from holdall.replay.trace import Trace, questions_of, without_notes

SQLITE_MAGIC: Final = b"SQLite format 3\0"


def load_traces(paths: Iterable[str | Path], *, limit: int | None = None) -> list[Trace]:
    """Read the conversations of files, in order.

    Args:
        paths: JSON (a list of messages, or an object with `messages` and perhaps `system`, `tools`, `questions`), JSONL
            (one such object, or one message, a line), session logs of Claude Code, OpenAI Agents `SQLiteSession` files or LangGraph `SqliteSaver`
            files. SQLite files are opened read-only, and nothing in them is unpickled. "-" is standard input, which SQLite's cannot be.
        limit: At most this many conversations.

    Raises:
        ArgumentError: A file cannot be read, or holds no conversation; the message says which and why.
    """
    if limit is not None and limit < 1:
        raise ArgumentError(f"limit must be at least 1, not {limit}")
    found: list[Trace] = []
    for path in paths:
        for trace in _read(Path(path)):
            found.append(trace)
            if limit is not None and len(found) >= limit:
                return _named_apart(found)
    return _named_apart(found)


def _named_apart(traces: Sequence[Trace]) -> list[Trace]:
    """Conversations of one name in one set get numbers: a report's rows must not fall together."""
    seen: dict[tuple[str, str], int] = {}
    named = []
    for trace in traces:
        key = (trace.source, trace.id)
        seen[key] = seen.get(key, 0) + 1
        named.append(trace if seen[key] == 1 else replace(trace, id=f"{trace.id} #{seen[key]}"))
    return named


def _read(path: Path) -> Iterator[Trace]:
    is_piped = str(path) == "-"
    try:
        data = sys.stdin.buffer.read() if is_piped else path.read_bytes()
    except OSError as error:
        raise ArgumentError(f"cannot read {path}: {error.strerror or error}") from None
    if not data.strip():
        raise ArgumentError(f"{path} is empty; expected JSON, JSONL or SQLite")
    if data.startswith(SQLITE_MAGIC) and is_piped:
        raise ArgumentError("- is SQLite, which can only be read as a file: give its path")
    traces = _sqlite(path) if data.startswith(SQLITE_MAGIC) else _json(Path("stdin") if is_piped else path, data)
    none = True
    for trace in traces:
        none = none and not trace.messages
        yield trace
    if none:
        raise ArgumentError(f"{path} holds no conversation: there is not one message to replay")


def _json(path: Path, data: bytes) -> Iterator[Trace]:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ArgumentError(f"{path} is not UTF-8 text (byte {error.start}); is it JSON, JSONL or SQLite?") from None
    documents = _documents(path, text)
    if is_log(documents):
        yield _trace({"messages": messages_of(documents)}, path.stem, path.stem, str(path))
        return
    if documents and all(isinstance(row, dict) and _messages(row) is None for row in documents):
        documents = [documents]  # one message a line
    for number, document in enumerate(documents):
        row = {"messages": document} if isinstance(document, list) else document
        name = path.stem if len(documents) == 1 else f"{path.stem}[{number}]"
        if not isinstance(row, dict):
            raise ArgumentError(f"{path}: conversation {number} is no object and no list of messages")
        yield _trace(row, name, path.stem, f"{path}: conversation {number}")


def _documents(path: Path, text: str) -> list[Any]:
    try:
        whole = json.loads(text)
    except (ValueError, RecursionError) as error:
        fault = error
    else:
        several = isinstance(whole, list) and any(isinstance(one, dict) and _messages(one) is not None for one in whole)
        return list(whole) if several else [whole]
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    rows: list[Any] = []
    for number, line in lines:
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            if not rows:
                break
            raise ArgumentError(f"{path} line {number} is not JSON: {_reason(error)}") from None
    if not rows:
        raise ArgumentError(f"{path} is not JSON or JSONL: {_reason(fault)}")
    return rows


def _reason(error: BaseException) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _messages(row: dict[str, Any]) -> Any:
    return row.get("messages", row.get("input") if isinstance(row.get("input"), list) else None)


def _trace(row: dict[str, Any], name: str, source: str, where: str) -> Trace:
    messages = _messages(row)
    if messages is None:
        raise ArgumentError(f"{where} has no `messages`")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise ArgumentError(f"{where}: `messages` must be a list of objects")
    tools = row.get("tools") or None
    if tools is not None and not isinstance(tools, list):
        raise ArgumentError(f"{where}: `tools` must be a list")
    sent = [without_notes(message) for message in messages]
    system = row.get("system", row.get("instructions"))
    questions = questions_of(row.get("questions"), messages, where)
    identity = row.get("id")
    named = str(identity) if isinstance(identity, (str, int)) else name
    return _checked(Trace(named, source, sent, system=system, tools=tools, questions=questions), where)


def _checked(trace: Trace, where: str) -> Trace:
    """The trace with its format, which is found by reading every message; system prompt and tools are read too."""
    try:
        form = _chat_groups(list(trace.messages), system=trace.system)["format"]
        count_messages([], system=trace.system, tools=trace.tools, format=form)
        ToolSet(trace.tools or [])
    except (ArgumentError, MessageError, ToolSchemaError) as error:
        raise ArgumentError(f"{where}: {error}") from None
    return replace(trace, format=form)


def _sqlite(path: Path) -> Iterator[Trace]:
    # immutable: not even a journal or shared-memory file is made beside it. A file with a journal of its own is still
    # being written, and has to be read with it.
    busy = any(path.with_name(path.name + end).exists() for end in ("-wal", "-journal"))
    uri = f"{path.resolve().as_uri()}?mode=ro" + ("" if busy else "&immutable=1")
    try:
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as connection:
            tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            if "agent_messages" in tables:
                yield from _agents(path, connection)
            elif "checkpoints" in tables:
                yield from _langgraph(path, connection)
            else:
                raise ArgumentError(f"{path} is no session file of OpenAI Agents or LangGraph (no table of theirs)")
    except sqlite3.Error as error:
        raise ArgumentError(f"{path} cannot be read as SQLite: {error}") from None


def _agents(path: Path, connection: sqlite3.Connection) -> Iterator[Trace]:
    sessions: dict[str, list[Any]] = {}
    for session, text in connection.execute("SELECT session_id, message_data FROM agent_messages ORDER BY id"):
        try:
            item = json.loads(text)
        except (ValueError, TypeError, RecursionError):
            raise ArgumentError(f"{path}: an item of session {session!r} is not JSON") from None
        if isinstance(item, dict):
            sessions.setdefault(str(session), []).append(item)
    for session, items in sessions.items():
        yield _checked(Trace(session, path.stem, items), f"{path}: session {session!r}")


def _langgraph(path: Path, connection: sqlite3.Connection) -> Iterator[Trace]:
    latest = (
        "SELECT thread_id, type, checkpoint FROM checkpoints AS one WHERE checkpoint_ns = '' AND checkpoint_id = "
        "(SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = one.thread_id AND checkpoint_ns = '') "
        "ORDER BY thread_id"
    )
    for thread, kind, data in connection.execute(latest):
        where = f"{path}: thread {thread!r}"
        if kind != "msgpack":
            raise ArgumentError(f"{where} is stored as {kind!r}; only MessagePack is read, and never pickle")
        try:
            messages = read_checkpoint(bytes(data))
        except DecodeError as error:
            raise ArgumentError(f"{where} is not MessagePack: {error}") from None
        if messages:
            yield _checked(Trace(str(thread), path.stem, messages), where)
