"""`holdall count FILE...`: exact tokens of texts, or of a conversation as it is sent."""

from __future__ import annotations

import argparse
import json
from typing import Any

from holdall.cli.files import UsageError, printable, read_conversation, read_text, read_tools, tokenizer_of


def register(subparsers: Any) -> None:
    """Add the command to the top parser."""
    parser = subparsers.add_parser(
        "count",
        help="count tokens of texts or of a conversation",
        description="Count tokens: of each file as text, or with --messages of a conversation as it is sent, framing included.",
    )
    parser.add_argument(
        "files", metavar="FILE", nargs="*", default=["-"], help="text files; - or none reads standard input"
    )
    counter = parser.add_mutually_exclusive_group()
    counter.add_argument("--encoding", default="o200k_base", help="o200k_base (default) or cl100k_base")
    counter.add_argument("--model", help="count for this model, e.g. gpt-4o")
    parser.add_argument(
        "--messages", action="store_true", help="each file is a conversation: count it with its framing"
    )
    parser.add_argument("--tools", metavar="FILE", help="with --messages: count these tool schemas too")
    parser.add_argument("--index", type=int, metavar="I", help="with --messages: which conversation of a JSONL file")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Count each file and, for several, the sum."""
    from holdall import count_messages

    if (args.tools or args.index is not None) and not args.messages:
        raise UsageError("--tools and --index go with --messages")
    tokenizer = tokenizer_of(args)
    rows: list[tuple[str, int]] = []
    for path in args.files:
        if args.messages:
            conversation = read_conversation(path, index=args.index)
            tools = read_tools(args.tools) if args.tools else conversation.tools
            count = count_messages(conversation.messages, tokenizer=tokenizer, system=conversation.system, tools=tools)
        else:
            count = tokenizer.count(read_text(path, expected="a text file"))
        rows.append((path, count))
    total = sum(count for _, count in rows)
    if args.json:
        files = [{"file": path, "tokens": count} for path, count in rows]
        print(json.dumps({"encoding": tokenizer.name, "files": files, "tokens": total}))
    elif len(rows) == 1:
        print(total)
    else:
        width = len(str(total))
        for path, count in rows:
            print(f"{count:>{width}}  {printable(path)}")
        print(f"{total:>{width}}  total")
    return 0
