"""`holdall migrate URL`: bring a store's schema up to this version."""

from __future__ import annotations

import argparse
import asyncio
import json
from typing import Any

from holdall.cli.files import UsageError


def register(subparsers: Any) -> None:
    """Add the command to the top parser."""
    parser = subparsers.add_parser(
        "migrate",
        help="bring a store's schema up to this version",
        description="Apply the numbered migrations that are due. Safe to run on several machines at once, and again.",
    )
    parser.add_argument("url", metavar="URL", help="sqlite:///path, postgresql://..., redis://...")
    parser.add_argument("--dry-run", action="store_true", help="only say which are due")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Apply what is due, or say what would be."""
    names = asyncio.run(_migrate(args.url, dry_run=args.dry_run))
    if args.json:
        print(json.dumps({"due" if args.dry_run else "applied": names or []}))
    elif names is None:
        print("nothing to migrate: this backend has no schema")
    elif not names:
        print("up to date")
    else:
        for name in names:
            print(f"{'due' if args.dry_run else 'applied'}  {name}")
    return 0


async def _migrate(url: str, *, dry_run: bool) -> list[str] | None:
    """Return the names of the migrations, None where the backend has none."""
    from holdall.durable.open import open as open_store

    try:
        store = open_store(url)
    except ImportError as error:
        raise UsageError(str(error)) from None
    async with store:
        return await store.migrate(dry_run=dry_run)
