"""`holdall sessions ls|show|rm|export|import URL`: look at stored sessions, remove them, move them."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from holdall.cli.files import UsageError, print_json, printable, read_text, write_text
from holdall.errors import DecodeError, NotFoundError, StaleFenceError

if TYPE_CHECKING:
    from holdall.durable.session_store import SessionStore
    from holdall.durable.sessions import SessionInfo


def register(subparsers: Any) -> None:
    """Add the command to the top parser."""
    parser = subparsers.add_parser(
        "sessions",
        help="list, show, remove, export and import stored sessions",
        description="Look at the sessions behind a URL (sqlite:///path, postgresql://..., redis://...), and remove them.",
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)

    ls = actions.add_parser("ls", help="list sessions")
    ls.add_argument("url", metavar="URL")
    ls.add_argument("--user", metavar="ID", help="only this user's")
    ls.add_argument("--status", help="only those with this status")
    ls.add_argument("--limit", type=int, metavar="N", help="at most so many")

    show = actions.add_parser("show", help="show one session; its messages only with --messages")
    show.add_argument("url", metavar="URL")
    show.add_argument("session_id", metavar="ID")
    show.add_argument("--tree", action="store_true", help="the threads that were forked from it, and from these")
    show.add_argument("--messages", action="store_true", help="with what was said, the summary and the step results")

    rm = actions.add_parser("rm", help="remove sessions, or with --user all of a user's")
    rm.add_argument("url", metavar="URL")
    rm.add_argument("session_ids", metavar="ID", nargs="*")
    rm.add_argument("--user", metavar="ID", help="remove every session of this user, and refuse late writers")

    export = actions.add_parser("export", help="write one session as lines of JSON")
    export.add_argument("url", metavar="URL")
    export.add_argument("session_id", metavar="ID")
    export.add_argument("--out", metavar="FILE", help="instead of standard output")
    export.set_defaults(run=_runner(export_lines))

    read = actions.add_parser("import", help="store a session from lines of JSON")
    read.add_argument("url", metavar="URL")
    read.add_argument("file", metavar="FILE", help="what export wrote; - for standard input")
    read.add_argument("--as", dest="session_id", metavar="ID", help="another id than the one in the file")
    read.add_argument("--user", metavar="ID", help="another user than the one in the file")

    for action, runner in ((ls, list_sessions), (show, show_session), (rm, remove_sessions), (read, import_lines)):
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=_runner(runner))


def _runner(action: Any) -> Any:
    def run(args: argparse.Namespace) -> int:
        return asyncio.run(_with_store(action, args))

    return run


async def _with_store(action: Any, args: argparse.Namespace) -> int:
    from holdall.durable.open import open as open_store
    from holdall.durable.open import sqlite_file

    try:
        store = open_store(args.url)
    except ImportError as error:
        raise UsageError(str(error)) from None
    path = sqlite_file(args.url)
    if path is not None and action is not import_lines and not path.exists():
        # SQLite would make the file, and a mistyped name would look like a store without sessions.
        raise UsageError(f"there is no file {path}")
    async with store:
        code: int = await action(store, args)
        return code


async def list_sessions(store: SessionStore, args: argparse.Namespace) -> int:
    """Print one line per session, in order of id."""
    if args.limit is not None and args.limit < 1:
        raise UsageError(f"--limit {args.limit}: at least 1")
    rows = []
    for session_id in sorted(await store.list(user_id=args.user, status=args.status))[: args.limit]:
        try:
            rows.append(await store.info(session_id))
        except NotFoundError:
            continue  # removed since it was listed
    if args.json:
        print(json.dumps([_info(row) for row in rows]))
        return 0
    table = [("SESSION", "USER", "STATUS", "VERSION", "ENTRIES", "EXPIRES IN")]
    table += [
        (
            printable(row.session_id),
            printable(row.user_id),
            printable(row.status),
            str(row.version),
            str(row.entries),
            _expires(row.expires_at),
        )
        for row in rows
    ]
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    return 0


async def show_session(store: SessionStore, args: argparse.Namespace) -> int:
    """Print a session's figures, and its content or its threads when asked."""
    if args.tree:
        return await _show_tree(store, args)
    info = await store.info(args.session_id)
    state = await store.load(args.session_id)
    document: dict[str, Any] = _info(info) | {
        "current_step": state.current_step,
        "n_messages": len(state.messages),
        "n_step_results": len(state.step_results),
        "n_active_tools": len(state.active_tools),
        "accumulated_cost": state.accumulated_cost,
        "token_count": state.token_count,
        "ttl_seconds": state.ttl_seconds,
    }
    content: dict[str, Any] = {}
    if args.messages:
        content = {
            "summary": state.summary,
            "plan": state.plan,
            "step_results": state.step_results,
            "messages": list(state.messages),
        }
    if args.json:
        print(json.dumps(document | content, default=str))
        return 0
    width = max(map(len, document))
    for name, value in document.items():
        shown = _expires(value) if name == "expires_at" else printable(str(value))
        print(f"{'expires_in' if name == 'expires_at' else name:<{width}}  {shown}")
    if args.messages:
        for name in ("summary", "plan", "step_results"):
            if content[name]:
                print(f"{name:<{width}}  {printable(json.dumps(content[name], ensure_ascii=False, default=str))}")
        for at, message in enumerate(content["messages"]):
            print(f"{at:>4}  {printable(json.dumps(message, ensure_ascii=False, default=str))}")
    return 0


async def _show_tree(store: SessionStore, args: argparse.Namespace) -> int:
    from holdall.durable.tree import tree_of

    tree = await tree_of(store, args.session_id)
    if args.json:
        print(json.dumps(dataclasses.asdict(tree)))
        return 0
    for branch, node in tree.lines():
        entries = "1 entry" if node.entries == 1 else f"{node.entries} entries"
        print(f"{branch}{printable(node.session_id)}  {printable(node.status)}, {entries}")
    return 0


async def export_lines(store: SessionStore, args: argparse.Namespace) -> int:
    """Write a session as lines of JSON; a file is there whole or not at all."""
    from holdall.durable.jsonl import export_session

    lines = [line async for line in export_session(store, args.session_id)]
    if args.out is None:
        print_json("".join(lines))
    else:
        write_text(args.out, "".join(lines))
    return 0


async def import_lines(store: SessionStore, args: argparse.Namespace) -> int:
    """Store a session from lines of JSON."""
    from holdall.durable.jsonl import import_session

    lines = read_text(args.file).split("\n")
    try:
        state = await import_session(store, lines, session_id=args.session_id, user_id=args.user)
    except DecodeError as error:
        raise UsageError(f"{args.file}: {error}") from None
    n_messages, n_results = len(state.messages), len(state.step_results)
    if args.json:
        print(json.dumps({"session_id": state.session_id, "messages": n_messages, "step_results": n_results}))
    else:
        print(f"stored {printable(state.session_id)}: {n_messages} messages, {n_results} step results")
    return 0


async def remove_sessions(store: SessionStore, args: argparse.Namespace) -> int:
    """Remove the named sessions, or a user's; 1 where a named one was not there."""
    if bool(args.session_ids) == bool(args.user):
        raise UsageError("name the sessions to remove, or a user with --user, not both")
    if args.user:
        n = await store.delete_user(args.user)
        print(json.dumps({"user": args.user, "removed": n}) if args.json else f"removed {n} sessions")
        return 0
    removed: list[str] = []
    missing: list[str] = []
    for session_id in args.session_ids:
        (removed if await _remove(store, session_id) else missing).append(session_id)
    if args.json:
        print(json.dumps({"removed": removed, "missing": missing}))
    else:
        print(f"removed {len(removed)} sessions")
        for session_id in missing:
            print(f"no session {printable(session_id)}", file=sys.stderr)
    return 1 if missing else 0


async def _remove(store: SessionStore, session_id: str) -> bool:
    """Delete a session, whether or not it is written under a lock: a fence guards against stale workers, not against its owner."""
    from holdall.durable.kept import drop_kept
    from holdall.durable.keys import session_key

    fence: int | None = None
    while True:
        try:
            existed = await store.delete(session_id, fence=fence)
        except StaleFenceError as error:
            fence = error.highest
        else:
            # of a thread: what it took over of a conversation that was edited since
            await drop_kept(store.store, session_key(session_id))
            return existed


def _info(info: SessionInfo) -> dict[str, Any]:
    return info._asdict()


def _expires(at: float | None) -> str:
    if at is None:
        return "never"
    left = max(0, round(at - time.time()))
    days, rest = divmod(left, 86_400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    for large, small, units in ((days, hours, "dh"), (hours, minutes, "hm"), (minutes, seconds, "ms")):
        if large:
            return f"{large}{units[0]}{small:02d}{units[1]}"
    return f"{seconds}s"
