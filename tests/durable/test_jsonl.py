"""Sessions out as lines of JSON and in again, equal."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import holdall
from holdall.cli.main import main
from holdall.durable.jsonl import export_session, import_session, read_session
from holdall.durable.session_store import SessionStore
from holdall.durable.thread import ConversationThread
from holdall.errors import ConflictError, DecodeError, HoldallError, NewerStateError, NotFoundError
from holdall.stores.memory import MemoryStore
from tests.state_values import TEXT, VALUES, same


def said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


async def lines_of(store: SessionStore, session_id: str) -> list[str]:
    return [line async for line in export_session(store, session_id)]


MESSAGES = st.lists(st.dictionaries(TEXT, VALUES, max_size=3), max_size=4)


@given(messages=MESSAGES, results=st.dictionaries(st.integers(0, 9), VALUES, max_size=3), metadata=VALUES)
def test_what_goes_out_comes_in(messages: Any, results: Any, metadata: Any) -> None:
    kept = {step: result for step, result in results.items() if step < len(messages)}

    async def there_and_back() -> holdall.SessionState:
        state = holdall.SessionState(session_id="s", user_id="u", metadata={"m": metadata})
        for at, message in enumerate(messages):
            state.messages.append(message)
            if at in kept:
                state.step_results[at] = kept[at]
        async with holdall.open("memory:") as here, holdall.open("memory:") as there:
            await here.save(state)
            lines = await lines_of(here, "s")
            assert all(line.endswith("\n") and line.count("\n") == 1 for line in lines)
            await import_session(there, lines)
            return await there.load("s")

    after = asyncio.run(there_and_back())
    assert same(messages, list(after.messages), read_only=True)
    assert same(dict(sorted(kept.items())), dict(after.step_results), read_only=True)
    assert same(metadata, after.metadata["m"])


async def test_between_stores(store: SessionStore) -> None:
    name = f"j-{os.urandom(4).hex()}"
    state = holdall.SessionState(session_id=name, user_id="u", summary="short")
    state.messages.append(said("a"))
    state.step_results["x"] = b"\x00\xff"
    state.messages.append(said("b\u2028c"))
    await store.save(state)
    lines = await lines_of(store, name)
    assert [json.loads(line).get("kind") for line in lines] == [None, "message", "step_result", "message"]
    with pytest.raises(ConflictError):
        await import_session(store, lines)
    twin = await import_session(store, "".join(lines).encode().split(b"\n"), session_id=f"{name}-2", user_id="other")
    loaded = await store.load(f"{name}-2")
    assert loaded == twin
    assert (loaded.user_id, list(loaded.messages), loaded.step_results["x"]) == (
        "other",
        list(state.messages),
        b"\x00\xff",
    )
    with pytest.raises(NotFoundError):
        await lines_of(store, "nobody")


async def test_a_thread_goes_out_with_all_it_sees(store: SessionStore) -> None:
    name = f"j-{os.urandom(4).hex()}"
    state = holdall.SessionState(session_id=name, user_id="u")
    state.messages.append(said("a"))
    await store.save(state)
    fork = await ConversationThread(store, name).fork(metadata={"why": "try"})
    await fork.append(said("b"))
    back = read_session(await lines_of(store, fork.session_id))
    assert [message["content"] for message in back.messages] == ["a", "b"]
    assert back.metadata == {"why": "try"}


async def test_a_thread_that_is_written_meanwhile_goes_out_as_it_was_at_one_version() -> None:
    """Its messages and its step results are of one reading."""
    store = SessionStore(MemoryStore())
    root = holdall.SessionState(session_id="root", user_id="u")
    await store.save(root)
    fork = await ConversationThread(store, "root").fork(session_id="fork")
    read, n_reads = store.store.read, 0

    async def written_meanwhile(key: str, **args: Any) -> Any:
        nonlocal n_reads
        record = await read(key, **args)
        if key == "fork" and not args.get("log_from"):
            n_reads += 1
            state = store.restore(record)
            state.messages.append(said(f"m{n_reads}"))
            state.step_results[n_reads] = n_reads
            await store.save(state)
        return record

    store.store.read = written_meanwhile  # type: ignore[method-assign]
    back = read_session(await lines_of(store, fork.session_id))
    assert len(back.messages) == len(back.step_results)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ([], "no line"),
        (["\n", ""], "no line"),
        (["[]"], "JSON|document|map|unknown"),
        (["{"], "JSON|at byte|unknown"),
        (["HEAD", "7"], "line 2"),
        (["HEAD", "{"], "line 2"),
        (["HEAD", '{"kind": "tool", "_version": 3, "value": {}}'], "line 2.*'tool'"),
        (["HEAD", "[" * 100_000], "line 2"),
    ],
)
async def test_lines_that_are_no_session(lines: list[str], what: str) -> None:
    head = holdall.StateSerializer("json").head(holdall.SessionState(session_id="s", user_id="u")).decode()
    with pytest.raises(DecodeError, match=what):
        read_session([head if line == "HEAD" else line for line in lines])


async def test_a_newer_line_is_refused() -> None:
    head = holdall.StateSerializer("json").head(holdall.SessionState(session_id="s", user_id="u")).decode()
    with pytest.raises(NewerStateError):
        read_session([head.replace('"_version":3', '"_version":99')])
    with pytest.raises(HoldallError):
        read_session([head, '{"kind": "message", "_version": 99, "value": {}}'])


def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url, file = f"sqlite:///{tmp_path}/a.db", tmp_path / "session.jsonl"

    async def make() -> None:
        async with holdall.open(url) as store:
            state = holdall.SessionState(session_id="s-1", user_id="u-1")
            state.messages.append(said("hello"))
            await store.save(state)
            root = ConversationThread(store, "s-1")
            await (await root.fork(session_id="s-1-a")).fork(session_id="s-1-b")

    asyncio.run(make())
    assert main(["sessions", "export", url, "s-1", "--out", str(file)]) == 0
    assert main(["sessions", "export", url, "s-1"]) == 0
    assert capsys.readouterr().out.endswith(file.read_text())
    assert main(["sessions", "import", url, str(file)]) == 1
    assert "s-1" in capsys.readouterr().err
    assert main(["sessions", "import", url, str(file), "--as", "s-2", "--user", "u-2"]) == 0
    assert "s-2" in capsys.readouterr().out
    assert main(["sessions", "import", url, str(file), "--as", "s-3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"session_id": "s-3", "messages": 1, "step_results": 0}
    (tmp_path / "bad.jsonl").write_text("nonsense\n")
    assert main(["sessions", "import", url, str(tmp_path / "bad.jsonl")]) == 2
    assert main(["sessions", "import", url, str(tmp_path / "none.jsonl")]) == 2
    assert main(["sessions", "export", url, "nobody"]) == 1
    capsys.readouterr()
    assert main(["sessions", "show", url, "s-1", "--tree"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.split()[0:2] for line in shown] == [["s-1", "active,"], ["└─", "s-1-a"], ["└─", "s-1-b"]]
    assert main(["sessions", "show", url, "s-1", "--tree", "--json"]) == 0
    tree = json.loads(capsys.readouterr().out)
    assert tree["children"][0]["children"][0]["session_id"] == "s-1-b"
