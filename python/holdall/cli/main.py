"""`holdall COMMAND`: parse, run, and turn every expected error into one clear line and an exit code.

Exit codes: 0 done, 1 failed, 2 the command was used wrongly or its input cannot be read.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import Final, TextIO

from holdall import __version__
from holdall.cli.files import UsageError
from holdall.errors import ArgumentError, HoldallError, MessageError, ToolSchemaError

COMMANDS: Final = ("pack", "count", "replay", "demo", "sessions", "migrate", "advise")


def parser() -> argparse.ArgumentParser:
    """Build the whole parser; a command's own imports happen only when it runs."""
    top = argparse.ArgumentParser(
        prog="holdall",
        description="The memory of LLM agents: pack a context window exactly, keep session state without losing a write.",
    )
    top.add_argument("--version", action="version", version=f"holdall {__version__}")
    subparsers = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(f"holdall.cli.{name}").register(subparsers)
    return top


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    _ready(sys.stdout, sys.stderr)
    args = argparse.Namespace(command="")
    try:
        try:
            args = parser().parse_args(argv)
            code: int = args.run(args)
        except SystemExit as stop:  # argparse prints and exits: 0 for --help, 2 for wrong usage
            code = stop.code if isinstance(stop.code, int) else 2
        sys.stdout.flush()
    except (UsageError, ArgumentError, MessageError, ToolSchemaError) as error:
        return _fail(args.command, error, 2)
    except HoldallError as error:
        return _fail(args.command, error, 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        _give_up_output()  # the reader (head, less) has what it wanted
        return 0
    except OSError as error:  # files are read and written where their names are known: this is standard output
        _give_up_output()
        return _fail(args.command, f"cannot write standard output: {error.strerror or error}", 1)
    return code


def _ready(*streams: TextIO | None) -> None:
    """Make the streams take any text: what a terminal cannot show is escaped, and one that was closed swallows all."""
    for stream, name in zip(streams, ("stdout", "stderr"), strict=True):
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - for as long as the process lives
        elif isinstance(stream, io.TextIOWrapper) and stream.errors in ("strict", "surrogateescape"):
            stream.reconfigure(errors="backslashreplace")


def _give_up_output() -> None:
    """Let nothing more be written: Python would complain again when it flushes at exit."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _fail(command: str, error: object, code: int) -> int:
    print(f"{f'holdall {command}'.strip()}: {error}", file=sys.stderr)
    return code
