"""`holdall sessions` and `holdall migrate`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

import holdall
from holdall import SessionState
from holdall.cli import main


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A SQLite file with three sessions, one of them with text that would drive a terminal."""
    url = f"sqlite:///{tmp_path}/s.db"
    with holdall.open_sync(url) as store:
        for session_id, user, status in (
            ("a", "ann", "active"),
            ("b", "ann", "done"),
            ("\x1b[2Jc\nd", "bob", "active"),
        ):
            state = SessionState(session_id=session_id, user_id=user, status=status, summary="secret summary")
            state.messages.append({"role": "user", "content": "secret \x1b]0;owned\x07 text"})
            state.step_results["s"] = "secret result"
            store.save(state)
    return url


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(args)
    out, err = capsys.readouterr()
    return code, out, err


def test_ls_lists_and_escapes(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line per session, no content, no control characters."""
    code, out, _ = run(capsys, "sessions", "ls", url)
    assert code == 0
    assert len(out.splitlines()) == 4
    assert "secret" not in out
    assert "\x1b" not in out
    assert "\\x1b[2Jc\\nd" in out


def test_ls_filters(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """By user and status, and only so many."""
    code, out, _ = run(capsys, "sessions", "ls", url, "--user", "ann", "--json")
    rows = json.loads(out)
    assert (code, [row["session_id"] for row in rows]) == (0, ["a", "b"])
    assert rows[0]["version"] == 1
    assert rows[0]["entries"] == 2
    _, out, _ = run(capsys, "sessions", "ls", url, "--user", "ann", "--status", "done", "--json")
    assert [row["session_id"] for row in json.loads(out)] == ["b"]
    _, out, _ = run(capsys, "sessions", "ls", url, "--limit", "1", "--json")
    assert len(json.loads(out)) == 1
    assert run(capsys, "sessions", "ls", url, "--limit", "0")[0] == 2


def test_show_gives_content_only_when_asked(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures always; messages, summary and results with --messages, escaped."""
    code, out, _ = run(capsys, "sessions", "show", url, "a")
    assert code == 0
    assert "secret" not in out
    assert "ann" in out
    code, out, _ = run(capsys, "sessions", "show", url, "a", "--messages")
    assert code == 0
    assert {"secret summary", "secret result"} <= {text for text in ("secret summary", "secret result") if text in out}
    assert "\x1b" not in out
    assert "\x07" not in out
    document = json.loads(run(capsys, "sessions", "show", url, "a", "--messages", "--json")[1])
    assert document["messages"] == [{"role": "user", "content": "secret \x1b]0;owned\x07 text"}]
    assert "messages" not in json.loads(run(capsys, "sessions", "show", url, "a", "--json")[1])


def test_show_of_a_missing_session_fails(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 and one line."""
    code, out, err = run(capsys, "sessions", "show", url, "nope")
    assert (code, out) == (1, "")
    assert len(err.splitlines()) == 1


def test_rm(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Named sessions, or a user's; 1 where a named one was not there."""
    assert run(capsys, "sessions", "rm", url)[0] == 2
    assert run(capsys, "sessions", "rm", url, "a", "--user", "ann")[0] == 2
    code, out, _ = run(capsys, "sessions", "rm", url, "a", "nope", "--json")
    assert (code, json.loads(out)) == (1, {"removed": ["a"], "missing": ["nope"]})
    code, out, _ = run(capsys, "sessions", "rm", url, "--user", "ann", "--json")
    assert (code, json.loads(out)) == (0, {"user": "ann", "removed": 1})
    _, out, _ = run(capsys, "sessions", "ls", url, "--json")
    assert [row["session_id"] for row in json.loads(out)] == ["\x1b[2Jc\nd"]


def test_rm_of_a_thread_takes_what_was_kept_for_it(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Removed is removed: also what it took over of a conversation that was edited since."""

    async def kept() -> bool:
        async with holdall.open(url) as store:
            return await store.store.read("~kept/fork") is not None

    async def fork() -> None:
        async with holdall.open(url) as store:
            await holdall.ConversationThread(store, "a").fork(session_id="fork")
            state = await store.load("a")
            state.messages[0] = {"role": "user", "content": "edited"}
            await store.save(state)

    asyncio.run(fork())
    assert asyncio.run(kept())
    assert run(capsys, "sessions", "rm", url, "fork")[0] == 0
    assert not asyncio.run(kept())


def test_rm_of_a_session_that_is_written_under_a_lock(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A fence keeps stale workers out, and not the owner of the store."""

    async def fence() -> None:
        async with holdall.open(url) as store:
            await store.save(await store.load("a"), fence=7)

    asyncio.run(fence())
    code, out, _ = run(capsys, "sessions", "rm", url, "a", "--json")
    assert (code, json.loads(out)) == (0, {"removed": ["a"], "missing": []})


@pytest.mark.parametrize("action", [["sessions", "ls"], ["migrate"]])
def test_a_bad_url_is_wrong_usage(action: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, and what can be opened."""
    code, _, err = run(capsys, *action, "mysql://u:hunter2@h/d")
    assert code == 2
    assert "sqlite:///path" in err
    assert "hunter2" not in err


def test_a_store_that_cannot_be_reached_is_a_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 and one line, no traceback."""
    (tmp_path / "text.db").write_text("no database " * 100)
    code, _, err = run(capsys, "sessions", "ls", f"sqlite:///{tmp_path}/text.db")
    assert code == 1
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("action", [["ls"], ["show", "s"], ["rm", "s"], ["export", "s"]])
def test_looking_at_no_file_makes_none(action: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A mistyped file name is an error, and not a new store without sessions."""
    code, _, err = run(capsys, "sessions", action[0], f"sqlite:///{tmp_path}/typo.db", *action[1:])
    assert (code, f"there is no file {tmp_path}/typo.db" in err) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_migrate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A dry run names what is due and changes nothing; then it is applied; then nothing is left."""
    url = f"sqlite:///{tmp_path}/s.db"
    code, out, _ = run(capsys, "migrate", url, "--dry-run", "--json")
    due = json.loads(out)["due"]
    assert (code, due[0][:5]) == (0, "0001_")
    assert not (tmp_path / "s.db").exists()
    code, out, _ = run(capsys, "migrate", url, "--json")
    assert (code, json.loads(out)) == (0, {"applied": due})
    assert run(capsys, "migrate", url)[1] == "up to date\n"
    assert "nothing to migrate" in run(capsys, "migrate", "memory:")[1]
