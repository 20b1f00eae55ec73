"""`holdall sessions ls|show|rm URL`: look at stored sessions, and remove them."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from holdall.cli.files import UsageError, printable
from holdall.errors import NotFoundError

if TYPE_CHECKING:
    from holdall.durable.session_store import SessionStore
    from holdall.durable.sessions import SessionInfo


def register(subparsers: Any) -> None:
    """Add the command to the top parser."""
    parser = subparsers.add_parser(
        "sessions",
        help="list, show and remove stored sessions",
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
    show.add_argument("--messages", action="store_true", help="with what was said, the summary and the step results")

    rm = actions.add_parser("rm", help="remove sessions, or with --user all of a user's")
    rm.add_argument("url", metavar="URL")
    rm.add_argument("session_ids", metavar="ID", nargs="*")
    rm.add_argument("--user", metavar="ID", help="remove every session of this user, and refuse late writers")

    for action, runner in ((ls, list_sessions), (show, show_session), (rm, remove_sessions)):
        action.add_argument("--json", action="store_true", help="print JSON")
        action.set_defaults(run=_runner(runner))


def _runner(action: Any) -> Any:
    def run(args: argparse.Namespace) -> int:
        return asyncio.run(_with_store(action, args))

    return run


async def _with_store(action: Any, args: argparse.Namespace) -> int:
    from holdall.durable.open import open as open_store

    try:
        store = open_store(args.url)
    except ImportError as error:
        raise UsageError(str(error)) from None
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
    """Print a session's figures, and its content when asked."""
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
        (removed if await store.delete(session_id) else missing).append(session_id)
    if args.json:
        print(json.dumps({"removed": removed, "missing": missing}))
    else:
        print(f"removed {len(removed)} sessions")
        for session_id in missing:
            print(f"no session {printable(session_id)}", file=sys.stderr)
    return 1 if missing else 0


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
