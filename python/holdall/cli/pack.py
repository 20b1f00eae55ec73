"""`holdall pack FILE`: fit a conversation into a budget; say what is kept, what is dropped and why."""

from __future__ import annotations

import argparse
import json
from typing import Any

from holdall.cli.files import print_json, read_conversation, read_tools, tokenizer_of, tokens, write_text

DEFAULT_MAX_TOKENS = 16_000


def register(subparsers: Any) -> None:
    """Add the command to the top parser."""
    parser = subparsers.add_parser(
        "pack",
        help="fit a conversation into a token budget and say what is kept and why",
        description="Fit a conversation (OpenAI chat or Responses, or Anthropic messages) into a token budget, exactly.",
    )
    parser.add_argument("file", metavar="FILE", help="JSON or JSONL; - reads standard input")
    parser.add_argument(
        "--max-tokens",
        type=tokens,
        default=DEFAULT_MAX_TOKENS,
        metavar="N",
        help="the context window, e.g. 16k (default)",
    )
    parser.add_argument("--reserve", type=tokens, default=0, metavar="N", help="tokens kept free for the answer")
    parser.add_argument("--strategy", default="optimal", help="optimal (default), greedy, or stable")
    counter = parser.add_mutually_exclusive_group()
    counter.add_argument("--encoding", default="o200k_base", help="o200k_base (default) or cl100k_base")
    counter.add_argument("--model", help="count for this model, e.g. gpt-4o")
    parser.add_argument("--query", help="what the history should be relevant to (default: the current turn)")
    parser.add_argument("--tools", metavar="FILE", help="tool schemas, if not in FILE")
    parser.add_argument(
        "--start-on-user", action="store_true", help="the first message after the system prompt is a user's"
    )
    parser.add_argument("--index", type=int, metavar="I", help="which conversation of a JSONL file")
    parser.add_argument("--json", action="store_true", help="print the packed request and the report as JSON")
    parser.add_argument("--out", metavar="FILE", help="write the packed request, ready to send, as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Pack the file and report."""
    from holdall import ContextWindowPacker

    conversation = read_conversation(args.file, index=args.index)
    tools = read_tools(args.tools) if args.tools else conversation.tools
    packer = ContextWindowPacker(
        max_tokens=args.max_tokens, tokenizer=tokenizer_of(args), output_reserve=args.reserve, strategy=args.strategy
    )
    result = packer.pack_messages(
        conversation.messages,
        system=conversation.system,
        tools=tools,
        query=args.query,
        start_on_user=args.start_on_user,
    )
    request: dict[str, Any] = {"messages": result.messages}
    if result.system is not None:
        request["system"] = result.system
    if tools is not None:
        request["tools"] = result.tools
    if args.out:
        write_text(args.out, json.dumps(request, ensure_ascii=False, indent=2))
    if args.json:
        report = {
            "tokens": result.tokens,
            "budget": result.budget,
            "value": result.value,
            "bound": result.bound,
            "kept": [kept._asdict() for kept in result.kept],
            "dropped": [dropped._asdict() for dropped in result.dropped],
        }
        print_json(json.dumps({"request": request, "report": report}, ensure_ascii=False) + "\n")
    else:
        print(result.explain())
        if args.out:
            print(f"written: {args.out}")
    return 0
