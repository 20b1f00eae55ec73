"""Read what a command is given, JSON or JSONL, from a file or standard input, and write what it makes."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import stat
import sys
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from holdall.errors import UnknownNameError

if TYPE_CHECKING:
    from holdall import Tokenizer


class UsageError(Exception):
    """The command line or a file it names cannot be used; the text is the one line the user sees."""


class Conversation(NamedTuple):
    """A conversation as a file holds it."""

    messages: list[dict[str, Any]]
    system: Any = None
    tools: list[dict[str, Any]] | None = None


def read_text(path: str, *, expected: str = "a JSON or JSONL file") -> str:
    """Return the text of a file, or of standard input for "-"."""
    if path == "-" and sys.stdin is None:
        raise UsageError("cannot read -: standard input is closed")
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text (byte {error.start}); is it {expected}?") from None


def read_json(path: str) -> Any:
    """Return the JSON document of a file, or a list of documents where it is JSONL."""
    text = read_text(path)
    if not text.strip():
        raise UsageError(f"{path} is empty; expected JSON or JSONL")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        whole = error
    rows = []
    lines = [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if len(lines) > 1:
        for number, line in lines:
            try:
                rows.append(json.loads(line))
            except (ValueError, RecursionError) as error:
                if number == lines[0][0]:
                    break  # not even the first line is a document: it was meant as one JSON document
                raise UsageError(f"{path} line {number} is not JSON: {_reason(error)}") from None
        else:
            return rows
    raise UsageError(f"{path} is not JSON: {_reason(whole)}") from None


def _reason(error: BaseException) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def read_conversation(path: str, *, index: int | None = None) -> Conversation:
    """Return the conversation of a file.

    A list of messages, an object with `messages` (and perhaps `system` and `tools`, as in a request to a chat API), JSONL with
    one message a line, or JSONL with one such object or list a line; `index` then says which.
    """
    document = read_json(path)
    if isinstance(document, list) and document and all(_is_conversation(row) for row in document):
        if index is None and len(document) > 1:
            raise UsageError(
                f"{path} holds {len(document)} conversations; say which with --index 0..{len(document) - 1}"
            )
        at = index or 0
        if not 0 <= at < len(document):
            raise UsageError(
                f"--index {at} is outside 0..{len(document) - 1} ({path} holds {len(document)} conversations)"
            )
        document = document[at]
    elif index:
        raise UsageError(f"--index {index}, but {path} holds one conversation")
    if isinstance(document, dict):
        messages = document.get("messages", document.get("input") if isinstance(document.get("input"), list) else None)
        if messages is None and "role" in document:
            messages = [document]
        if messages is None:
            raise UsageError(f"{path} has no `messages`; expected a list of messages or an object that holds one")
        tools = document.get("tools")
        system = document.get("system", document.get("instructions"))
    else:
        messages, tools, system = document, None, None
    if not isinstance(messages, list):
        raise UsageError(f"{path}: `messages` is {_kind(messages)}, expected a list of messages")
    for at, message in enumerate(messages):
        if not isinstance(message, dict):
            raise UsageError(f"{path}: message {at} is {_kind(message)}, expected an object with a role")
    if tools is not None and not isinstance(tools, list):
        raise UsageError(f"{path}: `tools` is {_kind(tools)}, expected a list")
    return Conversation(messages, system, tools)


def _is_conversation(row: Any) -> bool:
    return (isinstance(row, dict) and "messages" in row) or (
        isinstance(row, list) and all(isinstance(message, dict) for message in row)
    )


def read_tools(path: str) -> list[Any]:
    """Return the tool schemas of a file: a list of tools, or an object with `tools`."""
    document = read_json(path)
    if isinstance(document, list) and document and all(isinstance(row, dict) and "tools" in row for row in document):
        document = [tool for row in document for tool in row["tools"]]
    elif isinstance(document, dict):
        document = document.get("tools", [document] if "name" in document or "function" in document else None)
    if not isinstance(document, list):
        raise UsageError(f"{path} has no list of tools")
    return document


def tokenizer_of(args: argparse.Namespace) -> Tokenizer:
    """Return the tokenizer of `--model` or `--encoding`."""
    from holdall import Tokenizer

    if args.model is None:
        return Tokenizer(args.encoding)
    try:
        return Tokenizer.for_model(args.model)
    except UnknownNameError as error:
        raise UsageError(
            f"no tokenizer is known for the model {args.model!r}; known: {', '.join(error.known)}. For another, count with "
            "--encoding o200k_base, which is not exact then: Claude bills 1.1 to 1.5 tokens for each one counted"
        ) from None


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", int: "a number", float: "a number", bool: "a boolean"}
    return names.get(type(value), "null")


def tokens(text: str) -> int:
    """Read a count of tokens: 16000, 16_000, 16k, 1.5k, 1m."""
    match = re.fullmatch(r"(\d[\d_]*(?:\.\d+)?)\s*([kKmM]?)", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a count of tokens; write 16000 or 16k")
    # A decimal number is exact where a float would round a long one.
    size = Decimal(match[1].replace("_", "")) * {"": 1, "k": 1_000, "m": 1_000_000}[match[2].lower()]
    if size != int(size):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of tokens")
    return int(size)


def printable(text: str) -> str:
    """Return text with control characters shown as escapes, so that stored text cannot drive a terminal."""
    return "".join(
        c if c.isprintable() or c == " " else c.encode("unicode_escape").decode("ascii", "replace") for c in text
    )


def print_json(text: str) -> None:
    """Print text of JSON; what the output's encoding cannot show is escaped as JSON escapes it."""
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = re.sub(r"[^\x00-\x7f]+", lambda found: json.dumps(found[0])[1:-1], text)
    sys.stdout.write(text)


def write_text(path: str, text: str) -> None:
    """Write a file whole or not at all: beside its name first, so that a full disk never leaves half of it.

    A link stays a link and a file keeps its mode; what is no file, as a pipe or a device, is written to and not replaced.
    """
    target = Path(os.path.realpath(path))
    partial = target.with_name(f"{target.name}.partial")
    try:
        exists = target.exists()
        if exists and not stat.S_ISREG(target.stat().st_mode):
            with target.open("w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(text)
            return
        try:
            partial.write_text(text, encoding="utf-8", errors="backslashreplace")
            if exists:
                shutil.copymode(target, partial)
            partial.replace(target)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from None
