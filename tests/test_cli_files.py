"""What the command line reads: every bad file is one clear line."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from holdall.cli.files import UsageError, printable, read_conversation, read_tools, tokens

CHAT = [{"role": "user", "content": "hallo"}, {"role": "assistant", "content": "ja"}]


def written(folder: Path, text: str | bytes) -> str:
    path = folder / "input.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(json.dumps(CHAT), id="a list of messages"),
        pytest.param(json.dumps({"messages": CHAT}), id="an object"),
        pytest.param(json.dumps([{"messages": CHAT}]), id="a list of one conversation"),
        pytest.param("\n".join(map(json.dumps, CHAT)) + "\n", id="a message a line"),
        pytest.param("\ufeff" + json.dumps(CHAT), id="a byte order mark"),
        pytest.param(json.dumps(CHAT, indent=2), id="indented"),
        pytest.param(json.dumps({"input": CHAT}), id="a Responses request"),
    ],
)
def test_a_conversation_is_read_from(text: str, tmp_path: Path) -> None:
    assert read_conversation(written(tmp_path, text)).messages == CHAT


def test_a_line_of_jsonl_is_chosen_by_index(tmp_path: Path) -> None:
    path = written(
        tmp_path, "\n".join(json.dumps({"messages": [CHAT[i]], "tools": [{"name": str(i)}]}) for i in (0, 1))
    )
    assert read_conversation(path, index=1).messages == [CHAT[1]]
    assert read_conversation(path, index=1).tools == [{"name": "1"}]
    with pytest.raises(UsageError, match=r"holds 2 conversations; say which with --index 0\.\.1"):
        read_conversation(path)
    with pytest.raises(UsageError, match=r"--index 2 is outside 0\.\.1"):
        read_conversation(path, index=2)


def test_a_line_may_be_a_list_of_messages(tmp_path: Path) -> None:
    """Replay reads such a file too."""
    path = written(tmp_path, "\n".join(json.dumps([message]) for message in CHAT))
    assert read_conversation(path, index=1).messages == [CHAT[1]]
    with pytest.raises(UsageError, match=r"holds 2 conversations; say which with --index 0\.\.1"):
        read_conversation(path)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        pytest.param("", "is empty", id="empty"),
        pytest.param("  \n ", "is empty", id="white space"),
        pytest.param("{", "is not JSON", id="half a document"),
        pytest.param('{"role":"user"}\n{oops}\n', "line 2 is not JSON", id="a broken line"),
        pytest.param(b"\xff\xfe\x00", "is not UTF-8 text", id="binary"),
        pytest.param("[" * 100_000, "nested too deeply", id="nested"),
        pytest.param('"text"', "`messages` is text", id="a string"),
        pytest.param("{}", "has no `messages`", id="no messages"),
        pytest.param('{"messages": 3}', "`messages` is a number", id="messages of another kind"),
        pytest.param("[1]", "message 0 is a number", id="a message of another kind"),
        pytest.param('{"messages": [], "tools": {}}', "`tools` is an object", id="tools of another kind"),
    ],
)
def test_a_bad_file_is_one_clear_line(text: str | bytes, line: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=line) as caught:
        read_conversation(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named() -> None:
    with pytest.raises(UsageError, match=r"cannot read /no/such\.json: No such file"):
        read_conversation("/no/such.json")


@pytest.mark.parametrize(
    "document",
    [[{"name": "a"}], {"tools": [{"name": "a"}]}, {"name": "a"}, [{"tools": [{"name": "a"}]}]],
    ids=["list", "object", "one", "set"],
)
def test_tools_are_read_from(document: Any, tmp_path: Path) -> None:
    assert read_tools(written(tmp_path, json.dumps(document))) == [{"name": "a"}]


@pytest.mark.parametrize(
    ("text", "size"),
    [("16k", 16_000), ("1.5k", 1_500), ("1m", 1_000_000), ("16_000", 16_000), ("0", 0), ("9" * 20, 10**20 - 1)],
)
def test_tokens_are_read(text: str, size: int) -> None:
    assert tokens(text) == size


@pytest.mark.parametrize("text", ["", "k", "-1", "1.5", "1e3", "sixteen", "nan"])
def test_other_texts_are_no_count_of_tokens(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="tokens"):
        tokens(text)


def test_control_characters_are_shown_not_sent() -> None:
    assert printable("a\x1b[31mb\x9b\u202ec d\ud83d") == r"a\x1b[31mb\x9b\u202ec d\ud83d"
