"""`holdall COMMAND`: parse, run, and turn every expected error into one clear line and an exit code.

Exit codes: 0 done, 1 failed, 2 the command was used wrongly or its input cannot be read.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Final

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
    try:
        args = parser().parse_args(argv)
    except SystemExit as stop:  # argparse prints and exits: 0 for --help, 2 for wrong usage
        return stop.code if isinstance(stop.code, int) else 2
    try:
        code: int = args.run(args)
        sys.stdout.flush()
    except (UsageError, ArgumentError, MessageError, ToolSchemaError) as error:
        return _fail(args.command, error, 2)
    except HoldallError as error:
        return _fail(args.command, error, 1)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader (head, less) has what it wanted. Python would complain again when it flushes at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code


def _fail(command: str, error: Exception, code: int) -> int:
    print(f"holdall {command}: {error}", file=sys.stderr)
    return code
