"""`holdall advise`: what to use for which workload, and why."""

from __future__ import annotations

import argparse
import json
import textwrap
from dataclasses import fields
from pathlib import Path
from typing import Any, Final, get_args

from holdall.cli.files import UsageError, tokens
from holdall.durable.advise import Survives, Workload, advise, document

_WIDTH: Final = 100
_TOKENS: Final = ("tokens_per_turn", "window")


def register(subparsers: Any) -> None:
    """Add the command to the top parser: an option for each field of a workload."""
    parser = subparsers.add_parser(
        "advise",
        help="which history strategy, store, checkpoints, vector store and concurrency for a workload",
        description="Say what to use for a workload, each answer with its reason, its threshold and the figure it rests on.",
    )
    for field in fields(Workload):
        name = "--" + field.name.removeprefix("has_").removeprefix("is_").replace("_", "-")
        text = f"{field.metadata['help']} (default: {_shown(field.default)})"
        if isinstance(field.default, bool):
            parser.add_argument(name, dest=field.name, action=argparse.BooleanOptionalAction, default=None, help=text)
        elif isinstance(field.default, str):
            parser.add_argument(name, dest=field.name, choices=get_args(Survives), help=text)
        else:
            kind = tokens if field.name in _TOKENS else type(field.default)
            parser.add_argument(name, dest=field.name, type=kind, metavar="N", help=text)
    parser.add_argument("--workload", metavar="FILE", help="JSON with the same names; options go before it")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Print the advice."""
    said = {} if args.workload is None else _read(args.workload)
    said |= {
        field.name: getattr(args, field.name) for field in fields(Workload) if getattr(args, field.name) is not None
    }
    workload = Workload(**said)
    if args.json:
        print(json.dumps(document(workload)))
        return 0
    for advice in advise(workload):
        print(f"{advice.question}: {advice.answer}")
        for name in ("use", "reason", "threshold", "figure"):
            print(
                textwrap.fill(getattr(advice, name), _WIDTH, initial_indent=f"  {name:<10}", subsequent_indent=" " * 12)
            )
    return 0


def _read(path: str) -> dict[str, Any]:
    try:
        said = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path}: no JSON: {error}") from None
    known = [field.name for field in fields(Workload)]
    if not isinstance(said, dict) or (unknown := sorted(set(said) - set(known))):
        what = f"unknown {', '.join(unknown)}" if isinstance(said, dict) else "not an object"
        raise UsageError(f"{path}: {what}; a workload has {', '.join(known)}")
    return said


def _shown(value: Any) -> str:
    return (
        ("yes" if value else "no")
        if isinstance(value, bool)
        else f"{value:,}"
        if isinstance(value, int)
        else str(value)
    )
